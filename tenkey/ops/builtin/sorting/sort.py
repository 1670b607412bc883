"""Sorting, with gradients that equal elements share equally.

Note [Gradients of sorting]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
``sort`` is linear near every point without ties: the gradient goes back along the permutation. At a tie all orders of
the equal elements are equivalent; averaging over them gives each element the mean of their gradients. So the formula
averages the incoming gradient over runs of equal values, a symmetric projection and therefore its own adjoint, and then
undoes the permutation. For this a recorded sort computes the order and marks where runs start, which take five bytes
an element, and saves neither its input nor its result. Guarded by
``tests/ops/test_sorting.py::test_ties_share_the_gradient`` and ``tests/operators/test_saved_tensors.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...._util import numpy_internals as numpy_functions
from ....core.dtypes.names import bool as boolean
from ....core.dtypes.names import float32, int8, int32, int64
from ....core.tensor import Tensor
from ...declare import Decomposition, Entry, TensorSpec, along, checked, composite, internal, structured
from ...shapes import normalize_axis
from ..creation import arange, ones, ones_like, zeros, zeros_like
from ..elementwise.comparison import isnan, logical_and, logical_not, not_equal
from ..elementwise.complex import imag, real, refuse_complex
from ..indexing.advanced_indexing import check_integers, take_along_axis
from ..indexing.places import from_front, sides, take
from ..primitives import gather_rows, scatter_rows_, sort_rows
from ..reductions.cumulative import cumulative_sum
from ..shape.copying import as_dtype, cast, clone, concatenate, flip
from ..shape.views import permute_dims, reshape
from ..shape.views import slice as slice_view


def _argsort_meta(x: Tensor, *, axis: int = -1, descending: bool = False, stable: bool = True) -> TensorSpec:
    refuse_complex("argsort", x.dtype)
    normalize_axis("argsort", axis, x.ndim)
    return TensorSpec(x.shape, int64)


def _reversed(x: np.ndarray, axis: int) -> np.ndarray:
    index: Any = (..., slice(None, None, -1), *(slice(None),) * (-axis - 1 if axis < 0 else x.ndim - 1 - axis))
    return x[index]  # type: ignore[no-any-return]


def _numpy_sort(x: np.ndarray, *, axis: int = -1, descending: bool = False, stable: bool = True) -> np.ndarray:
    if x.dtype.kind == "c":
        raise TypeError
    # Equal numbers cannot be told apart, so the faster unstable sort suffices, except for the two zeros of a float,
    # whose signs NumPy's vector instructions change.
    out = x.copy()
    small = x.size < _SMALL
    out.sort(axis, "stable" if stable and small else None)
    if stable and (descending or not small) and _has_both_zeros(x):
        order = host_argsort(x, axis=axis, descending=descending)
        return np.take_along_axis(x, order, axis)
    return _reversed(out, axis) if descending else out


def _has_both_zeros(x: np.ndarray) -> bool:
    """Return whether there are elements that are equal and can be told apart: 0.0 and -0.0."""
    if x.dtype.kind in "iub":
        return False
    zeros = x == 0
    if not numpy_functions.count_nonzero(zeros):
        return False
    signs = np.signbit(x[zeros])
    return bool(signs.any() and not signs.all())


def host_argsort(x: np.ndarray, *, axis: int = -1, descending: bool = False, stable: bool = True) -> np.ndarray:
    """Compute ``argsort`` on the CPU."""
    if x.dtype.kind == "c":
        raise TypeError
    if not x.ndim:  # NumPy treats it as a vector
        raise IndexError
    kind: Any = "stable" if stable else None
    if not descending:
        return x.argsort(axis, kind)
    # reversing before and after the sort keeps equal elements in order
    order = _reversed(_reversed(x, axis).argsort(axis, kind), axis)
    return x.shape[axis] - 1 - order  # type: ignore[no-any-return]


def sorted_rows(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return the elements sorted along an axis as rows, NaN last, and the places where they were, by the backend.

    Complex numbers are sorted as NumPy does: those without a NaN, by the real and then the imaginary part, precede
    those with one in the imaginary part, in the real part, and in both.
    """
    rows = as_rows(x, axis)
    if x.dtype.kind != "c":
        return sort_rows(rows)
    order: Tensor | None = None
    first, second = real(rows), imag(rows)
    broken = cast(isnan(first), int8) * 2 + cast(isnan(second), int8)
    for key in (second, first, broken):
        step = sort_rows(key if order is None else take(key, order, 1, "sort"))[1]
        order = step if order is None else take(order, step, 1, "sort")
    assert order is not None
    return take(rows, order, 1, "sort"), order


