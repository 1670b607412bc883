"""Operators on LU and Cholesky factors: solutions, inverses, determinants, the factors themselves."""

from __future__ import annotations

from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.tensor import Tensor
from ....ops.builtin import load
from ....ops.builtin.creation import arange
from ....ops.builtin.elementwise.arithmetic import abs as abs_
from ....ops.builtin.elementwise.arithmetic import remainder
from ....ops.builtin.elementwise.comparison import where
from ....ops.builtin.elementwise.exponential import log
from ....ops.builtin.reductions.reduction import any as any_
from ....ops.builtin.reductions.reduction import prod as product_of
from ....ops.builtin.reductions.reduction import sum as sum_
from ....ops.builtin.shape.copying import cast
from ....ops.builtin.shape.views import broadcast_to, expand_dims, reshape
from . import cublas, cusolver
from .matrix_tools import (
    as_dtype,
    compute_dtype,
    diagonal,
    filled,
    fresh,
    identity,
    pointers,
    report,
    stacked,
    status,
    turned,
)
from .site import Matrix, Site

load("linalg.triangular")  # Note [Operators that are declared on first use]
from ....ops.builtin.linalg.triangular import tril, triu  # noqa: E402

__all__ = ["SINGULAR", "Factors", "cholesky", "det", "factorized", "inv", "lu_factors", "slogdet", "solve", "solved"]

SINGULAR: Final = (
    "the matrix is singular (of a stack, one of them). tk.linalg.pinv and tk.linalg.lstsq take such matrices."
)
_INDEFINITE: Final = (
    "the matrix is not positive definite (of a stack, one of them). tk.linalg.eigh takes every Hermitian matrix."
)
_SMALL: Final = 256  # the largest matrices of a stack for which one batched call is faster than a call for each


class Factors(NamedTuple):
    """LU factors of a stack of matrices, in place of them; ``pivots`` are int32 for a batched routine, else int64."""

    lu: Tensor
    pivots: Tensor
    info: Tensor


def factorized(site: Site, a: Tensor) -> Factors:
    """Overwrite a contiguous stack (batch, columns, rows) of matrices, not empty, with their LU factors."""
    batch, columns, rows = a.shape
    info = status(site, batch)
    if batch > 1 and rows == columns <= _SMALL:
        pivots, places = site.empty((batch, rows), np.int32), pointers(site, a)
        first = site.matrices(a)[0]
        cublas.getrf_batched(site, site.address(places), first, site.address(pivots), site.address(info), batch)
        return Factors(a, pivots, info)
    count = min(rows, columns)
    pivots = site.empty((batch, count), np.int64)
    for i, matrix in enumerate(site.matrices(a)):
        cusolver.getrf(site, matrix, site.address(pivots) + i * count * 8, site.address(info) + i * 4)
    return Factors(a, pivots, info)


def solved(site: Site, factors: Factors, b: Tensor, *, transposed: bool) -> None:
    """Overwrite right-hand sides (batch, count, rows), contiguous, with the solutions for factorized matrices."""
    batch, count, rows = b.shape
    if factors.pivots.dtype == np.int32:
        left, right = pointers(site, factors.lu), pointers(site, b)
        first, other = site.matrices(factors.lu)[0], site.matrices(b)[0]
        cublas.getrs_batched(
            site, site.address(left), first, site.address(factors.pivots), site.address(right), other, transposed, batch
        )
        return
    unused = status(site, 1)  # wrong arguments only
    step = count * rows * b.itemsize
    for i, matrix in enumerate(site.matrices(factors.lu)):
        columns = Matrix(site.address(b) + i * step, rows, count, rows, b.dtype)
        cusolver.getrs(
            site, matrix, site.address(factors.pivots) + i * rows * 8, columns, transposed, site.address(unused)
        )


def inv(site: Site, spec: Any, x: Tensor) -> Tensor:
    """Implement ``tk::linalg_inv``: the library sees A^T and finds its inverse."""
    dtype = compute_dtype(site.operator, x.dtype)
    factors = factorized(site, stacked(fresh(site, x, dtype)))
    found = identity(site, factors.lu.shape, dtype)
    solved(site, factors, found, transposed=False)
    report(site, factors.info, (x,), SINGULAR)
    return as_dtype(reshape(found, spec.shape), spec.dtype)


def solve(site: Site, spec: Any, x1: Tensor, x2: Tensor) -> Tensor:
    """Implement ``tk::linalg_solve``: the library factorizes A^T, solves for its transpose, and sees columns of B."""
    dtype = compute_dtype(site.operator, x1.dtype, x2.dtype)
    if not prod(spec.shape):
        if x1.size:  # no right-hand side, but the matrix is judged
            report(site, factorized(site, stacked(fresh(site, x1, dtype))).info, (x1, x2), SINGULAR)
        return filled(site, spec.shape, spec.dtype)
    b = expand_dims(x2, -1) if x2.ndim == 1 else x2
    n, k = b.shape[-2:]
    batch = spec.shape[:-1] if x2.ndim == 1 else spec.shape[:-2]
    right = fresh(site, broadcast_to(b, (*batch, n, k)), dtype, transposed=True)
    if prod(x1.shape[:-2]) == 1:  # all right-hand sides in one call
        left, columns = fresh(site, x1, dtype), reshape(right, (1, prod(batch) * k, n))
    else:
        left, columns = fresh(site, broadcast_to(x1, (*batch, n, n)), dtype), stacked(right)
    factors = factorized(site, stacked(left))
    solved(site, factors, columns, transposed=True)
    report(site, factors.info, (x1, x2), SINGULAR)
    found = reshape(right, spec.shape) if x2.ndim == 1 or k == 1 else turned(right)
    return as_dtype(found, spec.dtype)


