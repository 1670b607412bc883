"""The logistic function, and products with logarithms as in entropies: scalar expressions of ``tk.special``."""

from __future__ import annotations

import math
from typing import Any, Final

from ....core.tensor import Tensor
from ... import scalar as s
from ...declare import EACH_TO_FLOAT, composite, elementwise, normal
from ...shapes import broadcast_shapes, normalize_axes
from ..creation import concrete
from ..elementwise.comparison import equal, isfinite, where
from ..elementwise.complex import real_part
from ..elementwise.exponential import exp, log, log1p
from ..reductions.reduction import logsumexp, max, sum
from ..shape.copying import floating
from ..shape.views import broadcast_to, reshape
from . import coefficients as c
from .series import horner, power_series


@elementwise(partials=lambda out: out * (1 - out))
def special_expit(T: Any, x: Any) -> Any:
    """Return the logistic function ``1 / (1 + exp(-x))``: SciPy's name for ``tk.sigmoid``.

    >>> tk.special.expit(tk.asarray([0.0])).tolist()
    [0.5]
    """
    return T(1) / (T(1) + s.exp(-x))


@elementwise(partials=lambda x: 1 / (x * (1 - x)), domain=(0.1, 0.9))
def special_logit(T: Any, x: Any) -> Any:
    """Return ``log(x / (1 - x))``, the inverse of ``expit``; infinite at 0 and 1, nan outside.

    >>> tk.special.logit(tk.asarray([0.5, 0.0, 1.0])).tolist()
    [0.0, -inf, inf]
    """
    rest = s.where(x < T(0.5), x, 1 - x)
    ahead = 1 - 2 * rest  # exact where it is used, as the difference above
    near = ahead * horner(T, c.LOGIT, ahead * ahead * 8 - 1)
    far = rest * horner(T, c.LOG1P, rest * 8 - 1) - s.log(rest)
    size = s.where(rest >= T(0.25), near, far)
    return s.copysign(size, x - T(0.5))


@elementwise()
def special_log_expit(T: Any, x: Any) -> Any:
    """Return ``log(expit(x))``, without underflow.

    >>> tk.special.log_expit(tk.asarray([-1000.0])).tolist()
    [-1000.0]
    """
    return -(s.log1p(s.exp(s.where(x < 0, x, -x))) - s.where(x < 0, x, T(0)))  # -0 at infinity


_EXPREL: Final = [1 / math.factorial(k + 1) for k in range(18)]


@elementwise()
def special_exprel(T: Any, x: Any) -> Any:
    """Return ``(exp(x) - 1) / x``, which is 1 at 0.

    >>> tk.special.exprel(tk.asarray([0.0, float("-inf")])).tolist()
    [1.0, 0.0]
    """
    near = s.abs(x) < T(0.5)
    away = s.where(near, T(1), x)
    series = power_series(T, _EXPREL, s.where(near, x, T(0)))  # Note [Series at a removable singularity]
    # two halves, because the exponential function overflows before the quotient does
    large = x > 80
    half = s.exp(s.where(large, x, T(0)) * 0.5)
    grown = s.where(s.isinf(half), half, half / s.where(large, x, T(1)) * half)
    return s.where(near, series, s.where(large, grown, s.expm1(s.where(large, T(1), away)) / away))


# ---- products with logarithms: 0 where the factor is 0


def _product(T: Any, x: Any, y: Any, logarithm: Any) -> Any:
    return s.where(s.logical_and(x == 0, s.logical_not(s.isnan(y))), T(0), x * logarithm)


@elementwise(
    partials=(
        lambda x, y: log(where((x == 0) & (y <= 0), 1.0, y)),
        lambda x, y: x / where((x == 0) & (y == 0), 1.0, y),
    ),
    promote=EACH_TO_FLOAT,
    domain=(0.3, 4.0),
)
def special_xlogy(T: Any, x: Any, y: Any) -> Any:
    """Return ``x * log(y)``, and 0 where ``x`` is 0, unless ``y`` is nan.

    >>> tk.special.xlogy(tk.asarray([0.0, 2.0]), tk.asarray([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """
    return _product(T, x, y, s.log(y))


