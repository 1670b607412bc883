"""Further distributions: standard families, and rejection samplers.

As in ``draws``, a number is a function of the key and its address alone. These NumPy functions are the reference that
every backend reproduces, to the bit: logarithms and exponentials are written out (Note [Reproducible normals]).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from ..dtypes.names import DType
from .draws import _LOG2_HIGH, _LOG2_LOW, _cos_sin_turns, _horner, _log
from .philox import _BLOCKS_PER_CHUNK, _STANDARD, Key, _each_blocks, attempt_bits

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "BLOCKS_PER_ELEMENT", "REJECTION", "STANDARD", "exact_exp", "exact_log1p", "multinomial", "rejection", "standard",
]  # fmt: skip

_Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
_UInts: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]

# ---- functions whose last bit is the same on every CPU

_EXP_TERMS: Final = [1 / math.factorial(k) for k in range(13, -1, -1)]
_LOG_LEAST: Final = -746.0
_LOG_GREATEST: Final = 710.0


def exact_exp(x: npt.ArrayLike) -> _Floats:
    """Return exponentials in float64 within two units in the last place, using only operations that IEEE 754 defines.

    >>> exact_exp([0.0, -1000.0]).tolist()
    [1.0, 0.0]
    """
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        clipped = np.clip(x, _LOG_LEAST, _LOG_GREATEST)
        power = np.floor(np.where(np.isnan(clipped), 0.0, clipped) * (1 / math.log(2.0)) + 0.5)
        rest = (clipped - power * _LOG2_HIGH) - power * _LOG2_LOW
        # In two steps, because 2.0**power alone may overflow where the result does not.
        half = np.floor(power * 0.5).astype(np.int32)
        return np.ldexp(np.ldexp(_horner(rest, _EXP_TERMS), half), power.astype(np.int32) - half)  # type: ignore[no-any-return]


def _safe_log(x: _Floats) -> _Floats:
    """Return logarithms of numbers of at least 0: -inf at 0."""
    with np.errstate(all="ignore"):
        return np.where(x > 0, _log(np.where((x > 0) & (x < math.inf), x, 1.0)), -math.inf)


def exact_log1p(x: npt.ArrayLike) -> _Floats:
    """Return log(1 + x) in float64 for x >= -1, using only operations that IEEE 754 defines.

    >>> exact_log1p([0.0, 1e-20, -1.0]).tolist()
    [0.0, 1e-20, -inf]
    """
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        shifted = 1.0 + x
        # Kahan's correction: the rounding error of the addition, relative to the sum
        corrected = _safe_log(shifted) - ((shifted - 1.0) - x) / shifted
        return np.where(shifted > 0, np.where(shifted == 1.0, x, corrected), np.where(x == -1.0, -math.inf, math.nan))


# ---- standard families


def _open_unit(bits: _UInts) -> _Floats:
    """Return numbers uniform on (0, 1), symmetric and without the ends: 52 bits and a half."""
    return ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def _cauchy(low: _UInts, high: _UInts) -> _Floats:
    cosine, sine = _cos_sin_turns(0.5 * _open_unit(low))
    return -cosine / sine  # the tangent of pi (u - 1/2)


def _laplace(low: _UInts, high: _UInts) -> _Floats:
    size = -_log(_open_unit(low))
    return np.where(high >> np.uint64(63), size, -size)


def _logistic(low: _UInts, high: _UInts) -> _Floats:
    u = _open_unit(low)
    return _log(u) - _log(1.0 - u)


STANDARD: Final[dict[str, Callable[[_UInts, _UInts], _Floats]]] = {
    "uniform": lambda low, high: _open_unit(low),
    "exponential": lambda low, high: -_log(_open_unit(low)),
    "gumbel": lambda low, high: -_log(-_log(_open_unit(low))),
    "laplace": _laplace,
    "logistic": _logistic,
    "cauchy": _cauchy,
}
"""The standard member of each location-scale family, as a function of the two halves of a block."""


def standard(kind: str, key: Key, count: int, dtype: DType, start: int = 0) -> npt.NDArray[Any]:
    """Draw elements of a distribution of ``STANDARD``, computed in float64 and rounded: shape (count,).

    >>> draw = standard("exponential", (1, 0), 10_000, np.dtype("float64"))
    >>> bool(abs(draw.mean() - 1) < 0.05)
    True
    """
    result: npt.NDArray[Any] = np.empty(max(count, 0), dtype)
    function = STANDARD[kind]
    with np.errstate(over="ignore"):  # a Cauchy number may be beyond float16
        for where, low, high in _each_blocks(key, start, count, _STANDARD):
            result[where] = function(low, high)
    return result


# Note [Addresses of rejection samplers]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# A rejection sampler needs an unknown number of random numbers. Each element of the result therefore has its own 64
# blocks of the layout "attempts" in Note [Random addresses]: its address is (first block, stream), and attempt j reads
# blocks 2j and 2j + 1. So an element depends only on the seed, its address and its parameters, not on its neighbours or
# the division into pieces. A draw of n elements reserves 64 n element numbers of the generator, so draws do not
# overlap. Every method below accepts with a probability of at least 0.4. The probability that 31 attempts fail is below
# 2e-7 for the worst parameters of the truncated normal distribution, where the last candidate, moved into the range, is
# used then; it is below 1e-20 for the others.
# Guarded by test_random.py::test_elements_do_not_depend_on_their_neighbours and ::test_consecutive_draws_share_nothing.
BLOCKS_PER_ELEMENT: Final = 64
_ATTEMPTS_PER_ELEMENT: Final = BLOCKS_PER_ELEMENT // 2 - 1
_BOOST: Final = np.uint64(BLOCKS_PER_ELEMENT - 1)  # no attempt reads these blocks
_NUMERATOR: Final = np.uint64(BLOCKS_PER_ELEMENT - 2)


class _Elements:
    """The addresses of the elements of one chunk."""

    def __init__(self, seed: int, addresses: _UInts) -> None:
        self.seed = seed
        self.blocks = addresses[:, 0]
        self.streams = addresses[:, 1]

    def bits(self, index: Any, block: int | np.uint64) -> tuple[_UInts, _UInts]:
        """Return the two halves of a block of each element of ``index``."""
        return attempt_bits(self.seed, self.blocks[index] + np.uint64(block), self.streams[index])


def _try_until_accepted(
    elements: _Elements, size: int, attempt: Callable[[npt.NDArray[np.intp], int], tuple[_Floats, Any]]
) -> _Floats:
    """Repeat ``attempt(index, j)``, which returns candidates for the elements ``index`` and which are accepted."""
    result = np.zeros(size)
    pending = np.arange(size)
    for j in range(_ATTEMPTS_PER_ELEMENT):
        if not pending.size:
            break
        candidates, accepted = attempt(pending, 2 * j)
        result[pending] = candidates
        pending = pending[~accepted]
    return result


def _normal_of(low: _UInts, high: _UInts) -> _Floats:
    cosine, _ = _cos_sin_turns((high >> np.uint64(11)).astype(np.float64) * 2.0**-53)
    return np.sqrt(-2.0 * _log(_open_unit(low))) * cosine


def _log_gamma(elements: _Elements, shape: _Floats, _: _Floats) -> _Floats:
    """Draw logarithms of gamma variates.

    Source: G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables", 2000. A shape below 1 is raised
    by 1 and the number multiplied by u**(1 / shape), as in section 6 there.
    """
    d = np.where(shape < 1.0, shape + 1.0, shape) - 1 / 3
    c = 1.0 / np.sqrt(9.0 * d)

    def attempt(index: npt.NDArray[np.intp], block: int) -> tuple[_Floats, Any]:
        x = _normal_of(*elements.bits(index, block))
        u = _open_unit(elements.bits(index, block + 1)[0])
        cx = c[index] * x
        cube = cx * (3.0 + cx * (3.0 + cx))  # v - 1
        inside = cx > -1.0
        log_v = exact_log1p(np.where(inside, cube, 0.0))
        return log_v, inside & (_log(u) < 0.5 * x * x + d[index] * (log_v - cube))

    result = _try_until_accepted(elements, shape.size, attempt) + _safe_log(d)
    small = np.flatnonzero(shape < 1.0)
    if small.size:
        result[small] += _log(_open_unit(elements.bits(small, _BOOST)[0])) / shape[small]
    return result


def _standard_t(elements: _Elements, degrees: _Floats, other: _Floats) -> _Floats:
    """Divide a normal variate by the root of a mean square of others, which is a gamma variate."""
    half = 0.5 * degrees
    normal = _normal_of(*elements.bits(slice(None), _NUMERATOR))
    return normal * exact_exp(0.5 * (_safe_log(half) - _log_gamma(elements, half, other)))


# C. Loader, "Fast and accurate computation of binomial probabilities", 2000: the logarithm of a probability as a sum of
# small terms; lgamma would lose all digits for large means.


@cache
def _stirling_table() -> _Floats:
    """Return log(k!) - log(sqrt(2 pi k) (k / e)**k) for k below 16."""
    table = [0.0]
    for k in range(1, 16):
        # the series in 1/k at k = 40, then the downward recurrence in terms of log1p(1 / j)
        total = _stirling_series(np.array([40.0]))[0]
        for j in range(39, k - 1, -1):
            total += (j + 0.5) * float(exact_log1p(1.0 / j)) - 1.0
        table.append(float(total))
    return np.array(table)


def _stirling_series(k: _Floats) -> _Floats:
    z = 1.0 / (k * k)
    return (1 / 12 - z * (1 / 360 - z * (1 / 1260 - z * (1 / 1680 - z / 1188)))) / k


def _stirling_error(k: _Floats) -> _Floats:
    small = k < 16.0
    tabulated = _stirling_table()[np.where(small, k, 0.0).astype(np.intp)]
    return np.where(small, tabulated, _stirling_series(np.where(small, 16.0, k)))


_DEVIANCE_TERMS: Final = [1 / (2 * j + 1) for j in range(9, 0, -1)]


def _deviance(k: _Floats, mean: _Floats) -> _Floats:
    """Return k log(k / mean) + mean - k for k > 0, without cancellation where k is near the mean."""
    v = (k - mean) / (k + mean)
    near = np.abs(v) < 0.1
    z = np.where(near, v * v, 0.0)
    series = (k - mean) * v + 2.0 * k * v * z * _horner(z, _DEVIANCE_TERMS)
    return np.where(near, series, k * _safe_log(k / mean) + mean - k)


_LOG_TWO_PI: Final = 1.8378770664093453


def _poisson_log_probability(k: _Floats, mean: _Floats) -> _Floats:
    positive = np.maximum(k, 1.0)
    usual = -_stirling_error(positive) - _deviance(positive, mean) - 0.5 * (_LOG_TWO_PI + _safe_log(positive))
    return np.where(k == 0.0, -mean, usual)


def _by_inversion(u: _Floats, first: _Floats, ratio: Callable[[Any, int], _Floats]) -> _Floats:
    """Return the k at which the sum of probabilities exceeds u; ``ratio(index, k)`` leads from k - 1 to k."""
    result = np.zeros(u.size)
    pending = np.flatnonzero(u > first)
    probability, total = first[pending], first[pending]
    for k in range(1, 200):
        if not pending.size:
            break
        result[pending] = k
        probability = probability * ratio(pending, k)
        total = total + probability
        # where the sum has stopped growing, u is within its rounding error
        going = (u[pending] > total) & (probability > 0)
        pending, probability, total = pending[going], probability[going], total[going]
    return result


def _poisson(elements: _Elements, mean: _Floats, _: _Floats) -> _Floats:
    """Draw by inversion below a mean of 10, above by W. Hörmann's PTRS ("The transformed rejection method", 1993)."""
    result = np.zeros(mean.size)
    small = np.flatnonzero(mean < 10.0)
    if small.size:
        rate = mean[small]
        u = _open_unit(elements.bits(small, 0)[0])
        result[small] = _by_inversion(u, exact_exp(-rate), lambda index, k: rate[index] / k)
    large = np.flatnonzero(mean >= 10.0)
    if not large.size:
        return result
    means = mean[large]
    b = 0.931 + 2.53 * np.sqrt(means)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    fast = 0.9277 - 3.6224 / (b - 2.0)

    def attempt(index: npt.NDArray[np.intp], block: int) -> tuple[_Floats, Any]:
        low, high = elements.bits(large[index], block)
        u, v = _open_unit(low) - 0.5, _open_unit(high)
        us = 0.5 - np.abs(u)
        a_, b_, mean_ = a[index], b[index], means[index]
        k = np.floor((2.0 * a_ / us + b_) * u + mean_ + 0.43)
        density = _log(v) + _safe_log(inverse_alpha[index]) - _safe_log(a_ / (us * us) + b_)
        valid = (k >= 0.0) & ((us >= 0.013) | (v <= us))
        slow = valid & (density <= _poisson_log_probability(np.maximum(k, 0.0), mean_))
        return np.maximum(k, 0.0), ((us >= 0.07) & (v <= fast[index])) | slow

    result[large] = _try_until_accepted(elements, large.size, attempt)
    return result


