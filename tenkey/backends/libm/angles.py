"""Functions of angles and those that return angles; `constants.py` says how they are written.

A trigonometric argument is reduced to |r| <= pi / 4 by subtracting a multiple of pi / 2, given in three parts, with
fused multiply-add; in float64, and for the tangent, the reduced argument has a tail. Arguments beyond the limit, where
three parts are too few, take the path of Note [Rare slow path] in `operations.py`. The inverse tangent of float64 is
reduced once more.
"""

from __future__ import annotations

from typing import Any

from ..llvm import copysign, fabs, fma, sqrt
from .constants import MAGIC
from .operations import bits_from_float, each, float_from_bits, horner, library_beyond, select

__all__ = ["acos", "asin", "atan", "atan2", "cos", "sin", "tan"]

# --- trigonometric functions ------------------------------------------------------------------------------------------

_TWO_OVER_PI = each(0.63661977, 0.6366197723675814)
# pi / 2 in three parts of 24 and 53 bits; used with fused multiply-add only
_PI_2_FIRST = each(1.5707964, 1.5707963267948966)
_PI_2_SECOND = each(-4.371139e-08, 6.123233995736766e-17)
_PI_2_THIRD = each(-1.7151245e-15, -1.4973849048591698e-33)
_TRIGONOMETRIC_LIMIT = each(65536.0, 1073741824.0)  # 2**16 and 2**30: Note [Rare slow path]
_SIGN_SHIFT = each(30, 62)  # moves the second bit to the place of the sign

# (sin(r) - r) / r**3 as a polynomial in r**2, |r| <= pi / 4, error of sin 2**-27.6 and 2**-57.5
_SIN = each(
    (-0.16666654, 0.008332093, -0.00019505087),
    (-0.1666666666666662, 0.008333333333319703, -0.00019841269827610092, 2.7557312922184906e-06,
     -2.505063672731839e-08, 1.5889721552590904e-10),
)  # fmt: skip
# (cos(r) - 1 + r**2 / 2) / r**4 likewise, error of cos 2**-32.6 and 2**-63.5
_COS = each(
    (0.04166664, -0.001388713, 2.4412057e-05),
    (0.041666666666666574, -0.0013888888888869719, 2.4801587286729046e-05, -2.7557313558000683e-07,
     2.0875615571391802e-09, -1.1354090049246229e-11),
)  # fmt: skip
# (tan(r) - r) / r**3 likewise, error of tan 2**-29.0 and 2**-58.5
_TAN = each(
    (0.33333355, 0.13332462, 0.054083697, 0.021155689, 0.011171028, -0.00034273698, 0.004592405),
    (0.33333333333333426, 0.13333333333318528, 0.053968253976550855, 0.02186948830096205, 0.00886323948991366,
     0.0035920847562066357, 0.0014561584204708833, 0.0005883095040633146, 0.0002457018749111843,
     7.863687735146096e-05, 7.606458001205279e-05, -3.667031043824671e-05, 5.772824652081018e-05,
     -2.8718527653496568e-05, 1.0775181317711517e-05),
)  # fmt: skip


def _reduce_float32(x: Any) -> Any:
    # x = n * pi / 2 + r, |r| <= pi / 4: r, no tail, and the low bits of n
    shifted = x * _TWO_OVER_PI + MAGIC
    n = shifted - MAGIC
    r = fma(-n, _PI_2_THIRD, fma(-n, _PI_2_SECOND, fma(-n, _PI_2_FIRST, x)))
    return r, 0.0, bits_from_float(shifted)


def _reduce_with_tail(x: Any) -> Any:
    # x = n * pi / 2 + r + tail. The first step is exact; the tail has what the second rounds away, both in the product
    # and in the difference (Knuth's sum of two numbers), where r may be far smaller than what it is the difference of
    shifted = x * _TWO_OVER_PI + MAGIC
    n = shifted - MAGIC
    first = fma(-n, _PI_2_FIRST, x)
    product = fma(n, _PI_2_SECOND, 0.0)  # rounded by itself, never joined with the difference
    r = first - product
    back = r - first
    lost = (first - (r - back)) - (product + back)
    tail = lost - fma(n, _PI_2_THIRD, fma(n, _PI_2_SECOND, -product))
    return r, tail, bits_from_float(shifted)


