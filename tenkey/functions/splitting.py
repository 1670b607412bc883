"""Functions of any number of tensors, or of an int or a tuple, which a schema cannot express; they call operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, overload

import numpy as np

from ..core.tensor import Tensor
from ..dispatch.calling.public import public
from ..ops.builtin.numeric.differences import gradient_on_grid
from ..ops.builtin.shape import manipulation
from ..ops.builtin.shape.copying import clone, concat, stack
from ..ops.builtin.shape.splitting import meshgrid_of, split_at
from ..ops.builtin.shape.views import reshape
from ..ops.declare.declaration import operator_of
from ..ops.shapes import checked_axes, checked_axis
from .creation import asarray, to_operand
from .dtypes import result_type

__all__ = ["array_split", "atleast_1d", "atleast_2d", "atleast_3d", "block", "gradient", "meshgrid", "split"]

for _entry, _function in ((split_at, "split"), (meshgrid_of, "meshgrid"), (gradient_on_grid, "gradient")):
    operator_of(_entry).facets["Label"] = _function

_MOST: Final = 1 << 24  # parts, each of which is a tensor


@public
def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Return the coordinates of all points of a grid: for each vector a tensor with one dimension per vector.

    With ``indexing="ij"`` the first vector runs along the first axis, the second along the second, and so on; with
    ``"xy"`` (the default) the first two are swapped, like the columns and rows of an image. Each result is a copy and
    has the dtype of its vector. Raises ValueError for more than one dimension.

    >>> x, y = tk.meshgrid(tk.asarray([1, 2, 3]), tk.asarray([10, 20]))
    >>> x.tolist(), y.tolist()
    ([[1, 2, 3], [1, 2, 3]], [[10, 10, 10], [20, 20, 20]])
    """
    if not arrays:
        return ()
    return tuple(meshgrid_of(list(arrays), indexing=indexing))


class _OneOrSeveral(Protocol):
    """A function of one tensor, or of several, for which it returns a tuple."""

    @overload
    def __call__(self, x: Tensor, /) -> Tensor: ...
    @overload
    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]: ...


def _of_each(operator: Callable[[Tensor], Tensor]) -> _OneOrSeveral:
    def function(*tensors: Tensor) -> Any:
        return operator(tensors[0]) if len(tensors) == 1 else tuple([operator(x) for x in tensors])

    function.__name__ = function.__qualname__ = operator.__name__
    function.__doc__ = operator.__doc__
    return function


atleast_1d = _of_each(manipulation.atleast_1d)
atleast_2d = _of_each(manipulation.atleast_2d)
atleast_3d = _of_each(manipulation.atleast_3d)


def _pieces(x: Tensor, parts: int | Sequence[int], axis: int, function: str) -> tuple[Tensor, ...]:
    x = to_operand(function, x)
    places: Any = parts
    i = checked_axis(function, axis, x.ndim)
    if isinstance(parts, (int, np.integer)):
        if parts < 1:
            raise ValueError(f"[{function}] a tensor is split into at least 1 part, got {parts}.")
        if parts > _MOST:
            raise ValueError(
                f"[{function}] a tensor is split into at most {_MOST} parts, got {parts}: give the places to cut at."
            )
        size, longer = divmod(x.shape[i], int(parts))
        if longer and function == "split":
            raise ValueError(
                f"[split] {x.shape[i]} elements along axis {i} do not divide into {parts} equal parts: use array_split."
            )
        places = [k * size + min(k, longer) for k in range(1, int(parts))]
    return tuple(split_at(x, places, axis=i))


