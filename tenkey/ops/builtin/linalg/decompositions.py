"""Decompositions of matrices: singular values and vectors, QR. Eigenvalues are in ``linalg_eigen``.

Note [Gradients of decompositions]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Eigenvectors and singular vectors are determined up to a factor (a sign, for complex matrices a phase). The gradients
here are those of functions that do not depend on it, as in PyTorch and JAX: of V diag(f(w)) V^H, say. Where two values
are equal the vectors have no derivative: what flows back through them is NaN there, and large near it. It is not known
from the gradients of w and V alone what a function of both does in that place (0/0), so that a zero in place of the NaN
would be wrong in silence for V diag(f(w)) V^H. Gradients of the values alone are always finite. Vectors that complete a
basis (``full_matrices``, ``complete``) are differentiated as the rotation that keeps them orthogonal to the others. A
gradient of a Hermitian matrix is Hermitian. Formulas: Giles (2008); Seeger et al., Auto-differentiating linear algebra
(2017); Townsend, "Differentiating the singular value decomposition" (2016); for complex ones Wan and Zhang (2019),
arXiv:1909.02659. Guarded by tests/ops/test_linalg_gradients.py.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ...declare import Entry, TensorSpec, composite, core_dims, structured
from ..elementwise.arithmetic import negative
from ..elementwise.comparison import where
from ..elementwise.complex import imag, real
from ..shape.copying import cast, concatenate
from ..shape.views import expand_dims, matrix_transpose
from .common import (
    CONVERGE,
    adjoint,
    as_diagonal,
    check_matrix,
    differences,
    inexact_array,
    known_linalg,
    on_diagonal,
    reciprocal_off_diagonal,
    strictly_lower,
)
from .matmul import matmul
from .solve import solve

__all__ = [
    "QRResult",
    "SVDResult",
    "qr",
    "svd",
    "svdvals",
]

_MODE: Final = "[linalg.qr] got mode={mode!r}: it is 'reduced' or 'complete'."


class SVDResult(NamedTuple):
    """``U @ diag(S) @ Vh``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class QRResult(NamedTuple):
    """``Q @ R``."""

    Q: Tensor
    R: Tensor


# ---- singular values


def _matrix_samples(rng: np.random.Generator) -> Any:
    for shape in ((3, 3), (3, 2), (2, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2), (2, 0)):
        k = min(shape[-2:])
        steep = np.zeros(shape)
        steep[..., range(k), range(k)] = 2.0 * np.arange(1.0, k + 1)
        yield rng.uniform(-0.6, 0.6, shape) + steep


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
    """The first ``k`` columns and their gradient, with what the gradient of the others says of these."""
    if vectors.shape[-1] == k:
        return vectors, g
    first, others = vectors[..., :k], vectors[..., k:]
    if g is None:
        return first, None
    return first, g[..., :k] - matmul(others, matmul(adjoint(g[..., k:]), first))


def _skew(x: Tensor) -> Tensor:
    return x - adjoint(x)


def _outside(basis: Tensor, x: Tensor) -> Tensor:
    """The part of the columns of ``x`` that is orthogonal to a basis."""
    return x - matmul(basis, matmul(adjoint(basis), x))


def _svd_vjp(g: Any, x: Tensor, out: Any) -> Tensor:
    s = out[1]
    k = s.shape[-1]
    u, g_u = _kept(out[0], g[0], k)
    v, g_v = _kept(adjoint(out[2]), None if g[2] is None else adjoint(g[2]), k)
    m, n = x.shape[-2:]
    inner = None if g[1] is None else as_diagonal(g[1])
    inverse: Any = None
    if g_u is not None or g_v is not None:
        inverse = 1.0 / s
        row = expand_dims(s, -2)
        # s_j^2 - s_i^2 as a product loses no digits
        weights = reciprocal_off_diagonal(differences(s)) * reciprocal_off_diagonal(row + expand_dims(s, -1))
        if g_u is not None:
            own = matmul(adjoint(u), g_u)
            term = _skew(own) * weights * row
            if x.dtype.kind == "c":  # the phase of a pair belongs to one of the two
                term = term + where(on_diagonal(own), imag(own) * 1j, 0.0) * expand_dims(inverse, -2)
            inner = term if inner is None else inner + term
        if g_v is not None:
            term = _skew(matmul(adjoint(v), g_v)) * weights * expand_dims(s, -1)
            inner = term if inner is None else inner + term
    if inner is None:
        return x * 0
    left = matmul(u, inner)
    if g_u is not None and m > k:
        left = left + _outside(u, g_u) * expand_dims(inverse, -2)
    total: Tensor = matmul(left, adjoint(v))
    if g_v is not None and n > k:
        total = total + matmul(u * expand_dims(inverse, -2), adjoint(_outside(v, g_v)))
    return total


_svd: Any = structured(
    "lapack_svd(Tensor x, bool full_matrices=True) -> (Tensor, Tensor, Tensor)",
    meta=_svd_meta,
    numpy=known_linalg("linalg.svd", CONVERGE)(
        lambda x, full_matrices=True: np.linalg.svd(inexact_array(x), full_matrices=full_matrices)
    ),
    widens=True,
    strict=True,
    vjp={"x": _svd_vjp},
    batch=core_dims(2),
    tags=(Tag.DERIVED,),
)


def _svd_probe(call: Any, x: Tensor, full_matrices: bool = True) -> Any:
    """Products in which the phases cancel, and the projection onto each space of completing vectors."""
    u, s, vh = call(x, full_matrices=full_matrices)
    k = s.shape[-1]
    pairs = expand_dims(u[..., :k], -2) * expand_dims(matrix_transpose(vh[..., :k, :]), -3)
    more = [matmul(u[..., k:], adjoint(u[..., k:])), matmul(adjoint(vh[..., k:, :]), vh[..., k:, :])]
    return (s, pairs, *[t for t in more if full_matrices and t.size])


