"""Conditions of scalar expressions, and the choice between two values.

As in `functions`, Python numbers alone give plain Python results.

>>> from tenkey.ops.scalar import variable
>>> x = variable("x")
>>> print(where(isnan(x) | (x < 0), 0, x))
where(isnan(x) | (x < 0), 0, x)
"""

from __future__ import annotations

from .expression import Expression, Operand, as_expression, make, plain_number
from .reference import REFERENCE
from .signatures import Condition, binary_condition, ternary, unary_condition

__all__ = [
    "Condition", "isfinite", "isinf", "isnan", "logical_and", "logical_not", "logical_or", "logical_xor",
    "signbit", "where",
]  # fmt: skip


def _ask(operation: str, *arguments: Operand) -> Condition:
    if any(isinstance(argument, Expression) for argument in arguments):
        return make(operation, *arguments)
    return bool(REFERENCE[operation](*(plain_number(argument) for argument in arguments)))


@unary_condition
def isnan(x: Operand) -> Condition:
    """Whether x is not a number.

    >>> isnan(float("nan"))
    True
    """
    return _ask("isnan", x)


@unary_condition
def isinf(x: Operand) -> Condition:
    """Whether x is plus or minus infinity.

    >>> isinf(float("-inf"))
    True
    """
    return _ask("isinf", x)


@unary_condition
def isfinite(x: Operand) -> Condition:
    """Whether x is neither infinite nor NaN.

    >>> isfinite(1.0)
    True
    """
    return _ask("isfinite", x)


@unary_condition
def signbit(x: Operand) -> Condition:
    """Whether the sign of x is minus, that of a zero or NaN included.

    >>> signbit(-0.0), signbit(0.0)
    (True, False)
    """
    return _ask("signbit", x)


@binary_condition
def logical_and(x: Operand, y: Operand) -> Condition:
    """Whether both hold; `&` on conditions.

    >>> logical_and(True, 1.0)
    True
    """
    return _ask("logical_and", x, y)


@binary_condition
def logical_or(x: Operand, y: Operand) -> Condition:
    """Whether one or both hold; `|` on conditions.

    >>> logical_or(False, 0.0)
    False
    """
    return _ask("logical_or", x, y)


@binary_condition
def logical_xor(x: Operand, y: Operand) -> Condition:
    """Whether exactly one holds; `^` on conditions.

    >>> logical_xor(True, True)
    False
    """
    return _ask("logical_xor", x, y)


@unary_condition
def logical_not(x: Operand) -> Condition:
    """Whether x does not hold; `~` on conditions.

    >>> logical_not(0.0)
    True
    """
    return _ask("logical_not", x)


@ternary
def where(condition: Operand, x: Operand, y: Operand) -> Operand:
    """x where the condition holds, else y; only the selected side passes a derivative.

    >>> where(False, 1.0, 2.0)
    2.0
    """
    if not isinstance(condition, Expression):
        chosen = x if plain_number(condition) else y
        return as_expression(chosen) if isinstance(x, Expression) or isinstance(y, Expression) else chosen
    return make("where", condition, x, y)
