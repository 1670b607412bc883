"""Types of the scalar functions: an expression among the arguments gives an expression, numbers alone give a number.

The decorators tell this to type checkers and change nothing at run time. A plain union as result would make every
caller that passes an expression prove that it did not get a float back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, cast, overload

from .expression import Expression, Operand

__all__ = ["Condition", "ScalarFunction", "binary", "binary_condition", "ternary", "unary", "unary_condition"]

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
"""What ``scalar=lambda T:`` gives. One by one, since with ``...`` for them a lambda's parameters have no known type."""


class _Unary(Protocol):
    @overload
    def __call__(self, x: Expression, /) -> Expression: ...
    @overload
    def __call__(self, x: float, /) -> float: ...
    @overload
    def __call__(self, x: Operand, /) -> Operand: ...


class _Binary(Protocol):
    @overload
    def __call__(self, x: Expression, y: Operand, /) -> Expression: ...
    @overload
    def __call__(self, x: Operand, y: Expression, /) -> Expression: ...
    @overload
    def __call__(self, x: float, y: float, /) -> float: ...
    @overload
    def __call__(self, x: Operand, y: Operand, /) -> Operand: ...


class _Ternary(Protocol):
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


class _UnaryCondition(Protocol):
    @overload
    def __call__(self, x: Expression, /) -> Expression: ...
    @overload
    def __call__(self, x: float, /) -> bool: ...
    @overload
    def __call__(self, x: Operand, /) -> Condition: ...


class _BinaryCondition(Protocol):
    @overload
    def __call__(self, x: Expression, y: Operand, /) -> Expression: ...
    @overload
    def __call__(self, x: Operand, y: Expression, /) -> Expression: ...
    @overload
    def __call__(self, x: float, y: float, /) -> bool: ...
    @overload
    def __call__(self, x: Operand, y: Operand, /) -> Condition: ...


def unary(function: Callable[[Operand], Operand]) -> _Unary:
    """Number to number."""
    return cast(_Unary, function)


def binary(function: Callable[[Operand, Operand], Operand]) -> _Binary:
    """Two numbers to a number."""
    return cast(_Binary, function)


def ternary(function: Callable[[Operand, Operand, Operand], Operand]) -> _Ternary:
    """Three numbers (the first may be a condition) to a number."""
    return cast(_Ternary, function)


def unary_condition(function: Callable[[Operand], Condition]) -> _UnaryCondition:
    """Number to condition."""
    return cast(_UnaryCondition, function)


def binary_condition(function: Callable[[Operand, Operand], Condition]) -> _BinaryCondition:
    """Two numbers to a condition."""
    return cast(_BinaryCondition, function)
