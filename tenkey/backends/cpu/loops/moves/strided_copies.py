"""Copies between strided arrays: runs, reversed runs, repeated elements, transposes in registers, everything else.

Note [Copies in blocks]
~~~~~~~~~~~~~~~~~~~~~~~
Most operators that only move elements are a few copies from views of their arguments into views of one result:
``concat`` writes its arguments side by side, ``flip`` reads along negative strides, ``repeat`` along strides of 0.
A copy sorts the axes by their strides in the result, merges those that are adjacent in both arrays, and picks two:
the columns, along which the result has its smallest stride, and the rows. If both arrays are contiguous along the
columns, the rows are copied one after the other; if the source is contiguous along another axis, this one becomes the
rows, and tiles are transposed in registers. The plane of rows and columns is cut into blocks, which are the work that
the threads of the pool share. Each element is written once, so nothing depends on the number of threads.

Several copies into parts of one result that do not overlap (``concat``, ``stack``, ``roll``, ``pad``) are one region,
which has the blocks of all of them as its tasks. If all copies have equally many, the tasks of one place follow one
another, so that ``stack`` along the last axis fills each cache line at once.

What the loop does not handle (arrays that overlap, results that repeat memory, unaligned elements, more than 16 axes)
it leaves to NumPy. The limit is the memory: 2^20 float32 take about as long as reading 4 MB and writing 4 MB.
Guarded by ``tests/backends/test_copying_loops.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from ....allocation.host import allocate
from ....llvm import (
    address,
    address_of,
    array,
    call,
    cast,
    data,
    fence,
    flags,
    function_pointer,
    i8,
    i64,
    kernel,
    loop,
    maximum,
    minimum,
    ndim,
    pointer,
    select,
    shape,
    strides,
    u8,
    u16,
    u32,
    u64,
    unroll,
    vector,
    void,
)  # fmt: skip
from ....llvm.compiled import Case, UnavailableError
from ...pool.region import parallel
from ...pool.state_block import STATE
from ...thresholds import COPIED, FILLED, REORDERED, STREAMED
from .runs import copy_run, fill_run, repeat_run, reverse_run, stream_run, strided_block, transposed_block

__all__ = ["UNSIGNED", "apart", "cases", "copied", "copy_into", "copy_pieces", "filled"]

_OUT, _SOURCE, _ROWS, _COLUMNS = 0, 1, 2, 5
_BLOCK_ROWS, _BLOCK_COLUMNS, _UNITS, _OUTER, _CHUNK, _STREAMING = range(8, 14)
_KIND, _FIRST, _LAST, _COUNT, _EVEN, _AXES = range(14, 20)
"""Words of a plan: addresses; length, step in the result and step in the source of two axes; blocks; the kind of copy;
its tasks among those of all plans; the number of plans, and whether all have as many tasks; the other axes."""
_MOST_AXES: Final = 16
_WORDS: Final = _AXES + 3 * (_MOST_AXES + 2)
_KINDS: Final = 6
_RUN, _REVERSED, _FILL, _REPEAT, _TRANSPOSED, _STRIDED = range(_KINDS)
_BLOCK: Final = 1 << 16  # bytes that a thread claims at once: about 5 us
_TILE: Final = 128  # rows and columns of a block in which neither array is contiguous in both directions
_SMALL: Final = 64  # elements of a plane that is not worth the work of finding it
UNSIGNED: Final = {1: u8, 2: u16, 4: u32, 8: u64, 16: vector(u64, 2)}
"""The types as which elements are moved, by their size in bytes."""


@loop(inline=False)
def move_rows(
    to: pointer(i8), source: pointer(i8), rows: i64, columns: i64, row: pointer(i64), *, T, KIND
) -> void:  # fmt: skip
    """Write the rows of a block."""
    step, source_step = row[1], row[2]
    for r in range(rows):
        p, q = cast(to + r * step, pointer(T)), cast(source + r * source_step, pointer(T))
        if KIND == _RUN:
            copy_run(p, q, columns, T=T)
        elif KIND == _REVERSED:
            reverse_run(p, q, columns, T=T)
        else:
            fill_run(p, q[0], columns, T=T)


@loop(cold=True)
def copy_blocks(plan: pointer(i8), start: i64, stop: i64, *, SIZE, KIND) -> void:
    """Copy the blocks ``start`` to ``stop`` of a plan; runs are copied as bytes."""
    T = UNSIGNED[SIZE]
    words = cast(plan, pointer(i64))
    row, column = words + _ROWS, words + _COLUMNS
    many, wide = words[_BLOCK_ROWS], words[_BLOCK_COLUMNS]
    across, down = (column[0] + (wide - 1)) // wide, (row[0] + (many - 1)) // many
    for unit in range(start, stop):
        rest = unit + 0
        first_column = (rest % across) * wide
        rest = rest // across
        first_row = rest * 0
        if KIND != _STRIDED:
            first_row = (rest % down) * many
            rest = rest // down
        to = cast(words[_OUT] + first_column * column[1], pointer(i8))
        source = cast(words[_SOURCE] + first_column * column[2], pointer(i8))
        for k in range(words[_OUTER]):
            axis = words + (_AXES + 3 * k)
            at = rest % axis[0]
            rest = rest // axis[0]
            to = to + at * axis[1]
            source = source + at * axis[2]
        if KIND == _STRIDED:  # the slowest, so that planes that share memory follow one another
            first_row = rest * many
        to = to + first_row * row[1]
        source = source + first_row * row[2]
        rows, columns = minimum(many, row[0] - first_row), minimum(wide, column[0] - first_column)
        if KIND == _STRIDED:
            strided_block(to, source, rows, columns, row, column, T=T)
        elif KIND == _TRANSPOSED:
            transposed_block(to, source, rows, columns, row, column, T=T)
        elif KIND == _REPEAT:
            for count in unroll((2, 3, 4)):
                if columns == count:
                    repeat_run(cast(to, pointer(T)), cast(source, pointer(T)), rows, T=T, COUNT=count)
        else:
            streaming = KIND == _RUN and words[_STREAMING] != 0
            if streaming:
                for r in range(rows):
                    stream_run(to + r * row[1], source + r * row[2], columns)
            else:
                move_rows(to, source, rows, columns, row, T=T, KIND=KIND)
    if KIND == _RUN:
        fence()  # streaming stores are not ordered with what tells other threads that the block is complete


@loop(cold=True)
def read_axes(plan: pointer(i64), out: array, source: array, size: i64) -> i64:
    """Write the axes that both arrays have after broadcasting, merged, the greatest step in the result first.

    Returns their number, -1 for an empty result, and -2 for arrays that the loop does not handle.
    """
    axes = plan + _AXES
    count = i64(0)
    to, of = address(data(out, i8)), address(data(source, i8))
    lead = ndim(out) - ndim(source)
    if (ndim(out) > _MOST_AXES) | (lead < 0) | (flags(out) & 0x400 == 0):
        return -2
    bits = to | of
    end, source_start, source_end = to + size, of, of + size
    empty, repeated = i64(0), i64(0)
    for k in range(ndim(out)):
        n, step = shape(out)[k], strides(out)[k]
        source_step = i64(0)
        if k >= lead:
            m = shape(source)[k - lead]
            if m == n:
                source_step = strides(source)[k - lead]
            elif m != 1:
                return -2
        empty = empty | i64(n == 0)
        if n > 1:
            if step < 0:
                to = to + (n - 1) * step
                of = of + (n - 1) * source_step
                end = end + (n - 1) * step
                source_start = source_start + (n - 1) * source_step
                source_end = source_end + (n - 1) * source_step
                step = -step
                source_step = -source_step
            repeated = repeated | i64(step == 0)
            bits = bits | step | source_step
            end = end + (n - 1) * step
            if source_step < 0:
                source_start = source_start + (n - 1) * source_step
            else:
                source_end = source_end + (n - 1) * source_step
            at = count + 0
            while (at > 0) & (axes[3 * at - 2] < step):
                for word in unroll(3):
                    axes[3 * at + word] = axes[3 * at - 3 + word]
                at -= 1
            axes[3 * at] = n
            axes[3 * at + 1] = step
            axes[3 * at + 2] = source_step
            count += 1
    if empty != 0:
        return -1
    if (repeated != 0) | (bits & (minimum(size, 8) - 1) != 0):
        return -2
    if (to < source_end) & (source_start < end):
        return -2
    plan[_OUT] = to
    plan[_SOURCE] = of
    last = i64(0)
    for k in range(1, count):
        axis, outer = axes + 3 * k, axes + 3 * last
        if (outer[1] == axis[0] * axis[1]) & (outer[2] == axis[0] * axis[2]):
            outer[0] = outer[0] * axis[0]
        else:
            last += 1
            outer = axes + 3 * last
            outer[0] = axis[0]
        outer[1] = axis[1]
        outer[2] = axis[2]
    return minimum(count, last + 1)


@loop(cold=True)
def take_axis(plan: pointer(i64), to: pointer(i64), at: i64, count: i64, size: i64) -> void:
    """Move an axis out of the list of axes; -1 stands for an axis of length 1."""
    to[0] = 1
    to[1] = size
    to[2] = size
    if at >= 0:
        for word in unroll(3):
            to[word] = plan[_AXES + 3 * at + word]
        for k in range(at, count - 1):
            for word in unroll(3):
                plan[_AXES + 3 * k + word] = plan[_AXES + 3 * k + 3 + word]


@loop(cold=True)
def make_plan(plan: pointer(i64), out: array, source: array, size: i64) -> i64:
    """Decide how to copy; return the kind of copy, -1 if there is nothing to do, -2 if the loops cannot do it."""
    count = read_axes(plan, out, source, size)
    if count < 0:
        return count
    row, column, axes = plan + _ROWS, plan + _COLUMNS, plan + _AXES
    take_axis(plan, column, count - 1, count, size)
    count = maximum(count - 1, 0)
    step, source_step = column[1], column[2]
    kind, wide = i64(_STRIDED), i64(_TILE)
    rows = count - 1
    if (step == size) & (source_step == size):
        kind = i64(_RUN)
    elif (step == size) & (size < 16) & ((source_step == -size) | (source_step == 0)):
        kind = i64(_REVERSED) if source_step < 0 else i64(_FILL)
        rows_step, rows_source_step = axes[3 * rows + 1], axes[3 * rows + 2]  # unused without rows
        repeats = (source_step == 0) & (column[0] <= 4) & (count > 0)
        if repeats & (rows_step == column[0] * size) & (rows_source_step == size):
            kind = i64(_REPEAT)
    else:
        least = i64(1 << 62)
        for k in range(count):
            magnitude = maximum(axes[3 * k + 2], -axes[3 * k + 2])
            if (magnitude > 0) & (magnitude < least):
                least = magnitude
                rows = k
        if (step == size) & (least == size) & (size < 16):
            kind = i64(_TRANSPOSED)
        if maximum(source_step, -source_step) <= least:  # no other axis is better for the source
            wide = i64(_TILE * _TILE)
        if (count > 0) & (axes[3 * rows] * column[0] < _SMALL) & (size <= 4):
            kind = i64(_STRIDED)  # small matrices: the same element of many of them
            for k in range(count):
                rows = select(axes[3 * k] > axes[3 * rows], k, rows)
    take_axis(plan, row, rows, count, size)
    count = maximum(count - 1, 0)
    if (kind == _TRANSPOSED) & (row[2] < 0):
        plan[_OUT] = plan[_OUT] + (row[0] - 1) * row[1]
        plan[_SOURCE] = plan[_SOURCE] + (row[0] - 1) * row[2]
        row[1] = -row[1]
        row[2] = -row[2]
    if kind < _TRANSPOSED:
        wide = minimum(column[0], _BLOCK // size)
        many = minimum(row[0], maximum(_BLOCK // (wide * size), 1))
    else:
        wide = minimum(column[0], wide)
        many = minimum(row[0], minimum(maximum(_TILE, (_TILE * _TILE) // wide), 8 * _TILE))
    plan[_BLOCK_ROWS] = many
    plan[_BLOCK_COLUMNS] = wide
    plan[_OUTER] = count
    plan[_CHUNK] = maximum(_BLOCK // (many * wide * size), 1)
    units = ((column[0] + (wide - 1)) // wide) * ((row[0] + (many - 1)) // many)
    for k in range(count):
        units = units * axes[3 * k]
    plan[_UNITS] = units
    return kind


@loop(brief=True, cold=True)
def copy_plans(pool: pointer(i8), plans: array, arrays: array, movers: array, size: i64) -> i64:
    """Make the plans of copies, and carry them out.

    ``arrays`` holds for each copy its result and its source, ``movers`` for each kind of copy the address of its
    ``copy_planned``. Returns -1 if no copies are left, -2 if the loops cannot do some of them, and the number of a kind
    whose address is missing; then nothing is copied yet.
    """
    words, addresses, known = data(plans, i64), data(arrays, i64), data(movers, i64)
    left, missing, found = i64(-1), i64(-1), i64(0)
    for k in range(shape(plans)[0]):
        plan = words + k * _WORDS
        kind = make_plan(plan, cast(addresses[2 * k], pointer(i8)), cast(addresses[2 * k + 1], pointer(i8)), size)
        plan[_KIND] = kind
        if kind == _RUN:
            plan[_COLUMNS] = plan[_COLUMNS] * size  # in bytes
            plan[_COLUMNS + 1] = 1
            plan[_COLUMNS + 2] = 1
            plan[_BLOCK_COLUMNS] = plan[_BLOCK_COLUMNS] * size
            total = plan[_UNITS] * plan[_BLOCK_ROWS] * plan[_BLOCK_COLUMNS]
            plan[_STREAMING] = i64((total >= STREAMED) & (plan[_COLUMNS] >= 1 << 12))
        if kind >= 0:
            found = found | (i64(1) << kind)
            missing = kind if known[kind] == 0 else missing
        left = i64(-2) if kind == -2 else left
    if missing >= 0:
        return missing
    for kind in range(_KINDS):
        if ((found >> kind) & 1) != 0:
            call(cast(known[kind], pointer(i8)), pool, plans)
    return left


@loop(brief=True, cold=True)
def copy_planned(pool: pointer(i8), plans: array, *, SIZE, KIND) -> void:
    """Carry out the plans of one kind."""
    words = data(plans, i64)
    count = shape(plans)[0]
    tasks, most, work, even = i64(0), i64(0), i64(0), i64(1)
    for k in range(count):
        plan = words + k * _WORDS
        own = i64(0)
        if plan[_KIND] == KIND:
            own = (plan[_UNITS] + (plan[_CHUNK] - 1)) // plan[_CHUNK]
            work += plan[_UNITS] * plan[_BLOCK_ROWS] * plan[_BLOCK_COLUMNS]
        plan[_FIRST] = tasks
        tasks += own
        plan[_LAST] = tasks
        most = maximum(most, own)
    even = i64((count > 1) & (most * count == tasks))
    words[_COUNT] = count
    words[_EVEN] = even
    chunk = maximum((tasks * _BLOCK) // maximum(work * SIZE, 1), 1)
    if count == 1:
        chunk = i64(1)
    parallel(pool, function_pointer(copy_tasks, SIZE=SIZE, KIND=KIND), data(plans, i8), tasks, chunk)


@loop(cold=True)
def copy_tasks(plans: pointer(i8), start: i64, stop: i64, *, SIZE, KIND) -> void:
    """Carry out the tasks ``start`` to ``stop`` of several plans."""
    words = cast(plans, pointer(i64))
    count = words[_COUNT]
    at = start + 0
    low, high = i64(0), count + 0
    if words[_EVEN] == 0:
        while high - low > 1:  # the plan of the first task
            middle = (low + high) // 2
            if words[middle * _WORDS + _FIRST] <= at:
                low = middle
            else:
                high = middle
    while at < stop:
        plan, first, last = words + low * _WORDS, at + 0, at + 1
        if words[_EVEN] != 0:
            plan = words + (at % count) * _WORDS
            first = at // count
            last = first + 1
        else:
            last = minimum(plan[_LAST], stop)
            first = at - plan[_FIRST]
            at = last - 1
            last = last - plan[_FIRST]
            low += 1
        chunk = plan[_CHUNK]
        if first < last:
            stop_unit = minimum(last * chunk, plan[_UNITS])
            copy_blocks(cast(plan, pointer(i8)), first * chunk, stop_unit, SIZE=SIZE, KIND=KIND)
        at += 1


@cache
def _planner() -> Callable[..., int]:
    return kernel(copy_plans)


@cache
def _movers(size: int) -> np.ndarray:
    """Return the addresses of the kernels for elements of so many bytes, by the kind of copy; 0 until one is needed."""
    return np.zeros(_KINDS, np.int64)


def copy_into(out: np.ndarray, source: np.ndarray) -> None:
    """Assign ``out[...] = source`` for arrays of one dtype; ``source`` broadcasts to ``out``.

    Few bytes, and whatever the loops do not handle, are left to NumPy, errors included.
    """
    size = out.dtype.itemsize
    few = COPIED if source.strides[-1:] == (size,) else REORDERED
    if out.nbytes >= few and size in UNSIGNED:
        _copy([(out, source)], size)
    else:
        out[...] = apart(source, out)


def apart(source: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Return what ``out[...] = source`` assigns: a copy where NumPy would read elements that it has written before.

    NumPy 2.4 looks for this, but not for vectors with different strides: ``x[::2] = x[:6]``.
    """
    if out.ndim == 1 == source.ndim and out.strides != source.strides and np.may_share_memory(out, source):
        return source.copy()
    return source


