"""What the blocks of linear algebra share: which operands they take, and small pieces of their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ....dispatch.operator import Operator
from ...declare.batch import VmapLevel
from ..creation import arange
from ..elementwise.comparison import where
from ..elementwise.complex import conjugated
from ..shape.views import broadcast_to, expand_dims, matrix_transpose, reshape, squeeze

__all__ = [
    "CONVERGE", "adjoint", "as_diagonal", "check_matrix", "check_square", "differences", "half_lower", "hermitian",
    "inexact", "inexact_array", "known_linalg", "on_diagonal", "reciprocal_off_diagonal",
    "solve_batch", "strictly_lower",
]  # fmt: skip

CONVERGE: Final = "the iteration did not converge; are there NaN or inf among the elements?"


def inexact(operator: str, *given: np.dtype) -> np.dtype:
    """The dtype of the result; TypeError for bools. LAPACK has no float16 and no bfloat16: ``widens``."""
    for dtype in given:
        if dtype.kind not in "iufcV":
            raise TypeError(
                f"[{operator}] is not defined for dtype {dtype}: it takes floating and complex dtypes, and integers "
                "as floats. Convert with tk.astype(x, tk.float32)."
            )
    common = given[0] if len(given) == 1 else result_dtype(given, ())
    return dtypes.default_float() if common.kind in "iu" else common


def inexact_array(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Integers as floats; TypeError for what LAPACK does not compute in, so that NumPy functions are strict."""
    return a if a.dtype.char in "dfDF" else a.astype(inexact("linalg", a.dtype))


def check_matrix(operator: str, x: Tensor) -> np.dtype:
    """Refuse what is no matrix; the dtype of the result."""
    if x.ndim < 2:
        raise ValueError(f"[{operator}] got shape {x.shape}: it takes a matrix, or a stack of matrices (..., M, N).")
    return inexact(operator, x.dtype)


def check_square(operator: str, x: Tensor) -> np.dtype:
    """Refuse what is no square matrix; the dtype of the result."""
    dtype = check_matrix(operator, x)
    m, n = x.shape[-2:]
    if m != n:
        raise ValueError(
            f"[{operator}] got shape {x.shape}: the last two dimensions must be equal, {m} and {n} are not."
        )
    return dtype


def known_linalg(operator: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Wrap a NumPy function: NumPy's ``LinAlgError`` gets a text that names the operator, the rule and the remedy."""

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def on_numpy(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except np.linalg.LinAlgError:
                shapes = " and ".join(str(a.shape) for a in args if isinstance(a, np.ndarray))
                raise np.linalg.LinAlgError(f"[{operator}] got shape {shapes}: {text}") from None

        return on_numpy

    return wrap


# ---- pieces of derivatives


def adjoint(x: Tensor) -> Tensor:
    """Conjugate transpose of the last two dimensions."""
    return conjugated(matrix_transpose(x))


def hermitian(x: Tensor) -> Tensor:
    """The Hermitian part."""
    return (x + adjoint(x)) * 0.5


def _indices(x: Tensor) -> tuple[Tensor, Tensor]:
    """The row and the column of each element of the last two dimensions."""
    m, n = x.shape[-2:]
    rows: Tensor = expand_dims(arange(m, device=x.device), 1)
    columns: Tensor = rows if m == n == 1 else expand_dims(arange(n, device=x.device), 0)
    return rows, columns


def on_diagonal(x: Tensor) -> Tensor:
    """True on the diagonal of the last two dimensions."""
    rows, columns = _indices(x)
    return rows == columns


def half_lower(x: Tensor) -> Tensor:
    """The lower triangle with half of the diagonal: what a triangular factor takes of a Hermitian matrix."""
    rows, columns = _indices(x)
    return where(rows > columns, x, where(rows == columns, x * 0.5, 0.0))


def strictly_lower(x: Tensor) -> Tensor:
    """What lies below the diagonal, zeros elsewhere."""
    rows, columns = _indices(x)
    return where(rows > columns, x, 0.0)


def as_diagonal(v: Tensor) -> Tensor:
    """The matrices with the last dimension of ``v`` on their diagonal."""
    n = v.shape[-1]
    wide: Tensor = broadcast_to(expand_dims(v, -1), (*v.shape, n))
    return where(on_diagonal(wide), wide, 0.0)


def reciprocal_off_diagonal(x: Tensor) -> Tensor:
    """``1 / x`` beside the diagonal, 0 on it."""
    on = on_diagonal(x)
    return where(on, 0.0, 1.0 / where(on, 1.0, x))


def differences(w: Tensor) -> Tensor:
    """The matrix of ``w[j] - w[i]``."""
    return expand_dims(w, -2) - expand_dims(w, -1)


def solve_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """Rule for vmap of what takes a stack of matrices and a stack of right-hand sides, or one vector."""
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
