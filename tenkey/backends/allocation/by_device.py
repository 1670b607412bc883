"""Statistics, limits and the emptying of caches by device: ``tk.backends.memory_statistics`` and its companions."""

from __future__ import annotations

import operator
from typing import Any

from ...core.device import Device, to_device
from .counts import MemoryStatistics, counts_of
from .host import HOST

__all__ = ["empty_cache", "memory_statistics", "set_memory_limit"]


def _memory(name: str, device: Device | str) -> tuple[Any, int]:
    """Return what has the memory of a device, and the index of the device there."""
    found = to_device(device)
    if found.type == "cpu":
        return HOST, 0
    if found.backend is None:
        raise ValueError(f"[{name}] the device {str(found)!r} has no memory: ask for 'cpu' or the device of a backend.")
    return found.backend, found.index


def memory_statistics(device: Device | str = "cpu") -> MemoryStatistics:
    """Return what tensors hold on a device, what is kept for later tensors, and which operators allocated it.

    On the CPU, results of 1 MiB and more are counted whose kernels allocate them through the package's allocator: all
    that the package computes by loops of its own or by a NumPy ufunc into a given array (pointwise operators, products,
    random numbers), and ``empty`` and ``ones``. Memory that NumPy allocates itself is not counted: arrays of the
    program and ``tk.asarray`` of them, ``zeros``, whose pages do not exist until they are written to, and results and
    intermediate values of kernels that call NumPy functions (``fft``, ``linalg``). Memory is counted once, until its
    last view is gone. ``tk.autograd.profile(profile_memory=True)`` attributes the memory of every tensor. On other
    devices every tensor is counted.

    >>> before = tk.backends.memory_statistics("cpu").allocated_bytes
    >>> x = tk.ones((1024, 1024)) + 1
    >>> tk.backends.memory_statistics("cpu").allocated_bytes - before
    4194304
    >>> tk.backends.memory_statistics("cpu").by_operator["tk::add"].peak_bytes >= 4194304
    True
    """
    memory, index = _memory("memory_statistics", device)
    found: MemoryStatistics = memory.memory_stats(index)
    named = counts_of(memory, index).snapshot(by_operator=True)
    return found._replace(by_operator=named.by_operator)


def empty_cache(device: Device | str = "cpu") -> None:
    """Free the memory that a device keeps for later tensors and no tensor uses.

    >>> tk.backends.empty_cache("cpu")
    >>> tk.backends.memory_statistics("cpu").cached_bytes
    0
    """
    memory, index = _memory("empty_cache", device)
    memory.empty_cache(index)


def set_memory_limit(
    device: Device | str = "cpu", nbytes: int | None = None, *, cached: int | None = None
) -> tuple[int | None, int | None]:
    """Limit the memory of a device, and return the limits that were set before; None means unlimited.

    ``nbytes`` is the most that tensors and the cache may hold together, counted as in :func:`memory_statistics`. An
    operator that needs more empties the cache, then raises MemoryError. ``cached`` is the most that is kept for later
    tensors: at first a quarter of the machine's memory on the CPU, unlimited on the devices of ``caching`` backends.
    Both are set; give those that were returned to restore them.

    Raises ValueError for negative numbers.

    >>> before = tk.backends.set_memory_limit("cpu", 2**30, cached=0)
    >>> tk.backends.set_memory_limit("cpu", before[0], cached=before[1])
    (1073741824, 0)
    """
    memory, index = _memory("set_memory_limit", device)
    limits = [None if given is None else operator.index(given) for given in (nbytes, cached)]
    for given in limits:
        if given is not None and given < 0:
            raise ValueError(f"[set_memory_limit] a limit must be at least 0 bytes, got {given}.")
    counts = counts_of(memory, index)
    before = counts.limit, counts.most_cached
    counts.limit, counts.most_cached = limits
    if counts.most_cached is not None and counts.cached > counts.most_cached:
        memory.empty_cache(index)
    return before
