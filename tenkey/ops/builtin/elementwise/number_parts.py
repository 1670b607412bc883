"""Numbers in parts, element by element: exponent and mantissa, whole and fractional part, quotient and remainder."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ....core.dtypes.names import int32, uint8, uint64
from ....core.tensor import Tensor
from ... import scalar as s
from ...declare import broadcast, composite, elementwise, normal, same_dim
from ...shapes import broadcast_shapes
from ..creation import concrete, zeros_like
from ..results import DivmodResult, FrexpResult, ModfResult
from ..shape.copying import cast, floating
from .arithmetic import abs, floor_divide, multiply, negative, remainder
from .comparison import equal, greater_equal, isfinite, isinf, less, logical_or, where
from .complex import refuse_complex
from .exponential import exp2, log2
from .limiting import clip
from .rounding import copysign, floor, trunc

_FACTORS: Final = 4  # the powers of two of the widest exponents are out of range, their fourth roots are not


def _scaled(x: Tensor, exponent: Tensor) -> Tensor:
    """Return ``x * 2**exponent`` for floats of whole numbers, which may be beyond the exponents of the dtype."""
    limit = 75.0 * _FACTORS if x.dtype.itemsize <= 4 else 550.0 * _FACTORS
    if x.dtype.itemsize == 2:
        limit = 14.0 * _FACTORS
    rest = clip(exponent, -limit, limit)
    for k in range(_FACTORS, 0, -1):
        part = trunc(rest / k)
        x = multiply(x, exp2(part))
        rest = rest - part
    return x


@composite(
    "ldexp(Tensor x1, Tensor x2) -> Tensor",
    sample_inputs=lambda rng: [
        ((rng.standard_normal((2, 3)), rng.integers(-5, 5, (3,))), {}),
        ((rng.standard_normal(()), rng.integers(-5, 5, (2, 1))), {}),
    ],
    batch=broadcast,
)
def ldexp(x1: Tensor, x2: Tensor) -> Tensor:
    """Return ``x1 * 2**x2`` without overflow of the power, for real ``x1`` and integers ``x2``; integers give floats.

    >>> tk.ldexp(tk.asarray([1.0, 3.0]), tk.asarray([4, -1])).tolist()
    [16.0, 1.5]
    """
    x1, x2 = concrete(x1, x2), concrete(x2, x1)
    refuse_complex("ldexp", x1.dtype)
    if x2.dtype.kind not in "iub":
        raise TypeError(f"[ldexp] the exponents must be integers, got {x2.dtype}: round them, and use tk.astype.")
    broadcast_shapes("ldexp", x1.shape, x2.shape)
    x1 = floating(x1)
    return _scaled(x1, cast(x2, x1.dtype))


@composite(
    "frexp(Tensor x) -> (Tensor mantissa, Tensor exponent)",
    sample_inputs=normal([2, 3], [], [0]),
)
def frexp(x: Tensor) -> FrexpResult:
    """Return mantissas in [0.5, 1) in absolute value, and exponents (int32): ``x`` is ``mantissa * 2**exponent``.

    Zeros, infinities and nan are their own mantissas. For real dtypes; integers give floats. The derivative takes the
    exponent as constant.

    >>> mantissa, exponent = tk.frexp(tk.asarray([6.0, -0.25]))
    >>> mantissa.tolist(), exponent.tolist()
    ([0.75, -0.5], [3, -1])
    """
    refuse_complex("frexp", x.dtype)
    x = floating(x)
    plain = logical_or(equal(x, 0.0), ~isfinite(x))
    size = where(plain, 1.0, abs(x.detach()))
    exponent = floor(log2(size)) + 1.0
    mantissa = _scaled(size, negative(exponent))  # the logarithm may be rounded to the next whole number
    exponent = exponent + cast(greater_equal(mantissa, 1.0), x.dtype) - cast(less(mantissa, 0.5), x.dtype)
    exponent = where(plain, 0.0, exponent)
    return FrexpResult(where(plain, x, _scaled(x, negative(exponent))), cast(exponent, int32))


@composite(
    "modf(Tensor x) -> (Tensor fractional, Tensor integral)",
    sample_inputs=lambda rng: [((rng.uniform(-3, 3, shape),), {}) for shape in ((2, 3), (), (0,))],
)
def modf(x: Tensor) -> ModfResult:
    """Return the fractional and the whole part, both with the sign of ``x``, for real dtypes; integers give floats.

    The derivative of the fractional part is 1, that of the whole part 0.

    >>> fractional, integral = tk.modf(tk.asarray([2.5, -1.25]))
    >>> fractional.tolist(), integral.tolist()
    ([0.5, -0.25], [2.0, -1.0])
    """
    refuse_complex("modf", x.dtype)
    x = floating(x)
    whole = trunc(x)
    return ModfResult(copysign(where(isinf(x), 0.0, x - whole), x), whole)


def _pairs(rng: np.random.Generator) -> Any:
    return [
        ((rng.uniform(-9, 9, a), rng.uniform(0.7, 4, b)), {}) for a, b in (((2, 3), (3,)), ((), (2, 1)), ((0,), (1,)))
    ]


@composite(
    "divmod(Tensor x1, Tensor x2) -> (Tensor quotient, Tensor remainder)",
    sample_inputs=_pairs,
    batch=broadcast,
)
def divmod(x1: Tensor, x2: Tensor) -> DivmodResult:
    """Return ``tk.floor_divide(x1, x2)`` and ``tk.remainder(x1, x2)``, for real numeric dtypes.

    >>> quotient, remainder = tk.divmod(tk.asarray([7, -7]), 4)
    >>> quotient.tolist(), remainder.tolist()
    ([1, -2], [3, 1])
    """
    refuse_complex("divmod", x1.dtype)
    refuse_complex("divmod", x2.dtype)
    broadcast_shapes("divmod", x1.shape, x2.shape)
    return DivmodResult(floor_divide(x1, x2), remainder(x1, x2))


@elementwise(partials=lambda x: zeros_like(x), domain=(0.5, 4.0))
def spacing(T: Any, x: Any) -> Any:
    """Return the distance to the next number of the dtype that is farther from zero, with the sign of ``x``.

    nan at infinity. For real dtypes; integers give floats. Its derivative is 0.

    >>> tk.spacing(tk.asarray([1.0, -2.0])).tolist()
    [1.1920928955078125e-07, -2.384185791015625e-07]
    """
    size = s.abs(x)
    gap = s.nextafter(size, T(math.inf)) - size
    return s.where(x < 0, -gap, gap)


_MASKS: Final = ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F), (8, 0x00FF00FF00FF00FF),
                 (16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF))  # fmt: skip


@composite(
    "bitwise_count(Tensor x) -> Tensor",
    numpy=lambda x: np.bitwise_count(x) if x.dtype.kind in "iu" else NotImplemented,
    differentiable=False,
    sample_inputs=lambda rng: [((rng.integers(-99, 99, shape),), {}) for shape in ((2, 3), (), (0,))],
    batch=same_dim,
)
def bitwise_count(x: Tensor) -> Tensor:
    """Return the number of one bits in the absolute value of integers, as uint8.

    >>> tk.bitwise_count(tk.asarray([7, 8, -3])).tolist()
    [3, 1, 2]
    """
    if x.dtype.kind not in "iu":
        raise TypeError(f"[bitwise_count] takes integers, got {x.dtype}: convert whole values with tk.astype.")
    count = cast(x if x.dtype.kind == "u" else abs(x), uint64)
    if x.dtype.kind == "i" and x.dtype.itemsize < 8:  # the least integer is its own absolute value
        count = count & ((1 << 8 * x.dtype.itemsize) - 1)
    for shift, mask in _MASKS[: {1: 3, 2: 4, 4: 5, 8: 6}[x.dtype.itemsize]]:
        count = (count & mask) + ((count >> shift) & mask)
    return cast(count, uint8)
