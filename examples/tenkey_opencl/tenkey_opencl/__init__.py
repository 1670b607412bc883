"""tenkey on OpenCL: ``tk.zeros(3, device="opencl")`` on any OpenCL device.

``backend`` manages buffers and copies, ``templates`` compiles scalar expressions, ``linalg`` has the matrix product.
tenkey derives the other operators or runs them on the CPU: ``print(tk.backends.coverage("opencl"))``.
"""

from __future__ import annotations

from .backend import OpenCL, backend

__all__ = ["OpenCL", "backend"]
