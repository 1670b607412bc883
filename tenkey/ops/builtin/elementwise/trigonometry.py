"""Trigonometric and hyperbolic functions and their inverses, element by element; integers give floats.

Complex functions have the branch cuts and the limits that the array API standard 2025.12 gives them; on a cut the sign
of a zero says from which side it is approached.
"""

from __future__ import annotations

import math

import numpy as np

from ....core.dtypes.names import default_float
from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ... import scalar as s
from ...declare import INT_TO_FLOAT, REAL_TO_FLOAT, composite, pointwise
from ..creation import zeros_like
from ..shape.copying import cast
from .comparison import isnan, signbit, where
from .complex import imag, real

sin = pointwise(
    "sin(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.sin(x),
    promote=INT_TO_FLOAT,
    methods=("sin",),
    tags=(Tag.INPLACE,),
    doc="""Sine of an angle in radians.

    >>> import tenkey as tk
    >>> tk.sin(tk.asarray([0.0])).tolist()
    [0.0]
    """,
)

cos = pointwise(
    "cos(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.cos(x),
    promote=INT_TO_FLOAT,
    methods=("cos",),
    tags=(Tag.INPLACE,),
    doc="""Cosine of an angle in radians.

    >>> import tenkey as tk
    >>> tk.cos(tk.asarray([0.0])).tolist()
    [1.0]
    """,
)

tan = pointwise(
    "tan(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.tan(x),
    promote=INT_TO_FLOAT,
    domain=(-1.2, 1.2),
    methods=("tan",),
    tags=(Tag.INPLACE,),
    doc="""Tangent of an angle in radians.

    >>> import tenkey as tk
    >>> tk.tan(tk.asarray([0.0])).tolist()
    [0.0]
    """,
)

asin = pointwise(
    "asin(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.asin(x),
    promote=INT_TO_FLOAT,
    domain=(-0.9, 0.9),
    methods=("asin",),
    tags=(Tag.INPLACE,),
    doc="""Inverse sine, in radians within [-pi/2, pi/2]; nan outside [-1, 1].

    The branch cuts of complex numbers are the real axis below -1 and above 1.

    >>> import tenkey as tk
    >>> tk.asin(tk.asarray([0.0, 2.0])).tolist()
    [0.0, nan]
    """,
)

acos = pointwise(
    "acos(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.acos(x),
    promote=INT_TO_FLOAT,
    domain=(-0.9, 0.9),
    methods=("acos",),
    tags=(Tag.INPLACE,),
    doc="""Inverse cosine, in radians within [0, pi]; nan outside [-1, 1].

    The branch cuts of complex numbers are the real axis below -1 and above 1.

    >>> import tenkey as tk
    >>> tk.acos(tk.asarray([1.0, 2.0])).tolist()
    [0.0, nan]
    """,
)

atan = pointwise(
    "atan(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.atan(x),
    promote=INT_TO_FLOAT,
    methods=("atan",),
    tags=(Tag.INPLACE,),
    doc="""Inverse tangent, in radians within [-pi/2, pi/2].

    The branch cuts of complex numbers are the imaginary axis below -1j and above 1j.

    >>> import tenkey as tk
    >>> tk.atan(tk.asarray([0.0])).tolist()
    [0.0]
    """,
)

atan2 = pointwise(
    "atan2(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.atan2(x1, x2),
    promote=REAL_TO_FLOAT,
    methods=("atan2",),
    tags=(Tag.INPLACE,),
    doc="""Angle of the point (x2, x1) in radians within [-pi, pi], for real dtypes; integers give floats.

    The quadrant is that of the signs of both, those of zeros included. The derivative at the origin is 0.

    >>> import tenkey as tk
    >>> tk.atan2(tk.asarray([0.0, 0.0]), tk.asarray([1.0, -1.0])).tolist()
    [0.0, 3.1415927410125732]
    """,
)

