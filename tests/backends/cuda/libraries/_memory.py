"""Device memory for calls of the stand-ins without a backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenkey.testing.cuda_libraries import stand_ins

__all__ = ["STREAM", "Memory", "codes"]

STREAM = 0x57EA
codes = {"float32": 0, "float64": 1, "complex64": 4, "complex128": 5}


class Memory:
    """Arrays that are the memory of a device, the stand-ins that work in it, and the work that they queue."""

    def __init__(self, *, deferred: bool = False) -> None:
        self.arrays: list[np.ndarray] = []
        self.queued: list[tuple[int, Any]] = []
        self.current = 0
        enqueue = (lambda stream, work: self.queued.append((stream, work))) if deferred else None
        made = stand_ins(self, device=lambda: self.current, **({"enqueue": enqueue} if enqueue else {}))
        self.solver, self.blas, self.fft, self.lt = [
            made[f"nvmath.bindings.{name}"] for name in ("cusolverDn", "cublas", "cufft", "cublasLt")
        ]

    def put(self, values: Any, dtype: Any = None) -> np.ndarray:
        """Allocate memory with values, column-major, on a boundary of 256 bytes."""
        values = np.asarray(values, dtype)
        raw = np.full(values.nbytes + 256, 0xA5, np.uint8)
        start = -raw.ctypes.data % 256
        made = np.ndarray(values.shape, values.dtype, raw[start : start + values.nbytes].data, order="F")
        made[...] = values
        self.arrays.append(made)
        return made

    def empty(self, nbytes: int) -> np.ndarray:
        return self.put(np.zeros(nbytes, np.uint8))

    def available(self, address: int) -> int:
        for x in self.arrays:
            start = x.ctypes.data
            if start <= address < start + x.nbytes:
                return start + x.nbytes - address
        return 0

    def work(self) -> None:
        """Do what is queued."""
        queued, self.queued = self.queued, []
        for _, work in queued:
            work()

    def opened(self, library: Any) -> int:
        """A handle with a stream."""
        handle = library.create()
        library.set_stream(handle, STREAM)
        return int(handle)
