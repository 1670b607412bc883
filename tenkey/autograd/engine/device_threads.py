"""Device threads: one thread for the nodes of each accelerator.

Note [Device workers]
~~~~~~~~~~~~~~~~~~~~~
CPU nodes run on the thread that called ``backward()``; the nodes of a device that a backend registered run on the
worker thread of that device, so two devices work at the same time. Every worker has a queue, ordered by the depth of
the reentrant backward and then by sequence number, the highest first. A thread that waits for its own backward to end
meanwhile runs the nodes in its queue, whichever backward they belong to; so two workers that wait for each other do not
block. A worker that waits for another thread to recompute a checkpoint runs those nodes in its queue that the
computation needs (``acquire``). A node runs in a copy of the context of the calling thread: modes, guards and context
variables are the same there. The first error stops the backward, and is raised by its call with type and traceback.
Guarded by ``tests/autograd/engine/test_workers.py`` and ``tests/autograd/checkpointing/test_checkpoint_devices.py``.

Note [Interrupts of backward]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Python raises KeyboardInterrupt in the main thread, at the beginning of a function or after a call of a C function. So
an action that must be undone takes place inside the ``try`` that undoes it, and state shared by the main thread and
workers is protected by ``with`` and locks written in C: no interrupt fits between such a lock and the block. The
condition variables of ``threading`` are written in Python: interrupted in the wrong place, they stay locked or raise an
error of their own. Guarded by ``tests/autograd/engine/test_workers.py::TestInterrupts``.

Note [Streams in backward]
~~~~~~~~~~~~~~~~~~~~~~~~~~
A backend whose devices have several queues of work reports the queue that a thread uses (``Backend.current_stream``). A
node runs in the stream of its forward call. Where a gradient goes from a node of one stream to a node of another, the
second stream waits for an event of the first before it sums or uses the gradient, and the backend is told that the
memory is in use there (``Backend.record_stream``). At the start the streams of the roots wait for the caller's stream;
at the end the caller's stream waits for all that were used. Guarded by
``tests/autograd/engine/test_workers.py::TestStreams``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from heapq import heapify, heappop, heappush
from typing import Any, Final

from ..._util.locks import new_lock
from ...core.device import Device
from ...core.tensor import Tensor
from ..tape.node import Node
from .graph_task import GraphTask
from .input_buffer import InputBuffer, deliver, take, validate

__all__ = ["acquire", "belongs_to_worker", "is_worker", "run_on_workers"]

_PATIENCE: Final = 0.1  # seconds after which a waiting thread notices an interrupt of another thread
_GLANCE: Final = 0.002  # seconds after which a worker that waits for a lock checks its queue
_STOPPED: Final = RuntimeError("the backward was stopped")


def _device_of(node: Node) -> Device | None:
    outputs = node.outputs
    if outputs is None:
        return node.device  # type: ignore[no-any-return]
    return next((meta.device for meta in outputs if meta is not None), None)


def belongs_to_worker(node: Node) -> bool:
    """Return whether the node runs on the thread of an accelerator."""
    device = _device_of(node)
    return device is not None and device.backend is not None


_order: Final = itertools.count().__next__  # a serial number, so that no two entries of a heap compare equal


class _Queue:
    """Ready buffers, each with its run. Waiting threads are notified of new entries."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, int, _Run, InputBuffer]] = []
        self.lock = threading.RLock()
        self.bells: list[threading.Lock] = []  # of the waiting threads; releasing one wakes its thread

    def push(self, run: _Run, buffer: InputBuffer) -> None:
        """Add a buffer."""
        with self.lock:
            self.ring()
            heappush(self.heap, (-run.task.depth, -buffer[2].sequence_nr, _order(), run, buffer))

    def pop(self, run: _Run | None) -> tuple[_Run, InputBuffer] | None:
        """Wait for the next buffer and return it with its run; return None when ``run`` is over."""
        bell = threading.Lock()
        while True:
            with self.lock:
                if run is not None and run.is_over:
                    return None
                if self.heap:
                    item = heappop(self.heap)
                    return item[3], item[4]
                bell.acquire(blocking=False)
                self.bells.append(bell)
            while not bell.acquire(timeout=-1 if run is None else _PATIENCE):
                pass

    def take(self, wanted: Callable[[Context], bool]) -> tuple[_Run, InputBuffer] | None:
        """Return the next buffer of a run whose context is ``wanted``, or None if there is none now."""
        with self.lock:
            for item in sorted(self.heap):
                if wanted(item[3].context):
                    self.heap.remove(item)
                    heapify(self.heap)
                    return item[3], item[4]
        return None

    def ring(self) -> None:
        """Wake the waiting threads."""
        with self.lock:
            for bell in self.bells:
                if bell.locked():  # it may ring twice: an interrupt can leave it in the list
                    bell.release()
            self.bells.clear()


_home: ContextVar[_Queue | None] = ContextVar("tenkey_backward_queue", default=None)
_queues: dict[Device, _Queue] = {}
_starting: Final = new_lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_queues.clear)  # a child process does not inherit threads


def _queue_of(device: Device) -> _Queue:
    """Return the queue of a device; its worker starts at the first use."""
    queue = _queues.get(device)
    if queue is None:
        with _starting:
            queue = _queues.get(device)
            if queue is None:
                queue = _Queue()
                threading.Thread(target=_work, args=(queue,), name=f"tenkey-backward-{device}", daemon=True).start()
                queue = _queues.setdefault(device, queue)
    return queue


