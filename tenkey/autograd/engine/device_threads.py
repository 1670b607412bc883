"""Threads for the nodes of accelerators: one for each device.

Note [Device workers]
~~~~~~~~~~~~~~~~~~~~~
Nodes of the CPU run on the thread that called ``backward()``; those of a device that a backend registered run on the
worker thread of that device, so two devices work at the same time. Every worker has a queue: a deeper reentrant
backward first, then the higher sequence number. A thread that waits for its own backward to end runs what is in its
queue meanwhile, whosever it is; so two workers that wait for each other do not block. A worker that waits for another
thread to compute a checkpoint again runs those in its queue that this computation needs (``acquire``). A node runs in a
copy of the context of the thread that called: modes, guards and context variables are the same there. The first error
stops the backward, and is raised where it was called with type and traceback. Guarded by
``tests/autograd/engine/test_workers.py`` and ``tests/autograd/checkpointing/test_checkpoint_devices.py``.

Note [Interrupts of backward]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Python raises KeyboardInterrupt in the main thread, where a function begins or a call of a C function has returned. So
what has to be undone is done inside of the ``try`` that undoes it, and what the main thread shares with workers is
locked by ``with`` and a lock of C alone: no interrupt fits between such a lock and the block. The condition variables
of ``threading`` are written in Python: interrupted in the wrong place they stay locked, or raise an error of their own.
Guarded by ``tests/autograd/engine/test_workers.py::TestInterrupts``.

Note [Streams in backward]
~~~~~~~~~~~~~~~~~~~~~~~~~~
A backend with several queues of work on a device says which one a thread uses (``Backend.current_stream``). A node runs
in the stream of its forward call. Where a gradient goes from a node of one stream to a node of another, the second
stream waits for an event of the first before it sums or uses it, and the backend is told that the memory is in use
there (``Backend.record_stream``). In the beginning the streams of the roots wait for the caller's, in the end the
caller's wait for all that were used. Guarded by ``tests/autograd/engine/test_workers.py::TestStreams``.
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

from ...core.device import Device
from ...core.tensor import Tensor
from ..tape.node import Node
from .graph_task import Task
from .input_buffer import deliver, validate

__all__ = ["acquire", "belongs_to_worker", "is_worker", "run_on_workers"]

_PATIENCE: Final = 0.1  # seconds after which a thread that waits sees an interrupt that went to another thread
_GLANCE: Final = 0.002  # seconds after which a worker that waits for a lock looks into its queue
_STOPPED: Final = RuntimeError("the backward was stopped")


def _device_of(node: Node) -> Device | None:
    outputs = node.outputs
    if outputs is None:
        return node.device  # type: ignore[no-any-return]
    return next((meta.device for meta in outputs if meta is not None), None)


def belongs_to_worker(node: Node) -> bool:
    """Whether the node runs on the thread of an accelerator: the device of its outputs is not one of the host."""
    device = _device_of(node)
    return device is not None and device.backend is not None


_order: Final = itertools.count().__next__  # of what was queued: no two entries of a heap compare equal


class _Queue:
    """Ready slots, each with its run; the threads that wait for them are told of new ones."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, int, _Run, list[Any]]] = []
        self.lock = threading.RLock()
        self.bells: list[threading.Lock] = []  # of the threads that wait: one that is released wakes its thread

    def push(self, run: _Run, slot: list[Any]) -> None:
        """Add a slot."""
        with self.lock:
            self.ring()
            heappush(self.heap, (-run.task.depth, -slot[2].sequence_nr, _order(), run, slot))

    def pop(self, run: _Run | None) -> tuple[_Run, list[Any]] | None:
        """The next slot; None once ``run`` is over."""
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

    def take(self, wanted: Callable[[Context], bool]) -> tuple[_Run, list[Any]] | None:
        """The next slot of a run whose context is ``wanted``; None if there is none now."""
        with self.lock:
            for item in sorted(self.heap):
                if wanted(item[3].context):
                    self.heap.remove(item)
                    heapify(self.heap)
                    return item[3], item[4]
        return None

    def ring(self) -> None:
        """Let the threads that wait look again."""
        with self.lock:
            for bell in self.bells:
                if bell.locked():  # it may ring twice: an interrupt can leave it in the list
                    bell.release()
            self.bells.clear()


_home: ContextVar[_Queue | None] = ContextVar("tenkey_backward_queue", default=None)
_queues: dict[Device, _Queue] = {}
_starting: Final = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_queues.clear)  # threads do not live on in a child process


def _queue_of(device: Device) -> _Queue:
    """The queue of a device, whose worker is started when it is first needed."""
    queue = _queues.get(device)
    if queue is None:
        with _starting:
            queue = _queues.get(device)
            if queue is None:
                queue = _Queue()
                threading.Thread(target=_work, args=(queue,), name=f"tenkey-backward-{device}", daemon=True).start()
                _queues[device] = queue
    return queue


