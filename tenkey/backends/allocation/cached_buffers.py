"""The caching allocator: buffers that tensors gave back serve later tensors.

Note [Which buffer may be used again]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Sizes are rounded up to four classes for each power of two, so that a buffer fits many requests and at most a quarter is
lost. A buffer belongs to the queue that was current when it was allocated, and serves allocations for this queue only:
work there is done in order, so that what is queued later cannot overtake what still uses the buffer. Where other queues
use it too (``Backend.record_stream``), an event is recorded in each of them when it has been given back, and it waits
for these. A finalizer may run at any place, also where a lock of the backend is held: it only puts the buffer on a
list, and the next allocation does the rest; memory of the host has no such lock, and is freed at once where more would
be kept than the limit allows. Guarded by ``tests/backends/test_backend_memory.py``.

Note [What is kept]
~~~~~~~~~~~~~~~~~~~
Buffers that were given back are kept up to ``Counts.most_cached`` bytes for each device; beyond it, those that have not
been used for longest are freed. So a loop whose sizes change all the time keeps no more than one with a single size.
Guarded by ``tests/backends/test_cpu_memory.py``.
"""

from __future__ import annotations

import functools
import gc
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from .counts import counts_of

__all__ = ["Pool", "size_class"]

_SMALLEST: Final = 512


class _Place(NamedTuple):
    """Where a buffer may be used: a device, a queue of it, and a size."""

    device: int
    stream: Any
    nbytes: int


class Pool:
    """The buffers of one backend that no tensor uses. The operations on its containers are atomic.

    ``finish(device)`` waits for the work that is queued there. ``at_once``: a finalizer may free buffers.
    """

    def __init__(self, backend: Any, finish: Callable[[int], None], *, at_once: bool = False) -> None:
        self._backend = backend
        self._finish = finish
        self._at_once = at_once
        self._closed = False
        self._returned: deque[tuple[_Place, Any]] = deque()
        self._waiting: deque[tuple[_Place, Any, list[Any]]] = deque()
        self._ready: dict[_Place, deque[tuple[int, Any]]] = {}  # with the time of their return, the last at the end
        self._times: Iterator[int] = itertools.count()
        self._users: dict[int, dict[Any, None]] = {}  # other queues that use a buffer, by its id

    def take(self, nbytes: int, device: int) -> tuple[Any, Callable[[Any], None]]:
        """Return a buffer of at least ``nbytes`` bytes, and the function that gives it back."""
        self._sort()
        place = _Place(device, self._backend.current_stream(device), size_class(nbytes))
        try:
            _, buffer = self._ready.setdefault(place, deque()).pop()
        except IndexError:
            buffer = self._allocate(place)
        else:
            counts_of(self._backend, device).cache(-place.nbytes)
        return buffer, functools.partial(self._give, place)

    def _allocate(self, place: _Place) -> Any:
        counts = counts_of(self._backend, place.device)
        counts.admit(place.nbytes, functools.partial(self.empty, place.device))
        try:
            buffer = self._backend.allocate(place.nbytes, place.device)
        except MemoryError:
            gc.collect()  # tensors in garbage cycles
            self.empty(place.device)
            buffer = self._backend.allocate(place.nbytes, place.device)
        if buffer is not None:
            counts.reserve(place.nbytes)
        return buffer

    def _give(self, place: _Place, buffer: Any) -> None:
        counts = counts_of(self._backend, place.device)
        counts.cache(place.nbytes)
        if self._closed:
            self._free(place, buffer)
            return
        self._returned.append((place, buffer))
        if self._at_once and counts.most_cached is not None and counts.cached > counts.most_cached:
            self._sort()

    def _free(self, place: _Place, buffer: Any) -> None:
        self._users.pop(id(buffer), None)
        counts = counts_of(self._backend, place.device)
        counts.cache(-place.nbytes)
        counts.reserve(-place.nbytes)
        self._backend.free(buffer)

    def record(self, buffer: Any, stream: Any) -> None:
        """Note that another queue uses a buffer."""
        self._users.setdefault(id(buffer), {})[stream] = None

    def _sort(self) -> None:
        """Find out which of the buffers that were given back may be used again."""
        for place, buffer in _emptied(self._returned):
            others = [stream for stream in self._users.get(id(buffer), ()) if stream != place.stream]
            try:
                events = [stream.record_event() for stream in others]
            except BaseException:  # an interrupt, or an error that a kernel has reported
                self._returned.append((place, buffer))
                raise
            self._users.pop(id(buffer), None)
            if events:
                self._waiting.append((place, buffer, events))
            else:
                self._keep(place, buffer)
        if self._waiting:
            for place, buffer, events in [*_emptied(self._waiting)]:
                left = [event for event in events if not event.query()]
                if left:
                    self._waiting.append((place, buffer, left))
                else:
                    self._keep(place, buffer)

    def _keep(self, place: _Place, buffer: Any) -> None:
        """Make a buffer ready, and free what the limit does not allow to keep (Note [What is kept])."""
        self._ready.setdefault(place, deque()).append((next(self._times), buffer))
        counts = counts_of(self._backend, place.device)
        while counts.most_cached is not None and counts.cached > counts.most_cached:
            found = [(kept[0][0], at) for at, kept in [*self._ready.items()] if at.device == place.device and kept]
            if not found:
                return
            oldest = min(found)[1]
            for _, other in _emptied(self._ready[oldest], 1):
                self._free(oldest, other)

    def empty(self, device: int | None = None) -> None:
        """Free the buffers that no tensor uses, of one device or of all, when the work that uses them is done."""
        self._sort()
        found = [(place, ready) for place, ready in [*self._ready.items()] if device in (None, place.device)]
        waiting = [*_emptied(self._waiting)]
        self._waiting.extend(item for item in waiting if device not in (None, item[0].device))
        waiting = [item for item in waiting if device in (None, item[0].device)]
        for index in {place.device for place, ready in found if ready} | {place.device for place, _, _ in waiting}:
            self._finish(index)
        for place, buffer, events in waiting:
            for event in events:
                event.synchronize()
            self._free(place, buffer)
        for place, ready in found:
            for _, buffer in _emptied(ready):
                self._free(place, buffer)

    def close(self) -> None:
        """Free everything, now and from now on: the backend is removed."""
        self._closed = True
        self.empty()


def _emptied(items: deque[Any], most: int | None = None) -> Iterator[Any]:
    """Take the present items off, the first first, each by one thread."""
    for _ in range(len(items) if most is None else most):
        try:
            yield items.popleft()
        except IndexError:
            return


def size_class(nbytes: int) -> int:
    """Return the size of the buffer for a request: one of four classes for each power of two.

    >>> size_class(1), size_class(1030)
    (512, 1280)
    """
    if nbytes <= _SMALLEST:
        return _SMALLEST
    step = 1 << ((nbytes - 1).bit_length() - 3)
    return -(-nbytes // step) * step
