"""Types of the scalar functions: with an expression among the arguments they return one, else a number.

The decorators only inform type checkers. If the result were a plain union, every caller that passes an expression would
have to prove that it did not get a float.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, cast, overload

from .expression import Expression, Operand

__all__ = [
    "Binary", "BinaryCondition", "Condition", "ScalarFunction", "Ternary", "Unary", "UnaryCondition", "binary",
    "ternary", "unary",
]  # fmt: skip

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


class Unary(Protocol):
    """A function of a number."""

    @overload
    def __call__(self, x: Expression, /) -> Expression: ...
    @overload
    def __call__(self, x: float, /) -> float: ...
    @overload
    def __call__(self, x: Operand, /) -> Operand: ...


class Binary(Protocol):
    """A function of two numbers."""

    @overload
    def __call__(self, x: Expression, y: Operand, /) -> Expression: ...
    @overload
    def __call__(self, x: Operand, y: Expression, /) -> Expression: ...
    @overload
    def __call__(self, x: float, y: float, /) -> float: ...
    @overload
    def __call__(self, x: Operand, y: Operand, /) -> Operand: ...


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


class UnaryCondition(Protocol):
    """A condition on a number."""

    @overload
    def __call__(self, x: Expression, /) -> Expression: ...
    @overload
    def __call__(self, x: float, /) -> bool: ...
    @overload
    def __call__(self, x: Operand, /) -> Condition: ...


class BinaryCondition(Protocol):
    """A condition on two numbers or conditions."""

    @overload
    def __call__(self, x: Expression, y: Operand, /) -> Expression: ...
    @overload
    def __call__(self, x: Operand, y: Expression, /) -> Expression: ...
    @overload
    def __call__(self, x: float, y: float, /) -> bool: ...
    @overload
    def __call__(self, x: Operand, y: Operand, /) -> Condition: ...


def unary(function: Callable[[Operand], Operand]) -> Unary:
    """Give a function of a number its overloads."""
    return cast(Unary, function)


def binary(function: Callable[[Operand, Operand], Operand]) -> Binary:
    """Give a function of two numbers its overloads."""
    return cast(Binary, function)


def ternary(function: Callable[[Operand, Operand, Operand], Operand]) -> Ternary:
    """Give a function of three numbers, of which the first may be a condition, its overloads."""
    return cast(Ternary, function)
