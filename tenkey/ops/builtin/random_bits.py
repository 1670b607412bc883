"""Random bits and exact functions as scalar expressions: what devices compute random numbers with.

These internal operators give the bits of ``core/random``: those of Philox on integers of 64 bits, and in double
precision logarithms, exponentials and sines from operations that IEEE 754 defines, in the order of the NumPy functions
there. A device that contracts ``a * b + c`` may differ in the last bit of the latter. ``random_decompositions.py``
makes the samplers of them. Guarded by ``tests/random/test_on_devices.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ...core import random as core_random
from ...core.dtypes import names as dtypes
from ...core.random.draws import ATANH_TERMS, COS_TERMS, LOG2_HIGH, LOG2_LOW, SIN_TERMS, SQRT_HALF
from ...dispatch.tags import Tag
from ..declare import Entry, pointwise
from ..declare.promotion import Promotion
from ..scalar import abs, floor, isnan, maximum, minimum, where

__all__ = [
    "random_cosine", "random_double_exp", "random_double_log", "random_double_log1p", "random_high", "random_low",
    "random_pair", "random_scaled", "random_scaled_wide", "random_sine", "random_stirling", "random_word",
]  # fmt: skip

# ---- integers

_MASK: Final = 0xFFFFFFFF
_WORDS: Final = Promotion("WORDS", lambda dtype: dtypes.uint64, lambda dtype: dtype, "u", "uint64")


def _philox(block: Any, stream: Any, seed: Any) -> tuple[Any, Any, Any, Any]:
    """Return the four words of a block: the rounds of ``core/random/philox.py``."""
    x0, x1, x2, x3 = block & _MASK, block >> 32, stream & _MASK, stream >> 32
    k0, k1 = seed & _MASK, seed >> 32
    for _ in range(10):
        first, second = x0 * 0xD2511F53, x2 * 0xCD9E8D57
        x0, x1, x2, x3 = (second >> 32) ^ x1 ^ k0, second & _MASK, (first >> 32) ^ x3 ^ k1, first & _MASK
        k0, k1 = (k0 + 0x9E3779B9) & _MASK, (k1 + 0xBB67AE85) & _MASK
    return x0, x1, x2, x3


def _low(block: Any, stream: Any, seed: Any) -> Any:
    w0, w1, _, _ = _philox(block, stream, seed)
    return w0 | (w1 << 32)


def _high(block: Any, stream: Any, seed: Any) -> Any:
    _, _, w2, w3 = _philox(block, stream, seed)
    return w2 | (w3 << 32)


def _word(element: Any, stream: Any, seed: Any) -> Any:
    w0, w1, w2, w3 = _philox(element >> 2, stream, seed)
    lane = element & 3
    return where(lane < 2, where(lane == 0, w0, w1), where(lane == 2, w2, w3))


def _pair(element: Any, stream: Any, seed: Any) -> Any:
    w0, w1, w2, w3 = _philox((element >> 1) + (1 << 60), stream, seed)
    return where((element & 1) == 0, w0 | (w1 << 32), w2 | (w3 << 32))


def _of_integers(schema: str, function: Callable[..., Any], doc: str) -> Entry:
    return pointwise(
        f"{schema} -> Tensor", scalar=lambda T: function, promote=_WORDS, domain=(0.0, 100.0), differentiable=False,
        tags=(Tag.INTERNAL, Tag.DERIVED), doc=doc,
    )  # fmt: skip


random_word = _of_integers(
    "random_word(Tensor element, Tensor stream, int seed)", _word, 'Return the word of each element, layout "words".'
)
random_pair = _of_integers(
    "random_pair(Tensor element, Tensor stream, int seed)", _pair,
    'Return the 64 bits of each element, layout "double words".',
)  # fmt: skip
random_low = _of_integers(
    "random_low(Tensor block, Tensor stream, int seed)", _low, "Return the lower 64 bits of blocks, numbers with tags."
)
random_high = _of_integers(
    "random_high(Tensor block, Tensor stream, int seed)", _high, "Return the upper 64 bits of blocks."
)


def _scaled(bits: Any, size: Any, offset: Any) -> Any:
    return (((bits >> 32) * size + (((bits & _MASK) * size) >> 32)) >> 32) + offset


def _upper_half(bits: Any, factor: Any) -> Any:
    factor_low, factor_high = factor & _MASK, factor >> 32
    low, high = bits & _MASK, bits >> 32
    first, second = low * factor_high, high * factor_low
    middle = ((low * factor_low) >> 32) + (first & _MASK) + (second & _MASK)
    return high * factor_high + (first >> 32) + (second >> 32) + (middle >> 32)


def _scaled_wide(lower: Any, upper: Any, size: Any, offset: Any) -> Any:
    carried = _upper_half(lower, size)
    carry = where(upper * size + carried < carried, 1, 0)  # out of the lower half
    return _upper_half(upper, size) + carry + offset


random_scaled = _of_integers(
    "random_scaled(Tensor bits, int size, int offset)", _scaled, "Return bits * size / 2**64 + offset, size <= 2**32."
)
random_scaled_wide = _of_integers(
    "random_scaled_wide(Tensor lower, Tensor upper, int size, int offset)", _scaled_wide,
    "Return (lower + 2**64 * upper) * size / 2**128 + offset, size < 2**64.",
)  # fmt: skip

# ---- floats

_DOUBLE: Final = Promotion(
    "DOUBLE", lambda dtype: dtypes.float64, lambda dtype: dtype, "biuf", "real dtypes, and computes in float64"
)


def _horner(x: Any, terms: Sequence[float]) -> Any:
    result = x * terms[0]
    for term in terms[1:-1]:
        result = (result + term) * x
    return result + terms[-1]


def _split(x: Any) -> tuple[Any, Any]:
    """Return mantissa, in [1/2, 1), and exponent of positive finite numbers, by exact multiplications."""
    mantissa, exponent = x, 1.0
    for k in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1):
        above = mantissa >= 2.0**k
        mantissa, exponent = where(above, mantissa * 2.0**-k, mantissa), where(above, exponent + k, exponent)
    for k in (512, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1):
        below = mantissa < 2.0 ** (1 - k)
        mantissa, exponent = where(below, mantissa * 2.0**k, mantissa), where(below, exponent - k, exponent)
    return mantissa * 0.5, exponent


def _log(x: Any) -> Any:
    """Compute like ``_log`` in ``core/random/draws.py``, and -inf at 0."""
    usual = (x > 0) & (x < np.inf)
    mantissa, exponent = _split(where(usual, x, 1.0))
    low = mantissa < SQRT_HALF
    mantissa, power = where(low, mantissa + mantissa, mantissa), where(low, exponent - 1.0, exponent)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    z = s * s
    twice = s + s
    tail = _horner(z, ATANH_TERMS) * z * twice + power * LOG2_LOW + twice + power * LOG2_HIGH
    return where(x > 0, tail, -np.inf)


def _power_of_two(n: Any) -> Any:
    """Return 2**n for whole numbers of at most 1023 in magnitude."""
    rest, result = abs(n), 1.0
    for k in (512, 256, 128, 64, 32, 16, 8, 4, 2, 1):
        has = rest >= k
        rest, result = where(has, rest - k, rest), where(has, result * 2.0**k, result)
    return where(n < 0, 1.0 / result, result)


def _exp(x: Any) -> Any:
    """Compute like ``exact_exp`` in ``core/random/samplers.py``."""
    samplers = core_random.samplers
    clipped = minimum(maximum(x, samplers.LOG_LEAST), samplers.LOG_GREATEST)
    power = floor(where(isnan(clipped), 0.0, clipped) * (1 / float(np.log(2.0))) + 0.5)
    rest = (clipped - power * LOG2_HIGH) - power * LOG2_LOW
    half = floor(power * 0.5)
    return _horner(rest, samplers.EXP_TERMS) * _power_of_two(half) * _power_of_two(power - half)


def _log1p(x: Any) -> Any:
    """Compute like ``exact_log1p`` in ``core/random/samplers.py``."""
    shifted = 1.0 + x
    corrected = _log(shifted) - ((shifted - 1.0) - x) / shifted
    outside = where(x == -1.0, -np.inf, np.nan)
    return where(shifted > 0, where(shifted == 1.0, x, corrected), outside)


def _turns(turns: Any) -> tuple[Any, Any]:
    """Compute like ``_cos_sin_turns`` in ``core/random/draws.py``."""
    quarter = floor(4.0 * turns + 0.5)
    angle = (turns - 0.25 * quarter) * (2.0 * float(np.pi))
    z = angle * angle
    cosine, sine = _horner(z, COS_TERMS), _horner(z, SIN_TERMS) * angle
    odd = (quarter == 1.0) | (quarter == 3.0)
    cosine, sine = where(odd, sine, cosine), where(odd, cosine, sine)
    cosine = where((quarter == 1.0) | (quarter == 2.0), -cosine, cosine)
    return cosine, where((quarter == 2.0) | (quarter == 3.0), -sine, sine)


def _stirling(k: Any) -> Any:
    samplers = core_random.samplers
    small, result = k < 16.0, samplers.stirling_series(where(k < 16.0, 16.0, k))
    for place, value in enumerate(samplers.stirling_table().tolist()):
        result = where(small & (k >= place), value, result)
    return result


def _of_floats(
    name: str, argument: str, function: Callable[[Any], Any], domain: tuple[float, float], doc: str
) -> Entry:
    return pointwise(
        f"{name}(Tensor {argument}) -> Tensor", scalar=lambda T: function, promote=_DOUBLE, domain=domain,
        differentiable=False, tags=(Tag.INTERNAL, Tag.DERIVED), doc=doc,
    )  # fmt: skip


random_double_log = _of_floats(
    "random_double_log", "x", _log, (0.01, 20.0), "Return logarithms of numbers of at least 0, in float64."
)
random_double_exp = _of_floats("random_double_exp", "x", _exp, (-4.0, 4.0), "Return exponentials in float64.")
random_double_log1p = _of_floats(
    "random_double_log1p", "x", _log1p, (-0.9, 4.0), "Return log(1 + x) in float64 for x of at least -1."
)
random_cosine = _of_floats(
    "random_cosine", "turns", lambda turns: _turns(turns)[0], (0.0, 0.99), "Return cos(2 pi x) for x in [0, 1)."
)
random_sine = _of_floats(
    "random_sine", "turns", lambda turns: _turns(turns)[1], (0.0, 0.99), "Return sin(2 pi x) for x in [0, 1)."
)
random_stirling = _of_floats(
    "random_stirling", "k", _stirling, (0.0, 30.0), "Return the error of Stirling's formula for k!, in float64."
)
