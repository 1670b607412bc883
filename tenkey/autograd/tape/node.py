"""The graph: nodes, edges, and what a node remembers of the tensors it made.

A node stands for one recorded call. ``next_edges`` lead to the nodes that made the call's inputs; an edge is a pair
``(node, input_nr)``, and an input that needs no gradient gives ``(None, 0)``.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from sys import getrefcount
from typing import Any, ClassVar, Final

import numpy as np

from ...core.device import CPU, Device
from ...core.tensor import Tensor
from ...core.word import DTYPE_MASK, REQUIRES_GRAD, dtypes_of
from ...core.wrapper import Wrapper
from ..grad_mode import is_recording

__all__ = [
    "DTYPE_OF_WORD",
    "NO_EDGE",
    "SEQUENCE",
    "AccumulateGrad",
    "AutogradMeta",
    "Edge",
    "HookHandle",
    "Hooks",
    "Node",
    "TensorMeta",
    "edge_of",
    "leaf_edge",
    "longest",
    "meta_of",
    "set_history",
    "settle",
    "stream_of",
]

Edge = tuple["Node | None", int]
NO_EDGE: Final[Edge] = (None, 0)
LAST: Final = 2**63 - 1  # the sequence number of accumulators: they run as soon as they are ready


class _Sequence(threading.local):
    """The sequence numbers of nodes: every thread counts by itself what it records, from 0."""

    def __init__(self) -> None:
        self.next = itertools.count().__next__


SEQUENCE: Final = _Sequence()


class TensorMeta:
    """Shape, dtype and device of a tensor, without its values."""

    __slots__ = ("device", "dtype", "shape")
    shape: tuple[int, ...]
    dtype: np.dtype
    device: Device

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, device: Device) -> None:
        self.shape = shape
        self.dtype = dtype
        self.device = device

    def __iter__(self) -> Iterator[Any]:
        return iter((self.shape, self.dtype, self.device))

    def __repr__(self) -> str:
        return f"TensorMeta(shape={self.shape}, dtype={self.dtype}, device={str(self.device)!r})"


class AutogradMeta:
    """What autograd keeps on a tensor: where its gradient goes, and for a leaf the gradient itself."""

    node: Node | None = None
    output_nr: int = 0
    grad: Tensor | None = None
    edge: Any = None  # where the gradient goes: (node, output_nr), of a leaf (its AccumulateGrad, 0)
    retains_grad: bool = False
    leaf_hooks: Any = None
    post_accumulate_hooks: Any = None
    run: int = 0  # of a leaf that a transform made: the number of its run


class Hooks(dict[int, Callable[..., Any]]):
    """Hooks in the order of registration, each under its number."""

    _next: ClassVar = itertools.count()

    def add(self, hook: Callable[..., Any], call: str = "register_hook") -> HookHandle:
        """Register a hook; the handle removes it. Errors name the call."""
        if not callable(hook):
            raise TypeError(
                f"[{call}] a hook is a function, got {type(hook).__name__}: pass a callable; the handle's remove() "
                "takes it back."
            )
        number = next(Hooks._next)
        self[number] = hook
        return HookHandle(self, number)


class HookHandle:
    """``remove()`` takes a hook back; a second call does nothing. Also a context manager."""

    __slots__ = ("_hooks", "_number")

    def __init__(self, hooks: Hooks, number: int) -> None:
        self._hooks = hooks
        self._number = number

    def remove(self) -> None:
        """Take the hook back."""
        self._hooks.pop(self._number, None)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class _Extra:
    """An attribute that few nodes have. Who is given it is looked at closely by the engine: ``_special`` is set."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, node: Any, owner: type | None = None) -> Any:
        return self if node is None else node.__dict__.get(self.name)

    def __set__(self, node: Any, value: Any) -> None:
        node.__dict__[self.name] = value
        node._special = True


class _DtypeOfWord:
    """The dtype of a node's output, found in its word: few ask for it."""

    def __get__(self, node: Any, owner: type | None = None) -> Any:
        found = dtypes_of(node._word & DTYPE_MASK) if node is not None else ()
        return found[0] if found else None


DTYPE_OF_WORD: Final = _DtypeOfWord()


