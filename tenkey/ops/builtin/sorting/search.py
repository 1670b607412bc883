"""Searching: insertion places in sorted data, the largest elements, running extremes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ....core.dtypes.names import int32, int64
from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ... import scalar as s
from ...declare import (
    ORDERED,
    ArgScan,
    Decomposition,
    Entry,
    TensorSpec,
    along,
    checked,
    composite,
    gather,
    internal,
    internal_composite,
    normal,
    scan,
    structured,
)
from ...shapes import normalize_axis
from ..creation import arange, concrete, zeros
from ..elementwise.comparison import equal, logical_or, not_equal, where
from ..elementwise.complex import refuse_complex
from ..indexing.advanced_indexing import along_gradient, take, take_along_axis
from ..results import CummaxResult, CumminResult, TopKResult
from ..shape.copying import as_dtype, clone, concat
from ..shape.views import along_axis
from ..shape.views import slice as slice_view
from .insertion import insertion_places
from .sort import argsort_rows, host_argsort, sorting_order, unsorted_gradient


def _check_vector(x1: Tensor) -> None:
    if x1.ndim != 1:
        raise ValueError(f"[searchsorted] the sorted data must have one dimension, got shape {x1.shape}.")


def _place_meta(x1: Tensor, x2: Tensor, side: str) -> TensorSpec:
    for x in (x1, x2):
        refuse_complex("searchsorted", x.dtype)
    result_dtype((x1.dtype, x2.dtype), ())
    _check_vector(x1)
    return TensorSpec(x2.shape, int64)


place_sorted = internal(
    "place_sorted(Tensor x1, Tensor x2, str side) -> Tensor",
    meta=_place_meta,
    numpy=lambda x1, x2, side: x1.searchsorted(x2, side),
    decomposition=checked(_place_meta, lambda x1, x2, side: insertion_places(x1, x2, side == "right"), "gather"),
    sample_inputs=lambda rng: [
        ((np.sort(rng.standard_normal(5)), rng.standard_normal((2, 3)), "left"), {}),
        ((np.arange(19.0) // 3, np.arange(-1.0, 8.0), "right"), {}),
        ((np.arange(19.0) // 3, np.arange(-1.0, 8.0), "left"), {}),
    ],
    batch=gather("x2"),
)


def _numpy_searchsorted(x1: Any, x2: Any, *, side: str = "left", sorter: Any = None) -> Any:
    if x1.ndim != 1 or x1.dtype is not x2.dtype or x1.dtype.kind not in "biuf" or sorter is not None:
        return NotImplemented
    return x1.searchsorted(x2, side)


@composite(
    "searchsorted(Tensor x1, Tensor x2, *, str side='left', Tensor? sorter=None) -> Tensor",
    numpy=_numpy_searchsorted,
    quiet=True,
    differentiable=False,
    sample_inputs=lambda rng: (
        [
            ((np.array([0.0, 1.0, 1.0, 2.0]), np.array([[1.0, 0.0, 5.0], [1.0, 2.0, 0.0]])), options)
            for options in ({}, {"side": "right"}, {"sorter": np.arange(4)})
        ]
        + [((np.zeros(0), np.array(1.0)), {})]
    ),
    methods=("searchsorted",),
    positional=2,
)
def searchsorted(x1: Tensor, x2: Tensor, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Return the index (int64) at which each element of ``x2`` can be inserted into the sorted vector ``x1``.

    ``side`` chooses the place before ("left") or behind ("right") equal elements. ``x2`` may be a number. If ``x1`` is
    not sorted, ``sorter`` holds the indices that sort it (``argsort``). NaN counts as larger than every number. Raises
    ValueError for other shapes, TypeError for complex dtypes.

    >>> tk.searchsorted(tk.asarray([1, 2, 2, 3]), tk.asarray([0, 2, 9])).tolist()
    [0, 1, 4]
    >>> tk.searchsorted(tk.asarray([1, 2, 2, 3]), 2, side="right").item()
    3
    """
    _check_vector(x1)
    if side not in ("left", "right"):
        raise ValueError(f"[searchsorted] side must be 'left' or 'right', got {side!r}.")
    if sorter is not None:
        if sorter.dtype.kind not in "iu" or sorter.shape != x1.shape:
            raise ValueError(
                f"[searchsorted] sorter must hold the {x1.shape[0]} integers that sort the data, got {sorter.dtype} "
                f"of shape {sorter.shape}."
            )
        x1 = take(x1, sorter)
    return place_sorted(x1, concrete(x2, x1), side)


