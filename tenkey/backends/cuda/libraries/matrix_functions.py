"""Operators that consist of decompositions and products: pseudo-inverses, ranks, adjugates, the exponential."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.tensor import Tensor
from ....ops.builtin.elementwise.arithmetic import abs as abs_
from ....ops.builtin.elementwise.arithmetic import maximum
from ....ops.builtin.elementwise.comparison import isfinite, where
from ....ops.builtin.elementwise.exponential import exp2, log2
from ....ops.builtin.elementwise.rounding import ceil
from ....ops.builtin.linalg.common import adjoint, on_diagonal
from ....ops.builtin.linalg.matmul import matmul
from ....ops.builtin.reductions.cumulative import cumulative_prod
from ....ops.builtin.reductions.reduction import max as max_
from ....ops.builtin.reductions.reduction import sum as sum_
from ....ops.builtin.shape.copying import cast, flip
from ....ops.builtin.shape.views import expand_dims, reshape
from .linear_systems import determinants, factorized, solved
from .matrix_tools import as_dtype, compute_dtype, filled, fresh, stacked, turned
from .site import Site
from .spectral import decomposed, singular_values

__all__ = ["adjugate", "lstsq", "matrix_exp", "matrix_rank", "pinv"]


def _cutoff(s: Tensor, x: Tensor, rtol: Tensor | None) -> Tensor:
    """Return the value up to which a singular value counts as zero; ``s`` is not empty."""
    largest = max_(s, axis=-1, keepdims=True)
    if rtol is None:
        return largest * float(max(x.shape[-2:]) * np.finfo(s.dtype).eps)
    relative = expand_dims(rtol, -1) if rtol.ndim else rtol
    return relative * largest


def _divided(site: Site, x: Tensor, given: tuple[Tensor, ...], rtol: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return V / s and U^H, without the singular values that count as zero."""
    u, s, vh = decomposed(site, x, given, full=False)
    large = s > _cutoff(s, x, rtol)
    inverse = as_dtype(where(large, 1.0 / where(large, s, 1.0), 0.0), s.dtype)
    return adjoint(vh) * expand_dims(inverse, -2), adjoint(u)


def pinv(site: Site, spec: Any, x: Tensor, *, rtol: Tensor | None = None) -> Tensor:
    """Implement ``tk::linalg_pinv``."""
    v, uh = _divided(site, x, (x,), rtol)
    return as_dtype(matmul(v, uh), spec.dtype)


def lstsq(site: Site, spec: Any, x1: Tensor, x2: Tensor, rtol: Tensor | None = None) -> Tensor:
    """Implement ``tk::lapack_lstsq``."""
    if not x1.size or not x2.size:
        return filled(site, spec.shape, spec.dtype)
    v, uh = _divided(site, x1, (x1, x2), rtol)
    right = as_dtype(x2, compute_dtype(site.operator, x1.dtype, x2.dtype))
    return as_dtype(matmul(v, matmul(uh, right)), spec.dtype)


def matrix_rank(site: Site, spec: Any, x: Tensor, *, rtol: Tensor | None = None) -> Tensor:
    """Implement ``tk::linalg_matrix_rank``."""
    s = singular_values(site, x, (x,))
    return sum_(cast(s > _cutoff(s, x, rtol), dtypes.int64), axis=-1)


def adjugate(site: Site, spec: Any, x: Tensor) -> Tensor:
    """Implement ``tk::linalg_adjugate``: Note [Determinants of singular matrices]."""
    u, s, vh = decomposed(site, x, (x,), full=True)
    n = s.shape[-1]
    # products of all singular values except one, without division: of those before it and of those after it
    before = cumulative_prod(s, axis=-1, include_initial=True)[..., :n]
    after = flip(cumulative_prod(flip(s, axis=-1), axis=-1, include_initial=True)[..., :n], axis=-1)
    phase = reshape(
        determinants(site, stacked(fresh(site, u, u.dtype))) * determinants(site, stacked(fresh(site, vh, vh.dtype))),
        x.shape[:-2],
    )
    scale = before * after * expand_dims(phase, -1)
    return as_dtype(matmul(adjoint(vh) * expand_dims(scale, -2), adjoint(u)), spec.dtype)


# N. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005): the coefficients of the Pade
# approximation of degree 13, and the norm up to which it is exact up to rounding in double precision.
_PADE: Final = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_THETA: Final = 5.371920351148152


def matrix_exp(site: Site, spec: Any, x: Tensor) -> Tensor:
    """Implement ``tk::linalg_matrix_exp`` in double precision; the number of squarings comes back to the host."""
    wide = dtypes.complex128 if x.dtype.kind == "c" else dtypes.float64
    a = stacked(fresh(site, x, wide))
    norm = max_(sum_(abs_(a), axis=-2), axis=-1)
    finite = isfinite(norm)
    times = where(finite, maximum(ceil(log2(maximum(norm, 1e-300) / _THETA)), 0.0), 0.0)
    each = reshape(finite, (*finite.shape, 1, 1))
    a = where(each, a * reshape(exp2(-times), each.shape), 0.0)
    b = _PADE
    unit = cast(on_diagonal(a), wide)
    a2 = matmul(a, a)
    a4 = matmul(a2, a2)
    a6 = matmul(a4, a2)
    odd = matmul(a6, b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * unit
    u = matmul(a, odd)
    v = matmul(a6, b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * unit
    columns = fresh(site, v + u, wide, transposed=True)
    solved(site, factorized(site, fresh(site, v - u, wide)), columns, transposed=True)
    found = turned(columns)
    for i in range(int(max_(times).item())):
        more = reshape(times > float(i), each.shape)
        found = where(more, matmul(found, found), found)
    found = where(each, found, float("nan"))
    return as_dtype(reshape(found, spec.shape), spec.dtype)
