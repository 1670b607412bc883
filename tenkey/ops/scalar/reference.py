"""Scalar operations on Python numbers, with the results of IEEE 754 where Python's `math` raises.

`math.log(0.0)` is an error in Python and minus infinity in every kernel; the functions here agree with the kernels.
They are the reference for generated code, and scalar functions use them for plain floats. Integers stay integers where
the operation is exact on them.

>>> log(0.0), divide(1.0, -0.0), sqrt(-1.0)
(-inf, -inf, nan)
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any, Final

__all__ = [
    "REFERENCE", "acos", "acosh", "asin", "atanh", "ceil", "copysign", "cos", "cosh", "digamma", "divide", "exp",
    "exp2", "expm1", "floor", "floor_divide", "fma", "lgamma", "log", "log1p", "log2", "log10", "pow", "remainder",
    "round", "sign", "sin", "sinh", "sqrt", "tan", "trigamma", "trunc",
]  # fmt: skip

_builtin_round = round
copysign = math.copysign


def _overflow_gives_infinity(function: Callable[[float], float], *, is_odd: bool = False) -> Callable[[float], float]:
    def wrapped(x: float) -> float:
        try:
            return function(x)
        except OverflowError:
            return -math.inf if is_odd and x < 0 else math.inf

    return wrapped


def _outside_gives_nan(function: Callable[[float], float]) -> Callable[[float], float]:
    def wrapped(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return math.nan

    return wrapped


exp = _overflow_gives_infinity(math.exp)
exp2 = _overflow_gives_infinity(math.exp2)
expm1 = _overflow_gives_infinity(math.expm1)
sinh = _overflow_gives_infinity(math.sinh, is_odd=True)
cosh = _overflow_gives_infinity(math.cosh)
sin = _outside_gives_nan(math.sin)
cos = _outside_gives_nan(math.cos)
tan = _outside_gives_nan(math.tan)
asin = _outside_gives_nan(math.asin)
acos = _outside_gives_nan(math.acos)
acosh = _outside_gives_nan(math.acosh)
sqrt = _outside_gives_nan(math.sqrt)


def _logarithm(function: Callable[[float], float]) -> Callable[[float], float]:
    def wrapped(x: float) -> float:
        if x == 0:
            return -math.inf
        return function(x) if x > 0 else math.nan

    return wrapped


log = _logarithm(math.log)
log2 = _logarithm(math.log2)
log10 = _logarithm(math.log10)


def log1p(x: float) -> float:
    """log(1 + x); minus infinity at -1, NaN below."""
    if x == -1:
        return -math.inf
    return math.log1p(x) if x > -1 else math.nan


def atanh(x: float) -> float:
    """Infinite at -1 and 1, NaN outside."""
    if x in (-1, 1):
        return math.copysign(math.inf, x)
    return math.atanh(x) if -1 < x < 1 else math.nan


def divide(x: float, y: float) -> float:
    """IEEE 754 division: x / 0 is a signed infinity, 0 / 0 is NaN."""
    if y == 0:
        return math.nan if x == 0 or x != x else math.copysign(math.inf, x) * math.copysign(1.0, y)
    return x / y


def floor_divide(x: float, y: float) -> float:
    """Python's `//`; division by zero as in `divide`."""
    return divide(x, y) if y == 0 else x // y


def remainder(x: float, y: float) -> float:
    """Python's `%`: the sign of the result is the sign of `y`."""
    return math.nan if y == 0 else x % y


def pow(x: float, y: float) -> float:
    """IEEE 754 `pow`: NaN for a negative base with a fractional exponent; exact for small integers."""
    if isinstance(x, int) and isinstance(y, int) and y >= 0 and x.bit_length() * y <= 64:
        return int(x**y)
    try:
        return math.pow(x, y)
    except ValueError:
        if x != 0:
            return math.nan
        odd = y == math.floor(y) and y % 2 == 1
        return math.copysign(math.inf, x) if odd else math.inf
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf


def _to_whole(function: Callable[[float], int]) -> Callable[[float], float]:
    def wrapped(x: float) -> float:
        if isinstance(x, int) or not math.isfinite(x):
            return x
        return math.copysign(float(function(x)), x)  # -0.5 rounds to -0.0

    return wrapped


ceil = _to_whole(math.ceil)
trunc = _to_whole(math.trunc)
round = _to_whole(_builtin_round)  # half to even, as IEEE 754 roundToIntegralTiesToEven
floor = _to_whole(math.floor)


def sign(x: float) -> float:
    """-1, 0 or 1 in the type of `x`; NaN for NaN."""
    if isinstance(x, int):
        return (x > 0) - (x < 0)
    return x + 0.0 if x == 0 or x != x else math.copysign(1.0, x)


