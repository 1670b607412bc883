"""Sorts: stable, NaN last, zeros of both signs alike, sizes around slots and tiles, and keys of all dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.kernels.ordering import sort, sort_places
from tests.backends.cuda.kernels._bench import Bench, kept
from tests.backends.cuda.kernels._execution import ORDERS

RNG = np.random.default_rng(0)
# A block sorts up to 1024 elements by a network, in rows padded to powers of two; tiles of the radix sort have 2048.
SHORT = [(3, 1), (2, 2), (5, 31), (4, 32), (3, 33), (2, 255), (1, 256), (2, 257), (1, 1023), (2, 1024)]
LONG = [(1, 1025), (2, 2048), (1, 2049), (1, 5000)]
DTYPES = ("f4", "u1", "i1", "i2", "u2", "f2", "i4", "u4", "i8", "u8", "f8")


def _values(dtype: str, shape: tuple[int, int]) -> np.ndarray:
    """Return numbers of the whole range with ties; for floats also NaN, infinities and zeros of both signs."""
    kind = np.dtype(dtype)
    tied = RNG.random(shape) < 0.5
    if kind.kind != "f":
        limits = np.iinfo(kind)
        x = RNG.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
        return np.where(tied, RNG.integers(0, 3, shape).astype(kind), x)
    x = np.where(tied, RNG.integers(-2, 3, shape), RNG.standard_normal(shape) * 100).astype(kind)
    for value in (np.nan, -np.nan, -0.0, np.inf, -np.inf):
        x[RNG.random(shape) < 0.05] = value
    return x


def _sorted(x: np.ndarray, order: str = "up", *, by_columns: bool = False) -> Bench:
    bench, kernel = kept(sort, x.dtype)
    bench.order, bench.launches = order, []
    values, places = bench.put(np.zeros_like(x)), bench.put(np.zeros(x.shape, np.int64))
    kernel(values, places, bench.put(x, (1, len(x))) if by_columns else bench.put(x, first=1))
    wanted = np.argsort(x, 1, kind="stable")
    assert np.array_equal(bench.get(places), wanted), (x.dtype, x.shape, order)
    bits = f"u{x.dtype.itemsize}"  # also those of NaN and of negative zeros are kept
    assert np.array_equal(bench.get(values).view(bits), np.take_along_axis(x, wanted, 1).view(bits))
    return bench  # type: ignore[no-any-return]


@pytest.mark.parametrize("order", ORDERS)
def test_short_rows(order: str) -> None:
    for n, shape in enumerate(SHORT):
        _sorted(_values("f4", shape), order, by_columns=n % 2 == 1)


@pytest.mark.parametrize("shape", LONG, ids=str)
def test_long_rows(shape: tuple[int, int]) -> None:
    _sorted(_values("i2", shape), ORDERS[shape[1] % 3], by_columns=shape[1] % 2 == 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_of_short_rows(dtype: str) -> None:
    for shape in ((3, 33), (1, 700)):
        _sorted(_values(dtype, shape), "random")


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", pytest.param("f8", marks=pytest.mark.full)])
def test_dtypes_of_long_rows(dtype: str) -> None:
    _sorted(_values(dtype, (2, 1500)), "random")


def test_one_digit_for_all_elements() -> None:
    for x in (np.zeros((1, 3000), np.int16), np.full((1, 3000), np.nan, np.float16), np.full((2, 900), -1, np.int8)):
        _sorted(x)


def test_rows_sorted_already_and_backwards() -> None:
    x = np.arange(2500, dtype=np.uint16)[None]
    _sorted(x)
    _sorted(x[:, ::-1].copy())


def test_bfloat16_has_the_order_of_its_numbers() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = _values("f4", (2, 300)).astype(ml_dtypes.bfloat16)
    bench = Bench()
    values, places = bench.put(np.zeros_like(x)), bench.put(np.zeros(x.shape, np.int64))
    kernel = sort(bench, x.dtype)
    assert kernel is not None
    kernel(values, places, bench.put(x))
    assert np.array_equal(bench.get(places), np.argsort(x.astype("f4"), 1, kind="stable"))


@pytest.mark.parametrize("limit", [3, 257, 65_536])
def test_places_are_sorted_by_the_digits_that_they_have(limit: int) -> None:
    bench = Bench()
    x = RNG.integers(0, limit, (1, 2100)).astype(np.uint32)
    values, order = sort_places(bench, bench.put(x), limit)
    wanted = np.argsort(x, 1, kind="stable")
    assert np.array_equal(bench.get(order), wanted)
    assert np.array_equal(bench.get(values), np.take_along_axis(x, wanted, 1))
    assert bench.launches.count("radix_move") == len(f"{limit - 1:x}") // 2 + len(f"{limit - 1:x}") % 2


def test_complex_numbers_and_endless_rows_are_declined() -> None:
    bench: Any = Bench()
    assert sort(bench, np.dtype("c8")) is None
    kernel = sort(bench, np.dtype("u1"))
    x = bench.scratch((1, 1), np.dtype("u1"), None)
    assert kernel is not None
    with pytest.raises(NotImplementedError, match="32 bits"):
        kernel(x, x, x.window((1, 2**32), (0, 1), 0))
