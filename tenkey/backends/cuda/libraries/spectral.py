"""Operators on singular values and eigenvalues."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.tensor import Tensor
from ....ops.builtin.elementwise.arithmetic import negative
from ....ops.builtin.elementwise.comparison import isfinite, isnan, logical_not, logical_or, where
from ....ops.builtin.elementwise.complex import complex_from, conj
from ....ops.builtin.reductions.reduction import any as any_
from ....ops.builtin.shape.copying import cast, concatenate
from ....ops.builtin.shape.views import reshape
from . import cusolver
from .matrix_tools import (
    NOT_CONVERGED,
    as_dtype,
    compute_dtype,
    filled,
    fresh,
    identity,
    report,
    stacked,
    status,
    turned,
)
from .site import Matrix, Site

__all__ = ["decomposed", "eig", "eigh", "eigvals", "eigvalsh", "singular_values", "svd", "svdvals"]

_JACOBI: Final = 32  # the largest matrices of which cuSOLVER decomposes a stack in one call


def _with_bad_elements(info: Tensor, bad: Tensor) -> Tensor:
    """Return what failed: what the library reports, and matrices with elements that LAPACK refuses."""
    return logical_or(info != 0, any_(reshape(bad, (info.shape[0], -1)), axis=-1))


# ---- singular values


def singular_values(site: Site, x: Tensor, given: tuple[Tensor, ...]) -> Tensor:
    """Return the singular values of a stack of matrices, not empty; ``given`` are named in an error."""
    _, s, _ = _svd(site, x, given, vectors=False, full=False)
    return s


def decomposed(site: Site, x: Tensor, given: tuple[Tensor, ...], *, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, S and V^H of a stack of matrices, not empty, in the dtype in which they are computed."""
    u, s, vh = _svd(site, x, given, vectors=True, full=full)
    assert u is not None
    assert vh is not None
    return u, s, vh


def _svd(
    site: Site, x: Tensor, given: tuple[Tensor, ...], *, vectors: bool, full: bool
) -> tuple[Tensor | None, Tensor, Tensor | None]:
    dtype = compute_dtype(site.operator, *[each.dtype for each in given])
    *batch, m, n = x.shape
    count, k = prod(batch), min(m, n)
    s = site.empty((*batch, k), dtypes.real_of(dtype))
    info = status(site, count)
    is_jacobi = count > 1 and max(m, n) <= _JACOBI
    if is_jacobi:
        found = _jacobi(site, stacked(fresh(site, x, dtype)), s, info, vectors=vectors)
    else:
        found = _iterated(site, x, dtype, s, info, vectors=vectors, full=full)
    report(site, _with_bad_elements(info, isnan(x)), given, NOT_CONVERGED)
    if found is None:
        return None, s, None
    u, vh = found
    if is_jacobi and not full and m != n:  # all vectors were computed
        u, vh = u[..., :k].clone(), vh[..., :k, :].clone()
    return reshape(u, (*batch, *u.shape[-2:])), s, reshape(vh, (*batch, *vh.shape[-2:]))


def _jacobi(site: Site, a: Tensor, s: Tensor, info: Tensor, *, vectors: bool) -> tuple[Tensor, Tensor] | None:
    """Decompose a stack of small matrices. The library sees A^T = U' S V'^H, so U = conj(V') and V^H = U'^T."""
    count, m, n = a.shape
    matrix = site.matrices(a)[0]
    if not vectors:
        cusolver.gesvdj_batched(site, matrix, site.address(s), None, None, site.address(info), count)
        return None
    left, right = site.empty((count, n, n), a.dtype), site.empty((count, m, m), a.dtype)
    cusolver.gesvdj_batched(
        site, matrix, site.address(s), site.matrices(left)[0], site.matrices(right)[0], site.address(info), count
    )
    u = turned(right)
    return conj(u) if u.dtype.kind == "c" else u, left


def _iterated(
    site: Site, x: Tensor, dtype: np.dtype, s: Tensor, info: Tensor, *, vectors: bool, full: bool
) -> tuple[Tensor, Tensor] | None:
    """Decompose matrices one after the other; the library sees A^T if this has at least as many rows as columns.

    From A^T = U' S V'^H follow U = (V'^H)^T and V^H = U'^T: what the library stores as columns, read as rows.
    """
    m, n = x.shape[-2:]
    is_tall = m > n
    a = stacked(fresh(site, x, dtype, transposed=is_tall))
    count, columns, rows = a.shape
    left = right = None
    if vectors:
        left = site.empty((count, rows if full else columns, rows), dtype)
        right = site.empty((count, columns, columns), dtype)
    for i, matrix in enumerate(site.matrices(a)):
        u = None if left is None else site.matrices(left)[i]
        vh = None if right is None else site.matrices(right)[i]
        place = site.address(s) + i * columns * s.itemsize
        cusolver.gesvd(site, matrix, place, u, vh, site.address(info) + i * 4)
    if left is None or right is None:
        return None
    return (turned(left), turned(right)) if is_tall else (right, left)


