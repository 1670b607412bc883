"""Where a library call runs: device, stream, the memory that it needs, and its handles.

Note [Handles of libraries]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
A library keeps its state in a handle, which belongs to a device. Those of cuSOLVER and cuBLAS own memory that calls use
and have a stream, so there is one for each device and stream; cuFFT's plans and cuBLASLt get their memory with each
call, so these are kept by device. A handle must not be used by two threads at a time: calls hold its lock while they
are queued, which takes microseconds. Scratch memory is a tensor of the backend that is released right after the call:
what is allocated from it later on the same stream is used later too. Handles live as long as the process. None can be
made while a stream is captured: a graph takes the handle of another stream of the device, which then makes another.
Guarded by ``tests/backends/cuda/libraries/test_wrappers.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

import numpy as np

from ...._util.locks import new_lock
from ....core.device import Device
from ....core.storage import StridedArray
from ....core.tensor import Tensor
from ...external.templates import Copier
from .entry_points import Library

__all__ = ["Handle", "Handles", "Matrix", "Place", "Site"]

_ALIGNMENT: Final = 256


class Matrix(NamedTuple):
    """A matrix in device memory whose columns are contiguous: LAPACK's layout."""

    address: int
    rows: int
    columns: int
    leading: int  # elements from the beginning of a column to that of the next
    dtype: np.dtype


class Place(NamedTuple):
    """What the libraries need to know of a backend: functions of it."""

    address: Callable[[StridedArray], int]  # of the first element of a window
    stream: Callable[[int], int]  # the address of the current stream of a device
    entered: Callable[[int], AbstractContextManager[Any]]  # make a device current
    captured: Callable[[int], bool] = lambda stream: False  # whether a stream is being captured


class Handle:
    """A handle of one library, and host memory for its calls; its lock is held during a call.

    ``owner`` is the module that made it.
    """

    def __init__(self, value: int, extra: int = 0) -> None:
        self.value = value
        self.extra = extra
        self.owner: Any = None
        self.lock = new_lock()
        self._host = np.empty(0, np.uint8)

    def host(self, nbytes: int) -> int:
        """Return the address of at least ``nbytes`` bytes of host memory, 0 if none are needed."""
        if not nbytes:
            return 0
        if self._host.size < nbytes:
            self._host = np.empty(nbytes, np.uint8)
        return int(self._host.ctypes.data)


class Handles:
    """The handles of one backend by library, device and stream."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int, int], Handle] = {}
        self._lock = new_lock()

    def get(self, library: Library, site: Site, make: Callable[[Site], Handle], *, by_stream: bool = False) -> Handle:
        """Return the handle for a device, and for a stream if asked; ``make`` creates it at the first use.

        A handle of an emulator that has ended is replaced.
        """
        key = (library.name, site.device.index, site.stream if by_stream else 0)
        owner = library.functions
        found = self._found.get(key)
        if found is None or found.owner is not owner:
            with self._lock:
                found = self._found.get(key)
                if found is None or found.owner is not owner:
                    made = self._moved(library, site, owner) if by_stream else None
                    if made is None:
                        made = make(site)
                        made.owner = owner
                    found = self._found[key] = made
        return found

    def _moved(self, library: Library, site: Site, owner: Any) -> Handle | None:
        """Return a handle of another stream for one that is captured, if there is one."""
        if not site.place.captured(site.stream):
            return None
        for key, handle in self._found.items():
            of_kind = key[:2] == (library.name, site.device.index) and handle.owner is owner
            if of_kind and not site.place.captured(key[2]):
                del self._found[key]
                library(site.operator, "set_stream", handle.value, site.stream)
                return handle
        return None


class Site(NamedTuple):
    """One call of an operator: its name, the backend, the device and the stream that is current."""

    operator: str
    backend: Any
    place: Place
    device: Device
    stream: int
    handles: Handles
    copier: Copier

    def address(self, tensor: Tensor) -> int:
        """Return the address of a tensor's first element; it must not be empty."""
        return self.place.address(tensor._data)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Tensor:
        """Return a tensor without values on the device."""
        made: Tensor = self.backend.empty(shape, dtype, self.device)
        return made

    def scratch(self, nbytes: int) -> tuple[Any, int]:
        """Return memory for a call, to be kept until it is queued, and its address: 0 if none is needed."""
        if not nbytes:
            return None, 0
        memory = self.empty((nbytes + _ALIGNMENT,), np.uint8)
        address = self.address(memory)
        return memory, -(-address // _ALIGNMENT) * _ALIGNMENT

    def matrices(self, tensor: Tensor) -> list[Matrix]:
        """Return the matrices of a contiguous stack (..., N, M) as LAPACK sees them: M rows and N columns each."""
        *_, columns, rows = tensor.shape
        step = rows * columns * tensor.itemsize
        first = self.address(tensor) if tensor.size else 0
        count = tensor.size // max(1, rows * columns)
        return [Matrix(first + i * step, rows, columns, max(1, rows), tensor.dtype) for i in range(count)]
