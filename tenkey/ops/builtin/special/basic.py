"""Special functions of one or several real numbers, as scalar expressions: ``tk.special``.

Names and arguments are SciPy's. Where no remark says otherwise float64 results are within a few units in the last place
(``tests/ops/test_special.py`` has the measured bounds).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from ... import scalar as s
from ...declare import EACH_TO_FLOAT, REAL_TO_FLOAT, Entry, pointwise
from ..elementwise.comparison import where
from ..elementwise.exponential import exp, log, log1p
from . import coefficients as c

_SQRT_HALF: Final = math.sqrt(0.5)
_SQRT_2PI: Final = math.sqrt(2 * math.pi)
_HALF_LOG_2PI: Final = 0.5 * math.log(2 * math.pi)


def horner(T: Any, coefficients: Sequence[float], t: Any) -> Any:
    """The polynomial with these coefficients, lowest power first."""
    total = T(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * t + coefficient
    return total


# ---- error functions

special_erf = pointwise(
    "special_erf(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.erf(x),
    promote=REAL_TO_FLOAT,
    methods=("erf",),
    doc="""Error function, ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to ``x`` (DLMF 7.2.1).

    >>> import tenkey as tk
    >>> tk.special.erf(tk.asarray([0.0, 10.0])).tolist()
    [0.0, 1.0]
    """,
)

special_erfc = pointwise(
    "special_erfc(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.erfc(x),
    promote=REAL_TO_FLOAT,
    doc="""``1 - erf(x)`` without cancellation (DLMF 7.2.2).

    >>> import tenkey as tk
    >>> tk.special.erfc(tk.asarray([0.0, 100.0])).tolist()
    [1.0, 0.0]
    """,
)


def _erfcx_of_positive(T: Any, x: Any) -> Any:
    # dividing by x first keeps the quotient a number at infinity
    t = s.where(x > T(1e3), T(1) - T(6) / (x + T(3)), (x - T(3)) / (x + T(3)))
    return horner(T, c.ERFCX, t) / (1 + 2 * x)


# Note [The exponential of a square]
#     x * x is rounded, and the exponential function makes of that an error which grows with the square. So x is split
#     into a head of few bits, whose square is exact, and a rest: x^2 = head^2 + (x - head) * (x + head). Guarded by
#     `test_accuracy_in_units_in_the_last_place`.
def _exp_of_square(T: Any, x: Any, factor: float) -> Any:
    """``exp(factor * x**2)`` for a factor that is a power of two."""
    head = s.round(x * 16) * 0.0625
    rest = (x - head) * (x + head)
    return s.exp(head * head * factor) * s.exp(s.where(s.isinf(x), T(0), rest) * factor)


def _erfcx(T: Any, x: Any) -> Any:
    positive = _erfcx_of_positive(T, s.abs(x))
    return s.where(x < 0, 2 * _exp_of_square(T, x, 1.0) - positive, positive)


special_erfcx: Entry = pointwise(
    "special_erfcx(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _erfcx(T, x),
    partials=lambda x, out: 2 * x * out - 2 / math.sqrt(math.pi),
    promote=REAL_TO_FLOAT,
    domain=(-2.0, 4.0),
    doc="""``exp(x**2) * erfc(x)``, the scaled complementary error function: it does not vanish for large ``x``.

    >>> import tenkey as tk
    >>> tk.special.erfcx(tk.asarray([0.0]))
    tensor([1.], shape=(1,), dtype=float32, device='cpu')
    """,
)


def _tail(T: Any, p: Any) -> Any:
    """The distance at which a standard normal variable has probability p beyond it, for p up to 1/8."""
    r = s.sqrt(-s.log(p))
    inverse = T(1) / r
    near_low, near_high, far_low = 1 / 5, 1 / 1.4, 1 / 27.5
    near = (inverse - near_low) * (2 / (near_high - near_low)) - 1
    far = (inverse - far_low) * (2 / (near_low - far_low)) - 1
    return r * s.where(r < 5, horner(T, c.TAIL_NEAR, near), horner(T, c.TAIL_FAR, far))


def _erfinv(T: Any, x: Any) -> Any:
    size = s.abs(x)
    inner = size <= T(0.75)
    central = x * horner(T, c.ERFINV, x * x * (32 / 9) - 1)
    rest = s.where(inner, T(0.125), (1 - size) * 0.5)
    outer = s.copysign(_tail(T, s.where(rest > 0, rest, T(0.125))) * _SQRT_HALF, x)
    ends = s.where(rest == 0, s.copysign(T(math.inf), x), T(math.nan))
    return s.where(inner, central, s.where(rest > 0, outer, ends))


special_erfinv = pointwise(
    "special_erfinv(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _erfinv(T, x),
    partials=lambda out: exp(out * out) * (math.sqrt(math.pi) / 2),
    promote=REAL_TO_FLOAT,
    domain=(-0.95, 0.95),
    methods=("erfinv",),
    doc="""The number whose error function is ``x``; infinite at -1 and 1, nan outside.

    >>> import tenkey as tk
    >>> tk.special.erfinv(tk.asarray([0.0, 1.0, 2.0])).tolist()
    [0.0, inf, nan]
    """,
)

# ---- the normal distribution


def _upper_tail(T: Any, x: Any) -> Any:
    """The probability beyond x >= 1 of a standard normal variable."""
    return 0.5 * _erfcx_of_positive(T, x * _SQRT_HALF) * _exp_of_square(T, x, -0.5)


def _ndtr(T: Any, x: Any) -> Any:
    far = s.abs(x) > 1
    tail = _upper_tail(T, s.where(far, s.abs(x), T(1)))
    near = T(0.5) * s.erfc(s.where(far, T(0), x) * -_SQRT_HALF)
    return s.where(far, s.where(x < 0, tail, 1 - tail), s.where(s.isnan(x), x, near))


special_ndtr = pointwise(
    "special_ndtr(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _ndtr(T, x),
    partials=lambda x: exp(x * x * -0.5) * (1 / _SQRT_2PI),
    promote=REAL_TO_FLOAT,
    domain=(-2.0, 4.0),
    doc="""The probability that a standard normal variable is at most ``x``.

    >>> import tenkey as tk
    >>> tk.special.ndtr(tk.asarray([0.0, 40.0])).tolist()
    [0.5, 1.0]
    """,
)


def _ndtri(T: Any, p: Any) -> Any:
    q = p - T(0.5)
    size = s.abs(q)
    inner = size <= T(0.375)
    x = 2 * q
    central = x * horner(T, c.ERFINV, x * x * (32 / 9) - 1) * math.sqrt(2)
    rest = s.where(p < 0.5, p, 1 - p)
    inside = s.logical_and(rest > 0, s.logical_not(inner))
    outer = s.copysign(_tail(T, s.where(inside, rest, T(0.125))), q)
    ends = s.where(rest == 0, s.copysign(T(math.inf), q), T(math.nan))
    return s.where(inner, central, s.where(inside, outer, ends))


special_ndtri = pointwise(
    "special_ndtri(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _ndtri(T, x),
    partials=lambda out: exp(out * out * 0.5) * _SQRT_2PI,
    promote=REAL_TO_FLOAT,
    domain=(0.05, 0.95),
    doc="""The inverse of ``ndtr``: below which number a standard normal variable is with probability ``x``.

    Infinite at 0 and 1, nan outside.

    >>> import tenkey as tk
    >>> tk.special.ndtri(tk.asarray([0.5, 0.0, 1.0])).tolist()
    [0.0, -inf, inf]
    """,
)


def _log_ndtr(T: Any, x: Any) -> Any:
    below = x < -1
    far = s.log(_erfcx_of_positive(T, s.where(below, x * -_SQRT_HALF, T(1))) * 0.5) - x * x * 0.5
    above = x > 1
    near = s.erfc(s.where(above, T(0), x) * _SQRT_HALF) * 0.5
    tail = s.where(above, _upper_tail(T, s.where(above, x, T(1))), near)
    return s.where(below, far, s.where(s.isnan(x), x, s.log1p(-tail)))


special_log_ndtr = pointwise(
    "special_log_ndtr(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _log_ndtr(T, x),
    partials=lambda x: math.sqrt(2 / math.pi) / special_erfcx(x * -_SQRT_HALF),
    promote=REAL_TO_FLOAT,
    domain=(-4.0, 1.0),
    doc="""The logarithm of ``ndtr``, also where ``ndtr`` is too small for its dtype.

    >>> import tenkey as tk
    >>> f"{tk.special.log_ndtr(tk.asarray(-100.0)):.3f}"
    '-5005.524'
    """,
)

# ---- the logistic function and its kin

special_expit = pointwise(
    "special_expit(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: T(1) / (T(1) + s.exp(-x)),
    partials=lambda out: out * (1 - out),
    promote=REAL_TO_FLOAT,
    doc="""The logistic function ``1 / (1 + exp(-x))``; ``tk.sigmoid`` by SciPy's name.

    >>> import tenkey as tk
    >>> tk.special.expit(tk.asarray([0.0])).tolist()
    [0.5]
    """,
)


def _logit(T: Any, x: Any) -> Any:
    double = 2 * (x - T(0.5))
    middle = s.abs(double) < T(0.5)
    near = s.where(middle, double, T(0))
    return s.where(middle, s.log1p(near) - s.log1p(-near), s.log(x / (1 - x)))


special_logit = pointwise(
    "special_logit(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _logit(T, x),
    partials=lambda x: 1 / (x * (1 - x)),
    promote=REAL_TO_FLOAT,
    domain=(0.1, 0.9),
    doc="""``log(x / (1 - x))``, the inverse of ``expit``; infinite at 0 and 1, nan outside.

    >>> import tenkey as tk
    >>> tk.special.logit(tk.asarray([0.5, 0.0, 1.0])).tolist()
    [0.0, -inf, inf]
    """,
)

special_log_expit = pointwise(
    "special_log_expit(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.where(x < 0, x - s.log1p(s.exp(x)), -s.log1p(s.exp(-x))),
    promote=REAL_TO_FLOAT,
    doc="""``log(expit(x))``, without underflow.

    >>> import tenkey as tk
    >>> tk.special.log_expit(tk.asarray([-1000.0])).tolist()
    [-1000.0]
    """,
)


_EXPREL: Final = [1 / math.factorial(k + 1) for k in range(18)]


def _exprel(T: Any, x: Any) -> Any:
    near = s.abs(x) < T(0.5)
    away = s.where(near, T(1), x)
    series = horner(T, _EXPREL, s.where(near, x, T(0)))  # Note [Series at a removable singularity]
    # the exponential function overflows first
    large = x > 80
    half = s.exp(s.where(large, x, T(0)) * 0.5)
    grown = s.where(s.isinf(half), half, half / s.where(large, x, T(1)) * half)
    return s.where(near, series, s.where(large, grown, s.expm1(s.where(large, T(1), away)) / away))


special_exprel = pointwise(
    "special_exprel(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _exprel(T, x),
    promote=REAL_TO_FLOAT,
    doc="""``(exp(x) - 1) / x``, which is 1 at 0.

    >>> import tenkey as tk
    >>> tk.special.exprel(tk.asarray([0.0, float("-inf")])).tolist()
    [1.0, 0.0]
    """,
)

# ---- products with logarithms: 0 where the factor is 0

special_xlogy = pointwise(
    "special_xlogy(Tensor x, Tensor y) -> Tensor",
    scalar=lambda T: lambda x, y: s.where(s.logical_and(x == 0, s.logical_not(s.isnan(y))), T(0), x * s.log(y)),
    partials=(
        lambda x, y: log(where((x == 0) & (y <= 0), 1.0, y)),
        lambda x, y: x / where((x == 0) & (y == 0), 1.0, y),
    ),
    promote=EACH_TO_FLOAT,
    domain=(0.3, 4.0),
    doc="""``x * log(y)``, and 0 where ``x`` is 0, whatever ``y`` is but nan.

    >>> import tenkey as tk
    >>> tk.special.xlogy(tk.asarray([0.0, 2.0]), tk.asarray([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """,
)

special_xlog1py = pointwise(
    "special_xlog1py(Tensor x, Tensor y) -> Tensor",
    scalar=lambda T: lambda x, y: s.where(s.logical_and(x == 0, s.logical_not(s.isnan(y))), T(0), x * s.log1p(y)),
    partials=(
        lambda x, y: log1p(where((x == 0) & (y <= -1), 0.0, y)),
        lambda x, y: x / where((x == 0) & (y == -1), 1.0, 1 + y),
    ),
    promote=EACH_TO_FLOAT,
    domain=(0.3, 4.0),
    doc="""``x * log1p(y)``, and 0 where ``x`` is 0, whatever ``y`` is but nan.

    >>> import tenkey as tk
    >>> tk.special.xlog1py(tk.asarray([0.0, 2.0]), tk.asarray([-1.0, 0.0])).tolist()
    [0.0, 0.0]
    """,
)

special_entr = pointwise(
    "special_entr(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.where(x < 0, T(-math.inf), s.where(x == 0, T(0), -x * s.log(x))),
    partials=lambda x: -1 - log(x),
    promote=REAL_TO_FLOAT,
    domain=(0.2, 5.0),
    doc="""``-x * log(x)``, the contribution of ``x`` to an entropy: 0 at 0, minus infinity below.

    >>> import tenkey as tk
    >>> tk.special.entr(tk.asarray([0.0, 1.0, -1.0])).tolist()
    [0.0, -0.0, -inf]
    """,
)


def _rel_entr(T: Any, x: Any, y: Any) -> Any:
    proper = s.logical_and(x > 0, y > 0)
    ratio = x / y
    apart = s.logical_or(ratio == 0, s.isinf(ratio))  # the quotient of two numbers far apart: their logarithms are not
    close = s.logical_and(ratio > 0.5, ratio < 2)
    logarithm = s.where(close, s.log1p(s.where(close, (x - y) / y, T(0))), s.log(ratio))
    known = x * s.where(apart, s.log(x) - s.log(y), logarithm)
    zero = s.logical_and(x == 0, y >= 0)
    unordered = s.logical_or(s.isnan(x), s.isnan(y))
    return s.where(proper, known, s.where(zero, T(0), s.where(unordered, T(math.nan), T(math.inf))))


special_rel_entr = pointwise(
    "special_rel_entr(Tensor x, Tensor y) -> Tensor",
    scalar=lambda T: lambda x, y: _rel_entr(T, x, y),
    partials=(lambda x, y: log(x / y) + 1, lambda x, y: -x / y),
    promote=EACH_TO_FLOAT,
    domain=(0.3, 4.0),
    doc="""``x * log(x / y)``, the contribution to a relative entropy; 0 where x is 0, infinite outside its domain.

    >>> import tenkey as tk
    >>> tk.special.rel_entr(tk.asarray([1.0, 0.0, 1.0]), tk.asarray([1.0, 0.0, 0.0])).tolist()
    [0.0, 0.0, inf]
    """,
)


def _kl_div(T: Any, x: Any, y: Any) -> Any:
    proper = s.logical_and(x > 0, y > 0)
    entropy = _rel_entr(T, x, y)
    return s.where(s.logical_and(x == 0, y >= 0), y, s.where(proper, entropy - x + y, entropy))


special_kl_div = pointwise(
    "special_kl_div(Tensor x, Tensor y) -> Tensor",
    scalar=lambda T: lambda x, y: _kl_div(T, x, y),
    partials=(lambda x, y: log(x / y), lambda x, y: 1 - x / y),
    promote=EACH_TO_FLOAT,
    domain=(0.3, 4.0),
    doc="""``x * log(x / y) - x + y``, the contribution to a Kullback-Leibler divergence; infinite outside its domain.

    >>> import tenkey as tk
    >>> tk.special.kl_div(tk.asarray([1.0, 0.0]), tk.asarray([1.0, 2.0])).tolist()
    [0.0, 2.0]
    """,
)
