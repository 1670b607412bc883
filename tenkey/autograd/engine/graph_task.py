"""One backward: what it is to run and to capture, and what is to be called at its end.

Note [What runs]
~~~~~~~~~~~~~~~~
``backward()`` runs all that is reachable. ``grad()`` and ``backward(inputs=...)`` run the nodes on a path from a root
to one of the inputs. The search goes no further down than ``topological_nr`` allows: a node whose longest path to a
leaf is not longer than the shortest of the inputs' cannot lead to one. Guarded by
``tests/autograd/engine/test_engine.py::TestWhatRuns``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final

from ...core.tensor import Tensor
from ..tape.node import Edge, Node

__all__ = ["Task", "count_senders", "current_task", "mark_needed", "queue_callback"]


class Task:
    """One backward: what is to run, what is to be captured, and what has arrived so far."""

    needed: set[Node] | None = None  # None: everything that is reachable
    captures: dict[Edge, list[int]] | None = None
    captured: dict[int, Tensor | None]
    ends: frozenset[Node] = frozenset()  # only captured: nothing below them is asked for, so they do not run
    callbacks: list[Callable[[], Any]] | None = None
    parent: Task | None = None  # the backward in which this one was called
    depth = 0
    stopped: BaseException | None = None  # why nothing more of it is to run
    watch: Callable[..., Any] | None = None  # what runs the nodes in anomaly mode
    slots: dict[Node, list[Any]]  # the nodes that get a gradient, with what has arrived

    def __init__(self, keep_graph: bool, create_graph: bool) -> None:
        self.keep_graph = keep_graph
        self.create_graph = create_graph

    def capture(self, edges: Sequence[Edge]) -> None:
        """Keep the gradients that arrive at the edges in ``captured``, under their positions."""
        captures: dict[Edge, list[int]] = {}
        for position, edge in enumerate(edges):
            captures.setdefault(edge, []).append(position)
        self.captures = captures
        self.captured = {}
        assert self.needed is not None  # what is captured was searched for
        self.ends = frozenset(
            [node for node, _ in captures if node is not None and not any(n in self.needed for n, _ in node.next_edges)]
        )

    def will_run(self, node: Node | None) -> bool:
        """Whether the gradient of a node is computed in this backward."""
        return node in self.slots

    def outer_stop(self) -> BaseException | None:
        """Why a backward around this one was stopped."""
        task: Task | None = self
        while task is not None:
            if task.stopped is not None:
                return task.stopped
            task = task.parent
        return None


current_task: Final[ContextVar[Task | None]] = ContextVar("tenkey_backward", default=None)


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call a function once the backward that is running is complete: all gradients are there, all hooks have run.

    Callbacks are called in the order in which they were queued, on the thread that called ``backward()`` or ``grad()``;
    one may queue more. Inside of a backward that was called by a node or a hook they belong to that one. After an error
    none is called.

    Raises RuntimeError outside of a backward.

    >>> import tenkey as tk
    >>> x = tk.tensor([1.0, 2.0], requires_grad=True)
    >>> def hook(gradient):
    ...     tk.autograd.graph.queue_callback(lambda: print("complete:", x.grad.tolist()))
    >>> handle = x.register_hook(hook)
    >>> (x * x).sum().backward()
    complete: [2.0, 4.0]
    """
    task = current_task.get()
    if task is None:
        raise RuntimeError(
            "[queue_callback] Final callbacks can only be installed during backward pass: call it in a hook or in "
            "the backward of a Function."
        )
    if not callable(callback):
        raise TypeError(f"[queue_callback] a callback is a function without arguments, got {type(callback).__name__}.")
    if task.callbacks is None:
        task.callbacks = []
    task.callbacks.append(callback)


def count_senders(slots: dict[Node, list[Any]], needed: set[Node] | None) -> None:
    """Make a slot for every node that is reachable from those that have one, with the number of its senders."""
    find = slots.get
    stack = list(slots)
    push, pop = stack.append, stack.pop
    while stack:
        for node, _ in pop().next_edges:
            if node is not None:
                slot = find(node)
                if slot is not None:
                    slot[0] += 1
                elif needed is None or node in needed:
                    slots[node] = [1, None, node, False]
                    push(node)


def mark_needed(roots: Sequence[Node], targets: set[Node]) -> set[Node]:
    """The nodes on a path from a root to a target, pruned below the targets by their longest path."""
    lowest = min((t.topological_nr for t in targets), default=0)
    needed: set[Node] = set(targets)
    known: set[Node] = set()
    done: set[Node] = set()
    stack: list[Node] = list(roots)
    first = set(roots)
    while stack:
        node = stack[-1]
        if node not in known:
            known.add(node)
            if node.topological_nr > lowest or node in first:
                for below, _ in node.next_edges:
                    if below is not None and below not in known:
                        stack.append(below)
            else:
                done.add(node)
            continue
        stack.pop()
        if node not in done:
            done.add(node)
            if node not in needed:
                for below, _ in node.next_edges:
                    if below in needed:
                        needed.add(node)
                        break
    return needed
