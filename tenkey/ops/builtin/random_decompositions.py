"""Random numbers on devices without kernels of their own: the samplers of ``core/random`` on tensors.

Integers, uniform numbers and addresses have the bits of the CPU. So have floats of other distributions, unless the
device contracts ``a * b + c`` (then they may differ in the last bit of float64), or sums weights in another order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import EllipsisType, SimpleNamespace
from typing import Any, Final

import numpy as np

from ...core import random as core_random
from ...core.dtypes import names as dtypes
from ...core.dtypes.limits import finfo
from ...core.random import draws, philox
from ...core.random import exact_functions as exact
from ...core.tensor import Tensor
from .creation import arange, full, zeros, zeros_like
from .elementwise.arithmetic import abs, maximum, minimum
from .elementwise.comparison import isfinite, isnan, where
from .elementwise.complex import complex_from
from .elementwise.exponential import sqrt
from .elementwise.integers import bitwise_right_shift
from .elementwise.rounding import floor
from .primitives import sort_rows
from .random_bits import (
    random_cosine,
    random_double_exp,
    random_double_log,
    random_double_log1p,
    random_high,
    random_low,
    random_pair,
    random_scaled,
    random_scaled_wide,
    random_sine,
    random_stirling,
    random_word,
)
from .reductions.cumulative import cumulative_sum
from .reductions.reduction import all as all_
from .reductions.reduction import max as max_
from .reductions.reduction import sum as sum_
from .shape.copying import cast, flip, stack
from .shape.views import broadcast_to, reshape

__all__ = [
    "category", "counts", "factor", "hold", "hypergeometric", "integers", "normal", "order", "permutation",
    "rejection", "standard", "uniform",
]  # fmt: skip

_ALL: Final = ...
_FLOAT64: Final = dtypes.float64

# ---- the functions that the samplers compute with: Note [Samplers for arrays and tensors]


def _until_accepted(like: Tensor, attempt: Callable[[EllipsisType, int], tuple[Tensor, Tensor]]) -> Tensor:
    result, accepted = attempt(_ALL, 0)
    for j in range(1, core_random.samplers.ATTEMPTS_PER_ELEMENT):
        candidates, good = attempt(_ALL, 2 * j)
        result = where(accepted, result, candidates)
        accepted = accepted | good
    return result


def _by_inversion(u: Tensor, first: Tensor, ratio: Callable[[EllipsisType, int], Tensor]) -> Tensor:
    result = zeros_like(u)
    going = u > first
    probability = total = first
    for k in range(1, core_random.samplers.INVERSION_STEPS + 1):
        result = where(going, float(k), result)
        probability = probability * ratio(_ALL, k)
        total = total + probability
        going = going & (u > total) & (probability > 0)
    return result


TENSORS: Final = SimpleNamespace(
    abs=abs, by_inversion=_by_inversion, cosine=random_cosine,
    digits=lambda bits, drop: cast(bitwise_right_shift(bits, drop), _FLOAT64), exp=random_double_exp,
    fill=lambda out, condition, function: where(condition, function(_ALL), out), floor=floor,
    log=random_double_log, log1p=random_double_log1p,
    maximum=maximum, minimum=minimum, safe_log=random_double_log, sine=random_sine, sqrt=sqrt,
    stirling_error=random_stirling, until_accepted=_until_accepted, where=where, zeros_like=zeros_like,
)  # fmt: skip


# ---- draws


def _elements(shape: Any, key: tuple[int, int], start: int, device: Any, tag: int = 0) -> tuple[Tensor, Tensor]:
    """Return the element numbers of a draw, with a tag above them, and the stream; arguments of ``random_word``."""
    count = math.prod(shape)
    philox.check_range(key, start, count)
    first = start + (tag << philox.TAG_SHIFT)
    numbers = arange(first, first + count, dtype=dtypes.uint64, device=device)
    return reshape(numbers, tuple(shape)), full((), key[1], dtype=dtypes.uint64, device=device)


def _halves(shape: Any, key: tuple[int, int], start: int, device: Any, tag: int) -> tuple[Tensor, Tensor]:
    address = _elements(shape, key, start, device, tag)
    return random_low(*address, key[0]), random_high(*address, key[0])


def uniform(
    shape: Any, seed: int, stream: int, start: int, *, low: float = 0.0, high: float = 1.0, dtype: Any = None,
    device: Any = None,
) -> Tensor:  # fmt: skip
    """Draw as ``draws.uniform`` does."""
    dtype = dtype or dtypes.default_float()
    draws.uniform((seed, stream), 0, dtype, start, low=low, high=high)  # raises its errors
    address = _elements(shape, (seed, stream), start, device)
    digits = 1 - round(math.log2(finfo(dtype).eps))
    compute = _FLOAT64 if dtype == _FLOAT64 else dtypes.float32
    if compute == _FLOAT64:
        bits = bitwise_right_shift(random_pair(*address, seed), 64 - digits)
    else:
        bits = bitwise_right_shift(random_word(*address, seed), 32 - digits)
    values = cast(bits, compute) * 2.0**-digits
    if low == 0.0 and high == 1.0:
        return cast(values, dtype)
    lowest, highest, below = draws.interval(low, high, dtype)
    width = compute.type(highest) - compute.type(lowest)
    result = cast(values * float(width) + float(lowest), dtype)
    return where(result >= float(highest), float(below), result)


def normal(shape: Any, seed: int, stream: int, start: int, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Draw as ``draws.normal`` does."""
    dtype = dtype or dtypes.default_float()
    draws.normal((seed, stream), 0, dtype, start)  # raises its errors
    low, high = _halves(shape, (seed, stream), start, device, philox.BLOCKS)
    radius, turns = exact.normal(TENSORS, low, high)
    if dtype.kind != "c":
        return cast(radius * random_cosine(turns), dtype)
    part = dtypes.real_of(dtype)
    radius = radius * exact.SQRT_HALF
    return complex_from(cast(radius * random_cosine(turns), part), cast(radius * random_sine(turns), part))


