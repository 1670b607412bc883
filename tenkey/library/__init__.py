"""Registration from outside: operators, kernels, gradients, by the calls that the built-in ones use."""

from typing import TYPE_CHECKING

from .._util.lazy_import import lazy_import
from ..dispatch.kernel import fallthrough_kernel
from ..ops import scalar
from ..ops.declare.promotion import ARITHMETIC, BOOLEAN, COMPARISON, INT_TO_FLOAT, REAL, REAL_TO_FLOAT, SAME, SUM

if TYPE_CHECKING:  # Note [Delayed modules]
    from .custom_operator import CustomOperator, custom_op
    from .declarations import composite, pointwise, reduction
    from .derivatives import register_autocast, register_autograd, register_jvp, register_vmap
    from .native.loading import load_native
    from .opcheck_report import OpCheckError, OpCheckReport, opcheck
    from .registration import Library, register_fake, register_kernel
    from .running_results import gather, scan, scatter
    from .schema_inference import infer_schema

__all__ = [
    "ARITHMETIC", "BOOLEAN", "COMPARISON", "INT_TO_FLOAT", "REAL", "REAL_TO_FLOAT", "SAME", "SUM",
    "CustomOperator", "Library", "OpCheckError", "OpCheckReport", "composite", "custom_op",
    "fallthrough_kernel", "gather", "infer_schema", "load_native", "opcheck", "pointwise", "reduction",
    "register_autocast", "register_autograd", "register_fake", "register_jvp", "register_kernel",
    "register_vmap", "scalar", "scan", "scatter",
]  # fmt: skip

if not TYPE_CHECKING:  # for a type checker a module with __getattr__ has every name
    __getattr__, __dir__ = lazy_import(
        __name__,
        {
            "opcheck_report": ("OpCheckError", "OpCheckReport", "opcheck"),
            "running_results": ("gather", "scan", "scatter"),
            "custom_operator": ("CustomOperator", "custom_op"),
            "declarations": ("composite", "pointwise", "reduction"),
            "derivatives": ("register_autocast", "register_autograd", "register_jvp", "register_vmap"),
            "schema_inference": ("infer_schema",),
            "native.loading": ("load_native",),
            "registration": ("Library", "register_fake", "register_kernel"),
        },
    )
