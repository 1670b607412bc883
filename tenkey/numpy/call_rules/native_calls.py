"""Compute quick calls on NumPy arrays: by the functions of NumPy, several of them in fewer steps.

The functions here give what NumPy's functions of the same names give, without warnings, for the usual arguments of a
small call. For anything else they raise ValueError, which leads to the general way (Note [Quick calls of functions]).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...backends.cpu.fp_warnings import quietly, silenced
from ...core.word import DTYPE_TRAIT
from ...interop.numpy_fallback import by_name

__all__ = ["LARGE", "NATIVE", "SCALARS", "only_numbers"]

_Array = np.ndarray[Any, Any]
SCALARS: Final = frozenset([bool, int, float, complex, *[dtype.type for dtype in DTYPE_TRAIT if dtype.kind in "biufc"]])
"""Python's numbers and NumPy's: Note [Scalars and 0-d arrays]."""
_LISTS: Final = frozenset([list, tuple])
LARGE: Final = 1 << 14
"""The number of elements of a new array above which operators fill it, on all threads."""


def only_numbers(items: Any) -> bool:
    """Return whether a sequence, or one of sequences, holds nothing but numbers."""
    return SCALARS.issuperset(map(type, items)) or (
        _LISTS.issuperset(map(type, items)) and all(map(only_numbers, items))
    )


def _mean(a: _Array, axis: Any, keepdims: Any) -> Any:
    if a.dtype.char not in "fdFD":
        raise ValueError
    count = a.size if axis is None else a.shape[axis]
    if not count:
        raise ValueError
    return quietly(np.true_divide, quietly(np.add.reduce, a, axis, None, None, keepdims), count)


def _median(a: _Array, axis: Any) -> Any:
    if not a.size:
        raise ValueError
    return silenced(np.median, a, axis)


def _diff(a: _Array, n: Any, axis: Any) -> Any:
    if n != 1:
        raise ValueError
    if len(a.shape) == 1 and axis in (-1, 0) and a.dtype.kind != "b":
        return quietly(np.subtract, a[1:], a[:-1])
    return silenced(np.diff, a, 1, axis)


def _cross(a: _Array, b: _Array) -> Any:
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ValueError
    return silenced(np.cross, a, b)


def _stack(arrays: list[_Array], axis: Any) -> Any:
    shape = arrays[0].shape
    if axis != 0 or not shape:
        return np.stack(arrays, axis)
    for one in arrays:
        if one.shape != shape:
            raise ValueError
    return np.concatenate(arrays).reshape((len(arrays), *shape))


def _vstack(arrays: list[_Array]) -> Any:
    if len(arrays[0].shape) == 1:
        return _stack(arrays, 0)
    return np.concatenate(arrays) if arrays[0].shape else np.vstack(arrays)


def _hstack(arrays: list[_Array]) -> Any:
    dims = len(arrays[0].shape)
    return np.concatenate(arrays, 0 if dims == 1 else 1) if dims else np.hstack(arrays)


def _sort(a: _Array, axis: Any) -> Any:
    made = a.flatten() if axis is None else a.copy("K")
    made.sort(-1 if axis is None else axis)
    return made


def _nonzero(a: _Array) -> Any:
    if not a.shape:
        raise ValueError
    return [x if x.base is None else x.copy() for x in a.nonzero()]


def _squeeze(a: _Array, axis: Any) -> Any:
    made = a.squeeze(axis)
    return made.view() if made is a else made


def _diagonal(a: _Array, offset: Any, axis1: Any, axis2: Any) -> Any:
    made = a.diagonal(offset, axis1, axis2)
    made.flags.writeable = a.flags.writeable
    return made


def _diag(v: _Array, k: Any) -> Any:
    return _diagonal(v, k, 0, 1) if len(v.shape) == 2 else np.diag(v, k)


def _einsum(subscripts: str, *operands: _Array) -> Any:
    made = np.einsum(subscripts, *operands)
    if made.base is not None:  # of one operand: a view
        raise ValueError
    return made


def _norm(x: _Array) -> Any:
    """Return the root of the sum of squares where it neither overflows nor underflows."""
    if x.dtype.char != "d":
        raise ValueError
    flat = x.ravel("K")
    squares = flat.dot(flat)
    if not 1e-280 < squares < 1e300:
        raise ValueError
    return np.sqrt(squares)


def _filled(shape: Any, value: Any, dtype: Any) -> _Array:
    made = np.empty(shape, type(value) if dtype is None else dtype)
    if made.size > LARGE:
        raise ValueError
    made.fill(value)
    return made


def _filled_like(a: _Array, value: Any, dtype: Any) -> _Array:
    made = np.empty_like(a, dtype)
    made.fill(value)
    return made


NATIVE: Final[dict[str, Callable[..., Any]]] = {
    **by_name(
        _mean, _median, _diff, _cross, _stack, _vstack, _hstack, _sort, _nonzero, _squeeze, _diag, _diagonal, _einsum,
        _norm, _filled, _filled_like, bool,
    ),
    **{
        f"{ufunc.__name__}_reduce": ufunc.reduce
        for ufunc in (np.add, np.multiply, np.maximum, np.minimum, np.logical_and, np.logical_or)
    },
    "quietly": quietly,
    "silenced": silenced,
}  # fmt: skip
"""Functions by the names of the expressions; other names are NumPy's own, as ``dot`` and ``linalg_inv``."""
