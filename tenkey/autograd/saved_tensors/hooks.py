"""Hooks on saved tensors: what a program puts into the graph in place of the tensors that formulas need.

Note [Hooks on saved tensors]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Whether hooks are on is a bit of the local state, ``HOOKED`` (Note [Bits of the local state]); the hooks are in a
context variable beside it. A call that is recorded with this bit meets another kernel: the one that it would meet
without, and after it what the node saved is packed. So a program that uses no hooks pays nothing for them.

Contexts nest by composition, as functions do. The innermost pack hook gets the tensor; the tensors in what it returns
(itself, or in lists, tuples, dicts and dataclasses) are packed by the next hook outside, and so on. Unpacking goes the
other way. So ``save_on_cpu`` inside of hooks that quantise moves to the CPU first, and what lies there is quantised; an
object that holds no tensor (the number of a file, a checkpoint) ends the chain. (PyTorch applies the innermost pair
alone, and so drops the outer one without a word.) A hook is off while it runs: what it calls is not recorded, and is
packed by the hooks outside of it, should it switch recording on.

An input is given to the hook itself, so that the hook can tell parameters; an output is given as a tensor without
history on the same memory, so a hook that returns what it is given makes no cycle. What ``unpack`` returns gets the
history that the saved tensor had. With hooks it is theirs to see to it that nobody changes what they keep: versions
are not compared. Python numbers among the operands are no tensors to hooks. Guarded by
``tests/autograd/test_saved_tensors.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Self
from weakref import ref

from ..._util.context_decorator import decorate
from ...core.tensor import Tensor, storage_of, version_of
from ...core.tree import flatten, unflatten
from ...core.word import REQUIRES_GRAD, WEAK_MASK
from ...core.wrapper import Wrapper
from ...dispatch.keys import register_trait
from ...dispatch.local_state import enter, get_state, leave, make_state, set_state
from ..inference_mode import refuse_to_save
from ..tape.node import AccumulateGrad, AutogradMeta, Edge, Node, edge_of, set_history
from .saved import SavedOutput, SavedTensor, alone

__all__ = [
    "HOOKED",
    "HookedTensor",
    "Saver",
    "check_hooks",
    "choosing",
    "disable_saved_tensors_hooks",
    "enter_saver",
    "hook_pair",
    "hooks_are_on",
    "leave_saver",
    "pack_saved",
    "save",
    "save_on_cpu",
    "saved_tensors_hooks",
    "savers",
    "with_choice",
    "with_hooks",
]

HOOKED: Final = register_trait("saved-tensor hooks")
"""The bit of the local state that says: what is saved is packed."""


class Saver:
    """What packs and unpacks; hooks of a user are one, and so is a checkpoint."""

    def pack(self, tensor: Tensor, node: Node, what: str) -> Any:
        """What is kept in place of ``tensor``, which ``node`` saves under the name ``what``."""
        raise NotImplementedError

    def unpacker(self) -> Callable[[Any], Any]:
        """The function that makes the tensor of what was kept; the graph holds it, so it should hold little."""
        raise NotImplementedError


class _Pair(Saver):
    __slots__ = ("_pack", "_unpack")

    def __init__(self, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
        self._pack = pack
        self._unpack = unpack

    def pack(self, tensor: Tensor, node: Node, what: str) -> Any:
        return self._pack(tensor)

    def unpacker(self) -> Callable[[Any], Any]:
        return self._unpack


def hook_pair(pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> Saver:
    """The hooks of a user as what packs and unpacks."""
    return _Pair(pack, unpack)


_Stack = tuple[tuple[object, Saver], ...]
savers: Final[ContextVar[_Stack]] = ContextVar("tenkey_saved_tensors_hooks", default=())
_disabled: Final[ContextVar[tuple[tuple[object, str], ...]]] = ContextVar("tenkey_hooks_disabled", default=())
choosing: Final[ContextVar[Any]] = ContextVar("tenkey_selective_checkpoint", default=None)
"""What decides which results a checkpoint keeps: see Note [Selective checkpoints]."""


def hooks_are_on() -> bool:
    """Whether what is saved here is packed."""
    state = get_state()
    return state is not None and bool(state.include & HOOKED)


# ---- what the graph holds


class _Packed:
    """What a hook returned. If ``nested``, the tensors in it were packed in turn, and are of this class."""

    __slots__ = ("nested", "unpack", "value")

    def __init__(self, unpack: Callable[[Any], Any], value: Any, nested: bool) -> None:
        self.unpack = unpack
        self.value = value
        self.nested = nested


class HookedTensor:
    """A tensor that was packed by hooks, with the place in the graph that it had (Note [Hooks on saved tensors])."""

    __slots__ = ("edge", "output_nr", "packed", "shape")

    def __init__(self, packed: _Packed, shape: tuple[int, ...], edge: Edge | None, output_nr: int) -> None:
        self.packed = packed
        self.shape = shape
        self.edge = edge  # of an input that requires a gradient
        self.output_nr = output_nr  # of an output, else -1

    def unpack(self, node: Node, what: str) -> Tensor:
        """The tensor that the hooks make, with the history that the saved one had."""
        result = _unpack(self.packed, node, what)
        if result.shape != self.shape:
            raise RuntimeError(
                f"[{node.name()}] the unpack hook returned a tensor of shape {result.shape} for {what}, which was "
                f"saved with shape {self.shape}: unpack_hook(pack_hook(x)) must have the shape of x."
            )
        if result.__class__ is Wrapper:
            return result
        if self.output_nr >= 0:
            state = get_state()
            result = alone(result)
            if state is None or not state.exclude & REQUIRES_GRAD:
                set_history(result, node, self.output_nr)
            return result
        edge = self.edge
        if edge is None:
            return alone(result) if result._word & REQUIRES_GRAD else result
        if result._word & REQUIRES_GRAD and edge_of(result) == edge:
            return result
        result = alone(result)
        if not isinstance(edge[0], AccumulateGrad):
            set_history(result, edge[0], edge[1])  # type: ignore[arg-type]  # it requires a gradient
        else:  # a leaf: it has an accumulator, and no node
            meta = result._autograd = AutogradMeta()
            meta.edge = edge
            result._word |= REQUIRES_GRAD
        return result


def _unpack(packed: _Packed, node: Node, what: str) -> Tensor:
    value = packed.value
    if packed.nested:
        leaves = flatten(value)
        value = unflatten(value, [_unpack(one, node, what) if one.__class__ is _Packed else one for one in leaves])
    result = packed.unpack(value)
    if not isinstance(result, Tensor):
        raise TypeError(
            f"[{node.name()}] Output of saved tensor unpack_hook expected to be a Tensor but got result of "
            f"type {type(result).__name__} (for {what})."
        )
    return result


# ---- packing


def _pack(tensor: Tensor, stack: _Stack, node: Node, what: str) -> _Packed:
    """Pack with the innermost hooks of the stack, and what they return with those outside."""
    saver = stack[-1][1]
    outer = stack[:-1]
    savers.set(outer)
    version = version_of(tensor)
    value = saver.pack(tensor, node, what)
    if version_of(tensor) != version:
        raise RuntimeError(
            f"[{node.name()}] A saved tensor pack hook is modifying its input in place: the tensor {what}. Tensors "
            "provided as input to pack hook can not be modified by in-place operations: change a clone() of it."
        )
    nested = False
    if outer and value is not None:
        leaves = flatten(value)
        for place, leaf in enumerate(leaves):
            if _is_packable(leaf):
                leaves[place] = _pack(leaf, outer, node, what)
                nested = True
        if nested:
            value = unflatten(value, leaves)
    return _Packed(saver.unpacker(), value, nested)


def _is_packable(value: Any) -> bool:
    return isinstance(value, Tensor) and value.__class__ is not Wrapper and not value._word & WEAK_MASK


def _hooked(tensor: Tensor, stack: _Stack, node: Node, what: str, edge: Edge | None, output_nr: int) -> HookedTensor:
    found, before = get_state(), savers.get()
    include, exclude, modes = (0, 0, ()) if found is None else (found.include, found.exclude, found.modes)
    try:
        set_state(make_state(include, exclude | REQUIRES_GRAD, modes))
        return HookedTensor(_pack(tensor, stack, node, what), tensor.shape, edge, output_nr)
    finally:
        set_state(found)
        savers.set(before)


def pack_saved(saved: Any, node: Node, what: str, stack: _Stack | None = None) -> Any:
    """What a node saved, packed by the hooks that are on (or those given); lists element by element."""
    if saved is None:
        return None
    if isinstance(saved, list):
        return [pack_saved(item, node, f"{what}[{i}]", stack) for i, item in enumerate(saved)]
    stack = savers.get() if stack is None else stack
    if not stack:
        return saved
    if isinstance(saved, SavedTensor):
        if not _is_packable(saved.tensor):
            return saved
        tensor = saved.unpack(node, what)
        refuse_to_save(node.name(), [tensor])
        return _hooked(tensor, stack, node, what, edge_of(tensor) if tensor._word & REQUIRES_GRAD else None, -1)
    if isinstance(saved, SavedOutput):
        found = get_state()
        try:
            set_state(make_state(0, REQUIRES_GRAD, ()))
            tensor = saved.unpack(node, what)
        finally:
            set_state(found)
        return _hooked(tensor, stack, node, what, None, saved.output_nr)
    return saved


def save(tensor: Tensor, node: Node, what: str) -> Any:
    """Save an input, packed if hooks are on."""
    saved = SavedTensor(tensor)
    return pack_saved(saved, node, what) if hooks_are_on() else saved


def with_hooks(kernel: Callable[..., Any], node_class: type[Node], names: list[str]) -> Callable[..., Any]:
    """The kernel for words with ``HOOKED``: what its node saved under ``saved_<name>`` is packed."""

    fields = [(f"saved_{name}", name) for name in names]

    def hooked(*args: Any, **kwargs: Any) -> Any:
        out = kernel(*args, **kwargs)
        meta = out._autograd
        node = None if meta is None else meta.node
        if node.__class__ is node_class and savers.get():
            for field, what in fields:
                saved = getattr(node, field)
                if saved is not None:
                    setattr(node, field, pack_saved(saved, node, what))
        return out

    return hooked if names else kernel


def with_choice(operator: Any, inner: Callable[..., Any]) -> Callable[..., Any]:
    """What the autograd kernel calls for words with ``HOOKED``: a selective checkpoint may have kept the result."""

    def run(*args: Any, **kwargs: Any) -> Any:
        chooser = choosing.get()
        return inner(*args, **kwargs) if chooser is None else chooser.run(operator, inner, args, kwargs)

    return run


# ---- the public contexts


class saved_tensors_hooks:
    """In a ``with`` block, keep ``pack_hook(x)`` in place of every tensor x that is saved for backward.

    Args: pack_hook: gets the tensor and returns anything; it runs without recording and must not change the tensor;
    unpack_hook: gets what pack_hook returned, whenever a formula needs the tensor, and returns a tensor of the same
    shape (and of the same values, if the gradient is to be exact). Operators, ``Function.save_for_backward`` and
    custom operators save through them. Local to a thread and a task. Contexts nest by composition, the innermost first
    (see ``tenkey.autograd.saved_tensors.hooks``).

    An exception of a hook arrives where the call was made or the gradient was asked for. Raises TypeError for what is
    no function, and RuntimeError on entering where ``disable_saved_tensors_hooks`` is on.

    >>> import tenkey as tk
    >>> x = tk.tensor([1.0, 2.0], requires_grad=True)
    >>> with tk.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().tolist(), tk.tensor):
    ...     y = tk.sum(x * x)
    >>> y.backward()
    >>> x.grad.tolist()
    [2.0, 4.0]
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        check_hooks("saved_tensors_hooks", pack_hook, unpack_hook)
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> Self:
        enter_saver(self, _Pair(self.pack_hook, self.unpack_hook))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave_saver(self)


