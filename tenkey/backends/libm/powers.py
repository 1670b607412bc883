"""Powers and roots; `constants.py` says how they are written."""

from __future__ import annotations

from typing import Any

from ..llvm import copysign, f32, f64, fabs, fma, i32, rint
from .constants import INFINITY, LOG2_E, LOG2_E_LOW, MAGIC, MAGIC_BITS, NAN, SMALLEST_NORMAL
from .exponentials import EXP2, MAGIC_SPLIT, _scale
from .operations import bits_from_float, each, float_from_bits, horner, select

__all__ = ["cbrt", "pow"]

# --- powers -----------------------------------------------------------------------------------------------------------

_WIDE_MAGIC = 6755399441055744.0  # 1.5 * 2**52
_WIDE_MAGIC_BIASED = 6755399441055744.0 + 1023.0
# A greater exponent, 2**40 and 2**66, overflows or vanishes for every x but 1.
_POW_Y_LIMIT = each(1099511627776.0, 73786976294838206464.0)
_POW_HIGH = each(200.0, 1100.0)
_POW_LOW = each(-200.0, -1100.0)
_TWO_54 = 18014398509481984.0
_TWO_THIRDS = 2.0 / 3.0
_TWO_THIRDS_LOW = 3.700743415417188e-17

# log2((1 + s) / (1 - s)) / s as a polynomial in s**2, |s| <= 0.1717, error 2**-45.1
_WIDE_LOG2 = (
    2.8853900817778495, 0.9617966941145708, 0.5770779419581014,
    0.4122092975694278, 0.3199036986062326, 0.2829305551421965,
)  # fmt: skip
# (2**f - 1) / f on |f| <= 1/2, error of 2**f 2**-32.0
_WIDE_EXP2 = (
    0.6931471838210841, 0.24022650921097072, 0.05550400370369745,
    0.00961805684468323, 0.0013341946136187367, 0.0001546139941482614,
    1.3363149671434428e-05,
)  # fmt: skip
# (log((1 + s) / (1 - s)) - 2 s - 2/3 s**3) / s**5 as a polynomial in s**2, |s| <= 0.1717, error of log 2**-73.4
_POW_LOG = (
    0.3999999999999998, 0.2857142857144388, 0.22222222217774162, 0.18181818846430478, 0.15384558235707976,
    0.13336272704305832, 0.1167560144344412, 0.11983332806102091,
)  # fmt: skip


def _limited_exponent(y: Any) -> Any:
    # makes 1**inf equal 1; the limits count as even
    y = select(y > _POW_Y_LIMIT, _POW_Y_LIMIT, y)
    return select(y < -_POW_Y_LIMIT, -_POW_Y_LIMIT, y)


def _with_sign(x: Any, power: Any, logarithm: Any, value: Any) -> Any:
    # An even exponent gives +, an odd one the sign of x, any other NaN for a finite x < 0.
    half = power * 0.5
    fraction = fabs(half - rint(half))
    other = select(fabs(logarithm) < INFINITY, NAN, 1.0)
    sign = select(fraction == 0.5, -1.0, select(rint(power) == power, 1.0, other))
    return select(bits_from_float(x) < 0, value * sign, value)


