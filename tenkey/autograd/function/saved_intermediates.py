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
from ...core.tree import flatten, tree_map
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
    """Remove the attributes that hold an output from ``notes``; return them in the form that ``restored`` takes."""
    aside = {}
    numbers = {id(output): nr for nr, output in enumerate(outputs) if isinstance(output, Tensor)}
    for name, value in tuple(notes.items()):
        if name.startswith("_"):
            continue
        if any(id(leaf) in numbers for leaf in flatten(value)):
            aside[name] = tree_map(
                lambda x: SavedOutput(x, numbers[id(x)]) if id(x) in numbers else x, value, bare=True
            )
            del notes[name]
    return aside


def restored(node: Node, name: str, kept: Any) -> Any:
    """Return an attribute that was put aside."""
    return tree_map(lambda x: x.unpack(node, name) if x.__class__ is SavedOutput else x, kept, bare=True)
