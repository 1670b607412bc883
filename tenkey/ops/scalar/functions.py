"""The functions that a scalar expression is written with.

Given a scalar expression they build one; given Python numbers alone they compute, with the results of IEEE 754 (no
exception for `log(0.0)`). So the body of an operator can be tried on plain floats.

>>> exp(0.0), log(0.0)
(1.0, -inf)
>>> from tenkey.ops.scalar import variable
>>> print(exp(-variable("x")) + 1)
exp(-x) + 1
"""

from __future__ import annotations

from .expression import Expression, Operand, make, plain_number
from .reference import REFERENCE
from .signatures import binary, ternary, unary

__all__ = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos",
    "cosh", "digamma", "erf", "erfc", "exp", "exp2", "expm1", "floor", "floor_divide", "fma", "hypot",
    "lgamma", "log", "log10", "log1p", "log2",
    "maximum", "minimum", "nextafter", "pow", "reciprocal", "remainder", "round", "rsqrt",
    "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trigamma", "trunc",
]  # fmt: skip


def _apply(operation: str, *arguments: Operand) -> Operand:
    if any(isinstance(argument, Expression) for argument in arguments):
        return make(operation, *arguments)
    result: Operand = REFERENCE[operation](*(plain_number(argument) for argument in arguments))
    return result


@unary
def exp(x: Operand) -> Operand:
    """e to the power x.

    >>> exp(1.0)
    2.718281828459045
    """
    return _apply("exp", x)


@unary
def exp2(x: Operand) -> Operand:
    """2 to the power x.

    >>> exp2(3.0)
    8.0
    """
    return _apply("exp2", x)


@unary
def expm1(x: Operand) -> Operand:
    """exp(x) - 1 without cancellation near zero.

    >>> expm1(1e-20)
    1e-20
    """
    return _apply("expm1", x)


@unary
def log(x: Operand) -> Operand:
    """Natural logarithm; minus infinity at 0, NaN below.

    >>> log(1.0)
    0.0
    """
    return _apply("log", x)


@unary
def log2(x: Operand) -> Operand:
    """Logarithm to base 2.

    >>> log2(8.0)
    3.0
    """
    return _apply("log2", x)


@unary
def log10(x: Operand) -> Operand:
    """Logarithm to base 10.

    >>> log10(1000.0)
    3.0
    """
    return _apply("log10", x)


@unary
def log1p(x: Operand) -> Operand:
    """log(1 + x) without cancellation near zero.

    >>> log1p(1e-20)
    1e-20
    """
    return _apply("log1p", x)


@unary
def sqrt(x: Operand) -> Operand:
    """Square root; NaN below 0.

    >>> sqrt(9.0)
    3.0
    """
    return _apply("sqrt", x)


@unary
def rsqrt(x: Operand) -> Operand:
    """1 / sqrt(x).

    >>> rsqrt(4.0)
    0.5
    """
    return _apply("rsqrt", x)


@unary
def cbrt(x: Operand) -> Operand:
    """Real cube root, also of negative numbers.

    >>> cbrt(-8.0)
    -2.0
    """
    return _apply("cbrt", x)


@unary
def square(x: Operand) -> Operand:
    """x * x.

    >>> square(-3.0)
    9.0
    """
    return _apply("square", x)


@unary
def reciprocal(x: Operand) -> Operand:
    """1 / x.

    >>> reciprocal(4.0)
    0.25
    """
    return _apply("reciprocal", x)


@unary
def sin(x: Operand) -> Operand:
    """Sine of x radians.

    >>> sin(0.0)
    0.0
    """
    return _apply("sin", x)


@unary
def cos(x: Operand) -> Operand:
    """Cosine of x radians.

    >>> cos(0.0)
    1.0
    """
    return _apply("cos", x)


@unary
def tan(x: Operand) -> Operand:
    """Tangent of x radians.

    >>> tan(0.0)
    0.0
    """
    return _apply("tan", x)


@unary
def asin(x: Operand) -> Operand:
    """Inverse sine, in radians within [-pi/2, pi/2]; NaN outside [-1, 1].

    >>> asin(2.0)
    nan
    """
    return _apply("asin", x)


@unary
def acos(x: Operand) -> Operand:
    """Inverse cosine, in radians within [0, pi]; NaN outside [-1, 1].

    >>> acos(1.0)
    0.0
    """
    return _apply("acos", x)


@unary
def atan(x: Operand) -> Operand:
    """Inverse tangent, in radians within (-pi/2, pi/2).

    >>> atan(0.0)
    0.0
    """
    return _apply("atan", x)


@unary
def sinh(x: Operand) -> Operand:
    """Hyperbolic sine.

    >>> sinh(0.0)
    0.0
    """
    return _apply("sinh", x)


@unary
def cosh(x: Operand) -> Operand:
    """Hyperbolic cosine.

    >>> cosh(0.0)
    1.0
    """
    return _apply("cosh", x)


@unary
def tanh(x: Operand) -> Operand:
    """Hyperbolic tangent.

    >>> tanh(0.0)
    0.0
    """
    return _apply("tanh", x)


@unary
def asinh(x: Operand) -> Operand:
    """Inverse hyperbolic sine.

    >>> asinh(0.0)
    0.0
    """
    return _apply("asinh", x)


