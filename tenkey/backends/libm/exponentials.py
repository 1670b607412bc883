"""Exponentials and hyperbolic functions; `constants.py` says how they are written."""

from __future__ import annotations

from typing import Any

from ..llvm import copysign, fabs
from .avx512 import or_instruction
from .constants import LN2_HIGH, LN2_LOW, LOG2_E, MANTISSA, _over
from .operations import bits_from_float, each, float_from_bits, horner, select

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
_TANH_HIGH = each(10.0, 20.0)  # rounds to 1
_TWICE_LOG2_E = each(2.8853901, 2.8853900817779268)
_HALF_LN2 = each(0.3465736, 0.34657359027997264)

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
# ((exp(2 r) - 1) / 2 - r) / r**2, of the same coefficients
_TANH = each(
    (1.0, 0.6666666, 0.33333173, 0.1333383, 0.044592112, 0.012584377),
    (1.0000000000000002, 0.6666666666666669, 0.3333333333331881, 0.1333333333332495, 0.04444444447162134,
     0.012698412715183101, 0.0031746010967463084, 0.0007054659534616842, 0.00014116281126790492,
     2.5704613812807483e-05, 3.438755107689514e-06),
)  # fmt: skip
# (2**f - 1) / f on |f| <= 1/2, error of 2**f 2**-26.7 and 2**-59.7
EXP2 = each(
    (0.6931472, 0.2402265, 0.05550378, 0.0096181, 0.0013382296, 0.00015446066),
    (0.6931471805599453, 0.2402265069591007, 0.05550410866482345, 0.009618129107629938, 0.0013333558146001675,
     0.00015403530390106033, 1.5252734209364087e-05, 1.3215489791319195e-06, 1.0177910688875908e-07,
     7.0537050650579265e-09, 4.477026542029915e-10, 2.7462414402752937e-11),
)  # fmt: skip
# (sinh(r) - r) / r**3 as a polynomial in r**2, r <= 1, error of sinh 2**-31.6 and 2**-61.8
_SINH = each(
    (0.16666667, 0.0083333105, 0.00019842891, 2.7822684e-06),
    (0.16666666666666669, 0.008333333333332912, 0.00019841269841593364, 2.755731910679139e-06,
     2.5052130989723992e-08, 1.6056660148532816e-10, 7.776561836064523e-13),
)  # fmt: skip


@or_instruction
def _scale(value: Any, shifted: Any) -> Any:
    """value * 2**n, n = shifted - MAGIC_SPLIT.

    In two factors: a single one would reach neither subnormal results nor those near overflow. A result that is rounded
    to 0 or to a subnormal number takes 20 times as long on many processors, so callers treat arguments whose results
    are certainly 0 apart: these are frequent (``exp`` of what a mask excludes), subnormal results are not.
    """
    bits = bits_from_float(shifted)
    first = bits >> 1
    return value * float_from_bits(first << MANTISSA) * float_from_bits((bits - first) << MANTISSA)


def _exponential(x: Any, magic: Any) -> Any:
    # exp(x) / 2**n for the nearest integer n to x / log(2), and the sum of n and the magic number
    shifted = x * LOG2_E + magic
    n = shifted - magic
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    return 1.0 + (r + r * r * horner(r, _EXP)), shifted


@or_instruction
def exp(x: Any) -> Any:
    """Exponential function. Error below 1.1 ulp, subnormal results included."""
    limited = select(x > _EXP_HIGH, _EXP_HIGH, x)
    limited = select(x < _EXP_LOW, 0.0, limited)
    value, shifted = _exponential(limited, MAGIC_SPLIT)
    return select(x < _EXP_LOW, 0.0, _scale(value, shifted))


def exp2(x: Any) -> Any:
    """2**x. Error below 2 ulp; exact for an integer `x`."""
    limited = select(x > _EXP2_HIGH, _EXP2_HIGH, x)
    limited = select(x < _EXP2_LOW, 0.0, limited)
    shifted = limited + MAGIC_SPLIT
    f = limited - (shifted - MAGIC_SPLIT)
    return select(x < _EXP2_LOW, 0.0, _scale(1.0 + f * horner(f, EXP2), shifted))


def expm1(x: Any) -> Any:
    """exp(x) - 1. Error below 2 ulp."""
    limited = select(x > _EXP_HIGH, _EXP_HIGH, x)
    limited = select(limited < _EXPM1_LOW, _EXPM1_LOW, limited)
    shifted = limited * LOG2_E + _MAGIC_HALF_BIASED
    n = shifted - _MAGIC_HALF_BIASED
    r = (limited - n * LN2_HIGH) - n * LN2_LOW
    q = r + r * (r * horner(r, _EXPM1))
    half = float_from_bits(bits_from_float(shifted) << MANTISSA)  # 2**(n - 1), since the greatest 2**n overflows
    return copysign(2.0 * (half * q + (half - 0.5)), x)


@or_instruction
def _over_next(x: Any) -> Any:
    return _over(x, x + 1.0)


def tanh(x: Any) -> Any:
    """Hyperbolic tangent as m / (m + 1), m = (exp(2 |x|) - 1) / 2. Error below 2.5 ulp."""
    magnitude = fabs(x)
    limited = select(magnitude > _TANH_HIGH, _TANH_HIGH, magnitude)
    shifted = limited * _TWICE_LOG2_E + _MAGIC_BIASED
    n = shifted - _MAGIC_BIASED
    r = limited - n * _HALF_LN2  # what this constant lacks matters for great n only, where the result is near 1
    power = float_from_bits(bits_from_float(shifted) << MANTISSA)
    m = power * (r + r * (r * horner(r, _TANH))) + (0.5 * power - 0.5)
    return copysign(_over_next(m), x)


def _half_exp(magnitude: Any) -> Any:
    # exp(magnitude) / 2 for magnitude >= 0, which is finite wherever cosh(magnitude) is
    limited = select(magnitude > _COSH_HIGH, _COSH_HIGH, magnitude)
    value, shifted = _exponential(limited, _MAGIC_HALF_SPLIT)
    return _scale(value, shifted)


def cosh(x: Any) -> Any:
    """Hyperbolic cosine. Error below 2 ulp."""
    half = _half_exp(fabs(x))
    return half + 0.25 / half


def sinh(x: Any) -> Any:
    """Hyperbolic sine. Error below 3 ulp."""
    magnitude = fabs(x)
    half = _half_exp(magnitude)
    square = magnitude * magnitude
    small = magnitude + magnitude * (square * horner(square, _SINH))
    return copysign(select(magnitude < 1.0, small, half - 0.25 / half), x)
