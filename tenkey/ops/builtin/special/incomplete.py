"""Incomplete gamma and beta functions, and the zeta function: ``tk.special``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ....core.device import CPU
from ....core.dtypes.names import default_float
from ....core.tensor import Tensor
from ....core.word import DTYPE_MASK, WEAK_MASK, dtypes_of, weak_of
from ...declare import EACH_TO_FLOAT, Decomposition, Entry, TensorSpec, composite, internal, loop
from ...shapes import broadcast_shapes
from ..creation import full, ones_like
from ..elementwise.exponential import exp, log, log1p
from ..shape.copying import cast
from ..shape.views import broadcast_to
from .arrays import ARRAYS, TENSORS
from .gamma import special_betaln, special_gammaln
from .quadrature import beta_tails, gamma_tails
from .zeta import zeta

# ---- operators whose operands have one floating dtype and one shape


def to_one_shape(operator: str, *operands: Tensor) -> list[Tensor]:
    """Convert the operands to one floating dtype and one shape."""
    word = 0
    for x in operands:
        word |= x._word
    dtype, _ = EACH_TO_FLOAT.dtypes(operator, dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK))
    shape = broadcast_shapes(operator, *[x.shape for x in operands])
    device = next((x.device for x in operands if not x._word & WEAK_MASK), CPU)
    made = []
    for x in operands:
        same = full((), x.item(), dtype=dtype, device=device) if x._word & WEAK_MASK else cast(x, dtype)
        made.append(same if same.shape == shape else broadcast_to(same, shape))
    return made


def no_derivative(operator: str, name: str, known: str) -> Any:
    """Return the formula of a derivative that is not implemented."""

    def formula(g: Tensor) -> Tensor:
        raise NotImplementedError(
            f"[{operator}] has no derivative with respect to {name}, only to {known}. Detach it: {name}.detach()."
        )

    return formula


def _like(x: Any) -> TensorSpec:
    if x.dtype.kind == "c":
        raise TypeError(
            f"[special] incomplete and zeta functions are not defined for dtype {x.dtype}: they take real dtypes."
        )
    return TensorSpec(x.shape, x.dtype if x.dtype.kind in "fV" else default_float())


def of_one_shape(
    schema: str,
    function: Callable[..., Any],
    vjp: Mapping[str, Callable[..., Any]],
    *,
    domain: tuple[float, float],
    lowest: int = 1,
    shapes: tuple[tuple[int, ...], ...] = ((3,), (2, 3), (), (0, 2)),
    doc: str | None = None,
) -> Entry:
    """Declare an internal operator of tensors of one shape, whose ``function(m, ...)`` computes in double precision.

    With ``bool upper`` as its last argument it computes either of the two tails of a distribution. The samples are
    integers from ``lowest`` for the parameters, and numbers of ``domain`` for the last tensor.
    """

    flags = [(False,), (True,)] if "bool upper" in schema else [()]
    parameters = schema.count("Tensor ") - 1

    def on_numpy(*arguments: Any) -> Any:
        return np.asarray(function(ARRAYS, *arguments)).astype(_like(arguments[parameters]).dtype)

    def of_tensors(*arguments: Any) -> Tensor:
        dtype = _like(arguments[parameters]).dtype
        return cast(function(TENSORS, *arguments), dtype)

    return internal(
        schema,
        meta=lambda *arguments: _like(arguments[parameters]),
        numpy=on_numpy,
        decomposition=Decomposition(of_tensors, needs=("reduction",)),
        vjp=vjp,
        sample_inputs=lambda rng: [
            ((*[rng.integers(lowest, 5, shape) for _ in range(parameters)], rng.uniform(*domain, shape), *flag), {})
            for shape in shapes
            for flag in flags
        ],
        batch=loop,
        doc=doc,
    )


def broadcasting(parameters: int, domain: tuple[float, float], lowest: int = 1) -> Any:
    """Return sample inputs that broadcast: integers from ``lowest`` for the parameters, and numbers of ``domain``."""
    shapes = ((3, 1), ())[:parameters]
    return lambda rng: [((*[rng.integers(lowest, 5, shape) for shape in shapes], rng.uniform(*domain, (4,))), {})]


gamma_tail = of_one_shape(
    "gamma_tail(Tensor a, Tensor x, bool upper) -> Tensor",
    gamma_tails,
    {
        "a": no_derivative("special_gammainc", "a", "x"),
        "x": lambda g, a, x, upper: (-g if upper else g) * exp((a - 1) * log(x) - x - special_gammaln(a)),
    },
    domain=(0.5, 6),
    doc="Compute the regularized incomplete gamma function, lower or upper.",
)


def _beta_density(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    return exp((a - 1) * log(x) + (b - 1) * log1p(-x) - special_betaln(a, b))


beta_tail = of_one_shape(
    "beta_tail(Tensor a, Tensor b, Tensor x, bool upper) -> Tensor",
    beta_tails,
    {
        "a": no_derivative("special_betainc", "a", "x"),
        "b": no_derivative("special_betainc", "b", "x"),
        "x": lambda g, a, b, x, upper: (-g if upper else g) * _beta_density(a, b, x),
    },
    domain=(0.1, 0.9),
    doc="Compute the regularized incomplete beta function, lower or upper.",
)

hurwitz: Entry = of_one_shape(
    "hurwitz(Tensor x, Tensor q) -> Tensor",
    zeta,
    {"x": no_derivative("special_zeta", "x", "q"), "q": lambda g, x, q: g * -x * hurwitz(x + 1, q)},
    domain=(0.5, 6),
    lowest=2,
    doc="Compute the Hurwitz zeta function.",
)


@composite("special_gammainc(Tensor a, Tensor x) -> Tensor", sample_inputs=broadcasting(1, (0.5, 6)))
def special_gammainc(a: Tensor, x: Tensor) -> Tensor:
    """Return the regularized lower incomplete gamma function P(a, x), for real tensors that broadcast.

    It is the probability that a gamma variable with shape ``a`` is at most ``x``. For a >= 0 and x >= 0, nan elsewhere
    (DLMF 8.2.4); integers give floats. Derivatives of every order with respect to ``x``; the derivative with respect to
    ``a`` raises NotImplementedError.

    >>> f"{tk.special.gammainc(1, tk.asarray(2.0)).item():.5f}"
    '0.86466'
    """
    return gamma_tail(*to_one_shape("special_gammainc", a, x), False)


@composite("special_gammaincc(Tensor a, Tensor x) -> Tensor", sample_inputs=broadcasting(1, (0.5, 6)))
def special_gammaincc(a: Tensor, x: Tensor) -> Tensor:
    """Return the regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), without cancellation.

    Domain and derivatives are those of ``tk.special.gammainc``.

    >>> f"{tk.special.gammaincc(1, tk.asarray(2.0)).item():.5f}"
    '0.13534'
    """
    return gamma_tail(*to_one_shape("special_gammaincc", a, x), True)


@composite("special_betainc(Tensor a, Tensor b, Tensor x) -> Tensor", sample_inputs=broadcasting(2, (0.1, 0.9)))
def special_betainc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return the regularized incomplete beta function, for real tensors that broadcast.

    It is the probability that a beta variable with parameters ``a`` and ``b`` is at most ``x``. For a, b >= 0 and x in
    [0, 1], nan elsewhere (DLMF 8.17.2); integers give floats. Derivatives of every order with respect to ``x``; those
    with respect to ``a`` and ``b`` raise NotImplementedError.

    >>> f"{tk.special.betainc(2, 2, tk.asarray(0.25)).item():.5f}"
    '0.15625'
    """
    return beta_tail(*to_one_shape("special_betainc", a, b, x), False)