def _binomial_log_probability(k: _Floats, n: _Floats, p: _Floats) -> _Floats:
    inside = np.clip(k, 1.0, n - 1.0)
    rest = n - inside
    usual = _stirling_error(n) - _stirling_error(inside) - _stirling_error(rest)
    usual = usual - _deviance(inside, n * p) - _deviance(rest, n * (1.0 - p))
    usual = usual + 0.5 * (_safe_log(n / inside) - _safe_log(rest) - _LOG_TWO_PI)
    return np.where(k <= 0.0, n * exact_log1p(-p), np.where(k >= n, n * _safe_log(p), usual))


def _binomial(elements: _Elements, trials: _Floats, probability: _Floats) -> _Floats:
    """Draw by inversion below a mean of 10, above by BTRS (W. Hörmann, "The generation of binomial variates", 1993)."""
    flipped = probability > 0.5
    p_of = np.where(flipped, 1.0 - probability, probability)
    mean = trials * p_of
    result = np.zeros(trials.size)
    small = np.flatnonzero((mean < 10.0) & (mean > 0.0))
    if small.size:
        n, p = trials[small], p_of[small]
        odds = p / (1.0 - p)
        u = _open_unit(elements.bits(small, 0)[0])
        first = exact_exp(n * exact_log1p(-p))
        counts = _by_inversion(u, first, lambda index, k: np.maximum(n[index] - (k - 1), 0.0) / k * odds[index])
        result[small] = np.minimum(counts, n)
    large = np.flatnonzero(mean >= 10.0)
    if large.size:
        n, p = trials[large], p_of[large]
        spread = np.sqrt(n * p * (1.0 - p))
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * p
        fast = 0.92 - 4.2 / b
        alpha = (2.83 + 5.1 / b) * spread
        mode = _binomial_log_probability(np.floor((n + 1.0) * p), n, p)

        def attempt(index: npt.NDArray[np.intp], block: int) -> tuple[_Floats, Any]:
            low, high = elements.bits(large[index], block)
            u, v = _open_unit(low) - 0.5, _open_unit(high)
            us = 0.5 - np.abs(u)
            a_, b_, n_, p_ = a[index], b[index], n[index], p[index]
            k = np.floor((2.0 * a_ / us + b_) * u + n_ * p_ + 0.5)
            density = _log(v) + _safe_log(alpha[index]) - _safe_log(a_ / (us * us) + b_)
            clipped = np.clip(k, 0.0, n_)
            slow = (k == clipped) & (density <= _binomial_log_probability(clipped, n_, p_) - mode[index])
            return clipped, ((us >= 0.07) & (v <= fast[index])) | slow

        result[large] = _try_until_accepted(elements, large.size, attempt)
    return np.where(flipped, trials - result, result)


