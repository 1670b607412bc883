"""The functions that a scalar expression is written with.

Applied to a scalar expression they build one; applied to Python numbers only they compute, with the results of IEEE 754
(no exception for `log(0.0)`). The body of an operator can therefore be tried on plain floats. A function without a body
applies the operation of its name.

>>> exp(0.0), log(0.0)
(1.0, -inf)
>>> from tenkey.ops.scalar import variable
>>> x = variable("x")
>>> print(exp(-x) + 1)
exp(-x) + 1
>>> print(where(isnan(x) | (x < 0), 0, x))
where(isnan(x) | (x < 0), 0, x)
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from .expression import Expression, Operand, as_expression, make, plain_number
from .reference import REFERENCE
from .signatures import Binary, BinaryCondition, Condition, Ternary, Unary, UnaryCondition, ternary

__all__ = [
    "Condition", "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos",
    "cosh", "digamma", "erf", "erfc", "exp", "exp2", "expm1", "floor", "floor_divide", "fma", "hypot", "isfinite",
    "isinf", "isnan", "lgamma", "log", "log10", "log1p", "log2", "logical_and", "logical_not", "logical_or",
    "logical_xor", "maximum", "minimum", "nextafter", "pow", "reciprocal", "remainder", "round", "rsqrt", "sign",
    "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trigamma", "trunc", "where",
]  # fmt: skip


def _operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that applies the operation of the given function's name."""
    name = function.__name__

    @wraps(function)
    def apply(*operands: Operand) -> Any:
        if any(isinstance(operand, Expression) for operand in operands):
            return make(name, *operands)
        return REFERENCE[name](*map(plain_number, operands))

    return apply


_unary: Callable[[Any], Unary] = _operation
_binary: Callable[[Any], Binary] = _operation
_ternary: Callable[[Any], Ternary] = _operation
_unary_condition: Callable[[Any], UnaryCondition] = _operation
_binary_condition: Callable[[Any], BinaryCondition] = _operation


@_unary
def exp(x: Operand) -> Operand:
    """e to the power x.

    >>> exp(1.0)
    2.718281828459045
    """


@_unary
def exp2(x: Operand) -> Operand:
    """2 to the power x.

    >>> exp2(3.0)
    8.0
    """


@_unary
def expm1(x: Operand) -> Operand:
    """exp(x) - 1 without cancellation near zero.

    >>> expm1(1e-20)
    1e-20
    """


@_unary
def log(x: Operand) -> Operand:
    """Natural logarithm; minus infinity at 0, NaN below.

    >>> log(1.0)
    0.0
    """


@_unary
def log2(x: Operand) -> Operand:
    """Logarithm to base 2.

    >>> log2(8.0)
    3.0
    """


@_unary
def log10(x: Operand) -> Operand:
    """Logarithm to base 10.

    >>> log10(1000.0)
    3.0
    """


@_unary
def log1p(x: Operand) -> Operand:
    """log(1 + x) without cancellation near zero.

    >>> log1p(1e-20)
    1e-20
    """


@_unary
def sqrt(x: Operand) -> Operand:
    """Square root; NaN below 0.

    >>> sqrt(9.0)
    3.0
    """


@_unary
def rsqrt(x: Operand) -> Operand:
    """Reciprocal square root of x.

    >>> rsqrt(4.0)
    0.5
    """


@_unary
def cbrt(x: Operand) -> Operand:
    """Real cube root, also of negative numbers.

    >>> cbrt(-8.0)
    -2.0
    """


@_unary
def square(x: Operand) -> Operand:
    """Square of x.

    >>> square(-3.0)
    9.0
    """


@_unary
def reciprocal(x: Operand) -> Operand:
    """Reciprocal of x.

    >>> reciprocal(4.0)
    0.25
    """


@_unary
def sin(x: Operand) -> Operand:
    """Sine of x radians.

    >>> sin(0.0)
    0.0
    """


