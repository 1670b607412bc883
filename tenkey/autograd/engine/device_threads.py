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
from weakref import ref

from ...core.device import Device
from ...core.tensor import Tensor
from ..tape.node import Node
from .graph_task import STOPPED, GraphTask, current_task, dead_reference
from .input_buffer import InputBuffer, deliver, validate
from .threads import PATIENCE, notice_interrupt, start_thread

__all__ = ["acquire", "belongs_to_worker", "run_on_workers"]

_GLANCE: Final = 0.002  # seconds after which a worker that waits for a lock checks its queue


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
_Entry = tuple[int, int, int, "_Run", InputBuffer]


class _Token:
    """Lives as long as the worker that made it."""

    __slots__ = ("__weakref__",)


class _Queue:
    """Ready buffers, each with its run, and the bell of the thread that waits for them."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.heap: list[_Entry] = []
        self.bell = threading.Lock()  # locked, except while it rings
        self.bell.acquire()
        self.worker: Callable[[], _Token | None] = dead_reference  # not begun

    def push(self, run: _Run, buffer: InputBuffer) -> None:
        """Add a buffer."""
        heappush(self.heap, (-run.task.depth, -buffer[2].sequence_nr, _order(), run, buffer))
        self.ring()

    def move(self, taken: list[_Entry]) -> bool:
        """Move the next entry to the end of a list, if there is one.

        It is one call into C, so an interrupt finds the entry either here or there, and no two threads take the same.
        """
        try:
            taken.extend(map(heappop, (self.heap,)))
        except IndexError:
            return False
        return True

    def move_wanted(self, taken: list[_Entry], wanted: Callable[[Context], bool]) -> bool:
        """Move the next entry of a run whose context is ``wanted``, if there is one now."""
        for entry in sorted(self.heap):
            if wanted(entry[3].context):
                taken.append(entry)  # an interrupt now finds it in both: then its run fails, and it is not run again
                try:
                    self.heap.remove(entry)
                except ValueError:  # another thread was faster
                    taken.clear()
                    continue
                heapify(self.heap)
                return True
        return False

    def ring(self) -> None:
        """Wake the thread that waits, or the next one that is about to wait."""
        with contextlib.suppress(RuntimeError):  # it rings already
            self.bell.release()

    def start(self) -> None:
        """Start a worker, which takes the place of an earlier one."""
        start_thread(_work, (self,))

    def make_up(self) -> None:
        """Do what an interrupt may have prevented."""
        if self.worker() is None:
            self.start()
        self.ring()


_home: ContextVar[_Queue | None] = ContextVar("tenkey_backward_queue", default=None)
_queues: dict[Device, _Queue] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_queues.clear)  # a child process does not inherit threads


def _queue_of(device: Device) -> _Queue:
    """Return the queue of a device; its worker starts at the first use."""
    queue = _queues.get(device)
    if queue is None:
        new = _Queue(f"tenkey-backward-{device}")
        queue = _queues.setdefault(device, new)
        if queue is new:
            queue.start()
    return queue


def _work(queue: _Queue) -> None:
    """Run the nodes of a queue until the process ends, or until another worker of the queue has started."""
    threading.current_thread().name = queue.name
    me = _Token()
    queue.worker = ref(me)
    taken: list[_Entry] = []
    error: BaseException | None = None
    while True:
        try:
            _give_up(taken, error)
            error = None
            while queue.worker() is me:
                if queue.move(taken):
                    _process(taken[0], queue)
                    taken.clear()  # keeps nothing alive while waiting for the next
                else:
                    queue.bell.acquire()
            queue.ring()  # the other worker may have missed this
            return
        except BaseException as caught:  # from outside: those of nodes end in ``_Run.step``
            error = caught


def _process(entry: _Entry, queue: _Queue) -> None:
    """Run one node in the context of its backward."""
    run, buffer = entry[3:]
    if queue is run.home and run.thread == threading.get_ident():
        run.step(buffer)
    else:
        run.context.copy().run(_step_at, queue, run, buffer)


def _step_at(queue: _Queue, run: _Run, buffer: InputBuffer) -> None:
    _home.set(queue)
    run.step(buffer)


def _give_up(taken: list[_Entry], error: BaseException | None) -> None:
    """Fail the runs of the entries that have not been closed, and close them."""
    for entry in taken:
        run, buffer = entry[3:]
        if error is not None and id(buffer) in run.open:
            run.fail(error)
        run.close(buffer)
    taken.clear()


def acquire(lock: Any, wanted: Callable[[Context], bool]) -> None:
    """Acquire a lock for the backward of this thread; raise RuntimeError if it is stopped.

    A worker meanwhile runs nodes that the lock's holder may wait for. These are the nodes of a ``wanted`` context;
    others might wait for the work that this thread is in the middle of.
    """
    queue, task = _home.get(), current_task.get()
    taken: list[_Entry] = []
    while not lock.acquire(timeout=PATIENCE if queue is None else _GLANCE):
        notice_interrupt()
        stop = None if task is None else task.outer_stop()
        if stop is not None:  # the holder may have been interrupted, and keep the lock
            raise RuntimeError("[backward] the backward was stopped.") from stop
        try:
            if queue is not None and queue.move_wanted(taken, wanted):
                run, buffer = taken[0][3:]
                run.context.copy().run(_step_at, queue, run, buffer)  # not in this context: it is of another backward
                del run, buffer
                taken.clear()
        except BaseException as error:
            _give_up(taken, error)
            raise


class _Inbox:
    """Gradients on their way to a buffer, which threads may add to at the same time."""

    __slots__ = ("buffer", "count", "sums")

    def __init__(self, buffer: InputBuffer) -> None:
        self.buffer = buffer
        self.count = itertools.count(1).__next__
        first = buffer[1]  # what arrived before there were workers
        given = enumerate(first) if isinstance(first, list) else [(0, first)]
        self.sums: dict[int, list[Any]] = {nr: [grad] for nr, grad in given if grad is not None}

    def add(self, nr: int, grad: Tensor) -> None:
        """Take out what another thread has put there, and put the sum there."""
        held = self.sums.get(nr)
        if held is None:
            held = self.sums.setdefault(nr, [])
        while True:
            try:
                grad = held.pop() + grad
            except IndexError:
                held.append(grad)
                return

    def empty(self) -> None:
        """Move the sums to the buffer, when all gradients have arrived."""
        for nr, held in self.sums.items():
            while held:  # more than one, if two threads found nothing at the same time
                deliver(self.buffer, nr, held.pop(0))
        self.buffer[0] = 0


class _Run:
    """A backward with nodes that run on workers."""

    def __init__(
        self, task: GraphTask, buffers: dict[Node, InputBuffer], run_node: Callable[[GraphTask, InputBuffer], Any]
    ) -> None:
        self.task = task
        self.buffers = buffers
        self.run_node = run_node
        self.open: dict[int, None] = {}  # the identities of the buffers that are queued or running
        self.running: dict[int, None] = {}
        self.inboxes: dict[Node, _Inbox] = {}
        self.errors: list[BaseException] = []  # the first of them is raised
        self.queues: dict[_Queue, None] = {}  # those of devices
        self.streams: dict[Any, Device] = {}
        self.thread = threading.get_ident()
        outer = _home.get()
        self.home = _Queue() if outer is None else outer
        self.context = copy_context()

    def push(self, buffer: InputBuffer) -> None:
        """Queue a ready buffer."""
        self.open[id(buffer)] = None
        device = _device_of(buffer[2])
        if device is None or device.backend is None:
            queue = self.home
        else:
            queue = _queue_of(device)
            self.queues[queue] = None
        queue.push(self, buffer)

    def step(self, buffer: InputBuffer) -> None:
        """Run a node and deliver its results."""
        self.running[id(buffer)] = None  # before the question whether the run was stopped
        try:
            if self.task.stopped is None:
                node = buffer[2]
                stream = node._stream
                with contextlib.nullcontext() if stream is None else stream.within():
                    if stream is not None:
                        self.streams[stream] = _device_of(node)  # type: ignore[assignment]
                    results = self.run_node(self.task, buffer)
                ready = self.spread(node, results)
                results = None  # the accumulator that runs next counts the references to its gradient
                for other in ready:
                    self.push(other)
        except BaseException as error:
            self.fail(error)
        self.close(buffer)

    def close(self, buffer: InputBuffer) -> None:
        """Note that nothing remains to do for a buffer."""
        self.running.pop(id(buffer), None)
        self.open.pop(id(buffer), None)
        if self.is_over():
            self.home.ring()  # wakes the caller

    def is_over(self) -> bool:
        """Return whether no node will run any more."""
        return not self.open or (self.task.stopped is not None and not self.running)

    def spread(self, node: Node, results: Any) -> list[InputBuffer]:
        """Deliver the results of a node, and return the buffers that are ready now."""
        ready = []
        for (next_node, nr), grad in zip(node.next_edges, results):
            buffer = None if next_node is None else self.buffers.get(next_node)
            if buffer is None or next_node is None:
                continue
            inbox = self.inboxes.get(next_node)
            if inbox is None:
                new = _Inbox(buffer)
                inbox = self.inboxes.setdefault(next_node, new)
                if inbox is new:
                    buffer[1] = None  # the inbox has it now
                del new
            target = next_node._stream
            with contextlib.nullcontext() if target is None else target:
                if grad is not None:
                    _order_streams(node._stream, target, grad)
                    grad = validate(next_node, nr, grad, node, results)
                    inbox.add(0 if next_node.outputs is None else nr, grad)
                    grad = None
                if inbox.count() == buffer[0]:
                    del self.inboxes[next_node]
                    inbox.empty()
                    ready.append(buffer)
        return ready

    def fail(self, error: BaseException) -> None:
        """Stop with this error, unless an earlier one has stopped the run."""
        self.errors.append(error)
        self.task.stopped = STOPPED

    def make_up(self) -> None:
        """Do what an interrupt may have prevented in another thread."""
        for queue in tuple(self.queues):
            queue.make_up()


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
    home = run.home
    taken: list[_Entry] = []
    task.running = run.running
    try:
        for buffer in ready:
            run.push(buffer)
        while not run.is_over():
            if home.move(taken):
                _process(taken[0], home)
                taken.clear()
            elif not home.bell.acquire(timeout=PATIENCE):
                notice_interrupt()
                run.make_up()
    except BaseException as error:  # from outside, while this thread waited
        run.fail(STOPPED)  # not the error itself, whose traceback refers to the run
        _give_up(taken, error)
        raise
    if home.heap:
        home.ring()  # for the next thread that waits there
    if run.errors:
        first = run.errors[0]
        run.errors.clear()
        try:
            raise first
        finally:
            del first
    for stream, device in run.streams.items():
        current = device.backend.current_stream(device.index)
        _order_streams(stream, current, None)
