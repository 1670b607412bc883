"""The state of one backward: the nodes to run, the gradients to capture, and the final callbacks.

Note [What runs]
~~~~~~~~~~~~~~~~
``backward()`` runs all reachable nodes. ``grad()`` and ``backward(inputs=...)`` run the nodes on a path from a root to
one of the inputs. ``topological_nr`` prunes the search: a node whose longest path to a leaf is not longer than the
shortest among the inputs cannot lead to one. The first search for an input that is not a leaf computes these lengths
for the whole graph, and later ones for what was recorded since.
Guarded by ``tests/autograd/engine/test_engine.py::TestWhatRuns``.

Note [Gradients of private inputs]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The graph of a differentiated function mostly leads to the function's inputs only. Then all of its nodes run, no search
tells which, and nothing needs to be captured: a buffer of an input counts one sender too many, so it never becomes
ready, and holds the gradient at the end. Guarded by ``tests/transforms/test_derivatives.py::test_private_inputs``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from typing import Any, Final

from ...core.tensor import Tensor
from ..tape.node import Edge, Node
from .input_buffer import InputBuffer

__all__ = [
    "STOPPED", "GraphTask", "count_all_senders", "count_senders", "current_task", "mark_needed", "dead_reference",
    "queue_callback",
]  # fmt: skip

STOPPED: Final = RuntimeError("the backward was stopped")
"""The reason why no further nodes are to run. It is not the error itself, whose traceback refers to the task."""


def dead_reference() -> None:
    """Return None, like a weak reference whose object is gone."""


class GraphTask:
    """One backward: the nodes to run, the gradients to capture, and the gradients that have arrived."""

    needed: set[Node] | None = None  # None: all reachable nodes
    captures: dict[Edge, list[int]] | None = None
    captured: dict[int, Tensor | None]
    ends: frozenset[Node] = frozenset()  # only captured: nothing below them is needed, so they do not run
    callbacks: list[Callable[[], Any]] | None = None
    notes: dict[object, Any]  # of the hooks on several gradients, if there are any
    parent: GraphTask | None = None  # the backward inside which this one was called
    depth = 0
    stopped: BaseException | None = None  # the reason why no further nodes are to run
    watch: Callable[..., Any] | None = None  # runs the nodes in anomaly mode
    buffers: dict[Node, InputBuffer]  # of the nodes that get a gradient
    counted = False  # whether ``buffers`` has their senders already
    roots: Sequence[InputBuffer]  # those of them that got one from the call
    # Note [Failed backward]
    adds = True  # to .grad of tensors; grad() does not
    called_backward = False  # a node or a hook has called a backward that adds
    is_abandoned = False  # it failed, and its graph remembers it
    running: Collection[int] = ()  # of its buffers, those that workers run
    helper: Callable[[], Any] = staticmethod(dead_reference)  # a weak reference to what a helper thread calls for it
    stored: Sequence[tuple[Node, Tensor, Tensor | None]] = ()  # tensors that are not leaves, with their old gradients

    def __init__(self, keep_graph: bool, create_graph: bool) -> None:
        self.keep_graph = keep_graph
        self.create_graph = create_graph

    def capture(self, edges: Sequence[Edge]) -> None:
        """Store the gradients that arrive at the edges in ``captured``, by position."""
        captures: dict[Edge, list[int]] = {}
        for position, edge in enumerate(edges):
            captures.setdefault(edge, []).append(position)
        self.captures = captures
        self.captured = {}
        assert self.needed is not None  # set before
        self.ends = frozenset(
            [node for node, _ in captures if node is not None and not any(n in self.needed for n, _ in node.next_edges)]
        )

    def storing(self, node: Node, tensor: Tensor) -> None:
        """Note that the gradient of a node's output is about to replace ``.grad`` of a tensor."""
        vars(self).setdefault("stored", []).append((node, tensor, tensor.grad))

    def will_run(self, node: Node | None) -> bool:
        """Return whether the gradient of a node is computed in this backward."""
        return node in self.buffers

    def is_at_large(self) -> bool:
        """Return whether another thread still runs nodes of this backward, which was stopped."""
        return bool(self.running) or self.helper() is not None

    def outer_stop(self) -> BaseException | None:
        """Return the reason why this backward or one around it was stopped."""
        task: GraphTask | None = self
        while task is not None:
            if task.stopped is not None:
                return task.stopped
            task = task.parent
        return None


current_task: Final[ContextVar[GraphTask | None]] = ContextVar("tenkey_backward", default=None)


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call a function when the running backward is complete: all gradients are there and all hooks have run.

    Callbacks run in the order in which they were queued, on the thread that called ``backward()`` or ``grad()``; a
    callback may queue more. In a backward called by a node or a hook, they belong to that backward. After an error none
    of them runs.

    Raises RuntimeError outside a backward.

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
        raise TypeError(
            f"[queue_callback] a callback must be a function without arguments, got {type(callback).__name__}."
        )
    vars(task).setdefault("callbacks", []).append(callback)


def count_senders(buffers: dict[Node, InputBuffer], needed: set[Node] | None) -> None:
    """Make a buffer, with the number of senders, for every node that the nodes with a buffer lead to."""
    find = buffers.get
    stack = list(buffers)
    push, pop = stack.append, stack.pop
    while stack:
        for node, _ in pop().next_edges:
            if node is not None:
                buffer = find(node)
                if buffer is not None:
                    buffer[0] += 1
                elif needed is None or node in needed:
                    buffers[node] = [1, None, node, False]
                    push(node)


def count_all_senders(root: Node, inputs: frozenset[Node]) -> dict[Node, InputBuffer] | None:
    """Return the buffers of all nodes that ``root`` leads to, if these are plain ones that end in ``inputs`` only.

    The buffers of the inputs never become ready (Note [Gradients of private inputs]).
    """
    if root in inputs or root._special:
        return None
    buffers: dict[Node, InputBuffer] = {root: [0, None, root, False]}
    find = buffers.get
    stack = [root]
    push, pop = stack.append, stack.pop
    while stack:
        for node, _ in pop().next_edges:
            if node is not None:
                buffer = find(node)
                if buffer is not None:
                    buffer[0] += 1
                elif node._special:
                    return None
                elif node in inputs:
                    buffers[node] = [2, None, node, False]
                elif node.next_edges:
                    buffers[node] = [1, None, node, False]
                    push(node)
                else:
                    return None
    return buffers


def mark_needed(roots: Sequence[Node], targets: set[Node]) -> set[Node]:
    """Return the nodes on a path from a root to a target (Note [What runs])."""
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
            if not lowest or node.topological_nr > lowest or node in first:
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
