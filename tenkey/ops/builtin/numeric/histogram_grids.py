"""Histograms in several dimensions, and bins whose number depends on the values."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ....core.device import META
from ....core.dtypes.names import float64
from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ...declare import Decomposition, Entry, TensorSpec, composite, internal, internal_composite, loop
from ..elementwise.comparison import greater_equal, logical_and, where
from ..elementwise.complex import refuse_complex
from ..reductions.reduction import sum
from ..shape.copying import as_dtype, cast
from ..shape.views import along_axis, reshape
from .bin_rules import edges_by_rule
from .histogram import (
    bin_sums,
    bins_of,
    check_floats,
    check_range,
    check_weights,
    density_of,
    even_of,
    range_of,
    shown_edges,
    widths_of,
)

_METHODS: Final = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")

# ---- the number of bins from the values


def _estimated_meta(x: Any, bins: str, range: Any = None, whole: bool = False) -> TensorSpec:
    check_floats(x)
    if bins not in _METHODS:
        raise ValueError(
            f"[histogram] there is no method {bins!r} to choose bins: use one of {', '.join(_METHODS)}, or a number."
        )
    check_range(range)
    if getattr(x, "device", None) is META:
        raise NotImplementedError(
            f"[histogram] bins={bins!r} depends on the values, and a meta tensor has none: give a number."
        )
    return TensorSpec((2,), x.dtype)


def _estimated_on_numpy(x: Any, bins: str, range: Any = None, whole: bool = False) -> Any:
    dtype = x.dtype
    if dtype.kind == "V":
        x = x.astype(np.float32)
    if range is None and x.size:
        range_of(x)
    if whole:  # bins of integers are at least 1 wide
        x = x.astype(np.int64 if x.size and x.min() < 0 else np.uint64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # method "stone" may warn about its choice
        return np.histogram_bin_edges(x, bins, range).astype(dtype)


def _estimated_parts(x: Tensor, bins: str, range: Any = None, whole: bool = False) -> Tensor:
    dtype = _estimated_meta(x, bins, range, whole).dtype
    return as_dtype(edges_by_rule(x, bins, range, whole), dtype)


estimated_edges: Entry = internal(
    "estimated_edges(Tensor x, str bins, float[]? range=None, bool whole=False) -> Tensor",
    meta=_estimated_meta,
    numpy=_estimated_on_numpy,
    decomposition=Decomposition(_estimated_parts, needs=("reduction", "gather", "scatter", "scan", "sort")),
    sample_inputs=lambda rng: [
        *[((rng.standard_normal((5, 8)), way), {}) for way in _METHODS],
        ((rng.standard_normal(40), "fd", (-1.0, 1.0)), {}),
        ((rng.standard_normal(0), "auto"), {}),
        ((np.full(3, 2.0), "scott"), {}),
    ],
    batch=loop,
    tags=(Tag.DATA_DEPENDENT_OUTPUT,),
    doc="Return the edges of bins of equal width, whose number a rule of thumb derives from the values, floats.",
)

# ---- in several dimensions


def _grid_samples(rng: np.random.Generator) -> Any:
    edges = [np.array([0.0, 1.0, 2.5, 3.0]), np.array([1.0, 2.0]), np.array([0.5, 1.5, 2.5])]
    points = [rng.uniform(0, 3, 9) for _ in edges]
    return [((points, edges), {}), ((points[:1], edges[:1]), {}), (([np.zeros(0)] * 2, edges[:2]), {})]


@internal_composite(
    "counts_on_grid(Tensor[] coordinates, Tensor[] edges, *, Tensor? weights=None, bool density=False) -> Tensor",
    differentiable=False,
    sample_inputs=_grid_samples,
)
def counts_on_grid(
    coordinates: Sequence[Tensor], edges: Sequence[Tensor], *, weights: Tensor | None = None, density: bool = False
) -> Tensor:
    """Count the points in each bin of a grid, given their coordinates and the edges along each dimension."""
    for x in coordinates:
        refuse_complex("histogramdd", x.dtype)
    check_weights("histogramdd", weights, coordinates[0].shape)
    shape = tuple([edge.shape[0] - 1 for edge in edges])
    if min(shape, default=0) < 0:
        raise ValueError("[histogramdd] got no edges for a dimension: it needs at least two.")
    place: Any = 0
    inside: Any = None
    for at, n in zip(map(bins_of, coordinates, edges), shape):
        within = greater_equal(at, 0)
        inside = within if inside is None else logical_and(inside, within)
        place = place * n + at
    counts = reshape(bin_sums(where(inside, place, -1), weights, math.prod(shape)), shape)
    if density:
        dtype = edges[0].dtype if edges[0].dtype.kind == "f" else float64
        counts = counts if counts.dtype.kind in "fc" else cast(counts, dtype)
        counts = counts / sum(counts)
        for i, edge in enumerate(edges):
            counts = counts / along_axis(cast(widths_of(edge), counts.dtype), i, len(shape))
    return counts


@composite(
    "histogram2d(Tensor x, Tensor y, int[2] bins=10, *, float[2][]? range=None, Tensor? weights=None,"
    " bool density=False) -> (Tensor hist, Tensor x_edges, Tensor y_edges)",
    differentiable=False,
    sample_inputs=lambda rng: [((rng.uniform(1, 4, 7), rng.uniform(1, 4, 7), (2, 3)), {})],
)
def histogram2d(
    x: Tensor,
    y: Tensor,
    bins: Sequence[int] = (10, 10),
    *,
    range: Sequence[Sequence[float]] | None = None,
    weights: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Count the points ``(x, y)`` in each bin of a grid, and return the counts and the edges along both axes.

    Args: x, y: vectors of one length. bins: the number of bins along both, or along each. range: lowest and highest
    edge along each. weights, density: as in ``tk.histogram``.

    >>> tk.histogram2d(tk.asarray([0.0, 1.0]), tk.asarray([0.0, 1.0]), 2)[0].tolist()
    [[1, 0], [0, 1]]
    """
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"[histogram2d] x and y must be vectors of one length, got shapes {x.shape} and {y.shape}.")
    if range is not None and len(range) != 2:
        raise ValueError(f"[histogram2d] got {len(range)} ranges: give two, (low, high) of x and of y.")
    columns, rows = bins
    x_edges = even_of(x, columns, None if range is None else tuple(range[0]))
    y_edges = even_of(y, rows, None if range is None else tuple(range[1]))
    at_x, at_y = bins_of(x, x_edges), bins_of(y, y_edges)
    both = where(logical_and(greater_equal(at_x, 0), greater_equal(at_y, 0)), at_x * rows + at_y, -1)
    counts = reshape(bin_sums(both, weights, columns * rows), (columns, rows))
    shown = shown_edges(x_edges, x)
    if density:
        counts = density_of(counts, reshape(widths_of(x_edges), (-1, 1)) * widths_of(y_edges), shown.dtype)
    return counts, shown, shown_edges(y_edges, y)
