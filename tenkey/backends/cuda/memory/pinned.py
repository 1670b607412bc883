"""Pinned host memory: memory of this process that devices read and write by themselves, while the program goes on.

Note [Pinned memory is used again]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A copy between pinned memory and a device returns before it is done. The memory may therefore be used again only when
the copies have ended: each copy notes its stream, and when the last array of the memory is gone, an event in each of
these streams decides. This is what the generic pool does with the queues that use a buffer (Note [Which buffer may be
used again]), here without a queue that a buffer belongs to. An array of pinned memory has a :class:`PinnedMemory` at
the end of its chain of bases: views, slices and tensors of it are recognised.
Guarded by ``tests/backends/cuda/memory/test_pinned.py``.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from ....core.storage import HostMemory
from ...allocation.cached_buffers import Pool
from ...allocation.counts import MemoryStatistics, counts_of
from ..device.contexts import current_device, enter, forgetters
from ..device.driver import CudaError, cu
from ..device.streams import _capturing, relaxed
from .segments import Buffer

__all__ = ["HOST_POOL", "PinnedMemory", "allocate", "block_of", "pin", "statistics"]

_PORTABLE: Final = 1  # CU_MEMHOSTALLOC_PORTABLE: pinned for the contexts of all devices
_BYTE: Final = np.dtype(np.uint8)


class _PinnedHost:
    """The pinned memory of this process, in the shape of a Backend."""

    def current_stream(self, device: int = 0) -> None:
        """Return None: host memory belongs to no queue."""

    def allocate(self, nbytes: int, device: int = 0) -> Buffer:
        """Return new pinned memory. Raises MemoryError where the system has none."""
        with enter(current_device()), relaxed() if _capturing else contextlib.nullcontext():
            return Buffer(int(cu.cuMemHostAlloc(nbytes, _PORTABLE)), nbytes, device)

    def free(self, buffer: Buffer) -> None:
        """Return memory to the system."""
        with enter(current_device()):
            cu.cuMemFreeHost(buffer.address)


class _PinnedPool(Pool):
    """A pool that asks and records no events while a graph is captured, which would invalidate the capture."""

    def _sort(self) -> None:
        if not _capturing:
            super()._sort()


def _finish(device: int) -> None:
    """Wait for nothing: memory in use by a copy has events, which are waited for."""


_host: Final = _PinnedHost()
HOST_POOL: Final = _PinnedPool(_host, _finish)


class PinnedMemory(HostMemory):
    """The pinned memory of an array, its last base."""

    __slots__ = ("block", "end")
    pinned = True
    block: Buffer
    end: Callable[[], None]

    def __del__(self, ended: Callable[[], bool] = sys.is_finalizing) -> None:
        try:
            end = self.end
        except AttributeError:  # a view or a copy of the bytes
            return
        if not ended():
            end()


def allocate(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return a new, uninitialized C-contiguous array in pinned memory. Raises MemoryError."""
    nbytes = prod(shape) * dtype.itemsize
    counts = counts_of(_host, 0)
    block, give = HOST_POOL.take(max(1, nbytes), 0)
    counts.add(nbytes, "pinned", 0)
    memory = PinnedMemory(max(1, nbytes), _BYTE, (ctypes.c_ubyte * block.size).from_address(block.address))
    memory.block = block

    def end() -> None:
        counts.remove(nbytes, "pinned", 0)
        give(block)

    memory.end = end
    return np.ndarray(shape, dtype, memory)


def block_of(array: np.ndarray) -> Any:
    """Return what stands for the pinned memory of an array, or None if its memory is not pinned."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.__class__ is PinnedMemory and hasattr(base, "block"):
            return base.block
        base = base.base
    return None


def pin(array: np.ndarray) -> np.ndarray:
    """Return an array as a C-contiguous copy in pinned memory; the array itself if it is there already."""
    if block_of(array) is not None:
        return array
    made = allocate(array.shape, array.dtype)
    made[...] = array
    return made


def statistics() -> MemoryStatistics:
    """Return how much pinned memory tensors hold, and how much is kept for later ones."""
    return counts_of(_host, 0).snapshot()


def forget() -> None:
    """Forget what is kept, after giving it back: another driver takes the place of the present one."""
    with contextlib.suppress(CudaError):
        HOST_POOL.empty()
    HOST_POOL.__init__(_host, _finish)  # type: ignore[misc]


forgetters.append(forget)
