"""float64 transcendental functions in the subset of Python that Numba compiles; the twin of `float32.py`.

What is said there holds here too: form, typed constants, methods, sources, and the Notes. What differs is the degree of
the polynomials, a logarithm by way of s = f / (2 + f), an inverse tangent reduced once more, a power whose logarithm is
carried in two floats, and trigonometric functions whose reduced argument has a tail.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .bits import (
    bits_from_float64,
    float64_from_bits,
    horner,
    llvm_copysign,
    llvm_fabs,
    llvm_fma,
    llvm_rint,
    llvm_select,
    llvm_sqrt,
)

__all__ = [
    "acosh",
    "asinh",
    "atanh",
    "cosh",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "pow",
    "sinh",
    "tanh",
]

_ZERO = np.float64(0.0)
_QUARTER = np.float64(0.25)
_HALF = np.float64(0.5)
_ONE = np.float64(1.0)
_TWO = np.float64(2.0)
_INFINITY = np.float64(np.inf)
_NAN = np.float64(np.nan)

# --- exponentials -----------------------------------------------------------------------------------------------------

_LOG2_E = np.float64(1.4426950408889634)
_LN2_HIGH = np.float64(0.6931471805601177)  # 40 significant bits: its product with |n| < 2**13 is exact
_LN2_LOW = np.float64(-1.7239444525614835e-13)

_MAGIC = np.float64(6755399441055744.0)  # 1.5 * 2**52
_MAGIC_BITS = 0x4338000000000000
_MAGIC_SPLIT = np.float64(6755399441055744.0 + 2046.0)  # low bits hold n + 2046, the two biases of _scale
_MAGIC_HALF_SPLIT = np.float64(6755399441055744.0 + 2045.0)
_MAGIC_BIASED = np.float64(6755399441055744.0 + 1023.0)
_MAGIC_HALF_BIASED = np.float64(6755399441055744.0 + 1022.0)

_EXP_HIGH = np.float64(710.0)  # overflows
_EXP_LOW = np.float64(-746.0)  # rounds to 0
_EXP2_HIGH = np.float64(1024.5)
_EXP2_LOW = np.float64(-1076.0)
_TANH_BORDER = np.float64(0.55)
_EXPM1_LOW = np.float64(-40.0)  # rounds to -1
_TANH_HIGH = np.float64(40.0)  # tanh(20) rounds to 1

# (exp(r) - 1 - r) / r**2 on |r| <= log(2) / 2, error of exp 2**-57.8
_EXP = (
    np.float64(0.5000000000000011),
    np.float64(0.166666666666664),
    np.float64(0.04166666666652527),
    np.float64(0.00833333333350161),
    np.float64(0.0013888888945098887),
    np.float64(0.0001984126949424255),
    np.float64(2.4801491417618954e-05),
    np.float64(2.7557594454416973e-06),
    np.float64(2.7630897551198753e-07),
    np.float64(2.4998454703428903e-08),
)
# The same for expm1, error 2**-57.8
_EXPM1 = (
    np.float64(0.5000000000000001),
    np.float64(0.1666666666666667),
    np.float64(0.04166666666664851),
    np.float64(0.008333333333328094),
    np.float64(0.0013888888897381668),
    np.float64(0.00019841269867473596),
    np.float64(2.4801571068330535e-05),
    np.float64(2.755726380709704e-06),
    np.float64(2.757086157576268e-07),
    np.float64(2.5102161926569808e-08),
    np.float64(1.6790796424265205e-09),
)
# (2**f - 1) / f on |f| <= 1/2, error of 2**f 2**-59.7
_EXP2 = (
    np.float64(0.6931471805599453),
    np.float64(0.2402265069591007),
    np.float64(0.05550410866482345),
    np.float64(0.009618129107629938),
    np.float64(0.0013333558146001675),
    np.float64(0.00015403530390106033),
    np.float64(1.5252734209364087e-05),
    np.float64(1.3215489791319195e-06),
    np.float64(1.0177910688875908e-07),
    np.float64(7.0537050650579265e-09),
    np.float64(4.477026542029915e-10),
    np.float64(2.7462414402752937e-11),
)
# (tanh(x) - x) / x**3 as a polynomial in x**2, |x| <= 0.552, error of tanh 2**-60.3
_TANH = (
    np.float64(-0.333333333333333),
    np.float64(0.1333333333332644),
    np.float64(-0.05396825396360859),
    np.float64(0.021869488380619688),
    np.float64(-0.00886323250484395),
    np.float64(0.0035920909671346285),
    np.float64(-0.0014555355231109196),
    np.float64(0.0005884126442815705),
    np.float64(-0.0002332966274289868),
    np.float64(8.318956241150316e-05),
    np.float64(-1.9413407298256996e-05),
)


def _scale(value: Any, bits: Any) -> Any:
    # 2**n in two factors: a single one would not reach the subnormal results nor those above 2**127.
    first = bits >> 1
    return value * float64_from_bits(first << 52) * float64_from_bits((bits - first) << 52)


def exp(x: Any) -> Any:
    """Exponential function. Error below 1.1 ulp, subnormal results included."""
    limited = llvm_select(x > _EXP_HIGH, _EXP_HIGH, x)
    limited = llvm_select(limited < _EXP_LOW, _EXP_LOW, limited)
    shifted = limited * _LOG2_E + _MAGIC_SPLIT
    n = shifted - _MAGIC_SPLIT
    r = (limited - n * _LN2_HIGH) - n * _LN2_LOW
    value = _ONE + (r + r * r * horner(r, _EXP))
    return _scale(value, bits_from_float64(shifted))


def exp2(x: Any) -> Any:
    """2**x. Error below 2 ulp; exact for an integer `x`."""
    limited = llvm_select(x > _EXP2_HIGH, _EXP2_HIGH, x)
    limited = llvm_select(limited < _EXP2_LOW, _EXP2_LOW, limited)
    shifted = limited + _MAGIC_SPLIT
    f = limited - (shifted - _MAGIC_SPLIT)
    return _scale(_ONE + f * horner(f, _EXP2), bits_from_float64(shifted))


def expm1(x: Any) -> Any:
    """exp(x) - 1. Error below 2 ulp."""
    limited = llvm_select(x > _EXP_HIGH, _EXP_HIGH, x)
    limited = llvm_select(limited < _EXPM1_LOW, _EXPM1_LOW, limited)
    shifted = limited * _LOG2_E + _MAGIC_HALF_BIASED
    n = shifted - _MAGIC_HALF_BIASED
    r = (limited - n * _LN2_HIGH) - n * _LN2_LOW
    q = r + r * (r * horner(r, _EXPM1))
    half = float64_from_bits(bits_from_float64(shifted) << 52)  # 2**(n - 1): 2**1024 is no float64
    return llvm_copysign(_TWO * (half * q + (half - _HALF)), x)


def tanh(x: Any) -> Any:
    """Hyperbolic tangent: x * P(x**2) for |x| < 0.55, else 1 - 2 / (exp(2 |x|) + 1). Error below 2 ulp."""
    magnitude = llvm_fabs(x)
    square = magnitude * magnitude
    near = magnitude + magnitude * (square * horner(square, _TANH))
    doubled = magnitude + magnitude
    doubled = llvm_select(doubled > _TANH_HIGH, _TANH_HIGH, doubled)
    shifted = doubled * _LOG2_E + _MAGIC_BIASED
    n = shifted - _MAGIC_BIASED
    r = (doubled - n * _LN2_HIGH) - n * _LN2_LOW
    value = (_ONE + (r + r * r * horner(r, _EXP))) * float64_from_bits(bits_from_float64(shifted) << 52)
    return llvm_copysign(llvm_select(magnitude < _TANH_BORDER, near, _ONE - _TWO / (value + _ONE)), x)


def _half_exp(magnitude: Any) -> Any:
    # exp(magnitude) / 2 for magnitude >= 0, which is finite wherever cosh(magnitude) is
    limited = llvm_select(magnitude > _COSH_HIGH, _COSH_HIGH, magnitude)
    shifted = limited * _LOG2_E + _MAGIC_HALF_SPLIT
    n = shifted - _MAGIC_HALF_SPLIT
    r = (limited - n * _LN2_HIGH) - n * _LN2_LOW
    value = _ONE + (r + r * r * horner(r, _EXP))
    return _scale(value, bits_from_float64(shifted))


_COSH_HIGH = np.float64(711.0)
# (sinh(r) - r) / r**3 as a polynomial in r**2, r <= 1, error of sinh 2**-61.8
_SINH = (
    np.float64(0.16666666666666669),
    np.float64(0.008333333333332912),
    np.float64(0.00019841269841593364),
    np.float64(2.755731910679139e-06),
    np.float64(2.5052130989723992e-08),
    np.float64(1.6056660148532816e-10),
    np.float64(7.776561836064523e-13),
)


def cosh(x: Any) -> Any:
    """Hyperbolic cosine. Error below 2 ulp."""
    half = _half_exp(llvm_fabs(x))
    return half + _QUARTER / half


def sinh(x: Any) -> Any:
    """Hyperbolic sine. Error below 3 ulp."""
    magnitude = llvm_fabs(x)
    half = _half_exp(magnitude)
    square = magnitude * magnitude
    small = magnitude + magnitude * (square * horner(square, _SINH))
    return llvm_copysign(llvm_select(magnitude < _ONE, small, half - _QUARTER / half), x)


# --- logarithms -------------------------------------------------------------------------------------------------------

_SMALLEST_NORMAL = np.float64(2.2250738585072014e-308)
_54 = np.float64(54.0)
_TWO_54 = np.float64(18014398509481984.0)
_TWO_60 = np.float64(1152921504606846976.0)
_LN2 = np.float64(0.6931471805599453)
_LOG10_2_HIGH = np.float64(0.3010299956640665)  # 40 significant bits
_LOG10_2_LOW = np.float64(-8.532344317057107e-14)
_LOG10_E = np.float64(0.4342944819032518)
_LOG10_E_LOW = np.float64(1.098319650216765e-17)
_LOG2_E_LOW = np.float64(2.0355273740931033e-17)

# (log((1 + s) / (1 - s)) - 2 s) / s**3 as a polynomial in s**2, |s| <= 0.1716, error of log 2**-66.6
_LOG = (
    np.float64(0.6666666666666666),
    np.float64(0.4000000000000492),
    np.float64(0.2857142856941221),
    np.float64(0.22222222606833048),
    np.float64(0.1818177836346369),
    np.float64(0.15386988610142702),
    np.float64(0.13252151346389),
    np.float64(0.13234764217105688),
)


def _split(x: Any) -> Any:
    # x = 2**k * (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), for normal x > 0; k as a float
    bits = bits_from_float64(x) - 0x3FE6A09E667F3BCD
    f = float64_from_bits((bits & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD) - _ONE
    # Few processors convert int64 to float64 in vectors; adding to the bits of a magic number does it everywhere.
    exponent = bits >> 52
    return exponent, float64_from_bits(exponent + _MAGIC_BITS) - _MAGIC, f


def _split_any(x: Any) -> Any:
    # the same for subnormal x too
    tiny = x < _SMALLEST_NORMAL
    _exponent, k, f = _split(llvm_select(tiny, x * _TWO_54, x))
    return k - llvm_select(tiny, _54, _ZERO), f


def _logarithm_tail(f: Any) -> Any:
    # log(1 + f) = f - (f**2 / 2 - s * (f**2 / 2 + R)), s = f / (2 + f), R = s**2 * polynomial: f**2 / 2 and the product
    s = f / (_TWO + f)
    square = s * s
    half = _HALF * f * f
    return half, s * (half + square * horner(square, _LOG))


def _logarithm_cases(x: Any, value: Any) -> Any:
    # `value` for 0 < x < inf, otherwise inf, -inf or NaN
    value = llvm_select(x > _ZERO, value, llvm_select(x == _ZERO, -_INFINITY, _NAN))
    return llvm_select(x == _INFINITY, x, value)


def log(x: Any) -> Any:
    """Natural logarithm. Error below 1 ulp."""
    k, f = _split_any(x)
    half, product = _logarithm_tail(f)
    return _logarithm_cases(x, k * _LN2_HIGH - ((half - (product + k * _LN2_LOW)) - f))


def log2(x: Any) -> Any:
    """Logarithm to base 2. Error below 3 ulp; exact for a power of 2."""
    k, f = _split_any(x)
    half, product = _logarithm_tail(f)
    natural = f - (half - product)
    return _logarithm_cases(x, k + (natural * _LOG2_E + natural * _LOG2_E_LOW))


def log10(x: Any) -> Any:
    """Logarithm to base 10. Error below 3 ulp."""
    k, f = _split_any(x)
    half, product = _logarithm_tail(f)
    natural = f - (half - product)
    tail = natural * _LOG10_E_LOW + k * _LOG10_2_LOW
    return _logarithm_cases(x, k * _LOG10_2_HIGH + (natural * _LOG10_E + tail))


def _log1p(x: Any) -> Any:
    # log(1 + x) for -1 < x < inf; the rounding error of 1 + x is found by the two-sum of Knuth and put back into f
    total = _ONE + x
    x_part = total - _ONE
    error = (_ONE - (total - x_part)) + (x - x_part)
    exponent, k, f = _split(total)
    f = f + llvm_select(x < _TWO_54, error * float64_from_bits((1023 - exponent) << 52), _ZERO)
    half, product = _logarithm_tail(f)
    return k * _LN2_HIGH - ((half - (product + k * _LN2_LOW)) - f)


def log1p(x: Any) -> Any:
    """log(1 + x). Error below 2 ulp."""
    value = llvm_select(x > -_ONE, _log1p(x), llvm_select(x == -_ONE, -_INFINITY, _NAN))
    return llvm_copysign(llvm_select(x == _INFINITY, x, value), x)


def asinh(x: Any) -> Any:
    """Inverse hyperbolic sine as log1p(a + a**2 / (1 + sqrt(1 + a**2))). Error below 4 ulp."""
    magnitude = llvm_fabs(x)
    huge = magnitude > _TWO_60
    square = magnitude * magnitude
    near = magnitude + square / (_ONE + llvm_sqrt(_ONE + square))
    value = _log1p(llvm_select(huge, magnitude, near)) + llvm_select(huge, _LN2, _ZERO)
    return llvm_copysign(llvm_select(magnitude < _INFINITY, value, magnitude), x)


def acosh(x: Any) -> Any:
    """Inverse hyperbolic cosine as log1p(t + sqrt(t * (t + 2))), t = x - 1. Error below 4 ulp."""
    t = x - _ONE
    huge = x > _TWO_60
    value = _log1p(llvm_select(huge, x, t + llvm_sqrt(t * (t + _TWO)))) + llvm_select(huge, _LN2, _ZERO)
    return llvm_select(x < _INFINITY, llvm_select(x >= _ONE, value, _NAN), x)


def atanh(x: Any) -> Any:
    """Inverse hyperbolic tangent as log1p(2 a / (1 - a)) / 2. Error below 4 ulp."""
    magnitude = llvm_fabs(x)
    value = _HALF * _log1p((magnitude + magnitude) / (_ONE - magnitude))
    edge = llvm_select(magnitude == _ONE, _INFINITY, _NAN)
    return llvm_copysign(llvm_select(magnitude < _ONE, value, edge), x)


# --- error function ---------------------------------------------------------------------------------------------------

_ERF_BORDER = np.float64(1.0)
_ERF_HIGH = np.float64(5.95)  # erf(5.95) rounds to 1
# erf(x) / x - 1 as a polynomial in x**2, |x| <= 1, error of erf 2**-56.0
_ERF_SMALL = (
    np.float64(0.1283791670955126),
    np.float64(-0.376126389031841),
    np.float64(0.11283791670971113),
    np.float64(-0.026866170648037056),
    np.float64(0.0052239776527793005),
    np.float64(-0.0008548328542380444),
    np.float64(0.00012055386488507725),
    np.float64(-1.4926889806173797e-05),
    np.float64(1.6481211632990693e-06),
    np.float64(-1.655893888397163e-07),
    np.float64(1.602660531119962e-08),
    np.float64(-1.65208629303216e-09),
    np.float64(1.444555513024226e-10),
)
# log(erfc(x)), 1 <= x <= 5.95, error of erf 2**-55.2
_ERFC_LOG = (
    np.float64(-2.2179617508530022e-08),
    np.float64(-1.1283789661049894),
    np.float64(-0.6366205309899358),
    np.float64(-0.10277129571665652),
    np.float64(0.01912875665405724),
    np.float64(0.00020168589171453685),
    np.float64(-0.0016748405519231952),
    np.float64(0.0005528465492912349),
    np.float64(2.1176399665540763e-05),
    np.float64(-0.00010999285305300885),
    np.float64(6.423250294136681e-05),
    np.float64(-2.401538034926253e-05),
    np.float64(6.682342582589904e-06),
    np.float64(-1.439534102430346e-06),
    np.float64(2.412887926527944e-07),
    np.float64(-3.102423380334145e-08),
    np.float64(2.962525988826487e-09),
    np.float64(-1.9807077595035133e-10),
    np.float64(8.274677391323263e-12),
    np.float64(-1.624911341907474e-13),
)


def erf(x: Any) -> Any:
    """Error function: x * P(x**2) near 0, else 1 - exp(Q(|x|)). Error below 2 ulp."""
    magnitude = llvm_fabs(x)
    square = magnitude * magnitude
    near = magnitude + magnitude * horner(square, _ERF_SMALL)
    limited = llvm_select(magnitude > _ERF_HIGH, _ERF_HIGH, magnitude)
    exponent = horner(limited, _ERFC_LOG)
    shifted = exponent * _LOG2_E + _MAGIC_BIASED
    n = shifted - _MAGIC_BIASED
    r = (exponent - n * _LN2_HIGH) - n * _LN2_LOW
    complement = (_ONE + (r + r * r * horner(r, _EXP))) * float64_from_bits(bits_from_float64(shifted) << 52)
    return llvm_copysign(llvm_select(magnitude < _ERF_BORDER, near, _ONE - complement), x)


# --- powers ----------------------------------------------------------------------------------------------------------

_POW_Y_LIMIT = np.float64(73786976294838206464.0)  # 2**66: a greater exponent overflows or vanishes for every x but 1
_POW_HIGH = np.float64(1100.0)
_POW_LOW = np.float64(-1100.0)
_TWO_THIRDS = np.float64(2.0 / 3.0)
_TWO_THIRDS_LOW = np.float64(3.700743415417188e-17)

# (log((1 + s) / (1 - s)) - 2 s - 2/3 s**3) / s**5 as a polynomial in s**2, |s| <= 0.1717, error of log 2**-73.4
_POW_LOG = (
    np.float64(0.3999999999999998),
    np.float64(0.2857142857144388),
    np.float64(0.22222222217774162),
    np.float64(0.18181818846430478),
    np.float64(0.15384558235707976),
    np.float64(0.13336272704305832),
    np.float64(0.1167560144344412),
    np.float64(0.11983332806102091),
)


def pow(x: Any, y: Any) -> Any:
    """x**y, special cases as in C99 (annex F.10.4.4). Error below 2 ulp; log2 |x| is carried as a sum of two floats."""
    magnitude = llvm_fabs(x)
    tiny = magnitude < _SMALLEST_NORMAL
    bits = bits_from_float64(llvm_select(tiny, magnitude * _TWO_54, magnitude)) - 0x3FE6A09E667F3BCD
    m = float64_from_bits((bits & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD)
    k = (float64_from_bits((bits >> 52) + _MAGIC_BITS) - _MAGIC) - llvm_select(tiny, _54, _ZERO)
    # s + s_low = (m - 1) / (m + 1)
    numerator = m - _ONE
    denominator = m + _ONE
    inverse = _ONE / denominator
    s = numerator * inverse
    remainder = llvm_fma(-s, denominator, numerator) - s * (m - (denominator - _ONE))
    s_low = remainder * inverse
    # z + z_low = s**2; q + q_low = 2/3 + z * P(z); v + v_low = 2 + z * q
    z = s * s
    z_low = llvm_fma(s, s, -z) + (s + s) * s_low
    product = z * horner(z, _POW_LOG)
    q = _TWO_THIRDS + product
    q_low = ((_TWO_THIRDS - q) + product) + _TWO_THIRDS_LOW
    w = z * q
    w_low = llvm_fma(z, q, -w) + (z * q_low + z_low * q)
    v = _TWO + w
    v_low = ((_TWO - v) + w) + w_low
    # g + g_low = log(m) = s * v; base + base_low = log2(m); t + t_low = log2(|x|)
    g = s * v
    g_low = llvm_fma(s, v, -g) + (s * v_low + s_low * v)
    base = g * _LOG2_E
    base_low = llvm_fma(g, _LOG2_E, -base) + (g * _LOG2_E_LOW + g_low * _LOG2_E)
    t = k + base
    t_low = ((k - t) + base) + base_low
    t = llvm_select(magnitude < _INFINITY, t, magnitude)
    t = llvm_select(magnitude == _ZERO, -_INFINITY, t)
    # A limited y makes 1**inf equal 1 and counts as even.
    power = llvm_select(y > _POW_Y_LIMIT, _POW_Y_LIMIT, y)
    power = llvm_select(power < -_POW_Y_LIMIT, -_POW_Y_LIMIT, power)
    exponent = power * t
    exponent_low = llvm_fma(power, t, -exponent) + power * t_low
    exponent_low = llvm_select(llvm_fabs(exponent) < _POW_HIGH, exponent_low, _ZERO)
    exponent = llvm_select(exponent > _POW_HIGH, _POW_HIGH, exponent)
    exponent = llvm_select(exponent < _POW_LOW, _POW_LOW, exponent)
    shifted = exponent + _MAGIC_SPLIT
    f = (exponent - (shifted - _MAGIC_SPLIT)) + exponent_low
    value = _scale(_ONE + f * horner(f, _EXP2), bits_from_float64(shifted))
    # An even exponent gives +, an odd one the sign of x, any other NaN for a finite x < 0.
    half = power * _HALF
    fraction = llvm_fabs(half - llvm_rint(half))
    other = llvm_select(llvm_fabs(t) < _INFINITY, _NAN, _ONE)
    factor = llvm_select(fraction == _HALF, -_ONE, llvm_select(llvm_rint(power) == power, _ONE, other))
    value = llvm_select(bits_from_float64(x) < 0, value * factor, value)
    return llvm_select(x == _ONE, _ONE, llvm_select(y == _ZERO, _ONE, value))
