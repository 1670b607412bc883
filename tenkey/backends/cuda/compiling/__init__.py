"""From the source of a kernel to machine code: compilers, their cache, and figures of the results."""

from .kernel_source import CudaSource, KernelSource, Source
from .linking import Cubin
from .translation import cubin_of, ptx_of

__all__ = ["Cubin", "CudaSource", "KernelSource", "Source", "cubin_of", "ptx_of"]
