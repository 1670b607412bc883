"""Branch-free float32 functions in the subset of Python that Numba compiles and LLVM vectorises.

The functions take and return one float32 scalar inside compiled code; they are no use to the interpreter, because the
bit casts of `bits.py` exist only there. `tenkey.backends.libm.source` turns them into source for a generated
module. A body is straight-line: a docstring, assignments and one `return`; calls of functions in this file are
replaced by their bodies. Each literal that meets a float is a typed constant: nothing is promoted to float64.

The "error" in a docstring is the bound that the tests hold it to, in units in the last place (ulp).

Methods: range reduction with pi and log 2 in several parts after Cody and Waite, Software Manual for the Elementary
Functions (1980); the rest as in Muller, Elementary Functions (3rd edition, 2016). The polynomials are minimax fits of
our own (Remez exchange in 90 digits, the leading coefficients rounded before the later ones are fitted); a comment
gives the domain and the greatest relative error of the approximation that they serve.

Note [Rounding by a magic number]
---------------------------------
For |t| < 2**22 the sum `t + 1.5 * 2**23` rounds `t` to the nearest integer n and leaves n in the low bits of the sum.
Adding an exponent bias to the magic number makes `bits << 23` the float 2**(n + offset) with no further operation.
It needs IEEE addition: the generated module may set the fast-math flag `contract`, but never `reassoc` or `fast`.
Guard: `tests/backends/test_libm.py::test_accuracy_float32`, which runs with and without `contract`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .bits import (
    bits_from_float32,
    bits_from_float64,
    float32_from_bits,
    float64_from_bits,
    horner,
    llvm_copysign,
    llvm_fabs,
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

_ZERO = np.float32(0.0)
_QUARTER = np.float32(0.25)
_HALF = np.float32(0.5)
_ONE = np.float32(1.0)
_TWO = np.float32(2.0)
_INFINITY = np.float32(np.inf)
_NAN = np.float32(np.nan)

# --- exponentials -----------------------------------------------------------------------------------------------------

_LOG2_E = np.float32(1.44269504)
_LN2_HIGH = np.float32(0.693359375)  # 10 significant bits: its product with |n| < 2**14 is exact
_LN2_LOW = np.float32(-0.00021219444)

_MAGIC_SPLIT = np.float32(12582912.0 + 254.0)  # 1.5 * 2**23; low bits hold n + 254, the two biases of _scale
_MAGIC_HALF_SPLIT = np.float32(12582912.0 + 253.0)
_MAGIC_BIASED = np.float32(12582912.0 + 127.0)
_MAGIC_HALF_BIASED = np.float32(12582912.0 + 126.0)

_EXP_HIGH = np.float32(89.0)  # overflows
_EXP_LOW = np.float32(-104.0)  # rounds to 0
_EXP2_HIGH = np.float32(128.5)
_EXP2_LOW = np.float32(-151.0)
_TANH_BORDER = np.float32(0.55)
_EXPM1_LOW = np.float32(-18.0)  # rounds to -1
_TANH_HIGH = np.float32(20.0)  # tanh(10) rounds to 1

# (exp(r) - 1 - r) / r**2 on |r| <= log(2) / 2, error of exp 2**-28.2
_EXP = (
    np.float32(0.49999994),
    np.float32(0.16666517),
    np.float32(0.041668106),
    np.float32(0.008369152),
    np.float32(0.0013837012),
)
# The same for expm1, error 2**-31.0
_EXPM1 = (
    np.float32(0.5),
    np.float32(0.16666666),
    np.float32(0.041666467),
    np.float32(0.008333644),
    np.float32(0.0013935035),
    np.float32(0.00019663089),
)
# (2**f - 1) / f on |f| <= 1/2, error of 2**f 2**-26.7
_EXP2 = (
    np.float32(0.6931472),
    np.float32(0.2402265),
    np.float32(0.05550378),
    np.float32(0.0096181),
    np.float32(0.0013382296),
    np.float32(0.00015446066),
)
# (tanh(x) - x) / x**3 as a polynomial in x**2, |x| <= 0.552, error of tanh 2**-29.7
_TANH = (
    np.float32(-0.33333316),
    np.float32(0.13332544),
    np.float32(-0.05384755),
    np.float32(0.021050738),
    np.float32(-0.0062428927),
)


def _scale(value: Any, bits: Any) -> Any:
    # 2**n in two factors: a single one would not reach the subnormal results nor those above 2**127.
    first = bits >> 1
    return value * float32_from_bits(first << 23) * float32_from_bits((bits - first) << 23)


def exp(x: Any) -> Any:
    """Exponential function. Error below 1.1 ulp, subnormal results included."""
    limited = llvm_select(x > _EXP_HIGH, _EXP_HIGH, x)
    limited = llvm_select(limited < _EXP_LOW, _EXP_LOW, limited)
    shifted = limited * _LOG2_E + _MAGIC_SPLIT
    n = shifted - _MAGIC_SPLIT
    r = (limited - n * _LN2_HIGH) - n * _LN2_LOW
    value = _ONE + (r + r * r * horner(r, _EXP))
    return _scale(value, bits_from_float32(shifted))


def exp2(x: Any) -> Any:
    """2**x. Error below 2 ulp; exact for an integer `x`."""
    limited = llvm_select(x > _EXP2_HIGH, _EXP2_HIGH, x)
    limited = llvm_select(limited < _EXP2_LOW, _EXP2_LOW, limited)
    shifted = limited + _MAGIC_SPLIT
    f = limited - (shifted - _MAGIC_SPLIT)
    return _scale(_ONE + f * horner(f, _EXP2), bits_from_float32(shifted))


def expm1(x: Any) -> Any:
    """exp(x) - 1. Error below 2 ulp."""
    limited = llvm_select(x > _EXP_HIGH, _EXP_HIGH, x)
    limited = llvm_select(limited < _EXPM1_LOW, _EXPM1_LOW, limited)
    shifted = limited * _LOG2_E + _MAGIC_HALF_BIASED
    n = shifted - _MAGIC_HALF_BIASED
    r = (limited - n * _LN2_HIGH) - n * _LN2_LOW
    q = r + r * (r * horner(r, _EXPM1))
    half = float32_from_bits(bits_from_float32(shifted) << 23)  # 2**(n - 1): 2**128 is no float32
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
    value = (_ONE + (r + r * r * horner(r, _EXP))) * float32_from_bits(bits_from_float32(shifted) << 23)
    return llvm_copysign(llvm_select(magnitude < _TANH_BORDER, near, _ONE - _TWO / (value + _ONE)), x)


def _half_exp(magnitude: Any) -> Any:
    # exp(magnitude) / 2 for magnitude >= 0, which is finite wherever cosh(magnitude) is
    limited = llvm_select(magnitude > _COSH_HIGH, _COSH_HIGH, magnitude)
    shifted = limited * _LOG2_E + _MAGIC_HALF_SPLIT
    n = shifted - _MAGIC_HALF_SPLIT
    r = (limited - n * _LN2_HIGH) - n * _LN2_LOW
    value = _ONE + (r + r * r * horner(r, _EXP))
    return _scale(value, bits_from_float32(shifted))


_COSH_HIGH = np.float32(90.0)
# (sinh(r) - r) / r**3 as a polynomial in r**2, r <= 1, error of sinh 2**-31.6
_SINH = (
    np.float32(0.16666667),
    np.float32(0.0083333105),
    np.float32(0.00019842891),
    np.float32(2.7822684e-06),
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

_SMALLEST_NORMAL = np.float32(1.17549435e-38)
_TWO_23 = np.float32(8388608.0)
_23 = np.float32(23.0)
_LN2_UPPER = np.float32(0.69314575)  # 16 significant bits: its product with |k| < 2**8 is exact
_LN2_LOWER = np.float32(1.4286068e-06)
_LOG10_2_UPPER = np.float32(0.30103302)  # likewise
_LOG10_2_LOWER = np.float32(-3.0243555e-06)
_TWO_24 = np.float32(16777216.0)
_TWO_30 = np.float32(1073741824.0)
_LN2 = np.float32(0.6931472)

# (log(1 + f) - f + f**2 / 2) / f**3 on |f| <= 1/3, error of log 2**-27.7
_LOG = (
    np.float32(0.33333215),
    np.float32(-0.24999785),
    np.float32(0.20010474),
    np.float32(-0.16681127),
    np.float32(0.14004506),
    np.float32(-0.12174231),
    np.float32(0.1399212),
    np.float32(-0.12940212),
)
# log2(1 + f) / f and log10(1 + f) / f, error 2**-24.4
_LOG2 = (
    np.float32(1.442695),
    np.float32(-0.72134656),
    np.float32(0.48089597),
    np.float32(-0.36078954),
    np.float32(0.28871158),
    np.float32(-0.23678696),
    np.float32(0.20179583),
    np.float32(-0.2222189),
    np.float32(0.20280066),
)
_LOG10 = (
    np.float32(0.4342945),
    np.float32(-0.21714695),
    np.float32(0.14476411),
    np.float32(-0.10860848),
    np.float32(0.086910844),
    np.float32(-0.07127998),
    np.float32(0.060746595),
    np.float32(-0.06689455),
    np.float32(0.06104908),
)


def _split(x: Any) -> Any:
    # x = 2**k * (1 + f) with 2/3 <= 1 + f < 4/3, for normal x > 0
    bits = np.int32(bits_from_float32(x) - 0x3F2AAAAB)
    f = float32_from_bits((bits & 0x7FFFFF) + 0x3F2AAAAB) - _ONE
    return bits >> 23, f


def _split_any(x: Any) -> Any:
    # the same for subnormal x too, k as a float
    tiny = x < _SMALLEST_NORMAL
    k, f = _split(llvm_select(tiny, x * _TWO_23, x))
    return np.float32(k) - llvm_select(tiny, _23, _ZERO), f


def _logarithm_cases(x: Any, value: Any) -> Any:
    # `value` for 0 < x < inf, otherwise inf, -inf or NaN
    value = llvm_select(x > _ZERO, value, llvm_select(x == _ZERO, -_INFINITY, _NAN))
    return llvm_select(x == _INFINITY, x, value)


def log(x: Any) -> Any:
    """Natural logarithm. Error below 1 ulp."""
    k, f = _split_any(x)
    square = f * f
    tail = f * square * horner(f, _LOG) + k * _LN2_LOWER
    return _logarithm_cases(x, k * _LN2_UPPER + (f - (_HALF * square - tail)))


def log2(x: Any) -> Any:
    """Logarithm to base 2. Error below 3 ulp; exact for a power of 2."""
    k, f = _split_any(x)
    return _logarithm_cases(x, k + f * horner(f, _LOG2))


def log10(x: Any) -> Any:
    """Logarithm to base 10. Error below 3 ulp."""
    k, f = _split_any(x)
    return _logarithm_cases(x, k * _LOG10_2_UPPER + (k * _LOG10_2_LOWER + f * horner(f, _LOG10)))


def _log1p(x: Any) -> Any:
    # log(1 + x) for -1 < x < inf; the rounding error of 1 + x is found by the two-sum of Knuth and put back into f
    total = _ONE + x
    x_part = total - _ONE
    error = (_ONE - (total - x_part)) + (x - x_part)
    k, f = _split(total)
    f = f + llvm_select(x < _TWO_24, error * float32_from_bits((127 - k) << 23), _ZERO)
    exponent = np.float32(k)
    square = f * f
    tail = f * square * horner(f, _LOG) + exponent * _LN2_LOWER
    return exponent * _LN2_UPPER + (f - (_HALF * square - tail))


def log1p(x: Any) -> Any:
    """log(1 + x). Error below 2 ulp."""
    value = llvm_select(x > -_ONE, _log1p(x), llvm_select(x == -_ONE, -_INFINITY, _NAN))
    return llvm_copysign(llvm_select(x == _INFINITY, x, value), x)


def asinh(x: Any) -> Any:
    """Inverse hyperbolic sine as log1p(a + a**2 / (1 + sqrt(1 + a**2))). Error below 4 ulp."""
    magnitude = llvm_fabs(x)
    huge = magnitude > _TWO_30
    square = magnitude * magnitude
    near = magnitude + square / (_ONE + llvm_sqrt(_ONE + square))
    value = _log1p(llvm_select(huge, magnitude, near)) + llvm_select(huge, _LN2, _ZERO)
    return llvm_copysign(llvm_select(magnitude < _INFINITY, value, magnitude), x)


def acosh(x: Any) -> Any:
    """Inverse hyperbolic cosine as log1p(t + sqrt(t * (t + 2))), t = x - 1. Error below 4 ulp."""
    t = x - _ONE
    huge = x > _TWO_30
    value = _log1p(llvm_select(huge, x, t + llvm_sqrt(t * (t + _TWO)))) + llvm_select(huge, _LN2, _ZERO)
    return llvm_select(x < _INFINITY, llvm_select(x >= _ONE, value, _NAN), x)


def atanh(x: Any) -> Any:
    """Inverse hyperbolic tangent as log1p(2 a / (1 - a)) / 2. Error below 4 ulp."""
    magnitude = llvm_fabs(x)
    value = _HALF * _log1p((magnitude + magnitude) / (_ONE - magnitude))
    edge = llvm_select(magnitude == _ONE, _INFINITY, _NAN)
    return llvm_copysign(llvm_select(magnitude < _ONE, value, edge), x)


# --- error function ---------------------------------------------------------------------------------------------------

_ERF_BORDER = np.float32(0.925)
_ERF_HIGH = np.float32(4.0)  # erf(4) rounds to 1
# erf(x) / x - 1 as a polynomial in x**2, |x| <= 0.927, error of erf 2**-29.5
_ERF_SMALL = (
    np.float32(0.12837917),
    np.float32(-0.3761263),
    np.float32(0.11283626),
    np.float32(-0.026855731),
    np.float32(0.005192398),
    np.float32(-0.00080496026),
    np.float32(7.9955156e-05),
)
# log(erfc(x)), 0.92 <= x <= 4, error of erf 2**-27.9
_ERFC_LOG = (
    np.float32(-0.00019578071),
    np.float32(-1.1276752),
    np.float32(-0.637183),
    np.float32(-0.103930905),
    np.float32(0.022226581),
    np.float32(-0.0030431303),
    np.float32(0.00019592815),
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
    complement = (_ONE + (r + r * r * horner(r, _EXP))) * float32_from_bits(bits_from_float32(shifted) << 23)
    return llvm_copysign(llvm_select(magnitude < _ERF_BORDER, near, _ONE - complement), x)


# --- powers ----------------------------------------------------------------------------------------------------------

_WIDE_ZERO = np.float64(0.0)
_WIDE_HALF = np.float64(0.5)
_WIDE_ONE = np.float64(1.0)
_WIDE_INFINITY = np.float64(np.inf)
_WIDE_MAGIC = np.float64(6755399441055744.0)  # 1.5 * 2**52
_WIDE_MAGIC_BIASED = np.float64(6755399441055744.0 + 1023.0)
_WIDE_MAGIC_BITS = 0x4338000000000000
_POW_Y_LIMIT = np.float64(1099511627776.0)  # 2**40: a greater exponent overflows or vanishes for every x but 1
_POW_HIGH = np.float64(200.0)
_POW_LOW = np.float64(-200.0)

# log2((1 + s) / (1 - s)) / s as a polynomial in s**2, |s| <= 0.1717, error 2**-45.1
_POW_LOG2 = (
    np.float64(2.8853900817778495),
    np.float64(0.9617966941145708),
    np.float64(0.5770779419581014),
    np.float64(0.4122092975694278),
    np.float64(0.3199036986062326),
    np.float64(0.2829305551421965),
)
# (2**f - 1) / f on |f| <= 1/2, error of 2**f 2**-32.0
_POW_EXP2 = (
    np.float64(0.6931471838210841),
    np.float64(0.24022650921097072),
    np.float64(0.05550400370369745),
    np.float64(0.00961805684468323),
    np.float64(0.0013341946136187367),
    np.float64(0.0001546139941482614),
    np.float64(1.3363149671434428e-05),
)


def pow(x: Any, y: Any) -> Any:
    """x**y, special cases as in C99 (annex F.10.4.4), by way of float64. Error below 1 ulp."""
    magnitude = llvm_fabs(x)
    wide = np.float64(magnitude)  # a float32 subnormal is a normal float64
    bits = bits_from_float64(wide) - 0x3FE6A09E667F3BCD
    m = float64_from_bits((bits & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD)
    k = float64_from_bits((bits >> 52) + _WIDE_MAGIC_BITS) - _WIDE_MAGIC
    s = (m - _WIDE_ONE) / (m + _WIDE_ONE)
    logarithm = k + s * horner(s * s, _POW_LOG2)
    logarithm = llvm_select(wide < _WIDE_INFINITY, logarithm, wide)
    logarithm = llvm_select(wide == _WIDE_ZERO, -_WIDE_INFINITY, logarithm)
    # A limited y makes 1**inf equal 1 and counts as even.
    power = np.float64(y)
    power = llvm_select(power > _POW_Y_LIMIT, _POW_Y_LIMIT, power)
    power = llvm_select(power < -_POW_Y_LIMIT, -_POW_Y_LIMIT, power)
    exponent = power * logarithm
    exponent = llvm_select(exponent > _POW_HIGH, _POW_HIGH, exponent)
    exponent = llvm_select(exponent < _POW_LOW, _POW_LOW, exponent)
    shifted = exponent + _WIDE_MAGIC_BIASED
    f = exponent - (shifted - _WIDE_MAGIC_BIASED)
    scale = float64_from_bits(bits_from_float64(shifted) << 52)
    value = np.float32((_WIDE_ONE + f * horner(f, _POW_EXP2)) * scale)
    # An even exponent gives +, an odd one the sign of x, any other NaN for a finite x < 0.
    half = power * _WIDE_HALF
    fraction = llvm_fabs(half - llvm_rint(half))
    other = llvm_select(llvm_fabs(logarithm) < _WIDE_INFINITY, _NAN, _ONE)
    factor = llvm_select(fraction == _WIDE_HALF, -_ONE, llvm_select(llvm_rint(power) == power, _ONE, other))
    value = llvm_select(bits_from_float32(x) < 0, value * factor, value)
    return llvm_select(x == _ONE, _ONE, llvm_select(y == _ZERO, _ONE, value))
