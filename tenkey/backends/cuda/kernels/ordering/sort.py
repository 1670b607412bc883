"""The template ``sort``: short rows in shared memory, long rows by a radix sort."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .....core.storage import StridedArray
from ..places import blocks, steps
from ..registers import Register
from ..scan import Combination, scan_rows
from .block_sort import SLOTS, block_sort_source
from .radix_sort import DIGITS, RADIX_THREADS, TILE, count_source, move_source
from .sort_keys import Keys, keys_of

__all__ = ["sort", "sort_places"]

_SUMS: Final = Combination("\ndef combine0(a0, b0):\n    return wrap_add(a0, b0)\n", Register("uint32"))


def sort(backend: Any, dtype: np.dtype) -> Callable[..., None] | None:
    """Return the host function ``kernel(values, order, x)``; None for complex numbers, which have no order."""
    if dtype.kind == "c":
        return None
    keys = keys_of(dtype)

    def kernel(values: StridedArray, order: StridedArray, x: StridedArray) -> None:
        columns = x.shape[1]
        if columns <= SLOTS:
            _sort_in_blocks(backend, keys, values, order, x)
        elif columns < 2**32 - TILE:
            _sort_by_digits(backend, keys, values, order, x, keys.bits)
        else:
            raise NotImplementedError(f"a row of {columns} elements: the radix sort counts in 32 bits")

    return kernel


def _sort_in_blocks(backend: Any, keys: Keys, values: StridedArray, order: StridedArray, x: StridedArray) -> None:
    rows, columns = x.shape
    padded = max(2, 1 << (columns - 1).bit_length())
    grid = blocks(rows, SLOTS // padded)
    backend.launch(block_sort_source(keys), grid, 256, rows, columns, padded, x, *steps(x), values, order)


def sort_places(backend: Any, x: StridedArray, limit: int) -> tuple[StridedArray, StridedArray]:
    """Return the sorted rows of a matrix of uint32, all below ``limit``, and where the elements were, as int64."""
    keys = keys_of(x.dtype)
    values = backend.scratch(x.shape, x.dtype, x.device)
    order = backend.scratch(x.shape, np.dtype(np.int64), x.device)
    if x.shape[1] <= SLOTS:
        _sort_in_blocks(backend, keys, values, order, x)
    else:
        _sort_by_digits(backend, keys, values, order, x, (limit - 1).bit_length())
    return values, order


def _sort_by_digits(
    backend: Any, keys: Keys, values: StridedArray, order: StridedArray, x: StridedArray, bits: int
) -> None:
    """Sort by the digits in the lowest ``bits``, one after another.

    The passes write alternately to two pairs of buffers, the last to the result.
    """
    rows, columns = x.shape
    tiles = blocks(columns, TILE)
    passes = max(1, -(-bits // 8))
    counts, scanned = [backend.scratch((rows, DIGITS * tiles), np.dtype(np.uint32), x.device) for _ in range(2)]
    kinds = (np.dtype(keys.kind), np.dtype(np.uint32))
    pairs = [[backend.scratch(x.shape, kind, x.device) for kind in kinds] for _ in range(min(2, passes - 1))]
    for n in range(passes):
        first, last = n == 0, n == passes - 1
        sizes = (columns, tiles, 8 * n)
        elements = (x, *steps(x))
        held = pairs[(n - 1) % 2] if not first else []
        read = elements if first else (held[0],)
        backend.launch(count_source(keys, first), rows * tiles, RADIX_THREADS, *sizes, *read, counts)
        scan_rows(backend, _SUMS, [scanned], [counts], reverse=False)
        given = elements if first else (held[0], *(elements if last else ()), held[1])
        results = (values, order) if last else pairs[n % 2]
        backend.launch(move_source(keys, first, last), rows * tiles, RADIX_THREADS, *sizes, *given, scanned, *results)
