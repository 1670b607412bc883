"""Storage, which views share, and strided arrays for backends whose memory is a plain buffer.

Note [Views share a version counter]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A storage is created at its first use: when a tensor is changed in place, or its storage is requested. A view refers to
the tensor at the root of its chain of views, whose storage it shares and which autograd needs (Note [Views and
in-place]); a root without storage was never changed and has version 0. So results and views cost nothing extra, and a
change through one of them is visible in all. A result of ``detach()`` refers to the storage alone: it is its own root
and keeps no graph alive. Guarded by ``tests/tiny/test_tensor.py::test_views_share_a_version``.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .device import Device

__all__ = ["HostMemory", "Storage", "StridedArray", "contiguous_strides", "is_contiguous", "memory_order"]


class HostMemory(np.ndarray):
    """The memory of one array, its ``base``: no other array lies in it. ``pinned``: devices copy it by themselves."""

    __slots__ = ()
    pinned = False


class Storage:
    """The memory of a tensor and its views: ``buffer`` (the object that owns it), ``device`` and ``version``."""

    __slots__ = ("__weakref__", "buffer", "device", "version")

    def __init__(self, buffer: Any, device: Device) -> None:
        self.buffer = buffer
        self.device = device
        self.version = 0

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(getattr(self.buffer, "nbytes", 0) or 0)

    @property
    def data_pointer(self) -> int | None:
        """Address of the first byte if the buffer has one (in host memory, and on devices of CUDA), else None."""
        if isinstance(self.buffer, np.ndarray):
            return int(self.buffer.ctypes.data)
        address = getattr(self.buffer, "address", None)
        return address if isinstance(address, int) else None

    def __repr__(self) -> str:
        return f"Storage(nbytes={self.nbytes}, device={str(self.device)!r}, version={self.version})"


def contiguous_strides(shape: tuple[int, ...], itemsize: int = 1) -> tuple[int, ...]:
    """Return row-major strides in elements (in bytes with ``itemsize``).

    >>> contiguous_strides((2, 3))
    (3, 1)
    """
    if len(shape) < 2:
        return (itemsize,) if shape else ()
    strides: list[int] = []
    step = itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Return whether the elements lie in row-major order without gaps."""
    expected = itemsize
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size == 0:
            return True
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


class StridedArray:
    """A strided window on a backend's buffer: the data of a tensor on a device other than the CPU.

    ``buffer`` is what the backend's ``allocate`` returned, None on the meta device. ``strides`` and ``offset`` (of the
    first element) are in bytes. ``owner`` keeps the buffer alive.

    >>> x = tk.zeros((2, 3), device="meta")
    >>> type(x.array).__name__, x.array.strides
    ('StridedArray', (12, 4))
    """

    __slots__ = ("buffer", "device", "dtype", "offset", "owner", "shape", "strides")

    def __init__(
        self, buffer: Any, shape: tuple[int, ...], dtype: np.dtype, device: Device,
        strides: tuple[int, ...] | None = None, offset: int = 0, owner: Any = None,
    ) -> None:  # fmt: skip
        self.buffer = buffer
        self.owner = owner
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.strides = contiguous_strides(shape, dtype.itemsize) if strides is None else strides
        self.offset = offset

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        return is_contiguous(self.shape, self.strides, self.dtype.itemsize)

    def window(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> StridedArray:
        """Return another window on the same buffer; ``strides`` and ``offset`` are in bytes."""
        return StridedArray(self.buffer, shape, self.dtype, self.device, strides, offset, self.owner)


@lru_cache(maxsize=1024)
def memory_order(strides: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes, those of the largest strides first, and the permutation that undoes this order.

    An axis of stride 0 is compared with no other: it stays where it is, as in NumPy's iterators.

    >>> memory_order((8, 400, 80))
    ((1, 2, 0), (2, 0, 1))
    >>> memory_order((0, 8, 400))
    ((0, 2, 1), (0, 2, 1))
    """
    order: list[int] = []
    for axis in range(len(strides) - 1, -1, -1):  # by insertion: the order is partial
        place = 0
        for k, other in enumerate(order):
            if strides[axis] and strides[other]:
                if abs(strides[axis]) >= abs(strides[other]):
                    break
                place = k + 1
        order.insert(place, axis)
    return tuple(order), tuple(sorted(range(len(order)), key=order.__getitem__))
