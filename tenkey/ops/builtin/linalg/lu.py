"""``linalg.lu``: triangular factors by elimination with row exchanges, in terms of NumPy, which does not have it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.dtypes.names import int64
from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ...declare import TensorSpec, composite
from ..creation import arange
from ..elementwise.comparison import equal
from ..results import LUResult
from ..shape.copying import cast, concatenate
from ..shape.views import expand_dims
from .common import adjoint, check_matrix, lapack, strictly_lower
from .matmul import matmul
from .solve import solve

_PANEL: Final = 32  # columns eliminated one by one, before one product updates the rest of the matrix


def _eliminate(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Overwrite a matrix with both factors and return the order of its rows, the largest pivot first."""
    m, n = a.shape
    k = min(m, n)
    order = np.arange(m)
    for start in range(0, k, _PANEL):
        stop = min(start + _PANEL, k)
        for j in range(start, stop):
            column = a[j:, j]
            # the magnitude that LAPACK compares, so that the same rows are chosen
            size = np.abs(column.real) + np.abs(column.imag) if a.dtype.kind == "c" else np.abs(column)
            p = j + int(size.argmax())
            if p != j:
                a[[j, p]] = a[[p, j]]
                order[[j, p]] = order[[p, j]]
            if a[j, j] != 0:
                a[j + 1 :, j] /= a[j, j]
                a[j + 1 :, j + 1 : stop] -= a[j + 1 :, j, None] * a[j, j + 1 : stop]
        if stop < n:
            for i in range(start + 1, stop):
                a[i, stop:] -= a[i, start:i] @ a[start:i, stop:]
            a[stop:, stop:] -= a[stop:, start:stop] @ a[start:stop, stop:]
    return order


def _factors_meta(x: Tensor) -> Any:
    dtype = check_matrix("linalg.lu", x)
    *batch, m, n = x.shape
    k = min(m, n)
    return TensorSpec((*batch, m), int64), TensorSpec((*batch, m, k), dtype), TensorSpec((*batch, k, n), dtype)


def _factors_on_numpy(x: np.ndarray[Any, Any]) -> Any:
    a = np.array(x, order="C")
    *batch, m, n = a.shape
    k = min(m, n)
    order = np.empty((*batch, m), np.int64)
    for at in np.ndindex(*batch):
        order[at] = _eliminate(a[at])
    lower = np.tril(a[..., :k], -1)
    lower[..., range(k), range(k)] = 1
    return order, lower, np.triu(a[..., :k, :])


def _permutation(order: Tensor, dtype: Any) -> Tensor:
    """Return the matrix that moves row i of the matrix behind it to row ``order[i]``."""
    rows = arange(order.shape[-1], device=order.device)
    return cast(equal(expand_dims(rows, 1), expand_dims(order, -2)), dtype)


def _factors_vjp(g: Any, x: Tensor, out: Any) -> Tensor:
    order, lower, upper = out
    if g[1] is None and g[2] is None:
        return x * 0
    g_lower = lower * 0 if g[1] is None else g[1]
    g_upper = upper * 0 if g[2] is None else g[2]
    m, n = x.shape[-2:]
    k = min(m, n)
    rest: Any = None
    if m < n:  # the part right of the square follows from the lower factor
        rest = solve(adjoint(lower), g_upper[..., k:])
        g_lower = g_lower - matmul(rest, adjoint(upper[..., k:]))
        upper, g_upper = upper[..., :k], g_upper[..., :k]
    elif m > n:  # the part below it follows from the upper factor
        rest = adjoint(solve(upper, adjoint(g_lower[..., k:, :])))
        g_upper = g_upper - matmul(adjoint(lower[..., k:, :]), rest)
        lower, g_lower = lower[..., :k, :], g_lower[..., :k, :]
    right = matmul(g_upper, adjoint(upper))
    inner = strictly_lower(matmul(adjoint(lower), g_lower)) + (right - strictly_lower(right))
    found = adjoint(solve(upper, adjoint(solve(adjoint(lower), inner))))
    if rest is not None:
        found = concatenate([found, rest], axis=-1 if m < n else -2)
    return matmul(_permutation(order, found.dtype), found)


_factors = lapack(
    "lu_factors(Tensor x) -> (Tensor, Tensor, Tensor)",
    _factors_on_numpy,
    strict=False,
    meta=_factors_meta,
    vjp={"x": _factors_vjp},
    tags=(Tag.DERIVED,),
)


def _lu_samples(rng: np.random.Generator) -> Any:
    for shape in ((3, 3), (4, 2), (2, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2), (2, 0)):
        k = min(shape[-2:])
        clear = np.zeros(shape)  # each pivot is unambiguous: rows from last to first
        clear[..., range(-1, -k - 1, -1), range(k)] = 2.0 * np.arange(1.0, k + 1)
        yield (rng.uniform(-0.6, 0.6, shape) + clear,), {}


@composite(
    "linalg_lu(Tensor x) -> (Tensor P, Tensor L, Tensor U)",
    sample_inputs=_lu_samples,
    gradcheck_wrapper=lambda call, x: tuple(call(x))[1:],  # the permutation has no gradient
)
def lu(x: Tensor) -> LUResult:
    """Compute the LU decomposition ``x = P @ L @ U`` of a matrix or of each matrix of a stack.

    Args: x: shape (..., M, N), floating or complex; integers are converted to floats. Returns a named tuple
    ``(P, L, U)``: a permutation matrix (..., M, M), real and without a gradient; a lower triangle (..., M, K) with ones
    on its diagonal and no larger elements; and an upper triangle (..., K, N), K = min(M, N). Singular matrices are
    allowed, but the gradient needs the first K columns to be independent. Raises ValueError for other shapes. Use
    ``tk.linalg.solve`` to solve equations: it is faster. Gradient: de Hoog, Anderssen and Lukas, "Differentiation of
    matrix functionals using triangular factorization" (2011).

    >>> P, L, U = tk.linalg.lu(tk.asarray([[1.0, 4.0], [2.0, 2.0]]))
    >>> P.tolist(), L.tolist(), U.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.5, 1.0]], [[2.0, 2.0], [0.0, 3.0]])
    """
    order, lower, upper = _factors(x)
    return LUResult(_permutation(order, dtypes.real_of(lower.dtype)), lower, upper)
