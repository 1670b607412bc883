"""The graph: nodes, edges, and the metadata of a node's outputs.

A node represents one recorded call. ``next_edges`` lead to the nodes that computed the call's inputs; an edge is a pair
``(node, input_nr)``, and an input that does not require a gradient has the edge ``(None, 0)``.

Note [Locks of autograd]
~~~~~~~~~~~~~~~~~~~~~~~~
Locks are held for a few assignments. Code of users (hooks, formulas, modes, backends) runs without them, because it may
wait for a thread that needs the same lock; only the addition to ``.grad`` of a leaf is locked as a whole, where a mode
can see it. Locks are reentrant, because the collector may run a finalizer, which can use tensors, while one is held.
Guarded by ``tests/autograd/engine/test_locks.py``.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from sys import getrefcount
from typing import Any, ClassVar, Final

import numpy as np

from ..._util.locks import new_lock
from ...core.compiled.loading import extension
from ...core.device import CPU, Device
from ...core.storage import HostMemory
from ...core.tensor import Tensor
from ...core.word import DTYPE_MASK, INHERITED, REQUIRES_GRAD, dtypes_of
from ...core.wrapper import Wrapper, unwrapped
from ..grad_mode import is_grad_enabled

__all__ = [
    "DTYPE_OF_WORD", "ENDED", "NO_EDGE", "SEQUENCE", "AccumulateGrad", "AutogradMeta", "DelayedError", "Edge",
    "HookHandle", "Hooks", "Node", "OutputMeta", "RecordedNode", "TensorMeta", "edge_of", "leaf_edge", "making",
    "mark_leaf", "meta_of", "record_node", "set_history", "settle", "walk",
]  # fmt: skip

Edge = tuple["Node | None", int]
NO_EDGE: Final[Edge] = (None, 0)
ENDED: Final = -1  # the number of no run
_LAST: Final = 2**63 - 1  # the sequence number of accumulators: they run as soon as they are ready


class _Sequence(threading.local):
    """The sequence numbers of nodes: every thread counts its own recorded calls from 0."""

    def __init__(self) -> None:
        self.next = itertools.count().__next__


SEQUENCE: Final[Any] = _Sequence() if extension is None else extension.recording.Sequence()


class TensorMeta:
    """Shape, dtype and device of a tensor, without its values."""

    __slots__ = ("device", "dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, device: Device) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device

    def __repr__(self) -> str:
        return f"TensorMeta(shape={self.shape}, dtype={self.dtype}, device={str(self.device)!r})"


class AutogradMeta:
    """Autograd's data on a tensor: the edge of its gradient, and the gradient of a leaf."""

    node: Node | None = None
    output_nr: int = 0
    grad: Tensor | None = None
    edge: Any = None  # (node, output_nr), or (its AccumulateGrad, 0) for a leaf
    retains_grad: bool = False
    leaf_hooks: Any = None
    post_accumulate_hooks: Any = None
    run: int = 0  # the number of the run, for a leaf that a transform made


class OutputMeta(AutogradMeta):
    """Autograd's data on the only output of a generated node, in slots: assigning to these is five times as fast."""

    __slots__ = ("edge", "node")


class Hooks(dict[int, Callable[..., Any]]):
    """Hooks in order of registration, by number."""

    _next: ClassVar = itertools.count()

    def add(self, hook: Callable[..., Any], call: str = "register_hook") -> HookHandle:
        """Register a hook; errors name the call."""
        if not callable(hook):
            raise TypeError(
                f"[{call}] a hook must be callable, got {type(hook).__name__}: pass a function; the remove() of the "
                "returned handle unregisters it."
            )
        number = next(Hooks._next)
        self[number] = hook
        return HookHandle((self, number))


