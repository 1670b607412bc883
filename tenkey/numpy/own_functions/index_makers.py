"""Objects that make arrays when they are indexed (``mgrid``, ``ogrid``, ``r_``, ``c_``), and ``ndenumerate``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core.tree import tensors_in
from ...core.wrapper import Wrapper
from ..converting import from_numpy, is_strict, on_host
from ..known import functions

__all__ = ["c_", "mgrid", "ndenumerate", "ogrid", "r_"]


class _Indexed:
    """Makes arrays of the index that it is given, as an object of NumPy's of the same name does."""

    __slots__ = ("_source",)

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getitem__(self, index: Any) -> Any:
        if not tensors_in([index]):
            return from_numpy(self._source[index])
        return on_host(self._source.__getitem__, (index,), {})


class _Joined(_Indexed):
    """Joins the items of its index along an axis, after giving them at least ``ndmin`` axes.

    The own axes of an item with fewer come at the place ``place`` among those that are added.
    """

    __slots__ = ("_layout",)

    def __init__(self, source: Any, axis: int, ndmin: int, place: int) -> None:
        super().__init__(source)
        self._layout = (axis, ndmin, place)

    def __getitem__(self, index: Any) -> Any:
        items = index if isinstance(index, tuple) else (index,)
        layout = self._layout
        tensors = tensors_in(items)
        recorded = is_strict() or any(x.requires_grad or isinstance(x, Wrapper) for x in tensors)
        if not tensors or not recorded or (isinstance(items[0], str) and items[0] in ("r", "c")):
            return super().__getitem__(index)
        if isinstance(items[0], str):
            given = tuple([int(number) for number in items[0].split(",")])
            layout, items = (given + layout[len(given) :])[:3], items[1:]  # type: ignore[assignment]
        axis, ndmin, place = layout
        parts = [self._item(x, ndmin, place) for x in items]
        numbers = [isinstance(x, (bool, int, float, complex)) for x in items]
        if any(numbers) and not all(numbers):  # whose dtype is weak
            dtype = np.result_type(
                *[x if is_number else part.dtype for x, part, is_number in zip(items, parts, numbers)]
            )
            parts = [part.astype(dtype) if is_number else part for part, is_number in zip(parts, numbers)]
        return functions["concatenate"](parts, axis)

    def _item(self, item: Any, ndmin: int, place: int) -> Any:
        x = functions["asarray"](self._source[item] if isinstance(item, slice) else item)
        added = ndmin - x.ndim
        if added <= 0:
            return x
        before = place % (added + 1) if x.ndim else added
        return x.reshape((1,) * before + x.shape + (1,) * (added - before))


mgrid = _Indexed(np.mgrid)
ogrid = _Indexed(np.ogrid)
r_ = _Joined(np.r_, 0, 1, -1)
c_ = _Joined(np.c_, -1, 2, 0)


def ndenumerate(arr: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield the index and the element of each place of an array, in row-major order.

    >>> import tenkey.numpy as tnp
    >>> list(tnp.ndenumerate([5, 7]))
    [((0,), np.int64(5)), ((1,), np.int64(7))]
    """
    array = functions["asarray"](arr)
    for index in np.ndindex(*array.shape):
        yield index, array[index]
