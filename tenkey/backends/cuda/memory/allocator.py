"""The caching allocator of a device.

Note [Memory of a queue]
~~~~~~~~~~~~~~~~~~~~~~~~
Memory belongs to the queue that was current when it was allocated, and is used again by requests for this queue alone,
at once: work there is done in order. Where another queue uses it too, ``record`` says so, and after it was given back
an event is recorded in that queue; the block is available when the event has passed. Tensors end in finalizers, which
may run anywhere, also while the lock is held here: :meth:`DeviceAllocator.give` only appends to a deque, and the next
request does the rest. A finalizer may also allocate, in the middle of a request of the same thread: it then gets a
segment of its own, and touches nothing that is half done.
Guarded by ``tests/backends/cuda/memory/test_allocator.py``.

Note [Memory of graphs]
~~~~~~~~~~~~~~~~~~~~~~~
A captured graph uses the addresses of its capture in every replay. What is allocated under :meth:`PrivatePool.active`
therefore comes from arenas of that pool, which serve no other requests, and which keep their segments as long as the
pool is held. While a capture is under way, no events are recorded or asked for blocks, and nothing is freed by the
driver, since these calls would end up in the graph or invalidate the capture; segments are allocated in the relaxed
mode of captures. Guarded by ``tests/backends/cuda/memory/test_private_pools.py``.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Final

from ...._util.locks import new_lock
from ...allocation.counts import Counts, calling_operator
from ..device.contexts import attribute, enter
from ..device.driver import CudaError, OutOfMemoryError, cu
from ..device.streams import _capturing, relaxed
from .memory_counters import Counters
from .memory_history import History, segment_rows, trace_rows
from .segments import PENDING, USED, Arena, Block, Segment, segment_size

__all__ = ["DeviceAllocator", "PrivatePool", "active_pool"]

_NO_TIMING: Final = 2  # CU_EVENT_DISABLE_TIMING
_NOT_READY: Final = 600
_numbers: Final = itertools.count(1)
_active: Final[ContextVar[PrivatePool | None]] = ContextVar("tenkey_cuda_pool", default=None)
active_pool: Final = _active.get
"""The private pool from which this thread or task allocates, or None."""


class PrivatePool:
    """Memory that serves one graph, or several that are replayed in the order of their captures.

    ``release()`` lets go of it: its segments are freed when no tensor uses them any more.
    """

    def __init__(self) -> None:
        self.id = (0, next(_numbers))
        self.uses = 1
        self.kept: list[Any] = []  # host memory that the graphs read in every replay

    def hold(self) -> None:
        """Keep the memory for one more graph."""
        self.uses += 1

    def release(self) -> None:
        """End one use of the memory."""
        self.uses -= 1
        if self.uses <= 0:
            self.kept.clear()

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Make allocations of this thread or task come from the pool."""
        token = _active.set(self)
        try:
            yield
        finally:
            _active.reset(token)