def _work(queue: _Queue) -> None:
    """Run the nodes of a queue until the process ends."""
    while True:
        item = queue.pop(None)
        if item is not None:
            _process(item, queue)
            del item  # keeps nothing alive while waiting for the next


def _process(item: tuple[_Run, InputBuffer], queue: _Queue) -> None:
    """Run one node in the context of its backward."""
    run, buffer = item
    if queue is run.home and run.thread == threading.get_ident():
        run.step(buffer)
    else:
        run.context.copy().run(_step_at, queue, run, buffer)


def is_worker() -> bool:
    """Return whether this thread has a queue of nodes that other threads may wait for."""
    return _home.get() is not None


def acquire(lock: Any, wanted: Callable[[Context], bool]) -> None:
    """Acquire a lock in a worker, and meanwhile run nodes that the lock's holder may wait for.

    These are the nodes of a ``wanted`` context; others might wait for the work that this thread is in the middle of.
    """
    queue = _home.get()
    assert queue is not None
    while not lock.acquire(timeout=_GLANCE):
        item = queue.take(wanted)
        if item is not None:
            run, buffer = item
            del item
            run.context.copy().run(_step_at, queue, run, buffer)  # not in this context: it is of another backward
            del run, buffer


def _step_at(queue: _Queue, run: _Run, buffer: InputBuffer) -> None:
    _home.set(queue)
    run.step(buffer)


class _Run:
    """A backward with nodes that run on workers."""

    def __init__(
        self, task: GraphTask, buffers: dict[Node, InputBuffer], run_node: Callable[[GraphTask, InputBuffer], Any]
    ) -> None:
        self.task = task
        self.buffers = buffers
        self.run_node = run_node
        self.lock = threading.RLock()
        self.pending = 0  # buffers that are queued or running
        self.error: BaseException | None = None
        self.is_over = False
        self.streams: dict[Any, Device] = {}
        self.thread = threading.get_ident()
        outer = _home.get()
        self.home = _Queue() if outer is None else outer
        self.context = copy_context()

    def push(self, buffers: list[InputBuffer]) -> None:
        """Queue ready buffers, which are already counted as pending."""
        for buffer in buffers:
            device = _device_of(buffer[2])
            queue = self.home if device is None or device.backend is None else _queue_of(device)
            queue.push(self, buffer)

    def step(self, buffer: InputBuffer) -> None:
        """Run a node and deliver its results."""
        ready: list[InputBuffer] = []
        try:
            if self.error is None:
                node = buffer[2]
                stream = node._stream
                with contextlib.nullcontext() if stream is None else stream.within():
                    if stream is not None:
                        with self.lock:
                            self.streams[stream] = _device_of(node)  # type: ignore[assignment]
                    results = self.run_node(self.task, buffer)
                ready = self.spread(node, results)
                results = None  # the accumulator that runs next counts the references to its gradient
        except BaseException as error:
            self.fail(error)
        with self.lock:
            self.pending += len(ready) - 1
            over = self.pending == 0
        self.push(ready)
        if over:
            self.is_over = True
            self.home.ring()  # wakes the caller

    def spread(self, node: Node, results: Any) -> list[InputBuffer]:
        """Deliver the results of a node, and return the buffers that are ready now."""
        ready = []
        for (next_node, nr), grad in zip(node.next_edges, results):
            buffer = None if next_node is None else self.buffers.get(next_node)
            if buffer is None or next_node is None:
                continue
            if grad is not None:
                target = next_node._stream
                with contextlib.nullcontext() if target is None else target:
                    _order_streams(node._stream, target, grad)
                    grad = validate(next_node, nr, grad, node, results)
                    while grad is not None:  # take out what another thread has put there, and put the sum there
                        with self.lock:
                            held = take(buffer, nr)
                            if held is None:
                                deliver(buffer, nr, grad)
                        grad = None if held is None else held + grad
                        held = None
            with self.lock:
                buffer[0] -= 1
                if buffer[0] == 0:
                    ready.append(buffer)
        return ready

    def fail(self, error: BaseException) -> None:
        """Stop with this error, unless an earlier one has stopped the run."""
        with self.lock:
            if self.error is None:
                self.error = error
                self.task.stopped = _STOPPED


def _order_streams(source: Any, target: Any, grad: Any) -> None:
    """Make one stream wait for the work queued in the other."""
    if source is None or target is None or source == target:
        return
    target.wait_event(source.record_event())
    if isinstance(grad, Tensor) and grad.device.backend is not None:
        grad.device.backend.record_stream(grad._data.buffer, target)


def run_on_workers(
    task: GraphTask,
    buffers: dict[Node, InputBuffer],
    ready: list[InputBuffer],
    run_node: Callable[[GraphTask, InputBuffer], Any],
) -> None:
    """Run the remaining nodes of a backward, starting with the ready buffers."""
    run = _Run(task, buffers, run_node)
    for buffer in ready:
        stream = buffer[2]._stream
        if stream is not None:
            device = _device_of(buffer[2])
            _order_streams(device.backend.current_stream(device.index), stream, buffer[1])  # type: ignore[union-attr]
    run.pending = len(ready)
    try:
        run.push(ready)
        while True:
            item = run.home.pop(run)
            if item is None:
                break
            _process(item, run.home)
            item = None
    except BaseException:  # this thread was interrupted while it waited
        task.is_at_large = True
        run.fail(_STOPPED)  # not the error itself, whose traceback refers to the run
        raise
    first = run.error
    if first is not None:
        run.error = None
        try:
            raise first
        finally:
            del first
    for stream, device in run.streams.items():
        current = device.backend.current_stream(device.index)
        _order_streams(stream, current, None)
