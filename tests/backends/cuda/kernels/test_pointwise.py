"""Pointwise kernels in their forms: vectors, rows, and any layout, in three orders of threads."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.kernels.pointwise import row_source, strided_source
from tenkey.backends.external.scalar_function import Operand, ScalarFunction
from tenkey.library import scalar as s
from tenkey.testing.ptx import KernelError
from tests.backends.cuda.kernels._execution import execute, in_each_order, instructions

F4, F8, I8, B, C8, C16 = [np.dtype(name) for name in ("f4", "f8", "i1", "?", "c8", "c16")]
X, Y = s.variable("x"), s.variable("y")
PRODUCT = ScalarFunction("product", ("x", "y"), X * Y + 1, F4)


def _words(array: np.ndarray) -> np.ndarray:
    """Return the array as the parts in which a kernel reads it."""
    return array.view(array.real.dtype) if array.dtype.kind == "c" else array


def _operands(*dtypes: np.dtype, numbers: tuple[int, ...] = ()) -> tuple[Operand, ...]:
    return tuple([Operand(name, dtype, n in numbers) for n, (name, dtype) in enumerate(zip("xy", dtypes))])


@pytest.mark.parametrize("vector", [True, False])
@pytest.mark.parametrize("wide", [False, True])
def test_rows(vector: bool, wide: bool) -> None:
    source = row_source(PRODUCT, _operands(F4, I8), F4, vector=vector, wide=wide)
    rng = np.random.default_rng(0)
    for size in (1, 3, 4, 127, 513):
        x, y = rng.standard_normal(size).astype("f4"), rng.integers(-9, 9, size).astype("i1")
        out = np.empty(size, "f4")
        grid = -(-size // (4 * 64 if vector else 64))
        for found in in_each_order(source, grid, 64, out, before=[size], after=[x, y]):
            np.testing.assert_array_equal(found, x * y.astype("f4") + np.float32(1))


def test_numbers_are_parameters() -> None:
    """Two numbers give one kernel."""
    source = row_source(PRODUCT, _operands(F4, F4, numbers=(1,)), F4, vector=True)
    x, out = np.arange(9, dtype="f4"), np.empty(9, "f4")
    for number in (2.0, -0.5):
        execute(source, 1, 32, 9, out, x, np.float32(number))
        np.testing.assert_array_equal(out, x * np.float32(number) + 1)


@pytest.mark.parametrize("dtype", [C8, C16])
@pytest.mark.parametrize("vector", [True, False])
def test_complex_numbers(dtype: np.dtype, vector: bool) -> None:
    scalar = ScalarFunction("conj_product", ("x", "y"), X * Y, dtype)
    source = row_source(scalar, _operands(dtype, dtype), dtype, vector=vector)
    x = (np.arange(7) + 1j * np.arange(7)[::-1]).astype(dtype)
    out = np.empty(7, dtype)
    execute(source, 1, 32, 7, _words(out), _words(x), _words(x))
    np.testing.assert_array_equal(out, x * x)


def test_index_variables() -> None:
    scalar = ScalarFunction("positions", ("x",), X + s.index(0) * 10, F4)
    for vector in (True, False):
        out, x = np.empty(11, "f4"), np.ones(11, "f4")
        execute(row_source(scalar, _operands(F4), F4, vector=vector), 1, 32, 11, out, x)
        np.testing.assert_array_equal(out, 1 + 10 * np.arange(11))
    scalar = ScalarFunction("grid", (), s.index(0) * 100 + s.index(1), np.dtype("i4"))
    out = np.empty((3, 5), "i4")
    execute(strided_source(scalar, (), np.dtype("i4"), 2), 1, 32, 15, 5, out, 5, 1)
    np.testing.assert_array_equal(out, np.arange(3)[:, None] * 100 + np.arange(5))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtypes", [(F4, F4, F4), (F8, B, C8), (C8, F4, C8)], ids=str)
def test_layouts(wide: bool, dtypes: tuple[Any, ...]) -> None:
    """Transposed, broadcast and with gaps, up to four dimensions."""
    x_dtype, y_dtype, result = dtypes
    compute = result if result.kind == "c" else F4
    scalar = ScalarFunction("sum", ("x", "y"), X + Y, compute)
    rng = np.random.default_rng(1)
    for shape in ((5,), (3, 4), (2, 3, 4), (2, 1, 3, 2)):
        source = strided_source(scalar, _operands(x_dtype, y_dtype), result, len(shape), wide=wide)
        whole = rng.integers(0, 2, tuple([2 * n for n in shape])).astype(x_dtype)
        x = whole[tuple([slice(None, None, 2)] * len(shape))]
        y = rng.integers(0, 2, shape[::-1]).astype(y_dtype).T
        memory = np.zeros(int(np.prod(shape)) + 1, result)
        out = memory[:-1].reshape(shape)

        def given(base: np.ndarray, window: np.ndarray) -> list[Any]:
            size = _words(np.empty(1, window.dtype)).dtype.itemsize
            return [_words(base.reshape(-1)), *[step // size for step in window.strides]]

        sizes = [out.size, *shape[1:]]
        for order in ("up", "random"):
            arguments = [*sizes, *given(memory, out), *given(whole, x), *given(np.ascontiguousarray(y.T), y)]
            execute(source, 1, 96, *arguments, order=order)
            np.testing.assert_array_equal(out, x.astype(compute) + y.astype(compute))
            assert memory[-1] == 0


def test_accesses() -> None:
    """Vectors of four floats move in one instruction, and bytes in one of 32 bits."""
    ptx = instructions(row_source(PRODUCT, _operands(F4, I8), F4, vector=True))
    assert "ld.global.v4.f32" in ptx
    assert "st.global.v4.f32" in ptx
    assert re.search(r"ld\.global\.(v4\.[usb]8|[usb]32)", ptx)
    assert ".f64" not in ptx
    ptx = instructions(row_source(PRODUCT, _operands(F4, I8), F4, vector=False))
    assert ".v4." not in ptx


def test_memory_beyond_the_end_is_not_touched() -> None:
    """The executor refuses what lies outside of the arrays: a size that is too large is found."""
    source = row_source(PRODUCT, _operands(F4, F4), F4, vector=True)
    x, out = np.zeros(8, "f4"), np.zeros(8, "f4")
    execute(source, 1, 32, 8, out, x, x)
    with pytest.raises(KernelError):
        execute(source, 1, 32, 12, out, x, x)
