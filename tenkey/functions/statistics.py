"""Averages and histograms with arguments or results that a schema cannot express; they call operators."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..core.dtypes.names import default_float, float64
from ..core.tensor import Tensor
from ..dispatch.calling.public import public
from ..ops.builtin import load
from ..ops.builtin.elementwise.complex import refuse_complex
from ..ops.builtin.shape.copying import cast
from ..ops.builtin.shape.views import select_index
from .creation import asarray

load("reductions.statistics")
load("numeric.histogram_grids")
load("numeric.histogram")  # Note [Operators that are declared on first use]
from ..ops.builtin.numeric import histogram as _bins  # noqa: E402
from ..ops.builtin.numeric import histogram_grids as _grids  # noqa: E402
from ..ops.builtin.reductions.statistics import average as _average  # noqa: E402
from ..ops.builtin.reductions.statistics import average_and_weights as _average_and_weights  # noqa: E402

__all__ = ["average", "histogram", "histogram_bin_edges", "histogramdd"]

_POINTS: Final = "[histogramdd] the points are the rows of a matrix, or vectors of one length, got {what}."


@public
def average(
    x: Tensor, axis: Any = None, weights: Any = None, *, returned: builtins.bool = False,
    keepdims: builtins.bool = False,
) -> Any:  # fmt: skip
    """Return the weighted mean along axes: ``sum(weights * x) / sum(weights)``. Integers give floats.

    Args: weights: of the shape of ``x``, or of its lengths along ``axis``; None for ``tk.mean``. returned: return a
    pair with the sums of the weights, of the shape of the average (without weights the numbers of elements). Raises
    ValueError for weights of another shape, IndexError for an axis out of range.

    >>> tk.average(tk.asarray([1.0, 4.0]), weights=tk.asarray([2.0, 1.0])).item()
    2.0
    >>> tk.average(tk.asarray([[1.0, 3.0]]), axis=1, returned=True)[1].tolist()
    [2.0]
    """
    if returned:
        return _average_and_weights(x, axis, weights=weights, keepdims=keepdims)
    return _average(x, axis, weights=weights, keepdims=keepdims)


def _estimated(x: Any, bins: str, range: Any) -> Tensor:
    """Return edges estimated from the values; those of integers in double precision."""
    exact = isinstance(x, Tensor) and x.dtype.kind in "biu"
    return _grids.estimated_edges(cast(x, float64) if exact else x, bins, range, exact)


@public
def histogram_bin_edges(x: Tensor, bins: Any = None, range: Sequence[float] | None = None) -> Tensor:
    """Return the edges of the bins of ``tk.histogram``: one more than bins.

    >>> tk.histogram_bin_edges(tk.asarray([0.0, 4.0]), 2).tolist()
    [0.0, 2.0, 4.0]
    """
    if isinstance(bins, str):
        return _bins.shown_edges(_estimated(x, bins, range), x)
    return _bins.histogram_bin_edges(x, bins, range=range)


@public
def histogram(
    x: Tensor, bins: Any = None, range: Sequence[float] | None = None, *, weights: Any = None,
    density: builtins.bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the number of elements in each bin, and the edges of the bins.

    Args: bins: a number of bins of equal width (default 10), a vector of ascending edges, or a method to determine the
    number from the values: ``auto``, ``doane``, ``fd`` (Freedman and Diaconis), ``rice``, ``scott``, ``sqrt``,
    ``stone`` or ``sturges``. The last bin includes its upper edge. range: lowest and highest edge of bins of equal
    width (default: of the elements); elements outside, or nan, are not counted. weights: summed in place of 1. density:
    divide by the total and by the widths, so that the integral is 1.

    Returns ``hist``, int64 or of the dtype of the weights, and ``bin_edges``. Raises ValueError for edges that do not
    ascend and for an infinite range, TypeError for complex numbers and for weights with a method.

    >>> hist, edges = tk.histogram(tk.asarray([0.0, 1.0, 1.0, 4.0]), 2)
    >>> hist.tolist(), edges.tolist()
    ([3, 1], [0.0, 2.0, 4.0])
    >>> tk.histogram(tk.asarray([0.0, 1.0, 1.0, 4.0]), "sqrt")[0].tolist()
    [3, 1]
    """
    if isinstance(bins, str):
        if weights is not None:
            raise TypeError(f"[histogram] bins={bins!r} does not take weights: give a number of bins.")
        bins, range = _estimated(x, bins, range), None
    hist, edges = _bins.histogram(x, bins, range=range, weights=weights, density=density)
    return hist, edges


