"""Reductions over any axes of any layout.

Method: the axes are sorted by stride and merged (``axes.py``). If the axis with adjacent elements is reduced, a *row*
of up to 2,048 elements is combined in eight vectors, and the rows pairwise. If it is kept, *strips* of eight vectors of
columns are combined over groups of 16 rows, and the groups pairwise; a task reads eight strips, a *band*, row by row.
Rows and bands are cut over the pool; where there are few of them, each is cut into pieces, whose results are combined
pairwise as well. Other layouts are declined.

Note [Sums are pairwise]
~~~~~~~~~~~~~~~~~~~~~~~~
Partial results are joined like the digits of a binary counter: two of the same size at a time. The error of a sum thus
grows with the logarithm of its length, and is that of NumPy's pairwise summation. Everything is cut by sizes alone, so
the bits of a result do not depend on the number of threads. Guarded by ``tests/backends/test_reduction_loops.py``.

Note [Reductions need no identity]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Accumulators begin with elements, the lanes beyond a short row are never combined with others, and a remainder changes
only its own lanes. A function without identity is therefore reduced like any other, and so is the smallest element of
a row of infinities.

Limit: memory. Measured at 2**20 float32 in the second-level cache, see ``benchmarks/RESULTS.md``.
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
    vector,
    void,
    zeros,
)
from ...pool.region import parallel
from .axes import AXES, offset, plan, product

__all__ = ["reduce_columns", "reduce_rows"]

BLOCK = 2048  # elements of a row that are combined before they join others
GROUP = 16  # rows of a strip that are combined before they join others
PIECE = 1 << 15  # elements that one task combines: 3 microseconds of work or more
VECTORS = 8  # accumulators
STRIPS = 8  # of a band, which a task reads row by row: a page of float32 or less
MOST = 32  # pieces of all bands together
LEVELS = 40  # of the binary counter: more than a 64-bit address space has elements in groups

# Places in a block for tasks, after its axes: what a task needs to know.
SOURCE, RESULT, KEPT, REDUCED, LENGTH, STEP, PARTS, ITEMS, PIECES, SHARE, PARTIAL, COLUMNS, BANDS = range(
    AXES, AXES + 13
)


@loop
def count_in(
    levels: pointer(A), width: i64, count: i64, values: pointer(A), vectors: i64, *, A, LANES, combine
) -> void:
    """Join a result of several vectors with those of its size, then keep it: the counter held ``count`` before."""
    for k in range(vectors):
        acc = load(values + k * LANES, LANES)
        rest = count
        place = levels + k * LANES
        while rest & 1 != 0:
            acc = combine(load(place, LANES), acc)
            rest = rest >> 1
            place += width
        store(place, acc)


@loop(cold=True)
def count_out(levels: pointer(A), width: i64, count: i64, to: pointer(A), vectors: i64, *, A, LANES, combine) -> void:
    """Join all results of a counter, of which there is at least one."""
    for k in range(vectors):
        rest = count
        place = levels + k * LANES
        while rest & 1 == 0:
            rest = rest >> 1
            place += width
        acc = load(place, LANES)
        rest = rest >> 1
        while rest != 0:
            place += width
            if rest & 1 != 0:
                acc = combine(load(place, LANES), acc)
            rest = rest >> 1
        store(to + k * LANES, acc)


@loop(cold=True)
def fold(values: pointer(A), width: i64, count: i64, vectors: i64, *, A, LANES, combine) -> void:
    """Join ``count`` results of several vectors pairwise, in place, into the first."""
    m = count
    while m > 1:
        for j in range(m // 2):
            for k in range(vectors):
                first = values + (2 * j * width + k * LANES)
                both = combine(load(first, LANES), load(first + width, LANES))
                store(values + (j * width + k * LANES), both)
        if m & 1 != 0:
            for h in range(vectors):
                store(values + ((m // 2) * width + h * LANES), load(values + ((m - 1) * width + h * LANES), LANES))
        m = (m + 1) // 2


# ---- rows: adjacent elements are combined


@loop(inline=False)
def row(p: pointer(S), n: i64, *, S, A, LANES, element, combine) -> vector(A, LANES):
    """Combine the elements of a row; of fewer than LANES elements, the lanes beyond are undefined."""
    acc = element(load(p, LANES, first_lanes(n, LANES)))
    i = i64(LANES)
    if n >= VECTORS * LANES:
        parts = [element(load(p + k * LANES, LANES)) for k in unroll(VECTORS)]
        i = i64(VECTORS * LANES)
        while i + VECTORS * LANES <= n:
            for j in unroll(VECTORS):
                parts[j] = combine(parts[j], element(load(p + (i + j * LANES), LANES)))
            i += VECTORS * LANES
        for half in unroll((4, 2, 1)):
            for m in unroll(half):
                parts[m] = combine(parts[m], parts[m + half])
        acc = parts[0]
    while i + LANES <= n:
        acc = combine(acc, element(load(p + i, LANES)))
        i += LANES
    if i < n:
        mask = first_lanes(n - i, LANES)
        acc = select(mask, combine(acc, element(load(p + i, LANES, mask))), acc)
    return acc


@loop(inline=True)
def lanes_joined(v, n, *, LANES, combine):
    """Combine the first ``n`` lanes."""
    for half in unroll([LANES >> k for k in range(1, LANES.bit_length())]):
        upper = shuffle(v, v, [k + half if k + half < LANES else k for k in range(LANES)])
        v = select(iota(i64, LANES) + half < splat(n, LANES), combine(v, upper), v)
    return extract(v, 0)


@loop
def span(t: pointer(i64), p: pointer(S), first: i64, last: i64, *, S, A, LANES, element, combine, stop) -> vector(
    A, LANES
):
    """Combine the blocks ``first`` to ``last`` of all rows that belong to one result."""
    n = t[LENGTH]
    blocks = t[PARTS]
    levels = stack(A, LEVELS * LANES)
    one = stack(A, LANES)
    count = i64(0)
    for item in range(first, last):
        outer = item // blocks
        block = item - outer * blocks
        q = cast(cast(p, pointer(i8)) + offset(t + 48, 1, t[REDUCED], outer, 1), pointer(S)) + block * BLOCK
        length = n - block * BLOCK if block + 1 == blocks else BLOCK
        v = row(q, length, S=S, A=A, LANES=LANES, element=element, combine=combine)
        if stop is not None and lanes_joined(v, n, LANES=LANES, combine=combine) == stop:
            return v
        store(one, v)
        count_in(levels, LANES, count, one, 1, A=A, LANES=LANES, combine=combine)
        count += 1
    count_out(levels, LANES, count, one, 1, A=A, LANES=LANES, combine=combine)
    return load(one, LANES)


@loop
def rows_task(d: pointer(i8), first: i64, last: i64, *, S, A, R, LANES, element, combine, stop) -> void:
    """Compute results, each from its rows."""
    t = cast(d, pointer(i64))
    for k in range(first, last):
        p = cast(t[SOURCE] + offset(t, 0, t[KEPT], k, 1), pointer(S))
        v = zeros(A, LANES)
        if t[ITEMS] == 1:
            v = row(p, t[LENGTH], S=S, A=A, LANES=LANES, element=element, combine=combine)
        else:
            v = span(t, p, 0, t[ITEMS], S=S, A=A, LANES=LANES, element=element, combine=combine, stop=stop)
        keep(t, k, v, A=A, R=R, LANES=LANES, combine=combine)


@loop(inline=True)
def keep(t: pointer(i64), k: i64, v: vector(A, LANES), *, A, R, LANES, combine) -> void:
    """Store a result."""
    to = cast(t[RESULT] + offset(t, 0, t[KEPT], k, 2), pointer(R))
    to[0] = R(lanes_joined(v, t[LENGTH], LANES=LANES, combine=combine))


@loop(cold=True)
def pieces_task(d: pointer(i8), first: i64, last: i64, *, S, A, LANES, element, combine, stop) -> void:
    """Compute partial results, each from a piece of the rows of one result."""
    t = cast(d, pointer(i64))
    for task in range(first, last):
        k = task // t[PIECES]
        start = (task - k * t[PIECES]) * t[SHARE]
        end = start + t[SHARE]
        end = minimum(end, t[ITEMS])
        p = cast(t[SOURCE] + offset(t, 0, t[KEPT], k, 1), pointer(S))
        v = span(t, p, start, end, S=S, A=A, LANES=LANES, element=element, combine=combine, stop=stop)
        store(cast(t[PARTIAL], pointer(A)) + task * LANES, v)


@loop(cold=True)
def cut(t: pointer(i64), limit: i64, elements: i64) -> void:
    """Cut the items of each result into at most ``limit`` pieces of at least PIECE elements, by sizes alone."""
    items = t[ITEMS]
    pieces = elements // PIECE
    pieces = minimum(pieces, limit)
    pieces = minimum(pieces, items)
    pieces = i64(1) if pieces < 1 else pieces
    share = (items + pieces - 1) // pieces
    t[SHARE] = share
    t[PIECES] = (items + share - 1) // share


@loop(brief=True, cold=True)
def reduce_rows(
    pool: pointer(i8), x: array, out: array, reduced: i64, *, S, A, R, LANES, element, combine, stop
) -> i64:
    """Reduce if adjacent elements are combined, and return 0; else return 1."""
    t = stack(i64, AXES + 16)
    t[SOURCE] = plan(x, t, t + KEPT, reduced, S.size, R.size)
    if t[49] != S.size:
        return 1
    t[RESULT] = address(data(out, i8))
    n = t[48]
    t[LENGTH] = n
    t[PARTS] = n // BLOCK if n >= BLOCK else 1
    outer = product(t + 48, 1, t[REDUCED])
    t[ITEMS] = outer * t[PARTS]
    kept = product(t, 0, t[KEPT])
    elements = outer * n
    if stop is not None and kept == 1:
        head = row(cast(t[SOURCE], pointer(S)), minimum(n, BLOCK), S=S, A=A, LANES=LANES, element=element,
                   combine=combine)  # fmt: skip
        found = lanes_joined(head, n, LANES=LANES, combine=combine)
        if found == stop:
            cast(t[RESULT], pointer(R))[0] = R(found)
            return 0
    cut(t, 128 // kept, elements)
    pieces = t[PIECES]
    if pieces == 1:
        chunk = PIECE // elements
        task = function_pointer(rows_task, S=S, A=A, R=R, LANES=LANES, element=element, combine=combine, stop=stop)
        parallel(pool, task, cast(t, pointer(i8)), kept, i64(1) if chunk < 1 else chunk)
        return 0
    partial = stack(A, 128 * LANES)
    t[PARTIAL] = address(partial)
    part = function_pointer(pieces_task, S=S, A=A, LANES=LANES, element=element, combine=combine, stop=stop)
    parallel(pool, part, cast(t, pointer(i8)), kept * pieces, 1)
    for k in range(kept):
        q = partial + k * pieces * LANES
        fold(q, LANES, pieces, 1, A=A, LANES=LANES, combine=combine)
        keep(t, k, load(q, LANES), A=A, R=R, LANES=LANES, combine=combine)
    return 0


# ---- columns: adjacent elements belong to adjacent results


@loop(inline=False)
def strip(p: i64, step: i64, rows: i64, columns: i64, to: pointer(A), *, S, A, LANES, element, combine) -> void:
    """Combine a group of rows of a strip, which has up to VECTORS * LANES columns."""
    if columns >= VECTORS * LANES:
        acc = [element(load(cast(p, pointer(S)) + h * LANES, LANES)) for h in unroll(VECTORS)]
        q = p
        for _r in range(1, rows):
            q += step
            for j in unroll(VECTORS):
                acc[j] = combine(acc[j], element(load(cast(q, pointer(S)) + j * LANES, LANES)))
        for m in unroll(VECTORS):
            store(to + m * LANES, acc[m])
        return
    if columns < LANES:
        only = first_lanes(columns, LANES)
        few = element(load(cast(p, pointer(S)), LANES, only))
        for r in range(1, rows):
            few = combine(few, element(load(cast(p + r * step, pointer(S)), LANES, only)))
        store(to, few)
        return
    for v in range((columns + LANES - 1) // LANES):
        start = minimum(v * LANES, columns - LANES)  # the last vector may begin in the one before
        first = p + start * S.size
        total = element(load(cast(first, pointer(S)), LANES))
        for i in range(1, rows):
            total = combine(total, element(load(cast(first + i * step, pointer(S)), LANES)))
        store(to + start, total)


@loop
def band(
    t: pointer(i64), p: i64, columns: i64, first: i64, last: i64, to: pointer(A),
    *, S, A, LANES, element, combine,
) -> void:  # fmt: skip
    """Combine the groups ``first`` to ``last`` of a band; a group is read strip by strip, so row by row in memory."""
    n = t[LENGTH]
    groups = t[PARTS]
    width = VECTORS * LANES
    levels = stack(A, LEVELS * STRIPS * VECTORS * LANES)
    count = i64(0)
    for item in range(first, last):
        outer = item // groups
        group = item - outer * groups
        q = p + offset(t + 48, 1, t[REDUCED], outer, 1) + group * GROUP * t[STEP]
        rows = n - group * GROUP if group + 1 == groups else GROUP
        for k in range((columns + width - 1) // width):
            one = to + k * width
            strip(q + k * width * S.size, t[STEP], rows, columns - k * width, one, S=S, A=A, LANES=LANES,
                  element=element, combine=combine)  # fmt: skip
            if last - first > 1:
                held = minimum(VECTORS, (columns - k * width + LANES - 1) // LANES)
                count_in(levels + k * width, STRIPS * width, count, one, held, A=A, LANES=LANES, combine=combine)
        count += 1
    if last - first > 1:
        vectors = (columns + LANES - 1) // LANES
        count_out(levels, STRIPS * width, count, to, vectors, A=A, LANES=LANES, combine=combine)


@loop
def bands_task(d: pointer(i8), first: i64, last: i64, *, S, A, R, LANES, element, combine) -> void:
    """Compute pieces of bands; a band of one piece is finished, others are left in the block of partial results."""
    t = cast(d, pointer(i64))
    width = STRIPS * VECTORS * LANES
    acc = stack(A, width)
    for task in range(first, last):
        at = task // t[PIECES]
        start = (task - at * t[PIECES]) * t[SHARE]
        end = start + t[SHARE]
        end = minimum(end, t[ITEMS])
        k = at // t[BANDS]
        column = (at - k * t[BANDS]) * width
        p = t[SOURCE] + offset(t, 1, t[KEPT], k, 1) + column * S.size
        columns = t[COLUMNS] - column
        columns = i64(width) if columns > width else columns
        to = acc if t[PIECES] == 1 else cast(t[PARTIAL], pointer(A)) + task * width
        band(t, p, columns, start, end, to, S=S, A=A, LANES=LANES, element=element, combine=combine)
        if t[PIECES] == 1:
            finish(t, at, to, A=A, R=R, LANES=LANES)


@loop
def finish(t: pointer(i64), at: i64, values: pointer(A), *, A, R, LANES) -> void:
    """Store the results of a band."""
    k = at // t[BANDS]
    column = (at - k * t[BANDS]) * (STRIPS * VECTORS * LANES)
    out = cast(t[RESULT] + offset(t, 1, t[KEPT], k, 2), pointer(R)) + column
    columns = t[COLUMNS] - column
    for j in range(STRIPS * VECTORS):
        mask = first_lanes(columns - j * LANES, LANES)
        store(out + j * LANES, R(load(values + j * LANES, LANES)), mask)


@loop(brief=True, cold=True)
def reduce_columns(pool: pointer(i8), x: array, out: array, reduced: i64, *, S, A, R, LANES, element, combine) -> i64:
    """Reduce if adjacent elements belong to adjacent results, and return 0; else return 1."""
    t = stack(i64, AXES + 16)
    t[SOURCE] = plan(x, t, t + KEPT, reduced, S.size, R.size)
    if t[KEPT] == 0:
        return 1
    if (t[1] != S.size) | (t[2] != R.size):
        return 1
    t[RESULT] = address(data(out, i8))
    n = t[48]
    t[LENGTH] = n
    t[STEP] = t[49]
    t[PARTS] = n // GROUP if n >= GROUP else 1
    outer = product(t + 48, 1, t[REDUCED])
    t[ITEMS] = outer * t[PARTS]
    width = STRIPS * VECTORS * LANES
    columns = t[0]
    t[COLUMNS] = columns
    t[BANDS] = (columns + width - 1) // width
    bands = t[BANDS] * product(t, 1, t[KEPT])
    elements = outer * n * (i64(width) if columns > width else columns)
    cut(t, MOST // bands, elements)
    partial = stack(A, MOST * width)
    t[PARTIAL] = address(partial)
    pieces = t[PIECES]
    chunk = i64(1)
    if pieces == 1:
        chunk = PIECE // elements
        chunk = i64(1) if chunk < 1 else chunk
    task = function_pointer(bands_task, S=S, A=A, R=R, LANES=LANES, element=element, combine=combine)
    parallel(pool, task, cast(t, pointer(i8)), bands * pieces, chunk)
    if pieces > 1:
        for at in range(bands):
            q = partial + at * pieces * width
            fold(q, width, pieces, STRIPS * VECTORS, A=A, LANES=LANES, combine=combine)
            finish(t, at, q, A=A, R=R, LANES=LANES)
    return 0
