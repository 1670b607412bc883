"""Products with arguments that a schema cannot express: pairs of axes, subscripts. The functions call operators, so
they work on every backend and have gradients.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final

from ..core.tensor import Tensor
from ..dispatch.calling.public import public
from ..ops.builtin import load
from .creation import refuse_other, to_operand

load("linalg.products")
load("linalg.einsum")  # Note [Operators that are declared on first use]
from ..ops.builtin.linalg.einsum import einsum_operator  # noqa: E402
from ..ops.builtin.linalg.products import contract  # noqa: E402

__all__ = ["einsum", "tensordot"]

_AXES: Final = (
    "[tensordot] got axes={axes!r}: it is a number of axes, from 0 to the smaller number of dimensions ({ndim}), or a "
    "pair of axes or of sequences of axes."
)
_SUBSCRIPTS: Final = "[einsum] got {given} as subscripts: {rule}."
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_STRATEGIES: Final = frozenset(
    [None, "greedy", "optimal", "auto", "auto-hq", "dp", "dynamic-programming", "eager", "opportunistic", "branch-all",
     "branch-1", "branch-2", "random-greedy", "random-greedy-128"]
)  # fmt: skip


@public
def tensordot(x1: Tensor, x2: Tensor, /, axes: int | Sequence[Any] = 2) -> Tensor:
    """Return the sums of products over pairs of axes of two tensors, without conjugation.

    Args: x1, x2: any dtype. axes: a number n, for the last n axes of x1 with the first n of x2, in order; or a pair:
    the axes of x1 and those of x2, each one axis or a sequence. Returns the other axes of x1, then those of x2, in the
    promoted dtype. Raises ValueError for different lengths and invalid axes, IndexError for axes out of range.

    >>> tk.tensordot(tk.ones((2, 3, 4)), tk.ones((4, 3, 5)), axes=((1, 2), (1, 0))).shape
    (2, 5)
    """
    x1, x2 = to_operand("tensordot", x1), to_operand("tensordot", x2)
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


@public
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
        refuse_other("einsum", out)
        if out.shape != made.shape:
            raise ValueError(f"[einsum] got out= of shape {out.shape}: it must have the result's, {made.shape}.")
        return out.copy_(made)
    if isinstance(subscripts, str):
        if not operands:
            raise ValueError(_SUBSCRIPTS.format(given=repr(subscripts), rule="at least one operand is needed"))
        return einsum_operator(subscripts, [to_operand("einsum", x) for x in operands])
    given = (subscripts, *operands)
    count = len(given) // 2
    terms = [_letters(term) for term in given[1 : 2 * count : 2]]
    text = ",".join(terms)
    if len(given) % 2:
        text += "->" + _letters(given[-1])
    return einsum_operator(text, [to_operand("einsum", x) for x in given[: 2 * count : 2]])


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
        return "".join("..." if label is Ellipsis else _LETTERS[operator.index(label)] for label in labels)
    except (TypeError, IndexError):
        rule = "each operand is followed by a sequence of integers from 0 to 51, or of ..."
        raise ValueError(_SUBSCRIPTS.format(given=repr(labels), rule=rule)) from None
