# Written by `python -m tools.make_stubs` from the operators' schemas: edit those, and run it again.
"""Special functions, under their names in ``scipy.special``, with derivatives."""

from collections.abc import Sequence
from tenkey.core.tensor import Tensor
from tenkey.core.typing import TensorLike

__all__ = [
    "beta",
    "betainc",
    "betaincc",
    "betaln",
    "chdtr",
    "chdtrc",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "expit",
    "exprel",
    "fdtr",
    "fdtrc",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "j0",
    "j1",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "kl_div",
    "log_expit",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "rel_entr",
    "softmax",
    "stdtr",
    "stdtrit",
    "xlog1py",
    "xlogy",
    "y0",
    "y1",
    "zeta",
]


def beta(a: TensorLike, b: TensorLike) -> Tensor:
    """Return ``gamma(a) * gamma(b) / gamma(a + b)`` for numbers of at least 0: infinite at 0, nan below."""
def betainc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return the regularized incomplete beta function, for real tensors that broadcast."""
def betaincc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Return ``1 - betainc(a, b, x)`` without cancellation."""
def betaln(a: TensorLike, b: TensorLike) -> Tensor:
    """Return ``log(abs(beta(a, b)))`` without overflow, and without cancellation for positive numbers."""
def chdtr(v: Tensor, x: Tensor) -> Tensor:
    """Return the probability that a chi-squared variable with ``v`` degrees of freedom is at most ``x``."""
def chdtrc(v: Tensor, x: Tensor) -> Tensor:
    """Return the probability that a chi-squared variable with ``v`` degrees of freedom is above ``x``."""
def digamma(x: Tensor) -> Tensor:
    """Return the derivative of ``gammaln`` (DLMF 5.2.2); nan at negative whole numbers."""
def entr(x: Tensor) -> Tensor:
    """Return ``-x * log(x)``, the contribution of ``x`` to an entropy: 0 at 0, minus infinity below."""
def erf(x: Tensor) -> Tensor:
    """Return the error function: ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to x (DLMF 7.2.1)."""
def erfc(x: Tensor) -> Tensor:
    """Return ``1 - erf(x)`` without cancellation (DLMF 7.2.2)."""
def erfcx(x: Tensor) -> Tensor:
    """Return ``exp(x**2) * erfc(x)``, the scaled complementary error function, which does not vanish for large
    ``x``.
    """
def erfinv(x: Tensor) -> Tensor:
    """Return the number whose error function is ``x``; infinite at -1 and 1, nan outside."""
def expit(x: Tensor) -> Tensor:
    """Return the logistic function ``1 / (1 + exp(-x))``: SciPy's name for ``tk.sigmoid``."""
def exprel(x: Tensor) -> Tensor:
    """Return ``(exp(x) - 1) / x``, which is 1 at 0."""
def fdtr(dfn: Tensor, dfd: Tensor, x: Tensor) -> Tensor:
    """Return the probability that an F variable with ``dfn`` and ``dfd`` degrees of freedom is at most ``x``."""
def fdtrc(dfn: Tensor, dfd: Tensor, x: Tensor) -> Tensor:
    """Return the probability that an F variable with ``dfn`` and ``dfd`` degrees of freedom is above ``x``."""
def gamma(x: Tensor) -> Tensor:
    """Return the gamma function, ``(x - 1)!`` at whole numbers; nan at the negative ones, infinite at 0."""
def gammainc(a: Tensor, x: Tensor) -> Tensor:
    """Return the regularized lower incomplete gamma function P(a, x), for real tensors that broadcast."""
def gammaincc(a: Tensor, x: Tensor) -> Tensor:
    """Return the regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), without cancellation."""
def gammaln(x: Tensor) -> Tensor:
    """Return ``log(abs(gamma(x)))``, without overflow; infinite at 0, -1, -2, ..."""
def i0(x: Tensor) -> Tensor:
    """Return the modified Bessel function of the first kind and order 0 (DLMF 10.25)."""
def i0e(x: Tensor) -> Tensor:
    """Return ``exp(-abs(x)) * i0(x)``, which does not overflow."""
def i1(x: Tensor) -> Tensor:
    """Return the modified Bessel function of the first kind and order 1 (DLMF 10.25)."""
