"""Version bumps of the tensors that operators change, on every backend."""

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

__all__ = ["install_version_bumps", "refuse_constant_view"]


def refuse_constant_view(operator: str, x: Tensor) -> None:
    """Raise if calls are recorded: ``x`` does not require a gradient, but is a view of a tensor that does."""
    state = get_state()
    if state is not None and not state.keep & REQUIRES_GRAD:
        return
    root: Any = x._storage
    if root.is_leaf:
        raise RuntimeError(
            f"[{operator}] a view of a leaf Variable that requires grad is being used in an in-place operation: the "
            f"view was taken before the leaf of shape {root.shape} required a gradient, or A view was created in "
            "no_grad mode and is being modified inplace with grad mode enabled. Do it in a tk.no_grad() block."
        )
    raise RuntimeError(
        f"[{operator}] A view was created in no_grad mode and is being modified inplace with grad mode enabled: the "
        f"change would be missing in the history of its base, a tensor of shape {root.shape}. Take and change the view "
        "both inside of the tk.no_grad() block or both outside of it. (The same holds if A view was created in "
        "inference mode and is being modified inplace in normal mode.)"
    )


def _install(operator: Operator) -> list[Handle]:
    if not operator.schema.is_mutable:
        return []
    kernel = Kernel(_bump, DispatchKey.ADInplaceOrView, origin="generated", specialize=_bump)
    return [operator.registry.impl(operator.name, kernel)]


def _bump(operator: Operator, word: int) -> Callable[..., Any]:
    """Return a kernel that redispatches and then bumps the version of every argument that is mutated."""
    below = word_below(word, DispatchKey.ADInplaceOrView)
    arguments = operator.schema.arguments
    positions = [(i, a.name) for i, a in enumerate(arguments) if a.is_mutable]
    cache = operator.cache

    if len(positions) == 1 and positions[0][0] == 0 and str(arguments[0].type) == "Tensor":
        name = operator.schema.base_name
        function = cache[below]  # nearly all of these operators change only their first argument

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

        def first_of_two(x: Tensor, other: Any) -> Any:  # for ``x += other``, without a tuple and a dict
            storage: Any = x._storage
            if storage.__class__ is not Storage:
                return first(x, other)
            result = function(x, other)
            storage.version += 1
            return result

        def first_of_three(x: Tensor, index: Any, value: Any) -> Any:  # for ``x[index] = value``
            storage: Any = x._storage
            if storage.__class__ is not Storage:
                return first(x, index, value)
            result = function(x, index, value)
            storage.version += 1
            return result

        if any(a.kwarg_only or a.has_default for a in arguments):
            return first
        shorter: dict[int, Any] = {2: first_of_two, 3: first_of_three}
        made = shorter.get(len(arguments), first)
        made.small = getattr(function, "small", None)  # a plan bumps the version itself
        return made  # type: ignore[no-any-return]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        changed: list[Tensor] = []
        for position, name in positions:
            value = args[position] if position < len(args) else kwargs.get(name)
            changed += [x for x in (value if isinstance(value, (list, tuple)) else (value,)) if isinstance(x, Tensor)]
        for tensor in changed:
            root: Any = tensor._storage
            if root is not None and root.__class__ is not Storage and root._word & ~tensor._word & REQUIRES_GRAD:
                refuse_constant_view(operator.schema.base_name, tensor)
        result = cache[below](*args, **kwargs)
        for tensor in changed:
            storage_of(tensor).version += 1
        return result

    return kernel


def install_version_bumps(registry: Registry) -> None:
    """Register a kernel that bumps versions for each operator that changes an argument."""
    registry.subscribe(_install)
