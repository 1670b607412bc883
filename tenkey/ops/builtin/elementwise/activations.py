"""Activation functions of neural networks, element by element."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ....dispatch.tags import Tag
from ... import scalar as s
from ...declare import INT_TO_FLOAT, REAL, REAL_TO_FLOAT, elementwise, scalar_function

_SELU_ALPHA: Final = 1.6732632423543772  # Klambauer et al., 2017: the fixed point of mean 0 and variance 1
_SELU_SCALE: Final = 1.0507009873554805
_FAR: Final = -1e4  # below it, the exponential function and its product with the argument are 0 in every dtype


@elementwise(partials=lambda out: out * (1 - out), promote=INT_TO_FLOAT, methods=("sigmoid",), tags=(Tag.INPLACE,))
def sigmoid(T: Any, x: Any) -> Any:
    """Return the logistic function ``1 / (1 + exp(-x))``.

    >>> tk.sigmoid(tk.asarray([0.0])).tolist()
    [0.5]
    """
    return T(1) / (T(1) + s.exp(-x))


@elementwise(domain=(0.2, 4.0), reference=lambda x: 0 - np.logaddexp(0, -x))
def log_sigmoid(T: Any, x: Any) -> Any:
    """Return ``log(sigmoid(x))``, without overflow and underflow.

    >>> tk.log_sigmoid(tk.asarray([-1000.0])).tolist()
    [-1000.0]
    """
    return s.where(x < 0, x, T(0)) - s.log1p(s.exp(s.where(x < 0, x, -x)))


softplus = scalar_function(
    "softplus",
    """Return ``log(1 + exp(x))`` without overflow: a smooth ``relu``.

    >>> tk.softplus(tk.asarray([-1000.0, 1000.0])).tolist()
    [0.0, 1000.0]
    """,
    promote=REAL_TO_FLOAT,
    reference=lambda x: np.logaddexp(0, x),
)


@elementwise(partials=lambda out: out > 0, promote=REAL, methods=("relu",), tags=(Tag.INPLACE,))
def relu(T: Any, x: Any) -> Any:
    """Return ``max(x, 0)``; its derivative at 0 is 0.

    >>> tk.relu(tk.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return s.maximum(x, T(0))


@elementwise(
    partials=lambda x: (x > 0) & (x < 6),
    promote=REAL,
    domain=(0.5, 5.5),
    reference=lambda x: np.clip(x, 0, 6),
)
def relu6(T: Any, x: Any) -> Any:
    """Return ``min(max(x, 0), 6)``; its derivative at both ends is 0.

    >>> tk.relu6(tk.asarray([-1.0, 2.0, 7.0])).tolist()
    [0.0, 2.0, 6.0]
    """
    return s.where(x < 0, T(0), s.where(x > 6, T(6), x))


@elementwise(
    domain=(-0.9, 0.9),
    partials=lambda x, low, high: (x > low) & (x < high),
    reference=lambda x, low=-1.0, high=1.0: np.clip(x, low, high),
)
def hardtanh(T: Any, x: Any, low: Any = -1.0, high: Any = 1.0) -> Any:
    """Return ``min(max(x, low), high)``; its derivative at both ends is 0.

    >>> tk.hardtanh(tk.asarray([-2.0, 0.5, 2.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    return s.minimum(s.maximum(x, low), high)


@elementwise(domain=(0.5, 4.0), reference=lambda x, slope=0.01: np.where(x > 0, x, slope * x))
def leaky_relu(T: Any, x: Any, slope: Any = 0.01) -> Any:
    """Return ``x`` where it is positive, else ``slope * x``.

    >>> tk.leaky_relu(tk.asarray([-4.0, 2.0]), 0.25).tolist()
    [-1.0, 2.0]
    """
    return s.where(x > 0, x, slope * x)


def _elu(T: Any, x: Any, alpha: Any) -> Any:
    return s.where(x > 0, x, alpha * s.expm1(s.where(x > 0, T(0), x)))


@elementwise(domain=(-3.0, -0.5), reference=lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x)))
def elu(T: Any, x: Any, alpha: Any = 1.0) -> Any:
    """Return ``x`` where it is positive, else ``alpha * (exp(x) - 1)`` (Clevert, Unterthiner and Hochreiter, 2015).

    >>> tk.elu(tk.asarray([float("-inf"), 2.0]), 3.0).tolist()
    [-3.0, 2.0]
    """
    return _elu(T, x, alpha)


def _selu_by_its_fixed_point(x: Any) -> Any:
    """Compute ``selu`` with both numbers in closed form (Klambauer et al., 2017, equation 14)."""
    a, b = math.erfc(math.sqrt(0.5)) * math.sqrt(math.e), math.erfc(math.sqrt(2)) * math.e**2
    alpha = math.sqrt(2 / math.pi) / (1 - a)
    scale = (1 - a) * math.sqrt(2 * math.pi / (2 * b + math.pi * a * a - 2 * (2 + math.pi) * a + math.pi + 2))
    return scale * np.where(np.signbit(x), alpha * np.expm1(x), x)


@elementwise(domain=(-3.0, -0.5), reference=_selu_by_its_fixed_point)
def selu(T: Any, x: Any) -> Any:
    """Return ``elu`` with the scale and the alpha that keep mean 0 and variance 1 (Klambauer et al., 2017).

    >>> f"{tk.selu(tk.asarray(1.0)):.5f}"
    '1.05070'
    """
    return _SELU_SCALE * _elu(T, x, _SELU_ALPHA)


@elementwise(methods=("silu",), tags=(Tag.INPLACE,))
def silu(T: Any, x: Any) -> Any:
    """Return ``x * sigmoid(x)``, also known as swish.

    >>> tk.silu(tk.asarray([0.0, 1000.0, float("-inf")])).tolist()
    [0.0, 1000.0, 0.0]
    """
    power = s.exp(s.where(x < 0, x, -x))
    return s.where(x < T(_FAR), T(0), s.where(x < 0, x * power, x) / (T(1) + power))


@elementwise(domain=(-2.0, 4.0), methods=("gelu",), tags=(Tag.INPLACE,))
def gelu(T: Any, x: Any) -> Any:
    """Return ``x`` times the probability that a standard normal variable is below it (Hendrycks and Gimpel, 2016).

    >>> tk.gelu(tk.asarray([0.0, 100.0])).tolist()
    [0.0, 100.0]
    """
    return s.where(x < T(_FAR), T(0), x * (T(0.5) * s.erfc(x * -math.sqrt(0.5))))


@elementwise(domain=(-3.0, 4.0))
def mish(T: Any, x: Any) -> Any:
    """Return ``x * tanh(softplus(x))`` (Misra, 2019).

    >>> tk.mish(tk.asarray([0.0, 100.0, float("-inf")])).tolist()
    [0.0, 100.0, 0.0]
    """
    power = s.exp(s.where(x < 0, x, -x))  # exp(-abs(x)) cannot overflow
    # tanh(log(1 + e)) is (e^2 + 2e) / (e^2 + 2e + 2)
    rounded_once = power * power + (power + power)
    below = rounded_once / (rounded_once + 2)
    above = (1 + 2 * power) / (1 + 2 * power + 2 * power * power)
    return s.where(x < T(_FAR), T(0), x * s.where(x < 0, below, above))


@elementwise(
    domain=(0.2, 4.0),
    partials=lambda x: 1 / ((1 + abs(x)) * (1 + abs(x))),
    reference=lambda x: 1 / (1 / x + np.sign(x)),
)
def softsign(T: Any, x: Any) -> Any:
    """Return ``x / (1 + abs(x))``.

    >>> tk.softsign(tk.asarray([-1.0, 3.0, float("inf")])).tolist()
    [-0.5, 0.75, 1.0]
    """
    return s.where(s.isinf(x), s.sign(x), s.where(s.isinf(x), T(0), x) / (1 + s.abs(x)))
