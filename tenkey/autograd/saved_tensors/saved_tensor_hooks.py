"""Hooks on saved tensors: functions that replace the tensors that the graph keeps.

Note [Hooks on saved tensors]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Whether hooks are active is a bit of the local state, ``HOOKED`` (Note [Bits of the local state]); the hooks themselves
are among the state's values. A call recorded with this bit uses another kernel: the ordinary one, after which the
values that the node saved are packed. So a program without hooks pays nothing for them.

Contexts nest by composition, like functions. The innermost pack hook receives the tensor; the tensors in its result
(the result itself, or those in lists, tuples, dicts and dataclasses) are packed by the next hook outside, and so on.
Unpacking goes the other way. So ``save_on_cpu`` inside hooks that quantise moves to the CPU first, and the result is
quantised; an object without tensors (a file number, a checkpoint) ends the chain. (PyTorch applies only the innermost
pair and silently drops the outer ones.) A hook is inactive while it runs: calls inside it are not recorded, and if it
switches recording on, the hooks outside it apply.

The hook receives an input itself, so that it can recognize parameters; it receives an output as a tensor without
history on the same memory, so a hook that returns its argument makes no cycle. The result of ``unpack`` gets the
history of the saved tensor. Hooks are responsible for keeping their values unmodified: versions are not compared.
Python numbers among the operands are not passed to hooks. Guarded by ``tests/autograd/test_saved_tensors.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Self
from weakref import ref

from ...core.tensor import Tensor, storage_of, version_of
from ...core.tree import flatten, unflatten
from ...core.word import REQUIRES_GRAD, WEAK_MASK
from ...core.wrapper import Wrapper
from ...dispatch.keys import DispatchKey, register_trait
from ...dispatch.local_state import (
    StateGuard,
    current_state,
    get_state,
    innermost_guard,
    make_state,
    set_state,
    switched,
)
from ..grad_mode import OwnedGuard, is_grad_enabled
from ..tape.node import AccumulateGrad, AutogradMeta, Edge, Node, edge_of, set_history
from .saved import Saved, SavedTensor, alone, as_saved

__all__ = [
    "HOOKED", "Chooser", "HookStack", "HookedTensor", "Saver", "active_hooks", "check_hooks",
    "disable_saved_tensors_hooks", "enter_saver", "HookPair", "save", "save_on_cpu", "saved_tensors_hooks",
    "with_choice", "with_hooks",
]  # fmt: skip

HOOKED: Final = register_trait("saved-tensor hooks")
"""The bit of the local state under which saved values are packed."""


class Saver:
    """Packs and unpacks saved tensors: the hooks of a user, or a checkpoint."""

    def pack(self, tensor: Tensor, node: Node, name: str) -> Any:
        """Return the value to keep in place of ``tensor``, which ``node`` saves under ``name``."""
        raise NotImplementedError

    unpack: Callable[[Any], Any]
    """Restores the tensor. The graph holds this function, so it should hold little."""


class HookPair(Saver):
    """The two hooks of a user."""

    def __init__(self, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
        self._pack = pack
        self.unpack = unpack

    def pack(self, tensor: Tensor, node: Node, name: str) -> Any:
        """Call the pack hook."""
        return self._pack(tensor)


class Chooser:
    """Decides which results a checkpoint keeps: see Note [Selective checkpoints]."""

    def run(self, operator: Any, inner: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return the result of a recorded call, by calling ``inner`` or from an earlier call."""
        raise NotImplementedError


# ---- what the graph holds


class _Packed:
    """The result of a pack hook. If ``nested``, its tensors were packed in turn and are instances of this class."""

    __slots__ = ("nested", "unpack", "value")

    def __init__(self, unpack: Callable[[Any], Any], value: Any, nested: bool) -> None:
        self.unpack = unpack
        self.value = value
        self.nested = nested


class HookedTensor(Saved):
    """A tensor packed by hooks, with its place in the graph (Note [Hooks on saved tensors])."""

    __slots__ = ("_edge", "output_nr", "packed_value", "shape")

    def __init__(self, packed: _Packed, shape: tuple[int, ...], edge: Edge | None, output_nr: int) -> None:
        self.packed_value = packed
        self.shape = shape
        self._edge = edge  # of an input
        self.output_nr = output_nr  # of an output

    def edge(self, node: Node) -> Edge:
        """Return the edge that the tensor had."""
        return (node, self.output_nr) if self._edge is None else self._edge

    def packed(self, stack: HookStack, node: Node, name: str) -> Saved:
        """Return the value itself: it is packed."""
        return self

    def unpack(self, node: Node, name: str) -> Tensor:
        """Call the unpack hooks, and give the result the history of the saved tensor."""
        result = _unpack(self.packed_value, node, name)
        if result.shape != self.shape:
            raise RuntimeError(
                f"[{node.name()}] the unpack hook returned a tensor of shape {result.shape} for {name}, which was "
                f"saved with shape {self.shape}: unpack_hook(pack_hook(x)) must have the shape of x."
            )
        if isinstance(result, Wrapper):
            return result
        edge = self._edge
        if edge is None:
            result = alone(result)
            if is_grad_enabled():
                set_history(result, node, self.output_nr)
        elif edge[0] is None:
            return alone(result) if result._word & REQUIRES_GRAD else result
        elif not (result._word & REQUIRES_GRAD and edge_of(result) == edge):
            result = alone(result)
            if isinstance(edge[0], AccumulateGrad):  # a leaf: it has an accumulator and no node
                meta = result._autograd = AutogradMeta()
                meta.edge = edge
                result._word |= REQUIRES_GRAD
            else:
                set_history(result, edge[0], edge[1])
        return result

    def __str__(self) -> str:
        return f"{self.shape} packed by hooks"


