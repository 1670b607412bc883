"""Owners of device buffers, and statistics of the memory that tensors hold."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..._util.locks import new_lock

__all__ = ["MemoryStatistics", "Owner", "statistics_of"]


class MemoryStatistics(NamedTuple):
    """The memory that tensors hold on one device: current and peak bytes, and the numbers of calls.

    >>> from tenkey.backends import MemoryStatistics
    >>> MemoryStatistics(allocated_bytes=16, peak_bytes=32, allocations=2, frees=1).peak_bytes
    32
    """

    allocated_bytes: int = 0
    peak_bytes: int = 0
    allocations: int = 0
    frees: int = 0


_lock = new_lock()  # a garbage collection, which frees buffers, may start while it is held: it is reentrant


class Owner:
    """The owner of a buffer, shared by the tensors that use it; frees the buffer with the last of them."""

    __slots__ = ("__weakref__", "_backend", "_buffer", "_device", "nbytes")

    def __init__(self, backend: Any, buffer: Any, nbytes: int, device: int) -> None:
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
        except AttributeError:  # __init__ was interrupted
            return
        with _lock:
            table = statistics_of(backend)
            now = table[self._device]
            table[self._device] = now._replace(allocated_bytes=now.allocated_bytes - self.nbytes, frees=now.frees + 1)
        backend.free(buffer)


def statistics_of(backend: Any) -> dict[int, MemoryStatistics]:
    """Return the statistics of a backend by device index; they are kept on the instance of Backend."""
    return backend.__dict__.setdefault("_memory_statistics", {})  # type: ignore[no-any-return]