def svd(site: Site, spec: Any, x: Tensor, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Implement ``tk::lapack_svd``."""
    if not x.size:  # vectors that complete a basis are those of the identity
        u, s, vh = spec
        made = identity(site, u.shape, u.dtype), identity(site, vh.shape, vh.dtype)
        return made[0], filled(site, s.shape, s.dtype), made[1]
    found = decomposed(site, x, (x,), full=full_matrices)
    return tuple([as_dtype(each, wanted.dtype) for each, wanted in zip(found, spec, strict=True)])  # type: ignore[return-value]


def svdvals(site: Site, spec: Any, x: Tensor) -> Tensor:
    """Implement ``tk::linalg_svdvals``."""
    return as_dtype(singular_values(site, x, (x,)), spec.dtype)


# ---- Hermitian matrices


def _eigh(site: Site, x: Tensor, *, vectors: bool) -> tuple[Tensor, Tensor]:
    """Return values and the memory of the vectors.

    The library sees A^T = conj(A), whose upper triangle is the lower one of A; its vectors are the conjugate ones.
    """
    a = fresh(site, x, compute_dtype(site.operator, x.dtype))
    count = prod(x.shape[:-2])
    w = site.empty(x.shape[:-1], dtypes.real_of(a.dtype))
    info = status(site, count)
    matrices = site.matrices(a)
    if count > 1:
        cusolver.syev_batched(
            site, matrices[0], site.address(w), vectors, cusolver.UPPER, site.address(info), count
        )  # fmt: skip
    else:
        cusolver.syevd(site, matrices[0], site.address(w), vectors, cusolver.UPPER, site.address(info))
    report(site, info, (x,), NOT_CONVERGED)
    return w, a


def eigh(site: Site, spec: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Implement ``tk::lapack_eigh``."""
    values, vectors = spec
    w, a = _eigh(site, x, vectors=True)
    v = turned(a)
    return as_dtype(w, values.dtype), as_dtype(conj(v) if v.dtype.kind == "c" else v, vectors.dtype)


def eigvalsh(site: Site, spec: Any, x: Tensor) -> Tensor:
    """Implement ``tk::linalg_eigvalsh``."""
    return as_dtype(_eigh(site, x, vectors=False)[0], spec.dtype)


# ---- general matrices


def _eig(site: Site, x: Tensor, *, vectors: bool) -> tuple[Tensor, Tensor | None]:
    """Return values and vectors as rows. The library sees A."""
    a = stacked(fresh(site, x, compute_dtype(site.operator, x.dtype), transposed=True))
    count, n, _ = a.shape
    is_real = a.dtype.kind != "c"
    width = 2 * n if is_real else n
    w, info = site.empty((count, width), a.dtype), status(site, count)
    rows = site.empty(a.shape, a.dtype) if vectors else None
    for i, matrix in enumerate(site.matrices(a)):
        place: Matrix | None = None if rows is None else site.matrices(rows)[i]
        cusolver.geev(
            site, matrix, site.address(w) + i * width * w.itemsize, place, site.address(info) + i * 4
        )  # fmt: skip
    report(site, _with_bad_elements(info, logical_not(isfinite(x))), (x,), NOT_CONVERGED)
    if not is_real:
        return w, rows
    imaginary = w[:, n:]
    values = complex_from(w[:, :n], imaginary)
    return values, None if rows is None else _conjugate_pairs(rows, reshape(imaginary, (count, n, 1)))


def _conjugate_pairs(rows: Tensor, imaginary: Tensor) -> Tensor:
    """Return complex vectors: two neighbours are real and imaginary part of one vector, and of its conjugate."""
    after = concatenate([rows[:, 1:], rows[:, :1]], axis=1)
    before = concatenate([rows[:, -1:], rows[:, :-1]], axis=1)
    first, second = imaginary > 0, imaginary < 0
    return complex_from(
        where(second, before, rows), where(first, after, where(second, negative(rows), 0.0))
    )  # fmt: skip


def eig(site: Site, spec: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Implement ``tk::lapack_eig``."""
    values, vectors = spec
    w, rows = _eig(site, x, vectors=True)
    assert rows is not None
    found = turned(reshape(rows, vectors.shape))
    return as_dtype(reshape(w, values.shape), values.dtype), as_dtype(found, vectors.dtype)


def eigvals(site: Site, spec: Any, x: Tensor) -> Tensor:
    """Implement ``tk::linalg_eigvals``."""
    w, _ = _eig(site, x, vectors=False)
    return cast(reshape(w, spec.shape), spec.dtype)
