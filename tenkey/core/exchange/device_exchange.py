"""Exchange of memory on devices: DLPack and ``__cuda_array_interface__``, both ways.

Note [Streams of an exchange]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Memory is exchanged while work on it may be queued. In DLPack the consumer names a stream to the producer, who makes it
wait for the work so far: None and 1 are the legacy default stream of CUDA, 2 that of the thread, larger numbers
handles, -1 asks for no order, and 0 is not permitted because it could mean the first two. In version 3 of
``__cuda_array_interface__`` the producer names the stream of its work, and the consumer waits. Here both are done by
events, so that the program does not wait. When a consumer returns memory, it has ended its work or ordered it itself:
neither protocol can say so. Guarded by ``tests/backends/cuda/memory/test_exchange.py``.
"""

from __future__ import annotations

import contextlib
from math import prod
from typing import Any, Final, Protocol

import numpy as np

from ...dispatch.errors import shown
from ...dispatch.local_state import current_state
from ...dispatch.registry import registry
from ..device import Device, device_types, to_device
from ..dtypes.names import to_dtype
from ..storage import StridedArray, is_contiguous
from ..tensor import Tensor, make_tensor, word_for
from ..word import INFERENCE, REQUIRES_GRAD, tensor_dtype
from . import capsules

__all__ = ["MemoryExchange", "exchange_of", "export", "place_of", "read"]

_LOADED_FOR: Final = {2: "cuda"}  # devices whose backends are loaded when memory of their kind arrives
_VERSION: Final = 3


class MemoryExchange(Protocol):
    """What a backend offers for the exchange of its memory: ``Backend.exchange``.

    ``dlpack_type`` is the number of its memory in DLPack, ``interface`` whether objects with
    ``__cuda_array_interface__`` describe such memory.
    """

    dlpack_type: int
    interface: bool

    def address(self, buffer: Any) -> int:
        """Return the address of a buffer."""

    def adopt(self, address: int, nbytes: int, device: int, keep: Any) -> Any:
        """Return a buffer of memory that ``keep`` keeps alive."""

    def device_at(self, address: int) -> int:
        """Return the index of the device on which an address lies."""

    def stream(self, device: int) -> int:
        """Return the handle of the current stream."""

    def wait(self, device: int, stream: int) -> None:
        """Make the current stream wait for the work that is now in another one."""

    def release(self, device: int, stream: int) -> None:
        """Make another stream wait for the work that is now in the current one."""


def exchange_of(device: Device) -> MemoryExchange | None:
    """Return how a device exchanges memory, or None if it does not."""
    return getattr(device.backend, "exchange", None)


def place_of(device: Device) -> tuple[int, int] | None:
    """Return the DLPack device of a device that exchanges memory, else None."""
    exchange = exchange_of(device)
    return None if exchange is None else (exchange.dlpack_type, device.index)


def _device_for(kind: int) -> tuple[str, MemoryExchange] | None:
    """Return the device type whose memory has a number in DLPack, and its exchange."""
    if kind in capsules.IN_HOST_MEMORY:
        return None
    names = (*device_types(), *[_LOADED_FOR[kind]] * (kind in _LOADED_FOR))
    for name in names:
        with contextlib.suppress(RuntimeError, ValueError):  # a backend that is not available
            exchange = exchange_of(to_device(name))
            if exchange is not None and exchange.dlpack_type == kind:
                return name, exchange
    return None


# ---- out


def _handle(stream: Any) -> int | None:
    """Return the handle of a stream as DLPack names it, None for no order."""
    if stream is None:
        return 1
    if not isinstance(stream, int) or isinstance(stream, bool) or stream < -1 or stream == 0:
        raise ValueError(
            f"[__dlpack__] got stream={shown(stream)}: give 1 for the legacy default stream, 2 for that of the thread, "
            "the handle of a stream (an int above 2), or -1 for no order. 0 could mean the first two."
        )
    return None if stream == -1 else stream


