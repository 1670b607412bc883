"""Indexing: ``x[...]`` taken apart into views and gathers, and the gathers with their adjoint scatters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.device import CPU, Device
from ...core.tensor import Tensor, cpu_word, make_tensor
from ...dispatch.registry import registry
from ..declare import Entry, TensorSpec, composite, structured
from ..shapes import broadcast_shapes, normalize_axis
from .copying import flip
from .view import broadcast_to, expand_dims, select, slice, sum_to_shape

_TOO_MANY = (
    "[index] got {count} indices for a tensor of {ndim} dimensions, shape {shape}: give at most one for each dimension "
    "(None adds one)."
)
_ELLIPSES = "[index] an index holds at most one ellipsis ('...')."
_KIND = "[index] an index is made of ints, slices, None, '...', and tensors of integers or bools; got {value!r}."
_STEP = "[index] the step of a slice must not be 0, got {value}."
_SCATTER_INDICES = (
    "[scatter_add] indices of shape {indices} must have the shape of the result, {shape}, except along axis {axis}."
)
_SCATTER_SOURCE = "[scatter_add] a source of shape {source} must broadcast to the shape of the indices, {indices}."
_MASK = "[index] a mask of shape {mask} does not fit the dimensions {shape} that it selects from."


def _gather_meta(x: Tensor, indices: Tensor, *, axis: int = -1) -> TensorSpec:
    i = normalize_axis("take_along_axis", axis, x.ndim)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"[take_along_axis] indices must be integers, got {indices.dtype}.")
    if indices.ndim != x.ndim:
        raise ValueError(
            f"[take_along_axis] indices of shape {indices.shape} need the {x.ndim} dimensions of {x.shape}."
        )
    rest = broadcast_shapes(
        "take_along_axis", (*x.shape[:i], 1, *x.shape[i + 1 :]), (*indices.shape[:i], 1, *indices.shape[i + 1 :])
    )
    return TensorSpec((*rest[:i], indices.shape[i], *rest[i + 1 :]), x.dtype)


take_along_axis = structured(
    "take_along_axis(Tensor x, Tensor indices, *, int axis=-1) -> Tensor",
    meta=_gather_meta,
    vjp={"x": lambda g, x_meta, indices, axis: _gather_vjp(g, x_meta.shape, indices, axis)},
    samples=lambda rng: [
        ((rng.standard_normal((3, 5)), rng.integers(-5, 5, (3, 2))), {"axis": 1}),
        ((rng.standard_normal((3, 5)), rng.integers(0, 3, (4, 5))), {"axis": -2}),
        ((rng.standard_normal((3, 5)), rng.integers(0, 5, (1, 2))), {"axis": 1}),
        ((rng.standard_normal((1, 5)), rng.integers(0, 5, (3, 2))), {"axis": 1}),
        ((rng.standard_normal((3, 5)), rng.integers(0, 5, (3, 0))), {}),
    ],
    doc="""Along one axis the elements at ``indices``, which has the number of dimensions of ``x``.

    >>> import tenkey as tk
    >>> tk.take_along_axis(tk.asarray([[10, 20, 30]]), tk.asarray([[2, 0]]), axis=1).tolist()
    [[30, 10]]
    """,
)


def _scatter_meta(source: Tensor, indices: Tensor, shape: Sequence[int], axis: int) -> TensorSpec:
    i = normalize_axis("scatter_add", axis, len(shape))
    if indices.dtype.kind not in "iu":
        raise TypeError(f"[scatter_add] indices must be integers, got {indices.dtype}.")
    if (*indices.shape[:i], *indices.shape[i + 1 :]) != (*shape[:i], *shape[i + 1 :]) or indices.ndim != len(shape):
        raise ValueError(_SCATTER_INDICES.format(indices=indices.shape, shape=tuple(shape), axis=i))
    if broadcast_shapes("scatter_add", source.shape, indices.shape) != indices.shape:
        raise ValueError(_SCATTER_SOURCE.format(source=source.shape, indices=indices.shape))
    return TensorSpec(tuple(shape), source.dtype)


def _gather_vjp(g: Tensor, shape: tuple[int, ...], indices: Tensor, axis: int) -> Tensor:
    i = normalize_axis("take_along_axis", axis, len(shape))
    wide = (*g.shape[:i], shape[i], *g.shape[i + 1 :])  # x and indices broadcast in every other dimension
    spread = indices if indices.shape == g.shape else broadcast_to(indices, g.shape)
    return sum_to_shape(scatter_add_zeros(g, spread, wide, i), shape)


scatter_add_zeros = structured(
    "scatter_add_zeros(Tensor source, Tensor indices, int[] shape, int axis) -> Tensor",
    meta=_scatter_meta,
    vjp={"source": lambda g, indices, axis: take_along_axis(g, indices, axis=axis)},
    samples=lambda rng: [
        ((rng.standard_normal((3, 2)), rng.integers(0, 5, (3, 2)), (3, 5), 1), {}),
        ((rng.standard_normal((4, 2)), rng.integers(-3, 3, (4, 2)), (3, 2), 0), {}),
        ((rng.standard_normal((3, 0)), rng.integers(0, 5, (3, 0)), (3, 5), 1), {}),
    ],
    tags=("internal",),
    doc="""Zeros of ``shape`` with ``source`` added at ``indices`` of an axis: the adjoint of ``take_along_axis``.

    >>> import tenkey as tk
    >>> tk.ops.tk.scatter_add_zeros(tk.asarray([1.0, 2.0]), tk.asarray([1, 1]), (3,), 0).tolist()
    [0.0, 3.0, 0.0]
    """,
)


@composite(
    "scatter_add(Tensor x, Tensor indices, Tensor source, *, int axis=-1) -> Tensor",
    samples=lambda rng: [
        ((rng.standard_normal((3, 5)), rng.integers(0, 5, (3, 2)), rng.standard_normal((3, 2))), {"axis": 1})
    ],
)
def scatter_add(x: Tensor, indices: Tensor, source: Tensor, *, axis: int = -1) -> Tensor:
    """``x`` with ``source`` added at ``indices`` along an axis; equal indices add up.

    >>> import tenkey as tk
    >>> tk.scatter_add(tk.zeros(3), tk.asarray([0, 0]), tk.asarray([1.0, 2.0]), axis=0).tolist()
    [3.0, 0.0, 0.0]
    """
    return x + scatter_add_zeros(source, indices, x.shape, normalize_axis("scatter_add", axis, x.ndim))


def index_shape(x: Tensor, indices: Sequence[Tensor | None]) -> tuple[int, ...] | None:
    """The shape of ``x[indices]`` for integer indices, or None where a mask makes it depend on values."""
    for i in indices:
        if i is not None and i.dtype.kind not in "iub":
            raise IndexError(_KIND.format(value=f"a tensor of {i.dtype}"))
    if any(i is not None and i.dtype.kind == "b" for i in indices):
        return None
    if len(indices) > x.ndim:
        raise IndexError(_TOO_MANY.format(count=len(indices), ndim=x.ndim, shape=x.shape))
    arrays = [i for i in indices if i is not None]
    common = broadcast_shapes("index", *[i.shape for i in arrays])
    at = [k for k, i in enumerate(indices) if i is not None]
    rest = [n for k, n in enumerate(x.shape) if k not in at]
    if at and at == list(range(at[0], at[-1] + 1)):
        return tuple(rest[: at[0]]) + common + tuple(rest[at[0] :])
    return common + tuple(rest)


def _index_meta(x: Tensor, indices: Sequence[Tensor | None]) -> TensorSpec:
    shape = index_shape(x, indices)
    if shape is None:
        raise NotImplementedError(
            "[index] the shape of x[mask] depends on the mask's values, which a tensor without values does not have: "
            "use where(mask, x, other)."
        )
    return TensorSpec(shape, x.dtype)


gather = structured(
    "gather(Tensor x, Tensor?[] indices) -> Tensor",
    meta=_index_meta,
    vjp={"x": lambda g, x_meta, indices: gather_backward(g, x_meta.shape, indices)},
    samples=lambda rng: [
        ((rng.standard_normal((4, 3)), [rng.integers(-4, 4, (5,)), None]), {}),
        ((rng.standard_normal((4, 3)), [None, rng.integers(0, 3, (2, 2))]), {}),
        ((rng.standard_normal((4, 3, 2)), [rng.integers(0, 4, (5, 1)), None, rng.integers(0, 2, (3,))]), {}),
        ((rng.standard_normal((4, 3)), [rng.integers(0, 4, (0,))]), {}),
    ],
    tags=(
        "internal",
        "data_dependent_output",
    ),
    doc="""``x[indices]`` for a list of integer or bool tensors, one for each leading dimension, None for all of it.

    >>> import tenkey as tk
    >>> tk.ops.tk.gather(tk.asarray([10, 20, 30]), [tk.asarray([2, 0])]).tolist()
    [30, 10]
    """,
)

gather_backward: Entry = structured(
    "gather_backward(Tensor g_out, int[] shape, Tensor?[] indices) -> Tensor",
    meta=lambda g_out, shape, indices: TensorSpec(tuple(shape), g_out.dtype),
    vjp={"g_out": lambda g, indices: gather(g, indices)},
    samples=lambda rng: [
        ((rng.standard_normal((5, 3)), (4, 3), [rng.integers(0, 4, (5,)), None]), {}),
        ((rng.standard_normal((4, 2, 2)), (4, 3), [None, rng.integers(-3, 3, (2, 2))]), {}),
    ],
)


@composite(
    "take(Tensor x, Tensor indices, *, int? axis=None) -> Tensor",
    samples=lambda rng: [
        ((rng.standard_normal((5,)), rng.integers(-5, 5, (3,))), {}),
        ((rng.standard_normal((3, 5)), rng.integers(0, 5, (4,))), {"axis": -1}),
    ],
    methods=("take",),
)
def take(x: Tensor, indices: Tensor, *, axis: int | None = None) -> Tensor:
    """The elements at ``indices`` of an axis, which may be left out for a 1-d tensor.

    >>> import tenkey as tk
    >>> tk.take(tk.asarray([10, 20, 30]), tk.asarray([2, 0])).tolist()
    [30, 10]
    """
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"[take] needs axis= for a tensor of shape {x.shape}.")
        axis = 0
    i = normalize_axis("take", axis, x.ndim)
    if indices.dtype.kind not in "iu":
        raise TypeError(f"[take] indices must be integers, got {indices.dtype}.")
    result: Tensor = gather(x, [None] * i + [indices])
    return result


def _as_index(value: Any, device: Device) -> Tensor:
    if isinstance(value, Tensor):
        tensor = value
    else:
        array = np.asarray(value)
        if array.size == 0 and array.dtype.kind == "f":
            array = array.astype(np.int64)
        if array.dtype.kind not in "iub":
            raise IndexError(_KIND.format(value=value))
        tensor = make_tensor(array, cpu_word(array.dtype))
        if device is not CPU:
            tensor = registry.find("tk::to_device").call(tensor, device)
    if tensor.dtype.kind not in "iub":
        raise IndexError(_KIND.format(value=value))
    return tensor


def basic_index(x: Tensor, index: Any, reversed_at: list[int] | None = None) -> tuple[Tensor, list[Tensor | None]]:
    """The view that the ints, slices, None and '...' of an index select, and what is left to gather from it.

    A slice with a negative step makes a copy of it, unless ``reversed_at`` is given: then the view is in ascending
    order, and the list receives the places in what is left whose dimension is to be read backwards.
    """
    items = index if isinstance(index, tuple) else (index,)
    consumed = 0
    ellipses = 0
    for item in items:
        if item is Ellipsis:
            ellipses += 1
        elif isinstance(item, Tensor) and item.dtype.kind == "b":
            consumed += item.ndim
        elif item is not None and item is not True and item is not False:
            consumed += np.ndim(item) if isinstance(item, np.ndarray) and item.dtype.kind == "b" else 1
    if ellipses > 1:
        raise IndexError(_ELLIPSES)
    if consumed > x.ndim:
        raise IndexError(_TOO_MANY.format(count=consumed, ndim=x.ndim, shape=x.shape))
    arrays: list[Tensor | None] = []
    advanced = any(isinstance(item, (Tensor, list, np.ndarray)) and np.ndim(_shape_of(item)) >= 0 for item in items)
    axis = 0
    for item in items:
        if item is Ellipsis:
            skip = x.ndim - axis - (consumed - _consumed_before(items, item))
            axis += skip
            arrays += [None] * skip
        elif item is None:
            x = expand_dims(x, axis)
            axis += 1
            arrays.append(None)
        elif isinstance(item, (int, np.integer)) and not isinstance(item, bool) and not advanced:
            x = select(x, axis, int(item))
        elif isinstance(item, slice_type):
            if reversed_at is not None and item.step is not None and item.step < 0:
                reversed_at.append(len(arrays))
                x = _ascending(x, axis, item)
            else:
                x = _take_slice(x, axis, item)
            axis += 1
            arrays.append(None)
        elif isinstance(item, (Tensor, list, np.ndarray, int, np.integer)) and not isinstance(item, bool):
            if isinstance(item, Tensor) and item.ndim == 0 and item.dtype.kind in "iu" and not advanced:
                x = select(x, axis, int(item))
                continue
            tensor = _as_index(item, x.device)
            if tensor.dtype.kind == "b":
                if tensor.shape != x.shape[axis : axis + tensor.ndim]:
                    raise IndexError(_MASK.format(mask=tensor.shape, shape=x.shape[axis : axis + tensor.ndim]))
                axis += tensor.ndim
                arrays.append(tensor)
                continue
            axis += 1
            arrays.append(tensor)
        else:
            raise IndexError(_KIND.format(value=item))
    while arrays and arrays[-1] is None:
        arrays.pop()
    return x, arrays


def _shape_of(item: Any) -> tuple[int, ...]:
    return item.shape if isinstance(item, (Tensor, np.ndarray)) else ()


def _consumed_before(items: tuple[Any, ...], ellipsis: Any) -> int:
    count = 0
    for item in items:
        if item is ellipsis:
            return count
        if isinstance(item, (Tensor, np.ndarray)) and item.dtype.kind == "b":
            count += item.ndim
        elif item is not None:
            count += 1
    return count


slice_type: Any = type(np.s_[:])  # the name ``slice`` is the operator's here


def _take_slice(x: Tensor, axis: int, item: Any) -> Tensor:
    if item.step is not None and item.step == 0:
        raise ValueError(_STEP.format(value=item))
    start, stop, step = item.indices(x.shape[axis])
    if step > 0:
        if start == 0 and stop == x.shape[axis] and step == 1:
            return x if item.start is None and item.stop is None else slice(x, axis, 0, stop, 1)
        return slice(x, axis, start, max(stop, start), step)
    return flip(_ascending(x, axis, item), axis=axis)


def _ascending(x: Tensor, axis: int, item: Any) -> Tensor:
    """The elements of a slice with a negative step, in the order of their places; a view."""
    start, stop, step = item.indices(x.shape[axis])
    length = max(0, -(-(start - stop) // -step))
    last = start + (length - 1) * step
    return slice(x, axis, last, start + 1, -step) if length else slice(x, axis, 0, 0, 1)


def reverse_source(value: Any, viewed: Tensor, arrays: Sequence[Tensor | None], reversed_at: Sequence[int]) -> Any:
    """What is assigned, flipped along the dimensions of the selection that are to be read backwards."""
    given = [i for i in arrays if i is not None]
    at = [k for k, i in enumerate(arrays) if i is not None]
    depth = len(broadcast_shapes("index", *[(1,) if i.dtype.kind == "b" else i.shape for i in given]))
    ndim = viewed.ndim - sum(i.ndim if i.dtype.kind == "b" else 1 for i in given) + depth
    together = at == list(range(at[0], at[-1] + 1)) if at else True
    axes = []
    for place in reversed_at:
        before = sum(k < place for k in at)  # indices that stand before it; their common dimensions come before it too
        axis = place - before + (depth if before or not together else 0) - ndim
        if -axis <= value.ndim and value.shape[axis] != 1:
            axes.append(axis)
    return flip(value, axis=tuple(axes)) if axes else value


def getitem(x: Tensor, index: Any) -> Tensor:
    """``x[index]``: a view for ints, slices, None and '...', a copy where tensors select elements."""
    if index.__class__ is int:
        if x._data.shape:
            return select(x, 0, index)
        raise IndexError(_TOO_MANY.format(count=1, ndim=0, shape=()))
    if index.__class__ is slice_type and index.step is None and x._data.shape:
        start, stop, _ = index.indices(x._data.shape[0])
        return slice(x, 0, start, max(start, stop), 1)
    if index is True or index is False:
        raise IndexError(_KIND.format(value=index))
    viewed, arrays = basic_index(x, index)
    if arrays:
        return gather(viewed, arrays)
    return slice(viewed, 0, 0, viewed.shape[0], 1) if viewed is x and x.ndim else viewed


Tensor.__getitem__ = getitem  # type: ignore[method-assign, assignment]
