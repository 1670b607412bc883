"""Bad arguments of averages, histograms, sets, borders, quantiles and interpolation: see ``test_errors.py``."""

from __future__ import annotations

from typing import Any

import tenkey as tk
from tenkey.dispatch.errors import ArgumentError

__all__ = ["cases"]

_RANGE = " is out of range for a tensor of 2 dimensions: it must be in [-2, 1]."
_BROADCAST = " cannot be broadcast together: counted from the last, each dimension must be equal or 1 in all of them."
_ORDER = " is not defined for dtype complex64: complex numbers have no order. Consider tk.real(x)."
_EMPTY = " got shape (0, 3) with axis={}: the reduction of no elements has no value. Test x.size first."
_NO_TENSOR = " must be a Tensor, got 'a' of type str. Convert it with tk.asarray(...)."
_METHODS = (
    "averaged_inverted_cdf, closest_observation, hazen, higher, interpolated_inverted_cdf, inverted_cdf, linear, lower,"
    " median_unbiased, midpoint, nearest, normal_unbiased, weibull."
)
_MATRIX = ": the matrix needs two or more dimensions, and the vector the length of axis {} of the matrix."
o = tk.ops.tk


def cases() -> list[Any]:
    """(name, call, error, text)."""
    return [*_reductions(), *_statistics(), *_counting(), *_elements(), *_along_lines()]


def _reductions() -> list[Any]:
    made: list[Any] = []
    for name in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "median", "nanmedian"):
        function = getattr(tk, name)
        made += [
            (name, lambda f, i, g=function: g(f(2, 3), axis=2), IndexError, f"[{name}] axis 2" + _RANGE),
            (name, lambda f, i, g=function: g(f(2, 3), axis=(0, -2)), ValueError,
             f"[{name}] axis (0, -2) names a dimension twice."),
            (name, lambda f, i, g=function: g(i(2, 3), axis=-3), IndexError, f"[{name}] axis -3" + _RANGE),
        ]  # fmt: skip
    for name in ("nancumsum", "nancumprod", "nanargmax", "nanargmin", "ptp", "average"):
        function = getattr(tk, name)
        made.append((name, lambda f, i, g=function: g(f(2, 3), 2), IndexError, f"[{name}] axis 2" + _RANGE))
    for name in ("nanmax", "nanmin", "nanargmax", "nanargmin", "median", "nanmedian"):
        function = getattr(tk, name)
        made.append((name, lambda f, i, g=function: g(f(2, dtype="complex64")), TypeError, f"[{name}]{_ORDER}"))
    for name, axis in (("nanmax", "(0,)"), ("nanmin", "(0,)"), ("nanargmax", "0"), ("nanargmin", "0"), ("ptp", "(0,)")):
        function = getattr(tk, name)
        made.append((name, lambda f, i, g=function: g(f(0, 3), axis=0), ValueError, f"[{name}]" + _EMPTY.format(axis)))
    for name in ("quantile", "percentile", "nanquantile", "nanpercentile"):
        function = getattr(tk, name)
        high = 100 if "percentile" in name else 1
        made += [
            (name, lambda f, i, g=function: g(f(2, 3), 0.5, axis=2), IndexError, f"[{name}] axis 2" + _RANGE),
            (name, lambda f, i, g=function: g(f(2, 3), 0.5, method="best"), ValueError,
             f"[{name}] there is no method 'best': it is one of " + _METHODS),
            (name, lambda f, i, g=function: g(f(2, dtype="complex64"), 0.5), TypeError, f"[{name}]{_ORDER}"),
            (name, lambda f, i, g=function: g(f(2, 3), f(1, 2)), ValueError,
             f"[{name}] q must be a number or a 1-d tensor, got shape (1, 2)."),
            (name, lambda f, i, g=function: g(f(2, 3), -0.5), ValueError,
             f"[{name}] q must be in [0, {high}], got -0.5: tk.quantile takes fractions, tk.percentile hundreds."),
        ]  # fmt: skip
    return made


