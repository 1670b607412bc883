"""Views on the memory of their argument; ``window`` returns shape, strides and offset in elements."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, Final

from ....core.storage import contiguous_strides
from ....core.tensor import Tensor, strides_of
from ....dispatch.operator import Operator
from ....dispatch.registry import registry
from ....dispatch.tags import Tag
from ...declare import (
    Decomposition,
    Entry,
    TensorSpec,
    along,
    composite,
    internal,
    linear,
    normal,
    prepend,
    same_dim,
    view,
)
from ...declare.batch import VmapLevel
from ...shapes import broadcast_shapes, infer_reshape, normalize_axes, normalize_axis
from ..creation import zeros

Window = tuple[tuple[int, ...], tuple[int, ...], int]

RESHAPE_COPIES: Final = (
    "[reshape] copy=False, but a tensor of shape {shape} and strides {strides} can take the shape {target} only "
    "as a copy."
)


def _reshape_window(x: Tensor, shape: Sequence[int], *, copy: bool | None = None) -> Window | None:
    target = infer_reshape(x.shape, shape)
    if copy:
        return None
    window = _uncopied_window(x, target)
    if window is None and copy is False:
        raise ValueError(RESHAPE_COPIES.format(shape=x.shape, strides=strides_of(x), target=target))
    return window


def _uncopied_window(x: Tensor, target: tuple[int, ...]) -> Window | None:
    if x.is_contiguous or x.size == 0:
        return target, contiguous_strides(target), 0
    # dimensions of length 1 do not matter; adjacent dimensions laid out as one can be divided differently
    old = [(n, stride) for n, stride in zip(x.shape, strides_of(x)) if n != 1]
    strides: list[int] = []
    position = len(old) - 1
    block, step = old[-1] if old else (1, 1)
    for n in reversed(target):
        if n == 1:
            strides.append(step)
            continue
        while block == 1 and position > 0:
            position -= 1
            block, step = old[position]
        while block % n and position > 0 and old[position - 1][1] == old[position][0] * old[position][1]:
            position -= 1
            block *= old[position][0]
        if block % n:
            return None
        strides.append(step)
        step *= n
        block //= n
    return target, tuple(reversed(strides)), 0


def _reshape_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    x, shape = args
    target = shape if x._data.shape == shape else infer_reshape(x.shape, shape)
    return level.batch(reshape(level.front(x), (level.size, *target), **kwargs))


reshape: Entry = view(
    "reshape(Tensor x, int[] shape, *, bool? copy=None) -> Tensor",
    window=_reshape_window,
    vjp={"x": lambda g, x_meta: reshape(g, x_meta.shape)},
    sample_inputs=normal(
        ([2, 6], (3, -1)),
        ([4], (2, 2)),
        ([2, 3, 2], (6, 2)),
        ([2, 1, 3], (2, 3)),
        ([], (1, 1)),
        ([1], ()),
        ([0, 3], (3, 0)),
        ([2, 3], (2, 3)),
    ),
    batch=_reshape_batch,
    doc="""Give the elements, in row-major order, another shape, in which one length may be -1; a view where possible.

    ``copy=True`` always copies; ``copy=False`` returns a view, or raises ValueError if the shape needs a copy.

    >>> tk.reshape(tk.asarray([1, 2, 3, 4]), (2, -1)).tolist()
    [[1, 2], [3, 4]]
    """,
)


def _permute_window(x: Tensor, axes: Sequence[int]) -> Window:
    order = normalize_axes("permute_dims", axes, x.ndim)
    if len(order) != x.ndim:
        raise ValueError(
            f"[permute_dims] axes {tuple(axes)} must name each of the {x.ndim} dimensions of shape {x.shape} once."
        )
    strides = strides_of(x)
    return tuple([x.shape[i] for i in order]), tuple([strides[i] for i in order]), 0


def _invert(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    order = normalize_axes("permute_dims", axes, ndim)
    return tuple(sorted(range(ndim), key=order.__getitem__))


permute_dims: Entry = view(
    "permute_dims(Tensor x, int[] axes) -> Tensor",
    window=_permute_window,
    vjp={"x": lambda g, axes: permute_dims(g, _invert(axes, len(axes)))},
    sample_inputs=normal(([2, 3, 4], (2, 0, 1)), ([2, 3], (-1, 0)), ([0, 3], (1, 0)), ([], ())),
    batch=prepend(along=("axes",), axes=(0,)),
    doc="""Return a view with the dimensions in another order.

    >>> tk.permute_dims(tk.zeros((2, 3)), (1, 0)).shape
    (3, 2)
    """,
)


def _expand_window(x: Tensor, shape: Sequence[int]) -> Window:
    target = tuple(shape)
    before = x.shape
    lead = len(target) - len(before)
    if lead < 0 or any(m < 0 or n not in (1, m) for n, m in zip((*target[:lead], *before), target)):
        broadcast_shapes("broadcast_to", before, target)  # its error names the lengths that differ
        raise ValueError(f"[broadcast_to] a tensor of shape {before} cannot be broadcast to {target}.")
    stretched = [0 if n == 1 and m != 1 else stride for n, m, stride in zip(before, target[lead:], strides_of(x))]
    return target, (*[0] * lead, *stretched), 0


def along_axis(x: Tensor, axis: int, ndim: int) -> Tensor:
    """Return a vector in the shape in which it broadcasts along an axis of ``ndim`` dimensions."""
    return reshape(x, tuple([-1 if i == axis % ndim else 1 for i in range(ndim)]))


def sum_to_shape(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sum over the dimensions in which ``shape`` was broadcast to the shape of ``g``."""
    lead = g.ndim - len(shape)
    axes = tuple(range(lead)) + tuple([lead + i for i, n in enumerate(shape) if n == 1 and g.shape[lead + i] != 1])
    if not axes:
        return g
    # by its name: sum and broadcast_to are each other's adjoint, and reduction.py imports this module
    return reshape(registry.find("tk::sum").call(g, axis=axes, keepdims=True), shape)


