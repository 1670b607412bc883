"""Histograms, differences, orders and sets as NumPy calls them, over the operators of tenkey.

Rows of ``ADAPTED`` in ``numpy_table.py``. Guarded by ``tests/numpy/test_table_mathematics.py``.
"""

from __future__ import annotations

import math
import operator
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from ..core.tensor import Tensor
from ..functions import creation, splitting, statistics
from ..functions.calculating.orders import complex_argsort, lexsort
from ..functions.calculating.weighted import weighted_quantile
from ..functions.rearranging.distinct_slices import distinct_slices
from .numpy_fallback import as_tensor, by_name, op

__all__ = ["FUNCTIONS"]

_DOUBLE: Final = np.dtype(np.float64)


def _flat(x: Any) -> Any:
    return x if x.ndim == 1 else op("reshape")(x, (-1,))


def _vector(x: Any) -> Any:
    return op("reshape")(x, (1,)) if not x.ndim else x


# ---- histograms


def _grid(x: Any, bins: int, span: Any) -> Any:
    """Return the edges of bins of equal width, which NumPy computes from the least and the greatest element."""
    ends = [op(name)(x).item() for name in ("min", "max")] if span is None and x.size else []
    return creation.asarray(np.histogram_bin_edges(np.array(ends, x.dtype), bins, span), device=x.device)


def _number(bins: Any) -> Any:
    """Return a number of bins that is given as an array as an int."""
    if isinstance(bins, (Tensor, np.generic)) and not bins.ndim and np.dtype(bins.dtype).kind in "iu":
        return int(bins)
    return bins


def _of_edges(a: Any, bins: Any, span: Any, weights: Any) -> Any:
    bins = _number(bins)
    if isinstance(bins, int):
        return _grid(a, bins, span)
    if isinstance(bins, str):
        if weights is not None:
            raise TypeError(f"[histogram] bins={bins!r} does not take weights: give a number of bins.")
        return statistics.histogram_bin_edges(a, bins, span)
    return as_tensor(bins)


def _counted(a: Any, weights: Any) -> Any:
    if a.dtype.kind == "b":
        warnings.warn(f"Converting input from {a.dtype} to uint8 for compatibility.", RuntimeWarning, stacklevel=4)
        a = op("astype")(a, np.dtype(np.uint8))
    if weights is not None and weights.shape != a.shape:
        raise ValueError("[histogram] weights should have the same shape as a.")
    return _flat(a), None if weights is None else _flat(weights)


def _histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    a, weights = _counted(a, weights)
    edges = _of_edges(a, bins, range, weights)
    found = statistics.histogram(a, edges, weights=weights)[0]
    if density:
        cast = op("astype")
        found = found / cast(op("diff")(edges), _DOUBLE) / op("sum")(found)
    return found, edges


def _edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    a, weights = _counted(a, weights)
    return _of_edges(a, bins, range, weights)


def _columns(sample: Any) -> list[Any]:
    if isinstance(sample, (list, tuple)):
        return [as_tensor(x) for x in sample]
    if sample.ndim == 1:
        return [sample]
    return list(op("unstack")(sample, axis=1))


def _histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None,
) -> Any:  # fmt: skip
    columns = _columns(sample)
    bins = _number(bins)
    if isinstance(bins, Tensor):
        bins = list(op("unstack")(bins))
    every = [bins] * len(columns) if isinstance(bins, int) else [_number(b) for b in bins]
    if len(every) != len(columns):
        raise ValueError("[histogramdd] The dimension of bins must be equal to the dimension of the sample x.")
    spans = [None] * len(columns) if range is None else list(range)
    if len(spans) != len(columns):
        raise ValueError("[histogramdd] range argument must have one entry per dimension.")
    edges = []
    for x, own, span in zip(columns, every, spans):
        made = _grid(x, own, span) if isinstance(own, int) else as_tensor(own)
        if isinstance(own, int) and span is not None:  # in double precision, as the ends are Python's
            made = op("astype")(made, _DOUBLE)
        edges.append(made)
    hist, _ = statistics.histogramdd(columns, edges, weights=weights, density=bool(density))
    return op("astype")(hist, _DOUBLE), tuple(edges)


