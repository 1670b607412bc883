"""Types of the scalar functions: with an expression among the arguments they return one, else a number.

The decorators only inform type checkers. If the result were a plain union, every caller that passes an expression would
have to prove that it did not get a float.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar, overload

from .expression import Expression, Operand

__all__ = ["Binary", "Condition", "ScalarFunction", "Ternary", "Unary", "binary", "ternary", "unary"]

Condition: TypeAlias = Expression | bool

ScalarFunction: TypeAlias = (
    Callable[[Expression], Any]
    | Callable[[], Any]
    | Callable[[Expression, Expression], Any]
    | Callable[[Expression, Expression, Expression], Any]
    | Callable[[Expression, Expression, Expression, Expression], Any]
    | Callable[[Expression, Expression, Expression, Expression, Expression], Any]
    | Callable[[Expression, Expression, Expression, Expression, Expression, Expression], Any]
    | Callable[[Expression, Expression, Expression, Expression, Expression, Expression, Expression], Any]
    | Callable[[Expression, Expression, Expression, Expression, Expression, Expression, Expression, Expression], Any]
)
"""The result of ``scalar=lambda T:``. Arities are listed because a lambda's parameters have no type with ``...``."""


_Value_co = TypeVar("_Value_co", covariant=True)  # float, or bool for a condition


class Unary(Protocol[_Value_co]):
    """A function of a number."""

    @overload
    def __call__(self, x: Expression, /) -> Expression: ...
    @overload
    def __call__(self, x: float, /) -> _Value_co: ...
    @overload
    def __call__(self, x: Operand, /) -> Expression | _Value_co: ...


class Binary(Protocol[_Value_co]):
    """A function of two numbers or conditions."""

    @overload
    def __call__(self, x: Expression, y: Operand, /) -> Expression: ...
    @overload
    def __call__(self, x: Operand, y: Expression, /) -> Expression: ...
    @overload
    def __call__(self, x: float, y: float, /) -> _Value_co: ...
    @overload
    def __call__(self, x: Operand, y: Operand, /) -> Expression | _Value_co: ...


class Ternary(Protocol):
    """A function of three numbers, of which the first may be a condition."""

    @overload
    def __call__(self, x: Expression, y: Operand, z: Operand, /) -> Expression: ...
    @overload
    def __call__(self, x: Operand, y: Expression, z: Operand, /) -> Expression: ...
    @overload
    def __call__(self, x: Operand, y: Operand, z: Expression, /) -> Expression: ...
    @overload
    def __call__(self, x: float, y: float, z: float, /) -> float: ...
    @overload
    def __call__(self, x: Operand, y: Operand, z: Operand, /) -> Operand: ...


def _same(function: Any) -> Any:
    return function


# Decorators that give a function of numbers, of which the first of three may be a condition, its overloads.
unary: Callable[[Callable[[Operand], Operand]], Unary[float]] = _same
binary: Callable[[Callable[[Operand, Operand], Operand]], Binary[float]] = _same
ternary: Callable[[Callable[[Operand, Operand, Operand], Operand]], Ternary] = _same
