"""Functions of the namespace that give tuples of tensors or call functions of yours: no operators, but made of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from ..core.dtypes.names import bool as _bool
from ..core.tensor import Tensor
from ..dispatch.bindings import allow_alone
from ..dispatch.local_state import get_state
from ..ops.builtin.creation import zeros_like
from ..ops.builtin.elementwise.comparison import where
from ..ops.builtin.indexing.advanced_indexing import index
from ..ops.builtin.indexing.selection import nonzero_rows, unravel_rows
from ..ops.builtin.indexing.setitem import put
from ..ops.builtin.shape.copying import cast, stack
from ..ops.builtin.shape.manipulation import moveaxis
from ..ops.builtin.shape.views import reshape
from ..ops.shapes import checked_axis
from .creation import asarray

__all__ = ["apply_along_axis", "nonzero", "piecewise", "unravel_index"]

_new: Final = object.__new__
_TENSOR: Final = "[{function}] takes {what}, got {kind}: convert it with tk.asarray(...)."


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The places of the elements that are not zero: for each dimension a 1-d tensor of indices (int64).

    They are in row-major order, so that ``x[tk.nonzero(x)]`` are the elements themselves. Raises ValueError for a 0-d
    tensor, NotImplementedError on the device ``meta``, where the shape of the result is not known.

    >>> import tenkey as tk
    >>> rows, columns = tk.nonzero(tk.asarray([[0, 7], [8, 0]]))
    >>> rows.tolist(), columns.tolist()
    ([0, 1], [1, 0])
    """
    if x.__class__ is not Tensor and not isinstance(x, Tensor):
        raise TypeError(_TENSOR.format(function="nonzero", what="a tensor", kind=type(x).__name__))
    if not (x._data if x.__class__ is Tensor else x).ndim:
        raise ValueError(
            "[nonzero] a 0-d tensor has no dimension whose indices could be given: use tk.reshape(x, (1,))."
        )
    rows = nonzero_rows(x)
    data = rows._data
    if data.__class__ is not np.ndarray or rows.__class__ is not Tensor or get_state() is not None:
        return tuple([rows[k] for k in range(rows.shape[0])])
    word = rows._word  # nobody watches: it needs no calls of operators to take it apart
    found = []
    for k in range(len(data)):
        row: Tensor = _new(Tensor)
        row._data = data[k]
        row._word = word
        row._storage = None
        row._autograd = None
        found.append(row)
    return tuple(found)


allow_alone(where, nonzero)  # as NumPy's users write tk.where(condition), and libraries that PyTorch runs


def unravel_index(indices: Tensor, shape: int | Sequence[int], /) -> tuple[Tensor, ...]:
    """The coordinates of flat, row-major indices in an array of ``shape``: for each dimension a tensor (int64).

    Raises TypeError for indices that are no integers, ValueError for one that is out of range.

    >>> import tenkey as tk
    >>> [i.tolist() for i in tk.unravel_index(tk.asarray([5, 0]), (2, 3))]
    [[1, 0], [2, 0]]
    """
    try:
        dims = tuple([operator.index(n) for n in shape]) if isinstance(shape, Iterable) else (operator.index(shape),)
    except TypeError:
        raise TypeError(f"[unravel_index] the shape is an int or a sequence of ints, got {shape!r}.") from None
    rows = unravel_rows(indices, dims)
    return tuple([rows[k] for k in range(len(dims))])


