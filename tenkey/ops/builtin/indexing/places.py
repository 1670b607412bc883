"""Selections in the form that the primitive operators take, for devices without kernels of their own.

Note [Rows]
~~~~~~~~~~~
``gather_rows`` and ``scatter_rows_`` see a tensor as (outer, n, inner) and select along the middle dimension. An index
along one axis has this form as it is: outer and inner are the dimensions before and behind the axis. Several tensors
of indices are one index along the dimensions that they select from, joined: these are moved to the front first unless
they are adjacent. A coordinate out of range makes the joined index -1, which no element has; a mask becomes the
coordinates of its true elements. Guarded by ``tests/operators/test_decompositions.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...._util.record import Record
from ....core.device import Device
from ....core.dtypes.names import int64, uint64
from ....core.tensor import Tensor, from_host
from ....core.word import WEAK_MASK
from ....dispatch.registry import registry
from ... import scalar
from ...declare import internal_function
from ...declare.promotion import Promotion
from ...shapes import broadcast_shapes
from ..creation import zeros
from ..elementwise.arithmetic import minimum
from ..elementwise.comparison import where
from ..primitives import gather_rows, scatter_rows_
from ..shape.copying import as_dtype, clone
from ..shape.views import broadcast_to, permute_dims, reshape, select_index
from .basic_indexing import NO_FIT, NOT_AN_INDEX, adjacent, common_shape, places_of


def sides(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """Return (outer, n, inner) for an axis, which may be negative."""
    i = axis % len(shape)
    return math.prod(shape[:i]), shape[i], math.prod(shape[i + 1 :])


def _join(place: Any, index: Any, n: Any) -> Any:
    i = scalar.where(index < 0, index + n, index)
    inside = scalar.where(i < 0, -1, scalar.where(i < n, place * n + i, -1))
    return scalar.where(place < 0, -1, inside)


joined_index = internal_function(
    "joined_index(Tensor place, Tensor index, int n)",
    _join,
    """Return the number of a place once a dimension of length ``n`` is added behind those that ``place`` numbers.

    It is -1 where ``place`` is, or where the index is out of range.
    """,
    promote=Promotion("INDEX", lambda dtype: int64, lambda dtype: dtype, "iu", "integers"),
)


def from_front(indices: Tensor, n: int) -> Tensor:
    """Return indices into a dimension of length ``n`` as int64 from the front, -1 for those that are out of range."""
    return _joined(0, indices, n)


def _joined(place: Any, indices: Any, n: int) -> Tensor:
    return joined_index(place, as_dtype(indices, int64) if indices.dtype == uint64 else indices, n)


def addition(dtype: np.dtype) -> str:
    """Return the mode of ``scatter_rows_`` that adds: the sum of bools is "or"."""
    return "maximum" if dtype.kind == "b" else "add"


class Places(Record, frozen=True):
    """What a list of tensors selects; see Note [Rows]."""

    order: tuple[int, ...] | None
    """The order of dimensions in which the joined ones are adjacent, or None if they are already."""
    rows: tuple[int, int, int]
    """The shape of the tensor as rows, in this order."""
    place: Tensor
    """The joined index, with the shape (1, count, 1)."""
    shape: tuple[int, ...]
    """The shape of the selection."""

    def rows_of(self, x: Tensor) -> Tensor:
        """Return a tensor as rows: a view if its layout allows it."""
        return reshape(x if self.order is None else permute_dims(x, self.order), self.rows)

    def tensor_of(self, rows: Tensor, shape: Sequence[int]) -> Tensor:
        """Undo ``rows_of``."""
        if self.order is None:
            return reshape(rows, shape)
        inverse = sorted(range(len(shape)), key=self.order.__getitem__)
        return permute_dims(reshape(rows, [shape[i] for i in self.order]), inverse)

    def scatter(self, rows: Tensor, source: Tensor, mode: str, operator: str) -> None:
        """Combine a source, which broadcasts to the selection, with the selected elements of rows."""
        outer, n, inner = self.rows
        if not outer * inner:
            _refuse_outside(self.place, n, operator)
        shape = (outer, self.place.shape[1], inner) if source.ndim else (1, 1, 1)
        spread = broadcast_to(source, self.shape) if source.ndim else source
        scatter_rows_(rows, self.place, reshape(as_dtype(spread, rows.dtype), shape), mode, operator)


def places(shape: Sequence[int], indices: Sequence[Tensor | None], device: Device) -> Places:
    """Return what ``indices`` select from a tensor of this shape; see Note [Rows]."""
    arrays: list[Tensor | None] = []
    for i in indices:
        if i is not None and i.dtype.kind not in "iub":
            raise IndexError(NOT_AN_INDEX.format(value=f"a tensor of dtype {i.dtype}"))
        if i is None or i.dtype.kind != "b":
            arrays.append(i)
            continue
        covers = tuple(shape[len(arrays) : len(arrays) + i.ndim])
        if i.shape != covers:
            raise IndexError(NO_FIT.format(mask=i.shape, covers=covers))
        coordinates = registry.find("tk::nonzero_rows").call(i)
        arrays += [select_index(coordinates, 0, d) for d in range(i.ndim)]
    at = places_of(arrays)
    lengths = [shape[k] for k in at]
    rest = [k for k in range(len(shape)) if k not in at]
    joined = not at or adjacent(at)
    before = at[0] if at and joined else 0
    common = common_shape(*[i.shape for i in arrays if i is not None])
    place: Any = 0 if at else zeros((), dtype=int64, device=device)
    for k in at:
        place = _joined(place, arrays[k], shape[k])
    sizes = [shape[k] for k in rest]
    return Places(
        None if joined else (*at, *rest),
        (math.prod(sizes[:before]), math.prod(lengths), math.prod(sizes[before:])),
        reshape(broadcast_to(place, common), (1, math.prod(common), 1)),
        (*sizes[:before], *common, *sizes[before:]),
    )


def _refuse_outside(index: Tensor, n: int, operator: str) -> None:
    """Raise IndexError for an index out of range, also where it selects from rows without elements."""
    gather_rows(zeros((1, n, 1), dtype=int64, device=index.device), index, operator)


# ---- the operators, once their arguments have been checked


def select(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """Return ``x[indices]``."""
    at = places(x.shape, indices, x.device)
    return reshape(gather_rows(at.rows_of(x), at.place, "index"), at.shape)


def combine(x: Tensor, indices: Sequence[Tensor | None], source: Tensor, mode: str, operator: str) -> Tensor:
    """Return a copy of ``x`` with ``source`` combined where ``indices`` select."""
    at = places(x.shape, indices, x.device)
    rows = clone(at.rows_of(x))
    at.scatter(rows, source, mode, operator)
    found = at.tensor_of(rows, x.shape)
    return found if at.order is None else clone(found)


def assign(x: Tensor, indices: Sequence[Tensor | None], source: Tensor) -> Tensor:
    """Write ``source`` into ``x`` where ``indices`` select."""
    if source._word & WEAK_MASK:
        source = from_host(np.asarray(source.item()).astype(x.dtype), x.device)
    copy_ = registry.find("tk::copy_").call
    mask = indices[0] if len(indices) == 1 else None
    if mask is not None and mask.dtype.kind == "b" and not source.ndim and mask.shape == x.shape[: mask.ndim]:
        wide = reshape(mask, (*mask.shape, *[1] * (x.ndim - mask.ndim)))
        return copy_(x, where(wide, as_dtype(source, x.dtype), x))  # type: ignore[no-any-return]
    at = places(x.shape, indices, x.device)
    try:
        fits = broadcast_shapes("index_put", at.shape, source.shape) == at.shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"[index_put] a value of shape {source.shape} does not fit where a mask selects the shape {at.shape}: "
            "give one element, or as many as the mask selects."
        )
    if at.order is None and x.is_contiguous:
        at.scatter(reshape(x, at.rows), source, "set", "index_put")
        return x
    rows = clone(at.rows_of(x))
    at.scatter(rows, source, "set", "index_put")
    return copy_(x, at.tensor_of(rows, x.shape))  # type: ignore[no-any-return]


def take(x: Tensor, indices: Tensor, axis: int, operator: str) -> Tensor:
    """Return the elements at ``indices`` along an axis; the other dimensions broadcast."""
    i = axis % x.ndim
    shape = broadcast_shapes(operator, (*x.shape[:i], 1, *x.shape[i + 1 :]), indices.shape)
    index = _spread(from_front(indices, x.shape[i]), shape, i)
    return reshape(gather_rows(_spread(x, shape, i), index, operator), shape)


def _spread(x: Tensor, shape: tuple[int, ...], axis: int) -> Tensor:
    """Return a tensor that broadcasts to a shape, except along an axis, as rows; all or nothing is broadcast."""
    before, n, behind = sides(x.shape, axis)
    outer, _, inner = sides(shape, axis)
    if before in (1, outer) and behind in (1, inner):
        return reshape(x, (before, n, behind))
    return reshape(broadcast_to(x, (*shape[:axis], n, *shape[axis + 1 :])), (outer, n, inner))


def add_along(start: Tensor, indices: Tensor, source: Tensor, axis: int) -> Tensor:
    """Add ``source``, which broadcasts to ``indices``, to a new tensor at the indices along an axis, and return it."""
    i = axis % start.ndim
    n = start.shape[i]
    if indices.dtype == uint64:  # numbers beyond int64 would become negative, and count from the end
        indices = minimum(indices, n)
    index = reshape(from_front(indices, n), sides(indices.shape, i))
    spread = reshape(broadcast_to(source, indices.shape), sides(indices.shape, i))
    scatter_rows_(reshape(start, sides(start.shape, i)), index, spread, addition(start.dtype), "scatter_add")
    return start
