"""Reductions that skip nan."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ....core.tensor import Tensor
from ...declare import Entry, along, checked, composite, normal, place_meta, structured
from ...shapes import normalize_axes, normalize_axis, refuse_empty
from ..elementwise.comparison import equal, isnan, logical_not, logical_or, where
from ..elementwise.complex import refuse_complex, squared_size
from ..elementwise.exponential import sqrt
from ..shape.copying import cast
from ..shape.views import reshape
from .cumulative import cumulative_prod, cumulative_sum
from .reduction import all, argmax, argmin, max, mean, min, over_axes, prod, refuse_any, sum

_CASES: Final = [*over_axes(None, 0, -1, (0, 1)), ([0, 3], {"axis": 1})]
_samples = normal(*_CASES, [])


def _exact(x: Tensor) -> bool:
    return x.dtype.kind in "biu"


def _combined(
    name: str, reduce: Entry, neutral: float, what: str, shown: float, methods: tuple[str, ...] = ()
) -> Entry:
    @composite(
        f"{name}(Tensor x, int[1]? axis=None, *, DType? dtype=None, bool keepdims=False) -> Tensor",
        sample_inputs=_samples,
        methods=methods,
        doc=f"""{what} the elements along axes that are not nan; {neutral:.0f} where there are none.

    Integers are converted to 64 bits, as by ``tk.{name[3:]}``.

    >>> tk.{name}(tk.asarray([3.0, float("nan"), 2.0])).item()
    {shown}
    """,
    )
    def function(x: Tensor, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
        axes = normalize_axes(name, axis, x.ndim)
        return reduce(x if _exact(x) else where(isnan(x), neutral, x), axis=axes, dtype=dtype, keepdims=keepdims)

    return function


nansum = _combined("nansum", sum, 0.0, "Sum", 5.0, ("nansum",))
nanprod = _combined("nanprod", prod, 1.0, "Multiply", 6.0)


def _extreme(name: str, reduce: Entry, neutral: float, size: str, shown: float) -> Entry:
    @composite(
        f"{name}(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
        sample_inputs=_samples,
        doc=f"""Return the {size} element along axes that is not nan; nan where there is none. Ties share the gradient.

    >>> tk.{name}(tk.asarray([1.0, float("nan"), 2.0])).item()
    {shown}
    """,
    )
    def function(x: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        refuse_complex(name, x.dtype)
        axes = normalize_axes(name, axis, x.ndim)
        refuse_empty(name, x.shape, axis)
        if _exact(x):
            return reduce(x, axis=axes, keepdims=keepdims)
        missing = isnan(x)
        found = reduce(where(missing, neutral, x), axis=axes, keepdims=keepdims)
        return where(all(missing, axis=axes, keepdims=keepdims), math.nan, found)

    return function


nanmax = _extreme("nanmax", max, -math.inf, "largest", 2.0)
nanmin = _extreme("nanmin", min, math.inf, "smallest", 1.0)


@composite(
    "nanmean(Tensor x, int[1]? axis=None, *, DType? dtype=None, bool keepdims=False) -> Tensor",
    sample_inputs=_samples,
    methods=("nanmean",),
)
def nanmean(x: Tensor, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Return the arithmetic mean of the elements along axes that are not nan; nan where there are none.

    Integers give floats. With ``dtype`` the elements are converted first.

    >>> tk.nanmean(tk.asarray([1.0, float("nan"), 2.0])).item()
    1.5
    """
    axes = normalize_axes("nanmean", axis, x.ndim)
    if dtype is not None:
        x = cast(x, dtype)
    if _exact(x):
        return mean(x, axis=axes, keepdims=keepdims)
    missing = isnan(x)
    count = sum(logical_not(missing), axis=axes, keepdims=keepdims)
    return sum(where(missing, 0.0, x), axis=axes, keepdims=keepdims) / count


