"""Statistics of the memory that tensors hold on a device, and its limits."""

from __future__ import annotations

import gc
import re
import sys
import weakref
from collections.abc import Callable, Mapping
from types import FrameType, MappingProxyType
from typing import Any, Final, NamedTuple

from ..._util.locks import new_lock

__all__ = ["Counts", "MemoryStatistics", "OperatorMemory", "calling_operator", "counts_of"]


class OperatorMemory(NamedTuple):
    """What one operator allocated: bytes that are still held, the most that were held at a time, and the number.

    >>> from tenkey.backends import OperatorMemory
    >>> OperatorMemory(allocated_bytes=16, peak_bytes=32, allocations=2).peak_bytes
    32
    """

    allocated_bytes: int
    peak_bytes: int
    allocations: int


class MemoryStatistics(NamedTuple):
    """The memory on one device: the bytes that tensors hold, and those that were allocated for them.

    ``allocated_bytes``, ``peak_bytes``, ``allocations`` and ``frees`` concern tensors. ``reserved_bytes`` and
    ``peak_reserved_bytes`` are larger if the device keeps memory for later tensors: ``cached_bytes`` of them are used
    by no tensor. ``by_operator`` is filled by :func:`tenkey.backends.memory_statistics`.

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
    cached_bytes: int = 0
    by_operator: Mapping[str, OperatorMemory] = MappingProxyType({})


_lock = new_lock()  # a garbage collection, which frees memory, may start while it is held: it is reentrant


class _Held(weakref.ref):  # type: ignore[type-arg]
    """A reference to memory that is counted until it is gone."""

    __slots__ = ("nbytes", "operator")
    nbytes: int
    operator: str


class Counts:
    """The counters of one device of a backend, and its limits in bytes (None: unlimited).

    Note [Counting what is gone]
    ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
    A finalizer in Python, after a call whose arrays displaced all code from the cache, takes 7 us: 5 % of an addition
    of 2**20 elements. Memory without other duties is therefore held by weak references, which enter a list when it is
    gone; it is subtracted from the counters before they are read or change. Appending is atomic, in any thread and
    during a garbage collection.
    """

    __slots__ = (
        "_gone", "_held", "_note", "allocated", "allocations", "cached", "frees", "limit", "most_cached", "operators",
        "peak", "peak_reserved", "reserved",
    )  # fmt: skip

    def __init__(self) -> None:
        self.allocated = self.peak = self.allocations = self.frees = self.reserved = self.peak_reserved = 0
        self.cached = 0
        self.limit: int | None = None
        self.most_cached: int | None = None
        self.operators: dict[str, list[int]] = {}  # held, peak, allocations
        self._held: dict[int, _Held] = {}
        self._gone: list[_Held] = []
        self._note = self._gone.append

    def hold(self, memory: Any, nbytes: int, operator: str) -> None:
        """Count newly allocated memory until it is gone: Note [Counting what is gone]."""
        held = _Held(memory, self._note)
        held.nbytes, held.operator = nbytes, operator
        self._held[id(held)] = held
        self.add(nbytes, operator, nbytes)

    def add(self, nbytes: int, operator: str, reserved: int) -> None:
        """Count memory that a tensor gets, ``reserved`` of it newly allocated."""
        with _lock:
            if self._gone:
                self._settle()
            self.allocations += 1
            self.allocated = allocated = self.allocated + nbytes
            if allocated > self.peak:  # noqa: PLR1730 -- a call of max() for every large result
                self.peak = allocated
            self.reserved = all_reserved = self.reserved + reserved
            if all_reserved > self.peak_reserved:  # noqa: PLR1730
                self.peak_reserved = all_reserved
            try:
                own = self.operators[operator]
            except KeyError:
                own = self.operators[operator] = [0, 0, 0]
            own[0] += nbytes
            own[2] += 1
            if own[0] > own[1]:  # noqa: PLR1730
                own[1] = own[0]

    def _settle(self) -> None:
        gone, held = self._gone, self._held
        while gone:
            one = gone.pop()
            del held[id(one)]
            self.remove(one.nbytes, one.operator, one.nbytes)

    def remove(self, nbytes: int, operator: str, reserved: int) -> None:
        """Count memory that no tensor uses any more, ``reserved`` of it freed."""
        with _lock:
            self.frees += 1
            self.allocated -= nbytes
            self.reserved -= reserved
            self.operators[operator][0] -= nbytes

    def reserve(self, nbytes: int) -> None:
        """Count memory that was allocated by the backend, or freed if ``nbytes`` is negative."""
        with _lock:
            self._settle()
            self.reserved += nbytes
            self.peak_reserved = max(self.peak_reserved, self.reserved)

    def cache(self, nbytes: int) -> None:
        """Count memory that is kept for later tensors, or taken or freed if ``nbytes`` is negative."""
        with _lock:
            self.cached += nbytes

    def admit(self, nbytes: int, spare: Callable[[], None]) -> None:
        """Raise MemoryError if ``nbytes`` bytes exceed the limit although ``spare`` freed what is not in use."""
        if self.limit is None:
            return
        with _lock:
            self._settle()
        if self.reserved + nbytes <= self.limit:
            return
        gc.collect()  # tensors in garbage cycles
        spare()
        with _lock:
            self._settle()
        if self.reserved + nbytes > self.limit:
            raise MemoryError(
                f"[{calling_operator() or 'empty'}] needs {nbytes:,} bytes: the limit of this device is "
                f"{self.limit:,}, of which tensors hold {self.reserved:,}. Release tensors, work in parts, or raise "
                "the limit with tk.backends.set_memory_limit."
            )

    def snapshot(self, *, by_operator: bool = False) -> MemoryStatistics:
        """Return the statistics of this moment."""
        with _lock:
            self._settle()
            named = {name: OperatorMemory(*own) for name, own in self.operators.items()} if by_operator else {}
            return MemoryStatistics(
                self.allocated, self.peak, self.allocations, self.frees, self.reserved, self.peak_reserved,
                self.cached, MappingProxyType(named),
            )  # fmt: skip


def counts_of(backend: Any, device: int) -> Counts:
    """Return the counters of a device, which are kept on the instance of Backend."""
    table = backend.__dict__.setdefault("_memory", {})
    return table.get(device) or table.setdefault(device, Counts())  # type: ignore[no-any-return]


_operators: Final[dict[str, str | None]] = {}  # by the file name of code: the operator that it calls


def calling_operator() -> str:
    """Return the name of the innermost operator that this thread is calling, or an empty string.

    Generated code is named after its operator (``<method __add__ of tk::add>``), so kernels need not pass the name.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        try:
            name = _operators[file]
        except KeyError:
            found = re.search(r"\w+::\w+", file) if file[:1] == "<" else None
            name = None if found is None else found[0]
            if len(_operators) >= 4096:
                _operators.clear()
            _operators[file] = name
        if name is not None:
            return name
        frame = frame.f_back
    return ""
