"""Backends: the built-in ones, and the interface for those from outside."""

from __future__ import annotations

from .external import Backend, Coverage, coverage, register, strict_fallback

__all__ = ["Backend", "Coverage", "coverage", "register", "strict_fallback"]
