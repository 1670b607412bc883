"""Error functions and the normal distribution, as scalar expressions: ``tk.special``.

Names and arguments are SciPy's. Unless stated otherwise, float64 results are within a few units in the last place
(``tests/ops/test_special.py`` has the measured bounds).
"""

from __future__ import annotations

import math
from typing import Any, Final

from ....dispatch.tags import Tag
from ... import scalar as s
from ...declare import elementwise
from ..elementwise.exponential import exp
from . import coefficients as c
from .series import horner, power_series

_SQRT_HALF: Final = math.sqrt(0.5)
_SQRT_2PI: Final = math.sqrt(2 * math.pi)
_SHORT_EXP: Final = tuple(1 / math.factorial(k) for k in range(6))


@elementwise(tags=(Tag.INTERNAL,))
def real_erf(T: Any, x: Any) -> Any:
    """Compute ``tk.special.erf`` of real numbers."""
    return s.erf(x)


@elementwise(tags=(Tag.INTERNAL,))
def real_erfc(T: Any, x: Any) -> Any:
    """Compute ``tk.special.erfc`` of real numbers."""
    return s.erfc(x)


def _erfcx_of_positive(T: Any, x: Any) -> Any:
    # dividing by x first keeps the quotient finite at infinity
    t = s.where(x > T(1e3), T(1) - T(6) / (x + T(3)), (x - T(3)) / (x + T(3)))
    return horner(T, c.ERFCX, t) / (1 + 2 * x)


def _exp_of_square(T: Any, x: Any, factor: float) -> Any:
    """Return ``exp(factor * x**2)`` for a factor that is a power of two.

    The exponential function would turn the rounding of x * x into an error that grows with the square. So x is split
    into a head of few bits, whose square is exact, and a rest: x^2 = head^2 + (x - head) * (x + head). The second term
    is small where the result is a number. Guarded by ``test_accuracy_in_units_in_the_last_place``.
    """
    size = s.minimum(s.abs(x), T(64))  # exp(64**2 / 2) is infinite, and the rest of a large number is
    grid = _steps_per_unit(T)
    head = s.round(size * grid) / grid
    return s.exp(head * head * factor) * power_series(T, _SHORT_EXP, (size - head) * (size + head) * factor)


def _steps_per_unit(T: Any) -> Any:
    """Return the number of steps per unit whose multiples have exact squares, as far as ``exp`` of them is a number."""
    eps = getattr(T, "eps", None)
    return T(64) if eps is None else s.where(eps > 1e-4, T(4), s.where(eps > 1e-10, T(64), T(2**20)))


@elementwise(partials=lambda x, out: 2 * x * out - 2 / math.sqrt(math.pi), domain=(-2.0, 4.0))
def special_erfcx(T: Any, x: Any) -> Any:
    """Return ``exp(x**2) * erfc(x)``, the scaled complementary error function, which does not vanish for large ``x``.

    >>> tk.special.erfcx(tk.asarray([0.0]))
    tensor([1.], shape=(1,), dtype=float32, device='cpu')
    """
    positive = _erfcx_of_positive(T, s.abs(x))
    return s.where(x < 0, 2 * _exp_of_square(T, x, 1.0) - positive, positive)


def _tail(T: Any, p: Any, *, gap: bool = False, twice: bool = False) -> Any:
    """Return the distance beyond which a standard normal variable lies with probability p, for p up to 1/8.

    ``gap``: p is half the difference between a number and 1, which is never so small that r is 6.2.
    ``twice``: p is twice the probability, so that the least number does not become zero.
    """
    square = math.log(2) - s.log(p) if twice else -s.log(p)
    inverse = s.rsqrt(square)
    r = square * inverse
    near_low, near_high, far_low = 1 / 6.2, 1 / 1.4, 1 / 27.5
    near = (inverse - near_low) * (2 / (near_high - near_low)) - 1
    far = (inverse - far_low) * (2 / (near_low - far_low)) - 1
    ratio = horner(T, c.TAIL_NEAR, near)
    return r * (ratio if gap else s.where(r < 6.2, ratio, horner(T, c.TAIL_FAR, far)))


