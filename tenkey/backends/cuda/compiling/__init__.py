"""From the source of a kernel to machine code: compilers, their cache, and figures of the results."""

from .figures import Figures, figures_of
from .kernel_source import CudaSource, KernelSource, Source
from .linking import Cubin
from .translation import cubin_of, ptx_of

__all__ = ["Cubin", "CudaSource", "Figures", "KernelSource", "Source", "cubin_of", "figures_of", "ptx_of"]
