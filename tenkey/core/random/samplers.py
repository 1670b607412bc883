"""Further distributions: standard families, and rejection samplers.

As in ``draws``, a number is a function of the key and its address alone. These NumPy functions are the reference that
every backend reproduces, to the bit: logarithms and exponentials are written out (Note [Reproducible normals]).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from ..dtypes.names import DType
from .count_samplers import COUNTS
from .draws import ARRAYS as DRAWS
from .exact_functions import LOG2_HIGH, LOG2_LOW, open_unit
from .exact_functions import horner as _horner
from .philox import _BLOCKS_PER_CHUNK, Key, _each_blocks, attempt_bits
from .philox import STANDARD as _STANDARD

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "ARRAYS", "ATTEMPTS_PER_ELEMENT", "BLOCKS_PER_ELEMENT", "EXP_TERMS", "INVERSION_STEPS", "LOG_GREATEST", "LOG_LEAST",
    "REJECTION", "STANDARD", "WHOLE", "exact_exp", "exact_log1p", "multinomial", "rejection", "standard",
    "stirling_series", "stirling_table",
]  # fmt: skip

_Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
_UInts: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]

# ---- functions whose last bit is the same on every CPU

EXP_TERMS: Final = [1 / math.factorial(k) for k in range(13, -1, -1)]
LOG_LEAST: Final = -746.0
LOG_GREATEST: Final = 710.0


def exact_exp(x: npt.ArrayLike) -> _Floats:
    """Return exponentials in float64 within two units in the last place, using only operations that IEEE 754 defines.

    >>> exact_exp([0.0, -1000.0]).tolist()
    [1.0, 0.0]
    """
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        clipped = np.clip(x, LOG_LEAST, LOG_GREATEST)
        power = np.floor(np.where(np.isnan(clipped), 0.0, clipped) * (1 / math.log(2.0)) + 0.5)
        rest = (clipped - power * LOG2_HIGH) - power * LOG2_LOW
        # In two steps, because 2.0**power alone may overflow where the result does not.
        half = np.floor(power * 0.5).astype(np.int32)
        return np.ldexp(np.ldexp(_horner(rest, EXP_TERMS), half), power.astype(np.int32) - half)  # type: ignore[no-any-return]


def _safe_log(x: _Floats) -> _Floats:
    """Return logarithms of numbers of at least 0: -inf at 0."""
    with np.errstate(all="ignore"):
        return np.where(x > 0, DRAWS.log(np.where((x > 0) & (x < math.inf), x, 1.0)), -math.inf)


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


def _cauchy(m: Any, low: Any, high: Any) -> Any:
    turns = 0.5 * open_unit(m, low)
    return -m.cosine(turns) / m.sine(turns)  # the tangent of pi (u - 1/2)


def _laplace(m: Any, low: Any, high: Any) -> Any:
    size = -m.log(open_unit(m, low))
    return m.where(m.digits(high, 63) > 0, size, -size)


def _logistic(m: Any, low: Any, high: Any) -> Any:
    u = open_unit(m, low)
    return m.log(u) - m.log(1.0 - u)


STANDARD: Final[dict[str, Callable[[Any, Any, Any], Any]]] = {
    "uniform": lambda m, low, high: open_unit(m, low),
    "exponential": lambda m, low, high: -m.log(open_unit(m, low)),
    "gumbel": lambda m, low, high: -m.log(-m.log(open_unit(m, low))),
    "laplace": _laplace,
    "logistic": _logistic,
    "cauchy": _cauchy,
}
"""The standard member of each location-scale family, as a function of the two halves of a block.

