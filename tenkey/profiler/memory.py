"""The ledger: which operator allocated the memory of a tensor, and when it was freed.

Note [Whose memory]
~~~~~~~~~~~~~~~~~~~
The memory of a result is attributed to the call that returned it, unless an argument already had this memory or a call
inside returned it; the size is that of the whole buffer, on any backend. Memory that a kernel allocates and frees
before it returns (the workspace of a decomposition, for example) belongs to no tensor and is not seen. A weak reference
watches each buffer; its callback notes the time of release and the event that was running in that thread: an operator,
a node of a backward that releases its saved tensors, or none if the program itself released it. Memory allocated before
the profile is not counted.
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
    """A change of the memory of tensors: ``bytes`` is negative for freed memory; ``buffer`` numbers the buffers."""

    time: int
    bytes: int
    device: str
    event: Event | None
    thread: int
    buffer: int


class _Watch(ref[Any]):
    """A weak reference to the owner of the memory of a tensor."""

    __slots__ = ("memory",)
    memory: tuple[int, int, str, int]  # id of the owner, bytes, device, number


def _owner(tensor: Tensor) -> tuple[Any, int]:
    """Return the object that owns the memory of a tensor, and its size in bytes; (None, 0) if there is no memory."""
    data = tensor._data
    if data.__class__ is np.ndarray:
        base = data if data.base is None else data.base
        return base, int(getattr(base, "nbytes", data.nbytes))
    buffer = getattr(data, "buffer", None)
    if buffer is None:  # on the meta device, or inside a transform
        return None, 0
    owner = data if data.owner is None else data.owner
    return owner, int(getattr(buffer, "nbytes", data.nbytes))


class Ledger:
    """The records of a profile, in chronological order."""

    def __init__(self) -> None:
        self.records: list[MemoryRecord] = []
        self._live: dict[int, _Watch] = {}
        self._count = 0

    def note(self, event: Event, result: Any, given: tuple[Any, ...]) -> None:
        """Count the memory that a call has returned (Note [Whose memory])."""
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
            with suppress(TypeError):  # an owner without weak references: its release is not seen
                watch = _Watch(owner, self._freed)
                watch.memory = id(owner), nbytes, device, self._count
                self._live[id(owner)] = watch
            event.allocated += nbytes
            now = perf_counter_ns()
            self.records.append(MemoryRecord(now, nbytes, device, event, event.thread, self._count))

    def _freed(self, watch: _Watch) -> None:
        key, nbytes, device, number = watch.memory
        if self._live.get(key) is not watch:
            return
        del self._live[key]
        event, thread = get_event(), threading.get_ident()
        while event is not None and (event.done or event.thread != thread):
            event = event.cpu_parent
        if event is not None:
            event.freed += nbytes
        self.records.append(MemoryRecord(perf_counter_ns(), -nbytes, device, event, thread, number))

    def close(self) -> None:
        """Stop watching."""
        self._live.clear()
