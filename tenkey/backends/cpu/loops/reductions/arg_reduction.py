"""Places of the best elements along an axis of an array (outer, n, inner): ``argmax`` and its kind.

Method: each lane keeps the best element so far and its place, by one comparison and two choices per vector; the lanes
are compared at the end, the earlier place first at a tie. A long row is cut into pieces, whose bests are compared in
order. With inner > 1, lanes are adjacent columns. Places are 32 bits wide beside elements of up to 32 bits.

Limit: memory; and the comparisons, of which a NaN needs three. See ``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

from ....llvm import (
    address,
    array,
    cast,
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

__all__ = ["place_in_columns", "place_in_rows"]

PIECE = 1 << 15  # elements of a piece, which has 32-bit places
UNROLL = 4
VECTORS = 8
SOURCE, RESULT, LENGTH, STEP, PIECES, SHARE, VALUES, PLACES, INNER, STRIPS = range(10)


@loop
def best(p: pointer(S), n: i64, value: pointer(A), *, S, A, PLACE, LANES, element, better) -> i64:
    """Return the place of the best of n elements, and store that element."""
    valid = first_lanes(n, LANES)
    top = [element(load(p, LANES, valid)) for k in unroll(UNROLL)]
    at = [iota(PLACE, LANES) for h in unroll(UNROLL)]
    i = i64(LANES)
    while i + UNROLL * LANES <= n:
        for j in unroll(UNROLL):
            v = element(load(p + (i + j * LANES), LANES))
            take = better(v, top[j])
            top[j] = select(take, v, top[j])
            at[j] = select(take, iota(PLACE, LANES) + splat(PLACE(i + j * LANES), LANES), at[j])
        i += UNROLL * LANES
    while i < n:
        mask = first_lanes(n - i, LANES)
        w = element(load(p + i, LANES, mask))
        takes = mask & better(w, top[0])
        top[0] = select(takes, w, top[0])
        at[0] = select(takes, iota(PLACE, LANES) + splat(PLACE(i), LANES), at[0])
        i += LANES
    x, place = top[0], at[0]
    for m in unroll([1, 2, 3]):
        earlier = first_of(top[m], at[m], x, place, better)
        x, place = select(earlier, top[m], x), select(earlier, at[m], place)
    for half in unroll([LANES >> q for q in range(1, LANES.bit_length())]):
        order = [lane + half if lane + half < LANES else lane for lane in range(LANES)]
        y, other = shuffle(x, x, order), shuffle(place, place, order)
        here = first_of(y, other, x, place, better) & first_lanes(n - half, LANES)
        x, place = select(here, y, x), select(here, other, place)
    value[0] = extract(x, 0)
    return i64(extract(place, 0))


def first_of(x, place, y, other, better):  # type: ignore[no-untyped-def]
    """Return where ``x`` comes before ``y``: it is better, or as good and earlier."""
    return better(x, y) | ((place < other) & ~better(y, x))


@loop
def rows_task(d: pointer(i8), first: i64, last: i64, *, S, A, PLACE, LANES, element, better) -> void:
    """Find places in pieces of rows."""
    t = cast(d, pointer(i64))
    value = stack(A, 1)
    for task in range(first, last):
        row = task // t[PIECES]
        start = (task - row * t[PIECES]) * t[SHARE]
        rest = t[LENGTH] - start
        n = minimum(rest, t[SHARE])
        p = cast(t[SOURCE] + row * t[STEP], pointer(S)) + start
        place = best(p, n, value, S=S, A=A, PLACE=PLACE, LANES=LANES, element=element, better=better)
        if t[PIECES] == 1:
            cast(t[RESULT], pointer(i64))[row] = place
        else:
            cast(t[VALUES], pointer(A))[task] = value[0]
            cast(t[PLACES], pointer(i64))[task] = start + place


@loop(brief=True, cold=True)
def place_in_rows(
    pool: pointer(i8), x: array, out: array, rows: i64, n: i64, step: i64,
    *, S, A, PLACE, LANES, element, better,
) -> void:  # fmt: skip
    """Find the places in rows of n adjacent elements, ``step`` bytes apart."""
    t = stack(i64, 16)
    t[SOURCE] = address(data(x, i8))
    t[RESULT] = address(data(out, i8))
    t[LENGTH] = n
    t[STEP] = step
    pieces = n // PIECE
    most = 512 // rows if n < 1 << 30 else n >> 30
    pieces = minimum(pieces, most)
    pieces = i64(1) if pieces < 1 else pieces
    share = (n + pieces - 1) // pieces
    t[SHARE] = share
    pieces = (n + share - 1) // share
    t[PIECES] = pieces
    values = stack(A, 512)
    places = stack(i64, 512)
    t[VALUES] = address(values)
    t[PLACES] = address(places)
    chunk = PIECE // share
    task = function_pointer(rows_task, S=S, A=A, PLACE=PLACE, LANES=LANES, element=element, better=better)
    parallel(pool, task, cast(t, pointer(i8)), rows * pieces, i64(1) if chunk < 1 else chunk)
    if pieces > 1:
        for row in range(rows):
            found = row * pieces
            for k in range(row * pieces + 1, row * pieces + pieces):
                if better(values[k], values[found]):
                    found = k
            data(out, i64)[row] = places[found]


@loop
def strips_task(d: pointer(i8), first: i64, last: i64, *, S, A, PLACE, LANES, element, better) -> void:
    """Find the places in strips of columns."""
    t = cast(d, pointer(i64))
    for task in range(first, last):
        outer = task // t[STRIPS]
        column = (task - outer * t[STRIPS]) * (VECTORS * LANES)
        p = cast(t[SOURCE] + outer * t[STEP], pointer(S)) + column
        masks = [first_lanes(t[INNER] - column - k * LANES, LANES) for k in unroll(VECTORS)]
        top = [element(load(p + h * LANES, LANES, masks[h])) for h in unroll(VECTORS)]
        at = [splat(PLACE(0), LANES) for g in unroll(VECTORS)]
        for r in range(1, t[LENGTH]):
            p += t[INNER]
            for j in unroll(VECTORS):
                v = element(load(p + j * LANES, LANES, masks[j]))
                take = better(v, top[j])
                top[j] = select(take, v, top[j])
                at[j] = select(take, splat(PLACE(r), LANES), at[j])
        out = cast(t[RESULT], pointer(i64)) + (outer * t[INNER] + column)
        for m in unroll(VECTORS):
            store(out + m * LANES, i64(at[m]), masks[m])


@loop(brief=True, cold=True)
def place_in_columns(
    pool: pointer(i8), x: array, out: array, outer: i64, n: i64, inner: i64, step: i64,
    *, S, A, PLACE, LANES, element, better,
) -> void:  # fmt: skip
    """Find the places along the middle of (outer, n, inner), where the last two are contiguous."""
    t = stack(i64, 16)
    t[SOURCE] = address(data(x, i8))
    t[RESULT] = address(data(out, i8))
    t[LENGTH] = n
    t[STEP] = step
    t[INNER] = inner
    width = VECTORS * LANES
    strips = (inner + width - 1) // width
    t[STRIPS] = strips
    chunk = PIECE // (n * (i64(width) if inner > width else inner))
    task = function_pointer(strips_task, S=S, A=A, PLACE=PLACE, LANES=LANES, element=element, better=better)
    parallel(pool, task, cast(t, pointer(i8)), outer * strips, i64(1) if chunk < 1 else chunk)
