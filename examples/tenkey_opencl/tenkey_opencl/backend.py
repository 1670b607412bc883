"""The device: memory, copies, and the queue that executes all work in order."""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.tools

import tenkey as tk

from . import indexing, linalg, templates
from .programs import TYPES

__all__ = ["OpenCL", "backend"]


class OpenCL(tk.backends.Backend):
    """All OpenCL devices: GPUs first, else the CPU through PoCL."""

    name = "opencl"

    def __init__(self) -> None:
        self._queues: list[Any] = []
        self._pools: list[Any] = []
        self._programs = functools.cache(self._build)  # by device and source
        self.lock = threading.RLock()  # a kernel keeps its arguments until it is enqueued; threads share kernels

    @functools.cached_property
    def devices(self) -> list[Any]:
        """The available devices in the order of their indices."""
        try:
            found = [device for platform in cl.get_platforms() for device in platform.get_devices()]
        except cl.Error:  # a loader without any platform
            return []
        return sorted(found, key=lambda device: not device.type & cl.device_type.GPU)

    def is_available(self) -> bool:
        """Tell whether there is an OpenCL device."""
        return bool(self.devices)

    def device_count(self) -> int:
        """Return the number of devices."""
        return len(self.devices)

    def synchronize(self, device: int = 0) -> None:
        """Wait for the queue of a device."""
        self.queue(device).finish()

    # ---- memory: a buffer is a cl.Buffer from a pool, because allocation by the driver is slow

    def allocate(self, nbytes: int, device: int = 0) -> Any:
        """Return a buffer of the pool. Queued work may still use it, which is safe because the queue is in order."""
        self.queue(device)
        return self._pools[device].allocate(nbytes)

    def free(self, buffer: Any) -> None:
        """Return a buffer to its pool."""
        buffer.release()

    def copy_from_host(self, buffer: Any, array: np.ndarray) -> None:
        """Copy and wait, because the array is reused."""
        cl.enqueue_copy(self._queue_of(buffer), buffer, array, is_blocking=True)

    def copy_to_host(self, buffer: Any, array: np.ndarray) -> None:
        """Copy and wait, because the array is read at once."""
        cl.enqueue_copy(self._queue_of(buffer), array, buffer, is_blocking=True)

    # ---- operators

    def pointwise(self, scalar: Any, operands: Any, result: np.dtype) -> Any:
        """Compile a scalar expression to OpenCL C."""
        return templates.pointwise(self, scalar, operands, result)

    def reduction(self, combine: Any, scalar: Any, operand: np.dtype, identity: Any) -> Any:
        """Compile a reduction to OpenCL C."""
        return templates.reduction(self, combine, scalar, operand)

    def arg_reduction(self, better: Any, operand: np.dtype) -> Any:
        """Compile the search for the best element of each row."""
        return templates.arg_reduction(self, better, operand)

    def scan(self, combine: Any, dtype: np.dtype) -> Any:
        """Compile a scan along rows."""
        return templates.scan(self, combine, dtype)

    def gather(self, dtype: np.dtype) -> Any:
        """Compile the selection of elements by indices."""
        return indexing.gather(self, dtype)

    def scatter(self, mode: str, dtype: np.dtype, deterministic: bool) -> Any:
        """Compile the combination of elements at indices, which is always deterministic."""
        return indexing.scatter(self, mode, dtype)

    def sort(self, dtype: np.dtype) -> Any:
        """Compile a merge sort."""
        return indexing.sort(self, dtype)

    def matmul(self, dtype: np.dtype, epilogue: Any, operands: Any, result: np.dtype) -> Any:
        """Compile a matrix product."""
        return linalg.matmul(self, dtype, epilogue, operands, result)

    def copy(self, dtype: np.dtype) -> Any:
        """Compile a copy between layouts."""
        return templates.copy(self, dtype)

    # ---- what the kernels use

    def queue(self, device: int) -> Any:
        """Return the queue of a device, which is created at the first use."""
        if len(self._queues) <= device:
            with self.lock:
                while len(self._queues) <= device:
                    queue = cl.CommandQueue(cl.Context([self.devices[len(self._queues)]]))
                    self._pools.append(cl.tools.MemoryPool(cl.tools.ImmediateAllocator(queue)))
                    self._queues.append(queue)
        return self._queues[device]

    def _queue_of(self, buffer: Any) -> Any:
        if len(self._queues) == 1:
            return self._queues[0]
        context = buffer.get_info(cl.mem_info.CONTEXT)
        return next(queue for queue in self._queues if queue.context == context)

    def supports(self, *dtypes: np.dtype) -> bool:
        """Tell whether all devices compute in these dtypes."""
        wide = any(dtype in (np.dtype("float64"), np.dtype("complex128")) for dtype in dtypes)
        doubles = not wide or all(device.double_fp_config for device in self.devices)
        return doubles and all(str(dtype) in TYPES for dtype in dtypes)

    def has_operators(self, dtype: np.dtype) -> bool:
        """Tell whether OpenCL C itself computes in a dtype; complex and 16-bit floats only printed functions do."""
        return self.supports(dtype) and (dtype.kind in "biu" or str(dtype) in ("float32", "float64"))

    def kernel(self, device: int, source: str) -> Any:
        """Return the kernel ``run`` of an OpenCL program, which is compiled once for a device."""
        return self._programs(device, source)

    def _build(self, device: int, source: str) -> Any:
        program = cl.Program(self.queue(device).context, source).build()
        return cl.Kernel(program, "run")


def backend() -> OpenCL:
    """Return the backend; the entry point of the plug-in."""
    return OpenCL()