def _unpack(packed: _Packed, node: Node, name: str) -> Tensor:
    value = packed.value
    if packed.nested:
        leaves = flatten(value)
        value = unflatten(value, [_unpack(one, node, name) if one.__class__ is _Packed else one for one in leaves])
    result = packed.unpack(value)
    if not isinstance(result, Tensor):
        raise TypeError(
            f"[{node.name()}] Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
            f"{type(result).__name__} (for {name})."
        )
    return result


# ---- packing


class HookStack(tuple[Saver, ...]):
    """The hooks that pack saved values, the innermost last."""

    __slots__ = ()

    def pack(self, tensor: Tensor, node: Node, name: str, edge: Edge | None, output_nr: int = -1) -> HookedTensor:
        """Pack a tensor: an input with its edge, or an output (``edge`` is None) with its number."""
        found = get_state()
        try:  # Note [Interrupts of backward]
            return HookedTensor(self._pack(tensor, node, name), tensor.shape, edge, output_nr)
        finally:
            set_state(found)

    def _pack(self, tensor: Tensor, node: Node, name: str) -> _Packed:
        """Pack with the innermost hooks, and their result with those outside."""
        saver, outer = self[-1], HookStack(self[:-1])
        state = current_state()
        others = tuple([value for value in state.values if not isinstance(value, Saver)])
        set_state(make_state(state.include, state.exclude | REQUIRES_GRAD, state.modes, others + outer))
        version = version_of(tensor)
        value = saver.pack(tensor, node, name)
        if version_of(tensor) != version:
            raise RuntimeError(
                f"[{node.name()}] A saved tensor pack hook is modifying its input in place: the tensor {name}. Tensors "
                "provided as input to pack hook can not be modified by in-place operations: change a clone() of it."
            )
        nested = False
        if outer and value is not None:
            leaves = flatten(value)
            for place, leaf in enumerate(leaves):
                if isinstance(leaf, Tensor) and not isinstance(leaf, Wrapper) and not leaf._word & WEAK_MASK:
                    leaves[place] = outer._pack(leaf, node, name)
                    nested = True
            if nested:
                value = unflatten(value, leaves)
        return _Packed(saver.unpack, value, nested)


def active_hooks() -> HookStack:
    """Return the hooks that are active in this thread or task."""
    return HookStack([value for value in current_state().values if isinstance(value, Saver)])


def save(tensor: Tensor, node: Node, name: str) -> Saved:
    """Save an input, packed if hooks are active."""
    saved: Saved = SavedTensor.of(tensor)
    stack = active_hooks()
    return saved.packed(stack, node, name) if stack else saved


def with_hooks(kernel: Callable[..., Any], node_class: type[Node], names: list[str]) -> Callable[..., Any]:
    """Return the kernel for words with ``HOOKED``, which packs the attributes ``saved_<name>`` of its node."""
    fields = [(f"saved_{name}", name) for name in names]

    def hooked(*args: Any, **kwargs: Any) -> Any:
        out = kernel(*args, **kwargs)
        meta = out._autograd
        node = None if meta is None else meta.node
        stack = active_hooks()
        if stack and node.__class__ is node_class:
            for field, name in fields:
                saved = getattr(node, field)
                if saved is not None:
                    setattr(node, field, as_saved(saved, node).packed(stack, node, name))
        return out

    return hooked if names else kernel