def _check_k(x: Tensor, k: int, axis: int) -> int:
    refuse_complex("topk", x.dtype)
    i = normalize_axis("topk", axis, x.ndim)
    if not 0 <= k <= x.shape[i]:
        raise ValueError(f"[topk] k must be between 0 and the {x.shape[i]} elements along axis {i}, got {k}.")
    return i


def _top_meta(x: Tensor, k: int, axis: int, largest: bool) -> TensorSpec:
    i = _check_k(x, k, axis)
    return TensorSpec((*x.shape[:i], k, *x.shape[i + 1 :]), int64)


_COLUMN: Final = np.arange(64)[:, None]


def _top_indices(x: np.ndarray, k: int, axis: int, largest: bool) -> Any:
    lanes = x.swapaxes(axis, -1)
    n = lanes.shape[-1]
    if not 0 < 4 * k <= n:
        return host_argsort(lanes, descending=largest)[..., :k].swapaxes(axis, -1)
    # sort only the k elements ahead of the others, unless a tie makes them ambiguous
    rows = lanes.reshape(-1, n)
    each = _COLUMN[: len(rows)] if len(rows) <= len(_COLUMN) else np.arange(len(rows))[:, None]
    cut = n - k if largest else k - 1
    parts = rows.argpartition(cut, -1)
    last = rows[each, parts[:, cut : cut + 1]]
    # nan is larger than any number, and neither less nor greater for NumPy
    count = np.add.reduce(rows < last if largest else rows <= last, 1, np.intp)
    if (count == (cut if largest else k)).all():
        some = parts[:, n - k :] if largest else parts[:, :k]
        some.sort(-1)
        found = some[each, host_argsort(rows[each, some], descending=largest)]
    else:
        found = host_argsort(rows, descending=largest)[:, :k]
    return found.reshape((*lanes.shape[:-1], k)).swapaxes(axis, -1)


def _first_places(x: Tensor, k: int, axis: int, largest: bool) -> Tensor:
    i = _check_k(x, k, axis)
    return clone(slice_view(argsort_rows(x, axis=i, descending=largest), i, 0, k))


top_indices = internal(
    "top_indices(Tensor x, int k, int axis, bool largest) -> Tensor",
    meta=_top_meta,
    numpy=_top_indices,
    decomposition=Decomposition(_first_places, needs=("sort",)),
    sample_inputs=lambda rng: [((rng.permuted(np.tile(np.arange(8.0), (2, 1)), axis=1), 2, 1, True), {})],
    batch=along("axis"),
)


def _picked_vjp(g: Tensor, x: Tensor, axis: int, largest: bool) -> Tensor:
    # the first k of the sorted elements; the gradient of the others is zero
    shape = list(x.shape)
    shape[axis] -= g.shape[axis]
    padded = concat([g, zeros(shape, dtype=g.dtype, device=g.device)], axis=axis)
    order, starts = sorting_order(x, axis, largest)
    return unsorted_gradient(padded, order, starts, axis)


@internal_composite(
    "top_values(Tensor x, Tensor indices, int axis, bool largest) -> Tensor",
    vjp={"x": _picked_vjp, "indices": None},
    sample_inputs=lambda rng: [
        ((np.array([[3.1, 0.2, 7.3], [1.4, 2.5, 0.6]]), np.array([[2, 0], [1, 0]]), 1, True), {})
    ],
)
def top_values(x: Tensor, indices: Tensor, axis: int, largest: bool) -> Tensor:
    """Take the elements at the indices of the largest ones; the gradient is that of sorting."""
    refuse_complex("topk", x.dtype)
    if x.ndim != indices.ndim or any(m != n for i, (m, n) in enumerate(zip(x.shape, indices.shape)) if i != axis):
        raise ValueError(f"[topk] indices of shape {indices.shape} do not fit elements of shape {x.shape}.")
    return take_along_axis(x, indices, axis=axis)


