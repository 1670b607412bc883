"""Selection of elements by conditions, masks and flat indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import numpy as np

from ....core.dtypes.names import int64
from ....core.tensor import Tensor
from ....core.word import WEAK_MASK
from ....dispatch.errors import shown
from ....dispatch.tags import Tag
from ...declare import Decomposition, TensorSpec, broadcast, checked, composite, internal, structured
from ...shapes import broadcast_shapes, normalize_axis
from ...variants import can_hold
from ..creation import arange, concrete, zeros
from ..elementwise.arithmetic import floor_divide, maximum, minimum, remainder
from ..elementwise.comparison import greater_equal, less, logical_or, not_equal, where
from ..primitives import scatter_rows_
from ..reductions.cumulative import cumulative_sum
from ..reductions.reduction import any
from ..shape.copying import as_dtype, cast, stack
from ..shape.views import broadcast_to, expand_dims, reshape, select_index, squeeze
from ..shape.views import slice as slice_view
from .advanced_indexing import check_integers, index, take_along_axis

_NO_PLACE: Final = "[{operator}] an index is out of range for the shape {shape}."


def _check_bools(operator: str, x: Tensor, what: str = "a condition") -> None:
    if x.dtype.kind != "b":
        raise TypeError(f"[{operator}] {what} must be a tensor of bools, got {x.dtype}.")


def _refuse_0d(x: Tensor) -> None:
    if not x.ndim:
        raise ValueError("[nonzero] a 0-d tensor has no dimension to index: use tk.reshape(x, (1,)).")


def _no_shape(x: Tensor) -> NoReturn:
    _refuse_0d(x)
    raise NotImplementedError(
        "[nonzero] the shape of the result depends on the values, and a tensor without memory has none: use where, "
        "which keeps the shape."
    )


def _select_samples(rng: np.random.Generator) -> Any:
    def mask(*shape: int) -> Any:
        return rng.random(shape) < 0.5

    return [
        (([mask(3, 4), mask(4)], [rng.standard_normal((3, 4)), rng.standard_normal(4)]), {}),
        (([mask(3, 1)], [rng.standard_normal((4,))], 0), {}),
        (([mask(3, 1)], [rng.standard_normal((4,))], rng.standard_normal((3, 4))), {}),
        (([mask(0, 2)], [rng.standard_normal((0, 2))]), {}),
    ]


@composite(
    "select(Tensor[] condlist, Tensor[] choicelist, Tensor? default=None) -> Tensor",
    sample_inputs=_select_samples,
)
def select(condlist: Sequence[Tensor], choicelist: Sequence[Tensor], default: Tensor | None = None) -> Tensor:
    """Choose at each place the element of the first choice whose condition is true, else that of ``default``, or zero.

    All arguments broadcast together; the dtype is the promoted one of the choices and the default (a default of 0 keeps
    bools). Raises TypeError for conditions that are not bools, ValueError for empty lists, lists of different lengths
    and shapes that do not broadcast.

    >>> x = tk.asarray([0, 1, 2, 3])
    >>> tk.select([x < 1, x > 2], [x - 10, x * 10], default=7).tolist()
    [-10, 7, 7, 30]
    """
    if not condlist or len(condlist) != len(choicelist):
        raise ValueError(
            f"[select] got {len(condlist)} conditions and {len(choicelist)} choices: each condition needs one choice."
        )
    for condition in condlist:
        _check_bools("select", condition)
    known = [*condlist, *choicelist] if default is None else [*condlist, *choicelist, default]
    broadcast_shapes("select", *[x.shape for x in known])
    result: Any = default
    if default is None or (default._word & WEAK_MASK and default._data.item() == 0):
        # zero stands for a missing value and does not turn bools into integers
        result = False if all(x.dtype.kind == "b" for x in choicelist) else 0
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = where(condition, choice, result)
    return result  # type: ignore[no-any-return]


@composite(
    "choose(Tensor indices, Tensor[] choices) -> Tensor",
    sample_inputs=lambda rng: [
        ((rng.integers(0, 2, (3, 4)), [rng.standard_normal((3, 4)), rng.standard_normal((4,))]), {}),
        ((np.array([1, -2]), [rng.standard_normal(2), rng.standard_normal(())]), {}),
    ],
)
def choose(indices: Tensor, choices: Sequence[Tensor]) -> Tensor:
    """Take each element from the choice whose number ``indices`` has at that place; all broadcast together.

    Negative numbers count from the last choice. Raises TypeError for numbers that are not integers, IndexError for a
    number out of range, ValueError for an empty list and for shapes that do not broadcast.

    >>> tk.choose(tk.asarray([0, 1, 1]), [tk.asarray([1, 2, 3]), tk.asarray([10, 20, 30])]).tolist()
    [1, 20, 30]
    """
    if indices.dtype.kind not in "iu":
        raise TypeError(f"[choose] the numbers of the choices must be integers, got {indices.dtype}.")
    if not choices:
        raise ValueError("[choose] needs at least one choice.")
    shape = broadcast_shapes("choose", indices.shape, *[x.shape for x in choices])
    stacked = stack([broadcast_to(x, shape) for x in choices], axis=0)
    return squeeze(take_along_axis(stacked, expand_dims(broadcast_to(indices, shape), 0), axis=0), 0)


def _masked(operator: str, x: Tensor, mask: Tensor) -> None:
    _check_bools(operator, mask, "a mask")
    broadcast_shapes(operator, x.shape, mask.shape)


@composite(
    "masked_fill(Tensor x, Tensor mask, Tensor value) -> Tensor",
    sample_inputs=lambda rng: [
        ((rng.standard_normal((3, 4)), rng.random((3, 4)) < 0.5, rng.standard_normal(())), {}),
        ((rng.standard_normal((3, 4)), rng.random((3, 1)) < 0.5, rng.standard_normal(())), {}),
        ((rng.standard_normal((0, 4)), rng.random(4) < 0.5, rng.standard_normal(())), {}),
    ],
    methods=("masked_fill",),
)
def masked_fill(x: Tensor, mask: Tensor, value: Tensor) -> Tensor:
    """Return a copy of ``x``, broadcast against ``mask``, with one value where the mask is true.

    The dtype is that of ``x``. Raises TypeError for a mask that is not bool and for a value that the dtype cannot hold
    (a float among integers), ValueError for shapes that do not broadcast and for a value that is not 0-d.

    >>> tk.masked_fill(tk.asarray([1.0, 2.0]), tk.asarray([True, False]), 9.0).tolist()
    [9.0, 2.0]
    """
    _masked("masked_fill", x, mask)
    if value.ndim:
        raise ValueError(f"[masked_fill] the value must be a number or 0-d, got shape {value.shape}: use where.")
    if not can_hold(x.dtype, value.dtype):
        kind = "int" if value.dtype.kind == "O" else value.dtype
        raise TypeError(f"[masked_fill] a tensor of {x.dtype} cannot hold a value of {kind}: cast it first.")
    return where(mask, value if value.dtype == x.dtype or value._word & WEAK_MASK else cast(value, x.dtype), x)


@composite(
    "masked_select(Tensor x, Tensor mask) -> Tensor",
    sample_inputs=lambda rng: [
        ((rng.standard_normal((3, 4)), rng.random((3, 4)) < 0.5), {}),
        ((rng.standard_normal((3, 4)), np.array([True, False, False, True])), {}),
    ],
    methods=("masked_select",),
    tags=(Tag.DATA_DEPENDENT_OUTPUT,),
)
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """Return the elements where ``mask`` is true, in one dimension; both arguments broadcast together.

    Raises TypeError for a mask that is not bool, ValueError for shapes that do not broadcast.

    >>> tk.masked_select(tk.asarray([[1, 2], [3, 4]]), tk.asarray([True, False])).tolist()
    [1, 3]
    """
    x, mask = concrete(x, mask), concrete(mask, mask)
    _masked("masked_select", x, mask)
    shape = broadcast_shapes("masked_select", x.shape, mask.shape)
    return index(reshape(broadcast_to(x, shape), (-1,)), [reshape(broadcast_to(mask, shape), (-1,))])


@composite(
    "compress(Tensor condition, Tensor x, *, int? axis=None) -> Tensor",
    sample_inputs=lambda rng: [
        ((np.array([True, False, True]), rng.standard_normal((3, 4))), {"axis": 0}),
        ((np.array([False, True]), rng.standard_normal((3, 4))), {"axis": -1}),
        ((np.array([True, False, True]), rng.standard_normal((2, 4))), {}),
    ],
    tags=(Tag.DATA_DEPENDENT_OUTPUT,),
    positional=1,
)
def compress(condition: Tensor, x: Tensor, *, axis: int | None = None) -> Tensor:
    """Return the slices along an axis where the 1-d ``condition`` is true; without an axis, of the flattened ``x``.

    If the condition is shorter than the axis, the remaining slices are omitted. Raises TypeError for a condition that
    is not bool, ValueError for one that is not 1-d or is too long.

    >>> tk.compress(tk.asarray([False, True]), tk.asarray([[1, 2], [3, 4]]), axis=0).tolist()
    [[3, 4]]
    """
    _check_bools("compress", condition)
    x = concrete(x, condition)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    i = normalize_axis("compress", axis, x.ndim)
    if condition.ndim != 1 or condition.shape[0] > x.shape[i]:
        raise ValueError(f"[compress] a condition of shape {condition.shape} does not fit axis {i} of shape {x.shape}.")
    part = x[(*[slice(None)] * i, slice(0, condition.shape[0]))]
    return index(part, [None] * i + [condition])


@composite(
    "extract(Tensor condition, Tensor x) -> Tensor",
    sample_inputs=lambda rng: [((rng.random((3, 4)) < 0.5, rng.standard_normal((3, 4))), {})],
    tags=(Tag.DATA_DEPENDENT_OUTPUT,),
)
def extract(condition: Tensor, x: Tensor) -> Tensor:
    """Return the elements of ``x`` where ``condition``, of the same shape, is true, in one dimension.

    Raises TypeError for a condition that is not bool, ValueError for another shape.

    >>> x = tk.asarray([1, 2, 3, 4])
    >>> tk.extract(x % 2 == 0, x).tolist()
    [2, 4]
    """
    _check_bools("extract", condition)
    if condition.shape != x.shape:
        raise ValueError(f"[extract] a condition of shape {condition.shape} must have the tensor's shape, {x.shape}.")
    return index(x, [condition]) if x.ndim else x[condition]


def _numpy_nonzero(x: np.ndarray) -> np.ndarray:
    places = x.nonzero()
    table = places[0].base  # NumPy returns the columns of one array, which has a row for each element
    if table is None or table.shape != (len(places[0]), len(places)):
        return np.array(places)
    return np.ascontiguousarray(table.T)  # of one dimension: the table itself


def flat_places(x: Tensor) -> Tensor:
    """Return the places (int64) of the nonzero elements of a vector; their number is read from its device."""
    n = x.shape[0]
    if not n:
        return zeros((0,), dtype=int64, device=x.device)
    found = x if x.dtype.kind == "b" else not_equal(x, 0)
    counts = cumulative_sum(cast(found, int64), axis=0)
    total = int(select_index(counts, 0, n - 1).item())
    target = where(found, counts - 1, total)  # the others share one more place, behind the result
    out = zeros((1, total + 1, 1), dtype=int64, device=x.device)
    numbers = reshape(arange(n, dtype=int64, device=x.device), (1, n, 1))
    scatter_rows_(out, reshape(target, (1, n, 1)), numbers, "set", "nonzero")
    return slice_view(reshape(out, (total + 1,)), 0, 0, total)


def coordinates(places: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the coordinates of flat indices, one row for each dimension."""
    rows = []
    for n in reversed(shape):
        rows.append(remainder(places, n) if n else places)
        places = floor_divide(places, n) if n else places
    return stack(rows[::-1]) if rows else zeros((0, *places.shape), dtype=int64, device=places.device)


