"""Counting: ``bincount``, ``digitize`` and ``histogram``; ``histogram_grids`` has those in several dimensions."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ....core.device import META
from ....core.dtypes.names import default_float, float64, int64
from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor, from_host
from ....core.word import WEAK_MASK
from ....dispatch.operator import Operator
from ....dispatch.tags import Tag
from ...declare import SUM, Decomposition, Entry, TensorSpec, checked, composite, gather, internal, loop, structured
from ...declare.batch import VmapLevel
from ..creation import arange, full, ones, zeros
from ..elementwise.comparison import equal, greater, greater_equal, less, logical_and, where
from ..elementwise.complex import complex_from, imag, real, refuse_complex
from ..indexing.advanced_indexing import check_integers, take
from ..primitives import scatter_rows_
from ..reductions.reduction import all, any, max, min, sum
from ..shape.copying import as_dtype, cast, clone, concatenate, flip
from ..shape.views import reshape, select_index, slice
from ..sorting.insertion import insertion_places

_ORDER: Final = "[{operator}] the edges must ascend{or_descend}: sort them first."
_NEGATIVE: Final = "[bincount] got {low}: it counts integers that are at least 0. Subtract the smallest first."
_EDGES: Final = "[{operator}] bins of shape {shape}: give a number of bins, at least 1, or a vector of ascending edges."


def check_weights(operator: str, weights: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless the weights, if any, have the shape of the counted elements."""
    if weights is not None and weights.shape != shape:
        raise ValueError(
            f"[{operator}] weights of shape {weights.shape} must have the shape {shape} of the counted elements."
        )


def check_floats(x: Any) -> None:
    """Raise TypeError unless the tensor is floating, as it must be to compute edges."""
    refuse_complex("histogram", x.dtype)
    if x.dtype.kind not in "fV":
        raise TypeError(f"[histogram] got dtype {x.dtype}: edges are computed from floats.")


def check_range(range: Sequence[float] | None, operator: str = "histogram") -> None:
    """Raise ValueError unless the range, if any, is a finite and ascending pair."""
    _check_pair(operator, range)
    if range is not None and not (np.isfinite(range).all() and range[0] <= range[1]):
        raise ValueError(
            f"[{operator}] the range {range[0]} to {range[1]} must be finite and ascending: give range=(low, high)."
        )


def _check_pair(operator: str, range: Sequence[float] | None) -> None:
    if range is not None and len(range) != 2:
        raise ValueError(f"[{operator}] got range={tuple(range)}: it must be a pair, range=(low, high).")


def range_of(x: Any) -> tuple[float, float]:
    """Return the range of the elements of an array, which must be finite."""
    low, high = float(x.min()), float(x.max())
    check_range((low, high))
    return low, high


# ---- sums by bin, of which all the others are composed


def _sums_meta(indices: Any, weights: Any, n: int) -> TensorSpec:
    check_weights("histogram", weights, indices.shape)
    check_integers("histogram", indices)
    return TensorSpec((n,), _summed(weights))


def _summed(weights: Any) -> np.dtype:
    """Return the dtype of sums: 64 bits for integers, as in ``tk.sum``."""
    return int64 if weights is None else SUM.compute(weights.dtype)


def _sums_on_numpy(indices: Any, weights: Any, n: int) -> Any:
    flat = indices.reshape(-1)
    inside = (flat >= 0) & (flat < n)
    everything = bool(inside.all())
    if not everything:
        flat = flat[inside]
    if weights is None:
        return np.bincount(flat, minlength=n).astype(np.int64, copy=False)
    values = weights.reshape(-1) if everything else weights.reshape(-1)[inside]
    dtype = _summed(weights)
    if dtype.kind == "c":
        total = np.bincount(flat, values.real, n) + 1j * np.bincount(flat, values.imag, n)
    elif dtype.kind in "iu":
        total = np.zeros(n, dtype)
        np.add.at(total, flat, values.astype(dtype))
    else:
        total = np.bincount(flat, values.astype(np.float64), n)
    return total.astype(dtype)


def extremes(x: Tensor) -> tuple[Any, Any]:
    """Return the least and the greatest element, read from the device at once."""
    low, high = concatenate([reshape(extreme(x), (1,)) for extreme in (min, max)]).tolist()
    return low, high


