"""Helpers for linear algebra: checks of operands, declarations on top of LAPACK, pieces of derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ....dispatch.operator import Operator
from ....dispatch.tags import Tag
from ...declare import TensorSpec, core_dims, structured
from ...declare.batch import VmapLevel
from ..creation import arange
from ..elementwise.comparison import where
from ..elementwise.complex import conjugated
from ..shape.views import broadcast_to, expand_dims, matrix_transpose, reshape, squeeze


def inexact(operator: str, *given: np.dtype) -> np.dtype:
    """Return the floating or complex dtype of the result; raise TypeError for bools."""
    for dtype in given:
        if dtype.kind not in "iufcV":
            raise TypeError(
                f"[{operator}] is not defined for dtype {dtype}: it takes floating and complex dtypes, and integers "
                "as floats. Convert with tk.astype(x, tk.float32)."
            )
    common = given[0] if len(given) == 1 else result_dtype(given, ())
    return dtypes.default_float() if common.kind in "iu" else common


def inexact_array(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Convert integers to floats; raise TypeError for dtypes that LAPACK does not compute in."""
    return a if a.dtype.char in "dfDF" else a.astype(inexact("linalg", a.dtype))


def check_matrix(operator: str, x: Tensor) -> np.dtype:
    """Return the dtype of the result; raise ValueError unless ``x`` is a matrix or a stack of matrices."""
    if x.ndim < 2:
        raise ValueError(f"[{operator}] got shape {x.shape}: it takes a matrix, or a stack of matrices (..., M, N).")
    return inexact(operator, x.dtype)


def check_square(operator: str, x: Tensor) -> np.dtype:
    """Return the dtype of the result; raise ValueError unless the matrices are square."""
    dtype = check_matrix(operator, x)
    m, n = x.shape[-2:]
    if m != n:
        raise ValueError(
            f"[{operator}] got shape {x.shape}: the last two dimensions must be equal; {m} and {n} are not."
        )
    return dtype


def lapack(
    schema: str,
    function: Callable[..., Any],
    *,
    error: str = "the iteration did not converge; are there NaN or inf among the elements?",
    converts: bool = False,
    meta: Callable[..., Any] | None = None,
    **options: Any,
) -> Any:
    """Declare an operator on matrices or stacks of matrices that a NumPy function computes by means of LAPACK.

    ``function`` gets its first argument as floating or complex numbers, or unchanged if it ``converts`` by itself.
    ``error`` is the rule and the remedy in the text of its ``LinAlgError``. Without ``meta`` the result has the shape
    of its argument, a square matrix. ``options`` are those of ``structured``. LAPACK has no float16 and no bfloat16.
    An operator ``lapack_name`` is the derived part of a public one, which returns a named tuple.
    """
    prefix, _, name = schema.partition("(")[0].partition("_")
    operator = f"linalg.{name}"

    def on_numpy(x: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(x if converts else inexact_array(x), *args, **kwargs)
        except np.linalg.LinAlgError:
            shapes = " and ".join(str(a.shape) for a in (x, *args) if isinstance(a, np.ndarray))
            raise np.linalg.LinAlgError(f"[{operator}] got shape {shapes}: {error}") from None

    def like_argument(x: Tensor, **rest: Any) -> TensorSpec:
        return TensorSpec(x.shape, check_square(operator, x))

    declared: dict[str, Any] = {"widens": True, "strict": True, "batch": core_dims(2)}
    if prefix == "lapack":
        declared["tags"] = (Tag.DERIVED,)
    return structured(schema, meta=meta or like_argument, numpy=on_numpy, **declared | options)


def matrix_samples(rng: np.random.Generator) -> Any:
    """Yield matrices of several shapes with well-separated singular values."""
    for shape in ((3, 3), (3, 2), (2, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2), (2, 0)):
        k = min(shape[-2:])
        steep = np.zeros(shape)
        steep[..., range(k), range(k)] = 2.0 * np.arange(1.0, k + 1)
        yield rng.uniform(-0.6, 0.6, shape) + steep


def square_samples(rng: np.random.Generator) -> Any:
    """Yield calls on well-conditioned square matrices with well-separated eigenvalues."""
    for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2)):
        yield (rng.uniform(-0.6, 0.6, shape) + np.diag(3.0 * np.arange(1.0, shape[-1] + 1)),), {}


# ---- pieces of derivatives


def adjoint(x: Tensor) -> Tensor:
    """Return the conjugate transpose of the last two dimensions."""
    return conjugated(matrix_transpose(x))


def hermitian(x: Tensor) -> Tensor:
    """Return the Hermitian part."""
    return (x + adjoint(x)) * 0.5


def _indices(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the row and the column of each element of the last two dimensions."""
    m, n = x.shape[-2:]
    rows = expand_dims(arange(m, device=x.device), 1)
    columns = rows if m == n == 1 else expand_dims(arange(n, device=x.device), 0)
    return rows, columns


def on_diagonal(x: Tensor) -> Tensor:
    """Return a mask that is true on the diagonal of the last two dimensions."""
    rows, columns = _indices(x)
    return rows == columns


def half_lower(x: Tensor) -> Tensor:
    """Return the lower triangle with half of the diagonal: the part of a Hermitian matrix in a triangular factor."""
    rows, columns = _indices(x)
    return where(rows > columns, x, where(rows == columns, x * 0.5, 0.0))


def strictly_lower(x: Tensor) -> Tensor:
    """Return the elements below the diagonal, with zeros elsewhere."""
    rows, columns = _indices(x)
    return where(rows > columns, x, 0.0)


def as_diagonal(v: Tensor) -> Tensor:
    """Return the matrices with the last dimension of ``v`` on their diagonal."""
    wide = broadcast_to(expand_dims(v, -1), (*v.shape, v.shape[-1]))
    return where(on_diagonal(wide), wide, 0.0)


def reciprocal_off_diagonal(x: Tensor) -> Tensor:
    """Return ``1 / x`` off the diagonal and 0 on it."""
    on = on_diagonal(x)
    return where(on, 0.0, 1.0 / where(on, 1.0, x))


def differences(w: Tensor) -> Tensor:
    """Return the matrix of ``w[j] - w[i]``."""
    return expand_dims(w, -2) - expand_dims(w, -1)


def solve_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """Batch an operator on a stack of matrices and a stack of right-hand sides, or one vector."""
    x1, x2, *rest = args
    level.check(operator, args, kwargs)
    vector = x2.ndim == 1
    ndim = max(x1.ndim, 2 if vector else x2.ndim)
    if vector:
        columns = level.front(x2)
        right = reshape(columns, (columns.shape[0], *[1] * (ndim - 2), columns.shape[1], 1))
    else:
        right = level.aligned(x2, ndim)
    rest = [level.aligned(x, ndim - 2) for x in (*rest, *kwargs.values())]  # rtol, one for each matrix
    found = operator.call(level.aligned(x1, ndim), right, *rest)
    return level.batch(squeeze(found, -1) if vector else found)
