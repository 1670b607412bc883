"""Calls without recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..dispatch.local_state import SILENT, get_state, set_state

__all__ = ["silently"]

_Result = TypeVar("_Result")


def silently(function: Callable[..., _Result], /, *args: Any, **kwargs: Any) -> _Result:
    """Call a function with recording switched off, and restore the state (Note [Interrupts])."""
    found = get_state()
    try:
        set_state(SILENT if found is None else found.silent)
        return function(*args, **kwargs)
    finally:
        set_state(found)