hypot = pointwise(
    "hypot(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.hypot(x1, x2),
    promote=REAL_TO_FLOAT,
    methods=("hypot",),
    tags=(Tag.INPLACE,),
    doc="""``sqrt(x1**2 + x2**2)`` without overflow on the way, for real dtypes; integers give floats.

    Infinite where one of them is, even if the other is nan. The derivative at the origin is 0.

    >>> import tenkey as tk
    >>> tk.hypot(tk.asarray([3.0]), 4).tolist()
    [5.0]
    """,
)

sinh = pointwise(
    "sinh(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.sinh(x),
    promote=INT_TO_FLOAT,
    methods=("sinh",),
    tags=(Tag.INPLACE,),
    doc="""Hyperbolic sine.

    >>> import tenkey as tk
    >>> tk.sinh(tk.asarray([0.0])).tolist()
    [0.0]
    """,
)

cosh = pointwise(
    "cosh(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.cosh(x),
    promote=INT_TO_FLOAT,
    methods=("cosh",),
    tags=(Tag.INPLACE,),
    doc="""Hyperbolic cosine.

    >>> import tenkey as tk
    >>> tk.cosh(tk.asarray([0.0])).tolist()
    [1.0]
    """,
)

tanh = pointwise(
    "tanh(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.tanh(x),
    promote=INT_TO_FLOAT,
    methods=("tanh",),
    tags=(Tag.INPLACE,),
    doc="""Hyperbolic tangent.

    >>> import tenkey as tk
    >>> tk.tanh(tk.asarray([0.0])).tolist()
    [0.0]
    """,
)

asinh = pointwise(
    "asinh(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.asinh(x),
    promote=INT_TO_FLOAT,
    methods=("asinh",),
    tags=(Tag.INPLACE,),
    doc="""Inverse hyperbolic sine.

    The branch cuts of complex numbers are the imaginary axis below -1j and above 1j.

    >>> import tenkey as tk
    >>> tk.asinh(tk.asarray([0.0])).tolist()
    [0.0]
    """,
)

acosh = pointwise(
    "acosh(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.acosh(x),
    promote=INT_TO_FLOAT,
    domain=(1.2, 5.0),
    methods=("acosh",),
    tags=(Tag.INPLACE,),
    doc="""Inverse hyperbolic cosine, not negative; nan below 1.

    The branch cut of complex numbers is the real axis below 1.

    >>> import tenkey as tk
    >>> tk.acosh(tk.asarray([1.0, 0.0])).tolist()
    [0.0, nan]
    """,
)

atanh = pointwise(
    "atanh(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.atanh(x),
    promote=INT_TO_FLOAT,
    domain=(-0.9, 0.9),
    methods=("atanh",),
    tags=(Tag.INPLACE,),
    doc="""Inverse hyperbolic tangent; infinite at -1 and 1, nan outside.

    The branch cuts of complex numbers are the real axis below -1 and above 1.

    >>> import tenkey as tk
    >>> tk.atanh(tk.asarray([0.0, 1.0])).tolist()
    [0.0, inf]
    """,
)


@composite(
    "angle(Tensor x) -> Tensor",
    sample_inputs=lambda rng: [
        ((np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape)),), {})
        for shape in ((3, 4), (), (0, 2))
    ],
    reference=np.angle,
    methods=("angle",),
)
def angle(x: Tensor) -> Tensor:
    """The angle of complex numbers in radians within [-pi, pi], a real tensor; 0 or pi for real numbers.

    Integers give floats. Its derivative at 0 is 0.

    >>> import tenkey as tk
    >>> tk.angle(tk.asarray([1.0, 1j])).tolist()
    [0.0, 1.5707963705062866]
    """
    if x.dtype.kind == "c":
        return atan2(imag(x), real(x))
    if x.dtype.kind in "biu":
        x = cast(x, default_float())
    return where(isnan(x), x, where(signbit(x), math.pi, zeros_like(x)))
