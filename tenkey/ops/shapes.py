"""Rules for shapes and axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any, Final

__all__ = [
    "broadcast_shapes", "checked_axes", "checked_axis", "infer_reshape", "normalize_axes", "normalize_axis",
    "reduced_shape", "refuse_empty", "refuse_shape",
]  # fmt: skip

_WHOLE: Final = "[{operator}] axis must be an int{more}, got {axis!r}."


def normalize_axis(operator: str, axis: int, ndim: int) -> int:
    """Return ``axis`` counted from the front; raise IndexError if it is out of range."""
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
    """Return the axes counted from the front; None means all. Raise ValueError for a repeated axis."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple([normalize_axis(operator, a, ndim) for a in ((axis,) if isinstance(axis, int) else axis)])
    if len(set(axes)) != len(axes):
        raise ValueError(f"[{operator}] axis {axis} names a dimension twice.")
    return axes


def checked_axis(operator: str, axis: Any, ndim: int) -> int:
    """Apply ``normalize_axis`` in a function without a schema; raise TypeError unless ``axis`` is an int."""
    try:
        return normalize_axis(operator, index(axis), ndim)
    except TypeError:
        raise TypeError(_WHOLE.format(operator=operator, axis=axis, more="")) from None


def checked_axes(operator: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """Apply ``normalize_axes`` in a function without a schema; raise TypeError unless ``axis`` is ints or None."""
    if axis is None:
        return tuple(range(ndim))
    try:
        given = [index(a) for a in axis] if isinstance(axis, (tuple, list)) else [index(axis)]
    except TypeError:
        raise TypeError(_WHOLE.format(operator=operator, axis=axis, more=" or several")) from None
    return normalize_axes(operator, given, ndim)


def reduced_shape(operator: str, shape: tuple[int, ...], axis: Any, keepdims: bool) -> tuple[int, ...]:
    """Return the shape after a reduction over the axes."""
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
    """Return the common shape; raise ValueError if the shapes cannot be broadcast together.

    >>> broadcast_shapes("add", (2, 1), (3,))
    (2, 3)
    """
    if len(shapes) == 2:  # a quarter of the time of the general case
        long, short = shapes if len(shapes[0]) >= len(shapes[1]) else (shapes[1], shapes[0])
        if long == short:
            return long
        found = list(long)
        for i, size in enumerate(short, len(long) - len(short)):
            if size != found[i] != 1 != size:
                break
            if size != 1:
                found[i] = size
        else:
            return tuple(found)
    ndim = max(map(len, shapes), default=0)
    result = []
    for i in range(-ndim, 0):
        sizes = {shape[i] for shape in shapes if len(shape) >= -i} - {1}
        if len(sizes) > 1:
            raise ValueError(
                f"[{operator}] the shapes {' and '.join(str(s) for s in shapes if s)} cannot be broadcast together: "
                "counted from the last, each dimension must be equal or 1 in all of them."
            ) from None  # a caller may try again under its own name after an operator inside of it has raised
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def infer_reshape(shape: tuple[int, ...], target: Sequence[int]) -> tuple[int, ...]:
    """Return ``target`` with a -1 replaced by the length that the number of elements implies."""
    size = 1
    for n in shape:
        size *= n
    known, unknown = 1, 0
    problem = ""
    for n in target:
        if n == -1:
            unknown += 1
        elif n < 0:
            problem = f"{n} is not a length"
        else:
            known *= n
    if unknown > 1:
        problem = problem or "only one -1 is allowed"
    elif unknown == 0 and known != size:
        problem = problem or f"that has {known} elements"
    elif unknown and (known == 0 or size % known):
        problem = problem or f"{size} is not divisible by {known}"
    if problem:
        raise ValueError(
            f"[reshape] a tensor of shape {shape} ({size} elements) cannot take the shape {tuple(target)}: {problem}."
        )
    return tuple([size // known if n == -1 else n for n in target])


def refuse_shape(operator: str, shape: Sequence[int], itemsize: int = 1) -> None:
    """Raise ValueError for an impossible shape: of more than 64 dimensions, or of 2**63 bytes or more."""
    if len(shape) > 64:
        raise ValueError(f"[{operator}] would give {len(shape)} dimensions: a tensor has at most 64.")
    if math.prod([n for n in shape if n]) * itemsize >= 1 << 63:
        raise ValueError(
            f"[{operator}] a tensor of shape {tuple(shape)} is larger than an address space: give a smaller shape."
        )
