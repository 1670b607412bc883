"""Arithmetic, element by element: sums, products, quotients, powers, the larger and the smaller, magnitude and sign.

Each block is all there is to know about an operator; the derivatives follow from the scalar expressions.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...._util import numpy_internals as numpy_functions
from ....core.dtypes.limits import iinfo
from ....core.tensor import Tensor
from ....core.word import WEAK_TRAIT
from ....dispatch.tags import Tag
from ... import scalar as s
from ...declare import ARITHMETIC, INT_TO_FLOAT, MAGNITUDE, ORDERED, REAL, Entry, composite, pointwise
from ...shapes import broadcast_shapes
from .comparison import equal, where
from .complex import conj, real

add = pointwise(
    "add(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: x1 + x2,
    methods=("__add__", "add"),
    tags=(Tag.INPLACE,),
    doc="""Sum of two tensors, element by element, with broadcasting.

    Args: x1, x2: tensors of any dtype, or one of them a Python number. Returns the promoted dtype.

    >>> import tenkey as tk
    >>> tk.add(tk.asarray([1.0, 2.0]), 1).tolist()
    [2.0, 3.0]
    """,
)

subtract = pointwise(
    "subtract(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: x1 - x2,
    promote=ARITHMETIC,
    methods=("__sub__", "sub", "subtract"),
    tags=(Tag.INPLACE,),
    doc="""Difference of two tensors, element by element, with broadcasting.

    Args: x1, x2: tensors of a numeric dtype, or one of them a Python number. Returns the promoted dtype.

    >>> import tenkey as tk
    >>> tk.subtract(tk.asarray([1.0, 2.0]), 1).tolist()
    [0.0, 1.0]
    """,
)

multiply = pointwise(
    "multiply(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: x1 * x2,
    methods=("__mul__", "mul", "multiply"),
    tags=(Tag.INPLACE,),
    doc="""Product of two tensors, element by element, with broadcasting.

    Args: x1, x2: tensors of any dtype, or one of them a Python number. Returns the promoted dtype.

    >>> import tenkey as tk
    >>> tk.multiply(tk.asarray([1.0, 2.0]), 3).tolist()
    [3.0, 6.0]
    """,
)

divide = pointwise(
    "divide(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: x1 / x2,
    promote=INT_TO_FLOAT,
    domain=(0.5, 4.0),
    methods=("__truediv__", "div", "divide"),
    tags=(Tag.INPLACE,),
    doc="""True division of two tensors, element by element, with broadcasting; integers give floats.

    Args: x1, x2: tensors of any dtype, or one of them a Python number. Division by zero gives inf or nan.

    >>> import tenkey as tk
    >>> tk.divide(tk.asarray([1, 3]), 2).tolist()
    [0.5, 1.5]
    """,
)

floor_divide = pointwise(
    "floor_divide(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.floor_divide(x1, x2),
    promote=REAL,
    domain=(0.5, 4.0),
    methods=("__floordiv__",),
    tags=(Tag.INPLACE,),
    doc="""Quotient rounded down to an integer, element by element, with Python's sign rule.

    Args: x1, x2: tensors of a real numeric dtype, or one of them a Python number.

    >>> import tenkey as tk
    >>> tk.floor_divide(tk.asarray([7, -7]), 2).tolist()
    [3, -4]
    """,
)

remainder = pointwise(
    "remainder(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.remainder(x1, x2),
    promote=REAL,
    domain=(0.5, 4.0),
    methods=("__mod__",),
    tags=(Tag.INPLACE,),
    doc="""Remainder of the floor division, with the sign of the divisor.

    Args: x1, x2: tensors of a real numeric dtype, or one of them a Python number.

    >>> import tenkey as tk
    >>> tk.remainder(tk.asarray([7, -7]), 4).tolist()
    [3, 1]
    """,
)

pow = pointwise(
    "pow(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.pow(x1, x2),
    promote=ARITHMETIC,
    domain=(0.2, 3.0),
    methods=("__pow__", "pow"),
    tags=(Tag.INPLACE,),
    doc="""``x1`` to the power of ``x2``, element by element, with broadcasting.

    Args: x1, x2: tensors of a numeric dtype, or one of them a Python number.

    >>> import tenkey as tk
    >>> tk.pow(tk.asarray([1.0, 2.0, 3.0]), 2).tolist()
    [1.0, 4.0, 9.0]
    """,
)

maximum = pointwise(
    "maximum(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.maximum(x1, x2),
    promote=ORDERED,
    methods=("maximum",),
    doc="""The larger of two elements; nan if one is nan. At a tie the two share the gradient equally.

    >>> import tenkey as tk
    >>> tk.maximum(tk.asarray([1.0, 5.0]), 2.0).tolist()
    [2.0, 5.0]
    """,
)

minimum = pointwise(
    "minimum(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.minimum(x1, x2),
    promote=ORDERED,
    methods=("minimum",),
    doc="""The smaller of two elements; nan if one is nan. At a tie the two share the gradient equally.

    >>> import tenkey as tk
    >>> tk.minimum(tk.asarray([1.0, 5.0]), 2.0).tolist()
    [1.0, 2.0]
    """,
)

negative = pointwise(
    "negative(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: -x,
    promote=ARITHMETIC,
    methods=("__neg__", "neg", "negative"),
    tags=(Tag.INPLACE,),
    doc="""``-x``, for a numeric dtype.

    >>> import tenkey as tk
    >>> tk.negative(tk.asarray([1.0, -2.0])).tolist()
    [-1.0, 2.0]
    """,
)

positive = pointwise(
    "positive(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: x,
    promote=ARITHMETIC,
    ufunc=np.positive,
    methods=("__pos__", "positive"),
    doc="""``+x``: a copy, for a numeric dtype.

    >>> import tenkey as tk
    >>> tk.positive(tk.asarray([1.0, -2.0])).tolist()
    [1.0, -2.0]
    """,
)

abs: Entry = pointwise(
    "abs(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.abs(x),
    promote=MAGNITUDE,
    complex_vjp={"x": lambda g, x: multiply(g, sign(x))},
    methods=("__abs__", "abs"),
    tags=(Tag.INPLACE,),
    doc="""Absolute value, for a numeric dtype; that of a complex number is real. Its derivative at 0 is 0.

    >>> import tenkey as tk
    >>> tk.abs(tk.asarray([1.0, -2.0])).tolist(), tk.abs(tk.asarray(3 + 4j)).item()
    ([1.0, 2.0], 5.0)
    """,
)


def _sign_vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Of a complex number: what turns the direction counts, what lengthens it does not."""
    at_zero = equal(x, 0)
    turning = subtract(g, multiply(out, real(multiply(conj(out), g))))
    return where(at_zero, 0.0, divide(turning, where(at_zero, 1.0, abs(x))))


