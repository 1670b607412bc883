"""Kernels and memory for the tests of launches, below the level of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenkey.backends.cuda.compiling import CudaSource, KernelSource
from tenkey.backends.cuda.device import contexts
from tenkey.backends.cuda.device.driver import cu
from tenkey.backends.cuda.device.streams import current_stream

__all__ = ["ADD", "NUMBERS", "OUTSIDE", "Memory"]

ADD = KernelSource(
    "add_number",
    """
def add_number(n, out, x, a):
    i = uint32(cuda.grid(1))
    if i < n:
        out[i] = x[i] + a
""",
    ("uint32", "float32*", "float32*", "float32"),
)
OUTSIDE = KernelSource(
    "outside",
    """
def outside(n, out, x):
    i = uint32(cuda.grid(1))
    out[i + n] = x[i]
""",
    ("uint32", "float32*", "float32*"),
)
NUMBERS = CudaSource(
    "numbers",
    """
extern "C" __global__ void numbers(bool a, signed char b, unsigned char c, short d, unsigned short e, int f,
                                   unsigned g, long long h, unsigned long long i, float j, double k, double *out) {
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f; out[6] = g; out[7] = (double)h;
    out[8] = (double)i; out[9] = j; out[10] = k;
  }
}
""",
    (
        "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64",
        "float64*",
    ),
)  # fmt: skip


class Memory:
    """Memory of a device with the values of an array."""

    def __init__(self, values: np.ndarray, device: int = 0) -> None:
        self.values = np.ascontiguousarray(values)
        self.device = device
        with contexts.enter(device):
            self.address = int(cu.cuMemAlloc(self.values.nbytes))
            cu.cuMemcpyHtoD(self.address, self.values.ctypes.data, self.values.nbytes)
            cu.cuCtxSynchronize()  # a copy from pageable memory may return earlier

    def read(self, stream: Any = None) -> np.ndarray:
        """Return the values after the work in a stream, by default the current one."""
        made = np.empty_like(self.values)
        (current_stream(self.device) if stream is None else stream).synchronize()
        with contexts.enter(self.device):
            cu.cuMemcpyDtoH(made.ctypes.data, self.address, made.nbytes)
        return made
