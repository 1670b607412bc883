"""CPU kernels of views: NumPy's operation where there is one, else a window made from the View facet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy import ndarray

from ...core.plans import SMALL, Simple
from ...core.storage import Storage
from ...core.tensor import Tensor, make_tensor, make_view
from ...core.tensor_base import new_handle
from ...core.word import INHERITED
from ...dispatch.operator import Operator
from ...ops.declare.facets import View
from ...ops.shapes import infer_reshape, refuse_shape
from .kernels import check, own_error
from .loops.moves.strided_copies import copied
from .thresholds import COPIED

__all__ = ["KERNELS", "view_kernel"]


def _reshape(x: Tensor, shape: Sequence[int], copy: bool | None = None) -> Tensor:
    a = x._data
    try:
        for n in shape:
            if n < -1:  # NumPy treats every negative length as -1
                raise ValueError
        data = a.reshape(shape) if a.nbytes < COPIED else _large_reshape(a, shape)
    except (ValueError, TypeError):
        own_error(infer_reshape, a.shape, shape)
        own_error(refuse_shape, "reshape", shape)
        raise
    base = data.base
    if base is a or (base is not None and base is a.base):
        if copy:
            return make_tensor(copied(data), x._word & INHERITED)
        made: Tensor = new_handle(Tensor)
        made._data = data
        made._word = x._word & INHERITED
        storage = x._storage
        made._storage = x if storage is None or storage.__class__ is Storage else storage
        made._autograd = None
        return made
    if copy is False:
        check("reshape", x, shape, copy=False)
    return make_tensor(data, x._word & INHERITED)


def _large_reshape(a: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Return a view if the layout allows it, otherwise a copy that several threads make."""
    if not a.flags.c_contiguous:
        try:
            return np.reshape(a, shape, copy=False)
        except ValueError:
            a = copied(a)
    return a.reshape(shape)


def _select(x: Tensor, axis: int, index: int) -> Tensor:
    a = x._data
    try:
        if axis == 0:
            return make_view(x, a[index, ...])
        return make_view(x, a[(slice(None),) * (axis if axis >= 0 else a.ndim + axis) + (index, ...)])
    except IndexError:
        check("select_index", x, axis, index)
        raise


def _slice(x: Tensor, axis: int, start: int, stop: int, step: int = 1) -> Tensor:
    a = x._data
    if axis == 0 and step >= 1 and a.ndim:
        return make_view(x, a[start:stop:step])
    check("slice", x, axis, start, stop, step)
    return make_view(x, a[(slice(None),) * (axis if axis >= 0 else a.ndim + axis) + (slice(start, stop, step),)])


def _basic_index(x: Tensor, index: tuple[Any, ...]) -> Tensor:
    try:
        data = x._data[index]
    except IndexError:
        check("basic_index", x, index)
        own_error(refuse_shape, "index", (1,) * (x.ndim + index.count(None)))
        raise
    if data.__class__ is not ndarray:  # NumPy returns an element as a scalar
        data = x._data[(*index, ...)]
    made: Tensor = new_handle(Tensor)
    made._data = data
    made._word = x._word & INHERITED
    storage = x._storage
    made._storage = x if storage is None or storage.__class__ is Storage else storage
    made._autograd = None
    return made


def _permute(x: Tensor, axes: Sequence[int]) -> Tensor:
    try:
        return make_view(x, x._data.transpose(axes))
    except ValueError:
        check("permute_dims", x, axes)
        raise


def view_kernel(operator: Operator) -> Callable[..., Tensor]:
    """Return the kernel of a view, which applies the window of its View facet."""
    facet: View = operator.facets["View"]

    def kernel(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        window = facet.window(x, *args, **kwargs)
        if window is None:
            raise NotImplementedError(f"[{operator.name}] cannot be a view of this layout.")
        return make_view(x, _window_of(x._data, *window))

    return kernel


def _window_of(a: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> np.ndarray:
    """Return the array with this shape, and strides and offset in elements from the start of ``a``."""
    dtype = a.dtype
    itemsize = dtype.itemsize
    steps = [s * itemsize for s in strides]
    if 0 in shape:
        offset = 0  # one beyond the memory is refused, also where nothing lies there
    if a.flags.c_contiguous and a.flags.writeable:  # NumPy checks that it stays within ``a``
        return np.ndarray(shape, dtype, a, offset * itemsize, steps)
    if offset:
        a = np.lib.stride_tricks.as_strided(a, (offset + 1,), (itemsize,))[offset:]
    return np.lib.stride_tricks.as_strided(a, shape, steps)


def _squeeze(x: Tensor, axis: Sequence[int]) -> Tensor:
    try:
        return make_view(x, x._data.squeeze(axis))
    except (ValueError, OverflowError):
        check("squeeze", x, axis)
        raise


def _expand_dims(x: Tensor, axis: Sequence[int] = (0,)) -> Tensor:
    a = x._data
    if a.ndim + len(axis) > 64:
        refuse_shape("expand_dims", (1,) * (a.ndim + len(axis)))
    if len(axis) != 1 or not -a.ndim - 1 <= axis[0] <= a.ndim:
        return make_view(x, _window_of(a, *check("expand_dims", x, axis)))
    i = axis[0] if axis[0] >= 0 else axis[0] + a.ndim + 1
    return make_view(x, a[(slice(None),) * i + (None,)])


def _broadcast_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    a = x._data
    before = a.shape
    if len(shape) > 64:
        refuse_shape("broadcast_to", shape)
    if not before:
        try:
            return make_view(x, np.ndarray(shape, a.dtype, a, 0, (0,) * len(shape)))
        except ValueError:  # a negative length, or more elements than addresses
            check("broadcast_to", x, shape)
            own_error(refuse_shape, "broadcast_to", shape, a.dtype.itemsize)
            raise
    lead = len(shape) - len(before)
    if lead < 0 or not a.flags.c_contiguous or not a.flags.writeable:
        return make_view(x, _window_of(a, *check("broadcast_to", x, shape)))
    steps = [0] * lead
    for n, m, step in zip(before, shape[lead:], a.strides):
        if n == m:
            steps.append(step)
        elif n == 1 and m >= 0:
            steps.append(0)
        else:
            check("broadcast_to", x, shape)
    if lead and min(shape) < 0:
        check("broadcast_to", x, shape)
    try:
        return make_view(x, np.ndarray(shape, a.dtype, a, 0, steps))
    except ValueError:
        own_error(refuse_shape, "broadcast_to", shape, a.dtype.itemsize)
        raise


for _kernel in (_reshape, _basic_index, _permute):
    _described: Any = _kernel
    _described.small = Simple(None, SMALL)

KERNELS: Final[dict[str, Callable[..., Tensor]]] = {
    "tk::basic_index": _basic_index, "tk::alias": lambda x: make_view(x, x._data), "tk::reshape": _reshape,
    "tk::select_index": _select, "tk::slice": _slice, "tk::permute_dims": _permute, "tk::squeeze": _squeeze,
    "tk::expand_dims": _expand_dims, "tk::broadcast_to": _broadcast_to,
}  # fmt: skip
