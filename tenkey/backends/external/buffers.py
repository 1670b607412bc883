"""Buffers that tensors share, and the count of what a backend has handed out."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .interface import Backend

__all__ = ["MemoryStatistics", "Owner", "statistics_of"]


class MemoryStatistics(NamedTuple):
    """What tensors hold on one device: bytes now, the most there were at a time, and the calls so far.

    >>> from tenkey.backends import MemoryStatistics
    >>> MemoryStatistics(allocated_bytes=16, peak_bytes=32, allocations=2, frees=1).peak_bytes
    32
    """

    allocated_bytes: int = 0
    peak_bytes: int = 0
    allocations: int = 0
    frees: int = 0


# reentrant: a garbage collection, which frees buffers, may start while the lock is held
_lock = threading.RLock()


class Owner:
    """Lives as long as a tensor looks at a buffer, and then gives the buffer back."""

    __slots__ = ("__weakref__", "_backend", "_buffer", "_device", "nbytes")

    def __init__(self, backend: Backend, buffer: Any, nbytes: int, device: int) -> None:
        self._backend = backend
        self._buffer = buffer
        self._device = device
        self.nbytes = nbytes
        with _lock:
            table = statistics_of(backend)
            now = table.get(device, MemoryStatistics())
            held = now.allocated_bytes + nbytes
            table[device] = MemoryStatistics(held, max(now.peak_bytes, held), now.allocations + 1, now.frees)

    def __del__(self) -> None:
        try:
            backend, buffer = self._backend, self._buffer
        except AttributeError:  # interrupted while it was made
            return
        with _lock:
            table = statistics_of(backend)
            now = table[self._device]
            table[self._device] = now._replace(allocated_bytes=now.allocated_bytes - self.nbytes, frees=now.frees + 1)
        backend.free(buffer)


def statistics_of(backend: Backend) -> dict[int, MemoryStatistics]:
    """The statistics of a backend by device index; kept on the instance, whose own ``__init__`` need not know of it."""
    table: dict[int, MemoryStatistics] = backend.__dict__.setdefault("_memory_statistics", {})
    return table
