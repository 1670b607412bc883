"""Tensors in memory shared between processes: ``x.share_memory_()``.

Note [Shared memory has no name]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A segment is a file without a name (``memfd_create``, or a temporary file), whose descriptor processes pass on as
multiprocessing passes sockets. The system frees it with the last process that maps it, however these processes end, so
nothing is left behind and no cleanup is needed. In return, the sender of a tensor must be alive until it was received.
A tensor that is not shared is sent by value.
Guarded by ``tests/core/test_sharing.py::test_nothing_is_left_behind`` and ``::test_queue_both_ways``.
"""

from __future__ import annotations

import mmap
import os
import weakref
from typing import Any, Final, Self

import numpy as np

from ..device import CPU
from ..storage import Storage
from ..tensor import Tensor, add_methods, cpu_word, make_tensor, storage_of, with_class
from ..word import REQUIRES_GRAD
from .pickling import refuse_non_leaf

__all__ = ["is_shared", "share_memory_"]


class _Segment(mmap.mmap):
    """Memory shared between processes, with the file descriptor by which others map it."""

    descriptor: int

    @classmethod
    def of(cls, descriptor: int, size: int) -> Self:
        """Return the memory of a descriptor, and take ownership of the descriptor."""
        made = cls(descriptor, size)
        made.descriptor = descriptor
        weakref.finalize(made, os.close, descriptor).atexit = False
        return made


def _allocate(size: int) -> _Segment:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tenkey")
    elif os.name == "posix":
        import tempfile

        with tempfile.TemporaryFile(prefix="tenkey-") as file:
            descriptor = os.dup(file.fileno())
    else:
        raise NotImplementedError(
            "[share_memory_] this system does not pass file descriptors between processes: send the tensor by value, "
            "without share_memory_()."
        )
    os.ftruncate(descriptor, size)
    return _Segment.of(descriptor, size)


def _segment_of(array: np.ndarray) -> _Segment | None:
    """Return the segment that holds the memory of an array, or None."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, _Segment) else None


def is_shared(self: Tensor) -> bool:
    """Return whether the memory is shared with other processes; see ``share_memory_``.

    >>> tk.zeros(2).is_shared(), tk.zeros(2).share_memory_().is_shared()
    (False, True)
    """
    return self.device is CPU and _segment_of(self._values("is_shared")) is not None


def share_memory_(self: Tensor) -> Tensor:
    """Move the values into memory that other processes can share, and return the tensor.

    Sent through a Queue, a Pipe or the arguments of a ``multiprocessing.Process``, the tensor and its views are not
    copied: all processes see what one writes. A tensor that requires a gradient arrives as a separate leaf without
    ``.grad``. The memory is freed with the last process that uses it; the sender must be alive until the tensor was
    received. Views taken before the call keep the old memory.

    Raises RuntimeError for a part of another tensor, for other devices, and on sending a tensor that was computed from
    others and requires a gradient.

    >>> x = tk.ones(3).share_memory_()
    >>> x[1:].is_shared()
    True
    """
    if self.device is not CPU:
        raise RuntimeError(
            f"[share_memory_] the tensor is on {self.device}: only tensors on the CPU can be shared with other "
            "processes."
        )
    data = self._values("share_memory_")
    _register(type(self))
    if _segment_of(data) is not None:
        return self
    storage = storage_of(self)
    if storage.nbytes > data.nbytes:
        raise RuntimeError(
            "[share_memory_] the tensor is a part of another one, which would not move: share that tensor before "
            "taking views, or share a clone()."
        )
    segment = _allocate(max(data.nbytes, 1))
    moved: np.ndarray = np.ndarray(data.shape, data.dtype, segment)
    moved[...] = data
    self._data = moved
    made = Storage(moved.base, CPU)
    made.version = storage.version
    self._storage = made
    return self


# ---- between processes

_registered: Final[set[type[Tensor]]] = set()


def _register(cls: type[Tensor]) -> None:
    """Register a class with multiprocessing, which is imported here since few programs need it."""
    if cls not in _registered:
        from multiprocessing.reduction import ForkingPickler

        ForkingPickler.register(cls, _reduce)
        _registered.add(cls)


def _reduce(tensor: Tensor) -> Any:
    array = tensor._values("pickle") if tensor.device is CPU else None
    segment = None if array is None else _segment_of(array)
    if array is None or segment is None:
        return tensor.__reduce_ex__(2)
    from multiprocessing.reduction import DupFd

    refuse_non_leaf(tensor, "pickle", "can be sent to other processes")
    offset = array.ctypes.data - np.frombuffer(segment, np.uint8).ctypes.data if array.size else 0
    layout = (array.shape, array.dtype, offset, array.strides)
    state = (type(tensor), DupFd(segment.descriptor), len(segment), layout, bool(tensor._word & REQUIRES_GRAD))
    return _rebuild, state, getattr(tensor, "__dict__", None)


def _rebuild(cls: type[Tensor], handle: Any, size: int, layout: tuple[Any, ...], requires_grad: bool) -> Tensor:
    _register(cls)
    segment = _Segment.of(handle.detach(), size)
    shape, dtype, offset, strides = layout
    made = with_class(cls, make_tensor(np.ndarray(shape, dtype, segment, offset, strides), cpu_word(dtype)))
    if requires_grad:
        made.requires_grad_()
    return made


add_methods(share_memory_=share_memory_, is_shared=is_shared)
