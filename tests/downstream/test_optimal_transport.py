"""POT with a backend of our own: its backend for NumPy, whose functions NumPy's protocols bring to tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp

with pytest.MonkeyPatch.context() as patched:
    for _name in ("PYTORCH", "JAX", "CUPY", "TENSORFLOW"):  # which take seconds to import where they are installed
        patched.setenv(f"POT_BACKEND_DISABLE_{_name}", "1")
    ot = pytest.importorskip("ot", minversion="0.9.5")
    backends = pytest.importorskip("ot.backend")


class TenkeyBackend(backends.NumpyBackend):
    """What POT needs beside the functions that dispatch on their arguments: conversion, creation, gradients."""

    __name__ = "tenkey"
    __type__ = tk.Tensor
    __type_list__ = ()

    def _to_numpy(self, a: Any) -> Any:
        return a.detach().numpy() if isinstance(a, tk.Tensor) else a

    def _from_numpy(self, a: Any, type_as: Any = None) -> Any:
        return a if isinstance(a, float) else tnp.array(a, dtype=None if type_as is None else type_as.dtype)

    def _detach(self, a: Any) -> Any:
        return a.detach() if isinstance(a, tk.Tensor) else a  # NumPy's scalars have no graph

    def set_gradients(self, val: Any, inputs: Any, grads: Any) -> Any:
        linear = sum((x * self.detach(g)).sum() for x, g in zip(inputs, grads, strict=True))
        return linear + (self.to_numpy(val) - self.detach(linear))

    def arange(self, stop: Any, start: Any = 0, step: Any = 1, type_as: Any = None) -> Any:
        return tnp.arange(start, stop, step)

    def rand(self, *size: int, type_as: Any = None) -> Any:
        return self.from_numpy(self.rng_.rand(*size), type_as=type_as)

    def randn(self, *size: int, type_as: Any = None) -> Any:
        return self.from_numpy(self.rng_.randn(*size), type_as=type_as)

    def logsumexp(self, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return tk.logsumexp(a, axis=axis, keepdims=keepdims)

    def inv(self, a: Any) -> Any:
        return tk.linalg.inv(a)

    def issparse(self, a: Any) -> bool:
        return False


def _created(name: str) -> Callable[..., Any]:
    def create(self: Any, *args: Any, type_as: Any = None) -> Any:
        return getattr(tnp, name)(*args, dtype=None if type_as is None else type_as.dtype)

    return create


for _name in ("zeros", "ones", "full", "eye", "linspace"):
    setattr(TenkeyBackend, _name, _created(_name))


@pytest.fixture(autouse=True, scope="module")
def _registered() -> Iterator[None]:
    known = backends._BACKEND_IMPLEMENTATIONS
    known.append(TenkeyBackend)
    yield
    known.remove(TenkeyBackend)


RNG = np.random.default_rng(0)
XS, XT = RNG.normal(size=(6, 2)), RNG.normal(size=(7, 2)) + 1.0
A, B = np.full(6, 1 / 6), RNG.dirichlet(np.ones(7))
M = ((XS[:, None] - XT[None]) ** 2).sum(-1)

PROGRAMS: dict[str, Callable[..., Any]] = {
    "distances": lambda a, b, m, xs, xt: ot.dist(xs, xt, metric="euclidean") + ot.dist(xs, xt),
    "exact plan": lambda a, b, m, xs, xt: ot.emd(a, b, m),
    "exact cost": lambda a, b, m, xs, xt: ot.emd2(a, b, m),
    "solve": lambda a, b, m, xs, xt: ot.solve(m, a, b, reg=0.5).plan,
    "Sinkhorn": lambda a, b, m, xs, xt: ot.sinkhorn(a, b, m, 0.5, numItermax=50, stopThr=1e-9, warn=False),
    "Sinkhorn, logarithms": lambda a, b, m, xs, xt: ot.sinkhorn(a, b, m, 0.5, method="sinkhorn_log"),
    "Sinkhorn, Greenkhorn": lambda a, b, m, xs, xt: ot.sinkhorn(a, b, m, 1.0, method="greenkhorn"),
    "unbalanced": lambda a, b, m, xs, xt: ot.sinkhorn_unbalanced(a, b, m, 1.0, 1.0),
    "partial": lambda a, b, m, xs, xt: ot.partial.partial_wasserstein(a, b, m, 0.5),
    "Gromov-Wasserstein": lambda a, b, m, xs, xt: ot.gromov_wasserstein(ot.dist(xs, xs), ot.dist(xt, xt), a, b),
    "barycenter": lambda a, b, m, xs, xt: ot.barycenter(m[:, :6] / m[:, :6].sum(0, keepdims=True), m[:, :6], 1.0),
    "free support": lambda a, b, m, xs, xt: ot.lp.free_support_barycenter([xs, xt], [a, b], xs[:4]),
    "on a line": lambda a, b, m, xs, xt: ot.wasserstein_1d(xs[:, 0], xt[:, 0], a, b),
    "sliced": lambda a, b, m, xs, xt: ot.sliced_wasserstein_distance(xs, xt, a, b, n_projections=20, seed=0),
    "normal distributions": lambda a, b, m, xs, xt: ot.gaussian.empirical_bures_wasserstein_distance(xs, xt),
    "adaptation": lambda a, b, m, xs, xt: ot.da.SinkhornTransport(reg_e=1.0).fit(Xs=xs, Xt=xt).transform(Xs=xs),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    inputs = (A, B, M, XS, XT)
    got, want = PROGRAMS[name](*map(tnp.array, inputs)), PROGRAMS[name](*inputs)
    assert isinstance(got, (tk.Tensor, np.generic))  # numbers are NumPy's scalars, which show no origin
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(np.asarray(got), want, atol=1e-9)


COSTS: dict[str, Callable[..., Any]] = {
    "exact": lambda xs, a, b, xt: ot.emd2(a, b, ot.dist(xs, xt)),
    "entropic": lambda xs, a, b, xt: ot.solve_sample(xs, xt, a, b, reg=1.0, tol=1e-12, max_iter=2000).value,
    "on a line": lambda xs, a, b, xt: ot.wasserstein_1d(xs[:, 0], xt[:, 0], a, b, p=2),
    "sliced": lambda xs, a, b, xt: ot.sliced_wasserstein_distance(xs, xt, a, b, n_projections=10, seed=0),
}


@pytest.mark.parametrize("name", COSTS)
def test_gradients_of_costs(name: str) -> None:
    gradient = tk.grad(COSTS[name])(*map(tnp.array, (XS, A, B, XT)))
    step = 1e-5 * RNG.normal(size=XS.shape)
    change = COSTS[name](XS + step, A, B, XT) - COSTS[name](XS - step, A, B, XT)
    np.testing.assert_allclose(2 * np.sum(gradient.numpy() * step), change, rtol=1e-5)
