"""Saved tensors: what a node keeps for its formula, and the check that it has not been modified since.

Note [Saved tensors]
~~~~~~~~~~~~~~~~~~~~
Every form of a saved value has one protocol, :class:`Saved`: ``unpack(node, name)`` returns the tensor or raises,
``edge(node)`` says where its gradient goes, ``nbytes`` is the memory that it keeps alive, and ``packed(stack, node,
name)`` is what hooks put in its place. A node that saved its own output tensor would hold what holds it. So an output
is saved as a tensor without history on the same memory and storage; unpacking attaches it to its node again, so
derivatives of higher order exist. Guarded by
``tests/autograd/engine/test_autograd_memory.py::test_saved_output_makes_no_cycle``.

Note [Values saved as they are]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Most tensors have no storage when they are saved, and so version 0. A generated kernel keeps such an input itself, and
the new storage of such an output, in place of an object with the version; :func:`as_saved` makes that object where it
is needed. Guarded by ``tests/autograd/test_saved_tensors.py::test_values_saved_as_they_are``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Self

import numpy as np

from ...core.storage import Storage
from ...core.tensor import Tensor, make_tensor, storage_of, version_of, with_class
from ...core.word import INFERENCE, INHERITED, REQUIRES_GRAD, WEAK_MASK
from ...core.wrapper import Wrapper
from ...dispatch.local_state import SILENT, get_state, innermost_guard, set_state
from ...ops.aliases import Recording
from ..grad_mode import is_grad_enabled
from ..tape.node import Edge, Node, edge_of, set_history

__all__ = [
    "FREED", "Saved", "SavedList", "SavedOutput", "SavedTensor", "alone", "as_saved", "plain", "refuse_to_save",
    "save_input", "unpack",
]  # fmt: skip

FREED: Final = (
    "[{node}] Trying to backward through the graph a second time (or to access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed by backward() and grad(). Specify retain_graph=True "
    "in the first of these calls if you need to go through the graph again."
)


class Saved:
    """A value that a node keeps in place of a tensor (Note [Saved tensors])."""

    __slots__ = ()

    @property
    def nbytes(self) -> int:
        """The bytes that the value keeps alive; 0 if unknown."""
        return 0

    def unpack(self, node: Node, name: str) -> Any:
        """Return the tensor that was saved under ``name``; raise if it was modified."""
        raise NotImplementedError

    def edge(self, node: Node) -> Edge:
        """Return the edge to which the gradient of the unpacked tensor goes."""
        raise NotImplementedError

    def packed(self, stack: Any, node: Node, name: str) -> Saved:
        """Return the value after the hooks of ``stack`` have packed it."""
        raise NotImplementedError


class SavedTensor(Saved):
    """An input: the tensor itself, with the version it had."""

    __slots__ = ("tensor", "version")  # set by ``of`` and by generated kernels: a class without __init__ is faster
    tensor: Tensor
    version: int

    @classmethod
    def of(cls, tensor: Tensor) -> Self:
        """Save a tensor."""
        made = cls()
        made.tensor = tensor
        made.version = 0 if tensor._storage is None else version_of(tensor)
        return made

    @property
    def nbytes(self) -> int:
        """The bytes of the tensor."""
        return self.tensor.nbytes

    def unpack(self, node: Node, name: str) -> Tensor:
        """Return the tensor if its version is unchanged."""
        tensor = self.tensor
        if tensor._storage is not None and version_of(tensor) != self.version:
            raise _modified(node, name, tensor, self.version)
        return tensor

    def edge(self, node: Node) -> Edge:
        """Return the edge of the tensor."""
        return edge_of(self.tensor)

    def packed(self, stack: Any, node: Node, name: str) -> Saved:
        """Pack the tensor, unless it is a wrapper or a Python number."""
        tensor = self.tensor
        if isinstance(tensor, Wrapper) or tensor._word & WEAK_MASK:
            return self
        self.unpack(node, name)
        refuse_to_save(node.name(), [tensor])
        packed: Saved = stack.pack(tensor, node, name, edge_of(tensor))
        return packed

    def __str__(self) -> str:
        if self.tensor._word & WEAK_MASK:  # a Python number
            return repr(self.tensor._data.item())
        return f"{self.tensor.shape} {self.tensor.dtype}"


class SavedOutput(Saved):
    """An output, without its history (Note [Saved tensors])."""

    __slots__ = ("data", "output_nr", "storage", "version", "word")
    data: Any
    output_nr: int
    storage: Storage
    version: int
    word: int

    @classmethod
    def of(cls, tensor: Tensor, output_nr: int = 0) -> Self:
        """Save an output."""
        made = cls()
        made.word = tensor._word & INHERITED
        made.storage = storage_of(tensor)
        # No second reference to the storage's own array: in-place operations count the references to the memory.
        made.data = None if made.storage.buffer is tensor._data else tensor._data
        made.version = made.storage.version
        made.output_nr = output_nr
        return made

    @property
    def _array(self) -> Any:
        return self.storage.buffer if self.data is None else self.data

    @property
    def nbytes(self) -> int:
        """The bytes of the tensor."""
        data = self._array
        return int(np.prod(data.shape, dtype=np.int64)) * data.dtype.itemsize if hasattr(data, "dtype") else 0

    def unpack(self, node: Node, name: str) -> Tensor:
        """Return a new tensor on the same memory; it is an output of ``node`` if calls are recorded here."""
        made = make_tensor(self._array, self.word)
        made._storage = self.storage
        if self.storage.version != self.version:
            raise _modified(node, name, made, self.version, (node, self.output_nr))
        if is_grad_enabled():
            set_history(made, node, self.output_nr)
        return made

    def edge(self, node: Node) -> Edge:
        """Return the edge to the node itself."""
        return node, self.output_nr

    def packed(self, stack: Any, node: Node, name: str) -> Saved:
        """Pack the tensor without its history."""
        found = get_state()
        try:  # Note [Interrupts of backward]
            set_state(SILENT)
            tensor = self.unpack(node, name)
        finally:
            set_state(found)
        packed: Saved = stack.pack(tensor, node, name, None, self.output_nr)
        return packed

    def __str__(self) -> str:
        data = self._array
        return f"{tuple(data.shape)} {data.dtype}" if hasattr(data, "dtype") else "output"


class SavedList(Saved, list[Any]):
    """A list of saved values, some of which may be None; it is unpacked and packed element by element."""

    __slots__ = ()

    @property
    def nbytes(self) -> int:
        """The bytes of all items."""
        return sum(one.nbytes for one in self if one is not None)

    def unpack(self, node: Node, name: str) -> list[Any]:
        """Unpack each item."""
        return [unpack(one, node, name) for one in self]

    def packed(self, stack: Any, node: Node, name: str) -> Saved:
        """Pack each item."""
        return SavedList([one and one.packed(stack, node, f"{name}[{i}]") for i, one in enumerate(self)])

    def __str__(self) -> str:
        return f"{sum(one is not None for one in self)} tensors"


def save_input(tensor: Any) -> Any:
    """Save an input, which may be None or a list of tensors."""
    if isinstance(tensor, (list, tuple)):
        return SavedList(map(save_input, tensor))
    return None if tensor is None else SavedTensor.of(tensor)


def as_saved(value: Any, node: Node) -> Any:
    """Return what a generated kernel saved, in one of the forms above (Note [Values saved as they are])."""
    if value.__class__ is Storage:
        output = SavedOutput()
        output.data, output.storage, output.version, output.output_nr = None, value, 0, 0
        output.word = node._word & INHERITED
        return output
    if isinstance(value, Tensor):
        saved = SavedTensor()
        saved.tensor, saved.version = value, 0
        return saved
    return value


def unpack(saved: Any, node: Node, name: str) -> Any:
    """Return the tensor or list of tensors that was saved; raise RuntimeError if it was freed."""
    if saved is not None:
        return as_saved(saved, node).unpack(node, name)
    if node._released:
        raise RuntimeError(FREED.format(node=node.name()))
    return None


def plain(value: Any) -> Any:
    """Return tensors of classes without a handler as plain ones: formulas compute by the rules of ``Tensor``.

    ``tenkey.numpy.ndarray`` is such a class. The new handles have the memory and the history of the old ones.
    """
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, Tensor) or isinstance(value, Wrapper) or value.__class__._asks:
        return value
    if value._word & REQUIRES_GRAD:
        edge_of(value)  # of a leaf, which its accumulator refers to
    made = make_tensor(value._data, value._word)
    silent = get_state() is SILENT  # then nothing saves the new handle, which a change of the old one would miss
    made._storage = value._storage if silent else storage_of(value)
    made._autograd = value._autograd
    return made


def alone(tensor: Tensor) -> Tensor:
    """Return a tensor without history on the same memory, of the same class."""
    made = make_tensor(tensor._data, tensor._word & INHERITED)
    made._storage = storage_of(tensor)
    return with_class(tensor.__class__, made)


def refuse_to_save(operator: str, tensors: Iterable[Any]) -> None:
    """Raise RuntimeError if one of the tensors to be saved is an inference tensor."""
    for tensor in tensors:
        if isinstance(tensor, Tensor) and tensor._word & INFERENCE and innermost_guard(Recording) is None:
            raise RuntimeError(
                f"[{operator}] Inference tensors cannot be saved for backward: the tensor of shape {tensor.shape}, "
                f"dtype {tensor.dtype} was made in tk.inference_mode(). Make a normal tensor of it with clone() "
                "outside of the mode, or use tk.no_grad() instead of inference_mode where it is made."
            )


def _modified(
    node: Node, name: str, tensor: Tensor, version: int, origin: tuple[Node, int] | None = None
) -> RuntimeError:
    from ..tape.call_sites import history_of  # needed for errors only

    meta = tensor._autograd
    if origin is None and meta is not None and meta.node is not None:
        origin = meta.node, meta.output_nr
    source = "" if origin is None else f", which is output {origin[1]} of {origin[0].name()},"
    return RuntimeError(
        f"[{node.name()}] one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: the saved tensor {name} of shape {tensor.shape}, dtype {tensor.dtype}{source} is at version "
        f"{version_of(tensor)}; expected version {version} instead. Use the functional form of the operation that "
        f"changed it, or save a copy with clone().{history_of(node, tensor)}"
    )
