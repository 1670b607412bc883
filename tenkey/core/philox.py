"""Counter-based random numbers: Philox4x32-10, addressed by element.

The generator is a function, not a sequence: element ``i`` of a draw is computed from the key and ``i`` alone, so the
same seed gives the same numbers in whatever chunks, by however many threads and on whichever device they are computed.
These NumPy functions are the reference that every backend's kernels reproduce.

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11, 2011,
doi:10.1145/2063384.2063405. Not for cryptography.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tenkey.core import dtypes
from tenkey.core.dtypes import DType

__all__ = [
    "ELEMENT_LIMIT",
    "Key",
    "attempt_bits",
    "bernoulli",
    "derive_keys",
    "integers",
    "normal",
    "permutation",
    "philox4x32",
    "random_bits",
    "uniform",
]

Key: TypeAlias = tuple[int, int]
"""A 64-bit seed and a 64-bit stream number: two streams of one seed have no numbers in common."""

_UInt64Array: TypeAlias = npt.NDArray[np.uint64]
_Float64Array: TypeAlias = npt.NDArray[np.float64]

# Note [Random addresses]
# ~~~~~~~~~~~~~~~~~~~~~~~
# Philox maps a 128-bit counter and a 64-bit key to a block of four 32-bit words w0..w3. The counter's words are
#
#     c0, c1 = low and high word of (tag << 60) + block      c2, c3 = low and high word of the stream
#
# and the key's words are the low and high word of the seed. How element i of a draw finds its bits is the *layout*:
#
#     layout        tag  block   bits of element i             used by
#     words          0   i // 4  word i % 4                    random_bits, uniform up to float32, bernoulli
#     double words   1   i // 2  words 2(i % 2), 2(i % 2) + 1  uniform float64, integers below 2**32, permutation
#     blocks         2   i       all four                      normal, integers of wider ranges
#     keys           3   i       all four                      derive_keys
#     standard       4   i       all four                      the noise of samplers.py
#     attempts       5   i       all four                      rejection in samplers.py, several blocks for one result
#
# Of two words the first is the lower half. The tag keeps draws of different layouts apart: element numbers are
# reserved once (see generator.py), and without tags word 400 and the block of element 100 would be the same bits.
# Elements are numbered below 2**60, so a block number never reaches the tag.
# Guarded by test_philox.py::test_layouts_follow_the_note and ::test_layouts_share_no_bits.
_WORDS: Final = 0
_DOUBLE_WORDS: Final = 1
_BLOCKS: Final = 2
_KEYS: Final = 3
_STANDARD: Final = 4
_ATTEMPTS: Final = 5
_TAG_SHIFT: Final = 60

ELEMENT_LIMIT: Final = 1 << _TAG_SHIFT
"""Elements of a stream are numbered from 0 and below this."""

_MASK32: Final = np.uint64(0xFFFFFFFF)
_SHIFT32: Final = np.uint64(32)
# The multipliers and Weyl increments of Salmon et al., section 4.3 and Random123's philox.h, as columns: the rows of
# the state are (x0, x2) and (x1, x3), so that one NumPy call serves both multiplications of a round.
_MULTIPLIERS: Final = np.array([[0xD2511F53], [0xCD9E8D57]], dtype=np.uint64)
_WEYL: Final = np.array([[0x9E3779B9], [0xBB67AE85]], dtype=np.uint64)

# Measured for 2**20 uniform float32: 12 ms with 2**12 blocks, 8 ms with 2**14 (working set 800 KiB), no better above.
_BLOCKS_PER_CHUNK: Final = 1 << 14

_FEW: Final = 8
"""Up to so many blocks are computed one by one (measured: 4 to 6 us each, and 60 us by NumPy, however few they are)."""

_BAD_KEY: Final = "[random] got the key {given!r}: a key is a pair of integers (seed, stream), each in [0, 2**64)."
_BAD_RANGE: Final = (
    "[random] got start={start!r}, count={count!r}: both must be at least 0, and start + count at most 2**60. "
    "Use a generator with another seed, or one made by `split`."
)
_BAD_DTYPE: Final = "[{function}] got dtype {given}: it must be {rule}; draw in one of these and convert the result."
_BAD_INTERVAL: Final = (
    "[uniform] got low={low!r}, high={high!r}: low must be below high, and both and their difference finite in {dtype}."
)
_BAD_INTEGERS: Final = "[integers] got low={low!r}, high={high!r}: low must be below high (high itself is never drawn)."
_BAD_FIT: Final = (
    "[integers] got low={low!r}, high={high!r}: not all of [low, high) fits in {dtype}; choose a wider dtype."
)
_BAD_PROBABILITY: Final = "[bernoulli] got probability {given!r}: it must be in [0, 1]."


# ---------------------------------------------------------------------------------------------------------------------
# The bijection


def philox4x32(
    counter: npt.NDArray[np.uint32], key: npt.NDArray[np.uint32], rounds: int = 10
) -> npt.NDArray[np.uint32]:
    """The Philox4x32 bijection: one block of four words for each counter.

    ``counter``: words of shape (..., 4); ``key``: two words; both uint32. Returns the shape and dtype of ``counter``.

    >>> block = philox4x32(np.zeros(4, np.uint32), np.zeros(2, np.uint32))
    >>> [f"{word:08x}" for word in block]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    words = np.asarray(counter, dtype=np.uint32).astype(np.uint64)
    flat = words.reshape(-1, 4)
    even, odd = _apply_rounds(
        np.ascontiguousarray(flat[:, 0::2].T),
        np.ascontiguousarray(flat[:, 1::2].T),
        np.asarray(key, dtype=np.uint32).astype(np.uint64).reshape(2, 1),
        rounds,
    )
    flat[:, 0::2] = even.T
    flat[:, 1::2] = odd.T
    return words.astype(np.uint32)