def _pow_float32(x: Any, y: Any) -> Any:
    # by way of float64, of which a float32 subnormal is a normal number
    magnitude = fabs(x)
    wide = f64(magnitude)
    bits = bits_from_float(wide) - 0x3FE6A09E667F3BCD
    m = float_from_bits((bits & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD)
    k = float_from_bits((bits >> 52) + MAGIC_BITS) - _WIDE_MAGIC
    s = (m - 1.0) / (m + 1.0)
    logarithm = k + s * horner(s * s, _WIDE_LOG2)
    logarithm = select(wide < INFINITY, logarithm, wide)
    logarithm = select(wide == 0.0, -INFINITY, logarithm)
    power = _limited_exponent(f64(y))
    exponent = power * logarithm
    exponent = select(exponent > _POW_HIGH, _POW_HIGH, exponent)
    exponent = select(exponent < _POW_LOW, _POW_LOW, exponent)
    shifted = exponent + _WIDE_MAGIC_BIASED
    f = exponent - (shifted - _WIDE_MAGIC_BIASED)
    factor = float_from_bits(bits_from_float(shifted) << 52)
    value = f32((1.0 + f * horner(f, _WIDE_EXP2)) * factor)
    return _with_sign(x, power, logarithm, value)


def _pow_float64(x: Any, y: Any) -> Any:
    # log2 |x| is carried as a sum of two floats
    magnitude = fabs(x)
    tiny = magnitude < SMALLEST_NORMAL
    bits = bits_from_float(select(tiny, magnitude * _TWO_54, magnitude)) - 0x3FE6A09E667F3BCD
    m = float_from_bits((bits & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD)
    k = (float_from_bits((bits >> 52) + MAGIC_BITS) - MAGIC) - select(tiny, 54.0, 0.0)
    # s + s_low = (m - 1) / (m + 1)
    numerator = m - 1.0
    denominator = m + 1.0
    inverse = 1.0 / denominator
    s = numerator * inverse
    remainder = fma(-s, denominator, numerator) - s * (m - (denominator - 1.0))
    s_low = remainder * inverse
    # z + z_low = s**2; q + q_low = 2/3 + z * P(z); v + v_low = 2 + z * q
    z = s * s
    z_low = fma(s, s, -z) + (s + s) * s_low
    product = z * horner(z, _POW_LOG)
    q = _TWO_THIRDS + product
    q_low = ((_TWO_THIRDS - q) + product) + _TWO_THIRDS_LOW
    w = z * q
    w_low = fma(z, q, -w) + (z * q_low + z_low * q)
    v = 2.0 + w
    v_low = ((2.0 - v) + w) + w_low
    # g + g_low = log(m) = s * v; base + base_low = log2(m); t + t_low = log2(|x|)
    g = s * v
    g_low = fma(s, v, -g) + (s * v_low + s_low * v)
    base = g * LOG2_E
    base_low = fma(g, LOG2_E, -base) + (g * LOG2_E_LOW + g_low * LOG2_E)
    t = k + base
    t_low = ((k - t) + base) + base_low
    t = select(magnitude < INFINITY, t, magnitude)
    t = select(magnitude == 0.0, -INFINITY, t)
    power = _limited_exponent(y)
    exponent = power * t
    exponent_low = fma(power, t, -exponent) + power * t_low
    exponent_low = select(fabs(exponent) < _POW_HIGH, exponent_low, 0.0)
    exponent = select(exponent > _POW_HIGH, _POW_HIGH, exponent)
    exponent = select(exponent < _POW_LOW, _POW_LOW, exponent)
    shifted = exponent + MAGIC_SPLIT
    f = (exponent - (shifted - MAGIC_SPLIT)) + exponent_low
    value = _scale(1.0 + f * horner(f, EXP2), shifted)
    return _with_sign(x, power, t, value)


_pow = each(_pow_float32, _pow_float64)


def pow(x: Any, y: Any) -> Any:
    """x**y, special cases as in C99 (annex F.10.4.4). Error below 1 and 2 ulp."""
    value = _pow(x, y)
    return select(x == 1.0, 1.0, select(y == 0.0, 1.0, value))


# --- roots ------------------------------------------------------------------------------------------------------------

_THIRD = 1.0 / 3.0
_CBRT_TINY_SCALE = each(16777216.0, 18014398509481984.0)  # 2**24, 2**54
_TINY_ROOT = each(0.00390625, 3.814697265625e-06)  # the inverse of its cube root
_MAGIC_CBRT = 6755399441055744.0 + 0x553EE978
_CBRT_SERIES = (1.0 / 3.0, 2.0 / 9.0, 14.0 / 81.0, 35.0 / 243.0)  # of ((1 - e)**(-1/3) - 1) / e


def _cbrt_estimate_float32(a: Any) -> Any:
    # Dividing the bits by -3 divides the exponent: a**(-1/3) with a relative error below 3.5 %.
    return float_from_bits(0x54A1F671 - i32(f32(bits_from_float(a)) * _THIRD))


def _cbrt_estimate_float64(a: Any) -> Any:
    # The same with the upper half of the bits, divided in floating point; then one step of the series.
    upper = float_from_bits((bits_from_float(a) >> 32) + MAGIC_BITS) - MAGIC
    return _cbrt_step(a, float_from_bits(bits_from_float(_MAGIC_CBRT - upper * _THIRD) << 32))


def _cbrt_step(a: Any, r: Any) -> Any:
    # improve r, an estimate of a**(-1/3), by a series in its residual
    e = 1.0 - (a * r) * (r * r)
    return r + r * (e * horner(e, _CBRT_SERIES))


_cbrt_estimate = each(_cbrt_estimate_float32, _cbrt_estimate_float64)


def cbrt(x: Any) -> Any:
    """Cube root. Error below 1 ulp."""
    magnitude = fabs(x)
    tiny = magnitude < SMALLEST_NORMAL
    a = select(tiny, magnitude * _CBRT_TINY_SCALE, magnitude)
    r = _cbrt_step(a, _cbrt_estimate(a))
    root = a * r * r
    square = root * root
    residual = fma(-square, root, a) - fma(root, root, -square) * root
    root = root + residual * (r * r * _THIRD)
    root = root * select(tiny, _TINY_ROOT, 1.0)
    regular = select(magnitude < INFINITY, magnitude, 0.0) > 0.0
    return select(regular, copysign(root, x), x)
