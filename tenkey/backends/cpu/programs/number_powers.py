"""Powers with a small exponent: products and roots instead of a power function, which takes 20 times as long.

``x ** 3`` is ``x * x * x``, as in PyTorch, with an error below 1 ulp; squares, roots and reciprocals are rounded
once. The same holds in expressions that contain powers, such as the gradient of a power.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from ....core.tensor import Tensor
from ....core.word import WEAK_MASK
from ....dispatch.schema import parse_schema
from ....ops.declare.facets import Pointwise
from ....ops.declare.promotion import SAME
from ....ops.scalar import constant, free_variables, sqrt, substitute, where
from ....ops.scalar.expansions import rewritten
from ....ops.scalar.expression import Expression, as_expression, make, topological_order
from ....ops.scalar.reference import REFERENCE
from .program import Program, program_of

__all__ = ["kernel_by_exponent", "power_program"]


def _root(x: Any) -> Any:
    """Return ``pow(x, 0.5)``, which is a square root except for -0.0 and -inf (C99, F.10.4.4)."""
    return where(x == 0, 0.0, where(x == -math.inf, math.inf, sqrt(x)))


_KEPT: Final = 256  # how many exponents are remembered
_SCHEMA: Final = parse_schema("power(Tensor x) -> Tensor")
_PRODUCTS: Final[dict[float, Callable[[Any], Any]]] = {
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    -1.0: lambda x: 1 / x,
    -2.0: lambda x: 1 / (x * x),
    0.5: _root,
    -0.5: lambda x: 1 / _root(x),
}


@cache
def power_program(dtype: np.dtype, exponent: float) -> Program | None:
    """Return the program that raises floats to this exponent, or None if it needs the power function."""
    product = _PRODUCTS.get(exponent)
    if product is None or dtype.kind != "f":
        return None
    facet = Pointwise(_SCHEMA, lambda T: product, SAME, (0, 1))
    return program_of(f"x ** {exponent:g}", facet, dtype, dtype)


def kernel_by_exponent(
    facet: Pointwise, general: Callable[..., Tensor], make_kernel: Callable[[Pointwise], Callable[..., Tensor]]
) -> Callable[..., Tensor]:
    """Return a kernel that looks at the number which is the exponent of the powers in an expression.

    For exponents whose powers are products it calls the kernel that ``make_kernel`` returns for the expression without
    this argument, otherwise ``general``.
    """
    name = _exponent(facet)
    if name is None:
        return general
    place = facet.parameters.index(name)
    known: dict[float, Callable[..., Tensor] | None] = {}

    def kernel(*args: Any) -> Tensor:
        others = list(args)
        number = others.pop(place)
        if not number._word & WEAK_MASK or any(x._word & WEAK_MASK for x in others):
            return general(*args)
        value = float(number._data)
        try:
            found = known[value]
        except KeyError:
            special = _without(facet, name, value)
            if len(known) >= _KEPT:
                known.clear()
            found = known[value] = None if special is None else make_kernel(special)
        return general(*args) if found is None else found(*others)

    return kernel


def _exponent(facet: Pointwise) -> str | None:
    """Return the tensor argument that all exponents in the expression are made of, if the others are tensors too."""
    powers = [node for node in topological_order([facet.expression]) if node.operation == "pow"]
    names = {name for node in powers for name in free_variables(node.operands[1])}
    if len(names) != 1 or names.intersection(facet.boolean) or facet.indices or facet.parameters != facet.tensors:
        return None
    (name,) = names
    return name if len(facet.parameters) > 1 else None


def _without(facet: Pointwise, name: str, value: float) -> Pointwise | None:
    """Return the facet with a number in place of an argument, or None if a power remains that is not a product."""
    expression = _simplified(substitute(facet.expression, {name: constant(value)}))
    rest = tuple([p for p in facet.parameters if p != name])
    if expression is None or free_variables(expression) != set(rest):
        return None

    def scalar(T: Any) -> Callable[..., Any]:
        return lambda *values: substitute(expression, dict(zip(rest, values, strict=True)))

    schema = parse_schema(f"{facet.schema.name}({', '.join(f'Tensor {p}' for p in rest)}) -> Tensor")
    return Pointwise(schema, scalar, facet.promotion, facet.domain, facet.boolean)


def _simplified(expression: Expression) -> Expression | None:
    """Compute what does not depend on variables, and write powers as products; None if one needs the function."""
    remain: list[Expression] = []

    def change(node: Expression, operands: list[Expression]) -> Any:
        values = [operand.value for operand in operands]
        if operands and None not in values and node.operation in REFERENCE:
            return as_expression(REFERENCE[node.operation](*values))
        if node.operation == "where" and values[0] is not None:
            return operands[1] if values[0] else operands[2]
        if node.operation == "pow" and values[1] is not None:
            exponent = float(values[1])
            if exponent in (0.0, 1.0):
                return operands[0] if exponent else as_expression(1.0)
            if exponent in _PRODUCTS:
                return as_expression(_PRODUCTS[exponent](operands[0]))
            remain.append(node)
        return make(node.operation, *operands) if operands else node

    (found,) = rewritten([expression], change)
    return None if remain else found
