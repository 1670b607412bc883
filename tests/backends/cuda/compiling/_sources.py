"""Kernels that the tests of the compilers share."""

from __future__ import annotations

from tenkey.backends.cuda.compiling import CudaSource, KernelSource

__all__ = ["HALVE", "SCALE", "TRIPLE", "WIDE"]

SCALE = KernelSource(
    "scale",
    """
def twice(x):
    return x * float32(2)

def scale(n, out, x, y):
    i = uint32(cuda.grid(1))
    if i < n:
        out[i] = twice(x[i]) * y[i] + x[i]
""",
    ("uint32", "float32*", "float32*", "float32*"),
)
HALVE = KernelSource(
    "halve",
    "def halve(n, out, x):\n    i = uint32(cuda.grid(1))\n    if i < n:\n        out[i] = x[i] * 0.1\n",
    ("uint32", "float32*", "float32*"),
)
"""A float32 kernel that multiplies in float64 by mistake."""
TRIPLE = CudaSource(
    "triple",
    """
extern "C" __global__ void triple(unsigned n, float *out, const float *x) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * 3.1f + x[i];
}
""",
    ("uint32", "float32*", "float32*"),
)
WIDE = CudaSource(
    "wide",
    """
extern "C" __global__ void wide(unsigned n, float4 *out, const float4 *x) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i];
}
""",
    ("uint32", "float32*", "float32*"),
)