@composite("special_betaincc(Tensor a, Tensor b, Tensor x) -> Tensor", sample_inputs=broadcasting(2, (0.1, 0.9)))
def special_betaincc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return ``1 - betainc(a, b, x)`` without cancellation.

    Domain and derivatives are those of ``tk.special.betainc``.

    >>> f"{tk.special.betaincc(2, 2, tk.asarray(0.25)).item():.5f}"
    '0.84375'
    """
    return beta_tail(*to_one_shape("special_betaincc", a, b, x), True)


@composite("special_zeta(Tensor x, Tensor? q=None) -> Tensor", sample_inputs=broadcasting(1, (0.5, 6), lowest=2))
def special_zeta(x: Tensor, q: Tensor | None = None) -> Tensor:
    """Return the sum of ``(k + q)**-x`` over k = 0, 1, ...: the Hurwitz zeta function (by default Riemann's, q = 1).

    For x > 1, infinite at 1, nan below (DLMF 25.11.1). For q <= 0 infinite at the poles 0, -1, ..., and between them
    nan unless x is an integer. Real tensors, which broadcast; integers give floats. Differentiable with respect to
    ``q``; the derivative with respect to ``x`` raises NotImplementedError.

    >>> f"{tk.special.zeta(tk.asarray(2.0)).item():.5f}"
    '1.64493'
    """
    return hurwitz(*to_one_shape("special_zeta", x, ones_like(x) if q is None else q))


@composite(
    "special_multigammaln(Tensor a, int d) -> Tensor",
    sample_inputs=lambda rng: [((rng.uniform(3, 6, shape), d), {}) for shape in ((3,), ()) for d in (1, 4)],
)
def special_multigammaln(a: Tensor, d: int) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension ``d``, for a > (d - 1) / 2 (DLMF 35.3.4).

    >>> tk.special.multigammaln(tk.asarray(1.0), 1).item()
    0.0
    """
    if d < 1:
        raise ValueError(f"[special_multigammaln] d is the number of dimensions, at least 1; got {d}.")
    total = special_gammaln(a)
    for k in range(1, d):
        total = total + special_gammaln(a - k / 2)
    return total + d * (d - 1) / 4 * math.log(math.pi)
