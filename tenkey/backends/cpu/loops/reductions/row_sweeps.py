"""Operators that are a few sweeps over each row: softmax, layer norm, variances, cross entropy and their gradients.

Method: the sweeps come from the operator's block (facet ``Rows``): each computes elements, numbers for the whole row
and sums over all rows. A row stays in the first-level cache between its sweeps, so an operator reads
and writes memory once. Rows are cut over the pool; a long row that is alone is cut itself, one region for each sweep.
Along another axis than the last, lanes are adjacent columns, which are rows of their own.

Sums over rows are formed for groups of rows, whose number depends on sizes alone; the groups are summed by the caller.

Limit: the exponential function, otherwise memory. See ``benchmarks/RESULTS.md``.
"""

from __future__ import annotations

from ....llvm import (
    across,
    address,
    array,
    cast,
    data,
    fill_bytes,
    first_lanes,
    function_pointer,
    i8,
    i64,
    load,
    loop,
    minimum,
    pointer,
    select,
    splat,
    stack,
    store,
    unroll,
    void,
)
from ...pool.region import parallel

__all__ = ["columns", "long_rows", "rows"]

BLOCK = 4096  # elements that one call of a sweep sums
PIECE = 1 << 15  # elements of a long row that one task takes
VECTORS = 4  # of columns
DEPTH = 128  # rows whose columns are summed before they join the sums of others
SLOTS = 32  # numbers of a row
LENGTH, INNER, ROWS, GROUP, NUMBERS, PARTIAL, SHARE = 16, 17, 18, 19, 20, 21, 22


@loop(inline=False)
def sweep(p: pointer(i64), numbers: pointer(A), first: i64, last: i64, *, program, step, A, LANES) -> void:
    """Make one sweep over some elements of a row, and join its results with those of the elements before."""
    known = program.known(step, numbers, LANES)
    ends = program.pointers(p)
    count = program.unrolled(step)
    folds = program.folds[step]
    acc = program.neutrals(step, count, LANES)
    i = first
    while i + count * LANES <= last:
        for u in unroll(count):
            found = program.elements(step, known, ends, i + u * LANES, None, LANES)
            for f in unroll(len(folds)):
                acc[f * count + u] = folds[f].combine(acc[f * count + u], found[f])
        i += count * LANES
    while i < last:
        mask = first_lanes(last - i, LANES)
        rest = program.elements(step, known, ends, i, mask, LANES)
        for g in unroll(len(folds)):
            own = select(mask, rest[g], splat(A(folds[g].neutral), LANES))
            acc[g * count] = folds[g].combine(acc[g * count], own)
        i += LANES
    for h in unroll(len(folds)):
        total = acc[h * count]
        for m in unroll(range(1, count)):
            total = folds[h].combine(total, acc[h * count + m])
        slot = folds[h].slot
        numbers[slot] = folds[h].combine(numbers[slot], across(total, folds[h].combine))


@loop
def begin(t: pointer(i64), p: pointer(i64), numbers: pointer(A), row: i64, *, program, A) -> void:
    """Set the pointers and numbers of a row."""
    n = t[LENGTH]
    for k in unroll(len(program.arrays)):
        if program.arrays[k].role == "row":
            p[k] = t[k] + row * n * A.size
        elif program.arrays[k].role == "group":
            p[k] = t[k] + row // t[GROUP] * n * A.size
        else:
            p[k] = t[k]
        if program.arrays[k].slot is not None:
            numbers[program.arrays[k].slot] = cast(t[k], pointer(A))[row]
    given = cast(t[NUMBERS], pointer(A))
    for h in unroll(len(program.numbers)):
        numbers[program.numbers[h]] = given[h]


@loop
def end(t: pointer(i64), numbers: pointer(A), row: i64, *, program, A) -> void:
    """Store the numbers of a row that are results."""
    for k in unroll(len(program.arrays)):
        if program.arrays[k].result_slot is not None:
            cast(t[k], pointer(A))[row] = numbers[program.arrays[k].result_slot]


