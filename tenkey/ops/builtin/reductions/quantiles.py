"""Quantiles and medians: order statistics and the interpolation between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from ....core.dtypes.names import default_float, float64, int64
from ....core.lift import weak_tensor
from ....core.tensor import Tensor
from ....core.word import WEAK_MASK
from ....dispatch.tags import Tag
from ...declare import Decomposition, Entry, TensorSpec, broadcast, composite, internal, normal
from ...shapes import broadcast_shapes, normalize_axes
from ..creation import concrete, full
from ..elementwise.arithmetic import maximum, minimum
from ..elementwise.comparison import equal, isnan, not_equal, where
from ..elementwise.complex import refuse_complex
from ..elementwise.rounding import floor, round
from ..indexing.advanced_indexing import check_integers
from ..indexing.places import take
from ..shape.copying import as_dtype, cast, clone, concat
from ..shape.views import expand_dims, permute_dims, reshape, select_index, squeeze
from ..shape.views import slice as slice_view
from ..sorting.sort import sorted_rows
from .reduction import over_axes, restore_axes, sum

# Note [Ties in order statistics]
#     Elements equal to the k-th smallest could stand in its place. So they share the gradient equally, as in max and
#     min, and unlike in a sort followed by a gather. Guarded by `test_ties_share_the_gradient_of_a_median`.


def _order_meta(x: Any, k: Any, *, skip_nan: bool = False) -> TensorSpec:
    check_integers("order_statistics", k)
    batch = broadcast_shapes("order_statistics", x.shape[:-1], k.shape[:-1])
    return TensorSpec((*batch, k.shape[-1]), x.dtype)


def order_on_numpy(x: Any, k: Any, *, skip_nan: bool = False, ordered: Any = None) -> Any:
    """Compute ``order_statistics`` on the CPU; ``ordered`` are the sorted elements, if they are known."""
    batch = np.broadcast_shapes(x.shape[:-1], k.shape[:-1])
    if ordered is not None:
        pass
    elif x.dtype.kind == "V":
        ordered = np.sort(x.astype(np.float32), axis=-1).astype(x.dtype)
    elif k.ndim == 1 and k.size and x.shape[-1] > 32:
        ordered = np.partition(x, (*np.unique(k).tolist(), x.shape[-1] - 1), axis=-1)  # nan comes last
    else:
        ordered = np.sort(x, axis=-1)
    if k.ndim == 1:
        found = ordered[..., k]
    else:
        wide = np.broadcast_to(ordered, (*batch, x.shape[-1]))
        found = np.take_along_axis(wide, np.broadcast_to(k, (*batch, k.shape[-1])), -1)
    if x.dtype.kind in "fV" and not skip_nan:
        broken = np.isnan(ordered[..., -1:])
        if broken.any():
            found = np.where(broken, np.asarray(np.nan, x.dtype), found)
    return found


def _order_by_sort(x: Tensor, k: Tensor, *, skip_nan: bool = False) -> Tensor:
    shape, _ = _order_meta(x, k)
    ordered = reshape(sorted_rows(x, -1)[0], x.shape)
    whole, places = [reshape(y, (*[1] * (len(shape) - y.ndim), *y.shape)) for y in (ordered, k)]
    found = take(whole, places, -1, "order_statistics")
    n = x.shape[-1]
    if skip_nan or x.dtype.kind not in "fV" or not n:
        return found
    return where(isnan(slice_view(whole, -1, n - 1, n)), math.nan, found)


def _order_vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    alike = equal(expand_dims(x, -1), expand_dims(out, -2))  # (..., n, m)
    count = maximum(sum(alike, axis=-2, keepdims=True), 1)
    shares = where(alike, expand_dims(g, -2) / cast(count, g.dtype), 0.0)
    return sum(shares, axis=-1)


order_statistics = internal(
    "order_statistics(Tensor x, Tensor k, *, bool skip_nan=False) -> Tensor",
    meta=_order_meta,
    numpy=order_on_numpy,
    decomposition=Decomposition(_order_by_sort, needs=("sort", "gather")),
    vjp={"x": _order_vjp},
    sample_inputs=lambda rng: [
        ((rng.standard_normal((3, 5)), np.array([0, 3])), {}),
        ((rng.standard_normal((2, 32)), np.array([7])), {}),
        ((rng.standard_normal((2, 5)), rng.integers(0, 5, (2, 3))), {"skip_nan": True}),
        ((rng.standard_normal((5,)), np.array([4])), {}),
        ((rng.standard_normal((0, 5)), np.array([4])), {}),
    ],
    batch=broadcast,
    doc="Return the ``k``-th smallest elements of the last dimension, from 0; nan if one is nan and not skipped.",
)


# ---- the place of a quantile among the order statistics: the nine methods of Hyndman and Fan (1996), four simple ones


# ``m`` is the module of functions: NumPy for one number, operators for a tensor of fractions.
_TENSORS: Final = SimpleNamespace(floor=floor, round=round, where=where, equal=equal, not_equal=not_equal)


def _continuous(alpha: float, beta: float) -> Callable[..., Any]:
    return lambda m, n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1


_PLACES: Final[dict[str, Callable[..., Any]]] = {
    "interpolated_inverted_cdf": _continuous(0.0, 1.0),
    "hazen": _continuous(0.5, 0.5),
    "weibull": _continuous(0.0, 0.0),
    "linear": lambda m, n, q: (n - 1) * q,
    "median_unbiased": _continuous(1 / 3, 1 / 3),
    "normal_unbiased": _continuous(3 / 8, 3 / 8),
    "inverted_cdf": lambda m, n, q: n * q - 1,
    "averaged_inverted_cdf": lambda m, n, q: n * q - 1,
    "closest_observation": lambda m, n, q: n * q - 1 - 0.5,
    "lower": lambda m, n, q: m.floor((n - 1) * q),
    "higher": lambda m, n, q: -m.floor(-((n - 1) * q)),
    "midpoint": lambda m, n, q: 0.5 * (m.floor((n - 1) * q) - m.floor(-((n - 1) * q))),
    "nearest": lambda m, n, q: m.round((n - 1) * q),
}
_STEPS: Final = ("lower", "higher", "nearest")


def _weight(m: Any, method: str, place: Any, below: Any) -> Any:
    """Return the weight of the upper of two neighbours."""
    rest = place - below
    if method == "inverted_cdf":
        return m.where(m.not_equal(rest, 0.0), 1.0, 0.0 * rest)
    if method == "averaged_inverted_cdf":
        return m.where(m.equal(rest, 0.0), 0.5, 1.0 + 0.0 * rest)
    if method == "closest_observation":
        # at a tie, the even one of the two places, counted from 1
        odd = below - 2.0 * m.floor(below * 0.5)
        return m.where(m.equal(rest, 0.0), 1.0 - odd, 1.0 + 0.0 * rest)
    return rest


def _flatten(operator: str, x: Tensor, axis: Any) -> tuple[Tensor, tuple[int, ...]]:
    """Return the tensor with the reduced axes joined as its last axis; raise ValueError if they have no elements."""
    axes = normalize_axes(operator, axis, x.ndim)
    if 0 in [x.shape[i] for i in axes]:
        raise ValueError(
            f"[{operator}] got shape {x.shape} with axis={axis}: no elements have no quantiles. Test x.size first."
        )
    if axes == (x.ndim - 1,):
        return x, axes
    rest = tuple([i for i in range(x.ndim) if i not in axes])
    moved = permute_dims(x, (*rest, *axes)) if (*rest, *axes) != tuple(range(x.ndim)) else x
    return reshape(moved, (*[x.shape[i] for i in rest], math.prod([x.shape[i] for i in axes]))), axes


def _check_q(operator: str, q: Tensor, high: float) -> None:
    if q.ndim > 1:
        raise ValueError(f"[{operator}] q must be a number or a 1-d tensor, got shape {q.shape}.")
    if q._data.__class__ is np.ndarray and q.__class__ is Tensor:
        wrong = q._data[~((q._data >= 0) & (q._data <= high))]
        if wrong.size:
            raise ValueError(
                f"[{operator}] q must be in [0, {int(high)}], got {wrong.flat[0]}: tk.quantile takes fractions, "
                "tk.percentile hundreds."
            )


def _quantile(
    operator: str, x: Tensor, q: Tensor, axis: Any, method: str, keepdims: bool, high: float, skip_nan: bool = False
) -> Tensor:
    x = concrete(x, q)
    refuse_complex(operator, x.dtype)
    if method not in _PLACES:
        raise ValueError(f"[{operator}] there is no method {method!r}: it is one of {', '.join(sorted(_PLACES))}.")
    refuse_complex(operator, q.dtype)
    _check_q(operator, q, high)
    rows, axes = _flatten(operator, x, axis)
    n = rows.shape[-1]
    dtype = x.dtype if x.dtype.kind in "fV" else default_float()
    if rows.dtype.kind == "b":
        rows = cast(rows, dtype)
    skip = skip_nan and x.dtype.kind in "fV"
    if q._word & WEAK_MASK and not skip:  # one number: one place for all rows
        place = _PLACES[method](np, n, float(q._data) / high)
        below = np.floor(place)
        share: Any = float(_weight(np, method, place, below))
        first_place, second_place = [int(min(max(at, 0), n - 1)) for at in (below, below + 1)]
        places = (first_place,) if share == 0 else (first_place, second_place)
        found = as_dtype(order_statistics(rows, _indices(places, x)), dtype)
        if share:
            first, second = select_index(found, -1, 0), select_index(found, -1, 1)
            found = expand_dims(_between(first, second, share), -1)
        return _shaped(found, x.shape, axes, q, keepdims)
    if q._word & WEAK_MASK:
        q = full((), float(q._data), dtype=float64, device=x.device)
    fractions = reshape(cast(q, float64), (-1,))
    if high != 1:
        fractions = fractions / high
    length: Any = n
    if skip:
        present = sum(cast(equal(rows, rows), float64), axis=-1, keepdims=True)
        length = maximum(present, 1.0)
    place = _PLACES[method](_TENSORS, length, fractions)  # (..., m)
    last = length - 1
    below = floor(place)
    share = cast(_weight(_TENSORS, method, place, below), dtype)
    lower, upper = [cast(maximum(minimum(at, last), 0.0), int64) for at in (below, below + 1.0)]
    found = as_dtype(order_statistics(rows, lower, skip_nan=skip), dtype)
    second = as_dtype(order_statistics(rows, upper, skip_nan=skip), dtype)
    if method not in _STEPS:
        found = _between(found, second, share)
    return _shaped(found, x.shape, axes, q, keepdims)


def _between(first: Tensor, second: Tensor, share: Any) -> Tensor:
    """Interpolate: exactly where both are equal, to infinity where one is infinite, and without overflow."""
    mixed = first * (1 - share) + second * share
    result = where(equal(first, second), first, mixed)
    if isinstance(share, float):
        return result
    return where(equal(share, 0.0), first, where(equal(share, 1.0), second, result))


def _shaped(found: Tensor, shape: tuple[int, ...], axes: tuple[int, ...], q: Tensor, keepdims: bool) -> Tensor:
    """Move the dimension of q to the front; a number has none."""
    if keepdims:
        kept = tuple([1 if i in axes else n for i, n in enumerate(shape)])
        found = reshape(found, (*kept, found.shape[-1]))
    if q.ndim == 0:
        return squeeze(found, -1)
    order = (found.ndim - 1, *range(found.ndim - 1))
    return clone(permute_dims(found, order)) if found.ndim > 1 else found


_CASES: Final = [*over_axes(None, 0, -1, (0, 1)), ([], {}), ([0, 3], {"axis": 1})]


def _quantile_function(name: str, doc: str, *, high: float = 1.0, skip_nan: bool = False) -> Entry:
    @composite(
        f"{name}(Tensor x, Tensor q, int[1]? axis=None, *, str method='linear', bool keepdims=False) -> Tensor",
        sample_inputs=normal(
            *[(shape, high * 0.3, options) for shape, options in _CASES],
            *[([7], high * 0.41, {"method": method}) for method in _PLACES],
        ),
        methods=("quantile",) if name == "quantile" else (),
        tags=(Tag.EXACT_SEQUENCES,),
        doc=doc,
    )
    def function(x: Tensor, q: Tensor, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Tensor:
        return _quantile(name, x, q, axis, method, keepdims, high, skip_nan)

    return function


quantile = _quantile_function(
    "quantile",
    """Return the ``q``-quantiles of the elements along axes; nan where an element is nan.

    Args: x: real tensor; q: a number in [0, 1] or a 1-d tensor of them, whose dimension becomes the first of the
    result; axis: an int, several, or None for all. method: NumPy's names of the nine methods of Hyndman and Fan (1996),
    ``inverted_cdf``, ``averaged_inverted_cdf``, ``closest_observation``, ``interpolated_inverted_cdf``, ``hazen``,
    ``weibull``, ``linear``, ``median_unbiased`` and ``normal_unbiased``, or ``lower``, ``higher``, ``midpoint`` or
    ``nearest``. The result has the dtype of ``x``; integers give floats.

    Differentiable with respect to ``x`` (equal elements share the gradient) and ``q``. Raises ValueError for no
    elements, an unknown method, or a ``q`` outside [0, 1].

    >>> tk.quantile(tk.asarray([4.0, 1.0, 2.0, 3.0]), tk.asarray([0.0, 0.5, 1.0])).tolist()
    [1.0, 2.5, 4.0]
    """,
)

percentile = _quantile_function(
    "percentile",
    """Return ``tk.quantile`` with ``q`` in percent, within [0, 100].

    >>> tk.percentile(tk.asarray([4.0, 1.0, 2.0, 3.0]), 50).item()
    2.5
    """,
    high=100.0,
)

nanquantile = _quantile_function(
    "nanquantile",
    """Return ``tk.quantile`` of the elements that are not nan; nan where there are none.

    >>> tk.nanquantile(tk.asarray([1.0, float("nan"), 3.0]), 0.5).item()
    2.0
    """,
    skip_nan=True,
)

nanpercentile = _quantile_function(
    "nanpercentile",
    """Return ``tk.percentile`` of the elements that are not nan; nan where there are none.

    >>> tk.nanpercentile(tk.asarray([1.0, float("nan"), 3.0]), 50).item()
    2.0
    """,
    high=100.0,
    skip_nan=True,
)


_median_samples = normal(*_CASES, ([3, 5], {"axis": 1}))


@composite(
    "median(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
    sample_inputs=_median_samples,
    methods=("median",),
)
def median(x: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Return the median along axes: the middle element, or the mean of the two; nan where an element is nan.

    Integers give floats. Equal elements share the gradient. Raises ValueError for no elements.

    >>> tk.median(tk.asarray([4.0, 1.0, 2.0])).item()
    2.0
    """
    refuse_complex("median", x.dtype)
    rows, axes = _flatten("median", x, axis)
    n = rows.shape[-1]
    dtype = x.dtype if x.dtype.kind in "fV" else default_float()
    rows = as_dtype(rows, dtype)
    middle = _indices((n // 2,) if n % 2 else (n // 2 - 1, n // 2), x)
    found = order_statistics(rows, middle)
    if n % 2:
        result = squeeze(found, -1)
    else:
        result = sum(found * 0.5, axis=-1)  # halved first, so that the sum of two large numbers does not overflow
    return restore_axes(result, x.shape, axes, False) if keepdims else result


def _indices(places: tuple[int, ...], like: Tensor) -> Tensor:
    parts = [full((1,), place, dtype=int64, device=like.device) for place in places]
    return parts[0] if len(parts) == 1 else concat(parts)


@composite("nanmedian(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor", sample_inputs=_median_samples)
def nanmedian(x: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Return the median of the elements that are not nan; nan where there are none.

    >>> tk.nanmedian(tk.asarray([1.0, float("nan"), 3.0])).item()
    2.0
    """
    if x.dtype.kind in "biu":
        normalize_axes("nanmedian", axis, x.ndim)
        return median(x, axis, keepdims=keepdims)
    return _quantile("nanmedian", x, weak_tensor(0.5), axis, "linear", keepdims, 1.0, skip_nan=True)
