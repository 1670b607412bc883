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

What the loop does not handle (arrays that overlap, results that repeat memory, unaligned elements, more than 16 axes)
it leaves to NumPy. The limit is the memory: 2^20 float32 take about as long as reading 4 MB and writing 4 MB.
Guarded by ``tests/backends/test_copying_loops.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Final

import numpy as np

from ...allocation.host import allocate
from ...llvm import (
    Type,
    address,
    array,
    cast,
    data,
    fence,
    flags,
    function_pointer,
    i8,
    i64,
    kernel,
    load,
    loop,
    maximum,
    minimum,
    ndim,
    pointer,
    select,
    shape,
    shuffle,
    splat,
    store,
    strides,
    u8,
    u16,
    u32,
    u64,
    unroll,
    vector,
    void,
)  # fmt: skip
from ...llvm.compiled import Case, UnavailableError
from ..pool.region import parallel
from ..pool.state_block import STATE
from ..thresholds import COPIED, STREAMED

__all__ = ["cases", "copied", "copy_into", "copy_run", "fill_run", "filled"]

_OUT, _SOURCE, _ROWS, _COLUMNS = 0, 1, 2, 5
_BLOCK_ROWS, _BLOCK_COLUMNS, _UNITS, _OUTER, _CHUNK, _STREAMING, _AXES = 8, 9, 10, 11, 12, 13, 14
"""Words of a plan: addresses; length, step in the result and step in the source of two axes; blocks; other axes."""
_MOST_AXES: Final = 16
_WORDS: Final = _AXES + 3 * (_MOST_AXES + 2)
_RUN, _REVERSED, _FILL, _REPEAT, _TRANSPOSED, _STRIDED = range(6)
_BLOCK: Final = 1 << 16  # bytes that a thread claims at once: about 5 us
_SIZES: Final = frozenset([1, 2, 4, 8, 16])
_TILE: Final = 128  # rows and columns of a block in which neither array is contiguous in both directions
_SMALL: Final = 64  # elements of a plane that is not worth the work of finding it
_UNSIGNED: Final = {1: u8, 2: u16, 4: u32, 8: u64, 16: vector(u64, 2)}


def _halves(lanes: int) -> list[int]:
    return [lanes >> k for k in range(1, lanes.bit_length())]


@loop(inline=False)
def copy_run(to: pointer(T), source: pointer(T), n: i64, *, T) -> void:
    """Copy adjacent elements; the last vector overlaps the one before it, so that no element is copied alone."""
    V = 64 // T.size
    if n < V:
        for half in unroll(_halves(V)):
            if n >= half:
                first = load(source, half)
                last = load(source + (n - half), half)
                store(to, first)
                store(to + (n - half), last)
                return
        return
    i = i64(0)
    while i + 4 * V <= n:
        vectors = [load(source + (i + k * V), V) for k in range(4)]
        for k in unroll(4):
            store(to + (i + k * V), vectors[k])
        i += 4 * V
    while i + V <= n:
        store(to + i, load(source + i, V))
        i += V
    if i < n:
        store(to + (n - V), load(source + (n - V), V))


@loop(inline=False)
def stream_run(to: pointer(u8), source: pointer(u8), n: i64) -> void:
    """Copy many bytes past the caches: memory is not read before it is overwritten."""
    head = minimum(-address(to) & 63, n)
    copy_run(to, source, head, T=u8)
    i = head + 0
    while i + 256 <= n:
        vectors = [load(source + (i + k * 64), 64) for k in range(4)]
        for k in unroll(4):
            store(to + (i + k * 64), vectors[k], streaming=True)
        i += 256
    copy_run(to + i, source + i, n - i, T=u8)


@loop(inline=False)
def reverse_run(to: pointer(T), source: pointer(T), n: i64, *, T) -> void:
    """Copy the elements that precede ``source``, itself included, from the last to the first."""
    V = 64 // T.size
    if n < V:
        for j in range(n):
            to[j] = source[-j]
        return
    i = i64(0)
    while i + V <= n:
        store(to + i, _backwards(source - (i + V - 1), V))
        i += V
    if i < n:
        store(to + (n - V), _backwards(source - (n - 1), V))


