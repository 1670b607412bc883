"""``x[...]``: an index divided into one view and one gather.

Note [Indexing]
~~~~~~~~~~~~~~~
An index of ints, slices with positive steps, None and '...' is one call of ``basic_index``. Otherwise a :class:`Plan`
states which view comes first, which dimensions to reverse (for slices with negative steps: strides are never negative,
so this copies), and which tensors then select from the dimensions of that view. The dimensions of the result are in
NumPy's order: those of the tensors stand where the tensors stand if these are adjacent, else first; an int beside
tensors counts as a tensor, and an '...' between two tensors separates them even if it covers no dimension. A bool
(``True``, or a 0-d tensor of bools) adds a dimension of length 1 or 0. A 0-d tensor of integers is gathered where its
value is not accessible: on the device ``meta`` and inside ``vmap``. Indices on the CPU are copied to the device of
``x``. Guarded by ``tests/ops/test_indexing.py`` and ``tests/backends/test_indexing_on_devices.py``.
"""

from __future__ import annotations

import operator as _operator
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.device import CPU, Device
from ....core.exchange.interfaces import array_of
from ....core.plans import add_method, add_table
from ....core.tensor import Tensor, cpu_word, from_host, make_tensor
from ....core.wrapper import Wrapper
from ....dispatch.errors import shown
from ....dispatch.local_state import get_state
from ....dispatch.registry import registry
from ...declare.declaration import operator_of
from ..shape.copying import flip, to_device
from ..shape.views import squeeze
from .advanced_indexing import index
from .basic_indexing import (
    FULL,
    NO_FIT,
    NOT_AN_INDEX,
    PLAIN,
    TOO_MANY,
    adjacent,
    basic_index,
    check_one_ellipsis,
    places_of,
    plain_slice,
)


class Plan(NamedTuple):
    """The steps that carry out an index; see Note [Indexing]."""

    view: tuple[Any, ...]
    """The index of ``basic_index``, the first step."""
    whole: bool
    """Whether the view is the tensor itself."""
    arrays: list[Tensor | None]
    """The indices that ``index`` applies to the view: None for a dimension that is kept as it is."""
    backwards: tuple[tuple[int, int], ...]
    """For each slice with a negative step, its place in ``arrays`` and its dimension in the view."""
    ndim: int
    """The number of dimensions of the view."""
    tail: int | None
    """A dimension of length 1 that was added to separate tensors, counted from the end; it is removed at last."""


def _as_index(item: Any, device: Device) -> Any:
    """Convert an item of an index to an int, a slice, None, '...', a bool, or a tensor on ``device``."""
    if item is None or item is Ellipsis or item.__class__ is int:
        return item
    if item.__class__ is slice:
        return plain_slice(item)
    if isinstance(item, Tensor):
        kind = item.dtype.kind
        if kind not in "iub":
            raise IndexError(NOT_AN_INDEX.format(value=f"a tensor of dtype {item.dtype}"))
        accessible = not isinstance(item, Wrapper) and item.device.type != "meta"
        if accessible and not item._data.shape:
            return item.item()
        return to_device(item, device) if item.device is CPU and device.type not in ("cpu", "meta") else item
    if isinstance(item, (bool, np.bool_)):
        return bool(item)
    if item.__class__ is range:
        return from_host(np.arange(item.start, item.stop, item.step), device)
    if isinstance(item, (list, tuple, np.ndarray)):
        array = np.asarray(item) if isinstance(item, np.ndarray) else array_of(item, "index")
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
    """Return the plan for ``x[given]``; raise IndexError if the index does not fit the shape of ``x``."""
    device = x.device
    items = [_as_index(item, device) for item in (given if isinstance(given, tuple) else (given,))]
    used = 0
    advanced = False
    for item in items:
        if isinstance(item, Tensor):
            advanced = True
            used += item.ndim if item.dtype.kind == "b" else 1
        elif item is True or item is False:
            advanced = True
        elif item is not Ellipsis and item is not None:
            used += 1
    shape = x.shape
    check_one_ellipsis(items)
    if used > len(shape):
        raise IndexError(TOO_MANY.format(count=used, ndim=len(shape), shape=shape))
    view: list[Any] = []
    arrays: list[Tensor | None] = []
    backwards: list[tuple[int, int]] = []
    axis = dim = 0  # of x, of the view
    gap: tuple[int, int, int] | None = None  # place of an ellipsis without dimensions: in view, arrays, dimensions
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
            arrays.append(from_host(np.array([0] if item else [], np.int64), device))
            dim += 1
            end = dim
        else:
            tensor = from_host(np.array(item, np.int64), device) if item.__class__ is int else item
            depth = 1
            if tensor.dtype.kind == "b":
                depth = tensor.ndim
                covers = shape[axis : axis + depth]
                if tensor.shape != covers:
                    if any(n not in (m, 0) for n, m in zip(tensor.shape, covers, strict=True)):
                        raise IndexError(NO_FIT.format(mask=tensor.shape, covers=covers))
                    # the standard allows a length of 0 in place of any other: an empty mask, which selects nothing
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
    """Return whether ``place`` divides tensors that are adjacent, but not at the front."""
    at = places_of(arrays)
    return bool(at) and 0 < at[0] < place <= at[-1] and adjacent(at)


