"""Elements at given places: ``x[indices]``, ``take_along_axis``, and the scatters that write or combine there.

Note [Walks]
~~~~~~~~~~~~
A *walk* pairs each element of a contiguous or strided array (the result of a gather, the source of a scatter) with an
element of ``x``. Along each of its axes the place in ``x`` moves by a step, as in a view, or by indices: the sum over
the tensors of indices of index times stride. All selections are of this form, whatever the layout of ``x``:
``x[:, i]`` steps along axis 0 and takes axis 1 from ``i``; ``take_along_axis`` steps along all axes but one. A tensor
of indices that only counts 0, 1, 2, ... along an axis (as in ``x[arange(n)[:, None], i]``) is a step as well.

Indices are checked in the loop: negative ones count from the end, and one that is out of range stands for 0 and makes
the call report it; the caller then raises the operator's error. A scatter in place checks all of them before. Plans for
one tensor of indices depend on shapes and strides alone and are remembered: a call then takes 3 us, and 10 otherwise.

Threads share the blocks of a gather. In a scatter, two places can only coincide if they differ in axes along which
indices decide; these axes belong to one thread, which goes through them in order, and the threads share the others
(rows of ``take_along_axis``). If one tensor of indices selects along one axis, the axis is cut into parts instead: each
thread goes through all indices, and does those that lie in its part. Each part costs a look at all indices (0.8 ms for
2**20), so there are few of them, and one in a small scatter. Otherwise one thread does everything. So the last of
several elements for one place persists, sums are added in the order of the indices, and nothing depends on the
number of threads. Guarded by ``tests/backends/test_gathering_loops.py``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

from ...llvm import (
    across,
    address,
    array,
    atomic_store,
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
    load,
    loop,
    minimum,
    of_dtype,
    pointer,
    prefetch,
    select,
    splat,
    stack,
    store,
    u8,
    u32,
    u64,
    unroll,
    vector,
    void,
    zeros,
)  # fmt: skip
from ...llvm.compiled import Case
from ..pool.region import parallel
from .expressions import greater_or_nan, lesser_or_nan
from .moves.runs import copy_run, fill_run
from .moves.strided_copies import UNSIGNED

__all__ = [
    "AXES", "BLOCK_COLUMNS", "INDICES_OF", "LENGTHS", "MOST", "PART_LENGTH", "UNITS", "any_outside",
    "cases", "scatter_parts", "walk",
]  # fmt: skip

MOST: Final = 3  # tensors of indices
_PLACES, _OTHER, _INDICES, LENGTHS, _STRIDES, _OUTSIDE = 0, 1, 2, 5, 8, 11
_BLOCK_ROWS, BLOCK_COLUMNS, _SHARED, _ORDERED, _TURNS, UNITS, _CHUNK, AXES = 12, 13, 14, 15, 16, 17, 18, 19
"""Words of a plan: addresses, lengths and strides of the indexed axes, whether an index is out of range; blocks; axes.

