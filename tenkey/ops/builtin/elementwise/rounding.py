"""Rounding to whole numbers, and the sign and the neighbours of floating-point numbers, element by element."""

from __future__ import annotations

from ....dispatch.tags import Tag
from ... import scalar as s
from ...declare import ARITHMETIC, REAL, REAL_TO_FLOAT, pointwise

floor = pointwise(
    "floor(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.floor(x),
    promote=REAL,
    methods=("floor",),
    tags=(Tag.INPLACE,),
    doc="""The largest integer that is not above ``x``, in the dtype of ``x``. Its derivative is 0.

    >>> import tenkey as tk
    >>> tk.floor(tk.asarray([1.5, -1.5])).tolist()
    [1.0, -2.0]
    """,
)

ceil = pointwise(
    "ceil(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.ceil(x),
    promote=REAL,
    methods=("ceil",),
    tags=(Tag.INPLACE,),
    doc="""The smallest integer that is not below ``x``, in the dtype of ``x``. Its derivative is 0.

    >>> import tenkey as tk
    >>> tk.ceil(tk.asarray([1.5, -1.5])).tolist()
    [2.0, -1.0]
    """,
)

trunc = pointwise(
    "trunc(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.trunc(x),
    promote=REAL,
    methods=("trunc",),
    tags=(Tag.INPLACE,),
    doc="""The whole part of ``x``, towards zero, in the dtype of ``x``. Its derivative is 0.

    >>> import tenkey as tk
    >>> tk.trunc(tk.asarray([1.5, -1.5])).tolist()
    [1.0, -1.0]
    """,
)

round = pointwise(
    "round(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.round(x),
    promote=ARITHMETIC,
    methods=("round",),
    tags=(Tag.INPLACE,),
    doc="""The nearest integer, ties to the even one, in the dtype of ``x``. Its derivative is 0.

    Of complex numbers the real and the imaginary part are rounded, each by itself.

    >>> import tenkey as tk
    >>> tk.round(tk.asarray([0.5, 1.5])).tolist()
    [0.0, 2.0]
    """,
)

copysign = pointwise(
    "copysign(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.copysign(x1, x2),
    promote=REAL_TO_FLOAT,
    methods=("copysign",),
    tags=(Tag.INPLACE,),
    doc="""The magnitude of ``x1`` with the sign of ``x2``, that of a zero or nan included, for real dtypes.

    Integers give floats. The derivative by ``x2`` is 0.

    >>> import tenkey as tk
    >>> tk.copysign(tk.asarray([1.0, -2.0]), -0.0).tolist()
    [-1.0, -2.0]
    """,
)

nextafter = pointwise(
    "nextafter(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.nextafter(x1, x2),
    promote=REAL_TO_FLOAT,
    methods=("nextafter",),
    tags=(Tag.INPLACE,),
    doc="""The number of the dtype that is next to ``x1`` in the direction of ``x2``; ``x2`` where they are equal.

    For real dtypes; integers give floats. The derivative by ``x1`` is 1, that by ``x2`` 0.

    >>> import tenkey as tk
    >>> tk.nextafter(tk.asarray([0.0]), 1.0).tolist()
    [1.401298464324817e-45]
    """,
)