sign: Entry = pointwise(
    "sign(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.sign(x),
    promote=ARITHMETIC,
    complex_vjp={"x": _sign_vjp},
    methods=("sign",),
    tags=(Tag.INPLACE,),
    doc="""-1, 0 or 1; of a complex number ``x / abs(x)``, 0 at 0. nan stays nan.

    For real numbers it is a step function: its derivative is 0.

    >>> import tenkey as tk
    >>> tk.sign(tk.asarray([3.0, 0.0, -2.0])).tolist(), tk.sign(tk.asarray(4j)).item()
    ([1.0, 0.0, -1.0], 1j)
    """,
)

square = pointwise(
    "square(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: x * x,
    promote=ARITHMETIC,
    methods=("square",),
    tags=(Tag.INPLACE,),
    doc="""``x * x``, for a numeric dtype.

    >>> import tenkey as tk
    >>> tk.square(tk.asarray([1.0, -2.0])).tolist()
    [1.0, 4.0]
    """,
)

reciprocal = pointwise(
    "reciprocal(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: T(1) / x,
    promote=INT_TO_FLOAT,
    domain=(0.5, 4.0),
    ufunc=np.reciprocal,
    methods=("reciprocal",),
    tags=(Tag.INPLACE,),
    doc="""``1 / x``; integers give floats.

    >>> import tenkey as tk
    >>> tk.reciprocal(tk.asarray([2.0, 4.0])).tolist()
    [0.5, 0.25]
    """,
)


