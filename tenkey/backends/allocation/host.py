"""The memory of results on the CPU: counted from 1 MiB on, and reused from 32 MB on.

Note [Memory of large results]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The C library asks the system for every block of 32 MB and more, and returns it when it is freed. The system clears each
page when it is first touched, which costs three times as much as an addition (``python -m benchmarks.memory``). Blocks
of this size are therefore mapped here, and kept in a pool when the last array of their memory is gone
(Note [What is kept]); smaller results are left to the C library, which keeps those itself.
A counted result is an array whose ``base`` is a :class:`~tenkey.core.storage.HostMemory`. Every view, ``memoryview``,
DLPack capsule and NumPy array of the tensor's memory keeps that array alive, directly or through others, and so the
memory. Nothing refers back: the memory is in no reference cycle, so that it ends with the last array, in any thread,
and then changes counters and containers whose operations are atomic. At the end of the process nothing is given back.
A child process has its own copy of what its parent kept.
Guarded by ``tests/backends/test_cpu_memory.py``.

Note [Memory that the C library keeps]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
At first, the GNU C library maps each block of 128 KiB and more for itself, and returns free memory at the end of its
heap to the system as soon as there are 128 KiB. A program that frees the graph of a step and computes the next one
then touches the same pages anew in every step: with gradients, 50 operators on 2^20 float32 took twice as long as they
do with the limits that are set here. Blocks of up to 32 MiB, the most that the library allows, come from its heap; it
keeps up to 2 GiB of free memory at its end, but no more than an eighth of the machine's. ``empty_cache`` returns that,
too. Limits that a user has set in the environment stay as they are.
Guarded by ``tests/backends/test_cpu_memory.py::test_steps_do_not_touch_new_pages``.
"""

from __future__ import annotations

import atexit
import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import prod
from typing import Any, Final, Literal

import numpy as np

from ...core.storage import HostMemory, memory_order
from .cached_buffers import Pool
from .counts import Counts, MemoryStatistics, calling_operator, counts_of

__all__ = ["ALIGNED", "COUNTED", "HOST", "REUSED", "allocate", "allocate_like", "converted", "zeroed"]

ALIGNED: Final = 1 << 16
"""Bytes from which a result begins with a cache line. ``add`` of 2^15 float32 elements takes 4.3 us, and 8.0 where its
vectors cross lines; of 2^20 elements 214 and 231 us."""
COUNTED: Final = 1 << 20  # bytes from which a result is counted
REUSED: Final = 32_000_000  # bytes from which its memory is reused
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of ``mallopt``
_TUNED: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")  # in the environment
_LINE: Final = 64
_ADDRESS: Final = 16  # bytes of the head of an object
_field: Final = ctypes.c_size_t.from_address
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
        """Unmap the blocks that no tensor uses, and let the C library return its free memory."""
        self.pool.empty()
        _c_library("malloc_trim", 0)


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
_add: Final = _counts.add
_hold: Final = _counts.hold
_take: Final = HOST.pool.take


def _has_fields() -> bool:
    """Tell whether the address of the elements follows the head of an array, as in every release of NumPy."""
    if sys.implementation.name != "cpython" or object.__basicsize__ != _ADDRESS:
        return False
    probe = np.empty(2, np.uint8)[1:]
    return bool(_field(id(probe) + _ADDRESS).value == probe.__array_interface__["data"][0])


_FIELDS: Final = _has_fields()


def _c_library(name: str, *arguments: int) -> None:
    """Call a function of the GNU C library; other libraries lack it."""
    with suppress(OSError, AttributeError, TypeError):  # Windows has no handle of the process
        getattr(ctypes.CDLL(None), name)(*arguments)


