"""Inverses and solutions of linear systems whose matrices are tensors of more dimensions: ``tk.linalg``."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...core.tensor import Tensor
from ...dispatch.calling.public import public
from ...ops.builtin import load
from ...ops.builtin.shape.views import permute_dims, reshape
from ...ops.shapes import checked_axes
from ..creation import to_operand

load("linalg")  # Note [Operators that are declared on first use]
from ...ops.builtin.linalg.solve import inv, solve  # noqa: E402

__all__ = ["tensorinv", "tensorsolve"]


@public
def tensorinv(x: Tensor, ind: int = 2) -> Tensor:
    """Return the inverse of a tensor with respect to ``tk.tensordot`` over ``ind`` axes.

    Args: x: the product of the lengths of the first ``ind`` axes is that of the other axes. Returns the other axes
    first. Raises ValueError for other shapes and for ``ind`` below 1, LinAlgError for a singular tensor. Source:
    ``numpy.linalg.tensorinv``.

    >>> x = tk.reshape(2.0 * tk.eye(4), (4, 2, 2))
    >>> tk.linalg.tensorinv(x, ind=1).shape
    (2, 2, 4)
    """
    x = to_operand("linalg.tensorinv", x)
    if ind < 1:
        raise ValueError(f"[linalg.tensorinv] ind is the number of first axes, at least 1; got {ind}.")
    first, rest = x.shape[:ind], x.shape[ind:]
    n = math.prod(rest)
    if math.prod(first) != n:
        raise ValueError(
            f"[linalg.tensorinv] got shape {x.shape} and ind={ind}: the products of the first lengths, {first}, and of "
            f"the others, {rest}, must be equal."
        )
    return reshape(inv(reshape(x, (n, n))), (*rest, *first))


@public
def tensorsolve(x1: Tensor, x2: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Solve ``tensordot(x1, x, x.ndim) = x2`` for x.

    Args: x1: shape ``(*x2.shape, *shape)``, where the product of the lengths of ``shape`` is the size of x2. axes:
    axes of x1 to move behind the others first. Returns x of shape ``shape``. Raises ValueError for other shapes,
    LinAlgError for a singular tensor. Source: ``numpy.linalg.tensorsolve``.

    >>> x1 = tk.reshape(2.0 * tk.eye(6), (2, 3, 6))
    >>> tk.linalg.tensorsolve(x1, tk.ones((2, 3))).tolist()
    [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
    """
    x1, x2 = to_operand("linalg.tensorsolve", x1), to_operand("linalg.tensorsolve", x2)
    if axes is not None:
        moved = checked_axes("linalg.tensorsolve", tuple(axes), x1.ndim)
        x1 = permute_dims(x1, (*[i for i in range(x1.ndim) if i not in moved], *moved))
    shape = x1.shape[x2.ndim :]
    n = math.prod(shape)
    if x1.size != n * n or x2.size != n:
        raise ValueError(
            f"[linalg.tensorsolve] got shapes {x1.shape} and {x2.shape}: x1 must have as many rows (the lengths of x2) "
            "as columns (its other lengths)."
        )
    return reshape(solve(reshape(x1, (n, n)), reshape(x2, (n,))), shape)
