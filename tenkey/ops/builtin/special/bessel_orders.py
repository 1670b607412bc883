"""Bessel functions of any order: ``tk.special``.

Note [Bessel functions by regions]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Of the first kind and integer order: the recurrence upwards from orders 0 and 1 is stable while the order is below the
argument, and beyond it the recurrence downwards (Miller's algorithm) is, whose results are proportional to the
functions (DLMF 3.6). Of the second kind the recurrence upwards is stable everywhere. The modified functions of the
first kind and real order are Hankel's expansion (DLMF 10.40.1) where the argument is large compared with the square of
the order, Debye's expansion (DLMF 10.41.3) for large orders, and otherwise the power series, whose terms are positive
(DLMF 10.25.2). Guarded by ``tests/ops/test_bessel_orders.py``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from ....core.tensor import Tensor
from ...declare import Decomposition, Entry, TensorSpec, broadcast, composite, internal, loop
from ..elementwise.arithmetic import sign
from ..elementwise.comparison import equal, where
from ..shape.copying import cast
from .arrays import ARRAYS, TENSORS
from .bessel import special_j0, special_j1, special_y0, special_y1
from .gamma import special_gamma
from .incomplete import no_derivative, to_one_shape
from .series import power_series

_TINY: Final = 1e-8  # below it the first term of the series is the function
_HIGH: Final = 1e150


def _largest(x: Any) -> int:
    """Return the largest element that is not nan, on the host, rounded down."""
    return int((x * (x == x)).max()) if x.size else 0  # nan is not equal to itself


def _odd(m: Any, n: Any) -> Any:
    return n - 2.0 * m.floor(n * 0.5) == 1.0


def _of_orders(
    name: str, function: Callable[..., Any], given: str, samples: Callable[[np.random.Generator, Any], Any]
) -> Entry:
    """Declare an internal operator of tensors of one shape, whose ``function(m, ...)`` computes in double precision."""

    def meta(*operands: Any) -> TensorSpec:
        dtype = operands[1].dtype
        if dtype.kind not in "fV" or any(x.dtype != dtype or x.shape != operands[0].shape for x in operands):
            raise TypeError(f"[special.{name}] needs operands of one floating dtype and one shape.")
        return TensorSpec(operands[1].shape, dtype)

    def on_numpy(*operands: Any) -> Any:
        with np.errstate(all="ignore"):
            found = function(ARRAYS, *[x.astype(np.float64) for x in operands])
        return np.asarray(found).astype(meta(*operands).dtype)

    return internal(
        f"bessel_{name}({', '.join([f'Tensor {x}' for x in given.split()])}) -> Tensor",
        meta=meta,
        numpy=on_numpy,
        decomposition=Decomposition(
            lambda *operands: cast(function(TENSORS, *[TENSORS.double(x) for x in operands]), meta(*operands).dtype),
            needs=("reduction",),
        ),
        sample_inputs=lambda rng: [(samples(rng, shape), {}) for shape in ((3,), (2, 2), (0,))],
        batch=loop,
    )


# ---- integer orders


def _first_kind(m: Any, n: Any, x: Any, j0: Any, j1: Any) -> Any:
    size = m.abs(n)
    found = _upwards(m, size, m.abs(x), j0, j1)
    found = m.where(_odd(m, size) & ((n > 0.0) ^ (x > 0.0)), -found, found)
    return m.where(n == m.floor(n), found, math.nan)


def _upwards(m: Any, n: Any, x: Any, j0: Any, j1: Any) -> Any:
    """Return the functions of the first kind for n >= 0 and x >= 0; those of orders 0 and 1 are known."""
    found = m.where(n == 0.0, j0, j1)
    top = _largest(n)
    if top < 2:
        return found
    safe = m.where(x > _TINY, x, 1.0)
    lower, upper = j0, j1
    for k in range(1, top):
        lower, upper = upper, upper * (2.0 * k / safe) - lower
        found = m.where(n == k + 1.0, upper, found)
    below = (x <= n) & (n > 1.0) & (x > _TINY)
    if bool(below.any()):
        found = m.where(below, _downwards(m, n, m.where(below, x, 1.0), top, j0, j1), found)
    leading = (x * 0.5) ** n
    for k in range(2, top + 1):
        leading = m.where(n >= k, leading / k, leading)
    return m.where((x <= _TINY) & (n > 1.0), leading, found)


def _downwards(m: Any, n: Any, x: Any, top: int, j0: Any, j1: Any) -> Any:
    lower = x * 0.0 + 1.0
    upper = at = first = x * 0.0
    for k in range(top + int(math.sqrt(160.0 * top)) + 10, 0, -1):
        if k <= top:
            at = m.where(n == float(k), lower, at)
        if k == 1:
            first = lower
        upper, lower = lower, lower * (2.0 * k / x) - upper
        large = m.abs(lower) > _HIGH
        upper, lower, at, first = (m.where(large, y * (1.0 / _HIGH), y) for y in (upper, lower, at, first))
    use_first = m.abs(j1) > m.abs(j0)
    return at * (m.where(use_first, j1, j0) / m.where(use_first, first, lower))


def _second_kind(m: Any, n: Any, x: Any, y0: Any, y1: Any) -> Any:
    size = m.abs(n)
    lower, upper = y0, y1
    found = m.where(size == 0.0, lower, upper)
    safe = m.where(x > 0.0, x, 1.0)
    for k in range(1, _largest(size)):
        beyond = upper * (2.0 * k / safe) - lower
        lower, upper = upper, m.where(m.isinf(upper), upper, beyond)
        found = m.where(size == k + 1.0, upper, found)
    found = m.where(_odd(m, size) & (n < 0.0), -found, found)
    return m.where(n == m.floor(n), found, math.nan)


def _integer_samples(rng: np.random.Generator, shape: Any) -> Any:
    x = rng.uniform(0.5, 9, shape)
    return (rng.integers(0, 2, shape).astype(float), x, rng.uniform(0.5, 1, shape), rng.uniform(0.5, 1, shape))


_jn = _of_orders("jn", _first_kind, "n x j0 j1", _integer_samples)
_yn = _of_orders("yn", _second_kind, "n x y0 y1", _integer_samples)


def _of_order(name: str, order: str, slope: Callable[..., Tensor], *, low: float = 0.3) -> Callable[..., Entry]:
    """Declare a function of an order and of x, whose derivative with respect to x is the ``slope``."""
    return composite(
        f"special_{name}(Tensor {order}, Tensor x) -> Tensor",
        vjp={order: no_derivative(f"special_{name}", order, "x"), "x": slope},
        sample_inputs=lambda rng: [
            ((rng.integers(0, 5, a), rng.uniform(low, 9.0, b)), {})
            for a, b in (((3, 1), (4,)), ((), (2, 3)), ((2,), ()), ((0,), (1,)))
        ],
        batch=broadcast,
    )


def _half_difference(function: Any, n: Tensor, x: Tensor) -> Tensor:
    order, _ = to_one_shape(function.__name__, n, x)  # n may be a Python number
    return (function(order - 1, x) - function(order + 1, x)) * 0.5  # type: ignore[no-any-return]


@_of_order("jn", "n", lambda g, n, x: g * _half_difference(special_jn, n, x))
def special_jn(n: Tensor, x: Tensor) -> Tensor:
    """Return the Bessel function of the first kind and integer order ``n`` of real numbers (DLMF 10.2.2).

    The operands broadcast; integers give floats. nan for an order that is not an integer. The derivative with respect
    to ``n`` raises NotImplementedError. The time grows with the largest order.

    >>> f"{tk.special.jn(2, tk.asarray(1.0)).item():.5f}"
    '0.11490'
    """
    n, x = to_one_shape("special_jn", n, x)
    size = TENSORS.abs(x)
    return _jn(n, x, special_j0(size), special_j1(size))


@_of_order("yn", "n", lambda g, n, x: g * _half_difference(special_yn, n, x), low=0.8)
def special_yn(n: Tensor, x: Tensor) -> Tensor:
    """Return the Bessel function of the second kind and integer order ``n`` (DLMF 10.2.3); -inf at 0, nan below.

    Operands and derivatives are those of ``tk.special.jn``.

    >>> f"{tk.special.yn(2, tk.asarray(1.0)).item():.5f}"
    '-1.65068'
    """
    n, x = to_one_shape("special_yn", n, x)
    return _yn(n, x, special_y0(x), special_y1(x))


# ---- real orders, modified functions of the first kind

_SMALL_ORDER: Final = 25.0
_LARGE: Final = 30.0
_DEBYE_TERMS: Final = 12


@functools.cache
def _debye() -> tuple[tuple[float, ...], ...]:
    """Return the coefficients of the polynomials of Debye's expansion by powers 0, 1, ... (DLMF 10.41.9)."""
    known: list[list[Fraction]] = [[Fraction(1)]]
    for _ in range(_DEBYE_TERMS):
        u = known[-1]
        made = [Fraction(0)] * (len(u) + 3)
        for k, c in enumerate(u):  # p^2 (1 - p^2) u' / 2, and the integral of (1 - 5 p^2) u / 8
            made[k + 1] += c * k / 2 + c / (8 * (k + 1))
            made[k + 3] -= c * k / 2 + 5 * c / (8 * (k + 3))
        known.append(made)
    return tuple([tuple([float(c) for c in u]) for u in known])