def _coordinates(sample: Any) -> list[Tensor]:
    """Return the coordinates of the points along each dimension."""
    if isinstance(sample, (list, tuple)):
        columns = list(sample)
        shapes = ", ".join(str(x.shape) for x in columns if isinstance(x, Tensor))
        if not columns or not all(isinstance(x, Tensor) and x.ndim == 1 for x in columns):
            raise ValueError(_POINTS.format(what=f"shapes {shapes}" if shapes else "no tensors"))
        if len({x.shape for x in columns}) > 1:
            raise ValueError(_POINTS.format(what=f"shapes {shapes}"))
        return columns
    if not isinstance(sample, Tensor):
        raise TypeError(
            f"[histogramdd] takes a Tensor of points, or a list of them, got {type(sample).__name__}: convert it with "
            "tk.asarray(...)."
        )
    if sample.ndim != 2 or not sample.shape[1]:
        raise ValueError(_POINTS.format(what=f"shape {sample.shape}"))
    return [select_index(sample, 1, k) for k in builtins.range(sample.shape[1])]


def _edges(x: Tensor, bins: Any, span: Any) -> Tensor:
    """Return the edges along one dimension; those of integers in double precision."""
    if isinstance(bins, (int, np.integer)):
        if bins < 1:
            raise ValueError(f"[histogramdd] the number of bins must be at least 1, got {bins}.")
        if span is not None:
            span = tuple(map(float, span))
            _bins.check_range(span, "histogramdd")
        return _bins.even_of(x, int(bins), span)
    edges = bins if isinstance(bins, Tensor) else asarray(bins, dtype=x.dtype if x.dtype.kind == "f" else None)
    if edges.ndim != 1 or edges.shape[0] < 2 or edges.dtype.kind == "c":
        raise ValueError(
            f"[histogramdd] edges of shape {edges.shape}: give a number of bins, at least 1, or a vector of ascending "
            "edges."
        )
    return _bins.ascending(edges)


def _is_pairs(given: Any) -> builtins.bool:
    return isinstance(given, (list, tuple, np.ndarray))


@public
def histogramdd(
    sample: Any, bins: Any = 10, *, range: Sequence[Any] | None = None, weights: Tensor | None = None,
    density: builtins.bool = False,
) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """Return the number of points in each bin of a grid of any dimension, and the edges along each.

    Args: sample: the points, rows of a tensor of shape (N, D), or D vectors of length N. bins: a number of bins for all
    dimensions, or for each a number or a vector of ascending edges. range: for each dimension the lowest and highest
    edge, or None for those of the points. weights: shape (N,), summed in place of 1. density: divide by the total and
    by the sizes of the bins, so that the integral is 1.

    Returns a tensor of D dimensions, int64 or of the dtype of the weights, and a tuple of the edges. No gradient.
    Raises ValueError for incompatible shapes, edges that do not ascend and an infinite range.

    >>> hist, edges = tk.histogramdd(tk.asarray([[0.0, 0.0], [1.0, 2.0], [1.0, 0.0]]), (2, [0.0, 1.0, 2.0]))
    >>> hist.tolist(), edges[0].tolist()
    ([[1, 0], [1, 1]], [0.0, 0.5, 1.0])
    """
    columns = _coordinates(sample)
    ndim = len(columns)
    for x in columns:
        refuse_complex("histogramdd", x.dtype)
    if isinstance(bins, str):
        raise TypeError(f"[histogramdd] got bins={bins!r}: names of bins are for tk.histogram. Give a number or edges.")
    every = list(bins) if isinstance(bins, (list, tuple)) else [bins] * ndim
    if len(every) != ndim:
        raise ValueError(
            f"[histogramdd] got {len(every)} bins for {ndim} dimensions: give a number for all, or one entry for each."
        )
    if range is not None and not (_is_pairs(range) and all(_is_pairs(span) or span is None for span in range)):
        raise TypeError(f"[histogramdd] got range={range!r}: give (low, high), or None, for each dimension.")
    spans = [None] * ndim if range is None else list(range)
    if len(spans) != ndim:
        raise ValueError(
            f"[histogramdd] got {len(spans)} ranges for {ndim} dimensions: give (low, high), or None, for each."
        )
    edges = list(map(_edges, columns, every, spans))
    counts: Tensor = _grids.counts_on_grid(columns, edges, weights=weights, density=density)
    if density and weights is None and all(x.dtype != float64 for x in columns):
        counts = cast(counts, default_float())
    return counts, tuple(map(_bins.shown_edges, edges, columns))