def as_rows(x: Tensor, axis: int) -> Tensor:
    """Return the tensor as a matrix whose rows lie along an axis."""
    outer, n, inner = sides(x.shape, axis)
    return reshape(permute_dims(reshape(x, (outer, n, inner)), (0, 2, 1)), (outer * inner, n))


def from_rows(rows: Tensor, shape: Sequence[int], axis: int) -> Tensor:
    """Undo ``as_rows``: return a contiguous tensor of this shape."""
    outer, n, inner = sides(shape, axis)
    found = rows if inner == 1 else clone(permute_dims(reshape(rows, (outer, inner, n)), (0, 2, 1)))
    return reshape(found, shape)


def starts_of(values: Tensor, *, alike: bool = False) -> Tensor:
    """Return where a run of equal elements starts in each row; ``alike``: all NaNs are one run."""
    n = values.shape[1]
    if not n:
        return zeros(values.shape, dtype=boolean, device=values.device)
    left, right = slice_view(values, 1, 0, n - 1), slice_view(values, 1, 1, n)
    new = not_equal(left, right)
    if alike and values.dtype.kind in "fcV":
        new = logical_and(new, logical_not(logical_and(isnan(left), isnan(right))))
    return concatenate([ones((values.shape[0], 1), dtype=boolean, device=values.device), new], axis=1)