def _statistics() -> list[Any]:
    return [
        ("average", lambda f, i: tk.average(f(2, 3), weights=f(2)), ValueError,
         "[average] weights of shape (2,) for x of shape (2, 3): give axis=, the axes that they lie along."),
        ("average", lambda f, i: tk.average(f(2, 3), axis=0, weights=f(3)), ValueError,
         ("[average] weights of shape (3,) must have the shape (2, 3) of x, or, along axis (0,), its lengths there.")),
        ("cov", lambda f, i: tk.cov(f(2, 3, 4)), ValueError,
         "[cov] takes a vector or a matrix, got shape (2, 3, 4)."),
        ("cov", lambda f, i: tk.cov(f(2, 3), f(2, 4)), ValueError,
         "[cov] x of shape (2, 3) and y of shape (2, 4) must have equally many observations."),
        ("cov", lambda f, i: tk.cov(f(2, 3), correction=0, ddof=1), ValueError,
         "[cov] got correction=0.0 and ddof=1.0, two names of one argument: give one."),
        ("cov", lambda f, i: tk.cov(f(2, 3), fweights=f(3)), ValueError,
         "[cov] fweights must be a vector of 3 integers, got shape (3,), dtype float32."),
        ("cov", lambda f, i: tk.cov(f(2, 3), aweights=f(2)), ValueError,
         "[cov] aweights must be a vector of 3 real numbers, got shape (2,), dtype float32."),
        ("corrcoef", lambda f, i: tk.corrcoef(f(2, 3, 4)), ValueError,
         "[corrcoef] takes a vector or a matrix, got shape (2, 3, 4)."),
        ("corrcoef", lambda f, i: tk.corrcoef(f(3), f(4)), ValueError,
         "[corrcoef] x of shape (3,) and y of shape (4,) must have equally many observations."),
        ("ptp", lambda f, i: tk.ptp(f(2, dtype="complex64")), TypeError,
         "[ptp] is not defined for dtype complex64: it takes real numeric dtypes. Convert with tk.astype(x, dtype)."),
        ("nanstd", lambda f, i: tk.nanstd(f(2), correction=1.0, ddof=1.0), ValueError,
         "[nanstd] got correction=1.0 and ddof=1.0, two names of one argument: give one."),
    ]  # fmt: skip


