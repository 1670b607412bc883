"""Quantiles of weighted elements, and reductions of the slices between given places."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.dtypes.names import float64, int64
from ...core.tensor import Tensor
from ...ops.builtin import load
from ...ops.builtin.elementwise.comparison import equal, isnan, less, where
from ...ops.builtin.elementwise.complex import refuse_complex
from ...ops.builtin.elementwise.limiting import clip
from ...ops.builtin.indexing.advanced_indexing import take_along_axis
from ...ops.builtin.reductions.cumulative import cumulative_sum
from ...ops.builtin.reductions.reduction import any, sum
from ...ops.builtin.shape.copying import cast, concat, floating
from ...ops.builtin.shape.manipulation import moveaxis
from ...ops.builtin.shape.views import broadcast_to, expand_dims, reshape
from ...ops.builtin.shape.views import slice as slice_view
from ...ops.shapes import checked_axes, checked_axis
from ..creation import asarray, to_operand

load("sorting.sort")  # Note [Operators that are declared on first use]
from ...ops.builtin.sorting.sort import argsort  # noqa: E402

__all__ = ["reduced_slices", "weighted_quantile"]


def weighted_quantile(x: Tensor, q: Any, weights: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Return the smallest elements at which the sum of the weights reaches shares of their total.

    This is NumPy's method ``inverted_cdf`` with weights. Args: q: shares in [0, 1], a number or a tensor, whose
    dimensions come first in the result. weights: at least 0; the shape of ``x``, or a vector along the one axis. nan
    where there is a nan. The gradient goes to the elements that are found. Raises ValueError for other weights.

    >>> from tenkey.functions.calculating.weighted import weighted_quantile
    >>> weighted_quantile(tk.asarray([1.0, 2.0, 3.0]), 0.5, tk.asarray([1.0, 1.0, 3.0])).item()
    3.0
    """
    x, weights = floating(to_operand("quantile", x)), to_operand("quantile", weights)
    refuse_complex("quantile", x.dtype)
    axes = checked_axes("quantile", axis, x.ndim)
    if weights.shape != x.shape:
        if weights.ndim != 1 or len(axes) != 1 or weights.shape[0] != x.shape[axes[0]]:
            raise ValueError(
                f"[quantile] weights of shape {weights.shape} for elements of shape {x.shape} and axis={axis}: give "
                "one for each element, or a vector along one axis."
            )
        weights = broadcast_to(reshape(weights, (-1, *[1] * (x.ndim - 1 - axes[0]))), x.shape)
    shares = asarray(q, dtype=float64, device=x.device) if not isinstance(q, Tensor) else cast(q, float64)
    rest = [n for i, n in enumerate(x.shape) if i not in axes]
    last = tuple(range(x.ndim - len(axes), x.ndim))
    rows, parts = (reshape(moveaxis(y, axes, last), (*rest, -1)) for y in (x, weights))
    if not rows.shape[-1]:
        raise ValueError(f"[quantile] got shape {x.shape} with axis={axis}: no elements have no quantile.")
    order = argsort(rows, axis=-1)
    values = take_along_axis(rows, order, axis=-1)
    sums = cumulative_sum(cast(take_along_axis(parts, order, axis=-1), float64), axis=-1)
    reached = sums / slice_view(sums, sums.ndim - 1, rows.shape[-1] - 1, rows.shape[-1])
    reached = where(equal(reached, 0.0), -1.0, reached)  # the smallest element has a weight
    flat = reshape(shares, (-1,))
    place = sum(less(expand_dims(reached, -1), flat), axis=-2)
    found = take_along_axis(values, clip(cast(place, int64), 0, rows.shape[-1] - 1), axis=-1)
    found = where(any(isnan(rows), axis=-1, keepdims=True), math.nan, found)
    found = reshape(moveaxis(found, -1, 0), (*shares.shape, *rest))
    if keepdims:
        kept = [1 if i in axes else n for i, n in enumerate(x.shape)]
        found = reshape(found, (*shares.shape, *kept))
    return found


def reduced_slices(reduce: Callable[..., Tensor], x: Tensor, indices: Any, axis: int = 0) -> Tensor:
    """Reduce the slices of an axis that begin at given places, like the method ``reduceat`` of a NumPy ufunc.

    Args: reduce: a reduction with the arguments ``axis`` and ``keepdims``, such as ``tk.sum``. indices: places in the
    axis, read on the host; a slice ends where the next one begins, and is a single element if that is not behind it.
    Raises IndexError for a place out of range, ValueError for more than one dimension.

    >>> from tenkey.functions.calculating.weighted import reduced_slices
    >>> reduced_slices(tk.sum, tk.asarray([1, 2, 3, 4]), [0, 2, 1]).tolist()
    [3, 3, 9]
    """
    x = to_operand("reduceat", x)
    i = checked_axis("reduceat", axis, x.ndim)
    n = x.shape[i]
    places = indices.numpy() if isinstance(indices, Tensor) else np.asarray(indices, np.int64)
    if places.ndim != 1 or not places.size:
        raise ValueError(f"[reduceat] the indices have one dimension and an element or more, got shape {places.shape}.")
    if places.min() < 0 or places.max() >= n:
        raise IndexError(f"[reduceat] the indices must be in [0, {n - 1}], the places of axis {axis}; got {indices}.")
    ends = [*places[1:].tolist(), n]
    parts = [
        reduce(slice_view(x, i, start, max(end, start + 1)), axis=i, keepdims=True)
        for start, end in zip(places.tolist(), ends, strict=True)
    ]
    return concat(parts, axis=i) if len(parts) > 1 else parts[0]
