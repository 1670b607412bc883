"""Pointwise operators that are made for another operator: its derivatives, and the steps of its composition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch.operator import Operator
from ..dispatch.registry import registry
from ..dispatch.schema import parse_schema
from ..dispatch.tags import Tag
from .declare.facets import Pointwise
from .declare.promotion import SAME
from .scalar import substitute
from .scalar.expression import Expression

__all__ = ["derived_operator"]


def derived_operator(
    operator: Operator,
    suffix: str,
    arguments: str,
    expression: Expression,
    variables: tuple[str, ...],
    domain: Any,
    boolean: tuple[str, ...] = (),
) -> Operator:
    """Return the pointwise operator of an expression derived from an operator; define it on the first call."""
    overload = f"_{operator.schema.overload_name}" if operator.schema.overload_name else ""
    name = f"{operator.schema.name}{overload}_{suffix}"

    def scalar(T: Any) -> Callable[..., Any]:
        return lambda *values: substitute(expression, dict(zip(variables, values, strict=True)))

    with registry.lock:  # of several threads that need it at the same time, one defines it
        while (known := registry.operators.get(name)) is not None:
            if known.facets.get("DerivedFrom") is operator:
                return known
            name += "_"  # the name belongs to an unrelated operator
        schema = parse_schema(f"{name}({arguments}) -> Tensor")
        facets = {"Pointwise": Pointwise(schema, scalar, SAME, domain, boolean), "DerivedFrom": operator}
        return registry.define(schema, facets=facets, tags=(Tag.POINTWISE, Tag.DERIVED), site=operator.site)
