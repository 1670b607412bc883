"""Exponentials, logarithms and roots, element by element; integers give floats of the default dtype.

Complex functions have the branch cuts and limits of the array API standard 2025.12.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

import numpy as np

from ... import scalar as s
from ...declare import REAL_TO_FLOAT, elementwise, scalar_function, unary_function

_LOG2: Final = math.log(2)
_CUT: Final = "The branch cut for complex numbers is the negative real axis."
_logarithm: Final = partial(unary_function, autocast="float32", domain=(0.2, 5.0))

exp = unary_function("exp", "Return the exponential function of each element.", {0.0: 1.0}, autocast="float32")
exp2 = unary_function(
    "exp2", "Return 2 to the power ``x``; integers give floats.", {3.0: 8.0, -1.0: 0.5}, autocast="float32"
)
expm1 = unary_function("expm1", "Return ``exp(x) - 1``, accurate near 0.", {0.0: 0.0}, autocast="float32")
log = _logarithm(
    "log",
    "Return the natural logarithm; -inf at 0, nan for negative numbers.",
    {1.0: 0.0, 0.0: -math.inf},
)
log2 = _logarithm(
    "log2",
    "Return the logarithm to base 2; -inf at 0, nan for negative numbers.",
    {8.0: 3.0, 0.0: -math.inf},
    _CUT,
)
log10 = _logarithm(
    "log10",
    "Return the logarithm to base 10; -inf at 0, nan for negative numbers.",
    {1.0: 0.0, 0.0: -math.inf},
    _CUT,
)
log1p = unary_function(
    "log1p", "Return ``log(1 + x)``, accurate near 0.", {0.0: 0.0}, domain=(-0.5, 4.0), autocast="float32"
)
sqrt = unary_function(
    "sqrt", "Return the square root; nan for negative numbers.", {4.0: 2.0, 9.0: 3.0}, domain=(0.2, 5.0)
)
cbrt = unary_function(
    "cbrt",
    "Return the real cube root, for negative numbers too; integers give floats.",
    {1.0: 1.0, -1.0: -1.0},
    promote=REAL_TO_FLOAT,
    domain=(0.2, 5.0),
)
rsqrt = unary_function("rsqrt", "Return ``1 / sqrt(x)``.", {4.0: 0.5}, domain=(0.2, 5.0), autocast="float32")

logaddexp = scalar_function(
    "logaddexp",
    """Return ``log(exp(x1) + exp(x2))`` without overflow, for real dtypes; integers give floats.

    >>> tk.logaddexp(tk.asarray([1000.0, float("-inf")]), float("-inf")).tolist()
    [1000.0, -inf]
    """,
    ("x1", "x2"),
    promote=REAL_TO_FLOAT,
    ufunc=np.logaddexp,
    autocast="float32",
)


@elementwise()
def logaddexp2(T: Any, x1: Any, x2: Any) -> Any:
    """Return ``log2(2**x1 + 2**x2)`` without overflow.

    >>> tk.logaddexp2(tk.asarray([1000.0, 3.0]), tk.asarray([1000.0, 3.0])).tolist()
    [1001.0, 4.0]
    """
    exchanged = x1 > x2  # Note [Smooth branches]
    larger, smaller = s.where(exchanged, x1, x2), s.where(exchanged, x2, x1)
    same_infinity = s.logical_and(x1 == x2, s.isinf(x1))
    # the quotient is exactly 1 for equal numbers, as a product within a fused multiply-add would not be
    return s.where(same_infinity, x1, larger + s.log1p(s.exp2(smaller - larger)) / _LOG2)
