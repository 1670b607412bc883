"""Elementwise functions beyond the array API standard: the rest of NumPy's arithmetic, and activations."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ....core.dtypes.limits import finfo
from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ... import scalar as s
from ...declare import INT_TO_FLOAT, REAL, REAL_TO_FLOAT, SAME, TensorSpec, broadcast, composite, pointwise, structured
from ...shapes import broadcast_shapes
from ..creation import concrete
from .complex import complex_from, imag, real

_ORDERED: Final = SAME._replace(name="ORDERED", accepts="biuf", takes="dtypes with an order, not complex ones")
_INTEGERS: Final = (
    "[{operator}] takes integers, got {dtypes}: convert with tk.astype(x, tk.int64) what has whole values."
)
_DEGREE: Final = math.pi / 180
_LOG2: Final = math.log(2)
_FAR: Final = -1e4  # below it, silu and gelu are 0 in every dtype

fmod = pointwise(
    "fmod(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: _fmod(x1, x2),
    promote=REAL,
    domain=(0.5, 4.0),
    doc="""The remainder of the division that rounds towards zero: it has the sign of the dividend ``x1``.

    Args: x1, x2: tensors of a real numeric dtype, or one of them a Python number. ``tk.remainder`` has the sign of x2.

    >>> import tenkey as tk
    >>> tk.fmod(tk.asarray([7, -7]), 4).tolist()
    [3, -3]
    """,
)


def _fmod(x1: Any, x2: Any) -> Any:
    size = s.remainder(s.abs(x1), s.abs(x2))
    signed = s.where(x1 < 0, -size, size)
    return s.where(s.logical_and(x1 == 0, size == 0), x1, signed)  # the zero that was given


fmax = pointwise(
    "fmax(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.where(s.isnan(x1), x2, s.where(s.isnan(x2), x1, s.maximum(x1, x2))),
    promote=_ORDERED,
    doc="""The larger of two elements; where one is nan, the other. At a tie the two share the gradient equally.

    >>> import tenkey as tk
    >>> tk.fmax(tk.asarray([1.0, float("nan")]), 0.5).tolist()
    [1.0, 0.5]
    """,
)

fmin = pointwise(
    "fmin(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.where(s.isnan(x1), x2, s.where(s.isnan(x2), x1, s.minimum(x1, x2))),
    promote=_ORDERED,
    doc="""The smaller of two elements; where one is nan, the other. At a tie the two share the gradient equally.

    >>> import tenkey as tk
    >>> tk.fmin(tk.asarray([1.0, float("nan")]), 0.5).tolist()
    [0.5, 0.5]
    """,
)

deg2rad = pointwise(
    "deg2rad(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: x * _DEGREE,
    promote=REAL_TO_FLOAT,
    tags=(Tag.INPLACE,),
    doc="""Degrees as radians; integers give floats.

    >>> import tenkey as tk
    >>> tk.deg2rad(tk.asarray([180.0], dtype=tk.float64)).item() == tk.pi
    True
    """,
)

rad2deg = pointwise(
    "rad2deg(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: x * (1 / _DEGREE),
    promote=REAL_TO_FLOAT,
    tags=(Tag.INPLACE,),
    doc="""Radians as degrees; integers give floats.

    >>> import tenkey as tk
    >>> tk.rad2deg(tk.asarray([tk.pi])).tolist()
    [180.0]
    """,
)

heaviside = pointwise(
    "heaviside(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.where(x1 < 0, T(0), s.where(x1 > 0, T(1), s.where(x1 == 0, x2, x1))),
    promote=REAL_TO_FLOAT,
    doc="""The step function: 0 below zero, 1 above, ``x2`` at zero, nan for nan. Its derivative by ``x1`` is 0.

    >>> import tenkey as tk
    >>> tk.heaviside(tk.asarray([-2.0, 0.0, 3.0]), 0.5).tolist()
    [0.0, 0.5, 1.0]
    """,
)


# Note [Series at a removable singularity]
#     sin(t) / t and its derivatives are quotients of two zeros at 0. There the expression is the series, whose
#     derivatives of every order are right at 0 and accurate beside it. Guarded by `test_sinc_near_zero`.
_SINC: Final = [(-1) ** k / math.factorial(2 * k + 1) for k in range(12)]


def _sinc(T: Any, x: Any) -> Any:
    t = x * math.pi
    square = t * t
    series = T(_SINC[-1])
    for c in reversed(_SINC[:-1]):
        series = series * square + c
    near = s.abs(x) < T(0.5)
    away = s.where(near, T(1), t)
    # Taken off before the multiplication by pi, so that the zeros of the sine are where they should. A complex number
    # with an imaginary part, whose square is not positive, keeps it: the sine has no zeros there.
    whole = s.where(s.abs(square) == square, s.round(x), T(0))
    half = whole * T(0.5)
    turn = s.where(s.round(half) == half, T(1), T(-1))
    return s.where(near, series, turn * s.sin((x - whole) * math.pi) / away)


sinc = pointwise(
    "sinc(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _sinc(T, x),
    promote=INT_TO_FLOAT,
    tags=(Tag.INPLACE,),
    doc="""``sin(pi x) / (pi x)``, which is 1 at 0. Integers give floats.

    >>> import tenkey as tk
    >>> tk.sinc(tk.asarray([0.0, 0.5], dtype=tk.float64)).tolist()
    [1.0, 0.6366197723675814]
    """,
)


def _log2_of_one_and(x: Any) -> Any:
    return s.where(x > 0.75, s.log2(1 + x), s.log1p(x) * (1 / _LOG2))  # the first is exact where x is 1


def _logaddexp2(x1: Any, x2: Any) -> Any:
    above = x1 + _log2_of_one_and(s.exp2(x2 - x1))
    below = x2 + _log2_of_one_and(s.exp2(x1 - x2))
    same_infinity = s.logical_and(x1 == x2, s.isinf(x1))
    return s.where(same_infinity, x1, s.where(x1 > x2, above, below))


logaddexp2 = pointwise(
    "logaddexp2(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: _logaddexp2(x1, x2),
    promote=REAL_TO_FLOAT,
    doc="""``log2(2**x1 + 2**x2)`` without overflow.

    >>> import tenkey as tk
    >>> tk.logaddexp2(tk.asarray([1000.0, 3.0]), tk.asarray([1000.0, 3.0])).tolist()
    [1001.0, 4.0]
    """,
)


# ---- activations

softplus = pointwise(
    "softplus(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.softplus(x),
    promote=REAL_TO_FLOAT,
    methods=("softplus",),
    tags=(Tag.INPLACE,),
    doc="""``log(1 + exp(x))`` without overflow: a smooth ``relu``.

    >>> import tenkey as tk
    >>> tk.softplus(tk.asarray([-1000.0, 1000.0])).tolist()
    [0.0, 1000.0]
    """,
)


def _silu(T: Any, x: Any) -> Any:
    power = s.exp(s.where(x < 0, x, -x))
    return s.where(x < T(_FAR), T(0), s.where(x < 0, x * power, x) / (T(1) + power))


silu = pointwise(
    "silu(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: _silu(T, x),
    promote=REAL_TO_FLOAT,
    methods=("silu",),
    tags=(Tag.INPLACE,),
    doc="""``x * sigmoid(x)``, also known as swish.

    >>> import tenkey as tk
    >>> tk.silu(tk.asarray([0.0, 1000.0, float("-inf")])).tolist()
    [0.0, 1000.0, 0.0]
    """,
)

gelu = pointwise(
    "gelu(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.where(x < T(_FAR), T(0), x * (T(0.5) * s.erfc(x * -math.sqrt(0.5)))),
    promote=REAL_TO_FLOAT,
    domain=(-2.0, 4.0),
    methods=("gelu",),
    tags=(Tag.INPLACE,),
    doc="""``x`` times the probability that a standard normal number is below it (Hendrycks and Gimpel, 2016).

    >>> import tenkey as tk
    >>> tk.gelu(tk.asarray([0.0, 100.0])).tolist()
    [0.0, 100.0]
    """,
)


# ---- values that are no numbers

replace_nan = pointwise(
    "replace_nan(Tensor x, float nan=0.0) -> Tensor",
    scalar=lambda T: lambda x, nan: s.where(s.isnan(x), nan, x),
    promote=REAL_TO_FLOAT,
    tags=(Tag.INTERNAL,),
    doc="""One number in place of every nan.

    >>> import tenkey as tk
    >>> tk.ops.tk.replace_nan(tk.asarray([float("nan")]), 1.0).tolist()
    [1.0]
    """,
)

replace_infinities = pointwise(
    "replace_infinities(Tensor x, float posinf, float neginf) -> Tensor",
    scalar=lambda T: lambda x, posinf, neginf: s.where(s.isinf(x), s.where(x > 0, posinf, neginf), x),
    promote=REAL_TO_FLOAT,
    tags=(Tag.INTERNAL,),
    doc="""Numbers in place of the infinities.

    >>> import tenkey as tk
    >>> tk.ops.tk.replace_infinities(tk.asarray([float("inf")]), 2.0, 3.0).tolist()
    [2.0]
    """,
)


@composite(
    "nan_to_num(Tensor x, *, float nan=0.0, float? posinf=None, float? neginf=None) -> Tensor",
    sample_inputs=lambda rng: [
        ((rng.standard_normal((2, 3)),), {}),
        ((rng.standard_normal(()),), {}),
        ((rng.standard_normal((0, 2)),), {}),
    ],
    reference=lambda x, **options: np.nan_to_num(x, **options),
    methods=("nan_to_num",),
)
def nan_to_num(x: Tensor, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """A copy in which nan is replaced, by 0 unless said otherwise, and infinities by the largest finite numbers.

    Parts of complex numbers are replaced each for itself; integers stay what they are. No gradient reaches what was
    replaced.

    >>> import tenkey as tk
    >>> tk.nan_to_num(tk.asarray([1.0, float("nan"), float("inf")]), posinf=9.0).tolist()
    [1.0, 0.0, 9.0]
    """
    kind = x.dtype.kind
    if kind in "biu":
        return x.clone()
    if kind == "c":
        parts = [nan_to_num(part, nan=nan, posinf=posinf, neginf=neginf) for part in (real(x), imag(x))]
        return complex_from(*parts)
    largest = finfo(x.dtype).max
    above, below = largest if posinf is None else posinf, -largest if neginf is None else neginf
    return replace_nan(replace_infinities(x, above, below), nan)


# ---- integers


def _integer_meta(operator: str) -> Any:
    def rule(x1: Any, x2: Any) -> TensorSpec:
        if x1.dtype.kind not in "iu" or x2.dtype.kind not in "iu":
            raise TypeError(_INTEGERS.format(operator=operator, dtypes=f"{x1.dtype} and {x2.dtype}"))
        return TensorSpec(broadcast_shapes(operator, x1.shape, x2.shape), result_dtype((x1.dtype, x2.dtype), ()))

    return rule


def _integer_samples(rng: np.random.Generator) -> Any:
    return [
        ((rng.integers(-20, 20, a), rng.integers(-20, 20, b)), {})
        for a, b in (((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2,)), ((0, 2), (2,)))
    ]


gcd_of = structured(
    "gcd_of(Tensor x1, Tensor x2) -> Tensor",
    meta=_integer_meta("gcd"),
    numpy=np.gcd,
    differentiable=False,
    sample_inputs=_integer_samples,
    reference=np.gcd,
    batch=broadcast,
    tags=(Tag.INTERNAL,),
    doc="""``tk.gcd`` of two tensors.

    >>> import tenkey as tk
    >>> tk.ops.tk.gcd_of(tk.asarray([4]), tk.asarray([6])).tolist()
    [2]
    """,
)


@composite(
    "gcd(Tensor x1, Tensor x2) -> Tensor",
    differentiable=False,
    sample_inputs=_integer_samples,
    reference=np.gcd,
    batch=broadcast,
)
def gcd(x1: Tensor, x2: Tensor) -> Tensor:
    """The greatest common divisor of two integers, element by element, with broadcasting; never negative.

    >>> import tenkey as tk
    >>> tk.gcd(tk.asarray([12, 7, 0]), tk.asarray([18, 21, 5])).tolist()
    [6, 7, 5]
    """
    return gcd_of(concrete(x1, x2), concrete(x2, x1))


lcm_of = structured(
    "lcm_of(Tensor x1, Tensor x2) -> Tensor",
    meta=_integer_meta("lcm"),
    numpy=np.lcm,
    differentiable=False,
    sample_inputs=_integer_samples,
    reference=np.lcm,
    batch=broadcast,
    tags=(Tag.INTERNAL,),
    doc="""``tk.lcm`` of two tensors.

    >>> import tenkey as tk
    >>> tk.ops.tk.lcm_of(tk.asarray([4]), tk.asarray([6])).tolist()
    [12]
    """,
)


@composite(
    "lcm(Tensor x1, Tensor x2) -> Tensor",
    differentiable=False,
    sample_inputs=_integer_samples,
    reference=np.lcm,
    batch=broadcast,
)
def lcm(x1: Tensor, x2: Tensor) -> Tensor:
    """The least common multiple of two integers, element by element, with broadcasting; never negative.

    >>> import tenkey as tk
    >>> tk.lcm(tk.asarray([4, 0]), tk.asarray([6, 5])).tolist()
    [12, 0]
    """
    return lcm_of(concrete(x1, x2), concrete(x2, x1))
