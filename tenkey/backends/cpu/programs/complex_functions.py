"""Elementary functions of complex numbers for which NumPy loses digits or has limits that differ from the standard.

Sources: array API standard 2025.12 (special cases), C99 annex G, Kahan, "Branch cuts for complex elementary functions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

__all__ = ["COMPLEX_FUNCTIONS"]


def _expm1(z: Any) -> Any:
    """Compute exp(z) - 1: by NumPy where that is finite, else from exp, whose limits are correct in NumPy."""
    result = np.asarray(np.expm1(z))
    finite = np.isfinite(result)
    if not finite.all():
        result = np.where(finite, result, np.exp(z) - 1)
    result.real += 0.0  # a zero is positive, as 1 - 1 is
    return result


def _log1p(z: Any) -> Any:
    """Compute log(1 + z): near 0 by log1p of |1 + z|**2 - 1, because log |1 + z| cancels there."""
    result = np.asarray(np.log1p(z))
    x, y = z.real, z.imag
    near = (np.abs(x) < 0.5) & (np.abs(y) < 0.5)
    if near.any():
        result.real = np.where(near, 0.5 * np.log1p(x * (2 + x) + y * y), result.real)
    return result


# Note [Limits of tanh]
#     Where the real part is infinite, the imaginary part of tanh is a zero. C99 gives it the sign of sin(2 y), the
#     standard that of y, which does not oscillate. tan(z) is -1j * tanh(1j * z).
#     Guarded by test_limits_of_tanh_and_tan.


def _zero_in_limit(part: Any, growing: Any, other: Any) -> Any:
    limit = np.isinf(growing)
    return np.where(limit & np.isfinite(other), np.copysign(0, other), part) if limit.any() else part


def _tanh(z: Any) -> Any:
    result = np.asarray(np.tanh(z))
    result.imag = _zero_in_limit(result.imag, z.real, z.imag)
    return result


def _tan(z: Any) -> Any:
    result = np.asarray(np.tan(z))
    result.real = _zero_in_limit(result.real, z.imag, z.real)
    return result


COMPLEX_FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "expm1": _expm1, "log1p": _log1p, "tan": _tan, "tanh": _tanh,
}  # fmt: skip
"""By scalar operation; each takes and returns an array of the same dtype."""
