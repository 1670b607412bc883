"""Linear systems: inverse, solution, determinants, Cholesky factor, powers.

The gradients follow M. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation" (2008), extended to complex matrices; they consist of operators, so every order exists.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ...declare import Entry, TensorSpec, composite
from ...shapes import broadcast_shapes
from ..creation import eye, zeros
from ..elementwise.arithmetic import negative
from ..elementwise.complex import conj, conjugated, imag, like_operand
from ..reductions.reduction import sum as sum_
from ..results import SlogdetResult
from ..shape.copying import concatenate
from ..shape.views import broadcast_to, expand_dims, reshape, squeeze
from .common import adjoint, check_square, half_lower, hermitian, inexact, lapack, solve_batch, square_samples
from .matmul import matmul

_SINGULAR: Final = (
    "the matrix is singular (of a stack, one of them). tk.linalg.pinv and tk.linalg.lstsq take such matrices."
)

# ---- inverse and solution

inv: Entry = lapack(
    "linalg_inv(Tensor x) -> Tensor",
    np.linalg.inv,
    error=_SINGULAR,
    vjp={"x": lambda g, out: negative(matmul(matmul(adjoint(out), g), adjoint(out)))},
    sample_inputs=square_samples,
    doc="""Invert a square matrix or each matrix of a stack.

    Args: x: shape (..., M, M), floating or complex; integers are converted to floats. Returns the shape and dtype of x.
    Raises ValueError for other shapes and for an exactly singular matrix (as ``tk.linalg.LinAlgError``), TypeError for
    other dtypes. To multiply by an inverse use ``tk.linalg.solve``, which is faster and more accurate.

    >>> tk.linalg.inv(tk.asarray([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """,
)


def _solve_meta(x1: Tensor, x2: Tensor) -> TensorSpec:
    check_square("linalg.solve", x1)
    m = x1.shape[-1]
    if not x2.ndim or x2.shape[-2 if x2.ndim > 1 else -1] != m:
        raise ValueError(
            f"[linalg.solve] got x1 of shape {x1.shape} and x2 of shape {x2.shape}: x2 must be a vector (M,) or "
            f"matrices (..., M, K), where M = {m}."
        )
    dtype = inexact("linalg.solve", x1.dtype, x2.dtype)
    if x2.ndim == 1:
        return TensorSpec(x1.shape[:-1], dtype)
    batch = broadcast_shapes("linalg.solve", x1.shape[:-2], x2.shape[:-2])
    return TensorSpec((*batch, *x2.shape[-2:]), dtype)


def _solve_on_numpy(x1: np.ndarray[Any, Any], x2: np.ndarray[Any, Any]) -> Any:
    if "b" in (x1.dtype.kind, x2.dtype.kind):
        raise TypeError
    if x1.dtype is not x2.dtype or x1.dtype.kind in "iu":
        dtype = inexact("linalg.solve", x1.dtype, x2.dtype)
        x1, x2 = x1.astype(dtype, copy=False), x2.astype(dtype, copy=False)
    return np.linalg.solve(x1, x2)


def _solve_right(g: Tensor, x1: Tensor, x2_meta: Any) -> Tensor:
    if len(x2_meta.shape) == 1:
        return squeeze(solve(adjoint(x1), expand_dims(g, -1)), -1)
    return solve(adjoint(x1), g)


def _solve_left(g: Tensor, x1: Tensor, x2_meta: Any, out: Tensor) -> Tensor:
    if len(x2_meta.shape) == 1:
        g, out = expand_dims(g, -1), expand_dims(out, -1)
    return negative(matmul(solve(adjoint(x1), g), adjoint(out)))


solve: Entry = lapack(
    "linalg_solve(Tensor x1, Tensor x2) -> Tensor",
    _solve_on_numpy,
    error=_SINGULAR,
    converts=True,
    meta=_solve_meta,
    vjp={
        "x1": lambda g, x1, x2_meta, out: like_operand(_solve_left(g, x1, x2_meta, out), x1),
        "x2": lambda g, x1, x2_meta: like_operand(_solve_right(g, x1, x2_meta), x2_meta),
    },
    sample_inputs=lambda rng: [
        ((rng.uniform(-0.6, 0.6, a) + np.diag(np.arange(3.0, a[-1] + 3.0)), rng.standard_normal(b)), {})
        for a, b in (
            ((3, 3), (3, 2)),
            ((3, 3), (3,)),
            ((2, 3, 3), (3,)),
            ((2, 3, 3), (3, 2)),
            ((2, 2), (4, 2, 1)),
            ((2, 1, 2, 2), (3, 2, 2)),
            ((0, 0), (0, 2)),
            ((0, 2, 2), (2, 2)),
        )
    ],
    batch=solve_batch,
    doc="""Solve the linear systems ``x1 @ x = x2``.

    Args: x1: shape (..., M, M). x2: a vector (M,), or matrices (..., M, K); the leading dimensions broadcast. Both are
    floating or complex; integers are converted to floats. Raises ValueError for other shapes and for an exactly
    singular matrix (as ``tk.linalg.LinAlgError``), TypeError for other dtypes.

    >>> tk.linalg.solve(tk.asarray([[2.0, 0.0], [0.0, 4.0]]), tk.asarray([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """,
)

# ---- determinants

# Note [Determinants of singular matrices]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# The gradient of det(A) is the adjugate, which exists for every matrix. It is computed from singular values, because
# det(A) inv(A) would divide by zero. Up to sign, an element of the adjugate is the determinant of A bordered by a row
# and a column: adj(A)[i, j] = -det([[A, e_j], [e_i^T, 0]]). Its derivative therefore consists of adjugates again, and
# every order is exact, singular or not. This takes n**2 larger matrices, so above _BORDERED the derivative is that of
# det(A) inv(A), and a second derivative at a singular matrix raises (as inv does).
# Guarded by tests/ops/test_linalg_gradients.py::test_determinant_of_singular_matrices.
_BORDERED: Final = 6


def _adjugate_on_numpy(x: np.ndarray[Any, Any]) -> Any:
    u, s, vh = np.linalg.svd(x)
    n = s.shape[-1]
    # products of all singular values except one, without division
    others = np.ones_like(s)
    for i in range(n):
        others[..., i] = np.prod(np.delete(s, i, -1), -1)
    phase = np.linalg.det(u) * np.linalg.det(vh)
    scaled = np.conj(np.swapaxes(vh, -1, -2)) * (others * phase[..., None])[..., None, :]
    return scaled @ np.conj(np.swapaxes(u, -1, -2))


def _adjugate_vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    n = x.shape[-1]
    batch = x.shape[:-2]
    if n > _BORDERED:
        back = adjoint(inv(x))
        # d adj = tr(adj dA) inv(A) - inv(A) dA adj
        scale = sum_(conjugated(inv(x)) * g, axis=(-2, -1), keepdims=True)
        return scale * adjoint(out) - matmul(matmul(back, g), adjoint(out))
    if n == 1:
        return g * 0
    unit = eye(n, dtype=x.dtype, device=x.device)
    body = broadcast_to(reshape(x, (*batch, 1, 1, n, n)), (*batch, n, n, n, n))
    right = broadcast_to(reshape(unit, (1, n, n, 1)), (*batch, n, n, n, 1))  # e_j
    below = broadcast_to(reshape(unit, (n, 1, 1, n)), (*batch, n, n, 1, n))  # e_i
    corner = zeros((*batch, n, n, 1, 1), dtype=x.dtype, device=x.device)
    bordered = concatenate([concatenate([body, right], axis=-1), concatenate([below, corner], axis=-1)], axis=-2)
    minors = adjugate(bordered)[..., :n, :n]
    return negative(sum_(reshape(g, (*batch, n, n, 1, 1)) * adjoint(minors), axis=(-4, -3)))


adjugate: Entry = lapack(
    "linalg_adjugate(Tensor x) -> Tensor",
    _adjugate_on_numpy,
    strict=False,
    vjp={"x": _adjugate_vjp},
    sample_inputs=square_samples,
    tags=(Tag.INTERNAL,),
)


def _scaled_by(g: Tensor, matrix: Tensor) -> Tensor:
    return reshape(g, (*g.shape, 1, 1)) * matrix


det: Entry = lapack(
    "linalg_det(Tensor x) -> Tensor",
    np.linalg.det,
    meta=lambda x: TensorSpec(x.shape[:-2], check_square("linalg.det", x)),
    vjp={"x": lambda g, x: _scaled_by(g, adjoint(adjugate(x)))},
    sample_inputs=square_samples,
    doc="""Compute the determinant of a square matrix or of each matrix of a stack.

    Args: x: shape (..., M, M), floating or complex; integers are converted to floats. Returns shape (...). The gradient
    is the adjugate, which is correct for singular matrices too. Use ``tk.linalg.slogdet`` where the determinant may
    overflow. Raises ValueError for other shapes.

    >>> tk.linalg.det(tk.asarray([[2.0, 0.0], [0.0, 4.0]])).item()
    8.0
    """,
)


def _slogdet_meta(x: Tensor) -> Any:
    dtype = check_square("linalg.slogdet", x)
    return TensorSpec(x.shape[:-2], dtype), TensorSpec(x.shape[:-2], dtypes.real_of(dtype))


def _slogdet_vjp(g: Any, x: Tensor, out: Any) -> Tensor:
    g_sign, weight = g
    if g_sign is not None and x.dtype.kind == "c":  # the sign of a real matrix is a step
        turned = imag(conj(g_sign) * out[0]) * -1j
        weight = turned if weight is None else weight + turned
    if weight is None:
        return _scaled_by(g_sign * 0, x)  # depends on g, because forward mode differentiates with respect to g
    return _scaled_by(weight, adjoint(inv(x)))


_slogdet = lapack(
    "lapack_slogdet(Tensor x) -> (Tensor, Tensor)", np.linalg.slogdet, meta=_slogdet_meta, vjp={"x": _slogdet_vjp}
)


@composite(
    "linalg_slogdet(Tensor x) -> (Tensor sign, Tensor logabsdet)",
    sample_inputs=square_samples,
)
def slogdet(x: Tensor) -> SlogdetResult:
    """Compute sign and logarithm of the absolute value of the determinant, which cannot overflow.

    Args: x: shape (..., M, M), floating or complex; integers are converted to floats. Returns a named tuple ``(sign,
    logabsdet)`` of shape (...): the sign has the dtype of x (for a complex matrix its absolute value is 1), the natural
    logarithm is real. For a singular matrix they are 0 and -inf, without a gradient. Raises ValueError for other
    shapes.

    >>> tk.linalg.slogdet(-tk.eye(3)).sign.item()
    -1.0
    """
    return SlogdetResult(*_slogdet(x))


# ---- Cholesky


def _cholesky_vjp(g: Tensor, out: Tensor, upper: bool) -> Tensor:
    if upper:
        g, out = adjoint(g), adjoint(out)
    back = adjoint(inv(out))  # triangular, and as well conditioned as the factor
    inner = half_lower(matmul(adjoint(out), g))
    return hermitian(matmul(matmul(back, inner), adjoint(back)))


def _definite_samples(rng: np.random.Generator) -> Any:
    for *batch, n in ((3,), (2, 2), (1,), (0,), (0, 2)):
        a = rng.uniform(-0.3, 0.3, (*batch, n, n))
        for upper in (False, True):
            yield (a + np.swapaxes(a, -1, -2) + (n + 2.0) * np.eye(n),), {"upper": upper}


cholesky: Entry = lapack(
    "linalg_cholesky(Tensor x, *, bool upper=False) -> Tensor",
    np.linalg.cholesky,
    error=(
        "the matrix is not positive definite (of a stack, one of them). tk.linalg.eigh takes every Hermitian matrix."
    ),
    vjp={"x": _cholesky_vjp},
    sample_inputs=_definite_samples,
    gradcheck_wrapper=lambda call, x, **options: call(hermitian(x), **options),
    doc="""Compute the triangular factor of a Hermitian positive definite matrix or of each matrix of a stack.

    Args: x: shape (..., M, M), floating or complex; integers are converted to floats. Only the lower triangle is read,
    or only the upper one if ``upper``. Returns L with ``L @ L^H = x``, or if ``upper`` U with ``U^H @ U = x``. The
    gradient is Hermitian. Raises ValueError for other shapes and for a matrix that is not positive definite (as
    ``tk.linalg.LinAlgError``).

    >>> tk.linalg.cholesky(tk.asarray([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """,
)


# ---- powers


@composite(
    "linalg_matrix_power(Tensor x, int n) -> Tensor",
    sample_inputs=lambda rng: [
        ((rng.uniform(-0.6, 0.6, shape) + np.diag(np.arange(2.0, shape[-1] + 2.0)), n), {})
        for shape in ((2, 2), (2, 3, 3), (0, 0))
        for n in (0, 1, 2, 5)
    ],
)
def matrix_power(x: Tensor, n: int) -> Tensor:
    """Multiply ``n`` copies of a square matrix; for a negative ``n``, copies of its inverse.

    Args: x: shape (..., M, M). Raises ValueError for other shapes, and with ``n < 0`` for a singular matrix.

    >>> tk.linalg.matrix_power(tk.asarray([[1, 1], [0, 1]]), 3).tolist()
    [[1, 3], [0, 1]]
    """
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        check_square("linalg.matrix_power", x)
    if n == 0:
        unit = broadcast_to(eye(x.shape[-1], dtype=x.dtype, device=x.device), x.shape)
        return unit + x * 0 if x.requires_grad else unit.clone()
    base = x if n > 0 else inv(x)
    result: Tensor | None = None
    n = abs(n)
    while True:
        if n & 1:
            result = base if result is None else matmul(result, base)
        n >>= 1
        if not n:
            assert result is not None
            return result.clone() if result is x else result
        base = matmul(base, base)
