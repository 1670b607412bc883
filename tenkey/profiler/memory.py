"""The ledger: which operator allocated the memory of a tensor, and when it was freed.

Note [Whose memory]
~~~~~~~~~~~~~~~~~~~
A call has allocated the memory of its results that no argument had before and no call inside of it has returned; the
bytes are those of the whole buffer, on any backend. What a kernel allocates and frees before it returns (workspace of a
decomposition, say) is not a tensor's, and is not seen. A buffer is watched by a weak reference, whose callback notes
the time at which it was freed, and the event that was running in that thread then: an operator, a node of a backward
that lets go of what was saved, or none, if it was the program itself. Memory from before the profile is not counted.
Guarded by ``tests/profiler/test_profiler_memory.py``.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from time import perf_counter_ns
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from ..core.tensor import Tensor
from ..core.tree import tensors_in
from .observer import Event, get_event

__all__ = ["Ledger", "MemoryRecord"]


class MemoryRecord(NamedTuple):
    """A change of the memory of tensors: ``bytes`` is negative for memory that was freed; ``buffer`` numbers it."""

    time: int
    bytes: int
    device: str
    event: Event | None
    thread: int
    buffer: int


class _Watch(ref[Any]):
    """A weak reference to what owns the memory of a tensor."""

    __slots__ = ("device", "key", "nbytes", "number")
    device: str
    key: int
    nbytes: int
    number: int


def _owner(tensor: Tensor) -> tuple[Any, int]:
    """The object that the memory of a tensor lives and dies with, and its bytes; (None, 0) for a tensor without."""
    data = tensor._data
    if data.__class__ is np.ndarray:
        base = data if data.base is None else data.base
        return base, int(getattr(base, "nbytes", data.nbytes))
    buffer = getattr(data, "buffer", None)
    if buffer is None:  # the meta device, or the inside of a transform
        return None, 0
    owner = data if data.owner is None else data.owner
    return owner, int(getattr(buffer, "nbytes", data.nbytes))


class Ledger:
    """The records of a profile, in order of time."""

    def __init__(self) -> None:
        self.records: list[MemoryRecord] = []
        self._live: dict[int, _Watch] = {}
        self._count = 0

    def note(self, event: Event, result: Any, given: tuple[Any, ...]) -> None:
        """Count what a call has returned (Note [Whose memory])."""
        before: set[int] | None = None
        for tensor in tensors_in(result):
            owner, nbytes = _owner(tensor)
            if owner is None or not nbytes or id(owner) in self._live:
                continue
            if before is None:
                before = {id(_owner(argument)[0]) for argument in tensors_in(given)}
            if id(owner) in before:
                continue
            self._count += 1
            device = str(tensor.device)
            with suppress(TypeError):  # a backend's owner that allows no weak references: its end is not seen
                watch = _Watch(owner, self._freed)
                watch.key, watch.nbytes, watch.device, watch.number = id(owner), nbytes, device, self._count
                self._live[id(owner)] = watch
            event.allocated += nbytes
            now = perf_counter_ns()
            self.records.append(MemoryRecord(now, nbytes, device, event, event.thread, self._count))

    def _freed(self, watch: _Watch) -> None:
        if self._live.get(watch.key) is not watch:
            return
        del self._live[watch.key]
        event, thread = get_event(), threading.get_ident()
        while event is not None and (event.done or event.thread != thread):
            event = event.parent
        if event is not None:
            event.freed += watch.nbytes
        self.records.append(MemoryRecord(perf_counter_ns(), -watch.nbytes, watch.device, event, thread, watch.number))

    def close(self) -> None:
        """Watch nothing any more."""
        self._live.clear()