@composite(
    "topk(Tensor x, int k, int axis=-1, *, bool largest=True) -> (Tensor values, Tensor indices)",
    sample_inputs=lambda rng: [
        ((rng.permutation(np.arange(12.0)).reshape(2, 6) - 2.3, k), options)
        for k, options in ((2, {}), (1, {"largest": False}), (2, {"axis": 0}), (0, {}), (6, {"axis": -1}))
    ],
    methods=("topk",),
)
def topk(x: Tensor, k: int, axis: int = -1, *, largest: bool = True) -> TopKResult:
    """Return the ``k`` largest (or smallest) elements along an axis, in order, and their indices (int64).

    Equal elements keep their order and share the gradient equally, including those beyond the ``k``-th. NaN counts as
    larger than every number. Raises ValueError if there are fewer than ``k`` elements, TypeError for complex dtypes.

    >>> values, indices = tk.topk(tk.asarray([3, 9, 5, 7]), 2)
    >>> values.tolist(), indices.tolist()
    ([9, 7], [1, 3])
    """
    i = _check_k(x, k, axis)
    indices = top_indices(x, k, i, largest)
    return TopKResult(top_values(x, indices, i, largest), indices)


def _running(name: str, larger: Any, replaces: Any, accumulate: Any) -> tuple[Entry, Entry]:
    running = scan(
        f"running_{name[3:]}(Tensor x, int axis) -> Tensor",
        combine=lambda T: lambda a, b: larger(a, b),
        promote=ORDERED,
        numpy=accumulate,
        differentiable=False,
        sample_inputs=normal(([3, 4], 0), ([3, 4], 1), ([0, 3], 0)),
        tags=(Tag.INTERNAL,),
    )

    def check(x: Any, axis: int) -> None:
        refuse_complex(name, x.dtype)
        normalize_axis(name, axis, x.ndim)

    def on_numpy(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
        check(x, axis)
        # the last place so far at which an element is the running extreme itself
        own = x == accumulate(x, axis)
        if x.dtype.kind == "f":
            own |= x != x
        lanes = own.swapaxes(axis, -1)
        places = np.maximum.accumulate(lanes * np.arange(lanes.shape[-1]), -1).swapaxes(axis, -1)
        return x[places] if x.ndim == 1 else np.take_along_axis(x, places, axis), places

    def gradient(g: Any, indices: Tensor, x_meta: Any, axis: int) -> Tensor | None:
        return None if g[0] is None else along_gradient(g[0], x_meta.shape, indices, axis)

    @internal_composite(
        f"{name}_pairs(Tensor x, int axis) -> (Tensor values, Tensor indices)",
        numpy=on_numpy,
        vjp={"x": gradient},
        sample_inputs=lambda rng: [
            ((np.array([[1.0, 3.0, 2.5, 2.0], [4.0, 1.5, 5.0, 0.0]]), axis), {}) for axis in (0, 1)
        ],
        batch=along("axis"),
        running=ArgScan(lambda T: lambda a, b: s.logical_or(replaces(a, b), s.isnan(b))),
    )
    def pairs(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
        check(x, axis)
        i = normalize_axis(name, axis, x.ndim)
        own = logical_or(equal(x, running(x, i)), not_equal(x, x))
        n = x.shape[i]
        short = int32 if n < 1 << 31 else int64  # half the memory
        places = along_axis(arange(n, device=x.device, dtype=short), i, x.ndim)
        indices = as_dtype(running_max(where(own, places, 0), i), int64)
        return take_along_axis(x, indices, axis=i), indices

    return running, pairs


running_max, cummax_pairs = _running("cummax", s.maximum, lambda a, b: b >= a, np.maximum.accumulate)
running_min, cummin_pairs = _running("cummin", s.minimum, lambda a, b: b <= a, np.minimum.accumulate)


def _running_samples(rng: np.random.Generator) -> Any:
    return [((rng.permutation(np.arange(10.0)).reshape(2, 5) - 1.7,), {"axis": axis}) for axis in (0, -1)] + [
        ((np.zeros((0, 3)),), {"axis": 0})
    ]


def _running_axis(operator: str, x: Tensor, axis: int | None) -> int:
    if axis is None and x.ndim != 1:
        raise ValueError(f"[{operator}] needs axis= for a tensor of shape {x.shape}.")
    return 0 if axis is None else normalize_axis(operator, axis, x.ndim)


@composite(
    "cummax(Tensor x, int? axis=None) -> (Tensor values, Tensor indices)",
    sample_inputs=_running_samples,
    methods=("cummax",),
)
def cummax(x: Tensor, axis: int | None = None) -> CummaxResult:
    """Return the largest element so far along an axis, which may be omitted for 1-d tensors, and its index (int64).

    Of equal elements the last one gives the index and gets the gradient. After a NaN all are NaN. Raises ValueError if
    the axis of a tensor of several dimensions is missing, TypeError for complex dtypes.

    >>> values, indices = tk.cummax(tk.asarray([1, 3, 2, 5]))
    >>> values.tolist(), indices.tolist()
    ([1, 3, 3, 5], [0, 1, 1, 3])
    """
    return CummaxResult(*cummax_pairs(x, _running_axis("cummax", x, axis)))


@composite(
    "cummin(Tensor x, int? axis=None) -> (Tensor values, Tensor indices)",
    sample_inputs=_running_samples,
    methods=("cummin",),
)
def cummin(x: Tensor, axis: int | None = None) -> CumminResult:
    """Return the smallest element so far along an axis, which may be omitted for 1-d tensors, and its index (int64).

    Of equal elements the last one gives the index and gets the gradient. After a NaN all are NaN. Raises ValueError if
    the axis of a tensor of several dimensions is missing, TypeError for complex dtypes.

    >>> tk.cummin(tk.asarray([3, 1, 2])).values.tolist()
    [3, 1, 1]
    """
    return CumminResult(*cummin_pairs(x, _running_axis("cummin", x, axis)))


def _argpartition_meta(x: Tensor, kth: int, axis: int = -1) -> TensorSpec:
    refuse_complex("argpartition", x.dtype)
    i = normalize_axis("argpartition", axis, x.ndim)
    n = x.shape[i]
    if not -n <= kth < n:
        raise IndexError(f"[argpartition] kth={kth} is out of range for the {n} elements along axis {i}.")
    return TensorSpec(x.shape, int64)


def _partition_samples(rng: np.random.Generator) -> Any:
    return [((np.array([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]]), kth), {"axis": 1}) for kth in (0, 2, -3)]


def _parts(found: np.ndarray, kth: int, axis: int) -> np.ndarray:
    """Sort the elements before and behind a place, whose order a partition leaves open."""
    rows = np.moveaxis(found, axis, -1)
    k = kth % rows.shape[-1]
    return np.concatenate([np.sort(part, -1) for part in (rows[..., :k], rows[..., k : k + 1], rows[..., k + 1 :])], -1)


argpartition = structured(
    "argpartition(Tensor x, int kth, int axis=-1) -> Tensor",
    meta=_argpartition_meta,
    numpy=lambda x, kth, axis=-1: x.argpartition(kth, axis),
    decomposition=checked(_argpartition_meta, lambda x, kth, axis=-1: argsort_rows(x, axis=axis), "sort"),
    differentiable=False,
    sample_inputs=_partition_samples,
    compared=lambda order, x, kth, axis=-1: _parts(np.take_along_axis(x, order, axis), kth, axis),
    batch=along("axis"),
    doc="""Return the indices that partition along an axis: place ``kth`` gets the element that sorting puts there.

    The elements before it are not larger and those behind it not smaller, in no particular order. Raises IndexError for
    a place out of range, TypeError for complex dtypes.

    >>> tk.argpartition(tk.asarray([30, 10, 20]), 0).tolist()[0]
    1
    """,
)


@composite(
    "partition(Tensor x, int kth, int axis=-1) -> Tensor",
    sample_inputs=_partition_samples,
    compared=lambda found, x, kth, axis=-1: _parts(found, kth, axis),
)
def partition(x: Tensor, kth: int, axis: int = -1) -> Tensor:
    """Partition the elements along an axis around the one that sorting puts at place ``kth``: see ``tk.argpartition``.

    >>> tk.partition(tk.asarray([30.0, 10.0, 20.0]), 0).tolist()[0]
    10.0
    """
    return take_along_axis(x, argpartition(x, kth, axis=axis), axis=axis)
