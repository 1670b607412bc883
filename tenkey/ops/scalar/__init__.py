"""Scalar expressions: how a pointwise operator is written, differentiated and printed for a compiler.

An operator's author writes `scalar=lambda T: lambda x: T(1) / (T(1) + exp(-x))` with the functions of this package.
`trace` makes an immutable expression graph of it, `differentiate` its derivatives, and `Emitter` source for a target.
Nothing here imports numpy or a compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._util.lazy_import import lazy_import
from .complex_numbers import is_real, not_holomorphic, undefined_for_complex
from .composed import clip, logaddexp, sigmoid, softplus
from .conditions import (
    Condition,
    isfinite,
    isinf,
    isnan,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    signbit,
    where,
)
from .differentiate import UnsupportedDerivativeError, differentiate, differentiate_all, differentiate_along
from .emit.printer import NUMPY, PYTHON, Emitter, OperationTable, UnsupportedOperationError, function_source
from .expression import Expression, Operand, constant, make, topological_order, variable
from .functions import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cbrt,
    ceil,
    copysign,
    cos,
    cosh,
    digamma,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    floor,
    floor_divide,
    fma,
    hypot,
    lgamma,
    log,
    log1p,
    log2,
    log10,
    maximum,
    minimum,
    nextafter,
    pow,
    reciprocal,
    remainder,
    round,
    rsqrt,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
    trigamma,
    trunc,
)
from .operations import OPERATIONS, Kind, Operation
from .tracing import MAXIMUM_PATHS, PlainTypeMaker, ScalarFactory, ScalarTraceError, TypeMaker, trace
from .traversal import evaluate, free_variables, operations, substitute

if TYPE_CHECKING:  # Note [Delayed modules]
    from .emit.c import C_DIALECTS, CDialect, to_c

__all__ = [
    "C_DIALECTS", "MAXIMUM_PATHS", "NUMPY", "OPERATIONS", "PYTHON", "CDialect", "Condition", "Emitter", "Expression",
    "Kind", "Operand", "Operation", "OperationTable", "PlainTypeMaker", "ScalarFactory", "ScalarTraceError",
    "TypeMaker", "UnsupportedDerivativeError", "UnsupportedOperationError", "abs", "acos", "acosh", "asin", "asinh",
    "atan", "atan2", "atanh", "cbrt", "ceil", "clip", "constant", "copysign", "cos", "cosh", "differentiate",
    "differentiate_all", "differentiate_along", "digamma", "erf", "erfc", "evaluate", "exp", "exp2", "expm1", "floor",
    "floor_divide", "fma", "free_variables", "function_source", "hypot", "is_real", "isfinite", "isinf", "isnan",
    "lgamma", "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor",
    "make", "maximum", "minimum", "nextafter", "not_holomorphic", "operations", "pow", "reciprocal",
    "remainder", "round", "rsqrt", "sigmoid", "sign", "signbit", "sin", "sinh", "softplus", "sqrt", "square",
    "substitute", "tan", "tanh", "to_c",
    "topological_order", "trace", "trigamma", "trunc", "undefined_for_complex", "variable", "where",
]  # fmt: skip

if not TYPE_CHECKING:  # for a type checker a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_import(__name__, {"emit.c": ("C_DIALECTS", "CDialect", "to_c")})
