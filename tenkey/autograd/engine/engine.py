"""The engine: runs a graph backward.

A node is ready when every node that sends it a gradient has run (dependency counts). Of the ready nodes, the one with
the highest sequence number runs first, so a graph runs in the reverse order of recording; accumulators have the highest
number of all, so gradients of leaves are freed at once. A chain needs no queue: the node that became ready runs next.
Nothing here recurses, so the depth of a graph is limited only by memory. A backward called while a node runs is
complete before the outer one continues (:mod:`.reentrant`). Guarded by
``tests/autograd/engine/test_engine.py::TestOrder``.

Note [One loop for most graphs]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``_loop`` runs a graph on the calling thread and takes the long path for special nodes (Note [Special nodes]). When it
meets a node that belongs to an accelerator, it hands the remaining work to :mod:`.device_threads`. Guarded by
``tests/autograd/engine/test_workers.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from sys import getrefcount
from typing import Any, Final

import numpy as np

from ...core.compiled.loading import extension
from ...core.plans import sums_table
from ...core.tensor import Tensor, cpu_word, make_tensor
from ...core.word import REQUIRES_GRAD
from ...dispatch.local_state import SILENT, LocalState, get_state, set_state
from ...ops.builtin.reductions.gradient_sum import accumulate
from ...ops.declare import operator_of
from ...profiler.observer import PROFILER, observed
from ..anomaly import watcher
from ..tape.node import SEQUENCE, AccumulateGrad, Node, RecordedNode
from .device_threads import belongs_to_worker, run_on_workers
from .failed_backward import abandon, refuse_again
from .graph_task import GraphTask, count_senders, current_task
from .hook_calls import before, post_hooks, pre_hooks
from .input_buffer import ADDED, InputBuffer, add_part, deliver, validate, wrong_count
from .reentrant import run_nested

__all__ = ["calibrate", "execute"]

_SUMS: Final = operator_of(accumulate).cache


def execute(task: GraphTask, grad_outputs: Sequence[tuple[Node, int, Tensor]]) -> None:
    """Run the graph from the initial gradients: (node, number of its output, gradient)."""
    outer, found = current_task.get(), get_state()
    try:
        try:
            if outer is None:
                current_task.set(task)
                _run(task, grad_outputs)
            else:
                task.parent = outer
                task.depth = outer.depth + 1
                _note_call(task, outer)
                run_nested(task, _run, grad_outputs)
            set_state(found)
            current_task.set(outer)
        except BaseException:
            _fail(task, outer, found)
            raise
    except BaseException:  # again: Note [Interrupts of backward]
        _fail(task, outer, found)
        raise


def _note_call(task: GraphTask, outer: GraphTask | None) -> None:
    """Make the backwards around this one remember that they called one that adds."""
    while task.adds and outer is not None and not outer.called_backward:
        outer.called_backward = True
        outer = outer.parent


def _fail(task: GraphTask, outer: GraphTask | None, found: LocalState | None) -> None:
    """Restore what the thread had before a backward that failed."""
    set_state(found)
    abandon(task)
    current_task.set(outer)


def _run(task: GraphTask, grad_outputs: Sequence[tuple[Node, int, Tensor]]) -> None:
    buffers: dict[Node, InputBuffer] = task.buffers if task.counted else {}
    task.buffers = buffers
    for node, nr, grad in grad_outputs:
        buffer = buffers.get(node)
        if buffer is None:
            buffer = buffers[node] = [0, None, node, False]
        if node._special or buffer[1] is not None:
            deliver(buffer, nr, grad)
        else:
            buffer[1] = grad
    if task.counted:
        roots = task.roots = [buffers[grad_outputs[0][0]]]
    else:
        roots = task.roots = list(buffers.values())
        count_senders(buffers, task.needed)
    if len(roots) > 1:
        roots = [buffer for buffer in roots if buffer[0] == 0]
    found = get_state()
    if task.create_graph:
        state = found and found.changed(unexclude=REQUIRES_GRAD)
    else:
        state = SILENT if found is None else found.silent
    step: Any = run_node
    closely = False
    if found is not None:
        task.watch = watcher()
        closely = task.watch is not None
        if found.include & PROFILER:  # Note [How a profiler sees calls]
            step, closely = observed(run_node), True
    set_state(state)
    rest = _run_loop(task, buffers, roots, step, plain=state is SILENT, closely=closely)
    if rest is not None:
        run_on_workers(task, buffers, rest, step)
    callbacks = task.callbacks
    if callbacks is not None:
        for callback in callbacks:  # callbacks may queue further ones
            callback()


def _loop(
    task: GraphTask, buffers: dict[Node, InputBuffer], ready: list[Any], step: Any, *, plain: bool, closely: bool
) -> list[InputBuffer] | None:
    """Run the ready nodes until none is left; return the ready buffers if the next one belongs to another thread.

    The compiled core has the same function (``tenkey/core/compiled/backward.py``), which runs in its place.

    ``step`` runs the nodes that take the long path: all of them, if ``closely``. ``plain``: calls are not recorded and
    the local state has nothing else special.
    """
    heap: list[tuple[int, int, list[Any]]] = []
    current: Any = None
    if len(ready) == 1:
        current = ready[0]
    else:
        heap += [(-buffer[2].sequence_nr, order, buffer) for order, buffer in enumerate(ready)]
        heapify(heap)
    order = len(heap)
    leaves: list[Any] = []
    find = buffers.get
    sums, added = _SUMS, ADDED
    release = not task.keep_graph
    watched: Any = task.captures and frozenset([node for node, _ in task.captures])
    if closely:
        watched = buffers  # all nodes that get a gradient
    while True:
        if current is None:
            if not heap:
                return None
            current = heappop(heap)[2]
        grads = current[1]
        node = current[2]
        if node._special or grads is None or (watched and node in watched):
            buffer = current
            current = None
            if node._special and belongs_to_worker(node):
                return [buffer, *[item[2] for item in heap]]
            edges = node.next_edges
            del grads
            results = step(task, buffer)
            grads = None
        else:
            current[1] = current = None
            edges = node.next_edges
            if edges:
                results = (
                    node.apply(grads) if node._add is None or not plain else add_part(node, grads, find(edges[0][0]))
                )
                if release and node.saves:
                    node.release()
                if len(results) != len(edges):
                    raise wrong_count(node.name(), len(results), len(edges))
            elif type(node) is AccumulateGrad:
                buffers[node][1] = added
                node.accumulate(grads, getrefcount(grads))
                continue
            else:
                continue  # no inputs
            grads = None
        for (next_node, nr), grad in zip(edges, results):
            if next_node is None:
                continue
            buffer = find(next_node)
            if buffer is None:
                continue  # not needed
            if grad is not None:
                word = next_node._word
                if type(grad) is Tensor and grad._word | REQUIRES_GRAD == word and grad._data.shape == next_node.shape:
                    held = buffer[1]
                    if held is None:
                        buffer[1] = grad
                    elif plain and type(held) is Tensor:  # Note [Input buffers]
                        buffer[1] = sums[word ^ REQUIRES_GRAD](held, grad, buffer[3])
                        buffer[3] = True
                    else:
                        deliver(buffer, nr, grad)
                else:
                    deliver(buffer, nr, validate(next_node, nr, grad, node, results))
            count = buffer[0] - 1
            buffer[0] = count
            if count == 0:
                if type(next_node) is AccumulateGrad and not next_node._special and not watched:
                    leaves.append(buffer)
                elif current is None and not heap:
                    current = buffer
                else:
                    if current is not None:
                        heappush(heap, (-current[2].sequence_nr, order, current))
                        order += 1
                        current = None
                    heappush(heap, (-next_node.sequence_nr, order, buffer))
                    order += 1
        results = grad = held = None
        while leaves:
            buffer = leaves.pop(0)
            grads = buffer[1]
            if grads is not None:
                buffer[1] = added
                buffer[2].accumulate(grads, getrefcount(grads))
            grads = None


def run_node(task: GraphTask, buffer: InputBuffer) -> Any:
    """Run the node of a buffer with its hooks (Note [Order of hooks]), and return its results, one for each edge."""
    _, grads, node, _ = buffer
    buffer[1] = None
    if node._failed_backward is not None:
        refuse_again(task, node)
    outputs = node.outputs
    given: Any = [grads] if outputs is None else grads or [None] * len(outputs)
    grads = None
    if node.tensor_hooks is not None or node.retain_hooks is not None or task.captures:
        given = before(task, node, given)
    edges = node.next_edges
    nothing = (None,) * len(edges)
    if node in task.ends:
        return nothing
    for grad in given:
        if grad is not None:
            break
    else:
        if not node.runs_on_undefined:
            return nothing
    grad = None
    if node.pre_hooks:
        given = pre_hooks(node, tuple(given))
    if isinstance(node, AccumulateGrad):
        grads = given[0]
        given = tuple(given) if node.post_hooks else None
        if grads is not None:
            buffer[1] = ADDED
            node.accumulate(grads, getrefcount(grads))
        if node.post_hooks:
            post_hooks(node, (), given)
        return ()
    results = node.apply(*given) if task.watch is None else task.watch(node, *given)
    if not task.keep_graph:
        node.release()
    if len(results) != len(edges):
        raise wrong_count(node.name(), len(results), len(edges))
    if node.post_hooks:
        results = tuple(
            [
                None if grad is None or below is None else validate(below, nr, grad, node, results)
                for (below, nr), grad in zip(edges, results)
            ]
        )
        results = post_hooks(node, results, tuple(given))
    return results


class _Probe(AccumulateGrad):
    """Counts the references to a gradient where an accumulator sees it."""

    count = data_count = 0

    def accumulate(self, grad: Tensor, references: int) -> None:
        self.count = references
        self.data_count = getrefcount(grad._data)


def calibrate() -> None:
    """Measure the reference counts of a fresh gradient at its accumulator (Note [Stealing gradients])."""
    leaf = make_tensor(np.zeros(()), cpu_word(np.dtype("float64")))
    probe, source = _Probe(), Node()
    probe.shape, probe.dtype, probe._word = (), leaf.dtype, 0
    probe._special = True  # the long path has the same counts: tests/autograd/engine/test_engine.py compares them
    probe.leaf = lambda: leaf
    source.apply = lambda *grads: (make_tensor(np.zeros(()), leaf._word),)  # type: ignore[method-assign]
    source.next_edges = ((probe, 0),)
    source.sequence_nr, source.dtype = SEQUENCE.next(), leaf.dtype
    execute(GraphTask(False, False), [(source, 0, leaf)])
    AccumulateGrad.fresh_count, AccumulateGrad.fresh_data_count = probe.count, probe.data_count
    if extension is not None:
        extension.backward.calibrate(probe.count)


_run_loop: Any = _loop
if extension is not None:
    extension.backward.configure(
        RecordedNode, AccumulateGrad, sums_table(operator_of(accumulate)), ADDED, add_part, deliver, validate,
        wrong_count, belongs_to_worker,
    )  # fmt: skip
    _run_loop = extension.backward.loop
