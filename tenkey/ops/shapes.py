"""Rules for shapes and axes that many blocks share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any, Final

__all__ = [
    "broadcast_shapes",
    "checked_axes",
    "checked_axis",
    "infer_reshape",
    "normalize_axes",
    "normalize_axis",
    "reduced_shape",
    "refuse_empty",
    "refuse_shape",
]

_WHOLE: Final = "[{operator}] axis must be an int{more}, got {axis!r}."
_RESHAPE: Final = "[reshape] a tensor of shape {shape} ({size} elements) cannot take the shape {target}: {why}."


def normalize_axis(operator: str, axis: int, ndim: int) -> int:
    """``axis`` counted from the front; IndexError if it is out of range."""
    if not -ndim <= axis < ndim:
        if not ndim:
            raise IndexError(
                f"[{operator}] axis {axis} is out of range for a tensor of 0 dimensions, which has no axes."
            )
        raise IndexError(
            f"[{operator}] axis {axis} is out of range for a tensor of {ndim} dimensions: it must be in "
            f"[{-ndim}, {ndim - 1}]."
        )
    return axis + ndim if axis < 0 else axis


def normalize_axes(operator: str, axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """The axes counted from the front; None means all."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple([normalize_axis(operator, a, ndim) for a in ((axis,) if isinstance(axis, int) else axis)])
    if len(set(axes)) != len(axes):
        raise ValueError(f"[{operator}] axis {axis} names a dimension twice.")
    return axes


def checked_axis(operator: str, axis: Any, ndim: int) -> int:
    """``normalize_axis`` for functions that no schema checks: TypeError for what is no int."""
    try:
        return normalize_axis(operator, index(axis), ndim)
    except TypeError:
        raise TypeError(_WHOLE.format(operator=operator, axis=axis, more="")) from None


def checked_axes(operator: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """``normalize_axes`` for functions that no schema checks: TypeError for what is no int, nor several, nor None."""
    if axis is None:
        return tuple(range(ndim))
    try:
        given = [index(a) for a in axis] if isinstance(axis, (tuple, list)) else [index(axis)]
    except TypeError:
        raise TypeError(_WHOLE.format(operator=operator, axis=axis, more=" or several")) from None
    return normalize_axes(operator, given, ndim)


def reduced_shape(operator: str, shape: tuple[int, ...], axis: Any, keepdims: bool) -> tuple[int, ...]:
    """The shape after a reduction over the axes."""
    axes = normalize_axes(operator, axis, len(shape))
    if keepdims:
        return tuple([1 if i in axes else n for i, n in enumerate(shape)])
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def refuse_empty(operator: str, shape: tuple[int, ...], axis: Any) -> None:
    """Raise ValueError if a reduction over the axes combines no elements."""
    if any(shape[i] == 0 for i in normalize_axes(operator, axis, len(shape))):
        raise ValueError(
            f"[{operator}] got shape {shape} with axis={axis}: the reduction of no elements has no value. Test x.size "
            "first."
        )


def broadcast_shapes(operator: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of several; ValueError that names all of them.

    >>> broadcast_shapes("add", (2, 1), (3,))
    (2, 3)
    """
    if len(shapes) == 2 and shapes[0] == shapes[1]:
        return shapes[0]
    ndim = max(map(len, shapes), default=0)
    result = []
    for i in range(-ndim, 0):
        sizes = {shape[i] for shape in shapes if len(shape) >= -i} - {1}
        if len(sizes) > 1:
            raise ValueError(
                f"[{operator}] the shapes {' and '.join(str(s) for s in shapes if s)} cannot be broadcast together: "
                "counted from the last, each dimension must be equal or 1 in all of them."
            ) from None  # a function may ask in its name what an operator inside of it has refused
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def infer_reshape(shape: tuple[int, ...], target: Sequence[int]) -> tuple[int, ...]:
    """``target`` with a -1 replaced by what the number of elements asks for."""
    size = 1
    for n in shape:
        size *= n
    known, unknown = 1, 0
    for n in target:
        if n == -1:
            unknown += 1
        elif n < 0:
            raise ValueError(_RESHAPE.format(shape=shape, size=size, target=tuple(target), why=f"{n} is no length"))
        else:
            known *= n
    if unknown > 1:
        raise ValueError(_RESHAPE.format(shape=shape, size=size, target=tuple(target), why="only one -1 is allowed"))
    if unknown == 0 and known != size:
        why = f"that has {known} elements"
        raise ValueError(_RESHAPE.format(shape=shape, size=size, target=tuple(target), why=why))
    if unknown and (known == 0 or size % known):
        why = f"{size} is not divisible by {known}"
        raise ValueError(_RESHAPE.format(shape=shape, size=size, target=tuple(target), why=why))
    return tuple([size // known if n == -1 else n for n in target])


def refuse_shape(operator: str, shape: Sequence[int], itemsize: int = 1) -> None:
    """ValueError for a shape that no array has: of more than 64 dimensions, or of more than 2**63 bytes."""
    if len(shape) > 64:
        raise ValueError(f"[{operator}] would give {len(shape)} dimensions: a tensor has at most 64.")
    if math.prod([n for n in shape if n]) * itemsize >= 1 << 63:
        raise ValueError(
            f"[{operator}] a tensor of shape {tuple(shape)} is larger than an address space: give a smaller shape."
        )