@public
def split(x: Tensor, parts: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Split along an axis into ``parts`` equal pieces, or at the indices of a tuple; return a tuple of views.

    Indices count as in slices: negative ones from the end, and beyond it the pieces are empty. (PyTorch's ``split``
    takes the length of a piece instead.) Raises ValueError if the length is not divisible: see ``tk.array_split``.

    >>> [t.tolist() for t in tk.split(tk.arange(4), 2)], [t.tolist() for t in tk.split(tk.arange(4), (1, 3))]
    ([[0, 1], [2, 3]], [[0], [1, 2], [3]])
    """
    return _pieces(x, parts, axis, "split")


@public
def array_split(x: Tensor, parts: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Split along an axis into ``parts`` pieces whose lengths differ by at most 1, the longer first, as views.

    A tuple instead of a number has the indices to split at, as in ``tk.split``.

    >>> [t.tolist() for t in tk.array_split(tk.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    return _pieces(x, parts, axis, "array_split")


def _leaves(arrays: Any, depth: int, found: list[tuple[int, Any]]) -> None:
    if isinstance(arrays, tuple):
        raise TypeError("[block] got a tuple: blocks are nested in lists.")
    if not isinstance(arrays, list):
        found.append((depth, arrays))
        return
    if not arrays:
        raise ValueError("[block] a list of blocks is empty: every row needs at least one block.")
    for array in arrays:
        _leaves(array, depth + 1, found)


def _joined(arrays: Any, axis: int, leaves: Iterator[Tensor]) -> Tensor:
    if not isinstance(arrays, list):
        return next(leaves)
    return concat([_joined(array, axis + 1, leaves) for array in arrays], axis=axis)


@public
def block(arrays: Any) -> Tensor:
    """Join nested lists of blocks: the innermost lists along the last axis, the lists around them along the axis
    before, and so on.

    Blocks are tensors, NumPy arrays and numbers; dimensions of length 1 are prepended to shapes shorter than the depth
    of the lists. The result is a copy of the promoted dtype. Raises ValueError for lists of different depth, empty
    lists and incompatible shapes, TypeError for tuples. Source: ``numpy.block``.

    >>> a, b = tk.eye(2), tk.zeros((2, 1))
    >>> tk.block([[a, b], [tk.ones((1, 2)), 7.0]]).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 7.0]]
    """
    found: list[tuple[int, Any]] = []
    _leaves(arrays, 0, found)
    depth = found[0][0]
    for other, _ in found:
        if other != depth:
            raise ValueError(
                f"[block] the lists nest {depth} deep in one place and {other} in another: the depth must be the same."
            )
    given = [value for _, value in found]
    tensors = [value for value in given if isinstance(value, Tensor)]
    # a Python number takes the dtype of the tensors beside it, as in other operators
    dtype = result_type(*given) if tensors else None
    device = tensors[0].device if tensors else None
    blocks = [
        value
        if isinstance(value, Tensor)
        else asarray(value, dtype=None if isinstance(value, np.ndarray) else dtype, device=device)
        for value in given
    ]
    ndim = max(depth, *[x.ndim for x in blocks])
    shaped = iter([reshape(x, (1,) * (ndim - x.ndim) + x.shape) if x.ndim < ndim else x for x in blocks])
    return _joined(arrays, ndim - depth, shaped) if depth else clone(blocks[0])


@public
def gradient(
    x: Tensor, *distances: Any, spacing: Any = None, places: Any = None, axis: Any = None, edge_order: int = 1
) -> Tensor:
    """Return the derivative, by central differences, of a function given at the points of a grid.

    Args: x: its values. distances: by default 1; one distance for all axes; or for each axis a distance or the vector
    of its coordinates, which need not be evenly spaced. ``spacing`` is the same as a keyword (a tuple for several
    axes), ``places`` the vector for one axis. axis: an int, several, or None for all. At both ends the difference is
    one-sided, accurate to ``edge_order`` (1 or 2). Integers give floats.

    For one axis the result has the shape of ``x``; for several, the derivatives are stacked along a new first axis, as
    in ``by_y, by_x = tk.gradient(image)``. Raises ValueError and TypeError. Source: ``numpy.gradient``.

    >>> tk.gradient(tk.asarray([1.0, 4.0, 9.0, 16.0])).tolist()
    [3.0, 4.0, 6.0, 7.0]
    >>> tk.gradient(tk.asarray([0.0, 1.0, 9.0]), tk.asarray([0.0, 1.0, 3.0])).tolist()
    [1.0, 2.0, 4.0]
    """
    x = to_operand("gradient", x)
    if spacing is not None:
        if distances:
            raise TypeError("[gradient] got spacing= and positional distances: give only one.")
        distances = (spacing,)
    axes = checked_axes("gradient", axis, x.ndim)
    if len(distances) == 1 and isinstance(distances[0], (tuple, list)) and (len(axes) > 1 or len(distances[0]) == 1):
        distances = tuple(distances[0])
    vectors = [isinstance(h, (tuple, list)) or getattr(h, "ndim", 0) > 0 for h in distances]
    if not any(vectors):
        numbers = [h.item() if isinstance(h, Tensor) and not h.requires_grad else h for h in distances]
        return gradient_on_grid(x, numbers or (1.0,), places=places, axis=axis, edge_order=edge_order)
    if len(distances) != len(axes) or places is not None:
        raise ValueError(
            f"[gradient] got {len(distances) + (places is not None)} spacings for {len(axes)} axes: give one distance "
            "for all, or for each axis a distance or the vector of its coordinates."
        )
    slopes = [
        gradient_on_grid(x, places=_vector(x, h), axis=i, edge_order=edge_order)
        if is_vector
        else gradient_on_grid(x, h, axis=i, edge_order=edge_order)
        for i, h, is_vector in zip(axes, distances, vectors, strict=True)
    ]
    return slopes[0] if len(slopes) == 1 else stack(slopes)


def _vector(x: Tensor, given: Any) -> Tensor:
    """Return coordinates as a tensor, Python numbers in the dtype of the values."""
    if isinstance(given, (tuple, list)):
        return asarray(given, dtype=x.dtype if x.dtype.kind == "f" else None, device=x.device)
    return asarray(given)
