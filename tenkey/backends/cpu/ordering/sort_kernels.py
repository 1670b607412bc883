"""Kernels of sorting, searching and sets for large arrays; what they do not take is left to NumPy's functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

from ....core.random import draws
from ....core.tensor import Tensor
from ....dispatch.operator import Operator
from ...allocation.host import allocate
from ...llvm.compiled import Case, UnavailableError, compiled_or_none, kernel
from ...llvm.value_types import of_dtype
from ..kernels import Specialized, wrap
from ..loops import random_draws
from ..loops.moves.strided_copies import copied
from ..loops.row_sorts import PIECE
from ..loops.searching import SEARCHES, candidates, distinct, groups, search
from ..numpy_kernels import numpy_kernel
from ..pool import STATE
from ..thresholds import ORDERED_ELEMENTS, SEARCHED_ELEMENTS, SORTED_ELEMENTS
from .sorts import order, sorted_rows, sorted_values

__all__ = ["KERNELS", "cases"]

_INT64: Final = np.dtype(np.int64)
_SAMPLED: Final = 1 << 12  # elements of a vector from which its first ones are sought by a limit
_INT32: Final = np.dtype(np.int32)


def _else(written: Callable[..., Any]) -> Specialized:
    """Return the rule for a kernel that returns None for what is left to the operator's NumPy function."""

    def rule(operator: Operator, word: int) -> Callable[..., Any]:
        general = numpy_kernel(operator)

        def kernel(*args: Any, **kwargs: Any) -> Any:
            found = written(*args, **kwargs)
            return general(*args, **kwargs) if found is None else found

        return kernel

    return Specialized(rule)


def _takes(x: np.ndarray, axis: int, least: int = ORDERED_ELEMENTS) -> bool:
    return x.size >= least and x.dtype.kind in "biuf" and x.dtype.isnative and -x.ndim <= axis < x.ndim


def _contiguous(x: np.ndarray) -> Tensor:
    return wrap(x if x.flags.c_contiguous else copied(x))


