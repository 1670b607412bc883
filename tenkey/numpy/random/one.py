"""One or a few numbers of distributions that are drawn by rejection or computed from one number: a table.

A row states how many addresses a number has (``samplers``, Note [Addresses of rejection samplers]), which parameters
are valid, and how the number is computed, as the functions of ``tk.random`` do. Other parameters take the general way,
which raises the errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.random.one_number import exp_of_one, log1p_of_one, rejection_of_one
from ...core.random.samplers import BLOCKS_PER_ELEMENT
from .bit_generators import BitGenerator
from .few import NUMBERS, array_of, is_observed, shape_of_few, values_of

__all__ = ["one_multinomial", "one_number"]

_LARGEST: Final = 2.0**63 - 1024


class _Row(NamedTuple):
    source: int | str  # how many addresses a number has, or the kind of the number from which it is computed
    is_valid: Callable[..., bool]
    draw: Callable[..., Any]


def _positive(*parameters: float) -> bool:
    return all(0.0 < p < math.inf for p in parameters)


def _whole(x: float) -> int:
    return int(min(x, _LARGEST))


def _beta(take: Any, a: float, b: float) -> float:
    logs = [take("log_gamma", 0, a, 0.0), take("log_gamma", 1, b, 0.0)]
    one, other = (exp_of_one(x - max(logs)) for x in logs)
    return one / (one + other)


def _f(take: Any, above: float, below: float) -> float:
    ratio = exp_of_one(take("log_gamma", 0, above * 0.5, 0.0) - take("log_gamma", 1, below * 0.5, 0.0))
    return ratio * (below / above)


def _negative_binomial(take: Any, n: float, p: float) -> int:
    rate = take("gamma", 0, n, 0.0) * ((1.0 - p) / p)
    return _whole(take("poisson", 1, min(rate, 2.0**62), 0.0))


def _counts(*numbers: float) -> bool:
    return all(0 <= n < 2**53 and n == int(n) for n in numbers)


_ROWS: Final[dict[str, _Row]] = {
    "gamma": _Row(
        1, lambda a, scale: 0.0 < a < math.inf and 0.0 <= scale < math.inf,
        lambda take, a, scale: take("gamma", 0, a, 0.0) * scale,
    ),
    "chisquare": _Row(1, _positive, lambda take, df: take("gamma", 0, df * 0.5, 0.0) * 2.0),
    "standard_t": _Row(1, _positive, lambda take, df: take("standard_t", 0, df, 0.0)),
    "beta": _Row(2, _positive, _beta),
    "f": _Row(2, _positive, _f),
    "poisson": _Row(
        1, lambda lam: 0.0 <= lam <= 2.0**62, lambda take, lam: _whole(take("poisson", 0, lam, 0.0))
    ),
    "binomial": _Row(
        1, lambda n, p: 0 <= n < 2**53 and 0.0 <= p <= 1.0, lambda take, n, p: int(take("binomial", 0, int(n), p))
    ),
    "negative_binomial": _Row(
        2, lambda n, p: _positive(n) and 0.0 < p <= 1.0 and n * ((1.0 - p) / p) <= 2.0**62, _negative_binomial
    ),
    "zipf": _Row(1, lambda a: 1.0 < a < math.inf, lambda take, a: _whole(take("zipf", 0, a, 0.0))),
    "logseries": _Row(1, lambda p: 0.0 <= p < 1.0, lambda take, p: _whole(take("logseries", 0, p, 0.0))),
    "hypergeometric": _Row(
        1, lambda good, bad, n: _counts(good, bad, n) and n <= good + bad,
        lambda take, good, bad, n: int(take("hypergeometric", 0, good, bad, n)),
    ),
    "rayleigh": _Row(
        "exponential", lambda scale: 0.0 <= scale < math.inf, lambda x, scale: math.sqrt(x * 2.0) * scale
    ),
    "weibull": _Row("gumbel", _positive, lambda x, a: exp_of_one(-x / a)),
    "pareto": _Row("exponential", _positive, lambda x, a: exp_of_one(x / a) - 1.0),
    "power": _Row("exponential", _positive, lambda x, a: exp_of_one(-x / a)),
    "lognormal": _Row(
        "normal", lambda mean, sigma: -math.inf < mean < math.inf and 0.0 <= sigma < math.inf,
        lambda x, mean, sigma: exp_of_one(x * sigma + mean),
    ),
    "geometric": _Row(
        "exponential", lambda p: 0.0 < p <= 1.0,
        lambda x, p: max(1, math.ceil(min(x / -log1p_of_one(-p), _LARGEST))),
    ),
}  # fmt: skip


_FEW: Final = 16
"""With more numbers, the samplers on arrays are faster."""


def one_number(bits: BitGenerator, name: str, size: Any, *parameters: Any) -> Any:
    """Draw one or a few numbers of a row of the table, or return None where the general way is to be taken."""
    if is_observed():
        return None
    row = _ROWS[name]
    if size is None:
        for parameter in parameters:
            if parameter.__class__ not in NUMBERS:
                break
        else:
            if not row.is_valid(*parameters):
                return None
            return _drawn(bits, row, [parameters])[0]
    return _few_numbers(bits, row, size, [values_of(p) for p in parameters])


def _drawn(bits: BitGenerator, row: _Row, elements: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Draw a number for each tuple of parameters."""
    if isinstance(row.source, str):
        noise = bits.ahead(row.source, len(elements)).tolist()
        return [row.draw(x, *map(float, given)) for x, given in zip(noise, elements, strict=True)]
    stride = BLOCKS_PER_ELEMENT * row.source
    key, start = bits.generator.next_key(stride * len(elements))

    def taking(place: int) -> Callable[..., float]:
        """Return the function that draws from the addresses of one number."""
        return lambda kind, i, *given: rejection_of_one(kind, key, place + BLOCKS_PER_ELEMENT * i, *given)

    return [row.draw(taking(start + stride * i), *map(float, given)) for i, given in enumerate(elements)]


def _few_numbers(bits: BitGenerator, row: _Row, size: Any, parameters: list[Any]) -> Any:
    if any(p is None for p in parameters):
        return None
    shape = shape_of_few(size, *parameters)
    if shape is None or not 0 < math.prod(shape) <= _FEW:
        return None
    elements = list(zip(*[np.broadcast_to(p, shape).reshape(-1).tolist() for p in parameters], strict=True))
    if not all(row.is_valid(*given) for given in elements):
        return None
    drawn = _drawn(bits, row, elements)
    return array_of(np.array(drawn, np.float64 if drawn[0].__class__ is float else np.int64), shape)


def one_multinomial(bits: BitGenerator, n: Any, p: np.ndarray[Any, Any]) -> Any:
    """Draw as ``samplers.multinomial`` does, for one vector of probabilities."""
    if n.__class__ is not int or not 0 <= n < 2**53 or p.ndim != 1 or p.size > _FEW or not (p >= 0.0).all():
        return None
    if is_observed() or abs(p.sum() - 1.0) > 1e-9:
        return None
    remaining = np.cumsum(p[::-1])[::-1].tolist()
    key, start = bits.generator.next_key(BLOCKS_PER_ELEMENT * p.size)
    counts, left = [], float(n)
    for j, weight in enumerate(p.tolist()):
        share = min(max(weight / remaining[j], 0.0), 1.0) if remaining[j] > 0 else 0.0
        counts.append(rejection_of_one("binomial", key, start + BLOCKS_PER_ELEMENT * j, left, share))
        left -= counts[-1]
    return array_of(np.array(counts, np.int64), (p.size,))
