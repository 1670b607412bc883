"""Linear algebra with arguments that a schema cannot express: an order that is a number or a string, axes or pairs of
axes. The functions call operators, so they work on every backend and have gradients.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..core.tensor import Tensor
from ..ops.builtin.elementwise.arithmetic import divide
from ..ops.builtin.linalg.common import check_matrix, check_square
from ..ops.builtin.linalg.decompositions import svdvals
from ..ops.builtin.linalg.einsum import einsum_operator
from ..ops.builtin.linalg.norms import vector_norm
from ..ops.builtin.linalg.products import contract
from ..ops.builtin.linalg.solve import inv
from ..ops.builtin.reductions.reduction import max, min, sum
from ..ops.builtin.shape.copying import cast
from ..ops.builtin.shape.views import expand_dims, permute_dims
from ..ops.shapes import checked_axes
from .creation import asarray

__all__ = ["cond", "einsum", "matrix_norm", "norm", "tensordot"]

_AXES: Final = (
    "[tensordot] got axes={axes!r}: it is a number of axes, from 0 to the smaller number of dimensions ({ndim}), or a "
    "pair of axes or of sequences of axes."
)
_ORD: Final = "[linalg.{function}] got ord={ord!r}: it is {rule}."
_SUBSCRIPTS: Final = "[einsum] got {given} as subscripts: {rule}."
_STRATEGIES: Final = frozenset(
    [None, "greedy", "optimal", "auto", "auto-hq", "dp", "dynamic-programming", "eager", "opportunistic", "branch-all",
     "branch-1", "branch-2", "random-greedy", "random-greedy-128"]
)  # fmt: skip
_NORM_AXES: Final = "[linalg.norm] got axis={axis} for shape {shape}: one axis for vectors, two for matrices."


def _tensor(function: str, x: Any) -> Tensor:
    if isinstance(x, Tensor):
        return x
    if isinstance(x, np.ndarray):  # like other operators
        return asarray(x)
    raise TypeError(f"[{function}] got {type(x).__name__} in place of a tensor: use tk.asarray.")


def tensordot(x1: Tensor, x2: Tensor, /, axes: int | Sequence[Any] = 2) -> Tensor:
    """Return the sums of products over pairs of axes of two tensors, without conjugation.

    Args: x1, x2: any dtype. axes: a number n, for the last n axes of x1 with the first n of x2, in order; or a pair:
    the axes of x1 and those of x2, each one axis or a sequence. Returns the other axes of x1, then those of x2, in the
    promoted dtype. Raises ValueError for different lengths and invalid axes, IndexError for axes out of range.

    >>> tk.tensordot(tk.ones((2, 3, 4)), tk.ones((4, 3, 5)), axes=((1, 2), (1, 0))).shape
    (2, 5)
    """
    x1, x2 = _tensor("tensordot", x1), _tensor("tensordot", x2)
    ndim = x1.ndim if x1.ndim < x2.ndim else x2.ndim  # noqa: FURB136  # min is the operator here
    if isinstance(axes, int):
        if not 0 <= axes <= ndim:
            raise ValueError(_AXES.format(axes=axes, ndim=ndim))
        return contract(x1, x2, tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes)))
    try:
        left, right = axes
    except (TypeError, ValueError):
        raise ValueError(_AXES.format(axes=axes, ndim=ndim)) from None
    return contract(x1, x2, (left,) if isinstance(left, int) else left, (right,) if isinstance(right, int) else right)


def einsum(subscripts: Any, /, *operands: Any, optimize: Any = True, out: Tensor | None = None) -> Tensor:
    """Return sums of products of elements in Einstein's notation.

    Args: subscripts: a string like ``"ij,jk->ik"``: a letter for each dimension of each operand and of the result, and
    sums over the labels missing in the result. Without ``->`` the result has the labels that occur once, in
    alphabetical order. ``...`` stands for dimensions that broadcast; a label twice in a term is a diagonal. Or the
    interleaved form, ``einsum(x, [0, 1], y, [1, 2], [0, 2])``, with integers below 52 for letters. operands: tensors of
    any dtype. optimize: accepted for compatibility with NumPy (a bool, the name of a strategy, or a path); the order is
    always optimised, by opt_einsum if installed. out: a tensor of the result's shape, which is written to and returned.
    Returns the promoted dtype. Raises ValueError for invalid subscripts and for shapes that do not match them.

    >>> x = tk.asarray([[1, 2], [3, 4]])
    >>> tk.einsum("ij,kj->ik", x, x).tolist(), tk.einsum("ii", x).item(), tk.einsum(x, [0, 1], [1, 0]).tolist()
    ([[5, 11], [11, 25]], 5, [[1, 3], [2, 4]])
    """
    if optimize.__class__ is not bool:
        _check_strategy(optimize)
    if out is not None:  # opt_einsum passes it to the last step
        made = einsum(subscripts, *operands)
        if _tensor("einsum", out).shape != made.shape:
            raise ValueError(f"[einsum] got out= of shape {out.shape}: it must have the result's, {made.shape}.")
        return out.copy_(made)
    if isinstance(subscripts, str):
        if not operands:
            raise ValueError(_SUBSCRIPTS.format(given=repr(subscripts), rule="at least one operand is needed"))
        return einsum_operator(subscripts, [_tensor("einsum", x) for x in operands])
    given = (subscripts, *operands)
    count = len(given) // 2
    terms = [_letters(term) for term in given[1 : 2 * count : 2]]
    text = ",".join(terms)
    if len(given) % 2:
        text += "->" + _letters(given[-1])
    return einsum_operator(text, [_tensor("einsum", x) for x in given[: 2 * count : 2]])


def _check_strategy(optimize: Any) -> None:
    if isinstance(optimize, (list, tuple)) or callable(optimize):
        return
    if not isinstance(optimize, (str, type(None))) or optimize not in _STRATEGIES:
        raise ValueError(
            f"[einsum] got optimize={optimize!r}: it is a bool, a path, or the name of a strategy, like 'greedy'."
        )


def _letters(labels: Any) -> str:
    """Return a term of the interleaved form as letters."""
    try:
        return "".join(
            "..."
            if label is Ellipsis
            else "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[operator.index(label)]
            for label in labels
        )
    except (TypeError, IndexError):
        rule = "each operand is followed by a sequence of integers from 0 to 51, or of ..."
        raise ValueError(_SUBSCRIPTS.format(given=repr(labels), rule=rule)) from None


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
    x = _tensor("linalg.matrix_norm", x)
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


def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return a vector norm or a matrix norm, as in ``numpy.linalg.norm``.

    Args: x: floating or complex; integers are converted to floats. ord: without an axis, None is the 2-norm of all
    elements, and any other order requires a vector or a matrix. axis: one axis for ``vector_norm``, a pair for
    ``matrix_norm``. Raises ValueError for other axes and orders.

    >>> tk.linalg.norm(tk.asarray([[3.0, 0.0], [0.0, 4.0]])).item()
    5.0
    """
    x = _tensor("linalg.norm", x)
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


def cond(x: Tensor, p: Any = None) -> Tensor:
    """Return the condition number of a matrix, or of each matrix of a stack: its norm times that of its inverse.

    Args: x: shape (..., M, N), square unless ``p`` is None, 2 or -2; floating or complex, integers become floats. p:
    the order of ``matrix_norm``; None is 2, the quotient of the largest and the smallest singular value. Returns real
    values, inf for a singular matrix. Raises ValueError for other shapes and orders.

    >>> tk.linalg.cond(tk.asarray([[4.0, 0.0], [0.0, 2.0]])).item()
    2.0
    """
    x = _tensor("linalg.cond", x)
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
