"""Products: all tiles, layouts, dtypes, stacks, and functions of the sums."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.kernels.products import matmul
from tenkey.backends.external.scalar_function import Operand, ScalarFunction
from tenkey.library import scalar as s
from tests.backends.cuda.kernels._bench import Bench, kept
from tests.backends.cuda.kernels._execution import ORDERS

module: Any = sys.modules["tenkey.backends.cuda.kernels.products.matmul"]
RNG = np.random.default_rng(0)
# (stack, rows, columns, inner): in tiles of 16, 32 and 64, with edges.
SHAPES = [(1, 1, 1, 1), (2, 3, 5, 7), (1, 16, 16, 16), (2, 17, 33, 15), (1, 40, 20, 33), (1, 65, 70, 17)]


def _matrices(dtype: str, shape: tuple[int, int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return small whole numbers, whose products are exact."""
    batch, rows, columns, inner = shape
    kind = np.dtype(dtype)
    low = 0 if kind.kind == "u" else -3
    pair = [RNG.integers(low, 4, size).astype(kind) for size in ((batch, rows, inner), (batch, inner, columns))]
    if kind.kind == "c":
        pair = [x + 1j * RNG.integers(-2, 3, x.shape).astype(kind) for x in pair]
    return pair[0].astype(kind), pair[1].astype(kind)


def _product(dtype: str, shape: tuple[int, int, int, int], order: str, *, turned: tuple[bool, bool, bool]) -> Bench:
    """Check a product; ``turned`` tells for a, b and out whether their columns are contiguous."""
    bench, kernel = kept(matmul, np.dtype(dtype), None, (), np.dtype(dtype))
    bench.order, bench.launches = order, []
    given = [
        bench.put(x, (x[0].size, 1, x.shape[1])) if is_turned else bench.put(x, first=1)
        for x, is_turned in zip(_matrices(dtype, shape), turned)
    ]
    a, b = [bench.get(x) for x in given]
    wanted = np.matmul(a, b).astype(dtype)
    out = bench.put(np.zeros_like(wanted), (wanted[0].size, 1, shape[1]) if turned[2] else None)
    kernel(out, *given)
    assert np.array_equal(bench.get(out), wanted), (dtype, shape, order, turned)
    return bench  # type: ignore[no-any-return]


@pytest.mark.parametrize("order", ORDERS)
def test_sizes_and_layouts(order: str) -> None:
    for n, shape in enumerate(SHAPES[:4]):
        for turned in ((False, False, False), (True, n % 2 == 0, True)):
            _product("f4", shape, order, turned=turned)


@pytest.mark.parametrize("dtype", ["i1", "u2", "f2", "i4", "i8", "f8", "c8", "c16"])
def test_dtypes(dtype: str) -> None:
    for shape in (SHAPES[1], SHAPES[4]):
        _product(dtype, shape, "random", turned=(False, True, False))


@pytest.mark.parametrize("tile", ["LARGE", "MEDIUM", "NARROW"])
@pytest.mark.parametrize("dtype", ["f4", pytest.param("f8", marks=pytest.mark.full)])
def test_tiles(monkeypatch: pytest.MonkeyPatch, tile: str, dtype: str) -> None:
    chosen = module.LARGE._replace(depth=8) if tile == "LARGE" else getattr(module, tile)
    monkeypatch.setattr(module, "_tile_for", lambda *given: chosen)
    for turned in ((False, False, False), (True, True, True)) if dtype == "f4" else ((False, True, False),):
        _product(dtype, (1, 130, 140, 19), "random", turned=turned)


def test_tiles_are_chosen_by_the_size_of_the_result() -> None:
    choose = module._tile_for
    assert choose(1, 5, 4000, "float32", 1) == module.SMALL
    assert choose(1, 30, 4000, "float32", 1) == module.NARROW
    assert choose(1, 1000, 1000, "float32", 1) == module.MEDIUM
    assert choose(1, 4096, 4096, "float32", 1) == module.LARGE
    assert choose(200, 128, 128, "float32", 1) == module.LARGE
    assert choose(1, 4096, 4096, "float64", 1) == module.MEDIUM
    assert choose(1, 4096, 4096, "float64", 2) == module.NARROW


def test_one_matrix_for_the_whole_stack() -> None:
    bench, kernel = kept(matmul, np.dtype("f4"), None, (), np.dtype("f4"))
    a, b = _matrices("f4", (3, 20, 18, 9))
    left = bench.put(a)
    right = bench.put(b[0])
    out = bench.put(np.zeros((3, 20, 18), np.float32))
    kernel(out, left, right.window(b.shape, (0, *right.strides), 0))
    assert np.array_equal(bench.get(out), a @ b[0])


def test_the_last_sum_of_halves_is_rounded_once() -> None:
    """2048 + 1 + 1 is 2050 in float32, and 2048 if every sum is rounded to float16."""
    bench, kernel = kept(matmul, np.dtype("f2"), None, (), np.dtype("f2"))
    a = bench.put(np.array([[[2048, 1, 1]]], np.float16))
    out = bench.put(np.zeros((1, 1, 1), np.float16))
    kernel(out, a, bench.put(np.ones((1, 3, 1), np.float16)))
    assert bench.get(out).item() == 2050


@pytest.mark.parametrize("dtype", ["f4", "f2", "c8"])
def test_a_function_of_the_sums(dtype: str) -> None:
    kind, result = np.dtype(dtype), np.dtype("f8" if dtype == "f4" else dtype)
    total, bias, scale = s.variable("total"), s.variable("bias"), s.variable("scale")
    function = ScalarFunction("scaled", ("total", "bias", "scale"), total * scale + bias, kind)
    operands = (Operand("bias", kind), Operand("scale", kind, is_number=True))
    bench, kernel = kept(matmul, kind, function, operands, result)
    a, b = _matrices(dtype, (2, 18, 20, 7))
    row = RNG.integers(0, 9, 20).astype(kind)
    out, given = bench.put(np.zeros((2, 18, 20), result)), bench.put(row)
    kernel(out, bench.put(a), bench.put(b), given.window((2, 18, 20), (0, 0, *given.strides), 0), kind.type(2))
    assert np.array_equal(bench.get(out), (a @ b) * kind.type(2) + row)


def test_what_is_declined() -> None:
    total, place = s.variable("total"), s.index(0)
    indexed = ScalarFunction("indexed", ("total",), total + place, np.dtype("f4"))
    assert matmul(Bench(), np.dtype(bool), None, (), np.dtype(bool)) is None
    assert matmul(Bench(), np.dtype("f4"), indexed, (), np.dtype("f4")) is None


@pytest.mark.parametrize("dtype", ["float16", pytest.param("bfloat16", marks=pytest.mark.full)])
def test_halves_by_tensor_cores(dtype: str) -> None:
    kind = np.dtype(dtype) if dtype == "float16" else np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    bench, kernel = kept(matmul, kind, None, (), kind)
    for shape in ((1, 130, 140, 40), (2, 64, 70, 17)):
        for turned in (False, True):
            bench.order, bench.launches = "random", []
            a, b = _matrices("float16", shape)
            given = [
                bench.put(x.astype(kind), (x[0].size, 1, x.shape[1])) if turned else bench.put(x.astype(kind))
                for x in (a, b)
            ]
            out = bench.put(np.zeros((shape[0], shape[1], shape[2]), kind))
            kernel(out, *given)
            assert bench.launches == ["tensor_product"]
            wanted = (a.astype("f4") @ b.astype("f4")).astype(kind)
            assert np.array_equal(bench.get(out).astype("f4"), wanted.astype("f4")), (shape, turned)
