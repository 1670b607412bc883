"""Copies of bytes between host and device, on a device, and between devices.

Note [Copies from pageable memory]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The driver may read ordinary host memory after ``cuMemcpyHtoDAsync`` has returned only if it has copied it first, about
which its manual leaves room. A small array is therefore copied into pinned memory here, from which the copy to the
device is queued without waiting; of a large one, whose copy takes longer than the wait costs, the end is waited for.
Pinned memory that the program holds is read in place: the call waits unless it was asked not to.
While a graph is captured, every replay reads the memory of the copy: it is copied into pinned memory that the pool of
the graph keeps, and so the graph contains the values of the capture as constants.
Guarded by ``tests/backends/cuda/memory/test_transfers.py``.

Note [Copies between devices]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A copy from one device to another runs in the current stream of the source. It begins when the target's current stream
has reached the call, since earlier work there may still use the memory, and the target's stream continues when the copy
is done: programs see the order of their calls, and memory is used in the order of the stream that it belongs to.
Guarded by ``tests/backends/cuda/memory/test_transfers.py``.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from ...._util.locks import new_lock
from ..device.contexts import context_of, enter, forgetters
from ..device.driver import cu
from ..device.streams import Stream, _capturing, current_stream, refuse_in_capture
from . import pinned
from .allocator import active_pool
from .segments import Buffer

__all__ = ["between", "fill", "from_host", "part", "to_host"]

_BYTE: Final = np.dtype(np.uint8)
_CHUNK: Final = 1 << 20
_LINE: Final = 64
_STAGED: Final = 1 << 16  # bytes up to which copying them costs less than waiting for the device


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def from_host(buffer: Buffer, array: np.ndarray, *, wait: bool = True) -> None:
    """Copy all bytes of a contiguous array to the beginning of a buffer, in the current stream of its device.

    The array may be changed when the call has returned, except pinned memory without ``wait``.
    """
    nbytes = array.nbytes
    if not nbytes:
        return
    stream = current_stream(buffer.device)
    if stream._handle in _capturing:
        _constant(buffer, array, stream)
        return
    block = pinned.block_of(array)
    if block is None and nbytes <= _STAGED:
        _staging.copy(buffer, _address(array), nbytes, stream)
        return
    with enter(buffer.device):
        cu.cuMemcpyHtoDAsync(buffer.address, _address(array), nbytes, stream._handle)
        if block is not None:
            pinned.HOST_POOL.record(block, stream)
        if wait or block is None:
            cu.cuStreamSynchronize(stream._handle)


class _Staging:
    """Pinned memory through which small arrays go: a piece for each, until a chunk is full and another one begins.

    The chunk that is full returns to the pool, which uses it again when the copies from it have ended.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._chunk: np.ndarray | None = None
        self._start = self._next = 0

    def copy(self, buffer: Buffer, source: int, nbytes: int, stream: Stream) -> None:
        """Copy bytes from an address of the host to a buffer, without waiting; the source may then change."""
        with self._lock:  # until the copy is queued, the chunk must not return to the pool
            start = self.reserve(nbytes)
            pinned.HOST_POOL.record(pinned.block_of(self._chunk), stream)  # type: ignore[arg-type]
            ctypes.memmove(start, source, nbytes)
            with enter(buffer.device):
                cu.cuMemcpyHtoDAsync(buffer.address, start, nbytes, stream._handle)

    def reserve(self, nbytes: int) -> int:
        """Return the address of a piece that no copy uses."""
        if self._chunk is None or self._next + nbytes > _CHUNK:
            self._chunk = None
            self._chunk = pinned.allocate((_CHUNK,), _BYTE)
            self._start, self._next = _address(self._chunk), 0
        start = self._next
        self._next = (start + nbytes + _LINE - 1) & -_LINE
        return self._start + start

    def forget(self) -> None:
        """Forget the chunk: another driver takes the place of the present one."""
        self._chunk = None


_staging: Final = _Staging()
forgetters.append(_staging.forget)


def _constant(buffer: Buffer, array: np.ndarray, stream: Stream) -> None:
    """Copy values into a graph that is being captured: Note [Copies from pageable memory]."""
    pool = active_pool()
    if pool is None:
        refuse_in_capture("copy_from_host", "would read memory in every replay that may have changed", stream)
    kept = pinned.allocate(array.shape, array.dtype)
    kept[...] = array
    pool.kept.append(kept)  # type: ignore[union-attr]
    with enter(buffer.device):
        cu.cuMemcpyHtoDAsync(buffer.address, _address(kept), array.nbytes, stream._handle)


def to_host(buffer: Buffer, array: np.ndarray, *, wait: bool = True) -> None:
    """Fill a contiguous array from the beginning of a buffer, behind the work in the current stream of its device.

    Without ``wait`` the array must be pinned memory, and is filled when the stream has come so far.
    """
    nbytes = array.nbytes
    if not nbytes:
        return
    stream = current_stream(buffer.device)
    refuse_in_capture("copy_to_host", "does not wait for values that are only recorded", stream)
    block = pinned.block_of(array)
    with enter(buffer.device):
        cu.cuMemcpyDtoHAsync(_address(array), buffer.address, nbytes, stream._handle)
        if block is not None:
            pinned.HOST_POOL.record(block, stream)
        if wait or block is None:
            cu.cuStreamSynchronize(stream._handle)


def between(target: Buffer, source: Buffer, nbytes: int) -> None:
    """Copy bytes from the beginning of a buffer to that of another one, on one device or on two."""
    stream = current_stream(source.device)
    if target.device == source.device:
        with enter(source.device):
            cu.cuMemcpyDtoDAsync(target.address, source.address, nbytes, stream._handle)
        return
    other = current_stream(target.device)
    stream.wait_event(other.record_event())
    with enter(source.device):
        cu.cuMemcpyPeerAsync(
            target.address, context_of(target.device), source.address, context_of(source.device), nbytes, stream._handle
        )
    other.wait_event(stream.record_event())


def fill(buffer: Buffer, value: Any, count: int) -> None:
    """Fill a buffer with an element of 1, 2 or 4 bytes, a NumPy scalar, in the current stream of its device."""
    raw = value.tobytes()
    stream = current_stream(buffer.device)._handle
    call = {1: cu.cuMemsetD8Async, 2: cu.cuMemsetD16Async, 4: cu.cuMemsetD32Async}[len(raw)]
    with enter(buffer.device):
        call(buffer.address, int.from_bytes(raw, "little"), count, stream)


def part(buffer: Buffer, offset: int) -> Buffer:
    """Return the part of a buffer that begins at an offset. Whoever uses it keeps the buffer alive."""
    if not offset:
        return buffer
    return Buffer(buffer.address + offset, buffer.size - offset, buffer.device)
