"""Tensors with elements added or removed: ``append``, ``insert``, ``delete``, ``resize``, ``trim_zeros`` and others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...core.tensor import Tensor
from ...dispatch.calling.public import public
from ...ops.builtin.creation import zeros
from ...ops.builtin.indexing.advanced_indexing import take
from ...ops.builtin.indexing.basic_indexing import basic_index
from ...ops.builtin.shape.copying import cast, clone, concat
from ...ops.builtin.shape.manipulation import moveaxis
from ...ops.builtin.shape.views import broadcast_to, reshape
from ...ops.shapes import checked_axes, checked_axis, refuse_shape
from ..creation import asarray, to_operand
from ..splitting import split
from .grids import lengths_of

__all__ = [
    "append", "column_stack", "delete", "dsplit", "hsplit", "insert", "resize", "to_joined", "trim_zeros", "vsplit",
]  # fmt: skip

_BOUNDS: Final = "[{function}] the index {index} is out of range for axis {axis} of length {length}."


def to_joined(x: Tensor, values: Any) -> Tensor:
    """Return values to put beside the elements of ``x`` as a tensor on its device."""
    if isinstance(values, Tensor):
        return values
    if isinstance(values, (bool, int, float)) and not (isinstance(values, float) and x.dtype.kind in "biu"):
        return asarray(values, dtype=x.dtype, device=x.device)
    return asarray(values, device=x.device)


@public
def append(x: Tensor, values: Any, axis: int | None = None) -> Tensor:
    """Return a copy with ``values`` joined at the end of an axis; without axis, both are flattened.

    Args: x: any dtype. values: a tensor, an array, a list or a number; with an axis it has the dimensions of ``x`` and
    its lengths along the other axes. Returns the promoted dtype. Raises ValueError for other shapes, IndexError for an
    axis out of range. Source: ``numpy.append``.

    >>> tk.append(tk.asarray([[1, 2], [3, 4]]), [[5, 6]], axis=0).tolist()
    [[1, 2], [3, 4], [5, 6]]
    >>> tk.append(tk.asarray([[1, 2], [3, 4]]), 5).tolist()
    [1, 2, 3, 4, 5]
    """
    x = to_operand("append", x)
    tail = to_joined(x, values)
    if axis is None:
        return concat([reshape(x, (-1,)), reshape(tail, (-1,))], axis=0)
    i = checked_axis("append", axis, x.ndim)
    if tail.ndim != x.ndim or tail.shape[:i] != x.shape[:i] or tail.shape[i + 1 :] != x.shape[i + 1 :]:
        raise ValueError(
            f"[append] values of shape {tail.shape} cannot follow shape {x.shape} along axis {i}: the number of "
            "dimensions and the other lengths must be equal."
        )
    return concat([x, tail], axis=i)


def _on_axis(function: str, x: Any, axis: int | None) -> tuple[Tensor, int]:
    """Return the tensor and its axis counted from the front; without axis the flattened tensor."""
    x = to_operand(function, x)
    if axis is None:
        return (x if x.ndim == 1 else reshape(x, (-1,))), 0
    return x, checked_axis(function, axis, x.ndim)


def _host_indices(function: str, indices: Any, length: int, axis: int) -> tuple[np.ndarray, bool]:
    """Return indices as integers counted from the front, in one dimension, and whether one number was given."""
    if isinstance(indices, slice):
        return np.arange(*indices.indices(length)), False
    found = indices.numpy() if isinstance(indices, Tensor) else np.asarray(indices)
    if found.dtype.kind == "b":
        if found.ndim != 1 or (function == "delete" and len(found) != length):
            raise ValueError(
                f"[{function}] a mask of shape {found.shape} does not fit axis {axis} of length {length}: it has one "
                "dimension, and an element for each place."
            )
        return np.flatnonzero(found), False
    if not found.size:
        found = found.astype(np.int64)
    if found.dtype.kind not in "iu":
        raise TypeError(f"[{function}] indices are integers, bools or a slice, got dtype {found.dtype}.")
    if found.ndim > 1:
        raise ValueError(f"[{function}] indices have at most one dimension, got shape {found.shape}.")
    flat = found.reshape(-1).astype(np.int64)
    last = length - (function == "delete")
    wrong = flat[(flat < -length) | (flat > last)]
    if wrong.size:
        raise IndexError(_BOUNDS.format(function=function, index=int(wrong[0]), axis=axis, length=length))
    return np.where(flat < 0, flat + length, flat), not found.ndim


@public
def delete(x: Tensor, indices: Any, axis: int | None = None) -> Tensor:
    """Return a copy without the elements at ``indices`` of an axis; without axis, of the flattened tensor.

    Args: indices: an int, a slice, a sequence or tensor of integers, negative ones counted from the end, or a mask with
    a bool for each place, true where the element goes. They are read on the host, because the shape of the result
    depends on them. Raises IndexError for an index out of range, TypeError for other dtypes, ValueError for other
    shapes. Source: ``numpy.delete``.

    >>> tk.delete(tk.asarray([[1, 2, 3], [4, 5, 6]]), 1, axis=1).tolist()
    [[1, 3], [4, 6]]
    >>> tk.delete(tk.asarray([1, 2, 3, 4]), slice(None, None, 2)).tolist()
    [2, 4]
    """
    x, i = _on_axis("delete", x, axis)
    gone, _ = _host_indices("delete", indices, x.shape[i], i)
    kept = np.ones(x.shape[i], bool)
    kept[gone] = False
    return take(x, asarray(np.flatnonzero(kept), device=x.device), axis=i)


@public
def insert(x: Tensor, indices: Any, values: Any, axis: int | None = None) -> Tensor:
    """Return a copy with ``values`` inserted before ``indices`` of an axis; without axis, of the flattened tensor.

    Args: indices: places in ``x``, from 0 to its length, negative ones counted from the end: an int, a slice, a mask,
    or a sequence or tensor of integers, which are read on the host. values: a number, a tensor or a sequence, which
    broadcasts to one value for each index, and is converted to the dtype of ``x``; at one index there may be several.
    Raises IndexError for an index out of range, ValueError for shapes that do not fit, TypeError for complex values in
    a real tensor. Source: ``numpy.insert``.

    >>> tk.insert(tk.asarray([[1, 1], [2, 2]]), 1, 5, axis=1).tolist()
    [[1, 5, 1], [2, 5, 2]]
    >>> tk.insert(tk.asarray([1, 2, 3]), [0, 3], tk.asarray([7, 8])).tolist()
    [7, 1, 2, 3, 8]
    """
    x, i = _on_axis("insert", x, axis)
    n = x.shape[i]
    places, single = _host_indices("insert", indices, n, i)
    new = to_joined(x, values)
    if new.dtype.kind == "c" and x.dtype.kind != "c":
        raise TypeError(f"[insert] values of dtype {new.dtype} cannot be stored in a tensor of {x.dtype}.")
    if new.dtype != x.dtype:
        new = cast(new, x.dtype)
    if new.ndim < x.ndim:
        new = reshape(new, (1,) * (x.ndim - new.ndim) + new.shape)
    if single:
        new = moveaxis(new, 0, i)
    count = new.shape[i] if places.size == 1 else places.size
    wanted = (*x.shape[:i], count, *x.shape[i + 1 :])
    try:
        new = broadcast_to(new, wanted)
    except ValueError:
        raise ValueError(
            f"[insert] values of shape {new.shape} do not broadcast to the inserted part, shape {wanted}."
        ) from None
    if places.size == 1:
        at = int(places[0]) + np.arange(count)
    else:
        order = np.argsort(places, kind="stable")
        at = np.empty(count, np.int64)
        at[order] = places[order] + np.arange(count)
    source = np.empty(n + count, np.int64)
    old = np.ones(n + count, bool)
    old[at] = False
    source[at] = n + np.arange(count)
    source[old] = np.arange(n)
    return take(concat([x, new], axis=i), asarray(source, device=x.device), axis=i)


@public
def resize(x: Tensor, shape: int | Sequence[int]) -> Tensor:
    """Return the elements in row-major order in a new shape: repeated from the start if it has more of them, or cut.

    Of a tensor without elements, zeros. Raises ValueError for a negative length. Source: ``numpy.resize``.

    >>> tk.resize(tk.asarray([[0, 1], [2, 3]]), (2, 3)).tolist()
    [[0, 1, 2], [3, 0, 1]]
    """
    x = to_operand("resize", x)
    wanted = lengths_of("resize", shape)
    refuse_shape("resize", wanted, x.dtype.itemsize)
    size = math.prod(wanted)
    if not x.size:
        return zeros(wanted, dtype=x.dtype, device=x.device)
    flat = reshape(x, (-1,))
    whole, rest = divmod(size, x.size)
    parts = [flat] * whole + ([basic_index(flat, (slice(0, rest),))] if rest or not whole else [])
    made = concat(parts, axis=0) if len(parts) > 1 else clone(parts[0])
    return reshape(made, wanted)


@public
def trim_zeros(x: Tensor, trim: str = "fb", axis: Any = None) -> Tensor:
    """Return the tensor without the zeros at its ends: without leading or trailing slices of zeros only.

    Args: trim: ``"f"`` trims at the front, ``"b"`` at the back, ``"fb"`` at both. axis: the axes to trim along, by
    default all. The values are read on the host, because the shape of the result depends on them; the result is a view.
    Raises ValueError for another ``trim``. Source: ``numpy.trim_zeros``.

    >>> tk.trim_zeros(tk.asarray([0, 0, 1, 0, 2, 0])).tolist()
    [1, 0, 2]
    """
    x = to_operand("trim_zeros", x)
    ends = str(trim).lower()
    if ends not in ("f", "b", "fb", "bf"):
        raise ValueError(f"[trim_zeros] trim is 'f', 'b' or 'fb', got {trim!r}.")
    if x.device.type == "meta":
        raise NotImplementedError("[trim_zeros] the shape of the result depends on the values: use a tensor with them.")
    axes = checked_axes("trim_zeros", axis, x.ndim)
    found = np.argwhere(x.detach().numpy())
    cut = [slice(None)] * x.ndim
    for i in axes:
        if len(found):
            first, last = int(found[:, i].min()), int(found[:, i].max()) + 1
        else:  # front and back meet at the end that is trimmed
            first, last = (x.shape[i], x.shape[i]) if "f" in ends else (0, 0)
        cut[i] = slice(first if "f" in ends else 0, last if "b" in ends else x.shape[i])
    return basic_index(x, tuple(cut))


# ---- columns, and cuts along one axis


@public
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Join vectors as the columns of a matrix; matrices among them are joined along axis 1.

    Returns the promoted dtype. Raises ValueError for more than two dimensions or different lengths. Source:
    ``numpy.column_stack``.

    >>> tk.column_stack([tk.asarray([1, 2]), tk.asarray([3, 4])]).tolist()
    [[1, 3], [2, 4]]
    """
    given = [to_operand("column_stack", x) for x in tensors]
    return concat([reshape(x, (-1, 1)) if x.ndim < 2 else x for x in given], axis=1)


