"""Counting: how often each number occurs, and where the elements are that are not zero.

Note [Counts in tables]
~~~~~~~~~~~~~~~~~~~~~~~
The elements are cut into chunks by their number alone. Each chunk counts into a table of its own (int32), and the
tables are added at the end; so nothing depends on the number of threads. With 2**20 elements and 16,384 numbers a chunk
has 8 times as many elements as its table.

Places are found in two passes: the elements of each block that are not zero are counted, and then written behind those
of the blocks before it, eight at a time, with the others squeezed out.
Guarded by ``tests/backends/test_counting_loops.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from ...llvm import (
    across,
    address,
    array,
    cast,
    compress,
    count_true,
    data,
    first_lanes,
    function_pointer,
    i8,
    i32,
    i64,
    iota,
    lanes_of,
    load,
    loop,
    maximum,
    minimum,
    pointer,
    select,
    splat,
    stack,
    store,
    u8,
    vector,
    void,
    zeros,
)  # fmt: skip
from ...llvm.compiled import Case
from ..pool.region import parallel

__all__ = ["BLOCK", "NUMBERS_OF", "cases", "count_numbers", "extremes", "find_places"]

BLOCK: Final = 1 << 14
"""Elements whose places are written at once."""
NUMBERS_OF: Final = {np.dtype(np.int64): i64, np.dtype(np.int32): i32, np.dtype(np.uint8): u8}
_ADDED: Final = 1 << 12  # numbers whose counts are added at once


@loop(inline=False)
def extremes_of_block(block: pointer(i8), start: i64, stop: i64, *, T: Any) -> void:
    """Write the least and the greatest number of a chunk."""
    words = cast(block, pointer(i64))
    x, out = cast(words[0], pointer(T)), cast(words[1], pointer(i64)) + (start // words[2]) * 2
    LANES = 4 * lanes_of(T)
    low, high = splat(x[start], LANES), splat(x[start], LANES)
    i = start + 0
    while i + LANES <= stop:
        found = load(x + i, LANES)
        low, high = minimum(low, found), maximum(high, found)
        i += LANES
    least, greatest = across(low, minimum), across(high, maximum)
    while i < stop:
        least, greatest = minimum(least, x[i]), maximum(greatest, x[i])
        i += 1
    out[0], out[1] = i64(least), i64(greatest)


@loop
def extremes(pool: pointer(i8), x: array, out: array, n: i64, chunk: i64, *, T: Any) -> void:
    """Write the least and the greatest number of each chunk of a vector."""
    words = stack(i64, 3)
    words[0], words[1], words[2] = address(data(x, T)), address(data(out, i64)), chunk
    parallel(pool, function_pointer(extremes_of_block, T=T), cast(words, pointer(i8)), n, chunk)


@loop(inline=False)
def count_chunk(block: pointer(i8), start: i64, stop: i64, *, T: Any) -> void:
    """Count the numbers of a chunk; those that are out of range have one more place."""
    words = cast(block, pointer(i64))
    x, n = cast(words[0], pointer(T)), words[2]
    table = cast(words[1], pointer(i32)) + (start // words[3]) * (n + 1)
    for k in range(n + 1):
        table[k] = 0
    for i in range(start, stop):
        number = i64(x[i])
        at = select((number < 0) | (number >= n), n, number)
        table[at] = table[at] + 1


@loop(inline=False)
def add_tables(block: pointer(i8), start: i64, stop: i64) -> void:
    """Add the counts of all tables for some numbers."""
    words = cast(block, pointer(i64))
    n, tables, out = words[2], cast(words[1], pointer(i32)), cast(words[4], pointer(i64))
    for k in range(start, stop, 8):
        inside = first_lanes(stop - k, 8)
        total = zeros(i64, 8)
        for table in range(words[5]):
            total = total + vector(i64, 8)(load(tables + (table * (n + 1) + k), 8, inside))
        store(out + k, total, inside)


@loop
def count_numbers(
    pool: pointer(i8), x: array, tables: array, out: array, n: i64, size: i64, chunk: i64, *, T: Any
) -> void:
    """Count how often each number below ``n`` occurs; there is a table of n + 1 places for each chunk."""
    words = stack(i64, 6)
    words[0], words[1], words[4] = address(data(x, T)), address(data(tables, i32)), address(data(out, i64))
    words[2], words[3], words[5] = n, chunk, (size + (chunk - 1)) // chunk
    parallel(pool, function_pointer(count_chunk, T=T), cast(words, pointer(i8)), size, chunk)
    parallel(pool, function_pointer(add_tables), cast(words, pointer(i8)), n, i64(_ADDED))


@loop(inline=False)
def place_blocks(block: pointer(i8), start: i64, stop: i64, *, WRITE: Any) -> void:
    """Count the elements of blocks that are not zero, or write their places from the block's first one on."""
    words = cast(block, pointer(i64))
    x, counts = cast(words[0], pointer(u8)), cast(words[1], pointer(i64))
    out, n = cast(words[2], pointer(i64)), words[3]
    LANES = 8 if WRITE else 64
    for piece in range(start, stop):
        begin = piece * BLOCK
        end = minimum(begin + BLOCK, n)
        place: i64 = counts[piece] if WRITE else 0
        i = begin + 0
        while i < end:
            found = load(x + i, LANES, first_lanes(end - i, LANES)) != 0
            many = count_true(found)
            if WRITE:
                many = minimum(many, counts[piece + 1] - place)  # another thread may write to the vector
                places = splat(i, LANES) + iota(i64, LANES)
                store(out + place, compress(places, found), first_lanes(many, LANES))
            place += many
            i += LANES
        if not WRITE:
            counts[piece] = place


@loop
def find_places(pool: pointer(i8), x: array, counts: array, out: array, n: i64, chunk: i64, *, WRITE: Any) -> void:
    """Count the elements of each block that are not zero, or write their places behind those that ``counts`` gives."""
    words = stack(i64, 4)
    words[0], words[1], words[2] = address(data(x, u8)), address(data(counts, i64)), address(data(out, i64))
    words[3] = n
    task = function_pointer(place_blocks, WRITE=WRITE)
    parallel(pool, task, cast(words, pointer(i8)), (n + (BLOCK - 1)) // BLOCK, chunk)


def cases(dtypes: Iterable[np.dtype]) -> Iterator[Case]:
    """Yield the kernels that count int64, and list the places of bools: whatever the dtypes of other tensors."""
    for template in (extremes, count_numbers):
        yield Case("tk::bincount", template, {"T": i64})
    for write in (False, True):
        yield Case("tk::nonzero_rows", find_places, {"WRITE": write})
