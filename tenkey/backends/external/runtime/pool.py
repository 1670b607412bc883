"""The caching allocator: buffers that tensors gave back serve later tensors.

Note [Which buffer may be used again]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Sizes are rounded up to four classes for each power of two, so that a buffer fits many requests and at most a quarter is
lost. A buffer belongs to the queue that was current when it was allocated, and serves allocations for this queue only:
work there is done in order, so that what is queued later cannot overtake what still uses the buffer. Where other queues
use it too (``Backend.record_stream``), an event is recorded in each of them when it has been given back, and it waits
for these. A finalizer may run at any place, also where a lock of the backend is held: it only puts the buffer on a
list, and the next allocation does the rest. Guarded by ``tests/backends/test_backend_memory.py``.
"""

from __future__ import annotations

import functools
import gc
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from ..buffers import note_reserved
from .streams import submit

__all__ = ["Pool", "pool_of"]

_SMALLEST: Final = 512


class _Place(NamedTuple):
    """Where a buffer may be used: a device, a queue of it, and a size."""

    device: int
    stream: Any
    nbytes: int


class Pool:
    """The buffers of one backend that no tensor uses. The operations on its containers are atomic."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._closed = False
        self._returned: deque[tuple[_Place, Any]] = deque()
        self._waiting: deque[tuple[_Place, Any, list[Any]]] = deque()
        self._ready: dict[_Place, list[Any]] = {}
        self._users: dict[int, dict[Any, None]] = {}  # other queues that use a buffer, by its id

    def take(self, nbytes: int, device: int) -> tuple[Any, Callable[[Any], None]]:
        """Return a buffer of at least ``nbytes`` bytes, and the function that gives it back."""
        self._sort()
        place = _Place(device, self._backend.current_stream(device), _size_class(nbytes))
        try:
            buffer = self._ready.setdefault(place, []).pop()
        except IndexError:
            buffer = self._allocate(place)
        return buffer, functools.partial(self._give, place)

    def _allocate(self, place: _Place) -> Any:
        try:
            buffer = self._backend.allocate(place.nbytes, place.device)
        except MemoryError:
            gc.collect()  # tensors in garbage cycles
            self.empty(place.device)
            buffer = self._backend.allocate(place.nbytes, place.device)
        if buffer is not None:
            note_reserved(self._backend, place.device, place.nbytes)
        return buffer

    def _give(self, place: _Place, buffer: Any) -> None:
        if self._closed:
            self._free(place, buffer)
        else:
            self._returned.append((place, buffer))

    def _free(self, place: _Place, buffer: Any) -> None:
        self._users.pop(id(buffer), None)
        note_reserved(self._backend, place.device, -place.nbytes)
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
                self._ready.setdefault(place, []).append(buffer)
        if self._waiting:
            for place, buffer, events in [*_emptied(self._waiting)]:
                left = [event for event in events if not event.query()]
                if left:
                    self._waiting.append((place, buffer, left))
                else:
                    self._ready.setdefault(place, []).append(buffer)

    def empty(self, device: int | None = None) -> None:
        """Free the buffers that no tensor uses, of one device or of all, when the work that uses them is done."""
        self._sort()
        found = [(place, ready) for place, ready in [*self._ready.items()] if device in (None, place.device)]
        waiting = [*_emptied(self._waiting)]
        self._waiting.extend(item for item in waiting if device not in (None, item[0].device))
        waiting = [item for item in waiting if device in (None, item[0].device)]
        for index in {place.device for place, ready in found if ready} | {place.device for place, _, _ in waiting}:
            submit(self._backend, index)
            self._backend.synchronize(index)
        for place, buffer, events in waiting:
            for event in events:
                event.synchronize()
            self._free(place, buffer)
        for place, ready in found:
            for buffer in _emptied(ready):
                self._free(place, buffer)

    def close(self) -> None:
        """Free everything, now and from now on: the backend is removed."""
        self._closed = True
        self.empty()


def _emptied(items: Any) -> Iterator[Any]:
    """Take the present items off a list or deque, each by one thread."""
    for _ in range(len(items)):
        try:
            yield items.pop(0) if items.__class__ is list else items.popleft()
        except IndexError:
            return


def _size_class(nbytes: int) -> int:
    if nbytes <= _SMALLEST:
        return _SMALLEST
    step = 1 << ((nbytes - 1).bit_length() - 3)
    return -(-nbytes // step) * step


def pool_of(backend: Any) -> Pool:
    """Return the pool of a backend, which is kept on the instance of Backend."""
    found = backend.__dict__.get("_pool")
    return found or backend.__dict__.setdefault("_pool", Pool(backend))  # type: ignore[no-any-return]
