"""The incomplete gamma and beta functions by quadrature, for arrays and tensors (Note [Formulas of several steps])."""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np

from . import coefficients as c
from .coefficients import STIRLING
from .series import horner, power_series
from .zeta import hurwitz_zeta

# Note [Incomplete functions by quadrature]
#     With t = a exp(v) the density of the gamma distribution is F(a) exp(-a (exp(v) - 1 - v)), where F(a) is
#     a^a exp(-a) / Gamma(a), and with t = logistic(log(a / b) + d) that of the beta distribution is
#     F(a) F(b) / F(a + b) exp(-(a + b) K(d)), where K is the cumulant function of a coin without its mean. Both
#     exponents are convex and 0 at the mode, and are computed without cancellation. The tail away from the mode is
#     integrated by Gauss's rule up to where it is e^-45 of its start; the other side is 1 minus it. A small parameter
#     of the tail is raised by a recurrence with positive terms (DLMF 8.8.5, 8.17.20), so that the rule resolves it.
#     Guarded by tests/ops/test_special.py::test_incomplete_functions.
_RAISED: Final = 8
_INVERSE_FACTORIALS: Final = [1 / math.factorial(k) for k in range(2, 17)]
_INVERSES: Final = [1 / k for k in range(3, 38, 2)]


@functools.cache
def _rule() -> tuple[Any, Any]:
    nodes, weights = np.polynomial.legendre.leggauss(64)
    return (nodes + 1) / 2, weights / 2


def _integral(m: Any, function: Any, begin: Any, end: Any) -> Any:
    length = end - begin
    return m.weighted_sum(function, begin, length, *_rule()) * length


def _power_rest(m: Any, v: Any) -> Any:
    """Return ``exp(v) - 1 - v``."""
    near = m.abs(v) < 0.5
    small = m.where(near, v, 0.0)
    series = power_series(float, _INVERSE_FACTORIALS, small)
    return m.where(near, series * small * small, m.expm1(v) - v)


def _log_rest(m: Any, y: Any) -> Any:
    """Return ``y - log(1 + y)``."""
    near = m.abs(y) < 0.5
    r = m.where(near, y / (2 + y), 0.0)
    square = r * r
    series = power_series(float, _INVERSES, square)
    return m.where(near, r * (y - 2 * square * series), y - m.log1p(y))


def _scale(m: Any, a: Any) -> Any:
    """Return ``a**a * exp(-a) / gamma(a)``, for a > 0."""
    low = a < 16
    small = m.where(low, a, 1.0)
    whole = m.floor(small)
    gamma = horner(float, c.GAMMA, 2 * (small - whole) - 1)  # of 1 + the fraction
    for k in range(1, 16):
        gamma = m.where(whole > k, gamma * (small - k), gamma)
    gamma = m.where(whole == 0, gamma / small, gamma)
    inverse = 1 / m.where(low, 16.0, a)
    rest = inverse * horner(float, STIRLING, inverse * inverse)
    return m.where(low, small**small * m.exp(-small) / gamma, m.sqrt(a / (2 * math.pi)) * m.exp(-rest))


def _lgamma1p(m: Any, a: Any) -> Any:
    """Return ``log(gamma(1 + a))`` for a in [0, 1], accurate near 0 (DLMF 5.7.3)."""
    return power_series(float, _zetas(), -a) * a * a + a * (1 - np.euler_gamma) - m.log1p(a)


@functools.cache
def _zetas() -> list[float]:
    return [float(hurwitz_zeta(float(k), 2.0)) / k for k in range(2, 57)]


def _lower_tail(m: Any, a: Any, x: Any) -> Any:
    """Return P(a, x) for x < a."""
    total: Any = 0.0
    raised = a < _RAISED
    term = _scale(m, a) * m.exp(-a * _power_rest(m, _log_ratio(m, x, a))) / a
    for k in range(1, _RAISED + 1):
        total = m.where(raised, total + term, total)
        term = term * x / (a + k)
    a = m.where(raised, a + _RAISED, a)
    v = _log_ratio(m, x, a)
    level = _power_rest(m, v) + 45 / a
    end = -(m.sqrt(2 * level) + level)
    return total + _scale(m, a) * _integral(m, lambda s: m.exp(-a * _power_rest(m, s)), end, v)


def _log_ratio(m: Any, x: Any, a: Any) -> Any:
    return m.where(m.abs(x - a) < 0.5 * a, m.log1p((x - a) / a), m.log(x / a))


def _upper_tail(m: Any, a: Any, x: Any) -> Any:
    """Return Q(a, x) for x >= a and x >= 1."""
    v = _log_ratio(m, x, a)
    level = _power_rest(m, v) + 45 / a
    end = m.log1p(level + m.sqrt(2 * level))
    return _scale(m, a) * _integral(m, lambda s: m.exp(-a * _power_rest(m, s)), v, end)


def _small(m: Any, a: Any, x: Any, upper: bool) -> Any:
    """Return Q(a, x) or P(a, x) for a < 1 and x < 1 (DLMF 8.7.1)."""
    series: Any = 0.0
    for k in range(20, 0, -1):
        series = (series + (-1) ** k / math.factorial(k) / (a + k)) * x
    logarithm = a * m.log(x) - _lgamma1p(m, a)
    power = m.exp(logarithm)
    return -m.expm1(logarithm) - a * power * series if upper else power * (1 + a * series)


