"""The part of the CUDA backend that concerns memory: buffers, copies, statistics."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from ....core.device import Device, to_device
from ....core.storage import StridedArray
from ....core.tensor import Tensor, make_tensor, word_for
from ...allocation.counts import MemoryStatistics, counts_of
from ...external.interface import Backend
from ..device.contexts import forgetters
from . import pinned, transfers
from .buffer_owners import owner_of
from .device_pools import DevicePools
from .memory_exchange import CudaExchange
from .segments import Block, Buffer

__all__ = ["POOLS", "CudaMemory"]

POOLS: Final = DevicePools()
"""The allocators of all devices of this process."""
forgetters.append(POOLS.forget)


class CudaMemory(Backend):
    """A backend whose buffers come from the allocators of CUDA devices; the class of the CUDA backend extends it."""

    asynchronous = True
    caching = True
    pools = POOLS
    exchange = CudaExchange()

    def _make_pool(self, finish: Any) -> DevicePools:
        POOLS.limit_by(partial(counts_of, self))
        return POOLS

    # ---- the four methods

    def allocate(self, nbytes: int, device: int = 0) -> Block:
        """Return a new block for the current stream of the device."""
        return POOLS.take(nbytes, device)[0]

    def free(self, buffer: Buffer) -> None:
        """Give a block back."""
        if isinstance(buffer, Block):
            POOLS.of(buffer.device).give(buffer)

    copy_from_host = staticmethod(transfers.from_host)

    def copy_to_host(self, buffer: Buffer, array: np.ndarray) -> None:
        """Fill an array from the beginning of a buffer."""
        transfers.to_host(buffer, array)

    # ---- more ways to copy

    part = staticmethod(transfers.part)
    pinned_array = staticmethod(pinned.allocate)

    def copy_between(self, target: StridedArray, source: StridedArray) -> bool:
        """Copy a window to one of the same layout without gaps, on the same device or another one."""
        if not (isinstance(target.buffer, Buffer) and isinstance(source.buffer, Buffer)):
            return False
        if source.nbytes:
            transfers.between(
                transfers.part(target.buffer, target.offset), transfers.part(source.buffer, source.offset),
                source.nbytes,
            )  # fmt: skip
        return True

    def to_host_later(self, tensor: Tensor) -> np.ndarray:
        """Return an array in pinned memory that the current stream fills with the values of a tensor without gaps."""
        data = tensor._data
        made = pinned.allocate(data.shape, data.dtype)
        if data.size:
            transfers.to_host(
                transfers.part(data.buffer, data.offset), made.reshape(-1).view(np.uint8), wait=False
            )  # fmt: skip
        return made

    def from_host_later(self, array: np.ndarray, device: Device | str | None = None) -> Tensor:
        """Return a tensor that the current stream fills from an array, which must not change until then if pinned."""
        made = self.empty(array.shape, array.dtype, device)
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        transfers.from_host(made._data.buffer, flat, wait=False)
        return made

    # ---- tensors

    def empty(self, shape: tuple[int, ...], dtype: Any, device: Device | str | None = None) -> Tensor:
        """Return an uninitialized tensor, for the result of a kernel."""
        target = device if device.__class__ is Device else to_device(device or self.name)
        wanted = np.dtype(dtype)
        nbytes = wanted.itemsize
        for size in shape:
            nbytes *= size
        index = target.index
        block = POOLS.take(nbytes or 1, index)[0]
        data = StridedArray(block, tuple(shape), wanted, target, None, 0, owner_of(block, self, POOLS.of(index)))
        return make_tensor(data, word_for(target, wanted))

    # ---- statistics

    def memory_stats(self, device: int = 0) -> MemoryStatistics:
        """Return what tensors hold: the bytes that they asked for, without the rest of their blocks."""
        found = POOLS.of(device).stats()
        reserved = found["reserved_bytes.all.current"]
        return MemoryStatistics(
            allocated_bytes=found["requested_bytes.all.current"],
            peak_bytes=found["requested_bytes.all.peak"],
            allocations=found["allocation.all.allocated"],
            frees=found["allocation.all.freed"],
            reserved_bytes=reserved,
            peak_reserved_bytes=found["reserved_bytes.all.peak"],
            cached_bytes=reserved - found["active_bytes.all.current"],
        )