def _nonzero(x: Tensor) -> Tensor:
    _refuse_0d(x)
    return coordinates(flat_places(reshape(x, (x.size,))), x.shape)


nonzero_rows = internal(
    "nonzero_rows(Tensor x) -> Tensor",
    meta=_no_shape,
    numpy=_numpy_nonzero,
    decomposition=Decomposition(_nonzero, needs=("scan", "scatter")),
    strict=True,
    quiet=True,
    sample_inputs=lambda rng: [((rng.integers(0, 2, (3, 4)).astype(float),), {}), ((rng.standard_normal((0, 2)),), {})],
    tags=(Tag.DATA_DEPENDENT_OUTPUT,),
    doc="Return the indices of the nonzero elements, one row for each dimension; ``tk.nonzero`` makes a tuple of them.",
)


def _unravel_meta(indices: Tensor, shape: Sequence[int]) -> TensorSpec:
    check_integers("unravel_index", indices)
    return TensorSpec((len(shape), *indices.shape), np.dtype(np.int64))


def _unravel(indices: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    try:
        return np.array(np.unravel_index(indices, tuple(shape)), np.int64).reshape(len(shape), *indices.shape)
    except ValueError:
        raise ValueError(_NO_PLACE.format(operator="unravel_index", shape=tuple(shape))) from None


def _unravel_on_device(indices: Tensor, shape: Sequence[int]) -> Tensor:
    whole = as_dtype(indices, int64)
    if outside(whole, math.prod(shape)):
        raise ValueError(_NO_PLACE.format(operator="unravel_index", shape=tuple(shape)))
    return coordinates(whole, shape)


unravel_rows = internal(
    "unravel_rows(Tensor indices, int[] shape) -> Tensor",
    meta=_unravel_meta,
    numpy=_unravel,
    decomposition=checked(_unravel_meta, _unravel_on_device, "reduction"),
    sample_inputs=lambda rng: [
        ((rng.integers(0, 24, (5,)), (2, 3, 4)), {}),
        ((rng.integers(0, 6, (2, 2)), (6,)), {}),
        ((np.array(5, np.uint8), (2, 3)), {}),
    ],
    batch=lambda level, operator, args, kwargs: level.batch(operator.call(level.front(args[0]), args[1]), 1),
    doc="Return the coordinates of flat indices, one row for each dimension, for ``tk.unravel_index``.",
)


def _ravel_meta(multi_index: Sequence[Tensor], dims: Sequence[int], *, mode: str = "raise") -> TensorSpec:
    if len(multi_index) != len(dims):
        raise ValueError(f"[ravel_multi_index] got {len(multi_index)} tensors for the shape {tuple(dims)}.")
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"[ravel_multi_index] mode must be 'raise', 'wrap' or 'clip', got {shown(mode)}.")
    for indices in multi_index:
        check_integers("ravel_multi_index", indices)
    return TensorSpec(broadcast_shapes("ravel_multi_index", *[i.shape for i in multi_index]), np.dtype(np.int64))