def integers(
    shape: Any, seed: int, stream: int, start: int, *, low: int, high: int, dtype: Any = None, device: Any = None
) -> Tensor:
    """Draw as ``draws.integers`` does."""
    dtype = dtype or dtypes.int64
    draws.integers((seed, stream), low, high, 0, dtype, start)  # raises its errors
    size, offset = high - low, low % (1 << 64)
    if size <= 1 << 32:
        bits = random_pair(*_elements(shape, (seed, stream), start, device), seed)
        return cast(random_scaled(bits, size, offset), dtype)
    lower, upper = _halves(shape, (seed, stream), start, device, philox.BLOCKS)
    if size == 1 << 64:
        return cast(upper + full((), offset, dtype=dtypes.uint64, device=device), dtype)
    return cast(random_scaled_wide(lower, upper, size, offset), dtype)


def permutation(n: int, seed: int, stream: int, start: int, *, device: Any = None) -> Tensor:
    """Draw as ``draws.permutation`` does."""
    return order(random_pair(*_elements((n,), (seed, stream), start, device), seed))


def order(keys: Tensor) -> Tensor:
    """Return the indices that sort the last axis; equal keys keep their order."""
    n = keys.shape[-1]
    return reshape(sort_rows(reshape(keys, (math.prod(keys.shape[:-1]), n)))[1], keys.shape)


def standard(
    shape: Any, seed: int, stream: int, start: int, *, kind: str = "exponential", dtype: Any = None, device: Any = None
) -> Tensor:
    """Draw as ``samplers.standard`` does."""
    halves = _halves(shape, (seed, stream), start, device, philox.STANDARD)
    return cast(core_random.samplers.STANDARD[kind](TENSORS, *halves), dtype or dtypes.default_float())


# ---- functions of tensors


class _Elements:
    """The addresses of all elements: ``_Elements`` of ``samplers`` on tensors."""

    def __init__(self, seed: int, addresses: Tensor) -> None:
        self.seed = seed
        self.blocks = addresses[..., 0] + (philox.ATTEMPTS << philox.TAG_SHIFT)
        self.streams = addresses[..., 1]

    def __getitem__(self, index: Any) -> _Elements:
        return self

    def bits(self, index: Any, block: int) -> tuple[Tensor, Tensor]:
        place = self.blocks + block
        return random_low(place, self.streams, self.seed), random_high(place, self.streams, self.seed)


