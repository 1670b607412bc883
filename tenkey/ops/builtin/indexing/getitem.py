"""``x[...]``: an index taken apart into one view and one gather.

Note [Indexing]
~~~~~~~~~~~~~~~
An index of ints, slices with positive steps, None and '...' is one call of ``basic_index``. Otherwise a :class:`Plan`
says what to view first, what to reverse (a slice with a negative step: there are no negative strides, so a copy)
and which tensors then select from the dimensions of that view. Dimensions lie in the result as NumPy places them: those
of the tensors come where the tensors stand if these stand side by side, else first; an int beside tensors counts as a
tensor, and an '...' between two tensors separates them even where it stands for nothing. A bool (``True``, or a 0-d
tensor of bools) adds a dimension of length 1 or 0. Where the values of a 0-d tensor cannot be asked for, on the device
``meta`` or inside of ``vmap``, an int is gathered, too. Guarded by ``tests/ops/test_indexing.py``.
"""

from __future__ import annotations

import operator as _operator
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.device import Device
from ....core.tensor import Tensor, cpu_word, from_host, make_tensor
from ....core.wrapper import Wrapper
from ....dispatch.errors import shown
from ....dispatch.local_state import get_state
from ....dispatch.registry import registry
from ...declare.declaration import operator_of
from ..shape.copying import flip
from ..shape.views import squeeze
from .advanced_indexing import index
from .basic_indexing import FULL, NOT_AN_INDEX, TOO_MANY, basic_index, plain_slice

__all__ = ["Plan", "getitem", "is_plain", "make_plan", "simple_arrays"]


class Plan(NamedTuple):
    """How an index is carried out."""

    view: tuple[Any, ...]
    """The index of ``basic_index`` that comes first."""
    whole: bool
    """The view is the tensor itself."""
    arrays: list[Tensor | None]
    """What ``index`` selects from the view: None for a dimension that is left as it is."""
    backwards: tuple[tuple[int, int], ...]
    """Of each slice to be read backwards its place in ``arrays`` and its dimension in the view."""
    ndim: int
    """The number of dimensions of the view."""
    tail: int | None
    """A dimension of length 1 that was added to keep tensors apart, counted from the last; it has to go again."""


def _as_index(item: Any, device: Device) -> Any:
    """One item of an index as an int, a slice, None, '...', a bool, or a tensor on ``device``."""
    if item is None or item is Ellipsis or item.__class__ is int:
        return item
    if item.__class__ is slice:
        return plain_slice(item)
    if isinstance(item, Tensor):
        kind = item.dtype.kind
        if kind not in "iub":
            raise IndexError(NOT_AN_INDEX.format(value=f"a tensor of dtype {item.dtype}"))
        known = item.__class__ is not Wrapper and item.device.type != "meta"
        if not item._data.shape and known:
            return item.item()
        return item
    if isinstance(item, (bool, np.bool_)):
        return bool(item)
    if isinstance(item, (list, tuple, np.ndarray)):
        array = np.asarray(item)
        if not isinstance(item, np.ndarray) and array.size == 0 and array.dtype.kind == "f":
            array = array.astype(np.int64)
        if array.dtype.kind not in "iub":
            raise IndexError(NOT_AN_INDEX.format(value=shown(item)))
        if not array.shape:
            return array.item()
        return from_host(array, device)
    if hasattr(item, "__index__"):
        return _operator.index(item)
    raise IndexError(NOT_AN_INDEX.format(value=shown(item)))


def make_plan(x: Tensor, given: Any) -> Plan:
    """The plan for ``x[given]``; raises IndexError for what is no index of ``x``, as far as shapes tell."""
    device = x.device
    items = [_as_index(item, device) for item in (given if isinstance(given, tuple) else (given,))]
    used = 0
    advanced = False
    ellipses = 0
    for item in items:
        if isinstance(item, Tensor):
            advanced = True
            used += item.ndim if item.dtype.kind == "b" else 1
        elif item is True or item is False:
            advanced = True
        elif item is Ellipsis:
            ellipses += 1
        elif item is not None:
            used += 1
    shape = x.shape
    if ellipses > 1:
        raise IndexError("[index] an index holds at most one ellipsis ('...').")
    if used > len(shape):
        raise IndexError(TOO_MANY.format(count=used, ndim=len(shape), shape=shape))
    view: list[Any] = []
    arrays: list[Tensor | None] = []
    backwards: list[tuple[int, int]] = []
    axis = dim = 0  # of x, of the view
    gap: tuple[int, int, int] | None = None  # where an ellipsis stands for nothing: in view, in arrays, in dimensions
    end = 0  # the dimension of the view after the last tensor
    for item in items:
        if item is None:
            view.append(None)
            arrays.append(None)
            dim += 1
        elif item is Ellipsis:
            count = len(shape) - used
            view += [FULL] * count
            arrays += [None] * count
            axis += count
            dim += count
            if not count:
                gap = (len(view), len(arrays), dim)
        elif item.__class__ is slice:
            if item.step is not None and item.step < 0:
                backwards.append((len(arrays), dim))
                item = _ascending(item, shape[axis])
            view.append(item)
            arrays.append(None)
            axis += 1
            dim += 1
        elif item.__class__ is int and not advanced:
            view.append(item)
            axis += 1
        elif item is True or item is False:
            view.append(None)
            arrays.append(_tensor_of([0] if item else [], device))
            dim += 1
            end = dim
        else:
            tensor = _tensor_of(item, device) if item.__class__ is int else item
            depth = 1
            if tensor.dtype.kind == "b":
                depth = tensor.ndim
                covers = shape[axis : axis + depth]
                if tensor.shape != covers:
                    if any(n not in (m, 0) for n, m in zip(tensor.shape, covers, strict=True)):
                        raise IndexError(
                            f"[index] a mask of shape {tensor.shape} does not fit the dimensions {covers} that it "
                            "selects from."
                        )
                    # the standard allows a length of 0 for any other: a mask of no elements, which selects none
                    tensor = registry.find("tk::zeros").call(covers, dtype=tensor.dtype, device=device)
            view += [FULL] * depth
            arrays.append(tensor)
            axis += depth
            dim += depth
            end = dim
    ndim = dim + len(shape) - axis
    tail = None
    if gap is not None and _separates(gap[1], arrays):
        at, place, before = gap
        view.insert(at, None)
        arrays.insert(place, None)
        backwards = [(p + (p >= place), d + (d >= before)) for p, d in backwards]
        tail = ndim - end
        ndim += 1
    while arrays and arrays[-1] is None:
        arrays.pop()
    return Plan(tuple(view), all(item is FULL for item in view), arrays, tuple(backwards), ndim, tail)