def _counting() -> list[Any]:
    return [
        ("bincount", lambda f, i: tk.bincount(f(3)), ValueError,
         "[bincount] takes a vector of integers that are at least 0, got shape (3,), dtype float32."),
        ("bincount", lambda f, i: tk.bincount(i(3), f(2)), ValueError,
         "[bincount] weights of shape (2,) must have the shape (3,) of the counted elements."),
        ("bincount", lambda f, i: tk.bincount(i(3), minlength=-1), ValueError,
         "[bincount] minlength must be at least 0, got -1."),
        ("bin_sums", lambda f, i: o.bin_sums(i(3), f(2), 4), ValueError,
         "[histogram] weights of shape (2,) must have the shape (3,) of the counted elements."),
        ("even_edges", lambda f, i: tk.histogram(f(3), 0), ValueError,
         "[histogram] the number of bins must be at least 1, got 0."),
        ("digitize", lambda f, i: tk.digitize(f(3), f(2, 2)), ValueError,
         "[digitize] bins of shape (2, 2): give a number of bins, at least 1, or a vector of ascending edges."),
        ("digitize", lambda f, i: tk.digitize(f(3, dtype="complex64"), f(2)), TypeError, "[digitize]" + _ORDER),
        ("histogram_bin_edges", lambda f, i: tk.histogram_bin_edges(f(3), f(2, 2)), ValueError,
         ("[histogram_bin_edges] bins of shape (2, 2): give a number of bins, at least 1, or a vector of ascending "
         "edges.")),
        ("estimated_edges", lambda f, i: tk.histogram(f(3), "best"), ValueError,
         ("[histogram] there is no method 'best' to choose bins: use one of auto, doane, fd, rice, scott, sqrt, "
         "stone, sturges, or a number.")),
        ("estimated_edges", lambda f, i: tk.histogram_bin_edges(f(3), "fd", range=(2, 1)), ValueError,
         "[histogram] the range 2.0 to 1.0 must be finite and ascending: give range=(low, high)."),
        ("estimated_edges", lambda f, i: tk.histogram(f(3, dtype="complex64"), "fd"), TypeError,
         "[histogram]" + _ORDER),
        ("estimated_edges", lambda f, i: tk.histogram(f(3), "fd", weights=f(3)), TypeError,
         "[histogram] bins='fd' does not take weights: give a number of bins."),
        ("counts_on_grid", lambda f, i: tk.histogramdd(f(3)), ValueError,
         "[histogramdd] the points are the rows of a matrix, or vectors of one length, got shape (3,)."),
        ("counts_on_grid", lambda f, i: tk.histogramdd([f(3), f(4)]), ValueError,
         "[histogramdd] the points are the rows of a matrix, or vectors of one length, got shapes (3,), (4,)."),
        ("counts_on_grid", lambda f, i: tk.histogramdd(f(3, 2), (4, 4, 4)), ValueError,
         "[histogramdd] got 3 bins for 2 dimensions: give a number for all, or one entry for each."),
        ("counts_on_grid", lambda f, i: tk.histogramdd(f(3, 2), range=[(0, 1)]), ValueError,
         "[histogramdd] got 1 ranges for 2 dimensions: give (low, high), or None, for each."),
        ("counts_on_grid", lambda f, i: tk.histogramdd(f(3, 2), 0), ValueError,
         "[histogramdd] the number of bins must be at least 1, got 0."),
        ("counts_on_grid", lambda f, i: tk.histogramdd(f(3, 2), 2, range=[(0, 1), (0, 1)], weights=f(2)), ValueError,
         "[histogramdd] weights of shape (2,) must have the shape (3,) of the counted elements."),
        ("counts_on_grid", lambda f, i: tk.histogramdd(f(3, 2, dtype="complex64")), TypeError,
         "[histogramdd]" + _ORDER),
        ("histogram", lambda f, i: tk.histogram(f(3), range=(2, 1)), ValueError,
         "[histogram] the range 2.0 to 1.0 must be finite and ascending: give range=(low, high)."),
        ("histogram", lambda f, i: tk.histogram(f(3), weights=f(2)), ValueError,
         "[histogram] weights of shape (2,) must have the shape (3,) of the counted elements."),
        ("histogram", lambda f, i: tk.histogram(f(3, dtype="complex64")), TypeError, "[histogram]" + _ORDER),
        ("histogram2d", lambda f, i: tk.histogram2d(f(3), f(4)), ValueError,
         "[histogram2d] x and y must be vectors of one length, got shapes (3,) and (4,)."),
        ("histogram2d", lambda f, i: tk.histogram2d(f(3), f(3), (1, 2, 3)), ArgumentError,
         "[tk::histogram2d] the argument 'bins' must have 2 elements, got (1, 2, 3)."),
        ("histogram2d", lambda f, i: tk.histogram2d(f(3), f(3), range=[(0, 1)]), ValueError,
         "[histogram2d] got 1 ranges: give two, (low, high) of x and of y."),
    ]  # fmt: skip