def _ascending(item: slice, length: int) -> slice:
    """Return the slice with a positive step that selects the same elements as one with a negative step."""
    start, stop, step = item.indices(length)
    count = max(0, -(-(start - stop) // -step))
    return slice(start + (count - 1) * step, start + 1, -step) if count else slice(0, 0, 1)


_VIEW: Final = operator_of(basic_index).cache
_INDEX: Final = operator_of(index).cache
_MODERATE: Final = 1 << 31
_INT: Final = {int}
_INT64_WORD: Final = cpu_word(np.array(0).dtype)


def is_plain(item: slice) -> bool:
    """Return whether a slice consists of ints and None, with a positive step."""
    step = item.step
    return (
        (step is None or (step.__class__ is int and step > 0))
        and item.start.__class__ in PLAIN
        and item.stop.__class__ in PLAIN
    )


def simple_arrays(x: Tensor, given: Any) -> list[Tensor | None] | None:
    """Return the argument of ``index`` for tensors, full slices and ints beside tensors; else None."""
    shape = x._data.shape
    if x._data.__class__ is not np.ndarray and not _on_one_device(x, given):
        return None
    kind = given.__class__
    if kind is np.ndarray and given.dtype.kind in "iub" and x._data.__class__ is np.ndarray:
        given = from_host(given)
    elif kind is list and x._data.__class__ is np.ndarray and {*map(type, given)} == _INT:
        try:
            given = make_tensor(np.array(given, np.int64), _INT64_WORD)
        except OverflowError:
            return None
    if isinstance(given, Tensor) and not isinstance(given, Wrapper):
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
        elif isinstance(item, Tensor) and item._data.shape and item._data.dtype.kind in "iu":
            if isinstance(item, Wrapper):
                return None
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


def _on_one_device(x: Tensor, given: Any) -> bool:
    """Return whether no tensor of an index has to be moved to the device of ``x``."""
    items = given if given.__class__ is tuple else (given,)
    return all(not isinstance(item, Tensor) or item.device is x.device for item in items)


def getitem(x: Tensor, given: Any) -> Tensor:
    """Return ``x[given]``: a view for ints, slices, None and '...', a copy if tensors select elements.

    See Note [Indexing].
    """
    kind = given.__class__
    if kind is int:
        given = (given, Ellipsis)  # NumPy gives an array for it even where an int alone selects an element
    elif given is None or given is Ellipsis:
        given = (given,)
    elif kind is slice:
        plain = given.step is None and given.start.__class__ in PLAIN and given.stop.__class__ in PLAIN
        if not plain and not is_plain(given):
            return _planned(x, given)
        given = (given,)
    elif kind is tuple:
        if len(given) == 2 and given[0].__class__ is int and given[1].__class__ is int:
            given = (*given, Ellipsis)
        else:
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
    found = index(viewed, plan.arrays)
    return found if plan.tail is None else squeeze(found, found.ndim - plan.tail - 1)


add_table("take", operator_of(index))
add_method(registry.find("tk::basic_index"), "__getitem__", getitem)
