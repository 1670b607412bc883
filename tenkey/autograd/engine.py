"""The engine: runs a graph backward.

Note [Order of execution]
~~~~~~~~~~~~~~~~~~~~~~~~~
A node is ready when every node that sends it a gradient has run (dependency counts). Of the ready nodes the one with
the highest sequence number runs first, so a graph runs backward in the order in which it was recorded; accumulators
have the highest number of all and free their gradient at once. A chain needs no queue: the node that became ready runs
next. Nothing here recurses, so the depth of a graph is limited by memory alone.

Note [Order of hooks]
~~~~~~~~~~~~~~~~~~~~~
For one node: tensor hooks of its outputs, in the order of registration; retained gradients; the captures of ``grad()``;
node pre-hooks; the formula; the saved tensors are released; the results are validated; node hooks. For a leaf: tensor
hooks, node pre-hooks, accumulation, post-accumulate hooks, node hooks. Guarded by ``tests/test_hooks.py``.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from sys import getrefcount
from typing import Any, Final

import numpy as np

from ..core.tensor import Tensor, cpu_word, make_tensor
from ..core.word import GRADIENT
from ..dispatch.local import current_state, get_state, make_state, set_state
from ..ops.builtin.copying import cast
from ..ops.builtin.pointwise import add
from ..ops.builtin.reduction import sum as sum_
from ..ops.builtin.view import reshape
from ..ops.declare import operator_of
from .anomaly import watcher
from .node import AccumulateGrad, Edge, Node, next_sequence
from .observer import PROFILER, observed

__all__ = ["calibrate", "execute", "reduce_to_shape", "validate"]

_SHAPE: Final = (
    "[{node}] returned an invalid gradient at index {nr} - got {got} but expected shape compatible with {want}: the "
    "shapes must be equal, or the gradient's must reduce to the other by summing over broadcast dimensions."
)
_COUNT: Final = "[{node}] returned {got} gradients, expected {want}: one for each input, None where there is none."
_PRE_COUNT: Final = (
    "[{node}] its pre-hook returned {got} gradients, expected {want}: one for each output, None where there is none."
)
_KIND: Final = "[{node}] got {got} as the gradient of index {nr}: a gradient is a Tensor or None."
_COMPLEX: Final = "[{node}] got a complex gradient for a real output (index {nr}): take tk.real() of it."
_HOOK: Final = (
    "[{node}] a hook returned {got} for a gradient of shape {want}, dtype {dtype}: return None or a Tensor of that "
    "shape and dtype."
)


def reduce_to_shape(grad: Tensor, shape: tuple[int, ...]) -> Tensor | None:
    """Sum over the dimensions that broadcasting added or stretched; None if the shapes do not allow it."""
    lead = grad.ndim - len(shape)
    if lead < 0:
        return None
    axes = list(range(lead))
    for i, n in enumerate(shape):
        if grad.shape[lead + i] != n:
            if n != 1:
                return None
            axes.append(lead + i)
    summed: Tensor = sum_(grad, axis=tuple(axes), keepdims=True)
    return reshape(summed, shape)


def validate(node: Node, nr: int, grad: Any, sender: Node | None = None, index: int = 0) -> Tensor:
    """The gradient for output ``nr`` of ``node``, summed and cast to its shape and dtype; raises if it cannot be.

    ``sender`` returned it at ``index``; without one the user gave it.
    """
    name = (sender or node).name()
    if not isinstance(grad, Tensor):
        raise TypeError(_KIND.format(node=name, got=type(grad).__name__, nr=index))
    wanted = node.input_shape(nr)
    if wanted is None:
        return grad
    shape, dtype = wanted
    if grad.shape != shape:
        reduced = reduce_to_shape(grad, shape)
        if reduced is None:
            raise RuntimeError(_SHAPE.format(node=name, got=grad.shape, want=shape, nr=index))
        grad = reduced
    if dtype is not None and grad.dtype != dtype:
        if grad.dtype.kind == "c" and dtype.kind != "c":
            raise RuntimeError(_COMPLEX.format(node=name, nr=index))
        return cast(grad, dtype)
    return grad  # type: ignore[no-any-return]


class Task:
    """One backward: what is to run, what is to be captured, and what has arrived so far."""

    def __init__(self, keep_graph: bool, create_graph: bool) -> None:
        self.keep_graph = keep_graph
        self.create_graph = create_graph
        self.needed: set[Node] | None = None  # None: everything that is reachable
        self.captures: dict[Edge, list[int]] = {}
        self.captured: dict[int, Tensor | None] = {}
        self.ends: frozenset[Node] = frozenset()  # only captured: nothing below them is asked for, so they do not run
        self.accumulate: frozenset[Node] | None = None  # which accumulators may run; None: all
        self.watch = watcher()  # what runs the nodes in anomaly mode


def _dependencies(roots: Sequence[Node], needed: set[Node] | None) -> dict[Node, int]:
    """How many nodes send each reachable node a gradient."""
    counts: dict[Node, int] = dict.fromkeys(roots, 0)
    stack = list(counts)
    seen = counts.get
    while stack:
        for node, _ in stack.pop().next_edges:
            if node is not None:
                count = seen(node)
                if count is None:
                    if needed is not None and node not in needed:
                        continue
                    counts[node] = 1
                    stack.append(node)
                else:
                    counts[node] = count + 1
    return counts


def mark_needed(roots: Sequence[Node], targets: set[Node]) -> set[Node]:
    """The nodes on a path from a root to a target, pruned below the targets by their longest path."""
    lowest = min((t.topological_nr for t in targets), default=0)
    needed: set[Node] = set(targets)
    state: dict[Node, int] = {}
    stack: list[Node] = list(roots)
    while stack:
        node = stack[-1]
        if node not in state:
            state[node] = 0
            if node.topological_nr > lowest or node in roots:
                stack.extend(n for n, _ in node.next_edges if n is not None and n not in state)
            continue
        stack.pop()
        if state[node] == 0:
            state[node] = 1
            if any(n in needed for n, _ in node.next_edges if n is not None):
                needed.add(node)
    return needed


def execute(task: Task, seeds: Sequence[tuple[Node, int, Tensor]]) -> None:
    """Run the graph from the seeds: (node, index of its output, gradient)."""
    roots = list(dict.fromkeys(node for node, _, _ in seeds))
    if task.needed is not None:
        task.ends = frozenset(
            [
                node
                for node, _ in task.captures
                if node is not None and not any(n in task.needed for n, _ in node.next_edges)
            ]
        )
    waiting = _dependencies(roots, task.needed)
    buffers: dict[Node, Any] = {}
    for node, nr, grad in seeds:
        _add(buffers, node, nr, grad)
    outer = get_state()
    state = current_state()
    exclude = state.exclude & ~GRADIENT if task.create_graph else state.exclude | GRADIENT
    set_state(make_state(state.include, exclude, state.modes))
    try:
        _loop(task, [node for node in roots if waiting[node] == 0], waiting, buffers)
    finally:
        set_state(outer)


def _add(buffers: dict[Node, Any], node: Node, nr: int, grad: Tensor) -> None:
    """Add a gradient to what has arrived at an output; a gradient is never changed in place."""
    if node.outputs is None:
        held = buffers.get(node)
        buffers[node] = grad if held is None else held + grad
        return
    slots = buffers.get(node)
    if slots is None:
        slots = buffers[node] = [None] * len(node.outputs)
    slots[nr] = grad if slots[nr] is None else slots[nr] + grad


def _loop(task: Task, ready: list[Node], waiting: dict[Node, int], buffers: dict[Node, Any]) -> None:
    heap: list[tuple[int, int, Node]] = []
    order = 0
    for node in ready:
        heap.append((-node.sequence_nr, order, node))
        order += 1
    heapq.heapify(heap)
    current: Node | None = None
    captures = task.captures
    release = not task.keep_graph
    plain = task.needed is None and task.watch is None
    added = operator_of(add).cache
    state = current_state()
    bare = not task.create_graph and not state.include and not state.modes and state.exclude == GRADIENT
    take = buffers.pop
    run = _run
    if state.include & PROFILER:  # Note [How a profiler sees calls]
        run, plain = observed(_run), False
    while True:
        if current is None:
            if not heap:
                return
            current = heapq.heappop(heap)[2]
        node = current
        current = None
        grads = take(node, None)
        single = node.outputs is None
        if node.tensor_hooks is not None or node.retain_hooks is not None or captures:
            grads = _before(task, node, [grads] if single else grads or [None] * len(node.outputs or ()))
            if single:
                grads = grads[0]
        edges = node.next_edges
        if plain and grads is not None and single and edges and node.pre_hooks is None and node.post_hooks is None:
            results = node.apply(grads)  # _run, for a node without anything special
            if release and node.saves:
                node.release()
            if len(results) != len(edges):
                raise RuntimeError(_COUNT.format(node=node.name(), got=len(results), want=len(edges)))
        elif edges or isinstance(node, AccumulateGrad):
            results = run(task, node, grads, single, release)
        else:
            results = ()
        for index, (next_node, nr) in enumerate(edges):
            if next_node is None:
                continue
            count = waiting.get(next_node)
            if count is None:
                continue  # not needed for what was asked
            grad = results[index]
            if grad is not None:
                if single and next_node.outputs is None and grad.__class__ is Tensor:
                    data = grad._data
                    dtype = next_node.dtype
                    if data.shape != next_node.shape or (data.dtype is not dtype and data.dtype != dtype):
                        grad = validate(next_node, nr, grad, node, index)
                    held = take(next_node, None)
                    if held is not None:
                        if bare and held.__class__ is Tensor:  # what the entry of add would do with nothing special on
                            grad = added[(held._word | grad._word) & ~GRADIENT](held, grad)
                        else:
                            grad = held + grad
                    buffers[next_node] = grad
                else:
                    _add(buffers, next_node, nr, validate(next_node, nr, grad, node, index))
            if count == 1:
                waiting[next_node] = 0
                if current is None and not heap:
                    current = next_node
                else:
                    if current is not None:
                        heapq.heappush(heap, (-current.sequence_nr, order, current))
                        order += 1
                        current = None
                    heapq.heappush(heap, (-next_node.sequence_nr, order, next_node))
                    order += 1
            else:
                waiting[next_node] = count - 1
        results = grad = None  # what an accumulator gets next must have no other reference from here


def _run(task: Task, node: Node, grads: Any, single: bool, release: bool) -> Any:
    """Pre-hooks, the formula, the release of what was saved, hooks."""
    if task.needed is not None:
        if isinstance(node, AccumulateGrad):
            if task.accumulate is None or node not in task.accumulate:
                return ()
        elif node in task.ends:
            return (None,) * len(node.next_edges)
    undefined = grads is None if single else all(grad is None for grad in grads or ())
    if undefined and not node.runs_on_undefined:
        return (None,) * len(node.next_edges)
    if single:
        if node.pre_hooks:
            grads = _call_pre_hooks(node, (grads,))[0]
        results = node.apply(grads) if task.watch is None else task.watch(node, grads)
        given: Any = (grads,)
    else:
        given = tuple(grads) if grads is not None else (None,) * len(node.outputs or ())
        if node.pre_hooks:
            given = _call_pre_hooks(node, given)
        results = node.apply(*given) if task.watch is None else task.watch(node, *given)
    if release:
        node.release()
    if len(results) != len(node.next_edges):
        raise RuntimeError(_COUNT.format(node=node.name(), got=len(results), want=len(node.next_edges)))
    if node.post_hooks:
        results = _call_post_hooks(node, tuple(results), given)
    return results


def _before(task: Task, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
    """Tensor hooks, then retained gradients, then captures (Note [Order of hooks])."""
    hooks = node.tensor_hooks
    if hooks is not None:
        grads = list(grads)
        for nr, own in hooks.items():
            for hook in tuple(own.values()):
                grad = grads[nr]
                if grad is not None:
                    grads[nr] = _checked(node, hook(grad), grad)
    if node.retain_hooks is not None:
        for nr, retain in tuple(node.retain_hooks.items()):
            if grads[nr] is not None:
                retain(grads[nr])
    if task.captures:
        for nr, grad in enumerate(grads):
            for slot in task.captures.get((node, nr), ()):
                task.captured[slot] = grad
    return grads


def _checked(node: Node, result: Any, grad: Tensor) -> Tensor:
    if result is None:
        return grad
    if not isinstance(result, Tensor) or result.shape != grad.shape or result.dtype != grad.dtype:
        is_tensor = isinstance(result, Tensor)
        got = f"a tensor of shape {result.shape}, dtype {result.dtype}" if is_tensor else repr(result)
        raise RuntimeError(_HOOK.format(node=node.name(), got=got, want=grad.shape, dtype=grad.dtype))
    return result


def _call_pre_hooks(node: Node, grads: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    for hook in tuple((node.pre_hooks or {}).values()):
        result = hook(grads)
        if result is not None:
            result = result if isinstance(result, tuple) else (result,)
            if len(result) != len(grads):
                raise RuntimeError(_PRE_COUNT.format(node=node.name(), got=len(result), want=len(grads)))
            grads = tuple([new if old is None else _checked(node, new, old) for new, old in zip(result, grads)])
    return grads


def _call_post_hooks(node: Node, results: tuple[Any, ...], grads: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
    for hook in tuple((node.post_hooks or {}).values()):
        changed = hook(results, grads)
        if changed is not None:
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != len(results):
                raise RuntimeError(_COUNT.format(node=f"{node.name()} hook", got=len(changed), want=len(results)))
            results = changed
    return results


class _Probe(AccumulateGrad):
    """Counts the references to a gradient where an accumulator sees it."""

    count = 0

    def apply(self, *grads: Any) -> Any:
        self.count = getrefcount(grads[0])
        return ()


class _Source(Node):
    """Makes a fresh gradient."""

    def apply(self, *grads: Any) -> Any:
        return (make_tensor(np.zeros(()), cpu_word(np.dtype("float64"))),)


def calibrate() -> None:
    """Measure the reference count of a fresh gradient at its accumulator (Note [Stealing gradients])."""
    leaf = make_tensor(np.zeros(()), cpu_word(np.dtype("float64")))
    probe, source = _Probe(), _Source()
    probe.dtype = leaf.dtype
    probe.leaf = lambda: leaf
    source.next_edges = ((probe, 0),)
    source.sequence_nr, source.dtype = next_sequence(), leaf.dtype
    execute(Task(False, False), [(source, 0, leaf)])
    AccumulateGrad.fresh_count = probe.count
