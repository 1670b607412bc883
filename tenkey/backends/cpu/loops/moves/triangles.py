"""The triangle of matrices on one side of a diagonal, with zeros on the other side.

Note [Triangles in one pass]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Each row is a run of bytes that is copied and a run that is zeroed: what is not kept is not read, and no mask is made.
One kernel serves all dtypes, because the bytes of zero are 0 in each of them. The rows are the tasks of the threads. If
the rows of the source are not contiguous, all of it is copied first, and the other triangle then zeroed.
The limit is the memory: half of the matrix is read, and all of it written.
Guarded by ``tests/backends/test_copying_loops.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

from ....allocation.host import allocate
from ....llvm import (
    address,
    array,
    cast,
    data,
    fill_bytes,
    function_pointer,
    i8,
    i64,
    kernel,
    loop,
    maximum,
    minimum,
    pointer,
    shape,
    stack,
    strides,
    u8,
    void,
)
from ....llvm.compiled import Case, UnavailableError
from ...pool.region import parallel
from ...pool.state_block import STATE
from .runs import copy_run
from .strided_copies import copy_into

__all__ = ["cases", "triangle"]

_OUT, _SOURCE, _ROWS, _WIDE, _MATRIX_STEP, _ROW_STEP, _DIAGONAL, _SIZE, _UPPER, _WORDS = range(10)
_BLOCK = 1 << 16  # bytes that a thread claims at once, as in copies


@loop(inline=False)
def triangle_rows(plan: pointer(i8), start: i64, stop: i64) -> void:
    """Write the rows ``start`` to ``stop`` of all matrices; bytes of the source that is the result stay."""
    words = cast(plan, pointer(i64))
    rows, wide = words[_ROWS], words[_WIDE]
    upper, writes = words[_UPPER] != 0, words[_OUT] != words[_SOURCE]
    for row in range(start, stop):
        matrix = row // rows
        at = row - matrix * rows
        split = minimum(maximum((at + words[_DIAGONAL]) * words[_SIZE], 0), wide)
        to = words[_OUT] + row * wide
        source = words[_SOURCE] + matrix * words[_MATRIX_STEP] + at * words[_ROW_STEP]
        kept = split if upper else 0
        count = wide - split if upper else split
        blank = 0 if upper else split
        if writes:
            copy_run(cast(to + kept, pointer(u8)), cast(source + kept, pointer(u8)), count, T=u8)
        fill_bytes(cast(to + blank, pointer(u8)), 0, wide - count)


@loop(brief=True, cold=True)
def triangles(pool: pointer(i8), out: array, source: array, size: i64, diagonal: i64, upper: i64) -> void:
    """Copy a triangle of each matrix of a stack (3 axes) whose rows are contiguous, in the result without gaps.

    ``diagonal`` is the first element in row 0 that is beyond the lower triangle, or in the upper one.
    """
    words = stack(i64, _WORDS)
    words[_OUT] = address(data(out, i8))
    words[_SOURCE] = address(data(source, i8))
    words[_ROWS] = shape(out)[1]
    words[_WIDE] = shape(out)[2] * size
    words[_MATRIX_STEP] = strides(source)[0]
    words[_ROW_STEP] = strides(source)[1]
    words[_DIAGONAL], words[_SIZE], words[_UPPER] = diagonal, size, upper
    rows = shape(out)[0] * shape(out)[1]
    chunk = maximum(_BLOCK // words[_WIDE], 1)
    parallel(pool, function_pointer(triangle_rows), cast(words, pointer(i8)), rows, chunk)


@cache
def _kernel() -> Any:
    return kernel(triangles)


def triangle(a: np.ndarray, k: int, *, upper: bool) -> np.ndarray | None:
    """Return one triangle of nonempty matrices, or None if compiled code is not available."""
    try:
        function = _kernel()
    except UnavailableError:
        return None
    out = allocate(a.shape, a.dtype)
    rows, columns = a.shape[-2:]
    size = a.dtype.itemsize
    if a.strides[-1] != size or (a.ndim > 3 and not a.flags.c_contiguous):
        copy_into(out, a)
        a = out
    diagonal = max(-rows, min(k, columns)) + (not upper)
    function(STATE, out.reshape(-1, rows, columns), a.reshape(-1, rows, columns), size, diagonal, upper)
    return out


def cases(dtypes: Iterable[np.dtype]) -> Iterator[Case]:
    """Yield the kernel for all dtypes."""
    yield Case("tk::tril", triangles, {})
    yield Case("tk::triu", triangles, {})
