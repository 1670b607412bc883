"""The places in user code that made a registration."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

__all__ = ["caller_site", "function_site"]


def caller_site(depth: int = 1) -> str:
    """Return ``file:line`` of the nearest caller outside of this package's registration machinery."""
    frame = sys._getframe(depth)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("tenkey.dispatch", "tenkey.library", "tenkey.ops.declare")
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def function_site(function: Callable[..., Any]) -> str:
    """Return ``file:line`` of a function's definition, or its ``repr`` if there is none."""
    if isinstance(function, FunctionType) and not function.__dict__:  # wraps nothing
        plain = function.__code__
        return f"{plain.co_filename}:{plain.co_firstlineno}"
    function = inspect.unwrap(function)
    while isinstance(function, partial):
        function = inspect.unwrap(function.func)
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)
