"""Reductions that leave out what is not a number."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ....core.dtypes.names import int64
from ....core.tensor import Tensor
from ...declare import TensorSpec, along, composite, structured
from ...shapes import normalize_axes, reduced_shape, refuse_empty
from ..elementwise.comparison import isnan, logical_not, where
from ..elementwise.complex import imag, real
from ..elementwise.exponential import sqrt
from ..shape.copying import cast
from .reduction import all, max, mean, min, prod, sum

_UNORDERED: Final = "[{operator}] is not defined for dtype {dtype}: complex numbers have no order. Use tk.real(x), say."


def _with_nans(rng: np.random.Generator) -> Any:
    return [
        ((rng.standard_normal((3, 4)),), {"axis": axis, "keepdims": keepdims})
        for axis in (None, 0, -1, (0, 1))
        for keepdims in (False, True)
    ] + [((rng.standard_normal(()),), {}), ((rng.standard_normal((0, 3)),), {"axis": 1})]


def _exact(x: Tensor) -> bool:
    return x.dtype.kind in "biu"


@composite(
    "nansum(Tensor x, int[1]? axis=None, *, DType? dtype=None, bool keepdims=False) -> Tensor",
    sample_inputs=_with_nans,
    reference=np.nansum,
    methods=("nansum",),
)
def nansum(x: Tensor, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum along axes of the elements that are no nan; 0 where there is none. Integers sum in 64 bits.

    >>> import tenkey as tk
    >>> tk.nansum(tk.asarray([1.0, float("nan"), 2.0])).item()
    3.0
    """
    axes = normalize_axes("nansum", axis, x.ndim)
    return sum(x if _exact(x) else where(isnan(x), 0.0, x), axis=axes, dtype=dtype, keepdims=keepdims)


