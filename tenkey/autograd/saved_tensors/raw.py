"""``node._raw_saved_<name>``: handles of what nodes saved, which take hooks for one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...core.tensor import Tensor
from ..tape.node import Node
from .hooks import HookedTensor, check_hooks, hook_pair, pack_saved
from .saved import FREED, SavedTensor

__all__ = ["RawSavedTensor", "pack_context", "raw_saved", "raw_saved_tensors"]

_HOOKED_ALREADY: Final = (
    "[register_hooks] Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair "
    "of hooks is allowed at a time: nest saved_tensors_hooks contexts around the forward pass instead. ({node}, {what})"
)


class RawSavedTensor:
    """``node._raw_saved_<name>``: what a node saved, as it is; ``register_hooks`` packs it.

    >>> import tenkey as tk
    >>> x = tk.tensor([3.0], requires_grad=True)
    >>> y = tk.sin(x)
    >>> y.grad_fn._raw_saved_x.register_hooks(lambda t: t.tolist(), lambda kept: tk.tensor(kept))
    >>> y.backward()
    >>> tk.all(x.grad == tk.cos(x)).item()
    True
    """

    __slots__ = ("_get", "_node", "_set", "_what")

    def __init__(self, node: Node, what: str, get: Callable[[], Any], put: Callable[[Any], None]) -> None:
        self._node = node
        self._what = what
        self._get = get
        self._set = put

    def register_hooks(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        """Pack the tensor now, and unpack it when a formula needs it. One pair for one tensor.

        Raises RuntimeError if it has hooks, was freed or is None; TypeError for what is no function.
        """
        check_hooks("register_hooks", pack_hook, unpack_hook)
        saved = self._get()
        named = {"node": self._node.name(), "what": self._what}
        if isinstance(saved, HookedTensor):
            raise RuntimeError(_HOOKED_ALREADY.format(**named))
        if saved is None:
            freed = getattr(self._node, "released", False) or getattr(self._node, "_released", False)
            raise RuntimeError(
                (
                    (
                        "[register_hooks] Calling register_hooks on a saved tensor after it has been freed ({node}, "
                        "{what}). Saved intermediate values of the graph are freed by backward() or grad(). Specify "
                        "retain_graph=True if you need them afterwards."
                    )
                    if freed
                    else (
                        "[register_hooks] Calling register_hooks on a saved tensor with value None is forbidden "
                        "({node}, {what})."
                    )
                ).format(**named)
            )
        self._set(pack_saved(saved, self._node, self._what, ((self, hook_pair(pack_hook, unpack_hook)),)))

    def __repr__(self) -> str:
        return f"<saved tensor {self._what} of {self._node.name()}>"


def raw_saved(node: Node, name: str) -> Any:
    """The handle of ``saved_<name>``; a tuple of them for a list of tensors."""
    own = f"saved_{name}"
    saved = getattr(node, own)

    def one(place: int) -> RawSavedTensor:
        def put(value: Any) -> None:
            getattr(node, own)[place] = value

        def get() -> Any:
            found = getattr(node, own)
            return None if found is None else found[place]

        return RawSavedTensor(node, f"{name}[{place}]", get, put)

    if isinstance(saved, list):
        return tuple([one(place) for place in range(len(saved))])
    return RawSavedTensor(node, name, lambda: getattr(node, own), lambda value: setattr(node, own, value))


# ---- of the context of a Function, which has a tuple of what was saved; plain tensors in it are saved as they are


def raw_saved_tensors(context: Any) -> tuple[RawSavedTensor, ...]:
    """The handles of all that ``save_for_backward`` was given."""
    if context._saved is None:
        raise RuntimeError(FREED.format(node=context.name()))
    return tuple([_place(context, nr) for nr in range(len(context._saved))])


def _place(context: Any, nr: int) -> RawSavedTensor:
    def get() -> Any:
        found = None if context._saved is None else context._saved[nr]
        return SavedTensor(found) if isinstance(found, Tensor) else found

    def put(value: Any) -> None:
        saved = list(context._saved or ())
        saved[nr] = value
        context._saved = tuple(saved)

    return RawSavedTensor(context, f"saved_tensors[{nr}]", get, put)


def pack_context(context: Any) -> None:
    """Let the hooks that are on pack what was saved (Note [Hooks on saved tensors])."""
    saved = [SavedTensor(one) if isinstance(one, Tensor) else one for one in context._saved or ()]
    if saved:
        context._saved = tuple([pack_saved(one, context, f"saved_tensors[{nr}]") for nr, one in enumerate(saved)])
