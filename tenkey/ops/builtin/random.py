"""Random numbers, addressed by element: a key and a start decide every number (``tenkey.random`` keeps the state)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...core.dtypes import names as dtypes
from ...core.dtypes.limits import finfo, iinfo
from ...core.random import samplers
from ...dispatch.tags import Tag
from ..declare import TensorSpec, broadcast, core_dims, factory, structured

_DOC = "{what}, from the 128-bit key (seed, stream), beginning with element ``start`` of its sequence."


def _float_meta(shape: Any, seed: int, stream: int, start: int, *, dtype: Any = None, **rest: Any) -> TensorSpec:
    return TensorSpec(tuple(shape), dtype or dtypes.default_float())


random_uniform = factory(
    "random_uniform(int[1] shape, int seed, int stream, int start, *, float low=0.0, float high=1.0,"
    " DType? dtype=None, Device? device=None) -> Tensor",
    meta=_float_meta,
    tags=(Tag.INTERNAL,),
    doc=_DOC.format(what="Uniform numbers in [low, high)"),
)
random_normal = factory(
    "random_normal(int[1] shape, int seed, int stream, int start, *, DType? dtype=None, Device? device=None) -> Tensor",
    meta=_float_meta,
    tags=(Tag.INTERNAL,),
    doc=_DOC.format(what="Standard normal numbers"),
)
random_integers = factory(
    "random_integers(int[1] shape, int seed, int stream, int start, *, int low, int high, DType? dtype=None,"
    " Device? device=None) -> Tensor",
    meta=lambda shape, seed, stream, start, *, low, high, dtype=None, device=None: TensorSpec(
        tuple(shape), dtype or dtypes.int64
    ),
    tags=(Tag.INTERNAL,),
    doc=_DOC.format(what="Integers in [low, high)"),
)
random_permutation = factory(
    "random_permutation(int n, int seed, int stream, int start, *, Device? device=None) -> Tensor",
    meta=lambda n, seed, stream, start, *, device=None: TensorSpec((n,), dtypes.int64),
    tags=(Tag.INTERNAL,),
    doc=_DOC.format(what="The numbers 0 to n - 1 in random order"),
)

# Note [Random numbers with parameters]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# Only factories draw: their arguments ``seed``, ``stream`` and ``start`` are how vmap knows them. A sampler whose
# numbers depend on tensors is a plain function of these and of what a factory drew: ``random_addresses`` gives each
# element the place of its bits, so that a batch of addresses makes a batch of numbers, whatever the policy.
# Guarded by test_random.py::TestVmap.


def _standard_on_numpy(
    shape: Any, seed: int, stream: int, start: int, *, kind: str = "exponential", dtype: Any = None, device: Any = None
) -> Any:
    sizes = tuple(shape)
    drawn = samplers.standard(kind, (seed, stream), math.prod(sizes), dtype or dtypes.default_float(), start)
    return drawn.reshape(sizes)


random_standard = factory(
    "random_standard(int[1] shape, int seed, int stream, int start, *, str kind='exponential', DType? dtype=None,"
    " Device? device=None) -> Tensor",
    meta=_float_meta,
    numpy=_standard_on_numpy,
    tags=(Tag.INTERNAL,),
    doc=_DOC.format(what="Numbers of a standard distribution"),
)


def _addresses_on_numpy(shape: Any, seed: int, stream: int, start: int, *, device: Any = None) -> Any:
    sizes = tuple(shape)
    result = np.empty((*sizes, 2), np.uint64)
    steps = np.arange(math.prod(sizes), dtype=np.uint64) * np.uint64(samplers.BLOCKS_PER_ELEMENT)
    result[..., 0] = steps.reshape(sizes) + np.uint64(start)
    result[..., 1] = stream
    return result


random_addresses = factory(
    "random_addresses(int[1] shape, int seed, int stream, int start, *, Device? device=None) -> Tensor",
    meta=lambda shape, seed, stream, start, *, device=None: TensorSpec((*shape, 2), dtypes.uint64),
    numpy=_addresses_on_numpy,
    tags=(Tag.INTERNAL,),
    doc=_DOC.format(what="The addresses of elements that reject (64 blocks each)"),
)


# ---- functions of what was drawn, on leading axes that broadcast


def _real(operator: str, *tensors: Any, floating: bool = False) -> None:
    for x in tensors:
        if not (dtypes.is_real_floating(x.dtype) or (x.dtype.kind in "iu" and not floating)):
            raise TypeError(f"[{operator}] got dtype {x.dtype}: the parameters of distributions are real numbers.")


def _elementwise_meta(operator: str) -> Callable[[Any], TensorSpec]:
    def rule(x: Any) -> TensorSpec:
        _real(operator, x)
        return TensorSpec(x.shape, dtypes.float64)

    return rule


_INTEGER_KINDS: Final = frozenset({"poisson", "binomial"})


def _rejection_meta(first: Any, second: Any, addresses: Any, seed: int, *, kind: str) -> TensorSpec:
    _real("random_rejection", first, second)
    shape = np.broadcast_shapes(first.shape, second.shape, addresses.shape[:-1])
    return TensorSpec(shape, dtypes.int64 if kind in _INTEGER_KINDS else dtypes.float64)


def _rejection_on_numpy(first: Any, second: Any, addresses: Any, seed: int, *, kind: str) -> Any:
    drawn = samplers.rejection(kind, first, second, addresses, seed)
    if kind in _INTEGER_KINDS:
        return np.minimum(drawn, 2.0**63 - 1024).astype(np.int64)
    return drawn


def _addresses_of(*shape: int) -> Any:
    return _addresses_on_numpy(shape, 0, 3, 0)


random_rejection = structured(
    "random_rejection(Tensor first, Tensor second, Tensor addresses, int seed, *, str kind) -> Tensor",
    meta=_rejection_meta,
    numpy=_rejection_on_numpy,
    differentiable=False,
    sample_inputs=lambda rng: (
        [
            ((rng.uniform(1, 20, (2, 3)), np.ones(3), _addresses_of(2, 3), 5), {"kind": kind})
            for kind in ("gamma", "log_gamma", "poisson")
        ]
        + [
            ((np.array(40.0), rng.uniform(0, 1, (0, 3)), _addresses_of(3), 5), {"kind": "binomial"}),
            ((np.array(-1.0), np.array(3.0), _addresses_of(), 5), {"kind": "truncated_normal"}),
        ]
    ),
    batch=core_dims(0, 0, 1),
    tags=(Tag.INTERNAL,),
    doc="Numbers by rejection, each from its own address; see Note [Addresses of rejection samplers].",
)


def _counts_meta(trials: Any, probabilities: Any, addresses: Any, seed: int) -> TensorSpec:
    _real("random_counts", trials, probabilities)
    outer = np.broadcast_shapes(trials.shape, probabilities.shape[:-1], addresses.shape[:-2])
    return TensorSpec((*outer, probabilities.shape[-1]), dtypes.int64)


random_counts = structured(
    "random_counts(Tensor trials, Tensor probabilities, Tensor addresses, int seed) -> Tensor",
    meta=_counts_meta,
    numpy=samplers.multinomial,
    differentiable=False,
    sample_inputs=lambda rng: [
        ((np.array([10, 50]), np.array([0.25, 0.5, 0.25]), _addresses_of(2, 3), 5), {}),
        ((np.array(7), np.full((0, 4), 0.25), _addresses_of(0, 4), 5), {}),
    ],
    batch=core_dims(0, 1, 2),
    tags=(Tag.INTERNAL,),
    doc="Counts of a multinomial distribution, on a new last axis.",
)


def _category_on_numpy(weights: Any, uniform: Any) -> Any:
    # The sums are those of one row after the other, from left to right: the same in any layout.
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
    return TensorSpec(np.broadcast_shapes(weights.shape[:-1], uniform.shape), dtypes.int64)


random_category = structured(
    "random_category(Tensor weights, Tensor uniform) -> Tensor",
    meta=_category_meta,
    numpy=_category_on_numpy,
    differentiable=False,
    sample_inputs=lambda rng: [
        ((np.array([0.25, 0.0, 0.75]), rng.uniform(0, 1, (2, 3))), {}),
        ((rng.uniform(0, 1, (2, 4)), rng.uniform(0, 1, (3, 2))), {}),
        ((rng.uniform(0, 1, (2, 4)), rng.uniform(0, 1, (0, 2))), {}),
    ],
    batch=core_dims(1, 0),
    tags=(Tag.INTERNAL,),
    doc="The category that a number of [0, 1) falls into, by weights on the last axis.",
)


random_order = structured(
    "random_order(Tensor keys) -> Tensor",
    meta=lambda keys: TensorSpec(keys.shape, dtypes.int64),
    numpy=lambda keys: np.argsort(keys, axis=-1, kind="stable").astype(np.int64, copy=False),
    differentiable=False,
    sample_inputs=lambda rng: [((rng.permutation(6).reshape(2, 3).astype(float),), {}), ((np.ones((2, 0)),), {})],
    batch=core_dims(1),
    tags=(Tag.INTERNAL,),
    doc="The indices that sort the last axis.",
)


def _factor_on_numpy(cov: Any) -> Any:
    """The lower factor of positive semidefinite matrices, column by column; a column without a pivot is 0."""
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
    """How far rounding in the dtype may lead a matrix from a covariance."""
    largest = np.max(np.abs(cov.astype(np.float64)), axis=(-2, -1), keepdims=True, initial=0.0)
    return largest * (1e-10 if cov.dtype.kind in "iu" else 1e3 * float(finfo(cov.dtype).eps))


def _is_covariance(cov: Any) -> Any:
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


random_factor = structured(
    "random_factor(Tensor cov) -> Tensor",
    meta=_factor_meta,
    numpy=_factor_on_numpy,
    differentiable=False,
    sample_inputs=_covariances,
    batch=core_dims(2),
    tags=(Tag.INTERNAL,),
    doc="The lower triangular factor of covariance matrices, singular ones included.",
)


# ---- parameters and functions of them


random_exp = structured(
    "random_exp(Tensor x) -> Tensor",
    meta=_elementwise_meta("random_exp"),
    numpy=samplers.exact_exp,
    vjp={"x": lambda g, out: g * out},
    sample_inputs=lambda rng: [((rng.uniform(-2, 2, shape),), {}) for shape in ((2, 3), (), (0, 2))],
    batch=broadcast,
    tags=(Tag.INTERNAL,),
    doc="The exponential in float64, equal to the last bit on every backend.",
)

random_log1p = structured(
    "random_log1p(Tensor x) -> Tensor",
    meta=_elementwise_meta("random_log1p"),
    numpy=samplers.exact_log1p,
    vjp={"x": lambda g, x: g / (x + 1.0)},
    sample_inputs=lambda rng: [((rng.uniform(-0.9, 2, shape),), {}) for shape in ((2, 3), (), (0, 2))],
    batch=broadcast,
    tags=(Tag.INTERNAL,),
    doc="log(1 + x) in float64, equal to the last bit on every backend.",
)

_RULES: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "finite": ("finite", np.isfinite),
    "covariance": ("symmetric and without negative eigenvalues (this element shows it)", _is_covariance),
    "width": ("above 0", lambda x: x > 0),
    "bound": ("a number, not NaN", lambda x: ~np.isnan(x)),
    "nonnegative": ("at least 0 and finite", lambda x: (x >= 0) & (x < math.inf)),
    "weight": ("at least 0", lambda x: ~(x < 0)),
    "positive": ("above 0 and finite", lambda x: (x > 0) & (x < math.inf)),
    "probability": ("in [0, 1]", lambda x: (x >= 0) & (x <= 1)),
    "chance": ("in (0, 1]", lambda x: (x > 0) & (x <= 1)),
    "rate": ("at least 0 and at most 2**62", lambda x: (x >= 0) & (x <= 2.0**62)),
    "count": ("a whole number of at least 0 and below 2**53", lambda x: (x >= 0) & (x < 2.0**53) & (x == np.floor(x))),
}
_NARROW: Final = frozenset({"int8", "int16", "int32", "uint8", "uint16", "uint32"})


def check_values(operator: str, name: str, rule: str, values: Any) -> None:
    """Raise ValueError unless all values keep a rule: one of ``_RULES``, the name of a dtype that must hold them, or

    ``probabilities``, which looks at the sums along the last axis as well.
    """
    if rule in _NARROW:
        limits = iinfo(rule)
        words = f"at most {limits.max} for the dtype {rule}"
        good = (values >= limits.min) & (values <= limits.max)
    else:
        words, holds = _RULES["probability" if rule == "probabilities" else rule]
        good = holds(values)
    if not np.all(good):
        wrong = np.asarray(values)[~np.asarray(good)].reshape(-1)[0]
        raise ValueError(f"[{operator}] {name} must be {words}, got {wrong}.")
    if rule == "probabilities":
        sums = np.asarray(np.sum(values, axis=-1, dtype=np.float64))
        # A sum of k rounded probabilities: what the narrow dtypes can hold of 1, with room for the other terms.
        precision = finfo(values.dtype).eps if values.dtype.kind != "i" else 0.0
        off = np.abs(sums - 1.0) > max(1e-8, 8 * float(precision))
        if np.any(off):
            raise ValueError(
                f"[{operator}] {name} must be probabilities that sum to 1 along the last axis, got the "
                f"sum {sums[off].reshape(-1)[0]}: divide by it."
            )


def _checked_on_numpy(x: Any, *, caller: str, name: str, rule: str) -> Any:
    check_values(caller, name, rule, x)
    return x.copy()


random_checked = structured(
    "random_checked(Tensor x, *, str caller, str name, str rule) -> Tensor",
    meta=lambda x, *, caller, name, rule: TensorSpec(x.shape, x.dtype),
    numpy=_checked_on_numpy,
    vjp={"x": lambda g: g},
    sample_inputs=lambda rng: [
        ((rng.uniform(0, 1, shape),), {"caller": "test", "name": "x", "rule": "finite"})
        for shape in ((2, 3), (), (0, 2))
    ],
    batch=broadcast,
    tags=(Tag.INTERNAL,),
    doc="A parameter of a distribution, or weights, after a look at the values.",
)