def _work(queue: _Queue) -> None:
    """What a worker does as long as the process lives."""
    while True:
        item = queue.pop(None)
        if item is not None:
            _process(item, queue)
            del item  # nothing of it is kept while this thread waits for the next


def _process(item: tuple[_Run, list[Any]], queue: _Queue) -> None:
    """Run one slot, in the context of its backward."""
    run, slot = item
    if queue is run.home and run.thread == threading.get_ident():
        run.step(slot)
    else:
        run.context.copy().run(_step_at, queue, run, slot)


def is_worker() -> bool:
    """Whether this thread has a queue from which others wait for it to run."""
    return _home.get() is not None


def acquire(lock: Any, wanted: Callable[[Context], bool]) -> None:
    """Acquire a lock in a worker, which runs meanwhile what its holder may wait for: slots of a ``wanted`` context.

    No others: they might wait for what this thread is in the middle of.
    """
    queue = _home.get()
    assert queue is not None
    while not lock.acquire(timeout=_GLANCE):
        item = queue.take(wanted)
        if item is not None:
            run, slot = item
            del item
            run.context.copy().run(_step_at, queue, run, slot)  # never in this context, which is of another backward
            del run, slot


def _step_at(queue: _Queue, run: _Run, slot: list[Any]) -> None:
    _home.set(queue)
    run.step(slot)


class _Run:
    """A backward of which some nodes run on workers."""

    def __init__(self, task: Task, slots: dict[Node, list[Any]], run_node: Callable[[Task, list[Any]], Any]) -> None:
        self.task = task
        self.slots = slots
        self.run_node = run_node
        self.lock = threading.RLock()
        self.pending = 0  # slots that are queued or running
        self.error: BaseException | None = None
        self.is_over = False
        self.streams: dict[Any, Device] = {}
        self.thread = threading.get_ident()
        outer = _home.get()
        self.home = _Queue() if outer is None else outer
        self.context = copy_context()

    def push(self, slots: list[list[Any]]) -> None:
        """Queue slots that have become ready; each is counted as pending already."""
        for slot in slots:
            device = _device_of(slot[2])
            queue = self.home if device is None or device.backend is None else _queue_of(device)
            queue.push(self, slot)

    def step(self, slot: list[Any]) -> None:
        """Run a node and hand on what it returns."""
        ready: list[list[Any]] = []
        try:
            if self.error is None:
                node = slot[2]
                stream = node._stream
                with contextlib.nullcontext() if stream is None else stream:
                    if stream is not None:
                        with self.lock:
                            self.streams[stream] = _device_of(node)  # type: ignore[assignment]
                    results = self.run_node(self.task, slot)
                ready = self.spread(node, results)
                results = None  # what an accumulator gets next must have no other reference from here
        except BaseException as error:
            self.fail(error)
        with self.lock:
            self.pending += len(ready) - 1
            over = self.pending == 0
        self.push(ready)
        if over:
            self.finish()

    def spread(self, node: Node, results: Any) -> list[list[Any]]:
        """Deliver the results of a node; the slots that are ready now."""
        ready = []
        for (next_node, nr), grad in zip(node.next_edges, results):
            slot = None if next_node is None else self.slots.get(next_node)
            if slot is None or next_node is None:
                continue
            if grad is not None:
                target = next_node._stream
                with contextlib.nullcontext() if target is None else target:
                    _order_streams(node._stream, target, grad)
                    grad = validate(next_node, nr, grad, node, results)
                    with self.lock:
                        deliver(slot, nr, grad)
            with self.lock:
                slot[0] -= 1
                if slot[0] == 0:
                    ready.append(slot)
        return ready

    def fail(self, error: BaseException) -> None:
        """Stop: the first error counts."""
        with self.lock:
            if self.error is None:
                self.error = error
                self.task.stopped = _STOPPED

    def finish(self) -> None:
        """Let the caller go on."""
        self.is_over = True
        self.home.ring()


def _order_streams(source: Any, target: Any, grad: Any) -> None:
    """Let one stream wait for what the other has done so far."""
    if source is None or target is None or source == target:
        return
    target.wait_event(source.record_event())
    if isinstance(grad, Tensor) and grad.device.backend is not None:
        grad.device.backend.record_stream(grad._data.buffer, target)


def run_on_workers(
    task: Task,
    slots: dict[Node, list[Any]],
    ready: list[list[Any]],
    run_node: Callable[[Task, list[Any]], Any],
) -> None:
    """Run what is left of a backward, beginning with the slots that are ready."""
    run = _Run(task, slots, run_node)
    for slot in ready:
        stream = slot[2]._stream
        if stream is not None:
            device = _device_of(slot[2])
            _order_streams(device.backend.current_stream(device.index), stream, slot[1])  # type: ignore[union-attr]
    run.pending = len(ready)
    try:
        run.push(ready)
        while True:
            item = run.home.pop(run)
            if item is None:
                break
            _process(item, run.home)
            item = None
    except BaseException:  # an interrupt of this thread, while it waited
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
