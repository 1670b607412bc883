"""Singular values and eigenvalues of the stand-in for cuSOLVER. For the rules see ``checked_cusolver.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .factorizations import eigenvectors
from .library_checks import Array, Call
from .solver_base import Solver

__all__ = ["Spectra"]

_LARGEST_JACOBI: Final = 32


class Spectra(Solver):
    """The routines for singular values and eigenvalues."""

    def __init__(self, surroundings: Any) -> None:
        super().__init__(surroundings)
        self._add("gesvdj_batched", self._gesvdj_batched)
        self._add("gesvdj_batched_buffer_size", self._gesvdj_batched_buffer_size)

    # ---- singular values

    def xgesvd_buffer_size(
        self, handle: int, params: int, jobu: int, jobvt: int, m: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_s: int, s: int, data_type_u: int, u: int, ldu: int, data_type_vt: int, vt: int, ldvt: int,
        compute_type: int,
    ) -> tuple[int, int]:  # fmt: skip
        """Return the sizes of the workspaces of xgesvd."""
        given = (jobu, jobvt, m, n, data_type_a, a, lda, data_type_s, s, data_type_u, u, ldu, data_type_vt, vt, ldvt)
        matrix = self._gesvd("xgesvd_buffer_size", handle, params, *given, compute_type)[2]
        return 80 + (2 * m + 3 * n) * matrix.dtype.itemsize, 56

    def xgesvd(
        self, handle: int, params: int, jobu: int, jobvt: int, m: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_s: int, s: int, data_type_u: int, u: int, ldu: int, data_type_vt: int, vt: int, ldvt: int,
        compute_type: int, buffer_on_device: int, workspace_in_bytes_on_device: int, buffer_on_host: int,
        workspace_in_bytes_on_host: int, info: int,
    ) -> None:  # fmt: skip
        """Compute singular values and vectors of a matrix with at least as many rows as columns."""
        given = (jobu, jobvt, m, n, data_type_a, a, lda, data_type_s, s, data_type_u, u, ldu, data_type_vt, vt, ldvt)
        call, stream, matrix, values, left, right = self._gesvd("xgesvd", handle, params, *given, compute_type)
        status = call.array("info", info, (1,), np.int32)

        def work() -> None:
            status.values()[...] = _decompose(matrix.values(), values, left, right)

        needed = self.xgesvd_buffer_size(handle, params, *given, compute_type)
        workspaces = (buffer_on_device, workspace_in_bytes_on_device, buffer_on_host, workspace_in_bytes_on_host)
        self._finish(call, stream, workspaces, needed, work)

    def _gesvd(
        self, function: str, handle: int, params: int, jobu: int, jobvt: int, m: int, n: int, data_type_a: int, a: int,
        lda: int, data_type_s: int, s: int, data_type_u: int, u: int, ldu: int, data_type_vt: int, vt: int, ldvt: int,
        compute_type: int,
    ) -> tuple[Call, int, Array, Array, Array | None, Array | None]:  # fmt: skip
        call, stream = self._begin(function, handle, params)
        dtype = self._numbers_of(call, data_type_a, data_type_u, data_type_vt, compute_type)
        real = self._real_of(call, dtype, "data_type_s", data_type_s)
        call.member("jobu", jobu, tuple(b"ASN"))  # "O" is not used here
        call.member("jobvt", jobvt, tuple(b"ASN"))
        self._sizes(call, m=m, n=n)
        call.require(m >= n, f"m and n are {m} and {n}: gesvd supports m >= n only.")
        matrix = call.matrix("a", a, m, n, lda, dtype)
        values = call.array("s", s, (n,), real)
        call.least("ldu", ldu, max(1, m), f"max(1, {m})")
        call.least("ldvt", ldvt, max(1, n), f"max(1, {n})")
        none = ord("N")
        left = None if jobu == none else call.matrix("u", u, m, m if jobu == ord("A") else n, ldu, dtype)
        right = None if jobvt == none else call.matrix("vt", vt, n, n, ldvt, dtype)
        return call, stream, matrix, values, left, right

    def _gesvdj_checked(
        self, function: str, dtype: np.dtype, handle: int, jobz: int, m: int, n: int, a: int, lda: int, s: int, u: int,
        ldu: int, v: int, ldv: int, params: int, batch_size: int,
    ) -> tuple[Call, int, Array, Array, Array | None, Array | None]:  # fmt: skip
        call = self._call(function)
        stream = self._stream(call, handle)
        self._find(call, "set of options of gesvdj", params)
        call.integers32(m=m, n=n, lda=lda, ldu=ldu, ldv=ldv, batch_size=batch_size)
        call.member("jobz", jobz, (0, 1))
        call.least("batch_size", batch_size, 1)
        for name, size in (("m", m), ("n", n)):
            call.require(1 <= size <= _LARGEST_JACOBI, f"{name} is {size}: gesvdjBatched takes 1 to {_LARGEST_JACOBI}.")
        matrix = call.stack("a", a, m, n, lda, batch_size, dtype)
        k = min(m, n)
        values = call.array("s", s, (batch_size, k), dtype.type(0).real.dtype, (k, 1))
        call.least("ldu", ldu, m)
        call.least("ldv", ldv, n)
        if not jobz:
            return call, stream, matrix, values, None, None
        left = call.stack("u", u, m, m, ldu, batch_size, dtype)
        right = call.stack("v", v, n, n, ldv, batch_size, dtype)
        return call, stream, matrix, values, left, right

    def _gesvdj_batched_buffer_size(
        self, dtype: np.dtype, handle: int, jobz: int, m: int, n: int, a: int, lda: int, s: int, u: int, ldu: int,
        v: int, ldv: int, params: int, batch_size: int,
    ) -> int:  # fmt: skip
        self._gesvdj_checked(
            "gesvdj_batched_buffer_size", dtype, handle, jobz, m, n, a, lda, s, u, ldu, v, ldv, params, batch_size
        )
        return 9 + 5 * batch_size  # elements

    def _gesvdj_batched(
        self, dtype: np.dtype, handle: int, jobz: int, m: int, n: int, a: int, lda: int, s: int, u: int, ldu: int,
        v: int, ldv: int, work: int, lwork: int, info: int, params: int, batch_size: int,
    ) -> None:  # fmt: skip
        given = (dtype, handle, jobz, m, n, a, lda, s, u, ldu, v, ldv, params, batch_size)
        call, stream, matrix, values, left, right = self._gesvdj_checked("gesvdj_batched", *given)
        needed = self._gesvdj_batched_buffer_size(*given)
        scratch = call.workspace("work", work, lwork * dtype.itemsize, needed * dtype.itemsize)
        status = call.array("info", info, (batch_size,), np.int32)

        def run() -> None:
            for i, each in enumerate(matrix.values()):
                try:
                    found = np.linalg.svd(each)
                except np.linalg.LinAlgError:
                    status.values()[i] = min(m, n) + 1
                    continue
                values.values()[i] = found[1]
                if left is not None and right is not None:
                    left.values()[i] = found[0]
                    right.values()[i] = found[2].conj().T
                status.values()[i] = 0
            matrix.values()[...] = np.nan

        call.enqueue(stream, run, scratch)

    # ---- eigenvalues

    def _hermitian(
        self, function: str, handle: int, params: int, jobz: int, uplo: int, n: int, data_type_a: int, a: int,
        lda: int, data_type_w: int, w: int, compute_type: int, batch: int,
    ) -> tuple[Call, int, Array, Array]:  # fmt: skip
        call, stream = self._begin(function, handle, params)
        dtype = self._numbers_of(call, data_type_a, compute_type)
        real = self._real_of(call, dtype, "data_type_w", data_type_w)
        call.member("jobz", jobz, (0, 1))
        call.member("uplo", uplo, (0, 1))
        self._sizes(call, n=n)
        call.least("batch_size", batch, 1)
        matrix = call.stack("a", a, n, n, lda, batch, dtype)
        return call, stream, matrix, call.array("w", w, (batch, n), real, (n, 1))

    def xsyevd_buffer_size(
        self, handle: int, params: int, jobz: int, uplo: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_w: int, w: int, compute_type: int,
    ) -> tuple[int, int]:  # fmt: skip
        """Return the sizes of the workspaces of xsyevd."""
        given = (jobz, uplo, n, data_type_a, a, lda, data_type_w, w, compute_type)
        self._hermitian("xsyevd_buffer_size", handle, params, *given, 1)
        return 112 + 48 * n, 72

    def xsyevd(
        self, handle: int, params: int, jobz: int, uplo: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_w: int, w: int, compute_type: int, buffer_on_device: int, workspace_in_bytes_on_device: int,
        buffer_on_host: int, workspace_in_bytes_on_host: int, info: int,
    ) -> None:  # fmt: skip
        """Compute ascending eigenvalues, and vectors in place of the matrix."""
        given = (jobz, uplo, n, data_type_a, a, lda, data_type_w, w, compute_type)
        call, stream, matrix, values = self._hermitian("xsyevd", handle, params, *given, 1)
        status = call.array("info", info, (1,), np.int32)
        needed = self.xsyevd_buffer_size(handle, params, *given)
        workspaces = (buffer_on_device, workspace_in_bytes_on_device, buffer_on_host, workspace_in_bytes_on_host)
        self._finish(call, stream, workspaces, needed, _eigenproblems(matrix, values, status, jobz, uplo))

    def xsyev_batched_buffer_size(
        self, handle: int, params: int, jobz: int, uplo: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_w: int, w: int, compute_type: int, batch_size: int,
    ) -> tuple[int, int]:  # fmt: skip
        """Return the sizes of the workspaces of xsyev_batched."""
        given = (jobz, uplo, n, data_type_a, a, lda, data_type_w, w, compute_type, batch_size)
        self._hermitian("xsyev_batched_buffer_size", handle, params, *given)
        return 144 + 40 * n * batch_size, 0

    def xsyev_batched(
        self, handle: int, params: int, jobz: int, uplo: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_w: int, w: int, compute_type: int, buffer_on_device: int, workspace_in_bytes_on_device: int,
        buffer_on_host: int, workspace_in_bytes_on_host: int, info: int, batch_size: int,
    ) -> None:  # fmt: skip
        """Compute as xsyevd does for matrices that follow one another."""
        given = (jobz, uplo, n, data_type_a, a, lda, data_type_w, w, compute_type, batch_size)
        call, stream, matrix, values = self._hermitian("xsyev_batched", handle, params, *given)
        status = call.array("info", info, (batch_size,), np.int32)
        needed = self.xsyev_batched_buffer_size(handle, params, *given)
        workspaces = (buffer_on_device, workspace_in_bytes_on_device, buffer_on_host, workspace_in_bytes_on_host)
        self._finish(call, stream, workspaces, needed, _eigenproblems(matrix, values, status, jobz, uplo))

    def xgeev_buffer_size(
        self, handle: int, params: int, jobvl: int, jobvr: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_w: int, w: int, data_type_vl: int, vl: int, ldvl: int, data_type_vr: int, vr: int, ldvr: int,
        compute_type: int,
    ) -> tuple[int, int]:  # fmt: skip
        """Return the sizes of the workspaces of xgeev."""
        given = (jobvl, jobvr, n, data_type_a, a, lda, data_type_w, w, data_type_vl, vl, ldvl, data_type_vr, vr, ldvr)
        self._geev("xgeev_buffer_size", handle, params, *given, compute_type)
        return 208 + 64 * n, 88 + 16 * n

    def xgeev(
        self, handle: int, params: int, jobvl: int, jobvr: int, n: int, data_type_a: int, a: int, lda: int,
        data_type_w: int, w: int, data_type_vl: int, vl: int, ldvl: int, data_type_vr: int, vr: int, ldvr: int,
        compute_type: int, buffer_on_device: int, workspace_in_bytes_on_device: int, buffer_on_host: int,
        workspace_in_bytes_on_host: int, info: int,
    ) -> None:  # fmt: skip
        """Compute eigenvalues and right eigenvectors of a general matrix."""
        given = (jobvl, jobvr, n, data_type_a, a, lda, data_type_w, w, data_type_vl, vl, ldvl, data_type_vr, vr, ldvr)
        call, stream, matrix, values, vectors = self._geev("xgeev", handle, params, *given, compute_type)
        status = call.array("info", info, (1,), np.int32)

        def work() -> None:
            found = eigenvectors(matrix.values())
            values.values()[...] = found[0]
            if vectors is not None:
                vectors.values()[...] = found[1]
            status.values()[...] = found[2]
            matrix.values()[...] = np.nan

        needed = self.xgeev_buffer_size(handle, params, *given, compute_type)
        workspaces = (buffer_on_device, workspace_in_bytes_on_device, buffer_on_host, workspace_in_bytes_on_host)
        self._finish(call, stream, workspaces, needed, work)

    def _geev(
        self, function: str, handle: int, params: int, jobvl: int, jobvr: int, n: int, data_type_a: int, a: int,
        lda: int, data_type_w: int, w: int, data_type_vl: int, vl: int, ldvl: int, data_type_vr: int, vr: int,
        ldvr: int, compute_type: int,
    ) -> tuple[Call, int, Array, Array, Array | None]:  # fmt: skip
        call, stream = self._begin(function, handle, params)
        # for a real matrix the documentation has complex values too; only LAPACK's form is used here
        dtype = self._numbers_of(call, data_type_a, data_type_w, data_type_vl, data_type_vr, compute_type)
        call.require(jobvl == 0, f"jobvl is {jobvl}: left eigenvectors are not supported.")
        call.member("jobvr", jobvr, (0, 1))
        self._sizes(call, n=n)
        matrix = call.matrix("a", a, n, n, lda, dtype)
        values = call.array("w", w, (n if dtype.kind == "c" else 2 * n,), dtype)
        call.least("ldvl", ldvl, 1)
        call.least("ldvr", ldvr, 1)
        vectors = call.matrix("vr", vr, n, n, ldvr, dtype) if jobvr else None
        return call, stream, matrix, values, vectors


def _decompose(a: np.ndarray, values: Array, left: Array | None, right: Array | None) -> int:
    """Store singular values and vectors; return info."""
    n = int(a.shape[1])
    try:
        u, s, vh = np.linalg.svd(a)
    except np.linalg.LinAlgError:
        a[...] = np.nan
        return n
    values.values()[...] = s
    if left is not None:
        left.values()[...] = u[:, : left.shape[1]]
    if right is not None:
        right.values()[...] = vh
    a[...] = np.nan
    return 0


def _eigenproblems(matrix: Array, values: Array, status: Array, jobz: int, uplo: int) -> Callable[[], None]:
    """Return the work on a stack of Hermitian matrices."""

    def work() -> None:
        for i, a in enumerate(matrix.values()):
            try:
                found = np.linalg.eigh(a, "U" if uplo else "L")
            except np.linalg.LinAlgError:
                status.values()[i] = len(a)
                continue
            values.values()[i] = found[0]
            a[...] = found[1] if jobz else np.nan
            status.values()[i] = 0

    return work
