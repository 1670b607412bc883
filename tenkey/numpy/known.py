"""The functions of ``tenkey.numpy`` by name: ``namespace.py`` adds them, and other modules look them up here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["functions"]

functions: Final[dict[str, Callable[..., Any]]] = {}
"""Each function by NumPy's name, with that of its module before it: ``sum``, ``linalg.norm``."""
