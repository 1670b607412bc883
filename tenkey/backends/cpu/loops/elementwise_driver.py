"""The driver of elementwise calls: it walks over the arrays and calls an inner loop by its address, on several threads.

Note [One driver for all elementwise loops]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
NumPy's inner loops and ours have one signature, ``loop(args, dimensions, steps, data)``, so one compiled driver serves
every pointwise operator, dtype and number of operands. It takes the arrays themselves, the results last, and

1. reads their shapes and strides, with stride 0 where an operand is repeated, and drops axes of length 1;
2. orders the axes by the strides of the first result, and joins axes that one step can walk;
3. chooses the inner axis: the innermost, or the longest if that one is so short that calls would cost more than the
   elements;
4. cuts the inner axis into pieces of ``chunk`` elements, and shares out the pieces of all rows over the pool. Of two
   pieces of one row, the second is computed after the first pieces of all rows: an operand that is repeated along the
   rows then stays in the cache.

The result of every element is the same, whatever thread computes it. The driver declines (it returns 1, and NumPy is
called) if an array is not aligned, the shapes do not fit, or a result overlaps itself. A result that overlaps an
operand otherwise than element by element is the caller's concern.
Guarded by ``tests/backends/test_elementwise_driver.py``.
"""

from __future__ import annotations

from typing import Final

from ...llvm import (
    array,
    call,
    cast,
    data,
    flags,
    function_pointer,
    i8,
    i64,
    loop,
    minimum,
    ndim,
    pointer,
    shape,
    stack,
    strides,
    void,
)
from ..pool.region import parallel

__all__ = ["OPERANDS", "elementwise"]

OPERANDS: Final = 16
"""The most arrays that a call can have."""
_AXES: Final = 64  # the most axes that an array can have
_SHORT: Final = 16  # elements: below, a call of the inner loop costs more than they do
_GRAIN: Final = 64  # pieces are multiples of it, so that vectors of all dtypes fit
_SIZE: Final = tuple.__basicsize__  # the items of a tuple follow its head
_ALIGNED: Final = 0x100

# A region's data: numbers, then the addresses of the first elements, the lengths of axes and their strides in bytes,
# those of one axis side by side.
_LOOP, _CONTEXT, _COUNT, _PIECE, _ROWS, _NDIM = range(6)
_BASES: Final = 8
_LENGTHS: Final = _BASES + OPERANDS
_STRIDES: Final = _LENGTHS + _AXES
_BLOCK: Final = _STRIDES + OPERANDS * _AXES


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


@loop
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
    if block[_LENGTHS] < _SHORT:
        longest = 0
        for i in range(1, axes):
            if block[_LENGTHS + i] > block[_LENGTHS + longest]:
                longest = i
        if longest != 0:
            _exchange(block, count, 0, longest)


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

    column = start // rows
    row = start % rows
    for k in range(count):
        steps[k] = strides[k]
        offsets[k] = block[_BASES + k]
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
def elementwise(pool: pointer(i8), function: i64, context: i64, chunk: i64, limit: i64, operands: array) -> i64:
    """Compute a result of arrays: ``operands`` is a tuple of them, the results last, all of one shape.

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
    length = block[_LENGTHS]
    rows = total // length
    pieces = 1
    if total >= limit:
        pieces = (length + chunk - 1) // chunk
    piece = (length + pieces - 1) // pieces
    if pieces > 1:
        piece = (piece + _GRAIN - 1) // _GRAIN * _GRAIN
        pieces = (length + piece - 1) // piece
    block[_LOOP], block[_CONTEXT], block[_COUNT], block[_PIECE], block[_ROWS] = function, context, count, piece, rows
    units = rows * pieces
    share = units
    if total >= limit:
        share = (chunk + piece - 1) // piece
    parallel(pool, function_pointer(_pieces), cast(block, pointer(i8)), units, share)
    return 0
