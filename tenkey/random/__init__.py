"""Random numbers: the same for one seed on every backend and for any number of threads (Philox 4x32-10).

Every call draws from a generator, by default the global one (``generator=``). Parameters of distributions are numbers
or tensors, which broadcast with ``shape=``. Where the result is a smooth function of noise and parameters, gradients
flow to the parameters; ``requires_grad=True`` makes the result a leaf instead, without a history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._util.lazy_import import lazy_import
from ..core.random.generator import Generator, GeneratorState, default_generator, seed

if TYPE_CHECKING:  # Note [Delayed modules]
    from ._basic import (
        cauchy,
        exponential,
        gumbel,
        integers,
        laplace,
        logistic,
        lognormal,
        multivariate_normal,
        normal,
        pareto,
        rayleigh,
        triangular,
        uniform,
        weibull,
    )
    from ._composed import f, noncentral_chisquare, noncentral_f, power, vonmises, wald
    from ._discrete import (
        bernoulli,
        binomial,
        categorical,
        choice,
        geometric,
        hypergeometric,
        logseries,
        multinomial,
        multivariate_hypergeometric,
        negative_binomial,
        permutation,
        permuted,
        poisson,
        shuffle,
        zipf,
    )
    from ._pytorch import rand, randint, randn
    from ._rejecting import beta, chisquare, dirichlet, gamma, standard_t, truncated_normal

__all__ = [
    "Generator", "GeneratorState", "bernoulli", "beta", "binomial", "categorical", "cauchy", "chisquare", "choice",
    "default_generator", "dirichlet", "exponential", "f", "gamma", "geometric", "get_state", "gumbel", "hypergeometric",
    "integers", "laplace", "logistic", "lognormal", "logseries", "multinomial", "multivariate_hypergeometric",
    "multivariate_normal", "negative_binomial", "noncentral_chisquare", "noncentral_f", "normal", "pareto",
    "permutation", "permuted", "poisson", "power", "rand", "randint", "randn", "rayleigh", "seed", "set_state",
    "shuffle", "standard_t", "triangular", "truncated_normal", "uniform", "vonmises", "wald", "weibull", "zipf",
]  # fmt: skip


def get_state() -> GeneratorState:
    """Return the state of the default generator.

    >>> state = tk.random.get_state()
    >>> first = tk.random.uniform(3).tolist()
    >>> tk.random.set_state(state)
    >>> tk.random.uniform(3).tolist() == first
    True
    """
    return default_generator().get_state()


def set_state(state: tuple[int, int, int]) -> None:
    """Set the state of the default generator, from ``get_state``. Raises ValueError for anything else.

    >>> tk.random.set_state(tk.random.get_state())
    """
    default_generator().set_state(state)


if not TYPE_CHECKING:  # for a type checker a module with __getattr__ has every name
    _find, __dir__ = lazy_import(
        __name__,
        {
            "_basic": (
                "cauchy", "exponential", "gumbel", "integers", "laplace", "logistic", "lognormal",
                "multivariate_normal", "normal", "pareto", "rayleigh", "triangular", "uniform", "weibull",
            ),
            "_composed": ("f", "noncentral_chisquare", "noncentral_f", "power", "vonmises", "wald"),
            "_discrete": (
                "bernoulli", "binomial", "categorical", "choice", "geometric", "hypergeometric", "logseries",
                "multinomial", "multivariate_hypergeometric", "negative_binomial", "permutation", "permuted", "poisson",
                "shuffle", "zipf",
            ),
            "_pytorch": ("rand", "randint", "randn"),
            "_rejecting": ("beta", "chisquare", "dirichlet", "gamma", "standard_t", "truncated_normal"),
        },
    )  # fmt: skip

    def __getattr__(name: str) -> Any:
        found = _find(name)
        if name in __all__:
            found.__module__ = __name__
        return found
