"""Values that a ``Function`` keeps besides its inputs: intermediate results, and outputs as attributes of its context.

Note [Saved intermediates]
~~~~~~~~~~~~~~~~~~~~~~~~~~
``forward`` is not recorded, so a saved tensor that was computed in it, and is neither an input nor an output, has no
history. A recorded backward would treat it as a constant, and a second-order gradient would be wrong. Therefore, in a
recorded backward, such a tensor has a node that leads to the inputs and raises an error when a gradient reaches it.
Guarded by ``tests/autograd/function/test_function_saved.py::test_a_saved_intermediate_refuses_a_second_order``.

Note [Outputs kept on the context]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The context is the node that an output refers to, so an output among its attributes would form a cycle, which keeps the
graph alive until the cyclic garbage collector runs. Such attributes are set aside as saved outputs (Note [Saved
tensors]) and rebuilt when they are read. Guarded by
``tests/autograd/function/test_function_saved.py::test_an_output_on_the_context``.
"""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor, make_view
from ...core.tree import map_tensors, tensors_in, tree_map
from ...core.word import REQUIRES_GRAD
from ..saved_tensors.saved import SavedOutput
from ..tape.node import NO_EDGE, DelayedError, Node, record_node

__all__ = ["guarded", "number_of", "positions_of_intermediates", "restored", "set_aside"]


def number_of(tensor: Any, tensors: Any) -> int:
    """Return the position of a tensor in a sequence, by identity; -1 if it is not there."""
    for nr, one in enumerate(tensors):
        if one is tensor:
            return nr
    return -1


def positions_of_intermediates(saved: tuple[Tensor | None, ...], inputs: Any, outputs: list[Any]) -> tuple[int, ...]:
    """Return which tensors to be saved are neither inputs nor outputs and could carry a gradient."""
    found = []
    for nr, tensor in enumerate(saved):
        if tensor is None or tensor._word & REQUIRES_GRAD or tensor.dtype.kind not in "fcV":
            continue
        if number_of(tensor, inputs) < 0 and number_of(tensor, outputs) < 0:
            found.append(nr)
    return tuple(found)


def guarded(node: Node, tensors: tuple[Tensor | None, ...], positions: tuple[int, ...]) -> tuple[Tensor | None, ...]:
    """Return the saved tensors, with a delayed error behind those at ``positions`` (Note [Saved intermediates])."""
    listed = list(tensors)
    for nr in positions:
        tensor = listed[nr]
        if tensor is None:
            continue
        listed[nr] = alias = make_view(tensor, tensor._data)
        guard = DelayedError(
            RuntimeError,
            f"[{node.name()}] double backward reached saved_tensors[{nr}], an intermediate result of forward (neither "
            "an input nor an output): it has no history, so the gradient through it would be wrong. Return it as a "
            "further output of forward and save that, or compute it again in backward from saved inputs.",
        )
        record_node(guard, tuple([edge for edge in node.next_edges if edge is not NO_EDGE]), [alias])
    return tuple(listed)


def set_aside(attributes: dict[str, Any], outputs: list[Any]) -> dict[str, Any]:
    """Remove the attributes that hold an output, and return them in a form that ``restored`` reads."""

    def saved(tensor: Tensor) -> Any:
        nr = number_of(tensor, outputs)
        return tensor if nr < 0 else SavedOutput.of(tensor, nr)

    aside = {}
    for name, value in tuple(attributes.items()):
        if not name.startswith("_") and any(number_of(tensor, outputs) >= 0 for tensor in tensors_in(value)):
            aside[name] = map_tensors(saved, value, bare=True)
            del attributes[name]
    return aside


def restored(node: Node, name: str, value: Any) -> Any:
    """Return the value of an attribute that was set aside."""
    return tree_map(lambda leaf: leaf.unpack(node, name) if leaf.__class__ is SavedOutput else leaf, value, bare=True)
