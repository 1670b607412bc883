"""The arithmetic of the generator and of the samplers, written once for everything that computes them.

The integers may be Python's, arrays, scalar expressions or vectors in compiled code: only operators are applied to
them. The floats are given with ``m``, the functions to compute with; see Note [Samplers for arrays and tensors] in
``samplers``. Operations must be done one by one, as written: Note [Reproducible normals].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

__all__ = [
    "ATANH_TERMS", "COS_TERMS", "LOG2_HIGH", "LOG2_LOW", "MASK32", "ROUNDS", "SIN_TERMS", "SQRT_HALF", "balanced",
    "cosine", "double", "horner", "log", "normal", "open_unit", "philox", "philox_round", "scaled", "scaled_wide",
    "sine",
]  # fmt: skip

MASK32: Final = 0xFFFFFFFF
ROUNDS: Final = 10


def philox_round(x0: Any, x1: Any, x2: Any, x3: Any, k0: Any, k1: Any) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Return the four words of the next round and its key; of 64 bits, the words are the lower 32."""
    first, second = (x0 & MASK32) * 0xD2511F53, (x2 & MASK32) * 0xCD9E8D57
    x0, x2 = (second >> 32) ^ x1 ^ k0, (first >> 32) ^ x3 ^ k1
    return x0, second, x2, first, (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32


def philox(x0: Any, x1: Any, x2: Any, x3: Any, k0: Any, k1: Any) -> tuple[Any, Any, Any, Any]:
    """Return the block of a counter and a key: ten rounds on 32-bit words, which are held in 64 bits."""
    for _ in range(ROUNDS):
        x0, x1, x2, x3, k0, k1 = philox_round(x0, x1, x2, x3, k0, k1)
    return x0 & MASK32, x1 & MASK32, x2 & MASK32, x3 & MASK32


def double(low: Any, high: Any) -> Any:
    """Return the 64 bits of two words."""
    return low | (high << 32)


# Note [Integers without rejection]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# An integer below r is the upper part of the product of r with b random bits: floor(bits * r / 2**b). The probability
# of each result is within 2**-b of 1/r, relatively within r * 2**-b. With b = 64 for r <= 2**32 and b = 128 above, that
# is at most 2**-32 and 2**-64: detecting the first takes some 2**64 draws. Rejection would be exact, but needs an
# unknown number of blocks for an element, and threads would diverge.
# Source: D. E. Knuth, The Art of Computer Programming 2, 3.4.1; D. Lemire, "Fast random integer generation in an
# interval", 2019, section 2. Guarded by test_philox.py::test_integers_are_the_upper_part_of_the_product.
def scaled(bits: Any, size: Any) -> Any:
    """Return floor(bits * size / 2**64) for 0 < size <= 2**32."""
    # At most (2**32 - 1) * 2**32 + (2**32 - 1) < 2**64: nothing overflows.
    return ((bits >> 32) * size + (((bits & MASK32) * size) >> 32)) >> 32


def _upper_half(bits: Any, factor: Any) -> Any:
    """Return floor(bits * factor / 2**64) for factor < 2**64, by schoolbook multiplication in halves."""
    factor_low, factor_high = factor & MASK32, factor >> 32
    low, high = bits & MASK32, bits >> 32
    first, second = low * factor_high, high * factor_low
    middle = ((low * factor_low) >> 32) + (first & MASK32) + (second & MASK32)
    return high * factor_high + (first >> 32) + (second >> 32) + (middle >> 32)


def scaled_wide(m: Any, lower: Any, upper: Any, size: Any) -> Any:
    """Return floor((upper * 2**64 + lower) * size / 2**128) for 0 < size < 2**64."""
    carried = _upper_half(lower, size)
    carry = m.ones_where(upper * size + carried < carried)  # out of the lower half
    return _upper_half(upper, size) + carry


# Note [Reproducible normals]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~
# Box and Muller (1958): with u1 uniform on (0, 1] and u2 on [0, 1), sqrt(-2 log u1) cos(2 pi u2) is normal. NumPy's
# log and cos depend on the instruction set in the last bit, and the numbers of a seed must not. So log and cos are
# written out here in float64, using only +, -, *, / and sqrt, which IEEE 754 defines exactly, in a fixed order. A
# kernel that does the same without contracting a * b + c into a fused operation gives the same float64 bits; one that
# contracts, or uses its library's log and cos, gives the same float32 except where a float64 difference straddles a
# rounding boundary (about one number in 2**28). The numbers of every dtype are those of float64, rounded, so a
# computation repeated in another precision uses the same noise. The sine is the imaginary part of complex dtypes and
# otherwise unused: each element has its own block, so a kernel does not need its neighbours. The largest magnitude is
# sqrt(2 * 53 log 2) = 8.57.
# Guarded by test_philox.py::test_normal_against_mpmath and ::test_normal_rounds_float64.
SQRT_HALF: Final = math.sqrt(0.5)
# log(2) in two parts: the upper has 42 significant bits, so that its product with an exponent is exact.
LOG2_HIGH: Final = float.fromhex("0x1.62e42fefa3800p-1")
LOG2_LOW: Final = float.fromhex("0x1.ef35793c76730p-45")
# log m = 2 atanh(s) = 2 (s + s**3/3 + s**5/5 + ...) with s = (m - 1) / (m + 1); the terms left out are below 2**-60
# for m within a factor of sqrt(2) from 1. The lists go from the highest power down, for Horner's scheme.
ATANH_TERMS: Final = [1 / power for power in range(21, 1, -2)]
# The Taylor series of sin(a)/a and cos(a) in a**2; the terms left out are below 2**-58 for |a| <= pi/4.
SIN_TERMS: Final = [(-1) ** k / math.factorial(2 * k + 1) for k in range(8, -1, -1)]
COS_TERMS: Final = [(-1) ** k / math.factorial(2 * k) for k in range(8, -1, -1)]


def horner(x: Any, terms: Sequence[Any]) -> Any:
    """Evaluate a polynomial, whose terms are given from the highest power down."""
    result = x * terms[0]
    for term in terms[1:-1]:
        result = (result + term) * x
    return result + terms[-1]


def balanced(m: Any, mantissa: Any, power: Any) -> tuple[Any, Any]:
    """Return a mantissa in [1/2, 1) and its power of 2 with the mantissa around 1: in [sqrt(1/2), sqrt(2))."""
    low = mantissa < SQRT_HALF
    return m.where(low, mantissa + mantissa, mantissa), m.where(low, power - 1.0, power)


def log(m: Any, x: Any) -> Any:
    """Return logarithms of positive normal float64 numbers, with an error of about one unit in the last place."""
    mantissa, power = m.balanced(x)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    twice = s + s
    return horner(z, ATANH_TERMS) * z * twice + power * LOG2_LOW + twice + power * LOG2_HIGH


def _of_turns(m: Any, turns: Any, series: Sequence[Sequence[float]], negative: Sequence[float]) -> Any:
    quarter = m.floor(4.0 * turns + 0.5)
    angle = (turns - 0.25 * quarter) * (2.0 * math.pi)
    odd = (quarter == 1.0) | (quarter == 3.0)
    value = horner(angle * angle, [m.where(odd, *terms) for terms in zip(*series, strict=True)])
    value = value * (m.where(odd, angle, 1.0) if series[0] is SIN_TERMS else m.where(odd, 1.0, angle))
    return m.where((quarter == negative[0]) | (quarter == negative[1]), -value, value)


def cosine(m: Any, turns: Any) -> Any:
    """Return the cosine of 2 pi ``turns`` for numbers in [0, 1); the reduction to [-pi/4, pi/4] is exact."""
    return _of_turns(m, turns, (SIN_TERMS, COS_TERMS), (1.0, 2.0))  # of the quarter turns 0 to 4


def sine(m: Any, turns: Any) -> Any:
    """Return the sine of 2 pi ``turns`` for numbers in [0, 1)."""
    return _of_turns(m, turns, (COS_TERMS, SIN_TERMS), (2.0, 3.0))


def normal(m: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Return radius and turns for the two halves of a block: the radius times the cosine, or the sine, is normal.

    Source: G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", 1958.
    """
    positive = (m.digits(low, 11) + 1.0) * 2.0**-53  # on (0, 1]: log is finite
    return m.sqrt(m.log(positive) * -2.0), m.digits(high, 11) * 2.0**-53


def open_unit(m: Any, bits: Any) -> Any:
    """Return numbers uniform on (0, 1), symmetric and without the ends: 52 bits and a half."""
    return (m.digits(bits, 12) + 0.5) * 2.0**-52
