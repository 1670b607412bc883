"""Exponentials, logarithms and roots, element by element; integers give floats of the default dtype.

Complex functions have the branch cuts and the limits that the array API standard 2025.12 gives them.
"""

from __future__ import annotations

import numpy as np

from ....dispatch.tags import Tag
from ... import scalar as s
from ...declare import INT_TO_FLOAT, REAL, REAL_TO_FLOAT, pointwise

exp = pointwise(
    "exp(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.exp(x),
    promote=INT_TO_FLOAT,
    methods=("exp",),
    tags=(Tag.INPLACE,),
    doc="""Exponential function.

    >>> import tenkey as tk
    >>> tk.exp(tk.asarray([0.0, float("-inf")])).tolist()
    [1.0, 0.0]
    """,
)

exp2 = pointwise(
    "exp2(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.exp2(x),
    promote=INT_TO_FLOAT,
    methods=("exp2",),
    tags=(Tag.INPLACE,),
    doc="""2 to the power ``x``; integers give floats.

    >>> import tenkey as tk
    >>> tk.exp2(tk.asarray([3.0, -1.0])).tolist()
    [8.0, 0.5]
    """,
)

expm1 = pointwise(
    "expm1(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.expm1(x),
    promote=INT_TO_FLOAT,
    methods=("expm1",),
    tags=(Tag.INPLACE,),
    doc="""``exp(x) - 1``, accurate near 0.

    >>> import tenkey as tk
    >>> tk.expm1(tk.asarray([0.0])).tolist()
    [0.0]
    """,
)

log = pointwise(
    "log(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.log(x),
    promote=INT_TO_FLOAT,
    domain=(0.2, 5.0),
    methods=("log",),
    tags=(Tag.INPLACE,),
    doc="""Natural logarithm; -inf at 0, nan below.

    >>> import tenkey as tk
    >>> tk.log(tk.asarray([1.0, 0.0])).tolist()
    [0.0, -inf]
    """,
)

log2 = pointwise(
    "log2(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.log2(x),
    promote=INT_TO_FLOAT,
    domain=(0.2, 5.0),
    methods=("log2",),
    tags=(Tag.INPLACE,),
    doc="""Logarithm to base 2; -inf at 0, nan below. The branch cut of complex numbers is the negative real axis.

    >>> import tenkey as tk
    >>> tk.log2(tk.asarray([8.0, 0.0])).tolist()
    [3.0, -inf]
    """,
)

log10 = pointwise(
    "log10(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.log10(x),
    promote=INT_TO_FLOAT,
    domain=(0.2, 5.0),
    methods=("log10",),
    tags=(Tag.INPLACE,),
    doc="""Logarithm to base 10; -inf at 0, nan below. The branch cut of complex numbers is the negative real axis.

    >>> import tenkey as tk
    >>> tk.log10(tk.asarray([1000.0, 0.0]))
    tensor([  3., -inf], shape=(2,), dtype=float32, device='cpu')
    """,
)

log1p = pointwise(
    "log1p(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.log1p(x),
    promote=INT_TO_FLOAT,
    domain=(-0.5, 4.0),
    methods=("log1p",),
    tags=(Tag.INPLACE,),
    doc="""``log(1 + x)``, accurate near 0.

    >>> import tenkey as tk
    >>> tk.log1p(tk.asarray([0.0])).tolist()
    [0.0]
    """,
)

sqrt = pointwise(
    "sqrt(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.sqrt(x),
    promote=INT_TO_FLOAT,
    domain=(0.2, 5.0),
    methods=("sqrt",),
    tags=(Tag.INPLACE,),
    doc="""Square root; nan below 0.

    >>> import tenkey as tk
    >>> tk.sqrt(tk.asarray([4.0, 9.0])).tolist()
    [2.0, 3.0]
    """,
)

rsqrt = pointwise(
    "rsqrt(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: T(1) / s.sqrt(x),
    promote=INT_TO_FLOAT,
    domain=(0.2, 5.0),
    methods=("rsqrt",),
    tags=(Tag.INPLACE,),
    doc="""``1 / sqrt(x)``.

    >>> import tenkey as tk
    >>> tk.rsqrt(tk.asarray([4.0])).tolist()
    [0.5]
    """,
)

logaddexp = pointwise(
    "logaddexp(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.logaddexp(x1, x2),
    promote=REAL_TO_FLOAT,
    ufunc=np.logaddexp,
    methods=("logaddexp",),
    tags=(Tag.INPLACE,),
    doc="""``log(exp(x1) + exp(x2))`` without overflow, for real dtypes; integers give floats.

    >>> import tenkey as tk
    >>> tk.logaddexp(tk.asarray([1000.0, float("-inf")]), float("-inf")).tolist()
    [1000.0, -inf]
    """,
)

cbrt = pointwise(
    "cbrt(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.cbrt(x),
    promote=REAL_TO_FLOAT,
    domain=(0.2, 5.0),
    methods=("cbrt",),
    tags=(Tag.INPLACE,),
    doc="""Real cube root, also of negative numbers; integers give floats.

    >>> import tenkey as tk
    >>> tk.cbrt(tk.asarray([8.0, -27.0]))
    tensor([ 2., -3.], shape=(2,), dtype=float32, device='cpu')
    """,
)

sigmoid = pointwise(
    "sigmoid(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: T(1) / (T(1) + s.exp(-x)),
    partials=lambda out: out * (1 - out),
    promote=INT_TO_FLOAT,
    methods=("sigmoid",),
    tags=(Tag.INPLACE,),
    doc="""Logistic function ``1 / (1 + exp(-x))``.

    >>> import tenkey as tk
    >>> tk.sigmoid(tk.asarray([0.0])).tolist()
    [0.5]
    """,
)

relu = pointwise(
    "relu(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.maximum(x, T(0)),
    partials=lambda out: out > 0,
    promote=REAL,
    methods=("relu",),
    tags=(Tag.INPLACE,),
    doc="""``max(x, 0)``; its derivative at 0 is 0.

    >>> import tenkey as tk
    >>> tk.relu(tk.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """,
)
