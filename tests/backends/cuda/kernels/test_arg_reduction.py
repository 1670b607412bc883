"""Places of the best elements: ties go to the first, NaN wins, rows of all lengths."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.kernels import arg_reduction as module
from tenkey.backends.cuda.kernels.arg_reduction import arg_reduction
from tenkey.backends.external.scalar_function import ScalarFunction
from tenkey.dispatch.registry import registry
from tests.backends.cuda.kernels._bench import Bench, kept
from tests.backends.cuda.kernels._execution import ORDERS

RNG = np.random.default_rng(0)
# A warp searches rows of up to 1024; rows are cut into spans beyond 8192.
SHAPES = [(1, 1), (3, 7), (5, 31), (2, 32), (3, 33), (2, 1024), (1, 1023), (2, 1025), (1, 8193), (1, 20_000)]
_KINDS = ("f4", "u1", "f2", "i8", "f8", "i2")
FUNCTIONS = {
    (name, dtype): ScalarFunction(
        name, ("a", "b"), registry.find(f"tk::{name}").facets["ArgReduce"].expression, np.dtype(dtype)
    )
    for name in ("argmax", "argmin") for dtype in _KINDS
}  # fmt: skip


def _check(name: str, x: np.ndarray, order: str = "up", *, by_columns: bool = False) -> Bench:
    bench, kernel = kept(arg_reduction, FUNCTIONS[name, x.dtype.str[1:]], x.dtype)
    bench.order, bench.launches = order, []
    out = bench.put(np.full(len(x), -7))
    kernel(out, bench.put(x, (1, len(x))) if by_columns else bench.put(x, first=1))
    assert np.array_equal(bench.get(out), getattr(np, name)(x, 1)), (name, x.dtype, x.shape, order)
    return bench  # type: ignore[no-any-return]


@pytest.mark.parametrize("order", ORDERS)
def test_sizes(order: str) -> None:
    for shape in SHAPES:
        x = RNG.integers(0, 50, shape).astype("f4")
        _check("argmax", x, order)
        if shape[1] > 31:  # a tie in different warps, spans and threads
            x[:, RNG.integers(0, shape[1], 4)] = 99
            _check("argmax", x, order)
            x[:, RNG.integers(0, shape[1], 2)] = np.nan
            _check("argmax", x, order)


@pytest.mark.parametrize("dtype", _KINDS)
def test_dtypes(dtype: str) -> None:
    for shape in ((3, 40), (1, 1100)):
        _check("argmin", RNG.integers(0, 120, shape).astype(dtype), "random")


def test_all_elements_alike() -> None:
    for shape in ((2, 300), (1, 9000)):
        _check("argmin", np.full(shape, 3, np.int64), "down")
        _check("argmax", np.full(shape, np.nan, np.float32), "down")


def test_a_thread_searches_each_row_where_rows_lie_side_by_side() -> None:
    bench = _check("argmax", RNG.integers(0, 9, (5000, 9)).astype("f4"), by_columns=True)
    assert bench.launches == ["arg_sequential"]


def test_a_long_row_is_searched_in_two_passes() -> None:
    assert _check("argmax", np.zeros((1, 20_000), np.float32)).launches == ["arg_block", "arg_block"]


def test_offsets_of_64_bits_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "offset_type", lambda *windows: "int64")
    for shape in ((3, 40), (1, 20_000), (5000, 3)):
        _check("argmin", RNG.integers(0, 50, shape).astype("f4"))


def test_complex_numbers_have_no_order() -> None:
    assert arg_reduction(Bench(), FUNCTIONS["argmax", "f4"], np.dtype("c8")) is None
