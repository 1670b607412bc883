"""Counts, categories and selections."""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any, Final

import numpy as np

from .._util.checked_integer import checked_integer
from ..core.dtypes import names as dtypes
from ..core.random.generator import Generator
from ..core.random.samplers import BLOCKS_PER_ELEMENT as REJECTING
from ..core.tensor import Tensor
from ..dispatch.calling.public import public_in
from ..dispatch.errors import shown
from ..functions.creation import asarray
from ..ops.builtin.elementwise.arithmetic import maximum, minimum
from ..ops.builtin.elementwise.rounding import ceil
from ..ops.builtin.indexing.advanced_indexing import take, take_along_axis
from ..ops.builtin.reductions.reduction import sum
from ..ops.builtin.shape.copying import astype, stack
from ..ops.builtin.shape.manipulation import moveaxis
from ..ops.builtin.shape.views import reshape
from ._operators import (
    random_category,
    random_counts,
    random_hypergeometric,
    random_integers,
    random_log1p,
    random_order,
    random_permutation,
    random_rejection,
    random_standard,
    random_uniform,
)
from ._parameters import Parameter, Plan, Shape, addresses, as_tensor, make_plan, numbers, parameter, sizes_of, standard
from ._rejecting import _VECTOR, _reject

_POPULATION: Final = (
    "[choice] a must be a positive integer or a tensor with elements along the axis {axis}, got {given}."
)


