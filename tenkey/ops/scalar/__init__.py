"""Scalar expressions: how a pointwise operator is written, differentiated and printed for a compiler.

The author of an operator writes `scalar=lambda T: lambda x: T(1) / (T(1) + exp(-x))` with the functions of this
package. `trace` turns it into an immutable expression graph, `differentiate` computes derivatives, and `Emitter` writes
source for a target. This package imports neither numpy nor a compiler.
"""

from typing import TYPE_CHECKING

from ..._util.lazy_import import lazy_import
from . import elementary
from .complex_numbers import is_real, not_holomorphic, undefined_for_complex
from .complex_parts import real_parts
from .composed import clip, logaddexp, sigmoid, softplus
from .elementary import *  # noqa: F403 -- its names are public here
from .emit.printer import NUMPY, PYTHON, Emitter, OperationTable, UnsupportedOperationError, function_source
from .expansions import expand
from .expression import Expression, Operand, constant, index, make, topological_order, variable
from .operations import OPERATIONS, Kind, Operation
from .tracing import MAXIMUM_PATHS, PlainTypeMaker, ScalarFactory, ScalarTraceError, TypeMaker, trace
from .traversal import evaluate, free_variables, indices, operations, substitute

if TYPE_CHECKING:  # Note [Delayed modules]
    from .differentiation import UnsupportedDerivativeError, differentiate, differentiate_all, differentiate_along
    from .emit.c import to_c
    from .emit.dialects import C_DIALECTS, WGSL, CDialect, WGSLDialect

__all__ = [
    "C_DIALECTS", "MAXIMUM_PATHS", "NUMPY", "OPERATIONS", "PYTHON", "WGSL", "CDialect", "Emitter", "Expression",
    "Kind", "Operand", "Operation", "OperationTable", "PlainTypeMaker", "ScalarFactory", "ScalarTraceError",
    "TypeMaker", "UnsupportedDerivativeError", "UnsupportedOperationError", "WGSLDialect", "clip", "constant",
    "differentiate", "differentiate_all", "differentiate_along", "evaluate", "expand", "free_variables",
    "function_source", "index", "indices", "is_real", "logaddexp", "make", "not_holomorphic", "operations",
    "real_parts", "sigmoid", "softplus", "substitute", "to_c", "topological_order", "trace", "undefined_for_complex",
    "variable",
]  # fmt: skip
__all__ += elementary.__all__

if not TYPE_CHECKING:  # for a type checker a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_import(
        __name__,
        {
            "differentiation": (
                "UnsupportedDerivativeError", "differentiate", "differentiate_all", "differentiate_along",
            ),
            "emit.c": ("to_c",),
            "emit.dialects": ("C_DIALECTS", "WGSL", "CDialect", "WGSLDialect"),
        },
    )  # fmt: skip