def export(x: Tensor, stream: Any, *, versioned: bool, copied: bool = False) -> Any:
    """Return a capsule of the memory of a tensor, ordered with a stream of the consumer."""
    device = x.device
    exchange = exchange_of(device)
    assert exchange is not None
    handle = _handle(stream)
    data = x._data
    if handle is not None and handle != exchange.stream(device.index):
        exchange.release(device.index, handle)
    itemsize = data.dtype.itemsize
    return capsules.make(
        exchange.address(data.buffer) + data.offset if data.size else 0, (exchange.dlpack_type, device.index),
        data.dtype, data.shape, tuple([step // itemsize for step in data.strides]), data.owner or data,
        versioned=versioned, copied=copied,
    )  # fmt: skip


def _interface(self: Tensor) -> dict[str, Any]:
    """Describe memory on a CUDA device, in version 3 of ``__cuda_array_interface__``.

    ``stream`` names the current stream, in which the work on the tensor is queued. Raises AttributeError on other
    devices, RuntimeError for a tensor that requires a gradient (use ``detach()``).
    """
    device = self.device
    exchange = exchange_of(device)
    if exchange is None or not exchange.interface:
        raise AttributeError(
            f"a tensor on the device {str(device)!r} has no __cuda_array_interface__: only those on CUDA devices have."
        )
    if self._word & REQUIRES_GRAD & current_state().keep:
        raise RuntimeError(
            "[__cuda_array_interface__] can't export a tensor that requires a gradient, which the other library would "
            "lose: use x.detach()."
        )
    data = self._data
    stream = exchange.stream(device.index)
    return {
        "version": _VERSION,
        "shape": data.shape,
        "typestr": "<V2" if data.dtype.kind == "V" else data.dtype.str,
        "data": (exchange.address(data.buffer) + data.offset if data.size else 0, False),
        "strides": None if data.is_contiguous else data.strides,
        "stream": stream or 1,  # 0 is not permitted: it is the legacy default stream
    }


_class: Any = Tensor
_class.__cuda_array_interface__ = property(_interface)


# ---- in


def read(x: Any, function: str, copy: bool | None = None) -> Tensor | None:
    """Return a tensor that shares the memory of another library's array on a device; None for other objects.

    Memory that is exported as read-only is copied: kernels cannot be kept from writing to it. Raises BufferError for
    memory of a device that tensors cannot use, TypeError for dtypes that they do not have, and ValueError where
    ``copy=False`` forbids a copy of read-only memory.
    """
    if hasattr(x, "__dlpack_device__"):
        kind, index = x.__dlpack_device__()
        found = _device_for(int(getattr(kind, "value", kind)))
        if found is not None:
            made, read_only = _from_capsule(x, found[1], to_device(f"{found[0]}:{int(index)}"), function)
            return _own(made, copy, function) if read_only else made
    if hasattr(x, "__cuda_array_interface__"):
        found = _device_for(2)
        if found is not None and found[1].interface:
            made = _from_interface(x, *found, function)
            return _own(made, copy, function) if x.__cuda_array_interface__["data"][1] else made
    return None


def _own(shared: Tensor, copy: bool | None, function: str) -> Tensor:
    """Return a copy of read-only memory."""
    if copy is False:
        raise ValueError(
            f"[{function}] copy=False forbids a copy, but memory of a device that is exported as read-only is copied, "
            "because tensors can be changed: leave copy out."
        )
    return registry.find("tk::clone").call(shared)  # type: ignore[no-any-return]


def _from_capsule(x: Any, exchange: MemoryExchange, device: Device, function: str) -> tuple[Tensor, bool]:
    """Return a tensor of the memory in a capsule, and whether the memory is read-only."""
    stream = exchange.stream(device.index) or 1
    try:
        capsule = x.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # an exporter older than versioned capsules
        capsule = x.__dlpack__(stream=stream)
    taken = capsules.Taken(capsule)
    array = taken.array
    name = capsules.dtype_of(array)
    if name is None:
        described = array.dtype
        raise TypeError(
            f"[{function}] tensors cannot hold the dtype of DLPack with code {described.code}, {described.bits} bits "
            f"and {described.lanes} lanes: convert it before exporting it."
        )
    dtype = tensor_dtype(to_dtype(name))
    strides = taken.strides
    steps = None if strides is None else tuple([step * dtype.itemsize for step in strides])
    address = (array.data or 0) + array.byte_offset
    return _adopted(exchange, device, address, taken.shape, dtype, steps, taken, function), taken.is_read_only


def _from_interface(x: Any, name: str, exchange: MemoryExchange, function: str) -> Tensor:
    described = x.__cuda_array_interface__
    if described.get("mask") is not None:
        raise TypeError(f"[{function}] a masked array would lose its mask: fill its gaps before the exchange.")
    shape = tuple([int(n) for n in described["shape"]])
    address = int(described["data"][0])
    typestr = described["typestr"]
    dtype = tensor_dtype(to_dtype("bfloat16") if typestr == "<V2" else np.dtype(typestr))
    steps = described.get("strides")
    try:
        index = exchange.device_at(address) if address else to_device(name).index
    except RuntimeError as error:
        raise BufferError(
            f"[{function}] the address {address:#x} of the array is not in memory that the driver of {name!r} knows: "
            "its object must describe memory of a device."
        ) from error
    device = to_device(f"{name}:{index}")
    stream = described.get("stream")
    if stream is not None:
        if stream == 0:
            raise ValueError(
                f"[{function}] the stream of __cuda_array_interface__ is 0, which could be two streams: its object "
                "must say 1 for the legacy default stream, or 2 for that of the thread."
            )
        if address and int(stream) != exchange.stream(index):
            exchange.wait(index, int(stream))
    return _adopted(exchange, device, address, shape, dtype, None if steps is None else tuple(steps), x, function)


def _adopted(
    exchange: MemoryExchange, device: Device, address: int, shape: tuple[int, ...], dtype: np.dtype,
    steps: tuple[int, ...] | None, keep: Any, function: str,
) -> Tensor:  # fmt: skip
    """Return a tensor of memory at an address; ``steps`` are its strides in bytes."""
    if steps is not None and is_contiguous(shape, steps, dtype.itemsize):
        steps = None
    if steps is not None and min(steps) < 0:
        raise BufferError(
            f"[{function}] the strides {steps} are negative, which tensors do not have: make a copy before exporting "
            "it."
        )
    if min(shape, default=0) < 0 or (steps is not None and any(step % dtype.itemsize for step in steps)):
        raise BufferError(
            f"[{function}] the array has the shape {shape} and the strides {steps} in bytes, which are not those of "
            f"elements of {dtype.itemsize} bytes: make a copy before exporting it."
        )
    count = prod(shape)
    if count == 0:
        steps = None
    elif not address:
        raise BufferError(f"[{function}] the array has no memory for the shape {shape}.")
    extent = count * dtype.itemsize
    if steps is not None:
        extent = dtype.itemsize + sum([(n - 1) * step for n, step in zip(shape, steps)])
    buffer = exchange.adopt(address, extent, device.index, keep)
    data = StridedArray(buffer, shape, dtype, device, steps, 0, buffer)
    return make_tensor(data, word_for(device, dtype) | current_state().include & INFERENCE)
