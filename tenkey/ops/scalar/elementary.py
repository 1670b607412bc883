"""The functions that a scalar expression is written with.

Applied to a scalar expression they build one; applied to Python numbers only they compute, with the results of IEEE 754
(no exception for `log(0.0)`). The body of an operator can therefore be tried on plain floats. The function of an
operation is defined by an example, which begins with the name of the operation, and a description.

>>> exp(0.0), log(0.0)
(1.0, -inf)
>>> from tenkey.ops.scalar import variable
>>> x = variable("x")
>>> print(exp(-x) + 1)
exp(-x) + 1
>>> print(where(isnan(x) | (x < 0), 0, x))
where(isnan(x) | (x < 0), 0, x)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature
from typing import Any

from .expression import Expression, Operand, as_expression, make, plain_number
from .reference import REFERENCE
from .signatures import Binary, Condition, Ternary, Unary, ternary

__all__ = [
    "Condition", "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos",
    "cosh", "digamma", "erf", "erfc", "exp", "exp2", "expm1", "floor", "floor_divide", "fma", "hypot", "isfinite",
    "isinf", "isnan", "lgamma", "log", "log10", "log1p", "log2", "logical_and", "logical_not", "logical_or",
    "logical_xor", "maximum", "minimum", "nextafter", "pow", "reciprocal", "remainder", "round", "rsqrt", "sign",
    "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trigamma", "trunc", "where",
]  # fmt: skip


def _operation(example: str, summary: str, parameters: str, returns: str = "Operand") -> Any:
    """Return the function of the operation whose name the example begins with."""
    call, _, result = example.partition(" -> ")
    name = call.partition("(")[0]

    def apply(*operands: Operand) -> Any:
        if any(isinstance(operand, Expression) for operand in operands):
            return make(name, *operands)
        return REFERENCE[name](*map(plain_number, operands))

    function: Any = apply
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{summary}\n\n    >>> {call}\n    {result}\n    "
    shown = [Parameter(x, Parameter.POSITIONAL_ONLY, annotation="Operand") for x in parameters]
    function.__signature__ = Signature(shown, return_annotation=returns)
    return function


_unary: Callable[[str, str], Unary[float]] = partial(_operation, parameters="x")
_binary: Callable[..., Binary[float]] = partial(_operation, parameters="xy")
_unary_condition: Callable[[str, str], Unary[bool]] = partial(_operation, parameters="x", returns="Condition")
_binary_condition: Callable[[str, str], Binary[bool]] = partial(_operation, parameters="xy", returns="Condition")

exp = _unary("exp(1.0) -> 2.718281828459045", "e to the power x.")
exp2 = _unary("exp2(3.0) -> 8.0", "2 to the power x.")
expm1 = _unary("expm1(1e-20) -> 1e-20", "exp(x) - 1 without cancellation near zero.")
log = _unary("log(1.0) -> 0.0", "Natural logarithm; minus infinity at 0, NaN below.")
log2 = _unary("log2(8.0) -> 3.0", "Logarithm to base 2.")
log10 = _unary("log10(1000.0) -> 3.0", "Logarithm to base 10.")
log1p = _unary("log1p(1e-20) -> 1e-20", "log(1 + x) without cancellation near zero.")
sqrt = _unary("sqrt(9.0) -> 3.0", "Square root; NaN below 0.")
rsqrt = _unary("rsqrt(4.0) -> 0.5", "Reciprocal square root of x.")
cbrt = _unary("cbrt(-8.0) -> -2.0", "Real cube root, also of negative numbers.")
square = _unary("square(-3.0) -> 9.0", "Square of x.")
reciprocal = _unary("reciprocal(4.0) -> 0.25", "Reciprocal of x.")
sin = _unary("sin(0.0) -> 0.0", "Sine of x radians.")
cos = _unary("cos(0.0) -> 1.0", "Cosine of x radians.")
tan = _unary("tan(0.0) -> 0.0", "Tangent of x radians.")
asin = _unary("asin(2.0) -> nan", "Inverse sine, in radians within [-pi/2, pi/2]; NaN outside [-1, 1].")
acos = _unary("acos(1.0) -> 0.0", "Inverse cosine, in radians within [0, pi]; NaN outside [-1, 1].")
atan = _unary("atan(0.0) -> 0.0", "Inverse tangent, in radians within (-pi/2, pi/2).")
sinh = _unary("sinh(0.0) -> 0.0", "Hyperbolic sine.")
cosh = _unary("cosh(0.0) -> 1.0", "Hyperbolic cosine.")
tanh = _unary("tanh(0.0) -> 0.0", "Hyperbolic tangent.")
asinh = _unary("asinh(0.0) -> 0.0", "Inverse hyperbolic sine.")
acosh = _unary("acosh(1.0) -> 0.0", "Inverse hyperbolic cosine; NaN below 1.")
atanh = _unary("atanh(0.0) -> 0.0", "Inverse hyperbolic tangent; NaN outside [-1, 1].")
erf = _unary(
    "erf(0.0) -> 0.0", "Error function, 2 / sqrt(pi) times the integral of exp(-t*t) from 0 to x (DLMF 7.2.1)."
)
erfc = _unary("erfc(0.0) -> 1.0", "1 - erf(x) without cancellation for large x (DLMF 7.2.2).")
lgamma = _unary(
    "lgamma(2.0) -> 0.0", "Logarithm of the absolute value of the gamma function; its derivative is `digamma`."
)
digamma = _unary(
    "digamma(float('inf')) -> inf", "Derivative of `lgamma` (DLMF 5.2.2); its own derivative is `trigamma`."
)
trigamma = _unary(
    "trigamma(float('inf')) -> 0.0", "Derivative of `digamma` (DLMF 5.15); higher derivatives have no operation."
)
abs = _unary("abs(-2.0) -> 2.0", "Absolute value; the derivative at 0 is 0.")
sign = _unary("sign(-2.5) -> -1.0", "-1, 0 or 1; NaN for NaN.")
floor = _unary("floor(-1.5) -> -2.0", "Largest whole number not above x.")
ceil = _unary("ceil(1.2) -> 2.0", "Smallest whole number not below x.")
trunc = _unary("trunc(-1.5) -> -1.0", "Whole part, towards zero.")
round = _unary("round(2.5) -> 2.0", "Nearest whole number; halves round to the even one.")
atan2 = _binary("atan2(0.0, 1.0) -> 0.0", "Angle of the point (x, y) in radians within [-pi, pi].", parameters="yx")
hypot = _binary(
    "hypot(3.0, 4.0) -> 5.0", "sqrt(x*x + y*y) without intermediate overflow; the derivative at the origin is 0."
)
copysign = _binary("copysign(2.0, -0.0) -> -2.0", "The magnitude of x with the sign of y.")
nextafter = _binary(
    "nextafter(1.0, 2.0) - 1.0 -> 2.220446049250313e-16",
    "The number next to x in the direction of y; the derivative with respect to x is 1, to y 0.",
)
maximum = _binary(
    "maximum(1.0, 2.0) -> 2.0",
    "The larger of x and y; NaN if either is NaN; at a tie both share the derivative equally.",
)
minimum = _binary(
    "minimum(1.0, 2.0) -> 1.0",
    "The smaller of x and y; NaN if either is NaN; at a tie both share the derivative equally.",
)
pow = _binary(
    "pow(2.0, 0.5) == sqrt(2.0) -> True", "x to the power y; NaN for a negative base with a fractional exponent."
)
floor_divide = _binary("floor_divide(-7.0, 2.0) -> -4.0", "floor(x / y), like Python's `//`.")
remainder = _binary("remainder(-7.0, 2.0) -> 1.0", "x - y * floor(x / y), like Python's `%`: it has the sign of y.")
fma: Ternary = _operation(
    "fma(2.0, 3.0, 1.0) -> 7.0", "x * y + z, rounded once where the hardware has the instruction.", "xyz"
)

# ---- conditions

isnan = _unary_condition("isnan(float('nan')) -> True", "Whether x is not a number.")
isinf = _unary_condition("isinf(float('-inf')) -> True", "Whether x is plus or minus infinity.")
isfinite = _unary_condition("isfinite(1.0) -> True", "Whether x is neither infinite nor NaN.")
signbit = _unary_condition(
    "signbit(-0.0), signbit(0.0) -> (True, False)", "Whether the sign of x is minus; zeros and NaN have a sign too."
)
logical_and = _binary_condition("logical_and(True, 1.0) -> True", "Whether both conditions hold; `&` on conditions.")
logical_or = _binary_condition(
    "logical_or(False, 0.0) -> False", "Whether at least one condition holds; `|` on conditions."
)
logical_xor = _binary_condition(
    "logical_xor(True, True) -> False", "Whether exactly one condition holds; `^` on conditions."
)
logical_not = _unary_condition("logical_not(0.0) -> True", "Whether the condition does not hold; `~` on conditions.")


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
