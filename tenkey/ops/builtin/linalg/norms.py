"""Norms, ranks, pseudo-inverses, least squares and the matrix exponential."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.tensor import Tensor
from ...declare import Decomposition, Entry, TensorSpec, along, composite, structured
from ...declare.samples import normal
from ...shapes import broadcast_shapes, reduced_shape, refuse_empty
from ..elementwise.arithmetic import abs as abs_
from ..elementwise.arithmetic import maximum, sign
from ..elementwise.comparison import isfinite, not_equal, where
from ..elementwise.complex import imag, like_operand, real, squared_size
from ..elementwise.exponential import sqrt
from ..elementwise.trigonometry import hypot
from ..reductions.reduction import max as max_
from ..reductions.reduction import min as min_
from ..reductions.reduction import restore_axes
from ..reductions.reduction import sum as sum_
from ..results import LstsqResult
from ..shape.copying import as_dtype, cast, concatenate
from ..shape.views import expand_dims, reshape, squeeze
from .common import adjoint, check_matrix, inexact, inexact_array, lapack, matrix_samples, solve_batch
from .decompositions import svdvals
from .matmul import matmul

_add_up: Any = np.add.reduce  # its type stubs accept only a literal keepdims

# ---- vector norms


def _norm_meta(x: Tensor, *, axis: Any = None, keepdims: bool = False, ord: float = 2.0) -> TensorSpec:
    dtype = dtypes.real_of(inexact("linalg.vector_norm", x.dtype))
    if ord < 0:
        refuse_empty("linalg.vector_norm", x.shape, axis)
    return TensorSpec(reduced_shape("linalg.vector_norm", x.shape, axis, keepdims), dtype)


# sums of squares between these bounds are exact up to rounding, by dtype
_LIMITS: Final = {char: (float(np.finfo(char).tiny / np.finfo(char).eps), float(np.finfo(char).max)) for char in "fdFD"}


def _sum_of_squares(x: np.ndarray[Any, Any], axis: Any, keepdims: bool) -> Any:
    if x.dtype.kind == "c":
        return _add_up(np.square(x.real) + np.square(x.imag), axis, keepdims=keepdims)
    return _add_up(x * x, axis, keepdims=keepdims)


def _largest(size: np.ndarray[Any, Any], axis: Any) -> Any:
    """Return the largest elements along axes, or 1 where they are zero or not finite."""
    largest = np.max(size, axis, initial=0, keepdims=True)
    return np.where((largest > 0) & np.isfinite(largest), largest, np.ones_like(largest))


def _euclidean(x: np.ndarray[Any, Any], axis: Any, keepdims: bool) -> Any:
    least, most = _LIMITS[x.dtype.char]
    if axis is None and not keepdims and x.dtype.kind == "f":
        flat = x.ravel()
        total = flat.dot(flat)
        if least < total < most or not flat.size:
            return np.sqrt(total)
    total = _sum_of_squares(x, axis, keepdims)
    if not total.size or (total.min() > least and total.max() < most):
        return np.sqrt(total)
    if total.max() < most and not np.any(x, axis, keepdims=keepdims)[total <= least].any():
        return np.sqrt(total)  # what is small is zero, as on the diagonal of a matrix of distances
    # the squares overflow or underflow, but the norm need not: divide by the largest element first
    size = np.maximum(np.abs(x.real), np.abs(x.imag)) if x.dtype.kind == "c" else np.abs(x)
    scale = _largest(size, axis)
    if x.dtype.kind == "c":  # part by part: the quotient of a complex infinity has a NaN in its other part
        total = _add_up(np.square(x.real / scale) + np.square(x.imag / scale), axis, keepdims=True)
    else:
        total = _sum_of_squares(x / scale, axis, True)
    found = np.sqrt(total) * scale
    return found if keepdims else np.squeeze(found, axis)


def _norm_on_numpy(x: np.ndarray[Any, Any], *, axis: Any = None, keepdims: bool = False, ord: float = 2.0) -> Any:
    x = inexact_array(x)
    if ord == 2:
        return _euclidean(x, axis, keepdims)
    if ord < 0:
        refuse_empty("linalg.vector_norm", x.shape, axis)
    size = np.abs(x)
    if ord == 1:
        return _add_up(size, axis, keepdims=keepdims)
    if ord == math.inf:
        return np.max(size, axis, initial=0, keepdims=keepdims)
    if ord == -math.inf:
        return np.min(size, axis, keepdims=keepdims)
    if ord == 0:
        return _add_up(x != 0, axis, dtype=size.dtype, keepdims=keepdims)
    scale = _largest(size, axis)
    found = _add_up((size / scale) ** ord, axis, keepdims=True) ** size.dtype.type(1 / ord) * scale
    return found if keepdims else np.squeeze(found, axis)


def _norm_parts(x: Tensor, *, axis: Any = None, keepdims: bool = False, ord: float = 2.0) -> Tensor:
    result = _norm_meta(x, axis=axis, keepdims=keepdims, ord=ord).dtype
    wide = inexact("linalg.vector_norm", x.dtype)
    x = as_dtype(x, dtypes.float32 if wide.itemsize == 2 else wide)
    parts = [real(x), imag(x)] if x.dtype.kind == "c" else [x]
    size = hypot(*parts) if len(parts) > 1 else abs_(x)
    options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if not x.size:
        return as_dtype(sum_(size, **options), result)
    if ord in (0, 1):
        found = sum_(size if ord else cast(not_equal(size, 0), size.dtype), **options)
    elif math.isinf(ord):
        found = (max_ if ord > 0 else min_)(size, **options)
    else:
        largest = max_(maximum(*map(abs_, parts)) if len(parts) > 1 and ord == 2 else size, axis=axis, keepdims=True)
        scale = where((largest > 0) & isfinite(largest), largest, 1.0)
        if ord == 2:  # part by part: the quotient of a complex infinity has a NaN in its other part
            squares = [(part / scale) * (part / scale) for part in parts]
            found = sqrt(sum_(squares[0] + squares[1] if len(squares) > 1 else squares[0], **options))
        else:
            found = sum_((size / scale) ** ord, **options) ** (1 / ord)
        found = found * (scale if keepdims else reshape(scale, found.shape))
    return as_dtype(found, result)


def _modulus(x: Tensor) -> Tensor:
    """Return the absolute values, without a NaN in the derivatives at zero."""
    if x.dtype.kind != "c":
        return abs_(x)
    squares = squared_size(x)
    zero = squares == 0
    return where(zero, 0.0, sqrt(where(zero, 1.0, squares)))


def _norm_vjp(g: Tensor, x: Tensor, out: Tensor, axis: Any, keepdims: bool, ord: float) -> Tensor:
    """Return the gradient; at zero, where a norm has no derivative, the subgradient 0. Ties share it equally."""
    g = restore_axes(g, x.shape, axis, keepdims)
    n = restore_axes(out, x.shape, axis, keepdims)
    if not x.size:
        return x * 0
    none = n == 0
    safe = where(none, 1.0, n)
    if ord == 0:
        return x * 0
    if ord == 2:
        return x * where(none, 0.0, g / safe)
    size = _modulus(x)
    zero = size == 0
    held = where(zero, 1.0, size)
    unit = sign(x)  # its derivative at zero is zero, unlike that of x / held
    if ord == 1:
        return unit * g
    if abs(ord) == math.inf:
        chosen = size == (max_ if ord > 0 else min_)(size, axis=axis, keepdims=True)
        share = where(chosen, g, 0.0) / sum_(chosen, axis=axis, keepdims=True)
        return unit * (share if share.dtype == g.dtype else cast(share, g.dtype))
    return unit * where(zero | none, 0.0, (held / safe) ** (ord - 1.0) * g)


vector_norm: Entry = structured(
    "linalg_vector_norm(Tensor x, *, int[1]? axis=None, bool keepdims=False, float ord=2.0) -> Tensor",
    autocast="float32",
    meta=_norm_meta,
    numpy=_norm_on_numpy,
    widens=True,
    strict=True,
    decomposition=Decomposition(_norm_parts, needs=("reduction",)),
    vjp={"x": _norm_vjp},
    sample_inputs=normal(
        *[
            ([3, 4], {"axis": axis, "keepdims": keepdims, "ord": order})
            for order in (2, 1, 3, math.inf, -math.inf, 0.5, -1.5)
            for axis, keepdims in ((None, False), (1, True), ((0, 1), False))
        ],
        [],
        ([0, 2], {"axis": 0}),
    ),
    batch=along("axis"),
    doc="""Compute the norm ``(sum(abs(x)**ord))**(1 / ord)`` of the elements along axes.

    Args: x: floating or complex; integers are converted to floats. axis: one axis or several, None for all. ord: any
    number; ``inf`` is the largest absolute value, ``-inf`` the smallest, 0 the number of elements that are not zero.
    Returns real values; squares may overflow or underflow in between. The gradient at zero is zero; elements that tie
    for ``inf`` share it. Raises IndexError for an axis out of range, ValueError for a negative ``ord`` of no elements.

    >>> tk.linalg.vector_norm(tk.asarray([3.0, 4.0])).item()
    5.0
    """,
)

# ---- ranks and pseudo-inverses


def _cutoff(s: np.ndarray[Any, Any], shape: tuple[int, ...], rtol: Any) -> Any:
    relative = max(shape[-2:]) * np.finfo(s.dtype).eps if rtol is None else np.asarray(rtol)[..., None]
    return relative * np.max(s, -1, initial=0, keepdims=True)


def _rank_on_numpy(x: np.ndarray[Any, Any], *, rtol: Any = None) -> Any:
    s = np.linalg.svd(x, compute_uv=False)
    return np.add.reduce(s > _cutoff(s, x.shape, rtol), -1, np.int64)


def _rank_meta(x: Tensor, *, rtol: Tensor | None = None) -> TensorSpec:
    check_matrix("linalg.matrix_rank", x)
    batch = x.shape[:-2] if rtol is None else broadcast_shapes("linalg.matrix_rank", x.shape[:-2], rtol.shape)
    return TensorSpec(batch, dtypes.int64)


matrix_rank: Entry = lapack(
    "linalg_matrix_rank(Tensor x, *, Tensor? rtol=None) -> Tensor",
    _rank_on_numpy,
    meta=_rank_meta,
    differentiable=False,
    sample_inputs=normal([3, 3], [2, 3, 2], [0, 2], [1, 1]),
    doc="""Count the singular values that are larger than ``rtol`` times the largest one.

    Args: x: shape (..., M, N), floating or complex; integers are converted to floats. rtol: a number, or one for each
    matrix; None stands for max(M, N) times the machine epsilon. Returns integers, shape (...). Raises ValueError for
    other shapes.

    >>> tk.linalg.matrix_rank(tk.ones((3, 3))).item()
    1
    """,
)


def _pinv_meta(x: Tensor, *, rtol: Tensor | None = None) -> TensorSpec:
    dtype = check_matrix("linalg.pinv", x)
    return TensorSpec((*x.shape[:-2], x.shape[-1], x.shape[-2]), dtype)


def _divided(u: Any, s: Any, vh: Any, shape: tuple[int, ...], rtol: Any) -> tuple[Any, Any]:
    """Return V / s and U^H, without the singular values that count as zero."""
    large = s > _cutoff(s, shape, rtol)
    inverse = np.where(large, 1 / np.where(large, s, 1), 0).astype(s.dtype)
    return np.conj(np.swapaxes(vh, -1, -2)) * inverse[..., None, :], np.conj(np.swapaxes(u, -1, -2))


def _pinv_on_numpy(x: np.ndarray[Any, Any], *, rtol: Any = None) -> Any:
    v, uh = _divided(*np.linalg.svd(x, full_matrices=False), x.shape, rtol)
    return v @ uh


def _pinv_vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Return the gradient where the rank is locally constant (Golub and Pereyra, 1973)."""
    p, ph, gh = out, adjoint(out), adjoint(g)
    first = matmul(matmul(ph, g), ph)
    second = matmul(gh, matmul(p, ph))
    third = matmul(matmul(ph, p), gh)
    return (second - matmul(x, matmul(p, second))) + (third - matmul(matmul(third, p), x)) - first