def fma(x: float, y: float, z: float) -> float:
    """x * y + z rounded once, by exact rational arithmetic."""
    plain = x * y + z
    if not all(-math.inf < v < math.inf for v in (x, y, z)):
        return plain
    from fractions import Fraction

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:
        return plain if plain == 0 else 0.0
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def lgamma(x: float) -> float:
    """log |Gamma(x)|; infinity at the poles 0, -1, -2, ..."""
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


def digamma(x: float) -> float:
    """The derivative of `lgamma`; NaN at the negative poles, and infinite at zero.

    Recurrence to x >= 10 and the asymptotic series (Abramowitz and Stegun 6.3.5, 6.3.18), reflection
    below zero (6.3.7).

    >>> abs(digamma(1.0) + 0.5772156649015329) < 1e-15
    True
    """
    if x == 0:
        return math.copysign(math.inf, -x)
    if x < 0:
        fraction = math.fmod(x, 1.0) if math.isfinite(x) else 0.0  # exact, a period of the tangent
        return math.nan if fraction == 0 else digamma(1.0 - x) - math.pi / math.tan(math.pi * fraction)
    if x == math.inf or x != x:
        return x
    shift = 0.0
    while x < 10:
        shift -= 1.0 / x
        x += 1.0
    z = 1.0 / (x * x)
    series = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * (691 / 32760 - z / 12))))))
    return shift + (math.log(x) - 0.5 / x - series)


def trigamma(x: float) -> float:
    """The derivative of `digamma`; infinity at the poles. Abramowitz and Stegun 6.4.6, 6.4.7, 6.4.12.

    >>> abs(trigamma(1.0) - math.pi**2 / 6) < 1e-14
    True
    """
    if x <= 0:
        fraction = math.fmod(x, 1.0) if math.isfinite(x) else 0.0
        if fraction == 0:
            return math.inf
        ratio = math.pi / math.sin(math.pi * fraction)
        return ratio * ratio - trigamma(1.0 - x)  # a product, because `**` raises where it overflows
    if x == math.inf or x != x:
        return 0.0 if x == math.inf else x
    if x < 1e-160:  # x * x underflows
        return math.inf
    shift = 0.0
    while x < 12:
        shift += 1.0 / (x * x)
        x += 1.0
    z = 1.0 / (x * x)
    series = z * (1 / 6 - z * (1 / 30 - z * (1 / 42 - z * (1 / 30 - z * (5 / 66 - z * (691 / 2730 - z * 7 / 6))))))
    return shift + (1.0 + 0.5 / x + series) / x


REFERENCE: Final[dict[str, Callable[..., Any]]] = {
    "eps": lambda: sys.float_info.epsilon,
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "negative": operator.neg,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "equal": operator.eq, "not_equal": operator.ne,
    "logical_and": lambda x, y: bool(x) and bool(y),
    "logical_or": lambda x, y: bool(x) or bool(y),
    "logical_xor": lambda x, y: bool(x) != bool(y),
    "logical_not": operator.not_,
    "bitwise_and": lambda x, y: int(x) & int(y),
    "bitwise_or": lambda x, y: int(x) | int(y),
    "bitwise_xor": lambda x, y: int(x) ^ int(y),
    "bitwise_invert": lambda x: ~int(x),
    "bitwise_left_shift": lambda x, y: int(x) << int(y),
    "bitwise_right_shift": lambda x, y: int(x) >> int(y),
    "where": lambda condition, x, y: x if condition else y,
    # NaN if either is NaN (IEEE 754-2019 `maximum`, except for the sign of zero)
    "maximum": lambda x, y: x if x >= y or x != x else y,
    "minimum": lambda x, y: x if x <= y or x != x else y,
    "square": lambda x: x * x,
    "reciprocal": lambda x: divide(1.0, x),
    "rsqrt": lambda x: divide(1.0, sqrt(x)),
    "signbit": lambda x: math.copysign(1.0, x) < 0,
    "isnan": lambda x: x != x,
    "isinf": lambda x: x in (math.inf, -math.inf),
    "isfinite": lambda x: -math.inf < x < math.inf,
    "abs": abs, "atan": math.atan, "tanh": math.tanh, "asinh": math.asinh, "erf": math.erf, "erfc": math.erfc,
    "cbrt": math.cbrt, "atan2": math.atan2, "hypot": math.hypot, "nextafter": math.nextafter,
    **{name: globals()[name] for name in __all__ if name != "REFERENCE"},
}  # fmt: skip