def _separates(place: int, arrays: list[Tensor | None]) -> bool:
    """Whether tensors that stand side by side, but not first, have something between them at ``place``."""
    at = [k for k, tensor in enumerate(arrays) if tensor is not None]
    return bool(at) and 0 < at[0] < place <= at[-1] and at == list(range(at[0], at[-1] + 1))


def _tensor_of(value: Any, device: Device) -> Tensor:
    return from_host(np.array(value, np.int64), device)


def _ascending(item: slice, length: int) -> slice:
    """The elements of a slice with a negative step, in the order of their places."""
    start, stop, step = item.indices(length)
    count = max(0, -(-(start - stop) // -step))
    return slice(start + (count - 1) * step, start + 1, -step) if count else slice(0, 0, 1)


_VIEW: Final = operator_of(basic_index).cache
_INDEX: Final = operator_of(index).cache
_PLAIN: Final = frozenset([int, type(None)])


_MODERATE: Final = 1 << 31
_INT64_WORD: Final = cpu_word(np.array(0).dtype)


def is_plain(item: slice) -> bool:
    """Whether a slice is one of ints and None, with a positive step."""
    step = item.step
    return (
        (step is None or (step.__class__ is int and step > 0))
        and item.start.__class__ in _PLAIN
        and item.stop.__class__ in _PLAIN
    )


def simple_arrays(x: Tensor, given: Any) -> list[Tensor | None] | None:
    """What ``index`` takes, if an index is made of tensors, full slices and ints beside tensors alone; else None."""
    shape = x._data.shape
    if given.__class__ is Tensor:
        data = given._data
        if data.dtype.kind in "iu":
            return [given] if data.shape and shape else None
        return [given] if data.dtype.kind == "b" and data.shape and data.shape == shape[: len(data.shape)] else None
    if given.__class__ is not tuple or len(given) > len(shape):
        return None
    arrays: list[Tensor | None] = []
    selects = counts = False
    for item in given:
        if item.__class__ is slice and item.start is None and item.stop is None and item.step is None:
            arrays.append(None)
        elif item.__class__ is Tensor and item._data.shape and item._data.dtype.kind in "iu":
            arrays.append(item)
            selects = True
        elif item.__class__ is int and x._data.__class__ is np.ndarray and -_MODERATE < item < _MODERATE:
            arrays.append(make_tensor(np.array(item), _INT64_WORD))
            counts = True
        else:
            return None
    if counts and not selects:
        return None
    while arrays[-1] is None:
        arrays.pop()
    return arrays


def getitem(x: Tensor, given: Any) -> Tensor:
    """``x[given]``: a view for ints, slices, None and '...', a copy where tensors select elements.

    See Note [Indexing].
    """
    kind = given.__class__
    if kind is int or given is None or given is Ellipsis:
        given = (given,)
    elif kind is slice:
        plain = given.step is None and given.start.__class__ in _PLAIN and given.stop.__class__ in _PLAIN
        if not plain and not is_plain(given):
            return _planned(x, given)
        given = (given,)
    elif kind is tuple:
        for item in given:
            kind = item.__class__
            if kind is int or item is None or item is Ellipsis or (kind is slice and is_plain(item)):
                continue
            return _planned(x, given)
    else:
        return _planned(x, given)
    word = x._word
    local = get_state()
    if local is not None:
        word = (word | local.include) & local.keep
    return _VIEW[word](x, given)  # type: ignore[no-any-return]


def _planned(x: Tensor, given: Any) -> Tensor:
    arrays = simple_arrays(x, given)
    if arrays is not None:
        word = x._word
        for tensor in arrays:
            if tensor is not None:
                word |= tensor._word
        local = get_state()
        if local is not None:
            word = (word | local.include) & local.keep
        return _INDEX[word](x, arrays)  # type: ignore[no-any-return]
    plan = make_plan(x, given)
    viewed = x if plan.whole and plan.arrays else basic_index(x, plan.view)
    if plan.backwards:
        viewed = flip(viewed, axis=tuple([dim for _, dim in plan.backwards]))
    if not plan.arrays:
        return viewed
    found: Tensor = index(viewed, plan.arrays)
    return found if plan.tail is None else squeeze(found, found.ndim - plan.tail - 1)


Tensor.__getitem__ = getitem  # type: ignore[method-assign, assignment]