@loop
def rows_task(d: pointer(i8), first: i64, last: i64, *, program, A, LANES) -> void:
    """Compute groups of rows."""
    t = cast(d, pointer(i64))
    p = stack(i64, 16)
    numbers = stack(A, SLOTS)
    n = t[LENGTH]
    for k in unroll(len(program.arrays)):
        if program.arrays[k].role == "group":
            fill_bytes(cast(t[k], pointer(i8)) + first * n * A.size, 0, (last - first) * n * A.size)
    stop = last * t[GROUP]
    stop = minimum(stop, t[ROWS])
    for row in range(first * t[GROUP], stop):
        begin(t, p, numbers, row, program=program, A=A)
        for step in unroll(program.steps):
            for fold in unroll(program.folds[step]):
                numbers[fold.slot] = A(fold.neutral)
            for block in range((n + BLOCK - 1) // BLOCK):
                until = (block + 1) * BLOCK
                sweep(p, numbers, block * BLOCK, minimum(until, n), program=program, step=step, A=A, LANES=LANES)
            program.after(step, numbers, 1, 0)
        end(t, numbers, row, program=program, A=A)


@loop(inline=True)
def prepare(t, x0, x1, x2, x3, x4, x5, given, n, inner, count, group, program):  # type: ignore[no-untyped-def]
    arrays = [x0, x1, x2, x3, x4, x5]
    for k in unroll(len(program.arrays)):
        t[k] = address(data(arrays[k], i8))
    t[LENGTH] = n
    t[INNER] = inner
    t[ROWS] = count
    t[GROUP] = group
    t[NUMBERS] = address(data(given, i8))


@loop(brief=True, cold=True)
def rows(
    pool: pointer(i8), x0: array, x1: array, x2: array, x3: array, x4: array, x5: array, given: array,
    n: i64, count: i64, group: i64, *, program, A, LANES,
) -> void:  # fmt: skip
    """Compute ``count`` rows of n adjacent elements, in groups."""
    t = stack(i64, 32)
    prepare(t, x0, x1, x2, x3, x4, x5, given, n, i64(1), count, group, program)
    task = function_pointer(rows_task, program=program, A=A, LANES=LANES)
    parallel(pool, task, cast(t, pointer(i8)), (count + group - 1) // group, 1)


# ---- long rows


@loop
def piece_task(d: pointer(i8), first: i64, last: i64, *, program, step, A, LANES) -> void:
    """Make one sweep over pieces of a row."""
    t = cast(d, pointer(i64))
    numbers = stack(A, SLOTS)
    shared = cast(t[GROUP], pointer(A))
    folds = program.folds[step]
    for piece in range(first, last):
        for k in range(SLOTS):
            numbers[k] = shared[k]
        for fold in unroll(folds):
            numbers[fold.slot] = A(fold.neutral)
        start = piece * t[SHARE]
        while start < minimum((piece + 1) * t[SHARE], t[LENGTH]):
            until = minimum(start + BLOCK, minimum((piece + 1) * t[SHARE], t[LENGTH]))
            sweep(t, numbers, start, until, program=program, step=step, A=A, LANES=LANES)
            start = until
        for f in unroll(len(folds)):
            cast(t[PARTIAL], pointer(A))[piece * len(folds) + f] = numbers[folds[f].slot]


@loop(brief=True, cold=True)
def long_rows(
    pool: pointer(i8), x0: array, x1: array, x2: array, x3: array, x4: array, x5: array, given: array,
    n: i64, count: i64, *, program, A, LANES,
) -> void:  # fmt: skip
    """Compute rows one after the other, each sweep of each in pieces."""
    t = stack(i64, 32)
    p = stack(i64, 32)
    numbers = stack(A, SLOTS)
    partial = stack(A, 1024)
    prepare(t, x0, x1, x2, x3, x4, x5, given, n, i64(1), count, i64(1) << 60, program)
    share = minimum((n + 127) // 128, i64(1) << 60)
    share = i64(PIECE) if share < PIECE else share
    share = (share + BLOCK - 1) // BLOCK * BLOCK
    pieces = (n + share - 1) // share
    p[LENGTH] = n
    p[SHARE] = share
    p[GROUP] = address(numbers)
    p[PARTIAL] = address(partial)
    for row in range(count):
        begin(t, p, numbers, row, program=program, A=A)
        for step in unroll(program.steps):
            task = function_pointer(piece_task, program=program, step=step, A=A, LANES=LANES)
            parallel(pool, task, cast(p, pointer(i8)), pieces, 1)
            folds = program.folds[step]
            for f in unroll(len(folds)):
                numbers[folds[f].slot] = partial[f]
                for piece in range(1, pieces):
                    numbers[folds[f].slot] = folds[f].combine(numbers[folds[f].slot], partial[piece * len(folds) + f])
            program.after(step, numbers, 1, 0)
        end(t, numbers, row, program=program, A=A)


# ---- columns


@loop(inline=False)
def sweep_columns(
    p: pointer(i64), numbers: pointer(A), columns: i64, inner: i64, first: i64, last: i64,
    *, program, step, A, LANES,
) -> void:  # fmt: skip
    """Make one sweep down a strip of columns, over the rows ``first`` to ``last``."""
    masks = [first_lanes(columns - k * LANES, LANES) for k in unroll(VECTORS)]
    known = [program.known(step, numbers, LANES, VECTORS * LANES, h * LANES) for h in range(VECTORS)]
    folds = program.folds[step]
    ends = program.pointers(p)
    acc = program.neutrals(step, VECTORS, LANES)
    for r in range(first, last):
        for v in unroll(VECTORS):
            found = program.elements(step, known[v], ends, r * inner + v * LANES, masks[v], LANES, r)
            for f in unroll(len(folds)):
                acc[f * VECTORS + v] = folds[f].combine(acc[f * VECTORS + v], found[f])
    for g in unroll(len(folds)):
        for w in unroll(VECTORS):
            place = numbers + (folds[g].slot * VECTORS * LANES + w * LANES)
            store(place, folds[g].combine(load(place, LANES), acc[g * VECTORS + w]))


@loop
def columns_task(d: pointer(i8), first: i64, last: i64, *, program, A, LANES) -> void:
    """Compute strips of columns."""
    t = cast(d, pointer(i64))
    p = stack(i64, 16)
    width = VECTORS * LANES
    numbers = stack(A, SLOTS * VECTORS * LANES)
    n = t[LENGTH]
    inner = t[INNER]
    strips = (inner + width - 1) // width
    given = cast(t[NUMBERS], pointer(A))
    for task in range(first, last):
        outer = task // strips
        column = (task - outer * strips) * width
        for k in unroll(len(program.arrays)):
            if program.arrays[k].role == "row":
                p[k] = t[k] + (outer * n * inner + column) * A.size
            elif program.arrays[k].role == "each":
                p[k] = t[k] + (outer * inner + column) * A.size
            else:
                p[k] = t[k]
            if program.arrays[k].slot is not None:
                for v in unroll(VECTORS):
                    mask = first_lanes(inner - column - v * LANES, LANES)
                    to = numbers + (program.arrays[k].slot * width + v * LANES)
                    store(to, load(cast(p[k], pointer(A)) + v * LANES, LANES, mask))
        for h in unroll(len(program.numbers)):
            for w in unroll(VECTORS):
                store(numbers + (program.numbers[h] * width + w * LANES), splat(given[h], LANES))
        for step in unroll(program.steps):
            for fold in unroll(program.folds[step]):
                for u in unroll(VECTORS):
                    store(numbers + (fold.slot * width + u * LANES), splat(A(fold.neutral), LANES))
            for block in range((n + DEPTH - 1) // DEPTH):
                until = minimum((block + 1) * DEPTH, n)
                sweep_columns(p, numbers, inner - column, inner, block * DEPTH, until, program=program, step=step, A=A,
                              LANES=LANES)  # fmt: skip
            for m in unroll(VECTORS):
                program.after(step, numbers + m * LANES, LANES, width)
        for q in unroll(len(program.arrays)):
            if program.arrays[q].result_slot is not None:
                for e in unroll(VECTORS):
                    edge = first_lanes(inner - column - e * LANES, LANES)
                    value = load(numbers + (program.arrays[q].result_slot * width + e * LANES), LANES)
                    store(cast(p[q], pointer(A)) + e * LANES, value, edge)


@loop(brief=True, cold=True)
def columns(
    pool: pointer(i8), x0: array, x1: array, x2: array, x3: array, x4: array, x5: array, given: array,
    n: i64, inner: i64, outer: i64, *, program, A, LANES,
) -> void:  # fmt: skip
    """Compute along the middle of contiguous arrays (outer, n, inner)."""
    t = stack(i64, 32)
    prepare(t, x0, x1, x2, x3, x4, x5, given, n, inner, outer * inner, i64(1), program)
    width = VECTORS * LANES
    strips = (inner + width - 1) // width
    chunk = PIECE // (n * minimum(inner, i64(width)))
    task = function_pointer(columns_task, program=program, A=A, LANES=LANES)
    parallel(pool, task, cast(t, pointer(i8)), outer * strips, i64(1) if chunk < 1 else chunk)
