"""``node._raw_saved_<name>``: handles of saved values, which take hooks for a single tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.tensor import Tensor
from ..tape.node import Node
from .saved import SavedList, as_saved
from .saved_tensor_hooks import HookedTensor, HookPair, HookStack, check_hooks

__all__ = ["RawSavedTensor", "raw_saved"]


class RawSavedTensor:
    """A value that a node saved, still packed; ``register_hooks`` packs it.

    >>> x = tk.tensor([3.0], requires_grad=True)
    >>> y = tk.sin(x)
    >>> y.grad_fn._raw_saved_x.register_hooks(lambda t: t.tolist(), lambda kept: tk.tensor(kept))
    >>> y.backward()
    >>> tk.all(x.grad == tk.cos(x)).item()
    True
    """

    __slots__ = ("_key", "_name", "_node", "_place")

    def __init__(self, node: Node, name: str, place: Any, key: Any) -> None:
        self._node = node
        self._name = name
        self._place = place  # the list that holds the value, or the node
        self._key = key

    def register_hooks(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        """Pack the tensor now, and unpack it when a formula needs it. A tensor takes one pair of hooks.

        Raises RuntimeError if the tensor has hooks, was freed or is None; TypeError for hooks that are not functions.
        """
        check_hooks("register_hooks", pack_hook, unpack_hook)
        where = f"({self._node.name()}, {self._name})"
        if self._node._released:
            raise RuntimeError(
                f"[register_hooks] Calling register_hooks on a saved tensor after it has been freed {where}. Saved "
                "intermediate values of the graph are freed by backward() or grad(). Specify retain_graph=True if you "
                "need them afterwards."
            )
        listed = isinstance(self._place, list)
        saved = self._place[self._key] if listed else as_saved(getattr(self._place, self._key), self._node)
        if saved is None:
            raise RuntimeError(
                f"[register_hooks] Calling register_hooks on a saved tensor with value None is forbidden {where}."
            )
        if isinstance(saved, HookedTensor):
            raise RuntimeError(
                "[register_hooks] Calling register_hooks on a saved tensor whose hooks have already been set. Hint: "
                "only one pair of hooks is allowed at a time: nest saved_tensors_hooks contexts around the forward "
                f"pass instead. {where}"
            )
        packed = saved.packed(HookStack([HookPair(pack_hook, unpack_hook)]), self._node, self._name)
        if listed:
            self._place[self._key] = packed
        else:
            setattr(self._place, self._key, packed)

    def __repr__(self) -> str:
        return f"<saved tensor {self._name} of {self._node.name()}>"


def raw_saved(node: Node, name: str) -> Any:
    """Return the handle of ``saved_<name>``, or a tuple of handles for a list of tensors."""
    field = f"saved_{name}"
    saved = getattr(node, field)
    if isinstance(saved, SavedList):
        return tuple([RawSavedTensor(node, f"{name}[{i}]", saved, i) for i in range(len(saved))])
    return RawSavedTensor(node, name, node, field)
