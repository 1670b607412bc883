"""``numpy.random.Generator`` on the generators of ``tk.random``."""

from __future__ import annotations

import warnings
from collections.abc import MutableSequence
from typing import Any, Final

import numpy as np

from ... import random as _random
from ...core.dtypes import names as dtypes
from ...core.random.generator import Generator as Source
from ...core.tensor import Tensor, from_host
from ...dispatch.registry import registry
from ...functions.creation import asarray
from ...ops.builtin import load
from ...ops.builtin.elementwise.arithmetic import abs as abs_
from ...ops.builtin.elementwise.comparison import where
from ...ops.builtin.elementwise.exponential import sqrt
from ...ops.builtin.reductions.reduction import sum as sum_
from ...ops.builtin.shape.copying import astype
from ...ops.builtin.shape.views import expand_dims
from .bit_generators import BitGenerator, Philox
from .distribution_methods import FLOAT, Distributions, gamma_from_zero
from .drawing import as_drawn, as_parameter, as_population, chosen_float, draw, into, plain, size_of
from .few import few_categories, few_integers, few_uniform, is_observed, is_on_host, order_of_few

__all__ = ["Generator", "Selections", "default_rng"]

_INT: Final = dtypes.int64


class Selections(Distributions):
    """Draw selections, orders, integers and normal vectors, for both classes of NumPy."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._bits,)

    def _chosen(self, a: Any, size: Any, replace: bool, p: Any, axis: int) -> Any:
        if a.__class__ is int and p is None and replace:
            made = few_integers(self._bits, size, 0, a, int)
            if made is not None:
                return made
        population = as_population(a)
        if isinstance(population, float):
            raise ValueError(f"[choice] a must be an integer, or have at least one axis, got {a!r}.")
        if p is not None:
            p = _shares(p)
            if isinstance(p, np.ndarray) and population.__class__ is int and replace:
                made = few_categories(self._bits, size, p, population)
                if made is not None:
                    return made
        if p is None and replace and isinstance(population, Tensor) and self._is_small(population, axis):
            chosen = few_integers(self._bits, () if size is None else size, 0, population.shape[axis], int)
            if chosen is not None:
                drawn = from_host(np.asarray(np.take(population.numpy(), chosen.numpy(), axis=axis)))
                scalar = size is None and not isinstance(a, Tensor) and not drawn.ndim
                return as_drawn(drawn, scalar=scalar, kind=drawn.dtype.type)
        foreign = isinstance(population, np.ndarray)
        given = population.shape[axis] if foreign else population
        drawn = _random.choice(
            plain(given) if isinstance(given, Tensor) else given, () if size is None else size_of(size),
            replace=replace, p=p,
            axis=0 if foreign else axis, generator=self._source,
        )  # fmt: skip
        if foreign:  # text, objects: NumPy's arrays
            return np.take(population, drawn.numpy(), axis=axis)
        scalar = size is None and not isinstance(a, Tensor) and not drawn.ndim
        return as_drawn(drawn, scalar=scalar, kind=drawn.dtype.type if isinstance(given, Tensor) else None)

    def _is_small(self, x: Tensor, axis: int) -> bool:
        """Tell whether NumPy orders the slices: few numbers on the host, with no gradient and nothing that observes."""
        return x.size <= 1024 and 0 <= axis < x.ndim and is_on_host(x) and not x.requires_grad and not is_observed()

    def _order(self, n: int) -> np.ndarray[Any, Any]:
        order = order_of_few(self._bits, n)
        return _random.permutation(n, generator=self._source, device="cpu").numpy() if order is None else order

    def _permutation(self, x: Any, axis: int) -> Any:
        if x.__class__ is int:
            order = order_of_few(self._bits, x)
            if order is not None:
                return as_drawn(from_host(order), scalar=False)
        population = as_population(x)
        if isinstance(population, np.ndarray):
            return np.take(population, self._order(population.shape[axis]), axis=axis)
        if isinstance(population, float) or (isinstance(population, Tensor) and not population.ndim):
            raise IndexError(f"[permutation] x must be an integer or have at least one axis, got {x!r}.")
        if isinstance(population, Tensor) and self._is_small(population, axis):
            ordered = np.take(population.numpy(), self._order(population.shape[axis]), axis=axis)
            return as_drawn(from_host(ordered), scalar=False)
        given = plain(population) if isinstance(population, Tensor) else population
        return as_drawn(_random.permutation(given, axis=axis, generator=self._source), scalar=False)

    def _shuffle(self, x: Any, axis: int) -> None:
        if isinstance(x, Tensor) and x.ndim:
            if self._is_small(x, axis):
                x.copy_(from_host(np.take(x.numpy(), self._order(x.shape[axis]), axis=axis)))
            else:
                _random.shuffle(plain(x), axis=axis, generator=self._source)
        elif isinstance(x, np.ndarray) and x.ndim:
            x[...] = np.take(x, self._order(x.shape[axis]), axis=axis)
        elif isinstance(x, MutableSequence):
            if axis:
                raise NotImplementedError(
                    f"[shuffle] got axis={axis} and a {type(x).__name__}: a sequence has one axis."
                )
            x[:] = [x[i] for i in self._order(len(x)).tolist()]
        else:
            raise TypeError(f"[shuffle] x must be an array with at least one axis or a list, got {x!r}.")

    def _integers(self, name: str, low: Any, high: Any, size: Any, dtype: Any, endpoint: bool) -> Any:
        if high is None:
            low, high = 0, low
        if dtype is int or dtype is np.int64:
            if endpoint and high.__class__ is int:
                high, endpoint = high + 1, False
            made = None if endpoint else few_integers(self._bits, size, low, high, dtype)
            if made is not None:
                return made
        kind = np.dtype(dtype)
        if kind.kind not in "iub":
            raise TypeError(f"[{name}] got dtype {kind.name}: integers are drawn in an integer dtype or bool.")
        drawn_in = dtypes.uint8 if kind.kind == "b" else kind
        low, high = _whole(low), _whole(high)
        if endpoint:
            high = high + 1
        arrays = isinstance(low, Tensor) or isinstance(high, Tensor)
        if kind.kind == "b" and not arrays and not (0 <= low < high <= 2):
            raise ValueError(f"[{name}] got low={low}, high={high}: the range must not be empty, and fit in bool.")
        try:
            drawn = _random.integers(low, high, size_of(size), dtype=drawn_in, generator=self._source)
        except (ValueError, TypeError) as error:
            raise type(error)(str(error).replace("[integers]", f"[{name}]")) from None
        if kind.kind == "b":
            drawn = astype(drawn, dtypes.bool)
        return as_drawn(drawn, scalar=size is None and not arrays, kind=None if dtype in (int, bool) else kind.type)

    def _vectors(self, mean: Any, cov: Any, size: Any, check_valid: str, tol: float) -> Any:
        if check_valid not in ("warn", "raise", "ignore"):
            raise ValueError(f"[multivariate_normal] check_valid is 'warn', 'raise' or 'ignore', got {check_valid!r}.")
        mean, cov = (asarray(as_parameter(value)) for value in (mean, cov))
        if mean.ndim != 1 or cov.ndim != 2 or cov.shape != (mean.shape[0],) * 2:
            raise ValueError(
                f"[multivariate_normal] mean and cov must have the shapes (k,) and (k, k), got {mean.shape} and "
                f"{cov.shape}."
            )
        options: dict[str, Any] = {"dtype": FLOAT, "generator": self._source}
        try:
            drawn = _random.multivariate_normal(mean, cov, size_of(size), **options)
        except ValueError as error:
            if check_valid == "raise" or "negative eigenvalues" not in str(error):
                raise
            load("linalg")
            _, s, vt = registry.find("tk::linalg_svd").call(astype(cov, FLOAT))
            close = np.allclose((vt.mT * expand_dims(s, axis=0) @ vt).numpy(), cov.numpy(), rtol=tol, atol=tol)
            if check_valid == "warn" and not close:
                warnings.warn("covariance is not symmetric positive-semidefinite.", RuntimeWarning, stacklevel=3)
            drawn = _random.multivariate_normal(mean, shape=size_of(size), scale_tril=vt.mT * sqrt(s), **options)
        return as_drawn(drawn, scalar=False)


def _shares(p: Any) -> Any:
    """Return probabilities in float64, divided by their sum if that is within NumPy's tolerance of 1."""
    on_host = not isinstance(p, Tensor) or (is_on_host(p) and not is_observed())
    if on_host:
        p = p.detach().numpy() if isinstance(p, Tensor) else np.asarray(p)
    if p.ndim != 1 or p.dtype.kind not in "iuf":
        return p
    tolerance = float(np.sqrt(np.finfo(p.dtype if p.dtype.kind == "f" else np.float64).eps))
    if on_host:
        p = p.astype(np.float64)
        total = p.sum()
        return p / total if abs(total - 1.0) <= tolerance else p
    p = astype(plain(p).detach(), FLOAT)
    total = sum_(p)
    return where(abs_(total - 1.0) <= tolerance, p / total, p)


