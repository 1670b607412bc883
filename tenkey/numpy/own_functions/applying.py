"""Functions that call functions of the user: ``apply_along_axis``, ``apply_over_axes``, ``piecewise``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..creating import asarray
from ..known import define, functions

__all__: list[str] = []


@define
def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function with each vector along an axis; its result, of any shape, replaces the axis. Differentiable.

    >>> import tenkey.numpy as tnp
    >>> tnp.apply_along_axis(lambda row: row.max() - row.min(), 1, [[1, 5, 2], [4, 4, 6]])
    array([4, 2])
    """
    dtype: list[np.dtype] = []

    def call(row: Any) -> Any:
        made = asarray(func1d(row, *args, **kwargs))
        dtype.append(made.dtype)
        return made if made.dtype == dtype[0] else made.astype(dtype[0])  # that of the first result, as in NumPy

    given = asarray(arr)
    if not -given.ndim <= axis < given.ndim:
        raise np.exceptions.AxisError(axis, given.ndim)
    i = axis % given.ndim
    lanes = functions["moveaxis"](given, i, -1)
    outer = lanes.shape[:-1]
    if 0 in outer:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    made = functions["stack"]([call(lanes[place]) for place in np.ndindex(*outer)])
    inner = made.shape[1:]
    made = functions["reshape"](made, (*outer, *inner))
    places = [len(outer) + k for k in range(len(inner))]
    return functions["moveaxis"](made, places, [i + k for k in range(len(inner))])


@define
def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    """Call ``func(a, axis)`` for one axis after another; the result of each call keeps the number of dimensions."""
    made = asarray(a)
    n = made.ndim
    for axis in np.atleast_1d(axes).tolist():
        place = axis + n if axis < 0 else axis
        found = func(made, place)
        if found.ndim != made.ndim:
            found = functions["expand_dims"](found, place)
            if found.ndim != made.ndim:
                raise ValueError("function is not returning an array of the correct shape")
        made = found
    return made


@define
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Evaluate a function defined in pieces: where a condition is true, call the function of that piece.

    A number stands for itself; one function more than conditions is for the remaining elements. Differentiable.

    >>> import tenkey.numpy as tnp
    >>> x = tnp.array([-2.0, 3.0])
    >>> tnp.piecewise(x, [x < 0, x >= 0], [lambda v: -v, 10.0])
    array([ 2., 10.])
    """
    x = asarray(x)
    if (
        not hasattr(condlist, "__getitem__")
        or not np.ndim(condlist)
        or (not isinstance(condlist[0], (list, np.ndarray)) and not getattr(condlist[0], "ndim", 0) and x.ndim)
    ):
        condlist = [condlist]
    conditions = [asarray(condition).astype(bool) for condition in condlist]
    if len(funclist) == len(conditions) + 1:
        rest = ~conditions[0]
        for condition in conditions[1:]:
            rest = rest & ~condition
        conditions.append(rest)
    elif len(funclist) != len(conditions):
        n = len(conditions)
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    made = functions["zeros_like"](x)
    for condition, function in zip(conditions, funclist):
        if not callable(function) or hasattr(function, "_word"):
            made[condition] = function
            continue
        chosen = x[condition]
        if chosen.size:
            made[condition] = function(chosen, *args, **kw)
    return made