def _broadcast_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    x, shape = args
    level.check(operator, args, kwargs)
    return level.batch(broadcast_to(level.aligned(x, len(shape)), (level.size, *shape)))


broadcast_to: Entry = view(
    "broadcast_to(Tensor x, int[1] shape) -> Tensor",
    window=_expand_window,
    vjp={"x": lambda g, x_meta: sum_to_shape(g, x_meta.shape)},
    sample_inputs=normal(([3, 1], (2, 3, 4)), ([3], (3,)), ([], (2, 3)), ([1, 1], (1, 2)), ([1, 3], (0, 3))),
    batch=_broadcast_batch,
    doc="""Return a view that repeats dimensions of length 1 and new leading dimensions, without copying.

    >>> tk.broadcast_to(tk.asarray([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """,
)


def _squeezed_axes(x: Tensor, axis: Sequence[int] | None) -> tuple[int, ...]:
    if axis is None:
        return tuple([i for i, n in enumerate(x.shape) if n == 1])
    return normalize_axes("squeeze", axis, x.ndim)


def _squeeze_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    x, axis = args
    level.check(operator, args, kwargs)
    return level.batch(squeeze(level.front(x), tuple([i + 1 for i in _squeezed_axes(x, axis)])))


def _squeeze_window(x: Tensor, axis: Sequence[int] | None = None) -> Window:
    axes = _squeezed_axes(x, axis)
    for i in axes:
        if x.shape[i] != 1:
            raise ValueError(f"[squeeze] dimension {i} of shape {x.shape} has length {x.shape[i]}, not 1.")
    keep = [i for i in range(x.ndim) if i not in axes]
    strides = strides_of(x)
    return tuple([x.shape[i] for i in keep]), tuple([strides[i] for i in keep]), 0


