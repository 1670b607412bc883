"""Statistics along axes: variances, weighted averages, covariances, ranges of values, counts."""

from __future__ import annotations

import builtins
from typing import Any, Final

import numpy as np

from ...._util import numpy_internals as numpy_functions
from ....core.dtypes.names import default_float, float32, float64, real_of
from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ....dispatch.registry import registry
from ....dispatch.tags import Tag
from ... import scalar as s
from ...declare import Rows, Sweep, composite, internal_composite, normal
from ...shapes import normalize_axes, refuse_empty
from ..creation import concrete, full_like
from ..elementwise.comparison import equal, not_equal, where
from ..elementwise.complex import conjugated, real_part, squared_size
from ..elementwise.exponential import sqrt
from ..indexing.advanced_indexing import take
from ..linalg.matmul import matmul
from ..shape.copying import as_dtype, cast, clone, concat, floating
from ..shape.padding import vector
from ..shape.views import broadcast_to, expand_dims, matrix_transpose, permute_dims, reshape
from .reduction import count_along, is_half, max, mean, min, over_axes, restore_axes, small_sum, sum


def _deviations(x: Tensor, axis: Any) -> tuple[Tensor, int]:
    """Return the differences from the mean, and the number of elements per mean."""
    count = count_along("var", x.shape, axis)
    total = sum(x, axis=axis, keepdims=True)
    return (x - total / count if count else x), count


_MEAN: Final = Sweep(folds={"total": ("add", lambda x: x)}, then={"mean": lambda total, count: total / count})


@internal_composite(
    "var_backward(Tensor g, Tensor x, int[1]? axis, float correction, bool keepdims) -> Tensor",
    rows=Rows(
        {"x": "row", "g": "each"},
        {"found": "row"},
        (
            Sweep(
                folds=_MEAN.folds,
                then={**_MEAN.then, "twice": lambda g, count, correction: 2 * g / s.maximum(count - correction, 0)},
            ),
            Sweep(elements={"found": lambda x, mean, twice: (x - mean) * twice}),
        ),
        ("correction",),
        accepts=lambda x, g: x.size > g.size,
    ),
    sample_inputs=normal(([3], [3, 4], 1, 0.0, False), ([1, 4], [3, 4], 0, 1.0, True), ([], [3, 4], None, 0.5, False)),
)
def var_backward(g: Tensor, x: Tensor, axis: Any, correction: float, keepdims: bool) -> Tensor:
    """Return the gradient of ``var``."""
    if is_half(x.dtype):
        return cast(var_backward(cast(g, float32), cast(x, float32), axis, correction, keepdims), x.dtype)
    deviations, count = _deviations(x, axis)
    free = builtins.max(count - correction, 0)
    return restore_axes(g, x.shape, axis, keepdims) * deviations * (2.0 / free if free else float("nan"))


def _std_vjp(g: Tensor, x: Tensor, out: Tensor, axis: Any, correction: float, keepdims: bool) -> Tensor:
    return var_backward(where(equal(out, 0), 0.0, g / (2 * _not_zero(out))), x, axis, correction, keepdims)


def _not_zero(x: Tensor) -> Tensor:
    """Return ``x`` with ones for zeros, at which derivatives that are not wanted would be infinite."""
    return where(equal(x, 0), 1.0, x)


_moment_samples = normal(
    [3, 4],
    ([3, 4], {"axis": 0, "correction": 1.0}),
    ([3, 4], {"axis": (0, -1), "keepdims": True}),
    ([3, 4], {"axis": -1, "correction": 0.5, "keepdims": True}),
)