def _sort(x: Tensor, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    found = sorted_values(x._data, axis, descending) if _takes(x._data, axis, SORTED_ELEMENTS) else None
    return None if found is None else _contiguous(found)


def _argsort(x: Tensor, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    found = order(x._data, axis, descending) if _takes(x._data, axis) else None
    return None if found is None else _contiguous(found)


def _sorting_order(x: Tensor, axis: int, descending: bool) -> Any:
    found = order(x._data, axis, descending) if _takes(x._data, axis) else None
    if found is None:
        return None
    ordered = np.moveaxis(np.take_along_axis(x._data, found, axis), axis, -1)
    starts = np.ones(x.shape, bool)
    np.not_equal(ordered[..., 1:], ordered[..., :-1], out=np.moveaxis(starts, axis, -1)[..., 1:])
    short = x.shape[axis] < 1 << 31
    return wrap(found.astype(np.int32, order="C")) if short else _contiguous(found), wrap(starts)


def _top_indices(x: Tensor, k: int, axis: int, largest: bool) -> Any:
    a = x._data
    if not _takes(a, axis) or not 0 < k <= a.shape[axis]:
        return None
    if a.ndim == 1 and max(16 * k, _SAMPLED) <= a.size < 1 << 31 and a.flags.c_contiguous:
        found = _top_of_vector(a, k, largest)
        if found is not None:
            return wrap(found)
    few = a.ndim == 1 and 4 * k <= a.size < SORTED_ELEMENTS
    found = _top_of_few(a, k, largest) if few else None
    if found is None:
        found = order(a, axis, largest, k)
    return None if found is None else _contiguous(found)


def _top_of_few(x: np.ndarray, k: int, largest: bool) -> np.ndarray | None:
    """Sort only the elements that are beyond the k-th; None where others equal it, or where there is NaN."""
    place = x.size - k if largest else k - 1
    limit = np.partition(x, place)[place]
    (places,) = np.nonzero(x >= limit if largest else x <= limit)
    if places.size != k:
        return None
    if not largest:
        return places[x[places].argsort(kind="stable")]
    places = places[::-1]  # equal elements keep their order when the result is reversed again
    return places[x[places].argsort(kind="stable")][::-1]


@compiled_or_none
def _top_of_vector(x: np.ndarray, k: int, largest: bool) -> np.ndarray | None:
    """Sort only the elements beyond a limit, which a sample suggests so that there are a few more than k."""
    sample = np.sort(x[:: max(1, x.size >> 12)])
    rank = k * sample.size // x.size
    rank += 8 + int(4 * rank**0.5)
    limit = sample[-rank:][:1] if largest else sample[rank - 1 : rank]
    statics: dict[str, Any] = {"T": of_dtype(x.dtype), "LARGEST": largest}
    counts = np.empty(-(-x.size // PIECE), np.int64)
    kernel(candidates, **statics, WRITE=False)(STATE, x, limit, counts, counts, x.size)
    total = int(counts.sum())
    if not k <= total <= x.size // 2:
        return None
    places = np.empty(total, np.int32)
    counts[1:] = np.cumsum(counts[:-1])
    counts[0] = 0
    kernel(candidates, **statics, WRITE=True)(STATE, x, limit, counts, places, x.size)
    values = x[places]
    found = order(values, 0, largest) if values.size >= ORDERED_ELEMENTS else None
    if found is None:
        # reversing before and after the sort keeps equal elements in order
        found = values[::-1].argsort(kind="stable")[::-1] if largest else values.argsort(kind="stable")
        found = total - 1 - found if largest else found
    return places[found[:k]].astype(np.int64)


@compiled_or_none
def _unique_values(x: Tensor) -> Any:
    a = x._data
    if not _takes(a.reshape(-1), 0, SORTED_ELEMENTS) or a.dtype.kind == "b":
        return None
    rows = sorted_rows(np.ascontiguousarray(a).reshape(1, -1))
    if rows is None:
        return None
    count = kernel(distinct, T=of_dtype(a.dtype))(rows[0], a.size)
    return wrap(rows[0] if count == a.size else rows[0, :count].copy())


@compiled_or_none
def _unique_parts(x: Tensor) -> Any:
    a = x._data
    flat = np.ascontiguousarray(a).reshape(-1)
    found = order(flat, 0, False) if _takes(flat, 0) else None
    if found is None:
        return None
    indices, inverse, counts = (allocate((a.size,), _INT64) for _ in range(3))
    many = kernel(groups, T=of_dtype(a.dtype))(flat, found, indices, inverse, counts, a.size)
    return wrap(indices[:many].copy()), wrap(inverse.reshape(a.shape)), wrap(counts[:many].copy())


def _places(table: np.ndarray, x: np.ndarray, side: str) -> Any:
    """Return the places in a sorted vector of elements of the same dtype."""
    n, dtype = table.size, table.dtype
    if x.size < SEARCHED_ELEMENTS or x.dtype != dtype or dtype.kind not in "iuf" or not dtype.isnative or not n:
        return None
    if table.ndim != 1 or side not in ("left", "right"):
        return None
    try:
        function = kernel(search, T=of_dtype(dtype), RIGHT=side == "right")
    except UnavailableError:
        return None
    out = allocate(x.shape, _INT64)
    wanted, sorted_ = np.ascontiguousarray(x), np.ascontiguousarray(table)
    function(STATE, sorted_, wanted, out, n, 1 << (n.bit_length() - 1), x.size, 32 * SEARCHES)
    return out


def _place_sorted(x1: Tensor, x2: Tensor, side: str) -> Any:
    found = _places(x1._data, x2._data, side)
    return None if found is None else wrap(found)


def _searchsorted(x1: Tensor, x2: Tensor, *, side: str = "left", sorter: Any = None) -> Any:
    return None if sorter is not None else _place_sorted(x1, x2, side)


def _searched(table: np.ndarray, x: np.ndarray, side: Any) -> Any:
    """Return what ``numpy.searchsorted`` does."""
    dtype = table.dtype if table.dtype == x.dtype else np.promote_types(table.dtype, x.dtype)
    found = _places(table.astype(dtype, copy=False), x.astype(dtype, copy=False), side)
    return np.searchsorted(table, x, side) if found is None else found


def _among(x1: Tensor, x2: Tensor, invert: bool) -> Any:
    """Look every element up in the sorted others."""
    others = np.sort(x2._data.reshape(-1))
    found = _places(others, x1._data, "left")
    if found is None:
        return None
    inside = others[np.minimum(found, others.size - 1)] == x1._data
    return wrap(~inside if invert else inside)


def _digitize(x: Tensor, bins: Tensor, *, right: bool = False) -> Any:
    if x.size < SEARCHED_ELEMENTS or x.dtype.kind not in "iuf" or bins.dtype.kind not in "iuf" or bins.ndim != 1:
        return None
    from ....ops.builtin.numeric.histogram import digitize_on_numpy  # Note [Operators that are declared on first use]

    return wrap(digitize_on_numpy(x._data, bins._data, right=right, search=_searched))


def _bins_of(x: Tensor, edges: Tensor) -> Any:
    if x.size < SEARCHED_ELEMENTS or x.dtype.kind not in "iuf" or edges.dtype.kind not in "iuf" or edges.ndim != 1:
        return None
    from ....ops.builtin.numeric.histogram import bins_on_numpy

    return wrap(bins_on_numpy(x._data, edges._data, _searched))


def _order_statistics(x: Tensor, k: Tensor, *, skip_nan: bool = False) -> Any:
    a = x._data
    if not a.ndim or not _takes(a, -1, SORTED_ELEMENTS) or k.dtype.kind not in "iu" or k.ndim != 1:
        return None
    from ....ops.builtin.reductions.quantiles import order_on_numpy

    ordered = sorted_values(a, a.ndim - 1, False)
    return None if ordered is None else _contiguous(order_on_numpy(a, k._data, skip_nan=skip_nan, ordered=ordered))


def _random_permutation(n: int, seed: int, stream: int, start: int, *, device: Any = None) -> Tensor:
    keys = random_draws.random_bits((seed, stream), n, start)
    if keys is None:
        return wrap(draws.permutation((seed, stream), n, start))
    found = order(keys, 0, False)
    return wrap(draws.permutation_of(keys) if found is None else found)


KERNELS: Final[dict[str, Any]] = {
    "tk::sort": _else(_sort), "tk::argsort": _else(_argsort), "tk::sorting_order": _else(_sorting_order),
    "tk::top_indices": _else(_top_indices), "tk::unique_values": _else(_unique_values),
    "tk::unique_parts": _else(_unique_parts), "tk::searchsorted": _else(_searchsorted),
    "tk::place_sorted": _else(_place_sorted), "tk::digitize": _else(_digitize), "tk::bins_of": _else(_bins_of),
    "tk::among": _else(_among), "tk::order_statistics": _else(_order_statistics),
    "tk::random_permutation": _random_permutation,
    "tk::random_order": _else(lambda keys: order(keys._data, -1, False) if _takes(keys._data, -1) else None),
}  # fmt: skip


def cases(dtypes: Iterable[np.dtype]) -> Iterator[Case]:
    """Yield the kernels that programs will ask for."""
    for dtype in dtypes:
        if dtype.kind not in "iuf":
            continue
        T = of_dtype(dtype)
        yield Case("tk::unique_values", distinct, {"T": T})
        yield Case("tk::unique_parts", groups, {"T": T})
        for flag in (False, True):
            yield Case("tk::searchsorted", search, {"T": T, "RIGHT": flag})
            for write in (False, True):
                yield Case("tk::top_indices", candidates, {"T": T, "LARGEST": flag, "WRITE": write})
