"""Gathers: words of all sizes, layouts that broadcast, rows in wide words, indices out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.compiling import KernelSource
from tenkey.backends.cuda.kernels import gather as module
from tenkey.backends.cuda.kernels.gather import gather
from tenkey.testing.ptx import KernelError
from tests.backends.cuda.kernels._bench import Bench

SHAPES = [(1, 10, 1, 33), (2, 5, 7, 3), (3, 4, 8, 256), (1, 7, 64, 5), (2, 3, 1, 257), (1, 1, 1, 1), (1, 4, 1, 1025)]
RNG = np.random.default_rng(0)


def _gathered(dtype: str, shape: tuple[int, int, int, int], *, shared: bool, bench: Bench | None = None) -> None:
    """Check a gather; with ``shared`` one index holds for all elements of a row."""
    outer, n, inner, count = shape
    bench = bench or Bench()
    x = RNG.integers(0, 250, (outer, n, inner)).astype(dtype)
    index = RNG.integers(0, n, (outer, count, inner))
    if shared:
        index[:] = index[:, :, :1]
        places = bench.put(index[:, :, 0])
        places = places.window(index.shape, (*places.strides, 0), 0)
    else:
        places = bench.put(index, (1, outer, outer * count))
    source = bench.put(x, first=3) if shared else bench.put(x, (1, outer * inner, outer))
    out, error = bench.put(np.full(index.shape, 1, dtype)), bench.put(np.zeros(1, np.int64))
    gather(bench, np.dtype(dtype))(out, source, places, error, 7)
    assert np.array_equal(bench.get(out), np.take_along_axis(x, index, 1)), (dtype, shape, shared)
    assert bench.get(error)[0] == 0


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "c16"])
def test_words(dtype: str) -> None:
    for shape in SHAPES[:5] if dtype == "u4" else SHAPES[1:3]:
        for shared in (False, True):
            _gathered(dtype, shape, shared=shared)


@pytest.mark.parametrize("shape", SHAPES[5:], ids=str)
def test_sizes(shape: tuple[int, int, int, int]) -> None:
    _gathered("u4", shape, shared=False)


def test_offsets_of_64_bits_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "offset_type", lambda *windows: "int64")
    for shape in SHAPES[1:3]:
        for shared in (False, True):
            _gathered("u4", shape, shared=shared)


class _Recording(Bench):
    """A bench that keeps the type of the words and their number in each launch."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[tuple[str, int]] = []

    def launch(self, source: KernelSource, grid: int, block: int, *arguments: Any) -> None:
        self.words.append((source.parameters[5], arguments[0]))
        super().launch(source, grid, block, *arguments)


def test_rows_are_moved_in_the_largest_words() -> None:
    bench = _Recording()
    x = bench.put(np.arange(48, dtype=np.uint8).reshape(1, 3, 16))
    out, error = bench.put(np.zeros((1, 2, 16), np.uint8)), bench.put(np.zeros(1, np.int64))
    index = bench.put(np.array([[2, 0]])).window((1, 2, 16), (16, 8, 0), 0)
    gather(bench, np.dtype(np.uint8))(out, x, index, error, 1)
    assert bench.words == [("uint64*", 4)]
    assert np.array_equal(bench.get(out)[0], bench.get(x)[0, [2, 0]])


@pytest.mark.parametrize("bad", [-1, 4, 2**40, -(2**63)])
def test_an_index_out_of_range_is_reported_and_gives_0(bad: int) -> None:
    bench = Bench()
    x, out = bench.put(np.arange(1, 5, dtype=np.uint32).reshape(1, 4, 1)), bench.put(np.ones((1, 3, 1), np.uint32))
    error = bench.put(np.zeros(1, np.int64))
    gather(bench, np.dtype(np.uint32))(out, x, bench.put(np.array([3, bad, 0]).reshape(1, 3, 1)), error, 12)
    assert bench.get(out).ravel().tolist() == [4, 0, 1]
    assert bench.get(error)[0] == 12


def test_no_elements_to_gather_from() -> None:
    bench = Bench()
    out, error = bench.put(np.ones((1, 2, 1), np.uint32)), bench.put(np.zeros(1, np.int64))
    x = bench.scratch((1, 0, 1), np.dtype(np.uint32), None)
    gather(bench, np.dtype(np.uint32))(out, x, bench.put(np.zeros((1, 2, 1), np.int64)), error, 3)
    assert bench.get(out).ravel().tolist() == [0, 0]
    assert bench.get(error)[0] == 3


def test_the_bench_finds_accesses_outside_of_windows() -> None:
    bench = Bench()
    x, out = bench.put(np.zeros((1, 4, 1), np.uint32)), bench.put(np.ones((1, 3, 1), np.uint32))
    index, error = bench.put(np.full((1, 3, 1), 3)), bench.put(np.zeros(1, np.int64))
    longer = x.window((1, 9, 1), x.strides, 0)
    bench.get(index)[0, 1] = 8
    with pytest.raises(KernelError):
        gather(bench, np.dtype(np.uint32))(out, longer, index, error, 3)
