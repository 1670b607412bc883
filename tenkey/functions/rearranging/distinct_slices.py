"""Distinct elements as NumPy's ``unique`` finds them: along an axis, and with all nan as one element."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.tensor import Tensor
from ...ops.builtin.indexing.advanced_indexing import take
from ...ops.builtin.shape.views import reshape
from ...ops.shapes import checked_axis
from ..creation import asarray, to_operand

__all__ = ["DistinctSlices", "distinct_slices"]


class DistinctSlices(NamedTuple):
    """The result of ``distinct_slices``."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


def distinct_slices(x: Tensor, axis: int | None = None, *, equal_nan: bool = True) -> DistinctSlices:
    """Return the distinct slices along an axis in ascending order, or the distinct elements without axis.

    Slices are compared by their elements in row-major order. Args: equal_nan: without axis, all nan are one element.
    Returns a named tuple: the ``values``; for each the index of its first occurrence (``indices``), from which its
    gradient goes back; for each slice the index of its value (``inverse_indices``, of the shape of ``x`` without axis);
    and ``counts``. The values are compared on the host, because the shapes depend on them. Source: ``numpy.unique``.

    >>> from tenkey.functions.rearranging.distinct_slices import distinct_slices
    >>> found = distinct_slices(tk.asarray([[3, 4], [1, 2], [3, 4]]), axis=0)
    >>> found.values.tolist(), found.indices.tolist(), found.inverse_indices.tolist(), found.counts.tolist()
    ([[1, 2], [3, 4]], [1, 0], [1, 0, 1], [1, 2])
    """
    x = to_operand("unique", x)
    if x.device.type == "meta":
        raise NotImplementedError("[unique] the shape of the result depends on the values: use a tensor with them.")
    i = None if axis is None else checked_axis("unique", axis, x.ndim)
    _, first, inverse, counts = np.unique(
        x.detach().numpy(), return_index=True, return_inverse=True, return_counts=True, axis=i, equal_nan=equal_nan
    )
    indices = asarray(first, device=x.device)
    values = take(reshape(x, (-1,)), indices, axis=0) if i is None else take(x, indices, axis=i)
    shape = x.shape if i is None else (x.shape[i],)
    return DistinctSlices(
        values, indices, asarray(inverse.reshape(shape), device=x.device), asarray(counts, device=x.device)
    )