def i1e(x: Tensor) -> Tensor:
    """Return ``exp(-abs(x)) * i1(x)``, which does not overflow."""
def j0(x: Tensor) -> Tensor:
    """Return the Bessel function of the first kind and order 0 of real numbers (DLMF 10.2.2)."""
def j1(x: Tensor) -> Tensor:
    """Return the Bessel function of the first kind and order 1 of real numbers (DLMF 10.2.2)."""
def k0(x: Tensor) -> Tensor:
    """Return the modified Bessel function of the second kind and order 0 (DLMF 10.25.3); infinite at 0, nan below."""
def k0e(x: Tensor) -> Tensor:
    """Return ``exp(x) * k0(x)``, which does not vanish for large ``x``."""
def k1(x: Tensor) -> Tensor:
    """Return the modified Bessel function of the second kind and order 1 (DLMF 10.25.3); infinite at 0, nan below."""
def k1e(x: Tensor) -> Tensor:
    """Return ``exp(x) * k1(x)``, which does not vanish for large ``x``."""
def kl_div(x: TensorLike, y: TensorLike) -> Tensor:
    """Return ``x * log(x / y) - x + y``, the contribution to a Kullback-Leibler divergence."""
def log_expit(x: Tensor) -> Tensor:
    """Return ``log(expit(x))``, without underflow."""
def log_ndtr(x: Tensor) -> Tensor:
    """Return the logarithm of ``ndtr``, also where ``ndtr`` is too small for its dtype."""
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``log(softmax(x))`` along an axis: SciPy's name for ``tk.log_softmax``."""
def logit(x: Tensor) -> Tensor:
    """Return ``log(x / (1 - x))``, the inverse of ``expit``; infinite at 0 and 1, nan outside."""
def logsumexp(x: Tensor, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Tensor:
    """Return ``log(sum(exp(x)))`` along axes, without overflow: SciPy's name for ``tk.logsumexp``."""
def multigammaln(a: Tensor, d: int) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension ``d``, for a > (d - 1) / 2 (DLMF 35.3.4)."""
def ndtr(x: Tensor) -> Tensor:
    """Return the probability that a standard normal variable is at most ``x``."""
def ndtri(x: Tensor) -> Tensor:
    """Return the inverse of ``ndtr``: a standard normal variable is at most the result with probability ``x``."""
def polygamma(n: Tensor, x: Tensor) -> Tensor:
    """Return the ``n``-th derivative of ``digamma`` at each element of ``x``; ``n`` is an int or a tensor of
    integers.
    """
def psi(x: Tensor) -> Tensor:
    """Return ``digamma``, by its other name in SciPy."""
def rel_entr(x: TensorLike, y: TensorLike) -> Tensor:
    """Return ``x * log(x / y)``, the contribution to a relative entropy."""
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``exp(x) / sum(exp(x))`` along an axis: SciPy's name for ``tk.softmax``."""
def stdtr(df: Tensor, t: Tensor) -> Tensor:
    """Return the probability that a Student variable with ``df`` degrees of freedom is at most ``t``."""
def stdtrit(df: Tensor, p: Tensor) -> Tensor:
    """Return the inverse of ``stdtr``: a Student variable is at most the result with probability ``p``."""
def xlog1py(x: TensorLike, y: TensorLike) -> Tensor:
    """Return ``x * log1p(y)``, and 0 where ``x`` is 0, unless ``y`` is nan."""
def xlogy(x: TensorLike, y: TensorLike) -> Tensor:
    """Return ``x * log(y)``, and 0 where ``x`` is 0, unless ``y`` is nan."""
def y0(x: Tensor) -> Tensor:
    """Return the Bessel function of the second kind and order 0 (DLMF 10.2.3); minus infinity at 0, nan below."""
def y1(x: Tensor) -> Tensor:
    """Return the Bessel function of the second kind and order 1 (DLMF 10.2.3); minus infinity at 0, nan below."""
def zeta(x: Tensor, q: TensorLike | None = None) -> Tensor:
    """Return the sum of ``(k + q)**-x`` over k = 0, 1, ...: the Hurwitz zeta function (by default Riemann's, q = 1)."""
