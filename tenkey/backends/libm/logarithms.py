"""Logarithms and inverse hyperbolic functions; `constants.py` says how they are written.

float64 computes the logarithm by way of s = f / (2 + f).
"""

from __future__ import annotations

from typing import Any

from ..llvm import copysign, f32, fabs, i32, sqrt
from .avx512 import fills_register, or_instruction
from .constants import (
    BIAS,
    INFINITY,
    LN2,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    LOG2_E_LOW,
    MAGIC,
    MAGIC_BITS,
    MANTISSA,
    NAN,
    SMALLEST_NORMAL,
    _over,
)
from .operations import bits_from_float, each, float_from_bits, horner, rarely, select

__all__ = ["acosh", "asinh", "atanh", "log", "log1p", "log2", "log10"]

_TINY_EXPONENT = each(23.0, 54.0)
_TINY_SCALE = each(8388608.0, 18014398509481984.0)  # 2**23, 2**54: makes a subnormal number normal
_LOST = each(16777216.0, 18014398509481984.0)  # 2**24, 2**54: adding 1 to such a number changes nothing
_HUGE = each(1073741824.0, 1152921504606846976.0)  # 2**30, 2**60
# The upper parts of log(2) and log10(2) have 16 (float64: 40) significant bits: their products with k are exact.
_LN2_UPPER = each(0.69314575, 0.6931471805601177)
_LN2_LOWER = each(1.4286068e-06, -1.7239444525614835e-13)
_LOG10_2_UPPER = each(0.30103302, 0.3010299956640665)
_LOG10_2_LOWER = each(-3.0243555e-06, -8.532344317057107e-14)
# what moves the bits of the least positive normal number to the least integer, and where it moves those of the last
_NORMAL_TO_LEAST = each(0x7F800000, 0x7FF0000000000000)
_LAST_NORMAL = each(0x7F000000 - 0x80000000 - 1, 0x7FE0000000000000 - 0x8000000000000000 - 1)
_LOG10_E = 0.4342944819032518
_LOG10_E_LOW = 1.098319650216765e-17

# float32: (log(1 + f) - f + f**2 / 2) / f**3 on |f| <= 1/3, error of log 2**-27.7; float64:
# (log((1 + s) / (1 - s)) - 2 s) / s**3 as a polynomial in s**2, |s| <= 0.2, error of log 2**-62.6
_LOG = each(
    (0.33333215, -0.24999785, 0.20010474, -0.16681127, 0.14004506, -0.12174231, 0.1399212, -0.12940212),
    (0.666666666666666, 0.40000000000055774, 0.28571428556042955, 0.22222224272688124, 0.18181667269119464,
     0.15391067405279843, 0.13174333466430693, 0.13838156664215043),
)  # fmt: skip
# log2(1 + f) / f and log10(1 + f) / f, error 2**-24.4; float32 alone
_LOG2 = (1.442695, -0.72134656, 0.48089597, -0.36078954, 0.28871158, -0.23678696, 0.20179583, -0.2222189, 0.20280066)
_LOG10 = (
    0.4342945, -0.21714695, 0.14476411, -0.10860848, 0.086910844, -0.07127998, 0.060746595, -0.06689455, 0.06104908,
)  # fmt: skip


def _split_float32(x: Any) -> Any:
    # x = 2**k * (1 + f) with 2/3 <= 1 + f < 4/3, for normal x > 0: k as integer and as float, and f
    bits = i32(bits_from_float(x) - 0x3F2AAAAB)
    k = bits >> 23
    return k, f32(k), float_from_bits((bits & 0x7FFFFF) + 0x3F2AAAAB) - 1.0


