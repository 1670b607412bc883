"""Distributions computed from the bits of ``philox``: element ``i`` of a draw depends on the key and ``i`` alone.

These NumPy functions are the reference that the kernels of every backend reproduce. Note [Random addresses] in
``philox`` describes which bits an element uses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from ..dtypes import names as dtypes
from ..dtypes.limits import finfo, iinfo
from ..dtypes.names import DType
from .philox import _MASK32, _SHIFT32, Key, _each_blocks, _each_double_words, _each_words, _UInt64Array

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "ATANH_TERMS", "COS_TERMS", "LOG2_HIGH", "LOG2_LOW", "SIN_TERMS", "SQRT_HALF", "bernoulli", "integers", "interval",
    "normal", "permutation", "uniform",
]  # fmt: skip

_Float64Array: TypeAlias = "npt.NDArray[np.float64]"

_BAD_DTYPE: Final = "[{function}] got dtype {given}: it must be {rule}; draw in one of these and convert the result."


def uniform(
    key: Key, count: int, dtype: DType = dtypes.float32, start: int = 0, *, low: float = 0.0, high: float = 1.0
) -> npt.NDArray[Any]:
    """Draw elements uniform on [low, high), of a real floating dtype and shape (count,).

    On [0, 1) they are the multiples of 2**-p, all equally likely, where p is the number of digits of ``dtype`` (24 for
    float32, 53 for float64). ``high`` is never drawn, not even by rounding. Raises TypeError for another dtype,
    ValueError for an empty or infinite interval.

    >>> draw = uniform((1, 0), 1000)
    >>> draw.dtype, bool((draw >= 0).all() and (draw < 1).all())
    (dtype('float32'), True)
    """
    if not dtypes.is_real_floating(dtype):
        raise TypeError(_BAD_DTYPE.format(function="uniform", given=dtype.name, rule="real floating point"))
    digits = 1 - round(math.log2(finfo(dtype).eps))
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
    lowest, highest, below = interval(low, high, dtype)
    width = compute.type(highest) - compute.type(lowest)
    for where, bits in chunks:
        values = (bits >> drop).astype(compute)
        values *= scale
        values *= width
        values += compute.type(lowest)
        result[where] = values
    np.copyto(result, below, where=result >= highest)  # rounding may reach the end of the interval
    return result


def interval(low: float, high: float, dtype: DType) -> tuple[Any, Any, Any]:
    """Return the ends of an interval in ``dtype``, and the number just below its upper end."""
    with np.errstate(over="ignore"):
        lowest, highest = dtype.type(low), dtype.type(high)
        width = np.float32(highest) - np.float32(lowest) if dtype != dtypes.float64 else highest - lowest
    if not (math.isfinite(lowest) and math.isfinite(highest) and math.isfinite(width) and lowest < highest):
        raise ValueError(
            f"[uniform] got low={low!r}, high={high!r}: low must be below high, and both and their difference finite "
            f"in {dtype.name}."
        )
    return lowest, highest, np.nextafter(highest, dtype.type(-math.inf))


# Note [Reproducible normals]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~
# Box and Muller (1958): with u1 uniform on (0, 1] and u2 on [0, 1), sqrt(-2 log u1) cos(2 pi u2) is normal. NumPy's
# log and cos depend on the instruction set in the last bit, and the numbers of a seed must not. So log and cos are
# written out here in float64, using only +, -, *, / and sqrt, which IEEE 754 defines exactly, in a fixed order. A
# kernel that does the same without contracting a * b + c into a fused operation gives the same float64 bits; one that
# contracts, or uses its library's log and cos, gives the same float32 except where a float64 difference straddles a
# rounding boundary (about one number in 2**28). The numbers of every dtype are those of float64, rounded, so a
# computation repeated in another precision uses the same noise. The sine is the imaginary part of complex dtypes and
# otherwise unused: each element has its own block, so a kernel does not need its neighbours. The largest magnitude is
# sqrt(2 * 53 log 2) = 8.57.
# Guarded by test_philox.py::test_normal_against_mpmath and ::test_normal_rounds_float64.
SQRT_HALF: Final = math.sqrt(0.5)
# log(2) in two parts: the upper has 42 significant bits, so that its product with an exponent is exact.
LOG2_HIGH: Final = float.fromhex("0x1.62e42fefa3800p-1")
LOG2_LOW: Final = float.fromhex("0x1.ef35793c76730p-45")
# log m = 2 atanh(s) = 2 (s + s**3/3 + s**5/5 + ...) with s = (m - 1) / (m + 1); the terms left out are below 2**-60
# for m within a factor of sqrt(2) from 1. The lists go from the highest power down, for Horner's scheme.
ATANH_TERMS: Final = [1 / power for power in range(21, 1, -2)]
# The Taylor series of sin(a)/a and cos(a) in a**2; the terms left out are below 2**-58 for |a| <= pi/4.
SIN_TERMS: Final = [(-1) ** k / math.factorial(2 * k + 1) for k in range(8, -1, -1)]
COS_TERMS: Final = [(-1) ** k / math.factorial(2 * k) for k in range(8, -1, -1)]


def _horner(x: _Float64Array, terms: list[float]) -> _Float64Array:
    result = x * terms[0]
    for term in terms[1:-1]:
        result += term
        result *= x
    result += terms[-1]
    return result


def _log(x: _Float64Array) -> _Float64Array:
    """Return logarithms of positive normal float64 numbers, with an error of about one unit in the last place."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < SQRT_HALF
    mantissa += mantissa * low
    power = exponent.astype(np.float64) - low
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    s += s
    tail = _horner(z, ATANH_TERMS)
    tail *= z
    tail *= s
    tail += power * LOG2_LOW
    tail += s
    tail += power * LOG2_HIGH
    return tail


