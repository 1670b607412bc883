"""Backward functions that are not themselves differentiable."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...core.tensor import Tensor, make_view
from ...core.tree import tensors_in
from ...core.word import REQUIRES_GRAD
from ...dispatch.local_state import StateGuard
from ..grad_mode import is_grad_enabled
from ..tape.node import DelayedError, edge_of, record_node

__all__ = ["once_differentiable"]


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a ``backward`` that is not itself differentiable: a second order is an error, not a wrong number.

    >>> import tenkey as tk
    >>> class Double(tk.autograd.Function):
    ...     forward = staticmethod(lambda ctx, x: x * 2)
    ...     backward = staticmethod(once_differentiable(lambda ctx, g: g * 2))
    >>> x = tk.tensor(1.0, requires_grad=True)
    >>> Double.apply(x).backward()
    >>> x.grad.item()
    2.0
    """

    @functools.wraps(function)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        with StateGuard(exclude=REQUIRES_GRAD):
            results = function(ctx, *grads)
        if not is_grad_enabled():
            return results
        watched = [edge_of(tensor) for tensor in tensors_in(grads)]
        watched += [saved.edge(ctx) for _, saved in ctx._kept_values() if saved is not None]
        watched = [edge for edge in watched if edge[0] is not None]
        if not watched and not any(ctx.needs_input_grad):
            return results
        node = DelayedError(
            RuntimeError,
            f"[{ctx.name()}] trying to differentiate twice a function that was marked with @once_differentiable: its "
            "backward is not recorded.",
        )
        listed = results if isinstance(results, tuple) else (results,)
        made = [make_view(one, one._data) if isinstance(one, Tensor) else one for one in listed]
        record_node(node, (*ctx.next_edges, *watched), made)
        return tuple(made) if isinstance(results, tuple) else made[0]

    return wrapper
