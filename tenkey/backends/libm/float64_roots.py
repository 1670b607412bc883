"""float64 roots and rounding to integers; `float64.py` says how they are written."""

from __future__ import annotations

from typing import Any

import numpy as np

from .bits import (
    bits_from_float64,
    float64_from_bits,
    horner,
    llvm_ceil,
    llvm_copysign,
    llvm_fabs,
    llvm_floor,
    llvm_fma,
    llvm_rint,
    llvm_select,
    llvm_sqrt,
    llvm_trunc,
)

__all__ = [
    "cbrt",
    "ceil",
    "floor",
    "rint",
    "sqrt",
    "trunc",
]

_ZERO = np.float64(0.0)
_ONE = np.float64(1.0)
_INFINITY = np.float64(np.inf)
_MAGIC = np.float64(6755399441055744.0)  # 1.5 * 2**52
_SMALLEST_NORMAL = np.float64(2.2250738585072014e-308)
_TWO_54 = np.float64(18014398509481984.0)
_THIRD = np.float64(1.0 / 3.0)
_TWO_MINUS_18 = np.float64(3.814697265625e-06)
_MAGIC_BITS = 0x4338000000000000


def cbrt(x: Any) -> Any:
    """Cube root. Error below 1 ulp."""
    magnitude = llvm_fabs(x)
    tiny = magnitude < _SMALLEST_NORMAL
    a = llvm_select(tiny, magnitude * _TWO_54, magnitude)
    # Dividing the upper bits by -3 divides the exponent: a**(-1/3) with a relative error below 3.5 %; the division is
    # done in floating point. Then twice a series in the residual.
    upper = float64_from_bits((bits_from_float64(a) >> 32) + _MAGIC_BITS) - _MAGIC
    r = float64_from_bits(bits_from_float64(_MAGIC_CBRT - upper * _THIRD) << 32)
    e = _ONE - (a * r) * (r * r)
    r = r + r * (e * horner(e, _CBRT_SERIES))
    e = _ONE - (a * r) * (r * r)
    r = r + r * (e * horner(e, _CBRT_SERIES))
    root = a * r * r
    square = root * root
    residual = llvm_fma(-square, root, a) - llvm_fma(root, root, -square) * root
    root = root + residual * (r * r * _THIRD)
    root = root * llvm_select(tiny, _TWO_MINUS_18, _ONE)
    regular = llvm_select(magnitude < _INFINITY, magnitude, _ZERO) > _ZERO
    return llvm_select(regular, llvm_copysign(root, x), x)


_MAGIC_CBRT = np.float64(6755399441055744.0 + 0x553EE978)
_CBRT_SERIES = (  # of ((1 - e)**(-1/3) - 1) / e
    np.float64(1.0 / 3.0),
    np.float64(2.0 / 9.0),
    np.float64(14.0 / 81.0),
    np.float64(35.0 / 243.0),
)


def sqrt(x: Any) -> Any:
    """Square root, correctly rounded."""
    return llvm_sqrt(x)


# --- rounding ---------------------------------------------------------------------------------------------------------


def rint(x: Any) -> Any:
    """Nearest integer, ties to even; exact."""
    return llvm_rint(x)


def floor(x: Any) -> Any:
    """Greatest integer not above `x`; exact."""
    return llvm_floor(x)


def ceil(x: Any) -> Any:
    """Least integer not below `x`; exact."""
    return llvm_ceil(x)


def trunc(x: Any) -> Any:
    """Integer part of `x`; exact."""
    return llvm_trunc(x)
