"""Host functions of templates on the executor: windows in host memory, and launches in one order of threads."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np

from tenkey.backends.cuda.compiling import KernelSource, ptx_of
from tenkey.core.device import to_device
from tenkey.core.storage import StridedArray, contiguous_strides
from tenkey.testing.ptx import Kernel, Module

__all__ = ["Bench", "kept"]

_DEVICE = to_device("cpu")


@functools.cache
def _kernel(source: KernelSource) -> Kernel:
    return Module(ptx_of(source), races=True).kernel(source.name)


@functools.cache
def kept(template: Any, *given: Any) -> Any:
    """Return the host function of a template on a bench that is the same in each call: its kernels are made once."""
    bench = Bench()
    return bench, template(bench, *given)


class Bench:
    """What the host function of a template uses of the backend. ``order`` is that of the threads of a block."""

    def __init__(self, order: str = "up") -> None:
        self.order = order
        self.launches: list[str] = []

    def put(self, values: Any, steps: tuple[int, ...] | None = None, first: int = 0) -> StridedArray:
        """Return a window with these values: ``steps`` are its strides in elements, ``first`` those before it."""
        array = np.asarray(values)
        dtype, size = array.dtype, array.dtype.itemsize
        strides = contiguous_strides(array.shape, size) if steps is None else tuple([step * size for step in steps])
        nbytes = first * size + sum([(n - 1) * step for n, step in zip(array.shape, strides)]) + size
        window = StridedArray(_memory(max(nbytes, 1)), array.shape, dtype, _DEVICE, strides, first * size)
        self.get(window)[...] = array
        return window

    def get(self, window: StridedArray) -> np.ndarray:
        """Return the elements of a window, in its memory."""
        return np.ndarray(window.shape, window.dtype, window.buffer.data, window.offset, window.strides)

    def scratch(self, shape: tuple[int, ...], dtype: np.dtype, device: Any) -> StridedArray:
        """Return an uninitialized window."""
        return StridedArray(_memory(prod(shape) * dtype.itemsize), shape, dtype, device)

    def launch(self, source: KernelSource, grid: int, block: int, *arguments: Any) -> None:
        """Execute a kernel; it may access the memory of a window from its first element to the end of its buffer."""
        self.launches.append(source.name)
        given = [x.buffer[x.offset :] if x.__class__ is StridedArray else x for x in arguments]
        _kernel(source).launch(grid, block, given, shared=source.shared, order=self.order, seed=7)


class _Memory(np.ndarray):
    """Bytes with the attribute of a device buffer by which host functions find alignments."""

    @property
    def address(self) -> int:
        return int(self.ctypes.data)


def _memory(nbytes: int) -> np.ndarray:
    """Return bytes 0xA5 that begin at a multiple of 256."""
    whole = np.full(nbytes + 256, 0xA5, np.uint8)
    start = -whole.ctypes.data % 256
    return whole[start : start + nbytes].view(_Memory)