def _sine_and_cosine_float32(r: Any, tail: Any) -> Any:
    square = r * r
    sine = r + r * (square * horner(square, _SIN))
    return sine, (1.0 - 0.5 * square) + square * square * horner(square, _COS)


def _sine_and_cosine_float64(r: Any, tail: Any) -> Any:
    square = r * r
    sine = r + (r * (square * horner(square, _SIN)) + tail)
    half = 0.5 * square
    leading = 1.0 - half
    return sine, leading + (((1.0 - leading) - half) + (square * square * horner(square, _COS) - r * tail))


def _tangent(r: Any, tail: Any) -> Any:
    square = r * r
    return r + (r * (square * horner(square, _TAN)) + tail * (1.0 + square))


_reduce = each(_reduce_float32, _reduce_with_tail)
_sine_and_cosine = each(_sine_and_cosine_float32, _sine_and_cosine_float64)


def _sine_of_quadrant(r: Any, tail: Any, quadrant: Any) -> Any:
    # the sine of r + tail + quadrant * pi / 2
    sine, cosine = _sine_and_cosine(r, tail)
    value = select((quadrant & 1) == 0, sine, cosine)
    return float_from_bits(bits_from_float(value) ^ ((quadrant & 2) << _SIGN_SHIFT))


def sin(x: Any) -> Any:
    """Sine of an angle in radians. Error below 2 and 1 ulp; the C library computes |x| > 2**16 and 2**30."""
    r, tail, quadrant = _reduce(x)
    value = select(x == 0.0, x, _sine_of_quadrant(r, tail, quadrant))
    return select(fabs(x) > _TRIGONOMETRIC_LIMIT, library_beyond(_TRIGONOMETRIC_LIMIT, "sin", x), value)


def cos(x: Any) -> Any:
    """Cosine of an angle in radians. Error below 2 and 1 ulp; the C library computes |x| > 2**16 and 2**30."""
    r, tail, quadrant = _reduce(x)
    value = _sine_of_quadrant(r, tail, quadrant + 1)
    return select(fabs(x) > _TRIGONOMETRIC_LIMIT, library_beyond(_TRIGONOMETRIC_LIMIT, "cos", x), value)


def tan(x: Any) -> Any:
    """Tangent of an angle in radians. Error below 2.5 and 3 ulp; the C library computes |x| > 2**16 and 2**30."""
    r, tail, quadrant = _reduce_with_tail(x)
    tangent = _tangent(r, tail)
    value = select((quadrant & 1) == 0, tangent, -1.0 / tangent)
    value = select(x == 0.0, x, value)
    return select(fabs(x) > _TRIGONOMETRIC_LIMIT, library_beyond(_TRIGONOMETRIC_LIMIT, "tan", x), value)


# --- inverse trigonometric functions ----------------------------------------------------------------------------------

_PI_2_LOW = each(-4.371139e-08, 6.123233995736766e-17)  # pi / 2 - _PI_2_FIRST
_PI = each(3.1415927, 3.141592653589793)
_PI_LOW = each(-8.742278e-08, 1.2246467991473532e-16)
_PI_4 = 0.7853981633974483
_PI_4_LOW = 3.061616997868383e-17
_TAN_PI_8 = 0.41421356237309503
_TWO_60 = 1152921504606846976.0
_TWO_MINUS_60 = 8.673617379884035e-19

# (asin(s) - s) / s**3 as a polynomial in s**2, s <= 1/2, error of asin 2**-31.7 and 2**-59.6
_ASIN = each(
    (0.1666666, 0.07500522, 0.04451335, 0.031839572, 0.014311945, 0.037702482),
    (0.1666666666666676, 0.07499999999970812, 0.04464285717464224, 0.030381942704957313, 0.02237221509661867,
     0.017351609625706706, 0.013980853608464001, 0.01139860931468659, 0.010782117605274383, 0.0036987717367911216,
     0.02172740835908537, -0.02102920192847769, 0.032648629055241914),
)  # fmt: skip
# (atan(t) - t) / t**3 as a polynomial in t**2, t <= 1 and tan(pi / 8), error of atan 2**-26.4 and 2**-59.1
_ATAN = each(
    (-0.333333, 0.1999853, -0.14264016, 0.10950885, -0.0839932, 0.057881568, -0.031097056, 0.010868644, -0.0017827911),
    (-0.333333333333332, 0.19999999999953624, -0.14285714280191453, 0.11111110782965379, -0.0909089773938644,
     0.07692059840150747, -0.06663099379739396, 0.058478528496851694, -0.050391303489440695, 0.03805988630053127,
     -0.01790182520308183),
)  # fmt: skip