@public_in("tenkey.random")
def bernoulli(
    shape: Shape = None, *, p: Parameter = 0.5, dtype: Any = None, device: Any = None,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw True with the probability ``p``, a number or a tensor; ``dtype`` is bool by default.

    The probability is exact to 2**-53. Raises ValueError outside [0, 1].

    >>> tk.random.bernoulli((3,), p=1.0).tolist()
    [True, True, True]
    """
    p = parameter("bernoulli", "p", p, "probability")
    plan = make_plan("bernoulli", shape, None, device, p)
    result = dtypes.bool if dtype is None else dtypes.to_dtype(dtype)
    with numbers("bernoulli", generator, plan) as address:
        unit: Tensor = random_uniform(plan.shape, *address, dtype=dtypes.float64, device=plan.device)
        drawn = unit < as_tensor(p, plan)
        return drawn if result == dtypes.bool else astype(drawn, result)


@public_in("tenkey.random")
def geometric(
    shape: Shape = None, *, p: Parameter, dtype: Any = None, device: Any = None, generator: Generator | None = None
) -> Tensor:
    """Draw the number of independent trials until one of probability ``p`` succeeds: 1, 2, ... (int64).

    Raises ValueError unless ``p`` is in (0, 1].

    >>> tk.random.geometric((3,), p=1.0).tolist()
    [1, 1, 1]
    """
    p = parameter("geometric", "p", p, "chance")
    plan = make_plan("geometric", shape, dtype, device, p, counts=True)
    with numbers("geometric", generator, plan) as address:
        waiting = random_standard(plan.shape, *address, kind="exponential", dtype=dtypes.float64, device=plan.device)
        trials = ceil(waiting / -random_log1p(-astype(as_tensor(p, plan), dtypes.float64)))
        whole = astype(minimum(maximum(trials, 1.0), 2.0**63 - 1024), dtypes.int64)
        return plan.counted("geometric", whole)


@public_in("tenkey.random")
def poisson(
    shape: Shape = None, *, lam: Parameter = 1.0, dtype: Any = None, device: Any = None,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw counts of a Poisson process with the mean ``lam``, a number or a tensor (int64).

    Raises ValueError unless ``lam`` is in [0, 2**62]. Source: Hörmann 1993 (PTRS), inversion below a mean of 10.

    >>> tk.random.poisson((2, 3), lam=4.5).dtype
    dtype('int64')
    """
    lam = parameter("poisson", "lam", lam, "rate")
    plan = make_plan("poisson", shape, dtype, device, lam, counts=True)
    with numbers("poisson", generator, plan, REJECTING) as address:
        return plan.counted("poisson", _reject("poisson", plan, address, lam))


@public_in("tenkey.random")
def binomial(
    shape: Shape = None, *, n: Parameter, p: Parameter, dtype: Any = None, device: Any = None,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw the number of successes in ``n`` independent trials of probability ``p`` (int64); numbers or tensors.

    Raises ValueError unless ``n`` is a whole number in [0, 2**53) and ``p`` in [0, 1]. Source: Hörmann 1993 (BTRS),
    inversion below a mean of 10.

    >>> x = tk.random.binomial((10,), n=5, p=0.3)
    >>> bool(tk.all(x >= 0)) and bool(tk.all(x <= 5))
    True
    """
    n, p = parameter("binomial", "n", n, "count"), parameter("binomial", "p", p, "probability")
    plan = make_plan("binomial", shape, dtype, device, n, p, counts=True)
    with numbers("binomial", generator, plan, REJECTING) as address:
        return plan.counted("binomial", _reject("binomial", plan, address, n, p))


@public_in("tenkey.random")
def negative_binomial(
    shape: Shape = None, *, n: Parameter, p: Parameter, dtype: Any = None, device: Any = None,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw the number of failures before the n-th success, in independent trials of probability ``p`` (int64).

    ``n`` is positive, not necessarily whole. The number is a Poisson number whose mean is a gamma number. Raises
    ValueError unless ``p`` is in (0, 1] and the mean ``n (1 - p) / p`` at most 2**62.

    >>> tk.random.negative_binomial((3,), n=2, p=1.0).tolist()
    [0, 0, 0]
    """
    name = "negative_binomial"
    n, p = parameter(name, "n", n, "positive"), parameter(name, "p", p, "chance")
    plan = make_plan(name, shape, dtype, device, n, p, counts=True)
    n, p = (astype(as_tensor(value, plan), dtypes.float64) for value in (n, p))
    odds = (1.0 - p) / p
    parameter(name, "the mean n (1 - p) / p", n * odds, "rate")
    with numbers(name, generator, plan, 2 * REJECTING) as address:
        places, other = addresses(plan, address, 2), as_tensor(0.0, plan)
        rate = random_rejection(n, other, places[..., 0, :], address[0], kind="gamma") * odds
        return plan.counted(
            name, random_rejection(minimum(rate, 2.0**62), other, places[..., 1, :], address[0], kind="poisson")
        )


@public_in("tenkey.random")
def logseries(
    shape: Shape = None, *, p: Parameter, dtype: Any = None, device: Any = None, generator: Generator | None = None
) -> Tensor:
    """Draw from the logarithmic series distribution: k = 1, 2, ... has the probability -p**k / (k log(1 - p)).

    The numbers are int64. Raises ValueError unless ``p`` is in [0, 1). Source: Kemp 1981 (LK).

    >>> tk.random.logseries((3,), p=0.0).tolist()
    [1, 1, 1]
    """
    p = parameter("logseries", "p", p, "below one")
    plan = make_plan("logseries", shape, dtype, device, p, counts=True)
    with numbers("logseries", generator, plan, REJECTING) as address:
        return plan.counted("logseries", _reject("logseries", plan, address, p))


@public_in("tenkey.random")
def zipf(
    shape: Shape = None, *, a: Parameter, dtype: Any = None, device: Any = None, generator: Generator | None = None
) -> Tensor:
    """Draw from the zeta distribution: k = 1, 2, ... has a probability proportional to k**-a, a > 1 (int64).

    Restricted to numbers below 2**63, which matters only for ``a`` near 1. Source: Devroye 1986.

    >>> bool(tk.all(tk.random.zipf((10,), a=2.0) >= 1))
    True
    """
    a = parameter("zipf", "a", a, "exponent")
    plan = make_plan("zipf", shape, dtype, device, a, counts=True)
    with numbers("zipf", generator, plan, REJECTING) as address:
        return plan.counted("zipf", _reject("zipf", plan, address, a))


@public_in("tenkey.random")
def hypergeometric(
    shape: Shape = None, *, ngood: Parameter, nbad: Parameter, nsample: Parameter, dtype: Any = None,
    device: Any = None, generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw how many of ``nsample`` elements, taken without replacement from ``ngood + nbad``, are good (int64).

    Raises ValueError unless all are whole numbers of at least 0, and ``nsample`` at most ``ngood + nbad``. Source:
    Stadlober 1989 (HRUA*), inversion below a mean of 10.

    >>> tk.random.hypergeometric((3,), ngood=4, nbad=0, nsample=2).tolist()
    [2, 2, 2]
    """
    name = "hypergeometric"
    ngood, nbad = parameter(name, "ngood", ngood, "count"), parameter(name, "nbad", nbad, "count")
    nsample = parameter(name, "nsample", nsample, "count")
    plan = make_plan(name, shape, dtype, device, ngood, nbad, nsample, counts=True)
    ngood, nbad, nsample = (as_tensor(value, plan) for value in (ngood, nbad, nsample))
    parameter(name, "ngood + nbad - nsample", ngood + nbad - nsample, "nonnegative")
    with numbers(name, generator, plan, REJECTING) as address:
        drawn = random_hypergeometric(ngood, nbad, nsample, addresses(plan, address), address[0])
        return plan.counted(name, drawn)


@public_in("tenkey.random")
def multivariate_hypergeometric(
    colors: Parameter, nsample: Parameter, shape: Shape = None, *, dtype: Any = None, device: Any = None,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw how many of ``nsample`` elements, taken without replacement, have each colour: counts on the last axis.

    ``colors`` has the shape (..., k): how many elements there are of each colour. The result is ``shape + (k,)`` of
    int64; ``shape`` broadcasts with ``nsample`` and the leading axes of ``colors``, which are its default.

    >>> x = tk.random.multivariate_hypergeometric([4, 10, 6], 9, (5,))
    >>> x.shape, x.sum(axis=1).tolist()
    ((5, 3), [9, 9, 9, 9, 9])
    """
    name = "multivariate_hypergeometric"
    colors, nsample = parameter(name, "colors", colors, "count"), parameter(name, "nsample", nsample, "count")
    if not isinstance(colors, Tensor) or colors.ndim == 0 or colors.shape[-1] == 0:
        given = colors.shape if isinstance(colors, Tensor) else ()
        raise ValueError(_VECTOR.format(operator=name, name="colors", shape=given))
    k = colors.shape[-1]
    outer = [nsample] if isinstance(nsample, Tensor) else []
    plan = make_plan(name, shape, dtype, device, *outer, colors[..., 0], counts=True)
    left, rest = as_tensor(nsample, plan), sum(plan.move(colors), axis=-1)
    parameter(name, "the sum of colors - nsample", rest - left, "nonnegative")
    drawn = []
    with numbers(name, generator, plan, REJECTING * k) as address:
        places = addresses(plan, address, k)
        for j in range(k):  # each colour given those before
            good = plan.move(colors[..., j])
            rest = rest - good
            drawn.append(random_hypergeometric(good, rest, left, places[..., j, :], address[0]))
            left = left - drawn[-1]
    return plan.counted(name, stack(drawn, axis=-1))


def _probabilities(operator: str, p: Any) -> Tensor:
    if not isinstance(p, Tensor) and isinstance(p, (list, tuple)):
        p = asarray(p, dtype=dtypes.float64)  # Python numbers sum to 1 in double precision
    shape: tuple[int, ...] = tuple(getattr(p, "shape", ()))
    if len(shape) == 0 or shape[-1] == 0:
        raise ValueError(_VECTOR.format(operator=operator, name="p", shape=shape))
    checked: Tensor = parameter(operator, "p", p, "probabilities")
    return checked.detach()


@public_in("tenkey.random")
def multinomial(
    n: Parameter, p: Parameter, shape: Shape = None, *, dtype: Any = None, device: Any = None,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Draw how often each of k categories occurs in ``n`` trials: counts that sum to ``n`` on the last axis (int64).

    ``p`` has the shape (..., k) and sums to 1 along the last axis. The result is ``shape + (k,)``; ``shape`` broadcasts
    with ``n`` and the leading axes of ``p``, which are its default.

    >>> x = tk.random.multinomial(20, [0.2, 0.3, 0.5], (4,))
    >>> x.shape, x.sum(axis=1).tolist()
    ((4, 3), [20, 20, 20, 20])
    """
    n, p = parameter("multinomial", "n", n, "count"), _probabilities("multinomial", p)
    rows = p[..., 0]
    plan = make_plan("multinomial", shape, dtype, device, *([n] if isinstance(n, Tensor) else []), rows, counts=True)
    with numbers("multinomial", generator, plan, REJECTING * p.shape[-1]) as address:
        places = addresses(plan, address, p.shape[-1])
        return plan.counted("multinomial", random_counts(as_tensor(n, plan), plan.move(p), places, address[0]))


@public_in("tenkey.random")
def categorical(
    p: Parameter, shape: Shape = None, *, dtype: Any = None, device: Any = None, generator: Generator | None = None
) -> Tensor:
    """Draw indices of categories (int64) with the probabilities on the last axis of ``p``, which sum to 1.

    ``p`` has the shape (..., k). ``shape`` broadcasts with the leading axes of ``p``, which are its default. For
    unnormalised log-probabilities pass ``tk.softmax(logits)``.

    >>> tk.random.categorical([0.0, 1.0, 0.0], (3,)).tolist()
    [1, 1, 1]
    """
    p = _probabilities("categorical", p)
    plan = make_plan("categorical", shape, dtype, device, p[..., 0], counts=True)
    with numbers("categorical", generator, plan) as address:
        unit = random_uniform(plan.shape, *address, dtype=dtypes.float64, device=plan.device)
        return plan.counted("categorical", random_category(plan.move(p), unit))


def _permutation(operator: str, n: int, device: Any, generator: Any) -> Tensor:
    with numbers(operator, generator, Plan((n,), dtypes.int64, device)) as address:
        return random_permutation(n, *address, device=device)


def _population(given: Any) -> Any:
    """Return arrays and sequences of numbers as tensors; a 0-d array is a number."""
    if isinstance(given, (list, tuple)) or (isinstance(given, np.ndarray) and given.ndim):
        return asarray(given)
    return given


@public_in("tenkey.random")
def permutation(x: Tensor | int, *, axis: int = 0, device: Any = None, generator: Generator | None = None) -> Tensor:
    """Return 0 to x - 1 in random order, or a copy of a tensor with its slices along ``axis`` in random order.

    >>> sorted(tk.random.permutation(4).tolist())
    [0, 1, 2, 3]
    >>> tk.random.permutation(tk.ones((2, 5)), axis=1).shape
    (2, 5)
    """
    x = _population(x)
    if isinstance(x, Tensor):
        axis = _checked_axis("permutation", axis, x.ndim)
        return take(x, _permutation("permutation", x.shape[axis], x.device, generator), axis=axis)
    message = f"[permutation] x must be a tensor or an integer of at least 0, got {shown(x)}."
    if isinstance(x, bool):
        raise TypeError(message)
    return _permutation("permutation", checked_integer(x, message), device, generator)


def _checked_axis(operator: str, axis: int, ndim: int) -> int:
    try:
        i = index(axis)
    except TypeError:
        raise TypeError(f"[{operator}] axis must be an int, got {shown(axis)}.") from None
    if not -ndim <= i < ndim:
        raise IndexError(f"[{operator}] axis {i} is out of range for a tensor of {ndim} dimensions.")
    return i % ndim


@public_in("tenkey.random")
def shuffle(x: Tensor, *, axis: int = 0, generator: Generator | None = None) -> Tensor:
    """Put the slices of a tensor along ``axis`` in random order, in place, and return the tensor.

    >>> x = tk.arange(4)
    >>> tk.random.shuffle(x) is x, sorted(x.tolist())
    (True, [0, 1, 2, 3])
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"[shuffle] x must be a tensor, got {type(x).__name__}: tk.random.permutation takes a number.")
    x.copy_(permutation(x, axis=axis, generator=generator))
    return x


@public_in("tenkey.random")
def permuted(x: Tensor, *, axis: int | None = None, generator: Generator | None = None) -> Tensor:
    """Return a copy of a tensor with the elements along ``axis`` in random order, each line in an order of its own.

    With ``axis=None`` all elements of the tensor change places. ``permutation`` moves whole slices instead.

    >>> x = tk.random.permuted(tk.reshape(tk.arange(6), (2, 3)), axis=1)
    >>> [sorted(line) for line in x.tolist()]
    [[0, 1, 2], [3, 4, 5]]
    """
    x = _population(x)
    if not isinstance(x, Tensor):
        raise TypeError(f"[permuted] x must be a tensor, got {type(x).__name__}: tk.random.permutation takes a number.")
    if axis is None:
        return reshape(permutation(reshape(x, (-1,)), generator=generator), x.shape)
    last = moveaxis(x, _checked_axis("permuted", axis, x.ndim), -1)
    with numbers("permuted", generator, Plan(last.shape, dtypes.float64, x.device)) as address:
        keys = random_uniform(last.shape, *address, dtype=dtypes.float64, device=x.device)
    return moveaxis(take_along_axis(last, random_order(keys), axis=-1), -1, axis)


@public_in("tenkey.random")
def choice(
    a: Tensor | int, shape: Shape = (), *, replace: bool = True, p: Parameter = None, axis: int = 0, device: Any = None,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Return a random selection of slices of ``a`` along ``axis``, or of the numbers 0 to a - 1.

    ``shape`` replaces the axis. ``replace=False`` selects each slice at most once; ``p`` are the probabilities of the
    slices (by default equal), applied to one selection after the other. Raises ValueError for more slices than there
    are.

    >>> sorted(tk.random.choice(3, (3,), replace=False).tolist())
    [0, 1, 2]
    >>> tk.random.choice(tk.asarray([10, 20, 30]), (2,), p=[0.0, 1.0, 0.0]).tolist()
    [20, 20]
    """
    sizes = sizes_of("choice", shape)
    wanted = prod(sizes)
    a = _population(a)
    if isinstance(a, Tensor):
        axis, device = _checked_axis("choice", axis, a.ndim), a.device
        count = a.shape[axis]
    elif isinstance(a, bool) or not hasattr(a, "__index__"):
        raise TypeError(_POPULATION.format(axis=axis, given=repr(a)))
    else:
        count = a.__index__()
    if count < 0 or (count == 0 and wanted):
        raise ValueError(_POPULATION.format(axis=axis, given=a.shape if isinstance(a, Tensor) else a))
    weights = None if p is None else _probabilities("choice", p)
    if weights is not None and weights.shape != (count,):
        raise ValueError(
            f"[choice] p must be one-dimensional with {count} probabilities, one for each choice, got {weights.shape}."
        )
    chosen = _chosen(sizes, wanted, count, replace, weights, device, generator)
    if not isinstance(a, Tensor):
        return chosen
    picked = take(a, reshape(chosen, (-1,)), axis=axis)
    return reshape(picked, (*a.shape[:axis], *sizes, *a.shape[axis + 1 :]))


def _chosen(
    sizes: tuple[int, ...], wanted: int, count: int, replace: bool, weights: Tensor | None, device: Any, generator: Any
) -> Tensor:
    if replace:
        if weights is not None:
            return categorical(weights, sizes, generator=generator)
        plan = Plan(sizes, dtypes.int64, device)
        with numbers("choice", generator, plan) as address:
            return random_integers(sizes, *address, low=0, high=count or 1, dtype=dtypes.int64, device=device)
    possible = count if weights is None else int((weights > 0).sum())
    if wanted > possible:
        raise ValueError(
            f"[choice] got a shape of {wanted} different elements, and {possible} have a positive probability: pass "
            "replace=True, or a smaller shape."
        )
    if weights is None:
        return reshape(_permutation("choice", count, device, generator)[:wanted], sizes)
    # The order of exponential waiting times is that of successive selections (Efraimidis and Spirakis 2006).
    plan = Plan((count,), dtypes.float64, weights.device)
    waiting = standard("choice", generator, plan, "exponential") / weights
    return reshape(random_order(waiting)[:wanted], sizes)
