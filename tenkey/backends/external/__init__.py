"""Backends from outside: the interface they implement, and what is derived for them."""

from __future__ import annotations

from ...core.storage import StridedArray
from .backend_registration import coverage, register
from .buffers import MemoryStatistics
from .coverage import Coverage
from .fallback import strict_fallback
from .interface import Backend
from .plugins import installed
from .streams import Event, Stream
from .templates import Operand, ScalarFunction

__all__ = [
    "Backend", "Coverage", "Event", "MemoryStatistics", "Operand", "ScalarFunction", "Stream", "StridedArray",
    "coverage", "installed", "register", "strict_fallback",
]  # fmt: skip
