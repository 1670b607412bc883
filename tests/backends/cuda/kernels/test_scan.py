"""Scans: sizes around tiles and spans, both directions, several parts that do not commute, all kinds of dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.kernels import scan as module
from tenkey.backends.cuda.kernels.scan import scan
from tenkey.backends.external.scalar_function import ScalarFunction
from tenkey.library import scalar as s
from tests.backends.cuda.kernels._bench import Bench, kept
from tests.backends.cuda.kernels._execution import ORDERS

A, B = s.variable("a"), s.variable("b")
A0, A1, B0, B1 = [s.variable(name) for name in ("a0", "a1", "b0", "b1")]
RNG = np.random.default_rng(0)
# A warp reads 128 elements at once and rows of up to 1024; a block 1024 at once; rows are cut into spans beyond 4096.
SHAPES = [(1, 1), (3, 7), (5, 31), (2, 32), (3, 33), (2, 1024), (1, 1023), (2, 1025), (1, 4097), (1, 9000)]


def _sums(dtype: str) -> tuple[ScalarFunction, ...]:
    return (ScalarFunction("sum", ("a", "b"), A + B, np.dtype(dtype)),)


def _affine(dtype: str) -> tuple[ScalarFunction, ...]:
    """Compose x -> a0 x + a1 with x -> b0 x + b1: associative, not commutative."""
    given = ("a0", "a1", "b0", "b1")
    return tuple([ScalarFunction("affine", given, e, np.dtype(dtype)) for e in (A0 * B0, A1 * B0 + B1)])


FUNCTIONS = {(name, dtype): make(dtype) for name, make in (("sum", _sums), ("affine", _affine))
             for dtype in ("i4", "f4", "u1", "i8", "f8", "f2", "c8", "c16")}  # fmt: skip


def _running(x: np.ndarray, reverse: bool) -> np.ndarray:
    turned = np.flip(x, 1) if reverse else x
    sums = np.cumsum(turned, 1, dtype=x.dtype)
    return np.flip(sums, 1) if reverse else sums


def _check(dtype: str, shape: tuple[int, int], order: str, *, reverse: bool, by_columns: bool = False) -> Bench:
    bench, kernel = kept(scan, FUNCTIONS["sum", dtype], np.dtype(dtype))
    bench.order, bench.launches = order, []
    x = RNG.integers(0, 3, shape).astype(dtype)
    given = bench.put(x, (1, shape[0])) if by_columns else bench.put(x, first=1)
    out = bench.put(np.zeros_like(x), (1, shape[0]))
    kernel((out,), (given,), reverse)
    assert np.array_equal(bench.get(out), _running(x, reverse)), (dtype, shape, order, reverse)
    return bench  # type: ignore[no-any-return]


@pytest.mark.parametrize("order", ORDERS)
def test_sizes_and_directions(order: str) -> None:
    for shape in SHAPES:
        for reverse in (False, True):
            _check("i4", shape, order, reverse=reverse)


@pytest.mark.parametrize("dtype", ["u1", "i8", "f4", "f8", "f2", "c8", "c16"])
def test_dtypes(dtype: str) -> None:
    for shape in ((3, 200), (1, 2500)) if dtype != "f2" else ((3, 200),):
        _check(dtype, shape, "random", reverse=False)


def test_a_thread_scans_each_row_where_rows_lie_side_by_side() -> None:
    bench = _check("f4", (5000, 9), "up", reverse=True, by_columns=True)
    assert bench.launches == ["scan_sequential"]


def test_a_long_row_is_scanned_in_three_passes() -> None:
    bench = _check("i4", (1, 9000), "up", reverse=False)
    assert bench.launches == ["scan_totals", "scan_sequential", "scan_block"]


@pytest.mark.parametrize("shape", [(3, 33), (2, 1025), (1, 8300)], ids=str)
def test_several_parts_in_their_order(shape: tuple[int, int]) -> None:
    bench, kernel = kept(scan, FUNCTIONS["affine", "i8"], np.dtype("i8"))
    bench.order = "random"
    a, b = RNG.integers(-1, 2, shape), RNG.integers(-5, 5, shape)
    for reverse in (False, True):
        outs = tuple([bench.put(np.zeros_like(a)) for _ in range(2)])
        kernel(outs, (bench.put(a, first=1), bench.put(b, (1, shape[0]))), reverse)
        value, wanted = np.zeros(shape[0], a.dtype), np.zeros_like(a)
        for k in range(shape[1])[:: -1 if reverse else 1]:
            value = wanted[:, k] = value * a[:, k] + b[:, k]
        assert np.array_equal(bench.get(outs[1]), wanted)


def test_offsets_of_64_bits_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "offset_type", lambda *windows: "int64")
    for shape in ((3, 40), (1, 9000)):
        _check("f4", shape, "up", reverse=True)


def test_a_function_that_is_not_associative_shows_the_order() -> None:
    """Differences depend on where parts are joined: the comparison with a loop must fail for them."""
    difference: Any = (ScalarFunction("difference", ("a", "b"), A - B, np.dtype("i4")),)
    bench = Bench()
    x = np.ones((1, 1500), np.int32)
    out = bench.put(np.zeros_like(x))
    scan(bench, difference, np.dtype("i4"))((out,), (bench.put(x),), False)
    assert not np.array_equal(bench.get(out)[0], 1 - np.arange(1500))
