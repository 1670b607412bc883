"""``register_multi_grad_hook``: one hook on the gradients of several tensors."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal
from weakref import ref

from ...core.tensor import Tensor
from ...core.word import REQUIRES_GRAD
from ..tape.node import HookHandle, edge_of
from .graph_task import current_task, queue_callback

__all__ = ["register_multi_grad_hook"]


def _notes() -> dict[object, Any]:
    """Return what these hooks have noted in the running backward. Threads may call it at the same time."""
    task: Any = current_task.get()
    return vars(task).setdefault("notes", {})  # type: ignore[no-any-return]


class _Arrived:
    """The gradients that have arrived in one backward, and the number of those expected."""

    def __init__(self, nodes: list[ref[Any]]) -> None:
        task: Any = current_task.get()
        self.grads: dict[int, Tensor] = {}
        self.count = itertools.count(1).__next__
        self.expected = sum(task.will_run(node()) for node in nodes)


def _for_all(tensors: list[Tensor], fn: Any) -> list[Callable[[Tensor], None]]:
    """Return hooks that call the function when the last gradient that a backward computes has arrived.

    A node that the backward reaches may still get no gradient (a formula returned None), without any notification. So
    the first gradient queues a callback at the end of the backward, which calls the function with what has arrived.
    """
    # Weak references: a hook on a leaf must not keep the graphs of its tensors alive.
    nodes = [ref(edge_of(tensor)[0]) for tensor in tensors]
    key = object()

    def call(grads: dict[int, Tensor]) -> None:
        fn([grads.get(index) for index in range(len(nodes))])

    def at_end(arrived: _Arrived) -> None:
        if len(arrived.grads) != arrived.expected:
            call(arrived.grads)

    def arrive(index: int, grad: Tensor) -> None:
        notes = _notes()
        arrived = notes.get(key)
        if arrived is None:
            new = _Arrived(nodes)
            arrived = notes.setdefault(key, new)
            if arrived is new and new.expected > 1:
                queue_callback(functools.partial(at_end, new))
        arrived.grads[index] = grad
        if arrived.count() == arrived.expected:
            call(arrived.grads)

    return [functools.partial(arrive, index) for index in range(len(nodes))]


def _for_any(fn: Any) -> Callable[[Tensor], None]:
    """Return a hook that calls the function with the first gradient of each backward."""
    key = object()

    def arrive(grad: Tensor) -> None:
        mine = object()
        if _notes().setdefault(key, mine) is mine:
            fn(grad)

    return arrive


def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[[list[Tensor | None]], Any] | Callable[[Tensor], Any],
    *,
    mode: Literal["all", "any"] = "all",
) -> HookHandle:
    """Call ``fn`` once per backward for the gradients of several tensors, and return a handle with ``remove()``.

    With ``mode="all"``, the call is made when the last gradient is computed, with a list of one gradient for each
    tensor, in their order. The list has None for a tensor whose gradient this backward does not compute; the call does
    not wait for it. If a formula returns None for one of the others, the call is made at the end of the backward. With
    ``mode="any"``, the call is made with the first gradient computed. Among the hooks of a tensor, this one runs in the
    order of registration (Note [Order of hooks]); its result is ignored, and it must not change its arguments.

    Raises ValueError for another mode, TypeError for arguments that are not tensors or not callable, and RuntimeError
    for a tensor that does not require a gradient (the mode "any" skips it).

    >>> a, b = tk.ones(1).requires_grad_(), tk.ones(1).requires_grad_()
    >>> def norm(gradients):
    ...     print([None if g is None else g.tolist() for g in gradients])
    >>> handle = tk.autograd.graph.register_multi_grad_hook((a, b), norm)
    >>> (a * 2 + b * 3).sum().backward()
    [[2.0], [3.0]]
    >>> (a * 4).sum().backward()
    [[4.0], None]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"[register_multi_grad_hook] Expects mode to be one of ('all', 'any') but got {mode!r}.")
    given: Any = tensors
    listed = [] if isinstance(given, Tensor) or not isinstance(given, Iterable) else list(given)
    bad = next((f"{type(t).__name__} at index {i}" for i, t in enumerate(listed) if not isinstance(t, Tensor)), "")
    if isinstance(given, Tensor):
        bad = "one Tensor: put it into a list"
    elif not isinstance(given, Iterable):
        bad = type(given).__name__
    if bad:
        raise TypeError(f"[register_multi_grad_hook] takes a sequence of tensors, got {bad}.")
    for index, tensor in enumerate(listed):
        if mode == "all" and not tensor._word & REQUIRES_GRAD:
            raise RuntimeError(
                "[register_multi_grad_hook] cannot register a hook on a tensor that doesn't require gradient: "
                f"tensor {index}."
            )
    if not callable(fn):
        raise TypeError(f"[register_multi_grad_hook] a hook must be callable, got {type(fn).__name__}.")
    if mode == "all":
        return HookHandle.of_all([t.register_hook(hook) for t, hook in zip(listed, _for_all(listed, fn))])
    once = _for_any(fn)
    return HookHandle.of_all([t.register_hook(once) for t in listed if t._word & REQUIRES_GRAD])
