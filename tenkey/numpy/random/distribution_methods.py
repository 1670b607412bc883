"""The distributions that ``Generator`` and ``RandomState`` share: NumPy's arguments, and the function that draws.

All take ``size=``, an int or a tuple; by default it is the common shape of the parameters, which are numbers, sequences
or arrays. Invalid parameters raise ValueError. Gradients flow to tensors as parameters where the draw is a smooth
function of them, and are refused elsewhere (NotImplementedError).
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ... import random as _random
from ...core.dtypes import names as dtypes
from ...core.random.generator import Generator as Source
from ...core.tensor import Tensor
from ...ops.builtin.elementwise.comparison import where
from ...ops.builtin.reductions.reduction import any as any_
from ...ops.builtin.reductions.reduction import sum as sum_
from ...ops.builtin.shape.copying import astype, concat
from .bit_generators import BitGenerator
from .drawing import as_drawn, as_parameter, draw, shape_of, size_of
from .few import few_located, few_uniform, is_observed, values_of
from .one import one_multinomial, one_number

__all__ = ["Distributions", "FLOAT", "gamma_from_zero", "uniform_between"]

FLOAT: Final = dtypes.float64
_COUNT: Final = dtypes.int64


class Distributions:
    """Draw from the distributions; the methods are those of NumPy."""

    __slots__ = ()

    @property
    def _bits(self) -> BitGenerator:
        raise NotImplementedError

    @property
    def _source(self) -> Source:
        """The generator of ``tk.random`` that counts the numbers."""
        return self._bits.generator

    def _located(
        self, kind: str, function: Callable[..., Any], size: Any, loc: Any, scale: Any, /, **given: Any
    ) -> Any:
        made = few_located(self._bits, kind, size, loc, scale)
        return self._floats(function, size, **given) if made is None else made

    def _floats(self, function: Callable[..., Any], size: Any, /, *, one: str = "", **parameters: Any) -> Any:
        made = one_number(self._bits, one, size, *parameters.values()) if one else None
        return draw(function, size, FLOAT, self._source, parameters) if made is None else made

    def _counts(self, function: Callable[..., Any], size: Any, /, *, one: str = "", **parameters: Any) -> Any:
        made = one_number(self._bits, one, size, *parameters.values()) if one else None
        return draw(function, size, _COUNT, self._source, parameters) if made is None else made

    def beta(self, a: Any, b: Any, size: Any = None) -> Any:
        """Draw beta numbers: density proportional to x**(a - 1) (1 - x)**(b - 1)."""
        return self._floats(_random.beta, size, a=a, b=b, one="beta")

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """Draw the number of successes in ``n`` trials of probability ``p``; fractions of ``n`` are dropped."""
        made = one_number(self._bits, "binomial", size, n, p)
        if made is not None:
            return made
        n = as_parameter(n)
        n = int(n) if isinstance(n, float) else n
        return self._counts(_random.binomial, size, n=astype(n, _COUNT) if isinstance(n, Tensor) else n, p=p)

    def bytes(self, length: int) -> builtins.bytes:
        """Return random bytes.

        >>> import tenkey.numpy.random as random
        >>> len(random.default_rng(1).bytes(10))
        10
        """
        drawn = _random.integers(0, 256, length, dtype=dtypes.uint8, generator=self._source, device="cpu")
        return drawn.numpy().tobytes()

    def chisquare(self, df: Any, size: Any = None) -> Any:
        """Draw sums of ``df`` squared standard normal numbers."""
        return self._floats(_random.chisquare, size, df=df, one="chisquare")

    def dirichlet(self, alpha: Any, size: Any = None) -> Any:
        """Draw vectors of shares that sum to 1, along a new last axis of the length of ``alpha``."""
        drawn = _random.dirichlet(as_parameter(alpha), size_of(size), dtype=FLOAT, generator=self._source)
        return as_drawn(drawn, scalar=False)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw exponential numbers of mean ``scale``."""
        return self._located("exponential", _random.exponential, size, 0.0, scale, scale=scale)

    def f(self, dfnum: Any, dfden: Any, size: Any = None) -> Any:
        """Draw ratios of two mean squares, with ``dfnum`` and ``dfden`` degrees of freedom."""
        return self._floats(_random.f, size, dfnum=dfnum, dfden=dfden, one="f")

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw gamma numbers: density proportional to x**(shape - 1) exp(-x / scale)."""
        return self._floats(gamma_from_zero, size, a=shape, scale=scale, one="gamma")

    def geometric(self, p: Any, size: Any = None) -> Any:
        """Draw the number of trials until one of probability ``p`` succeeds."""
        return self._counts(_random.geometric, size, p=p, one="geometric")

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw Gumbel numbers (of maxima)."""
        return self._located("gumbel", _random.gumbel, size, loc, scale, loc=loc, scale=scale)

    def hypergeometric(self, ngood: Any, nbad: Any, nsample: Any, size: Any = None) -> Any:
        """Draw how many of ``nsample`` elements, taken without replacement, are among the ``ngood``."""
        return self._counts(_random.hypergeometric, size, ngood=ngood, nbad=nbad, nsample=nsample, one="hypergeometric")

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw Laplace numbers: density exp(-abs(x - loc) / scale) / (2 scale)."""
        return self._located("laplace", _random.laplace, size, loc, scale, loc=loc, scale=scale)

    def logistic(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw logistic numbers: cdf 1 / (1 + exp(-(x - loc) / scale))."""
        return self._located("logistic", _random.logistic, size, loc, scale, loc=loc, scale=scale)

    def lognormal(self, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
        """Draw exponentials of normal numbers."""
        return self._floats(_random.lognormal, size, mean=mean, sigma=sigma, one="lognormal")

    def logseries(self, p: Any, size: Any = None) -> Any:
        """Draw from the logarithmic series distribution."""
        return self._counts(_random.logseries, size, p=p, one="logseries")

    def multinomial(self, n: Any, pvals: Any, size: Any = None) -> Any:
        """Draw how often each category occurs in ``n`` trials; the last probability is what the others leave."""
        tensor = isinstance(pvals, Tensor)
        p = None if tensor and is_observed() else values_of(pvals if tensor else np.asarray(pvals))
        if p is None or not p.ndim or not p.shape[-1]:  # on a device, or wrong
            drawn = _multinomial(as_parameter(n), as_parameter(pvals), size_of(size), self._source)
            return as_drawn(drawn, scalar=False)
        first = p[..., :-1].astype(np.float64)
        rest = 1.0 - first.sum(axis=-1, keepdims=True)
        if (rest < -1e-12).any():
            raise ValueError("[multinomial] sum(pvals[:-1]) is above 1: divide pvals by their sum.")
        p = np.concatenate([first, np.maximum(rest, 0.0)], axis=-1)
        made = one_multinomial(self._bits, n, p) if size is None else None
        if made is not None:
            return made
        drawn = _random.multinomial(as_parameter(n), p, size_of(size), generator=self._source)
        return as_drawn(drawn, scalar=False)

    def negative_binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        """Draw the number of failures before the n-th success."""
        return self._counts(_random.negative_binomial, size, n=n, p=p, one="negative_binomial")

    def noncentral_chisquare(self, df: Any, nonc: Any, size: Any = None) -> Any:
        """Draw sums of ``df`` squared normal numbers whose squared means sum to ``nonc``."""
        return self._floats(_random.noncentral_chisquare, size, df=df, nonc=nonc)

    def noncentral_f(self, dfnum: Any, dfden: Any, nonc: Any, size: Any = None) -> Any:
        """Draw from the F distribution with a noncentral numerator."""
        return self._floats(_random.noncentral_f, size, dfnum=dfnum, dfden=dfden, nonc=nonc)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw normal numbers with the mean ``loc`` and the standard deviation ``scale``.

        >>> import tenkey.numpy.random as random
        >>> rng = random.default_rng(1)
        >>> rng.normal([0.0, 10.0], 0.1, (3, 2)).shape, type(rng.normal()).__name__
        ((3, 2), 'float')
        """
        return self._located("normal", _random.normal, size, loc, scale, mean=loc, std=scale)

    def pareto(self, a: Any, size: Any = None) -> Any:
        """Draw Lomax numbers, those of the Pareto distribution on [1, inf) less 1."""
        return self._floats(_lomax, size, a=a, one="pareto")

    def poisson(self, lam: Any = 1.0, size: Any = None) -> Any:
        """Draw counts of a Poisson process with the mean ``lam``."""
        return self._counts(_random.poisson, size, lam=lam, one="poisson")

    def power(self, a: Any, size: Any = None) -> Any:
        """Draw numbers in [0, 1] with the density a x**(a - 1)."""
        return self._floats(_random.power, size, a=a, one="power")

    def rayleigh(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw lengths of vectors of two normal numbers."""
        return self._floats(_random.rayleigh, size, scale=scale, one="rayleigh")

    def standard_cauchy(self, size: Any = None) -> Any:
        """Draw Cauchy numbers: density 1 / (pi (1 + x**2))."""
        return self._located("cauchy", _random.cauchy, size, 0.0, 1.0)

    def standard_t(self, df: Any, size: Any = None) -> Any:
        """Draw from Student's t distribution with ``df`` degrees of freedom."""
        return self._floats(_random.standard_t, size, df=df, one="standard_t")

    def triangular(self, left: Any, mode: Any, right: Any, size: Any = None) -> Any:
        """Draw numbers whose density rises linearly from ``left`` to ``mode`` and falls to ``right``."""
        return self._floats(_random.triangular, size, left=left, mode=mode, right=right)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Draw uniform numbers in [low, high), or ``low`` where both are equal."""
        made = few_uniform(self._bits, size, low, high)
        return self._floats(uniform_between, size, low=low, high=high) if made is None else made

    def vonmises(self, mu: Any, kappa: Any, size: Any = None) -> Any:
        """Draw angles in [-pi, pi] with a density proportional to exp(kappa cos(x - mu))."""
        return self._floats(_random.vonmises, size, mu=mu, kappa=kappa)

    def wald(self, mean: Any, scale: Any, size: Any = None) -> Any:
        """Draw from the inverse Gaussian distribution."""
        return self._floats(_random.wald, size, mean=mean, scale=scale)

    def weibull(self, a: Any, size: Any = None) -> Any:
        """Draw Weibull numbers: cdf 1 - exp(-x**a)."""
        return self._floats(_weibull, size, a=a, one="weibull")

    def zipf(self, a: Any, size: Any = None) -> Any:
        """Draw from the zeta distribution: k has a probability proportional to k**-a."""
        return self._counts(_random.zipf, size, a=a, one="zipf")


def _multinomial(n: Any, p: Any, size: Any, source: Source) -> Any:
    if not isinstance(p, Tensor) or not p.ndim or not p.shape[-1]:
        raise ValueError(f"[multinomial] pvals must have at least one axis, of at least one element, got {p!r}.")
    first = astype(p.detach(), FLOAT)[..., :-1]
    rest = 1.0 - sum_(first, axis=-1, keepdims=True)
    return _random.multinomial(n, concat([first, where(rest < 0.0, 0.0, rest)], axis=-1), size, generator=source)


# ---- where NumPy allows more parameters than tk.random


def _zero(a: Any, positive: Callable[[Any], Any]) -> Any:
    """Return ``positive(a)``, and zeros where ``a`` is zero."""
    if isinstance(a, Tensor):
        return where(a == 0, 0.0, positive(where(a == 0, 1, a)))
    return positive(a) if a != 0 else positive(1.0) * 0.0


def gamma_from_zero(size: Any, *, a: Any, scale: Any, **rest: Any) -> Any:
    """Draw as ``tk.random.gamma`` does, and zeros where ``a`` is zero."""
    return _zero(a, lambda a: _random.gamma(size, a=a, scale=scale, **rest))


def _weibull(size: Any, *, a: Any, **rest: Any) -> Any:
    return _zero(a, lambda a: _random.weibull(size, a=a, **rest))


def _lomax(size: Any, *, a: Any, **rest: Any) -> Any:
    return _random.pareto(size, a=a, **rest) - 1.0


def uniform_between(size: Any, *, low: Any, high: Any, ordered: bool = True, **rest: Any) -> Any:
    """Draw as ``tk.random.uniform`` does, also where ``high`` is ``low``, and below it unless they must be ordered."""
    arrays = isinstance(low, Tensor) or isinstance(high, Tensor)
    if not arrays and not np.isfinite(high - low):
        raise OverflowError(f"[uniform] high - low must be finite, got low={low}, high={high}.")
    if (is_observed() or not bool(any_(low >= high))) if arrays else low < high:
        return _random.uniform(size, low=low, high=high, **rest)
    width = high - low
    if ordered and (bool(any_(width < 0)) if arrays else width < 0):
        raise ValueError("[uniform] high must not be below low.")
    unit = _random.uniform(shape_of(low, high) if size is None else size, **rest)
    return unit * width + low