def check_hooks(what: str, pack_hook: Any, unpack_hook: Any) -> None:
    """Raise unless both are functions."""
    for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
        if not callable(hook):
            raise TypeError(f"[{what}] {name} is a function, got {type(hook).__name__}.")


def enter_saver(owner: object, saver: Saver) -> None:
    """Let ``saver`` pack what is saved until ``leave_saver(owner)``."""
    forbidden = _disabled.get()
    if forbidden:
        raise RuntimeError(forbidden[-1][1])
    enter(owner, include=HOOKED)
    savers.set((*savers.get(), (owner, saver)))


def leave_saver(owner: object) -> None:
    """Undo what ``owner`` entered last; those that were entered later stay on."""
    savers.set(_without(savers.get(), owner))
    leave(owner)


def _without(entries: tuple[tuple[object, Any], ...], owner: object) -> tuple[tuple[object, Any], ...]:
    for i in reversed(range(len(entries))):
        if entries[i][0] is owner:
            return (*entries[:i], *entries[i + 1 :])
    return entries


def _to_cpu(tensor: Tensor) -> Any:
    device = tensor.device
    if device.type in ("cpu", "meta"):  # is there already, or has no values
        storage = storage_of(tensor)
        return (device, tensor, ref(storage), storage.version)
    return (device, tensor.to_device("cpu"), None, 0)


