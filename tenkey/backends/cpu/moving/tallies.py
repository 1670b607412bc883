"""CPU kernels that count numbers and list the places of elements that are not zero."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np

from ....core.tensor import Tensor
from ....dispatch.operator import Operator
from ...allocation.host import allocate
from ...llvm.compiled import UnavailableError, compiled_or_none, kernel
from ..kernels import Specialized, wrap
from ..loops.counting import BLOCK, NUMBERS_OF, count_numbers, extremes, find_places
from ..loops.reductions.axis_operators import with_large_calls
from ..numpy_kernels import numpy_kernel
from ..pool.state_block import STATE
from ..thresholds import LISTED, TALLIED

__all__ = ["KERNELS"]

_INT64: Final = np.dtype(np.int64)
_MOST_TABLES: Final = 16
_PER_TABLE: Final = 8  # elements for each place of a table
_SEARCHED: Final = 1 << 14  # elements whose extremes a thread finds at once
_MOST: Final = (1 << 31) - 1  # counts of an int32


def _plain(x: np.ndarray) -> np.ndarray | None:
    """Return integers of a dtype that the loops read, one behind the other; None for elements that are not such."""
    if x.dtype.kind not in "iu" or x.dtype == np.uint64 or not 0 < x.size <= _MOST:
        return None
    readable = x.dtype in NUMBERS_OF and x.flags.c_contiguous and x.flags.aligned
    return x if readable else x.astype(_INT64)


def _extremes(x: np.ndarray) -> tuple[int, int]:
    found = np.empty((-(-x.size // _SEARCHED), 2), _INT64)
    kernel(extremes, T=NUMBERS_OF[x.dtype])(STATE, x, found, x.size, _SEARCHED)
    return int(found[:, 0].min()), int(found[:, 1].max())


def _tallied(x: np.ndarray, n: int) -> np.ndarray | None:
    """Return how often each number below ``n`` occurs; None if the table would be longer than the vector."""
    size = x.size
    if not 0 < n <= size:
        return None
    tables = max(1, min(_MOST_TABLES, size // (_PER_TABLE * max(n, 1024))))
    out = np.empty(n, _INT64)
    count = kernel(count_numbers, T=NUMBERS_OF[x.dtype])
    count(STATE, x, np.empty((tables, n + 1), np.int32), out, n, size, -(-size // tables))
    return out


def _bincount_rule(operator: Operator, word: int) -> Callable[..., Tensor]:
    general = numpy_kernel(operator)

    def counts(x: np.ndarray, minlength: int) -> np.ndarray | None:
        if x.size < TALLIED:
            if x.dtype.kind not in "iu" or x.dtype == np.uint64:
                return None
            try:
                return np.bincount(x, None, minlength)
            except (ValueError, MemoryError, OverflowError):  # a negative number, too long a result
                return None
        numbers = _plain(x)
        if numbers is None:
            return None
        low, high = _extremes(numbers)
        return _tallied(numbers, max(minlength, high + 1)) if low >= 0 else None

    def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
        if weights is None and len(x._data.shape) == 1 and minlength >= 0:
            with suppress(UnavailableError):
                found = counts(x._data, minlength)
                if found is not None:
                    return wrap(found)
        return general(x, weights, minlength)  # type: ignore[no-any-return]

    return bincount


@compiled_or_none
def _bin_sums(indices: Tensor, weights: Tensor | None, n: int) -> Tensor | None:
    numbers = _plain(indices._data) if weights is None else None
    found = None if numbers is None else _tallied(numbers, n)
    return None if found is None else wrap(found)


@compiled_or_none
def _listed(x: np.ndarray) -> np.ndarray:
    """Return the places of the elements of a vector that are not zero, as one row; None without compiled code."""
    if x.dtype.kind != "b":
        x = x != 0
    if not x.flags.c_contiguous:
        x = x.copy()
    n = x.size
    counts = np.zeros(-(-n // BLOCK) + 1, _INT64)  # the first one stays 0
    kernel(find_places, WRITE=False)(STATE, x, counts[1:], counts, n, 8)
    places = counts.cumsum()
    out = allocate((1, int(places[-1])), _INT64)
    kernel(find_places, WRITE=True)(STATE, x, places, out, n, 1)
    return out


def _nonzero_rows(x: Tensor) -> Tensor | None:
    found = _listed(x._data) if x.ndim == 1 and x.dtype.kind in "biufc" else None
    return None if found is None else wrap(found)


KERNELS: Final[dict[str, Any]] = {
    "tk::bincount": Specialized(_bincount_rule),
    "tk::bin_sums": Specialized(lambda operator, word: with_large_calls(operator, "indices", TALLIED, _bin_sums)),
    "tk::nonzero_rows": Specialized(lambda operator, word: with_large_calls(operator, "x", LISTED, _nonzero_rows)),
}
