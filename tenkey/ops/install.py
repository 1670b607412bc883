"""What follows from a declaration on every backend: composite kernels, and version bumps of what is mutated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.storage import Storage
from ..core.tensor import Tensor, storage_of
from ..dispatch.kernel import Handle, Kernel
from ..dispatch.keys import DispatchKey, DispatchKeySet, key_mask
from ..dispatch.operator import Operator
from ..dispatch.registry import Registry

__all__ = ["install"]


def _install(operator: Operator) -> list[Handle]:
    handles: list[Handle] = []
    composite = operator.facets.get("Composite")
    if composite is not None:
        alias = DispatchKey.CompositeImplicitAutograd if composite.implicit else DispatchKey.CompositeExplicitAutograd
        handles.append(operator.registry.impl(operator.name, Kernel(composite.function, alias, origin="generated")))
    if operator.schema.is_mutable:
        kernel = Kernel(_bump, DispatchKey.ADInplaceOrView, origin="generated", specialize=_bump)
        handles.append(operator.registry.impl(operator.name, kernel))
    return handles


def _bump(operator: Operator, word: int) -> Callable[..., Any]:
    """Redispatch, then bump the version of every argument that the schema says is mutated."""
    traits = word & ~key_mask()
    below = DispatchKeySet.from_word(word).below(DispatchKey.ADInplaceOrView).mask | traits
    arguments = operator.schema.arguments
    positions = [(i, a.name) for i, a in enumerate(arguments) if a.is_mutable]
    cache = operator.cache

    if len(positions) == 1 and positions[0][0] == 0 and str(arguments[0].type) == "Tensor":
        function = cache[below]  # what changes its first argument, as nearly all of them do

        def first(x: Tensor, *args: Any, **kwargs: Any) -> Any:
            result = function(x, *args, **kwargs)
            storage = x._storage
            (storage if storage.__class__ is Storage else storage_of(x)).version += 1
            return result

        return first

    def kernel(*args: Any, **kwargs: Any) -> Any:
        result = cache[below](*args, **kwargs)
        for position, name in positions:
            value = args[position] if position < len(args) else kwargs.get(name)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, Tensor):
                    storage_of(tensor).version += 1
        return result

    return kernel


def install(registry: Registry) -> None:
    """Subscribe to all operators, present and future."""
    registry.subscribe(_install)
