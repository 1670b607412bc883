"""Exact symbolic derivatives of scalar expressions.

Note [Derivative conventions]
    maximum and minimum (and so clip): at a tie, both operands share the derivative equally. abs at 0 and hypot at the
    origin: 0, a subgradient. Step functions (floor, round, sign, comparisons, integer operations): 0. `where` selects
    one branch's derivative and never multiplies by the condition, so that a NaN or infinity of the other branch does
    not leak. pow: the derivative of x**0 is 0 everywhere, and the derivative with respect to the exponent is 0 at
    x == 0 for exponents >= 0. Guarded by `test_ties`, `test_where_does_not_leak` and `test_pow_at_zero`.

Note [Logistic quotient]
    The quotient rule turns 1 / (1 + exp(-x)) into exp(-x) / (1 + exp(-x))**2, which is inf / inf once exp(-x)
    overflows, at x = -89 in float32. Users write exactly this quotient, so it is recognized: if s is the quotient, its
    derivative with respect to the exponent is -(s * (1 - s)), which never overflows.
    Guarded by `test_logistic_quotient`.

Note [Light simplification]
    Derivatives are built by the constructors below, which drop zeros and ones, fold constants and move signs outwards.
    Each rewriting is exact in floating point for finite operands, except for the sign of a zero; nothing is
    reassociated or expanded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from .expression import Expression, constant, make, plain_number, topological_order
from .reference import REFERENCE

__all__ = ["UnsupportedDerivativeError", "differentiate", "differentiate_all", "differentiate_along"]

_EXACT_INTEGERS: Final = 2**53


class UnsupportedDerivativeError(NotImplementedError):
    """Raised for an operation without a derivative rule between the expression and the variable."""


_ZERO: Final = constant(0)
_ONE: Final = constant(1)
_TWO: Final = constant(2)
_HALF: Final = constant(0.5)
_LN2: Final = constant(math.log(2.0))
_LOG2_E: Final = constant(1 / math.log(2.0))
_LOG10_E: Final = constant(1 / math.log(10.0))
_TWO_OVER_SQRT_PI: Final = constant(2 / math.sqrt(math.pi))


# Constructors that simplify: see Note [Light simplification].
def _is(node: Expression, value: int) -> bool:
    return node.operation == "constant" and node.kind == "number" and node.value == value


def _fold(operation: str, *operands: Expression) -> Expression:
    node = make(operation, *operands)
    values = [operand.value for operand in node.operands if operand.value is not None]
    if not values or len(values) < len(node.operands):
        return node
    value = plain_number(REFERENCE[operation](*values))
    exact = math.isfinite(value) if isinstance(value, float) else -_EXACT_INTEGERS <= value <= _EXACT_INTEGERS
    return constant(value) if exact else node


def _unsigned(x: Expression) -> tuple[Expression, bool]:
    """Remove leading minus signs from `x`; also tell whether their number was odd."""
    odd = False
    while x.operation == "negative":
        x, odd = x.operands[0], not odd
    return x, odd


def _negative(x: Expression) -> Expression:
    if x.operation == "negative":
        return x.operands[0]
    if x.operation == "subtract":
        return make("subtract", x.operands[1], x.operands[0])
    return _fold("negative", x)


def _add(x: Expression, y: Expression) -> Expression:
    if _is(x, 0):
        return y
    if _is(y, 0):
        return x
    if x is y:
        return _multiply(_TWO, x)
    x, x_negative = _unsigned(x)
    y, y_negative = _unsigned(y)
    if x_negative and y_negative:
        return _negative(_fold("add", x, y))
    if y_negative:
        return _ZERO if x is y else _fold("subtract", x, y)
    if x_negative:
        return _ZERO if x is y else _fold("subtract", y, x)
    return _fold("add", x, y)


def _subtract(x: Expression, y: Expression) -> Expression:
    if _is(y, 0):
        return x
    if _is(x, 0):
        return _negative(y)
    x, x_negative = _unsigned(x)
    y, y_negative = _unsigned(y)
    if x_negative == y_negative:
        first, second = (y, x) if x_negative else (x, y)
        return _ZERO if first is second else _fold("subtract", first, second)
    total = _multiply(_TWO, x) if x is y else _fold("add", x, y)
    return _negative(total) if x_negative else total


def _multiply(x: Expression, y: Expression) -> Expression:
    if _is(x, 0) or _is(y, 0):
        return _ZERO
    x, x_negative = _unsigned(x)
    y, y_negative = _unsigned(y)
    if y.operation == "constant" and x.operation != "constant":
        x, y = y, x  # in one order, so that equal products are one node
    if _is(x, -1):
        x, x_negative = _ONE, not x_negative
    product = y if _is(x, 1) else x if _is(y, 1) else _fold("multiply", x, y)
    return product if x_negative == y_negative else _negative(product)


def _divide(x: Expression, y: Expression) -> Expression:
    if _is(x, 0):
        return _ZERO
    x, negative = _unsigned(x)
    quotient = x if _is(y, 1) else _fold("divide", x, y)
    return _negative(quotient) if negative else quotient


def _select(condition: Expression, x: Expression, y: Expression) -> Expression:
    if condition.operation == "constant":
        return x if condition.value else y
    return x if x is y else make("where", condition, x, y)


# One rule per operation: rule(node, *operands, *derivatives of the operands) -> derivative of the node.
_Rule = Callable[..., Expression]


def _one_minus_square(x: Expression) -> Expression:
    """Return (1 - x) * (1 + x), which is accurate near 1, where 1 - x*x cancels."""
    return _multiply(_subtract(_ONE, x), _add(_ONE, x))


def _logistic_exponent(node: Expression) -> Expression | None:
    """Return u if `node` is 1 / (1 + exp(u)), else None: see Note [Logistic quotient]."""
    if node.operation != "reciprocal" and not (node.operation == "divide" and _is(node.operands[0], 1)):
        return None
    denominator = node.operands[-1]
    if denominator.operation != "add":
        return None
    for one, exponential in (denominator.operands, denominator.operands[::-1]):
        if _is(one, 1) and exponential.operation == "exp":
            return exponential.operands[0]
    return None


def _of_divide(node: Expression, x: Expression, y: Expression, dx: Expression, dy: Expression) -> Expression:
    # Uses the quotient itself, because y*y would overflow and underflow much earlier.
    if _is(dy, 0):
        return _divide(dx, y)
    if _is(dx, 0):
        return _negative(_multiply(_divide(node, y), dy))
    return _divide(_subtract(dx, _multiply(node, dy)), y)


def _of_pow(node: Expression, x: Expression, y: Expression, dx: Expression, dy: Expression) -> Expression:
    from_base = from_exponent = _ZERO
    if not _is(dx, 0):
        slope = _multiply(y, _power(x, _subtract(y, _ONE)))
        if y.operation != "constant":
            slope = _select(make("equal", y, 0), _ZERO, slope)  # at x == 0 the product is 0 * inf
        from_base = _multiply(slope, dx)
    if not _is(dy, 0):
        slope = _multiply(node, _fold("log", x))
        if x.operation != "constant" or _is(x, 0):
            # 0 to the power of y is finite where y is not below 0; complex numbers have no such comparison
            at_zero = make("logical_and", make("equal", x, 0), make("isfinite", node))
            slope = _select(at_zero, _ZERO, slope)
        from_exponent = _multiply(slope, dy)
    return _add(from_base, from_exponent)


def _power(x: Expression, y: Expression) -> Expression:
    if _is(y, 0):
        return _ONE
    return x if _is(y, 1) else _fold("pow", x, y)


def _of_hypot(node: Expression, x: Expression, y: Expression, dx: Expression, dy: Expression) -> Expression:
    slope = _add(_multiply(_divide(x, node), dx), _multiply(_divide(y, node), dy))
    return _select(make("equal", node, 0), _ZERO, slope)


def _of_atan2(node: Expression, y: Expression, x: Expression, dy: Expression, dx: Expression) -> Expression:
    radius = make("hypot", x, y)  # x*x + y*y would overflow and underflow much earlier
    slope = _divide(_subtract(_multiply(_divide(x, radius), dy), _multiply(_divide(y, radius), dx)), radius)
    return _select(make("equal", radius, 0), _ZERO, slope)


def _of_selection(comparison: str) -> _Rule:
    def rule(node: Expression, x: Expression, y: Expression, dx: Expression, dy: Expression) -> Expression:
        tie = _multiply(_HALF, _add(dx, dy))
        return _select(make(comparison, x, y), dx, _select(make(comparison, y, x), dy, tie))

    return rule


def _no_derivative(node: Expression, *_: Expression) -> Expression:
    raise UnsupportedDerivativeError(
        f"no derivative is known for the scalar operation {node.operation!r} in `{node}`: give the operator's "
        "derivative by partials=..., or write the function with other operations."
    )


_RULES: Final[dict[str, _Rule]] = {
    "add": lambda node, x, y, dx, dy: _add(dx, dy),
    "subtract": lambda node, x, y, dx, dy: _subtract(dx, dy),
    "multiply": lambda node, x, y, dx, dy: _add(_multiply(y, dx), _multiply(x, dy)),
    "fma": lambda node, x, y, z, dx, dy, dz: _add(_add(_multiply(y, dx), _multiply(x, dy)), dz),
    "divide": _of_divide,
    "pow": _of_pow,
    "remainder": lambda node, x, y, dx, dy: _subtract(dx, _multiply(make("floor_divide", x, y), dy)),
    "negative": lambda node, x, dx: _negative(dx),
    "where": lambda node, condition, x, y, dcondition, dx, dy: _select(condition, dx, dy),
    "maximum": _of_selection("greater"),
    "minimum": _of_selection("less"),
    "hypot": _of_hypot,
    "atan2": _of_atan2,
    "copysign": lambda node, x, y, dx, dy: _multiply(_multiply(make("sign", x), make("copysign", _ONE, y)), dx),
    "nextafter": lambda node, x, y, dx, dy: dx,
    "abs": lambda node, x, dx: _multiply(make("sign", x), dx),
    "square": lambda node, x, dx: _multiply(_multiply(_TWO, x), dx),
    "reciprocal": lambda node, x, dx: _negative(_multiply(_multiply(node, node), dx)),
    "sqrt": lambda node, x, dx: _divide(_multiply(_HALF, dx), node),
    "rsqrt": lambda node, x, dx: _negative(_multiply(_multiply(_HALF, _multiply(node, _multiply(node, node))), dx)),
    "cbrt": lambda node, x, dx: _divide(dx, _multiply(constant(3), _multiply(node, node))),
    "exp": lambda node, x, dx: _multiply(node, dx),
    "exp2": lambda node, x, dx: _multiply(_multiply(_LN2, node), dx),
    "expm1": lambda node, x, dx: _multiply(make("exp", x), dx),  # node + 1 loses all digits for x << 0
    "log": lambda node, x, dx: _divide(dx, x),
    "log2": lambda node, x, dx: _multiply(_LOG2_E, _divide(dx, x)),
    "log10": lambda node, x, dx: _multiply(_LOG10_E, _divide(dx, x)),
    "log1p": lambda node, x, dx: _divide(dx, _add(_ONE, x)),
    "sin": lambda node, x, dx: _multiply(make("cos", x), dx),
    "cos": lambda node, x, dx: _negative(_multiply(make("sin", x), dx)),
    "tan": lambda node, x, dx: _multiply(_add(_ONE, _multiply(node, node)), dx),
    "asin": lambda node, x, dx: _divide(dx, make("sqrt", _one_minus_square(x))),
    "acos": lambda node, x, dx: _negative(_divide(dx, make("sqrt", _one_minus_square(x)))),
    "atan": lambda node, x, dx: _divide(dx, _add(_ONE, _multiply(x, x))),
    "sinh": lambda node, x, dx: _multiply(make("cosh", x), dx),
    "cosh": lambda node, x, dx: _multiply(make("sinh", x), dx),
    "tanh": lambda node, x, dx: _multiply(_subtract(_ONE, _multiply(node, node)), dx),
    "asinh": lambda node, x, dx: _divide(dx, make("sqrt", _add(_ONE, _multiply(x, x)))),
    # Two roots: x*x - 1 cancels near 1, and one root of the product would be real below -1, where acosh is NaN.
    "acosh": lambda node, x, dx: _divide(
        dx, _multiply(make("sqrt", _subtract(x, _ONE)), make("sqrt", _add(x, _ONE)))
    ),
    "atanh": lambda node, x, dx: _divide(dx, _one_minus_square(x)),
    "erf": lambda node, x, dx: _multiply(_gaussian(x), dx),
    "erfc": lambda node, x, dx: _negative(_multiply(_gaussian(x), dx)),
    "lgamma": lambda node, x, dx: _multiply(make("digamma", x), dx),
    "digamma": lambda node, x, dx: _multiply(make("trigamma", x), dx),
    **dict.fromkeys(
        ("floor", "ceil", "trunc", "round", "sign", "floor_divide", "bitwise_and", "bitwise_or", "bitwise_xor",
         "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift"),
        lambda *_: _ZERO,
    ),
}  # fmt: skip


def _gaussian(x: Expression) -> Expression:
    return _multiply(_TWO_OVER_SQRT_PI, make("exp", _negative(_multiply(x, x))))


def differentiate(expression: Expression, variable_name: str) -> Expression:
    """Return the derivative of `expression` with respect to a variable; the constant 0 if it does not occur.

    The derivative is exact where the function is differentiable and follows Note [Derivative conventions] elsewhere.
    It reuses nodes of `expression` where possible. UnsupportedDerivativeError (a NotImplementedError) names an
    operation that has no rule.

    >>> from tenkey.ops.scalar import exp, tanh, variable
    >>> x = variable("x")
    >>> print(differentiate(tanh(x), "x"))
    1 - tanh(x) * tanh(x)
    >>> differentiate(exp(x), "x") is exp(x)
    True
    """
    return differentiate_along(expression, {variable_name: _ONE})


def differentiate_along(expression: Expression, directions: Mapping[str, Expression]) -> Expression:
    """Return the derivative of `expression` in a direction: variables change at the rates in `directions`.

    >>> from tenkey.ops.scalar import variable, where
    >>> x, y = variable("x"), variable("y")
    >>> print(differentiate_along(where(x > 0, x * y, y), {"x": variable("dx"), "y": variable("dy")}))
    where(x > 0, y * dx + x * dy, dy)
    """
    derivatives: dict[Expression, Expression] = {}
    for node in topological_order([expression]):
        if node.kind == "boolean":
            derivatives[node] = _ZERO
        elif node.name is not None:
            derivatives[node] = directions.get(node.name, _ZERO)
        else:
            inner = [derivatives[operand] for operand in node.operands]
            exponent = _logistic_exponent(node)
            if all(_is(derivative, 0) for derivative in inner):
                derivatives[node] = _ZERO
            elif exponent is not None:
                derivatives[node] = _negative(_multiply(_multiply(node, _subtract(_ONE, node)), derivatives[exponent]))
            else:
                derivatives[node] = _RULES.get(node.operation, _no_derivative)(node, *node.operands, *inner)
    return derivatives[expression]


def differentiate_all(expression: Expression, names: Iterable[str]) -> dict[str, Expression]:
    """Return the derivative with respect to each of `names`.

    >>> from tenkey.ops.scalar import variable
    >>> {name: str(slope) for name, slope in differentiate_all(variable("x") * variable("y"), "xy").items()}
    {'x': 'y', 'y': 'x'}
    """
    return {name: differentiate(expression, name) for name in names}