The namespace ``m`` holds the functions to compute with: Note [Samplers for arrays and tensors]."""


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
            result[where] = function(ARRAYS, low, high)
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
ATTEMPTS_PER_ELEMENT: Final = BLOCKS_PER_ELEMENT // 2 - 1
_BOOST: Final = BLOCKS_PER_ELEMENT - 1  # no attempt reads these blocks
_NUMERATOR: Final = BLOCKS_PER_ELEMENT - 2


class _Elements:
    """The addresses of the elements of one chunk."""

    def __init__(self, seed: int, addresses: _UInts) -> None:
        self.seed = seed
        self.addresses = addresses
        self.blocks = addresses[:, 0]
        self.streams = addresses[:, 1]

    def __getitem__(self, index: Any) -> _Elements:
        """Return some of the elements."""
        return _Elements(self.seed, self.addresses[index])

    def bits(self, index: Any, block: int) -> tuple[_UInts, _UInts]:
        """Return the two halves of a block of each element of ``index``."""
        return attempt_bits(self.seed, self.blocks[index] + np.uint64(block), self.streams[index])


def _until_accepted(like: _Floats, attempt: Callable[[Any, int], tuple[_Floats, Any]]) -> _Floats:
    """Repeat ``attempt(index, block)``, which returns candidates for the elements ``index`` and which are accepted."""
    result = np.zeros(like.size)
    pending = np.arange(like.size)
    for j in range(ATTEMPTS_PER_ELEMENT):
        if not pending.size:
            break
        candidates, accepted = attempt(pending, 2 * j)
        result[pending] = candidates
        pending = pending[~accepted]
    return result


def _normal_of(m: Any, low: Any, high: Any) -> Any:
    return m.sqrt(-2.0 * m.log(open_unit(m, low))) * m.cosine(m.digits(high, 11) * 2.0**-53)


def _log_gamma(m: Any, elements: Any, shape: Any, _: Any) -> Any:
    """Draw logarithms of gamma variates.

    Source: G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables", 2000. A shape below 1 is raised
    by 1 and the number multiplied by u**(1 / shape), as in section 6 there.
    """
    d = m.where(shape < 1.0, shape + 1.0, shape) - 1 / 3
    c = 1.0 / m.sqrt(9.0 * d)

    def attempt(index: Any, block: int) -> tuple[Any, Any]:
        x = _normal_of(m, *elements.bits(index, block))
        u = open_unit(m, elements.bits(index, block + 1)[0])
        cx = c[index] * x
        cube = cx * (3.0 + cx * (3.0 + cx))  # v - 1
        inside = cx > -1.0
        log_v = m.log1p(m.where(inside, cube, 0.0))
        return log_v, inside & (m.log(u) < 0.5 * x * x + d[index] * (log_v - cube))

    result = m.until_accepted(shape, attempt) + m.safe_log(d)

    def boosted(index: Any) -> Any:
        return result[index] + m.log(open_unit(m, elements.bits(index, _BOOST)[0])) / shape[index]

    return m.fill(result, shape < 1.0, boosted)


def _standard_t(m: Any, elements: Any, degrees: Any, other: Any) -> Any:
    """Divide a normal variate by the root of a mean square of others, which is a gamma variate."""
    half = 0.5 * degrees
    normal = _normal_of(m, *elements.bits(slice(None), _NUMERATOR))
    return normal * m.exp(0.5 * (m.safe_log(half) - _log_gamma(m, elements, half, other)))


# C. Loader, "Fast and accurate computation of binomial probabilities", 2000: the logarithm of a probability as a sum of
# small terms; lgamma would lose all digits for large means.


@cache
def stirling_table() -> _Floats:
    """Return log(k!) - log(sqrt(2 pi k) (k / e)**k) for k below 16."""
    table = [0.0]
    for k in range(1, 16):
        # the series in 1/k at k = 40, then the downward recurrence in terms of log1p(1 / j)
        total = stirling_series(np.array([40.0]))[0]
        for j in range(39, k - 1, -1):
            total += (j + 0.5) * float(exact_log1p(1.0 / j)) - 1.0
        table.append(float(total))
    return np.array(table)


def stirling_series(k: Any) -> Any:
    """Return log(k!) - log(sqrt(2 pi k) (k / e)**k) for k of at least 16, by Stirling's series."""
    z = 1.0 / (k * k)
    return (1 / 12 - z * (1 / 360 - z * (1 / 1260 - z * (1 / 1680 - z / 1188)))) / k


def _stirling_error(k: _Floats) -> _Floats:
    small = k < 16.0
    tabulated = stirling_table()[np.where(small & (k > 0.0), k, 0.0).astype(np.intp)]
    return np.where(small, tabulated, stirling_series(np.where(small, 16.0, k)))


INVERSION_STEPS: Final = 199


def _by_inversion(u: _Floats, first: _Floats, ratio: Callable[[Any, int], _Floats]) -> _Floats:
    """Return the k at which the sum of probabilities exceeds u; ``ratio(index, k)`` leads from k - 1 to k."""
    result = np.zeros(u.size)
    pending = np.flatnonzero(u > first)
    probability, total = first[pending], first[pending]
    for k in range(1, INVERSION_STEPS + 1):
        if not pending.size:
            break
        result[pending] = k
        probability = probability * ratio(pending, k)
        total = total + probability
        # where the sum has stopped growing, u is within its rounding error
        going = (u[pending] > total) & (probability > 0)
        pending, probability, total = pending[going], probability[going], total[going]
    return result


def _truncated_normal(m: Any, elements: Any, low: Any, high: Any) -> Any:
    """Draw standard normal variates in [low, high]: C. P. Robert, "Simulation of truncated normal variables", 1995.

    Around 0, candidates are normal if the interval is wide and uniform otherwise; in a tail they are exponential.
    """
    mirrored = high < 0.0
    a, b = m.where(mirrored, -high, low), m.where(mirrored, -low, high)
    tail = a > 0.0
    wide = ~tail & (b - a > 2.5)
    rate = m.where(tail, 0.5 * (a + m.sqrt(a * a + 4.0)), 1.0)
    width = m.where(wide, 1.0, b - a)
    span = m.exp(-rate * width) - 1.0
    best = m.minimum(b, rate) - rate  # where exp(-(x - rate)**2 / 2) is largest in the interval

    def attempt(index: Any, block: int) -> tuple[Any, Any]:
        low_bits, high_bits = elements.bits(index, block)
        u, v = open_unit(m, low_bits), open_unit(m, high_bits)
        normal = _normal_of(m, low_bits, high_bits)
        rate_, a_, best_ = rate[index], a[index], best[index]
        uniform = a_ + width[index] * u
        slope = a_ - m.log1p(u * span[index]) / rate_
        log_v = m.log(v)
        x = m.where(tail[index], slope, m.where(wide[index], normal, uniform))
        distance = slope - rate_
        in_tail = log_v <= 0.5 * (best_ * best_ - distance * distance)
        accepted = m.where(tail[index], in_tail, wide[index] | (log_v <= -0.5 * uniform * uniform))
        return x, accepted & (x >= a_) & (x <= b[index])

    result = m.minimum(m.maximum(m.until_accepted(low, attempt), a), b)
    return m.where(mirrored, -result, result)


