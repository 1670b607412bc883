"""Functions that write into their first argument: ``copyto``, ``put``, ``place``, ``fill_diagonal`` and others.

Values are converted to the dtype of the array that receives them; their gradients flow on from it, as from an
assignment. Into a NumPy array as the first argument NumPy itself writes, with the values of tensors that require no
gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import functions
from ...core.tensor import Tensor
from ...core.tree import map_tensors
from ...functions.rearranging import grids, writing
from ...interop.numpy_fallback import op
from ..creating import array
from ..known import define

__all__: list[str] = []


def _on_arrays(name: str, *args: Any, **kwargs: Any) -> None:
    """Let NumPy write into an array of its own."""
    given, options = map_tensors(lambda x: x._to_numpy(f"numpy.{name}"), (args, kwargs))
    getattr(np, name)(*given, **options)


def _no_cast(name: str, given: np.dtype, wanted: np.dtype, rule: Any = "safe") -> TypeError:
    return TypeError(
        f"[numpy.{name}] Cannot cast array data from {given!r} to {wanted!r} according to the rule {rule!r}"
    )


def _values(a: Any, v: Any) -> Any:
    """Return values in the dtype of the array."""
    made = array(v, copy=None, device=None if isinstance(v, Tensor) else a.device)
    return made if made.dtype == a.dtype else made.astype(a.dtype)


@define
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Write the values of ``src`` into ``dst``, where the condition holds.

    >>> import tenkey.numpy as tnp
    >>> x = tnp.zeros(3)
    >>> tnp.copyto(x, [1, 2, 3], where=[True, False, True])
    >>> x
    array([1., 0., 3.])
    """
    if isinstance(dst, np.ndarray):
        _on_arrays("copyto", dst, src, casting=casting, where=where)
        return
    if not isinstance(dst, Tensor):
        raise TypeError(f"[numpy.copyto] copyto() argument 1 must be an array, not {type(dst).__name__}")
    if not isinstance(src, Tensor) and np.ndim(src) == 0:
        holder = np.empty((), dst.dtype)
        np.copyto(holder, src, casting)
        value = array(holder, device=dst.device)
    else:
        value = array(src, copy=None)
        if not np.can_cast(value.dtype, dst.dtype, casting):
            raise _no_cast("copyto", value.dtype, dst.dtype, casting)
        value = value if value.dtype == dst.dtype else value.astype(dst.dtype)
    if not isinstance(where, Tensor) and np.ndim(where) == 0 and not where:
        return
    if isinstance(where, Tensor) or np.ndim(where):
        chosen = array(where, copy=None)
        if chosen.dtype.kind != "b":
            raise _no_cast("copyto", chosen.dtype, np.dtype(bool))
        while value.ndim > dst.ndim and value.shape[0] == 1:
            value = value[0]
        np.broadcast_shapes(dst.shape, chosen.shape)
        value = op("where")(chosen, value, dst)
    dst[...] = value


@define
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Write values at indices of the flattened array, in place; they are repeated if there are fewer than indices."""
    if isinstance(a, np.ndarray):
        _on_arrays("put", a, ind, v, mode)
        return
    if not isinstance(a, Tensor):
        raise TypeError(f"[numpy.put] argument 1 must be an array, not {type(a).__name__}")
    at = array(ind, copy=None)
    if isinstance(ind, (Tensor, np.ndarray)) and not np.can_cast(at.dtype, np.int64, "safe") and at.size:
        raise _no_cast("put", at.dtype, np.dtype(np.int64))
    if not a.size and at.size:
        raise IndexError("cannot replace elements of an empty array")
    writing.put(a, at.astype(np.int64), _values(a, v), mode)


@define
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Write the first values, in order, where a mask is true, in place; they are repeated if there are fewer."""
    if isinstance(arr, np.ndarray):
        _on_arrays("place", arr, mask, vals)
        return
    if not isinstance(arr, Tensor):
        raise TypeError(f"[numpy.place] argument 1 must be an array, not {type(arr).__name__}")
    writing.place(arr, array(mask, copy=None), _values(arr, vals))


@define
def putmask(a: Any, mask: Any, values: Any) -> None:
    """Write, where a mask is true, the value at the same place, in place; values are repeated if there are fewer."""
    if isinstance(a, np.ndarray):
        _on_arrays("putmask", a, mask, values)
        return
    if not isinstance(a, Tensor):
        raise TypeError(f"[numpy.putmask] argument 1 must be an array, not {type(a).__name__}")
    if isinstance(values, Tensor):
        if not np.can_cast(values.dtype, a.dtype):
            raise _no_cast("putmask", values.dtype, a.dtype)
    elif not np.ndim(values):
        np.putmask(np.empty(1, a.dtype), [True], values)  # which refuses what does not fit
    writing.putmask(a, array(mask, copy=None), _values(a, values))


@define
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """Write a value, or values in order, on the main diagonal of an array of two or more dimensions, in place."""
    if isinstance(a, np.ndarray):
        _on_arrays("fill_diagonal", a, val, wrap)
        return
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    if a.ndim == 2 and isinstance(val, (bool, int, float)) and (not wrap or a.shape[0] <= a.shape[1]):
        a.diagonal()[...] = val  # a view
        return
    a.copy_(grids.fill_diagonal(a, _values(a, val), wrap))


@define
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any = -1) -> None:
    """Write values at the indices along an axis, in place, as ``take_along_axis`` reads them."""
    if isinstance(arr, np.ndarray):
        _on_arrays("put_along_axis", arr, indices, values, axis)
        return
    at, new = array(indices, copy=None), _values(arr, values)
    if at.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        if at.ndim != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        flat = arr.reshape(-1)
        functions.put_along_axis(flat, at, new, 0)
        arr.copy_(flat.reshape(arr.shape))
        return
    if at.ndim != arr.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    functions.put_along_axis(arr, at, new, axis)