def _histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None,
) -> Any:  # fmt: skip
    if len(x) != len(y):
        raise ValueError("x and y must have the same length.")
    several = len(bins) if isinstance(bins, (list, tuple)) or (isinstance(bins, Tensor) and bins.ndim) else 1
    if several not in (1, 2):
        bins = [creation.asarray(bins)] * 2
    hist, edges = _histogramdd([x, y], bins, range, density, weights)
    return (hist, *edges)


def _bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    if not x.size and weights is not None:
        weights = None
    if x.ndim != 1:
        raise ValueError(f"[bincount] got shape {x.shape}: it counts the integers of a vector.")
    if not np.can_cast(x.dtype, np.int64, "safe"):
        raise TypeError(f"[bincount] got dtype {x.dtype}: it counts integers, which are safely cast to int64.")
    cast = op("astype")
    if weights is not None:
        if weights.dtype.kind == "c":
            raise TypeError(f"[bincount] got weights of dtype {weights.dtype}: they are real.")
        weights = cast(weights, _DOUBLE)
    return op("bincount")(cast(x, np.dtype(np.int64)), weights, int(minlength))


# ---- moments


def _in_dtype(x: Any, y: Any, dtype: Any) -> Any:
    if dtype is None:
        dtype = np.result_type(x.dtype, np.float64, *(() if y is None else (y.dtype,)))
    elif np.dtype(dtype).kind not in "fc":
        raise TypeError(f"[cov] got dtype={np.dtype(dtype)}: means are floats; give a floating or complex dtype.")
    cast = op("astype")
    return cast(x, dtype), None if y is None else cast(y, dtype)


def _cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, fweights: Any = None,
    aweights: Any = None, dtype: Any = None,
) -> Any:  # fmt: skip
    if ddof is not None and ddof != int(ddof):
        raise ValueError(f"[cov] got ddof={ddof!r}: it is an integer.")
    if ddof is None:
        ddof = 0 if bias else 1
    if m.ndim > 2 or (y is not None and y.ndim > 2):
        raise ValueError("[cov] takes at most two dimensions.")
    m, y = _in_dtype(m, y, dtype)
    count = m.size if m.ndim < 2 else m.shape[1 if rowvar else 0]
    if y is not None and y.ndim == 2 and y.shape[0] == 1 and not rowvar:  # NumPy does not transpose it
        y = op("matrix_transpose")(y)
    if fweights is None and aweights is None and 0 < count <= ddof:
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=3)
        return op("cov")(m, y, rowvar=bool(rowvar), correction=0) / 0.0
    return op("cov")(m, y, rowvar=bool(rowvar), correction=ddof, fweights=fweights, aweights=aweights)


def _corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Any:
    x, y = _in_dtype(x, y, dtype)
    return op("corrcoef")(x, y, rowvar=bool(rowvar))


# ---- differences


def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    ends = {k: as_tensor(v) for k, v in (("prepend", prepend), ("append", append)) if v is not None}
    if ends:
        dtype = np.result_type(a.dtype, *[v.dtype for v in ends.values()])
        a = op("astype")(a, dtype)
        ends = {k: op("astype")(v, dtype) for k, v in ends.items()}
    return op("diff")(a, n=n, axis=axis, **ends)


def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    ends = {k: as_tensor(v) for k, v in (("to_end", to_end), ("to_begin", to_begin)) if v is not None}
    for name, value in ends.items():
        if not np.can_cast(value.dtype, ary.dtype, "same_kind"):
            raise TypeError(
                f"[ediff1d] dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule."
            )
    return op("ediff1d")(_flat(ary), **{k: op("astype")(_flat(v), ary.dtype) for k, v in ends.items()})


def _slice(x: Any, axis: int, start: Any, stop: Any) -> Any:
    return x[(slice(None),) * (axis % x.ndim) + (slice(start, stop),)]


def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    if not (y.dtype.kind in "bu" or (x is not None and x.dtype.kind in "bu")):
        return op("trapezoid")(y, x, dx, axis)
    if x is None:
        steps = dx
    else:  # differences of unsigned integers wrap around, those of bools are bools
        steps = op("diff")(x, axis=axis if x.ndim > 1 else -1)
        if x.ndim == 1 and y.ndim > 1:
            steps = op("reshape")(steps, (1,) * (axis % y.ndim) + (-1,) + (1,) * (y.ndim - axis % y.ndim - 1))
    pair = _slice(y, axis, 1, None), _slice(y, axis, None, -1)
    sums = op("logical_or")(*pair) if y.dtype.kind == "b" else pair[0] + pair[1]
    bools = sums.dtype.kind == "b" and getattr(steps, "dtype", sums.dtype).kind == "b" and x is not None
    areas = op("astype")(op("logical_and")(steps, sums), _DOUBLE) if bools else steps * sums
    return op("sum")(areas / 2.0, axis=axis)


