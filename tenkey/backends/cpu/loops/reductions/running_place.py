"""The current element and its place along an axis of arrays (outer, n, inner): running extremes with their indices.

Method: a vector whose elements all leave the current one in place repeats it, which one comparison tells; otherwise it
is scanned as in ``scan.py``, in pairs of element and place. In random numbers the latter is rare. A long row takes two
passes: the current pair at the end of each piece, and the scan of each piece. With inner > 1, lanes are adjacent
columns.

Limit: memory, of which 12 bytes per element of float32 are written; increasing numbers take 1.7 times as long. See
``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

from ....llvm import (
    address,
    array,
    cast,
    count_true,
    data,
    extract,
    first_lanes,
    function_pointer,
    i8,
    i64,
    iota,
    load,
    loop,
    minimum,
    pointer,
    select,
    shuffle,
    splat,
    stack,
    store,
    unroll,
    void,
)
from ...pool.region import parallel
from .scan import INNER, LENGTH, MOST, PIECE, PIECES, SHARE, STEP, STRIPS, cut, scanned

__all__ = ["running_in_columns", "running_in_rows"]

VECTORS = 4
SOURCE, VALUES, PLACES, CARRIED, CARRIED_PLACES = range(5)  # before the words of a scan


@loop(inline=False)
def run(
    x: pointer(S), values: pointer(S), places: pointer(i64), start: i64, stop: i64, value: pointer(A), at: pointer(i64),
    *, S, A, PLACE, LANES, replaces, writes,
) -> void:  # fmt: skip
    """Scan the elements ``start`` to ``stop`` of a row after the pair at ``value`` and ``at``, and leave the last."""
    best = splat(value[0], LANES)
    here = splat(PLACE(at[0]), LANES)
    i = start
    while i < stop:
        mask = first_lanes(stop - i, LANES)
        v = A(load(x + i, LANES, mask))
        if count_true(mask & replaces(best, v)) != 0:
            found = scanned([v, iota(PLACE, LANES) + splat(PLACE(i), LANES)], pairs(replaces), LANES)
            both = pairs(replaces)([best, here], found)
            if writes:
                store(values + i, S(both[0]), mask)
                store(places + i, i64(both[1]), mask)
            best = shuffle(both[0], both[0], [LANES - 1] * LANES)
            here = shuffle(both[1], both[1], [LANES - 1] * LANES)
        elif writes:
            store(values + i, S(best), mask)
            store(places + i, i64(here), mask)
        i += LANES
    value[0] = extract(best, 0)
    at[0] = i64(extract(here, 0))


def pairs(replaces):  # type: ignore[no-untyped-def]
    """Return the function that joins an earlier pair of element and place with a later one."""

    def joined(a, b):  # type: ignore[no-untyped-def]
        taken = replaces(a[0], b[0])
        return [select(taken, y, x) for x, y in zip(a, b, strict=True)]

    return joined


@loop
def rows_task(d: pointer(i8), first: i64, last: i64, *, S, A, PLACE, LANES, replaces, writes) -> void:
    """Scan pieces of rows; ``writes=False``: only find the pair at the end of each piece."""
    t = cast(d, pointer(i64))
    one = stack(A, 1)
    two = stack(i64, 1)
    for task in range(first, last):
        row = task // t[PIECES]
        piece = task - row * t[PIECES]
        start = piece * t[SHARE]
        stop = minimum(start + t[SHARE], t[LENGTH])
        x = cast(t[SOURCE], pointer(S)) + row * t[STEP]
        value = one if t[PIECES] == 1 else cast(t[CARRIED], pointer(A)) + task
        place = two if t[PIECES] == 1 else cast(t[CARRIED_PLACES], pointer(i64)) + task
        begins = i64(1) if not writes else i64(piece == 0)
        if begins != 0:
            value[0] = A(x[start])
            place[0] = start
        values = cast(t[VALUES], pointer(S)) + row * t[LENGTH]
        places = cast(t[PLACES], pointer(i64)) + row * t[LENGTH]
        run(x, values, places, start, stop, value, place, S=S, A=A, PLACE=PLACE, LANES=LANES, replaces=replaces,
            writes=writes)  # fmt: skip


@loop(inline=True)
def describe(t, x, values, places, n, step):  # type: ignore[no-untyped-def]
    """Write what both entry points know into the block for tasks."""
    t[SOURCE] = address(data(x, i8))
    t[VALUES] = address(data(values, i8))
    t[PLACES] = address(data(places, i8))
    t[LENGTH] = n
    t[STEP] = step


@loop(brief=True, cold=True)
def running_in_rows(
    pool: pointer(i8), x: array, values: array, places: array, rows: i64, n: i64, step: i64,
    *, S, A, PLACE, LANES, replaces,
) -> void:  # fmt: skip
    """Scan rows of n adjacent elements, ``step`` elements apart."""
    t = stack(i64, 32)
    describe(t, x, values, places, n, step)
    pieces, chunk = cut(t, rows, n, LANES)
    carried = stack(A, MOST)
    carried_places = stack(i64, MOST)
    t[CARRIED] = address(carried)
    t[CARRIED_PLACES] = address(carried_places)
    block = cast(t, pointer(i8))
    if pieces > 1:
        ends = function_pointer(rows_task, S=S, A=A, PLACE=PLACE, LANES=LANES, replaces=replaces, writes=False)
        parallel(pool, ends, block, rows * pieces, chunk)
        for row in range(rows):
            # the pairs at the ends of the pieces become those before them
            best = carried[row * pieces]
            here = carried_places[row * pieces]
            for k in range(row * pieces + 1, row * pieces + pieces):
                own = carried[k]
                place = carried_places[k]
                carried[k] = best
                carried_places[k] = here
                if replaces(best, own):
                    best = own
                    here = place
    task = function_pointer(rows_task, S=S, A=A, PLACE=PLACE, LANES=LANES, replaces=replaces, writes=True)
    parallel(pool, task, block, rows * pieces, chunk)


@loop
def strips_task(d: pointer(i8), first: i64, last: i64, *, S, A, PLACE, LANES, replaces) -> void:
    """Scan strips of columns."""
    t = cast(d, pointer(i64))
    for task in range(first, last):
        outer = task // t[STRIPS]
        column = (task - outer * t[STRIPS]) * (VECTORS * LANES)
        masks = [first_lanes(t[INNER] - column - k * LANES, LANES) for k in unroll(VECTORS)]
        x = cast(t[SOURCE], pointer(S)) + (outer * t[STEP] + column)
        to = outer * t[LENGTH] * t[INNER] + column
        best = [A(load(x + h * LANES, LANES, masks[h])) for h in unroll(VECTORS)]
        here = [splat(PLACE(0), LANES) for g in unroll(VECTORS)]
        for r in range(t[LENGTH]):
            for j in unroll(VECTORS):
                v = A(load(x + j * LANES, LANES, masks[j]))
                taken = replaces(best[j], v)
                best[j] = select(taken, v, best[j])
                here[j] = select(taken, splat(PLACE(r), LANES), here[j])
                store(cast(t[VALUES], pointer(S)) + (to + j * LANES), S(best[j]), masks[j])
                store(cast(t[PLACES], pointer(i64)) + (to + j * LANES), i64(here[j]), masks[j])
            x += t[INNER]
            to += t[INNER]


@loop(brief=True, cold=True)
def running_in_columns(
    pool: pointer(i8), x: array, values: array, places: array, outer: i64, n: i64, inner: i64, step: i64,
    *, S, A, PLACE, LANES, replaces,
) -> void:  # fmt: skip
    """Scan along the middle of (outer, n, inner), whose last two are contiguous; ``step`` as in running_in_rows."""
    t = stack(i64, 32)
    describe(t, x, values, places, n, step)
    t[INNER] = inner
    width = VECTORS * LANES
    strips = (inner + width - 1) // width
    t[STRIPS] = strips
    chunk = PIECE // (n * (i64(width) if inner > width else inner))
    task = function_pointer(strips_task, S=S, A=A, PLACE=PLACE, LANES=LANES, replaces=replaces)
    parallel(pool, task, cast(t, pointer(i8)), outer * strips, i64(1) if chunk < 1 else chunk)
