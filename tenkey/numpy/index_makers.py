"""Objects of NumPy that make arrays when they are indexed: ``mgrid``, ``ogrid``, ``r_``, ``c_``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .converting import on_host

__all__ = ["c_", "mgrid", "ogrid", "r_"]


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
