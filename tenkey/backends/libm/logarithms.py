"""Logarithms and inverse hyperbolic functions; `constants.py` says how they are written.

float64 computes the logarithm by way of s = f / (2 + f).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._source import each
from .bits import bits_from_float32, horner, llvm_copysign, llvm_fabs, llvm_select, llvm_sqrt
from .constants import (
    BIAS,
    HALF,
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
    ONE,
    SMALLEST_NORMAL,
    TWO,
    ZERO,
    _over,
    bits_from_float,
    float_from_bits,
)

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
    bits = np.int32(bits_from_float32(x) - 0x3F2AAAAB)
    k = bits >> 23
    return k, np.float32(k), float_from_bits((bits & 0x7FFFFF) + 0x3F2AAAAB) - ONE


def _split_float64(x: Any) -> Any:
    # likewise with sqrt(1/2) <= 1 + f < sqrt(2). Few processors convert int64 to float64 in vectors; adding to the bits
    # of a magic number does it everywhere.
    bits = bits_from_float(x) - 0x3FE6A09E667F3BCD
    k = bits >> 52
    f = float_from_bits((bits & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD) - ONE
    return k, float_from_bits(k + MAGIC_BITS) - MAGIC, f


_split = each(_split_float32, _split_float64)


def _split_any(x: Any) -> Any:
    # the same for subnormal x too, without the integer
    tiny = x < SMALLEST_NORMAL
    _integer, k, f = _split(llvm_select(tiny, x * _TINY_SCALE, x))
    return k - llvm_select(tiny, _TINY_EXPONENT, ZERO), f


def _tail_float64(f: Any) -> Any:
    # log(1 + f) = f - s * (f - R), s = f / (2 + f), R = s**2 * polynomial: the product
    s = _over(f, TWO + f)
    square = s * s
    return s * (f - square * horner(square, _LOG))


def _log_float32(k: Any, f: Any) -> Any:
    square = f * f
    tail = f * square * horner(f, _LOG) + k * _LN2_LOWER
    return k * _LN2_UPPER + (f - (HALF * square - tail))


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


def _logarithm_cases(x: Any, value: Any) -> Any:
    # `value` for 0 < x < inf, otherwise inf, -inf or NaN
    value = llvm_select(x > ZERO, value, llvm_select(x == ZERO, -INFINITY, NAN))
    return llvm_select(x == INFINITY, x, value)


def log(x: Any) -> Any:
    """Natural logarithm. Error below 1 ulp."""
    k, f = _split_any(x)
    return _logarithm_cases(x, _log(k, f))


def log2(x: Any) -> Any:
    """Logarithm to base 2. Error below 3 ulp; exact for a power of 2."""
    k, f = _split_any(x)
    return _logarithm_cases(x, _log2(k, f))


def log10(x: Any) -> Any:
    """Logarithm to base 10. Error below 3 ulp."""
    k, f = _split_any(x)
    return _logarithm_cases(x, _log10(k, f))


def _log1p(x: Any) -> Any:
    # log(1 + x) for -1 < x < inf; Knuth's two-sum gives the rounding error of 1 + x, which is put back into f
    total = ONE + x
    x_part = total - ONE
    error = (ONE - (total - x_part)) + (x - x_part)
    integer, k, f = _split(total)
    f = f + llvm_select(x < _LOST, error * float_from_bits((BIAS - integer) << MANTISSA), ZERO)
    return _log(k, f)


def log1p(x: Any) -> Any:
    """log(1 + x). Error below 2 ulp."""
    return llvm_copysign(_logarithm_cases(ONE + x, _log1p(x)), x)


def asinh(x: Any) -> Any:
    """Inverse hyperbolic sine as log1p(a + a**2 / (1 + sqrt(1 + a**2))). Error below 4 ulp."""
    magnitude = llvm_fabs(x)
    huge = magnitude > _HUGE
    square = magnitude * magnitude
    near = magnitude + square / (ONE + llvm_sqrt(ONE + square))
    value = _log1p(llvm_select(huge, magnitude, near)) + llvm_select(huge, LN2, ZERO)
    return llvm_copysign(llvm_select(magnitude < INFINITY, value, magnitude), x)


def acosh(x: Any) -> Any:
    """Inverse hyperbolic cosine as log1p(t + sqrt(t * (t + 2))), t = x - 1. Error below 4 ulp."""
    t = x - ONE
    huge = x > _HUGE
    value = _log1p(llvm_select(huge, x, t + llvm_sqrt(t * (t + TWO)))) + llvm_select(huge, LN2, ZERO)
    return llvm_select(x < INFINITY, llvm_select(x >= ONE, value, NAN), x)


def atanh(x: Any) -> Any:
    """Inverse hyperbolic tangent as log1p(2 a / (1 - a)) / 2. Error below 4 ulp."""
    magnitude = llvm_fabs(x)
    value = HALF * _log1p((magnitude + magnitude) / (ONE - magnitude))
    edge = llvm_select(magnitude == ONE, INFINITY, NAN)
    return llvm_copysign(llvm_select(magnitude < ONE, value, edge), x)
