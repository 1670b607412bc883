"""Kernels of composite operators, on every backend."""

from __future__ import annotations

from ..dispatch.kernel import Handle, Kernel
from ..dispatch.keys import DispatchKey
from ..dispatch.operator import Operator
from ..dispatch.registry import Registry

__all__ = ["install_composite_kernels"]


def _install(operator: Operator) -> list[Handle]:
    composite = operator.facets.get("Composite")
    if composite is None:
        return []
    alias = DispatchKey.CompositeImplicitAutograd if composite.implicit else DispatchKey.CompositeExplicitAutograd
    kernel = Kernel(composite.function, alias, origin="generated", composed=True)
    return [operator.registry.impl(operator.name, kernel)]


def install_composite_kernels(registry: Registry) -> None:
    """Register the function of each operator with a ``Composite`` facet as its kernel on every backend."""
    registry.subscribe(_install)
