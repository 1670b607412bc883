"""Views selected by ints, slices, None and '...'.

Note [One view for an index]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``x[1:3, ..., None, 0]`` is one call of one operator, whose argument is the index itself: a tuple of plain ints, slices
with steps of at least 1, None and '...' (the schema type ``Index``). So the CPU kernel is NumPy's indexing, autograd
records one node, and a transform that adds a leading dimension adds a full slice. Parts of an index that need a copy
(negative steps, tensors of integers and bools) are handled separately: see ``getitem.py``. Guarded by
``tests/ops/test_indexing.py::test_one_operator_for_an_index``.
"""

from __future__ import annotations

import operator as _operator
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ....core.tensor import Tensor, strides_of
from ....dispatch.errors import shown
from ....dispatch.registry import registry
from ....dispatch.tags import Tag
from ...declare import Decomposition, Entry, TensorSpec, internal, linear, prepend, view
from ...declare.samples import normal
from ...shapes import broadcast_shapes
from ..creation import zeros
from ..shape.views import Window, squeeze

TOO_MANY: Final = (
    "[index] got {count} indices for a tensor of {ndim} dimensions, shape {shape}: give at most one for each dimension "
    "(None adds one)."
)
NOT_AN_INDEX: Final = (
    "[index] an index consists of ints, slices, None, '...', and tensors of integers or bools; got {value}."
)
NO_FIT: Final = "[index] a mask of shape {mask} does not fit the dimensions {covers} that it selects from."

FULL: Final = slice(None)
PLAIN: Final = frozenset([int, type(None)])


def places_of(indices: Sequence[Any]) -> list[int]:
    """Return the places of the items that are not None."""
    return [k for k, i in enumerate(indices) if i is not None]


def adjacent(places: list[int]) -> bool:
    """Return whether the places, at least one, follow one another without a gap."""
    return places == list(range(places[0], places[-1] + 1))


def common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which the indices of one ``x[...]`` broadcast; raise IndexError if they do not."""
    try:
        return broadcast_shapes("index", *shapes)
    except ValueError as error:
        raise IndexError(str(error)) from None


def check_one_ellipsis(index: Sequence[Any]) -> None:
    """Raise IndexError if an index has several ellipses."""
    if sum([item is Ellipsis for item in index]) > 1:
        raise IndexError("[index] an index may contain only one ellipsis ('...').")


def plain_slice(item: slice) -> slice:
    """Return the slice with plain ints or None; raise for anything that is not an integer, and for a step of 0."""
    if item.start.__class__ in PLAIN and item.stop.__class__ in PLAIN and item.step.__class__ in PLAIN:
        made = item
    else:
        try:
            made = slice(*[None if i is None else _operator.index(i) for i in (item.start, item.stop, item.step)])
        except TypeError:
            raise TypeError(
                f"[index] the bounds and the step of a slice must be integers or None, got {shown(item)}."
            ) from None
    if made.step == 0:
        raise ValueError(f"[index] the step of a slice must not be 0, got {item}.")
    return made


def _to_index(value: Any) -> tuple[Any, ...]:
    """Convert a value to the schema type ``Index``."""
    items: list[Any] = []
    for item in value if isinstance(value, (tuple, list)) else (value,):
        if item is None or item is Ellipsis or item.__class__ is int:
            items.append(item)
        elif item.__class__ is slice:
            made = plain_slice(item)
            if made.step is not None and made.step < 1:
                raise ValueError(f"[index] the step of a view must be at least 1, got {item}: flip first, for a copy.")
            items.append(made)
        elif hasattr(item, "__index__") and not isinstance(item, (bool, np.bool_)):
            items.append(_operator.index(item))
        else:
            raise IndexError(NOT_AN_INDEX.format(value=shown(item)))
    return tuple(items)


registry.hooks.converters["Index"] = _to_index


def window_of(shape: tuple[int, ...], strides: tuple[int, ...], index: tuple[Any, ...]) -> Window:
    """Return shape, strides and offset of the selected view; raise IndexError if the index does not fit."""
    ndim = len(shape)
    used = sum([item is not None and item is not Ellipsis for item in index])
    check_one_ellipsis(index)
    if used > ndim:
        raise IndexError(TOO_MANY.format(count=used, ndim=ndim, shape=shape))
    lengths: list[int] = []
    steps: list[int] = []
    offset = axis = 0
    for item in index:
        if item is None:
            lengths.append(1)
            steps.append(0)  # as in NumPy
        elif item is Ellipsis:
            end = axis + ndim - used
            lengths += shape[axis:end]
            steps += strides[axis:end]
            axis = end
        elif item.__class__ is slice:
            start, stop, step = item.indices(shape[axis])
            length = max(0, -(-(stop - start) // step))
            offset += start * strides[axis] if length else 0
            lengths.append(length)
            steps.append(strides[axis] * step)
            axis += 1
        else:
            n = shape[axis]
            if not -n <= item < n:
                raise IndexError(
                    f"[index] index {item} is out of range for dimension {axis} of shape {shape}: it must be in "
                    f"[{-n}, {n - 1}]."
                )
            offset += (item + n if item < 0 else item) * strides[axis]
            axis += 1
    lengths += shape[axis:]
    steps += strides[axis:]
    return tuple(lengths), tuple(steps), 0 if 0 in lengths else offset


_samples = normal(
    ([3, 4], (1,)), ([5, 4], (slice(1, 5, 2), -1)), ([5, 4], (slice(3, 1),)), ([0, 4], (slice(None), 3)),
    ([2, 3, 4], (..., None, slice(-2, None))), ([2, 3, 4], (0, ..., 1)), ([3], (None, 2, None)), ([], (...,)),
)  # fmt: skip

basic_index: Entry = view(
    "basic_index(Tensor x, Index index) -> Tensor",
    window=lambda x, index: window_of(x.shape, strides_of(x), index),
    vjp={"x": lambda g, x_meta, index: basic_index_backward(g, x_meta.shape, index)},
    part=lambda x, index: basic_index(x, index),
    sample_inputs=_samples,
    batch=prepend(index=(FULL,)),
    tags=(Tag.INTERNAL,),
    doc="Return the view that ints, slices, None and '...' select. See Note [One view for an index].",
)


def _zeros_with_view(g_view: Tensor, shape: Sequence[int], index: tuple[Any, ...]) -> Tensor:
    out = zeros(shape, dtype=g_view.dtype, device=g_view.device)
    place = basic_index(out, index)
    extra = g_view.ndim - place.ndim if place.ndim else 0  # NumPy assigns arrays with more dimensions of length 1
    source = squeeze(g_view, tuple(range(extra))) if extra > 0 else g_view
    registry.find("tk::copy_").call(place, source)
    return out


basic_index_backward: Entry = internal(
    "basic_index_backward(Tensor g_view, int[] shape, Index index) -> Tensor",
    meta=lambda g_view, shape, index: TensorSpec(tuple(shape), g_view.dtype),
    decomposition=Decomposition(_zeros_with_view),
    vjp={"g_view": lambda g, index: basic_index(g, index)},
    jvp=linear("g_view"),
    sample_inputs=normal(
        ([2], (5, 4), (slice(1, 5, 2), -1)),
        ([3, 1, 2], (3, 4), (..., None, slice(-2, None))),
        ([], (3,), (2,)),
        ([0, 4], (5, 4), (slice(3, 1),)),
    ),
    batch=prepend("shape", index=(FULL,)),
    doc="Write ``g_view`` into zeros of ``shape`` where an index selects: the adjoint of ``basic_index``.",
)
