"""float64 division with a remainder; `float64.py` says how the functions are written.

Note [Remainder by one fused step]
----------------------------------
The remainder of C's `fmod`, for magnitudes a >= b > 0, is a - floor(a / b) * b. Let q be a / b rounded to float64.

- As long as q < 2**53, every integer up to it is a float64, so rounding moves a / b at most onto the next integer,
  never across it: trunc(q) is floor(a / b) or one more. The difference a - trunc(q) * b is a multiple of the last place
  of b and no greater than b: it is a float64, and a fused multiply-add gives it exactly. If it is negative, one b too
  many was taken, and adding b is exact again.
- For float32 arguments in float64 arithmetic trunc(q) is always right for q < 2**30: a / b is an integer or further
  than 2**-24 from one, because b has 24 significant bits, and q is within 2**-24 of a / b.
- Beyond these limits the remainder is marked as infinite, and `library_fmod` asks the C library: see
  Note [Rare slow path] in `bits.py`. A divisor 0 and an infinite dividend take this path too.
- For a < b the remainder is a, also for an infinite b.

Floor and sign are added afterwards with the roundings of NumPy and Python (`float.__mod__`, `float.__floordiv__`). The
remainder takes the sign of y by one addition of y, which is inexact for a tiny remainder. The quotient is
(x - fmod(x, y)) / y, less 1 where the remainder was moved, and then rounded to the nearest integer, so that even
quotients that no float holds exactly are the same bit by bit.
Guard: `tests/backends/test_libm.py::test_division_equals_numpy`, `test_quotients_nearest_to_an_integer`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .bits import (
    bits_from_float64,
    library_fmod,
    llvm_copysign,
    llvm_fabs,
    llvm_floor,
    llvm_fma,
    llvm_select,
    llvm_trunc,
)

__all__ = ["floor_divide", "remainder"]

_ZERO = np.float64(0.0)
_HALF = np.float64(0.5)
_ONE = np.float64(1.0)
_INFINITY = np.float64(np.inf)
_QUOTIENT_LIMIT = np.float64(9007199254740992.0)  # 2**53


def _fmod(a: Any, b: Any, quotient: Any) -> Any:
    # fmod(a, b) for a, b >= 0 and quotient = a / b. See Note [Remainder by one fused step].
    rest = llvm_fma(-llvm_trunc(quotient), b, a)
    rest = llvm_select(rest < _ZERO, rest + b, rest)
    rest = llvm_select(quotient >= _QUOTIENT_LIMIT, _INFINITY, rest)
    return library_fmod(llvm_select(a < b, a, rest), a, b)


def remainder(x: Any, y: Any) -> Any:
    """Remainder of the floored division, with the sign of `y`, as NumPy and Python define it: the same bit by bit."""
    a = llvm_fabs(x)
    b = llvm_fabs(y)
    rest = _fmod(a, b, a / b)
    # NumPy adds y to a remainder of the other sign
    moved = llvm_select(rest != _ZERO, b - rest, rest)
    opposite = (bits_from_float64(x) ^ bits_from_float64(y)) < 0
    return llvm_copysign(llvm_select(opposite, moved, rest), y)


def floor_divide(x: Any, y: Any) -> Any:
    """Floor of the quotient, as NumPy and Python define it: the same bit by bit; x / 0 is infinite or NaN."""
    a = llvm_fabs(x)
    b = llvm_fabs(y)
    quotient = a / b
    rest = _fmod(a, b, quotient)
    whole = llvm_select(b == _ZERO, quotient, (a - rest) / b)
    moved = llvm_select(rest != _ZERO, whole + _ONE, whole)
    opposite = (bits_from_float64(x) ^ bits_from_float64(y)) < 0
    signed = llvm_select(opposite, -moved, whole)
    floor = llvm_floor(signed)
    # The rounded `signed` may lie on either side of its integer.
    return llvm_select(signed - floor > _HALF, floor + _ONE, floor)