def _whole(value: Any) -> Any:
    """Return a bound of integers without its fraction."""
    value = as_parameter(value)
    if isinstance(value, Tensor):
        return astype(value, _INT) if value.dtype.kind == "f" else value
    return int(value) if isinstance(value, float) else value


class Generator(Selections):
    """Draw random numbers, with the methods of ``numpy.random.Generator``; see ``default_rng``.

    The numbers are not those of NumPy. ``Generator(Philox(seed))`` draws what the functions of ``tk.random`` draw from
    ``tk.random.Generator(seed)``: the same on every device and for any number of threads.

    >>> import tenkey.numpy.random as random
    >>> rng = random.Generator(random.PCG64(7))
    >>> rng.integers(0, 100, 5), tk.random.integers(0, 100, 5, generator=tk.random.Generator(7)).tolist()
    (array([87, 54, 26, 65, 57]), [87, 54, 26, 65, 57])
    """

    __slots__ = ("__weakref__", "bit_generator")

    bit_generator: BitGenerator

    def __init__(self, bit_generator: BitGenerator) -> None:
        if not isinstance(bit_generator, BitGenerator):
            raise TypeError(
                f"[random.Generator] needs a bit generator of tenkey.numpy.random, got {bit_generator!r}: "
                "default_rng(seed) makes a generator from a seed."
            )
        self.bit_generator = bit_generator

    @property
    def _bits(self) -> BitGenerator:
        return self.bit_generator

    def __repr__(self) -> str:
        return f"Generator({self.bit_generator!r})"

    def spawn(self, n_children: int) -> list[Generator]:
        """Return new generators, independent of this one and each other."""
        return [type(self)(bits) for bits in self.bit_generator.spawn(n_children)]

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Draw uniform numbers in [0, 1) of float64 or float32, into ``out`` if it is given."""
        if dtype is np.float64 and out is None:
            made = few_uniform(self.bit_generator, size)
            if made is not None:
                return made
        chosen = chosen_float("random", dtype)
        if out is not None:
            return into("random", out, size, chosen, lambda shape: self.random(shape, dtype))
        return draw(_random.uniform, size, chosen, self._source, {})

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Draw standard normal numbers of float64 or float32, into ``out`` if it is given."""
        if dtype is np.float64 and out is None:
            return self.normal(0.0, 1.0, size)
        chosen = chosen_float("standard_normal", dtype)
        if out is not None:
            return into("standard_normal", out, size, chosen, lambda shape: self.standard_normal(shape, dtype))
        return draw(_random.normal, size, chosen, self._source, {})

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "zig", out: Any = None
    ) -> Any:
        """Draw exponential numbers of mean 1; by inversion for either value of ``method``, ``"zig"`` and ``"inv"``."""
        if dtype is np.float64 and out is None:
            return self.exponential(1.0, size)
        chosen = chosen_float("standard_exponential", dtype)
        if out is not None:
            return into(
                "standard_exponential", out, size, chosen, lambda shape: self.standard_exponential(shape, dtype)
            )
        return draw(_random.exponential, size, chosen, self._source, {})

    def standard_gamma(self, shape: Any, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Draw gamma numbers of scale 1."""
        if dtype is np.float64 and out is None:
            return self.gamma(shape, 1.0, size)
        chosen = chosen_float("standard_gamma", dtype)
        if out is not None:
            return into("standard_gamma", out, size, chosen, lambda sizes: self.standard_gamma(shape, sizes, dtype))
        return draw(gamma_from_zero, size, chosen, self._source, {"a": shape, "scale": 1.0})

    def dirichlet(self, alpha: Any, size: Any = None) -> Any:
        """Draw vectors of shares that sum to 1, along a new last axis of the length of ``alpha``; 0 where it is 0."""
        alpha = as_parameter(alpha)
        if isinstance(alpha, Tensor):
            alpha = where(alpha == 0, 1e-300, astype(alpha, FLOAT))
        return super().dirichlet(alpha, size)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        """Draw integers in [low, high), or in [0, low); with ``endpoint`` also ``high`` itself.

        >>> import tenkey.numpy.random as random
        >>> rng = random.default_rng(1)
        >>> rng.integers(1, 6, 3, endpoint=True).shape, rng.integers([1, 10], [2, 11])
        ((3,), array([ 1, 10]))
        """
        return self._integers("integers", low, high, size, dtype, endpoint)

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Any:
        """Return a random selection of slices of ``a`` along ``axis``, or of the numbers 0 to a - 1.

        Text and objects are returned in arrays of NumPy. The order is random for either value of ``shuffle``.
        """
        return self._chosen(a, size, replace, p, axis)

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """Return 0 to x - 1, or the slices of ``x`` along ``axis``, in random order."""
        return self._permutation(x, axis)

    def permuted(self, x: Any, *, axis: int | None = None, out: Any = None) -> Any:
        """Return ``x`` with the elements along ``axis`` in random order, each line in its own; ``out`` may be ``x``."""
        population = as_population(x)
        if isinstance(population, np.ndarray):
            places = self.permuted(np.arange(population.size).reshape(population.shape), axis=axis)
            return population.reshape(-1)[places.numpy()]
        if not isinstance(population, Tensor) or not population.ndim:
            raise TypeError(f"[permuted] x must be an array with at least one axis, got {x!r}.")
        drawn = _random.permuted(plain(population), axis=axis, generator=self._source)
        if out is None:
            return as_drawn(drawn, scalar=False)
        if out.shape != drawn.shape or not np.can_cast(drawn.dtype, out.dtype, "same_kind"):
            raise ValueError(
                f"[permuted] out= must have the shape {drawn.shape} and hold {drawn.dtype}; got {out.dtype}{out.shape}."
            )
        if isinstance(out, Tensor):
            out.copy_(astype(drawn, out.dtype))
        else:
            np.copyto(out, drawn.numpy(), casting="same_kind")
        return out

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Put the slices of an array, or the elements of a list, in random order, in place."""
        self._shuffle(x, axis)

    def multivariate_hypergeometric(
        self, colors: Any, nsample: int, size: Any = None, method: str = "marginals"
    ) -> Any:
        """Draw how many elements of each colour are in a sample; the same for both values of ``method``."""
        if method not in ("count", "marginals"):
            raise ValueError(f"[multivariate_hypergeometric] method is 'marginals' or 'count', got {method!r}.")
        drawn = _random.multivariate_hypergeometric(
            as_parameter(colors), as_parameter(nsample), size_of(size), generator=self._source
        )
        return as_drawn(drawn, scalar=False)

    def multivariate_normal(
        self, mean: Any, cov: Any, size: Any = None, check_valid: str = "warn", tol: float = 1e-8, *,
        method: str = "svd",
    ) -> Any:  # fmt: skip
        """Draw normal vectors with a mean (k,) and a covariance matrix (k, k); ``method`` does not matter here.

        Where the matrix is not a covariance matrix, ``check_valid`` says whether to warn, raise ValueError or go on.
        """
        if method not in ("svd", "eigh", "cholesky"):
            raise ValueError(f"[multivariate_normal] method is 'svd', 'eigh' or 'cholesky', got {method!r}.")
        return self._vectors(mean, cov, size, check_valid, tol)


def default_rng(seed: Any = None) -> Generator:
    """Return a generator for a seed: an integer of at least 0, a sequence of them, a ``SeedSequence``, or None.

    A bit generator or a ``tk.random.Generator`` is used itself, and a ``Generator`` returned. An integer below 2**64
    gives the numbers of ``tk.random.Generator(seed)``, which are not NumPy's. Without a seed the operating system
    chooses one.

    >>> import tenkey.numpy.random as random
    >>> random.default_rng(42).random(3).shape, random.default_rng(42).random() == random.default_rng(42).random()
    ((3,), True)
    """
    if isinstance(seed, Generator):
        return seed
    if isinstance(seed, BitGenerator):
        return Generator(seed)
    if isinstance(seed, Source):
        return Generator(Philox.of(seed))
    source = getattr(seed, "_bit_generator", None)
    return Generator(source if isinstance(source, BitGenerator) else Philox(seed))
