"""Chi-squared, F and Student distributions, in terms of the incomplete functions: ``tk.special``."""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np

from ....core.tensor import Tensor, cpu_word, make_tensor
from ...declare import composite
from ..elementwise.comparison import where
from ..elementwise.exponential import exp, log, log1p
from .arrays import TENSORS
from .gamma import special_betaln
from .incomplete import broadcasting, gamma_tail, no_derivative, of_one_shape, to_one_shape
from .quadrature import beta_below

_ENOUGH: Final = 1e17  # from this many degrees of freedom, the distribution is normal to the last place


def _student_upper(m: Any, df: Any, t: Any) -> Any:
    """Return the probability above t >= 0."""
    df = m.minimum(df, _ENOUGH)
    ratio = t / m.sqrt(df)
    inverse = 1 / m.hypot(ratio, 1.0)
    half = m.full_like(df, 0.5)
    near = beta_below(m, df / 2, half, inverse * inverse, (m.minimum(ratio, 1e100) * inverse) ** 2) / 2
    far = ratio > 1e100
    return near if m.never(far) else m.where(far, m.exp(_log_of_far(m, df) - df * m.log(t)), near)


def _log_of_far(m: Any, df: Any) -> Any:
    """Return the logarithm of the limit of ``t**df`` times the tail."""
    return 0.5 * df * m.log(df) - math.log(2) - m.log(df / 2) - _log_beta(m, df / 2)


def _student(m: Any, df: Any, t: Any) -> Any:
    df, t = m.double(df), m.double(t)
    upper = m.where(df > 0, _student_upper(m, m.where(df > 0, df, 1.0), m.abs(t)), math.nan)
    return m.where(t < 0, upper, 1 - upper)


# Note [Quantiles of Student's distribution]
#     Near the middle, Newton's method in t starts from the root of the tangent at 0: the distribution function is
#     concave for t > 0, so no step passes the root. Farther out it is applied to the logarithm of the tail as a
#     function of the logarithm of t, which is concave too: a step from the left passes the root, and all later steps
#     come from the right. They stay in a bracket from the root of that tangent to the root of the tail's asymptote;
#     where the two do not differ, the latter is the result. Guarded by
#     tests/ops/test_special_families.py::test_student_quantiles.
def _student_quantile(m: Any, df: Any, p: Any) -> Any:
    df, p = m.double(df), m.double(p)
    sane = df > 0
    found = m.where(sane & (p == 1), math.inf, m.where(sane & (p == 0.5), 0.0, m.full_like(p, math.nan)))
    found = m.where(sane & (p == 0), -math.inf, found)
    inside = sane & (p > 0) & (p < 1) & (p != 0.5)
    return m.fill(found, inside, functools.partial(_finite_quantile, m), (df, 1.0), (p, 0.75))


def _finite_quantile(m: Any, df: Any, p: Any) -> Any:
    df = m.minimum(df, _ENOUGH)
    away = m.abs(p - 0.5)
    constant = -0.5 * m.log(df) - _log_beta(m, df / 2)  # the logarithm of the density at 0
    middle = (away <= 0.25) & (away <= 0.5 * m.exp(constant) * m.sqrt(df))
    rest = m.minimum(p, 1 - p)
    size = m.full_like(p, 0.0)
    # the numbers in place of others: a quarter away from the middle with one degree of freedom, whose density is 1 / pi
    given = (df, 1.0), (away, 0.25), (constant, -math.log(math.pi))
    size = m.fill(size, middle, functools.partial(_middle_quantile, m), *given)
    size = m.fill(size, ~middle, functools.partial(_far_quantile, m), *given, (rest, 0.25))
    return m.copysign(size, p - 0.5)


def _log_beta(m: Any, a: Any) -> Any:
    """Return ``betaln(a, 1/2)``."""
    if m is TENSORS:
        return special_betaln(a, 0.5)
    a = np.asarray(a, order="C")
    return special_betaln(make_tensor(a, cpu_word(a.dtype)), 0.5).numpy()


def _density(m: Any, df: Any, constant: Any, t: Any) -> Any:
    """Return the density at t; ``constant`` is the logarithm of the density at 0."""
    return m.exp(constant - (df + 1) / 2 * m.log1p(t * t / df))


