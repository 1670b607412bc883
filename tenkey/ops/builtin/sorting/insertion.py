"""Insertion places by binary search, for devices without a kernel for it."""

from __future__ import annotations

import numpy as np

from ....core.dtypes.names import int64, uint8
from ....core.tensor import Tensor
from ..creation import zeros
from ..elementwise.arithmetic import minimum
from ..elementwise.comparison import equal, isnan, less, less_equal, logical_and, logical_not, logical_or, where
from ..elementwise.complex import imag, real
from ..primitives import gather_rows
from ..shape.copying import as_dtype
from ..shape.views import reshape


def insertion_places(edges: Tensor, x: Tensor, right: bool) -> Tensor:
    """Return where each element of ``x`` can be inserted into a sorted vector, as ``numpy.searchsorted`` does.

    The vector is read once for each binary digit of its length.
    """
    n = edges.shape[0]
    dtype = edges.dtype if edges.dtype == x.dtype else np.promote_types(edges.dtype, x.dtype)
    dtype = uint8 if dtype.kind == "b" else dtype
    rows, values = reshape(as_dtype(edges, dtype), (1, n, 1)), reshape(as_dtype(x, dtype), (1, x.size, 1))
    place = zeros(values.shape, dtype=int64, device=x.device)
    step = 1 << n.bit_length() >> 1
    while step:
        probe = place + step
        element = gather_rows(rows, minimum(probe, n) - 1, "searchsorted")
        place = where(logical_and(less_equal(probe, n), _ahead(element, values, right)), probe, place)
        step >>= 1
    return reshape(place, x.shape)


def _ahead(element: Tensor, x: Tensor, right: bool) -> Tensor:
    """Return where an element of the sorted vector stands before the place of ``x``; NaN is larger than numbers."""
    if x.dtype.kind == "c":
        first, second = real(element), imag(element)
        own = logical_and(equal(first, real(x)), (less_equal if right else less)(second, imag(x)))
        return logical_and(logical_or(less(first, real(x)), own), logical_not(isnan(second)))
    ahead = less_equal(element, x) if right else less(element, x)
    if x.dtype.kind in "iu":
        return ahead
    return logical_or(ahead, isnan(x) if right else logical_and(isnan(x), logical_not(isnan(element))))


def contained(x: Tensor, ordered: Tensor) -> Tensor:
    """Return which elements of ``x`` occur in a sorted vector."""
    n = ordered.shape[0]
    if not n:
        return zeros(x.shape, dtype=np.dtype(bool), device=x.device)
    place = reshape(insertion_places(ordered, x, right=False), (1, x.size, 1))
    found = gather_rows(reshape(ordered, (1, n, 1)), minimum(place, n - 1), "isin")
    dtype = np.promote_types(ordered.dtype, x.dtype)
    return equal(reshape(as_dtype(found, dtype), x.shape), as_dtype(x, dtype))
