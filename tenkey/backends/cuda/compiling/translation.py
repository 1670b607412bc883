"""From the source of a kernel to PTX, kept on disk."""

from __future__ import annotations

from .kernel_source import KernelSource, Source
from .numba_compiler import python_to_ptx
from .nvrtc_compiler import cuda_to_ptx

__all__ = ["ptx_of"]


def ptx_of(source: Source, cc: tuple[int, int] = (9, 0)) -> str:
    """Return the PTX of a kernel for a compute capability; neither a driver nor a GPU is needed."""
    return python_to_ptx(source, cc) if isinstance(source, KernelSource) else cuda_to_ptx(source, cc)
