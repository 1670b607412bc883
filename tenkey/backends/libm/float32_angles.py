"""float32 functions of angles and those that return angles; `float32.py` says how they are written.

A trigonometric argument is reduced to |r| <= pi / 4 by subtracting a multiple of pi / 2, given in three parts, with
fused multiply-add. Arguments beyond the limit, where three parts are too few, take the path of Note [Rare slow path].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .bits import (
    bits_from_float32,
    float32_from_bits,
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

_ZERO = np.float32(0.0)
_HALF = np.float32(0.5)
_ONE = np.float32(1.0)
_MAGIC = np.float32(12582912.0)  # 1.5 * 2**23

# --- trigonometric functions ------------------------------------------------------------------------------------------

_TWO_OVER_PI = np.float32(0.63661977)
_PI_2_FIRST = np.float32(1.5707964)  # pi / 2 in three parts of 24 bits; used with fused multiply-add only
_PI_2_SECOND = np.float32(-4.371139e-08)
_PI_2_THIRD = np.float32(-1.7151245e-15)
_TRIGONOMETRIC_LIMIT = np.float32(65536.0)  # beyond it the three parts are too short: Note [Rare slow path]

# (sin(r) - r) / r**3 as a polynomial in r**2, |r| <= pi / 4, error of sin 2**-27.6
_SIN = (
    np.float32(-0.16666654),
    np.float32(0.008332093),
    np.float32(-0.00019505087),
)
# (cos(r) - 1 + r**2 / 2) / r**4 likewise, error of cos 2**-32.6
_COS = (
    np.float32(0.04166664),
    np.float32(-0.001388713),
    np.float32(2.4412057e-05),
)
# (tan(r) - r) / r**3 likewise, error of tan 2**-29.0
_TAN = (
    np.float32(0.33333355),
    np.float32(0.13332462),
    np.float32(0.054083697),
    np.float32(0.021155689),
    np.float32(0.011171028),
    np.float32(-0.00034273698),
    np.float32(0.004592405),
)


def _reduce(x: Any) -> Any:
    # x = n * pi / 2 + r, |r| <= pi / 4, the low bits of n
    shifted = x * _TWO_OVER_PI + _MAGIC
    n = shifted - _MAGIC
    r = llvm_fma(-n, _PI_2_THIRD, llvm_fma(-n, _PI_2_SECOND, llvm_fma(-n, _PI_2_FIRST, x)))
    return r, bits_from_float32(shifted)


def _sine_of_quadrant(r: Any, quadrant: Any) -> Any:
    # the sine of r + quadrant * pi / 2
    square = r * r
    sine = r + r * (square * horner(square, _SIN))
    cosine = (_ONE - _HALF * square) + square * square * horner(square, _COS)
    value = llvm_select((quadrant & 1) == 0, sine, cosine)
    return float32_from_bits(bits_from_float32(value) ^ ((quadrant & 2) << 30))


def sin(x: Any) -> Any:
    """Sine of an angle in radians. Error below 2 ulp; |x| > 2**16 is left to the C library."""
    r, quadrant = _reduce(x)
    value = llvm_select(x == _ZERO, x, _sine_of_quadrant(r, quadrant))
    return llvm_select(llvm_fabs(x) > _TRIGONOMETRIC_LIMIT, library_sin(x, _TRIGONOMETRIC_LIMIT), value)


def cos(x: Any) -> Any:
    """Cosine of an angle in radians. Error below 2 ulp; |x| > 2**16 is left to the C library."""
    r, quadrant = _reduce(x)
    value = _sine_of_quadrant(r, quadrant + 1)
    return llvm_select(llvm_fabs(x) > _TRIGONOMETRIC_LIMIT, library_cos(x, _TRIGONOMETRIC_LIMIT), value)


def tan(x: Any) -> Any:
    """Tangent of an angle in radians. Error below 4 ulp; |x| > 2**16 is left to the C library."""
    r, quadrant = _reduce(x)
    square = r * r
    tangent = r + r * (square * horner(square, _TAN))
    value = llvm_select((quadrant & 1) == 0, tangent, -_ONE / tangent)
    value = llvm_select(x == _ZERO, x, value)
    return llvm_select(llvm_fabs(x) > _TRIGONOMETRIC_LIMIT, library_tan(x, _TRIGONOMETRIC_LIMIT), value)


# --- inverse trigonometric functions ----------------------------------------------------------------------------------

_PI_2_LOW = np.float32(-4.371139e-08)  # pi / 2 - _PI_2_FIRST
_PI = np.float32(3.1415927)
_PI_LOW = np.float32(-8.742278e-08)

# (asin(s) - s) / s**3 as a polynomial in s**2, s <= 1/2, error of asin 2**-31.7
_ASIN = (
    np.float32(0.1666666),
    np.float32(0.07500522),
    np.float32(0.04451335),
    np.float32(0.031839572),
    np.float32(0.014311945),
    np.float32(0.037702482),
)
# (atan(t) - t) / t**3 as a polynomial in t**2, t <= 1, error of atan 2**-26.4
_ATAN = (
    np.float32(-0.333333),
    np.float32(0.1999853),
    np.float32(-0.14264016),
    np.float32(0.10950885),
    np.float32(-0.0839932),
    np.float32(0.057881568),
    np.float32(-0.031097056),
    np.float32(0.010868644),
    np.float32(-0.0017827911),
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


def _arctangent_core(t: Any) -> Any:
    # the inverse tangent of t for 0 <= t <= 1
    square = t * t
    return t + t * (square * horner(square, _ATAN))


def atan(x: Any) -> Any:
    """Inverse tangent in radians. Error below 2 ulp."""
    magnitude = llvm_fabs(x)
    upper = magnitude > _ONE
    t = llvm_select(upper, _ONE, magnitude) / llvm_select(magnitude < _ONE, _ONE, magnitude)
    angle = _arctangent_core(t)
    return llvm_copysign(llvm_select(upper, _PI_2_FIRST - (angle - _PI_2_LOW), angle), x)


def atan2(y: Any, x: Any) -> Any:
    """Angle of the point (x, y) in radians, special cases as in C99. Error below 3 ulp."""
    across, up = llvm_fabs(x), llvm_fabs(y)
    steep = across < up
    smaller, larger = llvm_select(steep, across, up), llvm_select(steep, up, across)
    equal = llvm_select(larger == _ZERO, _ZERO, _ONE)  # 0 / 0 counts as 0, inf / inf as 1
    angle = _arctangent_core(llvm_select(smaller == larger, equal, smaller / larger))
    angle = llvm_select(steep, _PI_2_FIRST - (angle - _PI_2_LOW), angle)
    return llvm_copysign(llvm_select(bits_from_float32(x) < 0, _PI - (angle - _PI_LOW), angle), y)
