"""Changing tensors saved for backward: ``allow_mutation_on_saved_tensors``, and the version counter.

In ``allow_mutation_on_saved_tensors`` a pack hook (Note [Hooks on saved tensors]) registers each saved tensor under its
storage, and a mode sees every operator call before it runs. A call that changes a tensor first replaces the saved
tensors on the same storage by copies, unless they are copies already; so views count too, and a tensor that never
changes is never copied. At the end of the context all of them are released. Guarded by
``tests/autograd/test_graph_utilities.py::TestAllowMutation``.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from ...core.storage import Storage
from ...core.tensor import Tensor, storage_of
from ...core.tree import tensors_in
from ...core.word import INFERENCE
from ...core.wrapper import Wrapper
from ...dispatch.local_state import StateGuard, current_state, innermost_guard, leave, silently
from ...dispatch.modes import DispatchMode
from ..tape.node import Node
from .saved import alone
from .saved_tensor_hooks import Saver, enter_saver

__all__ = ["allow_mutation_on_saved_tensors", "increment_version"]


class _Kept:
    """A saved tensor: the tensor itself until its memory is about to change, then a copy; None after the end."""

    __slots__ = ("__weakref__", "copied", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor | None = tensor
        self.copied = False

    def copy(self) -> None:
        if self.tensor is not None and not self.copied:
            self.tensor = silently(self.tensor.clone)
            self.copied = True


def _tensor_of(kept: _Kept) -> Tensor:
    if kept.tensor is None:
        raise RuntimeError(
            "[allow_mutation_on_saved_tensors] Trying to backward outside of the 'allow_mutation_on_saved_tensors' "
            "context in which the graph was originally recorded: saved tensors are freed at its end. Run forward and "
            "backward in the same context."
        )
    return kept.tensor


class _CopyOnWrite(Saver, DispatchMode):
    """The pack hook of one context, and the mode that sees the calls that change tensors."""

    unpack = staticmethod(_tensor_of)

    def __init__(self) -> None:
        self._by_storage: weakref.WeakKeyDictionary[Storage, weakref.WeakSet[_Kept]] = weakref.WeakKeyDictionary()
        self._all: weakref.WeakSet[_Kept] = weakref.WeakSet()

    def pack(self, tensor: Tensor, node: Node, name: str) -> _Kept:
        kept = _Kept(alone(tensor))
        self._all.add(kept)
        self._by_storage.setdefault(storage_of(tensor), weakref.WeakSet()).add(kept)
        return kept

    def __tk_dispatch__(self, op: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if op.schema.is_mutable:
            for position, argument in enumerate(op.schema.arguments):
                if argument.is_mutable:
                    for tensor in tensors_in(args[position] if position < len(args) else kwargs.get(argument.name)):
                        if not isinstance(tensor, Wrapper):
                            for kept in self._by_storage.pop(storage_of(tensor), ()):
                                kept.copy()
        return NotImplemented

    def clear(self) -> None:
        """Release all saved tensors; the graph cannot be run backward any more."""
        for kept in list(self._all):
            kept.tensor = None
        self._by_storage.clear()


class allow_mutation_on_saved_tensors(StateGuard):
    """Allow in-place changes of tensors saved for backward in a ``with`` block: they are copied first.

    Run forward and backward in the same block: at its end the saved tensors are freed, and a later backward through
    the graph raises RuntimeError. The block returns an object whose ``clear()`` frees them earlier. Blocks do not nest.

    >>> a = tk.tensor([1.0, 1.0], requires_grad=True)
    >>> with tk.autograd.graph.allow_mutation_on_saved_tensors():
    ...     b = a.clone()
    ...     y = tk.sum(b * b)
    ...     _ = b.multiply_(5)
    ...     y.backward()
    >>> a.grad.tolist()
    [2.0, 2.0]
    """

    def __enter__(self) -> _CopyOnWrite:  # type: ignore[override]
        if innermost_guard(allow_mutation_on_saved_tensors) is not None:
            raise RuntimeError(
                "[allow_mutation_on_saved_tensors] allow_mutation_on_saved_tensors contexts cannot be nested: the "
                "outer block covers everything inside it. Remove the inner one."
            )
        made = _CopyOnWrite()
        enter_saver(self, made, modes=(made,))
        return made

    def __exit__(self, *error: object) -> None:
        try:
            values = current_state().values
            leave(self)
        except BaseException:
            leave(self)  # Note [Interrupts]
            raise
        for value in values:
            if isinstance(value, _CopyOnWrite):
                value.clear()


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Record that the memory of a tensor, or of several, was changed in place where the library cannot see it.

    Use it after a kernel of your own has written through ``x.array``. Formulas that saved the tensor then raise, as
    after any in-place operation.

    >>> x = tk.ones(2)
    >>> tk.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    tensors = [tensor] if isinstance(tensor, Tensor) or not isinstance(tensor, Iterable) else list(tensor)
    for one in tensors:
        if not isinstance(one, Tensor):
            raise TypeError(f"[increment_version] takes a tensor or several, got {type(one).__name__}.")
        if one._word & INFERENCE:
            raise RuntimeError(
                "[increment_version] Inference tensors do not track version counter: the tensor of shape "
                f"{one.shape} was made in tk.inference_mode()."
            )
    for one in tensors:
        storage_of(one).version += 1