@composite(
    "nanprod(Tensor x, int[1]? axis=None, *, DType? dtype=None, bool keepdims=False) -> Tensor",
    sample_inputs=_with_nans,
    reference=np.nanprod,
)
def nanprod(x: Tensor, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product along axes of the elements that are no nan; 1 where there is none.

    >>> import tenkey as tk
    >>> tk.nanprod(tk.asarray([3.0, float("nan"), 2.0])).item()
    6.0
    """
    axes = normalize_axes("nanprod", axis, x.ndim)
    return prod(x if _exact(x) else where(isnan(x), 1.0, x), axis=axes, dtype=dtype, keepdims=keepdims)


def _extreme(operator: str, reduce: Callable[..., Any], neutral: float) -> Callable[..., Tensor]:
    def function(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
        if x.dtype.kind == "c":
            raise TypeError(_UNORDERED.format(operator=operator, dtype=x.dtype))
        axes = normalize_axes(operator, axis, x.ndim)
        refuse_empty(operator, x.shape, axis)
        if _exact(x):
            result: Tensor = reduce(x, axis=axes, keepdims=keepdims)
            return result
        missing = isnan(x)
        found = reduce(where(missing, neutral, x), axis=axes, keepdims=keepdims)
        return where(all(missing, axis=axes, keepdims=keepdims), math.nan, found)

    return function


_nanmax = _extreme("nanmax", max, -math.inf)
_nanmin = _extreme("nanmin", min, math.inf)


@composite(
    "nanmax(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
    sample_inputs=_with_nans,
    reference=np.nanmax,
)
def nanmax(x: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The largest along axes of the elements that are no nan; nan where there is none. Ties share the gradient.

    >>> import tenkey as tk
    >>> tk.nanmax(tk.asarray([1.0, float("nan"), 2.0])).item()
    2.0
    """
    return _nanmax(x, axis, keepdims)


@composite(
    "nanmin(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
    sample_inputs=_with_nans,
    reference=np.nanmin,
)
def nanmin(x: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The smallest along axes of the elements that are no nan; nan where there is none. Ties share the gradient.

    >>> import tenkey as tk
    >>> tk.nanmin(tk.asarray([1.0, float("nan"), 2.0])).item()
    1.0
    """
    return _nanmin(x, axis, keepdims)


@composite(
    "nanmean(Tensor x, int[1]? axis=None, *, DType? dtype=None, bool keepdims=False) -> Tensor",
    sample_inputs=_with_nans,
    reference=np.nanmean,
    methods=("nanmean",),
)
def nanmean(x: Tensor, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean along axes of the elements that are no nan; nan where there is none. Integers give floats.

    With ``dtype`` the elements are converted first.

    >>> import tenkey as tk
    >>> tk.nanmean(tk.asarray([1.0, float("nan"), 2.0])).item()
    1.5
    """
    result: Tensor
    axes = normalize_axes("nanmean", axis, x.ndim)
    if dtype is not None:
        x = cast(x, dtype)
    if _exact(x):
        result = mean(x, axis=axes, keepdims=keepdims)
        return result
    missing = isnan(x)
    count = sum(logical_not(missing), axis=axes, keepdims=keepdims)
    result = sum(where(missing, 0.0, x), axis=axes, keepdims=keepdims) / count
    return result


def _nanvar(
    operator: str, x: Tensor, axis: Any, correction: float, ddof: float | None, dtype: Any, keepdims: bool
) -> Tensor:
    if ddof is not None:  # xarray passes NumPy's word
        if correction:
            raise ValueError(
                f"[{operator}] got correction={correction} and ddof={ddof}, two words for one thing: give one of them."
            )
        correction = ddof
    if dtype is not None:
        x = cast(x, dtype)
    axes = normalize_axes(operator, axis, x.ndim)
    missing = isnan(x)
    present = logical_not(missing)
    filled = where(missing, 0.0, x) if not _exact(x) else x
    center = sum(filled, axis=axes, keepdims=True) / sum(present, axis=axes, keepdims=True)
    deviation = where(missing, 0.0, filled - center)
    square = deviation * deviation if x.dtype.kind != "c" else real(deviation) ** 2 + imag(deviation) ** 2
    count = sum(present, axis=axes, keepdims=keepdims) - correction
    total = sum(square, axis=axes, keepdims=keepdims)
    # as many numbers as the correction, or fewer, have no variance
    count = cast(count, total.dtype)
    return total / where(count > 0, count, math.nan)


def _reference_var(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axis=None, correction=0.0, keepdims=False: function(x, axis, ddof=correction, keepdims=keepdims)


def _var_samples(rng: np.random.Generator) -> Any:
    return [
        *_with_nans(rng),
        ((rng.standard_normal((3, 4)),), {"axis": 0, "correction": 1.0}),
    ]


_NAN_MOMENT: Final = (
    "Tensor x, int[1]? axis=None, *, float correction=0.0, float? ddof=None, DType? dtype=None, bool keepdims=False"
)


@composite(
    f"nanvar({_NAN_MOMENT}) -> Tensor",
    sample_inputs=_var_samples,
    reference=_reference_var(np.nanvar),
)
def nanvar(
    x: Tensor, axis: Any = None, *, correction: float = 0.0, ddof: float | None = None, dtype: Any = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """The variance along axes of the elements that are no nan: the mean of the squared distances from their mean.

    The sum of squares is divided by the number of these elements less ``correction``; nan where that is not positive.
    Integers give floats, complex numbers real ones. ``ddof`` is NumPy's word for ``correction``; with ``dtype`` the
    elements are converted first.

    >>> import tenkey as tk
    >>> tk.nanvar(tk.asarray([1.0, float("nan"), 3.0])).item()
    1.0
    """
    return _nanvar("nanvar", x, axis, correction, ddof, dtype, keepdims)


@composite(
    f"nanstd({_NAN_MOMENT}) -> Tensor",
    sample_inputs=lambda rng: [s for s in _var_samples(rng) if s[0][0].ndim],
    reference=_reference_var(np.nanstd),
)
def nanstd(
    x: Tensor, axis: Any = None, *, correction: float = 0.0, ddof: float | None = None, dtype: Any = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """The standard deviation along axes of the elements that are no nan: the root of ``nanvar``.

    >>> import tenkey as tk
    >>> tk.nanstd(tk.asarray([1.0, float("nan"), 3.0])).item()
    1.0
    """
    return sqrt(_nanvar("nanstd", x, axis, correction, ddof, dtype, keepdims))


# ---- where the extremes are


def _index_meta(operator: str) -> Callable[..., TensorSpec]:
    def rule(x: Any, axis: int | None = None, *, keepdims: bool = False) -> TensorSpec:
        if x.dtype.kind == "c":
            raise TypeError(_UNORDERED.format(operator=operator, dtype=x.dtype))
        refuse_empty(operator, x.shape, axis)
        return TensorSpec(reduced_shape(operator, x.shape, axis, keepdims), int64)

    return rule


def _index_on_numpy(operator: str, neutral: float, find: Callable[..., Any], what: str) -> Callable[..., Any]:
    def on_numpy(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
        if x.dtype.kind == "f":
            missing = np.isnan(x)
            if missing.all(axis).any():
                raise ValueError(
                    f"[{operator}] axis={axis} of shape {x.shape} has a slice of nan only: it has no {what} element."
                )
            values = np.where(missing, neutral, x)
            found = find(values, axis, keepdims=keepdims)
            # where all numbers are the infinity that stands for nan, the first that is a number
            alike = (missing | (values == neutral)).all(axis, keepdims=keepdims)
            if alike.any():
                found = np.where(alike, missing.argmin(axis, keepdims=keepdims), found)
            return np.asarray(found, np.int64)
        return np.asarray(find(x, axis, keepdims=keepdims), np.int64)

    return on_numpy


def _index_samples(rng: np.random.Generator) -> Any:
    return [
        ((rng.standard_normal((3, 4)),), {"axis": axis, "keepdims": keepdims})
        for axis in (None, 0, -1)
        for keepdims in (False, True)
    ] + [((rng.standard_normal(()),), {})]


nanargmax = structured(
    "nanargmax(Tensor x, int? axis=None, *, bool keepdims=False) -> Tensor",
    meta=_index_meta("nanargmax"),
    numpy=_index_on_numpy("nanargmax", -math.inf, np.argmax, "largest"),
    differentiable=False,
    sample_inputs=_index_samples,
    reference=np.nanargmax,
    batch=along("axis"),
    doc="""The index of the largest element that is no nan along an axis, the first at a tie; int64.

    Without axis, in the flattened tensor. ValueError for a slice that holds nothing but nan.

    >>> import tenkey as tk
    >>> tk.nanargmax(tk.asarray([1.0, float("nan"), 2.0])).item()
    2
    """,
)

nanargmin = structured(
    "nanargmin(Tensor x, int? axis=None, *, bool keepdims=False) -> Tensor",
    meta=_index_meta("nanargmin"),
    numpy=_index_on_numpy("nanargmin", math.inf, np.argmin, "smallest"),
    differentiable=False,
    sample_inputs=_index_samples,
    reference=np.nanargmin,
    batch=along("axis"),
    doc="""The index of the smallest element that is no nan along an axis, the first at a tie; int64.

    Without axis, in the flattened tensor. ValueError for a slice that holds nothing but nan.

    >>> import tenkey as tk
    >>> tk.nanargmin(tk.asarray([1.0, float("nan"), 2.0])).item()
    0
    """,
)