pinv: Entry = lapack(
    "linalg_pinv(Tensor x, *, Tensor? rtol=None) -> Tensor",
    _pinv_on_numpy,
    meta=_pinv_meta,
    vjp={"x": _pinv_vjp},
    sample_inputs=lambda rng: [((x,), {}) for x in matrix_samples(rng)],
    doc="""Compute the Moore-Penrose inverse of a matrix or of each matrix of a stack.

    Args: x: shape (..., M, N), floating or complex; integers are converted to floats. rtol: a number, or one for each
    matrix; singular values up to ``rtol`` times the largest count as zero, and None stands for max(M, N) times the
    machine epsilon. Returns shape (..., N, M). The gradient assumes a constant rank. Raises ValueError for other
    shapes.

    >>> tk.linalg.pinv(tk.asarray([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """,
)


def _lstsq_meta(x1: Tensor, x2: Tensor, rtol: Tensor | None = None) -> Any:
    check_matrix("linalg.lstsq", x1)
    *batch, m, n = x1.shape
    if x2.ndim < 2 or x2.shape[-2] != m:
        raise ValueError(
            f"[linalg.lstsq] got x1 of shape {x1.shape} and x2 of shape {x2.shape}: x2 must be a vector (M,) or "
            f"matrices (..., M, K), where M = {m}."
        )
    dtype = inexact("linalg.lstsq", x1.dtype, x2.dtype)
    lead = broadcast_shapes("linalg.lstsq", tuple(batch), x2.shape[:-2])
    return TensorSpec((*lead, n, x2.shape[-1]), dtype)


