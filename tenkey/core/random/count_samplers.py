"""Samplers of counts: Poisson, binomial, hypergeometric, logarithmic series and zeta.

The first argument holds the functions to compute with, as everywhere: Note [Samplers for arrays and tensors] in
``samplers``, which calls these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from .exact_functions import horner as _horner
from .exact_functions import open_unit

__all__ = ["COUNTS"]

_DEVIANCE_TERMS: Final = [1 / (2 * j + 1) for j in range(9, 0, -1)]


def _deviance(m: Any, k: Any, mean: Any) -> Any:
    """Return k log(k / mean) + mean - k for k > 0, without cancellation where k is near the mean."""
    v = (k - mean) / (k + mean)
    near = m.abs(v) < 0.1
    z = m.where(near, v * v, 0.0)
    series = (k - mean) * v + 2.0 * k * v * z * _horner(z, _DEVIANCE_TERMS)
    return m.where(near, series, k * m.safe_log(k / mean) + mean - k)


_LOG_TWO_PI: Final = 1.8378770664093453


def _poisson_log_probability(m: Any, k: Any, mean: Any) -> Any:
    positive = m.maximum(k, 1.0)
    usual = -m.stirling_error(positive) - _deviance(m, positive, mean) - 0.5 * (_LOG_TWO_PI + m.safe_log(positive))
    return m.where(k == 0.0, -mean, usual)


def _poisson(m: Any, elements: Any, mean: Any, _: Any) -> Any:
    """Draw by inversion below a mean of 10, above by W. Hörmann's PTRS ("The transformed rejection method", 1993)."""

    def small(chosen: Any) -> Any:
        rate = mean[chosen]
        u = open_unit(m, elements.bits(chosen, 0)[0])
        return m.by_inversion(u, m.exp(-rate), lambda index, k: rate[index] / k)

    def large(chosen: Any) -> Any:
        means, some = mean[chosen], elements[chosen]
        b = 0.931 + 2.53 * m.sqrt(means)
        a = -0.059 + 0.02483 * b
        inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
        fast = 0.9277 - 3.6224 / (b - 2.0)

        def attempt(index: Any, block: int) -> tuple[Any, Any]:
            low, high = some.bits(index, block)
            u, v = open_unit(m, low) - 0.5, open_unit(m, high)
            us = 0.5 - m.abs(u)
            a_, b_, mean_ = a[index], b[index], means[index]
            k = m.floor((2.0 * a_ / us + b_) * u + mean_ + 0.43)
            density = m.log(v) + m.safe_log(inverse_alpha[index]) - m.safe_log(a_ / (us * us) + b_)
            valid = (k >= 0.0) & ((us >= 0.013) | (v <= us))
            slow = valid & (density <= _poisson_log_probability(m, m.maximum(k, 0.0), mean_))
            return m.maximum(k, 0.0), ((us >= 0.07) & (v <= fast[index])) | slow

        return m.until_accepted(means, attempt)

    return m.fill(m.fill(m.zeros_like(mean), mean < 10.0, small), mean >= 10.0, large)


def _binomial_log_probability(m: Any, k: Any, n: Any, p: Any) -> Any:
    inside = m.minimum(m.maximum(k, 1.0), n - 1.0)
    rest = n - inside
    usual = m.stirling_error(n) - m.stirling_error(inside) - m.stirling_error(rest)
    usual = usual - _deviance(m, inside, n * p) - _deviance(m, rest, n * (1.0 - p))
    usual = usual + 0.5 * (m.safe_log(n / inside) - m.safe_log(rest) - _LOG_TWO_PI)
    return m.where(k <= 0.0, n * m.log1p(-p), m.where(k >= n, n * m.safe_log(p), usual))


def _binomial(m: Any, elements: Any, trials: Any, probability: Any) -> Any:
    """Draw by inversion below a mean of 10, above by BTRS (W. Hörmann, "The generation of binomial variates", 1993)."""
    flipped = probability > 0.5
    p_of = m.where(flipped, 1.0 - probability, probability)
    mean = trials * p_of

    def small(chosen: Any) -> Any:
        n, p = trials[chosen], p_of[chosen]
        odds = p / (1.0 - p)
        u = open_unit(m, elements.bits(chosen, 0)[0])
        first = m.exp(n * m.log1p(-p))
        counts = m.by_inversion(u, first, lambda index, k: m.maximum(n[index] - (k - 1), 0.0) / k * odds[index])
        return m.minimum(counts, n)

    def large(chosen: Any) -> Any:
        n, p, some = trials[chosen], p_of[chosen], elements[chosen]
        spread = m.sqrt(n * p * (1.0 - p))
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * p
        fast = 0.92 - 4.2 / b
        alpha = (2.83 + 5.1 / b) * spread
        mode = _binomial_log_probability(m, m.floor((n + 1.0) * p), n, p)

        def attempt(index: Any, block: int) -> tuple[Any, Any]:
            low, high = some.bits(index, block)
            u, v = open_unit(m, low) - 0.5, open_unit(m, high)
            us = 0.5 - m.abs(u)
            a_, b_, n_, p_ = a[index], b[index], n[index], p[index]
            k = m.floor((2.0 * a_ / us + b_) * u + n_ * p_ + 0.5)
            density = m.log(v) + m.safe_log(alpha[index]) - m.safe_log(a_ / (us * us) + b_)
            clipped = m.minimum(m.maximum(k, 0.0), n_)
            slow = (k == clipped) & (density <= _binomial_log_probability(m, clipped, n_, p_) - mode[index])
            return clipped, ((us >= 0.07) & (v <= fast[index])) | slow

        return m.until_accepted(n, attempt)

    result = m.fill(m.zeros_like(mean), (mean < 10.0) & (mean > 0.0), small)
    result = m.fill(result, mean >= 10.0, large)
    return m.where(flipped, trials - result, result)


