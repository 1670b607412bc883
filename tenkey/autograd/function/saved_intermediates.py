"""What a ``Function`` keeps beside its inputs: intermediate results, and outputs as notes on its context.

Note [Saved intermediates]
~~~~~~~~~~~~~~~~~~~~~~~~~~
``forward`` is not recorded, so a tensor that was computed in it and saved, but is neither an input nor an output, has
no history. A backward that is itself recorded would take it for a constant, and a gradient of the gradient would be
another number than the right one. So in a recorded backward it comes with a node that leads to the inputs and raises
when a gradient reaches it. Guarded by
``tests/autograd/function/test_function_saved.py::test_a_saved_intermediate_refuses_a_second_order``.

Note [Outputs kept on the context]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The context is the node that an output refers to, so an output among its attributes would be a cycle, which keeps the
graph alive until the cyclic collector runs. Such attributes are put aside as saved outputs (Note [Saving an output])
and made anew when they are read. Guarded by
``tests/autograd/function/test_function_saved.py::test_an_output_on_the_context``.
"""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor, make_view
from ...core.word import REQUIRES_GRAD
from ..saved_tensors.saved import SavedOutput
from ..tape.node import NO_EDGE, DelayedError, Node, record_node

__all__ = ["guarded", "positions_of_intermediates", "put_aside", "restored"]


def positions_of_intermediates(saved: tuple[Tensor | None, ...], inputs: Any, outputs: list[Any]) -> tuple[int, ...]:
    """Which of the tensors that are to be saved are neither inputs nor outputs and could carry a gradient."""
    found = []
    for nr, tensor in enumerate(saved):
        if tensor is None or tensor._word & REQUIRES_GRAD or tensor.dtype.kind not in "fcV":
            continue
        if not any(tensor is one for one in inputs) and not any(tensor is one for one in outputs):
            found.append(nr)
    return tuple(found)


def guarded(node: Node, tensors: tuple[Tensor | None, ...], positions: tuple[int, ...]) -> tuple[Tensor | None, ...]:
    """The saved tensors, with an error behind those at ``positions`` (Note [Saved intermediates])."""
    listed = list(tensors)
    for nr in positions:
        tensor = listed[nr]
        if tensor is None:
            continue
        listed[nr] = alias = make_view(tensor, tensor._data)
        guard = DelayedError(
            RuntimeError,
            f"[{node.name()}] double backward reached saved_tensors[{nr}], an intermediate result of forward (neither "
            "an input nor an output): it has no history, so the gradient through it would be a wrong number. Return it "
            "as a further output of forward and save that, or compute it again in backward from saved inputs.",
        )
        record_node(guard, tuple([edge for edge in node.next_edges if edge is not NO_EDGE]), [alias])
    return tuple(listed)


def put_aside(notes: dict[str, Any], outputs: list[Any]) -> dict[str, Any]:
    """Take the notes that hold an output out of ``notes``; what is returned gives them back through ``restored``."""
    aside = {}
    for name, value in tuple(notes.items()):
        if name.startswith("_"):
            continue
        kept = _kept(value, outputs)
        if kept is not value:
            aside[name] = kept
            del notes[name]
    return aside


def _kept(value: Any, outputs: list[Any]) -> Any:
    """The value with saved outputs in the place of outputs; itself if it holds none."""
    if isinstance(value, Tensor):
        nr = next((i for i, one in enumerate(outputs) if one is value), None)
        return value if nr is None else SavedOutput(value, nr)
    if value.__class__ is list or value.__class__ is tuple:
        items = [_kept(item, outputs) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else value.__class__(items)
    if value.__class__ is dict:
        found = {key: _kept(item, outputs) for key, item in value.items()}
        return value if all(found[key] is value[key] for key in value) else found
    return value


def restored(node: Node, name: str, kept: Any) -> Any:
    """The note as it was kept."""
    if kept.__class__ is SavedOutput:
        return kept.unpack(node, name)
    if kept.__class__ is list or kept.__class__ is tuple:
        return kept.__class__([restored(node, name, item) for item in kept])
    if kept.__class__ is dict:
        return {key: restored(node, name, item) for key, item in kept.items()}
    return kept