def _lstsq_on_numpy(x1: np.ndarray[Any, Any], x2: np.ndarray[Any, Any], rtol: Any = None) -> Any:
    dtype = inexact("linalg.lstsq", x1.dtype, x2.dtype)
    a, b = x1.astype(dtype, copy=False), x2.astype(dtype, copy=False)
    v, uh = _divided(*np.linalg.svd(a, full_matrices=False), a.shape, rtol)
    return v @ (uh @ b)


def _lstsq_left(g: Tensor, x1: Tensor, x2: Tensor, rtol: Any) -> Tensor:
    """Return the gradient of the product of the pseudo-inverse with the right-hand side."""
    if x1.dtype.kind in "iu":
        return x1
    return like_operand(_pinv_vjp(matmul(g, adjoint(x2)), x1, pinv(x1, rtol=rtol)), x1)


_lstsq: Entry = lapack(
    "lapack_lstsq(Tensor x1, Tensor x2, Tensor? rtol=None) -> Tensor",
    _lstsq_on_numpy,
    converts=True,
    strict=False,
    meta=_lstsq_meta,
    vjp={
        "x1": _lstsq_left,
        "x2": lambda g, x1, x2_meta, rtol: like_operand(matmul(adjoint(pinv(x1, rtol=rtol)), g), x2_meta),
    },
    batch=solve_batch,
)


