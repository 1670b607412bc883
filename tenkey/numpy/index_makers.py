"""Objects that make arrays when they are indexed (``mgrid``, ``ogrid``, ``r_``, ``c_``), and ``ndenumerate``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .converting import on_host
from .known import functions

__all__ = ["c_", "mgrid", "ndenumerate", "ogrid", "r_"]


class _Indexed:
    """Makes arrays of the index that it is given, as an object of NumPy's of the same name does."""

    __slots__ = ("_source",)

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getitem__(self, index: Any) -> Any:
        return on_host(self._source.__getitem__, (index,), {})


mgrid = _Indexed(np.mgrid)
ogrid = _Indexed(np.ogrid)
r_ = _Indexed(np.r_)
c_ = _Indexed(np.c_)


def ndenumerate(arr: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield the index and the element of each place of an array, in row-major order.

    >>> import tenkey.numpy as tnp
    >>> list(tnp.ndenumerate([5, 7]))
    [((0,), array(5)), ((1,), array(7))]
    """
    array = functions["asarray"](arr)
    for index in np.ndindex(*array.shape):
        yield index, array[index]