# ---- determinants


def _sign(site: Site, pivots: Tensor, dtype: np.dtype) -> Tensor:
    """Return -1 for an odd number of row exchanges, else 1."""
    rows = arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype, device=site.device)
    odd = remainder(sum_(cast(pivots != rows, dtypes.int64), axis=-1), 2)
    return cast(1 - 2 * odd, dtype)


def det(site: Site, spec: Any, x: Tensor) -> Tensor:
    """Implement ``tk::linalg_det``: A^T has the same determinant."""
    dtype = compute_dtype(site.operator, x.dtype)
    if not x.size:
        return filled(site, spec.shape, spec.dtype, 1)
    found = determinants(site, stacked(fresh(site, x, dtype)))
    return as_dtype(reshape(found, spec.shape), spec.dtype)


def determinants(site: Site, a: Tensor) -> Tensor:
    """Return the determinants of a contiguous stack of square matrices, not empty, which is overwritten."""
    factors = factorized(site, a)
    pivots = diagonal(factors.lu)
    total = product_of(pivots, axis=-1) * _sign(site, factors.pivots, a.dtype)
    return where(any_(pivots == 0, axis=-1), 0.0, total)  # what follows a zero pivot may be NaN


def slogdet(site: Site, spec: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Implement ``tk::lapack_slogdet``."""
    dtype = compute_dtype(site.operator, x.dtype)
    if not x.size:
        return filled(site, spec[0].shape, spec[0].dtype, 1), filled(site, spec[1].shape, spec[1].dtype)
    factors = factorized(site, stacked(fresh(site, x, dtype)))
    pivots = diagonal(factors.lu)
    size = abs_(pivots)
    singular = any_(size == 0, axis=-1)
    sign = product_of(pivots / where(size == 0, 1.0, size), axis=-1) * _sign(site, factors.pivots, dtype)
    sign, total = where(singular, 0.0, sign), where(singular, -np.inf, sum_(log(size), axis=-1))
    found = reshape(sign, spec[0].shape), reshape(total, spec[1].shape)
    return as_dtype(found[0], spec[0].dtype), as_dtype(found[1], spec[1].dtype)


# ---- factors


def lu_factors(site: Site, spec: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Implement ``tk::lu_factors``: the library sees A."""
    order_spec, lower_spec, upper_spec = spec
    *batch, m, n = x.shape
    k = min(m, n)
    if not x.size:
        rows = arange(m, dtype=dtypes.int64, device=site.device)
        order = broadcast_to(rows, order_spec.shape).clone()
        return order, *[filled(site, each.shape, each.dtype) for each in (lower_spec, upper_spec)]  # type: ignore[return-value]
    dtype = compute_dtype(site.operator, x.dtype)
    factors = factorized(site, stacked(fresh(site, x, dtype, transposed=True)))
    both = reshape(turned(factors.lu), (*batch, m, n))
    lower = tril(both[..., :k], k=-1) + tril(triu(filled(site, (m, k), dtype, 1)))
    upper = triu(both[..., :k, :])
    order = reshape(_order(site, factors.pivots, m), order_spec.shape)
    return order, as_dtype(lower, lower_spec.dtype), as_dtype(upper, upper_spec.dtype)


def _order(site: Site, pivots: Tensor, rows: int) -> Tensor:
    """Return where each row was before the exchanges: the exchanges of row numbers, which float64 holds exactly."""
    batch, count = pivots.shape
    column = arange(rows, dtype=dtypes.float64, device=site.device)
    places = fresh(site, broadcast_to(column, (batch, 1, rows)), dtypes.float64)
    narrow = as_dtype(pivots, np.dtype(np.int32))
    for i, matrix in enumerate(site.matrices(places)):
        cusolver.laswp(site, matrix, site.address(narrow) + i * count * 4, count)
    return cast(places, dtypes.int64)


def cholesky(site: Site, spec: Any, x: Tensor, *, upper: bool = False) -> Tensor:
    """Implement ``tk::linalg_cholesky``: the library sees A^T, whose upper factor is the transpose of the lower one."""
    a = stacked(fresh(site, x, compute_dtype(site.operator, x.dtype)))
    batch, n, _ = a.shape
    info = status(site, batch)
    part = cusolver.LOWER if upper else cusolver.UPPER
    if batch > 1 and n <= _SMALL:
        places, first = pointers(site, a), site.matrices(a)[0]
        cusolver.potrf_batched(site, site.address(places), first, part, site.address(info), batch)
    else:
        for i, matrix in enumerate(site.matrices(a)):
            cusolver.potrf(site, matrix, part, site.address(info) + i * 4)
    report(site, info, (x,), _INDEFINITE)
    factor = triu(a) if upper else tril(a)
    return as_dtype(reshape(factor, spec.shape), spec.dtype)
