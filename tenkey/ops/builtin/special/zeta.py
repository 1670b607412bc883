"""The Hurwitz zeta function and derivatives of digamma, for arrays and tensors (Note [Formulas of several steps])."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

_BERNOULLI: Final = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
)  # fmt: skip
FACTORIALS: Final = 100  # the order up to which factorials and powers are in range


def _zeta_sum(order: Any, x: Any, power: Callable[[int], Any]) -> Any:
    """Return the sum of ``power(k)`` for k = 0, 1, ..., where ``power(k)`` is ``(x + k)**-order``, or a multiple of it.

    This is the Euler-Maclaurin formula (DLMF 25.11.43), for order > 1 and x > 0 in float64.
    """
    total: Any = 0.0
    for k in range(12):
        total = total + power(k)
    end, last = x + 12.0, power(12)
    total = total + end * last / (order - 1) + 0.5 * last
    factor = order * last / end
    for k, bernoulli in enumerate(_BERNOULLI):
        total = total + bernoulli / math.factorial(2 * k + 2) * factor
        factor = factor * (order + 2 * k + 1) * (order + 2 * k + 2) / (end * end)
    return total


def hurwitz_zeta(order: Any, x: Any) -> Any:
    """Return the sum of ``(x + k)**-order`` for k = 0, 1, ...; order > 1, x > 0, float64."""
    return _zeta_sum(order, x, lambda k: (x + float(k)) ** -order)


def _relative_zeta(order: Any, x: Any) -> Any:
    """Return ``hurwitz_zeta`` divided by its first term, ``x**-order``, which may be out of range."""
    return _zeta_sum(order, x, lambda k: (1 + k / x) ** -order)


def _between_poles(m: Any, x: Any, even: Any) -> list[tuple[Any, Any]]:
    """Split the sum of ``(x + k)**-order`` for k = 0, 1, ... into zeta functions of positive arguments, with signs.

    ``even``: 1.0 for an even order, else 0.0. An argument that does not count has the sign 0 and equals the first.
    """
    negative = x < 0
    if m.never(negative):
        return [(x, 1.0)]
    right = m.where(negative, x - m.floor(x), x)  # the distance to the next pole on this side
    cancels = negative & (right == 0.5) & (even == 0)
    first = m.where(cancels, 1 - x, right)
    turn = m.where(negative & ~cancels, 2.0 * even - 1.0, 0.0)
    there = turn != 0
    return [(first, 1.0), (m.where(there, 1 - right, first), turn), (m.where(there, 1 - x, first), -turn)]


def _signed_sum(m: Any, terms: Iterable[tuple[Any, Any]]) -> Any:
    """Return the sum of the terms times their signs; a term with sign 0 may be infinite."""
    return sum(term if turn.__class__ is float else m.where(turn == 0, 0.0, turn * term) for turn, term in terms)


def zeta(m: Any, x: Any, q: Any) -> Any:
    """Return the Hurwitz zeta function, for whole ``x`` also between the poles at 0, -1, -2, ...; of one shape."""
    x, q = m.double(x), m.double(q)
    whole = q == m.floor(q)
    poles = (x > 1) & (q <= 0) & whole
    found = m.where(((x == 1) & ~m.isnan(q)) | poles, math.inf, m.full_like(x, math.nan))
    inside = (x > 1) & ((q > 0) | ((x == m.floor(x)) & (q < 0) & ~poles))

    def beyond(order: Any, at: Any) -> Any:
        even = m.where(order % 2 == 1, 0.0, 1.0)  # infinity counts as even
        order = m.where(order > 1e4, 10001.0 - even, order)  # large enough to count as infinite
        parts = _between_poles(m, at, even)
        value = _signed_sum(m, [(turn, hurwitz_zeta(order, start)) for start, turn in parts])
        # where powers overflow, the nearest pole decides
        nearest = m.where((at < 0) & (even == 0) & (at - m.floor(at) > 0.5), -math.inf, math.inf)
        value = m.where(m.isnan(value), nearest, value)
        return m.where(m.isinf(at), 0.0, value)

    return m.fill(found, inside, beyond, (x, 2.0), (q, 1.0))


# ---- derivatives of digamma


def polygamma(m: Any, n: int, x: Any) -> Any:
    """Return the n-th derivative of ``digamma``: (-1)^(n+1) n! times the sum of (x + k)^-(n+1) over k >= 0.

    For negative x = -N + f, the poles on one side of x give a zeta function of f, the N on the other side that of 1 - f
    less that of 1 - x; at half-integers and even n the first two cancel exactly. Beyond order 100, factorial and powers
    may leave the range of double precision although the result does not: there the largest term is factored out, by
    logarithms. Guarded by ``test_polygamma_of_high_order_and_negative_numbers``.
    """
    x = m.double(x)
    if n == 0:
        return digamma(m, x)
    odd = float(n % 2)
    if n <= FACTORIALS:
        return _by_powers(m, float(n + 1), odd, x, float(math.factorial(n)))
    return _by_logarithms(m, float(n + 1), odd, x, math.lgamma(n + 1))


def polygamma_each(m: Any, n: Any, x: Any, gamma: Any, gammaln: Any) -> Any:
    """Return ``polygamma`` for an order for each element, with functions for factorials; nan for negative orders."""
    odd, n, x = m.double(n % 2), m.double(n), m.double(x)
    found = m.fill(m.full_like(x, math.nan), n == 0, lambda x: digamma(m, x), (x, 1.0))
    few, many = (n >= 1) & (n <= FACTORIALS), n > FACTORIALS

    def low(n: Any, odd: Any, x: Any) -> Any:
        return _by_powers(m, n + 1, odd, x, gamma(n + 1))

    def high(n: Any, odd: Any, x: Any) -> Any:
        return _by_logarithms(m, n + 1, odd, x, gammaln(n + 1))

    found = m.fill(found, few, low, (n, 1.0), (odd, 1.0), (x, 1.0))
    return m.fill(found, many, high, (n, 200.0), (odd, 0.0), (x, 1.0))


def _by_powers(m: Any, order: Any, odd: Any, x: Any, factorial: Any) -> Any:
    parts = _between_poles(m, m.where(_pole(m, x), 0.5, x), odd)
    found = factorial * _signed_sum(m, [(turn, hurwitz_zeta(order, at)) for at, turn in parts])
    return _at_poles(m, odd, x, found)


def _by_logarithms(m: Any, order: Any, odd: Any, x: Any, log_factorial: Any) -> Any:
    parts = _between_poles(m, m.where(_pole(m, x), 0.5, x), odd)
    first = m.minimum(parts[0][0], parts[len(parts) // 2][0])
    total = _signed_sum(m, [(turn, (first / at) ** order * _relative_zeta(order, at)) for at, turn in parts])
    size = log_factorial - order * m.log(first) + m.log(m.abs(total))
    return _at_poles(m, odd, x, m.sign(total) * m.exp(size))


def _pole(m: Any, x: Any) -> Any:
    return (x <= 0) & (x == m.floor(x))


def _at_poles(m: Any, odd: Any, x: Any, found: Any) -> Any:
    """Return the value with its sign, and those at the poles and at infinity; ``odd`` is 1.0 or 0.0."""
    return (2 * odd - 1) * m.where(_pole(m, x), math.inf, m.where(x == math.inf, 0.0, found))


def digamma(m: Any, x: Any) -> Any:
    """Return ``digamma`` of float64 numbers."""
    negative = x <= 0
    size = m.where(negative, 1 - x, x)
    total: Any = 0.0
    for _ in range(10):
        total = total - 1 / size
        size = size + 1.0
    z = 1 / (size * size)
    series: Any = 0.0
    for k in reversed(range(8)):
        series = z * (_BERNOULLI[k] / (2 * k + 2) + series)
    found = total + m.log(size) - 0.5 / size - series
    distance = x - m.round(x)
    mirrored = found - math.pi / m.tan(math.pi * distance)
    mirrored = m.where(distance == 0, math.nan, mirrored)
    mirrored = m.where(x == 0, m.copysign(math.inf, -x), mirrored)
    return m.where(negative, mirrored, found)
