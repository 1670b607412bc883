"""Sorted arrays and orders along an axis: which loops of ``sorting.py`` an array takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from ...allocation.host import allocate
from ...llvm.compiled import Case, UnavailableError, kernel
from ...llvm.value_types import of_dtype
from ..loops.sorting import PIECE, distribute, extent, finish, key_bits, pack, sort_parts, sort_rows, zeros_in_order
from ..loops.strided_copies import copied, copy_into
from ..pool import STATE, get_num_threads
from ..thresholds import SORTED_ELEMENTS, SORTED_IN_PARTS
from .numpy_sorts import numpy_sort

__all__ = ["cases", "order", "sorted_rows", "sorted_values"]

_UINT64: Final = np.dtype(np.uint64)
_SAMPLE: Final = 1 << 12  # elements for the pivots; their parts differ by 1 %


def _rows(x: np.ndarray, axis: int) -> np.ndarray:
    """Return the elements as a contiguous matrix of rows along an axis."""
    lanes = np.moveaxis(x, axis, -1)
    return (lanes if lanes.flags.c_contiguous else copied(lanes)).reshape(-1, x.shape[axis])


def _restored(rows: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
    lanes = (*shape[:axis], *shape[axis + 1 :], shape[axis])
    return np.moveaxis(rows.reshape(lanes), -1, axis)


def _sort(x: np.ndarray, out: np.ndarray, function: int) -> None:
    """Sort rows into another matrix of the same shape; zeros of both signs in any order."""
    count, n = x.shape
    T = of_dtype(x.dtype)
    threads = get_num_threads()
    if count == 1 and n >= SORTED_IN_PARTS and threads > 1 and x.dtype.itemsize >= 4:
        parts = 2 if threads < 4 else 4 if threads < 8 else 8
        divide, sort = kernel(distribute, T=T, K=parts), kernel(sort_parts, T=T)
        sample = np.sort(x[0, :: max(1, n // _SAMPLE)])
        pivots = sample[[k * sample.size // parts for k in range(1, parts)]]
        counts, ends = np.empty(-(-n // PIECE) * parts, np.int64), np.empty(parts + 1, np.int64)
        divide(STATE, x[0], out[0], pivots, counts, ends)
        sort(STATE, out[0], ends, function)
        return
    sort = kernel(sort_rows, T=T)
    copy_into(out, x)
    sort(STATE, out, function, n, count, max(1, PIECE // max(1, n)))


def sorted_rows(x: np.ndarray, *, backwards: bool = False) -> np.ndarray | None:
    """Return the sorted rows of a contiguous matrix; equal elements are in their order, or ``backwards``.

    None if there are few elements, or no function for them.
    """
    function = numpy_sort(x.dtype) if x.size >= SORTED_ELEMENTS else 0
    if not function:
        return None
    try:
        out = allocate(x.shape, x.dtype)
        _sort(x, out, function)
        if x.dtype.kind == "f":
            mend = kernel(zeros_in_order, T=of_dtype(x.dtype), REVERSED=backwards)
            mend(STATE, x, out, x.shape[1], len(x), max(1, PIECE // max(1, x.shape[1])))
    except UnavailableError:
        return None
    return out


def sorted_values(x: np.ndarray, axis: int, descending: bool) -> np.ndarray | None:
    """Return the elements sorted along an axis, equal ones in their order; None: as for `sorted_rows`."""
    if x.size < SORTED_ELEMENTS:
        return None
    axis %= x.ndim
    rows = sorted_rows(_rows(x, axis), backwards=descending)
    if rows is None:
        return None
    return _restored(rows[:, ::-1] if descending else rows, x.shape, axis)


def order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray | None:
    """Return the indices that sort along an axis, stable in both directions; None: as for `sorted_rows`."""
    function = numpy_sort(_UINT64) if x.size >= SORTED_ELEMENTS and 1 < x.shape[axis] < 1 << 32 else 0
    if not function:
        return None
    axis %= x.ndim
    try:
        rows = _order_of_rows(_rows(x, axis), descending, function)
    except (UnavailableError, KeyError):  # a dtype without keys
        return None
    return _restored(rows, x.shape, axis)


def _order_of_rows(x: np.ndarray, descending: bool, function: int) -> np.ndarray:
    count, n = x.shape
    T = of_dtype(x.dtype)
    statics: dict[str, Any] = {"T": T, "DESCENDING": descending}
    pieces = -(-n // PIECE)
    items, chunk = count * pieces, max(1, PIECE // n)
    bits = (n - 1).bit_length()
    least, shift = 0, 0
    if key_bits(T) + bits > 64:
        extremes = np.empty((items, 2), np.uint64)
        kernel(extent, **statics)(STATE, x, extremes, n, pieces, items)
        least = int(extremes[:, 0].min())
        shift = max(0, (int(extremes[:, 1].max()) - least).bit_length() + bits - 64)
    make, end = kernel(pack, **statics), kernel(finish, **statics, RUNS=shift > 0)
    packed, spare = allocate(x.shape, _UINT64), None
    if count == 1 or shift:
        spare = allocate(x.shape, _UINT64)
    unsorted = spare if count == 1 and spare is not None else packed
    make(STATE, x, unsorted, n, pieces, items, chunk, least, shift, bits)
    if unsorted is packed:
        kernel(sort_rows, T=of_dtype(_UINT64))(STATE, packed, function, n, count, chunk)
    else:
        _sort(unsorted, packed, function)
    end(STATE, x, packed, packed if spare is None else spare, function, n, pieces, items, chunk, least, shift, bits)
    return packed.view(np.int64)


def cases(dtypes: Iterable[np.dtype]) -> Iterator[Case]:
    """Yield the kernels that programs will ask for."""
    for dtype in dtypes:
        if not numpy_sort(dtype):
            continue
        T = of_dtype(dtype)
        yield Case("tk::sort", sort_rows, {"T": T})
        if dtype.itemsize >= 4:
            yield Case("tk::sort", distribute, {"T": T, "K": 2})
            yield Case("tk::sort", sort_parts, {"T": T})
        for descending in (False, True):
            statics = {"T": T, "DESCENDING": descending}
            if dtype.kind == "f":
                yield Case("tk::sort", zeros_in_order, {"T": T, "REVERSED": descending})
            yield Case("tk::argsort", pack, statics)
            for runs in (False, True) if key_bits(T) == 64 else (False,):
                yield Case("tk::argsort", finish, {**statics, "RUNS": runs})
            if key_bits(T) == 64:
                yield Case("tk::argsort", extent, statics)