class DeviceAllocator:
    """The memory of one device: Note [Memory of a queue]."""

    def __init__(self, device: int, counts: Counts | None = None) -> None:
        self.device = device
        self.counters = Counters()
        self.history: History | None = None
        self.fraction: float | None = None
        self.guard = 0  # bytes between tensors, so that an emulator notices an access past the end
        self.returned: deque[Block] = deque()
        self.counts = counts or Counts()  # the limits that tk.backends.set_memory_limit sets
        self._arenas: dict[int, Arena] = {}
        self._private: dict[tuple[tuple[int, int], int], Arena] = {}
        self._pending: deque[tuple[Block, list[tuple[int, Any]]]] = deque()
        self._events: list[Any] = []  # to be used again
        self._lock = new_lock()
        self._busy = False
        self._total = 0
        self._small, self._large = self.counters.small, self.counters.large

    # ---- taking and giving back

    def take(self, nbytes: int, stream: int) -> Block:
        """Return a block of at least ``nbytes`` bytes for work in a queue, which is named by its handle.

        Raises OutOfMemoryError, a MemoryError, with what is held where.
        """
        size = (nbytes + self.guard + 511) & -512 or 512
        with self._lock:
            if self._busy:  # within a request of this thread: Note [Memory of a queue]
                return self._own_segment(size, nbytes, stream)
            self._busy = True
            try:
                if self.returned or self._pending:
                    self._drain()
                pool = active_pool()
                arena = (self._arenas.get(stream) if pool is None else None) or self._arena(stream, pool)
                found = arena.bins.get(size)
                block = found.pop() if found else arena.take(size) or self._grow(arena, size, nbytes)
                block.state = USED
                block.requested = nbytes
                tally = self._small if block.segment.is_small else self._large
                tally.taken += 1
                tally.taken_bytes += block.size
                tally.taken_requested += nbytes
                tally.changed = True
                history = self.history
                if history is not None:
                    block.frames = history.frames()
                    history.note("alloc", *self._place(block), block.frames, block.segment.arena.pool_id)
                return block
            finally:
                self._busy = False

    def give(self, block: Block) -> None:
        """Give a block back. It takes no lock, and may be called by finalizers."""
        if self.history is not None:
            history = self.history
            history.note("free_requested", *self._place(block), history.frames(), block.segment.arena.pool_id)
        self.returned.append(block)

    def record(self, block: Block, stream: int) -> None:
        """Note that work in another queue than its own uses a block."""
        if stream == block.segment.arena.stream:
            return
        users = block.users
        if users is None:
            block.users = {stream}
        else:
            users.add(stream)

    def _arena(self, stream: int, pool: PrivatePool | None) -> Arena:
        if pool is None:
            return self._arenas.setdefault(stream, Arena(self.device, stream))
        return self._private.setdefault((pool.id, stream), Arena(self.device, stream, pool))

    def _drain(self) -> None:
        """Make available what was given back and no queue uses any more."""
        self.counters.raise_peaks()
        capturing = bool(_capturing)
        if self._pending and not capturing:
            self._ask_events()
        returned = self.returned
        while returned:
            block = returned.popleft()
            if block.again:
                self._count_again(block)
            tally = self._small if block.segment.is_small else self._large
            tally.given += 1
            tally.given_bytes += block.size
            tally.given_requested += block.requested
            if block.users is None:
                self._free(block)
            else:
                block.state = PENDING
                self._pending.append((block, [] if capturing else self._record_events(block)))
        kept = self.counts.most_cached
        if kept is not None and not capturing and self.counters.reserved - self.counters.allocated > kept:
            self._release(wait=True)

    def _count_again(self, block: Block) -> None:
        """Count that a block was given back and taken at once (Note [The short way of a small operator])."""
        times, block.again = block.again, 0
        tally = self._small if block.segment.is_small else self._large
        tally.taken += times
        tally.given += times
        tally.taken_bytes += times * block.size
        tally.given_bytes += times * block.size
        tally.taken_requested += times * block.requested
        tally.given_requested += times * block.requested

    def _free(self, block: Block) -> None:
        if self.history is not None:
            self.history.note("free_completed", *self._place(block), self.history.frames(), block.segment.arena.pool_id)
        block.users = None
        block.frames = None
        block.segment.arena.put(block)

    def _record_events(self, block: Block) -> list[tuple[int, Any]]:
        """Record an event in each of the other queues that use a block."""
        made: list[tuple[int, Any]] = []
        with enter(self.device):
            for stream in block.users or ():
                event = self._events.pop() if self._events else cu.cuEventCreate(_NO_TIMING)
                try:
                    cu.cuEventRecord(event, stream)
                except CudaError:  # the queue is one of another device, or was destroyed: its work must be done
                    self._events.append(event)
                    try:
                        cu.cuStreamSynchronize(stream)
                    except CudaError:
                        cu.cuCtxSynchronize()
                    continue
                made.append((stream, event))
        return made

    def _ask_events(self) -> None:
        """Free the blocks whose events have passed; events of one queue pass in order."""
        query = cu.cuEventQuery.__wrapped__
        waits: set[int] = set()  # queues whose earlier event has not passed
        with enter(self.device):  # without a context the driver does not answer
            for _ in range(len(self._pending)):
                block, events = self._pending.popleft()
                if not events and block.users:  # given back during a capture
                    events = self._record_events(block)
                left = []
                for stream, event in events:
                    if stream in waits or query(event)[0] == _NOT_READY:
                        waits.add(stream)
                        left.append((stream, event))
                    else:
                        self._events.append(event)
                if left:
                    block.users = {stream for stream, _ in left}
                    self._pending.append((block, left))
                else:
                    self._free(block)

    # ---- memory of the driver

    def _grow(self, arena: Arena, size: int, nbytes: int) -> Block:
        """Return a block of a new segment; first make room if the device or a limit requires it."""
        wanted = segment_size(size)
        address = self._allocate(wanted, arena)
        if address is None and not _capturing:
            self.counters.events["num_alloc_retries"] += 1
            gc.collect()  # tensors in garbage cycles
            self._drain()
            block = arena.take(size)
            if block is not None:
                return block
            self._release(wait=True)
            block = arena.take(size)  # a pending block of this arena
            if block is not None:
                return block
            address = self._allocate(wanted, arena)
        if address is None:
            self.counters.events["num_ooms"] += 1
            raise self._out_of_memory(nbytes, arena)
        frames = () if self.history is None else self.history.frames()
        block = arena.add(address, wanted, frames, size)
        self._count_segment(block.segment, "segment_alloc", 1)
        self.counters.observe(self.present_segments())
        return block

    def _own_segment(self, size: int, nbytes: int, stream: int) -> Block:
        """Return a block in an arena of its own, without touching what a request of this thread has begun."""
        arena = Arena(self.device, stream)
        address = self._allocate(segment_size(size), arena)
        if address is None:
            raise self._out_of_memory(nbytes, arena)
        block = arena.add(address, segment_size(size), (), segment_size(size))
        block.requested = nbytes
        self._private[(0, -address), stream] = arena
        self._count_segment(block.segment, "segment_alloc", 1)
        tally = self._small if block.segment.is_small else self._large
        tally.taken += 1
        tally.taken_bytes += block.size
        tally.taken_requested += nbytes
        tally.changed = True
        return block

    def _allocate(self, nbytes: int, arena: Arena) -> int | None:
        """Return the address of new memory; None if the device or a limit does not allow it."""
        if self.counters.reserved + nbytes > self.limit():
            return None
        with enter(self.device):
            try:
                if _capturing:
                    with relaxed():
                        address = int(cu.cuMemAlloc(nbytes))
                elif self._has_pools():
                    address = int(cu.cuMemAllocAsync(nbytes, arena.stream))
                else:
                    address = int(cu.cuMemAlloc(nbytes))
            except OutOfMemoryError:
                return None
        self.counters.events["num_device_alloc"] += 1
        return address

    def _has_pools(self) -> bool:
        return bool(attribute("MEMORY_POOLS_SUPPORTED", self.device))

    def _count_segment(self, segment: Segment, action: str, sign: int) -> None:
        self.counters.change("segment", segment.is_small, sign)
        self.counters.change("reserved_bytes", segment.is_small, sign * segment.size)
        if self.history is not None:
            arena = segment.arena
            self.history.note(action, segment.address, segment.size, arena.stream, self.history.frames(), arena.pool_id)

    def limit(self) -> int:
        """Return the most bytes that may be reserved: the device's own, a fraction of it, or a number of bytes."""
        if not self._total:
            self._total = int(cu.cuDeviceTotalMem(cu.cuDeviceGet(self.device)))
        most = self._total if self.fraction is None else int(self.fraction * self._total)
        return most if self.counts.limit is None else min(most, self.counts.limit)

    def _out_of_memory(self, nbytes: int, arena: Arena) -> OutOfMemoryError:
        with enter(self.device):
            free, total = cu.cuMemGetInfo()
        if self.history is not None:
            self.history.note("oom", int(free), nbytes, arena.stream, self.history.frames())
        counters = self.counters
        limit = self.limit()
        limited = "" if limit >= self._total else f" The limit of this process is {limit:,}."
        reserved, allocated = counters.reserved, counters.allocated
        splintered = " Much of it is in pieces: tk.cuda.empty_cache() may join them." * (reserved - allocated > nbytes)
        return OutOfMemoryError(
            f"[{calling_operator() or 'empty'}] needs {nbytes:,} bytes on cuda:{self.device}, which has {int(total):,} "
            f"and {int(free):,} free. Tensors hold {allocated:,}, and {reserved - allocated:,} more are reserved for "
            f"later ones ({reserved:,} in all).{limited}{splintered} Release tensors, work in smaller parts, use "
            "tk.autograd.checkpoint, or see what holds the memory with tk.cuda.memory_snapshot().",
            2,
            "CUDA_ERROR_OUT_OF_MEMORY",
        )

    def _release(self, *, wait: bool) -> None:
        """Free segments that no tensor uses, after waiting for all work on the device."""
        with enter(self.device):
            if wait:
                self.counters.events["num_sync_all_streams"] += 1
                cu.cuCtxSynchronize()
                self._ask_events()
            for key, arena in [*self._private.items()]:
                if arena.pool is not None and arena.pool.uses > 0:
                    continue
                self._free_segments(arena)
                if not arena.segments:
                    del self._private[key]
            for arena in self._arenas.values():
                self._free_segments(arena)
            if self._has_pools():
                cu.cuMemPoolTrimTo(cu.cuDeviceGetDefaultMemPool(cu.cuDeviceGet(self.device)), 0)
        self.counters.observe(self.present_segments())

    def _free_segments(self, arena: Arena) -> None:
        for segment in arena.unused():
            cu.cuMemFree(segment.address)  # work is done: memory of a queue may be freed without it
            self.counters.events["num_device_free"] += 1
            self._count_segment(segment, "segment_free", -1)

    def empty(self) -> None:
        """Free the memory that no tensor uses, when the work that used it is done.

        Raises CudaError while a graph is captured.
        """
        with self._lock:
            if _capturing:
                raise CudaError(
                    "[empty_cache] a graph is being captured, during which memory cannot be freed: call it before or "
                    "after the capture."
                )
            if self._busy:
                return
            self._busy = True
            try:
                self._drain()
                self._release(wait=True)
            finally:
                self._busy = False

    # ---- questions

    def present_segments(self) -> list[Segment]:
        """Return the segments as they are, also in the middle of a request."""
        arenas = [*self._arenas.values(), *self._private.values()]
        return [segment for arena in arenas for segment in arena.segments.values()]

    def _settled(self) -> None:
        if not self._busy:
            self._busy = True
            try:
                self._drain()
                for segment in self.present_segments():
                    for block in segment.blocks():
                        if block.again:
                            self._count_again(block)
            finally:
                self._busy = False

    def stats(self) -> dict[str, Any]:
        """Return the counters by PyTorch's names."""
        with self._lock:
            self._settled()
            self.counters.observe(self.present_segments())
            return self.counters.table()

    def reset_peaks(self) -> None:
        """Make the present values the peaks."""
        with self._lock:
            self._settled()
            self.counters.observe(self.present_segments())
            self.counters.reset_peaks()

    def reset_sums(self) -> None:
        """Begin the sums of what was allocated and freed anew."""
        with self._lock:
            self._settled()
            self.counters.reset_sums()

    def segments(self) -> list[Segment]:
        """Return the segments, after what was given back has become available."""
        with self._lock:
            self._settled()
            return self.present_segments()

    def snapshot(self) -> list[dict[str, Any]]:
        """Return the segments and their blocks in the form of ``torch.cuda.memory_snapshot``."""
        with self._lock:
            self._settled()
            return segment_rows(self.present_segments())

    def trace(self) -> list[dict[str, Any]]:
        """Return the recorded events in the form of the traces of PyTorch's snapshots."""
        return [] if self.history is None else trace_rows(self.history.entries)

    def remember(self, history: History | None) -> None:
        """Record events from now on, or stop."""
        with self._lock:
            self._settled()
            self.history = history

    def _place(self, block: Block) -> tuple[int, int, int]:
        return block.address, block.requested, block.segment.arena.stream
