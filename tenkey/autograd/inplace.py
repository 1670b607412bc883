"""In-place operations under autograd.

Note [In place, recorded]
~~~~~~~~~~~~~~~~~~~~~~~~~
An in-place call that needs a gradient is recorded as its functional form; the result is then written into the tensor's
memory, and the tensor becomes that node's output. So a formula never sees a half-written tensor. A leaf that requires a
gradient refuses; so does, for now, a tensor that has views or is one, because the history of the others would have to
be rebuilt. Guarded by ``tests/test_inplace.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from ..core.tensor import Tensor, storage_of
from ..core.word import GRADIENT
from ..dispatch.kernel import Handle, Kernel
from ..dispatch.keys import DispatchKey
from ..dispatch.local import StateGuard
from ..dispatch.operator import Operator
from ..ops.builtin.copying import cast
from ..ops.builtin.view import broadcast_to
from .record import below_autograd

__all__ = ["install_inplace"]

_LEAF: Final = (
    "[{operator}] a leaf Variable that requires grad is being used in an in-place operation: do it in a "
    "tk.no_grad() block, or use the functional form."
)
_VIEW: Final = (
    "[{operator}] the tensor is a view of another one or has views, and the in-place operation needs a gradient: its "
    "history cannot be rebuilt yet. Use the functional form, or clone() first."
)
_MUTATING: Final = (
    "[{operator}] mutates its argument {argument!r} and a gradient is asked for, but it has no gradient formula: call "
    "it under tk.no_grad() or on x.detach()."
)


def _has_relatives(x: Tensor) -> bool:
    """Whether other tensors may look at the same memory."""
    if isinstance(x._storage, Tensor):
        return True
    data = x._data
    if getattr(data, "base", None) is not None:
        return True
    holder = data if getattr(data, "buffer", None) is None else data.buffer
    return sys.getrefcount(holder) > (4 if holder is data else 3)


def _inplace(operator: Operator, word: int) -> Callable[..., Any]:
    functional = operator.facets["Inplace"].functional
    below = below_autograd(word)
    cache = operator.cache

    def kernel(x: Tensor, *args: Any) -> Tensor:
        if x._word & GRADIENT and x.is_leaf:
            raise RuntimeError(_LEAF.format(operator=operator.schema.base_name))
        if _has_relatives(x):
            raise NotImplementedError(_VIEW.format(operator=operator.schema.base_name))
        result = functional.call(x, *args) if functional is not None else _copied(x, args[0])
        if result.shape != x.shape or result.dtype != x.dtype:
            with StateGuard(exclude=GRADIENT):
                return cache[below](x, *args)  # type: ignore[no-any-return]  # raises the error that fits
        with StateGuard(exclude=GRADIENT):
            x._data[...] = result._data
        storage_of(x).version += 1
        x._autograd = result._autograd
        x._word |= GRADIENT
        return x

    return kernel


def _copied(x: Tensor, source: Tensor) -> Tensor:
    moved = source if source.dtype == x.dtype else cast(source, x.dtype)
    return broadcast_to(moved, x.shape).clone()  # type: ignore[no-any-return]


def _refuse(operator: Operator, word: int) -> Callable[..., Any]:
    mutated = [(i, a.name) for i, a in enumerate(operator.schema.arguments) if a.is_mutable]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(_MUTATING.format(operator=operator.name, argument=mutated[0][1]))

    return kernel


def _install(operator: Operator) -> list[Handle]:
    if not operator.schema.is_mutable or "NotDifferentiable" in operator.facets:
        return []
    rule = _inplace if "Inplace" in operator.facets else _refuse
    kernel = Kernel(rule, DispatchKey.Autograd, origin="generated", specialize=rule, only_with=GRADIENT)
    return [operator.registry.impl(operator.name, kernel)]


def install_inplace(registry: Any) -> None:
    """Subscribe to all operators."""
    registry.subscribe(_install)