def _backwards(p: Any, lanes: int) -> Any:
    v = load(p, lanes)
    return shuffle(v, v, range(lanes - 1, -1, -1))


@loop(inline=False)
def fill_run(to: pointer(T), x: T, n: i64, *, T) -> void:
    """Set adjacent elements to one value."""
    V = 64 // T.size
    if n < V:
        for half in unroll(_halves(V)):
            if n >= half:
                store(to, splat(x, half))
                store(to + (n - half), splat(x, half))
                return
        return
    v = splat(x, V)
    i = i64(0)
    while i + V <= n:
        store(to + i, v)
        i += V
    if i < n:
        store(to + (n - V), v)


@loop(inline=False)
def repeat_run(to: pointer(T), source: pointer(T), n: i64, *, T, COUNT) -> void:
    """Write each of ``n`` adjacent elements ``COUNT`` times."""
    V = 64 // T.size
    i = i64(0)
    while i + V <= n:
        v = load(source + i, V)
        for k in unroll(COUNT):
            store(to + (i * COUNT + k * V), shuffle(v, v, [(k * V + lane) // COUNT for lane in range(V)]))
        i += V
    while i < n:
        for k in unroll(COUNT):
            to[i * COUNT + k] = source[i]
        i += 1


def transpose_tile(to: Any, step: Any, source: Any, source_step: Any, T: Type, width: int) -> None:
    """Write a tile's columns as rows: exchange blocks of 1, 2, 4, ... with the partner rows."""
    rows = [load(cast(source + source_step * k, pointer(T)), width) for k in range(width)]
    half = 1
    while half < width:
        low = [k + width - half if k & half else k for k in range(width)]
        high = [k + width if k & half else k + half for k in range(width)]
        for k in range(width):
            if not k & half:
                a, b = rows[k], rows[k + half]
                rows[k], rows[k + half] = shuffle(a, b, low), shuffle(a, b, high)
        half *= 2
    for k, row in enumerate(rows):
        store(cast(to + step * k, pointer(T)), row)


@loop(inline=False)
def strided_run(to: pointer(i8), step: i64, source: pointer(i8), source_step: i64, n: i64, *, T) -> void:
    """Copy elements that are not adjacent."""
    p, q = to + 0, source + 0
    i = i64(0)
    while i + 8 <= n:
        elements = [cast(q + source_step * k, pointer(T))[0] for k in range(8)]
        for k in unroll(8):
            cast(p + step * k, pointer(T))[0] = elements[k]
        p = p + 8 * step
        q = q + 8 * source_step
        i += 8
    while i < n:
        cast(p, pointer(T))[0] = cast(q, pointer(T))[0]
        p = p + step
        q = q + source_step
        i += 1


@loop(inline=False)
def strided_block(
    to: pointer(i8), source: pointer(i8), rows: i64, columns: i64, row: pointer(i64), column: pointer(i64),
    *, T,
) -> void:  # fmt: skip
    """Copy elements one by one; ``row`` and ``column`` are length, step in the result and step in the source."""
    if columns < minimum(rows, 8):
        for c in range(columns):
            strided_run(to + c * column[1], row[1], source + c * column[2], row[2], rows, T=T)
    else:
        for r in range(rows):
            strided_run(to + r * row[1], column[1], source + r * row[2], column[2], columns, T=T)


@loop(inline=False)
def transposed_block(
    to: pointer(i8), source: pointer(i8), rows: i64, columns: i64, row: pointer(i64), column: pointer(i64),
    *, T,
) -> void:  # fmt: skip
    """Copy where the columns are adjacent in the result and the rows in the source."""
    W = min(64 // T.size, 16)
    size = T.size
    step, source_step = row[1], column[2]
    r = i64(0)
    while r + W <= rows:
        c = i64(0)
        while c + W <= columns:
            transpose_tile(to + (r * step + c * size), step, source + (r * size + c * source_step), source_step, T, W)
            c += W
        if c < columns:
            strided_block(
                to + (r * step + c * size), source + (r * size + c * source_step), i64(W), columns - c, row, column, T=T
            )
        r += W
    if r < rows:
        strided_block(to + r * step, source + r * size, rows - r, columns, row, column, T=T)


@loop(inline=False)
def copy_blocks(plan: pointer(i8), start: i64, stop: i64, *, SIZE, KIND) -> void:
    """Copy the blocks ``start`` to ``stop`` of a plan; runs are copied as bytes."""
    T = _UNSIGNED[SIZE]
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
            for r in range(rows):
                p, q = cast(to + r * row[1], pointer(T)), cast(source + r * row[2], pointer(T))
                if KIND == _RUN:
                    if words[_STREAMING] != 0:
                        stream_run(p, q, columns)
                    else:
                        copy_run(p, q, columns, T=T)
                elif KIND == _REVERSED:
                    reverse_run(p, q, columns, T=T)
                else:
                    fill_run(p, q[0], columns, T=T)
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
    kind = i64(_STRIDED)
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
    wide = minimum(column[0], _BLOCK // size)
    many = minimum(row[0], maximum(_BLOCK // (wide * size), 1))
    if kind >= _TRANSPOSED:
        wide = minimum(column[0], _TILE)
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
def copy_runs(pool: pointer(i8), plan: array, out: array, source: array, size: i64) -> i64:
    """Make the plan of a copy, and carry it out if both arrays have runs; return the kind of copy that remains.

    Returns -1 if nothing remains, and -2 if the loops cannot do it.
    """
    words = data(plan, i64)
    kind = make_plan(words, out, source, size)
    if kind != _RUN:
        return kind
    words[_COLUMNS] = words[_COLUMNS] * size  # in bytes
    words[_COLUMNS + 1] = 1
    words[_COLUMNS + 2] = 1
    words[_BLOCK_COLUMNS] = words[_BLOCK_COLUMNS] * size
    total = words[_UNITS] * words[_BLOCK_ROWS] * words[_BLOCK_COLUMNS]
    words[_STREAMING] = i64((total >= STREAMED) & (words[_COLUMNS] >= 1 << 12))
    copy_planned(pool, plan, SIZE=1, KIND=_RUN)
    return -1


@loop(brief=True, cold=True)
def copy_planned(pool: pointer(i8), plan: array, *, SIZE, KIND) -> void:
    """Carry out a plan."""
    words = data(plan, i64)
    blocks = function_pointer(copy_blocks, SIZE=SIZE, KIND=KIND)
    parallel(pool, blocks, data(plan, i8), words[_UNITS], words[_CHUNK])


@cache
def _planner() -> Callable[..., int]:
    return kernel(copy_runs)


@cache
def _mover(size: int, kind: int) -> Callable[..., None]:
    return kernel(copy_planned, SIZE=size, KIND=kind)


def copy_into(out: np.ndarray, source: np.ndarray) -> None:
    """Assign ``out[...] = source`` for arrays of one dtype; ``source`` broadcasts to ``out``.

    Few bytes, and whatever the loops do not handle, are left to NumPy, errors included.
    """
    size = out.dtype.itemsize
    if out.nbytes >= COPIED and size in _SIZES:
        plan = np.empty(_WORDS, np.int64)
        with suppress(UnavailableError):
            kind = _planner()(STATE, plan, out, source, size)
            if kind >= 0:
                _mover(size, kind)(STATE, plan)
            if kind != -2:
                return
    out[...] = source


def copied(a: np.ndarray) -> np.ndarray:
    """Return a new C-contiguous array with the elements of another one."""
    out = allocate(a.shape, a.dtype)
    copy_into(out, a)
    return out


def filled(shape: tuple[int, ...], value: Any, dtype: np.dtype) -> np.ndarray:
    """Return a new C-contiguous array with one value everywhere."""
    out = allocate(shape, dtype)
    copy_into(out, np.full((), value, dtype))
    return out


def cases(dtypes: Iterable[np.dtype]) -> Iterator[Case]:
    """Yield the kernels that copies need."""
    yield Case("tk::clone", copy_runs, {})
    for size in sorted({dtype.itemsize for dtype in dtypes} & _SIZES):
        kinds = (_STRIDED,) if size == 16 else range(_REVERSED, _STRIDED + 1)
        for kind in kinds:
            yield Case("tk::clone", copy_planned, {"SIZE": size, "KIND": kind})
