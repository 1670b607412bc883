"""Orders of several keys and of complex numbers, which precede one another by the real and then the imaginary part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dtypes.names import complex64, complex128, int64
from ...core.tensor import Tensor
from ...dispatch.calling.public import public
from ...ops.builtin import load
from ...ops.builtin.creation import arange
from ...ops.builtin.elementwise.comparison import equal, isnan, less, less_equal, logical_and, logical_or, where
from ...ops.builtin.elementwise.complex import imag, real
from ...ops.builtin.indexing.advanced_indexing import take_along_axis
from ...ops.builtin.shape.copying import cast
from ...ops.builtin.shape.views import permute_dims, reshape
from ...ops.shapes import checked_axis, refuse_empty
from ..creation import to_operand

load("sorting.sort")  # Note [Operators that are declared on first use]
from ...ops.builtin.sorting.sort import argsort  # noqa: E402

__all__ = ["complex_argsort", "complex_extreme", "complex_place", "larger_complex", "lexsort", "sort_complex"]


def _order(keys: Sequence[Tensor], axis: int) -> Tensor:
    """Return the stable order of the keys, of which the last counts most."""
    order = argsort(keys[0], axis=axis)
    for key in keys[1:]:
        step = argsort(take_along_axis(key, order, axis=axis), axis=axis)
        order = take_along_axis(order, step, axis=axis)
    return order


@public
def lexsort(keys: Tensor | Sequence[Tensor], axis: int = -1) -> Tensor:
    """Return the indices (int64) that sort by several keys along an axis: by the last one, at ties by the one before.

    Args: keys: tensors of one shape, or a tensor whose first axis counts them. Equal elements keep their order. Raises
    ValueError for other shapes, IndexError for an axis out of range. Source: ``numpy.lexsort``.

    >>> surnames, names = tk.asarray([1, 0, 1]), tk.asarray([5, 4, 3])
    >>> tk.lexsort((names, surnames)).tolist()
    [1, 2, 0]
    """
    given = [to_operand("lexsort", key) for key in ([*keys] if isinstance(keys, (list, tuple)) else unstacked(keys))]
    if not given:
        raise ValueError("[lexsort] got no keys: give one or more.")
    if len({key.shape for key in given}) > 1:
        shapes = ", ".join(str(key.shape) for key in given)
        raise ValueError(f"[lexsort] the keys must have one shape, got {shapes}.")
    if not given[0].ndim:
        return arange(0, 1, dtype=int64, device=given[0].device)[0]
    i = checked_axis("lexsort", axis, given[0].ndim)
    parts: list[Tensor] = []
    for key in given:
        parts += _parts(key) if key.dtype.kind == "c" else [key]
    return _order(parts, i)


def unstacked(keys: Any) -> list[Tensor]:
    """Return the tensors along the first axis."""
    x = to_operand("lexsort", keys)
    if not x.ndim:
        raise TypeError("[lexsort] needs a sequence of keys, got one number.")
    return [x[k] for k in range(x.shape[0])]


# ---- complex numbers


def _parts(x: Tensor) -> list[Tensor]:
    """Return keys of which the last counts most: nan in one part follows all numbers, nan in both everything."""
    first, second = real(x), imag(x)
    broken = cast(isnan(first), np.dtype("int8")) * 2 + cast(isnan(second), np.dtype("int8"))
    return [second, first, broken]


def complex_argsort(x: Tensor, axis: int = -1) -> Tensor:
    """Return the indices (int64) that sort complex numbers along an axis, by the real and then the imaginary part.

    >>> from tenkey.functions.calculating.orders import complex_argsort
    >>> complex_argsort(tk.asarray([2 + 1j, 1 + 5j, 2 - 1j])).tolist()
    [1, 2, 0]
    """
    return _order(_parts(x), checked_axis("argsort", axis, x.ndim))


@public
def sort_complex(x: Tensor) -> Tensor:
    """Return the elements along the last axis as complex numbers, sorted by the real and then the imaginary part.

    Integers of at most 16 bits and floats of at most 32 become complex64, other real numbers complex128. Equal elements
    keep their order; numbers with nan in a part are last.

    >>> tk.sort_complex(tk.asarray([2 + 1j, 1 + 5j, 2 - 1j])).tolist()
    [(1+5j), (2-1j), (2+1j)]
    """
    x = to_operand("sort_complex", x)
    if x.dtype.kind != "c":
        small = x.dtype.itemsize <= (2 if x.dtype.kind in "iu" else 4)
        x = cast(x, complex64 if small else complex128)
    return take_along_axis(x, complex_argsort(x), axis=-1) if x.ndim else x


def larger_complex(x1: Tensor, x2: Tensor, *, smallest: bool = False) -> Tensor:
    """Return the larger (or smaller) of two complex numbers, by the real and then the imaginary part, or nan.

    Of equal numbers, which may differ in the signs of zeros, it returns the first, as NumPy does.

    >>> from tenkey.functions.calculating.orders import larger_complex
    >>> larger_complex(tk.asarray([1 + 2j]), tk.asarray([1 + 3j])).tolist()
    [(1+3j)]
    """
    a, b = (x1, x2) if smallest else (x2, x1)
    ties = logical_and(equal(real(a), real(b)), less_equal(imag(a), imag(b)))
    first = logical_or(less(real(a), real(b)), ties)
    return where(logical_or(isnan(x1), logical_and(~isnan(x2), first)), x1, x2)


def complex_place(x: Tensor, axis: int | None = None, *, keepdims: bool = False, smallest: bool = False) -> Tensor:
    """Return the index of the largest (or smallest) complex number along an axis; the first nan counts as both.

    >>> from tenkey.functions.calculating.orders import complex_place
    >>> complex_place(tk.asarray([1 + 2j, 1 + 3j])).item()
    1
    """
    name = "argmin" if smallest else "argmax"
    refuse_empty(name, x.shape, axis)
    flat = reshape(x, (-1,)) if axis is None else x
    i = 0 if axis is None else checked_axis(name, axis, x.ndim)
    missing = isnan(flat)
    parts = [imag(flat), real(flat)]
    if not smallest:
        parts = [-part for part in parts]  # so that the first of equal elements is found
    parts = [where(missing, 0.0, part) for part in parts]
    order = _order([*parts, cast(~missing, np.dtype("int8"))], i)
    found = order[(slice(None),) * i + (slice(0, 1),)]
    if axis is None:
        return reshape(found, (1,) * x.ndim if keepdims else ())
    return found if keepdims else found[(slice(None),) * i + (0,)]


def complex_extreme(x: Tensor, axis: Any = None, *, keepdims: bool = False, smallest: bool = False) -> Tensor:
    """Return the largest (or smallest) complex number along axes, by the real and then the imaginary part, or nan.

    The gradient goes to the first of equal elements.

    >>> from tenkey.functions.calculating.orders import complex_extreme
    >>> complex_extreme(tk.asarray([[1 + 2j, 1 + 3j]]), axis=1).tolist()
    [(1+3j)]
    """
    name = "min" if smallest else "max"
    if axis is None:
        axes = tuple(range(x.ndim))
    else:
        axes = tuple([checked_axis(name, a, x.ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))])
    rest = [i for i in range(x.ndim) if i not in axes]
    shape = tuple([1 if i in axes else n for i, n in enumerate(x.shape)] if keepdims else [x.shape[i] for i in rest])
    refuse_empty(name, x.shape, axis)
    if not x.size:
        return reshape(x, shape)
    joined = reshape(permute_dims(x, (*rest, *axes)), (*[x.shape[i] for i in rest], -1))
    place = complex_place(joined, -1, keepdims=True, smallest=smallest)
    found = take_along_axis(joined, place, axis=-1)
    return reshape(found, shape)