def _cut(function: str, x: Tensor, parts: int | Sequence[int], least: int, axis: int) -> tuple[Tensor, ...]:
    x = to_operand(function, x)
    if x.ndim < least:
        raise ValueError(f"[{function}] takes a tensor of {least} or more dimensions, got shape {x.shape}.")
    return split(x, parts, axis if x.ndim > 1 else 0)


@public
def hsplit(x: Tensor, parts: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Split along the second axis (a vector along its only one) as ``tk.split`` does; return a tuple of views.

    >>> [t.tolist() for t in tk.hsplit(tk.asarray([[1, 2], [3, 4]]), 2)]
    [[[1], [3]], [[2], [4]]]
    """
    return _cut("hsplit", x, parts, 1, 1)


@public
def vsplit(x: Tensor, parts: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Split along the first axis of two or more as ``tk.split`` does; return a tuple of views.

    >>> [t.tolist() for t in tk.vsplit(tk.asarray([[1, 2], [3, 4]]), 2)]
    [[[1, 2]], [[3, 4]]]
    """
    return _cut("vsplit", x, parts, 2, 0)


@public
def dsplit(x: Tensor, parts: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Split along the third axis as ``tk.split`` does; return a tuple of views.

    >>> [t.shape for t in tk.dsplit(tk.ones((2, 3, 4)), 2)]
    [(2, 3, 2), (2, 3, 2)]
    """
    return _cut("dsplit", x, parts, 3, 2)
