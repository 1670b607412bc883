"""Sets: the distinct elements of a tensor, and membership."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from ....core.dtypes.names import int64
from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ....core.word import WEAK_MASK
from ....dispatch.errors import OutOfRangeError
from ....dispatch.tags import Tag
from ...declare import Decomposition, Entry, TensorSpec, checked, composite, gather, internal, loop, structured
from ..creation import concrete, full, zeros
from ..elementwise.comparison import logical_not
from ..indexing.advanced_indexing import index, take
from ..indexing.selection import flat_places
from ..primitives import scatter_rows_
from ..reductions.cumulative import cumulative_sum
from ..results import UniqueAllResult, UniqueCountsResult, UniqueInverseResult
from ..shape.copying import cast, concatenate
from ..shape.views import reshape
from ..shape.views import slice as slice_view
from .insertion import contained
from .sort import sorted_rows, starts_of


def _values(x: np.ndarray) -> np.ndarray:
    """Return what ``np.unique`` does, which takes longer for integers, of which it makes a table."""
    values = x.flatten()
    values.sort()
    if values.size < 2:
        return values
    first = np.empty(values.size, bool)
    first[0] = True
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return values[first]


def _parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    values, indices, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    return values, indices, inverse.reshape(x.shape), counts


def _shape_of_values(operator: str, x: Tensor) -> tuple[int, ...]:
    if x.device.type == "meta":
        raise NotImplementedError(
            f"[{operator}] the shape of the result depends on the values, which a tensor without memory does not have: "
            "use a tensor on the CPU."
        )
    return np.unique(x.detach().numpy(), equal_nan=False).shape


def _parts_meta(x: Tensor) -> tuple[TensorSpec, ...]:
    n = _shape_of_values("unique", x)
    return TensorSpec(n, int64), TensorSpec(x.shape, int64), TensorSpec(n, int64)


def _samples(rng: np.random.Generator) -> Any:
    return [
        ((np.array([2.5, 1.25, -0.5, 0.75, 8.0]),), {}),
        ((np.array([[3.5, -3.5], [1.0, 2.0]]),), {}),
        ((np.array(2.5),), {}),
        ((np.zeros((0, 2)),), {}),
    ]


def distinct(x: Tensor, *, alike: bool = False) -> Tensor:
    """Return the distinct elements in ascending order; ``alike``: all NaNs are one element."""
    values, _ = sorted_rows(reshape(x, (x.size,)), 0)
    first = flat_places(reshape(starts_of(values, alike=alike), (x.size,)))
    return index(reshape(values, (x.size,)), [first])


def _parts_by_sort(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    n = x.size
    values, order = sorted_rows(reshape(x, (n,)), 0)
    starts = starts_of(values)
    first = flat_places(reshape(starts, (n,)))
    behind = full((1,), n, dtype=int64, device=x.device)
    ends = concatenate([slice_view(first, 0, 1, n), behind]) if n else first
    group = reshape(cumulative_sum(cast(starts, int64), axis=1) - 1, (1, n, 1))
    inverse = zeros((1, n, 1), dtype=int64, device=x.device)
    scatter_rows_(inverse, reshape(order, (1, n, 1)), group, "set", "unique")
    return index(reshape(order, (n,)), [first]), reshape(inverse, x.shape), ends - first


unique_parts = internal(
    "unique_parts(Tensor x) -> (Tensor indices, Tensor inverse_indices, Tensor counts)",
    meta=_parts_meta,
    numpy=lambda x: _parts(x)[1:],
    decomposition=Decomposition(_parts_by_sort, needs=("sort", "scan", "gather", "scatter")),
    strict=True,
    sample_inputs=lambda rng: [*_samples(rng), ((np.array([[2.0, 1.0, 2.0], [1.0, 3.0, 2.0]]),), {})],
    batch=loop,
    tags=(Tag.DATA_DEPENDENT_OUTPUT,),
)


def _unique_vjp(g: Tensor, x: Tensor) -> Tensor:
    _, inverse, counts = unique_parts(x)
    return reshape(take(g / counts, reshape(inverse, (-1,))), x.shape)


unique_values: Entry = structured(
    "unique_values(Tensor x) -> Tensor",
    meta=lambda x: TensorSpec(_shape_of_values("unique_values", x), x.dtype),
    numpy=_values,
    decomposition=Decomposition(distinct, needs=("sort", "scan", "gather", "scatter")),
    strict=True,
    quiet=True,
    vjp={"x": _unique_vjp},
    sample_inputs=_samples,
    batch=loop,
    tags=(Tag.DATA_DEPENDENT_OUTPUT,),
    doc="""Return the distinct elements of a tensor in ascending order, in one dimension.

    Equal elements share the gradient. Each NaN is distinct from every other. Source: the array API standard.

    >>> tk.unique_values(tk.asarray([3, 1, 3])).tolist()
    [1, 3]
    """,
)

_unique: Final = partial(composite, sample_inputs=_samples, tags=(Tag.DATA_DEPENDENT_OUTPUT,))


@_unique("unique_all(Tensor x) -> (Tensor values, Tensor indices, Tensor inverse_indices, Tensor counts)")
def unique_all(x: Tensor) -> UniqueAllResult:
    """Return the distinct elements with the places of their first occurrence, inverse indices and counts.

    ``indices`` point into the flattened tensor; ``inverse_indices`` have the shape of ``x`` and point into ``values``.
    These and ``counts`` are int64. Each NaN is distinct from every other.

    >>> found = tk.unique_all(tk.asarray([3, 1, 3]))
    >>> found.values.tolist(), found.indices.tolist(), found.inverse_indices.tolist(), found.counts.tolist()
    ([1, 3], [1, 0], [1, 0, 1], [1, 2])
    """
    indices, inverse, counts = unique_parts(x)
    return UniqueAllResult(unique_values(x), indices, inverse, counts)


@_unique("unique_counts(Tensor x) -> (Tensor values, Tensor counts)")
def unique_counts(x: Tensor) -> UniqueCountsResult:
    """Return the distinct elements and how often each occurs (int64). Each NaN is distinct from every other.

    >>> found = tk.unique_counts(tk.asarray([3, 1, 3]))
    >>> found.values.tolist(), found.counts.tolist()
    ([1, 3], [1, 2])
    """
    return UniqueCountsResult(unique_values(x), unique_parts(x)[2])


@_unique("unique_inverse(Tensor x) -> (Tensor values, Tensor inverse_indices)")
def unique_inverse(x: Tensor) -> UniqueInverseResult:
    """Return the distinct elements and the indices from which they reconstruct ``x``.

    ``inverse_indices`` are int64 and have the shape of ``x``: ``take(values, inverse_indices)`` gives the elements of
    ``x``. Each NaN is distinct from every other.

    >>> found = tk.unique_inverse(tk.asarray([3, 1, 3]))
    >>> found.values.tolist(), found.inverse_indices.tolist()
    ([1, 3], [1, 0, 1])
    """
    return UniqueInverseResult(unique_values(x), unique_parts(x)[1])


def _among_meta(x1: Tensor, x2: Tensor, invert: bool) -> TensorSpec:
    result_dtype((x1.dtype, x2.dtype), ())
    return TensorSpec(x1.shape, np.dtype(bool))


def _found(x1: Tensor, x2: Tensor, invert: bool) -> Tensor:
    inside = contained(x1, reshape(sorted_rows(reshape(x2, (x2.size,)), 0)[0], (x2.size,)))
    return logical_not(inside) if invert else inside


among = internal(
    "among(Tensor x1, Tensor x2, bool invert) -> Tensor",
    meta=_among_meta,
    numpy=lambda x1, x2, invert: np.isin(x1, x2, invert=invert),
    decomposition=checked(_among_meta, _found, "sort", "gather"),
    sample_inputs=lambda rng: [
        ((np.array([[1.0, 2.0, 5.0]]), np.array([2.0, 3.0]), invert), {}) for invert in (False, True)
    ],
    batch=gather("x1"),
)


@composite(
    "isin(Tensor x1, Tensor x2, *, bool invert=False) -> Tensor",
    differentiable=False,
    sample_inputs=lambda rng: [
        ((np.array([[1.0, 2.0, 5.0], [3.0, 2.0, 2.0]]), np.array([2.0, 3.0])), {}),
        ((np.array([1.0, 2.0]), np.array(2.0)), {"invert": True}),
        ((np.array(3.0), np.array([[2.0], [3.0]])), {}),
        ((np.zeros((0, 2)), np.zeros(0)), {}),
    ],
)
def isin(x1: Tensor, x2: Tensor, *, invert: bool = False) -> Tensor:
    """Return a mask of the elements of ``x1`` that occur in ``x2`` (with ``invert``: that do not).

    Either may be a Python number. The mask has the shape of ``x1``. NaN equals nothing.

    >>> tk.isin(tk.asarray([1, 2, 3]), tk.asarray([3, 1])).tolist()
    [True, False, True]
    """
    try:
        return among(concrete(x1, x2), concrete(x2, x1), invert)
    except OutOfRangeError:  # an int that the other dtype cannot hold is not among its elements
        return full(x1.shape, invert, dtype=np.dtype(bool), device=(x2 if x1._word & WEAK_MASK else x1).device)
