"""The elementwise operators, by one name: ``arithmetic``, ``bits``, ``comparison`` and their like hold the blocks."""

from __future__ import annotations

from .arithmetic import (
    abs,
    add,
    clip,
    divide,
    floor_divide,
    maximum,
    minimum,
    multiply,
    negative,
    positive,
    pow,
    reciprocal,
    remainder,
    sign,
    square,
    subtract,
)
from .bits import bitwise_and, bitwise_invert, bitwise_left_shift, bitwise_or, bitwise_right_shift, bitwise_xor
from .comparison import (
    equal,
    greater,
    greater_equal,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
    signbit,
    where,
)
from .elementary import cbrt, exp, exp2, expm1, log, log1p, log2, log10, logaddexp, relu, rsqrt, sigmoid, sqrt
from .rounding import ceil, copysign, floor, nextafter, round, trunc
from .trigonometry import acos, acosh, angle, asin, asinh, atan, atan2, atanh, cos, cosh, hypot, sin, sinh, tan, tanh

# fmt: off
__all__ = [
    "abs", "acos", "acosh", "add", "angle", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "cbrt", "ceil",
    "clip", "copysign", "cos", "cosh", "divide", "equal", "exp", "exp2", "expm1", "floor", "floor_divide", "greater",
    "greater_equal", "hypot", "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10", "log1p", "log2",
    "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply",
    "negative", "nextafter", "not_equal", "positive", "pow", "reciprocal", "relu", "remainder", "round", "rsqrt",
    "sigmoid", "sign", "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc", "where",
]
# fmt: on
