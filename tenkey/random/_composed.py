"""Distributions composed of several draws: ratios and mixtures of gamma numbers, and two with a method of their own."""

from __future__ import annotations

import math
from typing import Any

from ..core.dtypes import names as dtypes
from ..core.random.generator import Generator
from ..core.random.samplers import BLOCKS_PER_ELEMENT as REJECTING
from ..core.tensor import Tensor
from ..ops.builtin import load
from ..ops.builtin.elementwise.comparison import where
from ..ops.builtin.elementwise.exponential import sqrt
from ..ops.builtin.elementwise.rounding import floor
from ._operators import random_exp, random_normal, random_rejection, random_uniform
from ._parameters import (
    Parameter,
    Plan,
    Shape,
    addresses,
    as_tensor,
    make_plan,
    numbers,
    parameter,
    public_draw,
    refuse_gradient,
    standard,
)
from ._rejecting import _reject

load("elementwise.trigonometry")  # Note [Operators that are declared on first use]
from ..ops.builtin.elementwise.trigonometry import asin  # noqa: E402

_HALF: float = 0.5


def _part(kind: str, plan: Plan, places: Tensor, i: int, seed: int, first: Any) -> Tensor:
    """Draw with the i-th of several addresses that each element has."""
    drawn: Tensor = random_rejection(as_tensor(first, plan), as_tensor(0.0, plan), places[..., i, :], seed, kind=kind)
    return drawn


