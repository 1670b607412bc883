"""Functions that are no operators themselves, because no schema says what they take: any number of tensors, or an int
or a tuple with different meanings. They call one that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from .core.tensor import Tensor
from .ops.builtin.splitting import meshgrid_of, split_at
from .ops.shapes import normalize_axis

__all__ = ["array_split", "meshgrid", "split"]

_TENSOR: Final = "[{function}] takes a Tensor, got {kind}: convert it with tk.asarray(...)."
_PARTS: Final = "[{function}] a tensor is split into at least 1 part, got {parts}."
_UNEVEN: Final = "[split] {length} elements along axis {axis} do not divide into {parts} equal parts: use array_split."


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinates of all points of a grid: for each vector a tensor with as many dimensions as there are vectors.

    With ``indexing="ij"`` the first vector runs along the first axis, the second along the second, and so on; with
    ``"xy"`` (the default) the first two change places, as the columns and rows of a picture. Each result is a copy and
    has the dtype of its vector. Raises ValueError for more than one dimension.

    >>> import tenkey as tk
    >>> x, y = tk.meshgrid(tk.asarray([1, 2, 3]), tk.asarray([10, 20]))
    >>> x.tolist(), y.tolist()
    ([[1, 2, 3], [1, 2, 3]], [[10, 10, 10], [20, 20, 20]])
    """
    if not arrays:
        return ()
    grids: tuple[Tensor, ...] = tuple(meshgrid_of(list(arrays), indexing=indexing))
    return grids


def _pieces(x: Tensor, parts: int | Sequence[int], axis: int, function: str) -> tuple[Tensor, ...]:
    if not isinstance(x, Tensor):
        raise TypeError(_TENSOR.format(function=function, kind=type(x).__name__))
    places: Any = parts
    i = normalize_axis(function, axis, x.ndim)
    if isinstance(parts, (int, np.integer)):
        if parts < 1:
            raise ValueError(_PARTS.format(function=function, parts=parts))
        size, longer = divmod(x.shape[i], int(parts))
        if longer and function == "split":
            raise ValueError(_UNEVEN.format(length=x.shape[i], axis=i, parts=parts))
        places = [k * size + min(k, longer) for k in range(1, int(parts))]
    return tuple(split_at(x, places, axis=i))


def split(x: Tensor, parts: int | Sequence[int], *, axis: int = 0) -> tuple[Tensor, ...]:
    """Cut along an axis into ``parts`` equal pieces, or at the places of a tuple: a tuple of views.

    Places count as in slices: negative ones from the end, and beyond it the pieces are empty. (PyTorch's ``split``
    takes the length of a piece instead.) Raises ValueError where the length does not divide: see ``tk.array_split``.

    >>> import tenkey as tk
    >>> [t.tolist() for t in tk.split(tk.arange(4), 2)], [t.tolist() for t in tk.split(tk.arange(4), (1, 3))]
    ([[0, 1], [2, 3]], [[0], [1, 2], [3]])
    """
    return _pieces(x, parts, axis, "split")


def array_split(x: Tensor, parts: int | Sequence[int], *, axis: int = 0) -> tuple[Tensor, ...]:
    """Cut along an axis into ``parts`` pieces whose lengths differ by at most 1, the longer first: a tuple of views.

    A tuple instead of a number holds the places to cut at, as in ``tk.split``.

    >>> import tenkey as tk
    >>> [t.tolist() for t in tk.array_split(tk.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    return _pieces(x, parts, axis, "array_split")
