"""Insertion places by binary search, for devices without a kernel for it."""

from __future__ import annotations

from typing import Final

import numpy as np

from ....core.dtypes.names import int64, uint8
from ....core.tensor import Tensor
from ... import scalar as s
from ...declare import COMPARISON, internal_function
from ...declare.promotion import Promotion
from ..creation import zeros
from ..elementwise.arithmetic import minimum
from ..elementwise.comparison import equal, isnan, less, logical_and, logical_not, logical_or
from ..elementwise.complex import imag, real
from ..primitives import gather_rows
from ..shape.copying import as_dtype
from ..shape.views import reshape

_PLACES: Final = Promotion("PLACES", lambda dtype: int64, lambda dtype: dtype, "iu", "integers")


precedes = internal_function(
    "precedes(Tensor x1, Tensor x2)",
    lambda x1, x2: s.where(s.isnan(x2), ~s.isnan(x1), x1 < x2),
    "Return whether an element comes before another one when sorted; NaN is larger than every number.",
    promote=COMPARISON,
)
probed_place = internal_function(
    "probed_place(Tensor place, int step, int n)",
    lambda place, step, n: s.where(place + step < n, place + step, n) - 1,
    "Return the place of the element of a vector of length ``n`` that decides whether ``place`` advances by ``step``.",
    promote=_PLACES,
)
advanced_place = internal_function(
    "advanced_place(Tensor place, Tensor ahead, int step, int n)",
    lambda place, ahead, step, n: s.where(ahead, s.where(place + step <= n, place + step, place), place),
    "Return the places, ``step`` further where ``ahead`` says that more elements come before, but at most ``n``.",
    promote=_PLACES,
    boolean=("ahead",),
)


def insertion_places(edges: Tensor, x: Tensor, right: bool) -> Tensor:
    """Return where each element of ``x`` can be inserted into a sorted vector, as ``numpy.searchsorted`` does.

    The vector is read once for each binary digit of its length.
    """
    n = edges.shape[0]
    dtype = edges.dtype if edges.dtype == x.dtype else np.promote_types(edges.dtype, x.dtype)
    dtype = uint8 if dtype.kind == "b" else dtype
    rows, values = reshape(as_dtype(edges, dtype), (1, n, 1)), reshape(as_dtype(x, dtype), (1, x.size, 1))
    before = _complex_precedes if dtype.kind == "c" else precedes
    place = zeros(values.shape, dtype=int64, device=x.device)
    step = 1 << n.bit_length() >> 1
    while step:
        element = gather_rows(rows, probed_place(place, step, n), "searchsorted")
        ahead = logical_not(before(values, element)) if right else before(element, values)
        place = advanced_place(place, ahead, step, n)
        step >>= 1
    return reshape(place, x.shape)


def _complex_precedes(x1: Tensor, x2: Tensor) -> Tensor:
    """Return whether a complex number comes before another one when sorted; of NaN only that it precedes no number."""
    first, second = real(x1), imag(x1)
    own = logical_and(equal(first, real(x2)), less(second, imag(x2)))
    return logical_and(logical_or(less(first, real(x2)), own), logical_not(isnan(second)))


def contained(x: Tensor, ordered: Tensor) -> Tensor:
    """Return which elements of ``x`` occur in a sorted vector."""
    n = ordered.shape[0]
    if not n:
        return zeros(x.shape, dtype=np.dtype(bool), device=x.device)
    place = reshape(insertion_places(ordered, x, right=False), (1, x.size, 1))
    found = gather_rows(reshape(ordered, (1, n, 1)), minimum(place, n - 1), "isin")
    dtype = np.promote_types(ordered.dtype, x.dtype)
    return equal(reshape(as_dtype(found, dtype), x.shape), as_dtype(x, dtype))
