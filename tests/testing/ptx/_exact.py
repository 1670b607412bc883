"""Exact arithmetic with one rounding: fractions, rounded to a format in a direction."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

__all__ = ["BF16", "F16", "F32", "F64", "Format", "bf16_bits", "bf16_values", "exact", "nearby", "rounded"]


class Format(NamedTuple):
    digits: int  # of the significand, the hidden one included
    least: int  # exponent of the smallest normal number
    most: int  # of the greatest


F16, BF16 = Format(11, -14, 15), Format(8, -126, 127)
F32, F64 = Format(24, -126, 127), Format(53, -1022, 1023)


def rounded(x: Fraction, to: Format, mode: str = "rn") -> float:
    """Return the number of a format nearest to a fraction, in a direction: rn, rz, rm, rp, rna (ties away)."""
    if x == 0:
        return 0.0
    sign, magnitude = (-1, -x) if x < 0 else (1, x)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, to.least) - to.digits + 1)
    whole, rest = divmod(magnitude / step, 1)
    up = {
        "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
        "rna": rest >= Fraction(1, 2),
        "rz": False,
        "rm": rest > 0 and sign < 0,
        "rp": rest > 0 and sign > 0,
    }[mode]
    result = (whole + up) * step
    greatest = (2 - Fraction(2) ** (1 - to.digits)) * Fraction(2) ** to.most
    if result > greatest:
        stays = mode == "rz" or (mode == "rm" and sign > 0) or (mode == "rp" and sign < 0)
        return sign * (float(greatest) if stays else math.inf)
    return sign * float(result)


def exact(operation: str, numbers: tuple[float, ...], to: Format, mode: str = "rn") -> float:
    """Return ``add``, ``sub``, ``mul``, ``fma``, ``div`` or ``sqrt`` of floats, rounded once, as IEEE 754 says."""
    with np.errstate(all="ignore"):
        xs = [np.float64(x) for x in numbers]
        plain = {
            "add": lambda: xs[0] + xs[1], "sub": lambda: xs[0] - xs[1], "mul": lambda: xs[0] * xs[1],
            "fma": lambda: xs[0] * xs[1] + xs[2], "div": lambda: xs[0] / xs[1], "sqrt": lambda: np.sqrt(xs[0]),
            "rcp": lambda: 1 / xs[0],
        }[operation]()  # fmt: skip
    if operation == "fma" and not all(map(np.isfinite, xs)):
        if np.isfinite(xs[0]) and np.isfinite(xs[1]):
            return float(xs[2])
        return float(plain)
    if not all(map(np.isfinite, xs)) or (operation in {"div", "rcp"} and xs[-1] == 0):
        return float(plain)
    if operation == "sqrt":
        return float(plain) if xs[0] <= 0 else _root(Fraction(float(xs[0])), to, mode)
    fractions = [Fraction(float(x)) for x in xs]
    value = {
        "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
        "fma": lambda a, b, c: a * b + c, "div": lambda a, b: a / b, "rcp": lambda a: 1 / a,
    }[operation](*fractions)  # fmt: skip
    if value == 0:
        return _zero(operation, xs, mode)
    result = rounded(value, to, mode)
    return math.copysign(result, value) if result == 0 else result


def _zero(operation: str, xs: list[np.float64], mode: str) -> float:
    """Return zero with the sign that it has."""
    signs = [bool(np.signbit(x)) for x in xs]
    if operation in {"mul", "div"}:
        return -0.0 if signs[0] != signs[1] else 0.0
    if operation == "rcp":
        return -0.0 if signs[0] else 0.0
    if operation == "fma":
        signs = [signs[0] != signs[1], signs[2]]
    if operation == "sub":
        signs = [signs[0], not signs[1]]
    if signs[0] == signs[1] and all(x == 0 for x in xs[-2:][:1]):
        return -0.0 if signs[0] else 0.0
    return -0.0 if (signs[0] and signs[1]) or (signs[0] != signs[1] and mode == "rm") else 0.0


def _root(x: Fraction, to: Format, mode: str) -> float:
    """Return the square root: enough digits, and one more that tells whether it is exact."""
    scale = 4**600
    whole = math.isqrt(x.numerator * scale**2 // x.denominator)
    value = Fraction(whole, scale)
    if value * value != x:
        value += Fraction(1, scale * 2)
    return rounded(value, to, mode)


def nearby(dtype: str, seed: int = 0, count: int = 500, spread: int = 12) -> np.ndarray:
    """Return floats of many magnitudes, with special ones at the beginning."""
    info = np.finfo(dtype)
    rng = np.random.default_rng(seed)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, info.max, -info.max, info.tiny, -info.tiny,
               info.smallest_subnormal, -info.smallest_subnormal, info.tiny * 3, 1 + info.eps, 1 - info.epsneg, 0.5,
               2.0, 1.5, 3.0]  # fmt: skip
    numbers = rng.standard_normal(count - len(special)) * 2.0 ** rng.integers(-spread, spread, count - len(special))
    with np.errstate(over="ignore"):
        return rng.permutation(np.concatenate([special, numbers]).astype(dtype))


def bf16_bits(x: np.ndarray) -> np.ndarray:
    """Return the bits of float64 or float32 numbers that are exactly bfloat16 numbers."""
    bits = x.astype(np.float32).view(np.uint32)
    return np.where(np.isnan(x), 0x7FFF, bits >> 16).astype(np.uint16)


def bf16_values(bits: np.ndarray) -> np.ndarray:
    """Return the float32 numbers of bfloat16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