def _arcsine_core(magnitude: Any) -> Any:
    # asin(magnitude) for magnitude <= 1/2, otherwise asin(sqrt((1 - magnitude) / 2))
    upper = magnitude > 0.5
    square = select(upper, (1.0 - magnitude) * 0.5, magnitude * magnitude)
    s = select(upper, sqrt(square), magnitude)
    return upper, s + s * (square * horner(square, _ASIN))


def asin(x: Any) -> Any:
    """Inverse sine in radians. Error below 3 ulp."""
    upper, angle = _arcsine_core(fabs(x))
    return copysign(select(upper, _PI_2_FIRST - ((angle + angle) - _PI_2_LOW), angle), x)


def acos(x: Any) -> Any:
    """Inverse cosine in radians. Error below 2 ulp."""
    upper, angle = _arcsine_core(fabs(x))
    doubled = angle + angle
    outer = select(x < 0.0, _PI - (doubled - _PI_LOW), doubled)
    return select(upper, outer, _PI_2_FIRST - (copysign(angle, x) - _PI_2_LOW))


def _arctangent_core_float32(t: Any) -> Any:
    # the inverse tangent of t for 0 <= t <= 1
    square = t * t
    return t + t * (square * horner(square, _ATAN))


def _arctangent_core_float64(smaller: Any, larger: Any) -> Any:
    # atan(smaller / larger), 0 <= smaller <= larger; above tan(pi / 8) it is pi / 4 + atan((smaller - larger) / (...))
    upper = smaller > _TAN_PI_8 * larger
    numerator = select(upper, smaller - larger, smaller)
    t = numerator / select(upper, smaller + larger, larger)
    square = t * t
    product = t * (square * horner(square, _ATAN))
    return select(upper, _PI_4, 0.0) + (t + (product + select(upper, _PI_4_LOW, 0.0)))


def _arctangent_float32(magnitude: Any, upper: Any) -> Any:
    # atan(magnitude), or atan(1 / magnitude) if it is above 1
    return _arctangent_core_float32(select(upper, 1.0, magnitude) / select(magnitude < 1.0, 1.0, magnitude))


def _arctangent_float64(magnitude: Any, upper: Any) -> Any:
    limited = select(magnitude > _TWO_60, _TWO_60, magnitude)
    return _arctangent_core_float64(select(upper, 1.0, limited), select(upper, limited, 1.0))


def _arctangent_of_ratio_float32(smaller: Any, larger: Any) -> Any:
    # atan(smaller / larger), 0 <= smaller <= larger; 0 / 0 counts as 0, inf / inf as 1
    equal = select(larger == 0.0, 0.0, 1.0)
    return _arctangent_core_float32(select(smaller == larger, equal, smaller / larger))


def _arctangent_of_ratio_float64(smaller: Any, larger: Any) -> Any:
    scale = select(larger > _TWO_60, _TWO_MINUS_60, 1.0)  # the sum of both must not overflow
    equal = smaller == larger
    smaller = select(equal, select(larger == 0.0, 0.0, 1.0), smaller * scale)
    return _arctangent_core_float64(smaller, select(equal, 1.0, larger * scale))


_arctangent = each(_arctangent_float32, _arctangent_float64)
_arctangent_of_ratio = each(_arctangent_of_ratio_float32, _arctangent_of_ratio_float64)


def atan(x: Any) -> Any:
    """Inverse tangent in radians. Error below 2 ulp."""
    magnitude = fabs(x)
    upper = magnitude > 1.0
    angle = _arctangent(magnitude, upper)
    return copysign(select(upper, _PI_2_FIRST - (angle - _PI_2_LOW), angle), x)


def atan2(y: Any, x: Any) -> Any:
    """Angle of the point (x, y) in radians, special cases as in C99. Error below 3 ulp."""
    across, up = fabs(x), fabs(y)
    steep = across < up
    angle = _arctangent_of_ratio(select(steep, across, up), select(steep, up, across))
    angle = select(steep, _PI_2_FIRST - (angle - _PI_2_LOW), angle)
    return copysign(select(bits_from_float(x) < 0, _PI - (angle - _PI_LOW), angle), y)
