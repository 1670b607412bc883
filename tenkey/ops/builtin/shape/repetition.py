"""Repeating elements and slices: ``repeat``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ....core.dtypes.names import int64
from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ...declare import FEW, Decomposition, TensorSpec, along, checked, composite, internal, linear, loop, normal
from ...shapes import normalize_axis
from ..creation import arange, concrete
from ..elementwise.comparison import less
from ..indexing.advanced_indexing import take
from ..reductions.cumulative import cumulative_sum
from ..reductions.reduction import min
from ..sorting.insertion import insertion_places
from .copying import cast, clone
from .manipulation import REPEATED_NEGATIVELY
from .views import broadcast_to, reshape

_REPEATS_VALUES: Final = (
    "[repeat] the shape of the result depends on the values of repeats, which a tensor without values does not have: "
    "give an int."
)


def _repeat_indices_meta(repeats: Tensor) -> TensorSpec:
    if repeats.device.type == "meta":
        raise NotImplementedError(_REPEATS_VALUES)
    return TensorSpec((int(repeats.numpy().sum()),), np.dtype("int64"))


def _check_repeats(repeats: Any) -> None:
    if repeats.dtype.kind not in "iu":
        raise TypeError(f"[repeat] the numbers of repetitions must be integers, got {repeats.dtype}.")
    if repeats.ndim != 1:
        raise ValueError(f"[repeat] the numbers of repetitions must be a vector, got shape {repeats.shape}.")


def _repeat_indices_on_numpy(repeats: Any) -> Any:
    _check_repeats(repeats)
    return np.repeat(np.arange(repeats.shape[0]), repeats.astype(np.int64, copy=False))


def _repeat_indices_parts(repeats: Tensor) -> Tensor:
    _check_repeats(repeats)
    n = repeats.shape[0]
    if less(repeats, 0).any():
        raise ValueError(REPEATED_NEGATIVELY.format(operator="repeat", count=min(repeats).item()))
    ends = cumulative_sum(cast(repeats, int64), axis=0)
    count = int(ends[n - 1].item()) if n else 0
    return insertion_places(ends, arange(count, device=repeats.device), right=True)


repeat_indices = internal(
    "repeat_indices(Tensor repeats) -> Tensor",
    meta=_repeat_indices_meta,
    numpy=_repeat_indices_on_numpy,
    decomposition=Decomposition(_repeat_indices_parts, needs=("scan", "gather", "reduction")),
    sample_inputs=lambda rng: [((rng.integers(0, 4, 3),), {})],
    batch=loop,
    tags=(Tag.DATA_DEPENDENT_OUTPUT,),
)


def _repeat_each_meta(x: Any, count: int, axis: int) -> TensorSpec:
    i = normalize_axis("repeat", axis, x.ndim)
    if count < 0:
        raise ValueError(REPEATED_NEGATIVELY.format(operator="repeat", count=count))
    return TensorSpec((*x.shape[:i], x.shape[i] * count, *x.shape[i + 1 :]), x.dtype)


def _repeat_each_on_numpy(x: np.ndarray, count: int, axis: int) -> Any:
    if count < 0 or not x.ndim:
        raise ValueError  # the rule says why
    return x.repeat(count, axis)


def _repeat_each_parts(x: Tensor, count: int, axis: int) -> Tensor:
    axis %= x.ndim
    before, behind = x.shape[: axis + 1], x.shape[axis + 1 :]
    spread = broadcast_to(reshape(x, (*before, 1, *behind)), (*before, count, *behind))
    return reshape(clone(spread), (*before[:-1], before[-1] * count, *behind))


repeat_each = internal(
    "repeat_each(Tensor x, int count, int axis) -> Tensor",
    meta=_repeat_each_meta,
    numpy=_repeat_each_on_numpy,
    decomposition=checked(_repeat_each_meta, _repeat_each_parts),
    strict=True,
    vjp={"x": lambda g, x_meta, count, axis: _sum_repeated(g, x_meta.shape, count, axis)},
    jvp=linear("x"),
    sample_inputs=normal(([2, 3], 2, 1), ([2, 3], 0, 0), ([0, 3], 2, 0)),
    batch=along("axis"),
)


def _sum_repeated(g: Tensor, shape: tuple[int, ...], count: int, axis: int) -> Tensor:
    parts = reshape(g, (*shape[: axis + 1], count, *shape[axis + 1 :]))
    return parts.sum(axis=axis + 1)


def _numpy_repeat(x: np.ndarray, repeats: np.ndarray, *, axis: int | None = None) -> Any:
    if repeats.ndim or repeats.dtype.kind not in "iu" or (axis is not None and not x.ndim):
        return NotImplemented
    count = int(repeats)
    few = FEW if axis is not None and axis not in (-1, x.ndim - 1) else FEW >> 2  # numbers are repeated one by one
    return x.repeat(count, axis) if 0 <= x.nbytes * count <= few else NotImplemented


@composite(
    "repeat(Tensor x, Tensor repeats, *, int? axis=None) -> Tensor",
    numpy=_numpy_repeat,
    quiet=True,
    sample_inputs=normal(
        ([2, 3], np.array([2, 0, 3]), {"axis": -1}),
        ([2, 3], np.array(2)),
        ([2, 3], np.array([3]), {"axis": 0}),
        ([], np.array(3)),
        ([0, 3], np.array(2), {"axis": 1}),
    ),
    methods=("repeat",),
    tags=(Tag.DATA_DEPENDENT_OUTPUT,),
    positional=1,
)
def repeat(x: Tensor, repeats: Tensor, *, axis: int | None = None) -> Tensor:
    """Repeat each element, or each slice along an axis.

    ``repeats`` is an int, or an integer tensor with one number for each of them. Without ``axis`` the tensor is
    flattened first. (PyTorch's method ``repeat`` is ``tk.tile``.) Raises TypeError for other dtypes, ValueError for
    negative numbers and other lengths.

    >>> tk.repeat(tk.asarray([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    >>> tk.repeat(tk.asarray([[1, 2]]), tk.asarray([1, 3]), axis=1).tolist()
    [[1, 2, 2, 2]]
    """
    x = concrete(x, repeats)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    i = normalize_axis("repeat", axis, x.ndim)
    if repeats.dtype.kind not in "iu":
        raise TypeError(f"[repeat] the numbers of repetitions must be integers, got {repeats.dtype}.")
    if repeats.ndim > 1 or (repeats.ndim == 1 and repeats.shape[0] not in (1, x.shape[i])):
        raise ValueError(
            f"[repeat] repeats of shape {repeats.shape} must be one number or one for each of the {x.shape[i]} "
            "elements along the axis."
        )
    if repeats.device.type == "meta":
        raise NotImplementedError(_REPEATS_VALUES)
    if repeats.size == 1:
        return repeat_each(x, int(repeats.item()), i)
    if repeats.size and (repeats < 0).any():
        raise ValueError(REPEATED_NEGATIVELY.format(operator="repeat", count=repeats.min().item()))
    return take(x, repeat_indices(repeats), axis=i)
