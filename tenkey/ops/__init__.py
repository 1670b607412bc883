"""The built-in operators, one block each, and ``tk.ops.<namespace>.<operator>.<overload>`` for direct calls."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..dispatch.calling.overloads import OperatorNamespace
from ..dispatch.errors import OperatorAttributeError
from ..dispatch.registry import registry
from ..dispatch.tags import Tag
from . import builtin, declare, scalar

__all__ = ["PointwiseOperator", "builtin", "declare", "pointwise_operators", "scalar"]


class PointwiseOperator(NamedTuple):
    """One row of :func:`pointwise_operators`."""

    name: str
    arity: int
    domain: tuple[float, float]
    call: Any


def pointwise_operators() -> list[PointwiseOperator]:
    """Return the built-in pointwise operators: name, number of tensor arguments, sampling interval, and callable."""
    found = []
    for op in registry:
        facet = op.facets.get("Pointwise")
        if facet is not None and op.schema.namespace == "tk" and Tag.DERIVED not in op.tags:
            found.append(PointwiseOperator(op.name, len(facet.tensors), facet.domain, op.call))
    return found


def __getattr__(namespace: str) -> OperatorNamespace:
    if namespace.startswith("__"):
        raise AttributeError(namespace)
    with registry.lock:
        known = registry.operators.namespaces
        if namespace in known:
            found = registry.namespace(namespace)
            registry.operators.cached_in(globals(), namespace, namespace, found)
            return found
    import difflib

    close = ", ".join(difflib.get_close_matches(namespace, filter(None, known))) or "none"
    raise OperatorAttributeError(
        f"[tk.ops] there are no operators in a namespace {namespace!r}. Close: {close}. Import the module that "
        "defines them, or define one with tk.library.Library."
    )
