"""The interface of a backend: four methods are a must, everything else has a default.

Note [What a new backend gets]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A backend that implements ``allocate``, ``free``, ``copy_from_host`` and ``copy_to_host`` alone works with every
operator: composites run as they are, views are windows on its buffers, copies go through its two copy methods, and any
operator without a kernel runs on the CPU: the arguments are copied over, the result is copied back, and the call is
counted (``tk.backends.coverage(name)``). A *template* takes whole families out of the fallback: ``pointwise`` every
operator that is one scalar expression, derivatives and in-place variants with it, and all copies on the device;
``reduction`` every reduction. A kernel that is registered for the device comes before all of these. Guarded by
``tests/backends/test_external_backend.py`` and ``tests/backends/test_backend_templates.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.device import Device, to_device
from ...core.storage import StridedArray
from ...core.tensor import Tensor, make_tensor, word_for
from .buffers import MemoryStatistics, Owner, statistics_of
from .streams import Event, Stream

if TYPE_CHECKING:
    from .templates import Operand, ScalarFunction

__all__ = ["MINIMAL", "Backend", "read", "write"]


MINIMAL = ("allocate", "free", "copy_from_host", "copy_to_host")


class Backend:
    """What an outside package implements: device memory and copies. ``name`` becomes the device string.

    A *buffer* is whatever ``allocate`` returns; nothing else looks into it. Host arrays are 1-d ``uint8`` arrays.
    ``docs/adding_a_backend.md`` goes from an empty file to a backend that passes the conformance suite.

    >>> import tenkey as tk
    >>> class InHostMemory(tk.backends.Backend):
    ...     name = "docsmem"
    ...
    ...     def allocate(self, nbytes, device=0):
    ...         return bytearray(nbytes)
    ...
    ...     def free(self, buffer):
    ...         buffer.clear()
    ...
    ...     def copy_from_host(self, buffer, array):
    ...         buffer[: array.size] = array.tobytes()
    ...
    ...     def copy_to_host(self, buffer, array):
    ...         array[:] = memoryview(buffer)[: array.size]
    >>> with tk.backends.register(InHostMemory()):
    ...     x = tk.ones(3, device="docsmem")
    ...     (x + x).tolist(), tk.backends.coverage("docsmem").fallback["tk::add"]
    ([2.0, 2.0, 2.0], 1)
    """

    name: str = ""

    # ---- the device

    def is_available(self) -> bool:
        """Whether the device can be used on this machine. Asked when the device is used for the first time."""
        return True

    def device_count(self) -> int:
        """How many devices there are."""
        return 1

    def current_device(self) -> int:
        """The index of the device that is used where none is named."""
        return 0

    def synchronize(self, device: int = 0) -> None:
        """Wait until all work on the device is done. Called before every ``copy_to_host``."""

    # ---- the four methods that every backend implements

    def allocate(self, nbytes: int, device: int = 0) -> Any:
        """A new buffer of at least ``nbytes`` bytes, one at the least."""
        raise NotImplementedError

    def free(self, buffer: Any) -> None:
        """Give a buffer back: no tensor looks at it any more. Work on it may still be under way."""
        raise NotImplementedError

    def copy_from_host(self, buffer: Any, array: np.ndarray) -> None:
        """Copy all of ``array`` to the beginning of the buffer, which may be longer. The array is reused afterwards."""
        raise NotImplementedError

    def copy_to_host(self, buffer: Any, array: np.ndarray) -> None:
        """Fill ``array`` from the beginning of the buffer, which may be longer."""
        raise NotImplementedError

    # ---- optional: templates

    def pointwise(
        self, scalar: ScalarFunction, operands: tuple[Operand, ...], result: np.dtype
    ) -> Callable[..., None] | None:
        """A kernel ``kernel(out, *operands)`` for a scalar function, or None: then the call falls back to the CPU.

        Called once for each function and combination of dtypes; the kernel many times. ``out`` and the operands are
        windows (:class:`StridedArray`) of one shape, with at least one dimension and one element; an operand that is
        broadcast has strides of 0 bytes. An operand with ``is_number`` is a NumPy scalar of its dtype instead.
        ``out`` has the dtype ``result`` and shares no memory with an operand unless it is the same window.
        ``scalar.to_c(...)`` is the function as source. NotImplementedError means None too.
        """
        return None

    def reduction(
        self, combine: ScalarFunction, scalar: ScalarFunction, operand: np.dtype, identity: Any
    ) -> Callable[[StridedArray, StridedArray], None] | None:
        """A kernel ``kernel(out, x)`` for a reduction, or None: then the call falls back to the CPU.

        ``x`` has the two dimensions (kept, reduced), neither of them 0; ``out`` is contiguous, shape (kept,), with the
        dtype ``combine.dtype``. Every element of ``x``, which has the dtype ``operand``, goes through ``scalar`` (often
        the identity: a conversion), and those of a row are joined by ``combine``, which is associative and
        commutative. ``identity`` is its neutral element, or None.
        """
        return None

    def setup(self) -> None:
        """Called once the device string exists: the place to register kernels with ``tk.library.register_kernel``.

        They end with the backend.
        """

    # ---- optional: streams, events, statistics

    def stream(self, device: int = 0) -> Stream:
        """A queue of the device. By default there is one."""
        return Stream(self, device)

    def current_stream(self, device: int = 0) -> Stream | None:
        """The queue into which this thread puts its work now, or None: there is but one.

        A backward node runs with its forward call's stream entered (``with stream:``), which makes it current.
        """
        return None

    def record_stream(self, buffer: Any, stream: Stream) -> None:
        """Note that a buffer is in use by the work in a queue, other than the one it was allocated for.

        It may be given to somebody else only when the work that is in that queue now is done.
        """

    def event(self, device: int = 0) -> Event:
        """A new event of the device."""
        return Event(self, device)

    def memory_stats(self, device: int = 0) -> MemoryStatistics:
        """What tensors hold on the device; a backend with a pool of its own may know more."""
        return statistics_of(self).get(device, MemoryStatistics())

    # ---- what the methods above give, for authors of kernels

    def empty(self, shape: tuple[int, ...], dtype: Any, device: Device | str | None = None) -> Tensor:
        """A new tensor on the device, with whatever its memory held. For kernels' results."""
        target = to_device(device or self.name)
        wanted = np.dtype(dtype)
        size = wanted.itemsize
        for n in shape:
            size *= n
        nbytes = max(1, size)
        buffer = self.allocate(nbytes, target.index)
        if buffer is None:
            raise TypeError(
                f"[{self.name}] allocate({nbytes}, {target.index}) returned None: it returns a buffer, any object "
                "that the copy methods understand, or raises MemoryError."
            )
        owner = Owner(self, buffer, nbytes, target.index)
        data = StridedArray(owner._buffer, tuple(shape), wanted, target, owner=owner)
        return make_tensor(data, word_for(target, wanted))

    def from_host(self, array: np.ndarray, device: Device | str | None = None) -> Tensor:
        """A tensor on the device with the values of a NumPy array."""
        made = self.empty(array.shape, array.dtype, device)
        write(made._data, array)
        return made

    def to_host(self, tensor: Tensor) -> np.ndarray:
        """The values of a tensor on the device as a new NumPy array."""
        return read(tensor._data)


