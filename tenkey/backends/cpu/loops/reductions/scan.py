"""Running results along an axis of arrays (outer, n, inner): cumulative sums and their kind.

Method: a vector is scanned in a logarithmic number of steps, each of which combines it with itself shifted by 1, 2, 4
... lanes; then it is combined with the carry. The carry is combined with the vector's last lane alone, so that
successive vectors wait for one operation only. A long row takes two passes: the results of its pieces, of which the
carries follow, and the scan of each piece. With inner > 1, lanes are adjacent columns, and rows are combined.

Note [Sums are carried in double precision]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A running sum or product of float32 is computed in float64 and rounded once per element, as in PyTorch: its error is
that of one rounding, whereas a sum in float32 loses a digit every ten thousand elements. A result depends on sizes
alone, not on the number of threads. Guarded by ``tests/backends/test_scan_loops.py``.

Limit: about seven cycles per vector of eight. See ``benchmarks/RESULTS.md``.
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

__all__ = ["scan_columns", "scan_rows"]

PIECE = 1 << 14
MOST = 512  # pieces of all rows together
VECTORS = 8
SOURCE, LENGTH, STEP, TO, PIECES, SHARE, CARRIES, INNER, STRIPS = 0, 16, 17, 18, 19, 20, 21, 22, 23
# from SOURCE: the addresses of the PARTS operands and those of the PARTS results


def scanned(v, combine, LANES):  # type: ignore[no-untyped-def]
    """Return the running results within vectors, the parts of LANES elements."""
    for shift in [1 << k for k in range(LANES.bit_length() - 1)]:
        order = [max(lane - shift, 0) for lane in range(LANES)]
        both = combine([shuffle(x, x, order) for x in v], v)
        later = ~first_lanes(shift, LANES)
        v = [select(later, new, x) for new, x in zip(both, v, strict=True)]
    return v


@loop(inline=False)
def run(
    xs: pointer(i64), x: i64, to: i64, n: i64, carry: pointer(A), begun: i64,
    *, S, A, R, LANES, PARTS, combine, writes,
) -> void:  # fmt: skip
    """Scan n elements from place ``x`` into places from ``to``; ``carry``: the result before them, if it has begun."""
    acc = [splat(carry[k], LANES) for k in unroll(PARTS)]
    started = splat(begun != 0, LANES)
    ins = [cast(xs[h], pointer(S)) + x for h in unroll(PARTS)]
    outs = [cast(xs[PARTS + g], pointer(R)) + to for g in unroll(PARTS)]
    i = i64(0)
    for FULL in unroll((True, False)):
        while i < n - (LANES - 1) if FULL else i < n:
            mask = None if FULL else first_lanes(n - i, LANES)
            v = scanned([A(load(p + i, LANES, mask)) for p in unroll(ins)], combine, LANES)
            if writes:
                both = combine(acc[:], v)
                for j in unroll(PARTS):
                    store(outs[j] + i, R(select(started, both[j], v[j])), mask)
            last = [shuffle(value, value, [LANES - 1] * LANES) for value in v]
            after = combine(acc[:], last)
            for m in unroll(PARTS):
                acc[m] = select(started, after[m], last[m])
            started = splat(n >= 0, LANES)
            i += LANES
    for q in unroll(PARTS):
        carry[q] = extract(acc[q], 0)


@loop(inline=False)
def run_in_order(
    x: pointer(S), out: pointer(R), n: i64, carry: pointer(A), begun: i64, *, S, A, R, combine, writes
) -> void:
    """Scan n elements one after the other, as ``run`` does for a single part."""
    i = i64(0)
    if begun == 0:
        carry[0] = A(x[0])
        if writes:
            out[0] = R(carry[0])
        i = 1
    acc = carry[0]
    for STEP in unroll((8, 1)):
        while i + STEP <= n:
            for k in unroll(STEP):
                acc = combine([acc], [A(x[i + k])])[0]
                if writes:
                    out[i + k] = R(acc)
            i += STEP
    carry[0] = acc


@loop
def rows_task(d: pointer(i8), first: i64, last: i64, *, S, A, R, LANES, PARTS, combine, writes) -> void:
    """Scan pieces of rows; ``writes=False``: only compute what they carry on."""
    t = cast(d, pointer(i64))
    carry = stack(A, PARTS)
    for task in range(first, last):
        row = task // t[PIECES]
        piece = task - row * t[PIECES]
        start = piece * t[SHARE]
        rest = t[LENGTH] - start
        n = minimum(rest, t[SHARE])
        x = row * t[STEP] + start
        to = row * t[TO] + start
        place = carry if t[PIECES] == 1 else cast(t[CARRIES], pointer(A)) + task * PARTS
        begun = i64(piece > 0) if writes else i64(0)
        if LANES == 1:
            source, out = cast(t[0], pointer(S)) + x, cast(t[1], pointer(R)) + to
            run_in_order(source, out, n, place, begun, S=S, A=A, R=R, combine=combine, writes=writes)
        else:
            run(t, x, to, n, place, begun, S=S, A=A, R=R, LANES=LANES, PARTS=PARTS, combine=combine, writes=writes)


@loop(inline=True)
def describe(t, x, out, n, step, to, PARTS):  # type: ignore[no-untyped-def]
    """Write what both entry points know into the block for tasks."""
    if PARTS == 1:
        t[0] = address(data(x, i8))
        t[1] = address(data(out, i8))
    else:
        for k in unroll(2 * PARTS):
            t[k] = data(x, i64)[k]
    t[LENGTH] = n
    t[STEP] = step
    t[TO] = to


@loop(inline=True)
def cut(t, rows, n, LANES):  # type: ignore[no-untyped-def]
    """Cut rows into pieces of whole vectors; return how many each has, and how many a thread claims at once."""
    pieces = minimum(n // PIECE, MOST // rows)
    pieces = i64(1) if pieces < 2 else pieces
    share = ((n + pieces - 1) // pieces + LANES - 1) // LANES * LANES  # a vector beyond the end is the last of a row
    pieces = (n + share - 1) // share
    t[SHARE] = share
    t[PIECES] = pieces
    chunk = PIECE // share
    return pieces, i64(1) if chunk < 1 else chunk


@loop(brief=True, cold=True)
def scan_rows(
    pool: pointer(i8), x: array, out: array, rows: i64, n: i64, step: i64, to: i64,
    *, S, A, R, LANES, PARTS, combine,
) -> void:  # fmt: skip
    """Scan rows of n adjacent elements, ``step`` elements apart, into rows ``to`` elements apart.

    With several parts, ``x`` holds the addresses of all operands, and then those of all results.
    """
    t = stack(i64, 32)
    describe(t, x, out, n, step, to, PARTS)
    pieces, chunk = cut(t, rows, n, LANES)
    carries = stack(A, MOST * PARTS)
    t[CARRIES] = address(carries)
    block = cast(t, pointer(i8))
    if pieces > 1:
        total = function_pointer(rows_task, S=S, A=A, R=R, LANES=LANES, PARTS=PARTS, combine=combine, writes=False)
        parallel(pool, total, block, rows * pieces, chunk)
        for row in range(rows):
            # the results of the pieces become the results before them
            q = carries + row * pieces * PARTS
            acc = [q[h] for h in unroll(PARTS)]
            for piece in range(1, pieces):
                own = [q[piece * PARTS + g] for g in unroll(PARTS)]
                for j in unroll(PARTS):
                    q[piece * PARTS + j] = acc[j]
                after = combine(acc[:], own[:])
                for m in unroll(PARTS):
                    acc[m] = after[m]
    task = function_pointer(rows_task, S=S, A=A, R=R, LANES=LANES, PARTS=PARTS, combine=combine, writes=True)
    parallel(pool, task, block, rows * pieces, chunk)


@loop
def strips_task(d: pointer(i8), first: i64, last: i64, *, S, A, R, LANES, PARTS, combine) -> void:
    """Scan strips of columns."""
    t = cast(d, pointer(i64))
    vectors = VECTORS // PARTS if PARTS < 3 else 2
    for task in range(first, last):
        outer = task // t[STRIPS]
        column = (task - outer * t[STRIPS]) * (vectors * LANES)
        masks = [first_lanes(t[INNER] - column - k * LANES, LANES) for k in unroll(vectors)]
        at = outer * t[STEP] + column
        to = outer * t[TO] + column
        acc = [
            A(load(cast(t[h // vectors], pointer(S)) + (at + h % vectors * LANES), LANES, masks[h % vectors]))
            for h in unroll(PARTS * vectors)
        ]
        for g in unroll(PARTS * vectors):
            store(cast(t[PARTS + g // vectors], pointer(R)) + (to + g % vectors * LANES), R(acc[g]), masks[g % vectors])
        for _r in range(1, t[LENGTH]):
            at += t[INNER]
            to += t[INNER]
            for j in unroll(vectors):
                v = [A(load(cast(t[m], pointer(S)) + (at + j * LANES), LANES, masks[j])) for m in unroll(PARTS)]
                both = combine([acc[q * vectors + j] for q in unroll(PARTS)], v)
                for u in unroll(PARTS):
                    acc[u * vectors + j] = both[u]
                    store(cast(t[PARTS + u], pointer(R)) + (to + j * LANES), R(both[u]), masks[j])


@loop(brief=True, cold=True)
def scan_columns(
    pool: pointer(i8), x: array, out: array, outer: i64, n: i64, inner: i64, step: i64, to: i64,
    *, S, A, R, LANES, PARTS, combine,
) -> void:  # fmt: skip
    """Scan along the middle of (outer, n, inner), whose last two are contiguous; ``step``, ``to`` as in scan_rows."""
    t = stack(i64, 32)
    describe(t, x, out, n, step, to, PARTS)
    t[INNER] = inner
    width = (VECTORS // PARTS if PARTS < 3 else 2) * LANES
    t[STRIPS] = (inner + width - 1) // width
    chunk = PIECE // (n * (i64(width) if inner > width else inner))
    task = function_pointer(strips_task, S=S, A=A, R=R, LANES=LANES, PARTS=PARTS, combine=combine)
    parallel(pool, task, cast(t, pointer(i8)), outer * t[STRIPS], i64(1) if chunk < 1 else chunk)
