"""Exponentials and hyperbolic functions; `constants.py` says how they are written."""

from __future__ import annotations

from typing import Any

from ._source import each
from .bits import horner, llvm_copysign, llvm_fabs, llvm_select
from .constants import (
    HALF,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    MANTISSA,
    ONE,
    QUARTER,
    TWO,
    _over,
    bits_from_float,
    float_from_bits,
)

__all__ = ["EXP2", "MAGIC_SPLIT", "cosh", "exp", "exp2", "expm1", "sinh", "tanh"]

# The magic number of Note [Rounding by a magic number] plus an offset; the low bits of a sum hold n plus this offset.
MAGIC_SPLIT = each(12582912.0 + 254.0, 6755399441055744.0 + 2046.0)  # the two biases of `_scale`
_MAGIC_HALF_SPLIT = each(12582912.0 + 253.0, 6755399441055744.0 + 2045.0)
_MAGIC_BIASED = each(12582912.0 + 127.0, 6755399441055744.0 + 1023.0)
_MAGIC_HALF_BIASED = each(12582912.0 + 126.0, 6755399441055744.0 + 1022.0)

_EXP_HIGH = each(89.0, 710.0)  # overflows
_EXP_LOW = each(-104.0, -746.0)  # rounds to 0
_EXP2_HIGH = each(128.5, 1024.5)
_EXP2_LOW = each(-151.0, -1076.0)
_EXPM1_LOW = each(-18.0, -40.0)  # rounds to -1
_COSH_HIGH = each(90.0, 711.0)
_TANH_BORDER = 0.55
_TANH_HIGH = each(20.0, 40.0)  # the hyperbolic tangent of half of it rounds to 1

# (exp(r) - 1 - r) / r**2 on |r| <= log(2) / 2, error of exp 2**-28.2 and 2**-57.8
_EXP = each(
    (0.49999994, 0.16666517, 0.041668106, 0.008369152, 0.0013837012),
    (0.5000000000000011, 0.166666666666664, 0.04166666666652527, 0.00833333333350161, 0.0013888888945098887,
     0.0001984126949424255, 2.4801491417618954e-05, 2.7557594454416973e-06, 2.7630897551198753e-07,
     2.4998454703428903e-08),
)  # fmt: skip
# The same for expm1, error 2**-31.0 and 2**-57.8
_EXPM1 = each(
    (0.5, 0.16666666, 0.041666467, 0.008333644, 0.0013935035, 0.00019663089),
    (0.5000000000000001, 0.1666666666666667, 0.04166666666664851, 0.008333333333328094, 0.0013888888897381668,
     0.00019841269867473596, 2.4801571068330535e-05, 2.755726380709704e-06, 2.757086157576268e-07,
     2.5102161926569808e-08, 1.6790796424265205e-09),
)  # fmt: skip
# (2**f - 1) / f on |f| <= 1/2, error of 2**f 2**-26.7 and 2**-59.7
EXP2 = each(
    (0.6931472, 0.2402265, 0.05550378, 0.0096181, 0.0013382296, 0.00015446066),
    (0.6931471805599453, 0.2402265069591007, 0.05550410866482345, 0.009618129107629938, 0.0013333558146001675,
     0.00015403530390106033, 1.5252734209364087e-05, 1.3215489791319195e-06, 1.0177910688875908e-07,
     7.0537050650579265e-09, 4.477026542029915e-10, 2.7462414402752937e-11),
)  # fmt: skip
# (tanh(x) - x) / x**3 as a polynomial in x**2, |x| <= 0.552, error of tanh 2**-29.7 and 2**-60.3
_TANH = each(
    (-0.33333316, 0.13332544, -0.05384755, 0.021050738, -0.0062428927),
    (-0.333333333333333, 0.1333333333332644, -0.05396825396360859, 0.021869488380619688, -0.00886323250484395,
     0.0035920909671346285, -0.0014555355231109196, 0.0005884126442815705, -0.0002332966274289868,
     8.318956241150316e-05, -1.9413407298256996e-05),
)  # fmt: skip
# (sinh(r) - r) / r**3 as a polynomial in r**2, r <= 1, error of sinh 2**-31.6 and 2**-61.8
_SINH = each(
    (0.16666667, 0.0083333105, 0.00019842891, 2.7822684e-06),
    (0.16666666666666669, 0.008333333333332912, 0.00019841269841593364, 2.755731910679139e-06,
     2.5052130989723992e-08, 1.6056660148532816e-10, 7.776561836064523e-13),
)  # fmt: skip