@unary
def acosh(x: Operand) -> Operand:
    """Inverse hyperbolic cosine; NaN below 1.

    >>> acosh(1.0)
    0.0
    """
    return _apply("acosh", x)


@unary
def atanh(x: Operand) -> Operand:
    """Inverse hyperbolic tangent; NaN outside [-1, 1].

    >>> atanh(0.0)
    0.0
    """
    return _apply("atanh", x)


@unary
def erf(x: Operand) -> Operand:
    """Error function, 2 / sqrt(pi) times the integral of exp(-t*t) from 0 to x (DLMF 7.2.1).

    >>> erf(0.0)
    0.0
    """
    return _apply("erf", x)


@unary
def erfc(x: Operand) -> Operand:
    """1 - erf(x) without cancellation for large x (DLMF 7.2.2).

    >>> erfc(0.0)
    1.0
    """
    return _apply("erfc", x)


@unary
def lgamma(x: Operand) -> Operand:
    """Logarithm of the absolute value of the gamma function; its derivative is `digamma`.

    >>> lgamma(2.0)
    0.0
    """
    return _apply("lgamma", x)


@unary
def digamma(x: Operand) -> Operand:
    """Derivative of `lgamma` (DLMF 5.2.2); its own derivative is `trigamma`.

    >>> digamma(float("inf"))
    inf
    """
    return _apply("digamma", x)


@unary
def trigamma(x: Operand) -> Operand:
    """Derivative of `digamma` (DLMF 5.15); the last of this family that has an operation.

    >>> trigamma(float("inf"))
    0.0
    """
    return _apply("trigamma", x)


@unary
def abs(x: Operand) -> Operand:
    """Absolute value; the derivative at 0 is 0.

    >>> abs(-2.0)
    2.0
    """
    return _apply("abs", x)


@unary
def sign(x: Operand) -> Operand:
    """-1, 0 or 1; NaN for NaN.

    >>> sign(-2.5)
    -1.0
    """
    return _apply("sign", x)


@unary
def floor(x: Operand) -> Operand:
    """Largest whole number not above x.

    >>> floor(-1.5)
    -2.0
    """
    return _apply("floor", x)


@unary
def ceil(x: Operand) -> Operand:
    """Smallest whole number not below x.

    >>> ceil(1.2)
    2.0
    """
    return _apply("ceil", x)


@unary
def trunc(x: Operand) -> Operand:
    """Whole part, towards zero.

    >>> trunc(-1.5)
    -1.0
    """
    return _apply("trunc", x)


@unary
def round(x: Operand) -> Operand:
    """Nearest whole number, halves to the even one.

    >>> round(2.5)
    2.0
    """
    return _apply("round", x)


@binary
def atan2(y: Operand, x: Operand) -> Operand:
    """Angle of the point (x, y) in radians within [-pi, pi].

    >>> atan2(0.0, 1.0)
    0.0
    """
    return _apply("atan2", y, x)


@binary
def hypot(x: Operand, y: Operand) -> Operand:
    """sqrt(x*x + y*y) without overflow on the way; the derivative at the origin is 0.

    >>> hypot(3.0, 4.0)
    5.0
    """
    return _apply("hypot", x, y)


@binary
def copysign(x: Operand, y: Operand) -> Operand:
    """The magnitude of x with the sign of y.

    >>> copysign(2.0, -0.0)
    -2.0
    """
    return _apply("copysign", x, y)


@binary
def nextafter(x: Operand, y: Operand) -> Operand:
    """The number next to x in the direction of y; the derivative by x is 1, that by y is 0.

    >>> nextafter(1.0, 2.0) - 1.0
    2.220446049250313e-16
    """
    return _apply("nextafter", x, y)


@binary
def maximum(x: Operand, y: Operand) -> Operand:
    """The larger one; NaN if either is; a tie shares the derivative equally.

    >>> maximum(1.0, 2.0)
    2.0
    """
    return _apply("maximum", x, y)


@binary
def minimum(x: Operand, y: Operand) -> Operand:
    """The smaller one; NaN if either is; a tie shares the derivative equally.

    >>> minimum(1.0, 2.0)
    1.0
    """
    return _apply("minimum", x, y)


@binary
def pow(x: Operand, y: Operand) -> Operand:
    """x to the power y; NaN for a negative base with a fractional exponent.

    >>> pow(2.0, 0.5) == sqrt(2.0)
    True
    """
    return _apply("pow", x, y)


@binary
def floor_divide(x: Operand, y: Operand) -> Operand:
    """floor(x / y), as Python's `//`.

    >>> floor_divide(-7.0, 2.0)
    -4.0
    """
    return _apply("floor_divide", x, y)


@binary
def remainder(x: Operand, y: Operand) -> Operand:
    """x - y * floor(x / y), as Python's `%`: it has the sign of y.

    >>> remainder(-7.0, 2.0)
    1.0
    """
    return _apply("remainder", x, y)


@ternary
def fma(x: Operand, y: Operand, z: Operand) -> Operand:
    """x * y + z, rounded once where the hardware has the instruction.

    >>> fma(2.0, 3.0, 1.0)
    7.0
    """
    return _apply("fma", x, y, z)
