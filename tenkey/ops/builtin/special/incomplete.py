"""Incomplete gamma and beta functions, and the zeta function: ``tk.special``."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ....core.device import CPU
from ....core.dtypes.names import default_float
from ....core.tensor import Tensor
from ....core.word import DTYPE_MASK, WEAK_MASK, dtypes_of, weak_of
from ....dispatch.tags import Tag
from ...declare import EACH_TO_FLOAT, Entry, TensorSpec, composite, loop, structured
from ...shapes import broadcast_shapes
from ..creation import full, ones_like
from ..elementwise.exponential import exp, log, log1p
from ..shape.copying import cast
from ..shape.views import broadcast_to
from . import coefficients as c
from .gamma import STIRLING, hurwitz_zeta, hurwitz_zeta_beyond, special_betaln, special_gammaln

# Note [Incomplete functions by quadrature]
#     With t = a exp(v) the density of the gamma distribution is F(a) exp(-a (exp(v) - 1 - v)), where F(a) is
#     a^a exp(-a) / Gamma(a), and with t = logistic(log(a / b) + d) that of the beta distribution is
#     F(a) F(b) / F(a + b) exp(-(a + b) K(d)), where K is the cumulant function of a coin without its mean. Both
#     exponents are convex and 0 at the mode, and are computed without cancellation. The tail away from the mode is
#     integrated by Gauss's rule up to where it is e^-45 of its start; the other side is 1 minus it. A small parameter
#     of the tail is raised by a recurrence with positive terms (DLMF 8.8.5, 8.17.20), so that the rule resolves it.
#     Guarded by tests/ops/test_special.py::test_incomplete_functions.
_RAISED: Final = 8
_FEW: Final = 256  # up to this many integrals, the integrands are computed at all nodes at once


@functools.cache
def _rule() -> tuple[Any, Any]:
    nodes, weights = np.polynomial.legendre.leggauss(64)
    return (nodes + 1) / 2, weights / 2


def _power_rest(v: Any) -> Any:
    """Return ``exp(v) - 1 - v``."""
    near = np.abs(v) < 0.5
    small = np.where(near, v, 0.0)
    series = np.zeros_like(small)
    for inverse in _INVERSE_FACTORIALS:
        series = (series * small) + inverse
    return np.where(near, series * small * small, np.expm1(v) - v)


_INVERSE_FACTORIALS: Final = [1 / math.factorial(k) for k in range(16, 1, -1)]


def _log_rest(y: Any) -> Any:
    """Return ``y - log(1 + y)``."""
    near = np.abs(y) < 0.5
    r = np.where(near, y / (2 + y), 0.0)
    square = r * r
    series = np.zeros_like(r)
    for k in range(37, 2, -2):
        series = series * square + 1 / k
    return np.where(near, r * (y - 2 * square * series), y - np.log1p(y))


def _scale(a: Any) -> Any:
    """Return ``a**a * exp(-a) / gamma(a)``, for a > 0."""
    low = a < 16
    small = np.where(low, a, 1.0)
    whole = np.floor(small)
    gamma = np.polynomial.polynomial.polyval(2 * (small - whole) - 1, c.GAMMA)  # of 1 + the fraction
    for k in range(1, 16):
        gamma = np.where(whole > k, gamma * (small - k), gamma)
    gamma = np.where(whole == 0, gamma / small, gamma)
    inverse = 1 / np.where(low, 16.0, a)
    rest = inverse * np.polynomial.polynomial.polyval(inverse * inverse, STIRLING)
    return np.where(low, small**small * np.exp(-small) / gamma, np.sqrt(a / (2 * math.pi)) * np.exp(-rest))


def _lgamma1p(a: Any) -> Any:
    """Return ``log(gamma(1 + a))`` for a in [0, 1], accurate near 0 (DLMF 5.7.3)."""
    total = np.zeros_like(a)
    for coefficient in _zetas():
        total = total * -a + coefficient
    return total * a * a + a * (1 - np.euler_gamma) - np.log1p(a)


@functools.cache
def _zetas() -> list[float]:
    return [float(hurwitz_zeta(float(k), 2.0)) / k for k in range(56, 1, -1)]


def _lower_tail(a: Any, x: Any) -> Any:
    """Return P(a, x) for x < a."""
    total = np.zeros_like(x)
    raised = a < _RAISED
    term = _scale(a) * np.exp(-a * _power_rest(_log_ratio(x, a))) / a
    for k in range(1, _RAISED + 1):
        total = np.where(raised, total + term, total)
        term = term * x / (a + k)
    a = np.where(raised, a + _RAISED, a)
    v = _log_ratio(x, a)
    level = _power_rest(v) + 45 / a
    end = -(np.sqrt(2 * level) + level)
    return total + _scale(a) * _integral(lambda s: np.exp(-a * _power_rest(s)), end, v)


def _integral(function: Any, begin: Any, end: Any) -> Any:
    nodes, weights = _rule()
    length = end - begin
    if begin.size <= _FEW:
        rows = function(begin + nodes[:, None] * length)
    else:
        rows = (function(begin + node * length) for node in nodes.tolist())
    total = np.zeros_like(begin)
    for weight, values in zip(weights.tolist(), rows):  # one order, so that both ways give the same sum
        total += weight * values
    return total * length


def _log_ratio(x: Any, a: Any) -> Any:
    return np.where(np.abs(x - a) < 0.5 * a, np.log1p((x - a) / a), np.log(x / a))


def _upper_tail(a: Any, x: Any) -> Any:
    """Return Q(a, x) for x >= a and x >= 1."""
    v = _log_ratio(x, a)
    level = _power_rest(v) + 45 / a
    end = np.log1p(level + np.sqrt(2 * level))
    return _scale(a) * _integral(lambda s: np.exp(-a * _power_rest(s)), v, end)


def _small(a: Any, x: Any) -> tuple[Any, Any]:
    """Return P(a, x) and Q(a, x) for a < 1 and x < 1 (DLMF 8.7.1)."""
    series = np.zeros_like(x)
    for k in range(20, 0, -1):
        series = (series + (-1) ** k / math.factorial(k) / (a + k)) * x
    logarithm = a * np.log(x) - _lgamma1p(a)
    power = np.exp(logarithm)
    return power * (1 + a * series), -np.expm1(logarithm) - a * power * series


def _gamma_tails(a: Any, x: Any) -> tuple[Any, Any]:
    """Return P(a, x) and Q(a, x)."""
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    p = np.full(a.shape, np.nan)
    p[(a > 0) & (x == 0)] = 0.0
    p[(a == 0) & (x > 0)] = 1.0
    p[(a >= 0) & (x == np.inf) & (a < np.inf)] = 1.0
    p[(a == np.inf) & (x >= 0) & (x < np.inf)] = 0.0
    q = np.asarray(1 - p)
    inside = (a > 0) & (x > 0) & (a < np.inf) & (x < np.inf)
    small = inside & (a < 1) & (x < 1)
    left = inside & ~small & (x < a)
    right = inside & ~small & (x >= a)
    if small.any():
        p[small], q[small] = _small(a[small], x[small])
    if left.any():
        p[left] = _lower_tail(a[left], x[left])
        q[left] = 1 - p[left]
    if right.any():
        q[right] = _upper_tail(a[right], x[right])
        p[right] = 1 - q[right]
    return p, q


def _beta_tail(a: Any, b: Any, d: Any, x: Any) -> Any:
    """Return the beta distribution function at x, at the distance d <= 0 from the mode in logistic scale."""

    def exponent(a: Any, d: Any) -> Any:
        """Return -(a + b) K(d), computed with the smaller of the two probabilities."""
        p = a / (a + b)
        swap = p > 0.5
        p, d = np.where(swap, b / (a + b), p), np.where(swap, -d, d)
        y = p * np.expm1(d)
        near = np.abs(d) < 1
        exact = p * _power_rest(np.where(near, d, 0.0)) - _log_rest(np.where(near, y, 0.0))
        high = d > 30
        away = np.where(high, d + np.log(p), np.log1p(np.where(high, 0.0, y))) - p * d
        return -(a + b) * np.where(near, exact, away)

    def scale(a: Any) -> Any:
        return _scale(a) * (_scale(b) / _scale(a + b))

    total = np.zeros_like(a)
    raised = a < _RAISED
    term = scale(a) * np.exp(exponent(a, d)) / a
    for k in range(1, _RAISED + 1):
        total = np.where(raised, total + term, total)
        term = term * x * ((a + b + k - 1) / (a + k))
    higher = np.where(raised, a + _RAISED, a)
    d = np.where(raised, d - np.log1p(_RAISED / a), d)
    a = higher
    start = exponent(a, d)
    reach = 45 / a  # the slope of the exponent is at most a
    near = np.ones(a.shape, bool)
    while near.any():
        near = start - exponent(a, d - reach) < 45
        reach = np.where(near, reach * 2, reach)
    low = reach / 2
    for _ in range(3):
        middle = (low + reach) / 2
        enough = start - exponent(a, d - middle) >= 45
        low, reach = np.where(enough, low, middle), np.where(enough, middle, reach)
    return total + scale(a) * _integral(lambda s: np.exp(exponent(a, s)), d - reach, d)


def beta_below(a: Any, b: Any, x: Any, rest: Any = None) -> Any:
    """Return the beta distribution function at x; ``rest`` is 1 - x if it is known without rounding."""
    a, b, x = np.broadcast_arrays(*[np.asarray(v, np.float64) for v in (a, b, x)])
    rest = 1 - x if rest is None else np.broadcast_to(rest, x.shape)
    out = np.full(a.shape, np.nan)
    at_zero, at_one = (a == 0) | (b == np.inf), (b == 0) | (a == np.inf)  # where the whole probability may be
    within = (x >= 0) & (rest >= 0) & (a >= 0) & (b >= 0) & ~(at_zero & at_one)
    between = within & (x > 0) & (rest > 0)
    out[within & (x == 0)], out[within & (rest == 0)] = 0.0, 1.0
    out[between & at_zero], out[between & at_one] = 1.0, 0.0
    inside = between & ~at_zero & ~at_one
    if not inside.any():
        return out
    a, b, x, rest = a[inside], b[inside], x[inside], rest[inside]
    distance = x * b - rest * a
    close = np.abs(distance) < 0.5 * rest * a
    d = np.where(close, np.log1p(np.where(close, distance / (rest * a), 0.0)), np.log(x / rest) - np.log(a / b))
    left = d <= 0
    tail = _beta_tail(np.where(left, a, b), np.where(left, b, a), -np.abs(d), np.where(left, x, rest))
    out[inside] = np.where(left, tail, 1 - tail)
    return out


def _zeta(x: Any, q: Any) -> Any:
    x, q = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(q, np.float64))
    out = np.full(x.shape, np.nan)
    out[(x == 1) & ~np.isnan(q)] = np.inf
    poles = (x > 1) & (q <= 0) & (q == np.floor(q))
    out[poles] = np.inf
    inside = (x > 1) & ((q > 0) | ((x == np.floor(x)) & (q < 0) & ~poles))
    power, start = x[inside], q[inside]
    power = np.where(power > 1e4, 1e4 + power % 2, power)  # large enough to count as infinite
    out[inside] = np.where(np.isinf(start), 0.0, hurwitz_zeta_beyond(power, start))
    return out


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
    return TensorSpec(x.shape, x.dtype if x.dtype.kind == "f" else default_float())


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
    """Declare an internal operator of tensors of one shape, whose ``function`` computes in double precision.

    With ``bool upper`` as its last argument it computes either of the two tails of a distribution. The samples are
    integers from ``lowest`` for the parameters, and numbers of ``domain`` for the last tensor.
    """
    flags = [(False,), (True,)] if "bool upper" in schema else [()]
    parameters = schema.count("Tensor ") - 1

    def on_numpy(*arguments: Any) -> Any:
        return np.asarray(function(*arguments)).astype(_like(arguments[parameters]).dtype)

    return structured(
        schema,
        meta=lambda *arguments: _like(arguments[parameters]),
        numpy=on_numpy,
        vjp=vjp,
        sample_inputs=lambda rng: [
            ((*[rng.integers(lowest, 5, shape) for _ in range(parameters)], rng.uniform(*domain, shape), *flag), {})
            for shape in shapes
            for flag in flags
        ],
        batch=loop,
        tags=(Tag.INTERNAL,),
        doc=doc,
    )


def broadcasting(parameters: int, domain: tuple[float, float], lowest: int = 1) -> Any:
    """Return sample inputs that broadcast: integers from ``lowest`` for the parameters, and numbers of ``domain``."""
    shapes = ((3, 1), ())[:parameters]
    return lambda rng: [((*[rng.integers(lowest, 5, shape) for shape in shapes], rng.uniform(*domain, (4,))), {})]


def _gamma_density(a: Tensor, x: Tensor) -> Tensor:
    return exp((a - 1) * log(x) - x - special_gammaln(a))


gamma_tail = of_one_shape(
    "gamma_tail(Tensor a, Tensor x, bool upper) -> Tensor",
    lambda a, x, upper: _gamma_tails(a, x)[upper],
    {
        "a": no_derivative("special_gammainc", "a", "x"),
        "x": lambda g, a, x, upper: (-g if upper else g) * _gamma_density(a, x),
    },
    domain=(0.5, 6),
    doc="Compute the regularized incomplete gamma function, lower or upper.",
)


def _beta_tails(a: Any, b: Any, x: Any, upper: bool) -> Any:
    x = np.asarray(x, np.float64)
    return beta_below(b, a, 1 - x, x) if upper else beta_below(a, b, x)


def _beta_density(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    return exp((a - 1) * log(x) + (b - 1) * log1p(-x) - special_betaln(a, b))


beta_tail = of_one_shape(
    "beta_tail(Tensor a, Tensor b, Tensor x, bool upper) -> Tensor",
    _beta_tails,
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
    _zeta,
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