def _elements() -> list[Any]:
    made: list[Any] = [
        (name, lambda f, i, name=name: getattr(tk, name)(f(2), "a"), ArgumentError,
         f"[tk::{name}] the argument 'x2'" + _NO_TENSOR)
        for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d", "array_equal")
    ]  # fmt: skip
    made += [
        (name, lambda f, i, name=name: getattr(tk, name)("a"), ArgumentError,
         f"[tk::{name}] the argument 'x'" + _NO_TENSOR)
        for name in ("argwhere", "flatnonzero")
    ]  # fmt: skip
    made += [
        (f"special_{name}", lambda f, i, name=name: getattr(tk.special, name)("a"), ArgumentError,
         f"[tk::special_{name}] the argument 'x'" + _NO_TENSOR)
        for name in ("erf", "erfc")
    ]  # fmt: skip
    return [
        *made,
        ("gcd", lambda f, i: tk.gcd(f(2), i(2)), TypeError,
         "[gcd] takes integers, got float32 and int64: convert whole values with tk.astype(x, tk.int64)."),
        ("gcd", lambda f, i: tk.gcd(i(2), i(3)), ValueError, "[gcd] the shapes (2,) and (3,)" + _BROADCAST),
        ("lcm", lambda f, i: tk.lcm(f(2, dtype="bool"), i(2)), TypeError,
         "[lcm] takes integers, got bool and int64: convert whole values with tk.astype(x, tk.int64)."),
        ("lcm", lambda f, i: tk.lcm(i(2), i(3)), ValueError, "[lcm] the shapes (2,) and (3,)" + _BROADCAST),
        *[
            (name, lambda f, i, name=name: getattr(tk, name)(f(2, dtype="complex64")), TypeError, f"[{name}]" + _ORDER)
            for name in ("frexp", "modf")
        ],
        *[
            (name, lambda f, i, name=name: getattr(tk, name)(f(2, dtype="complex64"), 2), TypeError,
             f"[{name}]" + _ORDER)
            for name in ("ldexp", "divmod")
        ],
        ("ldexp", lambda f, i: tk.ldexp(f(2), i(3)), ValueError, "[ldexp] the shapes (2,) and (3,)" + _BROADCAST),
        ("divmod", lambda f, i: tk.divmod(f(2), i(3)), ValueError, "[divmod] the shapes (2,) and (3,)" + _BROADCAST),
        ("bitwise_count", lambda f, i: tk.bitwise_count(f(2)), TypeError,
         "[bitwise_count] takes integers, got float32: convert whole values with tk.astype."),
        ("matvec", lambda f, i: tk.matvec(f(2, 3), f(2)), ValueError,
         "[matvec] got a matrix of shape (2, 3) and a vector of shape (2,)" + _MATRIX.format(-1)),
        ("vecmat", lambda f, i: tk.vecmat(f(3), f(2, 3)), ValueError,
         "[vecmat] got a matrix of shape (2, 3) and a vector of shape (3,)" + _MATRIX.format(-2)),
        ("nan_to_num", lambda f, i: tk.nan_to_num(f(2), nan=1j), ArgumentError,
         "[tk::nan_to_num] the argument 'nan' must be a float, got 1j of type complex."),
        ("isclose", lambda f, i: tk.isclose(f(2), i(3)), ValueError, "[isclose] the shapes (2,) and (3,)" + _BROADCAST),
        ("isclose", lambda f, i: tk.isclose(f(2), f(2), rtol=-1.0), ValueError,
         "[isclose] rtol and atol must be at least 0, got -1.0 and 1e-08."),
        ("allclose", lambda f, i: tk.allclose(f(2), f(3)), ValueError,
         "[allclose] the shapes (2,) and (3,)" + _BROADCAST),
        ("allclose", lambda f, i: tk.allclose(f(2), f(2), atol=-1.0), ValueError,
         "[allclose] rtol and atol must be at least 0, got 1e-05 and -1.0."),
    ]  # fmt: skip


