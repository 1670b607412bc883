"""Backends: the built-in ones, and the interface for backends of other packages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .._util.lazy_import import lazy_import
from ..core.device import add_finder
from .allocation.counts import MemoryStatistics, OperatorMemory

if TYPE_CHECKING:  # Note [Delayed modules]
    from .allocation.by_device import empty_cache, memory_statistics, set_memory_limit
    from .external import (
        Backend,
        Coverage,
        Event,
        Fallback,
        Operand,
        ScalarFunction,
        Stream,
        StridedArray,
        coverage,
        installed,
        register,
        strict_fallback,
        synchronize,
    )  # fmt: skip

__all__ = [
    "Backend", "Coverage", "Event", "Fallback", "MemoryStatistics", "Operand", "OperatorMemory", "ScalarFunction",
    "Stream", "StridedArray", "coverage", "empty_cache", "installed", "memory_statistics", "register",
    "set_memory_limit", "strict_fallback", "synchronize",
]  # fmt: skip

if not TYPE_CHECKING:  # for a type checker a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_import(__name__, {
        "external": (
            "Backend", "Coverage", "Event", "Fallback", "Operand", "ScalarFunction", "Stream", "StridedArray",
            "coverage", "installed", "register", "strict_fallback", "synchronize",
        ),
        "allocation.by_device": ("empty_cache", "memory_statistics", "set_memory_limit"),
    })  # fmt: skip


def _find(name: str) -> bool:
    if name == "cuda":  # Note [The device cuda is loaded at its first use]
        from .cuda.cuda_backend import load

        return load()
    from .external.plugins import find

    return find(name)


def _installed() -> Iterable[str]:
    from .external.plugins import installed

    return installed()


add_finder(_find, _installed)  # Note [Plug-ins cost nothing until they are used]
