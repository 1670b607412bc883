"""Reductions in their three forms, for any function, in three orders of threads."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.kernels.reduction import reduction_source
from tenkey.backends.external.scalar_function import ScalarFunction
from tenkey.library import scalar as s
from tests.backends.cuda.kernels._execution import ORDERS, execute, in_each_order, instructions

A, B, X = s.variable("a"), s.variable("b"), s.variable("x")
FUNCTIONS: dict[str, tuple[Any, Any, str, str, Callable[..., np.ndarray]]] = {
    "sum of squares": (A + B, X * X, "f4", "f4", lambda x: (x.astype("f8") ** 2).sum(1)),
    "wrapping sum": (A + B, X, "i1", "i1", lambda x: x.sum(1, dtype="i1")),
    "maximum": (s.maximum(A, B), X, "f8", "f4", lambda x: x.max(1)),
    "product": (A * B, X, "c8", "c8", lambda x: x.prod(1)),
    "widened": (A + B, X, "i8", "u1", lambda x: x.sum(1, dtype="i8")),
}
FORMS = ("warp", "block", "columns")


def _functions(name: str) -> tuple[ScalarFunction, ScalarFunction, np.dtype, Callable[..., np.ndarray]]:
    combine, element, compute, operand, reference = FUNCTIONS[name]
    dtype = np.dtype(compute)
    return ScalarFunction("f", ("a", "b"), combine, dtype), ScalarFunction("e", ("x",), element, dtype), np.dtype(
        operand
    ), reference  # fmt: skip


def _words(array: np.ndarray) -> np.ndarray:
    words: np.ndarray = array.view(array.real.dtype) if array.dtype.kind == "c" else array
    return words


def _values(rows: int, columns: int, dtype: np.dtype) -> np.ndarray:
    rng = np.random.default_rng(columns)
    if dtype.kind == "c":
        return np.asarray(np.exp(1j * rng.uniform(-1, 1, (rows, columns))), dtype)
    return rng.integers(0 if dtype.kind == "u" else -9, 9, (rows, columns)).astype(dtype)


def _arguments(x: np.ndarray, by_column: bool) -> tuple[np.ndarray, int, int]:
    """Return the memory and the steps of a matrix that is stored by rows or by columns."""
    parts = 2 if x.dtype.kind == "c" else 1
    rows, columns = x.shape
    if by_column:
        return _words(np.ascontiguousarray(x.T).reshape(-1)), parts, parts * rows
    return _words(x.reshape(-1)), parts * columns, parts


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("form", FORMS)
def test_reductions(name: str, form: str) -> None:
    combine, element, operand, reference = _functions(name)
    source = reduction_source(form, combine, element, operand)
    for rows, columns in ((1, 1), (3, 5), (9, 33), (1, 2600), (40, 3)):
        x = _values(rows, columns, operand)
        memory, row_step, column_step = _arguments(x, form == "columns")
        for splits in (1, 3) if form != "warp" and columns >= 3 else (1,):
            out = np.empty((rows, splits) if form == "block" else (splits, rows), combine.dtype)
            grid: Any = {"warp": -(-rows // 8), "block": rows * splits, "columns": (-(-rows // 32), splits)}[form]
            block = (32, 8) if form == "columns" else 256
            last = [splits] if form != "warp" else []
            before, after = [rows, columns], [memory, row_step, column_step, *last]
            chunk = -(-columns // splits)
            if -(-columns // chunk) != splits:
                continue  # the host never asks for empty parts
            expected = [reference(x[:, k * chunk : (k + 1) * chunk]) for k in range(splits)]
            wanted = np.stack(expected, axis=1 if form == "block" else 0).astype(combine.dtype)
            for found in in_each_order(source, grid, block, _words(out), before=before, after=after):
                # all but products of complex numbers are sums of small whole numbers, and exact
                rtol = 1e-7 * columns if name == "product" else 0.0
                np.testing.assert_allclose(found.view(combine.dtype), wanted, rtol=rtol)


@pytest.mark.parametrize("form", FORMS)
def test_places_of_64_bits(form: str) -> None:
    combine, element, operand, reference = _functions("sum of squares")
    x = _values(2, 300, operand)
    memory, row_step, column_step = _arguments(x, form == "columns")
    last = [1] if form != "warp" else []
    source = reduction_source(form, combine, element, operand, wide=True)
    assert "uint32" not in source.parameters
    out = np.zeros(2, combine.dtype)
    grid: Any = {"warp": 1, "block": 2, "columns": (1, 1)}[form]
    execute(source, grid, (32, 8) if form == "columns" else 256, 2, 300, out, memory, row_step, column_step, *last)
    np.testing.assert_array_equal(out, reference(x).astype(combine.dtype))


@pytest.mark.parametrize("name", ["sum of squares", "maximum", "widened"])
@pytest.mark.parametrize("form", ["warp", "block"])
def test_rows_of_vectors(name: str, form: str) -> None:
    """Four adjacent elements are read at once, in an access of 128 bits where they are that wide."""
    combine, element, operand, reference = _functions(name)
    source = reduction_source(form, combine, element, operand, vector=True)
    if operand.itemsize == 4:
        loads = re.findall(r"ld\.global\S*", instructions(source))
        assert loads
        assert all("v4" in load for load in loads)
    for rows, columns in ((1, 4), (9, 36), (2, 5200)):
        x = _values(rows, columns, operand)
        out = np.empty(rows, combine.dtype)
        grid, last = (rows, [1]) if form == "block" else (-(-rows // 8), [])
        before, after = [rows, columns // 4], [x.reshape(-1), columns // 4, 1, *last]
        for found in in_each_order(source, grid, 256, out, before=before, after=after):
            np.testing.assert_array_equal(found, reference(x).astype(combine.dtype))


def test_the_order_of_threads_does_not_change_a_bit() -> None:
    combine, element, operand, _ = _functions("sum of squares")
    x = np.random.default_rng(0).standard_normal((1, 3000)).astype("f4")
    source = reduction_source("block", combine, element, operand)
    results = []
    for order in ORDERS:
        out = np.empty(1, "f4")
        execute(source, 1, 256, 1, 3000, out, x, 3000, 1, 1, order=order)
        results.append(out.tobytes())
    assert len(set(results)) == 1


def test_a_missing_barrier_is_found() -> None:
    """Without its barrier, the kernel depends on the order of threads, which the executor varies."""
    combine, element, operand, reference = _functions("widened")
    source = reduction_source("columns", combine, element, operand)
    wrong = source._replace(text=source.text.replace("cuda.syncthreads()", "pass"))
    x = _values(4, 64, operand)
    memory, row_step, column_step = _arguments(x, by_column=True)
    found = []
    for order in ORDERS:
        out = np.zeros(4, "i8")
        try:
            execute(wrong, (1, 1), (32, 8), 4, 64, out, memory, row_step, column_step, 1, order=order)
        except RuntimeError:
            found.append("error")
        else:
            found.append("right" if (out == reference(x)).all() else "wrong")
    assert set(found) != {"right"}
