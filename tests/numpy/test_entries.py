"""Note [Entries with NumPy's signatures]: the short way and the general way of a function give the same."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tenkey.interop.numpy_functions import named_functions
from tenkey.numpy.known import functions
from tests._tiers import each
from tests.numpy._outcomes import counterpart

M = np.array([[3.0, 1.0, 2.0], [0.5, -4.0, 6.0]])
CALLS: dict[str, Any] = {
    "sum": lambda m, x: [m.sum(x), m.sum(x, 1), m.sum(x, axis=0, keepdims=True), m.sum(x, dtype="f4")],
    "mean": lambda m, x: [m.mean(x), m.mean(x, 0), m.mean(x, axis=(0, 1), keepdims=True)],
    "std": lambda m, x: [m.std(x), m.std(x, axis=1, ddof=1), m.std(x, correction=1)],
    "max": lambda m, x: [m.max(x), m.max(x, axis=1), m.max(x, initial=9.0)],
    "argmax": lambda m, x: [m.argmax(x), m.argmax(x, axis=1), m.argmax(x, 1, keepdims=True)],
    "cumsum": lambda m, x: [m.cumsum(x), m.cumsum(x, 1), m.cumsum(x[0]), m.cumsum(x, axis=None)],
    "sort": lambda m, x: [m.sort(x), m.sort(x, 0), m.sort(x, axis=None), m.sort(x, kind="stable")],
    "take": lambda m, x: [m.take(x, m.array([0, 2])), m.take(x, m.array([1]), axis=1), m.take(x, 4)],
    "concatenate": lambda m, x: [m.concatenate([x, x]), m.concatenate((x, x), 1), m.concatenate([x, x], axis=None)],
    "stack": lambda m, x: [m.stack([x, x]), m.stack((x, x), axis=-1), m.stack(x)],
    "where": lambda m, x: [m.where(x > 0, x, -x), m.where(x > 0, x, 0), *m.where(x > 0)],
    "clip": lambda m, x: [m.clip(x, 0, 1), m.clip(x, a_max=2, a_min=None), m.clip(x, min=0)],
    "round": lambda m, x: [m.round(x), m.round(x, 1), m.round(x, decimals=-1)],
    "reshape": lambda m, x: [m.reshape(x, (3, 2)), m.reshape(x, -1), m.reshape(x, 6)],
    "transpose": lambda m, x: [m.transpose(x), m.transpose(x, (1, 0)), m.transpose(x, axes=[0, 1])],
    "einsum": lambda m, x: [m.einsum("ij,kj->ik", x, x), m.einsum("ij->j", x), m.einsum(x, [0, 1], [1, 0])],
    "linalg.norm": lambda m, x: [m.linalg.norm(x), m.linalg.norm(x, axis=1), m.linalg.norm(x, 1)],
    "fft.fft": lambda m, x: [m.fft.fft(x), m.fft.fft(x, 2), m.fft.fft(x, axis=0, norm="ortho")],
}


@pytest.mark.parametrize("name", CALLS)
def test_short_and_general_ways_agree_with_numpy(name: str) -> None:
    x = tnp.array(M)
    wanted = CALLS[name](np, M)
    for _ in range(3):  # the first time the general way, then the short one
        for found, one in zip(CALLS[name](tnp, x), wanted, strict=True):
            assert type(found) is counterpart(one)
            assert found.dtype == one.dtype
            np.testing.assert_allclose(found, one, rtol=2e-6 if one.dtype == "f4" else 1e-14)


@pytest.mark.parametrize("dtype", ["?", "i1", "i8", "u8", "f4", "c16"])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "sort", "concatenate", "where", "clip", "take", "einsum"])
def test_dtypes_stay_numpys_the_short_way(name: str, dtype: str) -> None:
    """A dtype that is known to be direct for one call stays so for the next, and others do not become so."""
    m = np.abs(M).astype(dtype)
    x = tnp.array(m)

    def outcomes(namespace: Any, array: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of lost imaginary parts
                return [one.dtype for one in CALLS[name](namespace, array)]
        except TypeError:
            return TypeError

    for _ in range(3):
        assert outcomes(tnp, x) == outcomes(np, m)


def _parameters(function: Any) -> list[Any]:
    """Return the defaults of parameters in order, without ``like`` and what NumPy does not have."""
    found = inspect.signature(function).parameters.values()
    return [None if p.default is float else p.default for p in found if p.name not in ("like", "device", "ndmax")]


def test_signatures_are_numpys() -> None:
    for name, source in named_functions().items():
        try:
            wanted = _parameters(source)
        except ValueError:  # in NumPy before 2.4 compiled functions have none
            continue
        assert _parameters(functions[name]) == wanted, name


def test_wrong_arguments() -> None:
    x = tnp.ones((2, 3))
    for _ in range(2):
        with pytest.raises(TypeError, match="unexpected keyword"):
            tnp.sum(x, axes=1)
        with pytest.raises(TypeError, match="missing"):
            tnp.sum()
        with pytest.raises(np.exceptions.AxisError):
            tnp.sum(x, axis=2)
        with pytest.raises(np.exceptions.AxisError):
            tnp.sort(x, axis=-3)
        with pytest.raises(np.exceptions.AxisError, match=r"\[min\]"):
            tnp.min(x.astype("c16"), axis=(0, 2))
        with pytest.raises(ValueError, match="shape"):
            tnp.concatenate([x, tnp.ones((2, 2))])


def test_operands_keep_class_and_gradient() -> None:
    x = tk.tensor([3.0, 1.0, 2.0], dtype=tk.float64, requires_grad=True)
    made = tnp.sort(x)
    assert isinstance(made, tnp.ndarray)
    assert type(x) is tk.Tensor
    tnp.sum(made * [1, 2, 3]).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 1.0, 2.0]
    y = tnp.array([1.0, 2.0]).requires_grad_()
    with pytest.raises(RuntimeError, match="requires grad"):
        tnp.array_repr(tnp.array2string(y))


def test_out_receives_the_result() -> None:
    x, out = tnp.array(M), tnp.zeros(3)
    assert tnp.sum(x, axis=0, out=out) is out
    np.testing.assert_allclose(out, M.sum(axis=0))
    np.testing.assert_array_equal(tnp.mean(x, axis=0, out=tnp.zeros(3, dtype=int)), M.mean(axis=0).astype(int))
    with pytest.raises(ValueError, match="shape"):
        tnp.sum(x, axis=0, out=tnp.zeros(2))
    host = np.zeros(3)
    assert tnp.cumsum(x[0], out=host) is host
    np.testing.assert_allclose(host, M[0].cumsum())


@each("scalar", [np.float64(2), np.float32(2), np.int64(2), np.uint8(2), np.uint64(2), np.complex64(2), np.bool_(True)])
@each("dtype", ["f8", "f4", "f2", "i8", "i1", "u1", "c8"])
def test_numpys_scalars_have_their_dtype(scalar: np.generic, dtype: str) -> None:
    """Unlike Python numbers, in the first call and in later ones."""
    calls: list[Callable[[Any, Any], Any]] = [
        lambda m, x: m.dot(scalar, x), lambda m, x: m.inner(x, scalar), lambda m, x: m.outer(scalar, x),
        lambda m, x: m.kron(x, scalar), lambda m, x: m.tensordot(scalar, x, 0), lambda m, x: m.where(x > 0, scalar, x),
        lambda m, x: m.where(x > 0, x, scalar), lambda m, x: m.einsum(",i->i", scalar, x),
    ]  # fmt: skip
    for call in calls:
        expected = call(np, np.ones(3, dtype))
        for _ in range(3):
            found = call(tnp, tnp.ones(3, dtype))
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found.numpy(), expected)