@composite(
    "linalg_lstsq(Tensor x1, Tensor x2, Tensor? rcond=None, *, Tensor? rtol=None) "
    "-> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    sample_inputs=lambda rng: [
        ((x, rng.standard_normal((*x.shape[:-1], *([] if vector else [2])))), {})
        for x in matrix_samples(rng)
        for vector in ((True, False) if x.ndim == 2 else (False,))
    ],
    gradcheck_wrapper=lambda call, x1, x2: tuple([t for t in call(x1, x2) if t.dtype.kind in "fc"]),
)
def lstsq(x1: Tensor, x2: Tensor, rcond: Tensor | None = None, *, rtol: Tensor | None = None) -> LstsqResult:
    """Find the vectors x that minimize the length of ``x1 @ x - x2``; if there are several, the shortest.

    Args: x1: shape (..., M, N). x2: a vector (M,), or matrices (..., M, K); the leading dimensions broadcast. rtol: as
    for ``pinv``; NumPy calls it ``rcond`` here. Returns a named tuple: ``solution``, shape (N,) or (..., N, K);
    ``residuals``, the sums of squared residuals, shape () or (..., K); ``rank`` and ``singular_values`` of x1. The
    gradient assumes a constant rank. Raises ValueError for other shapes, TypeError for both ``rtol`` and ``rcond``.
    Computed from singular values, as LAPACK's gelsd does.

    >>> x1, x2 = tk.asarray([[1.0], [1.0]]), tk.asarray([1.0, 3.0])
    >>> found = tk.linalg.lstsq(x1, x2)
    >>> round(found.solution.item(), 4), round(found.residuals.item(), 4)
    (2.0, 2.0)
    """
    if rcond is not None:
        if rtol is not None:
            raise TypeError("[linalg.lstsq] got rcond and rtol, two names for one argument: pass one of them.")
        rtol = rcond
    check_matrix("linalg.lstsq", x1)
    if x2.ndim == 1 and x2.shape[0] == x1.shape[-2]:
        found = _lstsq(x1, expand_dims(x2, -1), rtol)
        residual = squeeze(matmul(as_dtype(x1, found.dtype), found), -1) - x2
        solution = squeeze(found, -1)
        residuals = sum_(squared_size(residual), axis=-1)
    else:
        solution = _lstsq(x1, x2, rtol)
        residuals = sum_(squared_size(matmul(as_dtype(x1, solution.dtype), solution) - x2), axis=-2)
    return LstsqResult(solution, residuals, matrix_rank(x1, rtol=rtol), svdvals(x1))


