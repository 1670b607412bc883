"""Prices of options by simulation: a European call beside the formula of Black and Scholes, and an Asian call."""

import math
from typing import Any

import numpy as np


def formula(spot: float, strike: float, rate: float, volatility: float, years: float) -> float:
    """Return the price of a European call."""
    deviation = volatility * math.sqrt(years)
    high = (math.log(spot / strike) + (rate + volatility**2 / 2) * years) / deviation

    def normal(x: float) -> float:
        return 0.5 * (1 + math.erf(x / math.sqrt(2)))

    return spot * normal(high) - strike * math.exp(-rate * years) * normal(high - deviation)


def main() -> Any:
    """Return the error of the European price in standard errors, within limits, and the Asian price, rounded."""
    spot, strike, rate, volatility, years = 100.0, 105.0, 0.03, 0.25, 1.0
    paths, steps = 20_000, 50
    rng = np.random.default_rng(2024)
    dt = years / steps
    moves = rng.standard_normal((paths // 2, steps))
    moves = np.concatenate([moves, -moves])
    logs = np.cumsum((rate - volatility**2 / 2) * dt + volatility * np.sqrt(dt) * moves, axis=1)
    prices = spot * np.exp(logs)
    discount = np.exp(-rate * years)
    payoffs = discount * np.maximum(prices[:, -1] - strike, 0)
    pairs = 0.5 * (payoffs[: paths // 2] + payoffs[paths // 2 :])
    price, error = pairs.mean(), pairs.std(ddof=1) / np.sqrt(len(pairs))
    asian = discount * np.clip(prices.mean(axis=1) - strike, 0, None)
    below = np.percentile(prices.min(axis=1), [5, 50, 95])
    wrong = abs(price - formula(spot, strike, rate, volatility, years)) / error
    return wrong < 4, np.round(asian.mean() / 4), np.round(below / 10)


if __name__ == "__main__":
    print(*main())
