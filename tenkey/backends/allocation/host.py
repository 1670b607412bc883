"""The memory of results on the CPU: counted from 1 MiB on, and reused from 32 MB on.

Note [Memory of large results]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The C library asks the system for every block of 32 MB and more, and returns it when it is freed. The system clears each
page when it is first touched, which costs three times as much as an addition (``python -m benchmarks.memory``). Blocks
of this size are therefore mapped here, and kept in a pool when the last array of their memory is gone
(Note [What is kept]); smaller results are left to the C library, which keeps those itself.
A counted result is an array whose ``base`` is a :class:`~tenkey.core.storage.HostMemory`. Every view, ``memoryview``,
DLPack capsule and NumPy array of the tensor's memory keeps that array alive, directly or through others, and so the
memory. Nothing refers back: the memory is in no reference cycle, so that its finalizer runs when the last array goes.
It runs in any thread and changes counters and containers whose operations are atomic. At the end of the process nothing
is given back. A child process has its own copy of what its parent kept.
Guarded by ``tests/backends/test_cpu_memory.py``.
"""

from __future__ import annotations

import atexit
import mmap
import os
from contextlib import suppress
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from ...core.storage import HostMemory
from .cached_buffers import Pool
from .counts import Counts, MemoryStatistics, calling_operator, counts_of

__all__ = ["COUNTED", "HOST", "REUSED", "allocate"]

COUNTED: Final = 1 << 20  # bytes from which a result is counted
REUSED: Final = 32_000_000  # bytes from which its memory is reused
_BYTE: Final = np.dtype(np.uint8)
_ended: Final[list[bool]] = []
atexit.register(_ended.append, True)


class _Host:
    """The memory of this process, in the shape of a Backend."""

    def __init__(self) -> None:
        self.pool = Pool(self, self.synchronize, at_once=True)
        self.counts = counts_of(self, 0)
        self.counts.most_cached = _physical_memory() // 4

    def current_stream(self, device: int = 0) -> None:
        """Return None: a kernel has ended when it returns."""

    def synchronize(self, device: int = 0) -> None:
        """Return at once."""

    def allocate(self, nbytes: int, device: int = 0) -> mmap.mmap:
        """Map memory of this process alone."""
        try:
            if not hasattr(mmap, "MAP_PRIVATE"):
                return mmap.mmap(-1, nbytes)
            block = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError, ValueError):
            raise MemoryError from None
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a system without huge pages
                block.madvise(mmap.MADV_HUGEPAGE)
        return block

    def free(self, buffer: mmap.mmap) -> None:
        """Do nothing: the block is unmapped with its last reference."""

    def memory_stats(self, device: int = 0) -> MemoryStatistics:
        """Return the statistics without those by operator."""
        return self.counts.snapshot()

    def empty_cache(self, device: int | None = None) -> None:
        """Unmap the blocks that no tensor uses."""
        self.pool.empty()


def _physical_memory() -> int:
    """Return the bytes of memory that this process may use; 4 GiB if the system does not say."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 << 30
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:  # noqa: PTH123  # pathlib is slow to import
            return min(total, int(file.read()))
    except (OSError, ValueError):  # no limit, or another system
        return total


HOST: Final = _Host()
_counts: Final[Counts] = HOST.counts
_take: Final = HOST.pool.take
_admit: Final = _counts.admit
_empty_cache: Final = HOST.empty_cache


def allocate(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return a new, uninitialized C-contiguous array for the result of a kernel.

    From ``COUNTED`` bytes on it is counted in ``tk.backends.memory_statistics("cpu")``, attributed to the innermost
    operator that is being called; from ``REUSED`` bytes on its memory comes from the pool and returns to it. Smaller
    arrays are those of ``np.empty``, which kernels of small calls call directly.

    Raises MemoryError if the memory is not available or the limit (``tk.backends.set_memory_limit``) is exceeded.
    """
    nbytes = prod(shape) * dtype.itemsize
    if nbytes < COUNTED:
        return np.empty(shape, dtype)
    if nbytes < REUSED:
        if _counts.limit is not None:
            _admit(nbytes, _empty_cache)
        try:
            memory = HostMemory(nbytes, _BYTE)
        except MemoryError:
            raise _missing(shape, dtype, nbytes) from None
        entry = (nbytes, calling_operator(), nbytes)
        give: Any = None
    else:
        try:
            block, back = _take(nbytes, 0)
        except MemoryError as error:
            if error.args:  # the limit
                raise
            raise _missing(shape, dtype, nbytes) from None
        memory = HostMemory((nbytes,), _BYTE, block)
        entry = (nbytes, calling_operator(), 0)
        give = partial(back, block)
    _counts.add(*entry)
    memory.end = partial(_end, entry, give)
    return np.ndarray(shape, dtype, memory)


def _missing(shape: tuple[int, ...], dtype: np.dtype, nbytes: int) -> MemoryError:
    """Return the error of a result for which memory is missing."""
    name = calling_operator().rpartition("::")[2]
    return MemoryError(
        f"[{name or 'tenkey'}] needs more memory than available, {nbytes:.1e} bytes for shape {shape} and dtype "
        f"{dtype}: give a smaller shape, or work in parts."
    )


def _end(entry: tuple[int, str, int], give: Any, counts: Counts = _counts, ended: list[bool] = _ended) -> None:
    """Count memory as free and give it back to the pool."""
    if ended:  # the names of the modules may be gone
        return
    counts.remove(*entry)
    if give is not None:
        give()