@public_draw
def power(
    shape: Shape = None, *, a: Parameter, dtype: Any = None, device: Any = None, generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw numbers in [0, 1] with the density a x**(a - 1), a > 0. Gradients flow to ``a``.

    >>> x = tk.random.power((10,), a=3.0)
    >>> bool(tk.all(x >= 0)) and bool(tk.all(x <= 1))
    True
    """
    a = parameter("power", "a", a, "positive")
    plan = make_plan("power", shape, dtype, device, a)
    return plan.cast(  # type: ignore[no-any-return]
        random_exp(-standard("power", generator, plan, "exponential", dtypes.float64) / a)
    )


@public_draw
def f(
    shape: Shape = None, *, dfnum: Parameter, dfden: Parameter, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw from the F distribution: the ratio of two mean squares with ``dfnum`` and ``dfden`` degrees of freedom.

    Both are positive, not necessarily whole.

    >>> bool(tk.all(tk.random.f((10,), dfnum=2, dfden=5.5) > 0))
    True
    """
    dfnum, dfden = parameter("f", "dfnum", dfnum, "positive"), parameter("f", "dfden", dfden, "positive")
    refuse_gradient("f", dfnum=dfnum, dfden=dfden)
    plan = make_plan("f", shape, dtype, device, dfnum, dfden)
    with numbers("f", generator, plan, 2 * REJECTING) as address:
        places = addresses(plan, address, 2)
        above = _part("log_gamma", plan, places, 0, address[0], dfnum * _HALF)
        below = _part("log_gamma", plan, places, 1, address[0], dfden * _HALF)
        return plan.cast(random_exp(above - below) * (dfden / dfnum))  # type: ignore[no-any-return]


@public_draw
def noncentral_chisquare(
    shape: Shape = None, *, df: Parameter, nonc: Parameter, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw sums of ``df`` squared normal numbers of variance 1, whose squared means sum to ``nonc``.

    ``df`` is positive, not necessarily whole, and ``nonc`` at least 0. The number is a chi-square number whose degrees
    of freedom exceed ``df`` by twice a Poisson number of mean ``nonc / 2``.

    >>> bool(tk.all(tk.random.noncentral_chisquare((10,), df=3, nonc=2.0) > 0))
    True
    """
    name = "noncentral_chisquare"
    df, nonc = parameter(name, "df", df, "positive"), parameter(name, "nonc", nonc, "rate")
    refuse_gradient(name, df=df, nonc=nonc)
    plan = make_plan(name, shape, dtype, device, df, nonc)
    with numbers(name, generator, plan, 2 * REJECTING) as address:
        places = addresses(plan, address, 2)
        more = _part("poisson", plan, places, 0, address[0], nonc * _HALF)
        drawn = _part("gamma", plan, places, 1, address[0], as_tensor(df, plan) * _HALF + more)
        return plan.cast(drawn * 2.0)  # type: ignore[no-any-return]


@public_draw
def noncentral_f(
    shape: Shape = None, *, dfnum: Parameter, dfden: Parameter, nonc: Parameter, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw ratios of a noncentral and a central chi-square number, each divided by its degrees of freedom.

    ``dfnum`` and ``dfden`` are positive, the noncentrality ``nonc`` of the numerator is at least 0.

    >>> tk.random.noncentral_f((2, 3), dfnum=2, dfden=5, nonc=1.5).shape
    (2, 3)
    """
    name = "noncentral_f"
    dfnum, dfden = parameter(name, "dfnum", dfnum, "positive"), parameter(name, "dfden", dfden, "positive")
    nonc = parameter(name, "nonc", nonc, "rate")
    refuse_gradient(name, dfnum=dfnum, dfden=dfden, nonc=nonc)
    plan = make_plan(name, shape, dtype, device, dfnum, dfden, nonc)
    with numbers(name, generator, plan, 3 * REJECTING) as address:
        places = addresses(plan, address, 3)
        more = _part("poisson", plan, places, 0, address[0], nonc * _HALF)
        above = _part("log_gamma", plan, places, 1, address[0], as_tensor(dfnum, plan) * _HALF + more)
        below = _part("log_gamma", plan, places, 2, address[0], dfden * _HALF)
        return plan.cast(random_exp(above - below) * (dfden / dfnum))  # type: ignore[no-any-return]


@public_draw
def wald(
    shape: Shape = None, *, mean: Parameter, scale: Parameter, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw from the inverse Gaussian (Wald) distribution with this mean and the variance ``mean**3 / scale``.

    Both parameters are positive; no derivatives. Source: Michael, Schucany and Haas 1976.

    >>> bool(tk.all(tk.random.wald((10,), mean=3.0, scale=2.0) > 0))
    True
    """
    mean, scale = parameter("wald", "mean", mean, "positive"), parameter("wald", "scale", scale, "positive")
    refuse_gradient("wald", mean=mean, scale=scale)
    plan = make_plan("wald", shape, dtype, device, mean, scale)
    mean, scale = as_tensor(mean, plan), as_tensor(scale, plan)
    with numbers("wald", generator, plan) as address:  # one element of two layouts, which share no bits
        normal: Tensor = random_normal(plan.shape, *address, dtype=dtypes.float64, device=plan.device)
        unit: Tensor = random_uniform(plan.shape, *address, dtype=dtypes.float64, device=plan.device)
        half = mean * normal * normal * (_HALF / scale)
        # The roots of the quadratic equation are mean * ratio and mean / ratio: the smaller without cancellation.
        ratio = 1.0 + half + sqrt(half * (half + 2.0))
        return plan.cast(mean * where(unit * (ratio + 1.0) <= ratio, 1.0 / ratio, ratio))  # type: ignore[no-any-return]


@public_draw
def vonmises(
    shape: Shape = None, *, mu: Parameter, kappa: Parameter, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw angles in [-pi, pi] with a density proportional to exp(kappa cos(x - mu)); ``kappa`` is at least 0.

    Gradients flow to ``mu``, and are refused for ``kappa``. Source: Best and Fisher 1979.

    >>> x = tk.random.vonmises((10,), mu=3.0, kappa=4.0, dtype="float64")
    >>> bool(tk.all(x >= -tk.pi)) and bool(tk.all(x <= tk.pi))
    True
    """
    mu, kappa = parameter("vonmises", "mu", mu, "finite"), parameter("vonmises", "kappa", kappa, "nonnegative")
    refuse_gradient("vonmises", kappa=kappa)
    plan = make_plan("vonmises", shape, dtype, device, mu, kappa)
    with numbers("vonmises", generator, plan, REJECTING) as address:
        angle = asin(_reject("vonmises", plan, address, kappa)) * 2.0 + plan.move(mu)
        turns = floor(angle * (_HALF / math.pi) + _HALF)
        return plan.cast(angle - turns * (2.0 * math.pi))  # type: ignore[no-any-return]