if not any(name in os.environ for name in _TUNED) and "glibc.malloc" not in os.environ.get("GLIBC_TUNABLES", ""):
    _c_library("mallopt", _M_MMAP_THRESHOLD, 32 << 20)  # Note [Memory that the C library keeps]
    _c_library("mallopt", _M_TRIM_THRESHOLD, min(2047 << 20, _physical_memory() // 8))


class _Reused(HostMemory):
    """Memory that returns to the pool when the array and all views of it are gone."""

    __slots__ = ("end",)
    end: Callable[[], None]

    def __del__(self) -> None:
        try:
            end = self.end
        except AttributeError:  # a view or copy of the bytes, which a program made
            return
        end()


def allocate(shape: tuple[int, ...], dtype: np.dtype, operator: str | None = None) -> np.ndarray:
    """Return a new, uninitialized C-contiguous array for the result of a kernel.

    From ``ALIGNED`` bytes on it begins with a cache line. From ``COUNTED`` bytes on it is counted in
    ``tk.backends.memory_statistics("cpu")``, attributed to ``operator``, by default the innermost one that is being
    called; from ``REUSED`` bytes on its memory comes from the pool and returns to it. Small arrays are those of
    ``np.empty``, which kernels of small calls call directly.

    Raises MemoryError if the memory is not available or the limit (``tk.backends.set_memory_limit``) is exceeded.
    """
    nbytes = prod(shape) * dtype.itemsize
    if nbytes < ALIGNED:
        return np.empty(shape, dtype)
    memory: HostMemory
    try:
        if nbytes < COUNTED:
            memory = HostMemory(nbytes + _LINE, _BYTE)
        elif nbytes < REUSED:
            if _counts.limit is not None:
                _counts.admit(nbytes, HOST.empty_cache)
            memory = HostMemory(nbytes + _LINE, _BYTE)
            _hold(memory, nbytes, calling_operator() if operator is None else operator)
        else:
            block, give = _take(nbytes, 0)
            name = calling_operator() if operator is None else operator
            memory = reused = _Reused(nbytes, _BYTE, block)
            _add(nbytes, name, 0)
            reused.end = partial(_end, nbytes, name, partial(give, block))
    except MemoryError as error:
        if error.__class__ is MemoryError and error.args:  # the limit
            raise
        raise _missing(shape, dtype, nbytes) from None
    return _from_line(shape, dtype, memory)


def _missing(shape: tuple[int, ...], dtype: np.dtype, nbytes: int) -> MemoryError:
    """Return the error of a result for which memory is missing."""
    name = calling_operator().rpartition("::")[2]
    return MemoryError(
        f"[{name or 'tenkey'}] needs more memory than available, {nbytes:.1e} bytes for shape {shape} and dtype "
        f"{dtype}: give a smaller shape, or work in parts."
    )


def _end(nbytes: int, operator: str, give: Any, counts: Counts = _counts, ended: list[bool] = _ended) -> None:
    """Count memory as free and give it back to the pool."""
    if not ended:  # the names of the modules may be gone
        counts.remove(nbytes, operator, 0)
        give()


def _from_line(shape: tuple[int, ...], dtype: np.dtype, memory: np.ndarray) -> np.ndarray:
    # Where compiled code reads the address of an array (Note [Fields of an array]), this is 1 us faster than asking it.
    start = _field(id(memory) + _ADDRESS).value if _FIELDS else memory.__array_interface__["data"][0]
    return np.ndarray(shape, dtype, memory, -start % _LINE)


def zeroed(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return a C-contiguous array of zeros that begins with a cache line.

    The system clears the pages of a large one when they are first touched.
    """
    return _from_line(shape, dtype, np.zeros(prod(shape) * dtype.itemsize + _LINE, _BYTE))


def converted(a: np.ndarray, dtype: np.dtype, order: Literal["C", "K"] = "K") -> np.ndarray:
    """Return ``a.astype(dtype, order)``; from ``ALIGNED`` bytes on it begins with a cache line."""
    if a.size * dtype.itemsize < ALIGNED:
        return a.astype(dtype, order)
    made = allocate(a.shape, dtype) if order == "C" else allocate_like(a, dtype)
    np.copyto(made, a, "unsafe")
    return made


def allocate_like(a: np.ndarray, dtype: np.dtype, operator: str | None = None) -> np.ndarray:
    """Return memory for a result of an array's shape, whose axes are in the same order, as in NumPy."""
    if a.flags.c_contiguous or a.ndim < 2:
        return allocate(a.shape, dtype, operator)
    order, inverse = memory_order(a.strides)
    shape = a.shape
    return allocate(tuple([shape[i] for i in order]), dtype, operator).transpose(inverse)
