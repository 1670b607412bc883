"""Rearranging elements: moving and exchanging axes, tiling, rolling and rotating elements."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ...declare import FEW, Entry, composite, normal
from ...shapes import normalize_axes, normalize_axis, refuse_shape
from .copying import clone, concatenate, flip
from .views import broadcast_to, expand_dims, permute_dims, reshape, slice

_slice: Final = builtins.slice  # that name is an operator here
_ALL: Final = _slice(None)
REPEATED_NEGATIVELY: Final = (
    "[{operator}] elements are repeated 0 times or more, not a negative number of times: got {count}."
)


def _as_tuple(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


@composite(
    "moveaxis(Tensor x, int[1] source, int[1] destination) -> Tensor",
    sample_inputs=normal(
        ([2, 3, 4], 0, -1), ([2, 3, 4], (0, 1), (2, 0)), ([2, 3], -1, 0), ([0, 3], 1, 0), ([], (), ())
    ),
)
def moveaxis(x: Tensor, source: Any, destination: Any) -> Tensor:
    """Return a view with the axes ``source`` moved to the positions ``destination``; the others keep their order.

    Raises ValueError if the two have different lengths or an axis appears twice, IndexError out of range.

    >>> tk.moveaxis(tk.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    ndim = x.ndim
    taken = normalize_axes("moveaxis", source, ndim)
    places = normalize_axes("moveaxis", destination, ndim)
    if len(taken) != len(places):
        raise ValueError(f"[moveaxis] source {source} and destination {destination} must name equally many axes.")
    order = [i for i in range(ndim) if i not in taken]
    for place, i in sorted(zip(places, taken)):
        order.insert(place, i)
    return permute_dims(x, order)


@composite(
    "swapaxes(Tensor x, int axis1, int axis2) -> Tensor",
    sample_inputs=normal(([2, 3, 4], 0, -1), ([2, 3], 1, 1), ([0, 3], 0, 1)),
    methods=("swapaxes",),
)
def swapaxes(x: Tensor, axis1: int, axis2: int) -> Tensor:
    """Return a view with two axes exchanged.

    >>> tk.swapaxes(tk.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    order = list(range(x.ndim))
    i, j = normalize_axis("swapaxes", axis1, x.ndim), normalize_axis("swapaxes", axis2, x.ndim)
    order[i], order[j] = j, i
    return permute_dims(x, order)


def _numpy_tile(x: np.ndarray, repetitions: Any) -> Any:
    lead = len(repetitions) - x.ndim
    if lead < 0 or x.nbytes * math.prod(repetitions) > FEW or min(repetitions, default=1) < 0 or len(repetitions) > 16:
        return NotImplemented
    shape = (1,) * lead + x.shape
    parts: list[int] = []
    whole: list[int] = []
    spread: list[Any] = []
    for count, n in zip(repetitions, shape):
        parts += (count, n)
        whole.append(count * n)
        spread += (None, _ALL)
    out = np.empty(parts, x.dtype)
    out[...] = x[tuple(spread[2 * lead :])]
    return out.reshape(whole)


@composite(
    "tile(Tensor x, int[1] repetitions) -> Tensor",
    numpy=_numpy_tile,
    quiet=True,
    sample_inputs=normal(
        ([2, 3], (2, 1)), ([3], (2, 2)), ([2, 1, 2], (3,)), ([], (2,)), ([2, 3], (0, 1)), ([2], ()), ([0, 2], 2)
    ),
)
def tile(x: Tensor, repetitions: Any) -> Tensor:
    """Repeat a tensor ``repetitions`` times along each axis, aligned at the last axis.

    With more numbers than dimensions, the tensor gets new leading dimensions. Raises ValueError for a negative number.

    >>> tk.tile(tk.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    counts = _as_tuple(repetitions)
    for count in counts:
        if count < 0:
            raise ValueError(REPEATED_NEGATIVELY.format(operator="tile", count=count))
    lead = len(counts) - x.ndim
    counts = (1,) * -lead + counts
    shape = (1,) * lead + x.shape
    if len(shape) > 64:
        refuse_shape("tile", shape)
    if all(count == 1 for count in counts):
        return reshape(clone(x), shape)
    if len(shape) > 32 or max(counts) > 1 << 31:
        refuse_shape("tile", [count * n for count, n in zip(counts, shape)], x.dtype.itemsize)
        if len(shape) > 32:
            return _tiled(x, counts, shape)
    wide = reshape(x, [m for n in shape for m in (1, n)])
    spread = clone(broadcast_to(wide, [m for count, n in zip(counts, shape) for m in (count, n)]))
    return reshape(spread, [count * n for count, n in zip(counts, shape)])


def _tiled(x: Tensor, counts: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
    """Tile one axis after the other: broadcasting would need more than 64 dimensions."""
    made: Tensor = reshape(x, shape)
    for i, count in enumerate(counts):
        if count != 1:
            made = concatenate([made] * count, axis=i) if count else slice(made, i, 0, 0)
    return made


def _numpy_roll(x: np.ndarray, shift: Any, *, axis: Any = None) -> Any:
    if axis is None or len(axis) != 1 or len(shift) != 1 or x.nbytes > FEW:
        return NotImplemented
    i = axis[0] if axis[0] >= 0 else axis[0] + x.ndim
    length = x.shape[i] if i >= 0 else 0
    if not length:
        return NotImplemented
    cut = -shift[0] % length
    lead = (_ALL,) * i
    return np.concatenate([x[(*lead, _slice(cut, None))], x[(*lead, _slice(0, cut))]], i)


@composite(
    "roll(Tensor x, int[1] shift, *, int[1]? axis=None) -> Tensor",
    numpy=_numpy_roll,
    quiet=True,
    sample_inputs=normal(
        *[([3, 4], by, {"axis": axis}) for by, axis in ((1, 0), (-6, 1), (5, None), ((1, -1), (0, -1)), (2, (0, 1)))],
        ([3], 0, {"axis": 0}),
        ([0, 3], 1, {"axis": 0}),
        ([], 2),
    ),
    positional=1,
)
def roll(x: Tensor, shift: Any, *, axis: Any = None) -> Tensor:
    """Shift the elements along axes; elements shifted past the end reappear at the beginning.

    A tuple of shifts goes with a tuple of axes, and a single shift applies to every axis. Without ``axis`` the
    flattened tensor is rolled, and the result has the original shape.

    >>> tk.roll(tk.asarray([1, 2, 3]), 1).tolist()
    [3, 1, 2]
    """
    if axis is None:
        if not isinstance(shift, int) and len(shift) != 1:
            raise ValueError(f"[roll] got the shifts {tuple(shift)} without axis=: name an axis for each of them.")
        return reshape(_rolled(reshape(x, (-1,)), _as_tuple(shift)[0], 0), x.shape)
    axes = [normalize_axis("roll", i, x.ndim) for i in _as_tuple(axis)]
    shifts = _as_tuple(shift)
    if len(shifts) == 1:
        shifts = shifts * len(axes)
    if len(axes) == 1:
        axes = axes * len(shifts)
    if len(shifts) != len(axes):
        raise ValueError(f"[roll] got {len(shifts)} shifts for {len(axes)} axes: give one shift, or one for each axis.")
    result = x
    for i, by in zip(axes, shifts):
        if x.shape[i] and by % x.shape[i]:
            result = _rolled(result, by, i)
    return clone(x) if result is x else result


def _rolled(x: Tensor, by: int, axis: int) -> Tensor:
    length = x.shape[axis]
    cut = -by % length if length else 0
    if not cut:
        return clone(x)
    parts = [slice(x, axis, cut, length, 1), slice(x, axis, 0, cut, 1)]
    return concatenate(parts, axis=axis)


@composite(
    "rot90(Tensor x, int k=1, int[2] axes=[0, 1]) -> Tensor",
    sample_inputs=normal([2, 3], ([2, 3, 2], 3, (1, 2)), ([2, 3], -2), ([2, 3], 4), [0, 3]),
)
def rot90(x: Tensor, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Rotate by ``k`` quarter turns in the plane of two axes, from the first towards the second; a copy.

    >>> tk.rot90(tk.asarray([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    i, j = normalize_axes("rot90", axes, x.ndim)
    k %= 4
    if k == 0:
        return clone(x)
    if k == 2:
        return flip(x, axis=(i, j))
    turned = swapaxes(x, i, j)
    return flip(turned, axis=i if k == 1 else j)


@composite("fliplr(Tensor x) -> Tensor", sample_inputs=normal([2, 3], [2, 0], [2, 2, 2]))
def fliplr(x: Tensor) -> Tensor:
    """Reverse the order of the columns (axis 1); a copy.

    >>> tk.fliplr(tk.asarray([[1, 2], [3, 4]])).tolist()
    [[2, 1], [4, 3]]
    """
    normalize_axis("fliplr", 1, x.ndim)
    return flip(x, axis=1)


@composite("flipud(Tensor x) -> Tensor", sample_inputs=normal([2, 3], [3], [0, 2]))
def flipud(x: Tensor) -> Tensor:
    """Reverse the order of the rows (axis 0); a copy.

    >>> tk.flipud(tk.asarray([[1, 2], [3, 4]])).tolist()
    [[3, 4], [1, 2]]
    """
    normalize_axis("flipud", 0, x.ndim)
    return flip(x, axis=0)


@composite("ravel(Tensor x) -> Tensor", sample_inputs=normal([2, 3], [], [0, 2]), methods=("ravel",))
def ravel(x: Tensor) -> Tensor:
    """Flatten to one dimension, in row-major order; a view where possible.

    >>> tk.ravel(tk.asarray([[1, 2], [3, 4]])).tolist()
    [1, 2, 3, 4]
    """
    return reshape(x, (-1,))


_ADDED: Final[dict[int, Any]] = {1: [(0,)], 2: [(0, 0), (0,)], 3: [(0, 0, 0), (0, 2), (2,)]}
"""By the least number of dimensions: the axes that arrays with 0, 1, ... dimensions lack."""


def raised(x: Tensor, ndim: int) -> Tensor:
    """Return a view with at least ``ndim`` dimensions."""
    for i in _ADDED[ndim][x.ndim] if x.ndim < ndim else ():
        x = expand_dims(x, i)
    return x


def _at_least(ndim: int, doc: str) -> Entry:
    return composite(
        f"atleast_{ndim}d(Tensor x) -> Tensor",
        sample_inputs=normal([], [2], [2, 3], [1, 2, 3]),
        tags=(Tag.INTERNAL,),  # tk.atleast_1d and so on take several tensors
        doc=doc,
    )(lambda x: raised(x, ndim))


atleast_1d = _at_least(
    1,
    """Return a view with at least one dimension. Several tensors give a tuple.

    >>> tk.atleast_1d(tk.asarray(1.0)).shape
    (1,)
    """,
)
atleast_2d = _at_least(
    2,
    """Return a view with at least two dimensions, new ones in front. Several tensors give a tuple.

    >>> tk.atleast_2d(tk.asarray([1.0, 2.0])).shape
    (1, 2)
    """,
)
atleast_3d = _at_least(
    3,
    """Return a view with at least three dimensions: a vector becomes ``(1, n, 1)``, a matrix ``(m, n, 1)``.
    Several tensors give a tuple.

    >>> tk.atleast_3d(tk.asarray([1.0, 2.0])).shape
    (1, 2, 1)
    """,
)


@composite("transpose(Tensor x, int[]? axes=None) -> Tensor", sample_inputs=normal(([2, 3, 4], (1, -1, 0)), [2, 3], []))
def transpose(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Return a view with the dimensions in the order of ``axes``, by default in reverse: see ``tk.permute_dims``.

    ``tk.swapaxes`` exchanges two dimensions. Raises ValueError unless ``axes`` is a permutation of all dimensions.

    >>> tk.transpose(tk.zeros((2, 3, 4))).shape
    (4, 3, 2)
    """
    return permute_dims(x, tuple(range(x.ndim - 1, -1, -1)) if axes is None else axes)
