"""The driver of elementwise calls: every layout, against NumPy's own broadcasting."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cpu.loops.elementwise_driver import OPERANDS, elementwise, widths_of
from tenkey.backends.cpu.loops.numpy_loops import numpy_loop
from tenkey.backends.cpu.pool import STATE
from tenkey.backends.llvm import kernel
from tests._tiers import only_full

Array = np.ndarray[Any, Any]
_FLOAT32 = np.dtype("f4")


def _drive(ufunc: np.ufunc, arrays: tuple[Array, ...], *, chunk: int = 64, limit: int = 1) -> int:
    loop = numpy_loop(ufunc, [a.dtype for a in arrays])
    assert loop is not None
    dtypes = [a.dtype for a in arrays]
    widths = widths_of(dtypes[: ufunc.nin], dtypes[ufunc.nin :])
    status: int = kernel(elementwise)(STATE, loop.address, loop.data, widths, chunk, limit, arrays)
    return status


def _check(a: Array, b: Array, out: Array | None = None, **options: int) -> None:
    want = a - b
    made = np.full(want.shape, np.nan, np.float32) if out is None else out
    assert _drive(np.subtract, (a, b, made), **options) == 0
    np.testing.assert_array_equal(made, want)


@pytest.fixture(scope="module")
def cube() -> Array:
    return np.random.default_rng(0).standard_normal((18, 20, 70)).astype(np.float32)


def _operands(x: Array) -> list[Array]:
    """Arrays that broadcast with ``x``, in every kind of layout."""
    swapped = np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2)
    wide = np.repeat(x, 2, axis=2)
    return [
        x, x[:1], x[:, :1], x[..., :1], x[:1, :1], x[:1, :1, :1], x[0], x[0, 0], np.array(x[0, 0, 0]), x[::-1],
        x[:, ::-1, ::-1], np.asfortranarray(x), swapped, wide[..., ::2], wide[..., 1::2], x[:, 0, 0][:, None, None],
        np.broadcast_to(x[:1], x.shape), np.broadcast_to(x[..., :1], x.shape), x[None],
    ]  # fmt: skip


@pytest.mark.parametrize(("chunk", "limit"), [(64, 1), (1 << 20, 1), (1 << 14, 1 << 30)])
def test_layouts(cube: Array, chunk: int, limit: int) -> None:
    for a, b in itertools.product(_operands(cube), repeat=2):
        _check(a, b, chunk=chunk, limit=limit)


@pytest.mark.parametrize("code", ["i1", "f2", "f4", "f8", "c16"])
@pytest.mark.parametrize("row", only_full([1, 2, 3, 7, 16, 63, 200, 500, 1500], [1, 3, 16, 63, 500]))
def test_short_rows(code: str, row: int) -> None:
    """Note [Short rows are tiled]: what is repeated and what is cut out, at the ends of their memory."""
    rng = np.random.default_rng(row)
    x = rng.integers(-9, 9, (5, 37, row)).astype(code)
    wide = rng.integers(-9, 9, (5, 37, row + 2)).astype(code)
    operands = [
        x, x[:, :1], x[:1], x[..., :1], x[:, :, -1:], x[:1, :, :1], x[2, 4], x[0, :, :1], wide[..., 2:], x[:, ::-1],
        wide[4, 36, 2:], wide[:1, ::-1, :row], np.broadcast_to(x[:, :, :1], x.shape),
        np.broadcast_to(x[:, :1], x.shape),
    ]  # fmt: skip
    wrong = []
    for (i, a), (j, b) in itertools.product(enumerate(operands), repeat=2):
        want = np.subtract(a, b)
        for chunk, limit in ((64, 1), (1 << 14, 1 << 30)):
            made = np.full(want.size + 64, 77, code)
            if want.shape != x.shape:
                continue
            assert _drive(np.subtract, (a, b, made[32:-32].reshape(x.shape)), chunk=chunk, limit=limit) == 0
            if not np.array_equal(made[32:-32].reshape(x.shape), want) or not (made[:32] == 77).all():
                wrong.append((i, j, chunk))
            if not (made[-32:] == 77).all():
                wrong.append((i, j, chunk, "beyond the result"))
    assert not wrong


def test_calls_with_many_short_rows() -> None:
    """Calls of the operators reach the tiles below the size from which calls are large."""
    rng = np.random.default_rng(9)
    for a_shape, b_shape in [
        ((100, 1, 3), (100, 3)),
        ((900, 10), (10,)),
        ((900, 10), (900, 1)),
        ((700, 200), (700, 1)),
    ]:
        a, b = rng.standard_normal(a_shape).astype("f4"), rng.standard_normal(b_shape).astype("f4")
        x, y = tk.asarray(a), tk.asarray(b)
        for got, want in ((x - y, a - b), (x < y, a < b), (tk.maximum(x, y), np.maximum(a, b)), (y / x, b / a)):
            np.testing.assert_array_equal(got.numpy(), want)


def test_layouts_of_results(cube: Array) -> None:
    buffer = np.zeros((40, 40, 150), np.float32)
    outs = [
        np.asfortranarray(buffer[:18, :20, :70]), buffer[::2, ::2, ::2][:18, :20, :70], buffer[17::-1, 19::-1, 69::-1],
        buffer.transpose(1, 0, 2)[:18, :20, :70], buffer[:18, :20, 0:140:2],
    ]  # fmt: skip
    for out in outs:
        _check(cube, cube[0], out)
        _check(cube.copy(order="F"), cube[:, :1], out)


@pytest.mark.parametrize(
    "shape", [(), (1,), (1, 1, 1), (0,), (3, 0, 2), (1, 7), (7, 1), (2**12, 2), (2, 2**12), (5, 3, 1, 4)]
)
def test_shapes(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    a, b = (np.asarray(rng.standard_normal(shape), np.float32) for _ in range(2))
    _check(a, b)
    if shape:
        _check(a, b[:1])
        _check(a, b[..., :1])


def test_in_place(cube: Array) -> None:
    for target in (cube.copy(), cube.copy(order="F"), cube.copy()[::-1, ::2]):
        want = target + cube[: target.shape[0], : target.shape[1]]
        assert _drive(np.add, (target, cube[: target.shape[0], : target.shape[1]], target)) == 0
        np.testing.assert_array_equal(target, want)


def test_several_results() -> None:
    x = np.linspace(-50, 50, 4096).reshape(64, 64).T
    quotient, rest = np.empty((64, 64)), np.empty((64, 64), order="F")
    assert _drive(np.divmod, (x, np.array(3.0), quotient, rest)) == 0
    np.testing.assert_array_equal(quotient, x // 3)
    np.testing.assert_array_equal(rest, x % 3)


def test_what_is_declined(cube: Array) -> None:
    out = np.full(cube.shape, 7, np.float32)
    raw = np.zeros(cube.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(cube.shape)
    assert _drive(np.subtract, (cube, unaligned, out)) == 1
    assert _drive(np.subtract, (cube, cube, unaligned)) == 1
    assert _drive(np.subtract, (cube, cube[:, :3], out)) == 1  # shapes that do not fit
    assert _drive(np.subtract, (cube[None, :, :, :].repeat(2, 0), cube, out)) == 1
    overlapping = np.lib.stride_tricks.as_strided(out, out.shape, (0, *out.strides[1:]))
    assert _drive(np.subtract, (cube, cube, overlapping)) == 1
    loop = numpy_loop(np.subtract, [_FLOAT32] * 3)
    assert loop is not None
    assert kernel(elementwise)(STATE, loop.address, 0, 0, 64, 1, (out,) * (OPERANDS + 1)) == 1
    assert (out == 7).all()
    assert not raw.any()


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "signbit"])
@pytest.mark.parametrize("code", ["f4", "f8"])
def test_tests_of_repeated_numbers(name: str, code: str) -> None:
    """The driver goes along the longer axis, along which the results are not adjacent."""
    a = np.random.default_rng(5).choice([-3.0, -0.0, 0.5, np.inf, np.nan], (1 << 17, 1)).astype(code)
    made = getattr(tk, name)(tk.broadcast_to(tk.asarray(a), (1 << 17, 3)))
    np.testing.assert_array_equal(made.numpy(), np.repeat(getattr(np, name)(a), 3, 1))


def test_negative_of_some_columns() -> None:
    """Results of narrow rows are not adjacent along the rows either."""
    a = np.random.default_rng(6).standard_normal((1 << 17, 8))
    np.testing.assert_array_equal((-tk.asarray(a)[:, :3]).numpy(), -a[:, :3].copy())
    column = tk.asarray(a[:100].copy())[:, 0]
    column.neg_()
    np.testing.assert_array_equal(column.numpy(), -a[:100, 0].copy())


def test_large_in_place_calls_that_round() -> None:
    """The program computes in a wider dtype than that of the tensor into which it writes."""
    size = 1 << 16
    rng = np.random.default_rng(8)
    for narrow, wide in (("float32", "float64"), ("float16", "float32"), ("complex64", "complex128")):
        x, y = rng.normal(size=size).astype(narrow), rng.normal(size=size).astype(wide)
        guarded = np.concatenate([x, x])  # what follows the tensor must not change
        t = tk.asarray(guarded, copy=False)[:size]
        t.add_(tk.asarray(y))
        t.mul_(tk.asarray(y))
        with np.errstate(all="ignore"):
            expected = ((x + y).astype(narrow) * y).astype(narrow)
        np.testing.assert_allclose(guarded[:size], expected, rtol=4 * np.finfo(narrow).eps)
        assert np.array_equal(guarded[size:], x)
