"""Scatters: every mode and dtype, in any order and in that of the sources, sharing of indices, indices out of range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.kernels import scatter as module
from tenkey.backends.cuda.kernels.scatter import scatter
from tests.backends.cuda.kernels._bench import Bench
from tests.backends.cuda.kernels._execution import ORDERS

RNG = np.random.default_rng(0)
MODES: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda a, b: b, "add": lambda a, b: a + b, "multiply": lambda a, b: a * b, "minimum": np.minimum,
    "maximum": np.maximum,
}  # fmt: skip
# (outer, n, inner, count); a column with more than 32 sources is sorted, one with more than 1024 by digits.
SHAPES = [(1, 5, 1, 33), (2, 5, 3, 1), (2, 4, 3, 40), (2, 7, 33, 5), (3, 3, 1, 2)]
LARGE = (1, 300, 1, 1500)
WORDS = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}


def _scattered(
    mode: str, dtype: str, shape: tuple[int, int, int, int], *, exact: bool = True, shared: bool = False,
    order: str = "up", bad: bool = False,
) -> Bench:  # fmt: skip
    """Check a scatter against a loop; ``exact``: in the order of the sources."""
    outer, n, inner, count = shape
    kind = np.dtype(dtype)
    target, source = [RNG.integers(0, 4, (outer, size, inner)).astype(kind) for size in (n, count)]
    if mode == "set":
        source = np.arange(source.size).reshape(source.shape).astype(kind)
    elif kind.kind == "f":
        source[RNG.random(source.shape) < 0.02] = np.nan
    elif kind.kind == "c":
        source = np.where(RNG.random(source.shape) < 0.5, 1, 1j).astype(kind)
    index = RNG.integers(0, n, (outer, count, inner))
    if shared:
        index[:] = index[:, :, :1]
    if bad:
        index[0, 0, 0], index[-1, -1, 0] = n, -1
    bench = Bench(order)
    places = bench.put(index[:, :, 0] if shared else index, first=1)
    if shared:
        places = places.window(index.shape, (*places.strides, 0), places.offset)
    word = np.dtype(WORDS[kind.itemsize]) if mode == "set" else kind
    out, error = bench.put(target.view(word), (1, outer * inner, outer)), bench.put(np.zeros(1, np.int64))
    kernel = scatter(bench, mode, word, exact)
    assert kernel is not None
    kernel(out, places, bench.put(source.view(word)), error, 9)
    wanted = target.copy()
    with np.errstate(all="ignore"):
        for i, j, k in np.ndindex(index.shape):
            if 0 <= index[i, j, k] < n:
                wanted[i, index[i, j, k], k] = MODES[mode](wanted[i, index[i, j, k], k], source[i, j, k])
    got = np.ascontiguousarray(bench.get(out)).view(kind)
    tolerance = 0.0 if exact or kind.kind in "iu" else 1e-2 if kind.itemsize == 2 else 1e-5
    assert np.allclose(got, wanted, tolerance, 0, equal_nan=True), (mode, dtype, shape, exact, shared, order)
    assert bench.get(error)[0] == 9 * bad
    return bench


@pytest.mark.parametrize("mode", MODES)
def test_in_order(mode: str) -> None:
    for n, shape in enumerate(SHAPES):
        for shared in (False, True):
            _scattered(mode, "f4", shape, shared=shared, order=ORDERS[n % 3], bad=shape[0] == 3)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mode", ["add", "multiply", "maximum"])
def test_in_any_order(mode: str, order: str) -> None:
    for shape in SHAPES:
        _scattered(mode, "f4", shape, exact=False, shared=shape[1] == 4, order=order, bad=shape[0] == 3)


@pytest.mark.parametrize("dtype", ["u1", "i2", "f2", "i4", "u4", "i8", "u8", "f8", "c8", "c16"])
def test_dtypes(dtype: str) -> None:
    for mode in MODES:
        if np.dtype(dtype).kind == "c" and mode in ("minimum", "maximum"):
            continue
        _scattered(mode, dtype, SHAPES[3], exact=mode == "set", order="random")


def test_bfloat16_is_added_in_its_precision() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = np.dtype(ml_dtypes.bfloat16)
    for exact in (False, True):
        bench = Bench()
        out, error = bench.put(np.zeros((1, 2, 1), kind)), bench.put(np.zeros(1, np.int64))
        index = bench.put(np.zeros((1, 300, 1), np.int64))
        kernel = scatter(bench, "add", kind, exact)
        assert kernel is not None
        kernel(out, index, bench.put(np.ones((1, 300, 1), kind)), error, 1)
        assert bench.get(out).astype("f4").ravel().tolist() == [256.0, 0.0]  # 257 is not a bfloat16


def test_many_sources_are_sorted() -> None:
    for mode in ("add", "multiply"):
        assert "scatter_segments" in _scattered(mode, "f4", LARGE).launches
    assert _scattered("set", "f4", LARGE).launches == ["scatter_mark", "scatter_claim", "scatter_write"]
    assert _scattered("maximum", "i4", LARGE, exact=False).launches == ["scatter_maximum_atomic"]


def test_elements_of_8_bits_are_combined_without_atomic_operations() -> None:
    assert _scattered("add", "u1", SHAPES[3], exact=False).launches == ["scatter_ordered"]


def test_one_source_for_each_place_is_written_at_once() -> None:
    assert _scattered("set", "f4", SHAPES[1]).launches == ["scatter_only"]


def test_offsets_of_64_bits_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "offset_type", lambda *windows: "int64")
    for mode, exact in (("set", True), ("add", True), ("add", False)):
        _scattered(mode, "f4", SHAPES[2], exact=exact, shared=True)


def test_minimum_of_complex_numbers_is_declined() -> None:
    assert scatter(Bench(), "minimum", np.dtype("c8"), True) is None
