"""tenkey on OpenCL: ``tk.zeros(3, device="opencl")``, on whichever OpenCL device there is.

Buffers and copies here; kernels from scalar expressions in ``templates``; the matrix product in ``linalg``. Everything
else is derived by tenkey or runs on the CPU: ``print(tk.backends.coverage("opencl"))``.
"""

from __future__ import annotations

from .backend import OpenCL, backend

__all__ = ["OpenCL", "backend"]