def _truncated_normal(elements: _Elements, low: _Floats, high: _Floats) -> _Floats:
    """Draw standard normal variates in [low, high]: C. P. Robert, "Simulation of truncated normal variables", 1995.

    Around 0, candidates are normal if the interval is wide and uniform otherwise; in a tail they are exponential.
    """
    mirrored = high < 0.0
    a, b = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    tail = a > 0.0
    wide = ~tail & (b - a > 2.5)
    rate = np.where(tail, 0.5 * (a + np.sqrt(a * a + 4.0)), 1.0)
    width = np.where(wide, 1.0, b - a)
    span = exact_exp(-rate * width) - 1.0
    best = np.minimum(b, rate) - rate  # where exp(-(x - rate)**2 / 2) is largest in the interval

    def attempt(index: npt.NDArray[np.intp], block: int) -> tuple[_Floats, Any]:
        low_bits, high_bits = elements.bits(index, block)
        u, v = _open_unit(low_bits), _open_unit(high_bits)
        normal = _normal_of(low_bits, high_bits)
        rate_, a_ = rate[index], a[index]
        uniform = a_ + width[index] * u
        slope = a_ - exact_log1p(u * span[index]) / rate_
        log_v = _log(v)
        x = np.where(tail[index], slope, np.where(wide[index], normal, uniform))
        distance = slope - rate_
        in_tail = log_v <= 0.5 * (best[index] ** 2 - distance * distance)
        accepted = np.where(tail[index], in_tail, np.where(wide[index], True, log_v <= -0.5 * uniform * uniform))
        return x, accepted & (x >= a_) & (x <= b[index])

    result = np.clip(_try_until_accepted(elements, low.size, attempt), a, b)
    return np.where(mirrored, -result, result)