def _sums_by_scatter(indices: Tensor, weights: Tensor | None, n: int) -> Tensor:
    dtype = _sums_meta(indices, weights, n).dtype
    if weights is not None and dtype.kind == "c":
        parts = [_sums_by_scatter(indices, cast(part(weights), float64), n) for part in (real, imag)]
        return cast(complex_from(*parts), dtype)
    wide = dtype if dtype.kind in "iu" else float64
    inside = logical_and(greater_equal(indices, 0), less(indices, n))
    target = reshape(where(inside, as_dtype(indices, int64), n), (1, indices.size, 1))
    source = ones((1, 1, 1), dtype=wide, device=indices.device)
    if weights is not None:
        source = reshape(as_dtype(weights, wide), target.shape)
    sums = zeros((1, n + 1, 1), dtype=wide, device=indices.device)  # the last counts the others
    scatter_rows_(sums, target, source, "add", "histogram")
    return cast(slice(reshape(sums, (n + 1,)), 0, 0, n), dtype)


def _sums_vjp(g: Tensor, indices: Tensor, n: int) -> Tensor:
    inside = logical_and(greater_equal(indices, 0), less(indices, n))
    if not n:
        return cast(indices, g.dtype) * 0
    found = take(g, reshape(where(inside, indices, 0), (-1,)), axis=0)
    return where(inside, reshape(found, indices.shape), 0.0)


def _sums_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """Give each sample its own bins, after those of the previous sample."""
    level.check(operator, args, kwargs)
    indices, weights, n = args
    own = level.front(indices)
    first = reshape(arange(level.size, device=own.device) * n, (level.size, *[1] * indices.ndim))
    placed = where(logical_and(own >= 0, own < n), own + first, -1)
    sums = bin_sums(placed, None if weights is None else level.front(weights), level.size * n)
    return level.batch(reshape(sums, (level.size, n)))


bin_sums: Entry = internal(
    "bin_sums(Tensor indices, Tensor? weights, int n) -> Tensor",
    meta=_sums_meta,
    numpy=_sums_on_numpy,
    decomposition=Decomposition(_sums_by_scatter, needs=("scatter",)),
    vjp={"weights": _sums_vjp},
    sample_inputs=lambda rng: [
        ((rng.integers(0, 4, (6,)), rng.standard_normal(6), 4), {}),
        ((rng.integers(-1, 5, (2, 3)), rng.standard_normal((2, 3)), 4), {}),
        ((rng.integers(0, 4, (0,)), rng.standard_normal(0), 2), {}),
    ],
    batch=_sums_batch,
    doc="Count how often each number below ``n`` occurs among the indices, or sum their weights.",
)


def _bincount_meta(x: Any, weights: Any = None, minlength: int = 0) -> TensorSpec:
    if x.ndim != 1 or x.dtype.kind not in "iub":
        raise ValueError(
            f"[bincount] takes a vector of integers that are at least 0, got shape {x.shape}, dtype {x.dtype}."
        )
    check_weights("bincount", weights, x.shape)
    if minlength < 0:
        raise ValueError(f"[bincount] minlength must be at least 0, got {minlength}.")
    if getattr(x, "device", None) is META:
        raise NotImplementedError(
            "[bincount] the shape of the result depends on the values, and a meta tensor has none: use tk.histogram "
            "with bins and range."
        )
    return TensorSpec((minlength,), int64)


