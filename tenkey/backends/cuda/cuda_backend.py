"""The CUDA backend: devices and queues of the driver, and the templates as kernels of numba.cuda.

Note [The device cuda is loaded at its first use]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``import tenkey`` does not import this module. Naming the device "cuda" registers the backend; the driver is asked when
the device is used, and compilers are imported when a kernel is compiled. Where the extra, the driver or a device is
missing, the error says which, and how to get it. Guarded by ``tests/backends/cuda/test_cuda_backend.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from typing_extensions import override

from ...core.device import Device
from ...core.storage import StridedArray
from ...dispatch.kernel import Kernel
from ...dispatch.keys import DispatchKey
from ...dispatch.registry import registry
from ..external.backend_registration import register, registered
from ..external.scalar_function import Operand, ScalarFunction
from .compiling import Source
from .device import contexts, driver, launching, streams
from .kernels.arg_reduction import arg_reduction as arg_reduction_kernel
from .kernels.copying import copying
from .kernels.gather import gather as gather_kernel
from .kernels.launches import address, number
from .kernels.ordering import sort as sort_kernel
from .kernels.pointwise import pointwise as pointwise_kernel
from .kernels.products import matmul
from .kernels.reduction import reduction
from .kernels.scan import scan as scan_kernel
from .kernels.scatter import scatter as scatter_kernel
from .kernels.sweeps.sweeping import sweeping
from .libraries.library_operators import Libraries
from .libraries.site import Place
from .memory.device_memory import CudaMemory
from .user_kernels import kernel

__all__ = ["CudaBackend", "load"]


class CudaBackend(CudaMemory):
    """All CUDA devices of this machine, or those of the emulator."""

    name = "cuda"

    def __init__(self) -> None:
        place = Place(
            address, lambda device: streams.current_stream(device).handle, contexts.enter, streams.is_captured
        )
        self._libraries = Libraries(self, place)

    # ---- the devices

    is_available = staticmethod(driver.is_available)
    why_unavailable = staticmethod(driver.missing)
    device_count = staticmethod(contexts.device_count)
    current_device = staticmethod(contexts.current_device)
    synchronize = staticmethod(streams.synchronize)

    @override
    def stream(self, device: int = 0) -> streams.Stream:
        """Return a new queue of a device."""
        return streams.Stream(device)

    @override
    def current_stream(self, device: int = 0) -> streams.Stream:
        """Return the queue that this thread or task currently uses on a device."""
        return streams.current_stream(device)

    @override
    def event(self, device: int = 0) -> streams.Event:
        """Return a new event that measures times."""
        return streams.Event(device, enable_timing=True)

    # ---- what the host functions of kernels use

    def launch(self, source: Source, grid: Any, block: Any, *arguments: Any) -> None:
        """Launch a kernel in the current stream of the device of the first window among the arguments.

        A window stands for the address of its first element.
        """
        device: int | None = None
        given = []
        for value in arguments:
            if value.__class__ is StridedArray:
                if device is None:
                    device = value.device.index
                given.append(value.buffer.address + value.offset)
            elif isinstance(value, np.generic):
                given += number(value)
            else:
                given.append(value)
        index = contexts.current_device() if device is None else device
        launching.kernel(source, index)(grid, block, *given, stream=streams.current_stream(index))

    def scratch(self, shape: tuple[int, ...], dtype: np.dtype, device: Device) -> StridedArray:
        """Return an uninitialized window, for what one kernel leaves to the next."""
        made: StridedArray = self.empty(shape, dtype, device)._data
        return made

    @override
    def setup(self) -> None:
        """Register the operators that run by CUDA's libraries."""
        self._libraries.setup(lambda name, kernel: registry.impl(name, Kernel(kernel, DispatchKey.CUDA)))

    user_kernel = staticmethod(kernel)
    """Return what runs a kernel that a user registered as source (Note [Kernels given as source])."""

    # ---- templates

    pointwise = staticmethod(pointwise_kernel)
    copy = staticmethod(copying)
    arg_reduction = arg_reduction_kernel  # it and those below get the backend first, as methods do
    gather = gather_kernel
    rows = sweeping
    scan = scan_kernel
    scatter = scatter_kernel
    sort = sort_kernel

    @override
    def reduction(
        self, combine: ScalarFunction, scalar: ScalarFunction, operand: np.dtype, identity: Any
    ) -> Callable[[StridedArray, StridedArray], None]:
        """Return the kernel of a reduction along rows."""
        return reduction(combine, scalar, operand, self.scratch)

    @override
    def matmul(
        self, dtype: np.dtype, epilogue: ScalarFunction | None, operands: tuple[Operand, ...], result: np.dtype
    ) -> Callable[..., None] | None:
        """Return the kernel of matrix products; large ones without a function of each sum are the library's."""
        own = matmul(self, dtype, epilogue, operands, result)
        return own if own is None or epilogue is not None else self._libraries.product(dtype, own)


def load() -> bool:
    """Register the backend if it is not registered yet."""
    with registry.lock:
        if "cuda" not in registered:
            register(CudaBackend())
    return True
