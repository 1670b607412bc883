"""Gamma numbers, distributions based on them, and truncated normal numbers, by rejection sampling."""

from __future__ import annotations

import math
from typing import Any, Final

from ..core.random.generator import Generator
from ..core.random.samplers import BLOCKS_PER_ELEMENT as REJECTING
from ..core.tensor import Tensor
from ..ops.builtin.elementwise.arithmetic import maximum, minimum
from ..ops.builtin.reductions.reduction import max, sum
from ..ops.builtin.shape.copying import stack
from ..ops.builtin.shape.views import broadcast_to
from ._basic import _located
from ._operators import random_exp, random_rejection
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
)

_VECTOR: Final = "[{operator}] {name} must have at least one axis, of at least one element, got the shape {shape}."


def _reject(kind: str, plan: Plan, address: tuple[int, int, int], first: Any, second: Any = 0.0) -> Tensor:
    places = addresses(plan, address)
    return random_rejection(as_tensor(first, plan), as_tensor(second, plan), places, address[0], kind=kind)


@public_draw
def gamma(
    shape: Shape = None, *, a: Parameter, scale: Parameter = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw gamma numbers: density proportional to x**(a - 1) exp(-x / scale), of mean ``a * scale``.

    ``a`` and ``scale`` are numbers or tensors; gradients flow to ``scale``, and are refused for ``a``. Raises
    ValueError unless ``a`` is positive and ``scale`` not negative. Source: Marsaglia and Tsang 2000.

    >>> bool(tk.all(tk.random.gamma((10,), a=2.5) > 0))
    True
    """
    a, scale = parameter("gamma", "a", a, "positive"), parameter("gamma", "scale", scale, "nonnegative")
    refuse_gradient("gamma", a=a)
    plan = make_plan("gamma", shape, dtype, device, a, scale)
    with numbers("gamma", generator, plan, REJECTING) as address:
        return _located(plan.cast(_reject("gamma", plan, address, a)), 0.0, plan.cast(scale))


@public_draw
def chisquare(
    shape: Shape = None, *, df: Parameter, dtype: Any = None, device: Any = None, generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw sums of ``df`` squared standard normal numbers; ``df`` is positive, not necessarily whole.

    >>> bool(tk.all(tk.random.chisquare((10,), df=3) > 0))
    True
    """
    df = parameter("chisquare", "df", df, "positive")
    refuse_gradient("chisquare", df=df)
    plan = make_plan("chisquare", shape, dtype, device, df)
    with numbers("chisquare", generator, plan, REJECTING) as address:
        return plan.cast(_reject("gamma", plan, address, df * 0.5) * 2.0)  # type: ignore[no-any-return]


@public_draw
def standard_t(
    shape: Shape = None, *, df: Parameter, dtype: Any = None, device: Any = None, generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw from Student's t distribution with ``df`` degrees of freedom (positive, not necessarily whole).

    >>> tk.random.standard_t((2, 3), df=4).shape
    (2, 3)
    """
    df = parameter("standard_t", "df", df, "positive")
    refuse_gradient("standard_t", df=df)
    plan = make_plan("standard_t", shape, dtype, device, df)
    with numbers("standard_t", generator, plan, REJECTING) as address:
        return plan.cast(_reject("standard_t", plan, address, df))  # type: ignore[no-any-return]


@public_draw
def beta(
    shape: Shape = None, *, a: Parameter, b: Parameter, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw beta numbers: density proportional to x**(a - 1) (1 - x)**(b - 1) on [0, 1]; ``a`` and ``b`` are positive.

    >>> x = tk.random.beta((10,), a=0.5, b=0.5)
    >>> bool(tk.all(x >= 0)) and bool(tk.all(x <= 1))
    True
    """
    a, b = parameter("beta", "a", a, "positive"), parameter("beta", "b", b, "positive")
    refuse_gradient("beta", a=a, b=b)
    plan = make_plan("beta", shape, dtype, device, a, b)
    pair = stack([broadcast_to(as_tensor(p, plan), plan.shape) for p in (a, b)], axis=-1)
    with numbers("beta", generator, plan, 2 * REJECTING) as address:
        return plan.cast(_shares(pair, plan, address)[..., 0])  # type: ignore[no-any-return]


def _shares(a: Tensor, plan: Plan, address: tuple[int, int, int]) -> Tensor:
    """Draw gamma numbers divided by their sum along the last axis, in logarithms: small ``a`` would give 0 / 0."""
    places = addresses(plan, address, a.shape[-1])
    logs: Tensor = random_rejection(a, as_tensor(0.0, plan), places, address[0], kind="log_gamma")
    sizes = random_exp(logs - max(logs, axis=-1, keepdims=True))
    return sizes / sum(sizes, axis=-1, keepdims=True)


@public_draw
def dirichlet(
    alpha: Parameter, shape: Shape = None, *, dtype: Any = None, device: Any = None, generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw vectors of probabilities: Dirichlet distributed with the parameters on the last axis of ``alpha``.

    ``alpha`` has the shape (..., k) and positive elements. The result is ``shape + (k,)``; ``shape`` broadcasts with
    the leading axes of ``alpha``, which are its default.

    >>> tk.random.dirichlet([0.5, 1.0, 2.0], (4,)).shape
    (4, 3)
    """
    alpha = parameter("dirichlet", "alpha", alpha, "positive")
    if not isinstance(alpha, Tensor) or alpha.ndim == 0 or alpha.shape[-1] == 0:
        shown = alpha.shape if isinstance(alpha, Tensor) else ()
        raise ValueError(_VECTOR.format(operator="dirichlet", name="alpha", shape=shown))
    refuse_gradient("dirichlet", alpha=alpha)
    plan = make_plan("dirichlet", shape, dtype, device, alpha, core=1)
    with numbers("dirichlet", generator, plan, REJECTING * alpha.shape[-1]) as address:
        return plan.cast(_shares(plan.move(alpha.detach()), plan, address))  # type: ignore[no-any-return]


@public_draw
def truncated_normal(
    shape: Shape = None, *, mean: Parameter = 0.0, std: Parameter = 1.0, low: Parameter = -math.inf,
    high: Parameter = math.inf, dtype: Any = None, device: Any = None, generator: Generator | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw normal numbers conditioned on [low, high], whose ends may be infinite.

    ``mean`` and ``std`` are those of the whole normal distribution; ``std`` is positive. Exact in the tails, too.
    Source: Robert 1995. No derivatives. Raises ValueError where low is not below high.

    >>> x = tk.random.truncated_normal((10,), low=2.0, high=3.0)
    >>> bool(tk.all(x >= 2)) and bool(tk.all(x <= 3))
    True
    """
    name = "truncated_normal"
    mean, std = parameter(name, "mean", mean, "finite"), parameter(name, "std", std, "positive")
    low, high = parameter(name, "low", low, "bound"), parameter(name, "high", high, "bound")
    refuse_gradient(name, mean=mean, std=std, low=low, high=high)
    plan = make_plan(name, shape, dtype, device, mean, std, low, high)
    mean, std, low, high = (as_tensor(p, plan) for p in (mean, std, low, high))
    parameter(name, "high - low", high - low, "width")
    with numbers(name, generator, plan, REJECTING) as address:
        drawn = _reject(name, plan, address, (low - mean) / std, (high - mean) / std) * std + mean
        # Scaling and rounding to the dtype may exceed the ends by a last digit.
        return minimum(maximum(plan.cast(drawn), plan.cast(low)), plan.cast(high))
