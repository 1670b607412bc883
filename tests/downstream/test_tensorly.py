"""TensorLy with a backend of our own: its backend for NumPy, with the functions of ``tenkey.numpy``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp

tl = pytest.importorskip("tensorly", minversion="0.9")
decomposition = pytest.importorskip("tensorly.decomposition")
regression = pytest.importorskip("tensorly.regression")
NumpyBackend = pytest.importorskip("tensorly.backend.numpy_backend").NumpyBackend


class TenkeyBackend(NumpyBackend, backend_name="tenkey"):
    """What TensorLy needs; of the other functions those of NumPy are replaced by ours below."""

    @staticmethod
    def tensor(data: Any, dtype: Any = None, **context: Any) -> Any:
        return tnp.array(data, dtype=dtype)

    @staticmethod
    def is_tensor(value: Any) -> bool:
        return isinstance(value, tk.Tensor)

    @staticmethod
    def to_numpy(value: Any) -> Any:
        return np.array(value.detach() if isinstance(value, tk.Tensor) else value)

    @staticmethod
    def clip(tensor: Any, a_min: Any = None, a_max: Any = None) -> Any:
        return tnp.clip(tensor, a_min, a_max)

    @staticmethod
    def logsumexp(tensor: Any, axis: int = 0) -> Any:
        return tk.logsumexp(tensor, axis=axis)


for _name in dir(NumpyBackend):
    for _theirs, _ours in ((np, tnp), (np.linalg, tnp.linalg)):
        if callable(getattr(_theirs, _name, None)) and getattr(NumpyBackend, _name) is getattr(_theirs, _name):
            TenkeyBackend.register_method(_name, getattr(_ours, _name))


@pytest.fixture
def backend() -> Iterator[None]:
    before = tl.backend.current_backend()
    tl.set_backend(TenkeyBackend())
    yield
    tl.set_backend(before)


def _regressor() -> Any:
    return regression.CPRegressor(2, n_iter_max=5, verbose=0, random_state=0)


RNG = np.random.default_rng(0)
FACTORS = [RNG.normal(size=(size, 2)) for size in (4, 5, 6)]
X = np.einsum("ar,br,cr->abc", *FACTORS)  # of rank 2

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "CP": lambda x: tl.cp_to_tensor(decomposition.parafac(x, rank=2, init="svd", n_iter_max=60, tol=1e-12)),
    "CP without negative factors": lambda x: tl.cp_to_tensor(
        decomposition.non_negative_parafac_hals(tl.abs(x), rank=2, n_iter_max=10)
    ),
    "Tucker": lambda x: tl.tucker_to_tensor(decomposition.tucker(x, rank=[2, 2, 1])),
    "tensor train": lambda x: tl.tt_to_tensor(decomposition.tensor_train(x, rank=[1, 2, 1, 1])),
    "tensor ring": lambda x: tl.tr_to_tensor(decomposition.tensor_ring(x, rank=[2, 2, 1, 2])),
    "power iteration": lambda x: decomposition.power_iteration(x)[0],
    "robust PCA": lambda x: decomposition.robust_pca(x, n_iter_max=5)[0],
    "regression": lambda x: _regressor().fit(x, x[:, 0, 0]).predict(x),
    "products": lambda x: tl.tenalg.multi_mode_dot(x, [tl.ones((3, 5)), tl.eye(6)], [1, 2]),
    "folds": lambda x: tl.fold(tl.unfold(x, 1), 1, x.shape) + tl.norm(x, 1),
    "columns": lambda x: tl.tenalg.khatri_rao([x[0], x[1]]),
    "random": lambda x: tl.random.random_tucker((3, 4, 5), rank=[2, 2, 2], full=True, random_state=0),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, backend: None) -> None:
    got = PROGRAMS[name](tl.tensor(X))
    assert isinstance(got, tk.Tensor)
    with tl.backend_context("numpy"):
        want = PROGRAMS[name](X)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(tl.to_numpy(got), want, atol=1e-7)


def test_a_tensor_of_rank_two_is_found_again(backend: None) -> None:
    weights, factors = decomposition.parafac(
        tl.tensor(X), rank=2, init="random", random_state=1, tol=1e-14, n_iter_max=500
    )
    np.testing.assert_allclose(tl.to_numpy(tl.cp_to_tensor((weights, factors))), X, atol=1e-5)
    cosines = np.abs(_columns(tl.to_numpy(factors[0])).T @ _columns(FACTORS[0]))
    np.testing.assert_allclose(np.sort(cosines.max(axis=0)), [1, 1], atol=1e-5)


def _columns(x: Any) -> Any:
    return x / np.linalg.norm(x, axis=0)


def test_gradients_of_factors(backend: None) -> None:
    def loss(*factors: Any) -> Any:
        return tl.norm(tl.cp_to_tensor((None, list(factors))) - tl.tensor(X)) ** 2

    start = [factor + 0.1 for factor in FACTORS]
    steps = [1e-6 * RNG.normal(size=factor.shape) for factor in start]
    gradients = tk.grad(loss, argnums=(0, 1, 2))(*[tl.tensor(factor) for factor in start])
    for k, gradient in enumerate(gradients):
        ends = []
        for sign in (1, -1):
            moved = [factor + sign * steps[k] if j == k else factor for j, factor in enumerate(start)]
            ends.append(np.sum((np.einsum("ar,br,cr->abc", *moved) - X) ** 2))
        np.testing.assert_allclose(2 * np.sum(gradient.numpy() * steps[k]), ends[0] - ends[1], rtol=1e-5)
