"""Activation functions of networks beyond ``relu``, ``silu`` and ``gelu``, as scalar expressions."""

from __future__ import annotations

from typing import Any, Final

from ... import scalar as s
from ...declare import REAL, REAL_TO_FLOAT, pointwise

_SELU_ALPHA: Final = 1.6732632423543772  # Klambauer et al., 2017: the fixed point of mean 0 and variance 1
_SELU_SCALE: Final = 1.0507009873554805
_FAR: Final = -1e4  # beyond, the exponential function is 0 in every dtype, and a product with it is, too


def _elu(T: Any, x: Any, alpha: Any) -> Any:
    return s.where(x > 0, x, alpha * s.expm1(s.where(x > 0, T(0), x)))


relu6 = pointwise(
    "relu6(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.where(x < 0, T(0), s.where(x > 6, T(6), x)),
    partials=lambda x: (x > 0) & (x < 6),
    promote=REAL,
    domain=(0.5, 5.5),
    doc="""``min(max(x, 0), 6)``; its derivative at both ends is 0.

    >>> import tenkey as tk
    >>> tk.relu6(tk.asarray([-1.0, 2.0, 7.0])).tolist()
    [0.0, 2.0, 6.0]
    """,
)

hardtanh = pointwise(
    "hardtanh(Tensor x, float low=-1.0, float high=1.0) -> Tensor",
    scalar=lambda T: lambda x, low, high: s.minimum(s.maximum(x, low), high),
    partials=lambda x, low, high: (x > low) & (x < high),
    promote=REAL_TO_FLOAT,
    domain=(-0.9, 0.9),
    doc="""``x``, but no less than ``low`` and no more than ``high``; its derivative at both ends is 0.

    >>> import tenkey as tk
    >>> tk.hardtanh(tk.asarray([-2.0, 0.5, 2.0])).tolist()
    [-1.0, 0.5, 1.0]
    """,
)

leaky_relu = pointwise(
    "leaky_relu(Tensor x, float slope=0.01) -> Tensor",
    scalar=lambda T: lambda x, slope: s.where(x > 0, x, slope * x),
    promote=REAL_TO_FLOAT,
    domain=(0.5, 4.0),
    doc="""``x`` where it is positive, else ``slope * x``.

    >>> import tenkey as tk
    >>> tk.leaky_relu(tk.asarray([-4.0, 2.0]), 0.25).tolist()
    [-1.0, 2.0]
    """,
)

elu = pointwise(
    "elu(Tensor x, float alpha=1.0) -> Tensor",
    scalar=lambda T: lambda x, alpha: _elu(T, x, alpha),
    promote=REAL_TO_FLOAT,
    domain=(-3.0, -0.5),
    doc="""``x`` where it is positive, else ``alpha * (exp(x) - 1)`` (Clevert, Unterthiner and Hochreiter, 2015).

    >>> import tenkey as tk
    >>> tk.elu(tk.asarray([float("-inf"), 2.0]), 3.0).tolist()
    [-3.0, 2.0]
    """,
)

selu = pointwise(
    "selu(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _SELU_SCALE * _elu(T, x, _SELU_ALPHA),
    promote=REAL_TO_FLOAT,
    domain=(-3.0, -0.5),
    doc="""``elu`` with the scale and the alpha that keep mean 0 and variance 1 (Klambauer et al., 2017).

    >>> import tenkey as tk
    >>> f"{tk.selu(tk.asarray(1.0)):.5f}"
    '1.05070'
    """,
)


def _mish(T: Any, x: Any) -> Any:
    power = s.exp(s.where(x < 0, x, -x))  # of minus the size: it cannot overflow
    # tanh(log(1 + e)) is (e^2 + 2e) / (e^2 + 2e + 2)
    below = power * (power + 2) / (power * (power + 2) + 2)
    above = (1 + 2 * power) / (1 + 2 * power + 2 * power * power)
    return s.where(x < T(_FAR), T(0), x * s.where(x < 0, below, above))


mish = pointwise(
    "mish(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _mish(T, x),
    promote=REAL_TO_FLOAT,
    domain=(-3.0, 4.0),
    doc="""``x * tanh(softplus(x))`` (Misra, 2019).

    >>> import tenkey as tk
    >>> tk.mish(tk.asarray([0.0, 100.0, float("-inf")])).tolist()
    [0.0, 100.0, 0.0]
    """,
)

softsign = pointwise(
    "softsign(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.where(s.isinf(x), s.sign(x), s.where(s.isinf(x), T(0), x) / (1 + s.abs(x))),
    partials=lambda x: 1 / ((1 + abs(x)) * (1 + abs(x))),
    promote=REAL_TO_FLOAT,
    domain=(0.2, 4.0),
    doc="""``x / (1 + abs(x))``.

    >>> import tenkey as tk
    >>> tk.softsign(tk.asarray([-1.0, 3.0, float("inf")])).tolist()
    [-0.5, 0.75, 1.0]
    """,
)

log_sigmoid = pointwise(
    "log_sigmoid(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.where(x < 0, x, T(0)) - s.log1p(s.exp(s.where(x < 0, x, -x))),
    promote=REAL_TO_FLOAT,
    domain=(0.2, 4.0),
    doc="""``log(sigmoid(x))``, without overflow and underflow.

    >>> import tenkey as tk
    >>> tk.log_sigmoid(tk.asarray([-1000.0])).tolist()
    [-1000.0]
    """,
)