def _numpy_var(x: np.ndarray, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    found = small_sum(x, axis, True)
    if found is None:
        return NotImplemented
    total, count = found
    deviations = x - total / count
    squares = deviations.real**2 + deviations.imag**2 if x.dtype.kind == "c" else deviations * deviations
    return _add(squares, axis, None, None, keepdims) / builtins.max(count - correction, 0)


def _numpy_std(x: np.ndarray, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Any:
    found = _numpy_var(x, axis, correction=correction, keepdims=keepdims)
    return found if found is NotImplemented else np.sqrt(found)


_add: Final[Any] = np.add.reduce
_MANY: Final = 1 << 14  # elements from which the composition is faster
_MOMENT: Final = "Tensor x, int[1]? axis=None, *, float correction=0.0, bool keepdims=False"


@composite(
    f"var({_MOMENT}) -> Tensor",
    autocast="float32",
    numpy=_numpy_var,
    vjp={"x": var_backward},
    rows=Rows(
        {"x": "row"},
        {"variance": "each"},
        (
            _MEAN,
            Sweep(
                folds={"squares": ("add", lambda x, mean: s.square(x - mean))},
                then={"variance": lambda squares, count, correction: squares / s.maximum(count - correction, 0)},
            ),
        ),
        ("correction",),
    ),
    sample_inputs=_moment_samples,
    methods=("var",),
)
def var(x: Tensor, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Return the variance along axes: the sum of squared distances from the mean, divided by ``n - correction``.

    Integers give floats. ``correction=1`` is Bessel's correction for a sample. The mean is subtracted first, so that a
    large mean costs no accuracy. For complex numbers, absolute distances are squared, and the result is real. It is nan
    or infinite where ``n <= correction``.

    >>> tk.var(tk.asarray([1.0, 2.0, 3.0])).item() == tk.asarray(2 / 3).item()
    True
    >>> tk.var(tk.asarray([1.0, 2.0, 3.0]), correction=1).item()
    1.0
    """
    whole, half = x.dtype.kind in "biu", is_half(x.dtype)
    to = default_float() if whole else x.dtype
    if whole or half:  # the sum may overflow although the mean does not, and float32 holds only 24 bits
        x = cast(x, float64 if whole else float32)
    deviations, count = _deviations(x, axis)
    total = sum(squared_size(deviations), axis=axis, keepdims=keepdims)
    result = total / builtins.max(count - correction, 0)
    return cast(result, to) if whole or half else result


@composite(
    f"std({_MOMENT}) -> Tensor",
    autocast="float32",
    numpy=_numpy_std,
    vjp={"x": _std_vjp},
    sample_inputs=_moment_samples,
    methods=("std",),
)
def std(x: Tensor, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Return the standard deviation along axes: the square root of ``var``, with the same arguments.

    The gradient is 0 where it is 0.

    >>> tk.std(tk.asarray([1.0, 3.0])).item()
    1.0
    """
    if is_half(x.dtype):  # the variance may overflow although its root does not
        return cast(std(cast(x, float32), axis, correction=correction, keepdims=keepdims), x.dtype)
    squares = var(x, axis, correction=correction, keepdims=keepdims)
    return where(equal(squares, 0), 0.0, sqrt(_not_zero(squares)))


def _numpy_count_nonzero(x: np.ndarray, axis: Any = None, *, keepdims: bool = False) -> Any:
    if x.size >= _MANY and (x.dtype.kind != "b" or axis is not None):
        return NotImplemented
    if axis is None and not keepdims:
        return numpy_functions.count_nonzero(x)
    return _add(x != 0, axis, np.int64, None, keepdims)


@composite(
    "count_nonzero(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
    numpy=_numpy_count_nonzero,
    quiet=True,
    differentiable=False,
    sample_inputs=lambda rng: (
        [
            ((np.where(rng.uniform(0, 1, (3, 4)) < 0.5, 0.0, 1.5),), options)
            for options in ({}, {"axis": 0}, {"axis": (0, -1), "keepdims": True})
        ]
        + [((np.zeros((0, 2)),), {"axis": 0}), ((np.array(2.0),), {})]
    ),
)
def count_nonzero(x: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Count the nonzero elements along axes, in int64; nan counts as nonzero.

    >>> tk.count_nonzero(tk.asarray([[0, 1], [2, 3]]), axis=1).tolist()
    [1, 2]
    """
    if axis is not None:
        normalize_axes("count_nonzero", axis, x.ndim)
    found = x if x.dtype.kind == "b" else not_equal(x, 0)
    return sum(found, axis=axis, keepdims=keepdims)


@composite(
    "ptp(Tensor x, int[1]? axis=None, *, bool keepdims=False) -> Tensor",
    sample_inputs=normal(*over_axes(None, 0, (0, -1))),
)
def ptp(x: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Return the largest less the smallest element along axes, in the dtype of ``x``; nan if an element is nan.

    >>> tk.ptp(tk.asarray([3, 9, 5])).item()
    6
    """
    if x.dtype.kind in "bc":
        raise TypeError(
            f"[ptp] is not defined for dtype {x.dtype}: it takes real numeric dtypes. Convert with tk.astype(x, dtype)."
        )
    refuse_empty("ptp", x.shape, axis)
    return max(x, axis=axis, keepdims=keepdims) - min(x, axis=axis, keepdims=keepdims)


# ---- weighted averages


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
    tags=(Tag.INTERNAL,),  # tk.average also gives the sums of the weights
)
def average(x: Tensor, axis: Any = None, *, weights: Tensor | None = None, keepdims: bool = False) -> Tensor:
    """Return the weighted mean along axes: ``sum(weights * x) / sum(weights)``. Integers give floats.

    Args: weights: a tensor with the shape of ``x``, or with its lengths along ``axis``; None for ``tk.mean``.
    """
    if weights is None:
        normalize_axes("average", axis, x.ndim)
        return mean(x, axis=axis, keepdims=keepdims)
    weighted, total = _weighted(x, axis, weights, keepdims)
    return weighted / total


@internal_composite(
    "average_and_weights(Tensor x, int[1]? axis=None, *, Tensor? weights=None, bool keepdims=False)"
    " -> (Tensor average, Tensor weights)",
    sample_inputs=lambda rng: _average_samples(rng)[1:],  # numbers of elements have no gradient
)
def average_and_weights(
    x: Tensor, axis: Any = None, *, weights: Tensor | None = None, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """Return ``average`` and the sums of the weights; without weights, the numbers of elements."""
    if weights is None:
        count = count_along("average", x.shape, axis)
        found = mean(x, axis=axis, keepdims=keepdims)
        return found, full_like(found, count)
    weighted, total = _weighted(x, axis, weights, keepdims)
    wide = total if total.shape == weighted.shape else clone(broadcast_to(total, weighted.shape))
    return weighted / total, wide


def _weighted(x: Tensor, axis: Any, weights: Tensor, keepdims: bool) -> tuple[Tensor, Tensor]:
    """Return the sums of the weighted elements and of the weights."""
    axes = normalize_axes("average", axis, x.ndim)
    if weights.shape != x.shape:
        if axis is None:
            raise ValueError(
                f"[average] weights of shape {weights.shape} for x of shape {x.shape}: give axis=, the axes that "
                "they lie along."
            )
        if weights.shape != tuple([x.shape[i] for i in axes]):
            raise ValueError(
                f"[average] weights of shape {weights.shape} must have the shape {x.shape} of x, or, along "
                f"axis {axis}, its lengths there."
            )
        order = sorted(range(len(axes)), key=axes.__getitem__)
        if order != list(range(len(axes))):
            weights = permute_dims(weights, tuple(order))
        weights = reshape(weights, tuple([n if i in axes else 1 for i, n in enumerate(x.shape)]))
    dtype = result_dtype((x.dtype, weights.dtype), (float,))
    x, weights = as_dtype(x, dtype), as_dtype(weights, dtype)
    return sum(x * weights, axis=axes, keepdims=keepdims), sum(weights, axis=axes, keepdims=keepdims)


# ---- covariance


def _rows(operator: str, x: Tensor, y: Tensor | None, rowvar: bool) -> Tensor:
    """Return the observed variables as rows, in a floating dtype."""
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
    return floating(made)


def _observation_weights(name: str, given: Tensor, rows: Tensor, kinds: str, numbers: str) -> Tensor:
    n = rows.shape[1]
    if given.shape != (n,) or given.dtype.kind not in kinds:
        raise ValueError(
            f"[cov] {name} must be a vector of {n} {numbers}, got shape {given.shape}, dtype {given.dtype}."
        )
    checked = registry.find("tk::random_checked").call  # one of those that are declared on first use
    return cast(checked(given, caller="cov", name=name, rule="weight"), real_of(rows.dtype))


def _covariance(rows: Tensor, correction: float, fweights: Tensor | None, aweights: Tensor | None) -> Tensor:
    n = rows.shape[1]
    weights: Tensor | None = None
    count: Any = float(n)
    if fweights is not None:
        weights = _observation_weights("fweights", fweights, rows, "iu", "integers")
        count = sum(weights)
    if aweights is not None:
        importance = _observation_weights("aweights", aweights, rows, "biuf", "real numbers")
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
    product = matmul(centered, matrix_transpose(conjugated(scaled)))
    if not isinstance(count, Tensor):
        return product * (1 / count) if count > 0 else product * float("nan")
    return product / count


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
    """Return the covariance matrix of variables, one per row of ``x`` (per column with ``rowvar=False``).

    Args: x: a vector or a matrix; y: more variables. correction: subtracted from the number of observations in the
    divisor, 1 by default; ``ddof`` is NumPy's name for it. fweights: integers, how often each observation counts;
    aweights: the importance of each observation. One variable gives a 0-d tensor. Integers give floats. Raises
    ValueError if both ``correction`` and ``ddof`` are given, and for negative weights.

    >>> tk.cov(tk.asarray([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    >>> tk.cov(tk.asarray([1.0, 3.0]), ddof=0).item()
    1.0
    """
    if ddof is not None and correction is not None:
        raise ValueError(f"[cov] got correction={correction} and ddof={ddof}, two names of one argument: give one.")
    if correction is None:
        correction = 1.0 if ddof is None else ddof
    found = _covariance(_rows("cov", x, y, rowvar), correction, fweights, aweights)
    return reshape(found, ()) if found.shape == (1, 1) else found


@composite(
    "corrcoef(Tensor x, Tensor? y=None, *, bool rowvar=True) -> Tensor",
    sample_inputs=normal([3, 5], ([5, 2], {"rowvar": False}), ([5], [5])),
)
def corrcoef(x: Tensor, y: Tensor | None = None, *, rowvar: bool = True) -> Tensor:
    """Return the Pearson correlation coefficients of variables, given as in ``tk.cov``; 0-d for one variable.

    >>> tk.round(tk.corrcoef(tk.asarray([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    found = _covariance(_rows("corrcoef", x, y, rowvar), 1.0, None, None)
    n = found.shape[0]
    if n == 1:
        return reshape(found / found, ())
    spread = sqrt(real_part(take(reshape(found, (-1,)), vector(np.arange(n) * (n + 1), found), axis=0)))
    return found / expand_dims(spread, 1) / spread
