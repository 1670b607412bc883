"""The functions of ``tenkey.numpy`` by name: ``namespace.py`` adds them, and other modules look them up here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["define", "functions"]

functions: Final[dict[str, Callable[..., Any]]] = {}
"""Each function by NumPy's name, with that of its module before it: ``sum``, ``linalg.norm``."""


def define(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Make a function one of the namespace, under its own name or under these; return it."""
    function.__module__ = "tenkey.numpy"
    for name in names or (function.__name__,):
        functions[name] = function
    return function