def _apply_rounds(
    even: _UInt64Array, odd: _UInt64Array, key: _UInt64Array, rounds: int
) -> tuple[_UInt64Array, _UInt64Array]:
    """Philox rounds on words (x0, x2) and (x1, x3), each of shape (2, n) and overwritten; ``key`` has shape (2, 1).

    One round (Salmon et al., figure 2) is, with (h, l) = the halves of the 64-bit products m0 * x0 and m1 * x2:
    x0' = h1 ^ x1 ^ k0, x1' = l1, x2' = h0 ^ x3 ^ k1, x3' = l0. The two rows change places: hence the reversed views.
    """
    spare = np.empty_like(even)
    for _ in range(rounds):
        np.multiply(even, _MULTIPLIERS, out=spare)
        np.right_shift(spare, _SHIFT32, out=even)
        np.bitwise_xor(odd, even[::-1], out=odd)
        np.bitwise_xor(odd, key, out=odd)
        np.bitwise_and(spare, _MASK32, out=spare)
        even, odd, spare = odd, spare[::-1], even
        key = (key + _WEYL) & _MASK32
    return even, odd


def _generate(key: Key, tag: int, first: int, count: int) -> tuple[_UInt64Array, _UInt64Array]:
    """The blocks ``first`` to ``first + count`` of a layout, as words (w0, w2) and (w1, w3) in uint64."""
    seed, stream = key
    blocks = np.arange(count, dtype=np.uint64)
    blocks += np.uint64((tag << _TAG_SHIFT) + first)
    return _evaluate(seed, blocks, np.uint64(stream))


def _evaluate(seed: int, blocks: _UInt64Array, stream: Any) -> tuple[_UInt64Array, _UInt64Array]:
    """The blocks with these numbers (tag included) of a stream, or of a stream each."""
    if blocks.size <= _FEW:
        return _evaluate_few(seed, blocks, stream)
    even = np.empty((2, blocks.size), np.uint64)
    odd = np.empty((2, blocks.size), np.uint64)
    np.bitwise_and(blocks, _MASK32, out=even[0])
    np.right_shift(blocks, _SHIFT32, out=odd[0])
    even[1] = stream & _MASK32
    odd[1] = stream >> _SHIFT32
    return _apply_rounds(even, odd, np.array([[seed & 0xFFFFFFFF], [seed >> 32]], dtype=np.uint64), 10)


def _evaluate_few(seed: int, blocks: _UInt64Array, stream: Any) -> tuple[_UInt64Array, _UInt64Array]:
    """The same in Python's integers: ten rounds of NumPy calls cost more than a handful of blocks."""
    streams = stream.tolist() if stream.ndim else [int(stream)] * blocks.size
    even: list[list[int]] = [[], []]
    odd: list[list[int]] = [[], []]
    for block, own in zip(blocks.tolist(), streams, strict=True):
        x0, x1, x2, x3 = block & 0xFFFFFFFF, block >> 32, own & 0xFFFFFFFF, own >> 32
        k0, k1 = seed & 0xFFFFFFFF, seed >> 32
        for _ in range(10):
            first, second = 0xD2511F53 * x0, 0xCD9E8D57 * x2
            x0, x1 = (second >> 32) ^ x1 ^ k0, second & 0xFFFFFFFF
            x2, x3 = (first >> 32) ^ x3 ^ k1, first & 0xFFFFFFFF
            k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
        even[0].append(x0)
        even[1].append(x2)
        odd[0].append(x1)
        odd[1].append(x3)
    return np.array(even, np.uint64).reshape(2, -1), np.array(odd, np.uint64).reshape(2, -1)