squeeze: Entry = view(
    "squeeze(Tensor x, int[1]? axis=None) -> Tensor",
    window=_squeeze_window,
    vjp={"x": lambda g, x_meta: reshape(g, x_meta.shape)},
    sample_inputs=normal(([2, 1, 3], 1), ([1, 2, 1], (0, -1)), ([0, 1], 1), ([1, 2, 1],), ([2],)),
    batch=_squeeze_batch,
    methods=("squeeze",),
    doc="""Return a view without the named dimensions, which must have length 1; by default without all of length 1.

    >>> tk.squeeze(tk.zeros((2, 1, 1)), 1).shape, tk.squeeze(tk.zeros((2, 1, 1))).shape
    ((2, 1), (2,))
    """,
)


def _expand_dims_window(x: Tensor, axis: Any = 0) -> Window:
    new = (axis,) if isinstance(axis, int) else axis
    new = normalize_axes("expand_dims", new, x.ndim + len(new))
    lengths, steps = list(x.shape), list(strides_of(x))
    for i in sorted(new):  # the step of a dimension of length 1 is never taken; 0, as for None in an index
        lengths.insert(i, 1)
        steps.insert(i, 0)
    return tuple(lengths), tuple(steps), 0


expand_dims = view(
    "expand_dims(Tensor x, int[1] axis=0) -> Tensor",
    window=_expand_dims_window,
    vjp={"x": lambda g, x_meta: reshape(g, x_meta.shape)},
    sample_inputs=normal(
        ([2, 3], {"axis": 1}), ([2], -1), [], ([0, 2], {"axis": -2}), ([2, 3], (0, -1, 2)), ([2, 3], ())
    ),
    batch=along("axis"),
    doc="""Return a view with new dimensions of length 1 at the position or positions ``axis`` of the result.

    >>> tk.expand_dims(tk.zeros((2,)), 0).shape
    (1, 2)
    """,
)


def _select_window(x: Tensor, axis: int, index: int) -> Window:
    i = normalize_axis("select_index", axis, x.ndim)
    n = x.shape[i]
    if not -n <= index < n:
        raise IndexError(
            f"[index] index {index} is out of range for dimension {i} of shape {x.shape}: it must be in "
            f"[{-n}, {n - 1}]."
        )
    strides = strides_of(x)
    offset = 0 if 0 in x.shape else (index + n if index < 0 else index) * strides[i]
    return (*x.shape[:i], *x.shape[i + 1 :]), (*strides[:i], *strides[i + 1 :]), offset


def _select_vjp(g: Tensor, x_meta: Any, axis: int, index: int) -> Tensor:
    i = normalize_axis("select_index", axis, len(x_meta.shape))
    at = index + x_meta.shape[i] if index < 0 else index
    return slice_backward(expand_dims(g, i), x_meta.shape, i, at, 1)


select_index: Entry = view(
    "select_index(Tensor x, int axis, int index) -> Tensor",
    window=_select_window,
    vjp={"x": _select_vjp},
    part=lambda x, axis, index: select_index(x, axis, index),
    sample_inputs=normal(([3, 4], 1, -1), ([3, 4], 0, 2), ([3], -1, 0), ([2, 0], 0, 1)),
    batch=along("axis"),
    tags=(Tag.INTERNAL,),
    doc="Return a view of the slice at one index of an axis, without that axis.",
)


