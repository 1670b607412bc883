"""Norms of matrices, whose order is a number or a string. The functions call operators, so they work on every backend
and have gradients.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ..core.tensor import Tensor
from ..dispatch.calling.public import public_in
from ..ops.builtin import load
from ..ops.builtin.elementwise.arithmetic import divide
from ..ops.builtin.linalg.common import check_matrix, check_square
from ..ops.builtin.reductions.reduction import max, min, sum
from ..ops.builtin.shape.copying import cast
from ..ops.builtin.shape.views import expand_dims, permute_dims
from ..ops.shapes import checked_axes
from .creation import to_operand

load("linalg")  # Note [Operators that are declared on first use]
from ..ops.builtin.linalg.decompositions import svdvals  # noqa: E402
from ..ops.builtin.linalg.norms import vector_norm  # noqa: E402
from ..ops.builtin.linalg.solve import inv  # noqa: E402

__all__ = ["cond", "matrix_norm", "norm"]

_ORD: Final = "[linalg.{function}] got ord={ord!r}: it is {rule}."
_NORM_AXES: Final = "[linalg.norm] got axis={axis} for shape {shape}: one axis for vectors, two for matrices."


@public_in("tenkey.linalg")
def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Tensor:
    """Return a norm of a matrix, or of each matrix of a stack.

    Args: x: shape (..., M, N), floating or complex; integers become floats. keepdims: shape (..., 1, 1) rather
    than (...). ord: 'fro' (or None) the square root of the sum of squares; 'nuc' the sum of the singular values, 2 the
    largest, -2 the smallest; 1 the largest sum of absolute values of a column, -1 the smallest; inf and -inf those of a
    row. Returns real values. At zero the gradient is zero. Raises ValueError for other shapes and orders.

    >>> import math
    >>> x = tk.asarray([[3.0, 0.0], [4.0, 0.0]])
    >>> [tk.linalg.matrix_norm(x, ord=p).item() for p in ("fro", 1, math.inf)]
    [5.0, 7.0, 4.0]
    """
    x = to_operand("linalg.matrix_norm", x)
    check_matrix("linalg.matrix_norm", x)
    if ord is None or ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        s = svdvals(x)
        found = sum(s, axis=-1) if ord == "nuc" else _extreme(s, -1, largest=ord == 2)
    elif ord in (1, -1, math.inf, -math.inf):
        order = float(ord)
        column = order in (1, -1)
        sums = vector_norm(x, axis=-2 if column else -1, ord=1)
        found = _extreme(sums, -1, largest=order > 0)
    else:
        raise ValueError(_ORD.format(function="matrix_norm", ord=ord, rule="'fro', 'nuc', 1, -1, 2, -2, inf or -inf"))
    return expand_dims(expand_dims(found, -1), -1) if keepdims else found


def _extreme(x: Tensor, axis: int, *, largest: bool) -> Tensor:
    """Return the largest or smallest element; without elements 0 or inf."""
    if x.shape[axis]:
        return max(x, axis=axis) if largest else min(x, axis=axis)
    return sum(x, axis=axis) if largest else sum(x, axis=axis) + math.inf


@public_in("tenkey.linalg")
def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return a vector norm or a matrix norm, as in ``numpy.linalg.norm``.

    Args: x: floating or complex; integers are converted to floats. ord: without an axis, None is the 2-norm of all
    elements, and any other order requires a vector or a matrix. axis: one axis for ``vector_norm``, a pair for
    ``matrix_norm``. Raises ValueError for other axes and orders.

    >>> tk.linalg.norm(tk.asarray([[3.0, 0.0], [0.0, 4.0]])).item()
    5.0
    """
    x = to_operand("linalg.norm", x)
    if axis is None:
        if ord is None:
            return vector_norm(x, axis=None, keepdims=keepdims)
        if x.ndim not in (1, 2):
            raise ValueError(_NORM_AXES.format(axis=axis, shape=x.shape))
        axis = tuple(range(x.ndim))
    axes = checked_axes("linalg.norm", axis, x.ndim)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(_ORD.format(function="norm", ord=ord, rule="a number for a vector"))
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=2.0 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(_NORM_AXES.format(axis=axis, shape=x.shape))
    rest = [i for i in range(x.ndim) if i not in axes]
    found = matrix_norm(permute_dims(x, (*rest, *axes)), ord=ord)
    if keepdims:
        for i in sorted(axes):
            found = expand_dims(found, i)
    return found


@public_in("tenkey.linalg")
def cond(x: Tensor, p: Any = None) -> Tensor:
    """Return the condition number of a matrix, or of each matrix of a stack: its norm times that of its inverse.

    Args: x: shape (..., M, N), square unless ``p`` is None, 2 or -2; floating or complex, integers become floats. p:
    the order of ``matrix_norm``; None is 2, the quotient of the largest and the smallest singular value. Returns real
    values, inf for a singular matrix. Raises ValueError for other shapes and orders.

    >>> tk.linalg.cond(tk.asarray([[4.0, 0.0], [0.0, 2.0]])).item()
    2.0
    """
    x = to_operand("linalg.cond", x)
    if p in (None, 2, -2):
        check_matrix("linalg.cond", x)
        s = svdvals(x)
        if not s.shape[-1]:
            raise ValueError(f"[linalg.cond] got shape {x.shape}: a matrix without elements has no condition number.")
        first, last = s[..., 0], s[..., -1]
        return divide(last, first) if p == -2 else divide(first, last)
    dtype = check_square("linalg.cond", x)
    forward = matrix_norm(x, ord=p)
    try:
        return forward * matrix_norm(inv(x), ord=p)
    except np.linalg.LinAlgError:
        if x.ndim > 2:
            raise
        return cast(forward * 0 + math.inf, forward.dtype if dtype.kind == "c" else dtype)