def argsort_rows(x: Tensor, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Compute ``argsort`` by the backend's ``sort``."""
    _argsort_meta(x, axis=axis)
    return from_rows(_ordered(x, axis, descending)[1], x.shape, axis)


def _ordered(x: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Return the sorted elements as rows, and where they were; equal elements keep their order in both directions."""
    if not descending:
        return sorted_rows(x, axis)
    values, order = sorted_rows(flip(x, axis=axis), axis)
    return flip(values, axis=1), x.shape[axis] - 1 - flip(order, axis=1)


_SMALL: Final = 1 << 10  # elements; below that a stable sort costs nothing


def _sort_samples(rng: np.random.Generator) -> Any:
    return [
        ((rng.permutation(np.arange(12.0)).reshape(3, 4) - 5.3,), options)
        for options in ({}, {"axis": 0}, {"descending": True}, {"axis": -2, "descending": True, "stable": False})
    ] + [((rng.standard_normal(shape),), {"axis": axis}) for shape, axis in (((0, 3), 0), ((0, 3), 1), ((4,), 0))]


argsort: Entry = structured(
    "argsort(Tensor x, *, int axis=-1, bool descending=False, bool stable=True) -> Tensor",
    meta=_argsort_meta,
    numpy=host_argsort,
    decomposition=Decomposition(argsort_rows, needs=("sort",)),
    quiet=True,
    strict=True,
    differentiable=False,
    sample_inputs=_sort_samples,
    batch=along("axis"),
    methods=("argsort",),
    positional=1,
    doc="""Return the indices (int64) that sort along an axis: ``take_along_axis(x, argsort(x))`` is ``sort(x)``.

    Equal elements keep their order if ``stable``, in both directions. NaN counts as larger than every number.
    Raises TypeError for complex dtypes, IndexError for an axis out of range.

    >>> tk.argsort(tk.asarray([3.0, 1.0, 2.0])).tolist()
    [1, 2, 0]
    >>> tk.argsort(tk.asarray([1, 2, 2]), descending=True).tolist()
    [1, 2, 0]
    """,
)


def _order_meta(x: Tensor, axis: int, descending: bool) -> tuple[TensorSpec, TensorSpec]:
    refuse_complex("sort", x.dtype)
    normalize_axis("sort", axis, x.ndim)
    return TensorSpec(x.shape, int32 if x.shape[axis] <= _INT32 else int64), TensorSpec(x.shape, boolean)


def _sorting_order(x: np.ndarray, axis: int, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    # an unstable order is faster, and gives the same elements and gradients
    order = host_argsort(x, axis=axis, descending=descending, stable=x.size < _SMALL or _has_both_zeros(x))
    ordered = np.moveaxis(np.take_along_axis(x, order, axis), axis, -1)
    starts = np.ones(x.shape, bool)
    np.not_equal(ordered[..., 1:], ordered[..., :-1], out=np.moveaxis(starts, axis, -1)[..., 1:])
    return order.astype(np.int32) if x.shape[axis] <= _INT32 else order, starts


_INT32: Final = 2**31 - 1


def _order_and_starts(x: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    dtype = _order_meta(x, axis, descending)[0].dtype
    values, order = _ordered(x, axis, descending)
    return from_rows(as_dtype(order, dtype), x.shape, axis), from_rows(starts_of(values), x.shape, axis)


sorting_order = internal(
    "sorting_order(Tensor x, int axis, bool descending) -> (Tensor order, Tensor starts)",
    meta=_order_meta,
    numpy=_sorting_order,
    decomposition=Decomposition(_order_and_starts, needs=("sort",)),
    quiet=True,
    sample_inputs=lambda rng: [
        ((np.array([[3.0, 1.0, 3.0], [2.0, 2.0, 2.0]]), axis, descending), {})
        for axis, descending in ((1, False), (0, True), (1, True))
    ],
    batch=along("axis"),
    doc="Return the indices that sort along an axis, and where a run of equal elements starts in this order.",
)


def _mean_of_runs_meta(values: Tensor, starts: Tensor, axis: int) -> TensorSpec:
    if values.dtype.kind in "biu":
        raise TypeError(f"[mean_of_runs] got values of dtype {values.dtype}: a mean needs a floating dtype.")
    normalize_axis("sort", axis, values.ndim)
    return TensorSpec(values.shape, values.dtype)


def _mean_of_runs(values: np.ndarray, starts: np.ndarray, axis: int) -> np.ndarray:
    """Average ``values`` along ``axis`` over each run; the first element of each is marked in ``starts``."""
    length = values.shape[axis]
    if length < 2 or starts.all():
        return values.copy()
    marks = np.array(np.moveaxis(starts, axis, -1), bool, order="C")
    marks[..., 0] = True  # a run ends with its lane
    first = np.flatnonzero(marks.reshape(-1))
    counts = np.diff(np.append(first, marks.size))
    lanes = np.ascontiguousarray(np.moveaxis(values, axis, -1))
    means = np.add.reduceat(lanes.reshape(-1), first) / counts.astype(lanes.real.dtype)
    means = np.repeat(means.astype(values.dtype, copy=False), counts).reshape(lanes.shape)
    return np.moveaxis(means, -1, axis)


def _runs_averaged(values: Tensor, starts: Tensor, axis: int) -> Tensor:
    shape = sides(values.shape, axis)
    if not values.size:
        return clone(values)
    half = values.dtype.itemsize == 2
    terms = reshape(cast(values, float32) if half else values, shape)
    run = cumulative_sum(cast(not_equal(reshape(starts, shape), 0), int64), axis=1)
    run = run - slice_view(run, 1, 0, 1)  # the first run starts with its lane
    sums = scatter_rows_(zeros_like(terms), run, terms, "add", "sort")
    counts = scatter_rows_(zeros_like(terms), run, ones_like(terms), "add", "sort")
    means = gather_rows(sums, run, "sort") / gather_rows(counts, run, "sort")
    return reshape(as_dtype(means, values.dtype), values.shape)


mean_of_runs: Entry = internal(
    "mean_of_runs(Tensor values, Tensor starts, int axis) -> Tensor",
    meta=_mean_of_runs_meta,
    numpy=_mean_of_runs,
    decomposition=checked(_mean_of_runs_meta, _runs_averaged, "scan", "scatter", "gather"),
    vjp={"values": lambda g, starts, axis: mean_of_runs(g, starts, axis), "starts": None},
    sample_inputs=lambda rng: [
        ((rng.standard_normal((2, 4)), np.array([[True, False, True, False], [True, True, False, False]]), 1), {}),
        ((rng.standard_normal((3, 2)), np.array([[True, True], [False, True], [True, False]]), 0), {}),
        ((rng.standard_normal((0, 2)), np.zeros((0, 2), bool), 0), {}),
    ],
    batch=along("axis"),
)


def _invert_order(order: np.ndarray, axis: int) -> np.ndarray:
    out = np.zeros(order.shape, np.int64)  # not empty: if it is not a permutation, some places are not written
    shape = [1] * order.ndim
    shape[axis] = order.shape[axis]
    places = np.broadcast_to(np.arange(order.shape[axis]).reshape(shape), order.shape)
    np.put_along_axis(out, order, places, axis)
    return out


def _inverse_meta(order: Tensor, axis: int) -> TensorSpec:
    check_integers("sort", order)
    normalize_axis("sort", axis, order.ndim)
    return TensorSpec(order.shape, int64)


def _inverted(order: Tensor, axis: int) -> Tensor:
    shape = sides(order.shape, axis)
    numbers = reshape(arange(shape[1], dtype=int64, device=order.device), (1, shape[1], 1))
    index = from_front(reshape(order, shape), shape[1])
    out = zeros(shape, dtype=int64, device=order.device)
    return reshape(scatter_rows_(out, index, numbers, "set", "sort"), order.shape)


invert_order = internal(
    "invert_order(Tensor order, int axis) -> Tensor",
    meta=_inverse_meta,
    numpy=_invert_order,
    decomposition=checked(_inverse_meta, _inverted, "scatter"),
    sample_inputs=lambda rng: [((rng.permuted(np.tile(np.arange(4), (3, 1)), axis=1), 1), {})],
    batch=along("axis"),
)


def unsorted_gradient(g: Tensor, order: Tensor, starts: Tensor, axis: int) -> Tensor:
    """Return the gradient of a tensor from that of its sorted elements; see Note [Gradients of sorting]."""
    return take_along_axis(mean_of_runs(g, starts, axis), invert_order(order, axis), axis=axis)


def _in_order_meta(x: Tensor, order: Tensor, starts: Tensor, axis: int) -> TensorSpec:
    _inverse_meta(order, axis)
    if order.shape != x.shape:
        raise ValueError(f"[sort] an order of shape {order.shape} must have the shape of the elements, {x.shape}.")
    return TensorSpec(x.shape, x.dtype)


in_order: Entry = internal(
    "in_order(Tensor x, Tensor order, Tensor starts, int axis) -> Tensor",
    meta=_in_order_meta,
    numpy=lambda x, order, starts, axis: np.take_along_axis(x, order, axis),
    decomposition=checked(_in_order_meta, lambda x, order, starts, axis: take(x, order, axis, "sort"), "gather"),
    quiet=True,
    vjp={
        "x": lambda g, order, starts, axis: unsorted_gradient(g, order, starts, axis),
        "order": None,
        "starts": None,
    },
    sample_inputs=lambda rng: [
        ((np.array([[3.0, 1.0, 2.0]]), np.array([[1, 2, 0]]), np.ones((1, 3), bool), 1), {}),
        ((rng.standard_normal((3, 2)), np.array([[2, 0], [1, 1], [0, 2]]), np.ones((3, 2), bool), 0), {}),
    ],
    batch=along("axis"),
    doc="Return the elements in the order that ``sorting_order`` found; equal ones share the gradient.",
)


@composite(
    "sort(Tensor x, *, int axis=-1, bool descending=False, bool stable=True) -> Tensor",
    numpy=_numpy_sort,
    quiet=True,
    sample_inputs=_sort_samples,
    batch=along("axis"),
    methods=("sort",),
    positional=1,
)
def sort(x: Tensor, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Sort the elements in ascending (or ``descending``) order along an axis; returns a copy.

    Equal elements keep their order if ``stable``, which matters for 0.0 and -0.0, and share the gradient equally. NaN
    counts as larger than every number. Raises TypeError for complex dtypes, IndexError for an axis out of range.

    >>> tk.sort(tk.asarray([3.0, 1.0, 2.0])).tolist()
    [1.0, 2.0, 3.0]
    >>> tk.sort(tk.asarray([[1, 3], [2, 0]]), axis=0, descending=True).tolist()
    [[2, 3], [1, 0]]
    """
    i = normalize_axis("sort", axis, x.ndim)
    order, starts = sorting_order(x, i, descending)
    return in_order(x, order, starts, i)