def _slice_window(x: Tensor, axis: int, start: int, stop: int, step: int = 1) -> Window:
    i = normalize_axis("slice", axis, x.ndim)
    if step < 1:
        raise ValueError(f"[slice] the step of a view must be at least 1, got {step}: flip first, for a copy.")
    first, last, _ = slice_of(start, stop, step, x.shape[i])
    length = max(0, -(-(last - first) // step))
    strides = strides_of(x)
    return (
        (*x.shape[:i], length, *x.shape[i + 1 :]),
        (*strides[:i], strides[i] * step, *strides[i + 1 :]),
        first * strides[i] if length and 0 not in x.shape else 0,  # an empty view starts at 0
    )


def slice_of(start: int | None, stop: int | None, step: int | None, length: int) -> tuple[int, int, int]:
    """Return Python's ``slice(start, stop, step).indices(length)``."""
    return builtins.slice(start, stop, step).indices(length)


def _slice_vjp(g: Tensor, shape: tuple[int, ...], axis: int, start: int, step: int) -> Tensor:
    i = normalize_axis("slice", axis, len(shape))
    return slice_backward(g, shape, i, slice_of(start, None, step, shape[i])[0], step)


def _slice_again(x: Tensor, shape: tuple[int, ...], axis: int, start: int, step: int) -> Tensor:
    """Return the slice of a known shape."""
    i = normalize_axis("slice", axis, len(shape))
    first = slice_of(start, None, step, x.shape[i])[0]
    return slice(x, i, first, first + shape[i] * step, step)


slice: Entry = view(
    "slice(Tensor x, int axis, int start, int stop, int step=1) -> Tensor",
    window=_slice_window,
    vjp={"x": lambda g, x_meta, axis, start, step: _slice_vjp(g, x_meta.shape, axis, start, step)},
    part=lambda x, g, axis, start, step: _slice_again(x, g.shape, axis, start, step),
    sample_inputs=normal(([5, 4], 0, 1, 5, 2), ([5, 4], -1, -3, 100), ([5, 4], 0, 3, 1), ([0, 4], 1, 0, 4, 3)),
    batch=along("axis"),
    tags=(Tag.INTERNAL,),
    doc="Return a view of every ``step``-th element of an axis from ``start`` to before ``stop``, as Python slices do.",
)


def _slice_backward_vjp(g: Tensor, g_meta: Any, axis: int, start: int, step: int) -> Tensor:
    length = g_meta.shape[axis]
    stop = start + (length - 1) * step + 1 if length else start
    return slice(g, axis, start, stop, step)


def _zeros_with_slice(g_slice: Tensor, shape: Sequence[int], axis: int, start: int, step: int) -> Tensor:
    out = zeros(shape, dtype=g_slice.dtype, device=g_slice.device)
    if g_slice.shape[axis]:
        stop = start + (g_slice.shape[axis] - 1) * step + 1
        registry.find("tk::copy_").call(slice(out, axis, start, stop, step), g_slice)
    return out


slice_backward = internal(
    "slice_backward(Tensor g_slice, int[] shape, int axis, int start, int step) -> Tensor",
    meta=lambda g_slice, shape, axis, start, step: TensorSpec(tuple(shape), g_slice.dtype),
    decomposition=Decomposition(_zeros_with_slice),
    vjp={"g_slice": lambda g, g_slice_meta, axis, start, step: _slice_backward_vjp(g, g_slice_meta, axis, start, step)},
    jvp=linear("g_slice"),
    sample_inputs=normal(([2, 4], (5, 4), 0, 1, 2), ([2, 3], (2, 3), 1, 0, 1), ([0, 4], (5, 4), 0, 3, 1)),
    batch=prepend("shape", along=("axis",)),
    doc="Return zeros with ``g_slice`` written where a slice was taken: the adjoint of ``slice``.",
)


alias = view(
    "alias(Tensor x) -> Tensor",
    window=lambda x: (x.shape, strides_of(x), 0),
    vjp={"x": lambda g: g},
    sample_inputs=normal([2, 3], [], [0, 2]),
    batch=same_dim,
    tags=(Tag.INTERNAL,),
    doc="Return another handle to the same elements; a view.",
)


@composite("matrix_transpose(Tensor x) -> Tensor", sample_inputs=normal([2, 3], [2, 3, 4], [0, 2]))
def matrix_transpose(x: Tensor) -> Tensor:
    """Return a view with the last two dimensions exchanged.

    >>> tk.matrix_transpose(tk.zeros((5, 2, 3))).shape
    (5, 3, 2)
    """
    n = x.ndim
    if n < 2:
        raise ValueError(f"[matrix_transpose] needs at least two dimensions, got shape {x.shape}.")
    return permute_dims(x, (*range(n - 2), n - 1, n - 2))