def _middle_quantile(m: Any, df: Any, away: Any, constant: Any) -> Any:
    t = away / m.exp(constant)
    half = m.full_like(df, 0.5)
    for _ in range(12):
        ratio = t * t / df
        below = beta_below(m, half, df / 2, ratio / (1 + ratio), 1 / (1 + ratio)) / 2
        before, t = t, t + (away - below) / _density(m, df, constant, t)
        if (m.abs(t - before) <= 2e-15 * t).all():
            break
    return t


def _far_quantile(m: Any, df: Any, away: Any, constant: Any, q: Any) -> Any:
    target = m.log(q)
    low, high = m.log(away / m.exp(constant)), (_log_of_far(m, df) - target) / df
    # the normal quantile to three digits (Abramowitz and Stegun 26.2.22), and the next term of the expansion
    u = m.sqrt(-2 * target)
    z = u - (2.30753 + 0.27061 * u) / (1 + u * (0.99229 + 0.04481 * u))
    at = m.minimum(m.maximum(m.log(m.maximum(z, 1e-3) * (1 + (z * z + 1) / (4 * df))), low), high)
    done = high - m.log(df) / 2 > 20
    before = m.full_like(at, math.inf)
    for _ in range(60):
        t = m.exp(m.where(done, 0.0, at))
        tail = _student_upper(m, df, t)
        above = m.log(tail) - target
        low, high = m.where(~done & (above >= 0), at, low), m.where(~done & (above < 0), at, high)
        step = at + above * tail / (t * _density(m, df, constant, t))
        held = (step >= low) & (step <= high)
        following = m.where(held, step, (low + high) / 2)
        change, size = m.abs(following - at), m.maximum(m.abs(at), 1.0)
        # the steps become shorter until they consist of rounding
        settled = (change <= 1e-15 * size) | ((change <= 1e-13 * size) & (change >= before))
        at, before = m.where(done, at, following), change
        done = done | settled
        if done.all():
            break
    return m.exp(m.where(high - m.log(df) / 2 > 20, high, at))


def _student_log_density(df: Tensor, t: Tensor) -> Tensor:
    finite = df < math.inf
    held = where(finite, df, 1.0)
    known = -0.5 * log(held) - special_betaln(held / 2, 0.5) - (held + 1) / 2 * log1p(t * t / held)
    return where(finite, known, -0.5 * t * t - 0.5 * math.log(2 * math.pi))


student_below = of_one_shape(
    "student_below(Tensor df, Tensor t) -> Tensor",
    _student,
    {"df": no_derivative("special_stdtr", "df", "t"), "t": lambda g, df, t: g * exp(_student_log_density(df, t))},
    domain=(-4, 4),
)

student_quantile = of_one_shape(
    "student_quantile(Tensor df, Tensor p) -> Tensor",
    _student_quantile,
    {
        "df": no_derivative("special_stdtrit", "df", "p"),
        "p": lambda g, df, p, out: g * exp(-_student_log_density(df, out)),
    },
    domain=(0.1, 0.9),
    shapes=((2,), (0, 2)),
)


def _f_tails(m: Any, dfn: Any, dfd: Any, x: Any, upper: bool) -> Any:
    dfn, dfd, x = m.double(dfn), m.double(dfd), m.double(x)
    sane = (dfn > 0) & (dfd > 0) & (x >= 0) & (dfn < math.inf) & (dfd < math.inf)
    ratio = m.where(sane, dfn / dfd * x, 0.0)  # infinite at infinity
    rest = 1 / (1 + ratio)
    share = m.where(ratio == math.inf, 1.0, ratio * rest)
    dfn, dfd = m.where(sane, dfn, math.nan), m.where(sane, dfd, math.nan)
    return beta_below(m, dfd / 2, dfn / 2, rest, share) if upper else beta_below(m, dfn / 2, dfd / 2, share, rest)


def _f_density(dfn: Tensor, dfd: Tensor, x: Tensor) -> Tensor:
    a, b = dfn / 2, dfd / 2
    ratio = dfn / dfd * x
    return exp(a * log(dfn / dfd) + (a - 1) * log(x) - (a + b) * log1p(ratio) - special_betaln(a, b))


f_tail = of_one_shape(
    "f_tail(Tensor dfn, Tensor dfd, Tensor x, bool upper) -> Tensor",
    _f_tails,
    {
        "dfn": no_derivative("special_fdtr", "dfn", "x"),
        "dfd": no_derivative("special_fdtr", "dfd", "x"),
        "x": lambda g, dfn, dfd, x, upper: (-g if upper else g) * _f_density(dfn, dfd, x),
    },
    domain=(0.5, 6),
)