def _bincount_on_numpy(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    x = x.astype(np.int64, copy=False)
    if x.size and x.min() < 0:
        raise ValueError(_NEGATIVE.format(low=int(x.min())))
    return _sums_on_numpy(x, weights, builtins.max(minlength, int(x.max()) + 1 if x.size else 0))


def _counts_by_scatter(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    whole = as_dtype(x, int64)
    low, high = extremes(whole) if x.size else (0, -1)
    if low < 0:
        raise ValueError(_NEGATIVE.format(low=low))
    return _sums_by_scatter(whole, weights, builtins.max(minlength, high + 1))


bincount = structured(
    "bincount(Tensor x, Tensor? weights=None, int minlength=0) -> Tensor",
    meta=_bincount_meta,
    numpy=_bincount_on_numpy,
    decomposition=checked(_bincount_meta, _counts_by_scatter, "scatter", "reduction"),
    vjp={"weights": lambda g, x: take(g, cast(x, int64), axis=0)},
    sample_inputs=lambda rng: [
        ((rng.integers(0, 5, (7,)), rng.standard_normal(7)), {}),
        ((rng.integers(0, 5, (7,)), rng.standard_normal(7), 9), {}),
    ],
    tags=(Tag.DATA_DEPENDENT_OUTPUT,),
    doc="""Count how often each number from 0 to the largest occurs in a vector of integers that are at least 0; int64.

    Args: weights: summed in place of 1; the result has their dtype and is differentiable with respect to them.
    minlength: the minimal number of elements of the result.

    >>> tk.bincount(tk.asarray([0, 2, 2])).tolist(), tk.bincount(tk.asarray([0, 0]), tk.asarray([0.5, 1.0])).tolist()
    ([1, 0, 2], [1.5])
    """,
)


def _digitize_meta(x: Any, bins: Any, *, right: bool = False) -> TensorSpec:
    for given in (x, bins):
        refuse_complex("digitize", given.dtype)
    if bins.ndim != 1:
        raise ValueError(_EDGES.format(operator="digitize", shape=bins.shape))
    return TensorSpec(x.shape, int64)


def digitize_on_numpy(x: Any, bins: Any, *, right: bool = False, search: Any = np.searchsorted) -> Any:
    """Compute ``digitize`` on the CPU, by a function like NumPy's ``searchsorted``."""
    if len(bins) > 1 and (bins[1:] < bins[:-1]).any():
        if (bins[1:] > bins[:-1]).any():
            raise ValueError(_ORDER.format(operator="digitize", or_descend=" or descend"))
        return np.asarray(len(bins) - search(bins[::-1], x, "left" if right else "right"), np.int64)
    return np.asarray(search(bins, x, "left" if right else "right"), np.int64)


def _bins_by_search(x: Tensor, bins: Tensor, *, right: bool = False) -> Tensor:
    n = bins.shape[0]
    falls, rises = False, False
    if n > 1:
        before, behind = slice(bins, 0, 0, n - 1), slice(bins, 0, 1, n)
        either = [reshape(any(test(behind, before)), (1,)) for test in (less, greater)]
        falls, rises = concatenate(either).tolist()
    if falls and rises:
        raise ValueError(_ORDER.format(operator="digitize", or_descend=" or descend"))
    if falls:
        return n - insertion_places(flip(bins), x, not right)
    return insertion_places(bins, x, not right)


digitize = structured(
    "digitize(Tensor x, Tensor bins, *, bool right=False) -> Tensor",
    meta=_digitize_meta,
    numpy=digitize_on_numpy,
    decomposition=checked(_digitize_meta, _bins_by_search, "gather", "reduction"),
    differentiable=False,
    sample_inputs=lambda rng: (
        [((rng.standard_normal((2, 3)), np.array([0.4])), {"right": right}) for right in (False, True)]
        + [((rng.standard_normal(()), np.array([0.4])), {}), ((rng.standard_normal((0,)), np.array([1.0])), {})]
    ),
    batch=gather("x"),
    positional=1,
    doc="""Return the bin between the edges ``bins`` in which each element lies: 0 before the first edge; int64.

    ``bins[i - 1] <= x < bins[i]``, or with ``right`` ``bins[i - 1] < x <= bins[i]``. Edges that descend give
    ``bins[i - 1] > x >= bins[i]``, or with ``right`` ``bins[i - 1] >= x > bins[i]``.

    >>> tk.digitize(tk.asarray([0.5, 1.0, 9.0]), tk.asarray([0.0, 1.0, 2.0])).tolist()
    [1, 2, 3]
    """,
)

# ---- histograms


def _edges_meta(x: Any, bins: int, range: Any = None) -> TensorSpec:
    check_floats(x)
    if bins < 1:
        raise ValueError(f"[histogram] the number of bins must be at least 1, got {bins}.")
    check_range(range)
    return TensorSpec((bins + 1,), x.dtype)


def _edges_on_numpy(x: Any, bins: int, range: Any = None) -> Any:
    low, high = range if range is not None else range_of(x) if x.size else (0.0, 1.0)
    return _linspace(low, high, bins, x.dtype)


def _linspace(low: float, high: float, bins: int, dtype: np.dtype) -> np.ndarray:
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1).astype(dtype)


def _edges_by_range(x: Tensor, bins: int, range: Any = None) -> Tensor:
    if range is None and x.size:
        range = extremes(x)
        check_range(range)
    low, high = (0.0, 1.0) if range is None else range
    return from_host(_linspace(low, high, bins, x.dtype), x.device)


even_edges = internal(
    "even_edges(Tensor x, int bins, float[2]? range=None) -> Tensor",
    meta=_edges_meta,
    numpy=_edges_on_numpy,
    decomposition=checked(_edges_meta, _edges_by_range, "reduction"),
    sample_inputs=lambda rng: [((rng.uniform(1, 4, 7), 4), {}), ((rng.uniform(1, 4, 7), 3, (0.0, 2.0)), {})],
    batch=loop,
    doc="Return the edges of bins of equal width over the range of the elements, which are floats.",
)


def bins_on_numpy(x: Any, edges: Any, search: Any = np.searchsorted) -> Any:
    """Compute ``bins_of`` on the CPU, by a function like NumPy's ``searchsorted``."""
    if len(edges) == 0:
        return np.full(x.shape, -1)
    at = np.asarray(search(edges, x, "right"), np.int64) - 1
    at = np.where(x == edges[-1], len(edges) - 2, at)  # the last bin includes its upper edge
    return np.where(at > len(edges) - 2, -1, at)


def _bins_meta(x: Any, edges: Any) -> TensorSpec:
    if x.dtype.kind == "c" or edges.dtype.kind == "c":
        refuse_complex("histogram", result_dtype((x.dtype, edges.dtype), ()))
    if edges.ndim != 1:
        raise ValueError(_EDGES.format(operator="histogram", shape=edges.shape))
    return TensorSpec(x.shape, int64)


def _numbers_by_search(x: Tensor, edges: Tensor) -> Tensor:
    n = edges.shape[0]
    if not n:
        return full(x.shape, -1, dtype=int64, device=x.device)
    dtype = np.promote_types(x.dtype, edges.dtype)
    upper = select_index(as_dtype(edges, dtype), 0, n - 1)
    at = where(equal(as_dtype(x, dtype), upper), n - 2, insertion_places(edges, x, right=True) - 1)
    return where(greater(at, n - 2), -1, at)


bins_of = internal(
    "bins_of(Tensor x, Tensor edges) -> Tensor",
    meta=_bins_meta,
    numpy=bins_on_numpy,
    decomposition=checked(_bins_meta, _numbers_by_search, "gather"),
    sample_inputs=lambda rng: [((rng.standard_normal((2, 3)), np.array([0.0, 1.0])), {})],
    batch=gather("x"),
    doc="Return the number of the bin of each element, -1 outside all bins.",
)


def _ascending(edges: Any) -> Any:
    if not (edges[1:] >= edges[:-1]).all():
        raise ValueError(_ORDER.format(operator="histogram", or_descend=""))
    return edges.copy()


def _ascending_meta(edges: Any) -> TensorSpec:
    refuse_complex("histogram", edges.dtype)
    return TensorSpec(edges.shape, edges.dtype)


def _checked_order(edges: Tensor) -> Tensor:
    n = edges.shape[0]
    if n > 1 and not all(greater_equal(slice(edges, 0, 1, n), slice(edges, 0, 0, n - 1))).item():
        raise ValueError(_ORDER.format(operator="histogram", or_descend=""))
    return clone(edges)


ascending = internal(
    "ascending(Tensor edges) -> Tensor",
    meta=_ascending_meta,
    numpy=_ascending,
    decomposition=checked(_ascending_meta, _checked_order, "reduction"),
    sample_inputs=lambda rng: [((np.array([0.5]),), {}), ((np.zeros(0),), {})],
    batch=loop,
    doc="Return a copy of edges; raise ValueError if they do not ascend.",
)


def _edges(operator: str, x: Tensor, bins: Tensor | None, range: Sequence[float] | None) -> Tensor:
    refuse_complex(operator, x.dtype)
    _check_pair(operator, range)
    if bins is not None and not bins._word & WEAK_MASK and bins.ndim:
        if bins.ndim != 1 or bins.shape[0] < 2 or bins.dtype.kind == "c":
            raise ValueError(_EDGES.format(operator=operator, shape=bins.shape))
        return ascending(bins)
    if bins is not None and bins.dtype.kind not in "iu":
        raise TypeError(_EDGES.format(operator=operator, shape=bins.shape))
    return even_of(x, 10 if bins is None else int(bins), range)


def even_of(x: Tensor, bins: int, range: Sequence[float] | None) -> Tensor:
    """Return edges of equal width; those of integers in double precision, which can tell them apart."""
    return even_edges(cast(x, float64) if x.dtype.kind in "biu" else x, bins, range)


def shown_edges(edges: Tensor, x: Tensor) -> Tensor:
    """Return edges that were computed for integers in the default dtype for floats."""
    exact = x.dtype.kind in "biu" and edges.dtype == float64
    return cast(edges, default_float()) if exact else edges * 1


def widths_of(edges: Tensor) -> Tensor:
    """Return the widths of the bins."""
    n = edges.shape[0]
    return slice(edges, 0, 1, n, 1) - slice(edges, 0, 0, n - 1, 1)


def density_of(counts: Tensor, sizes: Tensor, dtype: np.dtype) -> Tensor:
    """Return the counts, in a floating dtype, divided by their sum and by the sizes of the bins."""
    floats = counts if counts.dtype.kind in "fc" else cast(counts, dtype)
    return floats / sum(floats) / cast(sizes, floats.dtype)


@composite(
    "histogram_bin_edges(Tensor x, Tensor? bins=None, *, float[]? range=None) -> Tensor",
    differentiable=False,
    sample_inputs=lambda rng: [((rng.uniform(1, 4, 7), 4), {}), ((rng.uniform(1, 4, (2, 3)),), {"range": (0.0, 2.0)})],
    tags=(Tag.INTERNAL,),  # tk.histogram_bin_edges also takes names
)
def histogram_bin_edges(x: Tensor, bins: Tensor | None = None, *, range: Sequence[float] | None = None) -> Tensor:
    """Return the edges that ``tk.histogram`` uses, one more than bins."""
    return shown_edges(_edges("histogram_bin_edges", x, bins, range), x)


@composite(
    "histogram(Tensor x, Tensor? bins=None, *, float[]? range=None, Tensor? weights=None, bool density=False)"
    " -> (Tensor hist, Tensor bin_edges)",
    differentiable=False,
    sample_inputs=lambda rng: [
        ((rng.uniform(1, 4, 7), 4), {}),
        ((rng.uniform(1, 4, (2, 3)),), {"range": (0.0, 2.0)}),
        ((rng.uniform(1, 4, 0), 3), {"range": (0.0, 2.0)}),
    ],
    tags=(Tag.INTERNAL,),  # tk.histogram also takes names
)
def histogram(
    x: Tensor,
    bins: Tensor | None = None,
    *,
    range: Sequence[float] | None = None,
    weights: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """Count the elements in each bin, and return the counts and the edges of the bins.

    Args: bins: a number of bins of equal width (default 10) or a vector of ascending edges; the last bin includes its
    upper edge. range: lowest and highest edge of bins of equal width (default: of the elements); elements outside, or
    nan, are not counted. weights: summed in place of 1. density: divide by the total and by the widths, so that the
    integral is 1.

    Returns ``hist``, int64 or of the dtype of the weights, and ``bin_edges``. Raises ValueError for edges that do not
    ascend and for an infinite range.
    """
    edges = _edges("histogram", x, bins, range)
    check_weights("histogram", weights, x.shape)
    if weights is not None and weights._word & WEAK_MASK:  # a Python number, for a 0-d tensor
        weights = full((), weights.item(), device=x.device)
    counts = bin_sums(bins_of(x, edges), weights, edges.shape[0] - 1)
    shown = shown_edges(edges, x)
    return (density_of(counts, widths_of(edges), shown.dtype) if density else counts), shown
