"""Saved tensors: what a node keeps for its formula, and the check that nobody changed it.

Note [Saving an output]
~~~~~~~~~~~~~~~~~~~~~~~
A node that saved its own output tensor would hold what holds it. So an output is saved as a tensor without history on
the same memory and storage; at unpacking the node is attached again, so that a second order exists. Guarded by
``tests/autograd/engine/test_autograd_memory.py::test_saved_output_makes_no_cycle``.
"""

from __future__ import annotations

from typing import Any, Final

from ...core.tensor import Tensor, make_tensor, storage_of, version_of, with_class
from ...core.word import INHERITED, REQUIRES_GRAD
from ...dispatch.local_state import get_state
from ..tape.node import Node, set_history

__all__ = ["FREED", "SavedOutput", "SavedTensor", "alone", "save_input", "save_output", "unpack"]

FREED: Final = (
    "[{node}] Trying to backward through the graph a second time (or to access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed by backward() and grad(). Specify retain_graph=True "
    "in the first of these calls if you need to go through the graph again."
)
_MODIFIED: Final = (
    "[{node}] one of the variables needed for gradient computation has been modified by an inplace operation: the "
    "saved tensor {what} of shape {shape}, dtype {dtype}{origin} is at version {now}; expected version {then} instead. "
    "Use the functional form of the operation that changed it, or save a copy with clone().{history}"
)


class SavedTensor:
    """An input, saved itself, with the version it had."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.version = 0 if tensor._storage is None else version_of(tensor)

    def unpack(self, node: Node, what: str) -> Tensor:
        """The tensor, if it is as it was."""
        tensor = self.tensor
        if tensor._storage is not None and version_of(tensor) != self.version:
            raise RuntimeError(_modified(node, what, tensor, self.version))
        return tensor


def _modified(node: Node, what: str, tensor: Tensor, version: int, origin: tuple[Node, int] | None = None) -> str:
    from ..tape.call_sites import history_of  # errors alone need it

    meta = tensor._autograd
    if origin is None and meta is not None and meta.node is not None:
        origin = meta.node, meta.output_nr
    return _MODIFIED.format(
        origin="" if origin is None else f", which is output {origin[1]} of {origin[0].name()},",
        node=node.name(),
        what=what,
        shape=tensor.shape,
        dtype=tensor.dtype,
        now=version_of(tensor),
        then=version,
        history=history_of(node, tensor),
    )


class SavedOutput:
    """An output, saved without its history (Note [Saving an output])."""

    __slots__ = ("data", "output_nr", "storage", "version", "word")

    def __init__(self, tensor: Tensor, output_nr: int = 0) -> None:
        self.word = tensor._word & INHERITED
        self.storage = storage_of(tensor)
        # what the storage refers to is not referred to again: in-place operations count who looks at the memory
        self.data = None if self.storage.buffer is tensor._data else tensor._data
        self.version = self.storage.version
        self.output_nr = output_nr

    def unpack(self, node: Node, what: str) -> Tensor:
        """The tensor, if it is as it was; with its node attached again, if calls are recorded here."""
        made = make_tensor(self.storage.buffer if self.data is None else self.data, self.word)
        made._storage = self.storage
        if self.storage.version != self.version:
            raise RuntimeError(_modified(node, what, made, self.version, (node, self.output_nr)))
        state = get_state()
        if state is None or not state.exclude & REQUIRES_GRAD:
            set_history(made, node, self.output_nr)
        return made


def save_input(tensor: Any) -> Any:
    """Save an input; lists of tensors are saved element by element, None stays None."""
    if tensor is None:
        return None
    if isinstance(tensor, (list, tuple)):
        return [save_input(item) for item in tensor]
    return SavedTensor(tensor)


save_output = SavedOutput


def alone(tensor: Tensor) -> Tensor:
    """The same memory without history, and without the handle that has one."""
    made = make_tensor(tensor._data, tensor._word & INHERITED)
    made._storage = storage_of(tensor)
    return with_class(tensor.__class__, made)


def unpack(saved: Any, node: Node, what: str) -> Any:
    """The saved tensor or list of tensors; raises if it was freed."""
    if saved is None:
        if getattr(node, "released", False):
            raise RuntimeError(FREED.format(node=node.name()))
        return None
    if isinstance(saved, list):
        return [unpack(item, node, what) for item in saved]
    return saved.unpack(node, what)
