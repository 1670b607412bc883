"""Backward functions that leave the graph while a second derivative may be requested.

Note [Backward functions that leave the graph]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
With ``create_graph=True`` a hand-written backward is recorded. One that computes with NumPy (``g.detach().numpy()``),
with Python numbers (``x.item()``) or in ``no_grad`` returns a result without history, so that a second derivative would
silently lack a term. A result without history can also be right: ``g * (x > 0)`` does not depend on ``x`` where a
derivative exists, and ``g`` is often a constant. The two are told apart by what the backward did: the calls by which a
tensor that requires a gradient leaves the graph (``Departures``) are recorded while it runs. After such a call, results
without history get a node that raises the error when a second derivative reaches it; first derivatives are unaffected.
Guarded by ``tests/autograd/function/test_unconnected.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.departures import Departures
from ...core.tensor import Tensor, make_view
from ...core.tree import tensors_in, tree_map
from ...core.word import REQUIRES_GRAD
from ...dispatch.local_state import switched
from ..tape.node import DelayedError, edge_of, record_node

__all__ = ["connected_to_error", "run_recorded"]


def run_recorded(context: Any, backward: Callable[..., Any], grads: tuple[Any, ...]) -> Any:
    """Call a backward while calls are recorded: see Note [Backward functions that leave the graph]."""
    departures = Departures()
    restore = switched(value=departures)
    try:
        results = backward(context, *grads)
    finally:
        restore()
    if not departures.calls:
        return results
    calls = ", ".join(dict.fromkeys(departures.calls))
    return connected_to_error(
        context,
        grads,
        results,
        f"[{context.name()}] a second derivative is requested, but the backward left the graph (by {calls}), so its "
        "result is not connected to its inputs and the derivative would lack a term: compute the gradient with "
        "operators on the tensors themselves (x > 0 in place of x.detach() > 0), or by a Function or operator with a "
        "gradient of its own; if it cannot be "
        "differentiated, mark the backward with tk.autograd.once_differentiable.",
        kept=tensors_in(grads),
    )


def connected_to_error(context: Any, grads: Any, results: Any, message: str, *, kept: Sequence[Tensor] = ()) -> Any:
    """Give the floating results without history, except for those in ``kept``, a node that raises in a backward."""
    watched = [edge_of(tensor) for tensor in tensors_in(grads)]
    watched += [saved.edge(context) for _, saved in context._kept_values() if saved is not None]
    watched = [edge for edge in watched if edge[0] is not None]
    if not watched and not any(context.needs_input_grad):
        return results
    made: list[Tensor] = []

    def connected(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or leaf._word & REQUIRES_GRAD or leaf.dtype.kind not in "fcV":
            return leaf
        if any(leaf is one for one in kept):
            return leaf
        made.append(make_view(leaf, leaf._data))
        return made[-1]

    results = tree_map(connected, results)
    if made:
        record_node(DelayedError(RuntimeError, message), (*context.next_edges, *watched), made)
    return results
