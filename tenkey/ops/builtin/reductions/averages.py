"""Weighted averages and covariances; cumulative sums without nan; sets of two tensors; what is not zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ....core.device import META
from ....core.dtypes.names import default_float, int64
from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ...declare import TensorSpec, composite, structured
from ...shapes import normalize_axes, normalize_axis
from ..creation import concrete, full_like
from ..elementwise.comparison import isnan, where
from ..elementwise.complex import conj, real
from ..elementwise.exponential import sqrt
from ..indexing.advanced_indexing import take
from ..linalg.matmul import matmul
from ..random import random_checked
from ..shape.copying import cast, clone, concat
from ..shape.padding import vector
from ..shape.views import broadcast_to, expand_dims, matrix_transpose, permute_dims, reshape
from .reduction import mean, sum
from .statistics import cumulative_prod, cumulative_sum

_COMPLEX: Final = "[{operator}] is not defined for dtype {dtype}: complex numbers have no order."


def _average_samples(rng: np.random.Generator) -> Any:
    return [
        ((rng.standard_normal((3, 4)),), {"axis": 0, "keepdims": True}),
        ((rng.standard_normal((3, 4)),), {"weights": rng.uniform(0.5, 2, (3, 4))}),
        ((rng.standard_normal((3, 4)),), {"weights": rng.uniform(0.5, 2, (4,)), "axis": -1}),
        ((rng.standard_normal((3, 4, 2)),), {"weights": rng.uniform(0.5, 2, (2, 3)), "axis": (2, 0)}),
    ]


@composite(
    "average(Tensor x, int[1]? axis=None, *, Tensor? weights=None, bool keepdims=False) -> Tensor",
    sample_inputs=_average_samples,
    reference=np.average,
    tags=(Tag.TAKES_SEQUENCES, Tag.INTERNAL),  # tk.average also gives the sums of the weights
)
def average(x: Tensor, axis: Any = None, *, weights: Tensor | None = None, keepdims: bool = False) -> Tensor:
    """The mean along axes, with weights: ``sum(weights * x) / sum(weights)``. Integers give floats.

    Args: weights: of the shape of ``x``, or of its lengths along ``axis``; None for ``tk.mean``.

    >>> import tenkey as tk
    >>> tk.ops.tk.average(tk.asarray([1.0, 4.0]), weights=tk.asarray([2.0, 1.0])).item()
    2.0
    """
    result: Tensor
    if weights is None:
        normalize_axes("average", axis, x.ndim)
        result = mean(x, axis=axis, keepdims=keepdims)
        return result
    weighted, total = _weighted(x, axis, weights, keepdims)
    result = weighted / total
    return result


@composite(
    "average_and_weights(Tensor x, int[1]? axis=None, *, Tensor? weights=None, bool keepdims=False)"
    " -> (Tensor average, Tensor weights)",
    sample_inputs=lambda rng: _average_samples(rng)[1:],  # numbers of elements have no gradient
    reference=lambda x, **options: np.average(x, returned=True, **options),
    tags=(Tag.TAKES_SEQUENCES, Tag.INTERNAL),
)
def average_and_weights(
    x: Tensor, axis: Any = None, *, weights: Tensor | None = None, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """``average``, and the sums of the weights: the numbers of elements where there are none.

    >>> import tenkey as tk
    >>> tk.ops.tk.average_and_weights(tk.asarray([1.0, 4.0]), weights=tk.asarray([2.0, 1.0]))[1].item()
    3.0
    """
    if weights is None:
        count = 1
        for i in normalize_axes("average", axis, x.ndim):
            count *= x.shape[i]
        found = mean(x, axis=axis, keepdims=keepdims)
        return found, full_like(found, count)
    weighted, total = _weighted(x, axis, weights, keepdims)
    wide = total if total.shape == weighted.shape else clone(broadcast_to(total, weighted.shape))
    return weighted / total, wide


def _weighted(x: Tensor, axis: Any, weights: Tensor, keepdims: bool) -> tuple[Tensor, Tensor]:
    """The sums of the elements, each times its weight, and of the weights."""
    axes = normalize_axes("average", axis, x.ndim)
    if weights.shape != x.shape:
        if axis is None:
            raise ValueError(
                f"[average] weights of shape {weights.shape} for x of shape {x.shape} need axis=, which says where "
                "they lie."
            )
        if weights.shape != tuple([x.shape[i] for i in axes]):
            raise ValueError(
                f"[average] weights of shape {weights.shape} must have the shape {x.shape} of x, or, along "
                f"axis {axis}, its lengths there."
            )
        order = sorted(range(len(axes)), key=axes.__getitem__)
        if order != list(range(len(axes))):
            weights = _permuted(weights, order)
        weights = reshape(weights, tuple([n if i in axes else 1 for i, n in enumerate(x.shape)]))
    dtype = result_dtype((x.dtype, weights.dtype), (float,))
    x, weights = _as(x, dtype), _as(weights, dtype)
    return sum(x * weights, axis=axes, keepdims=keepdims), sum(weights, axis=axes, keepdims=keepdims)


def _permuted(x: Tensor, order: list[int]) -> Tensor:
    return permute_dims(x, tuple(order))


def _as(x: Tensor, dtype: Any) -> Tensor:
    return x if x.dtype == dtype else cast(x, dtype)


# ---- covariance


def _rows(operator: str, x: Tensor, y: Tensor | None, rowvar: bool) -> Tensor:
    """The observed variables as rows, in a floating dtype."""
    if y is not None:
        x, y = concrete(x, y), concrete(y, x)
    for given in (x,) if y is None else (x, y):
        if given.ndim > 2:
            raise ValueError(f"[{operator}] takes a vector or a matrix, got shape {given.shape}.")

    def rows(given: Tensor) -> Tensor:
        if given.ndim < 2:
            return reshape(given, (1, -1))
        return given if rowvar else matrix_transpose(given)

    if y is None:
        made = rows(x)
    else:
        parts = [rows(x), rows(y)]
        if parts[0].shape[1] != parts[1].shape[1]:
            raise ValueError(
                f"[{operator}] x of shape {x.shape} and y of shape {y.shape} must have equally many observations."
            )
        made = concat(parts, axis=0)
    return cast(made, default_float()) if made.dtype.kind in "biu" else made


def _covariance(rows: Tensor, correction: float, fweights: Tensor | None, aweights: Tensor | None) -> Tensor:
    n = rows.shape[1]
    weights: Tensor | None = None
    count: Any = float(n)
    if fweights is not None:
        if fweights.shape != (n,) or fweights.dtype.kind not in "iu":
            raise ValueError(
                f"[cov] fweights must be a vector of {n} integers, got shape {fweights.shape}, dtype {fweights.dtype}."
            )
        weights = cast(random_checked(fweights, caller="cov", name="fweights", rule="weight"), _real_dtype(rows))
        count = sum(weights)
    if aweights is not None:
        if aweights.shape != (n,) or aweights.dtype.kind not in "biuf":
            raise ValueError(
                f"[cov] aweights must be a vector of {n} real numbers, got shape {aweights.shape}, "
                f"dtype {aweights.dtype}."
            )
        importance = cast(random_checked(aweights, caller="cov", name="aweights", rule="weight"), _real_dtype(rows))
        weights = importance if weights is None else weights * importance
        total = sum(weights)
        count = total - correction * sum(weights * importance) / total
    else:
        count = count - correction
    if weights is None:
        centered = rows - mean(rows, axis=1, keepdims=True) if n else rows
        scaled = centered
    else:
        centered = rows - sum(rows * weights, axis=1, keepdims=True) / sum(weights)
        scaled = centered * weights
    turned = matrix_transpose(conj(scaled) if scaled.dtype.kind == "c" else scaled)
    product: Tensor = matmul(centered, turned)
    if not isinstance(count, Tensor):
        return product * (1 / count) if count > 0 else product * float("nan")
    return product / count


def _real_dtype(x: Tensor) -> Any:
    return np.empty(0, x.dtype).real.dtype if x.dtype.kind == "c" else x.dtype


def _numpy_cov(x: Any, y: Any = None, *, rowvar: bool = True, ddof: Any = None, **options: Any) -> Any:
    correction = options.pop("correction", None)
    correction = ddof if correction is None else correction
    return np.cov(x, y, rowvar, ddof=None if correction is None else int(correction), **options)


@composite(
    "cov(Tensor x, Tensor? y=None, *, bool rowvar=True, float? correction=None, Tensor? fweights=None,"
    " Tensor? aweights=None, float? ddof=None) -> Tensor",
    sample_inputs=lambda rng: [
        ((rng.standard_normal((3, 5)),), {}),
        ((rng.standard_normal((3, 5)),), {"rowvar": False, "correction": 0.0}),
        ((rng.standard_normal(5), rng.standard_normal(5)), {}),
        ((rng.standard_normal((2, 5)),), {"fweights": rng.integers(1, 4, 5)}),
        ((rng.standard_normal((2, 5)),), {"fweights": rng.integers(1, 4, 5), "ddof": 2}),
        ((rng.standard_normal(5),), {}),
    ],
    reference=_numpy_cov,
    tags=(Tag.TAKES_SEQUENCES,),
)
def cov(
    x: Tensor,
    y: Tensor | None = None,
    *,
    rowvar: bool = True,
    correction: float | None = None,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
    ddof: float | None = None,
) -> Tensor:
    """The covariance matrix of variables, each of which is a row of ``x`` (a column with ``rowvar=False``).

    Args: x: a vector or a matrix; y: more variables. correction: what is taken from the number of observations in the
    divisor, 1 unless given; ``ddof`` is NumPy's word for it. fweights: how often each observation counts, integers;
    aweights: how important it is. One variable gives a 0-d tensor. Integers give floats. ValueError for both
    ``correction`` and ``ddof``, and for negative weights.

    >>> import tenkey as tk
    >>> tk.cov(tk.asarray([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    >>> tk.cov(tk.asarray([1.0, 3.0]), ddof=0).item()
    1.0
    """
    if ddof is not None and correction is not None:
        raise ValueError(
            f"[cov] got correction={correction} and ddof={ddof}, two words for one thing: give one of them."
        )
    taken = 1.0 if correction is None and ddof is None else ddof if correction is None else correction
    assert taken is not None
    found = _covariance(_rows("cov", x, y, rowvar), taken, fweights, aweights)
    return reshape(found, ()) if found.shape == (1, 1) else found


@composite(
    "corrcoef(Tensor x, Tensor? y=None, *, bool rowvar=True) -> Tensor",
    sample_inputs=lambda rng: [
        ((rng.standard_normal((3, 5)),), {}),
        ((rng.standard_normal((5, 2)),), {"rowvar": False}),
        ((rng.standard_normal(5), rng.standard_normal(5)), {}),
    ],
    reference=np.corrcoef,
)
def corrcoef(x: Tensor, y: Tensor | None = None, *, rowvar: bool = True) -> Tensor:
    """Pearson's correlation coefficients of variables, given as in ``tk.cov``; 0-d for one variable.

    >>> import tenkey as tk
    >>> tk.round(tk.corrcoef(tk.asarray([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    found = _covariance(_rows("corrcoef", x, y, rowvar), 1.0, None, None)
    n = found.shape[0]
    if n == 1:
        return reshape(found / found, ())
    places = _diagonal(found)
    spread = sqrt(real(places) if places.dtype.kind == "c" else places)
    return found / expand_dims(spread, 1) / spread


def _diagonal(x: Tensor) -> Tensor:
    n = x.shape[0]
    return take(reshape(x, (-1,)), vector(np.arange(n) * (n + 1), x), axis=0)


# ---- cumulative sums without nan


def _nan_samples(rng: np.random.Generator) -> Any:
    return [((rng.standard_normal((3, 4)),), {"axis": axis}) for axis in (0, -1)] + [((rng.standard_normal(3),), {})]


@composite(
    "nancumsum(Tensor x, int? axis=None, *, DType? dtype=None) -> Tensor",
    sample_inputs=_nan_samples,
    reference=np.nancumsum,
)
def nancumsum(x: Tensor, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Cumulative sums along an axis, of the flattened tensor without one, in which nan counts as 0.

    >>> import tenkey as tk
    >>> tk.nancumsum(tk.asarray([1.0, float("nan"), 2.0])).tolist()
    [1.0, 1.0, 3.0]
    """
    if x.dtype.kind not in "biu":
        x = where(isnan(x), 0.0, x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = normalize_axis("nancumsum", axis, x.ndim)
    return cumulative_sum(x, axis=axis, dtype=dtype)


@composite(
    "nancumprod(Tensor x, int? axis=None, *, DType? dtype=None) -> Tensor",
    sample_inputs=_nan_samples,
    reference=np.nancumprod,
)
def nancumprod(x: Tensor, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Cumulative products along an axis, of the flattened tensor without one, in which nan counts as 1.

    >>> import tenkey as tk
    >>> tk.nancumprod(tk.asarray([2.0, float("nan"), 3.0])).tolist()
    [2.0, 2.0, 6.0]
    """
    if x.dtype.kind not in "biu":
        x = where(isnan(x), 1.0, x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    axis = normalize_axis("nancumprod", axis, x.ndim)
    return cumulative_prod(x, axis=axis, dtype=dtype)


# ---- what is not zero, and sets of two tensors: the number of results depends on the values


def _dynamic(operator: str, rule: Callable[..., TensorSpec]) -> Callable[..., TensorSpec]:
    def meta(*given: Any) -> TensorSpec:
        spec = rule(*given)
        if any(getattr(x, "device", None) is META for x in given):
            raise NotImplementedError(
                f"[{operator}] the shape of the result depends on the values, which a tensor without values does not "
                "have."
            )
        return spec

    return meta


argwhere = structured(
    "argwhere(Tensor x) -> Tensor",
    meta=_dynamic("argwhere", lambda x: TensorSpec((0, x.ndim), int64)),
    numpy=lambda x: np.argwhere(x).astype(np.int64),
    differentiable=False,
    sample_inputs=lambda rng: [((rng.standard_normal((3, 4)),), {}), ((rng.standard_normal((0, 2)),), {})],
    reference=np.argwhere,
    tags=(Tag.DATA_DEPENDENT_OUTPUT,),
    doc="""The places of the elements that are not zero, one in each row; int64.

    >>> import tenkey as tk
    >>> tk.argwhere(tk.asarray([[0, 1], [2, 0]])).tolist()
    [[0, 1], [1, 0]]
    """,
)

flatnonzero = structured(
    "flatnonzero(Tensor x) -> Tensor",
    meta=_dynamic("flatnonzero", lambda x: TensorSpec((0,), int64)),
    numpy=lambda x: np.flatnonzero(x).astype(np.int64),
    differentiable=False,
    sample_inputs=lambda rng: [((rng.standard_normal((3, 4)),), {}), ((rng.standard_normal((0, 2)),), {})],
    reference=np.flatnonzero,
    tags=(Tag.DATA_DEPENDENT_OUTPUT,),
    doc="""The places in the flattened tensor of the elements that are not zero; int64.

    >>> import tenkey as tk
    >>> tk.flatnonzero(tk.asarray([0, 3, 0, 5])).tolist()
    [1, 3]
    """,
)


def _set(name: str, what: str, shown: str) -> Any:
    def meta(x1: Any, x2: Any) -> TensorSpec:
        return TensorSpec((0,), result_dtype((x1.dtype, x2.dtype), ()))

    function = getattr(np, name)

    def on_numpy(x1: Any, x2: Any) -> Any:
        dtype = result_dtype((x1.dtype, x2.dtype), ())
        return function(x1.reshape(-1).astype(dtype, copy=False), x2.reshape(-1).astype(dtype, copy=False))

    return structured(
        f"{name}(Tensor x1, Tensor x2) -> Tensor",
        meta=_dynamic(name, meta),
        numpy=on_numpy,
        differentiable=False,
        sample_inputs=lambda rng: [
            ((np.array([1.0, 2.5, 2.5]), np.array([2.5, 4.0])), {}),
            ((np.zeros(0), np.array([1.0])), {}),
        ],
        reference=function,
        tags=(Tag.DATA_DEPENDENT_OUTPUT,),
        doc=f"""The distinct elements that are {what}, ascending, as a vector of the promoted dtype. No gradient.

    >>> import tenkey as tk
    >>> tk.{name}(tk.asarray([3, 1, 1]), tk.asarray([1, 2])).tolist()
    {shown}
    """,
    )


union1d = _set("union1d", "in one of two tensors or in both", "[1, 2, 3]")
intersect1d = _set("intersect1d", "in both of two tensors", "[1]")
setdiff1d = _set("setdiff1d", "in the first of two tensors and not in the second", "[3]")
setxor1d = _set("setxor1d", "in one of two tensors and not in the other", "[2, 3]")
