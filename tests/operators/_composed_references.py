"""References of operators that NumPy has with another signature, or only as a combination of functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

__all__ = ["COMPOSED_REFERENCES"]

Array = np.ndarray[Any, Any]


def _clip(x: Array, min: Any = None, max: Any = None) -> Any:
    return np.clip(x, -np.inf if min is None else min, np.inf if max is None else max)


def _diff(x: Array, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    x = np.concatenate([part for part in (prepend, x, append) if part is not None], axis)
    return np.diff(x, n, axis)


def _gradient(x: Array, spacing: Any = 1.0, places: Any = None, axis: Any = None, edge_order: int = 1) -> Any:
    function: Any = np.gradient
    if places is not None:
        return function(x, places, axis=axis, edge_order=edge_order)
    distances = spacing if isinstance(spacing, (tuple, list)) else (spacing,)
    return np.asarray(function(x, *distances, axis=axis, edge_order=edge_order))


def _cumulative(accumulate: Any, identity: int) -> Callable[..., Any]:
    def reference(x: Array, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
        wanted = dtype or {"b": np.int64, "i": np.int64, "u": np.uint64}.get(x.dtype.kind, x.dtype)
        i = 0 if axis is None else axis % x.ndim
        first = np.full((*x.shape[:i], 1, *x.shape[i + 1 :]), identity, wanted)
        found = accumulate(x, axis=i, dtype=wanted)
        return np.concatenate([first, found], i) if include_initial else found

    return reference


def _recurrence(a: Array, b: Array, axis: int, reverse: bool) -> Array:
    a, y = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0).copy()
    for i in range(len(y) - 2, -1, -1) if reverse else range(1, len(y)):
        y[i] += a[i] * y[i + 1] if reverse else a[i - 1] * y[i - 1]
    return np.moveaxis(y, 0, axis)


def _order_statistics(x: Array, k: Array, skip_nan: bool = False) -> Array:
    return np.sort(x, -1)[..., k] if k.ndim == 1 else np.take_along_axis(np.sort(x, -1), k, -1)


def _cov(x: Array, y: Any = None, *, rowvar: bool = True, ddof: Any = None, **options: Any) -> Any:
    correction = options.pop("correction", None)
    correction = ddof if correction is None else correction
    return np.cov(x, y, rowvar, ddof=None if correction is None else int(correction), **options)


def _without_bools(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind == "b" else x


def _bin_edges(x: Array, *args: Any, **options: Any) -> Array:
    return np.histogram_bin_edges(_without_bools(x), *args, **options)


def _histogram(x: Array, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False) -> Any:
    return np.histogram(_without_bools(x), bins, range, density, weights)


def _histogram2d(x: Array, y: Array, bins: Any) -> Any:
    counts, *edges = np.histogram2d(x, y, bins)
    return counts.astype(np.int64), *edges


def _counts_on_grid(coordinates: Sequence[Array], edges: Sequence[Array]) -> Array:
    points, grid = [[x * 1 for x in xs] for xs in (coordinates, edges)]  # no bools
    return np.histogramdd(np.stack(points, 1), grid)[0].astype(np.int64)


def _bins_of(x: Array, edges: Array) -> Array:
    bins = np.minimum((x[..., None] >= edges).sum(-1) - 1, len(edges) - 2)
    return np.where((x < edges[0]) | (x > edges[-1]), -1, bins)


def _bincount(x: Array, weights: Array, minlength: int = 0) -> Array:
    return np.stack([weights[x == k].sum() for k in range(max(minlength, x.max() + 1))])


def _pad(x: Array, pad_width: Any, **options: Any) -> Array:
    return np.pad(x, pad_width, **options) if x.ndim else x.copy()


def _pad_constant(x: Array, before: Sequence[int], after: Sequence[int], values: Sequence[Any]) -> Array:
    pairs = [(values[2 * i], values[2 * i + 1]) for i in range(x.ndim)]
    return _pad(x, list(zip(before, after, strict=True)), constant_values=pairs or 0)


COMPOSED_REFERENCES: Final[Mapping[str, Callable[..., Any]]] = {
    "gcd_of": np.gcd,
    "lcm_of": np.lcm,
    "clip": _clip,
    "diff": _diff,
    "gradient_on_grid": _gradient,
    "cumulative_sum": _cumulative(np.cumsum, 0),
    "cumulative_prod": _cumulative(np.cumprod, 1),
    "linear_recurrence": _recurrence,
    "order_statistics": _order_statistics,
    "cov": _cov,
    "average_and_weights": lambda x, **options: np.average(x, returned=True, **options),
    "convolve_full": np.convolve,
    "interval_of": lambda x, edges: np.clip((x[..., None] >= edges).sum(-1) - 1, 0, max(len(edges) - 2, 0)),
    "even_edges": np.histogram_bin_edges,
    "estimated_edges": np.histogram_bin_edges,
    "ascending": np.copy,
    "histogram_bin_edges": _bin_edges,
    "histogram": _histogram,
    "histogram2d": _histogram2d,
    "counts_on_grid": _counts_on_grid,
    "bins_of": _bins_of,
    "bin_sums": lambda indices, weights, n: np.stack([weights[indices == k].sum() for k in range(n)]),
    "bincount": _bincount,
    "pad": _pad,
    "pad_constant": _pad_constant,
    "split_at": lambda x, places, axis=0: tuple(np.split(x, places, axis)),
    "meshgrid_of": lambda arrays, indexing="xy": tuple(np.meshgrid(*arrays, indexing=indexing)),
    "repeat_indices": lambda repeats: np.repeat(np.arange(len(repeats)), repeats),
    "repeat_each": np.repeat,
}