def gamma_tails(m: Any, a: Any, x: Any, upper: bool) -> Any:
    """Return Q(a, x) or P(a, x): float64, of one shape."""
    a, x = m.double(a), m.double(x)
    found = m.full_like(x, math.nan)
    at_zero, at_one = ((a > 0) & (x == 0)) | ((a == math.inf) & (x >= 0) & (x < math.inf)), (a == 0) & (x > 0)
    at_one = at_one | ((a >= 0) & (x == math.inf) & (a < math.inf))
    found = m.where(at_zero, float(upper), m.where(at_one, float(not upper), found))
    inside = (a > 0) & (x > 0) & (a < math.inf) & (x < math.inf)
    small = inside & (a < 1) & (x < 1)
    left = inside & ~small & (x < a)
    right = inside & ~small & (x >= a)

    def below(a: Any, x: Any) -> Any:
        tail = _lower_tail(m, a, x)
        return 1 - tail if upper else tail

    def above(a: Any, x: Any) -> Any:
        tail = _upper_tail(m, a, x)
        return tail if upper else 1 - tail

    found = m.fill(found, small, lambda a, x: _small(m, a, x, upper), (a, 0.5), (x, 0.5))
    found = m.fill(found, left, below, (a, 2.0), (x, 1.0))
    return m.fill(found, right, above, (a, 2.0), (x, 4.0))


def _beta_tail(m: Any, a: Any, b: Any, d: Any, x: Any) -> Any:
    """Return the beta distribution function at x, at the distance d <= 0 from the mode in logistic scale."""

    def exponent(a: Any, d: Any) -> Any:
        """Return -(a + b) K(d), computed with the smaller of the two probabilities."""
        p = a / (a + b)
        swap = p > 0.5
        p, d = m.where(swap, b / (a + b), p), m.where(swap, -d, d)
        y = p * m.expm1(d)
        near = m.abs(d) < 1
        exact = p * _power_rest(m, m.where(near, d, 0.0)) - _log_rest(m, m.where(near, y, 0.0))
        high = d > 30
        away = m.where(high, d + m.log(p), m.log1p(m.where(high, 0.0, y))) - p * d
        return -(a + b) * m.where(near, exact, away)

    def scale(a: Any) -> Any:
        return _scale(m, a) * (_scale(m, b) / _scale(m, a + b))

    total: Any = 0.0
    raised = a < _RAISED
    term = scale(a) * m.exp(exponent(a, d)) / a
    for k in range(1, _RAISED + 1):
        total = m.where(raised, total + term, total)
        term = term * x * ((a + b + k - 1) / (a + k))
    higher = m.where(raised, a + _RAISED, a)
    d = m.where(raised, d - m.log1p(_RAISED / a), d)
    a = higher
    start = exponent(a, d)
    reach = 45 / a  # the slope of the exponent is at most a
    near = a > 0
    while near.any():
        near = start - exponent(a, d - reach) < 45
        reach = m.where(near, reach * 2, reach)
    low = reach / 2
    for _ in range(3):
        middle = (low + reach) / 2
        enough = start - exponent(a, d - middle) >= 45
        low, reach = m.where(enough, low, middle), m.where(enough, middle, reach)
    return total + scale(a) * _integral(m, lambda s: m.exp(exponent(a, s)), d - reach, d)


def beta_below(m: Any, a: Any, b: Any, x: Any, rest: Any) -> Any:
    """Return the beta distribution function at x; ``rest`` is 1 - x, without rounding if it is known. Of one shape."""
    at_zero, at_one = (a == 0) | (b == math.inf), (b == 0) | (a == math.inf)  # where the whole probability may be
    within = (x >= 0) & (rest >= 0) & (a >= 0) & (b >= 0) & ~(at_zero & at_one)
    zero = within & ((x == 0) | ((rest > 0) & at_one))
    one = within & ((rest == 0) | ((x > 0) & at_zero))
    found = m.where(zero, 0.0, m.where(one, 1.0, m.full_like(x, math.nan)))
    inside = within & (x > 0) & (rest > 0) & ~at_zero & ~at_one

    def between(a: Any, b: Any, x: Any, rest: Any) -> Any:
        distance = x * b - rest * a
        close = m.abs(distance) < 0.5 * rest * a
        d = m.where(close, m.log1p(m.where(close, distance / (rest * a), 0.0)), m.log(x / rest) - m.log(a / b))
        left = d <= 0
        lower, other, at = m.where(left, a, b), m.where(left, b, a), m.where(left, x, rest)
        tail = _beta_tail(m, lower, other, -m.abs(d), at)
        return m.where(left, tail, 1 - tail)

    return m.fill(found, inside, between, (a, 1.0), (b, 1.0), (x, 0.5), (rest, 0.5))


def beta_tails(m: Any, a: Any, b: Any, x: Any, upper: bool) -> Any:
    """Return the probability above x, or below it, of the beta distribution: float64, of one shape."""
    a, b, x = m.double(a), m.double(b), m.double(x)
    return beta_below(m, b, a, 1 - x, x) if upper else beta_below(m, a, b, x, 1 - x)
