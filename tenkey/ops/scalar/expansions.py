"""Operations in terms of others, for languages whose library lacks them.

The formulas are for float32: their error is at most a few units in the last place of float32 where those of `exp`,
`log`, `sin`, `cos`, `atan` and `sqrt` are. `lgamma` has that error in absolute terms near its zeros 1 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from . import elementary as s
from .expression import Expression, as_expression, make, topological_order

__all__ = ["EXPANSIONS", "expand", "rewritten", "settled"]


def expand(outputs: Sequence[Expression], lacking: Collection[str]) -> list[Expression]:
    """Return the expressions with the operations `lacking` expressed by others; those without a formula are left.

    >>> from tenkey.ops.scalar import operations, tan, variable
    >>> print(expand([tan(variable("x"))], ["tan"])[0])
    sin(x) / cos(x)
    """
    todo = frozenset(lacking) & EXPANSIONS.keys()

    def expanded(node: Expression, operands: list[Expression]) -> Any:
        if node.operation in todo:
            return EXPANSIONS[node.operation](*operands)
        return make(node.operation, *operands) if operands else node

    results = list(outputs)
    while any(node.operation in todo for node in topological_order(results)):
        results = rewritten(results, expanded)
    return results


def rewritten(outputs: Sequence[Expression], change: Callable[[Expression, list[Expression]], Any]) -> list[Expression]:
    """Return the expressions in which each node is `change(node, operands)`, of operands that are changed already.

    >>> from tenkey.ops.scalar import variable
    >>> twice = lambda node, operands: make("add", *operands) if operands else node * 2
    >>> print(rewritten([variable("x") + 1], twice)[0])
    x * 2 + 1 * 2
    """
    new: dict[Expression, Expression] = {}
    for node in topological_order(outputs):
        new[node] = as_expression(change(node, [new[operand] for operand in node.operands]))
    return [new[output] for output in outputs]


def settled(outputs: Sequence[Expression], eps: float) -> list[Expression]:
    """Return the expressions for a dtype whose spacing of numbers at 1 is ``eps``: choices by ``eps`` are made.

    >>> from tenkey.ops.scalar import variable, where
    >>> x = variable("x")
    >>> print(settled([where(make("eps") > 1e-10, x, x * x)], 2.0**-23)[0])
    x
    """

    def change(node: Expression, operands: list[Expression]) -> Any:
        if node.operation == "greater" and operands[0].operation == "eps" and operands[1].value is not None:
            return as_expression(eps > float(operands[1].value))
        if node.operation == "where" and operands[0].operation == "constant":
            return operands[1] if operands[0].value else operands[2]
        return make(node.operation, *operands) if operands else node

    return (
        rewritten(outputs, change)
        if any(node.operation == "eps" for node in topological_order(outputs))
        else [*outputs]
    )


def _polynomial(x: Any, *coefficients: float) -> Any:
    """Evaluate a polynomial; the coefficients begin with the constant one."""
    total: Any = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = coefficient + x * total
    return total


def _expm1(x: Any) -> Any:
    series = _polynomial(x, *[1 / math.factorial(k) for k in range(1, 9)])
    return s.where(s.abs(x) < 0.5, x * series, s.exp(x) - 1)


def _log1p(x: Any) -> Any:
    """Near 0 the series of 2 * atanh(x / (2 + x)), in which nothing cancels that a compiler might rearrange."""
    ratio = x / (2 + x)
    square = ratio * ratio
    series = 2 * ratio + ratio * square * _polynomial(square, 0.6666666525, 0.4000038499, 0.2853503268, 0.2361668829)
    return s.where(s.logical_and(x > -0.29, x < 0.41), series, s.log(1 + x))


def _sinh(x: Any) -> Any:
    a = s.abs(x)
    e, half = s.expm1(a), s.exp(a * 0.5)
    return s.copysign(s.where(a < 40, 0.5 * (e + e / (e + 1)), (0.5 * half) * half), x)


def _cosh(x: Any) -> Any:
    a = s.abs(x)
    e, half = s.exp(a), s.exp(a * 0.5)
    return s.where(a < 40, 0.5 * (e + 1 / e), (0.5 * half) * half)


def _tanh(x: Any) -> Any:
    a = s.abs(x)
    e = s.expm1(2 * a)
    return s.copysign(s.where(a > 20, 1.0, e / (e + 2)), x)


def _asinh(x: Any) -> Any:
    a = s.abs(x)
    near = s.log1p(a + a * a / (1 + s.sqrt(a * a + 1)))
    return s.copysign(s.where(a > 1e8, s.log(a) + math.log(2), near), x)


def _acosh(x: Any) -> Any:
    t = x - 1
    near = s.log1p(t + s.sqrt(t * (t + 2)))
    return s.where(x < 1, math.nan, s.where(x > 1e8, s.log(x) + math.log(2), near))


def _atanh(x: Any) -> Any:
    a = s.abs(x)
    return s.copysign(0.5 * s.log1p(2 * a / (1 - a)), x)


def _atan2(y: Any, x: Any) -> Any:
    up, right = s.abs(y), s.abs(x)
    large, small = s.maximum(up, right), s.minimum(up, right)
    tie = s.logical_or(large == 0, s.isinf(small))  # where the quotient is not defined
    angle = s.atan(s.where(tie, s.where(large == 0, 0.0, 1.0), small / large))
    angle = s.where(up > right, math.pi / 2 - angle, angle)
    return s.copysign(s.where(s.signbit(x), math.pi - angle, angle), y)


def _cbrt(x: Any) -> Any:
    a = s.abs(x)
    root = s.exp(s.log(a) * (1 / 3))
    root = root - (root - a / (root * root)) * (1 / 3)
    return s.where(s.logical_or(x == 0, s.logical_not(s.isfinite(x))), x, s.copysign(root, x))


def _hypot(x: Any, y: Any) -> Any:
    a, b = s.abs(x), s.abs(y)
    large, small = s.maximum(a, b), s.minimum(a, b)
    ratio = small / large
    length = s.where(large == 0, large, large * s.sqrt(1 + ratio * ratio))
    return s.where(s.logical_or(s.isinf(a), s.isinf(b)), math.inf, length)


# The coefficients are those of least-squares fits at Chebyshev nodes, with relative errors of 3e-10 and 1e-8.
_ERF: Final = (1.128379167, -0.3761263492, 0.1128371415, -0.02686046301, 0.005203752571, -0.0008174483671,
               8.508395099e-05)  # fmt: skip
_ERFC: Final = (3.108411588e-06, 0.5640416989, 0.5671674687, 0.2489726361, -0.06052594514, -1.601263653, 1.837317479,
                0.4441696568, -1.95357104, 0.9838137509)  # fmt: skip


def _erfc_far(a: Any) -> Any:
    """erfc for a > 0.85: exp(-a * a) times a function of 1 / (1 + a). The square is split to be exact."""
    bounded = s.minimum(a, 10.5)  # beyond, the result is 0 in float32
    coarse = s.floor(bounded * 16) * (1 / 16)
    decay = s.exp(-coarse * coarse) * s.exp((coarse - bounded) * (coarse + bounded))
    return s.where(a > 10.4, 0.0, decay * _polynomial(1 / (1 + bounded), *_ERFC))


def _erf(x: Any) -> Any:
    a = s.abs(x)
    far = s.copysign(1 - _erfc_far(a), x)
    return s.where(x != x, x, s.where(a < 0.875, x * _polynomial(x * x, *_ERF), far))


def _erfc(x: Any) -> Any:
    a = s.abs(x)
    far = s.where(x < 0, 2 - _erfc_far(a), _erfc_far(a))
    return s.where(x != x, x, s.where(a < 0.875, 1 - x * _polynomial(x * x, *_ERF), far))


def _lgamma(x: Any) -> Any:
    """Stirling's series after a shift of the argument beyond 7, and the reflection formula below 0."""
    a = s.where(x < 0.5, 1 - x, x)
    product: Any = 1.0
    for k in range(7):
        product = product * (a + k)
    near = a < 7
    z = s.where(near, a + 7, a)
    series = _polynomial(1 / (z * z), 1 / 12, -1 / 360, 1 / 1260) / z
    value = (z - 0.5) * (s.log(z) - 1) + (0.5 * math.log(2 * math.pi) - 0.5) + series
    value = s.where(near, value - s.log(product), value)
    turn = x - s.round(x)
    reflected = s.log(math.pi / s.abs(s.sin(math.pi * turn))) - value
    pole = s.logical_and(x <= 0, x == s.floor(x))
    value = s.where(s.logical_or(pole, s.isinf(x)), math.inf, s.where(x < 0.5, reflected, value))
    value = s.where(s.logical_and(s.abs(x) < 1e-6, x != 0), -s.log(s.abs(x)), value)
    return s.where(s.logical_or(x == 1, x == 2), 0.0, value)


EXPANSIONS: Final[dict[str, Callable[..., Any]]] = {
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / s.sqrt(x),
    "exp2": lambda x: s.exp(x * math.log(2)),
    "expm1": _expm1, "log1p": _log1p,
    "log2": lambda x: s.log(x) * (1 / math.log(2)),
    "log10": lambda x: s.log(x) * (1 / math.log(10)),
    "tan": lambda x: s.sin(x) / s.cos(x),
    "asin": lambda x: s.atan2(x, s.sqrt((1 - x) * (1 + x))),
    "acos": lambda x: s.atan2(s.sqrt((1 - x) * (1 + x)), x),
    "atan2": _atan2, "sinh": _sinh, "cosh": _cosh, "tanh": _tanh, "asinh": _asinh, "acosh": _acosh, "atanh": _atanh,
    "cbrt": _cbrt, "hypot": _hypot, "erf": _erf, "erfc": _erfc, "lgamma": _lgamma,
}  # fmt: skip
