"""Uniform and normal numbers, integers, and families with a location and a scale."""

from __future__ import annotations

import math
import operator as _operator
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from ..core.dtypes import names as dtypes
from ..core.random import exact_functions as exact
from ..core.random.draws import check_integers
from ..core.random.generator import Generator
from ..core.tensor import Tensor
from ..dispatch.calling.public import public_in
from ..dispatch.errors import shown
from ..ops.builtin.creation import full
from ..ops.builtin.elementwise.arithmetic import maximum, minimum
from ..ops.builtin.elementwise.comparison import where
from ..ops.builtin.elementwise.exponential import sqrt
from ..ops.builtin.linalg.matmul import matmul
from ..ops.builtin.shape.copying import astype
from ..ops.builtin.shape.views import expand_dims, squeeze
from ._operators import random_exp, random_factor, random_integers, random_normal, random_uniform
from ._parameters import (
    Parameter,
    Plan,
    Shape,
    make_plan,
    numbers,
    parameter,
    public_draw,
    refuse_gradient,
    sizes_of,
    standard,
)


@public_draw
def uniform(
    shape: Shape = None, *, low: Parameter = 0.0, high: Parameter = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw uniform numbers in [low, high) of a floating dtype (float32 by default).

    ``low`` and ``high`` are numbers or tensors that broadcast with ``shape``, which defaults to their common shape.
    Gradients flow to them. Raises ValueError where low is not below high.

    >>> _ = tk.random.seed(0)
    >>> x = tk.random.uniform((2, 3))
    >>> x.shape, bool(tk.all(x >= 0)), bool(tk.all(x < 1))
    ((2, 3), True, True)
    """
    low, high = parameter("uniform", "low", low, "finite"), parameter("uniform", "high", high, "finite")
    plan = make_plan("uniform", shape, dtype, device, low, high)
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        low, high = plan.cast(low), plan.cast(high)
        width = parameter("uniform", "high - low", high - low, "positive")
        with numbers("uniform", generator, plan) as address:
            unit: Tensor = random_uniform(plan.shape, *address, dtype=plan.dtype, device=plan.device)
            drawn = unit * width + low
            return where(drawn < high, drawn, low)  # rounding may reach high
    with numbers("uniform", generator, plan) as address:
        return random_uniform(
            plan.shape, *address, low=float(low), high=float(high), dtype=plan.dtype, device=plan.device
        )


@public_draw
def normal(
    shape: Shape = None, *, mean: Parameter = 0.0, std: Parameter = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw normal numbers with a mean and a standard deviation: numbers or tensors, to which gradients flow.

    For a complex dtype, real and imaginary part are independent, each of variance ``std**2 / 2``. ``shape`` defaults to
    that of the parameters. Raises ValueError for a negative or infinite ``std``.

    >>> tk.random.normal((2, 3)).shape, tk.random.normal(mean=tk.asarray([0.0, 10.0]), std=0.1).shape
    ((2, 3), (2,))
    """
    if dtype is not None and dtypes.is_complex(dtypes.to_dtype(dtype)):
        return _complex_normal(shape, mean, std, dtypes.to_dtype(dtype), device, generator)
    mean, std = parameter("normal", "mean", mean, "finite"), parameter("normal", "std", std, "nonnegative")
    plan = make_plan("normal", shape, dtype, device, mean, std)
    mean, std = plan.cast(mean), plan.cast(std)
    with numbers("normal", generator, plan) as address:
        drawn: Tensor = random_normal(plan.shape, *address, dtype=plan.dtype, device=plan.device)
        return _located(drawn, mean, std)


def _complex_normal(shape: Any, mean: Any, std: Any, dtype: Any, device: Any, generator: Any) -> Tensor:
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        raise TypeError("[normal] complex numbers take numbers for the mean and the standard deviation, got a tensor.")
    std = parameter("normal", "std", std, "nonnegative")
    mean = complex(mean)
    if not (math.isfinite(mean.real) and math.isfinite(mean.imag)):
        raise ValueError(
            f"[normal] the mean must be a finite number, got {shown(mean)}; a complex one needs a complex dtype."
        )
    plan = Plan(() if shape is None else sizes_of("normal", shape), dtype, device)
    with numbers("normal", generator, plan) as address:
        drawn: Tensor = random_normal(plan.shape, *address, dtype=plan.dtype, device=plan.device)
        return _located(drawn, mean or 0.0, std)


def _located(drawn: Tensor, loc: Any, scale: Any) -> Tensor:
    """Return ``drawn * scale + loc``, omitting operations without effect."""
    if isinstance(scale, Tensor) or scale != 1.0:
        drawn = drawn * scale
    if isinstance(loc, Tensor) or loc != 0.0:
        drawn = drawn + loc
    return drawn


@public_in("tenkey.random")
def integers(
    low: Parameter, high: Parameter = None, shape: Shape = None, *, dtype: Any = None, device: Any = None,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw integers in [low, high), or in [0, low) if ``high`` is None, all equally likely (bias below 2**-32).

    ``low`` and ``high`` are integers or integer tensors that broadcast with ``shape``, which defaults to their common
    shape. ``dtype`` is int64 by default; the whole range of a dtype is possible (``high=2**64`` with uint64). Raises
    ValueError for an empty range or one that does not fit in the dtype, TypeError for other dtypes.

    >>> x = tk.random.integers(0, 6, 100)
    >>> bool(tk.all(x >= 0)), bool(tk.all(x < 6))
    (True, True)
    >>> tk.random.integers(tk.asarray([0, 10]), tk.asarray([1, 11])).tolist()
    [0, 10]
    """
    if high is None:
        low, high = 0, low
    result = dtypes.int64 if dtype is None else dtypes.to_dtype(dtype)
    if any(isinstance(end, (list, tuple)) or getattr(end, "shape", ()) for end in (low, high)):
        return _integers_between(low, high, shape, result, device, generator)
    ends = []
    for name, value in (("low", low), ("high", high)):
        try:
            ends.append(_operator.index(value))
        except TypeError:
            raise TypeError(f"[integers] {name} must be an integer, got {shown(value)}.") from None
    plan = Plan(() if shape is None else sizes_of("integers", shape), result, device)
    with numbers("integers", generator, plan) as address:
        return random_integers(plan.shape, *address, low=ends[0], high=ends[1], dtype=plan.dtype, device=plan.device)


_OPERATORS: Final = SimpleNamespace(ones_where=lambda condition: astype(condition, dtypes.uint64))


def _integers_between(low: Any, high: Any, shape: Any, dtype: np.dtype, device: Any, generator: Any) -> Tensor:
    """Draw integers between tensors, from 128 bits each: Note [Integers without rejection] in ``exact_functions``."""
    check_integers(0, 1, dtype)  # the dtype
    ends = []
    for name, value in (("low", low), ("high", high)):
        end = parameter("integers", name, value, "finite")
        kind = end.dtype if isinstance(end, Tensor) else np.dtype(type(end))
        if kind.kind == "f":
            raise TypeError(f"[integers] {name} must be integers, got {kind}.")
        ends.append(end)
    plan = make_plan("integers", shape, dtype, device, *ends, counts=True)
    first, last = (_fitting(name, end, plan) for name, end in (("low", ends[0]), ("high - 1", ends[1] - 1)))
    width = astype(last, dtypes.float64) - astype(first, dtypes.float64)
    # Neighbours beyond 2**53 are one number in float64.
    width = where(first <= last, maximum(width + 1.0, 1.0), minimum(width + 1.0, 0.0))
    parameter("integers", "high - low", width, "positive")
    start = astype(first, dtypes.uint64)  # two's complement: sums and differences wrap around to the right number
    most = astype(last, dtypes.uint64) - start
    with numbers("integers", generator, plan, 2) as address:
        bits = random_integers((*plan.shape, 2), *address, low=0, high=1 << 64, dtype=dtypes.uint64, device=plan.device)
    lower, upper = bits[..., 0], bits[..., 1]
    drawn = where(most + 1 == 0, upper, exact.scaled_wide(_OPERATORS, lower, upper, most + 1))
    return astype(drawn + start, dtype)


def _fitting(name: str, end: Any, plan: Plan) -> Tensor:
    """Return an end of a range in the widest dtype of the kind of the result, after checking that it fits in that."""
    wide = dtypes.uint64 if plan.dtype.kind == "u" else dtypes.int64
    if not isinstance(end, Tensor):
        info = np.iinfo(plan.dtype)
        if not info.min <= end <= info.max:
            raise ValueError(f"[integers] {name} must fit in the dtype {plan.dtype.name}, got {end}.")
        return full((), end, dtype=wide, device=plan.device)
    if not np.can_cast(end.dtype, plan.dtype):
        parameter("integers", name, astype(end, dtypes.float64), plan.dtype.name)
    return astype(plan.move(end), wide)


def _family(kind: str, shape: Any, loc: Any, scale: Any, dtype: Any, device: Any, generator: Any) -> Tensor:
    loc, scale = parameter(kind, "loc", loc, "finite"), parameter(kind, "scale", scale, "nonnegative")
    plan = make_plan(kind, shape, dtype, device, loc, scale)
    return _located(standard(kind, generator, plan, kind), plan.cast(loc), plan.cast(scale))


@public_draw
def exponential(
    shape: Shape = None, *, scale: Parameter = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw exponential numbers of mean ``scale`` (1 / rate), a number or a tensor to which gradients flow.

    Raises ValueError for a negative or infinite scale.

    >>> bool(tk.all(tk.random.exponential((100,), scale=2.0) > 0))
    True
    """
    return _family("exponential", shape, 0.0, scale, dtype, device, generator)


@public_draw
def laplace(
    shape: Shape = None, *, loc: Parameter = 0.0, scale: Parameter = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw Laplace numbers: density exp(-abs(x - loc) / scale) / (2 scale). Gradients flow to the parameters.

    >>> tk.random.laplace((2, 3), scale=0.5).shape
    (2, 3)
    """
    return _family("laplace", shape, loc, scale, dtype, device, generator)


@public_draw
def gumbel(
    shape: Shape = None, *, loc: Parameter = 0.0, scale: Parameter = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw Gumbel numbers (of maxima): cdf exp(-exp(-(x - loc) / scale)). Gradients flow to the parameters.

    >>> tk.random.gumbel((2, 3)).dtype
    dtype('float32')
    """
    return _family("gumbel", shape, loc, scale, dtype, device, generator)


@public_draw
def logistic(
    shape: Shape = None, *, loc: Parameter = 0.0, scale: Parameter = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw logistic numbers: cdf 1 / (1 + exp(-(x - loc) / scale)). Gradients flow to the parameters.

    >>> tk.random.logistic((2, 3)).shape
    (2, 3)
    """
    return _family("logistic", shape, loc, scale, dtype, device, generator)


@public_draw
def cauchy(
    shape: Shape = None, *, loc: Parameter = 0.0, scale: Parameter = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw Cauchy numbers: density 1 / (pi scale (1 + ((x - loc) / scale)**2)). Gradients flow to the parameters.

    >>> tk.random.cauchy((2, 3)).shape
    (2, 3)
    """
    return _family("cauchy", shape, loc, scale, dtype, device, generator)


@public_draw
def rayleigh(
    shape: Shape = None, *, scale: Parameter = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw lengths of vectors of two normal numbers of standard deviation ``scale``, to which gradients flow.

    >>> bool(tk.all(tk.random.rayleigh((10,)) > 0))
    True
    """
    scale = parameter("rayleigh", "scale", scale, "nonnegative")
    plan = make_plan("rayleigh", shape, dtype, device, scale)
    drawn = standard("rayleigh", generator, plan, "exponential", dtypes.float64)
    return _located(plan.cast(sqrt(drawn * 2.0)), 0.0, plan.cast(scale))


@public_draw
def lognormal(
    shape: Shape = None, *, mean: Parameter = 0.0, sigma: Parameter = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw exponentials of normal numbers with this mean and standard deviation. Gradients flow to the parameters.

    >>> bool(tk.all(tk.random.lognormal((10,), sigma=0.5) > 0))
    True
    """
    mean = parameter("lognormal", "mean", mean, "finite")
    sigma = parameter("lognormal", "sigma", sigma, "nonnegative")
    plan = make_plan("lognormal", shape, dtype, device, mean, sigma)
    with numbers("lognormal", generator, plan) as address:
        drawn: Tensor = random_normal(plan.shape, *address, dtype=dtypes.float64, device=plan.device)
        return plan.cast(random_exp(_located(drawn, mean, sigma)))  # type: ignore[no-any-return]


@public_draw
def weibull(
    shape: Shape = None, *, a: Parameter, scale: Parameter = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw Weibull numbers with the shape parameter ``a``: cdf 1 - exp(-(x / scale)**a). Gradients flow to both.

    Raises ValueError unless ``a`` is positive and ``scale`` not negative.

    >>> bool(tk.all(tk.random.weibull((10,), a=1.5) >= 0))
    True
    """
    a, scale = parameter("weibull", "a", a, "positive"), parameter("weibull", "scale", scale, "nonnegative")
    plan = make_plan("weibull", shape, dtype, device, a, scale)
    drawn = random_exp(-standard("weibull", generator, plan, "gumbel", dtypes.float64) / a)
    return plan.cast(_located(drawn, 0.0, scale))  # type: ignore[no-any-return]


@public_draw
def pareto(
    shape: Shape = None, *, a: Parameter, scale: Parameter = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw Pareto numbers: cdf 1 - (scale / x)**a for x >= scale (NumPy's are those of ``scale=1``, less 1).

    Gradients flow to both parameters, which must be positive.

    >>> bool(tk.all(tk.random.pareto((10,), a=3.0) >= 1))
    True
    """
    a, scale = parameter("pareto", "a", a, "positive"), parameter("pareto", "scale", scale, "positive")
    plan = make_plan("pareto", shape, dtype, device, a, scale)
    drawn = random_exp(standard("pareto", generator, plan, "exponential", dtypes.float64) / a)
    return plan.cast(_located(drawn, 0.0, scale))  # type: ignore[no-any-return]


@public_draw
def triangular(
    shape: Shape = None, *, left: Parameter = 0.0, mode: Parameter = 0.5, right: Parameter = 1.0, dtype: Any = None,
    device: Any = None, generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw numbers between ``left`` and ``right`` whose density rises linearly to ``mode`` and falls linearly from it.

    Gradients flow to the parameters. Raises ValueError unless left <= mode <= right and left < right.

    >>> x = tk.random.triangular((10,), left=-1.0, mode=0.0, right=1.0)
    >>> bool(tk.all(x >= -1)) and bool(tk.all(x <= 1))
    True
    """
    given = {"left": left, "mode": mode, "right": right}
    left, mode, right = (parameter("triangular", name, value, "finite") for name, value in given.items())
    plan = make_plan("triangular", shape, dtype, device, left, mode, right)
    width = parameter("triangular", "right - left", right - left, "positive")
    rise = parameter("triangular", "mode - left", mode - left, "nonnegative")
    fall = parameter("triangular", "right - mode", right - mode, "nonnegative")
    u = standard("triangular", generator, plan, "uniform", dtypes.float64)
    # the root of 0 has an infinite slope, so the side that is not chosen takes the root of 1
    rising = u * width < rise
    up = left + sqrt(where(rising, u * width * rise, 1.0))
    down = right - sqrt(where(rising, 1.0, (1.0 - u) * width * fall))
    return plan.cast(where(rising, up, down))  # type: ignore[no-any-return]


@public_draw
def multivariate_normal(
    mean: Parameter, cov: Parameter = None, shape: Shape = None, *, scale_tril: Parameter = None, dtype: Any = None,
    device: Any = None, generator: Generator | None = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Draw normal vectors with a mean (..., k) and a covariance matrix (..., k, k), which may be singular.

    The result is ``shape + (k,)``; ``shape`` broadcasts with the leading axes. ``scale_tril`` replaces ``cov`` if its
    lower factor L, cov = L L^T, is known; gradients flow to it and to the mean, and are refused for ``cov``. Raises
    ValueError for a matrix that is not symmetric or has a negative eigenvalue. The last bit depends on the machine,
    because of a matrix product.

    >>> tk.random.multivariate_normal([0.0, 5.0], [[1.0, 0.5], [0.5, 1.0]], (4,)).shape
    (4, 2)
    """
    if (cov is None) == (scale_tril is None):
        raise ValueError("[multivariate_normal] give either cov= or scale_tril=.")
    name = "multivariate_normal"
    which = "cov" if scale_tril is None else "scale_tril"
    mean = parameter(name, "mean", mean, "finite")
    matrix = parameter(name, which, cov if scale_tril is None else scale_tril, "finite")
    given = matrix.shape if isinstance(matrix, Tensor) else ()
    if len(given) < 2 or given[-1] != given[-2]:
        raise ValueError(f"[multivariate_normal] {which} must have the shape (..., k, k), got {given}.")
    k = given[-1]
    ends = mean.shape if isinstance(mean, Tensor) else ()
    if not ends or ends[-1] != k:
        raise ValueError(f"[multivariate_normal] mean must end with an axis of length {k}, like {which}, got {ends}.")
    plan = make_plan(name, shape, dtype, device, mean, matrix[..., 0], core=1)
    if scale_tril is None:
        refuse_gradient(name, cov=matrix)
        parameter(name, "cov", matrix, "covariance")
        matrix = random_factor(
            astype(matrix.detach(), dtypes.float64) if matrix.dtype.kind in "iu" else matrix.detach()
        )
    matrix = plan.cast(matrix)
    with numbers(name, generator, plan, k) as address:
        noise = random_normal((*plan.shape, k), *address, dtype=plan.dtype, device=plan.device)
        return squeeze(matmul(matrix, expand_dims(noise, axis=-1)), axis=-1) + plan.cast(mean)  # type: ignore[no-any-return]
