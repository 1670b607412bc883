"""Trigonometric and hyperbolic functions and their inverses, element by element; integers give floats.

Complex functions have the branch cuts and limits of the array API standard 2025.12; on a cut the sign of a zero says
from which side it is approached.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ... import scalar as s
from ...declare import INT_TO_FLOAT, REAL_TO_FLOAT, composite, elementwise, scalar_function, unary_function
from ..creation import zeros_like
from ..shape.copying import floating
from ..special.series import power_series
from .comparison import isnan, signbit, where
from .complex import imag, real

_DEGREE: Final = math.pi / 180
_REAL_CUTS: Final = "The branch cuts for complex numbers are the real axis below -1 and above 1."
_IMAGINARY_CUTS: Final = "The branch cuts for complex numbers are the imaginary axis below -1j and above 1j."

sin = unary_function("sin", "Return the sine of angles in radians.", {0.0: 0.0})
cos = unary_function("cos", "Return the cosine of angles in radians.", {0.0: 1.0})
tan = unary_function(
    "tan", "Return the tangent of angles in radians.", {0.0: 0.0}, domain=(-1.2, 1.2), autocast="float32"
)
asin = unary_function(
    "asin",
    "Return the inverse sine, in radians within [-pi/2, pi/2]; nan outside [-1, 1].",
    {0.0: 0.0, 2.0: math.nan},
    _REAL_CUTS,
    autocast="float32",
    domain=(-0.9, 0.9),
)
acos = unary_function(
    "acos",
    "Return the inverse cosine, in radians within [0, pi]; nan outside [-1, 1].",
    {1.0: 0.0, 2.0: math.nan},
    _REAL_CUTS,
    autocast="float32",
    domain=(-0.9, 0.9),
)
atan = unary_function(
    "atan", "Return the inverse tangent, in radians within [-pi/2, pi/2].", {0.0: 0.0}, _IMAGINARY_CUTS
)
sinh = unary_function("sinh", "Return the hyperbolic sine.", {0.0: 0.0}, autocast="float32")
cosh = unary_function("cosh", "Return the hyperbolic cosine.", {0.0: 1.0}, autocast="float32")
tanh = unary_function("tanh", "Return the hyperbolic tangent.", {0.0: 0.0})
asinh = unary_function("asinh", "Return the inverse hyperbolic sine.", {0.0: 0.0}, _IMAGINARY_CUTS)
acosh = unary_function(
    "acosh",
    "Return the inverse hyperbolic cosine, which is not negative; nan below 1.",
    {1.0: 0.0, 0.0: math.nan},
    "The branch cut for complex numbers is the real axis below 1.",
    autocast="float32",
    domain=(1.2, 5.0),
)
atanh = unary_function(
    "atanh",
    "Return the inverse hyperbolic tangent; infinite at -1 and 1, nan outside.",
    {0.0: 0.0, 1.0: math.inf},
    _REAL_CUTS,
    domain=(-0.9, 0.9),
)

atan2 = scalar_function(
    "atan2",
    """Return the angle of the point (x2, x1) in radians within [-pi, pi], for real dtypes; integers give floats.

    The signs of both, zeros included, determine the quadrant. The derivative at the origin is 0.

    >>> tk.atan2(tk.asarray([0.0, 0.0]), tk.asarray([1.0, -1.0])).tolist()
    [0.0, 3.1415927410125732]
    """,
    ("x1", "x2"),
    promote=REAL_TO_FLOAT,
)

hypot = scalar_function(
    "hypot",
    """Return ``sqrt(x1**2 + x2**2)`` without intermediate overflow, for real dtypes; integers give floats.

    Infinite where one of them is, even if the other is nan. The derivative at the origin is 0.

    >>> tk.hypot(tk.asarray([3.0]), 4).tolist()
    [5.0]
    """,
    ("x1", "x2"),
    promote=REAL_TO_FLOAT,
)


@elementwise(tags=(Tag.INPLACE,))
def deg2rad(T: Any, x: Any) -> Any:
    """Convert degrees to radians; integers give floats.

    >>> tk.deg2rad(tk.asarray([180.0], dtype=tk.float64)).item() == tk.pi
    True
    """
    return x * _DEGREE


@elementwise(tags=(Tag.INPLACE,))
def rad2deg(T: Any, x: Any) -> Any:
    """Convert radians to degrees; integers give floats.

    >>> tk.rad2deg(tk.asarray([tk.pi])).tolist()
    [180.0]
    """
    return x * (1 / _DEGREE)


# Note [Series at a removable singularity]
#     sin(t) / t and its derivatives are quotients of two zeros at 0. There the expression is the series, whose
#     derivatives of every order are correct at 0 and accurate near it. Guarded by `test_sinc_near_zero`.
_SINC: Final = [(-1) ** k / math.factorial(2 * k + 1) for k in range(12)]


@elementwise(promote=INT_TO_FLOAT, tags=(Tag.INPLACE,))
def sinc(T: Any, x: Any) -> Any:
    """Return ``sin(pi x) / (pi x)``, which is 1 at 0. Integers give floats.

    >>> tk.sinc(tk.asarray([0.0, 0.5], dtype=tk.float64)).tolist()
    [1.0, 0.6366197723675814]
    """
    t = x * math.pi
    square = t * t
    series = power_series(T, _SINC, square)
    near = s.abs(x) < T(0.5)
    away = s.where(near, T(1), t)
    # The nearest integer is subtracted before the multiplication by pi, so that the zeros of the sine are exact. A
    # complex number with an imaginary part, whose square is not positive, keeps it: the sine has no zeros there.
    whole = s.where(s.abs(square) == square, s.round(x), T(0))
    half = whole * T(0.5)
    turn = s.where(s.round(half) == half, T(1), T(-1))
    return s.where(near, series, turn * s.sin((x - whole) * math.pi) / away)


@composite(
    "angle(Tensor x) -> Tensor",
    sample_inputs=lambda rng: [
        ((np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape)),), {})
        for shape in ((3, 4), (), (0, 2))
    ],
    methods=("angle",),
)
def angle(x: Tensor) -> Tensor:
    """Return the angle of complex numbers in radians within [-pi, pi], a real tensor; 0 or pi for real numbers.

    Integers give floats. The derivative at 0 is 0.

    >>> tk.angle(tk.asarray([1.0, 1j])).tolist()
    [0.0, 1.5707963705062866]
    """
    if x.dtype.kind == "c":
        return atan2(imag(x), real(x))
    x = floating(x)
    return where(isnan(x), x, where(signbit(x), math.pi, zeros_like(x)))