def attempt_bits(seed: int, blocks: _UInt64Array, streams: _UInt64Array) -> tuple[_UInt64Array, _UInt64Array]:
    """The lower and the upper 64 bits of blocks of the layout for attempts: one block and one stream for each result.

    >>> [f"{half[0]:016x}" for half in attempt_bits(0, np.zeros(1, np.uint64), np.zeros(1, np.uint64))]
    ['2b2a938947286060', 'd91f18f99a457a1b']
    """
    even, odd = _evaluate(seed, blocks + np.uint64(_ATTEMPTS << _TAG_SHIFT), streams)
    odd <<= _SHIFT32
    odd |= even
    return odd[0], odd[1]


def _check(key: Key, start: int, count: int) -> None:
    if not all(0 <= part < 1 << 64 for part in key):
        raise ValueError(_BAD_KEY.format(given=key))
    if start < 0 or count < 0 or start + count > ELEMENT_LIMIT:
        raise ValueError(_BAD_RANGE.format(start=start, count=count))


# Each of the following walks over the elements [start, start + count) in chunks that stay in cache, and yields the
# slice of the result that a chunk fills, with its bits.


def _each_words(key: Key, start: int, count: int) -> Iterator[tuple[slice, npt.NDArray[np.uint32]]]:
    _check(key, start, count)
    done = 0
    while done < count:
        first, skip = divmod(start + done, 4)
        take = min(count - done, 4 * _BLOCKS_PER_CHUNK - skip)
        even, odd = _generate(key, _WORDS, first, -(-(skip + take) // 4))
        words = np.empty((even.shape[1], 4), np.uint32)
        words[:, 0::2] = even.T
        words[:, 1::2] = odd.T
        yield slice(done, done + take), words.reshape(-1)[skip : skip + take]
        done += take


def _each_double_words(key: Key, start: int, count: int) -> Iterator[tuple[slice, _UInt64Array]]:
    _check(key, start, count)
    done = 0
    while done < count:
        first, skip = divmod(start + done, 2)
        take = min(count - done, 2 * _BLOCKS_PER_CHUNK - skip)
        even, odd = _generate(key, _DOUBLE_WORDS, first, -(-(skip + take) // 2))
        odd <<= _SHIFT32
        odd |= even
        yield slice(done, done + take), odd.T.reshape(-1)[skip : skip + take]
        done += take


def _each_blocks(
    key: Key, start: int, count: int, tag: int = _BLOCKS
) -> Iterator[tuple[slice, _UInt64Array, _UInt64Array]]:
    """Yields the lower and the upper 64 bits of each block."""
    _check(key, start, count)
    for done in range(0, count, _BLOCKS_PER_CHUNK):
        take = min(count - done, _BLOCKS_PER_CHUNK)
        even, odd = _generate(key, tag, start + done, take)
        odd <<= _SHIFT32
        odd |= even
        yield slice(done, done + take), odd[0], odd[1]


# ---------------------------------------------------------------------------------------------------------------------
# Bits and keys


def random_bits(key: Key, start: int, count: int) -> npt.NDArray[np.uint32]:
    """The elements ``start`` to ``start + count`` of the stream ``key``, 32 random bits each: uint32 of shape (count,).

    Raises ValueError for a key that is not two 64-bit numbers or elements beyond ``ELEMENT_LIMIT``, as do all functions
    of this module.

    >>> [f"{word:08x}" for word in random_bits((0, 0), 1, 3)]
    ['e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    result = np.empty(max(count, 0), np.uint32)
    for where, words in _each_words(key, start, count):
        result[where] = words
    return result


def derive_keys(key: Key, start: int, count: int) -> list[Key]:
    """New keys, one for each of the elements: 128 random bits each, which no other function of this module shows.

    >>> len(set(derive_keys((7, 0), 0, 100)))
    100
    """
    result: list[Key] = []
    for _, low, high in _each_blocks(key, start, count, _KEYS):
        result.extend(zip(low.tolist(), high.tolist(), strict=True))
    return result


# ---------------------------------------------------------------------------------------------------------------------
# Distributions


def uniform(
    key: Key,
    count: int,
    dtype: DType = dtypes.float32,
    start: int = 0,
    *,
    low: float = 0.0,
    high: float = 1.0,
) -> npt.NDArray[Any]:
    """Elements uniform on [low, high), of a real floating dtype and shape (count,).

    On [0, 1) they are the multiples of 2**-p, p being the digits of ``dtype`` (24 for float32, 53 for float64), all
    equally likely. ``high`` is never reached, by rounding neither. Raises TypeError for another dtype, ValueError for
    an empty or infinite interval.

    >>> draw = uniform((1, 0), 1000)
    >>> draw.dtype, bool((draw >= 0).all() and (draw < 1).all())
    (dtype('float32'), True)
    """
    if not dtypes.is_real_floating(dtype):
        raise TypeError(_BAD_DTYPE.format(function="uniform", given=dtype.name, rule="real floating point"))
    digits = 1 - round(math.log2(dtypes.finfo(dtype).eps))
    result: npt.NDArray[Any] = np.empty(max(count, 0), dtype)
    # The narrow dtypes are computed in float32, where their few digits are exact.
    compute: DType = dtypes.float64 if dtype == dtypes.float64 else dtypes.float32
    scale = compute.type(2.0**-digits)
    chunks: Iterator[tuple[slice, npt.NDArray[Any]]]
    drop: np.uint32 | np.uint64
    if compute == dtypes.float64:
        chunks, drop = _each_double_words(key, start, count), np.uint64(64 - digits)
    else:
        chunks, drop = _each_words(key, start, count), np.uint32(32 - digits)
    if low == 0.0 and high == 1.0:
        for where, bits in chunks:
            result[where] = (bits >> drop).astype(compute) * scale
        return result
    lowest, highest, below = _interval(low, high, dtype)
    width = compute.type(highest) - compute.type(lowest)
    for where, bits in chunks:
        values = (bits >> drop).astype(compute)
        values *= scale
        values *= width
        values += compute.type(lowest)
        result[where] = values
    # Rounding may reach the end of the interval.
    np.copyto(result, below, where=result >= highest)
    return result


def _interval(low: float, high: float, dtype: DType) -> tuple[Any, Any, Any]:
    """The ends of an interval in ``dtype``, and the number just below its upper end."""
    with np.errstate(over="ignore"):
        lowest, highest = dtype.type(low), dtype.type(high)
        width = np.float32(highest) - np.float32(lowest) if dtype != dtypes.float64 else highest - lowest
    if not (math.isfinite(lowest) and math.isfinite(highest) and math.isfinite(width) and lowest < highest):
        raise ValueError(_BAD_INTERVAL.format(low=low, high=high, dtype=dtype.name))
    return lowest, highest, np.nextafter(highest, dtype.type(-math.inf))


# Note [Reproducible normals]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~
# Box and Muller (1958): with u1 uniform on (0, 1] and u2 on [0, 1), sqrt(-2 log u1) cos(2 pi u2) is normal. NumPy's
# log and cos differ in the last bit from one CPU to the next (they are chosen by instruction set), and the numbers of a
# seed must not. So log and cos are spelled out here in float64 with +, -, *, / and sqrt only, which IEEE 754 defines to
# the last bit, in a fixed order. A kernel that does the same without contracting a * b + c into a fused operation
# gives the same float64 bits; one that contracts, or uses its library's log and cos, still gives the same float32 save
# where a float64 difference straddles a rounding boundary (about one number in 2**28).
# Every dtype's numbers are those of float64, rounded: a computation repeated in another precision sees the same noise.
# The sine is dropped, except for complex dtypes where it is the imaginary part: element i has a block to itself, so
# a kernel needs no neighbours to compute it. The largest magnitude is sqrt(2 * 53 log 2) = 8.57.
# Guarded by test_philox.py::test_normal_against_mpmath and ::test_normal_rounds_float64.
_SQRT_HALF: Final = math.sqrt(0.5)
# log(2) in two parts: the upper has 42 significant bits, so that its product with an exponent is exact.
_LOG2_HIGH: Final = float.fromhex("0x1.62e42fefa3800p-1")
_LOG2_LOW: Final = float.fromhex("0x1.ef35793c76730p-45")
# log m = 2 atanh(s) = 2 (s + s**3/3 + s**5/5 + ...) with s = (m - 1) / (m + 1); the terms left out are below 2**-60
# for m within a factor of sqrt(2) from 1. The lists go from the highest power down, for Horner's scheme.
_ATANH_TERMS: Final = [1 / power for power in range(21, 1, -2)]
# The Taylor series of sin(a)/a and cos(a) in a**2; the terms left out are below 2**-58 for |a| <= pi/4.
_SIN_TERMS: Final = [(-1) ** k / math.factorial(2 * k + 1) for k in range(8, -1, -1)]
_COS_TERMS: Final = [(-1) ** k / math.factorial(2 * k) for k in range(8, -1, -1)]


def _horner(x: _Float64Array, terms: list[float]) -> _Float64Array:
    result = x * terms[0]
    for term in terms[1:-1]:
        result += term
        result *= x
    result += terms[-1]
    return result


def _log(x: _Float64Array) -> _Float64Array:
    """Natural logarithm of positive normal float64 numbers, with an error of about one unit in the last place."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < _SQRT_HALF
    mantissa += mantissa * low
    power = exponent.astype(np.float64) - low
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    s += s
    tail = _horner(z, _ATANH_TERMS)
    tail *= z
    tail *= s
    tail += power * _LOG2_LOW
    tail += s
    tail += power * _LOG2_HIGH
    return tail


def _cos_sin_turns(turns: _Float64Array) -> tuple[_Float64Array, _Float64Array]:
    """Cosine and sine of 2 pi ``turns`` for numbers in [0, 1); the reduction to [-pi/4, pi/4] is exact."""
    quarter = np.floor(4.0 * turns + 0.5)
    angle = (turns - 0.25 * quarter) * (2.0 * math.pi)
    z = angle * angle
    cosine = _horner(z, _COS_TERMS)
    sine = _horner(z, _SIN_TERMS)
    sine *= angle
    odd = (quarter == 1.0) | (quarter == 3.0)
    cosine, sine = np.where(odd, sine, cosine), np.where(odd, cosine, sine)
    # Quarter turns 1 and 2 change the sign of the cosine, 2 and 3 that of the sine; 4 is a whole turn.
    np.negative(cosine, out=cosine, where=(quarter == 1.0) | (quarter == 2.0))
    np.negative(sine, out=sine, where=(quarter == 2.0) | (quarter == 3.0))
    return cosine, sine


def normal(key: Key, count: int, dtype: DType = dtypes.float32, start: int = 0) -> npt.NDArray[Any]:
    """Standard normal elements (mean 0, variance 1) of a real or complex floating dtype, shape (count,).

    Complex elements have independent real and imaginary parts of variance 1/2. Raises TypeError for other dtypes.
    Source: G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", 1958; see
    Note [Reproducible normals].

    >>> draw = normal((1, 0), 10_000)
    >>> draw.dtype, bool(abs(draw.mean()) < 0.05), bool(abs(draw.std() - 1) < 0.05)
    (dtype('float32'), True, True)
    """
    if not dtypes.is_inexact(dtype):
        raise TypeError(_BAD_DTYPE.format(function="normal", given=dtype.name, rule="real or complex floating point"))
    # One column, or two for the real and imaginary parts.
    parts: npt.NDArray[Any] = np.empty((max(count, 0), 2 if dtypes.is_complex(dtype) else 1), dtypes.real_of(dtype))
    for where, low, high in _each_blocks(key, start, count):
        positive = ((low >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53  # on (0, 1]: log is finite
        cosine, sine = _cos_sin_turns((high >> np.uint64(11)).astype(np.float64) * 2.0**-53)
        radius = np.sqrt(-2.0 * _log(positive))
        if dtypes.is_complex(dtype):
            radius *= _SQRT_HALF
            parts[where, 1] = radius * sine
        parts[where, 0] = radius * cosine
    return parts.view(dtype).reshape(-1)


def bernoulli(key: Key, probability: float, count: int, start: int = 0) -> npt.NDArray[np.bool_]:
    """Elements that are True with the given probability: bool, shape (count,).

    The probability is rounded to a multiple of 2**-32; 0 and 1 are exact. Raises ValueError outside [0, 1].

    >>> bool(bernoulli((1, 0), 1.0, 100).all()), bool(bernoulli((1, 0), 0.0, 100).any())
    (True, False)
    """
    if not 0.0 <= probability <= 1.0:
        raise ValueError(_BAD_PROBABILITY.format(given=probability))
    threshold = round(math.ldexp(probability, 32))
    result = np.empty(max(count, 0), np.bool_)
    for where, words in _each_words(key, start, count):
        if threshold == 1 << 32:
            result[where] = True
        else:
            np.less(words, np.uint32(threshold), out=result[where])
    return result


# Note [Integers without rejection]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# An integer below r is the upper part of the product of r with b random bits: floor(bits * r / 2**b). Each result then
# has a probability within 2**-b of 1/r, relatively within r * 2**-b. With b = 64 for r <= 2**32 and b = 128 above, that
# is at most 2**-32 and 2**-64: to see the first would take some 2**64 draws. Rejection would be exact, but an element
# would need an unknown number of blocks, and threads that compute neighbours would run apart.
# Source: D. E. Knuth, The Art of Computer Programming 2, 3.4.1; D. Lemire, "Fast random integer generation in an
# interval", 2019, section 2. Guarded by test_philox.py::test_integers_are_the_upper_part_of_the_product.
def integers(
    key: Key, low: int, high: int, count: int, dtype: DType = dtypes.int64, start: int = 0
) -> npt.NDArray[Any]:
    """Integers uniform on [low, high), of an integer dtype and shape (count,); see Note [Integers without rejection].

    Raises TypeError for other dtypes; ValueError if the interval is empty or does not fit in ``dtype``.

    >>> sorted(set(integers((1, 0), -1, 2, 100).tolist()))
    [-1, 0, 1]
    """
    if not dtypes.is_integral(dtype):
        raise TypeError(_BAD_DTYPE.format(function="integers", given=dtype.name, rule="an integer dtype"))
    if low >= high:
        raise ValueError(_BAD_INTEGERS.format(low=low, high=high))
    info = dtypes.iinfo(dtype)
    if low < info.min or high - 1 > info.max:
        raise ValueError(_BAD_FIT.format(low=low, high=high, dtype=dtype.name))
    size = high - low
    result: npt.NDArray[Any] = np.empty(max(count, 0), dtype)
    offset = np.uint64(low % (1 << 64))  # two's complement: adding it wraps around to the right number
    if size <= 1 << 32:
        for where, bits in _each_double_words(key, start, count):
            result[where] = (_upper_half_narrow(bits, size) + offset).astype(dtype)
    else:
        for where, lower, upper in _each_blocks(key, start, count):
            result[where] = (_upper_half_wide(lower, upper, size) + offset).astype(dtype)
    return result


def _upper_half_narrow(bits: _UInt64Array, size: int) -> _UInt64Array:
    """floor(bits * size / 2**64) for 0 < size <= 2**32."""
    factor = np.uint64(size)
    # At most (2**32 - 1) * 2**32 + (2**32 - 1) < 2**64: nothing overflows.
    return (((bits >> _SHIFT32) * factor) + (((bits & _MASK32) * factor) >> _SHIFT32)) >> _SHIFT32


def _upper_half(bits: _UInt64Array, factor: int) -> _UInt64Array:
    """floor(bits * factor / 2**64) for factor < 2**64, by schoolbook multiplication in halves."""
    factor_low, factor_high = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    low, high = bits & _MASK32, bits >> _SHIFT32
    first, second = low * factor_high, high * factor_low
    middle: _UInt64Array = ((low * factor_low) >> _SHIFT32) + (first & _MASK32) + (second & _MASK32)
    result: _UInt64Array = high * factor_high
    for carried in (first, second, middle):
        result += carried >> _SHIFT32
    return result


def _upper_half_wide(lower: _UInt64Array, upper: _UInt64Array, size: int) -> _UInt64Array:
    """floor((upper * 2**64 + lower) * size / 2**128) for 0 < size <= 2**64."""
    if size == 1 << 64:
        return upper
    carried = _upper_half(lower, size)
    summed = upper * np.uint64(size) + carried
    result = _upper_half(upper, size)
    result += summed < carried  # the carry out of the lower half
    return result


def permutation(key: Key, n: int, start: int = 0) -> npt.NDArray[np.int64]:
    """A random order of 0 to n - 1: int64, shape (n,).

    The order that sorts the 64-bit keys of elements ``start`` to ``start + n``. Two keys agree with a probability
    below n**2 / 2**65, in which case the lower index comes first.

    >>> sorted(permutation((1, 0), 5).tolist())
    [0, 1, 2, 3, 4]
    """
    keys = np.empty(max(n, 0), np.uint64)
    for where, bits in _each_double_words(key, start, n):
        keys[where] = bits
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False)