def extent(data: StridedArray) -> int:
    """The byte behind the last element of a window that is not empty."""
    last = sum([(n - 1) * step for n, step in zip(data.shape, data.strides)])
    return int(data.offset + last + data.dtype.itemsize)


def memory_of(data: StridedArray) -> Backend:
    """The backend that a window's buffer is of; RuntimeError if another one has its name by now."""
    backend: Backend = data.device.backend
    if getattr(data.owner, "_backend", backend) is not backend:
        raise RuntimeError(
            f"[{backend.name}] the memory of a tensor is of another backend that had the name {backend.name!r} and "
            "was removed: make the tensor anew. Tensors outlive a removal only where the same instance is registered "
            "again."
        )
    return backend


def read(data: StridedArray) -> np.ndarray:
    """The elements of a window as a new array; only the beginning of the buffer, up to the last of them, is copied."""
    if not data.size:  # its window may lie behind the end of the buffer
        return np.empty(data.shape, data.dtype)
    backend = memory_of(data)
    backend.synchronize(data.device.index)
    host = np.empty(extent(data), np.uint8)
    backend.copy_to_host(data.buffer, host)
    if data.offset == 0 and data.is_contiguous:
        return host.view(data.dtype).reshape(data.shape)
    window: np.ndarray = np.ndarray(data.shape, data.dtype, host.data, data.offset, data.strides)
    return np.array(window)


def write(data: StridedArray, values: np.ndarray) -> None:
    """Write an array of the window's shape into it; what lies between its elements is read and written back."""
    if not data.size:
        return
    backend = memory_of(data)
    if data.is_contiguous and data.offset == 0:
        flat = np.ascontiguousarray(values, data.dtype).reshape(-1).view(np.uint8)
        backend.copy_from_host(data.buffer, flat)
        return
    backend.synchronize(data.device.index)
    host = np.empty(extent(data), np.uint8)
    backend.copy_to_host(data.buffer, host)
    np.ndarray(data.shape, data.dtype, host.data, data.offset, data.strides)[...] = values
    backend.copy_from_host(data.buffer, host)