def _clip_samples(rng: np.random.Generator) -> Any:
    x = rng.uniform(-2, 2, (3, 4))
    below, above = np.array([-0.9, -1.1, -0.4, -0.2]), np.array([[0.3], [0.8], [1.4]])
    return [
        ((x,), {}),
        ((x, -1), {"max": 1}),
        ((x,), {"max": 1}),
        ((x, below), {}),
        ((x, below, above), {}),
        ((np.asarray(rng.uniform(-2, 2)), below, 1), {}),
        ((rng.uniform(-2, 2, (0, 4)), below, None), {}),
    ]


def _clip_reference(x: Any, min: Any = None, max: Any = None) -> Any:
    return np.clip(x, -np.inf if min is None else min, np.inf if max is None else max)


def _is_limit(bound: Tensor | None, x: Tensor, *, below: bool) -> bool:
    """Whether it bounds anything: a Python int does not where every integer of the dtype is on its inner side."""
    if bound is None:
        return False
    if not bound._word & WEAK_TRAIT[int] or x.dtype.kind not in "iu":
        return True
    limits, value = iinfo(x.dtype), bound.item()
    return bool(value > limits.min if below else value < limits.max)


def _numpy_clip(x: np.ndarray, min: Any = None, max: Any = None) -> Any:
    dtype = x.dtype
    kind = dtype.kind
    if kind not in "fiu" or x.size >= _SMALL:
        return NotImplemented
    for bound in (min, max):
        if bound.__class__ is float:
            if kind != "f" or not -_MODERATE < bound < _MODERATE:
                return NotImplemented
        elif bound.__class__ is int:
            if not -_MODERATE < bound < _MODERATE:
                return NotImplemented
        elif bound is not None and (bound.__class__ is not np.ndarray or bound.dtype is not dtype):
            return NotImplemented
    if min is None:
        return NotImplemented if max is None else np.minimum(x, max)
    return np.maximum(x, min) if max is None else numpy_functions.clip(x, min, max)


_SMALL: Final = 1 << 14  # elements; for more the functions for large arrays pay
_MODERATE: Final = 6e4  # in the range of every floating dtype


@composite(
    "clip(Tensor x, Tensor? min=None, Tensor? max=None) -> Tensor",
    sample_inputs=_clip_samples,
    numpy=_numpy_clip,
    quiet=True,
    reference=_clip_reference,
    methods=("clip",),
)
def clip(x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """The elements, moved to the nearest number between ``min`` and ``max``; where these cross, ``max``.

    Args: x: real tensor; min, max: tensors that broadcast with it, Python numbers, or None where there is no limit.
    Returns the promoted dtype: that of ``x`` for limits of the same kind. A nan anywhere gives nan. At a limit that is
    a tensor the two share the gradient equally. Raises TypeError for bool and complex dtypes.

    >>> import tenkey as tk
    >>> tk.clip(tk.asarray([-5, 0, 5]), 0, 3).tolist()
    [0, 0, 3]
    """
    if x.dtype.kind in "bc":
        raise TypeError(f"[clip] got dtype {x.dtype}: it takes real numeric dtypes. Convert with tk.astype(x, dtype).")
    try:
        result = maximum(x, min) if _is_limit(min, x, below=True) else x
        if _is_limit(max, x, below=False):
            return minimum(result, max)
    except ValueError:
        broadcast_shapes("clip", *[t.shape for t in (x, min, max) if t is not None])  # the error that names clip
        raise
    return positive(x) if result is x else result