@composite(
    "linalg_svd(Tensor x, *, bool full_matrices=True) -> (Tensor U, Tensor S, Tensor Vh)",
    sample_inputs=lambda rng: [((x,), {"full_matrices": full}) for x in _matrix_samples(rng) for full in (True, False)],
    reference=np.linalg.svd,
    gradcheck_wrapper=_svd_probe,
)
def svd(x: Tensor, *, full_matrices: bool = True) -> SVDResult:
    """Singular value decomposition ``x = U @ diag(S) @ Vh`` of a matrix, or of each matrix of a stack.

    Args: x: shape (..., M, N), floating or complex; integers are taken as floats. full_matrices: complete U and Vh to
    square matrices (..., M, M) and (..., N, N); else they are (..., M, K) and (..., K, N) with K = min(M, N). Returns a
    named tuple ``(U, S, Vh)``; S, shape (..., K), is real and descending. Raises ValueError for other shapes. Gradients
    are those of functions that do not depend on the choice of the singular vectors.

    >>> import tenkey as tk
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


svdvals: Entry = structured(
    "linalg_svdvals(Tensor x) -> Tensor",
    meta=_svdvals_meta,
    numpy=known_linalg("linalg.svdvals", CONVERGE)(lambda x: np.linalg.svd(inexact_array(x), compute_uv=False)),
    widens=True,
    strict=True,
    vjp={"x": _svdvals_vjp},
    sample_inputs=lambda rng: [((x,), {}) for x in _matrix_samples(rng)],
    reference=lambda x: np.linalg.svd(x, compute_uv=False),
    batch=core_dims(2),
    doc="""Singular values of a matrix, descending, or of each matrix of a stack.

    Args: x: shape (..., M, N), floating or complex; integers are taken as floats. Returns shape (..., min(M, N)), real.
    Raises ValueError for other shapes.

    >>> import tenkey as tk
    >>> tk.linalg.svdvals(tk.asarray([[3.0, 0.0], [0.0, 4.0]])).tolist()
    [4.0, 3.0]
    """,
)

# ---- QR


def _qr_meta(x: Tensor, mode: str = "reduced") -> Any:
    dtype = check_matrix("linalg.qr", x)
    if mode not in ("reduced", "complete"):
        raise ValueError(_MODE.format(mode=mode))
    *batch, m, n = x.shape
    k = m if mode == "complete" else min(m, n)
    return TensorSpec((*batch, m, k), dtype), TensorSpec((*batch, k, n), dtype)


def _qr_square_vjp(g_q: Tensor | None, g_r: Tensor | None, q: Tensor, r: Tensor) -> Tensor:
    """For at least as many rows as columns: r is square."""
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


def _qr_vjp(g: Any, x: Tensor, out: Any) -> Tensor:
    m, n = x.shape[-2:]
    k = min(m, n)
    q, g_q = _kept(out[0], g[0], k)
    r = out[1][..., :k, :]
    g_r = None if g[1] is None else g[1][..., :k, :]
    if g_q is None and g_r is None:
        return x * 0
    if m >= n:
        return _qr_square_vjp(g_q, g_r, q, r)
    # x = [q r1, q r2]: the second part follows from q
    rest = None
    if g_r is not None:
        g_r, g_rest = g_r[..., :m], g_r[..., m:]
        turned = matmul(x[..., m:], adjoint(g_rest))
        g_q = turned if g_q is None else g_q + turned
        rest = matmul(q, g_rest)
    first = _qr_square_vjp(g_q, g_r, q, r[..., :m])
    return concatenate([first, x[..., m:] * 0 if rest is None else rest], axis=-1)


_qr: Any = structured(
    "lapack_qr(Tensor x, str mode) -> (Tensor, Tensor)",
    meta=_qr_meta,
    numpy=lambda x, mode: np.linalg.qr(inexact_array(x), mode),
    widens=True,
    strict=True,
    vjp={"x": _qr_vjp},
    batch=core_dims(2),
    tags=(Tag.DERIVED,),
)


def _qr_probe(call: Any, x: Tensor, mode: str = "reduced") -> Any:
    q, r = call(x, mode=mode)
    k = min(x.shape[-2:])
    more = matmul(q[..., k:], adjoint(q[..., k:]))
    return (q[..., :k], r[..., :k, :], *([more] if q.shape[-1] > k else []))


@composite(
    "linalg_qr(Tensor x, *, str mode='reduced') -> (Tensor Q, Tensor R)",
    sample_inputs=lambda rng: [
        ((x,), {"mode": mode}) for x in _matrix_samples(rng) for mode in ("reduced", "complete")
    ],
    reference=np.linalg.qr,
    gradcheck_wrapper=_qr_probe,
)
def qr(x: Tensor, *, mode: str = "reduced") -> QRResult:
    """QR decomposition ``x = Q @ R`` of a matrix, or of each matrix of a stack: orthonormal columns, upper triangle.

    Args: x: shape (..., M, N), floating or complex; integers are taken as floats. mode: with 'reduced' Q is (..., M, K)
    and R (..., K, N) with K = min(M, N); with 'complete' Q is square. Returns a named tuple ``(Q, R)``. Raises
    ValueError for other shapes and modes. The gradient needs the first K columns to be independent.

    >>> import tenkey as tk
    >>> tk.abs(tk.linalg.qr(tk.asarray([[3.0, 0.0], [4.0, 1.0]])).R[0, 0]).item()
    5.0
    """
    if mode not in ("reduced", "complete"):
        raise ValueError(_MODE.format(mode=mode))
    return QRResult(*_qr(x, mode))
