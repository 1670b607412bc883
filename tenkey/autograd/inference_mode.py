"""Inference mode: calls are not recorded, and tensors made in it can never become part of a graph.

A tensor made in inference mode carries the key ``Inference``, and so does, through the local state, every call while
the mode is on. The kernel of that key is just above autograd. Inside the mode it removes the trait "requires a
gradient" from the call and marks new results; outside, it refuses to change an inference tensor in place and to save
one for backward, and makes results that are not views ordinary tensors. Views have the mark of their base. A call
outside the mode without inference tensors never reaches this kernel. Guarded by
``tests/autograd/test_inference_mode.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

from ..core.departures import departed
from ..core.tensor import Tensor
from ..core.word import INFERENCE, REQUIRES_GRAD
from ..dispatch.kernel import Kernel
from ..dispatch.keys import DispatchKey
from ..dispatch.local_state import get_state, innermost_guard
from ..dispatch.operator import Operator
from ..ops.aliases import Recording
from .grad_mode import GradMode, OwnedGuard
from .saved_tensors.saved import SavedList, SavedTensor, refuse_to_save
from .tape.node import Node

__all__ = ["inference_mode", "install_inference", "is_inference_mode_enabled"]


def is_inference_mode_enabled() -> bool:
    """Return whether inference mode is on in this thread or task.

    >>> with tk.inference_mode():
    ...     tk.is_inference_mode_enabled()
    True
    """
    state = get_state()
    return state is not None and bool(state.include & INFERENCE)


class inference_mode(OwnedGuard, GradMode):
    """Disable recording, and make tensors that can never be part of a graph; context manager and decorator.

    ``inference_mode(False)`` inside the mode restores normal operation, with gradients. Tensors made in the mode have
    ``is_inference``. Outside it they can be used in computations, but changing one in place, saving one for backward or
    making one require a gradient raises RuntimeError. Views of normal tensors stay normal, and a normal tensor can be
    changed in place in the mode.

    >>> w = tk.ones(2).requires_grad_()
    >>> with tk.inference_mode():
    ...     y = w * 2
    >>> y.requires_grad, bool(y.is_inference), bool((y + 1).is_inference)
    (False, True, False)
    """

    def __new__(cls, mode: Any = True) -> Any:
        """Make the mode; ``mode`` is a bool, or the function decorated by ``@inference_mode``."""
        if mode is True or mode is False:
            return object.__new__(cls)
        if not callable(mode) or isinstance(mode, type):
            raise TypeError(f"[inference_mode] takes a bool, or the function that it decorates; got {mode!r}.")
        return cls()(mode)

    def __init__(self, mode: Any = True) -> None:
        un = "" if mode else "un"
        self._change = {f"{un}include": INFERENCE, f"{un}exclude": REQUIRES_GRAD}

    def __enter__(self) -> Self:
        if "exclude" in self._change:
            departed("tk.inference_mode()")
        return super().__enter__()


def _inputs_of(node: Node) -> list[Tensor]:
    """Return the inputs that a node has saved, apart from those that hooks have packed."""
    values = [value for _, kept in node._kept_values() for value in (kept if isinstance(kept, SavedList) else (kept,))]
    return [value.tensor for value in values if value.__class__ is SavedTensor]


def _flat(result: Any) -> Iterable[Any]:
    return result if isinstance(result, (tuple, list)) else (result,)


def _specialize(operator: Operator, word: int) -> Callable[..., Any]:
    below = word & ~INFERENCE
    inner = operator.cache[below]
    silent = operator.cache[below & ~REQUIRES_GRAD] if below & REQUIRES_GRAD else inner
    if operator.schema.is_mutable:
        return _changing(operator, inner, silent)
    records = bool(below & REQUIRES_GRAD)
    name = operator.schema.base_name

    def kernel(*args: Any, **kwargs: Any) -> Any:
        state = get_state()
        if state is not None and state.include & INFERENCE:
            out = silent(*args, **kwargs)
            if out.__class__ is Tensor and out._storage is None:
                if out._word & INFERENCE:
                    return out
                for given in args:
                    if given is out:
                        return out
                out._word |= INFERENCE
                return out
            return _mark(out, args, INFERENCE)
        out = inner(*args, **kwargs)
        for one in _flat(out):
            meta = one._autograd if records and isinstance(one, Tensor) else None
            if meta is not None and meta.node is not None:
                refuse_to_save(name, _inputs_of(meta.node))
        return _mark(out, args, 0)

    return kernel


def _mark(out: Any, args: tuple[Any, ...], mark: int) -> Any:
    """Set or clear the mark of new results; views and returned arguments keep theirs."""
    for one in _flat(out):
        if isinstance(one, Tensor) and _owns_memory(one) and not any(one is given for given in args):
            one._word = (one._word & ~INFERENCE) | mark
    return out


def _owns_memory(tensor: Tensor) -> bool:
    """Return whether a tensor is not a view: a view always refers to the storage that it shares."""
    storage = tensor._storage
    return storage is None or (not isinstance(storage, Tensor) and storage.buffer is tensor._data)


def _changing(operator: Operator, inner: Callable[..., Any], silent: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel of a mutating operator, which refuses inference tensors outside the mode."""
    mutated = [(i, a.name) for i, a in enumerate(operator.schema.arguments) if a.is_mutable]

    def kernel(*args: Any, **kwargs: Any) -> Any:
        state = get_state()
        if state is not None and state.include & INFERENCE:
            return silent(*args, **kwargs)
        guard = innermost_guard(Recording)
        if guard is not None and guard.was_inference:
            return inner(*args, **kwargs)
        for position, name in mutated:
            for target in _flat(args[position] if position < len(args) else kwargs.get(name)):
                if isinstance(target, Tensor) and target._word & INFERENCE:
                    raise RuntimeError(
                        f"[{operator.schema.base_name}] Inplace update to inference tensor outside InferenceMode is "
                        f"not allowed: its argument {name!r}, of shape {target.shape}, was made in "
                        "tk.inference_mode(). Make a normal tensor of it with clone() first."
                    )
        return inner(*args, **kwargs)

    return kernel


def install_inference(registry: Any) -> None:
    """Register the kernel of the key ``Inference`` for all operators."""
    registry.fallback(
        Kernel(_specialize, DispatchKey.Inference, boxed=True, origin="generated", specialize=_specialize)
    )
