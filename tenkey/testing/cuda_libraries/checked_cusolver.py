"""The stand-in for ``nvmath.bindings.cusolverDn``.

The rules are those of the cuSOLVER API Reference, https://docs.nvidia.com/cuda/cusolver/index.html, in the section of
each function (``cusolverDnXgetrf``, ``cusolverDnXgetrs``, ``cusolverDn<t>laswp``, ``cusolverDnXpotrf``,
``cusolverDn<t>potrfBatched``, ``cusolverDnXgeqrf``, ``cusolverDn<t>orgqr``/``ungqr``, ``cusolverDnXgesvd``,
``cusolverDn<t>gesvdjBatched``, ``cusolverDnXsyevd``, ``cusolverDnXsyevBatched``, ``cusolverDnXgeev``), and of LAPACK's
manual for what they leave open: the order of pivots, the form of reflections and of the vectors of conjugate pairs.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from .checked_spectra import Spectra
from .factorizations import cholesky, eliminate, exchange, multiplied, reflections, solve_factorized
from .library_checks import Array, Call, lettered

__all__ = ["CheckedCusolver"]

_OPERATIONS: Final = "NTC"


class CheckedCusolver(Spectra):
    """cuSOLVER for dense matrices: every function has the parameters of the one in ``nvmath.bindings``."""

    def __init__(self, surroundings: Any) -> None:
        super().__init__(surroundings)
        self._add("laswp", self._laswp)
        self._add("potrf_batched", self._potrf_batched)
        for letter, dtype in lettered("").items():
            name = f"{letter}{'ung' if dtype.kind == 'c' else 'org'}qr"
            setattr(self, name, partial(self._orgqr, dtype))
            setattr(self, f"{name}_buffer_size", partial(self._orgqr_buffer_size, dtype))

    # ---- LU

    def xgetrf_buffer_size(
        self, handle: int, params: int, m: int, n: int, data_type_a: int, a: int, lda: int, compute_type: int
    ) -> tuple[int, int]:
        """Return the sizes of the workspaces of xgetrf."""
        call, _ = self._begin("xgetrf_buffer_size", handle, params)
        dtype = self._numbers_of(call, data_type_a, compute_type)
        self._sizes(call, m=m, n=n)
        call.matrix("a", a, m, n, lda, dtype)
        return 48 + 3 * m * n * dtype.itemsize, 40 + 8 * min(m, n)

    def xgetrf(
        self, handle: int, params: int, m: int, n: int, data_type_a: int, a: int, lda: int, ipiv: int,
        compute_type: int, buffer_on_device: int, workspace_in_bytes_on_device: int, buffer_on_host: int,
        workspace_in_bytes_on_host: int, info: int,
    ) -> None:  # fmt: skip
        """Factorize with row exchanges; ``ipiv`` is int64."""
        call, stream = self._begin("xgetrf", handle, params)
        dtype = self._numbers_of(call, data_type_a, compute_type)
        self._sizes(call, m=m, n=n)
        matrix = call.matrix("a", a, m, n, lda, dtype)
        pivots = call.array("ipiv", ipiv, (min(m, n),), np.int64)
        status = call.array("info", info, (1,), np.int32)

        def work() -> None:
            pivots.values()[...], status.values()[...] = eliminate(matrix.values())

        needed = self.xgetrf_buffer_size(handle, params, m, n, data_type_a, a, lda, compute_type)
        given = (buffer_on_device, workspace_in_bytes_on_device, buffer_on_host, workspace_in_bytes_on_host)
        self._finish(call, stream, given, needed, work)

    def xgetrs(
        self, handle: int, params: int, trans: int, n: int, nrhs: int, data_type_a: int, a: int, lda: int, ipiv: int,
        data_type_b: int, b: int, ldb: int, info: int,
    ) -> None:  # fmt: skip
        """Solve for a matrix that xgetrf has factorized."""
        call, stream = self._begin("xgetrs", handle, params)
        dtype = self._numbers_of(call, data_type_a, data_type_b)
        call.member("trans", trans, (0, 1, 2))
        self._sizes(call, n=n, nrhs=nrhs)
        matrix = call.matrix("a", a, n, n, lda, dtype)
        pivots = call.array("ipiv", ipiv, (n,), np.int64)
        right = call.matrix("b", b, n, nrhs, ldb, dtype)
        status = call.array("info", info, (1,), np.int32)

        def work() -> None:
            self._check_pivots(call, pivots.values(), n)
            solve_factorized(matrix.values(), pivots.values(), right.values(), _OPERATIONS[trans])
            status.values()[...] = 0

        call.enqueue(stream, work)

    def _laswp(
        self, dtype: np.dtype, handle: int, n: int, a: int, lda: int, k1: int, k2: int, dev_ipiv: int, incx: int
    ) -> None:
        call = self._call("laswp")
        stream = self._stream(call, handle)
        call.integers32(n=n, lda=lda, k1=k1, k2=k2, incx=incx)
        self._sizes(call, n=n)
        call.require(incx == 1, f"incx is {incx}: cuSOLVER supports 1 only.")
        call.require(1 <= k1 <= k2 <= lda, f"k1, k2 and lda are {k1}, {k2} and {lda}: 1 <= k1 <= k2 <= lda must hold.")
        pivots = call.array("dev_ipiv", dev_ipiv, (k2,), np.int32)
        matrix = call.matrix("a", a, lda, n, lda, dtype)

        def work() -> None:
            self._check_pivots(call, pivots.values()[k1 - 1 :], lda)
            rows = np.concatenate([np.arange(1, k1), pivots.values()[k1 - 1 :]])
            exchange(matrix.values(), rows)

        call.enqueue(stream, work)

    # ---- Cholesky

    def xpotrf_buffer_size(
        self, handle: int, params: int, uplo: int, n: int, data_type_a: int, a: int, lda: int, compute_type: int
    ) -> tuple[int, int]:
        """Return the sizes of the workspaces of xpotrf."""
        call, _ = self._begin("xpotrf_buffer_size", handle, params)
        dtype = self._numbers_of(call, data_type_a, compute_type)
        call.member("uplo", uplo, (0, 1))
        self._sizes(call, n=n)
        call.matrix("a", a, n, n, lda, dtype)
        return 32 + 5 * n * dtype.itemsize, 24

    def xpotrf(
        self, handle: int, params: int, uplo: int, n: int, data_type_a: int, a: int, lda: int, compute_type: int,
        buffer_on_device: int, workspace_in_bytes_on_device: int, buffer_on_host: int, workspace_in_bytes_on_host: int,
        info: int,
    ) -> None:  # fmt: skip
        """Factorize a Hermitian positive definite matrix, of which one triangle is read and written."""
        call, stream = self._begin("xpotrf", handle, params)
        dtype = self._numbers_of(call, data_type_a, compute_type)
        call.member("uplo", uplo, (0, 1))
        self._sizes(call, n=n)
        matrix = call.matrix("a", a, n, n, lda, dtype)
        status = call.array("info", info, (1,), np.int32)

        def work() -> None:
            status.values()[...] = cholesky(matrix.values(), uplo == 0)

        needed = self.xpotrf_buffer_size(handle, params, uplo, n, data_type_a, a, lda, compute_type)
        given = (buffer_on_device, workspace_in_bytes_on_device, buffer_on_host, workspace_in_bytes_on_host)
        self._finish(call, stream, given, needed, work)

    def _potrf_batched(
        self, dtype: np.dtype, handle: int, uplo: int, n: int, aarray: int, lda: int, info_array: int, batch_size: int
    ) -> None:
        call = self._call("potrf_batched")
        stream = self._stream(call, handle)
        call.integers32(n=n, lda=lda, batch_size=batch_size)
        call.member("uplo", uplo, (0, 1))
        self._sizes(call, n=n)
        call.least("batch_size", batch_size, 1)
        if not isinstance(aarray, int):
            call.refuse("aarray is a sequence, which nvmath copies to host memory: pass an address in device memory.")
        matrices = call.pointed("aarray", aarray, batch_size, n, n, lda, dtype)
        status = call.array("info_array", info_array, (batch_size,), np.int32)

        def work() -> None:
            for i, matrix in enumerate(matrices()):
                values = matrix.values()
                status.values()[i] = cholesky(values, uplo == 0)
                other = np.triu(np.ones((n, n), bool), 1)  # used as a workspace
                np.copyto(values, np.nan, where=other if uplo == 0 else other.T)

        call.enqueue(stream, work)

    # ---- QR

    def xgeqrf_buffer_size(
        self, handle: int, params: int, m: int, n: int, data_type_a: int, a: int, lda: int, data_type_tau: int,
        tau: int, compute_type: int,
    ) -> tuple[int, int]:  # fmt: skip
        """Return the sizes of the workspaces of xgeqrf."""
        call, _ = self._begin("xgeqrf_buffer_size", handle, params)
        dtype = self._numbers_of(call, data_type_a, data_type_tau, compute_type)
        self._sizes(call, m=m, n=n)
        call.matrix("a", a, m, n, lda, dtype)
        call.array("tau", tau, (min(m, n),), dtype)
        return 16 + 7 * n * dtype.itemsize, 0

    def xgeqrf(
        self, handle: int, params: int, m: int, n: int, data_type_a: int, a: int, lda: int, data_type_tau: int,
        tau: int, compute_type: int, buffer_on_device: int, workspace_in_bytes_on_device: int, buffer_on_host: int,
        workspace_in_bytes_on_host: int, info: int,
    ) -> None:  # fmt: skip
        """Compute R and the reflections whose product is Q."""
        call, stream = self._begin("xgeqrf", handle, params)
        dtype = self._numbers_of(call, data_type_a, data_type_tau, compute_type)
        self._sizes(call, m=m, n=n)
        matrix = call.matrix("a", a, m, n, lda, dtype)
        factors = call.array("tau", tau, (min(m, n),), dtype)
        status = call.array("info", info, (1,), np.int32)

        def work() -> None:
            reflections(matrix.values(), factors.values())
            status.values()[...] = 0

        needed = self.xgeqrf_buffer_size(handle, params, m, n, data_type_a, a, lda, data_type_tau, tau, compute_type)
        given = (buffer_on_device, workspace_in_bytes_on_device, buffer_on_host, workspace_in_bytes_on_host)
        self._finish(call, stream, given, needed, work)

    def _orgqr_checked(
        self, function: str, dtype: np.dtype, handle: int, m: int, n: int, k: int, a: int, lda: int, tau: int
    ) -> tuple[Call, int, Array, Array]:
        call = self._call(function)
        stream = self._stream(call, handle)
        call.integers32(m=m, n=n, k=k, lda=lda)
        call.require(m >= n >= k >= 0, f"m, n and k are {m}, {n} and {k}: m >= n >= k >= 0 must hold.")
        return call, stream, call.matrix("a", a, m, n, lda, dtype), call.array("tau", tau, (k,), dtype)

    def _orgqr_buffer_size(
        self, dtype: np.dtype, handle: int, m: int, n: int, k: int, a: int, lda: int, tau: int
    ) -> int:
        self._orgqr_checked("orgqr_buffer_size", dtype, handle, m, n, k, a, lda, tau)
        return 11 + 3 * n  # elements

    def _orgqr(
        self, dtype: np.dtype, handle: int, m: int, n: int, k: int, a: int, lda: int, tau: int, work: int, lwork: int,
        info: int,
    ) -> None:  # fmt: skip
        call, stream, matrix, factors = self._orgqr_checked("orgqr", dtype, handle, m, n, k, a, lda, tau)
        call.integers32(lwork=lwork)
        needed = self._orgqr_buffer_size(dtype, handle, m, n, k, a, lda, tau)
        scratch = call.workspace("work", work, lwork * dtype.itemsize, needed * dtype.itemsize)
        status = call.array("info", info, (1,), np.int32)

        def run() -> None:
            multiplied(matrix.values(), factors.values())
            status.values()[...] = 0

        call.enqueue(stream, run, scratch)