@elementwise(
    partials=(
        lambda x, y: log1p(where((x == 0) & (y <= -1), 0.0, y)),
        lambda x, y: x / where((x == 0) & (y == -1), 1.0, 1 + y),
    ),
    promote=EACH_TO_FLOAT,
    domain=(0.3, 4.0),
)
def special_xlog1py(T: Any, x: Any, y: Any) -> Any:
    """Return ``x * log1p(y)``, and 0 where ``x`` is 0, unless ``y`` is nan.

    >>> tk.special.xlog1py(tk.asarray([0.0, 2.0]), tk.asarray([-1.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    return _product(T, x, y, s.log1p(y))


@elementwise(partials=lambda x: -1 - log(x), domain=(0.2, 5.0))
def special_entr(T: Any, x: Any) -> Any:
    """Return ``-x * log(x)``, the contribution of ``x`` to an entropy: 0 at 0, minus infinity below.

    >>> tk.special.entr(tk.asarray([0.0, 1.0, -1.0])).tolist()
    [0.0, -0.0, -inf]
    """
    return s.where(x < 0, T(-math.inf), s.where(x == 0, T(0), -x * s.log(x)))


def _rel_entr(T: Any, x: Any, y: Any) -> Any:
    proper = s.logical_and(x > 0, y > 0)
    ratio = x / y
    apart = s.logical_or(ratio == 0, s.isinf(ratio))  # the ratio is out of range, the logarithms are not
    close = s.logical_and(ratio > 0.5, ratio < 2)
    logarithm = s.where(close, s.log1p(s.where(close, (x - y) / y, T(0))), s.log(ratio))
    known = x * s.where(apart, s.log(x) - s.log(y), logarithm)
    zero = s.logical_and(x == 0, y >= 0)
    unordered = s.logical_or(s.isnan(x), s.isnan(y))
    return s.where(proper, known, s.where(zero, T(0), s.where(unordered, T(math.nan), T(math.inf))))


@elementwise(partials=(lambda x, y: log(x / y) + 1, lambda x, y: -x / y), promote=EACH_TO_FLOAT, domain=(0.3, 4.0))
def special_rel_entr(T: Any, x: Any, y: Any) -> Any:
    """Return ``x * log(x / y)``, the contribution to a relative entropy.

    0 where x is 0, infinite outside the domain.

    >>> tk.special.rel_entr(tk.asarray([1.0, 0.0, 1.0]), tk.asarray([1.0, 0.0, 0.0])).tolist()
    [0.0, 0.0, inf]
    """
    return _rel_entr(T, x, y)


@elementwise(partials=(lambda x, y: log(x / y), lambda x, y: 1 - x / y), promote=EACH_TO_FLOAT, domain=(0.3, 4.0))
def special_kl_div(T: Any, x: Any, y: Any) -> Any:
    """Return ``x * log(x / y) - x + y``, the contribution to a Kullback-Leibler divergence.

    Infinite outside the domain.

    >>> tk.special.kl_div(tk.asarray([1.0, 0.0]), tk.asarray([1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    proper = s.logical_and(x > 0, y > 0)
    entropy = _rel_entr(T, x, y)
    return s.where(s.logical_and(x == 0, y >= 0), y, s.where(proper, entropy - x + y, entropy))


@composite(
    "special_logsumexp(Tensor x, int[1]? axis=None, Tensor? b=None, *, bool keepdims=False) -> Tensor",
    sample_inputs=lambda rng: [
        *normal(([3, 4],), ([3, 4], {"axis": 1}), ([3, 4], {"axis": (0, -1), "keepdims": True}))(rng),
        ((rng.standard_normal((3, 4)),), {"axis": 0, "b": rng.uniform(0.5, 2, (4,))}),
        ((rng.standard_normal((4,)),), {"axis": -1, "b": rng.uniform(0.5, 2, (3, 1)), "keepdims": True}),
    ],
)
def special_logsumexp(x: Tensor, axis: Any = None, b: Tensor | None = None, *, keepdims: bool = False) -> Tensor:
    """Return ``log(sum(b * exp(x)))`` along axes, without overflow: SciPy's name for ``tk.logsumexp``, with factors.

    ``b`` broadcasts with ``x``; elements whose factor is zero do not count, and nan stands for a negative sum. -inf for
    no elements, the principal branch if complex.

    >>> f"{tk.special.logsumexp(tk.asarray([1000.0, 1000.0])):.3f}"
    '1000.693'
    >>> f"{tk.special.logsumexp(tk.asarray([1.0, 2.0]), b=tk.asarray([0.0, 1.0])):.3f}"
    '2.000'
    """
    if b is None:
        return logsumexp(x, axis=axis, keepdims=keepdims)
    x, b = floating(concrete(x, b)), concrete(b, x)
    shape = broadcast_shapes("special_logsumexp", x.shape, b.shape)
    x, b = broadcast_to(x, shape), broadcast_to(b, shape)
    axes = normalize_axes("special_logsumexp", axis, x.ndim)
    unused = equal(b, 0)
    if not x.size:
        return log(sum(exp(x), axis=axes, keepdims=keepdims))
    largest = max(where(unused, -math.inf, real_part(x)), axis=axes, keepdims=True)
    shift = where(isfinite(largest), largest, 0.0).detach()
    total = log(sum(where(unused, 0.0, b * exp(where(unused, 0.0, x - shift))), axis=axes, keepdims=keepdims))
    return total + reshape(shift, total.shape)
