"""Sorted arrays and orders along an axis: which loops of ``row_sorts.py`` an array takes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from ...allocation.host import allocate
from ...llvm.compiled import Case, UnavailableError, compiled_or_none, kernel
from ...llvm.value_types import of_dtype
from ..loops.moves.strided_copies import copied
from ..loops.row_sorts import BLOCK, PIECE, extent, key_bits, sort_long, sort_rows
from ..pool import STATE, get_num_threads
from ..thresholds import ORDERED_ELEMENTS, SORTED_ELEMENTS, SORTED_IN_PARTS
from .numpy_sorts import numpy_sort

__all__ = ["cases", "order", "sorted_rows", "sorted_values"]

_pack_into: Final = struct.Struct("=6Q").pack_into
_UINT64: Final = np.dtype(np.uint64)
_ASCENDING: Final = "ascending"
_DESCENDING: Final = "descending"
_SELECTED: Final = 256  # elements of a row from which the first ones are selected before they are sorted
_SAMPLE: Final = 1 << 12  # elements for the pivots; their parts differ by 1 %


def _rows(x: np.ndarray, axis: int) -> np.ndarray:
    """Return the elements as a contiguous matrix of rows along an axis."""
    lanes = x if axis == x.ndim - 1 else np.moveaxis(x, axis, -1)
    return (lanes if lanes.flags.c_contiguous else copied(lanes)).reshape(-1, x.shape[axis])


def _restored(rows: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
    if axis == len(shape) - 1:
        return rows.reshape(shape)
    lanes = (*shape[:axis], *shape[axis + 1 :], shape[axis])
    return np.moveaxis(rows.reshape(lanes), -1, axis)


class _Keys(NamedTuple):
    """What keys with indices are made with (``row_sorts.py``); of elements that are sorted themselves, nothing."""

    order: str | None = None
    least: int = 0
    shift: int = 0
    bits: int = 0
    top: int = 0


@cache  # looked up twice as fast as the kernel
def _row_sort(dtype: np.dtype, order: str | None, backwards: bool) -> Callable[..., Any]:
    return kernel(sort_rows, T=of_dtype(dtype), ORDER=order, BACKWARDS=backwards)


def _sort(x: np.ndarray, function: int, keys: _Keys, backwards: bool = False) -> np.ndarray:
    """Return sorted rows, or the indices that sort them."""
    count, n = x.shape
    out = allocate(x.shape, _UINT64 if keys.order else x.dtype)
    spare = allocate(x.shape, _UINT64) if keys.shift else out
    block: Any = np.empty(BLOCK, np.uint64)
    _pack_into(block, 0, n, function, keys.least, keys.shift, keys.bits, keys.top)
    whole = count > 1 or n < SORTED_IN_PARTS or (x.dtype.itemsize < 4 and not keys.order)
    if whole or (threads := get_num_threads()) < 2:
        _row_sort(x.dtype, keys.order, backwards)(STATE, block, x, out, spare, count, max(1, PIECE // n))
        return out
    parts = 2 if threads < 4 else 4 if threads < 8 else 8
    sample = np.sort(x[0, :: n // _SAMPLE])
    if keys.order == _DESCENDING:
        sample = sample[::-1]
    pivots = sample[[k * sample.size // parts for k in range(1, parts)]]
    counts, ends = np.empty(-(-n // PIECE) * parts, np.int64), np.empty(parts + 1, np.int64)
    statics: dict[str, Any] = {"T": of_dtype(x.dtype), "ORDER": keys.order, "BACKWARDS": backwards}
    kernel(sort_long, **statics, K=parts)(STATE, block, x, out, spare, pivots, counts, ends)
    return out


@compiled_or_none
def sorted_rows(x: np.ndarray, *, backwards: bool = False) -> np.ndarray | None:
    """Return the sorted rows of a contiguous matrix; equal elements are in their order, or ``backwards``.

    None if there are few elements, or no function for them.
    """
    function = numpy_sort(x.dtype) if x.size >= SORTED_ELEMENTS else 0
    if not function:
        return None
    return _sort(x, function, _Keys(), backwards and x.dtype.kind == "f")


def sorted_values(x: np.ndarray, axis: int, descending: bool) -> np.ndarray | None:
    """Return the elements sorted along an axis, equal ones in their order; None: as for `sorted_rows`."""
    axis %= x.ndim
    rows = sorted_rows(_rows(x, axis), backwards=descending)
    if rows is None:
        return None
    return _restored(copied(rows[:, ::-1]) if descending else rows, x.shape, axis)


def order(x: np.ndarray, axis: int, descending: bool, top: int = 0) -> np.ndarray | None:
    """Return the indices that sort along an axis, stable in both directions; None: as for `sorted_rows`.

    With ``top``, only so many of the first indices are valid; what follows them in a row is not.
    """
    function = numpy_sort(_UINT64) if x.size >= ORDERED_ELEMENTS and x.shape[axis] < 1 << 32 else 0
    if not function:
        return None
    axis %= x.ndim
    try:
        rows = _rows(x, axis)
        keys = _keys(rows, _DESCENDING if descending else _ASCENDING)
        if len(rows) > 1 and rows.shape[1] >= _SELECTED and 4 * top <= rows.shape[1]:
            keys = keys._replace(top=top)
        found = _sort(rows, function, keys)
        if top:
            found = found[:, :top]
            return _restored(found.view(np.int64), (*x.shape[:axis], top, *x.shape[axis + 1 :]), axis)
    except (UnavailableError, KeyError):  # a dtype without keys
        return None
    return _restored(found.view(np.int64), x.shape, axis)


def _keys(x: np.ndarray, direction: str) -> _Keys:
    T = of_dtype(x.dtype)
    bits = (x.shape[1] - 1).bit_length()
    if key_bits(T) + bits <= 64:
        return _Keys(direction, bits=bits)
    block = np.empty(BLOCK, np.uint64)
    block[0] = x.size
    extremes = np.empty((-(-x.size // PIECE), 2), np.uint64)
    kernel(extent, T=T, ORDER=direction)(STATE, block, x, extremes)
    if len(extremes) == 1:
        ((least, most),) = extremes.tolist()
    else:
        least, most = int(extremes[:, 0].min()), int(extremes[:, 1].max())
    return _Keys(direction, least, max(0, (most - least).bit_length() + bits - 64), bits)


def cases(dtypes: Iterable[np.dtype]) -> Iterator[Case]:
    """Yield the kernels that programs will ask for."""
    for dtype in dtypes:
        if not numpy_sort(dtype):
            continue
        T = of_dtype(dtype)
        for direction in (None, _ASCENDING, _DESCENDING):
            operator = "tk::argsort" if direction else "tk::sort"
            statics = {"T": T, "ORDER": direction, "BACKWARDS": False}
            yield Case(operator, sort_rows, statics)
            if direction or dtype.itemsize >= 4:
                yield Case(operator, sort_long, {**statics, "K": 2})
            if direction and key_bits(T) == 64:
                yield Case(operator, extent, {"T": T, "ORDER": direction})