def _ravel(multi_index: Sequence[np.ndarray], dims: Sequence[int], *, mode: str = "raise") -> Any:
    spread = [np.asarray(i, np.int64) for i in np.broadcast_arrays(*multi_index)]
    try:
        return np.ravel_multi_index(tuple(spread), tuple(dims), mode=mode)  # type: ignore[call-overload]
    except ValueError:
        raise ValueError(_NO_PLACE.format(operator="ravel_multi_index", shape=tuple(dims))) from None


def _ravel_on_device(multi_index: Sequence[Tensor], dims: Sequence[int], *, mode: str = "raise") -> Tensor:
    shape = _ravel_meta(multi_index, dims, mode=mode).shape
    places = zeros(shape, dtype=int64, device=multi_index[0].device)
    for given, n in zip(multi_index, dims, strict=True):
        i = as_dtype(given, int64)
        if mode == "wrap":
            i = remainder(i, n)
        elif mode == "clip":
            i = maximum(minimum(i, n - 1), 0)
        elif outside(i, n):
            raise ValueError(_NO_PLACE.format(operator="ravel_multi_index", shape=tuple(dims)))
        places = places * n + i
    return places


def outside(places: Tensor, n: int) -> bool:
    """Read from the device whether there are numbers that are negative or at least ``n``."""
    return bool(any(logical_or(less(places, 0), greater_equal(places, n))).item())


ravel_multi_index = structured(
    "ravel_multi_index(Tensor[] multi_index, int[] dims, *, str mode='raise') -> Tensor",
    meta=_ravel_meta,
    numpy=_ravel,
    decomposition=Decomposition(_ravel_on_device, needs=("reduction",)),
    differentiable=False,
    sample_inputs=lambda rng: [
        (([rng.integers(0, 2, (4,)), rng.integers(0, 3, (4,))], (2, 3)), {}),
        (([rng.integers(-3, 5, (2, 1)), rng.integers(0, 3, (4,))], (2, 3)), {"mode": "wrap"}),
        (([rng.integers(-3, 5, (2, 1)), rng.integers(-1, 4, (4,))], (2, 3)), {"mode": "clip"}),
    ],
    batch=broadcast,
    doc="""Return the flat, row-major index (int64) of coordinates in an array of shape ``dims``.

    ``multi_index`` holds one tensor of integers for each dimension; they broadcast. ``mode`` decides about coordinates
    out of range: "raise" (ValueError), "wrap" or "clip". Raises TypeError for dtypes other than integers.

    >>> tk.ravel_multi_index([tk.asarray([1, 0]), tk.asarray([2, 1])], (2, 3)).tolist()
    [5, 1]
    """,
)