class Node:
    """A recorded call. ``sequence_nr`` counts those of its thread; ``topological_nr`` is the longest path to a leaf.

    >>> import tenkey as tk
    >>> x = tk.ones(2).requires_grad_()
    >>> node = (x * 2).sum().grad_fn
    >>> isinstance(node, tk.autograd.Node), node.name(), len(node.next_edges)
    (True, 'SumBackward', 1)

    Note [Special nodes]
    ~~~~~~~~~~~~~~~~~~~~
    Most nodes have one output, no hooks, and work on the CPU; the engine runs them in a few lines. Any other node has
    ``_special`` set, by the attributes below whose assignment sets it, or by who makes a node for another device; the
    engine tests this one flag and takes the long way. So hooks and devices cost a graph without them nothing. Guarded
    by ``tests/autograd/engine/test_engine.py::test_special_nodes``.
    """

    sequence_nr: int = 0
    topological_nr: int = 0
    next_edges: tuple[Edge, ...] = ()
    shape: Any = None  # of the only output; a node of several has ``outputs``
    dtype: np.dtype | None = None
    device: Any = CPU  # where it runs: that of its first output
    outputs: Any = _Extra()  # tuple[TensorMeta | None, ...]
    tensor_hooks: Any = _Extra()  # dict[int, Hooks], by output
    retain_hooks: Any = _Extra()  # dict[int, Callable[[Tensor], None]], by output
    pre_hooks: Any = _Extra()  # Hooks
    post_hooks: Any = _Extra()  # Hooks
    runs_on_undefined: bool = False
    _released: bool = False  # whether the saved tensors were freed
    _special: bool = False
    _word: int = 0  # of the only output, on the CPU: a gradient with this word and ``shape`` needs no other check
    _stream: Any = None  # the queue of the device in which the forward call put its work
    saves: bool = True  # False: there is nothing that release() could let go of
    operator_name: str = ""

    def apply(self, *grads: Tensor | None) -> Any:
        """The gradients of the inputs, one for each edge, from those of the outputs."""
        raise NotImplementedError

    def release(self) -> None:
        """Let go of what was saved."""

    def name(self) -> str:
        """The name of the kind of node."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """The edges to the nodes that made the inputs."""
        return self.next_edges

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for the user's own notes."""
        notes: dict[str, Any] = self.__dict__.setdefault("_metadata", {})
        return notes

    def _kept_values(self) -> Iterator[tuple[str, Any]]:
        """Yield the names and values that the formula needs, without unpacking tensors."""
        for field, value in vars(self).items():
            if field.startswith("saved_"):
                yield field[6:], value

    def input_shape(self, nr: int) -> tuple[tuple[int, ...], np.dtype | None] | None:
        """Shape and dtype of the gradient that input ``nr`` takes, or None where it takes any or none."""
        outputs = self.outputs
        if outputs is None:
            return None if self.shape is None else (self.shape, self.dtype)
        meta = outputs[nr]
        return None if meta is None else (meta.shape, meta.dtype)

    def input_device(self, nr: int) -> Device | None:
        """The device of the gradient that input ``nr`` takes."""
        outputs = self.outputs
        if outputs is None:
            return self.device  # type: ignore[no-any-return]
        meta = outputs[nr]
        return None if meta is None else meta.device

    @property
    def _input_metadata(self) -> tuple[TensorMeta | None, ...]:
        """Shape, dtype and device of each forward output: what its gradient must have."""
        if self.outputs is not None:
            return tuple(self.outputs)
        return () if self.shape is None else (TensorMeta(self.shape, self.dtype, self.device or CPU),)  # type: ignore[arg-type]

    def _sequence_nr(self) -> int:
        """The number of the recorded call; accumulators have the highest there is."""
        return self.sequence_nr

    def register_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after the node ran; it may return other gradients of the inputs."""
        if self.post_hooks is None:
            self.post_hooks = Hooks()
        handle: HookHandle = self.post_hooks.add(hook)
        return handle

    def register_prehook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call ``hook(grad_outputs)`` before the node runs; it may return other gradients of the outputs."""
        if self.pre_hooks is None:
            self.pre_hooks = Hooks()
        handle: HookHandle = self.pre_hooks.add(hook, "register_prehook")
        return handle

    def __repr__(self) -> str:
        return f"<{self.name()} at {id(self):#x}>"


# which lock guards a leaf's gradient is decided by its address: a lock for every leaf would cost more than the sum
_locks: Final = tuple(threading.RLock() for _ in range(64))


