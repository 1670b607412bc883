"""The gamma function and its relatives: ``tk.special``."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ....core.dtypes.names import default_float
from ....core.tensor import Tensor
from ....core.word import WEAK_MASK
from ... import scalar as s
from ...declare import EACH_TO_FLOAT, Decomposition, Entry, TensorSpec, broadcast, composite, elementwise, internal
from ...shapes import broadcast_shapes
from ..elementwise.arithmetic import remainder
from ..elementwise.comparison import equal, less_equal, logical_and, where
from ..elementwise.rounding import floor
from ..shape.copying import cast
from ..shape.views import broadcast_to, sum_to_shape
from . import coefficients as c
from .arrays import ARRAYS, TENSORS
from .coefficients import STIRLING
from .series import horner
from .zeta import polygamma
from .zeta import polygamma_each as each_polygamma

_HALF_LOG_2PI: Final = 0.5 * math.log(2 * math.pi)
_POLYGAMMA_INTEGERS: Final = (
    "[special_polygamma] n is the number of derivatives: an int or a tensor of integers, got {dtype}."
)
_POLYGAMMA_REAL: Final = "[special_polygamma] is not defined for dtype {dtype}: it takes real dtypes."


def stirling_rest(T: Any, x: Any) -> Any:
    """Return ``lgamma(x)`` without its leading terms ``(x - 1/2) log(x) - x + log(2 pi) / 2``, for x >= 10."""
    inverse = T(1) / x
    return inverse * horner(T, STIRLING, inverse * inverse)


# Note [Gamma by exact reductions]
#     Below 12 the argument is reduced to a fraction f in [0, 1) by whole numbers, which is exact, and the result is a
#     polynomial of f times the factors in between. Above, Stirling's formula takes powers of x itself: its error is
#     not multiplied by x, as it would be with a shifted argument. Negative numbers are reflected at 0 (not at 1/2, as
#     1 - x rounds), with the sine of the distance to the next whole number. Guarded by `test_gamma_function`.
_STEPS: Final = 12


def _gamma_of_positive(T: Any, x: Any) -> Any:
    low = x < _STEPS
    small = s.where(low, x, T(1))
    whole = s.floor(small)
    product = T(1)
    for k in range(1, _STEPS):
        product = s.where(whole > k, product * (small - k), product)
    core = horner(T, c.GAMMA, 2 * (small - whole) - 1)  # gamma of 1 + f
    core = s.where(small == whole, T(1), core)  # factorials are exact
    below = s.where(whole == 0, core / small, core * product)
    large = s.where(low, T(_STEPS), x)
    half = s.pow(large, large * 0.5 - 0.25)  # in two halves: the power overflows before the function does
    above = half * s.exp(-large) * half * (math.sqrt(2 * math.pi) * s.exp(stirling_rest(T, large)))
    return s.where(low, below, s.where(s.logical_or(s.isinf(half), x > 200), T(math.inf), above))


def _reflected(T: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    """Return the magnitude of x, its gamma function, the nearest whole number, and the sine of pi x."""
    size, whole = s.abs(x), s.round(x)
    odd = whole - 2 * s.floor(whole * 0.5)
    positive = _gamma_of_positive(T, s.where(size == 0, T(1), size))
    return size, positive, whole, (1 - 2 * odd) * s.sin((x - whole) * math.pi)


@elementwise(partials=lambda x, out: out * special_digamma(x), domain=(2.2, 6.0))
def special_gamma(T: Any, x: Any) -> Any:
    """Return the gamma function, ``(x - 1)!`` at whole numbers; nan at the negative ones, infinite at 0.

    >>> tk.special.gamma(tk.asarray([1.0, 5.0])).tolist()
    [1.0, 24.0]
    """
    size, positive, whole, sine = _reflected(T, x)
    negative = s.where(x - whole == 0, T(math.nan), (-math.pi / positive) / sine / x)
    tiny = size < T.eps / 4  # 1 / x may be infinite
    result = s.where(tiny, T(1) / x, s.where(x > 0, positive, negative))
    return s.where(s.isnan(x), x, result)


def _reciprocal_slope(x: Tensor, out: Tensor) -> Tensor:
    whole = floor(x)
    pole = logical_and(less_equal(x, 0), equal(x, whole))
    sign = 1.0 - 2.0 * remainder(whole, 2.0)
    return where(pole, sign * special_gamma(where(pole, 1.0 - x, 1.0)), -special_digamma(where(pole, 1.0, x)) * out)


@elementwise(partials=_reciprocal_slope, domain=(0.3, 6.0))
def special_rgamma(T: Any, x: Any) -> Any:
    """Return ``1 / gamma(x)``, which is 0 at 0, -1, -2, ...

    >>> tk.special.rgamma(tk.asarray([-1.0, 0.0, 1.0, 3.0])).tolist()
    [0.0, 0.0, 1.0, 0.5]
    """
    size, positive, whole, sine = _reflected(T, x)
    negative = -x * sine * positive * (1 / math.pi)
    pole = s.logical_and(x <= 0, x == whole)
    result = s.where(x > 0, T(1) / positive, s.where(pole, T(0), negative))
    return s.where(size < T.eps / 4, x, s.where(s.isnan(x), x, result))


@elementwise(differentiable=False)
def special_gammasgn(T: Any, x: Any) -> Any:
    """Return the sign of the gamma function, 1 or -1; of the sign of a zero, and nan at the negative integers.

    >>> tk.special.gammasgn(tk.asarray([2.0, -0.5, -1.5])).tolist()
    [1.0, -1.0, 1.0]
    """
    down = s.floor(x)
    odd = down - 2 * s.floor(down * 0.5)
    negative = s.where(x == down, T(math.nan), 1 - 2 * odd)
    return s.where(x > 0, T(1), s.where(x == 0, s.copysign(T(1), x), s.where(s.isnan(x), x, negative)))


@elementwise(partials=lambda x: special_digamma(x), domain=(2.2, 6.0))
def special_gammaln(T: Any, x: Any) -> Any:
    """Return ``log(abs(gamma(x)))``, without overflow; infinite at 0, -1, -2, ...

    >>> tk.special.gammaln(tk.asarray([1.0, 2.0])).tolist()
    [0.0, 0.0]
    """
    return s.lgamma(x)


@elementwise(partials=lambda x: special_polygamma(1, x), domain=(2.2, 6.0))
def special_digamma(T: Any, x: Any) -> Any:
    """Return the derivative of ``gammaln`` (DLMF 5.2.2); nan at negative whole numbers.

    >>> f"{tk.special.digamma(tk.asarray(1.0)):.5f}"
    '-0.57722'
    """
    return s.digamma(x)


@elementwise(partials=lambda x: special_polygamma(1, x), domain=(2.2, 6.0))
def special_psi(T: Any, x: Any) -> Any:
    """Return ``digamma``, by its other name in SciPy.

    >>> f"{tk.special.psi(tk.asarray(1.0)):.5f}"
    '-0.57722'
    """
    return s.digamma(x)


# ---- derivatives of digamma


def _polygamma_meta(n: int, x: Any) -> TensorSpec:
    if not 0 <= n < 1 << 63:
        raise ValueError(
            f"[special_polygamma] n is the number of derivatives of digamma, at least 0 and below 2**63; got {n}."
        )
    if x.dtype.kind == "c":
        raise TypeError(_POLYGAMMA_REAL.format(dtype=x.dtype))
    return TensorSpec(x.shape, _float_of(x))


def _float_of(x: Any) -> np.dtype:
    return x.dtype if x.dtype.kind in "fV" else default_float()


def _polygamma_each_meta(n: Any, x: Any) -> TensorSpec:
    if n.dtype.kind not in "iu":
        raise TypeError(_POLYGAMMA_INTEGERS.format(dtype=n.dtype))
    if x.dtype.kind == "c":
        raise TypeError(_POLYGAMMA_REAL.format(dtype=x.dtype))
    shape = broadcast_shapes("special_polygamma", n.shape, x.shape)
    return TensorSpec(shape, EACH_TO_FLOAT.dtypes("special_polygamma", (n.dtype, x.dtype))[1])


def _polygamma_on_numpy(n: int, x: Any) -> Any:
    return np.asarray(polygamma(ARRAYS, n, x)).astype(_float_of(x))


def _polygamma_of_tensors(n: int, x: Tensor) -> Tensor:
    dtype = _polygamma_meta(n, x).dtype
    return cast(polygamma(TENSORS, n, x), dtype)


def _polygamma_each_on_numpy(n: Any, x: Any) -> Any:
    result = _polygamma_each_meta(n, x).dtype
    n, x = np.broadcast_arrays(n, x)
    out = np.full(x.shape, np.nan, result)
    for order in np.unique(n[n >= 0]).tolist():
        chosen = n == order
        out[chosen] = _polygamma_on_numpy(order, x[chosen].astype(np.float64))
    return out


def _polygamma_each_of_tensors(n: Tensor, x: Tensor) -> Tensor:
    spec = _polygamma_each_meta(n, x)
    n, x = broadcast_to(n, spec.shape), broadcast_to(x, spec.shape)
    return cast(each_polygamma(TENSORS, n, x, special_gamma, special_gammaln), spec.dtype)


polygamma_of: Entry = internal(
    "polygamma_of(int n, Tensor x) -> Tensor",
    meta=_polygamma_meta,
    numpy=_polygamma_on_numpy,
    decomposition=Decomposition(_polygamma_of_tensors),
    vjp={"x": lambda g, n, x: g * polygamma_of(n + 1, x)},
    sample_inputs=lambda rng: (
        [((n, rng.uniform(0.4, 6.0, shape)), {}) for n, shape in ((0, (3,)), (1, (2, 3)), (2, ()), (5, (0, 2)))]
        + [((3, np.array([-0.3, -1.6, 0.7])), {})]
    ),
    batch=broadcast,
)

polygamma_each: Entry = internal(
    "polygamma_each(Tensor n, Tensor x) -> Tensor",
    meta=_polygamma_each_meta,
    numpy=_polygamma_each_on_numpy,
    decomposition=Decomposition(_polygamma_each_of_tensors),
    vjp={"x": lambda g, n, x, x_meta: sum_to_shape(g * polygamma_each(n + 1, x), x_meta.shape)},
    sample_inputs=lambda rng: [
        ((np.array([0, 2, 1]), rng.uniform(0.4, 6.0, (2, 3))), {}),
        ((np.array([[3], [1]]), np.array([-0.3, -1.6, 0.7])), {}),
        ((np.array(2), rng.uniform(0.4, 6.0, (0, 2))), {}),
    ],
    batch=broadcast,
)


@composite(
    "special_polygamma(Tensor n, Tensor x) -> Tensor",
    sample_inputs=lambda rng: [((np.array([0, 2, 1]), rng.uniform(0.4, 6.0, (2, 3))), {})],
)
def special_polygamma(n: Tensor, x: Tensor) -> Tensor:
    """Return the ``n``-th derivative of ``digamma`` at each element of ``x``; ``n`` is an int or a tensor of integers.

    It is computed by the Euler-Maclaurin formula for the sum over all poles (DLMF 5.15.1), and infinite at the poles,
    where ``digamma`` is nan. The result has the dtype of ``x``; with a tensor ``n``, at least the default precision.
    Raises TypeError if ``n`` is not an integer and for complex ``x``, ValueError for a negative int; negative elements
    of a tensor give nan.

    >>> f"{tk.special.polygamma(1, tk.asarray(1.0)):.5f}"
    '1.64493'
    """
    if n._word & WEAK_MASK:
        order = n._data.item()
        if order.__class__ is not int:
            raise TypeError(_POLYGAMMA_INTEGERS.format(dtype=type(order).__name__))
        return polygamma_of(order, x)
    return polygamma_each(n, x)


# ---- beta


def _edges(T: Any, a: Any, b: Any, at_zero: Any, at_infinity: Any, value: Any) -> Any:
    """Return ``value`` for positive finite numbers, the given values at 0 and infinity, nan for negative numbers."""
    small, large = s.minimum(a, b), s.maximum(a, b)
    edge = s.where(small == 0, s.where(s.isinf(large), T(math.nan), at_zero), at_infinity)
    inside = s.logical_and(small > 0, s.logical_not(s.isinf(large)))
    return s.where(inside, value, s.where(small >= 0, edge, T(math.nan)))


def _betaln_of_ordered(T: Any, small: Any, large: Any) -> Any:
    """Return ``log(abs(beta))`` of numbers in ascending order, none of which is a pole."""
    wide = s.where(large >= 10, large, T(10))
    ratio = small / wide
    rest = stirling_rest(T, wide) - stirling_rest(T, wide + small)
    # both large: the leading terms of Stirling's formula are subtracted symbolically
    first = s.where(small >= 10, small, T(10))
    power = s.log1p(ratio)
    logarithm = s.log(wide)
    terms = (first - 0.5) * s.log(ratio / (1 + ratio)) - wide * power
    both = terms - 0.5 * logarithm + _HALF_LOG_2PI + (stirling_rest(T, first) + rest)
    of_small = s.lgamma(small)
    one = of_small + (small * (1 - logarithm) - (wide + small - 0.5) * power + rest)
    plain = of_small + (s.lgamma(large) - s.lgamma(small + large))
    return s.where(s.logical_and(large >= 10, small > 0), s.where(small >= 10, both, one), plain)


def _positive(T: Any, x: Any) -> Any:
    return s.where(s.logical_and(x > 0, s.logical_not(s.isinf(x))), x, T(1))


def _betaln_partials(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    both = special_digamma(a + b)
    return special_digamma(a) - both, special_digamma(b) - both


@elementwise(partials=_betaln_partials, promote=EACH_TO_FLOAT, domain=(2.2, 6.0))
def special_betaln(T: Any, a: Any, b: Any) -> Any:
    """Return ``log(abs(beta(a, b)))`` without overflow, and without cancellation for positive numbers.

    Infinite at the poles, where ``a`` or ``b`` is 0, -1, -2, ...

    >>> tk.special.betaln(tk.asarray([1.0]), tk.asarray([1.0])).tolist()
    [0.0]
    """
    small, large = s.minimum(a, b), s.maximum(a, b)
    total = small + large
    pole = s.logical_and(small < 0, small == s.floor(small))
    # beta(-n, b) with an integer b <= n is finite: (-1)^b beta(1 + n - b, b). As in SciPy, this holds for 32 bits:
    # a larger float is hardly meant as an integer.
    whole = s.logical_and(large == s.floor(large), small * 2.0**-16 > -(2.0**15))
    turns = s.logical_and(s.logical_and(pole, whole), s.logical_and(large > 0, total < 1))
    other = s.where(turns, 1 - total, small)
    value = _betaln_of_ordered(T, s.minimum(other, large), s.maximum(other, large))
    below = s.where(pole, s.where(turns, value, T(math.inf)), s.where(s.isinf(large), T(math.nan), value))
    return s.where(small < 0, below, _edges(T, a, b, T(math.inf), T(-math.inf), value))


def _beta_partials(a: Tensor, b: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    by_a, by_b = _betaln_partials(a, b)
    return out * by_a, out * by_b


@elementwise(partials=_beta_partials, promote=EACH_TO_FLOAT, domain=(2.2, 6.0))
def special_beta(T: Any, a: Any, b: Any) -> Any:
    """Return ``gamma(a) * gamma(b) / gamma(a + b)`` for numbers of at least 0: infinite at 0, nan below.

    >>> tk.special.beta(tk.asarray([1.0]), tk.asarray([1.0])).tolist()
    [1.0]
    """
    a_, b_ = _positive(T, a), _positive(T, b)
    near = s.logical_and(s.maximum(a_, b_) < 16, s.minimum(a_, b_) > T(1e-30))
    first, second = s.where(near, a_, T(1)), s.where(near, b_, T(1))
    gamma = _gamma_of_positive
    direct = gamma(T, s.maximum(first, second)) / gamma(T, first + second) * gamma(T, s.minimum(first, second))
    value = s.where(near, direct, s.exp(_betaln_of_ordered(T, s.minimum(a_, b_), s.maximum(a_, b_))))
    return _edges(T, a, b, T(math.inf), T(0), value)
