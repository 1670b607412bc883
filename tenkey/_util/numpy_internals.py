"""NumPy functions without their Python wrappers, which for a small array cost more than the functions themselves.

They are not public in NumPy: where a version lacks one, the public function takes its place, with the same result.
Guarded by ``tests/ops/test_shorter_ways.py::test_functions_of_numpy``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import numpy as np

__all__ = ["clip", "concatenate", "copyto", "count_nonzero"]


def _found(module: str, name: str, instead: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return getattr(import_module(f"numpy._core.{module}"), name, instead)
    except ImportError:
        return instead


def _clip(x: np.ndarray, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(x, low), high)


clip: Final = _found("umath", "clip", _clip)
"""``clip(x, low, high)``: the ufunc behind ``np.clip``."""
count_nonzero: Final = _found("multiarray", "count_nonzero", np.count_nonzero)
"""Counts over all elements; returns a Python int."""
concatenate: Final[Callable[..., Any]] = getattr(np.concatenate, "_implementation", np.concatenate)
copyto: Final[Callable[..., Any]] = getattr(np.copyto, "_implementation", np.copyto)
"""Without the check for ``__array_function__``, which plain arrays do not need."""