def _cos_sin_turns(turns: _Float64Array) -> tuple[_Float64Array, _Float64Array]:
    """Return cosine and sine of 2 pi ``turns`` for numbers in [0, 1); the reduction to [-pi/4, pi/4] is exact."""
    quarter = np.floor(4.0 * turns + 0.5)
    angle = (turns - 0.25 * quarter) * (2.0 * math.pi)
    z = angle * angle
    cosine = _horner(z, COS_TERMS)
    sine = _horner(z, SIN_TERMS)
    sine *= angle
    odd = (quarter == 1.0) | (quarter == 3.0)
    cosine, sine = np.where(odd, sine, cosine), np.where(odd, cosine, sine)
    # Quarter turns 1 and 2 change the sign of the cosine, 2 and 3 that of the sine; 4 is a whole turn.
    np.negative(cosine, out=cosine, where=(quarter == 1.0) | (quarter == 2.0))
    np.negative(sine, out=sine, where=(quarter == 2.0) | (quarter == 3.0))
    return cosine, sine


def normal(key: Key, count: int, dtype: DType = dtypes.float32, start: int = 0) -> npt.NDArray[Any]:
    """Draw standard normal elements (mean 0, variance 1) of a real or complex floating dtype and shape (count,).

    Complex elements have independent real and imaginary parts of variance 1/2. Raises TypeError for other dtypes.
    Source: G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", 1958; see
    Note [Reproducible normals].

    >>> draw = normal((1, 0), 10_000)
    >>> draw.dtype, bool(abs(draw.mean()) < 0.05), bool(abs(draw.std() - 1) < 0.05)
    (dtype('float32'), True, True)
    """
    if not dtypes.is_inexact(dtype):
        raise TypeError(_BAD_DTYPE.format(function="normal", given=dtype.name, rule="real or complex floating point"))
    # one column, or two for the real and imaginary parts
    parts: npt.NDArray[Any] = np.empty((max(count, 0), 2 if dtypes.is_complex(dtype) else 1), dtypes.real_of(dtype))
    for where, low, high in _each_blocks(key, start, count):
        positive = ((low >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53  # on (0, 1]: log is finite
        cosine, sine = _cos_sin_turns((high >> np.uint64(11)).astype(np.float64) * 2.0**-53)
        radius = np.sqrt(-2.0 * _log(positive))
        if dtypes.is_complex(dtype):
            radius *= SQRT_HALF
            parts[where, 1] = radius * sine
        parts[where, 0] = radius * cosine
    return parts.view(dtype).reshape(-1)


def bernoulli(key: Key, probability: float, count: int, start: int = 0) -> npt.NDArray[np.bool_]:
    """Draw bools of shape (count,) that are True with the given probability.

    The probability is rounded to a multiple of 2**-32; 0 and 1 are exact. Raises ValueError outside [0, 1].

    >>> bool(bernoulli((1, 0), 1.0, 100).all()), bool(bernoulli((1, 0), 0.0, 100).any())
    (True, False)
    """
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"[bernoulli] got probability {probability!r}: it must be in [0, 1].")
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
# An integer below r is the upper part of the product of r with b random bits: floor(bits * r / 2**b). The probability
# of each result is within 2**-b of 1/r, relatively within r * 2**-b. With b = 64 for r <= 2**32 and b = 128 above, that
# is at most 2**-32 and 2**-64: detecting the first takes some 2**64 draws. Rejection would be exact, but needs an
# unknown number of blocks for an element, and threads would diverge.
# Source: D. E. Knuth, The Art of Computer Programming 2, 3.4.1; D. Lemire, "Fast random integer generation in an
# interval", 2019, section 2. Guarded by test_philox.py::test_integers_are_the_upper_part_of_the_product.
def integers(
    key: Key, low: int, high: int, count: int, dtype: DType = dtypes.int64, start: int = 0
) -> npt.NDArray[Any]:
    """Draw integers uniform on [low, high), of an integer dtype and shape (count,).

    See Note [Integers without rejection]. Raises TypeError for other dtypes; ValueError if the interval is empty or
    does not fit in ``dtype``.

    >>> sorted(set(integers((1, 0), -1, 2, 100).tolist()))
    [-1, 0, 1]
    """
    if not dtypes.is_integral(dtype):
        raise TypeError(_BAD_DTYPE.format(function="integers", given=dtype.name, rule="an integer dtype"))
    if low >= high:
        raise ValueError(f"[integers] got low={low!r}, high={high!r}: low must be below high, which is never drawn.")
    info = iinfo(dtype)
    if low < info.min or high - 1 > info.max:
        raise ValueError(
            f"[integers] got low={low!r}, high={high!r}: not all of [low, high) fits in {dtype.name}; choose a wider "
            "dtype."
        )
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
    """Return floor(bits * size / 2**64) for 0 < size <= 2**32."""
    factor = np.uint64(size)
    # At most (2**32 - 1) * 2**32 + (2**32 - 1) < 2**64: nothing overflows.
    return (((bits >> _SHIFT32) * factor) + (((bits & _MASK32) * factor) >> _SHIFT32)) >> _SHIFT32


def _upper_half(bits: _UInt64Array, factor: int) -> _UInt64Array:
    """Return floor(bits * factor / 2**64) for factor < 2**64, by schoolbook multiplication in halves."""
    factor_low, factor_high = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    low, high = bits & _MASK32, bits >> _SHIFT32
    first, second = low * factor_high, high * factor_low
    middle: _UInt64Array = ((low * factor_low) >> _SHIFT32) + (first & _MASK32) + (second & _MASK32)
    result: _UInt64Array = high * factor_high
    for carried in (first, second, middle):
        result += carried >> _SHIFT32
    return result


def _upper_half_wide(lower: _UInt64Array, upper: _UInt64Array, size: int) -> _UInt64Array:
    """Return floor((upper * 2**64 + lower) * size / 2**128) for 0 < size <= 2**64."""
    if size == 1 << 64:
        return upper
    carried = _upper_half(lower, size)
    summed = upper * np.uint64(size) + carried
    result = _upper_half(upper, size)
    result += summed < carried  # the carry out of the lower half
    return result


def permutation(key: Key, n: int, start: int = 0) -> npt.NDArray[np.int64]:
    """Draw a random order of 0 to n - 1: int64, shape (n,).

    It is the order that sorts the 64-bit keys of elements ``start`` to ``start + n``. Two keys are equal with a
    probability below n**2 / 2**65; then the lower index comes first.

    >>> sorted(permutation((1, 0), 5).tolist())
    [0, 1, 2, 3, 4]
    """
    keys = np.empty(max(n, 0), np.uint64)
    for where, bits in _each_double_words(key, start, n):
        keys[where] = bits
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False)
