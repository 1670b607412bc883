"""The evaluation of polynomials in scalar expressions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from ... import scalar as s

__all__ = ["horner", "power_series"]

_SHORT: Final = 2.0**-29  # of the polynomial's size: what float32 does not notice


def horner(T: Any, coefficients: Sequence[float], t: Any) -> Any:
    """Return the scalar expression of the polynomial with these coefficients, lowest power first, for t in [-1, 1].

    float32 and shorter dtypes take a polynomial of a lower degree.
    """
    total = power_series(T, coefficients, t)
    eps = getattr(T, "eps", None)
    if eps is None:
        return total
    return s.where(eps > 1e-10, power_series(T, _economised(tuple(coefficients)), t), total)


def power_series(T: Any, coefficients: Sequence[float], t: Any) -> Any:
    """Return the scalar expression of the polynomial with these coefficients, lowest power first, for any t."""
    total = T(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * t + coefficient
    return total


@cache
def _economised(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    """Return the coefficients without the last terms of the series of Chebyshev polynomials, in plain powers again."""
    from fractions import Fraction  # with decimal and numbers, which nothing else imports

    series = [Fraction(0)] * len(coefficients)
    for coefficient in reversed(coefficients):  # series * t + coefficient, by t T(k) = (T(k - 1) + T(k + 1)) / 2
        shifted = [Fraction(0)] * len(series)
        for k, term in enumerate(series[:-1]):
            shifted[k + 1] += term / 2 if k else term
            if k:
                shifted[k - 1] += term / 2
        series = shifted
        series[0] += Fraction(coefficient)
    budget = Fraction(_SHORT) * max(map(abs, series))
    while len(series) > 1 and abs(series[-1]) <= budget:
        budget -= abs(series.pop())
    powers = [Fraction(0)] * len(series)
    below, current = [Fraction(0)] * len(series), [Fraction(1)] + [Fraction(0)] * (len(series) - 1)
    for k, term in enumerate(series):
        powers = [a + term * b for a, b in zip(powers, current)]
        following = [(1 if k == 0 else 2) * b for b in [Fraction(0), *current[:-1]]]
        below, current = current, [a - b for a, b in zip(following, below)] if k else following
    return tuple(map(float, powers))
