"""The inner loop of a scalar expression, with the signature of NumPy's inner loops.

Note [One copy of the arithmetic]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The arithmetic of an expression is compiled once, in ``_vectors``, which walks over whole vectors by pointers that move
by a number of bytes for each operand. Everything else is brought into that form: an operand that is one repeated
element becomes a vector that the pointer does not leave; fewer elements than a vector and operands with other strides
go through buffers of 512 elements on the stack. So compiling takes a fraction of the time that copies for each layout
would, and results do not depend on the layout. The lanes of a buffer that hold no element are copies of one that does:
they neither fault nor take a rare path alone. Measured on 2**20 float32: a strided operand costs 0.4 ns for each
element.

The last vector of a row begins a vector before its end, and so computes some elements twice. It comes first, into a
buffer, because the other vectors overwrite its operands where the result is one of them. Rows of 1,023 float32 then
take as long as rows of 1,024; by masks, which AVX2 has for loads and stores alone, each takes 0.2 us more.

With ``STREAM``, results bypass the caches. They must then be contiguous and begin with a cache line.
Guarded by ``tests/backends/test_expressions.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...llvm import (
    Type,
    Value,
    address,
    b8,
    cast,
    convert,
    fence,
    first_lanes,
    i8,
    i16,
    i32,
    i64,
    interleave,
    load,
    loop,
    minimum,
    of_dtype,
    pointer,
    shuffle,
    splat,
    stack,
    store,
    unroll,
    void,
)
from ...processor import register_bytes
from .expressions import ScalarLoop

__all__ = ["lanes_for", "pointwise"]

_BLOCK: Final = 512  # elements of a buffer
_WORDS: Final = {1: i8, 2: i16, 4: i32, 8: i64}


def lanes_for(function: ScalarLoop, inputs: Sequence[np.dtype], outputs: Sequence[np.dtype]) -> int:
    """Return the number of lanes with which the widest type of a loop fills 64 bytes."""
    sizes = [_part_type(dtype).size for dtype in (*inputs, *outputs, function.dtype)]
    if function.dtype.name in ("float16", "bfloat16"):
        sizes.append(4)
    return 64 // max(sizes)


def _part_type(dtype: np.dtype) -> Type:
    return of_dtype(np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype)


def _taken(at: Value, dtype: np.dtype, lanes: int) -> Any:
    """Load a vector, or the parts of complex numbers."""
    p = cast(at, pointer(_part_type(dtype)))
    if dtype.kind != "c":
        return load(p, lanes)
    both = load(p, 2 * lanes)
    return shuffle(both, both, range(0, 2 * lanes, 2)), shuffle(both, both, range(1, 2 * lanes, 2))


def _put(at: Value, value: Any, dtype: np.dtype, streaming: bool) -> None:
    """Store a vector, or complex numbers from their parts."""
    T = _part_type(dtype)
    p = cast(at, pointer(T))
    if dtype.kind == "c":
        value = interleave(*value)
    value = convert(value, b8) if T is b8 else value
    lanes = value.type.lanes
    if streaming:
        store(p, value, streaming=True, align=min(64, T.size * lanes))
        return
    part = min(register_bytes() // T.size, lanes)
    for k in range(0, lanes, part):  # upwards, or stores that cross cache lines take twice as long
        store(p + k, shuffle(value, value, range(k, k + part)) if part < lanes else value)


def _step(
    at: Any, FUNCTION: ScalarLoop, INPUTS: tuple[np.dtype, ...], OUTPUTS: tuple[np.dtype, ...], L: int, STREAM: bool
) -> None:
    """Compute one vector of each result."""
    values = [_taken(at[k], dtype, L) for k, dtype in enumerate(INPUTS)]
    results = FUNCTION(*values)
    if not isinstance(results, tuple) or (len(OUTPUTS) == 1 and OUTPUTS[0].kind == "c"):
        results = (results,)
    for k, (dtype, result) in enumerate(zip(OUTPUTS, results, strict=True)):
        _put(at[len(INPUTS) + k], result, dtype, STREAM)


@loop(inline=False)
def _vectors(
    pointers: pointer(i64), moves: pointer(i64), count: i64, *, FUNCTION: Any, INPUTS: Any, OUTPUTS: Any,
    LANES: int, STREAM: bool = False,
) -> void:  # fmt: skip
    at = [pointers[k] for k in unroll(len(INPUTS) + len(OUTPUTS))]
    by = tuple(moves[k] for k in unroll(len(INPUTS) + len(OUTPUTS)))
    for _ in range(count):
        _step(at, FUNCTION, INPUTS, OUTPUTS, LANES, STREAM)
        for k in unroll(len(INPUTS) + len(OUTPUTS)):
            at[k] = at[k] + by[k]


@loop(inline=False)
def _copy(to: i64, to_step: i64, source: i64, source_step: i64, count: i64, *, SIZE: int) -> void:
    """Copy elements between places with any strides."""
    W = _WORDS[min(SIZE, 8)]
    for k in range(count):
        for part in unroll(max(1, SIZE // 8)):
            cast(to + k * to_step, pointer(W))[part] = cast(source + k * source_step, pointer(W))[part]


@loop(cold=True)
def _read_adjacent(to: i64, source: i64, count: i64, *, SIZE: int, LANES: int) -> void:
    """Copy adjacent elements, followed by copies of the first up to a whole vector."""
    p, buffer = cast(source, pointer(_WORDS[SIZE])), cast(to, pointer(_WORDS[SIZE]))
    first = splat(p[0], LANES)
    for k in range(0, count, LANES):
        rest = first_lanes(count - k, LANES)
        store(buffer + k, load(p + k, LANES, mask=rest, fill=first, align=min(SIZE, 4)))


@loop(cold=True)
def _write_adjacent(to: i64, source: i64, count: i64, *, SIZE: int, LANES: int) -> void:
    p, buffer = cast(to, pointer(_WORDS[SIZE])), cast(source, pointer(_WORDS[SIZE]))
    for k in range(0, count, LANES):
        store(p + k, load(buffer + k, LANES), mask=first_lanes(count - k, LANES), align=min(SIZE, 4))


@loop(inline=True)
def _read(to: i64, source: i64, step: i64, count: i64, padded: i64, *, SIZE: int, LANES: int) -> void:
    """Copy elements into a buffer, followed by copies of the first up to a whole vector."""
    if SIZE in _WORDS and step == SIZE:
        _read_adjacent(to, source, count, SIZE=SIZE, LANES=LANES)
    else:
        _copy(to, SIZE, source, step, count, SIZE=SIZE)
        _copy(to + count * SIZE, SIZE, source, 0, padded - count, SIZE=SIZE)


@loop(inline=True)
def _write(to: i64, step: i64, source: i64, count: i64, *, SIZE: int, LANES: int) -> void:
    """Copy elements from a buffer."""
    if SIZE in _WORDS and step == SIZE:
        _write_adjacent(to, source, count, SIZE=SIZE, LANES=LANES)
    else:
        _copy(to, step, source, SIZE, count, SIZE=SIZE)


@loop(brief=True, cold=True)
def pointwise(
    args: pointer(i64), dimensions: pointer(i64), steps: pointer(i64), context: pointer(i8), *, FUNCTION: Any,
    INPUTS: Any, OUTPUTS: Any, LANES: int, STREAM: bool = False,
) -> void:  # fmt: skip
    """Compute ``FUNCTION``, a :class:`ScalarLoop`, of operands and for results of these dtypes."""
    count = dimensions[0]
    pointers, moves = stack(i64, len(INPUTS) + len(OUTPUTS)), stack(i64, len(INPUTS) + len(OUTPUTS))
    buffers = tuple(address(stack(i8, _BLOCK * dtype.itemsize)) for dtype in (*INPUTS, *OUTPUTS))
    direct = 1
    for k, dtype in unroll(enumerate((*INPUTS, *OUTPUTS))):
        pointers[k] = args[k]
        moves[k] = LANES * dtype.itemsize
        if steps[k] != dtype.itemsize:
            if k < len(INPUTS) and steps[k] == 0:
                if dtype.itemsize in _WORDS:
                    W = _WORDS[dtype.itemsize]
                    store(cast(buffers[k], pointer(W)), splat(cast(args[k], pointer(W))[0], LANES))
                else:
                    _copy(buffers[k], dtype.itemsize, args[k], 0, i64(LANES), SIZE=dtype.itemsize)
                pointers[k] = buffers[k]
                moves[k] = 0
            else:
                direct = 0
    done = 0
    if direct != 0:
        done = count // LANES * LANES
        last = count - LANES
        twice = (last > 0) & (done < count) & (not STREAM)
        if twice:
            for k, dtype in unroll(enumerate((*INPUTS, *OUTPUTS))):
                if moves[k] != 0:
                    pointers[k] = args[k] + last * dtype.itemsize if k < len(INPUTS) else buffers[k]
            _vectors(pointers, moves, 1, FUNCTION=FUNCTION, INPUTS=INPUTS, OUTPUTS=OUTPUTS, LANES=LANES)
            for k in unroll(len(INPUTS) + len(OUTPUTS)):
                if moves[k] != 0:
                    pointers[k] = args[k]
        _vectors(pointers, moves, count // LANES, FUNCTION=FUNCTION, INPUTS=INPUTS, OUTPUTS=OUTPUTS, LANES=LANES,
                 STREAM=STREAM)  # fmt: skip
        if twice:
            for k, dtype in unroll(enumerate(OUTPUTS, len(INPUTS))):
                to, computed = cast(args[k] + last * dtype.itemsize, pointer(i8)), cast(buffers[k], pointer(i8))
                store(to, load(computed, LANES * dtype.itemsize))
            done = count
    while done < count:
        some = minimum(_BLOCK, count - done)
        padded = (some + LANES - 1) // LANES * LANES
        for k, dtype in unroll(enumerate((*INPUTS, *OUTPUTS))):
            place = args[k] + done * steps[k]
            if moves[k] != 0:
                pointers[k] = place
                if steps[k] != dtype.itemsize or padded != some:
                    pointers[k] = buffers[k]
                    if k < len(INPUTS):
                        _read(buffers[k], place, steps[k], some, padded, SIZE=dtype.itemsize, LANES=LANES)
        _vectors(pointers, moves, padded // LANES, FUNCTION=FUNCTION, INPUTS=INPUTS, OUTPUTS=OUTPUTS, LANES=LANES,
                 STREAM=STREAM)  # fmt: skip
        for k, dtype in unroll(enumerate(OUTPUTS, len(INPUTS))):
            if pointers[k] == buffers[k]:
                _write(args[k] + done * steps[k], steps[k], buffers[k], some, SIZE=dtype.itemsize, LANES=LANES)
        done += some
    if STREAM:
        fence()  # streaming stores are not ordered with what tells other threads that the piece is complete