def _vonmises(m: Any, elements: Any, concentration: Any, _: Any) -> Any:
    """Draw the sine of half a von Mises angle, which is around 0.

    Source: D. J. Best, N. I. Fisher, "Efficient simulation of the von Mises distribution", 1979. With the sine of half
    the angle in place of the cosine of the angle, no digits are lost for large concentrations, nor for small ones.
    """
    kappa = m.minimum(concentration, 1e150)
    q = 1.0 / (1.0 + 2.0 * kappa / (1.0 + m.sqrt(1.0 + 4.0 * kappa * kappa)))  # kappa (r - 1) there

    def attempt(index: Any, block: int) -> tuple[Any, Any]:
        low, high = elements.bits(index, block)
        v, u = 2.0 * open_unit(m, low) - 1.0, open_unit(m, high)
        q_, kappa_ = q[index], kappa[index]
        turns = 0.25 * m.abs(v)
        sine, cosine = m.sine(turns), m.cosine(turns)
        square = q_ * sine * sine / (q_ + 2.0 * kappa_ * cosine * cosine)
        height = q_ + 2.0 * kappa_ * square
        root = m.sqrt(m.minimum(square, 1.0))
        return m.where(v < 0.0, -root, root), m.log(height) - m.log(u) + 1.0 - height >= 0.0

    return m.until_accepted(kappa, attempt)


def _fill(out: _Floats, condition: Any, function: Callable[[Any], _Floats]) -> _Floats:
    index = np.flatnonzero(condition)
    if index.size:
        out[index] = function(index)
    return out


# Note [Samplers for arrays and tensors]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# The samplers are written once, with the functions to compute with as their first argument: those of NumPy here, and
# operators in the decompositions for devices (``ops/builtin/random_decompositions.py``). ``fill(out, condition,
# function)`` puts the values of ``function(index)`` where the condition holds. On arrays ``index`` are the elements
# that it concerns, and attempts are repeated for those that were not accepted; on tensors, whose values the host does
# not know, it is ``...``, all attempts are made for all elements, and what does not concern one is not selected. The
# numbers are the same. Guarded by ``tests/operators/test_decompositions.py`` and ``tests/random/test_on_devices.py``.
ARRAYS: Final = SimpleNamespace(
    **vars(DRAWS), abs=np.abs, by_inversion=_by_inversion, exp=exact_exp, fill=_fill, log1p=exact_log1p,
    maximum=np.maximum, minimum=np.minimum, safe_log=_safe_log, stirling_error=_stirling_error,
    until_accepted=_until_accepted, zeros_like=np.zeros_like,
)  # fmt: skip


REJECTION: Final[dict[str, Callable[..., Any]]] = {
    "gamma": lambda m, elements, shape, other: m.exp(_log_gamma(m, elements, shape, other)),
    "log_gamma": _log_gamma, "standard_t": _standard_t, "truncated_normal": _truncated_normal, "vonmises": _vonmises,
    **COUNTS,
}  # fmt: skip
"""Samplers with two parameters for each element, the second of which some ignore; ``hypergeometric`` has three."""
WHOLE: Final = frozenset(COUNTS)
"""The samplers whose numbers are integers."""


def rejection(kind: str, first: Any, second: Any, addresses: Any, seed: int, *more: Any) -> _Floats:
    """Draw a float64 for each address (shape (..., 2)); the parameters broadcast with (...).

    See Note [Addresses of rejection samplers].
    """
    given = (first, second, *more)
    shape = np.broadcast_shapes(*[p.shape for p in given], addresses.shape[:-1])
    rows = np.broadcast_to(addresses, (*shape, 2)).reshape(-1, 2)
    parameters = [np.broadcast_to(p, shape).reshape(-1) for p in given]
    result = np.empty(len(rows))
    with np.errstate(all="ignore"):
        for begin in range(0, len(rows), _BLOCKS_PER_CHUNK):
            piece = slice(begin, begin + _BLOCKS_PER_CHUNK)
            some = (p[piece].astype(np.float64) for p in parameters)
            result[piece] = REJECTION[kind](ARRAYS, _Elements(seed, rows[piece]), *some)
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