def rejection(
    first: Tensor, second: Tensor, addresses: Tensor, seed: int, *more: Tensor, kind: str
) -> Tensor:  # fmt: skip
    """Draw as ``samplers.rejection`` does, with all attempts for every element."""
    given = (first, second, *more)
    shape = np.broadcast_shapes(*[p.shape for p in given], addresses.shape[:-1])
    parameters = [broadcast_to(cast(p, _FLOAT64), shape) for p in given]
    elements = _Elements(seed, broadcast_to(addresses, (*shape, 2)))
    drawn: Tensor = core_random.samplers.REJECTION[kind](TENSORS, elements, *parameters)
    return cast(minimum(drawn, 2.0**63 - 1024), dtypes.int64) if kind in core_random.samplers.WHOLE else drawn


def counts(trials: Tensor, probabilities: Tensor, addresses: Tensor, seed: int) -> Tensor:
    """Draw as ``samplers.multinomial`` does."""
    k = probabilities.shape[-1]
    outer = np.broadcast_shapes(trials.shape, probabilities.shape[:-1], addresses.shape[:-2])
    left = broadcast_to(cast(trials, _FLOAT64), outer)
    weights = broadcast_to(cast(probabilities, _FLOAT64), (*outer, k))
    remaining = flip(cumulative_sum(flip(weights, axis=(-1,)), axis=-1), axis=(-1,))
    result = []
    for j in range(k):
        rest = remaining[..., j]
        share = minimum(maximum(weights[..., j] / where(rest > 0, rest, 1.0), 0.0), 1.0)
        found = rejection(left, where(rest > 0, share, 0.0), addresses[..., j, :], seed, kind="binomial")
        result.append(found)
        left = left - cast(found, _FLOAT64)
    if not k:
        return zeros((*outer, 0), dtype=dtypes.int64, device=trials.device)
    return stack(result, axis=-1)


def hypergeometric(good: Tensor, bad: Tensor, sample: Tensor, addresses: Tensor, seed: int) -> Tensor:
    """Draw as ``samplers.rejection`` does with three parameters."""
    return rejection(good, bad, addresses, seed, sample, kind="hypergeometric")


def category(weights: Tensor, uniform: Tensor) -> Tensor:
    """Return the category of each number: the first at which the sum of weights exceeds its share."""
    k = weights.shape[-1]
    sums = cumulative_sum(cast(weights, _FLOAT64), axis=-1)
    target = reshape(uniform * sums[..., -1], (*np.broadcast_shapes(weights.shape[:-1], uniform.shape), 1))
    passed = ~(sums > target) if weights.ndim == 1 else sums <= target  # NaN passes where one row is searched
    places = sum_(cast(passed, dtypes.int64), axis=(-1,))
    last = max_(where(weights > 0, arange(k, device=weights.device), -1), axis=(-1,))
    return minimum(places, where(last < 0, k - 1, last))


def factor(cov: Tensor) -> Tensor:
    """Return the lower factor of positive semidefinite matrices, column by column; a column without a pivot is 0."""
    left = cast(cov, _FLOAT64)
    if not cov.size:
        return left
    k = cov.shape[-1]
    largest = max_(abs(left), axis=(-2, -1))[..., None]
    tolerance = largest * (1e3 * float(finfo(cov.dtype).eps)) * (k * 1e-2)
    rows = arange(k, device=cov.device)
    columns = []
    for j in range(k):
        pivot = left[..., j, j][..., None]
        positive = pivot > tolerance
        scaled = left[..., j] / sqrt(where(positive, pivot, 1.0))
        column = where(positive & (rows >= j), scaled, 0.0)
        columns.append(column)
        left = left - column[..., :, None] * column[..., None, :]
    return stack(columns, axis=-1)


def hold(rule: Callable[[Any, Any], Any], x: Tensor) -> bool:
    """Return whether all values of a tensor satisfy a rule; reads one bool from the device."""
    return bool(all_(rule(_FUNCTIONS, x if x.dtype.kind == "f" else cast(x, _FLOAT64))).item())


_FUNCTIONS: Final = SimpleNamespace(abs=abs, floor=floor, isfinite=isfinite, isnan=isnan, sum=sum_)
