"""float64 functions of angles and those that return angles; `float64.py` says how they are written.

A trigonometric argument is reduced to |r| <= pi / 4 by subtracting a multiple of pi / 2, given in three parts, with
fused multiply-add. Arguments beyond the limit, where three parts are too few, take the path of Note [Rare slow path].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .bits import (
    bits_from_float64,
    float64_from_bits,
    horner,
    library_cos,
    library_sin,
    library_tan,
    llvm_copysign,
    llvm_fabs,
    llvm_fma,
    llvm_select,
    llvm_sqrt,
)

__all__ = ["acos", "asin", "atan", "atan2", "cos", "sin", "tan"]

_ZERO = np.float64(0.0)
_HALF = np.float64(0.5)
_ONE = np.float64(1.0)
_MAGIC = np.float64(6755399441055744.0)  # 1.5 * 2**52
_TWO_60 = np.float64(1152921504606846976.0)

# --- trigonometric functions ------------------------------------------------------------------------------------------

_TWO_OVER_PI = np.float64(0.6366197723675814)
_PI_2_FIRST = np.float64(1.5707963267948966)  # pi / 2 in three parts of 53 bits; used with fused multiply-add only
_PI_2_SECOND = np.float64(6.123233995736766e-17)
_PI_2_THIRD = np.float64(-1.4973849048591698e-33)
_TRIGONOMETRIC_LIMIT = np.float64(1073741824.0)  # 2**30; beyond it see Note [Rare slow path]

# (sin(r) - r) / r**3 as a polynomial in r**2, |r| <= pi / 4, error of sin 2**-57.5
_SIN = (
    np.float64(-0.1666666666666662),
    np.float64(0.008333333333319703),
    np.float64(-0.00019841269827610092),
    np.float64(2.7557312922184906e-06),
    np.float64(-2.505063672731839e-08),
    np.float64(1.5889721552590904e-10),
)
# (cos(r) - 1 + r**2 / 2) / r**4 likewise, error of cos 2**-63.5
_COS = (
    np.float64(0.041666666666666574),
    np.float64(-0.0013888888888869719),
    np.float64(2.4801587286729046e-05),
    np.float64(-2.7557313558000683e-07),
    np.float64(2.0875615571391802e-09),
    np.float64(-1.1354090049246229e-11),
)
# (tan(r) - r) / r**3 likewise, error of tan 2**-58.5
_TAN = (
    np.float64(0.33333333333333426),
    np.float64(0.13333333333318528),
    np.float64(0.053968253976550855),
    np.float64(0.02186948830096205),
    np.float64(0.00886323948991366),
    np.float64(0.0035920847562066357),
    np.float64(0.0014561584204708833),
    np.float64(0.0005883095040633146),
    np.float64(0.0002457018749111843),
    np.float64(7.863687735146096e-05),
    np.float64(7.606458001205279e-05),
    np.float64(-3.667031043824671e-05),
    np.float64(5.772824652081018e-05),
    np.float64(-2.8718527653496568e-05),
    np.float64(1.0775181317711517e-05),
)


def _reduce(x: Any) -> Any:
    # x = n * pi / 2 + r + tail, |r| <= pi / 4, the low bits of n. The first step is exact; the tail is what the second
    # rounds away.
    shifted = x * _TWO_OVER_PI + _MAGIC
    n = shifted - _MAGIC
    first = llvm_fma(-n, _PI_2_FIRST, x)
    r = llvm_fma(-n, _PI_2_SECOND, first)
    tail = llvm_fma(-n, _PI_2_SECOND, first - r) - n * _PI_2_THIRD
    return r, tail, bits_from_float64(shifted)


def _sine_of_quadrant(r: Any, tail: Any, quadrant: Any) -> Any:
    # the sine of r + tail + quadrant * pi / 2
    square = r * r
    sine = r + (r * (square * horner(square, _SIN)) + tail)
    half = _HALF * square
    leading = _ONE - half
    cosine = leading + (((_ONE - leading) - half) + (square * square * horner(square, _COS) - r * tail))
    value = llvm_select((quadrant & 1) == 0, sine, cosine)
    return float64_from_bits(bits_from_float64(value) ^ ((quadrant & 2) << 62))


def sin(x: Any) -> Any:
    """Sine of an angle in radians. Error below 1 ulp; |x| > 2**30 is left to the C library."""
    r, tail, quadrant = _reduce(x)
    value = llvm_select(x == _ZERO, x, _sine_of_quadrant(r, tail, quadrant))
    return llvm_select(llvm_fabs(x) > _TRIGONOMETRIC_LIMIT, library_sin(x, _TRIGONOMETRIC_LIMIT), value)


def cos(x: Any) -> Any:
    """Cosine of an angle in radians. Error below 1 ulp; |x| > 2**30 is left to the C library."""
    r, tail, quadrant = _reduce(x)
    value = _sine_of_quadrant(r, tail, quadrant + 1)
    return llvm_select(llvm_fabs(x) > _TRIGONOMETRIC_LIMIT, library_cos(x, _TRIGONOMETRIC_LIMIT), value)


def tan(x: Any) -> Any:
    """Tangent of an angle in radians. Error below 3 ulp; |x| > 2**30 is left to the C library."""
    r, tail, quadrant = _reduce(x)
    square = r * r
    tangent = r + (r * (square * horner(square, _TAN)) + tail * (_ONE + square))
    value = llvm_select((quadrant & 1) == 0, tangent, -_ONE / tangent)
    value = llvm_select(x == _ZERO, x, value)
    return llvm_select(llvm_fabs(x) > _TRIGONOMETRIC_LIMIT, library_tan(x, _TRIGONOMETRIC_LIMIT), value)


# --- inverse trigonometric functions ----------------------------------------------------------------------------------

_PI_2_LOW = np.float64(6.123233995736766e-17)  # pi / 2 - _PI_2_FIRST
_PI_4 = np.float64(0.7853981633974483)
_PI_4_LOW = np.float64(3.061616997868383e-17)
_TAN_PI_8 = np.float64(0.41421356237309503)
_TWO_MINUS_60 = np.float64(8.673617379884035e-19)
_PI = np.float64(3.141592653589793)
_PI_LOW = np.float64(1.2246467991473532e-16)

# (asin(s) - s) / s**3 as a polynomial in s**2, s <= 1/2, error of asin 2**-59.6
_ASIN = (
    np.float64(0.1666666666666676),
    np.float64(0.07499999999970812),
    np.float64(0.04464285717464224),
    np.float64(0.030381942704957313),
    np.float64(0.02237221509661867),
    np.float64(0.017351609625706706),
    np.float64(0.013980853608464001),
    np.float64(0.01139860931468659),
    np.float64(0.010782117605274383),
    np.float64(0.0036987717367911216),
    np.float64(0.02172740835908537),
    np.float64(-0.02102920192847769),
    np.float64(0.032648629055241914),
)
# (atan(t) - t) / t**3 as a polynomial in t**2, t <= tan(pi / 8), error of atan 2**-59.1
_ATAN = (
    np.float64(-0.333333333333332),
    np.float64(0.19999999999953624),
    np.float64(-0.14285714280191453),
    np.float64(0.11111110782965379),
    np.float64(-0.0909089773938644),
    np.float64(0.07692059840150747),
    np.float64(-0.06663099379739396),
    np.float64(0.058478528496851694),
    np.float64(-0.050391303489440695),
    np.float64(0.03805988630053127),
    np.float64(-0.01790182520308183),
)


def _arcsine_core(magnitude: Any) -> Any:
    # asin(magnitude) for magnitude <= 1/2, otherwise asin(sqrt((1 - magnitude) / 2))
    upper = magnitude > _HALF
    square = llvm_select(upper, (_ONE - magnitude) * _HALF, magnitude * magnitude)
    s = llvm_select(upper, llvm_sqrt(square), magnitude)
    return upper, s + s * (square * horner(square, _ASIN))


def asin(x: Any) -> Any:
    """Inverse sine in radians. Error below 3 ulp."""
    upper, angle = _arcsine_core(llvm_fabs(x))
    return llvm_copysign(llvm_select(upper, _PI_2_FIRST - ((angle + angle) - _PI_2_LOW), angle), x)


def acos(x: Any) -> Any:
    """Inverse cosine in radians. Error below 2 ulp."""
    upper, angle = _arcsine_core(llvm_fabs(x))
    doubled = angle + angle
    outer = llvm_select(x < _ZERO, _PI - (doubled - _PI_LOW), doubled)
    return llvm_select(upper, outer, _PI_2_FIRST - (llvm_copysign(angle, x) - _PI_2_LOW))


def _arctangent_core(smaller: Any, larger: Any) -> Any:
    # atan(smaller / larger), 0 <= smaller <= larger; above tan(pi / 8) it is pi / 4 + atan((smaller - larger) / (...))
    upper = smaller > _TAN_PI_8 * larger
    numerator = llvm_select(upper, smaller - larger, smaller)
    t = numerator / llvm_select(upper, smaller + larger, larger)
    square = t * t
    product = t * (square * horner(square, _ATAN))
    return llvm_select(upper, _PI_4, _ZERO) + (t + (product + llvm_select(upper, _PI_4_LOW, _ZERO)))


def atan(x: Any) -> Any:
    """Inverse tangent in radians. Error below 2 ulp."""
    magnitude = llvm_fabs(x)
    upper = magnitude > _ONE
    limited = llvm_select(magnitude > _TWO_60, _TWO_60, magnitude)
    smaller, larger = llvm_select(upper, _ONE, limited), llvm_select(upper, limited, _ONE)
    angle = _arctangent_core(smaller, larger)
    return llvm_copysign(llvm_select(upper, _PI_2_FIRST - (angle - _PI_2_LOW), angle), x)


def atan2(y: Any, x: Any) -> Any:
    """Angle of the point (x, y) in radians, special cases as in C99. Error below 3 ulp."""
    across, up = llvm_fabs(x), llvm_fabs(y)
    steep = across < up
    smaller, larger = llvm_select(steep, across, up), llvm_select(steep, up, across)
    scale = llvm_select(larger > _TWO_60, _TWO_MINUS_60, _ONE)  # the sum of both must not overflow
    equal = smaller == larger
    smaller = llvm_select(equal, llvm_select(larger == _ZERO, _ZERO, _ONE), smaller * scale)  # 0 / 0 is 0, inf / inf 1
    angle = _arctangent_core(smaller, llvm_select(equal, _ONE, larger * scale))
    angle = llvm_select(steep, _PI_2_FIRST - (angle - _PI_2_LOW), angle)
    return llvm_copysign(llvm_select(bits_from_float64(x) < 0, _PI - (angle - _PI_LOW), angle), y)
