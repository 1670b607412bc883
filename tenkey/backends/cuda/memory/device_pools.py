"""The allocators of all devices, in the form in which a backend keeps buffers for later tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from ...._util.locks import new_lock
from ...allocation.counts import Counts
from ..device.driver import CudaError
from ..device.streams import _choice
from .allocator import DeviceAllocator
from .segments import Block, Buffer, Segment

__all__ = ["DevicePools", "Imported"]


class Imported(Buffer):
    """Memory of a device that another library owns; ``keep`` keeps it alive."""

    __slots__ = ("keep",)

    def __init__(self, address: int, size: int, device: int, keep: Any) -> None:
        super().__init__(address, size, device)
        self.keep = keep


class DevicePools:
    """The allocators of the devices: what :class:`~tenkey.backends.allocation.cached_buffers.Pool` is elsewhere.

    The allocator of a device is made at its first use.
    """

    def __init__(self) -> None:
        self._guard = 0
        self._counts: Callable[[int], Counts] | None = None
        self._allocators: dict[int, DeviceAllocator] = {}
        self._orphans: list[DeviceAllocator] = []  # of earlier drivers
        self._lock = new_lock()

    def of(self, device: int) -> DeviceAllocator:
        """Return the allocator of a device."""
        found = self._allocators.get(device)
        if found is None:
            with self._lock:
                found = self._allocators.get(device)
                if found is None:
                    counts = None if self._counts is None else self._counts(device)
                    found = DeviceAllocator(device, counts)
                    found.guard = self._guard
                    self._allocators[device] = found
        return found

    def limit_by(self, counts: Callable[[int], Counts]) -> None:
        """Take the limits of each device from what ``counts(device)`` returns."""
        self._counts = counts
        for allocator in self.all():
            allocator.counts = counts(allocator.device)

    def leave_between(self, nbytes: int) -> None:
        """Leave so many bytes after each tensor that is allocated from now on."""
        self._guard = nbytes
        for allocator in self.all():
            allocator.guard = nbytes

    def forget(self) -> None:
        """Forget all memory, after freeing what no tensor uses: another driver takes the place of the present one."""
        self._orphans += self.all()
        self._allocators.clear()
        for allocator in [*self._orphans]:  # tensors may outlive an emulator: their memory is freed at the next change
            with contextlib.suppress(CudaError, ValueError):
                allocator.empty()
                if not allocator.segments():
                    self._orphans.remove(allocator)

    def all(self) -> list[DeviceAllocator]:
        """Return the allocators of the devices that were used, by the index of the device."""
        return [self._allocators[device] for device in sorted(self._allocators)]

    def segments(self, device: int) -> list[Segment]:
        """Return the segments of a device as they are, without making available what was given back."""
        found = self._allocators.get(device)
        return [] if found is None else found.present_segments()

    def take(self, nbytes: int, device: int) -> tuple[Block, Callable[[Any], None]]:
        """Return a buffer of at least ``nbytes`` bytes, and the function that gives it back."""
        allocator = self._allocators.get(device) or self.of(device)
        return allocator.take(nbytes, _choice.get()[device]._handle), allocator.give

    def record(self, buffer: Buffer, stream: Any) -> None:
        """Note that another queue uses a buffer; memory that was imported is its owner's affair."""
        if isinstance(buffer, Block):
            self.of(buffer.device).record(buffer, stream if isinstance(stream, int) else stream._handle)

    def empty(self, device: int | None = None) -> None:
        """Free what no tensor uses, on one device or on all."""
        for allocator in self.all():
            if device in (None, allocator.device):
                allocator.empty()

    def close(self) -> None:
        """Free what no tensor uses: the backend is removed. What tensors hold is freed with the process."""
        self.empty()
