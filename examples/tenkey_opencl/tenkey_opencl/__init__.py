"""tenkey on OpenCL: ``tk.zeros(3, device="opencl")`` on any OpenCL device.

``backend`` manages buffers and copies, ``programs`` makes and launches kernels; ``templates``, ``indexing`` and
``linalg`` have the templates, from which tenkey makes all operators but those of LAPACK and FFT, which run on the CPU.
``print(tk.backends.coverage("opencl"))``.
"""

from __future__ import annotations

from .backend import OpenCL, backend

__all__ = ["OpenCL", "backend"]