REJECTION: Final[dict[str, Callable[[_Elements, _Floats, _Floats], _Floats]]] = {
    "gamma": lambda elements, shape, other: exact_exp(_log_gamma(elements, shape, other)),
    "log_gamma": _log_gamma, "standard_t": _standard_t, "poisson": _poisson, "binomial": _binomial,
    "truncated_normal": _truncated_normal,
}  # fmt: skip
"""Samplers with two parameters for each element, the second of which some ignore."""


def rejection(kind: str, first: Any, second: Any, addresses: Any, seed: int) -> _Floats:
    """Draw a float64 for each address (shape (..., 2)); the parameters broadcast with (...).

    See Note [Addresses of rejection samplers].
    """
    shape = np.broadcast_shapes(first.shape, second.shape, addresses.shape[:-1])
    rows = np.broadcast_to(addresses, (*shape, 2)).reshape(-1, 2)
    parameters = [np.broadcast_to(p, shape).reshape(-1) for p in (first, second)]
    result = np.empty(len(rows))
    with np.errstate(all="ignore"):
        for begin in range(0, len(rows), _BLOCKS_PER_CHUNK):
            piece = slice(begin, begin + _BLOCKS_PER_CHUNK)
            one, two = (p[piece].astype(np.float64) for p in parameters)
            result[piece] = REJECTION[kind](_Elements(seed, rows[piece]), one, two)
    return result.reshape(shape)


def multinomial(trials: Any, probabilities: Any, addresses: Any, seed: int) -> npt.NDArray[np.int64]:
    """Draw counts of the categories on the last axis, each binomial given those before; addresses (..., k, 2)."""
    k = probabilities.shape[-1]
    outer = np.broadcast_shapes(trials.shape, probabilities.shape[:-1], addresses.shape[:-2])
    left = np.broadcast_to(trials, outer).astype(np.float64)
    weights = np.broadcast_to(probabilities, (*outer, k)).astype(np.float64)
    remaining = np.cumsum(weights[..., ::-1], axis=-1)[..., ::-1]
    rows = np.broadcast_to(addresses, (*outer, k, 2))
    result = np.zeros((*outer, k), np.int64)
    for j in range(k):
        with np.errstate(all="ignore"):
            share = np.where(remaining[..., j] > 0, np.clip(weights[..., j] / remaining[..., j], 0.0, 1.0), 0.0)
        counts = rejection("binomial", left, share, rows[..., j, :], seed)
        result[..., j] = counts
        left = left - counts
    return result
