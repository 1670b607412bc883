"""Functions that call functions of the user: ``piecewise``, ``apply_along_axis`` and ``apply_over_axes``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dtypes.names import bool as _bool
from ..core.tensor import Tensor
from ..dispatch.calling.public import public
from ..ops.builtin.creation import zeros_like
from ..ops.builtin.indexing.advanced_indexing import index
from ..ops.builtin.indexing.setitem import put
from ..ops.builtin.shape.copying import cast, stack
from ..ops.builtin.shape.manipulation import moveaxis
from ..ops.builtin.shape.views import expand_dims, reshape
from ..ops.shapes import checked_axis
from .creation import to_operand

__all__ = ["apply_along_axis", "apply_over_axes", "piecewise"]


@public
def piecewise(
    x: Tensor, condlist: Tensor | Sequence[Tensor], funclist: Sequence[Callable[..., Any] | complex | Tensor],
    *args: Any, **kwargs: Any,
) -> Tensor:  # fmt: skip
    """Evaluate a function defined in pieces: where a condition is true, call the function of that piece.

    Conditions are bool tensors of the shape of ``x``; where several are true the last counts. A function gets the
    elements in one dimension, and ``args`` and ``kwargs``; a number stands for itself. If there is one function more
    than conditions, it is for the remaining elements, which are zero otherwise. The result has the shape and the dtype
    of ``x``; gradients reach ``x`` through the function of each element. Raises TypeError and ValueError.

    >>> x = tk.asarray([-2.0, -1.0, 3.0])
    >>> tk.piecewise(x, [x < 0, x >= 0], [lambda t: -t, lambda t: t * 10]).tolist()
    [2.0, 1.0, 30.0]
    """
    listed = list(condlist) if isinstance(condlist, (list, tuple)) else [condlist]
    x = to_operand("piecewise", x)
    conditions = [to_operand("piecewise", condition) for condition in listed]
    for condition in conditions:
        if condition.dtype != _bool or condition.shape != x.shape:
            raise ValueError(
                f"[piecewise] a condition is a bool tensor of the shape {x.shape}, got shape {condition.shape}, dtype "
                f"{condition.dtype}."
            )
    if not isinstance(funclist, (list, tuple)):
        raise TypeError(
            "[piecewise] funclist is a list of functions, numbers and tensors of one element, "
            f"got {type(funclist).__name__}."
        )
    if len(funclist) - len(conditions) not in (0, 1):
        raise ValueError(
            f"[piecewise] got {len(funclist)} functions for {len(conditions)} conditions: give one for each, and "
            "optionally one for the remaining elements."
        )
    if len(funclist) > len(conditions):
        rest = zeros_like(x, dtype=_bool) == 0
        for condition in conditions:
            rest = rest & ~condition
        conditions.append(rest)
    flat = x.reshape(-1)
    result = zeros_like(flat)
    for condition, function in zip(conditions, funclist, strict=True):
        mask = condition.reshape(-1)
        value: Any = function
        if callable(function) and not isinstance(function, Tensor):
            value = function(index(flat, [mask]), *args, **kwargs)
        if isinstance(value, Tensor) and value.dtype != x.dtype:
            value = cast(value, x.dtype)
        result = put(result, [mask], value)
    return result.reshape(x.shape)


@public
def apply_along_axis(func1d: Callable[..., Tensor], axis: int, arr: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Call a function with each vector along an axis; its result replaces the axis.

    This is a loop, for functions that depend on values; ``tk.transforms.vmap`` calls other functions once for all
    vectors. Differentiable. Raises ValueError if there is no vector to call the function with.

    >>> tk.apply_along_axis(lambda row: row[:2].sum(), 1, tk.asarray([[1, 2, 3], [4, 5, 6]])).tolist()
    [3, 9]
    """
    arr = to_operand("apply_along_axis", arr)
    if not callable(func1d):
        raise TypeError(
            f"[apply_along_axis] the first argument is a function of a vector, got {type(func1d).__name__}."
        )
    i = checked_axis("apply_along_axis", axis, arr.ndim)
    if not arr.size:
        raise ValueError(
            f"[apply_along_axis] a tensor of shape {arr.shape} has no vector along axis {axis} to call a function with."
        )
    lanes = moveaxis(arr, i, -1)
    outer = lanes.shape[:-1]
    rows = reshape(lanes, (-1, lanes.shape[-1]))
    results = stack([func1d(rows[k], *args, **kwargs) for k in range(rows.shape[0])])
    inner = results.shape[1:]
    made = reshape(results, (*outer, *inner))
    places = tuple(range(len(outer), len(outer) + len(inner)))
    return moveaxis(made, places, tuple(range(i, i + len(inner))))


@public
def apply_over_axes(func: Callable[..., Tensor], x: Tensor, axes: int | Sequence[int]) -> Tensor:
    """Call ``func(x, axis)``, such as ``tk.sum``, for one axis after another; the axes keep their places.

    The result of a call has the dimensions of ``x``, or one less, which is put back with length 1. Raises ValueError
    for another number of dimensions.

    >>> tk.apply_over_axes(tk.sum, tk.ones((2, 3, 4)), (0, 2)).tolist()
    [[[8.0], [8.0], [8.0]]]
    """
    x = to_operand("apply_over_axes", x)
    found = x
    for axis in axes if isinstance(axes, Sequence) else (axes,):
        i = checked_axis("apply_over_axes", axis, x.ndim)
        made = func(found, i)
        if made.ndim == x.ndim - 1:
            made = expand_dims(made, i)
        if made.ndim != x.ndim:
            raise ValueError(
                f"[apply_over_axes] the function returned shape {made.shape}: it must keep the dimensions of shape "
                f"{x.shape}, or remove axis {i}."
            )
        found = made
    return found
