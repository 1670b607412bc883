"""The gamma function and its relatives: ``tk.special``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from ....core.dtypes.names import default_float
from ....core.tensor import Tensor
from ....core.word import WEAK_MASK
from ....dispatch.tags import Tag
from ... import scalar as s
from ...declare import (
    EACH_TO_FLOAT,
    REAL_TO_FLOAT,
    Entry,
    TensorSpec,
    broadcast,
    composite,
    elementwise,
    pointwise,
    structured,
)
from ...shapes import broadcast_shapes
from ..shape.views import sum_to_shape
from . import coefficients as c
from .coefficients import horner

_HALF_LOG_2PI: Final = 0.5 * math.log(2 * math.pi)
_POLYGAMMA_INTEGERS: Final = (
    "[special_polygamma] n is the number of derivatives: an int or a tensor of integers, got {dtype}."
)
_POLYGAMMA_REAL: Final = "[special_polygamma] is not defined for dtype {dtype}: it takes real dtypes."

# B(2k) / (2k (2k - 1)): the coefficients of Stirling's series (DLMF 5.11.1)
STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


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


@elementwise(partials=lambda x, out: out * special_digamma(x), domain=(2.2, 6.0))
def special_gamma(T: Any, x: Any) -> Any:
    """Return the gamma function, ``(x - 1)!`` at whole numbers; nan at the negative ones, infinite at 0.

    >>> tk.special.gamma(tk.asarray([1.0, 5.0])).tolist()
    [1.0, 24.0]
    """
    size = s.abs(x)
    positive = _gamma_of_positive(T, s.where(size == 0, T(1), size))
    whole = s.round(x)
    odd = whole - 2 * s.floor(whole * 0.5)
    distance = x - whole
    sine = (1 - 2 * odd) * s.sin(distance * math.pi)
    negative = s.where(distance == 0, T(math.nan), (-math.pi / positive) / sine / x)
    result = s.where(x > 0, positive, s.where(x < 0, negative, s.copysign(T(math.inf), x)))
    return s.where(s.isnan(x), x, result)


special_gammaln = pointwise(
    "special_gammaln(Tensor x) -> Tensor",
    scalar=lambda T: s.lgamma,
    partials=lambda x: special_digamma(x),
    promote=REAL_TO_FLOAT,
    domain=(2.2, 6.0),
    methods=("lgamma",),
    doc="""Return ``log(abs(gamma(x)))``, without overflow; infinite at 0, -1, -2, ...

    >>> tk.special.gammaln(tk.asarray([1.0, 2.0])).tolist()
    [0.0, 0.0]
    """,
)


def _digamma(name: str, doc: str, **options: Any) -> Entry:
    return pointwise(
        f"{name}(Tensor x) -> Tensor",
        scalar=lambda T: s.digamma,
        partials=lambda x: special_polygamma(1, x),
        promote=REAL_TO_FLOAT,
        domain=(2.2, 6.0),
        doc=doc,
        **options,
    )


special_digamma: Entry = _digamma(
    "special_digamma",
    """Return the derivative of ``gammaln`` (DLMF 5.2.2); nan at negative whole numbers.

    >>> f"{tk.special.digamma(tk.asarray(1.0)):.5f}"
    '-0.57722'
    """,
    methods=("digamma",),
)

special_psi = _digamma(
    "special_psi",
    """Return ``digamma``, by its other name in SciPy.

    >>> f"{tk.special.psi(tk.asarray(1.0)):.5f}"
    '-0.57722'
    """,
)

# ---- derivatives of digamma

_BERNOULLI: Final = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330,
)  # fmt: skip


def _polygamma_meta(n: int, x: Any) -> TensorSpec:
    if not 0 <= n < 1 << 63:
        raise ValueError(
            f"[special_polygamma] n is the number of derivatives of digamma, at least 0 and below 2**63; got {n}."
        )
    if x.dtype.kind == "c":
        raise TypeError(_POLYGAMMA_REAL.format(dtype=x.dtype))
    return TensorSpec(x.shape, x.dtype if x.dtype.kind == "f" else default_float())


def _polygamma_each_meta(n: Any, x: Any) -> TensorSpec:
    if n.dtype.kind not in "iu":
        raise TypeError(_POLYGAMMA_INTEGERS.format(dtype=n.dtype))
    if x.dtype.kind == "c":
        raise TypeError(_POLYGAMMA_REAL.format(dtype=x.dtype))
    shape = broadcast_shapes("special_polygamma", n.shape, x.shape)
    return TensorSpec(shape, EACH_TO_FLOAT.dtypes("special_polygamma", (n.dtype, x.dtype))[1])


def _zeta_sum(order: Any, x: Any, power: Callable[[int], Any]) -> Any:
    """Return the sum of ``power(k)`` for k = 0, 1, ..., where ``power(k)`` is ``(x + k)**-order``, or a multiple of it.

    This is the Euler-Maclaurin formula (DLMF 25.11.43), for order > 1 and x > 0 in float64.
    """
    total: Any = 0.0
    for k in range(12):
        total = total + power(k)
    end, last = x + 12.0, power(12)
    total = total + end * last / (order - 1) + 0.5 * last
    factor = order * last / end
    for k, bernoulli in enumerate(_BERNOULLI):
        total = total + bernoulli / math.factorial(2 * k + 2) * factor
        factor = factor * (order + 2 * k + 1) * (order + 2 * k + 2) / (end * end)
    return total


def hurwitz_zeta(order: Any, x: Any) -> Any:
    """Return the sum of ``(x + k)**-order`` for k = 0, 1, ...; order > 1, x > 0, float64."""
    return _zeta_sum(order, x, lambda k: (x + float(k)) ** -order)


def _relative_zeta(order: float, x: Any) -> Any:
    """Return ``hurwitz_zeta`` divided by its first term, ``x**-order``, which may be out of range."""
    return _zeta_sum(order, x, lambda k: (1 + k / x) ** -order)


_FACTORIALS: Final = 100  # the order up to which factorials and powers are in range


def _between_poles(x: Any, even: Any) -> list[tuple[Any, Any]]:
    """Split the sum of ``(x + k)**-order`` for k = 0, 1, ... into zeta functions of positive arguments, with signs.

    ``even``: whether the order is even. An argument that does not count has the sign 0 and equals the first.
    """
    negative = x < 0
    if not negative.any():
        return [(x, 1.0)]
    right = np.where(negative, x - np.floor(x), x)  # the distance to the next pole on this side
    cancels = negative & (right == 0.5) & ~np.asarray(even)
    first = np.where(cancels, 1 - x, right)
    there = negative & ~cancels
    turn = np.where(even, 1.0, -1.0) * there
    return [(first, 1.0), (np.where(there, 1 - right, first), turn), (np.where(there, 1 - x, first), -turn)]


def _signed_sum(terms: Iterable[tuple[Any, Any]]) -> Any:
    """Return the sum of the terms times their signs; a term with sign 0 may be infinite."""
    return sum(np.where(turn == 0, 0.0, turn * term) for turn, term in terms)


def hurwitz_zeta_beyond(order: Any, x: Any) -> Any:
    """Return ``hurwitz_zeta``, for whole orders also between the poles at 0, -1, -2, ..."""
    even = order % 2 == 0
    found = _signed_sum((turn, hurwitz_zeta(order, at)) for at, turn in _between_poles(x, even))
    # where powers overflow, the nearest pole decides
    return np.where(np.isnan(found), np.where((x < 0) & ~even & (x - np.floor(x) > 0.5), -np.inf, np.inf), found)


def _polygamma_on_numpy(n: int, x: Any) -> Any:
    """Return the n-th derivative of ``digamma``: (-1)^(n+1) n! times the sum of (x + k)^-(n+1) over k >= 0.

    For negative x = -N + f, the poles on one side of x give a zeta function of f, the N on the other side that of 1 - f
    less that of 1 - x; at half-integers and even n the first two cancel exactly. Beyond order 100, factorial and powers
    may leave the range of double precision although the result does not: there the largest term is factored out, by
    logarithms. Guarded by ``test_polygamma_of_high_order_and_negative_numbers``.
    """
    result = x.dtype if x.dtype.kind == "f" else default_float()
    wide = np.asarray(x, np.float64)
    if n == 0:
        return _digamma_on_numpy(wide).astype(result)
    odd = n % 2 == 1
    pole = (wide <= 0) & (wide == np.floor(wide))
    order = float(n + 1)
    parts = _between_poles(np.where(pole, 0.5, wide), odd)
    if n <= _FACTORIALS:
        found = math.factorial(n) * _signed_sum((part, hurwitz_zeta(order, at)) for at, part in parts)
    else:
        first = np.min([at for at, _ in parts[:2]], 0)
        total = _signed_sum((part, (first / at) ** order * _relative_zeta(order, at)) for at, part in parts)
        size = math.lgamma(order) - order * np.log(first) + np.log(np.abs(total))
        found = np.sign(total) * np.exp(size)
    found = np.where(pole, np.inf, np.where(wide == np.inf, 0.0, found))
    return np.asarray(found if odd else -found).astype(result)


def _polygamma_each_on_numpy(n: Any, x: Any) -> Any:
    result = _polygamma_each_meta(n, x).dtype
    n, x = np.broadcast_arrays(n, x)
    out = np.full(x.shape, np.nan, result)
    for order in np.unique(n[n >= 0]).tolist():
        chosen = n == order
        out[chosen] = _polygamma_on_numpy(order, x[chosen].astype(np.float64))
    return out


def _digamma_on_numpy(x: Any) -> Any:
    """Return ``digamma`` of a float64 array."""
    negative = x <= 0
    size = np.where(negative, 1 - x, x)
    total = np.zeros_like(size)
    for _ in range(10):
        total -= 1 / size
        size = size + 1.0
    z = 1 / (size * size)
    series = np.zeros_like(z)
    for k in reversed(range(8)):
        series = z * (_BERNOULLI[k] / (2 * k + 2) + series)
    found = total + np.log(size) - 0.5 / size - series
    distance = x - np.round(x)
    mirrored = found - np.pi / np.tan(np.pi * distance)
    mirrored = np.where(distance == 0, np.nan, mirrored)
    mirrored = np.where(x == 0, np.copysign(np.inf, -x), mirrored)
    return np.where(negative, mirrored, found)


polygamma_of: Entry = structured(
    "polygamma_of(int n, Tensor x) -> Tensor",
    meta=_polygamma_meta,
    numpy=_polygamma_on_numpy,
    vjp={"x": lambda g, n, x: g * polygamma_of(n + 1, x)},
    sample_inputs=lambda rng: (
        [((n, rng.uniform(0.4, 6.0, shape)), {}) for n, shape in ((0, (3,)), (1, (2, 3)), (2, ()), (5, (0, 2)))]
        + [((3, np.array([-0.3, -1.6, 0.7])), {})]
    ),
    batch=broadcast,
    tags=(Tag.INTERNAL,),
)

polygamma_each: Entry = structured(
    "polygamma_each(Tensor n, Tensor x) -> Tensor",
    meta=_polygamma_each_meta,
    numpy=_polygamma_each_on_numpy,
    vjp={"x": lambda g, n, x, x_meta: sum_to_shape(g * polygamma_each(n + 1, x), x_meta.shape)},
    sample_inputs=lambda rng: [
        ((np.array([0, 2, 1]), rng.uniform(0.4, 6.0, (2, 3))), {}),
        ((np.array([[3], [1]]), np.array([-0.3, -1.6, 0.7])), {}),
        ((np.array(2), rng.uniform(0.4, 6.0, (0, 2))), {}),
    ],
    batch=broadcast,
    tags=(Tag.INTERNAL,),
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


def _betaln_of_positive(T: Any, a: Any, b: Any) -> Any:
    small, large = s.minimum(a, b), s.maximum(a, b)
    wide = s.where(large >= 10, large, T(10))
    ratio = small / wide
    rest = stirling_rest(T, wide) - stirling_rest(T, wide + small)
    # both large: the leading terms of Stirling's formula are subtracted symbolically
    first = s.where(small >= 10, small, T(10))
    terms = (first - 0.5) * s.log(ratio / (1 + ratio)) - wide * s.log1p(ratio)
    both = terms - 0.5 * s.log(wide) + _HALF_LOG_2PI + (stirling_rest(T, first) + rest)
    one = s.lgamma(small) + (small * (1 - s.log(wide)) - (wide + small - 0.5) * s.log1p(ratio) + rest)
    plain = s.lgamma(small) + (s.lgamma(large) - s.lgamma(small + large))
    return s.where(large >= 10, s.where(small >= 10, both, one), plain)


def _positive(T: Any, x: Any) -> Any:
    return s.where(s.logical_and(x > 0, s.logical_not(s.isinf(x))), x, T(1))


def _betaln_of_negative(T: Any, a: Any, b: Any) -> Any:
    """Return ``log(abs(beta))`` for an argument below 0: gamma is infinite at integers, and two poles may cancel."""
    small, large = s.minimum(a, b), s.maximum(a, b)
    pole = s.logical_and(small <= 0, small == s.floor(small))
    total = small + large
    # beta(-n, b) with an integer b <= n is finite: (-1)^b beta(1 + n - b, b). As in SciPy, this holds for 32 bits:
    # a larger float is hardly meant as an integer.
    whole = s.logical_and(large == s.floor(large), small * 2.0**-16 > -(2.0**15))
    finite = s.logical_and(s.logical_and(whole, large > 0), total < 1)
    turned = _betaln_of_positive(T, _positive(T, 1 - total), _positive(T, large))
    plain = s.lgamma(small) + s.lgamma(large) - s.lgamma(total)
    return s.where(pole, s.where(finite, turned, T(math.inf)), s.where(s.isinf(large), T(math.nan), plain))


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
    value = _betaln_of_positive(T, _positive(T, a), _positive(T, b))
    edges = _edges(T, a, b, T(math.inf), T(-math.inf), value)
    return s.where(s.minimum(a, b) < 0, _betaln_of_negative(T, a, b), edges)


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
    value = s.where(near, direct, s.exp(_betaln_of_positive(T, a_, b_)))
    return _edges(T, a, b, T(math.inf), T(0), value)
