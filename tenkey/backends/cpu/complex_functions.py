"""Elementary functions of complex numbers where NumPy's own lose digits or answer limits otherwise than the standard.

Sources: array API standard 2025.12 (special cases), C99 annex G, Kahan, "Branch cuts for complex elementary functions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

__all__ = ["COMPLEX_FUNCTIONS"]


def _expm1(z: Any) -> Any:
    """exp(z) - 1: NumPy's where it is finite, else the limits of exp, which NumPy has right."""
    result = np.asarray(np.expm1(z))
    limit = ~np.isfinite(result)
    if limit.any():
        result = np.where(limit, np.exp(z) - 1, result)
    result.real += 0.0  # a zero is positive: its sign is that of 1 - 1
    return result


def _log1p(z: Any) -> Any:
    """log(1 + z): near 0 by log1p of |1 + z|**2 - 1, as log |1 + z| has no digits left there."""
    result = np.asarray(np.log1p(z))
    x, y = np.real(z), np.imag(z)
    near = (np.abs(x) < 0.5) & (np.abs(y) < 0.5)
    if near.any():
        result.real = np.where(near, 0.5 * np.log1p(x * (2 + x) + y * y), result.real)
    return result


COMPLEX_FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {"expm1": _expm1, "log1p": _log1p}
"""By scalar operation; each takes an array and gives one of the same dtype."""