def with_choice(operator: Any, inner: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``inner`` for words with ``HOOKED``, under which a selective checkpoint may have the result already."""

    def run(*args: Any, **kwargs: Any) -> Any:
        state = get_state()
        for value in () if state is None else reversed(state.values):
            if isinstance(value, Chooser):
                return value.run(operator, inner, args, kwargs)
        return inner(*args, **kwargs)

    return run


# ---- the public contexts


class saved_tensors_hooks(StateGuard):
    """Keep ``pack_hook(x)`` in place of every tensor ``x`` saved for backward in a ``with`` block.

    Args: pack_hook: receives the tensor and returns any value; it runs without recording and must not modify the
    tensor; unpack_hook: receives the result of pack_hook whenever a formula needs the tensor, and returns a tensor of
    the same shape (and with the same values, for the gradient to be exact). Operators, ``Function.save_for_backward``
    and custom operators save through them. Local to a thread and a task. Contexts nest by composition, the innermost
    first (see ``tenkey.autograd.saved_tensors.saved_tensor_hooks``).

    An exception in a hook propagates to the call, or to the backward that needs the tensor. Raises TypeError for hooks
    that are not functions, and RuntimeError on entry inside ``disable_saved_tensors_hooks``.

    >>> x = tk.tensor([1.0, 2.0], requires_grad=True)
    >>> with tk.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().tolist(), tk.tensor):
    ...     y = tk.sum(x * x)
    >>> y.backward()
    >>> x.grad.tolist()
    [2.0, 4.0]
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        check_hooks("saved_tensors_hooks", pack_hook, unpack_hook)
        super().__init__(include=HOOKED, value=HookPair(pack_hook, unpack_hook))
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> Self:
        _refuse_disabled()
        return super().__enter__()


def check_hooks(call: str, pack_hook: Any, unpack_hook: Any) -> None:
    """Raise TypeError unless both are functions."""
    for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
        if not callable(hook):
            raise TypeError(f"[{call}] {name} must be a function, got {type(hook).__name__}.")


def enter_saver(owner: object, saver: Saver, modes: tuple[Any, ...] = ()) -> Callable[[], Any]:
    """Let ``saver`` pack saved values, with ``modes`` active, until ``leave(owner)``, or as ``switched`` does."""
    _refuse_disabled()
    return switched(owner, include=HOOKED | (DispatchKey.Mode.mask if modes else 0), modes=modes, value=saver)


def _refuse_disabled() -> None:
    disabled = innermost_guard(disable_saved_tensors_hooks)
    if disabled is not None:
        raise RuntimeError(disabled.error_message)


def _to_cpu(tensor: Tensor, pinned: bool = False) -> Any:
    device = tensor.device
    if device.type in ("cpu", "meta"):  # already there, or without values
        storage = storage_of(tensor)
        return (device, tensor, ref(storage), storage.version)
    if not pinned:
        return (device, tensor.to_device("cpu"), None, 0)
    moved = tensor.to("cpu", non_blocking=True)
    stream = device.backend.current_stream(device.index)
    if stream is not None:  # hooks outside of this one may read the values
        stream.synchronize()
    return (device, moved, None, 0)


def _from_cpu(packed: Any) -> Tensor:
    device, tensor, storage, version = packed
    if storage is not None and storage() is storage_of(tensor) and version_of(tensor) != version:
        raise RuntimeError(
            "[save_on_cpu] one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: a saved tensor of shape {tensor.shape}, which was on the CPU already and so was not copied, "
            f"is at version {version_of(tensor)}; expected version {version} instead. Use the functional form of the "
            "operation that changed it, or save a copy with clone()."
        )
    moved: Tensor = tensor if tensor.device == device else tensor.to(device, non_blocking=True)
    return moved


class save_on_cpu(saved_tensors_hooks):
    """Keep tensors saved for backward in a ``with`` block in CPU memory, and move them back in backward.

    Tensors of every device are moved; tensors on the CPU are kept as they are, without a copy. With ``pin_memory`` they
    are kept in pinned memory, from which a GPU copies them back by itself while the program goes on; where a device has
    no pinned memory, this changes nothing.

    >>> x = tk.tensor([1.0, 2.0], requires_grad=True)
    >>> with tk.autograd.graph.save_on_cpu():
    ...     y = tk.sum(x * x)
    >>> y.backward()
    >>> x.grad.tolist()
    [2.0, 4.0]
    """

    def __init__(self, pin_memory: bool = False) -> None:
        super().__init__(partial(_to_cpu, pinned=True) if pin_memory else _to_cpu, _from_cpu)


class disable_saved_tensors_hooks(OwnedGuard):
    """Forbid ``saved_tensors_hooks`` in a ``with`` block: entering it raises RuntimeError with this message.

    Also a decorator. It is meant for features that cannot work with such hooks. Entering it where hooks are active
    raises the same error.

    >>> with tk.autograd.graph.disable_saved_tensors_hooks("no hooks in here"):
    ...     with tk.autograd.graph.save_on_cpu():
    ...         pass
    Traceback (most recent call last):
    RuntimeError: no hooks in here
    """

    def __init__(self, error_message: str) -> None:
        if not isinstance(error_message, str):
            raise TypeError(
                "[disable_saved_tensors_hooks] takes the message of the error as a string, "
                f"got {type(error_message).__name__}."
            )
        super().__init__()
        self.error_message = error_message

    def __enter__(self) -> Self:
        if active_hooks():
            raise RuntimeError(self.error_message)
        return super().__enter__()
