"""Functions of the array API at the edges: limits of integers, infinities, no dimensions, axes that are not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tests._tiers import each

HUGE = 2**70


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("size", [1, 5, 300_000])
def test_round_of_complex_numbers_rounds_both_parts(dtype: str, size: int) -> None:
    given = np.array([1.5 + 2.5j, -0.5 - 0.4j, complex(np.nan, 0.5), complex(np.inf, -1.5), -2.5], dtype)
    array = np.resize(given, size)
    got = tk.round(tk.asarray(array))
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(tk.real(got).numpy(), np.rint(array.real))
    np.testing.assert_array_equal(np.signbit(tk.imag(got).numpy()), np.signbit(array.imag))
    np.testing.assert_array_equal(tk.imag(got).numpy(), np.rint(array.imag))
    assert tk.round(tk.zeros(2, dtype=dtype, device="meta")).dtype == np.dtype(dtype)


def test_round_of_complex_numbers_has_the_derivative_zero() -> None:
    x = tk.tensor([1.25 + 0.75j], requires_grad=True)
    tk.real(tk.round(x)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0j]


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("axis", [None, 0])
def test_mean_and_variance_of_large_integers(dtype: str, axis: int | None) -> None:
    """Their sum leaves the range of the dtype, which the mean does not."""
    top = 1 if dtype == "bool" else np.iinfo(dtype).max
    array = np.array([top, top - 1, top, 0 if dtype == "bool" else top // 2], dtype)
    x = tk.asarray(array)
    for name in ("mean", "var", "std"):
        got = getattr(tk, name)(x, axis=axis)
        assert got.dtype == tk.float32
        np.testing.assert_allclose(got.numpy(), getattr(np, name)(array, axis=axis, dtype=np.float64), rtol=1e-6)
    with tk.core.dtypes.names.default_dtypes(real_floating="float64"):
        assert tk.mean(x).dtype == tk.var(x).dtype == tk.float64


def test_variance_of_integers_that_lie_close() -> None:
    """float32 would not tell them apart."""
    assert tk.var(tk.asarray([2**30, 2**30 + 2])).item() == 1.0


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize("include_initial", [False, True])
@pytest.mark.parametrize("axis", [1, -2, 5, HUGE])
def test_cumulative_along_an_axis_that_is_not_there(name: str, include_initial: bool, axis: int) -> None:
    for x in (tk.ones(3), tk.ones(3, device="meta")):
        with pytest.raises(IndexError, match=rf"\[{name}\] axis {axis} is out of range"):
            getattr(tk, name)(x, axis=axis, include_initial=include_initial)


CALLS: dict[str, Callable[..., Any]] = {
    **{name: getattr(tk, name) for name in (
        "sum", "prod", "max", "min", "mean", "var", "std", "all", "any", "argmax", "argmin", "count_nonzero", "sort",
        "argsort", "squeeze", "flip", "unstack", "diff", "expand_dims",
    )},
    "concat": lambda x, axis: tk.concat([x, x], axis=axis),
    "stack": lambda x, axis: tk.stack([x, x], axis=axis),
    "take": lambda x, axis: tk.take(x, tk.asarray([0]), axis=axis),
    "repeat": lambda x, axis: tk.repeat(x, 2, axis=axis),
    "roll": lambda x, axis: tk.roll(x, 1, axis=axis),
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", sorted(CALLS))
def test_an_axis_that_is_not_there(name: str, device: str) -> None:
    for axis in (7, -7, HUGE, -HUGE):
        with pytest.raises(IndexError, match=r"^\[\w+\] axis -?\d+ is out of range"):
            CALLS[name](tk.ones((2, 3), device=device), axis=axis)


@each("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", sorted(set(CALLS) - {"expand_dims", "stack"}))
@each("axis", [0, -1])
def test_nothing_has_no_axes(name: str, axis: int, device: str) -> None:
    """Where NumPy takes a number for a vector."""
    if name == "concat":
        with pytest.raises((IndexError, ValueError)):
            CALLS[name](tk.ones((), device=device), axis=axis)
        return
    with pytest.raises(IndexError, match=rf"axis {axis} is out of range for a tensor of 0 dimensions, which has no"):
        CALLS[name](tk.ones((), device=device), axis=axis)


def test_norm_of_complex_infinities() -> None:
    x = tk.asarray([complex(np.inf, 0), complex(-np.inf, np.inf), 3 + 4j], dtype=tk.complex64)
    assert tk.linalg.vector_norm(x).item() == np.inf
    assert tk.linalg.vector_norm(x, axis=()).tolist() == [np.inf, np.inf, 5.0]
    assert tk.linalg.vector_norm(x[2:] * 1e30).item() == pytest.approx(5e30, rel=1e-6)


def test_trace_far_outside_of_the_matrix() -> None:
    for offset in (2**40, -(2**40), HUGE):
        assert tk.linalg.trace(tk.ones((3, 3)), offset=offset).item() == 0


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_solve_refuses_bools(device: str) -> None:
    a, b = tk.ones((2, 2), dtype=tk.bool, device=device), tk.ones((2, 2), device=device)
    for pair in ((a, b), (a, a), (b, a)):
        with pytest.raises(TypeError, match=r"\[linalg.solve\] is not defined for dtype bool"):
            tk.linalg.solve(*pair)


@pytest.mark.parametrize("name", ["sum", "prod"])
def test_a_real_dtype_for_complex_numbers(name: str) -> None:
    for x in (tk.ones(3, dtype=tk.complex64), tk.ones(3, dtype=tk.complex64, device="meta")):
        with pytest.raises(TypeError, match=rf"\[{name}\] complex64 with dtype=float64 would lose the imaginary part"):
            getattr(tk, name)(x, dtype=tk.float64)


@pytest.mark.parametrize("function", [tk.concat, tk.stack])
def test_no_tensors_to_join(function: Any) -> None:
    with pytest.raises((ValueError, NotImplementedError), match="needs at least one tensor"):
        function([])


def test_a_fill_value_that_integers_do_not_hold() -> None:
    for value in (np.nan, np.inf, -np.inf):
        for device in ("cpu", "meta"):
            with pytest.raises(ValueError, match=r"\[full\] the fill value .* has no counterpart in int32"):
                tk.full(2, float(value), dtype=tk.int32, device=device)


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies(name: str) -> None:
    function = getattr(tk.fft, name)
    with pytest.raises(TypeError, match=rf"\[fft.{name}\] got dtype=int64: .* use a floating dtype"):
        function(4, dtype=tk.int64)
    with pytest.raises(ValueError, match=rf"\[fft.{name}\] got d=0"):
        function(4, d=0)
    assert function(4, d=2.0, dtype=tk.float64).tolist() == getattr(np.fft, name)(4, 2.0).tolist()
