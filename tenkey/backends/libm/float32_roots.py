"""float32 roots and rounding to integers; `float32.py` says how they are written."""

from __future__ import annotations

from typing import Any

import numpy as np

from .bits import (
    bits_from_float32,
    float32_from_bits,
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

_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_INFINITY = np.float32(np.inf)
_SMALLEST_NORMAL = np.float32(1.17549435e-38)
_TWO_24 = np.float32(16777216.0)
_THIRD = np.float32(1.0 / 3.0)
_TWO_MINUS_8 = np.float32(0.00390625)


def cbrt(x: Any) -> Any:
    """Cube root. Error below 1 ulp."""
    magnitude = llvm_fabs(x)
    tiny = magnitude < _SMALLEST_NORMAL
    a = llvm_select(tiny, magnitude * _TWO_24, magnitude)
    # Dividing the bits by -3 divides the exponent: a**(-1/3) with a relative error below 3.5 %. Then a series in the
    # residual.
    estimate = float32_from_bits(0x54A1F671 - np.int32(np.float32(bits_from_float32(a)) * _THIRD))
    e = _ONE - (a * estimate) * (estimate * estimate)
    r = estimate + estimate * (e * horner(e, _CBRT_SERIES))
    root = a * r * r
    square = root * root
    residual = llvm_fma(-square, root, a) - llvm_fma(root, root, -square) * root
    root = root + residual * (r * r * _THIRD)
    root = root * llvm_select(tiny, _TWO_MINUS_8, _ONE)
    regular = llvm_select(magnitude < _INFINITY, magnitude, _ZERO) > _ZERO
    return llvm_select(regular, llvm_copysign(root, x), x)


_CBRT_SERIES = (  # of ((1 - e)**(-1/3) - 1) / e
    np.float32(1.0 / 3.0),
    np.float32(2.0 / 9.0),
    np.float32(14.0 / 81.0),
    np.float32(35.0 / 243.0),
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