def _split_float64(x: Any) -> Any:
    # likewise with sqrt(1/2) <= 1 + f < sqrt(2). Few processors convert int64 to float64 in vectors; adding to the bits
    # of a magic number does it everywhere.
    bits = bits_from_float(x) - 0x3FE6A09E667F3BCD
    k = bits >> 52
    f = float_from_bits((bits & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD) - 1.0
    return k, float_from_bits(k + MAGIC_BITS) - MAGIC, f


_split = each(_split_float32, _split_float64)


@or_instruction
def _split_any(x: Any) -> Any:
    # the same for subnormal x too, without the integer
    tiny = x < SMALLEST_NORMAL
    _integer, k, f = _split(select(tiny, x * _TINY_SCALE, x))
    return k - select(tiny, _TINY_EXPONENT, 0.0), f


def _tail_float64(f: Any) -> Any:
    # log(1 + f) = f - s * (f - R), s = f / (2 + f), R = s**2 * polynomial: the product
    s = _over(f, 2.0 + f)
    square = s * s
    return s * (f - square * horner(square, _LOG))


def _log_float32(k: Any, f: Any) -> Any:
    square = f * f
    tail = f * square * horner(f, _LOG) + k * _LN2_LOWER
    return k * _LN2_UPPER + (f - (0.5 * square - tail))


def _log_float64(k: Any, f: Any) -> Any:
    return k * LN2_HIGH - ((_tail_float64(f) - k * LN2_LOW) - f)


def _log2_float32(k: Any, f: Any) -> Any:
    return k + f * horner(f, _LOG2)


def _log2_float64(k: Any, f: Any) -> Any:
    natural = f - _tail_float64(f)
    return k + (natural * LOG2_E + natural * LOG2_E_LOW)


def _log10_float32(k: Any, f: Any) -> Any:
    return k * _LOG10_2_UPPER + (k * _LOG10_2_LOWER + f * horner(f, _LOG10))


def _log10_float64(k: Any, f: Any) -> Any:
    natural = f - _tail_float64(f)
    tail = natural * _LOG10_E_LOW + k * _LOG10_2_LOWER
    return k * _LOG10_2_UPPER + (natural * _LOG10_E + tail)


# of 2**k * (1 + f)
_log = each(_log_float32, _log_float64)
_log2 = each(_log2_float32, _log2_float64)
_log10 = each(_log10_float32, _log10_float64)


@or_instruction
def _logarithm_cases(x: Any, value: Any) -> Any:
    # `value` for 0 < x < inf, otherwise inf, -inf or NaN
    value = select(x > 0.0, value, select(x == 0.0, -INFINITY, NAN))
    return select(x == INFINITY, x, value)


def _of_parts(x: Any, logarithm: Any) -> Any:
    """Return ``logarithm(k, f)`` of x = 2**k * (1 + f); zeros, subnormal, negative and infinite numbers are rare."""
    if fills_register(x):
        return _logarithm_cases(x, logarithm(*_split_any(x)))
    _integer, k, f = _split(x)
    value = logarithm(k, f)

    def any_number() -> Any:
        tiny = x < SMALLEST_NORMAL
        finite = rarely(tiny & (x > 0.0), value, lambda: select(tiny, logarithm(*_split_any(x)), value))
        return _logarithm_cases(x, finite)

    unusual = bits_from_float(x) + _NORMAL_TO_LEAST > _LAST_NORMAL  # cheaper than comparisons with both ends
    return rarely(unusual, value, any_number)


@or_instruction
def log(x: Any) -> Any:
    """Natural logarithm. Error below 1 ulp."""
    return _of_parts(x, _log)


def log2(x: Any) -> Any:
    """Logarithm to base 2. Error below 3 ulp; exact for a power of 2."""
    return _of_parts(x, _log2)


def log10(x: Any) -> Any:
    """Logarithm to base 10. Error below 3 ulp."""
    return _of_parts(x, _log10)


def _log1p(x: Any) -> Any:
    # log(1 + x) for -1 < x < inf; Knuth's two-sum gives the rounding error of 1 + x, which is put back into f
    total = 1.0 + x
    x_part = total - 1.0
    error = (1.0 - (total - x_part)) + (x - x_part)
    integer, k, f = _split(total)
    f = f + select(x < _LOST, error * float_from_bits((BIAS - integer) << MANTISSA), 0.0)
    return _log(k, f)


def log1p(x: Any) -> Any:
    """log(1 + x). Error below 2 ulp."""
    return copysign(_logarithm_cases(1.0 + x, _log1p(x)), x)


def asinh(x: Any) -> Any:
    """Inverse hyperbolic sine as log1p(a + a**2 / (1 + sqrt(1 + a**2))). Error below 4 ulp."""
    magnitude = fabs(x)
    huge = magnitude > _HUGE
    square = magnitude * magnitude
    near = magnitude + square / (1.0 + sqrt(1.0 + square))
    value = _log1p(select(huge, magnitude, near)) + select(huge, LN2, 0.0)
    return copysign(select(magnitude < INFINITY, value, magnitude), x)


def acosh(x: Any) -> Any:
    """Inverse hyperbolic cosine as log1p(t + sqrt(t * (t + 2))), t = x - 1. Error below 4 ulp."""
    t = x - 1.0
    huge = x > _HUGE
    value = _log1p(select(huge, x, t + sqrt(t * (t + 2.0)))) + select(huge, LN2, 0.0)
    return select(x < INFINITY, select(x >= 1.0, value, NAN), x)


def atanh(x: Any) -> Any:
    """Inverse hyperbolic tangent as log1p(2 a / (1 - a)) / 2. Error below 4 ulp."""
    magnitude = fabs(x)
    value = 0.5 * _log1p((magnitude + magnitude) / (1.0 - magnitude))
    edge = select(magnitude == 1.0, INFINITY, NAN)
    return copysign(select(magnitude < 1.0, value, edge), x)
