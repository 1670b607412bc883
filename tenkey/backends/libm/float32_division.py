"""float32 division with a remainder; `float32.py` says how the functions are written.

The remainder is found in float64 arithmetic: Note [Remainder by one fused step] in `float64_division.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .bits import (
    bits_from_float32,
    library_fmod,
    llvm_copysign,
    llvm_fabs,
    llvm_floor,
    llvm_fma,
    llvm_select,
    llvm_trunc,
)

__all__ = ["floor_divide", "remainder"]

_ZERO = np.float32(0.0)
_HALF = np.float32(0.5)
_ONE = np.float32(1.0)
_INFINITY = np.float32(np.inf)
_WIDE_QUOTIENT_LIMIT = np.float64(1073741824.0)  # 2**30


def _fmod(a: Any, b: Any, quotient: Any) -> Any:
    # fmod(a, b) for a, b >= 0 and quotient = a / b in float64
    rest = np.float32(llvm_fma(-llvm_trunc(quotient), np.float64(b), np.float64(a)))
    rest = llvm_select(quotient >= _WIDE_QUOTIENT_LIMIT, _INFINITY, rest)
    return library_fmod(llvm_select(a < b, a, rest), a, b)


def remainder(x: Any, y: Any) -> Any:
    """Remainder of the floored division, with the sign of `y`, as NumPy and Python define it: the same bit by bit."""
    a = llvm_fabs(x)
    b = llvm_fabs(y)
    rest = _fmod(a, b, np.float64(a) / np.float64(b))
    # NumPy adds y to a remainder of the other sign
    moved = llvm_select(rest != _ZERO, b - rest, rest)
    opposite = (bits_from_float32(x) ^ bits_from_float32(y)) < 0
    return llvm_copysign(llvm_select(opposite, moved, rest), y)


def floor_divide(x: Any, y: Any) -> Any:
    """Floor of the quotient, as NumPy and Python define it: the same bit by bit; x / 0 is infinite or NaN."""
    a = llvm_fabs(x)
    b = llvm_fabs(y)
    quotient = np.float64(a) / np.float64(b)
    rest = _fmod(a, b, quotient)
    whole = llvm_select(b == _ZERO, np.float32(quotient), (a - rest) / b)
    moved = llvm_select(rest != _ZERO, whole + _ONE, whole)
    opposite = (bits_from_float32(x) ^ bits_from_float32(y)) < 0
    signed = llvm_select(opposite, -moved, whole)
    floor = llvm_floor(signed)
    # The rounded `signed` may lie on either side of its integer.
    return llvm_select(signed - floor > _HALF, floor + _ONE, floor)