def piecewise(
    x: Tensor,
    condlist: Tensor | Sequence[Tensor],
    funclist: Sequence[Callable[..., Any] | complex | Tensor],
    *args: Any,
    **kwargs: Any,
) -> Tensor:
    """A function given in pieces: where a condition is true, the function of that piece is called with the elements.

    Conditions are tensors of bools of the shape of ``x``; where several are true the last counts. A function gets the
    elements in one dimension, and ``args`` and ``kwargs``; a number stands for itself. One function more than there
    are conditions is for the rest, which is zero otherwise. The result has the shape and the dtype of ``x``; gradients
    reach ``x`` through the function of each element. Raises TypeError and ValueError.

    >>> import tenkey as tk
    >>> x = tk.asarray([-2.0, -1.0, 3.0])
    >>> tk.piecewise(x, [x < 0, x >= 0], [lambda t: -t, lambda t: t * 10]).tolist()
    [2.0, 1.0, 30.0]
    """
    if not isinstance(x, Tensor):
        raise TypeError(_TENSOR.format(function="piecewise", what="tensors", kind=type(x).__name__))
    listed = list(condlist) if isinstance(condlist, (list, tuple)) else [condlist]
    conditions: list[Any] = [asarray(c) if isinstance(c, np.ndarray) else c for c in listed]
    for condition in conditions:
        if not isinstance(condition, Tensor):
            raise TypeError(_TENSOR.format(function="piecewise", what="tensors", kind=type(condition).__name__))
        if condition.dtype != _bool or condition.shape != x.shape:
            raise ValueError(
                f"[piecewise] a condition is a tensor of bools of the shape {x.shape}, got shape {condition.shape}, "
                f"dtype {condition.dtype}."
            )
    if not isinstance(funclist, (list, tuple)):
        raise TypeError(
            "[piecewise] funclist is a list of functions, numbers and tensors of one element, "
            f"got {type(funclist).__name__}."
        )
    if len(funclist) == len(conditions) + 1:
        rest = ~conditions[0] if conditions else zeros_like(x, dtype=_bool) == 0
        for condition in conditions[1:]:
            rest = rest & ~condition
        conditions.append(rest)
        pairs = list(zip(conditions, funclist, strict=True))
    elif len(funclist) == len(conditions):
        pairs = list(zip(conditions, funclist, strict=True))
    else:
        raise ValueError(
            f"[piecewise] got {len(funclist)} functions for {len(conditions)} conditions: one for each, and perhaps "
            "one for the rest."
        )
    flat = x.reshape(-1)
    result = zeros_like(flat)
    for condition, function in pairs:
        mask = condition.reshape(-1)
        value: Any = function
        if callable(function) and not isinstance(function, Tensor):
            value = function(index(flat, [mask]), *args, **kwargs)
        if isinstance(value, Tensor) and value.dtype != x.dtype:
            value = cast(value, x.dtype)
        result = put(result, [mask], value)
    return result.reshape(x.shape)


def apply_along_axis(func1d: Callable[..., Tensor], axis: int, arr: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """What a function makes of each vector along an axis: its result takes the place of the axis.

    A loop over the vectors, for functions that look at values; ``tk.transforms.vmap`` calls others once for all.
    Differentiable. Raises ValueError where there is no vector to call the function with.

    >>> import tenkey as tk
    >>> tk.apply_along_axis(lambda row: row[:2].sum(), 1, tk.asarray([[1, 2, 3], [4, 5, 6]])).tolist()
    [3, 9]
    """
    if not isinstance(arr, Tensor):
        raise TypeError(_TENSOR.format(function="apply_along_axis", what="a tensor", kind=type(arr).__name__))
    if not callable(func1d):
        raise TypeError(
            f"[apply_along_axis] the first argument is a function of a vector, got {type(func1d).__name__}."
        )
    i = checked_axis("apply_along_axis", axis, arr.ndim)
    lanes = moveaxis(arr, i, -1)
    outer = lanes.shape[:-1]
    rows = reshape(lanes, (-1, lanes.shape[-1])) if lanes.size else lanes
    if not lanes.size:
        raise ValueError(
            f"[apply_along_axis] a tensor of shape {arr.shape} has no lane along axis {axis} to call the function with."
        )
    results = stack([func1d(rows[k], *args, **kwargs) for k in range(rows.shape[0])])
    inner = results.shape[1:]
    made = reshape(results, (*outer, *inner))
    places = tuple(range(len(outer), len(outer) + len(inner)))
    return moveaxis(made, places, tuple(range(i, i + len(inner))))
