"""The reference device with CUDA's libraries: host memory, templates in NumPy, and the checked stand-ins."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import tenkey as tk
from tenkey.backends.cuda.libraries.library_operators import Libraries
from tenkey.backends.cuda.libraries.site import Place
from tenkey.testing.cuda_libraries import installed, stand_ins
from tests._reference_device import Reference

__all__ = ["STREAM", "HostAllocations", "LibraryDevice", "device"]

STREAM = 0x57EA


class HostAllocations:
    """The buffers of a device in host memory by address."""

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}

    def available(self, address: int) -> int:
        for start, memory in self.known.items():
            if start <= address < start + memory.size:
                return start + memory.size - address
        return 0


class LibraryDevice(Reference):
    """A device on which linear algebra, Fourier transforms and large products run by CUDA's libraries."""

    name = "libraries"

    def __init__(self) -> None:
        super().__init__()
        self.allocations = HostAllocations()
        place = Place(
            lambda data: int(data.buffer.memory.ctypes.data) + data.offset,
            lambda device: STREAM,
            lambda device: contextlib.nullcontext(),
        )
        self.libraries = Libraries(self, place)

    def setup(self) -> None:
        self.libraries.setup(lambda name, kernel: tk.library.register_kernel(name, self.name, kernel))

    def allocate(self, nbytes: int, device: int = 0) -> Any:
        buffer = super().allocate(nbytes + 256, device)
        start = -buffer.memory.ctypes.data % 256  # as a driver does
        buffer.memory = buffer.memory[start : start + nbytes]
        self.allocations.known[buffer.memory.ctypes.data] = buffer.memory
        return buffer

    def free(self, buffer: Any) -> None:
        super().free(buffer)
        del self.allocations.known[buffer.memory.ctypes.data]
        buffer.memory[...] = 0xFB

    def matmul(self, dtype: np.dtype, epilogue: Any, operands: Any, result: np.dtype) -> Any:
        own = super().matmul(dtype, epilogue, operands, result)
        return own if epilogue is not None else self.libraries.product(dtype, own)


@contextlib.contextmanager
def device(kind: type[LibraryDevice] = LibraryDevice) -> Iterator[LibraryDevice]:
    """Register the device, with the stand-ins in place of the libraries."""
    backend = kind()
    with installed(stand_ins(backend.allocations)), tk.backends.register(backend):
        yield backend
