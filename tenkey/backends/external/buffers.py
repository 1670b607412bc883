"""Owners of device buffers, and statistics of the memory that tensors hold.

Note [When a buffer is freed]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The tensors that use a buffer share an owner, and the buffer is freed when the owner is deallocated. Where tensors die
in a garbage cycle, the collector calls the finalizers of everything in it in any order: that of the buffer may have run
when the owner is finalized, and a finalizer of the user's may still read a tensor whose owner is finalized. A table
therefore holds the buffers, and what frees one is hidden from the collector in an array of NumPy, which it does not
traverse: it runs when the cycle is taken apart, after all finalizers, and not at all if one of them has made a tensor
reachable again. At the end of the process nothing is freed: drivers may be gone by then, and the memory goes with the
process. Guarded by ``tests/backends/test_backend_memory.py``.
"""

from __future__ import annotations

import atexit
import itertools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from ..._util.locks import new_lock

__all__ = ["MemoryStatistics", "Owner", "note_reserved", "statistics_of"]


class MemoryStatistics(NamedTuple):
    """The memory on one device: the bytes that tensors hold, and those that were allocated for them.

    ``allocated_bytes``, ``peak_bytes``, ``allocations`` and ``frees`` concern tensors. ``reserved_bytes`` and
    ``peak_reserved_bytes`` are larger if the backend is ``caching``, and include what is kept for later tensors.

    >>> from tenkey.backends import MemoryStatistics
    >>> MemoryStatistics(allocated_bytes=16, peak_bytes=32, allocations=2, frees=1).peak_bytes
    32
    """

    allocated_bytes: int = 0
    peak_bytes: int = 0
    allocations: int = 0
    frees: int = 0
    reserved_bytes: int = 0
    peak_reserved_bytes: int = 0


_lock = new_lock()  # a garbage collection, which frees buffers, may start while it is held: it is reentrant
_kept: Final[dict[int, tuple[Any, Any, int, int, Callable[[Any], None]]]] = {}
_numbers: Final = itertools.count()
_ended: Final[list[bool]] = []
atexit.register(_ended.append, True)


class Owner:
    """The owner of a buffer, shared by the tensors that use it; the buffer is freed with it by ``free(buffer)``."""

    __slots__ = ("__weakref__", "_backend", "_end", "nbytes")

    def __init__(self, backend: Any, buffer: Any, nbytes: int, device: int, free: Callable[[Any], None]) -> None:
        self._backend = backend
        self.nbytes = nbytes
        end = _End()
        _kept[end.number] = (backend, buffer, nbytes, device, free)
        self._end = np.empty((), object)
        self._end[()] = end
        with _lock:
            table = statistics_of(backend)
            now = table.get(device, MemoryStatistics())
            held = now.allocated_bytes + nbytes
            peak, allocations = max(now.peak_bytes, held), now.allocations + 1
            table[device] = MemoryStatistics(held, peak, allocations, *now[3:])  # several times as fast as _replace


class _End:
    """What frees the buffer of an owner when it is deallocated."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = next(_numbers)

    def __del__(self, kept: Any = _kept, ended: Any = _ended) -> None:
        if ended:  # the names of this module may be gone
            return
        try:
            backend, buffer, nbytes, device, free = kept.pop(self.number)
        except (AttributeError, KeyError):  # __init__ was interrupted
            return
        with _lock:
            table = statistics_of(backend)
            now = table[device]
            table[device] = MemoryStatistics(now.allocated_bytes - nbytes, *now[1:3], now.frees + 1, *now[4:])
        free(buffer)


def statistics_of(backend: Any) -> dict[int, MemoryStatistics]:
    """Return the statistics of a backend by device index; they are kept on the instance of Backend."""
    return backend.__dict__.setdefault("_memory_statistics", {})  # type: ignore[no-any-return]


def note_reserved(backend: Any, device: int, nbytes: int) -> None:
    """Count memory that was allocated by the backend, or freed if ``nbytes`` is negative."""
    with _lock:
        table = statistics_of(backend)
        now = table.get(device, MemoryStatistics())
        held = now.reserved_bytes + nbytes
        table[device] = now._replace(reserved_bytes=held, peak_reserved_bytes=max(now.peak_reserved_bytes, held))
