"""Searching: places in sorted rows, distinct elements, groups of equal ones, and candidates for the largest ones.

Note [Binary search in lanes]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A search for one element is a chain of loads that wait for each other, and a branch that is predicted half of the time.
Here 32 searches advance together without a branch, one binary digit of the place after the other, each with its own
load. For 2**20 random searches in 2**20 float32 that takes 30 ms on two threads (NumPy 286, PyTorch 183, on the same
busy machine); the limit is set by the loads of the last levels, which miss the caches.
Guarded by ``tests/backends/test_sorting_loops.py``.
"""

from __future__ import annotations

from typing import Any, Final

from ...llvm import (
    address,
    array,
    cast,
    compress,
    count_true,
    data,
    first_lanes,
    function_pointer,
    gather,
    i8,
    i32,
    i64,
    iota,
    lanes_of,
    load,
    loop,
    minimum,
    pointer,
    select,
    splat,
    stack,
    store,
    void,
    zeros,
)
from ..pool.region import parallel
from .row_sorts import PIECE

__all__ = ["SEARCHES", "candidates", "distinct", "groups", "search"]

SEARCHES: Final = 32
"""Searches that advance together."""


def _precedes(a: Any, b: Any, T: Any) -> Any:
    """Return whether elements come before others: NaN is larger than every number."""
    return (a < b) | ((b != b) & (a == a)) if T.is_float else a < b


@loop
def _search_task(block: pointer(i8), start: i64, stop: i64, *, T: Any, RIGHT: Any) -> void:
    fields = cast(block, pointer(i64))
    table, x, out = cast(fields[0], pointer(T)), cast(fields[1], pointer(T)), cast(fields[2], pointer(i64))
    n, first = fields[3], fields[4]
    for i in range(start, stop, SEARCHES):
        inside = first_lanes(stop - i, SEARCHES)
        wanted = load(x + i, SEARCHES, inside)
        place = zeros(i64, SEARCHES)
        step: i64 = first
        while step > 0:
            probe = place + splat(step, SEARCHES)
            found = gather(table, minimum(probe, n) - 1)
            ahead = ~_precedes(wanted, found, T) if RIGHT else _precedes(found, wanted, T)
            place = select(ahead & (probe <= n), probe, place)
            step = step >> 1
        store(out + i, place, inside)


@loop(brief=True, cold=True)
def search(
    pool: pointer(i8), table: array, x: array, out: array, n: i64, first: i64, count: i64, chunk: i64, *, T: Any,
    RIGHT: Any,
) -> void:  # fmt: skip
    """Write the place of each element of ``x`` in a sorted vector; ``first`` is the greatest power of 2 up to n."""
    fields = stack(i64, 5)
    fields[0], fields[1], fields[2] = address(data(table, T)), address(data(x, T)), address(data(out, i64))
    fields[3], fields[4] = n, first
    parallel(pool, function_pointer(_search_task, T=T, RIGHT=RIGHT), cast(fields, pointer(i8)), count, chunk)


@loop(brief=True)
def distinct(x: array, n: i64, *, T: Any) -> i64:
    """Move the distinct elements of a sorted vector to its front, and return their number; NaN differs from NaN."""
    p = data(x, T)
    LANES = lanes_of(T)
    place: i64 = minimum(n, 1)
    for i in range(1, n, LANES):
        inside = first_lanes(n - i, LANES)
        values = load(p + i, LANES, inside)
        # an element that is overwritten before it is read here had no equal one before it: it is itself
        new = (values != load(p + (i - 1), LANES, inside)) & inside
        many = count_true(new)
        store(p + place, compress(values, new), first_lanes(many, LANES))
        place += many
    return place


@loop(brief=True)
def groups(x: array, order: array, indices: array, inverse: array, counts: array, n: i64, *, T: Any) -> i64:
    """Write of each group of equal elements the first index and the size, and of each element its group.

    ``order`` sorts ``x`` stably. Returns the number of groups.
    """
    p, places = data(x, T), data(order, i64)
    first, group_of, sizes = data(indices, i64), data(inverse, i64), data(counts, i64)
    group: i64 = -1
    begin: i64 = 0
    for i in range(n):
        place = places[i]
        new = p[place] != p[places[i - select(i > 0, i64(1), i64(0))]]
        if new | (i == 0):
            if group >= 0:
                sizes[group] = i - begin
            group += 1
            first[group] = place
            begin = i
        group_of[place] = group
    if group >= 0:
        sizes[group] = n - begin
    return group + 1


@loop
def _candidates_task(block: pointer(i8), start: i64, stop: i64, *, T: Any, LARGEST: Any, WRITE: Any) -> void:
    fields = cast(block, pointer(i64))
    x, limit = cast(fields[0], pointer(T)), cast(fields[1], pointer(T))[0]
    counts, out, n = cast(fields[2], pointer(i64)), cast(fields[3], pointer(i32)), fields[4]
    LANES = min(lanes_of(T), 16)
    for piece in range(start, stop):
        begin, end = piece * PIECE, minimum(piece * PIECE + PIECE, n)
        place: i64 = counts[piece] if WRITE else 0
        for i in range(begin, end, LANES):
            inside = first_lanes(end - i, LANES)
            values = load(x + i, LANES, inside)
            chosen = (~(values < limit) if LARGEST else values <= limit) & inside  # NaN is the largest
            many = count_true(chosen)
            if WRITE:  # noqa: SIM102 -- one is known while the code is translated
                if many > 0:
                    places = iota(i32, LANES) + splat(i32(i), LANES)
                    store(out + place, compress(places, chosen), first_lanes(many, LANES))
            place += many
        if not WRITE:
            counts[piece] = place


@loop
def candidates(
    pool: pointer(i8), x: array, limit: array, counts: array, out: array, n: i64, *, T: Any, LARGEST: Any, WRITE: Any
) -> void:
    """Count the elements of each piece of a vector that reach a limit, or write their indices (int32)."""
    fields = stack(i64, 5)
    fields[0], fields[1], fields[2] = address(data(x, T)), address(data(limit, T)), address(data(counts, i64))
    fields[3], fields[4] = address(data(out, i32)), n
    task = function_pointer(_candidates_task, T=T, LARGEST=LARGEST, WRITE=WRITE)
    parallel(pool, task, cast(fields, pointer(i8)), (n + (PIECE - 1)) // PIECE, 4)
