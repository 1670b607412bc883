"""Functions that traverse whole expressions, without recursion (see Note [No recursion])."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .expression import Expression, Operand, as_expression, index, make, topological_order
from .reference import REFERENCE

__all__ = ["evaluate", "free_variables", "indices", "is_closed", "operations", "substitute"]


def free_variables(expression: Expression) -> frozenset[str]:
    """Return the names of the variables in `expression`.

    >>> from tenkey.ops.scalar import variable
    >>> sorted(free_variables(variable("x") * 2 + variable("y")))
    ['x', 'y']
    """
    nodes = topological_order([expression])
    return frozenset(node.name for node in nodes if node.name is not None and node.operation == "variable")


def indices(outputs: Iterable[Expression]) -> dict[str, int | None]:
    """Return the index variables in the expressions: axes by name, in order, with None for the whole result.

    >>> from tenkey.ops.scalar import index
    >>> indices([index(1) + index(-1), index(0) * index()])
    {'index_0': 0, 'index_1': 1, 'index_m1': -1, 'index_flat': None}
    """
    names = {str(node.name) for node in topological_order(outputs) if node.operation == "index"}
    axes = [int(name.removeprefix("index_").replace("m", "-")) for name in names - {"index_flat"}]
    found: dict[str, int | None] = {str(index(axis).name): axis for axis in sorted(axes, key=lambda a: (a < 0, abs(a)))}
    return {**found, "index_flat": None} if "index_flat" in names else found


def operations(expression: Expression) -> frozenset[str]:
    """Return the operations in `expression`, which variables, index variables and constants are not.

    >>> from tenkey.ops.scalar import exp, variable
    >>> sorted(operations(exp(variable("x")) + 1))
    ['add', 'exp']
    """
    nodes = topological_order([expression])
    return frozenset(node.operation for node in nodes if node.operation not in ("variable", "index", "constant"))


def is_closed(expression: Expression) -> bool:
    """Tell whether the value depends neither on a variable, nor on an index, nor on the compute type."""
    seen: set[Expression] = set()
    stack = [expression]
    while stack:  # not topological_order, because the first leaf decides in most cases
        node = stack.pop()
        if node.operation in ("variable", "index", "eps"):
            return False
        if node not in seen:
            seen.add(node)
            stack.extend(node.operands)
    return True


def evaluate(expression: Expression, environment: Mapping[str, float]) -> float:
    """Evaluate `expression` on Python numbers: the reference against which emitted code is tested.

    `environment` has a value for every free variable and index variable, by name (KeyError names a missing one); `eps`
    is that of float64.

    >>> from tenkey.ops.scalar import sqrt, variable
    >>> evaluate(sqrt(variable("x")) + 1, {"x": 9.0})
    4.0
    """
    values: dict[Expression, float] = {}
    for node in topological_order([expression]):
        if node.name is not None:
            if node.name not in environment:
                raise KeyError(f"evaluate: no value for variable {node.name!r}, got values for {sorted(environment)}.")
            values[node] = environment[node.name]
        elif node.value is not None:
            values[node] = node.value
        else:
            values[node] = REFERENCE[node.operation](*(values[operand] for operand in node.operands))
    return values[expression]


def substitute(expression: Expression, mapping: Mapping[str, Operand]) -> Expression:
    """Replace variables in `expression`, simultaneously, by expressions or numbers; index variables have names too.

    >>> from tenkey.ops.scalar import variable
    >>> print(substitute(variable("x") - variable("y"), {"x": variable("y"), "y": 1}))
    y - 1
    """
    new: dict[Expression, Expression] = {}
    for node in topological_order([expression]):
        if node.name is not None:
            new[node] = as_expression(mapping[node.name]) if node.name in mapping else node
        elif all(new[operand] is operand for operand in node.operands):
            new[node] = node
        else:
            new[node] = make(node.operation, *(new[operand] for operand in node.operands))
    return new[expression]
