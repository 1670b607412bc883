"""From the source of a kernel to machine code: compilers, their cache, and figures of the results."""

from .kernel_source import CudaSource, KernelSource, Source
from .translation import ptx_of

__all__ = ["CudaSource", "KernelSource", "Source", "ptx_of"]