def _by_debye(m: Any, v: Any, x: Any) -> Any:
    z = x / v
    root = m.sqrt(z * z + 1.0)
    p = 1.0 / root
    exponent = v * (1.0 / (root + z) + m.log(z / (root + 1.0)))
    total = p * 0.0
    for u in reversed(_debye()):
        total = total / v + power_series(float, u, p)
    return m.exp(exponent) * total * m.sqrt(p / (v * (2.0 * math.pi)))


def _by_hankel(m: Any, v: Any, x: Any) -> Any:
    square = v * v * 4.0
    term = total = x * 0.0 + 1.0
    for k in range(1, 31):
        term = term * ((2 * k - 1) ** 2 - square) / (x * (8.0 * k))
        total = total + term
    return total / m.sqrt(x * (2.0 * math.pi))


def _by_series(m: Any, v: Any, x: Any, gamma: Any) -> Any:
    quarter = x * x * 0.25
    term = total = x * 0.0 + 1.0
    largest = _largest(x)
    for k in range(1, largest // 2 + int(6.0 * math.sqrt(largest)) + 25):
        term = term * quarter / ((v + float(k)) * float(k))
        total = total + term
    return (total * m.exp(-x)) * (x * 0.5) ** v / gamma


def _modified(m: Any, v: Any, x: Any, gamma: Any) -> Any:
    """Return ``exp(-x)`` times the function, for x > 0; ``gamma`` is that of v + 1."""
    far = (x > _LARGE) & (x > v * v)
    high = (v > _SMALL_ORDER) & ~far
    near = ~(far | high)
    found = _by_series(m, m.where(near, v, 1.0), m.where(near, x, 1.0), m.where(near, gamma, 1.0))
    if bool(far.any()):
        found = m.where(far, _by_hankel(m, m.where(far, v, 1.0), m.where(far, x, _LARGE)), found)
    if bool(high.any()):
        found = m.where(high, _by_debye(m, m.where(high, v, _SMALL_ORDER), m.where(high, x, 1.0)), found)
    return found


def _of_real_order(m: Any, v: Any, x: Any, gamma: Any) -> Any:
    whole = v == m.floor(v)
    size = m.abs(x)
    usual = (size > 0.0) & (size < math.inf) & (v == v)  # nan is not equal to itself
    found = _modified(m, m.where(usual, v, 1.0), m.where(usual, size, 1.0), m.where(usual, gamma, 1.0))
    at_zero = m.where(v == 0.0, 1.0, m.where(v > 0.0, size * 0.0, math.inf))
    special = m.where(size == 0.0, at_zero, m.where(m.isinf(size) & (v == v), 0.0, size + v + math.nan))
    found = m.where(usual, found, special)
    found = m.where((x < 0.0) & ~whole, math.nan, found)
    return m.where((x < 0.0) & _odd(m, v), -found, found)


_ive = _of_orders(
    "ive", _of_real_order, "v x gamma", lambda rng, shape: (rng.uniform(0, 1, shape), rng.uniform(0.3, 9, shape),
                                                           rng.uniform(0.9, 1, shape))
)  # fmt: skip


def _scaled(name: str, v: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scaled function in double precision, and the arguments in one shape."""
    v, x = to_one_shape(f"special_{name}", v, x)
    v, wide = TENSORS.double(v), TENSORS.double(x)
    v = where((v < 0.0) & (v == TENSORS.floor(v)), -v, v)
    return _ive(v, wide, special_gamma(v + 1.0)), x


def _slope(v: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Return ``v / x * out``, and its limit at zero."""
    zero = equal(x, 0)
    limit = where(equal(v, 1), 0.5, where((v > 0) & (v < 1), math.inf, out * 0))
    return where(zero, limit, out * (v / where(zero, 1, x)))


def _modified_slope(function: Any, v: Tensor, x: Tensor, out: Tensor) -> Tensor:
    order, _ = to_one_shape(function.__name__, v, x)  # v may be a Python number
    return function(order + 1, x) + _slope(order, x, out)  # type: ignore[no-any-return]


@_of_order("iv", "v", lambda g, v, x, out: g * _modified_slope(special_iv, v, x, out))
def special_iv(v: Tensor, x: Tensor) -> Tensor:
    """Return the modified Bessel function of the first kind and real order ``v`` (DLMF 10.25.2).

    The operands broadcast; integers give floats. For negative ``x`` the order must be an integer, otherwise the result
    is nan. The derivative with respect to ``v`` raises NotImplementedError. The time grows with the largest ``x``.

    >>> f"{tk.special.iv(0.5, tk.asarray(1.0)).item():.5f}"
    '0.93767'
    """
    found, x = _scaled("iv", v, x)
    half = TENSORS.exp(TENSORS.abs(TENSORS.double(x)) * 0.5)  # the exponential function overflows before the product
    infinite = where(equal(found, 0.0), half, half * sign(found))
    return cast(where(TENSORS.isinf(half), infinite, half * found * half), x.dtype)


@_of_order("ive", "v", lambda g, v, x, out: g * (_modified_slope(special_ive, v, x, out) - sign(x) * out))
def special_ive(v: Tensor, x: Tensor) -> Tensor:
    """Return ``exp(-abs(x)) * iv(v, x)``, which does not overflow. Operands and derivatives are those of ``iv``.

    >>> f"{tk.special.ive(0.5, tk.asarray(1e6)).item():.7f}"
    '0.0003989'
    """
    found, x = _scaled("ive", v, x)
    return cast(found, x.dtype)