def _nanvar(
    operator: str, x: Tensor, axis: Any, correction: float, ddof: float | None, dtype: Any, keepdims: bool
) -> Tensor:
    if ddof is not None:  # NumPy's name, which xarray passes
        if correction:
            raise ValueError(
                f"[{operator}] got correction={correction} and ddof={ddof}, two names of one argument: give one."
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
    count = sum(present, axis=axes, keepdims=keepdims) - correction
    total = sum(squared_size(deviation), axis=axes, keepdims=keepdims)
    count = cast(count, total.dtype)  # the variance of no more numbers than the correction is nan
    return total / where(count > 0, count, math.nan)


_CORRECTED: Final = ([3, 4], {"axis": 0, "correction": 1.0})
_NAN_MOMENT: Final = (
    "Tensor x, int[1]? axis=None, *, float correction=0.0, float? ddof=None, DType? dtype=None, bool keepdims=False"
)


@composite(f"nanvar({_NAN_MOMENT}) -> Tensor", sample_inputs=normal(*_CASES, _CORRECTED, []))
def nanvar(
    x: Tensor, axis: Any = None, *, correction: float = 0.0, ddof: float | None = None, dtype: Any = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return the variance of the elements along axes that are not nan: the mean squared distance from their mean.

    The sum of squares is divided by the number of these elements less ``correction``; nan where that is not positive.
    Integers give floats, complex numbers real ones. ``ddof`` is NumPy's name for ``correction``; with ``dtype`` the
    elements are converted first.

    >>> tk.nanvar(tk.asarray([1.0, float("nan"), 3.0])).item()
    1.0
    """
    return _nanvar("nanvar", x, axis, correction, ddof, dtype, keepdims)


@composite(f"nanstd({_NAN_MOMENT}) -> Tensor", sample_inputs=normal(*_CASES, _CORRECTED))
def nanstd(
    x: Tensor, axis: Any = None, *, correction: float = 0.0, ddof: float | None = None, dtype: Any = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return the standard deviation of the elements along axes that are not nan: the square root of ``nanvar``.

    >>> tk.nanstd(tk.asarray([1.0, float("nan"), 3.0])).item()
    1.0
    """
    return sqrt(_nanvar("nanstd", x, axis, correction, ddof, dtype, keepdims))


# ---- places of the extremes


def _index_of(name: str, neutral: float, find_place: Entry, size: str, shown: int) -> Entry:
    find = getattr(np, name[3:])
    rule = place_meta(name)

    def on_numpy(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
        if x.dtype.kind != "f":
            return np.asarray(find(x, axis, keepdims=keepdims), np.int64)
        missing = np.isnan(x)
        if missing.all(axis).any():
            raise ValueError(
                f"[{name}] axis={axis} of shape {x.shape} has a slice of nan only: it has no {size} element."
            )
        values = np.where(missing, neutral, x)
        found = find(values, axis, keepdims=keepdims)
        # where every number is the infinity that stands for nan, the first number
        alike = (missing | (values == neutral)).all(axis, keepdims=keepdims)
        if alike.any():
            found = np.where(alike, missing.argmin(axis, keepdims=keepdims), found)
        return np.asarray(found, np.int64)

    def parts(x: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        if _exact(x):
            return find_place(x, axis, keepdims=keepdims)
        missing = isnan(x)
        refuse_any(
            all(missing, axis=axis), name, f"axis={axis} of shape {x.shape} has a slice of nan only: it has no {size} "
            "element.",
        )  # fmt: skip
        values = where(missing, neutral, x)
        alike = all(logical_or(missing, equal(values, neutral)), axis=axis, keepdims=keepdims)
        first = argmin(missing, axis, keepdims=keepdims)
        return where(alike, first, find_place(values, axis, keepdims=keepdims))

    return structured(
        f"{name}(Tensor x, int? axis=None, *, bool keepdims=False) -> Tensor",
        meta=rule,
        numpy=on_numpy,
        decomposition=checked(rule, parts, "arg_reduction", "reduction", "gather"),
        differentiable=False,
        sample_inputs=normal(*over_axes(None, 0, -1), []),
        batch=along("axis"),
        doc=f"""Return the index of the {size} element along an axis that is not nan, at a tie the first; int64.

    Without axis, in the flattened tensor. Raises ValueError for a slice that holds only nan.

    >>> tk.{name}(tk.asarray([1.0, float("nan"), 2.0])).item()
    {shown}
    """,
    )


nanargmax = _index_of("nanargmax", -math.inf, argmax, "largest", 2)
nanargmin = _index_of("nanargmin", math.inf, argmin, "smallest", 0)


# ---- cumulative sums and products


_cumulative_samples = normal(([3, 4], {"axis": 0}), ([3, 4], {"axis": -1}), [3])


def _cumulative(name: str, accumulate: Entry, neutral: float, what: str, shown: str) -> Entry:
    @composite(
        f"{name}(Tensor x, int? axis=None, *, DType? dtype=None) -> Tensor",
        sample_inputs=_cumulative_samples,
        doc=f"""Return the cumulative {what} along an axis, or of the flattened tensor; nan counts as {neutral:.0f}.

    >>> tk.{name}(tk.asarray([2.0, float("nan"), 3.0])).tolist()
    {shown}
    """,
    )
    def function(x: Tensor, axis: int | None = None, *, dtype: Any = None) -> Tensor:
        if not _exact(x):
            x = where(isnan(x), neutral, x)
        if axis is None:
            x, axis = reshape(x, (-1,)), 0
        return accumulate(x, axis=normalize_axis(name, axis, x.ndim), dtype=dtype)

    return function


nancumsum = _cumulative("nancumsum", cumulative_sum, 0.0, "sums", "[2.0, 2.0, 5.0]")
nancumprod = _cumulative("nancumprod", cumulative_prod, 1.0, "products", "[2.0, 2.0, 6.0]")
