"""Elements at given places: ``x[indices]``, ``take_along_axis``, and the scatters that write or combine there.

Note [Walks]
~~~~~~~~~~~~
A *walk* pairs each element of a contiguous or strided array (the result of a gather, the source of a scatter) with an
element of ``x``. Along each of its axes the place in ``x`` moves by a step, as in a view, or by indices: the sum over
the tensors of indices of index times stride. All selections are of this form, whatever the layout of ``x``:
``x[:, i]`` steps along axis 0 and takes axis 1 from ``i``; ``take_along_axis`` steps along all axes but one. A tensor
of indices that only counts 0, 1, 2, ... along an axis (as in ``x[arange(n)[:, None], i]``) is a step as well.

Indices are checked in the loop: negative ones count from the end, and one that is out of range stands for 0 and makes
the call report it; the caller then raises the operator's error. A scatter in place checks all of them before.

Threads share the blocks of a gather. In a scatter, two places can only coincide if they differ in axes along which
indices decide; these axes belong to one thread, which goes through them in order, and the threads share the others
(rows of ``take_along_axis``). If one tensor of indices selects along one axis, the axis is cut into parts instead: each
thread goes through all indices, and does those that lie in its part. Otherwise one thread does everything. So the last
of several elements for one place persists, sums are added in the order of the indices, and nothing depends on the
number of threads. Guarded by ``tests/backends/test_gathering_loops.py``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from ...llvm import (
    Template,
    across,
    address,
    array,
    atomic_store,
    cast,
    compress_store,
    ctpop,
    data,
    function_pointer,
    gather,
    i8,
    i32,
    i64,
    iota,
    kernel,
    load,
    loop,
    minimum,
    of_dtype,
    pointer,
    select,
    splat,
    stack,
    store,
    u8,
    u16,
    u32,
    u64,
    unroll,
    vector,
    void,
    zeros,
)  # fmt: skip
from ...llvm.compiled import Case
from ...llvm.values import emit
from ..pool.region import parallel
from ..pool.state_block import STATE
from .strided_copies import copied, copy_run

__all__ = ["Walk", "cases", "combines", "gather_into", "in_range", "scatter_from", "walk_along", "walk_of"]

_MOST: Final = 3  # tensors of indices
_PLACES, _OTHER, _INDICES, _LENGTHS, _STRIDES, _OUTSIDE = 0, 1, 2, 5, 8, 11
_BLOCK_ROWS, _BLOCK_COLUMNS, _SHARED, _ORDERED, _TURNS, _UNITS, _CHUNK, _AXES = 12, 13, 14, 15, 16, 17, 18, 19
"""Words of a plan: addresses, lengths and strides of the indexed axes, whether an index is out of range; blocks; axes.

