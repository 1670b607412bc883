"""Validation of integers that users pass."""

from __future__ import annotations

import operator
from typing import Any

__all__ = ["checked_integer"]


def checked_integer(value: Any, message: str, least: int = 0, limit: int | None = None) -> int:
    """Return ``value`` as an int; raise TypeError for other types, ValueError below ``least`` or from ``limit`` on.

    >>> checked_integer(3, "give a count")
    3
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(message) from None
    if number < least or (limit is not None and number >= limit):
        raise ValueError(message)
    return number
