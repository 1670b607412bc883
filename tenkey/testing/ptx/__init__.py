"""Executing CUDA kernels without a GPU: PTX, translated to code for this processor, each access checked.

    module = tenkey.testing.ptx.Module(text)
    module.kernel("name").launch(grid, block, [array, 3.0])

``docs/ptx_executor.md`` says what it finds and what it cannot show. It needs llvmlite and NumPy alone.
"""

from .kernel_errors import KernelError, PtxSyntaxError, UnsupportedError
from .ptx_module import Kernel, Memory, Module

__all__ = ["Kernel", "KernelError", "Memory", "Module", "PtxSyntaxError", "UnsupportedError"]