@_unary
def cos(x: Operand) -> Operand:
    """Cosine of x radians.

    >>> cos(0.0)
    1.0
    """


@_unary
def tan(x: Operand) -> Operand:
    """Tangent of x radians.

    >>> tan(0.0)
    0.0
    """


@_unary
def asin(x: Operand) -> Operand:
    """Inverse sine, in radians within [-pi/2, pi/2]; NaN outside [-1, 1].

    >>> asin(2.0)
    nan
    """


@_unary
def acos(x: Operand) -> Operand:
    """Inverse cosine, in radians within [0, pi]; NaN outside [-1, 1].

    >>> acos(1.0)
    0.0
    """


@_unary
def atan(x: Operand) -> Operand:
    """Inverse tangent, in radians within (-pi/2, pi/2).

    >>> atan(0.0)
    0.0
    """


@_unary
def sinh(x: Operand) -> Operand:
    """Hyperbolic sine.

    >>> sinh(0.0)
    0.0
    """


@_unary
def cosh(x: Operand) -> Operand:
    """Hyperbolic cosine.

    >>> cosh(0.0)
    1.0
    """


@_unary
def tanh(x: Operand) -> Operand:
    """Hyperbolic tangent.

    >>> tanh(0.0)
    0.0
    """


@_unary
def asinh(x: Operand) -> Operand:
    """Inverse hyperbolic sine.

    >>> asinh(0.0)
    0.0
    """


@_unary
def acosh(x: Operand) -> Operand:
    """Inverse hyperbolic cosine; NaN below 1.

    >>> acosh(1.0)
    0.0
    """


@_unary
def atanh(x: Operand) -> Operand:
    """Inverse hyperbolic tangent; NaN outside [-1, 1].

    >>> atanh(0.0)
    0.0
    """


@_unary
def erf(x: Operand) -> Operand:
    """Error function, 2 / sqrt(pi) times the integral of exp(-t*t) from 0 to x (DLMF 7.2.1).

    >>> erf(0.0)
    0.0
    """


@_unary
def erfc(x: Operand) -> Operand:
    """1 - erf(x) without cancellation for large x (DLMF 7.2.2).

    >>> erfc(0.0)
    1.0
    """


@_unary
def lgamma(x: Operand) -> Operand:
    """Logarithm of the absolute value of the gamma function; its derivative is `digamma`.

    >>> lgamma(2.0)
    0.0
    """


@_unary
def digamma(x: Operand) -> Operand:
    """Derivative of `lgamma` (DLMF 5.2.2); its own derivative is `trigamma`.

    >>> digamma(float("inf"))
    inf
    """


@_unary
def trigamma(x: Operand) -> Operand:
    """Derivative of `digamma` (DLMF 5.15); higher derivatives have no operation.

    >>> trigamma(float("inf"))
    0.0
    """


@_unary
def abs(x: Operand) -> Operand:
    """Absolute value; the derivative at 0 is 0.

    >>> abs(-2.0)
    2.0
    """


@_unary
def sign(x: Operand) -> Operand:
    """-1, 0 or 1; NaN for NaN.

    >>> sign(-2.5)
    -1.0
    """


@_unary
def floor(x: Operand) -> Operand:
    """Largest whole number not above x.

    >>> floor(-1.5)
    -2.0
    """


@_unary
def ceil(x: Operand) -> Operand:
    """Smallest whole number not below x.

    >>> ceil(1.2)
    2.0
    """


@_unary
def trunc(x: Operand) -> Operand:
    """Whole part, towards zero.

    >>> trunc(-1.5)
    -1.0
    """


@_unary
def round(x: Operand) -> Operand:
    """Nearest whole number; halves round to the even one.

    >>> round(2.5)
    2.0
    """


@_binary
def atan2(y: Operand, x: Operand) -> Operand:
    """Angle of the point (x, y) in radians within [-pi, pi].

    >>> atan2(0.0, 1.0)
    0.0
    """


