"""Record that values of a connected tensor leave the graph, for the layer that asks for it."""

from __future__ import annotations

from ..dispatch.local_state import get_state

__all__ = ["Departures", "departed"]


class Departures:
    """A value of the local state: the calls by which tensors that require a gradient left the graph while it is active.

    ``detach()``, ``item()``, ``tolist()``, ``data``, ``array``, ``no_grad`` and ``inference_mode`` are such calls: what
    is computed from their results is constant for a gradient.
    """

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: list[str] = []


def departed(call: str) -> None:
    """Record a call by which a tensor that requires a gradient left the graph."""
    state = get_state()
    if state is not None:
        for value in state.values:
            if value.__class__ is Departures:
                value.calls.append(call)
