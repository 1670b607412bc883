"""Random bits and exact functions as scalar expressions: what devices compute random numbers with.

These internal operators give the bits of ``core/random``: those of Philox on integers of 64 bits, and in double
precision logarithms, exponentials and sines from operations that IEEE 754 defines, in the order of the NumPy functions
there. A device that contracts ``a * b + c`` may differ in the last bit of the latter. ``random_decompositions.py``
makes the samplers of them. Guarded by ``tests/random/test_on_devices.py``.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from ...core import random as core_random
from ...core.dtypes import names as dtypes
from ...core.random import exact_functions as exact
from ..declare import internal_function
from ..declare.promotion import Promotion
from ..scalar import abs, floor, isnan, maximum, minimum, where

__all__ = [
    "random_cosine", "random_double_exp", "random_double_log", "random_double_log1p", "random_high", "random_low",
    "random_pair", "random_scaled", "random_scaled_wide", "random_sine", "random_stirling", "random_word",
]  # fmt: skip

# ---- integers

_MASK: Final = exact.MASK32
_WORDS: Final = Promotion("WORDS", lambda dtype: dtypes.uint64, lambda dtype: dtype, "u", "uint64")


def _philox(block: Any, stream: Any, seed: Any) -> tuple[Any, Any, Any, Any]:
    return exact.philox(block & _MASK, block >> 32, stream & _MASK, stream >> 32, seed & _MASK, seed >> 32)


def _low(block: Any, stream: Any, seed: Any) -> Any:
    w0, w1, _, _ = _philox(block, stream, seed)
    return exact.double(w0, w1)


def _high(block: Any, stream: Any, seed: Any) -> Any:
    _, _, w2, w3 = _philox(block, stream, seed)
    return exact.double(w2, w3)


def _word(element: Any, stream: Any, seed: Any) -> Any:
    w0, w1, w2, w3 = _philox(element >> 2, stream, seed)
    lane = element & 3
    return where(lane < 2, where(lane == 0, w0, w1), where(lane == 2, w2, w3))


def _pair(element: Any, stream: Any, seed: Any) -> Any:
    w0, w1, w2, w3 = _philox((element >> 1) + (1 << 60), stream, seed)
    return where((element & 1) == 0, exact.double(w0, w1), exact.double(w2, w3))


_of_integers: Final = partial(internal_function, promote=_WORDS, domain=(0.0, 100.0))

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
    return exact.scaled(bits, size) + offset


def _scaled_wide(lower: Any, upper: Any, size: Any, offset: Any) -> Any:
    return exact.scaled_wide(_SCALARS, lower, upper, size) + offset


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
    """Return logarithms of numbers of at least 0."""
    usual = (x > 0) & (x < np.inf)
    return where(x > 0, exact.log(_SCALARS, where(usual, x, 1.0)), -np.inf)


_SCALARS: Final[Any] = SimpleNamespace(
    balanced=lambda x: exact.balanced(_SCALARS, *_split(x)),
    floor=floor,
    ones_where=lambda condition: where(condition, 1, 0),
    where=where,
)


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
    rest = (clipped - power * exact.LOG2_HIGH) - power * exact.LOG2_LOW
    half = floor(power * 0.5)
    return exact.horner(rest, samplers.EXP_TERMS) * _power_of_two(half) * _power_of_two(power - half)


def _log1p(x: Any) -> Any:
    """Compute like ``exact_log1p`` in ``core/random/samplers.py``."""
    shifted = 1.0 + x
    corrected = _log(shifted) - ((shifted - 1.0) - x) / shifted
    outside = where(x == -1.0, -np.inf, np.nan)
    return where(shifted > 0, where(shifted == 1.0, x, corrected), outside)


def _stirling(k: Any) -> Any:
    samplers = core_random.samplers
    small, result = k < 16.0, samplers.stirling_series(where(k < 16.0, 16.0, k))
    for place, value in enumerate(samplers.stirling_table().tolist()):
        result = where(small & (k >= place), value, result)
    return result


_of_floats: Final = partial(internal_function, promote=_DOUBLE)

random_double_log = _of_floats(
    "random_double_log(Tensor x)", _log, "Return logarithms of numbers of at least 0, in float64.", domain=(0.01, 20.0)
)
random_double_exp = _of_floats(
    "random_double_exp(Tensor x)", _exp, "Return exponentials in float64.", domain=(-4.0, 4.0)
)
random_double_log1p = _of_floats(
    "random_double_log1p(Tensor x)", _log1p, "Return log(1 + x) in float64 for x of at least -1.", domain=(-0.9, 4.0)
)
random_cosine = _of_floats(
    "random_cosine(Tensor turns)",
    partial(exact.cosine, _SCALARS),
    "Return cos(2 pi x) for x in [0, 1).",
    domain=(0.0, 0.99),
)
random_sine = _of_floats(
    "random_sine(Tensor turns)",
    partial(exact.sine, _SCALARS),
    "Return sin(2 pi x) for x in [0, 1).",
    domain=(0.0, 0.99),
)
random_stirling = _of_floats(
    "random_stirling(Tensor k)",
    _stirling,
    "Return the error of Stirling's formula for k!, in float64.",
    domain=(0.0, 30.0),
)
