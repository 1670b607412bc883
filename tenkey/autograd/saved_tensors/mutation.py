"""Changing tensors that were saved for backward: ``allow_mutation_on_saved_tensors``, and the version counter.

Note [Copy on write]
~~~~~~~~~~~~~~~~~~~~
In ``allow_mutation_on_saved_tensors`` a pack hook (Note [Hooks on saved tensors]) notes under the storage of each saved
tensor that it is saved, and a mode sees every operator call before it happens. A call that changes a tensor first gives
those saved tensors on the same storage that were not copied yet a copy of what they hold; so a view of it counts too,
and what is never changed is never copied. At the end of the context all of them let go of what they held. Guarded by
``tests/autograd/test_graph_utilities.py::TestAllowMutation``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final

from ..._util.context_decorator import decorate
from ...core.storage import Storage
from ...core.tensor import Tensor, storage_of
from ...core.tree import tensors_in
from ...core.word import INFERENCE, REQUIRES_GRAD
from ...core.wrapper import Wrapper
from ...dispatch.local_state import StateGuard
from ...dispatch.modes import DispatchMode
from ..tape.node import Node
from .hooks import Saver, enter_saver, leave_saver
from .saved import alone

__all__ = ["allow_mutation_on_saved_tensors", "increment_version"]

_NO_TENSOR: Final = "[increment_version] takes a tensor or several, got {got}."


class _Kept:
    """A saved tensor: the tensor itself until its memory is about to be changed, then a copy; None after the end."""

    __slots__ = ("__weakref__", "copied", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor | None = tensor
        self.copied = False

    def copy(self) -> None:
        if self.tensor is not None and not self.copied:
            with StateGuard(exclude=REQUIRES_GRAD):
                self.tensor = self.tensor.clone()
            self.copied = True


def _tensor_of(kept: _Kept) -> Tensor:
    if kept.tensor is None:
        raise RuntimeError(
            "[allow_mutation_on_saved_tensors] Trying to backward outside of the 'allow_mutation_on_saved_tensors' "
            "context in which the graph was originally recorded: what was saved is freed at its end. Run forward and "
            "backward in the same context."
        )
    return kept.tensor


class _Keeper(Saver):
    """The pack hook."""

    def __init__(self) -> None:
        self.by_storage: weakref.WeakKeyDictionary[Storage, weakref.WeakSet[_Kept]] = weakref.WeakKeyDictionary()
        self.all: weakref.WeakSet[_Kept] = weakref.WeakSet()

    def pack(self, tensor: Tensor, node: Node, what: str) -> _Kept:
        kept = _Kept(alone(tensor))
        self.all.add(kept)
        self.by_storage.setdefault(storage_of(tensor), weakref.WeakSet()).add(kept)
        return kept

    def unpacker(self) -> Callable[[Any], Tensor]:
        return _tensor_of

    def before_change(self, tensor: Tensor) -> None:
        """Copy what is saved of the memory of a tensor."""
        for kept in self.by_storage.pop(storage_of(tensor), ()):
            kept.copy()

    def clear(self) -> None:
        """Let go of everything, of the copies too."""
        for kept in list(self.all):
            kept.tensor = None
        self.by_storage.clear()


class _Watch(DispatchMode):
    """Sees the calls that change tensors."""

    def __init__(self, keeper: _Keeper) -> None:
        self.keeper = keeper

    def __tk_dispatch__(self, op: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if op.schema.is_mutable:
            for position, argument in enumerate(op.schema.arguments):
                if argument.is_mutable:
                    given = args[position] if position < len(args) else kwargs.get(argument.name)
                    for tensor in tensors_in(given):
                        if tensor.__class__ is not Wrapper:
                            self.keeper.before_change(tensor)
        return NotImplemented


class _State:
    """What ``allow_mutation_on_saved_tensors`` gives: ``clear()`` lets go of what is kept."""

    def __init__(self, keeper: _Keeper) -> None:
        self._keeper = keeper

    def clear(self) -> None:
        """Let go of all saved tensors; the graph cannot be run backward any more."""
        self._keeper.clear()


_active: Final[ContextVar[tuple[Any, ...] | None]] = ContextVar("tenkey_allow_mutation", default=None)


class allow_mutation_on_saved_tensors:
    """In a ``with`` block, tensors that were saved for backward may be changed in place: they are copied before.

    Run forward and backward in the same block: at its end what was saved is freed, and a later backward through it is
    a RuntimeError. The block gives an object with ``clear()``, which frees earlier. Blocks do not nest.

    >>> import tenkey as tk
    >>> a = tk.tensor([1.0, 1.0], requires_grad=True)
    >>> with tk.autograd.graph.allow_mutation_on_saved_tensors():
    ...     b = a.clone()
    ...     y = tk.sum(b * b)
    ...     _ = b.multiply_(5)
    ...     y.backward()
    >>> a.grad.tolist()
    [2.0, 2.0]
    """

    def __enter__(self) -> _State:
        if _active.get() is not None:
            raise RuntimeError(
                "[allow_mutation_on_saved_tensors] allow_mutation_on_saved_tensors contexts cannot be nested: the "
                "outer block does for all that is in it. Leave the inner one away."
            )
        keeper = _Keeper()
        watch = _Watch(keeper)
        enter_saver(self, keeper)
        watch.__enter__()
        _active.set((self, keeper, watch))
        return _State(keeper)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        active = _active.get()
        if active is None or active[0] is not self:
            return
        _active.set(None)
        active[2].__exit__(kind, error, trace)
        leave_saver(self)
        active[1].clear()

    def __call__(self, function: Any) -> Any:
        """Decorate ``function``, which runs forward and backward."""
        return decorate(function, type(self))


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Say that the memory of a tensor, or of several, was changed in place, where the library cannot see it.

    For example by a kernel of one's own through ``x.data``. Formulas that saved the tensor then refuse, as after any
    in-place operation.

    >>> import tenkey as tk
    >>> x = tk.ones(2)
    >>> tk.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    if isinstance(tensor, Tensor):
        tensor = (tensor,)
    elif not isinstance(tensor, Iterable):
        raise TypeError(_NO_TENSOR.format(got=type(tensor).__name__))
    tensors = list(tensor)
    for one in tensors:
        if not isinstance(one, Tensor):
            raise TypeError(_NO_TENSOR.format(got=type(one).__name__))
        if one._word & INFERENCE:
            raise RuntimeError(
                f"[increment_version] Inference tensors do not track version counter: the tensor of shape {one.shape} "
                "was made in tk.inference_mode()."
            )
    for one in tensors:
        storage_of(one).version += 1