def copy_pieces(pieces: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    """Assign ``out[...] = source`` for each pair of arrays, all of one dtype; results and sources do not overlap."""
    size = pieces[0][0].dtype.itemsize
    if size in UNSIGNED and sum([out.nbytes for out, _ in pieces]) >= COPIED:
        _copy(pieces, size)
    else:
        for out, source in pieces:
            out[...] = source


def _copy(pieces: Sequence[tuple[np.ndarray, np.ndarray]], size: int) -> None:
    count = len(pieces)
    plans = np.empty((count, _WORDS), np.int64)
    arrays = np.empty((count, 2), object)
    for k, (out, source) in enumerate(pieces):
        arrays[k, 0] = out
        arrays[k, 1] = source
    left: Iterable[Any] = ()
    try:
        movers = _movers(size)
        while (kind := _planner()(STATE, plans, arrays, movers, size)) >= 0:
            movers[kind] = address_of(copy_planned, SIZE=1 if kind == _RUN else size, KIND=kind)
        if kind == -2:
            left = [piece for piece, kind in zip(pieces, plans[:, _KIND].tolist(), strict=True) if kind == -2]
    except UnavailableError:
        left = pieces
    for out, source in left:
        out[...] = apart(source, out)


def copied(a: np.ndarray) -> np.ndarray:
    """Return a new C-contiguous array with the elements of another one."""
    out = allocate(a.shape, a.dtype)
    copy_into(out, a)
    return out


def filled(shape: tuple[int, ...], value: Any, dtype: np.dtype) -> np.ndarray:
    """Return a new C-contiguous array with one value everywhere."""
    out = allocate(shape, dtype)
    if out.nbytes < FILLED:
        out.fill(value)
    else:
        copy_into(out, np.full((), value, dtype))
    return out


def cases(dtypes: Iterable[np.dtype]) -> Iterator[Case]:
    """Yield the kernels that copies need."""
    yield Case("tk::clone", copy_plans, {})
    yield Case("tk::clone", copy_planned, {"SIZE": 1, "KIND": _RUN})
    for size in sorted({dtype.itemsize for dtype in dtypes} & UNSIGNED.keys()):
        kinds = (_STRIDED,) if size == 16 else range(_REVERSED, _STRIDED + 1)
        for kind in kinds:
            yield Case("tk::clone", copy_planned, {"SIZE": size, "KIND": kind})