def _scale(value: Any, shifted: Any) -> Any:
    """value * 2**n, n = shifted - MAGIC_SPLIT.

    In two factors: a single one would reach neither subnormal results nor those near overflow.
    """
    bits = bits_from_float(shifted)
    first = bits >> 1
    return value * float_from_bits(first << MANTISSA) * float_from_bits((bits - first) << MANTISSA)


def _exponential(x: Any, magic: Any) -> Any:
    # exp(x) / 2**n for the nearest integer n to x / log(2), and the sum of n and the magic number
    shifted = x * LOG2_E + magic
    n = shifted - magic
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    return ONE + (r + r * r * horner(r, _EXP)), shifted


def exp(x: Any) -> Any:
    """Exponential function. Error below 1.1 ulp, subnormal results included."""
    limited = llvm_select(x > _EXP_HIGH, _EXP_HIGH, x)
    limited = llvm_select(limited < _EXP_LOW, _EXP_LOW, limited)
    value, shifted = _exponential(limited, MAGIC_SPLIT)
    return _scale(value, shifted)


def exp2(x: Any) -> Any:
    """2**x. Error below 2 ulp; exact for an integer `x`."""
    limited = llvm_select(x > _EXP2_HIGH, _EXP2_HIGH, x)
    limited = llvm_select(limited < _EXP2_LOW, _EXP2_LOW, limited)
    shifted = limited + MAGIC_SPLIT
    f = limited - (shifted - MAGIC_SPLIT)
    return _scale(ONE + f * horner(f, EXP2), shifted)


def expm1(x: Any) -> Any:
    """exp(x) - 1. Error below 2 ulp."""
    limited = llvm_select(x > _EXP_HIGH, _EXP_HIGH, x)
    limited = llvm_select(limited < _EXPM1_LOW, _EXPM1_LOW, limited)
    shifted = limited * LOG2_E + _MAGIC_HALF_BIASED
    n = shifted - _MAGIC_HALF_BIASED
    r = (limited - n * LN2_HIGH) - n * LN2_LOW
    q = r + r * (r * horner(r, _EXPM1))
    half = float_from_bits(bits_from_float(shifted) << MANTISSA)  # 2**(n - 1), since the greatest 2**n overflows
    return llvm_copysign(TWO * (half * q + (half - HALF)), x)


def tanh(x: Any) -> Any:
    """Hyperbolic tangent: x * P(x**2) for |x| < 0.55, else 1 - 2 / (exp(2 |x|) + 1). Error below 2 ulp."""
    magnitude = llvm_fabs(x)
    square = magnitude * magnitude
    near = magnitude + magnitude * (square * horner(square, _TANH))
    doubled = magnitude + magnitude
    doubled = llvm_select(doubled > _TANH_HIGH, _TANH_HIGH, doubled)
    value, shifted = _exponential(doubled, _MAGIC_BIASED)
    value = value * float_from_bits(bits_from_float(shifted) << MANTISSA)
    return llvm_copysign(llvm_select(magnitude < _TANH_BORDER, near, ONE - _over(TWO, value + ONE)), x)


def _half_exp(magnitude: Any) -> Any:
    # exp(magnitude) / 2 for magnitude >= 0, which is finite wherever cosh(magnitude) is
    limited = llvm_select(magnitude > _COSH_HIGH, _COSH_HIGH, magnitude)
    value, shifted = _exponential(limited, _MAGIC_HALF_SPLIT)
    return _scale(value, shifted)


def cosh(x: Any) -> Any:
    """Hyperbolic cosine. Error below 2 ulp."""
    half = _half_exp(llvm_fabs(x))
    return half + QUARTER / half


def sinh(x: Any) -> Any:
    """Hyperbolic sine. Error below 3 ulp."""
    magnitude = llvm_fabs(x)
    half = _half_exp(magnitude)
    square = magnitude * magnitude
    small = magnitude + magnitude * (square * horner(square, _SINH))
    return llvm_copysign(llvm_select(magnitude < ONE, small, half - QUARTER / half), x)
