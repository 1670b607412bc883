"""Backends: the built-in ones, and the interface for those from outside."""

from __future__ import annotations

from .external import (
    Backend,
    Coverage,
    Event,
    MemoryStatistics,
    Operand,
    ScalarFunction,
    Stream,
    StridedArray,
    coverage,
    installed,
    register,
    strict_fallback,
)

__all__ = [
    "Backend",
    "Coverage",
    "Event",
    "MemoryStatistics",
    "Operand",
    "ScalarFunction",
    "Stream",
    "StridedArray",
    "coverage",
    "installed",
    "register",
    "strict_fallback",
]
