"""``numpy.random.RandomState`` and its functions on the generators of ``tk.random``."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from ... import random as _random
from ...core.random.generator import GeneratorState, default_generator
from .bit_generators import BitGenerator, Philox, source_of_seed, state_of
from .distribution_methods import FLOAT, uniform_between
from .drawing import as_population, draw
from .few import few_uniform
from .generators import Selections

__all__ = ["RandomState", "global_state"]


class RandomState(Selections):
    """Draw random numbers, with the methods of ``numpy.random.RandomState``; the numbers are not those of NumPy.

    ``seed`` is as for ``default_rng``, or a bit generator. New programs use ``default_rng``, as with NumPy.

    >>> import tenkey.numpy.random as random
    >>> state = random.RandomState(0)
    >>> state.randn(2, 3).shape, state.randint(5, size=4).dtype, type(state.rand()).__name__
    ((2, 3), dtype('int64'), 'float')
    """

    __slots__ = ("__weakref__", "_bit_generator")

    def __init__(self, seed: Any = None) -> None:
        self._bit_generator = seed if isinstance(seed, BitGenerator) else Philox(seed)

    @property
    def _bits(self) -> BitGenerator:
        return self._bit_generator

    def __repr__(self) -> str:
        return f"RandomState({self._bit_generator!r})"

    def seed(self, seed: Any = None) -> None:
        """Restart from a seed."""
        self._source.set_state(source_of_seed(seed).get_state())

    def get_state(self, legacy: bool = True) -> Any:
        """Return the state for ``set_state``: a tuple of a name and three integers, or a dict if not ``legacy``."""
        state = self._bit_generator.state
        return (state["bit_generator"], GeneratorState(**state["state"])) if legacy else state

    def set_state(self, state: Any) -> None:
        """Return to a state from ``get_state``. Raises ValueError for anything else."""
        self._source.set_state(state_of(state))

    def random_sample(self, size: Any = None) -> Any:
        """Draw uniform numbers in [0, 1)."""
        made = few_uniform(self._bit_generator, size)
        return draw(_random.uniform, size, FLOAT, self._source, {}) if made is None else made

    def random(self, size: Any = None) -> Any:
        """Draw uniform numbers in [0, 1)."""
        return self.random_sample(size)

    def rand(self, *args: int) -> Any:
        """Draw uniform numbers in [0, 1) of the given shape."""
        return self.random_sample(args or None)

    def randn(self, *args: int) -> Any:
        """Draw standard normal numbers of the given shape."""
        return self.standard_normal(args or None)

    def standard_normal(self, size: Any = None) -> Any:
        """Draw standard normal numbers."""
        return self.normal(0.0, 1.0, size)

    def standard_exponential(self, size: Any = None) -> Any:
        """Draw exponential numbers of mean 1."""
        return self.exponential(1.0, size)

    def standard_gamma(self, shape: Any, size: Any = None) -> Any:
        """Draw gamma numbers of scale 1."""
        return self.gamma(shape, 1.0, size)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Draw uniform numbers between ``low`` and ``high``, in either order."""
        made = few_uniform(self._bit_generator, size, low, high)
        return made if made is not None else draw(_between, size, FLOAT, self._source, {"low": low, "high": high})

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        """Draw integers in [low, high), or in [0, low)."""
        return self._integers("randint", low, high, size, dtype, endpoint=False)

    def random_integers(self, low: Any, high: Any = None, size: Any = None) -> Any:
        """Draw integers in [low, high], or in [1, low]; deprecated in NumPy."""
        low, high = (1, low) if high is None else (low, high)
        warnings.warn(
            f"random_integers is deprecated: call randint({low}, {high} + 1).", DeprecationWarning, stacklevel=2
        )
        return self._integers("random_integers", low, high, size, np.int64, endpoint=True)

    def tomaxint(self, size: Any = None) -> Any:
        """Draw integers in [0, sys.maxsize]."""
        return self._integers("tomaxint", 0, sys.maxsize, size, int, endpoint=True)

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
        """Return a random selection of the elements of ``a``, or of the numbers 0 to a - 1."""
        population = as_population(a)
        if getattr(population, "ndim", 1) != 1:
            raise ValueError(f"[choice] a must be one-dimensional or an integer, got the shape {population.shape}.")
        return self._chosen(population if isinstance(population, np.ndarray) else a, size, replace, p, 0)

    def permutation(self, x: Any) -> Any:
        """Return 0 to x - 1, or the slices of ``x`` along the first axis, in random order."""
        return self._permutation(x, 0)

    def shuffle(self, x: Any) -> None:
        """Put the slices of an array, or the elements of a list, in random order, in place."""
        self._shuffle(x, 0)

    def multivariate_normal(
        self, mean: Any, cov: Any, size: Any = None, check_valid: str = "warn", tol: float = 1e-8
    ) -> Any:
        """Draw normal vectors with a mean (k,) and a covariance matrix (k, k)."""
        return self._vectors(mean, cov, size, check_valid, tol)


def _between(size: Any, *, low: Any, high: Any, **rest: Any) -> Any:
    return uniform_between(size, low=low, high=high, ordered=False, **rest)


global_state = RandomState(BitGenerator.of(default_generator()))
"""What the functions of the module draw from: the default generator of ``tk.random``."""
