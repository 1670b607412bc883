"""Random numbers: Philox on vectors of blocks, and the samplers of ``core/random`` on the bits.

Note [Random numbers in groups of blocks]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The arithmetic is that of ``core/random/exact_functions.py`` and ``samplers.py``, applied to vectors of 64-bit lanes: a
lane holds a word of one block, so that a product of 32-bit words is one instruction. 32 blocks are a group, four
vectors wide, because the operations of one vector wait for each other (normal float32: 6.3 ms with 8 blocks, 4.7 with
16, 4.0 with 32, for 2**20 elements on one thread). A group gives 128, 64 or 32 consecutive elements (Note [Random
addresses]); the threads share the groups, and an element depends on its number alone. A draw may begin and end within a
group: such a group goes through a buffer. Products and sums are not fused, so that the numbers are those of NumPy's
functions to the last bit.

Measured for 2**20 elements on two threads, in ms, with NumPy's generator and PyTorch's: uniform float32 0.23 (1.45,
2.5), uniform float64 0.6 (1.7, 3.7), integers 0.57 (1.9, 3.0), normal float32 2.1 (8.6, 2.4), normal float64 2.2 (9.5,
15). The limit is arithmetic: a block takes 70 instructions for 8 lanes; a normal number has a block, a logarithm, a
cosine, a division and a root of its own, in float64 and without fused operations: 170 instructions for 8.
Guarded by ``tests/backends/test_random_loops.py``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from ....core.dtypes.names import float32, float64, real_of, uint64
from ....core.random import draws, samplers
from ....core.random import exact_functions as exact
from ....core.random.philox import BLOCKS, DOUBLE_WORDS, STANDARD, TAG_SHIFT, WORDS, Key, check_range
from ....core.random.samplers import STANDARD as FAMILIES
from ...allocation.host import allocate
from ...libm.operations import select as where
from ...llvm import (
    Type,
    address,
    array,
    bitcast,
    cast,
    convert,
    copy_bytes,
    data,
    f32,
    f64,
    floor,
    function_pointer,
    i8,
    i32,
    i64,
    interleave,
    iota,
    kernel,
    loop,
    maximum,
    minimum,
    of_dtype,
    pointer,
    select,
    shuffle,
    splat,
    sqrt,
    stack,
    store,
    u32,
    u64,
    unroll,
    vector,
    void,
)
from ...llvm.compiled import Case, UnavailableError
from ..pool import STATE
from ..pool.region import parallel
from ..thresholds import RANDOM_NUMBERS

__all__ = ["cases", "integers", "normal", "random_bits", "standard", "uniform"]

GROUP: Final = 32
"""Blocks computed at once."""
LANES: Final = 8  # of 64 bits, in the widest vectors
_CHUNK: Final = 64  # groups that a thread takes at once: 4 us of uniform numbers, 8 us of normal ones

_SQRT_HALF: Final = struct.unpack("<q", struct.pack("<d", exact.SQRT_HALF))[0]


def _digits(bits: Any, drop: int) -> Any:
    return convert(bitcast(bits >> drop, i64), f64)  # fewer than 63 bits are left: the sign does not matter


def _balanced(x: Any) -> tuple[Any, Any]:
    bits = bitcast(x, i64)
    power = (bits - _SQRT_HALF) >> 52  # the bits of numbers are in their order
    return bitcast(bits - (power << 52), f64), convert(power, f64)


VALUES: Final = SimpleNamespace(
    balanced=_balanced, cosine=lambda turns: exact.cosine(VALUES, turns), digits=_digits, floor=floor,
    log=lambda x: exact.log(VALUES, x), ones_where=lambda condition: convert(condition, u64),
    sine=lambda turns: exact.sine(VALUES, turns), sqrt=sqrt, where=where,
)  # fmt: skip
"""Note [Samplers for arrays and tensors]: the functions on values of compiled code."""

_FLOATS: Final = (float32, float64)
_FAMILY: Final = "standard "
_LAYOUTS: Final = {"uniform": WORDS, "uniform64": DOUBLE_WORDS, "bits": DOUBLE_WORDS, "integers": DOUBLE_WORDS}


def _layout(kind: str) -> int:
    return _LAYOUTS.get(kind, STANDARD if kind.startswith(_FAMILY) else BLOCKS)


def _per_block(kind: str) -> int:
    return {WORDS: 4, DOUBLE_WORDS: 2}.get(_layout(kind), 1)


@loop(inline=True)
def _halves(block: Any, stream: u64, seed: u64) -> Any:
    """Return the lower and the upper 64 bits of blocks; the rounds stay a loop, which compiles in half the time."""
    x0, x1, k0, k1 = block, block >> 32, seed & exact.MASK32, seed >> 32
    x2, x3 = splat(stream, GROUP), splat(stream >> 32, GROUP)
    for _ in range(exact.ROUNDS):
        x0, x1, x2, x3, k0, k1 = exact.philox_round(x0, x1, x2, x3, k0, k1)
    return exact.double(x0 & exact.MASK32, x1), exact.double(x2 & exact.MASK32, x3)


def _in_order(low: Any, high: Any) -> list[Any]:
    """Return the double words of blocks one after the other, in vectors."""
    parts = [range(k, k + LANES) for k in range(0, GROUP, LANES)]
    return [interleave(shuffle(low, low, part), shuffle(high, high, part)) for part in parts]


def _unit(bits: Any, T: Type, parameters: Sequence[Any], affine: bool) -> Any:
    """Return uniform numbers: on [0, 1), or ``affine`` on the interval whose ends and width are the parameters."""
    digits = 53 if T is f64 else 24
    values = convert(bitcast(bits >> (T.bits - digits), i64 if T is f64 else i32), T) * 2.0**-digits
    if not affine:
        return values
    lowest, width, highest, below = parameters
    values = values * width + lowest
    return select(values >= highest, below, values)  # rounding may reach the end of the interval


def _samples(kind: str, T: Type, halves: tuple[Any, Any], parameters: Sequence[Any], affine: bool) -> list[Any]:
    """Return the elements of a group as vectors, in order."""
    low, high = halves
    if kind == "uniform":
        words = [bitcast(pairs, vector(u32, 4 * LANES)) for pairs in _in_order(low, high)]
        return [_unit(bits, T, parameters, affine) for bits in words]
    if kind == "uniform64":
        return [_unit(bits, T, parameters, affine) for bits in _in_order(low, high)]
    if kind == "bits":
        return _in_order(low, high)
    if kind == "integers":
        size, offset = parameters
        return [convert(exact.scaled(bits, size) + offset, T) for bits in _in_order(low, high)]
    if kind == "whole":
        return [convert(high + parameters[1], T)]
    if kind == "wide":
        size, offset = parameters
        return [convert(exact.scaled_wide(VALUES, low, high, size) + offset, T)]
    if kind.startswith(_FAMILY):
        return [convert(FAMILIES[kind.removeprefix(_FAMILY)](VALUES, low, high), T)]
    radius, turns = exact.normal(VALUES, low, high)
    if kind == "normal":
        return [convert(radius * VALUES.cosine(turns), T)]
    radius = radius * exact.SQRT_HALF
    return [interleave(convert(radius * VALUES.cosine(turns), T), convert(radius * VALUES.sine(turns), T))]


@loop(contract=False)
def _groups(block: pointer(i8), start: i64, stop: i64, *, T: Any, KIND: Any, AFFINE: Any) -> void:
    """Compute groups: the elements from ``-skip`` on, of which those in range(n) are stored."""
    fields = cast(block, pointer(u64))
    out = cast(i64(fields[0]), pointer(T))
    seed, stream, first = fields[1], fields[2], fields[3]
    skip, n = i64(fields[4]), i64(fields[5])
    P = f64 if T is f64 else f32 if T is f32 else u64
    parameters = [cast(block + 8 * (6 + k), pointer(P))[0] for k in unroll(4 if AFFINE else 2)]
    parts = 2 if KIND == "complex" else 1
    size = GROUP * _per_block(KIND) * parts
    buffer = stack(T, size)
    for group in range(start, stop):
        blocks = splat(first + u64(group) * GROUP, GROUP) + iota(u64, GROUP)
        found = _samples(KIND, T, _halves(blocks, stream, seed), parameters, AFFINE)
        at = group * size - skip * parts
        target = out + at
        whole = (at >= 0) and (at + size <= n * parts)
        place = target if whole else buffer
        for k, values in unroll(list(enumerate(found))):
            store(place + k * (size // len(found)), values)
        if not whole:
            begin, end = maximum(i64(0), -at), minimum(i64(size), n * parts - at)
            copy_bytes(cast(target + begin, pointer(i8)), cast(buffer + begin, pointer(i8)), (end - begin) * T.size)


@loop(contract=False, brief=True)
def draw(
    pool: pointer(i8), out: array, block: array, groups: i64, chunk: i64, *, T: Any, KIND: Any, AFFINE: Any = False
) -> void:  # fmt: skip
    """Fill a contiguous array; ``block`` is ten numbers of 64 bits, of which the first is filled in here.

    They are the address, seed, stream, number of the first block with its tag, elements of it to leave out, number of
    elements, and the parameters: size and offset of integers; the least, the width, the end and the number before it
    of an interval.
    """
    fields = data(block, i64)
    fields[0] = address(data(out, i8))
    parallel(pool, function_pointer(_groups, T=T, KIND=KIND, AFFINE=AFFINE), cast(fields, pointer(i8)), groups, chunk)


def _drawn(kind: str, key: Key, count: int, dtype: np.dtype, start: int, parameters: Any = (), part: Any = None) -> Any:
    """Return the elements of a draw, or None if they are few or the kernel is not available."""
    if count < RANDOM_NUMBERS:
        return None
    try:
        function, per_block, tag, packed = _prepared(kind, part or dtype, len(parameters))
    except UnavailableError:
        return None
    check_range(key, start, count)
    first, skip = divmod(start, per_block)
    block = np.frombuffer(bytearray(packed(0, *key, tag + first, skip, count, *parameters)), np.uint64)
    out = allocate((count,), dtype)
    function(STATE, out, block, -(-(skip + count) // (GROUP * per_block)), _CHUNK)
    return out


@cache
def _prepared(kind: str, dtype: np.dtype, parameters: int) -> tuple[Callable[..., Any], int, int, Callable[..., bytes]]:
    """Return the kernel of draws, how many elements a block has, the tag of blocks, and what packs the numbers."""
    function = kernel(draw, T=of_dtype(dtype), KIND=kind, AFFINE=parameters == 4)
    number = "Q" if parameters != 4 else "d" if dtype == float64 else "f4x"
    packed = struct.Struct(f"={'Q' * 6}{number * parameters}{8 * (4 - parameters)}x")
    return function, _per_block(kind), _layout(kind) << TAG_SHIFT, packed.pack


def uniform(key: Key, count: int, dtype: np.dtype, start: int, low: float, high: float) -> Any:
    """Draw as ``draws.uniform`` does."""
    drawn = None
    if dtype in _FLOATS:
        parameters: Any = ()
        if low != 0.0 or high != 1.0:
            lowest, highest, below = draws.interval(low, high, dtype)
            parameters = lowest, highest - lowest, highest, below
        drawn = _drawn("uniform" if dtype == float32 else "uniform64", key, count, dtype, start, parameters)
    return draws.uniform(key, count, dtype, start, low=low, high=high) if drawn is None else drawn


def normal(key: Key, count: int, dtype: np.dtype, start: int) -> Any:
    """Draw as ``draws.normal`` does."""
    drawn = None
    if dtype in _FLOATS:
        drawn = _drawn("normal", key, count, dtype, start)
    elif dtype.kind == "c":
        drawn = _drawn("complex", key, count, dtype, start, part=real_of(dtype))
    return draws.normal(key, count, dtype, start) if drawn is None else drawn


def integers(key: Key, low: int, high: int, count: int, dtype: np.dtype, start: int) -> Any:
    """Draw as ``draws.integers`` does."""
    draws.check_integers(low, high, dtype)
    size, offset = high - low, low % (1 << 64)
    kind = "integers" if size <= 1 << 32 else "wide" if size < 1 << 64 else "whole"
    drawn = _drawn(kind, key, count, dtype, start, (size % (1 << 64), offset))
    return draws.integers(key, low, high, count, dtype, start) if drawn is None else drawn


def standard(kind: str, key: Key, count: int, dtype: np.dtype, start: int) -> Any:
    """Draw as ``samplers.standard`` does."""
    drawn = _drawn(_FAMILY + kind, key, count, dtype, start) if dtype in _FLOATS else None
    return samplers.standard(kind, key, count, dtype, start) if drawn is None else drawn


def random_bits(key: Key, count: int, start: int) -> Any:
    """Draw 64 bits for each element, by the layout "double words"; None if they are few."""
    return _drawn("bits", key, count, uint64, start)


def cases(dtypes: Iterable[np.dtype]) -> Iterator[Case]:
    """Yield the kernels that programs will ask for."""
    for dtype in dtypes:
        if dtype in _FLOATS:
            T = of_dtype(dtype)
            for affine in (False, True):
                kind = "uniform" if dtype == float32 else "uniform64"
                yield Case("tk::random_uniform", draw, {"T": T, "KIND": kind, "AFFINE": affine})
            yield Case("tk::random_normal", draw, {"T": T, "KIND": "normal", "AFFINE": False})
            for family in samplers.STANDARD:
                yield Case("tk::random_standard", draw, {"T": T, "KIND": _FAMILY + family, "AFFINE": False})
        elif dtype.kind in "iu":
            yield Case("tk::random_integers", draw, {"T": of_dtype(dtype), "KIND": "integers", "AFFINE": False})
