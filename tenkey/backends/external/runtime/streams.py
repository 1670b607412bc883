"""Synchronisation, and the streams and events of backends with a single queue."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, Self

from .device_errors import error_words

__all__ = ["Event", "Stream", "count_kernel", "settle", "submit"]

_NOT_RECORDED: Final = "[Event] was not recorded yet: call record() first."


class _Synchronizes(Protocol):
    """The part of a Backend that is used here."""

    def synchronize(self, device: int = 0) -> None: ...
    def flush(self, device: int = 0) -> None: ...


def count_kernel(backend: Any, device: int) -> None:
    """Count a kernel of a batching backend, and submit the batch if it is full."""
    queued = backend.__dict__.setdefault("_queued", {})
    queued[device] = queued.get(device, 0) + 1
    if queued[device] >= backend.batching:
        submit(backend, device)


def submit(backend: Any, device: int) -> None:
    """Submit the work that is queued for a device."""
    if backend.batching:
        backend.__dict__.setdefault("_queued", {})[device] = 0
    backend.flush(device)


def settle(backend: Any, device: int) -> None:
    """Wait until all work on a device is done, and raise the error that a kernel has reported there."""
    words = error_words(backend)
    marked = words.unmark(device)  # before the work is done: Note [The error word]
    try:
        submit(backend, device)
        backend.synchronize(device)
    except BaseException:
        if marked:
            words.mark(device)
        raise
    if marked:
        words.check(device)


class Stream:
    """A queue of a device, which executes work in the order of the calls.

    >>> stream = tk.backends.Stream(tk.backends.Backend())
    >>> stream.record_event().query()
    True
    """

    def __init__(self, backend: _Synchronizes, device: int = 0) -> None:
        self.backend = backend
        self.device = device

    def synchronize(self) -> None:
        """Wait until all work in the queue is done."""
        settle(self.backend, self.device)

    def record_event(self) -> Event:
        """Return an event that is complete when all work so far is done."""
        event = Event(self.backend, self.device)
        event.record()
        return event

    def wait_event(self, event: Event) -> None:
        """Make later work in this queue wait for an event."""
        event.synchronize()

    def within(self) -> AbstractContextManager[object]:
        """Return what makes the queue current in a ``with`` block and leaves the current device as it is.

        A backward runs each node so. A backend whose queues also change the current device overrides it.
        """
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class Event:
    """A point in the queue of a device. In a backend without events of its own, recording waits for the queue.

    >>> begin, end = tk.backends.Event(tk.backends.Backend()), tk.backends.Event(tk.backends.Backend())
    >>> begin.record(), end.record()
    (None, None)
    >>> begin.elapsed_time(end) >= 0.0
    True
    """

    def __init__(self, backend: _Synchronizes, device: int = 0) -> None:
        self.backend = backend
        self.device = device
        self._time: float | None = None

    def record(self) -> None:
        """Mark the current end of the queue."""
        settle(self.backend, self.device)
        self._time = time.perf_counter()

    def query(self) -> bool:
        """Tell whether the work before the mark is done."""
        return self._time is not None

    def synchronize(self) -> None:
        """Wait for the work before the mark."""
        if self._time is None:
            raise RuntimeError(_NOT_RECORDED)

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds from this event to a later one."""
        if self._time is None or end._time is None:
            raise RuntimeError(_NOT_RECORDED)
        return (end._time - self._time) * 1e3