class AccumulateGrad(Node):
    """The end of the graph at a leaf: adds the gradient to ``variable.grad``.

    Note [Leaves and accumulators]
    ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
    A leaf holds its accumulator, and the accumulator holds the leaf weakly, so there is no cycle. (PyTorch turns this
    round and makes a new accumulator for every graph, which costs a Python program 0.6 us for every operand that is a
    leaf.) A graph therefore does not keep a leaf alive that nobody else refers to: its gradient could not be seen.
    Should a hook be waiting for it after accumulation, the accumulator holds the leaf. Guarded by
    ``tests/autograd/engine/test_autograd_memory.py::test_a_leaf_and_its_accumulator_make_no_cycle``.

    Note [Stealing gradients]
    ~~~~~~~~~~~~~~~~~~~~~~~~~
    A first gradient that nobody else refers to becomes ``variable.grad`` itself; one that somebody else holds (the
    user's own, or one that went to two leaves) is copied, and so is a view, whose memory is another tensor's or repeats
    one element. Who holds it is told by its reference count, compared with the count that a fresh gradient has at this
    point, which is measured once; a view is known by its storage. Later gradients are added in place, unless the
    backward itself is recorded; a lock for each leaf makes backwards of several threads sum exactly. Guarded by
    ``tests/autograd/engine/test_autograd_memory.py::test_gradients_are_never_shared`` and
    ``tests/autograd/engine/test_engine.py::TestAccumulation``.
    """

    sequence_nr = LAST
    topological_nr = 0
    saves = False
    fresh_count: ClassVar[int] = 0  # set by the engine's calibration
    fresh_data_count: ClassVar[int] = 0

    leaf: Callable[[], Tensor | None]  # a weak reference
    kept: Tensor | None = None  # the leaf, once a hook waits for it

    @property
    def variable(self) -> Tensor | None:
        """The leaf, or None if it is gone."""
        return self.leaf()

    def apply(self, *grads: Tensor | None) -> Any:
        """Add a copy of the gradient to what the leaf has collected."""
        if grads[0] is not None:
            self.accumulate(grads[0], AccumulateGrad.fresh_count + 1)
        return ()

    def accumulate(self, grad: Tensor, references: int) -> None:
        """Add the gradient, to which there are so many references, to what the leaf has collected."""
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
                ):
                    grad = grad.clone()
                meta.grad = grad
            elif previous.dtype != grad.dtype or is_recording():
                meta.grad = previous + grad
            else:
                previous.add_(grad)
        if meta.post_accumulate_hooks:
            for hook in tuple(meta.post_accumulate_hooks.values()):
                hook(variable)


def meta_of(tensor: Tensor) -> AutogradMeta:
    """The autograd slot of a tensor, filled if it was empty."""
    meta = tensor._autograd
    if meta is None:
        meta = tensor._autograd = AutogradMeta()
    return meta  # type: ignore[no-any-return]


_accumulator_lock = threading.Lock()


def leaf_edge(leaf: Tensor) -> Edge:
    """The edge to the accumulator of a leaf, made when the leaf is first used (Note [Leaves and accumulators])."""
    if leaf.__class__ is Wrapper:  # its value is the leaf
        return edge_of(leaf._value)
    meta = meta_of(leaf)
    with _accumulator_lock:
        edge: Edge | None = meta.edge
        if edge is None:
            accumulator = AccumulateGrad()
            accumulator.leaf = weakref.ref(leaf)
            accumulator.shape = leaf.shape
            accumulator.dtype = leaf.dtype
            accumulator._word = leaf._word | REQUIRES_GRAD
            settle(accumulator, leaf)
            if meta.leaf_hooks is not None:
                accumulator.tensor_hooks = {0: meta.leaf_hooks}
            if meta.post_accumulate_hooks:
                accumulator.kept = leaf
            edge = meta.edge = (accumulator, 0)
        return edge


def stream_of(outputs: list[Any]) -> Any:
    """The queue of the first tensor's device into which this thread puts its work; None where there is but one."""
    for tensor in outputs:
        if isinstance(tensor, Tensor):
            if tensor._data.__class__ is np.ndarray:
                return None
            device = tensor.device
            backend = device.backend
            return None if backend is None else backend.current_stream(device.index)
    return None


def settle(node: Node, output: Tensor) -> None:
    """Note where a node runs: on the device of its first output, in the queue that its forward call used."""
    if output._data.__class__ is not np.ndarray:
        node.device = output.device
        node._special = True
        node._word = 0
        node._stream = stream_of([output])


def edge_of(tensor: Any) -> Edge:
    """Where the gradient of a tensor goes."""
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


def longest(edges: tuple[Edge, ...]) -> int:
    """One more than the longest path to a leaf behind the edges."""
    result = 0
    for node, _ in edges:
        if node is not None and node.topological_nr >= result:
            result = node.topological_nr + 1
    return result
