"""The stand-in for ``nvmath.bindings.cublas``.

The rules are those of the cuBLAS documentation, https://docs.nvidia.com/cuda/cublas/, in the sections of
``cublas<t>getrfBatched``, ``cublas<t>getrsBatched`` and ``cublas<t>geqrfBatched``. Wrong arguments, which cuBLAS
reports in host memory as a negative number, raise here.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .factorizations import eliminate, reflections, solve_factorized
from .library_checks import Call, host_array
from .library_handles import LinearAlgebraStandIn

__all__ = ["CheckedCublas"]

_OPERATIONS: Final = "NTC"


class CheckedCublas(LinearAlgebraStandIn):
    """cuBLAS's routines for stacks of matrices, with the parameters of ``nvmath.bindings``."""

    def __init__(self, surroundings: Any) -> None:
        super().__init__("cuBLAS", surroundings)
        self._add("getrf_batched", self._getrf)
        self._add("getrs_batched", self._getrs)
        self._add("geqrf_batched", self._geqrf)

    def _begin(self, function: str, handle: int, batch_size: int, **sizes: int) -> tuple[Call, int]:
        call = self._call(function)
        stream = self._stream(call, handle)
        call.integers32(batch_size=batch_size, **sizes)
        call.least("batch_size", batch_size, 0)
        for name, size in sizes.items():
            call.least(name, size, 0)
        return call, stream

    def _getrf(
        self, dtype: np.dtype, handle: int, n: int, a: int, lda: int, p: int, info: int, batch_size: int
    ) -> None:
        call, stream = self._begin("getrf_batched", handle, batch_size, n=n, lda=lda)
        matrices = call.pointed("a", a, batch_size, n, n, lda, dtype)
        pivots = call.array("p", p, (batch_size, n), np.int32, (n, 1))
        status = call.array("info", info, (batch_size,), np.int32)

        def work() -> None:
            for i, matrix in enumerate(matrices()):
                pivots.values()[i], status.values()[i] = eliminate(matrix.values())

        call.enqueue(stream, work)

    def _getrs(
        self, dtype: np.dtype, handle: int, trans: int, n: int, nrhs: int, aarray: int, lda: int, dev_ipiv: int,
        barray: int, ldb: int, info: int, batch_size: int,
    ) -> None:  # fmt: skip
        call, stream = self._begin("getrs_batched", handle, batch_size, n=n, nrhs=nrhs, lda=lda, ldb=ldb)
        call.member("trans", trans, (0, 1, 2))
        matrices = call.pointed("aarray", aarray, batch_size, n, n, lda, dtype)
        right = call.pointed("barray", barray, batch_size, n, nrhs, ldb, dtype)
        pivots = call.array("dev_ipiv", dev_ipiv, (batch_size, n), np.int32, (n, 1))
        host_array(info, 1, np.int32)[...] = 0

        def work() -> None:
            given = pivots.values()
            call.require(bool(((given >= 1) & (given <= n)).all()), f"a pivot is not a row from 1 to {n}.")
            for i, (matrix, b) in enumerate(zip(matrices(), right(), strict=True)):
                solve_factorized(matrix.values(), given[i], b.values(), _OPERATIONS[trans])

        call.enqueue(stream, work)

    def _geqrf(
        self, dtype: np.dtype, handle: int, m: int, n: int, aarray: int, lda: int, tau_array: int, info: int,
        batch_size: int,
    ) -> None:  # fmt: skip
        call, stream = self._begin("geqrf_batched", handle, batch_size, m=m, n=n, lda=lda)
        matrices = call.pointed("aarray", aarray, batch_size, m, n, lda, dtype)
        factors = call.pointed("tau_array", tau_array, batch_size, min(m, n), 1, max(1, min(m, n)), dtype)
        host_array(info, 1, np.int32)[...] = 0

        def work() -> None:
            for matrix, tau in zip(matrices(), factors(), strict=True):
                reflections(matrix.values(), tau.values()[:, 0])

        call.enqueue(stream, work)
