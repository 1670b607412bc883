"""``numpy.random`` for tensors: ``default_rng``, and the older functions, on the generators of ``tk.random``.

Names, arguments, defaults and dtypes (float64, int64) are NumPy's. **The numbers are not**: they are those that
``tk.random`` draws for the seed (Philox 4x32-10), the same on every device and for any number of threads. ``seed`` and
the other functions of the module use the default generator of ``tk.random``. Results are ``ndarray``; without
``size=``, numbers as parameters give Python numbers, as in NumPy, and tensors as parameters 0-d arrays.

>>> import tenkey.numpy.random as random
>>> rng = random.default_rng(7)
>>> rng.integers(0, 100, 5), rng.normal(size=(2, 3)).shape
(array([87, 54, 26, 65, 57]), (2, 3))
"""

from typing import Any, Final

import numpy as np

from .bit_generators import MT19937, PCG64, PCG64DXSM, SFC64, BitGenerator, Philox
from .generators import Generator, default_rng
from .random_state import RandomState, global_state

REFUSED: Final = {
    "bit_generator": "a module inside of NumPy: its classes are in tenkey.numpy.random itself",
    "mtrand": "a module inside of NumPy: its functions are in tenkey.numpy.random itself",
    "test": "NumPy's own tests",
}
"""Names of ``numpy.random`` that are missing, with the reason."""

__all__ = [
    "MT19937", "PCG64", "PCG64DXSM", "SFC64", "BitGenerator", "Generator", "Philox", "RandomState", "SeedSequence",
    "beta", "binomial", "bytes", "chisquare", "choice", "default_rng", "dirichlet", "exponential", "f", "gamma",
    "geometric", "get_bit_generator", "get_state", "gumbel", "hypergeometric", "laplace", "logistic", "lognormal",
    "logseries", "multinomial", "multivariate_normal", "negative_binomial", "noncentral_chisquare", "noncentral_f",
    "normal", "pareto", "permutation", "poisson", "power", "rand", "randint", "randn", "random", "random_integers",
    "random_sample", "ranf", "rayleigh", "sample", "seed", "set_bit_generator", "set_state", "shuffle",
    "standard_cauchy", "standard_exponential", "standard_gamma", "standard_normal", "standard_t", "triangular",
    "uniform", "vonmises", "wald", "weibull", "zipf",
]  # fmt: skip
globals().update({name: getattr(global_state, name) for name in __all__ if hasattr(global_state, name)})
ranf = sample = global_state.random_sample


def get_bit_generator() -> BitGenerator:
    """Return the source of the functions of this module."""
    return global_state._bit_generator


def set_bit_generator(bitgen: BitGenerator) -> None:
    """Let the functions of this module draw from another source than the default generator of ``tk.random``."""
    if not isinstance(bitgen, BitGenerator):
        raise TypeError(f"[random.set_bit_generator] needs a bit generator of tenkey.numpy.random, got {bitgen!r}.")
    global_state._bit_generator = bitgen


def __getattr__(name: str) -> Any:
    if name == "SeedSequence":  # NumPy loads its module on first use, and so do we
        return np.random.SeedSequence
    reason = f": {REFUSED[name]}" if name in REFUSED else ""
    raise AttributeError(f"module 'tenkey.numpy.random' has no attribute {name!r}{reason}.")
