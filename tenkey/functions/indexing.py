"""Functions that return tuples of index tensors; they call operators."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

import numpy as np

from ..core.tensor import Tensor
from ..core.tensor_base import new_handle
from ..dispatch.calling.public import public
from ..dispatch.local_state import get_state
from ..dispatch.registry import registry
from ..ops.builtin.elementwise.comparison import where
from ..ops.builtin.indexing.selection import nonzero_rows, unravel_rows
from .creation import to_operand

__all__ = ["nonzero", "unravel_index"]


@public
def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Return the indices of the elements that are not zero: for each dimension a 1-d tensor (int64).

    They are in row-major order, and ``x[tk.nonzero(x)]`` are the elements. Raises ValueError for a 0-d tensor,
    NotImplementedError on the device ``meta``, where the shape of the result is unknown.

    >>> rows, columns = tk.nonzero(tk.asarray([[0, 7], [8, 0]]))
    >>> rows.tolist(), columns.tolist()
    ([0, 1], [1, 0])
    """
    if x.__class__ is not Tensor:
        x = to_operand("nonzero", x)
    if not (x._data if x.__class__ is Tensor else x).ndim:
        raise ValueError("[nonzero] a 0-d tensor has no dimension to index: use tk.reshape(x, (1,)).")
    rows = nonzero_rows(x)
    data = rows._data
    if data.__class__ is not np.ndarray or rows.__class__ is not Tensor or get_state() is not None:
        return tuple([rows[k] for k in range(rows.shape[0])])
    word = rows._word  # no mode or transform is active, so the rows need no operator calls
    found = []
    for k in range(len(data)):
        row: Tensor = new_handle(Tensor)
        row._data = data[k]
        row._word = word
        row._storage = None
        row._autograd = None
        found.append(row)
    return tuple(found)


# tk.where(condition), as in NumPy: the entry looks for arguments that were left out only after the others do not fit.
registry.find("tk::where").facets["Alone"] = nonzero
getattr(where, "__wrapped__", where).__defaults__ = (None, None)


@public
def unravel_index(indices: Tensor, shape: int | Sequence[int], /) -> tuple[Tensor, ...]:
    """Return the coordinates of flat, row-major indices in an array of ``shape``: for each dimension a tensor (int64).

    Raises TypeError for indices that are not integers, ValueError for an index out of range.

    >>> [i.tolist() for i in tk.unravel_index(tk.asarray([5, 0]), (2, 3))]
    [[1, 0], [2, 0]]
    """
    try:
        dims = tuple([operator.index(n) for n in shape]) if isinstance(shape, Iterable) else (operator.index(shape),)
    except TypeError:
        raise TypeError(f"[unravel_index] the shape is an int or a sequence of ints, got {shape!r}.") from None
    rows = unravel_rows(indices, dims)
    return tuple([rows[k] for k in range(len(dims))])