def _from_cpu(packed: Any) -> Tensor:
    device, tensor, storage, version = packed
    if storage is not None and storage() is storage_of(tensor) and version_of(tensor) != version:
        raise RuntimeError(
            "[save_on_cpu] one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: a saved tensor of shape {tensor.shape}, which was on the CPU already and so was not copied, "
            f"is at version {version_of(tensor)}; expected version {version} instead. Use the functional form of the "
            "operation that changed it, or save a copy with clone()."
        )
    moved: Tensor = tensor if tensor.device == device else tensor.to_device(device)
    return moved


class save_on_cpu(saved_tensors_hooks):
    """In a ``with`` block, keep what is saved for backward in the memory of the CPU, and move it back for backward.

    Args: pin_memory: ask for page-locked memory, where the device copies to and from it without waiting; backends
    that have none use ordinary memory. Tensors of the CPU are kept as they are, without a copy.

    >>> import tenkey as tk
    >>> x = tk.tensor([1.0, 2.0], requires_grad=True)
    >>> with tk.autograd.graph.save_on_cpu():
    ...     y = tk.sum(x * x)
    >>> y.backward()
    >>> x.grad.tolist()
    [2.0, 4.0]
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        if not isinstance(pin_memory, bool):
            raise TypeError(f"[save_on_cpu] pin_memory is a bool, got {type(pin_memory).__name__}.")
        self.pin_memory = pin_memory
        self.device_type = device_type
        super().__init__(_to_cpu, _from_cpu)


class disable_saved_tensors_hooks:
    """In a ``with`` block, entering ``saved_tensors_hooks`` is an error with this message. Also a decorator.

    For features that cannot work with such hooks. Entering it where hooks are on is the same error.

    >>> import tenkey as tk
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
        self.error_message = error_message

    def __enter__(self) -> Self:
        if savers.get():
            raise RuntimeError(self.error_message)
        _disabled.set((*_disabled.get(), (self, self.error_message)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _disabled.set(_without(_disabled.get(), self))

    def __call__(self, function: Any) -> Any:
        """Decorate ``function``."""
        return decorate(function, lambda: type(self)(self.error_message))
