"""The number of bins of a histogram by the rules of ``numpy.histogram_bin_edges``, for tensors on any device."""

from __future__ import annotations

import builtins
import math
from typing import Any, Final

import numpy as np

from ....core.dtypes.names import float32
from ....core.tensor import Tensor
from ..creation import linspace
from ..elementwise.arithmetic import abs
from ..elementwise.comparison import greater_equal, less_equal, logical_and
from ..indexing.advanced_indexing import index
from ..reductions.quantiles import quantile
from ..reductions.reduction import mean, sum
from ..reductions.statistics import std
from ..shape.copying import as_dtype, concat
from ..shape.views import reshape, slice
from .histogram import bin_sums, bins_of, check_range, even_edges, extremes

_MOST: Final = 100  # the rule of Stone compares histograms with at least up to this many bins


def edges_by_rule(x: Tensor, rule: str, range: Any, whole: bool) -> Tensor:
    """Return edges of equal width; ``whole`` says that the values are integers, whose bins are at least 1 wide."""
    x = reshape(as_dtype(x, float32) if x.dtype.itemsize == 2 else x, (-1,))
    low, high = (0.0, 1.0) if range is None else range
    if range is None and x.size:
        low, high = extremes(x)
        check_range((low, high))
    low, high = (low, high) if low != high else (low - 0.5, high + 0.5)
    if range is not None:
        x = index(x, [logical_and(greater_equal(x, low), less_equal(x, high))])
    width = _width(x, rule, low, high) if x.size else 0.0
    if whole and width:
        width = max(width, 1.0)
    count = math.ceil((high - low) / width) if width else 1
    edges = linspace(low, high, count + 1, dtype=x.dtype, device=x.device)
    if greater_equal(slice(edges, 0, 0, count, 1), slice(edges, 0, 1, count + 1, 1)).any():
        raise ValueError(
            f"[histogram] {count} bins between {low} and {high} are too narrow for {x.dtype}: give a number of bins."
        )
    return edges


def _width(x: Tensor, rule: str, low: float, high: float) -> float:
    """Return the width of the bins, 0 for a single one."""
    n = x.size
    # the difference in the dtype of the values, as in NumPy
    least, most = extremes(x)
    spread = float(np.subtract(most, least, dtype=x.dtype))
    if rule == "stone":
        return _by_loss(x, spread, low, high)
    if rule == "doane":
        return _by_skewness(x, spread)
    if rule == "scott":
        return math.cbrt(24.0 * math.pi**0.5 / n) * float(std(x))
    sturges, square_root = spread / (math.log2(n) + 1), spread / math.sqrt(n)
    if rule in ("sturges", "sqrt", "rice"):
        return {"sturges": sturges, "sqrt": square_root, "rice": spread / (2 * math.cbrt(n))}[rule]
    ends: list[float] = quantile(x, linspace(0.25, 0.75, 2, dtype=x.dtype, device=x.device)).tolist()
    quartiles = 2 * (ends[1] - ends[0]) / math.cbrt(n)
    return quartiles if rule == "fd" else min(max(quartiles, square_root / 2), sturges)


def _by_skewness(x: Tensor, spread: float) -> float:
    n = x.size
    deviation = std(x)
    if n <= 2 or not float(deviation):
        return 0.0
    scaled = (x - mean(x)) / deviation
    skewness = float(abs(mean(scaled * scaled * scaled)))
    expected = math.sqrt(6 * (n - 2) / ((n + 1) * (n + 3)))
    return spread / (1 + math.log2(n) + math.log2(1 + skewness / expected))


def _by_loss(x: Tensor, spread: float, low: float, high: float) -> float:
    """Compare the estimated losses of all numbers of bins; only these are read from the device."""
    n = x.size
    if n <= 1 or not spread:
        return 0.0
    most = max(_MOST, math.isqrt(n))
    squares = []
    for bins in builtins.range(1, most + 1):
        counts = bin_sums(bins_of(x, even_edges(x, bins, (low, high))), None, bins)
        squares.append(reshape(sum(counts * counts), (1,)))
    losses = [(2 - (n + 1) * s / n**2) * k / spread for k, s in enumerate(concat(squares).tolist(), 1)]
    return spread / (losses.index(min(losses)) + 1)