@_binary
def hypot(x: Operand, y: Operand) -> Operand:
    """sqrt(x*x + y*y) without intermediate overflow; the derivative at the origin is 0.

    >>> hypot(3.0, 4.0)
    5.0
    """


@_binary
def copysign(x: Operand, y: Operand) -> Operand:
    """The magnitude of x with the sign of y.

    >>> copysign(2.0, -0.0)
    -2.0
    """


@_binary
def nextafter(x: Operand, y: Operand) -> Operand:
    """The number next to x in the direction of y; the derivative with respect to x is 1, to y 0.

    >>> nextafter(1.0, 2.0) - 1.0
    2.220446049250313e-16
    """


@_binary
def maximum(x: Operand, y: Operand) -> Operand:
    """The larger of x and y; NaN if either is NaN; at a tie both share the derivative equally.

    >>> maximum(1.0, 2.0)
    2.0
    """


@_binary
def minimum(x: Operand, y: Operand) -> Operand:
    """The smaller of x and y; NaN if either is NaN; at a tie both share the derivative equally.

    >>> minimum(1.0, 2.0)
    1.0
    """


@_binary
def pow(x: Operand, y: Operand) -> Operand:
    """x to the power y; NaN for a negative base with a fractional exponent.

    >>> pow(2.0, 0.5) == sqrt(2.0)
    True
    """


@_binary
def floor_divide(x: Operand, y: Operand) -> Operand:
    """floor(x / y), like Python's `//`.

    >>> floor_divide(-7.0, 2.0)
    -4.0
    """


@_binary
def remainder(x: Operand, y: Operand) -> Operand:
    """x - y * floor(x / y), like Python's `%`: it has the sign of y.

    >>> remainder(-7.0, 2.0)
    1.0
    """


@_ternary
def fma(x: Operand, y: Operand, z: Operand) -> Operand:
    """x * y + z, rounded once where the hardware has the instruction.

    >>> fma(2.0, 3.0, 1.0)
    7.0
    """


# ---- conditions


@_unary_condition
def isnan(x: Operand) -> Condition:
    """Whether x is not a number.

    >>> isnan(float("nan"))
    True
    """


@_unary_condition
def isinf(x: Operand) -> Condition:
    """Whether x is plus or minus infinity.

    >>> isinf(float("-inf"))
    True
    """


@_unary_condition
def isfinite(x: Operand) -> Condition:
    """Whether x is neither infinite nor NaN.

    >>> isfinite(1.0)
    True
    """


@_unary_condition
def signbit(x: Operand) -> Condition:
    """Whether the sign of x is minus; zeros and NaN have a sign too.

    >>> signbit(-0.0), signbit(0.0)
    (True, False)
    """


@_binary_condition
def logical_and(x: Operand, y: Operand) -> Condition:
    """Whether both conditions hold; `&` on conditions.

    >>> logical_and(True, 1.0)
    True
    """


@_binary_condition
def logical_or(x: Operand, y: Operand) -> Condition:
    """Whether at least one condition holds; `|` on conditions.

    >>> logical_or(False, 0.0)
    False
    """


@_binary_condition
def logical_xor(x: Operand, y: Operand) -> Condition:
    """Whether exactly one condition holds; `^` on conditions.

    >>> logical_xor(True, True)
    False
    """


@_unary_condition
def logical_not(x: Operand) -> Condition:
    """Whether the condition does not hold; `~` on conditions.

    >>> logical_not(0.0)
    True
    """


@ternary
def where(condition: Operand, x: Operand, y: Operand) -> Operand:
    """x where the condition holds, else y; a derivative passes only through the selected one.

    >>> where(False, 1.0, 2.0)
    2.0
    """
    if not isinstance(condition, Expression):
        chosen = x if plain_number(condition) else y
        return as_expression(chosen) if isinstance(x, Expression) or isinstance(y, Expression) else chosen
    return make("where", condition, x, y)