@composite("special_chdtr(Tensor v, Tensor x) -> Tensor", sample_inputs=broadcasting(1, (0.5, 6)))
def special_chdtr(v: Tensor, x: Tensor) -> Tensor:
    """Return the probability that a chi-squared variable with ``v`` degrees of freedom is at most ``x``.

    For v >= 0 and x >= 0, nan elsewhere. Real tensors, which broadcast; integers give floats. Derivatives of every
    order with respect to ``x``; the derivative with respect to ``v`` raises NotImplementedError.

    >>> f"{tk.special.chdtr(2, tk.asarray(2.0)).item():.5f}"
    '0.63212'
    """
    v, x = to_one_shape("special_chdtr", v, x)
    return gamma_tail(v / 2, x / 2, False)


@composite("special_chdtrc(Tensor v, Tensor x) -> Tensor", sample_inputs=broadcasting(1, (0.5, 6)))
def special_chdtrc(v: Tensor, x: Tensor) -> Tensor:
    """Return the probability that a chi-squared variable with ``v`` degrees of freedom is above ``x``.

    Domain and derivatives are those of ``tk.special.chdtr``.

    >>> f"{tk.special.chdtrc(2, tk.asarray(2.0)).item():.5f}"
    '0.36788'
    """
    v, x = to_one_shape("special_chdtrc", v, x)
    return gamma_tail(v / 2, x / 2, True)


@composite("special_fdtr(Tensor dfn, Tensor dfd, Tensor x) -> Tensor", sample_inputs=broadcasting(2, (0.5, 6)))
def special_fdtr(dfn: Tensor, dfd: Tensor, x: Tensor) -> Tensor:
    """Return the probability that an F variable with ``dfn`` and ``dfd`` degrees of freedom is at most ``x``.

    For positive, finite degrees of freedom and x >= 0, nan elsewhere. Real tensors, which broadcast; integers give
    floats. Derivatives of every order with respect to ``x``; those with respect to the degrees of freedom raise
    NotImplementedError.

    >>> f"{tk.special.fdtr(2, 2, tk.asarray(3.0)).item():.5f}"
    '0.75000'
    """
    return f_tail(*to_one_shape("special_fdtr", dfn, dfd, x), False)


@composite("special_fdtrc(Tensor dfn, Tensor dfd, Tensor x) -> Tensor", sample_inputs=broadcasting(2, (0.5, 6)))
def special_fdtrc(dfn: Tensor, dfd: Tensor, x: Tensor) -> Tensor:
    """Return the probability that an F variable with ``dfn`` and ``dfd`` degrees of freedom is above ``x``.

    Domain and derivatives are those of ``tk.special.fdtr``.

    >>> f"{tk.special.fdtrc(2, 2, tk.asarray(3.0)).item():.5f}"
    '0.25000'
    """
    return f_tail(*to_one_shape("special_fdtrc", dfn, dfd, x), True)


@composite("special_stdtr(Tensor df, Tensor t) -> Tensor", sample_inputs=broadcasting(1, (-4, 4)))
def special_stdtr(df: Tensor, t: Tensor) -> Tensor:
    """Return the probability that a Student variable with ``df`` degrees of freedom is at most ``t``.

    For df > 0 (infinity gives the normal distribution), nan elsewhere. Real tensors, which broadcast; integers give
    floats. Derivatives of every order with respect to ``t``; the derivative with respect to ``df`` raises
    NotImplementedError.

    >>> f"{tk.special.stdtr(1, tk.asarray(1.0)).item():.5f}"
    '0.75000'
    """
    return student_below(*to_one_shape("special_stdtr", df, t))


@composite(
    "special_stdtrit(Tensor df, Tensor p) -> Tensor",
    sample_inputs=lambda rng: [((rng.integers(1, 5, (2, 1)), rng.uniform(0.1, 0.9, (2,))), {})],
)
def special_stdtrit(df: Tensor, p: Tensor) -> Tensor:
    """Return the inverse of ``stdtr``: a Student variable is at most the result with probability ``p``.

    Minus infinity at 0, infinity at 1, nan outside. Derivatives of every order with respect to ``p``; the derivative
    with respect to ``df`` raises NotImplementedError.

    >>> f"{tk.special.stdtrit(1, tk.asarray(0.75)).item():.5f}"
    '1.00000'
    """
    return student_quantile(*to_one_shape("special_stdtrit", df, p))
