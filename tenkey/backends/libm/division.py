"""Division with a remainder; `constants.py` says how the functions are written.

Note [Remainder by one fused step]
----------------------------------
The remainder of C's `fmod`, for magnitudes a >= b > 0, is a - floor(a / b) * b. Let q be a / b rounded to float64.

- As long as q < 2**53, every integer up to it is a float64, so rounding moves a / b at most onto the next integer,
  never across it: trunc(q) is floor(a / b) or one more. The difference a - trunc(q) * b is a multiple of the last place
  of b and no greater than b: it is a float64, and a fused multiply-add gives it exactly. If it is negative, one b too
  many was taken, and adding b is exact again.
- float32 divides in float64 arithmetic. There trunc(q) is always right for q < 2**30: a / b is an integer or further
  than 2**-24 from one, because b has 24 significant bits, and q is within 2**-24 of a / b.
- Beyond these limits the remainder is marked as infinite, and `library_fmod` asks the C library: see
  Note [Rare slow path] in `operations.py`. A divisor 0 and an infinite dividend take this path too.
- For a < b the remainder is a, also for an infinite b.

Floor and sign are added afterwards with the roundings of NumPy and Python (`float.__mod__`, `float.__floordiv__`). The
remainder takes the sign of y by one addition of y, which is inexact for a tiny remainder. The quotient is
(x - fmod(x, y)) / y, less 1 where the remainder was moved, and then rounded to the nearest integer, so that even
quotients that no float holds exactly are the same bit by bit.
Guard: `tests/backends/test_libm.py::test_division_equals_numpy`, `test_quotients_nearest_to_an_integer`.
"""

from __future__ import annotations

from typing import Any

from ..llvm import copysign, f32, f64, fabs, floor, fma, trunc
from . import T
from .constants import INFINITY
from .operations import bits_from_float, each, library_fmod, select

__all__ = ["floor_divide", "remainder"]

_QUOTIENT_LIMIT = each(1073741824.0, 9007199254740992.0)  # 2**30, 2**53


def _rest_float32(a: Any, b: Any, quotient: Any) -> Any:
    return f32(fma(-trunc(quotient), f64(b), f64(a)))


def _rest_float64(a: Any, b: Any, quotient: Any) -> Any:
    rest = fma(-trunc(quotient), b, a)
    return select(rest < 0.0, rest + b, rest)


_rest = each(_rest_float32, _rest_float64)


def _fmod(a: Any, b: Any, quotient: Any) -> Any:
    # fmod(a, b) for a, b >= 0 and quotient = a / b in float64: Note [Remainder by one fused step]
    rest = select(quotient >= _QUOTIENT_LIMIT, INFINITY, _rest(a, b, quotient))
    return library_fmod(select(a < b, a, rest), a, b)


def remainder(x: Any, y: Any) -> Any:
    """Remainder of the floored division, with the sign of `y`, bit by bit as NumPy and Python compute it."""
    a = fabs(x)
    b = fabs(y)
    rest = _fmod(a, b, f64(a) / f64(b))
    # NumPy adds y to a remainder of the other sign
    moved = select(rest != 0.0, b - rest, rest)
    opposite = (bits_from_float(x) ^ bits_from_float(y)) < 0
    return copysign(select(opposite, moved, rest), y)


def floor_divide(x: Any, y: Any) -> Any:
    """Floor of the quotient, bit by bit as NumPy and Python compute it; x / 0 is infinite or NaN."""
    a = fabs(x)
    b = fabs(y)
    quotient = f64(a) / f64(b)
    rest = _fmod(a, b, quotient)
    whole = select(b == 0.0, T(quotient), (a - rest) / b)
    moved = select(rest != 0.0, whole + 1.0, whole)
    opposite = (bits_from_float(x) ^ bits_from_float(y)) < 0
    signed = select(opposite, -moved, whole)
    below = floor(signed)
    # The rounded `signed` may lie on either side of its integer.
    return select(signed - below > 0.5, below + 1.0, below)