# ---- the exponential

# N. Higham, "The scaling and squaring method for the matrix exponential revisited" (2005): the coefficients of the Pade
# approximation of degree 13, and the norm up to which it is exact up to rounding in double precision.
_PADE: Final = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_THETA: Final = 5.371920351148152


def _exp_on_numpy(x: np.ndarray[Any, Any]) -> Any:
    dtype = x.dtype
    a = x.astype(np.complex128 if dtype.kind == "c" else np.float64)
    if not a.size:
        return a.astype(dtype)
    shape = a.shape
    n = shape[-1]
    a = a.reshape(-1, n, n)
    norm = np.max(np.sum(np.abs(a), -2), -1)
    times = np.zeros(len(a), np.int64)
    finite = np.isfinite(norm)
    times[finite] = np.maximum(0, np.ceil(np.log2(np.maximum(norm[finite], 1e-300) / _THETA))).astype(np.int64)
    a = a / np.ldexp(1.0, times)[:, None, None]
    b, unit = _PADE, np.eye(n)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    u = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * unit)
    v = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * unit
    found = np.full_like(a, np.nan)
    found[finite] = np.linalg.solve((v - u)[finite], (v + u)[finite])
    for i in range(int(times.max())):
        more = times > i
        found[more] = found[more] @ found[more]
    return found.reshape(shape).astype(dtype)


def _exp_vjp(g: Tensor, x: Tensor) -> Tensor:
    """Read the derivative at x^H in the direction of g off the exponential of a block matrix (C. Van Loan, 1978)."""
    n = x.shape[-1]
    a = adjoint(x)
    blocks = concatenate([concatenate([a, g], axis=-1), concatenate([a * 0, a], axis=-1)], axis=-2)
    return matrix_exp(blocks)[..., :n, n:]


matrix_exp: Entry = lapack(
    "linalg_matrix_exp(Tensor x) -> Tensor",
    _exp_on_numpy,
    strict=False,
    vjp={"x": _exp_vjp},
    sample_inputs=lambda rng: [
        ((rng.uniform(-0.9, 0.9, shape),), {}) for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2))
    ],
    doc="""Compute the matrix exponential of a square matrix or of each matrix of a stack.

    Args: x: shape (..., M, M), floating or complex; integers are converted to floats. Scales and squares with a Pade
    approximation (Higham, 2005) in double precision. Raises ValueError for other shapes.

    >>> tk.linalg.matrix_exp(tk.asarray([[0.0, 1.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """,
)
