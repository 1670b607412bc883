"""The driver of elementwise calls: it walks over the arrays and calls an inner loop by its address, on several threads.

Note [One driver for all elementwise loops]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
NumPy's inner loops and ours have one signature, ``loop(args, dimensions, steps, data)``, so one compiled driver serves
every pointwise operator, dtype and number of operands. It takes the arrays themselves, the results last, and

1. reads their shapes and strides, with stride 0 where an operand is repeated, and drops axes of length 1;
2. orders the axes by the strides of the first result, and joins axes that one step can walk;
3. chooses the inner axis: the innermost; if that one is so short that calls would cost more than the elements, the
   innermost two together (Note [Short rows are tiled]), or the longest;
4. cuts the inner axis into pieces of ``chunk`` elements, and shares out the pieces of all rows over the pool. Of two
   pieces of one row, the second is computed after the first pieces of all rows: an operand that is repeated along the
   rows then stays in the cache.

The result of every element is the same, whatever thread computes it. The driver declines (it returns 1, and NumPy is
called) if an array is not aligned, the shapes do not fit, or a result overlaps itself. A result that overlaps an
operand otherwise than element by element is the caller's concern.
Guarded by ``tests/backends/test_elementwise_driver.py``.

Note [Short rows are tiled]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
A call of an inner loop costs about 17 ns, as much as hundreds of elements. Where rows are short, several of them are
computed by one call: operands whose rows do not follow each other in memory, because a row or a number is repeated or
because they are columns of a larger array, are first copied into a tile on the stack, in which they do. A repeated row
is copied once. One thread, float32, in us: (100, 1, 3) - (100, 3) 72 -> 14, (2000, 1, 3) - (500, 3) 2900 -> 520,
(4000, 10) - (10,) 21 -> 12, (500, 200) - (500, 1) 32 -> 18.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ...llvm import (
    array,
    call,
    cast,
    copy_bytes,
    data,
    flags,
    function_pointer,
    i8,
    i64,
    loop,
    maximum,
    minimum,
    ndim,
    pointer,
    shape,
    splat,
    stack,
    store,
    strides,
    u8,
    u16,
    u32,
    void,
)
from ..pool.region import parallel

__all__ = ["OPERANDS", "elementwise", "widths_of"]

OPERANDS: Final = 16
"""The most arrays that a call can have."""
_AXES: Final = 64  # the most axes that an array can have
_SHORT: Final = 16  # elements: below, a call of the inner loop costs more than they do
_GRAIN: Final = 64  # pieces are multiples of it, so that vectors of all dtypes fit
_SIZE: Final = tuple.__basicsize__  # the items of a tuple follow its head
_ALIGNED: Final = 0x100

# A region's data: numbers, then the addresses of the first elements, the lengths of axes and their strides in bytes,
# those of one axis side by side.
_LOOP, _CONTEXT, _COUNT, _PIECE, _ROWS, _NDIM, _WIDTHS = range(7)
_BASES: Final = 8
_LENGTHS: Final = _BASES + OPERANDS
_STRIDES: Final = _LENGTHS + _AXES
_STEPS: Final = _STRIDES + OPERANDS * _AXES  # of tiled operands: from one row to the next
_KINDS: Final = _STEPS + OPERANDS  # how they are tiled
_ROW, _TILE_ROWS = range(_KINDS + OPERANDS, _KINDS + OPERANDS + 2)  # the length of a row, 0: no tiles; rows of a tile
_BLOCK: Final = _TILE_ROWS + 1

_BY_ROWS, _BY_NUMBERS = 1, 2  # kinds of tiles: copies of rows, and of the number of each row
_TILES: Final = 4  # the most tiles
_TILE: Final = 8192  # bytes of a tile
_PADDING: Final = 64  # bytes after it, which vectors may overwrite
_LONG: Final = 1024  # bytes of a row from which a call for each is as fast; four times as many if it is repeated
_FULL: Final = 128  # elements that a tile must have to be worth it


def widths_of(inputs: Sequence[np.dtype], outputs: Sequence[np.dtype]) -> int:
    """Return the sizes of elements as the driver takes them.

    >>> hex(widths_of([np.dtype("float32"), np.dtype("bool")], [np.dtype("float64")]))
    '0xb02'
    """
    described = [dtype.itemsize.bit_length() - 1 for dtype in inputs]
    described += [dtype.itemsize.bit_length() + 7 for dtype in outputs]
    return sum([log << 4 * k for k, log in enumerate(described)])


@loop(cold=True)
def _read(items: pointer(pointer(i8)), count: i64, block: pointer(i64)) -> i64:
    """Read the arrays into the block; return how many elements the result has, or -1 to decline."""
    out = items[count - 1]
    axes = ndim(out)
    lengths = shape(out)
    for k in range(count):
        a = items[k]
        if (flags(a) & _ALIGNED) == 0:
            return -1
        if ndim(a) > axes:
            return -1
        block[_BASES + k] = i64(data(a, i8))
    kept = 0
    total = 1
    overlaps = 0
    for depth in range(axes):
        axis = axes - 1 - depth
        length = lengths[axis]
        total *= length
        if length != 1:
            block[_LENGTHS + kept] = length
        for k in range(count):
            a = items[k]
            own = axis - axes + ndim(a)
            step = 0
            if own >= 0:
                given = shape(a)[own]
                if given == length:
                    step = strides(a)[own]
                elif given != 1:
                    return -1
            if length != 1:
                block[_STRIDES + kept * OPERANDS + k] = step
        if length != 1:
            overlaps += i64(block[_STRIDES + kept * OPERANDS + count - 1] == 0)
            kept += 1
    if total != 0 and overlaps != 0:
        return -1
    if kept == 0:
        block[_LENGTHS] = 1
        for k in range(count):
            block[_STRIDES + k] = 0
        kept = 1
    block[_NDIM] = kept
    return total


@loop(cold=True)
def _exchange(block: pointer(i64), count: i64, i: i64, j: i64) -> void:
    """Exchange two axes."""
    length = block[_LENGTHS + i]
    block[_LENGTHS + i] = block[_LENGTHS + j]
    block[_LENGTHS + j] = length
    for k in range(count):
        step = block[_STRIDES + i * OPERANDS + k]
        block[_STRIDES + i * OPERANDS + k] = block[_STRIDES + j * OPERANDS + k]
        block[_STRIDES + j * OPERANDS + k] = step


@loop(cold=True)
def _width(block: pointer(i64), count: i64, axis: i64) -> i64:
    step = block[_STRIDES + axis * OPERANDS + count - 1]
    return -step if step < 0 else step


@loop(cold=True)
def _arrange(block: pointer(i64), count: i64) -> void:
    """Order the axes by the strides of the last result, and join those that one step can walk."""
    axes = block[_NDIM]
    for i in range(1, axes):
        j = i
        while j > 0:
            if _width(block, count, j - 1) <= _width(block, count, j):
                break
            _exchange(block, count, j - 1, j)
            j -= 1
    last = 0
    for i in range(1, axes):
        joins = 1
        for k in range(count):
            step = block[_STRIDES + last * OPERANDS + k]
            if block[_STRIDES + i * OPERANDS + k] != step * block[_LENGTHS + last]:
                joins = 0
        if joins != 0:
            block[_LENGTHS + last] = block[_LENGTHS + last] * block[_LENGTHS + i]
        else:
            last += 1
            if last != i:
                _exchange(block, count, last, i)
    axes = last + 1
    block[_NDIM] = axes


@loop(cold=True)
def _longest_first(block: pointer(i64), count: i64) -> void:
    """Make the longest axis the inner one."""
    longest = 0
    for i in range(1, block[_NDIM]):
        if block[_LENGTHS + i] > block[_LENGTHS + longest]:
            longest = i
    if longest != 0:
        _exchange(block, count, 0, longest)


@loop(cold=True)
def _tile(block: pointer(i64), count: i64, widths: i64) -> void:
    """Make the two innermost axes one, if that takes tiles that are worth it: Note [Short rows are tiled]."""
    length, rows = block[_LENGTHS], block[_LENGTHS + 1]
    largest = i64(1)
    tiles = 0
    longest = i64(4 * _LONG)
    fits = 1
    for k in range(count):
        described = (widths >> (4 * k)) & 15
        width = i64(1) << (described & 7)
        largest = maximum(largest, width)
        step, next_row = block[_STRIDES + k], block[_STRIDES + OPERANDS + k]
        kind = 0
        if (next_row != step * length) | ((step != width) & (step != 0)):
            kind = _BY_ROWS if step == width else _BY_NUMBERS
            tiles += 1
            longest = i64(_LONG) if next_row != 0 else longest
            # a result, another stride within rows, or numbers of 16 bytes
            if (described > 7) | ((kind == _BY_NUMBERS) & ((step != 0) | (width > 8))):
                fits = 0
        block[_KINDS + k] = kind
        block[_STEPS + k] = next_row
    size = length * largest
    held = minimum(_TILE // size, rows)
    if (fits == 0) | (tiles > _TILES) | (size > longest) | (held * length < _FULL):
        for j in range(count):
            block[_KINDS + j] = 0
        return
    block[_ROW], block[_TILE_ROWS] = length, held
    block[_LENGTHS] = length * rows
    for k in range(count):
        if block[_KINDS + k] != 0:
            block[_STRIDES + k] = 0
    for i in range(2, block[_NDIM]):
        block[_LENGTHS + i - 1] = block[_LENGTHS + i]
        for k in range(count):
            block[_STRIDES + (i - 1) * OPERANDS + k] = block[_STRIDES + i * OPERANDS + k]
    block[_NDIM] = block[_NDIM] - 1


@loop(cold=True)
def _fill_rows(tile: pointer(i8), source: i64, rows: i64, size: i64, step: i64) -> void:
    """Fill a tile with rows of ``size`` bytes."""
    copied = i64(1) if step == 0 else rows
    for r in range(copied):
        copy_bytes(tile + r * size, cast(source + r * step, pointer(i8)), size)
    done = copied * size
    while done < rows * size:  # twice as many rows
        copy_bytes(tile + done, tile, minimum(done, rows * size - done))
        done = done + done


@loop(inline=False)
def _fill_numbers(tile: pointer(i8), source: i64, rows: i64, size: i64, step: i64, width: i64) -> void:
    """Fill a tile with rows of ``size`` bytes, each of one number; what follows them in it is overwritten too."""
    for r in range(rows):
        at = source + r * step
        number = i64(0)
        if width == 8:
            number = cast(at, pointer(i64))[0]
        elif width == 4:
            number = i64(cast(at, pointer(u32))[0]) * 0x100000001
        elif width == 2:
            number = i64(cast(at, pointer(u16))[0]) * 0x1000100010001
        else:
            number = i64(cast(at, pointer(u8))[0]) * 0x101010101010101
        j = i64(0)
        while j < size:
            store(cast(tile + (r * size + j), pointer(i64)), splat(number, 4))
            j += 32


@loop(cold=True)
def _fill_tile(block: pointer(i64), k: i64, tile: pointer(i8), source: i64, rows: i64, width: i64) -> void:
    """Fill the tile of an operand."""
    size, step = block[_ROW] * width, block[_STEPS + k]
    if block[_KINDS + k] == _BY_NUMBERS:
        _fill_numbers(tile, source, rows, size, step, width)
    else:
        _fill_rows(tile, source, rows, size, step)


@loop(cold=True)
def _pieces(data: pointer(i8), start: i64, stop: i64) -> void:
    """Call the inner loop for some of the pieces."""
    block = cast(data, pointer(i64))
    function, context = cast(block[_LOOP], pointer(i8)), cast(block[_CONTEXT], pointer(i8))
    count, piece, rows, axes = block[_COUNT], block[_PIECE], block[_ROWS], block[_NDIM]
    length = block[_LENGTHS]
    strides = block + _STRIDES
    args, steps, dimensions = stack(i64, OPERANDS), stack(i64, OPERANDS), stack(i64, 1)
    places, offsets = stack(i64, _AXES), stack(i64, OPERANDS)
    tiles, filled = stack(i8, _TILES * (_TILE + _PADDING)), stack(i64, _TILES)
    tiled_row, widths = block[_ROW], block[_WIDTHS]

    column = start // rows
    row = start % rows
    for k in range(count):
        steps[k] = strides[k] if block[_KINDS + k] == 0 else i64(1) << ((widths >> (4 * k)) & 7)
        offsets[k] = block[_BASES + k]
    for t in range(_TILES):
        filled[t] = 0
    rest = row
    for i in range(1, axes):
        places[i] = rest % block[_LENGTHS + i]
        rest = rest // block[_LENGTHS + i]
        for k in range(count):
            offsets[k] = offsets[k] + places[i] * strides[i * OPERANDS + k]

    for _ in range(start, stop):
        first = column * piece
        for k in range(count):
            args[k] = offsets[k] + first * strides[k]
        dimensions[0] = minimum(piece, length - first)
        if tiled_row != 0:
            used = i64(0)
            for k in range(count):
                if block[_KINDS + k] != 0:
                    step = block[_STEPS + k]
                    source = args[k] + first // tiled_row * step
                    tile = tiles + used * (_TILE + _PADDING)
                    if filled[used] != source:
                        held = block[_TILE_ROWS] if step == 0 else dimensions[0] // tiled_row
                        _fill_tile(block, k, tile, source, held, i64(1) << ((widths >> (4 * k)) & 7))
                        filled[used] = source
                    args[k] = i64(tile)
                    used += 1
        call(function, args, dimensions, steps, context)
        row += 1
        i = 1
        while i < axes:  # the next row; after the last one, the first again
            places[i] = places[i] + 1
            turned = places[i] == block[_LENGTHS + i]
            back = block[_LENGTHS + i] - 1 if turned else i64(0)
            ahead = i64(0) if turned else i64(1)
            for k in range(count):
                offsets[k] = offsets[k] + (ahead - back) * strides[i * OPERANDS + k]
            if not turned:
                break
            places[i] = 0
            i += 1
        if row == rows:
            row = 0
            column += 1


@loop(brief=True, cold=True)
def elementwise(
    pool: pointer(i8), function: i64, context: i64, widths: i64, chunk: i64, limit: i64, operands: array
) -> i64:
    """Compute a result of arrays: ``operands`` is a tuple of them, the results last, all of one shape.

    ``widths`` (see `widths_of`) has four bits for each operand, the first ones lowest: the logarithm of the size of its
    elements, plus 8 if it is a result.

    ``chunk`` is the number of elements that are worth sending to another thread; below ``limit`` elements all are
    computed by the caller. Returns 0, or 1 if nothing was computed: see Note [One driver for all elementwise loops].
    """
    count = cast(operands + 16, pointer(i64))[0]
    items = cast(operands + _SIZE, pointer(pointer(i8)))
    block = stack(i64, _BLOCK)
    if count > OPERANDS:
        return 1
    total = _read(items, count, block)
    if total <= 0:
        return i64(total < 0)
    _arrange(block, count)
    block[_ROW], block[_WIDTHS] = 0, widths
    for k in range(count):
        block[_KINDS + k] = 0
    if block[_NDIM] > 1:
        _tile(block, count, widths)
        if (block[_ROW] == 0) & (block[_LENGTHS] < _SHORT):
            _longest_first(block, count)
    length = block[_LENGTHS]
    rows = total // length
    pieces = 1
    if total >= limit:
        pieces = (length + chunk - 1) // chunk
    piece = (length + pieces - 1) // pieces
    if pieces > 1:
        piece = (piece + _GRAIN - 1) // _GRAIN * _GRAIN
        pieces = (length + piece - 1) // piece
    if block[_ROW] != 0:
        piece = block[_TILE_ROWS] * block[_ROW]
        pieces = (length + piece - 1) // piece
    block[_LOOP], block[_CONTEXT], block[_COUNT], block[_PIECE], block[_ROWS] = function, context, count, piece, rows
    units = rows * pieces
    share = units
    if total >= limit:
        share = (chunk + piece - 1) // piece
    parallel(pool, function_pointer(_pieces), cast(block, pointer(i8)), units, share)
    return 0