An axis has a length, a step in the other array, a step in ``x``, and one in each tensor of indices. The first two are
columns and rows, then come ``_SHARED`` axes that threads share and ``_ORDERED`` ones, of which a thread does all
``_TURNS`` places.
"""
_FIELDS: Final = 3 + MOST
_LOOKED_AT: Final = 1 << 15  # indices whose range a thread checks at once
_SCANNED: Final = 1 << 12  # indices that are sorted out at once
_AHEAD: Final = 16  # places that are on their way from memory
PART_LENGTH: Final = _BLOCK_ROWS  # in a plan by parts, which has no other blocks
INDICES_OF: Final = {np.dtype(np.int64): i64, np.dtype(np.int32): i32}


_COMBINE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add, "multiply": operator.mul, "minimum": lesser_or_nan, "maximum": greater_or_nan,
}  # fmt: skip


@loop(inline=False)
def combine_run(to: pointer(T), source: pointer(T), n: i64, *, T, MODE) -> void:
    """Combine adjacent elements with those of another array."""
    V = 64 // T.size
    combine = _COMBINE[MODE]
    i = i64(0)
    while i + V <= n:
        store(to + i, combine(load(to + i, V), load(source + i, V)))
        i += V
    while i < n:
        to[i] = combine(to[i], source[i])
        i += 1


def combined(q: Any, p: Any, mode: str) -> Any:
    """Return what the element at ``q`` becomes by the one at ``p``."""
    return p[0] if mode == "set" else _COMBINE[mode](q[0], p[0])


@loop
def walk_blocks(plan: pointer(i8), start: i64, stop: i64, *, T, INDEX, COUNT, MODE, RUNS) -> void:
    """Go through the blocks ``start`` to ``stop`` of a plan; ``RUNS``: the columns are adjacent in both arrays."""
    words = cast(plan, pointer(i64))
    column, row, shared = words + AXES, words + (AXES + _FIELDS), words + (AXES + 2 * _FIELDS)
    ordered = shared + _FIELDS * words[_SHARED]
    many, wide = words[_BLOCK_ROWS], words[BLOCK_COLUMNS]
    wides, down = (column[0] + (wide - 1)) // wide, (row[0] + (many - 1)) // many
    lengths = [words[LENGTHS + d] for d in range(COUNT)]
    strides = [words[_STRIDES + d] for d in range(COUNT)]
    column_steps = [column[1 + f] for f in range(2 + COUNT)]
    row_steps = [row[1 + f] for f in range(2 + COUNT)]
    wrong, wrongs = i64(0), zeros(i64, 8)
    for unit in range(start, stop):
        first_row = (unit % down) * many
        rest = unit // down
        first_column = (rest % wides) * wide
        rest = rest // wides
        begin = [words[f] + first_row * row_steps[g] + first_column * column_steps[g] for f, g in _begins(COUNT)]
        for k in range(words[_SHARED]):
            axis = shared + k * _FIELDS
            at = rest % axis[0]
            rest = rest // axis[0]
            for f in unroll(2 + COUNT):
                begin[f] = begin[f] + at * axis[1 + f]
        rows, columns = minimum(many, row[0] - first_row), minimum(wide, column[0] - first_column)
        for turn in range(words[_TURNS]):
            now = [begin[f] + 0 for f in range(2 + COUNT)]
            left = turn + 0
            for k in range(words[_ORDERED]):
                axis = ordered + k * _FIELDS
                at = left % axis[0]
                left = left // axis[0]
                for f in unroll(2 + COUNT):
                    now[f] = now[f] + at * axis[1 + f]
            for _ in range(rows):
                if RUNS:
                    place = now[1] + 0
                    for d in unroll(COUNT):
                        index = i64(cast(now[2 + d], pointer(INDEX))[0])
                        index = select(index < 0, index + lengths[d], index)
                        outside = (index < 0) | (index >= lengths[d])
                        wrong = wrong | i64(outside)
                        place = place + select(outside, 0, index) * strides[d]
                    p, q = cast(now[0], pointer(T)), cast(place, pointer(T))
                    if MODE == "get":
                        copy_run(p, q, columns, T=T)
                    elif MODE == "set":
                        copy_run(q, p, columns, T=T)
                    elif MODE == "fill":
                        fill_run(q, p[0], columns, T=T)
                    else:
                        combine_run(q, p, columns, T=T, MODE=MODE)
                else:
                    done = i64(0)
                    if MODE == "get" and T in (u32, u64):
                        far = i64(0)
                        for d in unroll(COUNT):
                            far = far | (column_steps[2 + d] - INDEX.size)
                        if (far == 0) & (column_steps[0] == T.size):
                            simple = i64(COUNT == 1) & i64(strides[0] == T.size) & i64(column_steps[1] == 0)
                            good = iota(i64, 8) >= 0
                            q = cast(now[1], pointer(T))
                            if simple != 0:  # multiplications would take longer than all else
                                while done + 8 <= columns:
                                    chosen = vector(i64, 8)(load(cast(now[2], pointer(INDEX)) + done, 8))
                                    chosen = select(chosen < 0, chosen + lengths[0], chosen)
                                    fits = (chosen >= 0) & (chosen < lengths[0])
                                    good = good & fits
                                    store(cast(now[0], pointer(T)) + done, gather(q, chosen, fits))
                                    done += 8
                            while done + 8 <= columns:
                                places = (splat(done, 8) + iota(i64, 8)) * column_steps[1]
                                valid = iota(i64, 8) >= 0
                                for d in unroll(COUNT):
                                    found = vector(i64, 8)(load(cast(now[2 + d], pointer(INDEX)) + done, 8))
                                    found = select(found < 0, found + lengths[d], found)
                                    valid = valid & (found >= 0) & (found < lengths[d])
                                    places = places + found * strides[d]
                                good = good & valid
                                gathered = gather(q, places >> (T.size.bit_length() - 1), valid)
                                store(cast(now[0], pointer(T)) + done, gathered)
                                done += 8
                            wrongs = wrongs | select(good, splat(i64(0), 8), splat(i64(1), 8))
                    if MODE != "get" and COUNT == 1:  # noqa: SIM102 -- known while the code is translated
                        if column_steps[2] == INDEX.size:  # look at all indices, then use them
                            indices = cast(now[2], pointer(INDEX))
                            beyond = zeros(i64, 8)
                            while done < columns:
                                some = vector(i64, 8)(load(indices + done, 8, first_lanes(columns - done, 8)))
                                bad = (some < -lengths[0]) | (some >= lengths[0])
                                beyond = beyond | select(bad, splat(i64(1), 8), splat(i64(0), 8))
                                done += 8
                            if across(beyond, operator.or_) != 0:
                                wrong = i64(1)
                            else:
                                from_, to = now[0] + 0, now[1] + 0
                                for c in range(columns):
                                    chosen = i64(indices[c])
                                    chosen = chosen + ((chosen >> 63) & lengths[0])
                                    p, q = cast(from_, pointer(T)), cast(to + chosen * strides[0], pointer(T))
                                    q[0] = combined(q, p, MODE)
                                    from_ = from_ + column_steps[0]
                                    to = to + column_steps[1]
                    for c in range(done, columns):
                        place = now[1] + c * column_steps[1]
                        for d in unroll(COUNT):
                            index = i64(cast(now[2 + d] + c * column_steps[2 + d], pointer(INDEX))[0])
                            index = select(index < 0, index + lengths[d], index)
                            outside = (index < 0) | (index >= lengths[d])
                            wrong = wrong | i64(outside)
                            place = place + select(outside, 0, index) * strides[d]
                        p, q = cast(now[0] + c * column_steps[0], pointer(T)), cast(place, pointer(T))
                        if MODE == "get":
                            p[0] = q[0]
                        else:
                            q[0] = combined(q, p, MODE)
                for f in unroll(2 + COUNT):
                    now[f] = now[f] + row_steps[f]
    if (wrong | across(wrongs, operator.or_)) != 0:
        atomic_store(words + _OUTSIDE, 1)


def _begins(count: int) -> list[tuple[int, int]]:
    """Return the words of the addresses and the number of their steps: the other array, ``x``, the indices."""
    return [(_OTHER, 0), (_PLACES, 1), *[(_INDICES + d, 2 + d) for d in range(count)]]


@loop(brief=True, cold=True)
def walk(
    pool: pointer(i8), plan: array, x: array, other: array, i0: array, i1: array, i2: array,
    *, T, INDEX, COUNT, MODE, RUNS,
) -> i64:  # fmt: skip
    """Carry out a plan; return whether an index is out of range."""
    words = data(plan, i64)
    words[_PLACES] = address(data(x, i8))
    words[_OTHER] = address(data(other, i8))
    words[_INDICES] = address(data(i0, i8))
    words[_INDICES + 1] = address(data(i1, i8))
    words[_INDICES + 2] = address(data(i2, i8))
    blocks = function_pointer(walk_blocks, T=T, INDEX=INDEX, COUNT=COUNT, MODE=MODE, RUNS=RUNS)
    parallel(pool, blocks, data(plan, i8), words[UNITS], words[_CHUNK])
    return words[_OUTSIDE]


@loop
def outside_blocks(words: pointer(i8), start: i64, stop: i64, *, INDEX) -> void:
    """Look for indices out of range."""
    plan = cast(words, pointer(i64))
    indices, length = cast(plan[0], pointer(INDEX)), INDEX(plan[1])
    lowest = splat(-length, 8)
    wrongs = zeros(i64, 8)
    i = start + 0
    while i < stop:
        within = iota(i64, 8) < splat(stop - i, 8)
        found = load(indices + i, 8, within)
        wrongs = wrongs | select((found < lowest) | (found >= length), splat(i64(1), 8), splat(i64(0), 8))
        i += 8
    if across(wrongs, operator.or_) != 0:
        atomic_store(plan + 2, 1)


@loop(brief=True, cold=True)
def any_outside(pool: pointer(i8), indices: array, n: i64, length: i64, *, INDEX) -> i64:
    """Return 1 if an index of a contiguous array is out of range, otherwise 0."""
    plan = stack(i64, 3)
    plan[0] = address(data(indices, i8))
    plan[1] = length
    plan[2] = 0
    blocks = function_pointer(outside_blocks, INDEX=INDEX)
    parallel(pool, blocks, cast(plan, pointer(i8)), n, i64(_LOOKED_AT))
    return plan[2]


@loop
def part_blocks(plan: pointer(i8), start: i64, stop: i64, *, T, INDEX, MODE, RUNS) -> void:
    """Scatter to parts of an axis: go through all indices, and do those that lie in the part."""
    words = cast(plan, pointer(i64))
    axis = words + (AXES + _FIELDS * RUNS)
    n, step, length, stride = axis[0], axis[1], words[LENGTHS], words[_STRIDES]
    indices = cast(words[_INDICES], pointer(INDEX))
    positions, places = stack(i32, _SCANNED + 8), stack(i64, _SCANNED + _AHEAD)
    wrongs = zeros(i64, 8)
    for part in range(start, stop):
        low = part * words[PART_LENGTH]
        high = minimum(low + words[PART_LENGTH], length)
        for first in range(0, n, _SCANNED):
            end = minimum(first + _SCANNED, n)
            count = i64(0)
            i = first + 0
            while i < end:
                within = iota(i64, 8) < splat(end - i, 8)
                found = vector(i64, 8)(load(indices + i, 8, within))
                found = select(found < 0, found + length, found)
                wrongs = wrongs | select(within & ((found < 0) | (found >= length)), splat(i64(1), 8), splat(i64(0), 8))
                mine = within & (found >= low) & (found < high)
                store(positions + count, compress(splat(i32(i), 8) + iota(i32, 8), mine))
                store(places + count, compress(found * stride + words[_PLACES], mine))
                count += count_true(mine)
                i += 8
            for k in range(count):
                prefetch(cast(places[k + _AHEAD], pointer(T)), write=True)
                p = cast(words[_OTHER] + i64(positions[k]) * step, pointer(T))
                q = cast(places[k], pointer(T))
                if not RUNS:
                    q[0] = combined(q, p, MODE)
                elif MODE == "set":
                    copy_run(q, p, words[AXES], T=T)
                elif MODE == "fill":
                    fill_run(q, p[0], words[AXES], T=T)
                else:
                    combine_run(q, p, words[AXES], T=T, MODE=MODE)
    if across(wrongs, operator.or_) != 0:
        atomic_store(words + _OUTSIDE, 1)


@loop(brief=True, cold=True)
def scatter_parts(
    pool: pointer(i8), plan: array, x: array, other: array, indices: array, i1: array, i2: array,
    *, T, INDEX, MODE, RUNS,
) -> i64:  # fmt: skip
    """Carry out a plan for a vector of indices by parts of ``x``; return whether an index is out of range."""
    words = data(plan, i64)
    words[_PLACES] = address(data(x, i8))
    words[_OTHER] = address(data(other, i8))
    words[_INDICES] = address(data(indices, i8))
    blocks = function_pointer(part_blocks, T=T, INDEX=INDEX, MODE=MODE, RUNS=RUNS)
    parallel(pool, blocks, data(plan, i8), words[UNITS], 1)
    return words[_OUTSIDE]


def cases(dtypes: Iterable[np.dtype]) -> Iterator[Case]:
    """Yield the kernels that selections by one tensor of int64 need."""
    yield Case("tk::put_", any_outside, {"INDEX": i64})
    one = {"INDEX": i64, "COUNT": 1}
    for mode in ("get", "set"):
        yield Case("tk::index", walk, {"T": u8, **one, "MODE": mode, "RUNS": True})
    for size in sorted({dtype.itemsize for dtype in dtypes} & set(UNSIGNED)):
        yield Case("tk::index", walk, {"T": UNSIGNED[size], **one, "MODE": "get", "RUNS": False})
        for runs in (False, True):
            T = u8 if runs else UNSIGNED[size]
            yield Case("tk::put_", scatter_parts, {"T": T, "INDEX": i64, "MODE": "set", "RUNS": runs})
    for dtype in dtypes:
        if dtype.kind == "f":
            for runs in (False, True):
                statics = {"T": of_dtype(dtype), "INDEX": i64, "MODE": "add", "RUNS": runs}
                yield Case("tk::scatter_add_zeros", scatter_parts, statics)
                yield Case("tk::scatter_add_zeros", walk, {**statics, "COUNT": 1})
