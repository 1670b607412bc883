"""The exchange of memory with other libraries: Note [Streams of an exchange]."""

from __future__ import annotations

from typing import Any

from ..device.contexts import context_of, enter
from ..device.driver import cu
from ..device.streams import ExternalStream, current_stream
from .device_pools import Imported
from .segments import Buffer

__all__ = ["CudaExchange"]


class CudaExchange:
    """How CUDA memory is exchanged; a :class:`~tenkey.core.exchange.device_exchange.MemoryExchange`."""

    dlpack_type = 2  # kDLCUDA
    interface = True

    def address(self, buffer: Buffer) -> int:
        """Return the address of a buffer."""
        return buffer.address

    def adopt(self, address: int, nbytes: int, device: int, keep: Any) -> Imported:
        """Return a buffer of memory that ``keep`` keeps alive."""
        context_of(device)
        return Imported(address, nbytes, device, keep)

    def device_at(self, address: int) -> int:
        """Return the index of the device on which an address lies."""
        from cuda.bindings import driver

        kind = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        with enter(0):
            return int(cu.cuPointerGetAttribute(kind, address))

    def stream(self, device: int) -> int:
        """Return the handle of the current stream."""
        return current_stream(device).handle

    def wait(self, device: int, stream: int) -> None:
        """Make the current stream wait for the work that is now in another one."""
        current_stream(device).wait_event(ExternalStream(stream, device).record_event())

    def release(self, device: int, stream: int) -> None:
        """Make another stream wait for the work that is now in the current one."""
        ExternalStream(stream, device).wait_event(current_stream(device).record_event())