class HookHandle:
    """A handle whose ``remove()`` unregisters a hook; a second call does nothing. Also a context manager."""

    __slots__ = ("_places",)

    def __init__(self, *places: tuple[Hooks, int]) -> None:
        self._places = places

    @classmethod
    def of_all(cls, handles: Sequence[HookHandle]) -> HookHandle:
        """Return one handle for the hooks of several."""
        return cls(*[place for handle in handles for place in handle._places])

    def remove(self) -> None:
        """Unregister the hook."""
        for hooks, number in self._places:
            hooks.pop(number, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class _Extra:
    """An attribute that few nodes have; setting it marks the node as special (Note [Special nodes])."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, node: Any, owner: type | None = None) -> Any:
        return self if node is None else node.__dict__.get(self.name)

    def __set__(self, node: Any, value: Any) -> None:
        node.__dict__[self.name] = value
        node._special = True


class _DtypeOfWord:
    """The dtype of a node's output, computed from its word because it is rarely needed."""

    def __get__(self, node: Any, owner: type | None = None) -> Any:
        found = dtypes_of(node._word & DTYPE_MASK) if node is not None else ()
        return found[0] if found else None


DTYPE_OF_WORD: Final = _DtypeOfWord()


class _TopologicalNr:
    """The length of the longest path from a node to a leaf, computed at the first use and then remembered."""

    def __get__(self, node: Any, owner: type | None = None) -> Any:
        if node is None:
            return self
        stack = [node] if getattr(node, "_topological_nr", None) is None else []
        while stack:
            top = stack[-1]
            below = [edge[0] for edge in top.next_edges if edge[0] is not None]
            unknown = [each for each in below if getattr(each, "_topological_nr", None) is None]
            if unknown:
                stack += unknown
            else:
                top._topological_nr = max([each._topological_nr for each in below], default=-1) + 1
                stack.pop()
        return node._topological_nr


class Node:
    """A recorded call.

    ``sequence_nr`` counts the calls of its thread; ``topological_nr`` is the length of the longest path to a leaf.

    >>> x = tk.ones(2).requires_grad_()
    >>> node = (x * 2).sum().grad_fn
    >>> isinstance(node, tk.autograd.Node), node.name(), len(node.next_edges)
    (True, 'SumBackward', 1)

    Note [Special nodes]
    ~~~~~~~~~~~~~~~~~~~~
    Most nodes have one output and no hooks and run on the CPU; the engine runs them in a few lines. Any other node has
    ``_special`` set, either by assigning one of the attributes declared with ``_Extra`` below or by ``settle``, for a
    node on another device; the engine tests this single flag and takes the long path. So hooks and devices cost nothing
    in a graph without them. Guarded by ``tests/autograd/engine/test_engine.py::test_special_nodes``.
    """

    sequence_nr: int = 0
    topological_nr: Any = _TopologicalNr()
    _topological_nr: int | None = None
    next_edges: tuple[Edge, ...] = ()
    shape: Any = None  # of the only output; a node with several has ``outputs``
    dtype: np.dtype | None = None
    device: Any = CPU  # of the first output: the node runs there
    outputs: Any = _Extra()  # tuple[TensorMeta | None, ...]
    tensor_hooks: Any = _Extra()  # dict[int, Hooks], by output
    retain_hooks: Any = _Extra()  # dict[int, weakref.ref[Tensor]], by output
    pre_hooks: Any = _Extra()  # Hooks
    post_hooks: Any = _Extra()  # Hooks
    runs_on_undefined: bool = False
    _released: bool = False  # whether the saved tensors were freed
    _special: bool = False
    _failed_backward: Any = None  # Note [Failed backward]
    _word: int = 0  # of the only output, on the CPU: a gradient with this word and ``shape`` needs no other check
    _stream: Any = None  # the device queue that the forward call used
    saves: bool = True  # False: release() has nothing to free
    _add: Any = None  # _add(x, g) adds a gradient where it is not zero: Note [Gradients of parts]
    operator_name: str = ""

    def apply(self, *grads: Tensor | None) -> Any:
        """Return the gradients of the inputs, one for each edge, given those of the outputs."""
        raise NotImplementedError

    def release(self) -> None:
        """Free the saved tensors."""

    def describe(self, outputs: Sequence[Any], *, listed: bool = False) -> None:
        """Record shape, dtype and device of the outputs; values that are not tensors have no metadata.

        A single output is described by ``shape``, ``dtype`` and ``device``, unless ``listed``.
        """
        if len(outputs) == 1 and isinstance(outputs[0], Tensor) and not listed:
            only = outputs[0]
            data = only._data
            if data.__class__ is np.ndarray:
                self.shape, self.dtype, self.device = data.shape, data.dtype, CPU
                self._word = (only._word & INHERITED) | REQUIRES_GRAD
            else:
                self.shape, self.dtype = only.shape, only.dtype
                settle(self, only)
        else:
            self._word = 0
            self.outputs = tuple(
                [TensorMeta(t.shape, t.dtype, t.device) if isinstance(t, Tensor) else None for t in outputs]
            )
            self._stream = _stream_of(outputs)

    def name(self) -> str:
        """Return the name of the kind of node."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """The edges to the nodes that made the inputs."""
        return self.next_edges

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for data of the user."""
        return self.__dict__.setdefault("_metadata", {})  # type: ignore[no-any-return]

    def _kept_values(self) -> Iterator[tuple[str, Any]]:
        """Yield the names and values that the formula needs, without unpacking tensors."""
        for field, value in vars(self).items():
            if field.startswith("saved_"):
                yield field[6:], value

    def _input_meta(self, nr: int) -> tuple[tuple[int, ...], np.dtype | None, Device | None] | None:
        """Return shape, dtype and device of the gradient for input ``nr``, or None if it accepts any or none."""
        outputs = self.outputs
        if outputs is None:
            return None if self.shape is None else (self.shape, self.dtype, self.device)
        meta = outputs[nr]
        return None if meta is None else (meta.shape, meta.dtype, meta.device)

    @property
    def _input_metadata(self) -> tuple[TensorMeta | None, ...]:
        """Shape, dtype and device of each forward output, and so of its gradient."""
        if self.outputs is not None:
            return tuple(self.outputs)
        return () if self.shape is None else (TensorMeta(self.shape, self.dtype, self.device or CPU),)  # type: ignore[arg-type]

    def _sequence_nr(self) -> int:
        """Return the number of the recorded call; accumulators have the highest."""
        return self.sequence_nr

    def register_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after the node ran; it may return new gradients of the inputs."""
        if self.post_hooks is None:
            self.post_hooks = Hooks()
        return self.post_hooks.add(hook)  # type: ignore[no-any-return]

    def register_prehook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(grad_outputs)`` before the node runs; it may return new gradients of the outputs."""
        if self.pre_hooks is None:
            self.pre_hooks = Hooks()
        return self.pre_hooks.add(hook, "register_prehook")  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<{self.name()} at {id(self):#x}>"


class RecordedNode(Node):
    """A node with slots for its fields: a node of a generated kernel, or of a leaf.

    Assigning to an attribute with a default in the class is five times as slow. Compiled code reads slots by offset.
    """

    __slots__ = ("_topological_nr", "_word", "next_edges", "sequence_nr", "shape")


class DelayedError(Node):
    """A node that raises an error when a gradient reaches it."""

    saves = False

    def __init__(self, error: type[Exception], message: str, name: str = "DelayedError") -> None:
        self._error = error
        self._message = message
        self._name = name

    def apply(self, *grads: Tensor | None) -> Any:
        """Raise the error."""
        raise self._error(self._message)

    def name(self) -> str:
        """Return the name given to the node."""
        return self._name


_OWN: Final = (type(None), HostMemory)  # what the base of an array is that shares its memory with no other
# The lock that guards a leaf's gradient is chosen by address: a lock per leaf would cost more than the addition.
_locks: Final = tuple(new_lock() for _ in range(64))


class AccumulateGrad(RecordedNode):
    """The node of a leaf: it adds the gradient to ``variable.grad``.

    Note [Leaves and accumulators]
    ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
    A leaf holds its accumulator, and the accumulator holds the leaf weakly, so there is no cycle. (In PyTorch it is the
    other way round: every graph makes new accumulators, which would cost a Python program 0.6 us for every operand that
    is a leaf.) A graph therefore does not keep an otherwise unreferenced leaf alive, since its gradient could not be
    seen. If a hook waits for the accumulation, the accumulator does hold the leaf. Guarded by
    ``tests/autograd/engine/test_autograd_memory.py::test_a_leaf_and_its_accumulator_make_no_cycle``.

    Note [Stealing gradients]
    ~~~~~~~~~~~~~~~~~~~~~~~~~
    A first gradient without other references becomes ``variable.grad`` itself. A gradient that is referenced elsewhere
    (the user's own, or one that went to two leaves) is copied, and so is a view, whose memory belongs to another tensor
    or repeats one element. The reference count shows which case it is: it is compared with that of a fresh gradient
    at this point, which is measured once. A view is recognized by its storage, a tensor on the memory of a user's array
    by the base of its own array. Later gradients are added in place, unless the backward itself is recorded; locks for
    leaves make concurrent backward passes sum exactly. Guarded by
    ``tests/autograd/engine/test_autograd_memory.py::test_gradients_are_never_shared``,
    ``tests/autograd/engine/test_engine.py::TestAccumulation`` and
    ``tests/core/test_array_objects.py::test_gradients_do_not_take_the_memory_of_a_users_array``.
    """

    sequence_nr = _LAST
    topological_nr = _topological_nr = 0
    next_edges = ()
    saves = False
    fresh_count: ClassVar[int] = 0  # set by the engine's ``calibrate``
    fresh_data_count: ClassVar[int] = 0

    leaf: Callable[[], Tensor | None]  # a weak reference
    kept: Tensor | None = None  # the leaf, if a hook waits for the accumulation

    @property
    def variable(self) -> Tensor | None:
        """The leaf, or None if it was deleted."""
        return self.leaf()

    def apply(self, *grads: Tensor | None) -> Any:
        """Add a copy of the gradient to that of the leaf."""
        if grads[0] is not None:
            self.accumulate(grads[0], AccumulateGrad.fresh_count + 1)
        return ()

    def accumulate(self, grad: Tensor, references: int) -> None:
        """Add the gradient, which has this number of references, to that of the leaf."""
        variable = self.leaf()
        if variable is None:
            return
        meta = variable._autograd
        if meta is None:
            meta = meta_of(variable)
        with _locks[id(meta) >> 4 & 63]:
            previous = meta.grad
            if previous is None:
                if (
                    references > AccumulateGrad.fresh_count
                    or grad._storage is not None
                    or getrefcount(grad._data) > AccumulateGrad.fresh_data_count
                    or not isinstance(getattr(grad._data, "base", None), _OWN)
                ):
                    grad = grad.clone()
                meta.grad = grad
            elif previous.dtype != grad.dtype or is_grad_enabled():
                meta.grad = previous + grad
            else:
                previous.add_(grad)
        if meta.post_accumulate_hooks:
            for hook in tuple(meta.post_accumulate_hooks.values()):
                hook(variable)


making: Final = new_lock()
"""Guards what threads make for a tensor at its first use: autograd data, accumulator, collections of hooks."""


def meta_of(tensor: Tensor) -> AutogradMeta:
    """Return the autograd data of a tensor, created if absent."""
    meta = tensor._autograd
    if meta is None:
        with making:
            meta = tensor._autograd
            if meta is None:
                meta = tensor._autograd = AutogradMeta()
    return meta  # type: ignore[no-any-return]


def mark_leaf(tensor: Tensor, run: int) -> None:
    """Say which run of a transform has made a leaf; of a wrapper, the value is marked.

    A rule that makes one says ``ENDED``, so that the derivative of a transform is not recorded on its account.
    """
    plain = unwrapped(tensor)
    if plain._word & REQUIRES_GRAD and (plain._autograd is None or plain._autograd.node is None):
        meta_of(plain).run = run


def leaf_edge(leaf: Tensor) -> Edge:
    """Return the edge to the accumulator of a leaf, made at the first use (Note [Leaves and accumulators])."""
    if isinstance(leaf, Wrapper):  # the leaf is its value
        return edge_of(leaf._value)
    meta = meta_of(leaf)
    accumulator = AccumulateGrad()
    accumulator.leaf = weakref.ref(leaf)
    accumulator.describe([leaf])  # calls the backend of the leaf
    with making:
        edge: Edge | None = meta.edge
        if edge is None:
            if meta.leaf_hooks is not None:
                accumulator.tensor_hooks = {0: meta.leaf_hooks}
            if meta.post_accumulate_hooks:
                accumulator.kept = leaf
            edge = meta.edge = (accumulator, 0)
        return edge


def _stream_of(outputs: Sequence[Any]) -> Any:
    """Return the queue that this thread uses on the device of the first tensor; None for a device with a single one."""
    for tensor in outputs:
        if isinstance(tensor, Tensor):
            if tensor._data.__class__ is np.ndarray:
                return None
            device = tensor.device
            return None if device.backend is None else device.backend.current_stream(device.index)
    return None


def settle(node: Node, output: Tensor) -> None:
    """Record where a node runs: on the device of its first output, in the queue that the forward call used."""
    if output._data.__class__ is not np.ndarray:
        node.device = output.device
        node._special = True
        node._word = 0
        node._stream = _stream_of([output])


def edge_of(tensor: Any) -> Edge:
    """Return the edge to which the gradient of a tensor goes."""
    if tensor is None or not tensor._word & REQUIRES_GRAD:
        return NO_EDGE
    meta = tensor._autograd
    edge: Edge | None = None if meta is None else meta.edge
    return leaf_edge(tensor) if edge is None else edge


def set_history(tensor: Tensor, node: Node, output_nr: int) -> None:
    """Make ``tensor`` the output ``output_nr`` of a node."""
    meta = AutogradMeta()
    meta.node = node
    meta.output_nr = output_nr
    meta.edge = (node, output_nr)
    tensor._autograd = meta
    tensor._word |= REQUIRES_GRAD


def record_node(node: Node, edges: tuple[Edge, ...], outputs: Sequence[Any], *, attach: bool = True) -> None:
    """Number a node, set its edges and the metadata of its outputs, and make it the history of the floating outputs.

    ``attach=False`` leaves the history of the outputs to the caller.
    """
    node.describe(outputs)
    node.sequence_nr = SEQUENCE.next()
    node.next_edges = edges
    if attach:
        for nr, tensor in enumerate(outputs):
            if isinstance(tensor, Tensor) and tensor.dtype.kind in "fcV":
                set_history(tensor, node, nr)


def walk(*roots: Node | None) -> Iterator[Node]:
    """Yield the nodes that can be reached from ``roots``, themselves included, each once and breadth first.

    A function rather than a method, because the public names of a node are reserved on the context of a ``Function``.
    """
    queue = deque(dict.fromkeys(node for node in roots if node is not None))
    seen = set(queue)
    while queue:
        node = queue.popleft()
        yield node
        for below, _ in node.next_edges:
            if below is not None and below not in seen:
                seen.add(below)
                queue.append(below)