An axis has a length, a step in the other array, a step in ``x``, and one in each tensor of indices. The first two are
columns and rows, then come ``_SHARED`` axes that threads share and ``_ORDERED`` ones, of which a thread does all
``_TURNS`` places.
"""
_FIELDS: Final = 3 + _MOST
_BLOCK: Final = 1 << 13  # elements that a thread claims at once
_RUN: Final = 1 << 16  # bytes, if they are adjacent
_LOOKED_AT: Final = 1 << 15  # indices whose range a thread checks at once
_SCANNED: Final = 1 << 12  # indices that are sorted out at once
_PART_LENGTH: Final = _BLOCK_ROWS  # in a plan by parts, which has no other blocks
_PART: Final = 1 << 20  # bytes of a vector into which a thread scatters at once: they stay in its cache
_PARTS: Final = 8  # the most parts; each costs a look at all indices
_SLAB: Final = 64  # columns of a block whose rows come from anywhere: what it reads stays in the cache
_LINE: Final = 64  # bytes that come from memory together
_UNSIGNED: Final = {1: u8, 2: u16, 4: u32, 8: u64, 16: vector(u64, 2)}
_INT64: Final = np.dtype(np.int64)
_INT32: Final = np.dtype(np.int32)
_BYTES: Final = {size: np.dtype(f"V{size}") for size in _UNSIGNED}
_INDEX: Final = {_INT64: i64, _INT32: i32}


def _least(old: Any, new: Any) -> Any:
    return select((old < new) | (old != old), old, new)


def _greatest(old: Any, new: Any) -> Any:
    return select((old > new) | (old != old), old, new)


_COMBINE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add, "multiply": operator.mul, "minimum": _least, "maximum": _greatest,
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


@loop
def walk_blocks(plan: pointer(i8), start: i64, stop: i64, *, T, INDEX, COUNT, MODE, RUNS) -> void:
    """Go through the blocks ``start`` to ``stop`` of a plan; ``RUNS``: the columns are adjacent in both arrays."""
    words = cast(plan, pointer(i64))
    column, row, shared = words + _AXES, words + (_AXES + _FIELDS), words + (_AXES + 2 * _FIELDS)
    ordered = shared + _FIELDS * words[_SHARED]
    many, wide = words[_BLOCK_ROWS], words[_BLOCK_COLUMNS]
    wides, down = (column[0] + (wide - 1)) // wide, (row[0] + (many - 1)) // many
    lengths = [words[_LENGTHS + d] for d in range(COUNT)]
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
                    else:
                        combine_run(q, p, columns, T=T, MODE=MODE)
                else:
                    done = i64(0)
                    if MODE == "get" and T in (u32, u64):
                        far = i64(0)
                        for d in unroll(COUNT):
                            far = far | (column_steps[2 + d] - INDEX.size)
                        if (far == 0) & (column_steps[0] == T.size):
                            while done + 8 <= columns:
                                places = (splat(done, 8) + iota(i64, 8)) * column_steps[1]
                                valid = iota(i64, 8) >= 0
                                for d in unroll(COUNT):
                                    found = vector(i64, 8)(load(cast(now[2 + d], pointer(INDEX)) + done, 8))
                                    found = select(found < 0, found + lengths[d], found)
                                    valid = valid & (found >= 0) & (found < lengths[d])
                                    places = places + found * strides[d]
                                wrongs = wrongs | select(valid, splat(i64(0), 8), splat(i64(1), 8))
                                q = cast(now[1], pointer(T))
                                gathered = gather(q, places >> (T.size.bit_length() - 1), valid)
                                store(cast(now[0], pointer(T)) + done, gathered)
                                done += 8
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
                        elif MODE == "set":
                            q[0] = p[0]
                        else:
                            q[0] = _COMBINE[MODE](q[0], p[0])
                for f in unroll(2 + COUNT):
                    now[f] = now[f] + row_steps[f]
    if (wrong | across(wrongs, operator.or_)) != 0:
        atomic_store(words + _OUTSIDE, 1)


def _begins(count: int) -> list[tuple[int, int]]:
    """Return the words of the addresses and the number of their steps: the other array, ``x``, the indices."""
    return [(_OTHER, 0), (_PLACES, 1), *[(_INDICES + d, 2 + d) for d in range(count)]]


@loop
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
    parallel(pool, blocks, data(plan, i8), words[_UNITS], words[_CHUNK])
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


@loop
def any_outside(pool: pointer(i8), indices: array, n: i64, length: i64, *, INDEX) -> i64:
    """Return 1 if an index of a contiguous array is out of range, otherwise 0."""
    plan = stack(i64, 3)
    plan[0] = address(data(indices, i8))
    plan[1] = length
    plan[2] = 0
    blocks = function_pointer(outside_blocks, INDEX=INDEX)
    parallel(pool, blocks, cast(plan, pointer(i8)), n, i64(_LOOKED_AT))
    return plan[2]


def _bits(mask: Any) -> Any:
    return emit(u8, f"bitcast {mask.text} to i8")


@loop
def part_blocks(plan: pointer(i8), start: i64, stop: i64, *, T, INDEX, MODE, RUNS) -> void:
    """Scatter to parts of an axis: go through all indices, and do those that lie in the part."""
    words = cast(plan, pointer(i64))
    axis = words + (_AXES + _FIELDS * RUNS)
    n, step, length, stride = axis[0], axis[1], words[_LENGTHS], words[_STRIDES]
    indices = cast(words[_INDICES], pointer(INDEX))
    positions = stack(i32, _SCANNED + 8)
    wrongs = zeros(i64, 8)
    for part in range(start, stop):
        low = part * words[_PART_LENGTH]
        high = minimum(low + words[_PART_LENGTH], length)
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
                compress_store(positions + count, splat(i32(i), 8) + iota(i32, 8), mine)
                count += i64(ctpop(_bits(mine)))
                i += 8
            for k in range(count):
                at = i64(positions[k])
                index = i64(indices[at])
                place = words[_PLACES] + select(index < 0, index + length, index) * stride
                p, q = cast(words[_OTHER] + at * step, pointer(T)), cast(place, pointer(T))
                if not RUNS:
                    q[0] = p[0] if MODE == "set" else _COMBINE[MODE](q[0], p[0])
                elif MODE == "set":
                    copy_run(q, p, words[_AXES], T=T)
                else:
                    combine_run(q, p, words[_AXES], T=T, MODE=MODE)
    if across(wrongs, operator.or_) != 0:
        atomic_store(words + _OUTSIDE, 1)


@loop
def scatter_parts(
    pool: pointer(i8), plan: array, x: array, other: array, indices: array, *, T, INDEX, MODE, RUNS
) -> i64:
    """Carry out a plan for a vector of indices by parts of ``x``; return whether an index is out of range."""
    words = data(plan, i64)
    words[_PLACES] = address(data(x, i8))
    words[_OTHER] = address(data(other, i8))
    words[_INDICES] = address(data(indices, i8))
    blocks = function_pointer(part_blocks, T=T, INDEX=INDEX, MODE=MODE, RUNS=RUNS)
    parallel(pool, blocks, data(plan, i8), words[_UNITS], 1)
    return words[_OUTSIDE]


# ---- plans


def _ramp(index: np.ndarray, length: int, total: int) -> int | None:
    """Return the axis along which the indices count 0, 1, 2, ...; None if they do anything else."""
    n = index.size
    axes = [k for k, m in enumerate(index.shape) if m > 1]
    if len(axes) != 1 or n > length or 4 * n > total:
        return None
    flat = index.reshape(n)
    return axes[0] - index.ndim if flat[-1] == n - 1 and bool((flat == np.arange(n)).all()) else None


def _regular(x: np.ndarray) -> bool:
    """Tell whether the elements of an array are aligned and whole elements apart."""
    size = x.dtype.itemsize
    return x.flags.aligned and size in _UNSIGNED and not any(step % size for step in x.strides)


def _integers(arrays: list[np.ndarray]) -> list[np.ndarray] | None:
    """Return indices as arrays of one dtype that the loops read; None if there is none."""
    kinds = {index.dtype for index in arrays}
    if (kinds in ({_INT64}, {_INT32})) and all(index.flags.aligned for index in arrays):
        return [copied(index) if index.ndim > 1 and abs(index.strides[-1]) > _LINE else index for index in arrays]
    if not all(index.dtype.kind in "iu" and index.dtype != np.uint64 for index in arrays):
        return None
    return [index.astype(np.int64) for index in arrays]


class Walk(NamedTuple):
    """A selection from an array: the axes of the result, and the indexed axes."""

    shape: tuple[int, ...]
    axes: list[list[int]]
    """For each axis of the result its length, 0, the step in ``x``, and the steps in the tensors of indices."""
    indices: list[np.ndarray]
    lengths: list[int]
    strides: list[int]

    @property
    def size(self) -> int:
        """Return how many elements it selects."""
        return math.prod(self.shape)

    @property
    def has_runs(self) -> bool:
        """Tell whether an index selects several elements that follow each other."""
        return bool(self.axes) and not any(self.axes[-1][3:])


def walk_of(x: np.ndarray, indices: Sequence[np.ndarray | None]) -> Walk | None:
    """Return how ``x[indices]`` walks, for one tensor of integers or None per leading axis.

    None: the loop does not handle it, or it is an error.
    """
    at = [axis for axis, index in enumerate(indices) if index is not None]
    arrays = [index for index in indices if index is not None]
    if not at or len(indices) > x.ndim or 0 in x.shape or not _regular(x):
        return None
    integers = _integers(arrays)
    if integers is None:
        return None
    arrays = integers
    try:
        common = arrays[0].shape if len(arrays) == 1 else np.broadcast_shapes(*[index.shape for index in arrays])
    except ValueError:
        return None
    total = math.prod(common)
    if not total:
        return None
    before = at[0] if at[-1] - at[0] == len(at) - 1 else 0
    middle = [[n, 0, 0, 0, 0, 0] for n in common]
    used: list[np.ndarray] = []
    lengths, strides = [], []
    for axis, index in zip(at, arrays, strict=True):
        ramp = _ramp(index, x.shape[axis], total) if len(arrays) > 1 else None
        if ramp is not None:
            middle[ramp][2] += x.strides[axis]
            continue
        if len(used) == _MOST:
            return None
        for k in range(1, index.ndim + 1):
            if index.shape[-k] != 1:
                middle[-k][3 + len(used)] = index.strides[-k]
        used.append(index)
        lengths.append(x.shape[axis])
        strides.append(x.strides[axis])
    if not used:
        return None
    rest = [[x.shape[k], 0, x.strides[k], 0, 0, 0] for k in range(x.ndim) if k not in at]
    axes = [*rest[:before], *middle, *rest[before:]]
    return Walk(tuple([axis[0] for axis in axes]), axes, used, lengths, strides)


def walk_along(x: np.ndarray, index: np.ndarray, axis: int) -> Walk | None:
    """Return how ``take_along_axis`` walks: ``x`` and the indices broadcast in all dimensions but ``axis``."""
    axis = axis % x.ndim if x.ndim else 0
    found = _integers([index])
    if found is None or index.ndim != x.ndim or not index.ndim or 0 in x.shape or 0 in index.shape or not _regular(x):
        return None
    (index,) = found
    axes = []
    for k, (n, m) in enumerate(zip(x.shape, index.shape, strict=True)):
        if k != axis and n != m and 1 not in (n, m):
            return None
        x_step = 0 if k == axis or n == 1 else x.strides[k]
        axes.append([m if k == axis else max(n, m), 0, x_step, 0 if m == 1 else index.strides[k], 0, 0])
    return Walk(tuple([one[0] for one in axes]), axes, found, [x.shape[axis]], [x.strides[axis]])


def in_range(walk_: Walk) -> bool:
    """Tell whether all indices are in range, before anything is written."""
    for index, length in zip(walk_.indices, walk_.lengths, strict=True):
        if length > np.iinfo(index.dtype).max:
            continue
        if index.flags.c_contiguous:
            if kernel(any_outside, INDEX=_INDEX[index.dtype])(STATE, index, index.size, length):
                return False
        elif int(index.min()) < -length or int(index.max()) >= length:
            return False
    return True


def _merged(axes: list[list[int]], strides: Sequence[int]) -> list[list[int]]:
    """Return the axes with the steps in the other array; those that continue each other become one."""
    found: list[list[int]] = []
    for axis, step in zip(axes, strides, strict=True):
        n = axis[0]
        if n == 1:
            continue
        new = [n, step, *axis[2:]]
        if found and all(outer == n * inner for outer, inner in zip(found[-1][1:], new[1:], strict=True)):
            new[0] = n * found.pop()[0]
        found.append(new)
    return found


_NO_AXIS: Final = [1, 0, 0, 0, 0, 0]


@cache
def _kernel(
    template: Template, dtype: np.dtype, index: np.dtype, mode: str, runs: bool, count: int = 0
) -> Callable[..., Any]:
    """Return a kernel for elements of a dtype, of which V stands for bytes of any meaning."""
    T = _UNSIGNED[dtype.itemsize] if dtype.kind == "V" else of_dtype(dtype)
    statics = {"T": T, "INDEX": _INDEX[index], "MODE": mode, "RUNS": runs}
    return kernel(template, **statics, **({"COUNT": count} if count else {}))


def _is_run(axis: list[int], size: int) -> bool:
    return axis[1] == axis[2] == size and not any(axis[3:])


def _whole(size: int, strides: list[int], axes: list[list[int]]) -> bool:
    """Tell whether ``x`` consists of elements of so many bytes."""
    return size in _UNSIGNED and not any(step % size for step in (*strides, *[axis[2] for axis in axes]))


def _run(walk_: Walk, x: np.ndarray, other: np.ndarray, mode: str, dtype: np.dtype) -> bool:
    """Carry out a walk with the other array, whose shape is that of the walk; tell whether all indices are in range."""
    size = dtype.itemsize
    axes = _merged(walk_.axes, other.strides)
    if size != other.dtype.itemsize:  # complex numbers are pairs
        axes.append([2, size, size, 0, 0, 0])
    total = math.prod([axis[0] for axis in axes])
    column = axes.pop() if axes else _NO_AXIS
    wide = column[0] * size
    if mode in ("get", "set") and _is_run(column, size) and axes and _whole(wide, walk_.strides, axes):
        size = wide  # a run of few bytes is one element
        column = axes.pop()
    runs = _is_run(column, size)
    block = _RUN // size if runs else _BLOCK
    ordered: list[list[int]] = []
    wide = column[0]
    if mode == "get":
        row = axes.pop() if axes else _NO_AXIS
        if column[2] and not runs and not row[2]:
            wide = min(wide, _SLAB)
        wide = min(wide, block)
        many = min(row[0], max(1, block // wide))
    else:
        ordered = [axis for axis in axes if not axis[2]]
        axes = [axis for axis in axes if axis[2]]
        row = ordered.pop() if ordered and (column[2] or ordered) else _NO_AXIS
        many = row[0]
        if column[2]:  # cut the columns into parts of some size, but not into less than 256 bytes
            wide = min(wide, max(256 // size, -(-wide * block // total)))
    turns = math.prod([axis[0] for axis in ordered])
    units = -(-column[0] // wide) * -(-row[0] // many) * math.prod([axis[0] for axis in axes])
    count = len(walk_.indices)
    missing = _MOST - count
    plan = np.array(
        [
            *[0] * _LENGTHS, *walk_.lengths, *[0] * missing, *walk_.strides, *[0] * missing, 0, many, wide, len(axes),
            len(ordered), turns, units, max(1, block // (many * wide * turns)), *column, *row,
            *[word for axis in [*axes[::-1], *ordered[::-1]] for word in axis],
        ],
        np.int64,
    )  # fmt: skip
    index = walk_.indices[0].dtype
    if mode in ("get", "set"):
        if runs:  # in bytes
            plan[_BLOCK_COLUMNS], plan[_AXES : _AXES + 3] = wide * size, (column[0] * size, 1, 1)
        dtype = _BYTES[1 if runs else size]
    by_index = row if runs else column
    if mode != "get" and count == 1 and by_index[3] == index.itemsize and len(axes) == len(ordered) == 0:
        length, stride = walk_.lengths[0], abs(walk_.strides[0])
        parts = min(max(2, length * stride // _PART), _PARTS, length)
        if (runs or row[0] == 1) and by_index[0] < 1 << 31:
            plan[_PART_LENGTH] = part = -(-length // parts)
            plan[_UNITS] = -(-length // part)
            return not _kernel(scatter_parts, dtype, index, mode, runs)(STATE, plan, x, other, walk_.indices[0])
    call = _kernel(walk, dtype, index, mode, runs, count)
    return not call(STATE, plan, x, other, *(walk_.indices * _MOST)[:_MOST])


def gather_into(x: np.ndarray, walk_: Walk, out: np.ndarray) -> bool:
    """Write the selection into an array of its shape; tell whether all indices are in range."""
    return _run(walk_, x, out, "get", x.dtype)


def scatter_from(x: np.ndarray, walk_: Walk, source: np.ndarray, mode: str = "set") -> bool:
    """Combine the selected elements with those of ``source`` in place; tell whether all indices are in range.

    ``source`` has the dtype of ``x`` and the shape of the selection. An index out of range stands for 0.
    """
    dtype = x.dtype
    if mode != "set":
        if dtype.kind == "b":
            dtype, mode = np.dtype(np.uint8), {"add": "maximum", "multiply": "minimum"}.get(mode, mode)
        elif dtype.kind == "c":
            dtype = np.dtype(f"f{dtype.itemsize // 2}")
    return _run(walk_, x, source, mode, dtype)


def cases(dtypes: Iterable[np.dtype]) -> Iterator[Case]:
    """Yield the kernels that selections by one tensor of int64 need."""
    yield Case("tk::put_", any_outside, {"INDEX": i64})
    one = {"INDEX": i64, "COUNT": 1}
    for mode in ("get", "set"):
        yield Case("tk::index", walk, {"T": u8, **one, "MODE": mode, "RUNS": True})
    for size in sorted({dtype.itemsize for dtype in dtypes} & set(_UNSIGNED)):
        yield Case("tk::index", walk, {"T": _UNSIGNED[size], **one, "MODE": "get", "RUNS": False})
        for runs in (False, True):
            T = u8 if runs else _UNSIGNED[size]
            yield Case("tk::put_", scatter_parts, {"T": T, "INDEX": i64, "MODE": "set", "RUNS": runs})
    for dtype in dtypes:
        if dtype.kind == "f":
            for runs in (False, True):
                statics = {"T": of_dtype(dtype), "INDEX": i64, "MODE": "add", "RUNS": runs}
                yield Case("tk::scatter_add_zeros", scatter_parts, statics)
                yield Case("tk::scatter_add_zeros", walk, {**statics, "COUNT": 1})


def combines(dtype: np.dtype, mode: str) -> bool:
    """Tell whether ``scatter_from`` has this mode for a dtype."""
    return mode == "set" or (dtype.kind in "biuf" and dtype.kind != "V") or (dtype.kind == "c" and mode == "add")
