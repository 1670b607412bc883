"""Random numbers, addressed by element: a key and a start determine each (``tenkey.random`` keeps the state).

Only factories draw; vmap recognizes them by their arguments ``seed``, ``stream`` and ``start``. A sampler whose numbers
depend on tensors is a plain function of these and of the result of a factory: ``random_addresses`` gives each element
the place of its bits, so that a batch of addresses gives a batch of numbers under each randomness policy. Guarded by
``test_random.py::TestVmap``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...core import random as core_random
from ...core.dtypes import names as dtypes
from ...core.dtypes.limits import finfo, iinfo
from ...core.tensor import Tensor
from ...dispatch.tags import Tag
from ..declare import Decomposition, ElementPlan, Entry, TensorSpec, broadcast, checked, core_dims, factory, internal
from ..scalar import index, where
from . import random_decompositions as decompositions
from .random_bits import random_double_exp, random_double_log1p


def _float_meta(shape: Any, seed: int, stream: int, start: int, *, dtype: Any = None, **rest: Any) -> TensorSpec:
    return TensorSpec(tuple(shape), dtype or dtypes.default_float())


def _integer_meta(shape: Any, seed: int, stream: int, start: int, *, dtype: Any = None, **rest: Any) -> TensorSpec:
    return TensorSpec(tuple(shape), dtype or dtypes.int64)


def _draw(
    name: str,
    what: str,
    options: str = "",
    *,
    shape: str = "int[1] shape",
    meta: Callable[..., TensorSpec] = _float_meta,
    **kernels: Any,
) -> Entry:
    return factory(
        f"{name}({shape}, int seed, int stream, int start, *, {options}Device? device=None) -> Tensor",
        meta=meta,
        tags=(Tag.INTERNAL,),
        **kernels,
        doc=f"Draw {what}, from the 128-bit key (seed, stream), beginning with element ``start`` of its sequence.",
    )


random_uniform = _draw(
    "random_uniform", "uniform numbers in [low, high)", "float low=0.0, float high=1.0, DType? dtype=None, ",
    decomposition=Decomposition(decompositions.uniform),
)  # fmt: skip
random_normal = _draw(
    "random_normal", "standard normal numbers", "DType? dtype=None, ",
    decomposition=Decomposition(decompositions.normal),
)  # fmt: skip
random_integers = _draw(
    "random_integers", "integers in [low, high)", "int low, int high, DType? dtype=None, ", meta=_integer_meta,
    decomposition=Decomposition(decompositions.integers),
)  # fmt: skip
random_permutation = _draw(
    "random_permutation",
    "the numbers 0 to n - 1 in random order",
    shape="int n",
    meta=lambda n, seed, stream, start, *, device=None: TensorSpec((n,), dtypes.int64),
    decomposition=Decomposition(decompositions.permutation, needs=("sort",)),
)


def _standard_on_numpy(
    shape: Any, seed: int, stream: int, start: int, *, kind: str = "exponential", dtype: Any = None, device: Any = None
) -> Any:
    sizes = tuple(shape)
    drawn = core_random.samplers.standard(
        kind, (seed, stream), math.prod(sizes), dtype or dtypes.default_float(), start
    )
    return drawn.reshape(sizes)


random_standard = _draw(
    "random_standard",
    "numbers of a standard distribution",
    "str kind='exponential', DType? dtype=None, ",
    numpy=_standard_on_numpy,
    decomposition=Decomposition(decompositions.standard),
)


def _addresses_on_numpy(shape: Any, seed: int, stream: int, start: int, *, device: Any = None) -> Any:
    sizes = tuple(shape)
    result = np.empty((*sizes, 2), np.uint64)
    steps = np.arange(math.prod(sizes), dtype=np.uint64) * np.uint64(core_random.samplers.BLOCKS_PER_ELEMENT)
    result[..., 0] = steps.reshape(sizes) + np.uint64(start)
    result[..., 1] = stream
    return result


def _address_elements(T: Any) -> Any:
    return lambda stream, start: where((index() & 1) == 0, (index() >> 1) * 64 + start, stream)


random_addresses = _draw(
    "random_addresses",
    "the addresses of elements that are sampled by rejection (64 blocks each)",
    meta=lambda shape, seed, stream, start, *, device=None: TensorSpec((*shape, 2), dtypes.uint64),
    numpy=_addresses_on_numpy,
    elements=lambda shape, seed, stream, start, *, device=None: ElementPlan(
        _address_elements, dtypes.uint64, {"stream": stream, "start": start}
    ),
)


# ---- functions of the drawn numbers, on leading axes that broadcast


def _real(operator: str, *tensors: Any, floating: bool = False) -> None:
    for x in tensors:
        if not (dtypes.is_real_floating(x.dtype) or (x.dtype.kind in "iu" and not floating)):
            raise TypeError(f"[{operator}] got dtype {x.dtype}: the parameters of distributions must be real numbers.")


def _at_least(operator: str, x: Any, ndim: int) -> None:
    if x.ndim < ndim:
        raise ValueError(f"[{operator}] needs at least {ndim} dimensions, got shape {x.shape}.")


def _check_address(operator: str, addresses: Any, seed: int) -> None:
    _at_least(operator, addresses, 1)
    if addresses.dtype != dtypes.uint64 or addresses.shape[-1] != 2:
        raise TypeError(f"[{operator}] needs addresses: uint64, in pairs; got {addresses.dtype} {addresses.shape}.")
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"[{operator}] got the seed {seed}: it must be in [0, 2**64).")


def _rejection_meta(first: Any, second: Any, addresses: Any, seed: int, *, kind: str) -> TensorSpec:
    _real("random_rejection", first, second)
    _check_address("random_rejection", addresses, seed)
    shape = np.broadcast_shapes(first.shape, second.shape, addresses.shape[:-1])
    return TensorSpec(shape, dtypes.int64 if kind in core_random.samplers.WHOLE else dtypes.float64)


def _rejection_on_numpy(first: Any, second: Any, addresses: Any, seed: int, *, kind: str) -> Any:
    drawn = core_random.samplers.rejection(kind, first, second, addresses, seed)
    if kind in core_random.samplers.WHOLE:
        return np.minimum(drawn, 2.0**63 - 1024).astype(np.int64)
    return drawn


def _addresses_of(*shape: int) -> Any:
    return _addresses_on_numpy(shape, 0, 3, 0)


random_rejection = internal(
    "random_rejection(Tensor first, Tensor second, Tensor addresses, int seed, *, str kind) -> Tensor",
    meta=_rejection_meta,
    numpy=_rejection_on_numpy,
    decomposition=checked(_rejection_meta, decompositions.rejection),
    sample_inputs=lambda rng: (
        [
            ((rng.uniform(1, 20, (2, 3)), np.ones(3), _addresses_of(2, 3), 5), {"kind": kind})
            for kind in ("gamma", "log_gamma", "poisson", "vonmises", "zipf")
        ]
        + [
            ((np.array(40.0), rng.uniform(0, 1, (0, 3)), _addresses_of(3), 5), {"kind": "binomial"}),
            ((np.array(-1.0), np.array(3.0), _addresses_of(), 5), {"kind": "truncated_normal"}),
        ]
    ),
    batch=core_dims(0, 0, 1),
    doc="Sample by rejection, each number from its own address; see Note [Addresses of rejection samplers].",
)


def _hypergeometric_meta(good: Any, bad: Any, sample: Any, addresses: Any, seed: int) -> TensorSpec:
    _real("random_hypergeometric", good, bad, sample)
    _check_address("random_hypergeometric", addresses, seed)
    return TensorSpec(np.broadcast_shapes(good.shape, bad.shape, sample.shape, addresses.shape[:-1]), dtypes.int64)


random_hypergeometric = internal(
    "random_hypergeometric(Tensor good, Tensor bad, Tensor sample, Tensor addresses, int seed) -> Tensor",
    meta=_hypergeometric_meta,
    numpy=lambda good, bad, sample, addresses, seed: core_random.samplers.rejection(
        "hypergeometric", good, bad, addresses, seed, sample
    ).astype(np.int64),
    decomposition=checked(_hypergeometric_meta, decompositions.hypergeometric),
    sample_inputs=lambda rng: [
        ((np.array([5.0, 90.0, 1000.0]), np.array(70.0), np.array([[3], [60]]), _addresses_of(2, 3), 5), {}),
        ((np.array(7.0), np.array(3.0), np.zeros(0), _addresses_of(0), 5), {}),
    ],
    batch=core_dims(0, 0, 0, 1),
    doc="Return how many of a sample drawn without replacement are of the first of two kinds.",
)


def _counts_meta(trials: Any, probabilities: Any, addresses: Any, seed: int) -> TensorSpec:
    _real("random_counts", trials, probabilities)
    _check_address("random_counts", addresses, seed)
    _at_least("random_counts", probabilities, 1)
    _at_least("random_counts", addresses, 2)
    outer = np.broadcast_shapes(trials.shape, probabilities.shape[:-1], addresses.shape[:-2])
    return TensorSpec((*outer, probabilities.shape[-1]), dtypes.int64)


random_counts = internal(
    "random_counts(Tensor trials, Tensor probabilities, Tensor addresses, int seed) -> Tensor",
    meta=_counts_meta,
    numpy=lambda trials, probabilities, addresses, seed: core_random.samplers.multinomial(
        trials, probabilities, addresses, seed
    ),
    decomposition=checked(_counts_meta, decompositions.counts, "scan", "gather"),
    sample_inputs=lambda rng: [
        ((np.array([10, 50]), np.array([0.25, 0.5, 0.25]), _addresses_of(2, 3), 5), {}),
        ((np.array(7), np.full((0, 4), 0.25), _addresses_of(0, 4), 5), {}),
    ],
    batch=core_dims(0, 1, 2),
    doc="Return counts of a multinomial distribution, along a new last axis.",
)


def _category_on_numpy(weights: Any, uniform: Any) -> Any:
    # Rows are summed one after another, from left to right, so that every layout gives the same sums.
    sums = np.cumsum(weights, axis=-1, dtype=np.float64)
    outer = np.broadcast_shapes(weights.shape[:-1], uniform.shape)
    result = np.zeros(outer, np.int64)
    if not result.size:
        return result
    last = weights.shape[-1] - 1 - np.argmax((weights > 0)[..., ::-1], axis=-1)
    if weights.ndim == 1:
        places = np.searchsorted(sums, uniform * sums[-1], side="right")
        return np.minimum(places, last).astype(np.int64).reshape(outer)
    target = uniform * sums[..., -1]
    for j in range(weights.shape[-1]):
        result += sums[..., j] <= target
    return np.minimum(result, last)


def _category_meta(weights: Any, uniform: Any) -> TensorSpec:
    _real("random_category", weights, uniform)
    _at_least("random_category", weights, 1)
    return TensorSpec(np.broadcast_shapes(weights.shape[:-1], uniform.shape), dtypes.int64)


random_category = internal(
    "random_category(Tensor weights, Tensor uniform) -> Tensor",
    meta=_category_meta,
    numpy=_category_on_numpy,
    decomposition=checked(_category_meta, decompositions.category, "reduction", "scan"),
    sample_inputs=lambda rng: [
        ((np.array([0.25, 0.0, 0.75]), rng.uniform(0, 1, (2, 3))), {}),
        ((rng.uniform(0, 1, (2, 4)), rng.uniform(0, 1, (3, 2))), {}),
        ((rng.uniform(0, 1, (2, 4)), rng.uniform(0, 1, (0, 2))), {}),
    ],
    batch=core_dims(1, 0),
    doc="Return the category of a number in [0, 1), by weights along the last axis.",
)


def _order_meta(keys: Any) -> TensorSpec:
    _real("random_order", keys)
    _at_least("random_order", keys, 1)
    return TensorSpec(keys.shape, dtypes.int64)


random_order = internal(
    "random_order(Tensor keys) -> Tensor",
    meta=_order_meta,
    numpy=lambda keys: np.argsort(keys, axis=-1, kind="stable").astype(np.int64, copy=False),
    decomposition=checked(_order_meta, decompositions.order, "sort"),
    sample_inputs=lambda rng: [((rng.permutation(6).reshape(2, 3).astype(float),), {}), ((np.ones((2, 0)),), {})],
    batch=core_dims(1),
    doc="Return the indices that sort the last axis.",
)


def _factor_on_numpy(cov: Any) -> Any:
    """Return the lower factor of positive semidefinite matrices, column by column; a column without a pivot is 0."""
    left = cov.astype(np.float64)
    k = cov.shape[-1]
    tolerance = k * 1e-2 * _slack(cov)[..., 0]
    result = np.zeros_like(left)
    for j in range(k):
        pivot = left[..., j, j][..., None]
        positive = pivot > tolerance
        column = np.where(positive, left[..., j] / np.sqrt(np.where(positive, pivot, 1.0)), 0.0)
        column[..., :j] = 0.0
        result[..., j] = column
        left -= column[..., :, None] * column[..., None, :]
    return result


def _slack(cov: Any) -> Any:
    """Return how far rounding in the dtype may take a matrix from a covariance matrix."""
    largest = np.max(np.abs(cov.astype(np.float64)), axis=(-2, -1), keepdims=True, initial=0.0)
    return largest * (1e-10 if cov.dtype.kind in "iu" else 1e3 * float(finfo(cov.dtype).eps))


def _is_psd(cov: Any) -> Any:
    wide, slack = cov.astype(np.float64), _slack(cov)
    symmetric = np.abs(wide - np.swapaxes(wide, -1, -2)) <= slack
    factor = _factor_on_numpy(cov)
    return symmetric & (np.abs(factor @ np.swapaxes(factor, -1, -2) - wide) <= slack)


def _covariances(rng: Any) -> Any:
    roots = rng.uniform(-1, 1, (2, 3, 3))
    return [((roots @ np.swapaxes(roots, -1, -2),), {}), ((np.eye(2),), {}), ((np.zeros((0, 2, 2)),), {})]


def _factor_meta(cov: Any) -> TensorSpec:
    _real("random_factor", cov, floating=True)
    return TensorSpec(cov.shape, dtypes.float64)


random_factor = internal(
    "random_factor(Tensor cov) -> Tensor",
    meta=_factor_meta,
    numpy=_factor_on_numpy,
    decomposition=checked(_factor_meta, decompositions.factor, "reduction"),
    sample_inputs=_covariances,
    batch=core_dims(2),
    doc="Return the lower triangular factor of covariance matrices, which may be singular.",
)


# ---- parameters and functions of them


def _exact(
    name: str, what: str, function: Callable[..., Any], decomposition: Entry, vjp: Callable[..., Any], low: float
) -> Entry:
    def meta(x: Any) -> TensorSpec:
        _real(name, x)
        return TensorSpec(x.shape, dtypes.float64)

    return internal(
        f"{name}(Tensor x) -> Tensor",
        meta=meta,
        numpy=function,
        decomposition=checked(meta, decomposition),
        vjp={"x": vjp},
        sample_inputs=lambda rng: [((rng.uniform(low, 2, shape),), {}) for shape in ((2, 3), (), (0, 2))],
        batch=broadcast,
        doc=f"Return {what} in float64, the same to the last bit on every backend.",
    )


random_exp = _exact(
    "random_exp", "exp(x)", lambda x: core_random.samplers.exact_exp(x), random_double_exp, lambda g, out: g * out, -2
)
random_log1p = _exact(
    "random_log1p",
    "log(1 + x)",
    lambda x: core_random.samplers.exact_log1p(x),
    random_double_log1p,
    lambda g, x: g / (x + 1.0),
    -0.9,
)

# Each rule is a function of a namespace, NumPy or operators under the same names, and of the values.
_RULES: Final[dict[str, tuple[str, Callable[[Any, Any], Any]]]] = {
    "finite": ("finite", lambda m, x: m.isfinite(x)),
    "covariance": (
        "symmetric and without negative eigenvalues (this element shows it)",
        lambda m, x: _is_psd(x),
    ),
    "width": ("above 0", lambda m, x: x > 0),
    "bound": ("a number, not NaN", lambda m, x: ~m.isnan(x)),
    "nonnegative": ("at least 0 and finite", lambda m, x: (x >= 0) & (x < math.inf)),
    "exponent": ("above 1", lambda m, x: x > 1),
    "below one": ("in [0, 1)", lambda m, x: (x >= 0) & (x < 1)),
    "weight": ("at least 0", lambda m, x: ~(x < 0)),
    "positive": ("above 0 and finite", lambda m, x: (x > 0) & (x < math.inf)),
    "probability": ("in [0, 1]", lambda m, x: (x >= 0) & (x <= 1)),
    "chance": ("in (0, 1]", lambda m, x: (x > 0) & (x <= 1)),
    "rate": ("at least 0 and at most 2**62", lambda m, x: (x >= 0) & (x <= 2.0**62)),
    "count": (
        "a whole number of at least 0 and below 2**53",
        lambda m, x: (x >= 0) & (x < 2.0**53) & (x == m.floor(x)),
    ),
}
_INTEGERS: Final = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})


def check_values(operator: str, name: str, rule: str, values: Any) -> None:
    """Raise ValueError unless all values satisfy a rule.

    The rule is one of ``_RULES``, the name of a dtype that must hold the values, or ``probabilities``, which also
    checks the sums along the last axis.
    """
    if rule in _INTEGERS:
        limits = iinfo(rule)
        limit = f"at least {limits.min}" if np.any(values < limits.min) else f"at most {limits.max}"
        words = f"{limit} for the dtype {rule}"
        good = (values >= limits.min) & (values <= limits.max)
    else:
        words, holds = _RULES["probability" if rule == "probabilities" else rule]
        good = holds(np, values)
    if not np.all(good):
        wrong = np.asarray(values)[~np.asarray(good)].reshape(-1)[0]
        raise ValueError(f"[{operator}] {name} must be {words}, got {wrong}.")
    if rule == "probabilities":
        sums = np.asarray(np.sum(values, axis=-1, dtype=np.float64))
        off = np.abs(sums - 1.0) > _tolerance(values.dtype)
        if np.any(off):
            raise ValueError(
                f"[{operator}] {name} must be probabilities that sum to 1 along the last axis, got the "
                f"sum {sums[off].reshape(-1)[0]}: divide by it."
            )


def _tolerance(dtype: np.dtype) -> float:
    """Return how far a sum of probabilities may be from 1, because they are rounded in narrow dtypes."""
    return max(1e-8, 8 * float(finfo(dtype).eps if dtype.kind != "i" else 0.0))


def _checked_on_device(x: Tensor, *, caller: str, name: str, rule: str) -> Tensor:
    """Evaluate the rule on the device, and read the values only where the error is to name one of them."""
    if rule in _INTEGERS:
        limits = iinfo(rule)
        good = decompositions.hold(lambda m, x: (x >= limits.min) & (x <= limits.max), x)
    elif rule == "covariance":
        good = False  # the host tests them: they are small
    else:
        good = decompositions.hold(_RULES["probability" if rule == "probabilities" else rule][1], x)
        if rule == "probabilities" and good:
            most = _tolerance(x.dtype)
            good = decompositions.hold(lambda m, x: m.abs(m.sum(x, axis=-1, dtype=dtypes.float64) - 1.0) <= most, x)
    if not good:
        check_values(caller, name, rule, x.numpy())
    return x.clone()


def _checked_on_numpy(x: Any, *, caller: str, name: str, rule: str) -> Any:
    check_values(caller, name, rule, x)
    return x.copy()


random_checked = internal(
    "random_checked(Tensor x, *, str caller, str name, str rule) -> Tensor",
    meta=lambda x, *, caller, name, rule: TensorSpec(x.shape, x.dtype),
    numpy=_checked_on_numpy,
    decomposition=Decomposition(_checked_on_device, ("reduction",)),
    vjp={"x": lambda g: g},
    sample_inputs=lambda rng: [
        ((rng.uniform(0, 1, shape),), {"caller": "test", "name": "x", "rule": "finite"})
        for shape in ((2, 3), (), (0, 2))
    ],
    batch=broadcast,
    doc="Return a copy of a parameter of a distribution, or of weights, after checking the values.",
)
