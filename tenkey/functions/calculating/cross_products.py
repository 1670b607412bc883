"""Cross products of vectors in two or three dimensions, along any axes."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...ops.builtin import load
from ...ops.builtin.creation import zeros
from ...ops.builtin.elementwise.arithmetic import multiply, subtract
from ...ops.builtin.shape.copying import concat
from ...ops.builtin.shape.manipulation import moveaxis
from ...ops.shapes import checked_axis
from ..creation import to_operand

load("linalg.products")  # Note [Operators that are declared on first use]
from ...ops.builtin.linalg.products import cross  # noqa: E402

__all__ = ["cross_along"]


def cross_along(
    x1: Tensor, x2: Tensor, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Tensor:
    """Return the cross product of vectors along axes that may differ, as ``numpy.cross`` does.

    Args: x1, x2: the vectors lie along axisa and axisb and have 2 or 3 components; a third one that is missing is zero.
    axisc: where the result's components are; if both have two components, only the third one is returned, without an
    axis. axis: one axis for all three. Raises ValueError for other lengths, IndexError for an axis out of range.

    >>> from tenkey.functions.calculating.cross_products import cross_along
    >>> cross_along(tk.asarray([1, 2, 0]), tk.asarray([4, 5])).tolist()
    [0, 0, -3]
    >>> cross_along(tk.asarray([1, 2]), tk.asarray([4, 5])).item()
    -3
    """
    x1, x2 = to_operand("cross", x1), to_operand("cross", x2)
    if axis is not None:
        axisa = axisb = axisc = axis
    a = moveaxis(x1, checked_axis("cross", axisa, x1.ndim), -1)
    b = moveaxis(x2, checked_axis("cross", axisb, x2.ndim), -1)
    lengths = (a.shape[-1], b.shape[-1])
    if not {*lengths} <= {2, 3}:
        raise ValueError(
            f"[cross] got shapes {x1.shape} and {x2.shape}: vectors have 2 or 3 components, along axes {axisa} and "
            f"{axisb} these have {lengths[0]} and {lengths[1]}."
        )
    if lengths == (2, 2):
        return subtract(multiply(a[..., 0], b[..., 1]), multiply(a[..., 1], b[..., 0]))
    a, b = (_in_space(y) for y in (a, b))
    found = cross(a, b, axis=-1)
    place = checked_axis("cross", axisc, found.ndim)
    return moveaxis(found, -1, place)


def _in_space(x: Any) -> Tensor:
    """Return vectors with three components along the last axis."""
    if x.shape[-1] == 3:
        return x  # type: ignore[no-any-return]
    return concat([x, zeros((*x.shape[:-1], 1), dtype=x.dtype, device=x.device)], axis=-1)