@elementwise(
    partials=lambda out: exp(out * out) * (math.sqrt(math.pi) / 2),
    domain=(-0.95, 0.95),
    autocast="float32",
)
def special_erfinv(T: Any, x: Any) -> Any:
    """Return the number whose error function is ``x``; infinite at -1 and 1, nan outside.

    >>> tk.special.erfinv(tk.asarray([0.0, 1.0, 2.0])).tolist()
    [0.0, inf, nan]
    """
    size = s.abs(x)
    inner = size <= T(0.75)
    central = x * horner(T, c.ERFINV, x * x * (32 / 9) - 1)
    rest = s.where(inner, T(0.125), (1 - size) * 0.5)
    outer = s.copysign(_tail(T, s.where(rest > 0, rest, T(0.125)), gap=True) * _SQRT_HALF, x)
    ends = s.where(rest == 0, s.copysign(T(math.inf), x), T(math.nan))
    return s.where(inner, central, s.where(rest > 0, outer, ends))


@elementwise(partials=lambda out: exp(out * out) * (-math.sqrt(math.pi) / 2), domain=(0.05, 1.95))
def special_erfcinv(T: Any, x: Any) -> Any:
    """Return the number whose complementary error function is ``x``; infinite at 0 and 2, nan outside.

    >>> tk.special.erfcinv(tk.asarray([1.0, 0.0, 3.0])).tolist()
    [0.0, inf, nan]
    """
    q = 1 - x
    inner = s.abs(q) <= T(0.75)
    central = q * horner(T, c.ERFINV, q * q * (32 / 9) - 1)
    rest = s.where(x < 1, x, 2 - x)
    inside = s.logical_and(rest > 0, s.logical_not(inner))
    outer = s.copysign(_tail(T, s.where(inside, rest, T(0.25)), twice=True) * _SQRT_HALF, q)
    ends = s.where(rest == 0, s.copysign(T(math.inf), q), T(math.nan))
    return s.where(inner, central, s.where(inside, outer, ends))


# ---- the normal distribution


def _upper_tail(T: Any, x: Any) -> Any:
    """Return the probability that a standard normal variable is above x, for x >= 1."""
    return 0.5 * _erfcx_of_positive(T, x * _SQRT_HALF) * _exp_of_square(T, x, -0.5)


@elementwise(partials=lambda x: exp(x * x * -0.5) * (1 / _SQRT_2PI), domain=(-2.0, 4.0))
def special_ndtr(T: Any, x: Any) -> Any:
    """Return the probability that a standard normal variable is at most ``x``.

    >>> tk.special.ndtr(tk.asarray([0.0, 40.0])).tolist()
    [0.5, 1.0]
    """
    far = s.abs(x) > 1
    tail = _upper_tail(T, s.where(far, s.abs(x), T(1)))
    near = T(0.5) + x * horner(T, c.NDTR, 2 * x * x - 1)
    return s.where(far, s.where(x < 0, tail, 1 - tail), near)


@elementwise(partials=lambda out: exp(out * out * 0.5) * _SQRT_2PI, domain=(0.05, 0.95))
def special_ndtri(T: Any, x: Any) -> Any:
    """Return the inverse of ``ndtr``: a standard normal variable is at most the result with probability ``x``.

    Infinite at 0 and 1, nan outside.

    >>> tk.special.ndtri(tk.asarray([0.5, 0.0, 1.0])).tolist()
    [0.0, -inf, inf]
    """
    q = x - T(0.5)
    size = s.abs(q)
    inner = size <= T(0.375)
    double = 2 * q
    central = double * horner(T, c.ERFINV, double * double * (32 / 9) - 1) * math.sqrt(2)
    rest = s.where(x < 0.5, x, 1 - x)
    inside = s.logical_and(rest > 0, s.logical_not(inner))
    outer = s.copysign(_tail(T, s.where(inside, rest, T(0.125))), q)
    ends = s.where(rest == 0, s.copysign(T(math.inf), q), T(math.nan))
    return s.where(inner, central, s.where(inside, outer, ends))


@elementwise(partials=lambda x: math.sqrt(2 / math.pi) / special_erfcx(x * -_SQRT_HALF), domain=(-4.0, 1.0))
def special_log_ndtr(T: Any, x: Any) -> Any:
    """Return the logarithm of ``ndtr``, also where ``ndtr`` is too small for its dtype.

    >>> f"{tk.special.log_ndtr(tk.asarray(-100.0)):.3f}"
    '-5005.524'
    """
    below = x < -1
    far = s.log(_erfcx_of_positive(T, s.where(below, x * -_SQRT_HALF, T(1))) * 0.5) - x * x * 0.5
    above = x > 1
    near = s.erfc(s.where(above, T(0), x) * _SQRT_HALF) * 0.5
    tail = s.where(above, _upper_tail(T, s.where(above, x, T(1))), near)
    return s.where(below, far, s.where(s.isnan(x), x, s.log1p(-tail)))