def _along_lines() -> list[Any]:
    made: list[Any] = []
    for name in ("convolve", "correlate"):
        function = getattr(tk, name)
        made += [
            (name, lambda f, i, g=function: g(f(2, 3), f(3)), ValueError,
             f"[{name}] takes two vectors, got shapes (2, 3) and (3,)."),
            (name, lambda f, i, g=function: g(f(0), f(3)), ValueError,
             f"[{name}] got a vector without elements: shapes (0,) and (3,)."),
            (name, lambda f, i, g=function: g(f(3), f(3), mode="all"), ValueError,
             f"[{name}] mode must be 'full', 'same' or 'valid', got 'all'."),
        ]  # fmt: skip
    for name in ("logsumexp", "softmax", "log_softmax"):
        function = getattr(tk.special, name)
        made.append(
            (f"special_{name}", lambda f, i, g=function: g(f(2, 3), 2), IndexError, f"[{name}] axis 2" + _RANGE)
        )
    return [
        *made,
        ("convolve_full", lambda f, i: o.convolve_full(f(2, 3), f(3)), ValueError,
         "[convolve] takes two vectors, got shapes (2, 3) and (3,)."),
        ("pad", lambda f, i: tk.pad(f(2, 3), (1, 2, 3)), ValueError,
         ("[pad] pad_width ((1,), (2,), (3,)) does not fit shape (2, 3): give one number, a pair (before, after), or "
         "one pair for each of the 2 dimensions.")),
        ("pad", lambda f, i: tk.pad(f(2, 3), 1, mode="wide"), ValueError,
         ("[pad] there is no mode 'wide': it is one of constant, edge, reflect, symmetric, wrap, linear_ramp, maximum, "
         "minimum, mean, median.")),
        ("pad", lambda f, i: tk.pad(f(2, 3), 1, mode="mean", stat_length=(2, 0)), ValueError,
         "[pad] got stat_length ((2,), (0,)): a statistic needs at least 1 element."),
        ("pad", lambda f, i: tk.pad(f(2, 3), 1, mode="edge", stat_length=2), ValueError,
         "[pad] mode 'edge' takes no stat_length: that is for the modes maximum, minimum, mean, median."),
        ("pad", lambda f, i: tk.pad(f(2, 3), -1), ValueError,
         "[pad] pad_width ((-1,),) has a negative number: widths are at least 0. To cut, index with x[1:-1]."),
        ("pad", lambda f, i: tk.pad(f(0, 3), 1, mode="reflect"), ValueError,
         ("[pad] mode 'reflect' cannot pad axis 0 of shape (0, 3), which is empty: use 'constant'.")),
        ("gradient_on_grid", lambda f, i: tk.gradient(f(2, 3), axis=2), IndexError, "[gradient] axis 2" + _RANGE),
        ("gradient_on_grid", lambda f, i: tk.gradient(f(1, 3)), ValueError,
         "[gradient] axis 0 of shape (1, 3) has too few elements: edge_order=1 needs 2."),
        ("gradient_on_grid", lambda f, i: tk.gradient(f(4, 3), edge_order=3), ValueError,
         "[gradient] edge_order must be 1 or 2, got 3."),
        ("gradient_on_grid", lambda f, i: tk.gradient(f(4, 3), [1.0, 2.0, 3.0]), ValueError,
         "[gradient] spacing has 3 entries for 2 axes: give one distance for all, or one for each axis."),
        ("gradient_on_grid", lambda f, i: tk.gradient(f(4, 3), f(3), axis=0), ValueError,
         ("[gradient] places of shape (3,) for axes (0,) of shape (4, 3): they must be a vector as long as the one "
          "axis.")),
        ("trapezoid", lambda f, i: tk.trapezoid(f(2, 3), axis=2), IndexError, "[trapezoid] axis 2" + _RANGE),
        ("trapezoid", lambda f, i: tk.trapezoid(f(2, 3), f(4)), ValueError,
         "[trapezoid] x of shape (4,) must have the length 3 along the axis, as y of shape (2, 3), or be a vector."),
        ("trapezoid", lambda f, i: tk.trapezoid(f()), IndexError,
         "[trapezoid] axis -1 is out of range for a tensor of 0 dimensions, which has no axes."),
        ("unwrap", lambda f, i: tk.unwrap(f(2, 3), axis=2), IndexError, "[unwrap] axis 2" + _RANGE),
        ("unwrap", lambda f, i: tk.unwrap(f(2, dtype="complex64")), TypeError,
         "[unwrap] is not defined for dtype complex64: it takes real dtypes."),
        ("unwrap", lambda f, i: tk.unwrap(f(2), period=0), ValueError, "[unwrap] period must be positive, got 0.0."),
        ("polyval", lambda f, i: tk.polyval(f(2, 3), f(4)), ValueError,
         "[polyval] takes a vector, got shape (2, 3)."),
        ("vander", lambda f, i: tk.vander(f(2, 3)), ValueError, "[vander] takes a vector, got shape (2, 3)."),
        ("vander", lambda f, i: tk.vander(f(3), -1), ValueError,
         "[vander] N is the number of columns, at least 0; got -1."),
        ("interp", lambda f, i: tk.interp(f(3), f(2), f(3)), ValueError,
         "[interp] xp and fp must be vectors of one length, at least 1; got shapes (2,) and (3,)."),
        ("interp", lambda f, i: tk.interp(f(3, dtype="complex64"), f(2), f(2)), TypeError,
         "[interp] is not defined for places of dtype complex64: complex numbers have no order."),
        ("interp", lambda f, i: tk.interp(f(3), f(2), f(2), period=0.0), ValueError,
         "[interp] period must not be 0."),
    ]  # fmt: skip
