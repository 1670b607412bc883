"""Operators of users run on CUDA without further declarations, with their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

import tenkey as tk
from tenkey.library import scalar as s


@pytest.fixture(scope="module", autouse=True)
def _emulator() -> Iterator[None]:
    with tk.testing.cuda_emulator(), tk.backends.strict_fallback():
        yield


def _both(function: Callable[..., Any], *arrays: np.ndarray) -> None:
    """Compare results and gradients on the device with those of the CPU."""
    found = []
    for device in ("cpu", "cuda"):
        tensors = [tk.asarray(array, device=device, requires_grad=array.dtype.kind == "f") for array in arrays]
        out = function(*tensors)
        assert str(out.device) == device
        differentiable = [x for x in tensors if x.requires_grad]
        (first, *rest) = tk.autograd.grad(tk.sum(out * out), differentiable, create_graph=True)
        second = tk.autograd.grad(tk.sum(first * first), differentiable)
        found.append([x.detach().cpu().numpy() for x in (out, first, *rest, *second)])
    for expected, given in zip(*found, strict=True):
        np.testing.assert_allclose(given, expected, rtol=2e-5, atol=1e-6)


@pytest.fixture(scope="module")
def arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.uniform(0.1, 0.9, (3, 5)).astype("f4"), rng.uniform(0.1, 0.9, (3, 5)).astype("f4")


def test_pointwise(arrays: tuple[np.ndarray, ...]) -> None:
    def gated(T: Any) -> Any:
        return lambda x, y, slope: s.where(x > y, x * s.tanh(y), slope * x) + s.exp(-x)

    operator = tk.library.pointwise("cuda_users::gated(Tensor x, Tensor y, float slope) -> Tensor", scalar=gated)
    _both(lambda x, y: operator(x, y, 0.25), *arrays)
    _both(lambda x, y: operator(x.T, y.T, -2.0), *arrays)


def test_several_results(arrays: tuple[np.ndarray, ...]) -> None:
    operator = tk.library.pointwise(
        "cuda_users::polar(Tensor x, Tensor y) -> (Tensor, Tensor)",
        scalar=lambda T: lambda x, y: (s.hypot(x, y), s.atan2(y, x)),
    )
    _both(lambda x, y: operator(x, y)[0] * 2 + operator(x, y)[1], *arrays)


def test_reduction(arrays: tuple[np.ndarray, ...]) -> None:
    operator = tk.library.reduction(
        "cuda_users::either(Tensor x, *, int[1]? axis=None, bool keepdims=False) -> Tensor",
        combine=lambda T: lambda a, b: a + b - a * b,
        identity=0,
        promote=tk.library.INT_TO_FLOAT,
    )
    for axis in (0, 1, None):
        _both(lambda x, axis=axis: operator(x, axis=axis), arrays[0])


def test_scan(arrays: tuple[np.ndarray, ...]) -> None:
    operator = tk.library.scan(
        "cuda_users::recurrence(Tensor a, Tensor b, int axis) -> Tensor",
        combine=lambda T: lambda a0, b0, a1, b1: (a0 * a1, b0 * a1 + b1),
    )
    _both(lambda x, y: operator(x, y, 1), *arrays)


def test_selection(arrays: tuple[np.ndarray, ...]) -> None:
    operator = tk.library.gather(
        "cuda_users::rotate(Tensor x, int shift) -> Tensor", index=lambda T: lambda shift: s.index(0) - shift
    )
    _both(lambda x: operator(x, 1), arrays[0])
