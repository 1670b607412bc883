"""Operators whose number of results depends on the values: places of nonzero elements, sets of two tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.device import META
from ....core.dtypes.names import int64
from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ...declare import Decomposition, Entry, TensorSpec, normal, structured
from ..creation import zeros
from ..elementwise.comparison import equal, logical_not, logical_or
from ..indexing.advanced_indexing import index
from ..indexing.selection import coordinates, flat_places
from ..shape.copying import as_dtype, clone, concatenate
from ..shape.views import matrix_transpose, reshape
from ..shape.views import slice as slice_view
from ..sorting.insertion import contained
from ..sorting.sets import distinct
from ..sorting.sort import sorted_rows


def _dynamic(operator: str, rule: Callable[..., TensorSpec]) -> Callable[..., TensorSpec]:
    def meta(*given: Any) -> TensorSpec:
        spec = rule(*given)
        if any(getattr(x, "device", None) is META for x in given):
            raise NotImplementedError(
                f"[{operator}] the shape of the result depends on the values, and a meta tensor has none."
            )
        return spec

    return meta


def _places(name: str, rule: Callable[..., TensorSpec], on_device: Callable[..., Tensor], doc: str) -> Entry:
    function = getattr(np, name)
    return structured(
        f"{name}(Tensor x) -> Tensor",
        meta=_dynamic(name, rule),
        numpy=lambda x: function(x).astype(np.int64),
        decomposition=Decomposition(on_device, needs=("scan", "scatter")),
        differentiable=False,
        sample_inputs=normal([3, 4], [0, 2]),
        tags=(Tag.DATA_DEPENDENT_OUTPUT,),
        doc=doc,
    )


argwhere = _places(
    "argwhere",
    lambda x: TensorSpec((0, x.ndim), int64),
    lambda x: clone(matrix_transpose(coordinates(flat_places(reshape(x, (x.size,))), x.shape))),
    """Return the indices of the nonzero elements, one element per row; int64.

    >>> tk.argwhere(tk.asarray([[0, 1], [2, 0]])).tolist()
    [[0, 1], [1, 0]]
    """,
)

flatnonzero = _places(
    "flatnonzero",
    lambda x: TensorSpec((0,), int64),
    lambda x: flat_places(reshape(x, (x.size,))),
    """Return the indices of the nonzero elements in the flattened tensor; int64.

    >>> tk.flatnonzero(tk.asarray([0, 3, 0, 5])).tolist()
    [1, 3]
    """,
)


def _neighbours(x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor, int]:
    """Return the distinct elements of both, sorted together, which of them equal the next, and their number."""
    both = concatenate([distinct(x1, alike=True), distinct(x2, alike=True)])
    n = both.size
    ordered = reshape(sorted_rows(both, 0)[0], (n,))
    return ordered, equal(slice_view(ordered, 0, 1, n), slice_view(ordered, 0, 0, max(n - 1, 0))), n


def _in_either(x1: Tensor, x2: Tensor) -> Tensor:
    return distinct(concatenate([x1, x2]), alike=True)


def _in_both(x1: Tensor, x2: Tensor) -> Tensor:
    ordered, twice, n = _neighbours(x1, x2)
    return index(ordered, [flat_places(twice)]) if n else ordered


def _in_one(x1: Tensor, x2: Tensor) -> Tensor:
    ordered, twice, n = _neighbours(x1, x2)
    if not n:
        return ordered
    end = zeros((1,), dtype=twice.dtype, device=twice.device)
    return index(ordered, [flat_places(logical_not(logical_or(concatenate([twice, end]), concatenate([end, twice]))))])


def _in_first(x1: Tensor, x2: Tensor) -> Tensor:
    own = distinct(x1, alike=True)
    return index(own, [flat_places(logical_not(contained(own, distinct(x2))))])


def _set(name: str, what: str, on_device: Callable[[Tensor, Tensor], Tensor], shown: str) -> Entry:
    def meta(x1: Any, x2: Any) -> TensorSpec:
        return TensorSpec((0,), result_dtype((x1.dtype, x2.dtype), ()))

    function = getattr(np, name)

    def on_numpy(x1: Any, x2: Any) -> Any:
        dtype = result_dtype((x1.dtype, x2.dtype), ())
        return function(x1.reshape(-1).astype(dtype, copy=False), x2.reshape(-1).astype(dtype, copy=False))

    def by_sort(x1: Tensor, x2: Tensor) -> Tensor:
        dtype = result_dtype((x1.dtype, x2.dtype), ())
        return on_device(*[reshape(as_dtype(x, dtype), (x.size,)) for x in (x1, x2)])

    return structured(
        f"{name}(Tensor x1, Tensor x2) -> Tensor",
        meta=_dynamic(name, meta),
        numpy=on_numpy,
        decomposition=Decomposition(by_sort, needs=("sort", "scan", "gather", "scatter")),
        differentiable=False,
        sample_inputs=lambda rng: [
            ((np.array([1.0, 2.5, 2.5]), np.array([2.5, 4.0])), {}),
            ((np.zeros(0), np.array([1.0])), {}),
        ],
        tags=(Tag.DATA_DEPENDENT_OUTPUT,),
        doc=f"""Return the distinct elements {what}, ascending, as a vector of the promoted dtype. Not differentiable.

    >>> tk.{name}(tk.asarray([3, 1, 1]), tk.asarray([1, 2])).tolist()
    {shown}
    """,
    )


union1d = _set("union1d", "of either of two tensors", _in_either, "[1, 2, 3]")
intersect1d = _set("intersect1d", "of both of two tensors", _in_both, "[1]")
setdiff1d = _set("setdiff1d", "of the first of two tensors that the second does not have", _in_first, "[3]")
setxor1d = _set("setxor1d", "of exactly one of two tensors", _in_one, "[2, 3]")
