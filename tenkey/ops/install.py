"""What follows from a declaration on every backend: composite kernels, and version bumps of what is mutated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.storage import Storage
from ..core.tensor import Tensor, storage_of
from ..core.word import REQUIRES_GRAD
from ..dispatch.kernel import Handle, Kernel
from ..dispatch.keys import DispatchKey, word_below
from ..dispatch.local_state import get_state
from ..dispatch.operator import Operator
from ..dispatch.registry import Registry

__all__ = ["install", "refuse_constant_view"]


def refuse_constant_view(operator: str, x: Tensor) -> None:
    """Raise where calls are recorded: ``x`` needs no gradient, and is a view of a tensor that does."""
    state = get_state()
    if state is None or state.keep & REQUIRES_GRAD:
        root: Any = x._storage
        text = (
            (
                "[{operator}] a view of a leaf Variable that requires grad is being used in an in-place operation: the "
                "view was taken before the leaf of shape {root} required a gradient, or A view was created in no_grad "
                "mode and is being modified inplace with grad mode enabled. Do it in a tk.no_grad() block."
            )
            if root.is_leaf
            else (
                "[{operator}] A view was created in no_grad mode and is being modified inplace with grad mode enabled: "
                "the change would be missing in the history of the tensor that it is a view of, shape {root}. Take the "
                "view and change it both in the tk.no_grad() block, or both outside of it. (The same where A view was "
                "created in inference mode and is being modified inplace in normal mode.)"
            )
        )
        raise RuntimeError(text.format(operator=operator, root=root.shape))


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
    below = word_below(word, DispatchKey.ADInplaceOrView)
    arguments = operator.schema.arguments
    positions = [(i, a.name) for i, a in enumerate(arguments) if a.is_mutable]
    cache = operator.cache

    if len(positions) == 1 and positions[0][0] == 0 and str(arguments[0].type) == "Tensor":
        name = operator.schema.base_name
        function = cache[below]  # what changes its first argument, as nearly all of them do

        def first(x: Tensor, *args: Any, **kwargs: Any) -> Any:
            storage: Any = x._storage
            if storage.__class__ is Storage:
                result = function(x, *args, **kwargs)
                storage.version += 1
                return result
            if storage is not None and storage._word & ~x._word & REQUIRES_GRAD:
                refuse_constant_view(name, x)
            result = function(x, *args, **kwargs)
            storage_of(x).version += 1
            return result

        return first

    def kernel(*args: Any, **kwargs: Any) -> Any:
        for position, name in positions:
            value = args[position] if position < len(args) else kwargs.get(name)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(tensor, Tensor):
                    root: Any = tensor._storage
                    if (
                        root is not None
                        and root.__class__ is not Storage
                        and root._word & ~tensor._word & REQUIRES_GRAD
                    ):
                        refuse_constant_view(operator.schema.base_name, tensor)
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
