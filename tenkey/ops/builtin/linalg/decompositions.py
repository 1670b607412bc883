"""Decompositions of matrices: singular values and vectors, QR. Eigenvalues are in ``eigen.py``.

Note [Gradients of decompositions]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Eigenvectors and singular vectors are unique up to a factor: a sign, or a phase for complex matrices. As in PyTorch and
JAX, the gradients are correct for functions that do not depend on it, such as V diag(f(w)) V^H. Where two values are
equal, the vectors have no derivative: the gradient through them is NaN there, and large nearby. The gradients of w and
V alone do not determine the result at such a point (0/0), so a zero in place of the NaN would silently be wrong for
V diag(f(w)) V^H. Gradients of the values alone are always finite. Vectors that complete a basis (``full_matrices``,
``complete``) are differentiated as the rotation that keeps them orthogonal to the others. The gradient of a Hermitian
matrix is Hermitian. Formulas: Giles (2008); Seeger et al., "Auto-differentiating linear algebra" (2017); Townsend,
"Differentiating the singular value decomposition" (2016); for complex matrices Wan and Zhang (2019), arXiv:1909.02659.
Guarded by tests/ops/test_linalg_gradients.py.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.tensor import Tensor
from ...declare import Entry, TensorSpec, composite
from ..elementwise.arithmetic import negative
from ..elementwise.comparison import where
from ..elementwise.complex import imag, real
from ..results import QRResult, SVDResult
from ..shape.copying import cast, concatenate
from ..shape.views import expand_dims, matrix_transpose
from .common import (
    adjoint,
    as_diagonal,
    check_matrix,
    differences,
    lapack,
    matrix_samples,
    on_diagonal,
    reciprocal_off_diagonal,
    strictly_lower,
)
from .matmul import matmul
from .solve import solve

# ---- singular values


def _svd_meta(x: Tensor, full_matrices: bool = True) -> Any:
    dtype = check_matrix("linalg.svd", x)
    *batch, m, n = x.shape
    k = min(m, n)
    rows, columns = (m, n) if full_matrices else (k, k)
    return (
        TensorSpec((*batch, m, rows), dtype),
        TensorSpec((*batch, k), dtypes.real_of(dtype)),
        TensorSpec((*batch, columns, n), dtype),
    )


def _kept(vectors: Tensor, g: Tensor | None, k: int) -> tuple[Tensor, Tensor | None]:
    """Return the first ``k`` columns and their gradient, which takes in the gradient of the others."""
    if vectors.shape[-1] == k:
        return vectors, g
    first, others = vectors[..., :k], vectors[..., k:]
    if g is None:
        return first, None
    return first, g[..., :k] - matmul(others, matmul(adjoint(g[..., k:]), first))


def _skew(x: Tensor) -> Tensor:
    return x - adjoint(x)


def _outside(basis: Tensor, x: Tensor) -> Tensor:
    """Return the part of the columns of ``x`` that is orthogonal to ``basis``."""
    return x - matmul(basis, matmul(adjoint(basis), x))


def _svd_vjp(g: Any, out: Any) -> Tensor:
    s = out[1]
    k = s.shape[-1]
    u, g_u = _kept(out[0], g[0], k)
    v, g_v = _kept(adjoint(out[2]), None if g[2] is None else adjoint(g[2]), k)
    m, n = u.shape[-2], v.shape[-2]
    inner = None if g[1] is None else as_diagonal(g[1])
    inverse: Any = None
    if g_u is not None or g_v is not None:
        inverse = 1.0 / s
        row = expand_dims(s, -2)
        # 1 / (s_j^2 - s_i^2): as a product of factors it loses no digits
        weights = reciprocal_off_diagonal(differences(s)) * reciprocal_off_diagonal(row + expand_dims(s, -1))
        if g_u is not None:
            own = matmul(adjoint(u), g_u)
            term = _skew(own) * weights * row
            if u.dtype.kind == "c":  # the phase of a pair belongs to one of the two
                term = term + where(on_diagonal(own), imag(own) * 1j, 0.0) * expand_dims(inverse, -2)
            inner = term if inner is None else inner + term
        if g_v is not None:
            term = _skew(matmul(adjoint(v), g_v)) * weights * expand_dims(s, -1)
            inner = term if inner is None else inner + term
    if inner is None:
        return matmul(u * 0, adjoint(v))
    left = matmul(u, inner)
    if g_u is not None and m > k:
        left = left + _outside(u, g_u) * expand_dims(inverse, -2)
    total = matmul(left, adjoint(v))
    if g_v is not None and n > k:
        total = total + matmul(u * expand_dims(inverse, -2), adjoint(_outside(v, g_v)))
    return total


_svd = lapack(
    "lapack_svd(Tensor x, bool full_matrices=True) -> (Tensor, Tensor, Tensor)",
    np.linalg.svd,
    meta=_svd_meta,
    vjp={"x": _svd_vjp},
)


def _svd_probe(call: Any, x: Tensor, full_matrices: bool = True) -> Any:
    """Return products in which the phases cancel, and the projections onto the spaces of completing vectors."""
    u, s, vh = call(x, full_matrices=full_matrices)
    k = s.shape[-1]
    pairs = expand_dims(u[..., :k], -2) * expand_dims(matrix_transpose(vh[..., :k, :]), -3)
    more = [matmul(u[..., k:], adjoint(u[..., k:])), matmul(adjoint(vh[..., k:, :]), vh[..., k:, :])]
    return (s, pairs, *[t for t in more if full_matrices and t.size])


def _svd_compared(found: Any, x: Any, full_matrices: bool = True) -> Any:
    """Return the values, the product of the factors, and the products of each factor with its adjoint."""
    u, s, vh = found
    k = s.shape[-1]
    product = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
    return s, product, np.conj(np.swapaxes(u, -1, -2)) @ u, vh @ np.conj(np.swapaxes(vh, -1, -2))


@composite(
    "linalg_svd(Tensor x, *, bool full_matrices=True) -> (Tensor U, Tensor S, Tensor Vh)",
    sample_inputs=lambda rng: [((x,), {"full_matrices": full}) for x in matrix_samples(rng) for full in (True, False)],
    gradcheck_wrapper=_svd_probe,
    compared=_svd_compared,
)
def svd(x: Tensor, *, full_matrices: bool = True) -> SVDResult:
    """Compute the singular value decomposition ``x = U @ diag(S) @ Vh`` of a matrix or of each matrix of a stack.

    Args: x: shape (..., M, N), floating or complex; integers are converted to floats. full_matrices: complete U and Vh
    to square matrices (..., M, M) and (..., N, N); else they are (..., M, K) and (..., K, N) with K = min(M, N).
    Returns a named tuple ``(U, S, Vh)``; S, shape (..., K), is real and descending. Raises ValueError for other shapes.
    Gradients are correct for functions that do not depend on the choice of the singular vectors.

    >>> tk.linalg.svd(tk.asarray([[3.0, 0.0], [0.0, 4.0]])).S.tolist()
    [4.0, 3.0]
    """
    return SVDResult(*_svd(x, full_matrices))


def _svdvals_meta(x: Tensor) -> TensorSpec:
    dtype = check_matrix("linalg.svdvals", x)
    return TensorSpec((*x.shape[:-2], min(x.shape[-2:])), dtypes.real_of(dtype))


def _svdvals_vjp(g: Tensor, x: Tensor) -> Tensor:
    u, _, vh = _svd(x, False)
    return matmul(u * expand_dims(g, -2), vh)


svdvals: Entry = lapack(
    "linalg_svdvals(Tensor x) -> Tensor",
    functools.partial(np.linalg.svd, compute_uv=False),
    meta=_svdvals_meta,
    vjp={"x": _svdvals_vjp},
    sample_inputs=lambda rng: [((x,), {}) for x in matrix_samples(rng)],
    doc="""Compute the singular values, in descending order, of a matrix or of each matrix of a stack.

    Args: x: shape (..., M, N), floating or complex; integers are converted to floats. Returns shape (..., min(M, N)),
    real. Raises ValueError for other shapes.

    >>> tk.linalg.svdvals(tk.asarray([[3.0, 0.0], [0.0, 4.0]])).tolist()
    [4.0, 3.0]
    """,
)

# ---- QR


def _qr_meta(x: Tensor, mode: str = "reduced") -> Any:
    dtype = check_matrix("linalg.qr", x)
    *batch, m, n = x.shape
    k = m if mode == "complete" else min(m, n)
    return TensorSpec((*batch, m, k), dtype), TensorSpec((*batch, k, n), dtype)


def _qr_square_vjp(g_q: Tensor | None, g_r: Tensor | None, q: Tensor, r: Tensor) -> Tensor:
    """Return the gradient for at least as many rows as columns, where ``r`` is square."""
    own = None if g_r is None else matmul(r, adjoint(g_r))
    if g_q is not None:
        turned = matmul(adjoint(g_q), q)
        own = negative(turned) if own is None else own - turned
    assert own is not None
    below = strictly_lower(own)
    middle = below + adjoint(below) + where(on_diagonal(own), cast(real(own), own.dtype), 0.0)
    left = matmul(q, middle)
    if g_q is not None:
        left = left + g_q
    return adjoint(solve(r, adjoint(left)))


def _qr_vjp(g: Any, out: Any) -> Tensor:
    m, n = out[0].shape[-2], out[1].shape[-1]
    k = min(m, n)
    q, g_q = _kept(out[0], g[0], k)
    r = out[1][..., :k, :]
    g_r = None if g[1] is None else g[1][..., :k, :]
    if g_q is None and g_r is None:
        return matmul(q * 0, r)
    if m >= n:
        return _qr_square_vjp(g_q, g_r, q, r)
    # x = [q r1, q r2]: the second part follows from q
    rest = None
    if g_r is not None:
        g_r, g_rest = g_r[..., :m], g_r[..., m:]
        turned = matmul(q, matmul(r[..., m:], adjoint(g_rest)))
        g_q = turned if g_q is None else g_q + turned
        rest = matmul(q, g_rest)
    first = _qr_square_vjp(g_q, g_r, q, r[..., :m])
    return concatenate([first, r[..., m:] * 0 if rest is None else rest], axis=-1)


_qr = lapack("lapack_qr(Tensor x, str mode) -> (Tensor, Tensor)", np.linalg.qr, meta=_qr_meta, vjp={"x": _qr_vjp})


def _qr_probe(call: Any, x: Tensor, mode: str = "reduced") -> Any:
    q, r = call(x, mode=mode)
    k = min(x.shape[-2:])
    more = matmul(q[..., k:], adjoint(q[..., k:]))
    return (q[..., :k], r[..., :k, :], *([more] if q.shape[-1] > k else []))


def _qr_compared(found: Any, x: Any, mode: str = "reduced") -> Any:
    """Return the product of the factors, that of Q with its adjoint, and what lies below the diagonal of R."""
    q, r = found
    return q @ r, np.conj(np.swapaxes(q, -1, -2)) @ q, np.tril(r, -1)


@composite(
    "linalg_qr(Tensor x, *, str mode='reduced') -> (Tensor Q, Tensor R)",
    sample_inputs=lambda rng: [((x,), {"mode": mode}) for x in matrix_samples(rng) for mode in ("reduced", "complete")],
    gradcheck_wrapper=_qr_probe,
    compared=_qr_compared,
)
def qr(x: Tensor, *, mode: str = "reduced") -> QRResult:
    """Compute the QR decomposition ``x = Q @ R`` of a matrix or of each matrix of a stack.

    Args: x: shape (..., M, N), floating or complex; integers are converted to floats. mode: 'reduced' gives Q of shape
    (..., M, K) and R of shape (..., K, N) with K = min(M, N); 'complete' gives a square Q. Returns a named tuple
    ``(Q, R)``: orthonormal columns and an upper triangle. Raises ValueError for other shapes and modes. The gradient
    needs the first K columns to be independent.

    >>> tk.abs(tk.linalg.qr(tk.asarray([[3.0, 0.0], [4.0, 1.0]])).R[0, 0]).item()
    5.0
    """
    if mode not in ("reduced", "complete"):
        raise ValueError(f"[linalg.qr] got mode={mode!r}: it must be 'reduced' or 'complete'.")
    return QRResult(*_qr(x, mode))