def _hypergeometric_log_probability(m: Any, k: Any, few: Any, many: Any, n: Any) -> Any:
    """Return the logarithm of C(few, k) C(many, n - k) / C(few + many, n) from three binomial probabilities."""
    p = n / m.maximum(few + many, 1.0)
    return (
        _binomial_log_probability(m, k, few, p)
        + _binomial_log_probability(m, n - k, many, p)
        - _binomial_log_probability(m, n, few + many, p)
    )


def _hypergeometric(m: Any, elements: Any, good: Any, bad: Any, drawn: Any) -> Any:
    """Draw by inversion below a mean of 10, above by HRUA*, a ratio of uniforms.

    Source: E. Stadlober, "Ratio of uniforms as a convenient method for sampling from classical discrete distributions",
    1989. Both act on the rarer kind, and on the smaller of the sample and the rest.
    """
    total = good + bad
    few, many = m.minimum(good, bad), m.maximum(good, bad)
    n = m.minimum(drawn, total - drawn)
    share = few / m.maximum(total, 1.0)
    mean = n * share

    def small(chosen: Any) -> Any:
        few_, many_, n_ = few[chosen], many[chosen], n[chosen]
        first = m.exp(_hypergeometric_log_probability(m, m.zeros_like(n_), few_, many_, n_))

        def ratio(index: Any, k: int) -> Any:
            left = m.maximum(few_[index] - (k - 1), 0.0) * m.maximum(n_[index] - (k - 1), 0.0)
            return left / (k * (many_[index] - n_[index] + k))

        u = open_unit(m, elements.bits(chosen, 0)[0])
        return m.minimum(m.by_inversion(u, first, ratio), m.minimum(few_, n_))

    def large(chosen: Any) -> Any:
        few_, many_, n_, some = few[chosen], many[chosen], n[chosen], elements[chosen]
        size, p = few_ + many_, share[chosen]
        spread = m.sqrt(n_ * p * (1.0 - p) * (size - n_) / (size - 1.0) + 0.5)
        width = 2.0 * math.sqrt(2.0 / math.e) * spread + (3.0 - 2.0 * math.sqrt(3.0 / math.e))
        middle = mean[chosen] + 0.5
        end = m.minimum(m.minimum(n_, few_) + 1.0, m.floor(middle + 16.0 * spread))
        mode = m.floor((n_ + 1.0) * ((few_ + 1.0) / (size + 2.0)))
        best = _hypergeometric_log_probability(m, mode, few_, many_, n_)

        def attempt(index: Any, block: int) -> tuple[Any, Any]:
            low, high = some.bits(index, block)
            u, v = open_unit(m, low), open_unit(m, high)
            x = middle[index] + width[index] * (v - 0.5) / u
            inside = (x >= 0.0) & (x < end[index])
            k = m.floor(m.minimum(m.maximum(x, 0.0), end[index] - 1.0))
            density = _hypergeometric_log_probability(m, k, few_[index], many_[index], n_[index]) - best[index]
            return k, inside & (2.0 * m.log(u) <= density)

        return m.until_accepted(n_, attempt)

    result = m.fill(m.zeros_like(mean), (mean < 10.0) & (mean > 0.0), small)
    result = m.fill(result, mean >= 10.0, large)
    result = m.where(good > bad, n - result, result)
    return m.where(drawn > n, good - result, result)


def _logseries(m: Any, elements: Any, p: Any, _: Any) -> Any:
    """Draw with two uniform numbers.

    Source: A. W. Kemp, "Efficient generation of logarithmically distributed pseudo-random variables", 1981, method LK.
    """
    low, high = elements.bits(slice(None), 0)
    u, v = open_unit(m, low), open_unit(m, high)
    q = 1.0 - m.exp(u * m.log1p(-p))
    three = m.maximum(m.floor(1.0 + m.safe_log(v) / m.safe_log(m.minimum(q, 1.0 - 2.0**-53))), 1.0)
    return m.where((v >= p) | (v > q), 1.0, m.where(v > q * q, 2.0, three))


_LARGEST: Final = 63 * math.log(2.0)


def _expm1(m: Any, x: Any) -> Any:
    """Return exp(x) - 1 for x >= 0."""
    series = x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0 * (1.0 + x / 5.0))))
    return m.where(x < 1e-3, series, m.exp(x) - 1.0)


def _zipf(m: Any, elements: Any, a: Any, _: Any) -> Any:
    """Draw from the zeta distribution, restricted to numbers below 2**63.

    Source: L. Devroye, "Non-uniform random variate generation", 1986, section X.6.1.
    """
    less = m.minimum(a - 1.0, 1000.0)
    least = m.exp(less * -_LARGEST)
    base = _expm1(m, less * math.log(2.0))

    def attempt(index: Any, block: int) -> tuple[Any, Any]:
        low, high = elements.bits(index, block)
        less_, least_, base_ = less[index], least[index], base[index]
        u, v = least_ + (1.0 - least_) * open_unit(m, low), open_unit(m, high)
        x = m.maximum(m.floor(m.exp(-m.log(u) / less_)), 1.0)
        growth = _expm1(m, less_ * m.log1p(1.0 / x))
        return x, v * x * (growth / base_) <= (1.0 + growth) / (1.0 + base_)

    return m.until_accepted(a, attempt)


COUNTS: Final[dict[str, Callable[..., Any]]] = {
    "poisson": _poisson, "binomial": _binomial, "hypergeometric": _hypergeometric, "logseries": _logseries,
    "zipf": _zipf,
}  # fmt: skip
"""The samplers whose numbers are integers."""
