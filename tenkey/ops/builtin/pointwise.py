"""Elementwise arithmetic, elementary functions, comparisons, logic and selection.

Each block is all there is to know about an operator; the derivatives follow from the scalar expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...core.tensor import Tensor
from .. import scalar as s
from ..declare import ARITHMETIC, BOOLEAN, COMPARISON, INT_TO_FLOAT, REAL, SAME, Entry, pointwise
from .complex import real

_ORDERED: Final = SAME._replace(name="ORDERED", accepts="biuf", takes="dtypes with an order, not complex ones")
_BITS: Final = BOOLEAN._replace(
    name="BITS", accepts="b", takes="bool; compare first (x != 0), or use tk.logical_and and its kin"
)
_ORDER: Final = COMPARISON._replace(name="ORDER", accepts="biuf", takes="dtypes with an order, not complex ones")

# ---- arithmetic

add = pointwise(
    "add(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: x1 + x2,
    methods=("__add__", "add"),
    tags=("inplace",),
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
    tags=("inplace",),
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
    tags=("inplace",),
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
    tags=("inplace",),
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
    tags=("inplace",),
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
    tags=("inplace",),
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
    tags=("inplace",),
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
    promote=_ORDERED,
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
    promote=_ORDERED,
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
    tags=("inplace",),
    doc="""``-x``, for a numeric dtype.

    >>> import tenkey as tk
    >>> tk.negative(tk.asarray([1.0, -2.0])).tolist()
    [-1.0, 2.0]
    """,
)

abs = pointwise(
    "abs(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.abs(x),
    promote=REAL,
    methods=("__abs__", "abs"),
    tags=("inplace",),
    doc="""Absolute value, for a real numeric dtype; its derivative at 0 is 0.

    >>> import tenkey as tk
    >>> tk.abs(tk.asarray([1.0, -2.0])).tolist()
    [1.0, 2.0]
    """,
)

sign = pointwise(
    "sign(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.sign(x),
    promote=REAL,
    tags=("inplace",),
    doc="""-1, 0 or 1; nan stays nan. A step function: its derivative is 0.

    >>> import tenkey as tk
    >>> tk.sign(tk.asarray([3.0, 0.0, -2.0])).tolist()
    [1.0, 0.0, -1.0]
    """,
)

square = pointwise(
    "square(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: x * x,
    promote=ARITHMETIC,
    methods=("square",),
    tags=("inplace",),
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
    tags=("inplace",),
    doc="""``1 / x``; integers give floats.

    >>> import tenkey as tk
    >>> tk.reciprocal(tk.asarray([2.0, 4.0])).tolist()
    [0.5, 0.25]
    """,
)

# ---- elementary functions; integers give floats

exp = pointwise(
    "exp(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.exp(x),
    promote=INT_TO_FLOAT,
    methods=("exp",),
    tags=("inplace",),
    doc="""Exponential function.

    >>> import tenkey as tk
    >>> tk.exp(tk.asarray([0.0, float("-inf")])).tolist()
    [1.0, 0.0]
    """,
)

expm1 = pointwise(
    "expm1(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.expm1(x),
    promote=INT_TO_FLOAT,
    tags=("inplace",),
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
    tags=("inplace",),
    doc="""Natural logarithm; -inf at 0, nan below.

    >>> import tenkey as tk
    >>> tk.log(tk.asarray([1.0, 0.0])).tolist()
    [0.0, -inf]
    """,
)

log1p = pointwise(
    "log1p(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.log1p(x),
    promote=INT_TO_FLOAT,
    domain=(-0.5, 4.0),
    tags=("inplace",),
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
    tags=("inplace",),
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
    tags=("inplace",),
    doc="""``1 / sqrt(x)``.

    >>> import tenkey as tk
    >>> tk.rsqrt(tk.asarray([4.0])).tolist()
    [0.5]
    """,
)

sin = pointwise(
    "sin(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.sin(x),
    promote=INT_TO_FLOAT,
    methods=("sin",),
    tags=("inplace",),
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
    tags=("inplace",),
    doc="""Cosine of an angle in radians.

    >>> import tenkey as tk
    >>> tk.cos(tk.asarray([0.0])).tolist()
    [1.0]
    """,
)

tanh = pointwise(
    "tanh(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.tanh(x),
    promote=INT_TO_FLOAT,
    methods=("tanh",),
    tags=("inplace",),
    doc="""Hyperbolic tangent.

    >>> import tenkey as tk
    >>> tk.tanh(tk.asarray([0.0])).tolist()
    [0.0]
    """,
)

sigmoid = pointwise(
    "sigmoid(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: T(1) / (T(1) + s.exp(-x)),
    partials=lambda out: out * (1 - out),
    promote=INT_TO_FLOAT,
    methods=("sigmoid",),
    tags=("inplace",),
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
    tags=("inplace",),
    doc="""``max(x, 0)``; its derivative at 0 is 0.

    >>> import tenkey as tk
    >>> tk.relu(tk.asarray([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """,
)

floor = pointwise(
    "floor(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.floor(x),
    promote=REAL,
    tags=("inplace",),
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
    tags=("inplace",),
    doc="""The smallest integer that is not below ``x``, in the dtype of ``x``. Its derivative is 0.

    >>> import tenkey as tk
    >>> tk.ceil(tk.asarray([1.5, -1.5])).tolist()
    [2.0, -1.0]
    """,
)

round = pointwise(
    "round(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.round(x),
    promote=REAL,
    tags=("inplace",),
    doc="""The nearest integer, ties to the even one, in the dtype of ``x``. Its derivative is 0.

    >>> import tenkey as tk
    >>> tk.round(tk.asarray([0.5, 1.5])).tolist()
    [0.0, 2.0]
    """,
)

# ---- comparisons and tests: boolean results


def _comparison(name: str, sign: str, scalar: Callable[[Any], Callable[..., Any]], method: str) -> Entry:
    doc = f"""``x1 {sign} x2``, element by element, with broadcasting; a bool tensor.

    >>> import tenkey as tk
    >>> tk.{name}(tk.asarray([1, 2, 3]), 2).tolist()
    {[eval(f"{value} {sign} 2") for value in (1, 2, 3)]}
    """
    return pointwise(
        f"{name}(Tensor x1, Tensor x2) -> Tensor",
        scalar=scalar,
        promote=COMPARISON if sign in ("==", "!=") else _ORDER,
        differentiable=False,
        methods=(method,),
        doc=doc,
    )


equal = _comparison("equal", "==", lambda T: lambda x1, x2: x1 == x2, "__eq__")
not_equal = _comparison("not_equal", "!=", lambda T: lambda x1, x2: x1 != x2, "__ne__")
less = _comparison("less", "<", lambda T: lambda x1, x2: x1 < x2, "__lt__")
less_equal = _comparison("less_equal", "<=", lambda T: lambda x1, x2: x1 <= x2, "__le__")
greater = _comparison("greater", ">", lambda T: lambda x1, x2: x1 > x2, "__gt__")
greater_equal = _comparison("greater_equal", ">=", lambda T: lambda x1, x2: x1 >= x2, "__ge__")

logical_and = pointwise(
    "logical_and(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.logical_and(x1, x2),
    promote=BOOLEAN,
    boolean=("x1", "x2"),
    doc="""True where both are true (nonzero).

    >>> import tenkey as tk
    >>> tk.logical_and(tk.asarray([True, True]), tk.asarray([True, False])).tolist()
    [True, False]
    """,
)

logical_or = pointwise(
    "logical_or(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.logical_or(x1, x2),
    promote=BOOLEAN,
    boolean=("x1", "x2"),
    doc="""True where one is true (nonzero).

    >>> import tenkey as tk
    >>> tk.logical_or(tk.asarray([False, True]), tk.asarray([False, False])).tolist()
    [False, True]
    """,
)

logical_not = pointwise(
    "logical_not(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.logical_not(x),
    promote=BOOLEAN,
    boolean=("x",),
    doc="""True where ``x`` is false (zero).

    >>> import tenkey as tk
    >>> tk.logical_not(tk.asarray([True, False])).tolist()
    [False, True]
    """,
)

# On bools the operators of logic and of bits are the same; on integers they are not, and those of bits are refused.
bitwise_and = pointwise(
    "bitwise_and(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.logical_and(x1, x2),
    promote=_BITS,
    methods=("__and__",),
    doc="""``x1 & x2`` for bools.

    >>> import tenkey as tk
    >>> (tk.asarray([True, True]) & tk.asarray([True, False])).tolist()
    [True, False]
    """,
)

bitwise_or = pointwise(
    "bitwise_or(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.logical_or(x1, x2),
    promote=_BITS,
    methods=("__or__",),
    doc="""``x1 | x2`` for bools.

    >>> import tenkey as tk
    >>> (tk.asarray([False, True]) | tk.asarray([False, False])).tolist()
    [False, True]
    """,
)

bitwise_xor = pointwise(
    "bitwise_xor(Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda x1, x2: s.logical_xor(x1, x2),
    promote=_BITS,
    methods=("__xor__",),
    doc="""``x1 ^ x2`` for bools.

    >>> import tenkey as tk
    >>> (tk.asarray([True, True]) ^ tk.asarray([True, False])).tolist()
    [False, True]
    """,
)

bitwise_invert = pointwise(
    "bitwise_invert(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.logical_not(x),
    promote=_BITS,
    methods=("__invert__",),
    doc="""``~x`` for bools.

    >>> import tenkey as tk
    >>> (~tk.asarray([True, False])).tolist()
    [False, True]
    """,
)

isnan = pointwise(
    "isnan(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.isnan(x),
    promote=COMPARISON,
    doc="""True where an element is not a number.

    >>> import tenkey as tk
    >>> tk.isnan(tk.asarray([1.0, float("nan")])).tolist()
    [False, True]
    """,
)

isfinite = pointwise(
    "isfinite(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: s.isfinite(x),
    promote=COMPARISON,
    doc="""True where an element is neither infinite nor nan.

    >>> import tenkey as tk
    >>> tk.isfinite(tk.asarray([1.0, float("inf")])).tolist()
    [True, False]
    """,
)

# ---- selection


def _chosen(g: Tensor, meta: Any) -> Tensor:
    """The gradient of a real argument of a complex result is real."""
    return real(g) if g.dtype.kind == "c" and meta.dtype.kind != "c" else g


where: Entry = pointwise(
    "where(Tensor condition, Tensor x1, Tensor x2) -> Tensor",
    scalar=lambda T: lambda condition, x1, x2: s.where(condition, x1, x2),
    # not g * where(condition, 1, 0): 0 times the nan of the other side is nan
    vjp={
        "x1": lambda g, condition, x1_meta: _chosen(where(condition, g, 0.0), x1_meta),
        "x2": lambda g, condition, x2_meta: _chosen(where(condition, 0.0, g), x2_meta),
    },
    boolean=("condition",),
    doc="""``x1`` where the condition holds, else ``x2``, with broadcasting.

    Args: condition: bool tensor; x1, x2: tensors, or one of them a Python number. A gradient reaches the selected
    side only: a nan in the other side's derivative does not leak.

    >>> import tenkey as tk
    >>> tk.where(tk.asarray([True, False]), tk.asarray([1.0, 2.0]), 0.0).tolist()
    [1.0, 0.0]
    """,
)