def _unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * math.pi) -> Any:
    if isinstance(period, (float, np.floating)):
        period = float(period)
    if p.dtype.kind != "u" or not p.size:
        return op("unwrap")(p, discont=discont, axis=axis, period=period)
    # differences of unsigned integers wrap around: unwrap the sums of those
    steps = op("astype")(op("diff")(p, axis=axis), _DOUBLE)
    floats = op("astype")(p, _DOUBLE)
    first = _slice(floats, axis, None, 1)
    sums = op("concat")([first, first + op("cumsum")(steps, axis=axis)], axis=axis)
    return op("unwrap")(sums, discont=discont, axis=axis, period=period) - sums + floats


def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    given = [h.item() if isinstance(h, Tensor) and not h.ndim and not h.requires_grad else h for h in varargs]
    f = as_tensor(f)
    if f.dtype.kind == "u":
        f = op("astype")(f, _DOUBLE)
    axes = tuple(range(f.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if len(given) not in (0, 1, len(axes)):
        raise TypeError("[gradient] invalid number of arguments.")
    if len(given) == 1:
        if len(axes) > 1 and isinstance(given[0], Tensor) and given[0].ndim:
            raise ValueError("[gradient] a vector of coordinates is for one axis: give one for each.")
        given = given * len(axes)
    given = given or [1.0] * len(axes)
    slopes = [splitting.gradient(f, h, axis=i, edge_order=edge_order) for h, i in zip(given, axes)]
    if f.dtype.kind in "fc":
        slopes = [op("astype")(slope, f.dtype) for slope in slopes]
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _cumulative(name: str, x: Any, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
    return op(name)(_vector(x), axis=axis, dtype=dtype, include_initial=include_initial)


def _convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    return op("convolve")(_vector(a), _vector(v), _mode(mode))


def _correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    return op("correlate")(a, v, _mode(mode))


def _mode(mode: Any) -> Any:
    return ("valid", "same", "full")[mode] if isinstance(mode, int) else mode


def _quantiles(
    name: str, a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False, weights: Any = None
) -> Any:
    if a.dtype.kind == "b":
        raise TypeError(f"[{name}] is not defined for bools, between which there is nothing.")
    if weights is None:
        return op(name)(a, q, axis, method=method, keepdims=keepdims)
    if name.startswith("nan"):
        raise NotImplementedError(f"[{name}] does not take weights.")
    if method != "inverted_cdf":
        raise ValueError(f"[{name}] got method={method!r}: only 'inverted_cdf' supports weights.")
    scale = 100 if "percent" in name else 1
    shares = op("divide")(as_tensor(q), scale)
    if bool(op("any")(op("logical_or")(shares < 0, shares > 1))) or bool(op("any")(weights < 0)):
        raise ValueError(f"[{name}] shares are between 0 and {scale}, and weights must be non-negative.")
    return weighted_quantile(a, shares, weights, axis, keepdims=keepdims)


def _around(a: Any, decimals: int = 0) -> Any:
    decimals = operator.index(decimals)
    if not -(2**63) <= decimals < 2**63:
        raise OverflowError("[round] decimals does not fit into int64: round to fewer places.")
    if a.dtype.kind in "iu":
        return a.clone() if decimals >= 0 else op("astype")(_around(op("astype")(a, _DOUBLE), decimals), a.dtype)
    if a.dtype.kind == "b":
        if decimals:
            raise TypeError("[round] bools are rounded to integers only.")
        a = op("astype")(a, np.dtype(np.float16))
    scale = 10.0 ** abs(decimals) if abs(decimals) <= sys.float_info.max_10_exp else math.inf
    if decimals > 0:
        return op("round")(a * scale) / scale
    return op("round")(a / scale) * scale if decimals else op("round")(a)


# ---- orders and sets


def _argsort(a: Any, axis: int = -1) -> Any:
    return op("argsort")(_vector(a), axis=axis)


def _partition(name: str, whole: str, a: Any, kth: Any, axis: int = -1) -> Any:
    """Call ``partition`` or ``argpartition``, which for several places sort everything."""
    if isinstance(kth, (Tensor, np.ndarray)):
        kth = kth.tolist()
    if not isinstance(kth, (list, tuple)):
        return op(name)(a, kth, axis)
    for k in kth:
        if not -a.shape[axis] <= k < a.shape[axis]:
            raise ValueError(f"[{name}] kth(={k}) out of bounds ({a.shape[axis]}).")
    return op(whole)(a, axis=axis)


def _unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None,
    equal_nan: bool = True,
) -> Any:  # fmt: skip
    merged = equal_nan and axis is None and ar.dtype.kind in "fc" and bool(op("any")(op("isnan")(ar)))
    if merged or not equal_nan or not ar.size:
        values, index, inverse, counts = distinct_slices(ar, axis, equal_nan=equal_nan)
    else:
        values, index, inverse, counts = op("unique_all")(ar) if axis is None else _unique_rows(ar, axis)
    parts = (index, return_index), (inverse, return_inverse), (counts, return_counts)
    wanted = [part for part, is_wanted in parts if is_wanted]
    return (values, *wanted) if wanted else values


def _unique_rows(x: Any, axis: int) -> Any:
    """Return the different slices along an axis in their order, with the places that ``unique`` can give."""
    moved = op("moveaxis")(x, axis, 0)
    n = moved.shape[0]
    rows = op("reshape")(moved, (n, -1))
    order = lexsort([rows[:, k] for k in reversed(range(rows.shape[1]))]) if rows.shape[1] else op("arange")(0, n)
    ordered = op("take")(rows, order, axis=0)
    is_new = op("any")(ordered[1:] != ordered[:-1], axis=1)
    is_new = op("concat")([op("ones_like")(order[:1], dtype=np.dtype(np.bool_)), is_new]) if n else is_new
    firsts = op("flatnonzero")(is_new)
    group = op("cumsum")(op("astype")(is_new, np.dtype(np.int64))) - 1
    inverse = op("take")(group, op("argsort")(order), axis=0)
    index = op("take")(order, firsts, axis=0)
    values = op("moveaxis")(op("take")(moved, index, axis=0), 0, axis)
    return values, index, inverse, op("bincount")(group, minlength=firsts.shape[0])


def _intersect1d(ar1: Any, ar2: Any, return_indices: bool = False) -> Any:
    if not return_indices:
        return op("intersect1d")(ar1, ar2)
    common, first, _, _ = op("unique_all")(ar1)
    other, second, _, _ = op("unique_all")(ar2)
    isin = op("isin")
    mine, theirs = isin(common, other), isin(other, common)
    return common[mine], first[mine], second[theirs]


def _setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    dtype, cast = np.result_type(ar1.dtype, ar2.dtype), op("astype")
    if not assume_unique:
        return cast(op("setdiff1d")(cast(ar1, dtype), cast(ar2, dtype)), ar1.dtype)
    ar1 = _flat(ar1)
    return ar1[op("isin")(cast(ar1, dtype), cast(ar2, dtype), invert=True)]  # in their order


def _setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    if not assume_unique:
        return op("setxor1d")(ar1, ar2)
    both = op("concat")([_flat(ar1), _flat(ar2)])
    if not both.size:
        return both
    both = both[complex_argsort(both)] if both.dtype.kind == "c" else op("sort")(both)
    ends = op("ones_like")(both[:1], dtype=np.dtype(np.bool_))
    changes = op("concat")([ends, both[1:] != both[:-1], ends])
    return both[changes[1:] & changes[:-1]]


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **by_name(
        _histogram, _histogramdd, _histogram2d, _bincount, _cov, _corrcoef, _diff, _ediff1d, _trapezoid, _unwrap,
        _gradient, _convolve, _correlate, _argsort, _unique, _intersect1d, _setdiff1d, _setxor1d,
    ),
    "histogram_bin_edges": _edges,
    **{name: partial(_cumulative, name) for name in ("cumulative_sum", "cumulative_prod")},
    "round": _around,
    **{name: partial(_quantiles, name) for name in ("quantile", "percentile", "nanquantile", "nanpercentile")},
    "partition": partial(_partition, "partition", "sort"),
    "argpartition": partial(_partition, "argpartition", "argsort"),
}  # fmt: skip
"""Functions that are not quite those of ``tk``, by NumPy's names."""
