"""Factorizations in LAPACK's conventions with NumPy, which has none of LU, pivots, reflections and info codes."""

from __future__ import annotations

import numpy as np

__all__ = ["cholesky", "eigenvectors", "eliminate", "exchange", "multiplied", "reflections", "solve_factorized"]


def eliminate(a: np.ndarray) -> tuple[np.ndarray, int]:
    """Overwrite a matrix with its LU factors; return the exchanged rows and the first zero pivot, or 0.

    Both are counted from 1.
    """
    m, n = a.shape
    pivots = np.arange(1, min(m, n) + 1)
    singular = 0
    for j in range(min(m, n)):
        column = a[j:, j]
        size = np.abs(column.real) + np.abs(column.imag)  # as LAPACK's izamax; for real numbers the magnitude
        size = np.where(np.isnan(size), -1, size)
        p = j + int(size.argmax())
        pivots[j] = p + 1
        if p != j:
            a[[j, p]] = a[[p, j]]
        if a[j, j] == 0:
            singular = singular or j + 1
            continue
        a[j + 1 :, j] /= a[j, j]
        a[j + 1 :, j + 1 :] -= np.outer(a[j + 1 :, j], a[j, j + 1 :])
    return pivots, singular


def exchange(b: np.ndarray, pivots: np.ndarray, *, back: bool = False) -> None:
    """Exchange rows in place as pivots say, or undo it."""
    order = range(len(pivots))
    for j in reversed(order) if back else order:
        p = int(pivots[j]) - 1
        if p != j:
            b[[j, p]] = b[[p, j]]


def solve_factorized(lu: np.ndarray, pivots: np.ndarray, b: np.ndarray, transposed: str) -> None:
    """Overwrite ``b`` with the solution for a factorized matrix ('N'), its transpose ('T') or its adjoint ('C')."""
    lower = np.tril(lu, -1) + np.eye(len(lu), dtype=lu.dtype)
    upper = np.triu(lu)
    try:
        if transposed == "N":
            exchange(b, pivots)
            b[...] = np.linalg.solve(upper, np.linalg.solve(lower, b))
        else:
            first, second = (upper.T, lower.T) if transposed == "T" else (upper.conj().T, lower.conj().T)
            b[...] = np.linalg.solve(second, np.linalg.solve(first, b))
            exchange(b, pivots, back=True)
    except np.linalg.LinAlgError:  # the substitution would divide by zero
        b[...] = np.nan


def cholesky(a: np.ndarray, lower: bool) -> int:
    """Overwrite one triangle with the Cholesky factor; return 0, or the first minor that is not positive definite."""
    n = len(a)
    triangle = np.tril(a) if lower else np.triu(a).conj().T
    full = triangle + np.tril(triangle, -1).conj().T
    try:
        factor = np.linalg.cholesky(full)
        status = 0 if np.isfinite(factor).all() else 1
    except np.linalg.LinAlgError:
        factor, status = np.full_like(full, np.nan), 1
    if status:  # as many columns as there are positive definite minors
        for k in range(1, n + 1):
            try:
                minor = np.linalg.cholesky(full[:k, :k])
            except np.linalg.LinAlgError:
                break
            if not np.isfinite(minor).all():
                break
            status = k + 1
    kept = np.tril(np.ones((n, n), bool))
    if lower:
        np.copyto(a, factor, where=kept)
    else:
        np.copyto(a, factor.conj().T, where=kept.T)
    return status


def reflections(a: np.ndarray, tau: np.ndarray) -> None:
    """Overwrite a matrix with R and Householder vectors as geqrf does."""
    if a.size:
        h, factors = np.linalg.qr(a, mode="raw")
        a[...], tau[...] = h.T, factors


def multiplied(a: np.ndarray, tau: np.ndarray) -> None:
    """Overwrite the columns of a matrix, the first of which hold reflections, with those of their product."""
    m, n = a.shape
    product = np.eye(m, dtype=a.dtype)
    for j, factor in enumerate(tau):
        v = np.zeros(m, a.dtype)
        v[j] = 1
        v[j + 1 :] = a[j + 1 :, j]
        product -= np.outer(product @ v, factor * v.conj())
    a[...] = product[:, :n]


def eigenvectors(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return eigenvalues, right eigenvectors in geev's form, and info.

    For a real matrix the values are real parts followed by imaginary parts, and a conjugate pair, the one with the
    positive imaginary part first, has real and imaginary part of its vector in two columns.
    """
    n = len(a)
    if not np.isfinite(a).all():
        return np.full(n if a.dtype.kind == "c" else 2 * n, np.nan, a.dtype), np.full_like(a, np.nan), n
    w, v = np.linalg.eig(a)
    if a.dtype.kind == "c":
        return w, v, 0
    values = np.concatenate([w.real, w.imag])
    vectors = np.array(v.real)
    for j in range(n):
        if values[n + j] > 0:  # LAPACK's order keeps pairs together, the positive one first
            vectors[:, j + 1] = v[:, j].imag
    return values, vectors, 0
