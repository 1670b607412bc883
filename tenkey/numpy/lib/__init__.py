"""``numpy.lib``: :mod:`stride_tricks` for arrays of this namespace; all other names are NumPy's own."""

from __future__ import annotations

from typing import Any

from numpy import lib as _theirs

from . import stride_tricks

__all__ = ["stride_tricks"]


def __getattr__(name: str) -> Any:
    return getattr(_theirs, name)
