"""Writing along an axis."""

from __future__ import annotations

from ...core.tensor import Tensor
from ...dispatch.calling.public import public
from ...ops.builtin import load
from ...ops.builtin.indexing.setitem import as_source, put_
from ...ops.builtin.shape.views import broadcast_to
from ...ops.shapes import checked_axis

load("indexing.scatter")  # Note [Operators that are declared on first use]
from ...ops.builtin.indexing.scatter import check_indices, fitting, grid_of  # noqa: E402

__all__ = ["put_along_axis"]


@public
def put_along_axis(x: Tensor, indices: Tensor, values: Tensor | complex, axis: int = -1) -> Tensor:
    """Write ``values`` into ``x`` where ``take_along_axis`` with the same indices reads, and return ``x``.

    ``indices`` has the number of dimensions of ``x`` and broadcasts against it except along ``axis``; ``values``, a
    tensor or a number, broadcasts to the selection. Works in place, as in NumPy; ``scatter`` returns a new tensor.
    Raises TypeError, IndexError and ValueError as ``scatter`` does, and RuntimeError for a leaf that requires a
    gradient.

    >>> x = tk.zeros((2, 3))
    >>> _ = tk.put_along_axis(x, tk.asarray([[2], [0]]), 1.0, axis=1)
    >>> x.tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    for given in (x, indices):
        if not isinstance(given, Tensor):
            raise TypeError(
                f"[put_along_axis] takes tensors, got {type(given).__name__}: convert it with tk.asarray(...)."
            )
    i = check_indices("put_along_axis", x, indices, checked_axis("put_along_axis", axis, x.ndim))
    shape = (*x.shape[:i], indices.shape[i], *x.shape[i + 1 :])
    spread = broadcast_to(indices, shape) if indices.shape != shape else indices
    return put_(x, grid_of(spread, i), fitting("put_along_axis", x, as_source(values), shape))
