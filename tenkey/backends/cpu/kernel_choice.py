"""The choice of the CPU kernel of an operator: written by hand, or derived from a facet.

This module is imported when the first kernel is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...dispatch.kernel import Handle, Kernel
from ...dispatch.keys import DispatchKey
from ...dispatch.operator import Operator
from . import factories, kernels, matmul, view
from .bfloat16 import with_bfloat16
from .defaults import following_defaults
from .inplace import inplace_kernel
from .kernels import Specialized
from .loops.reductions.axis_operators import arg_reduction_kernel, running_kernel, scan_kernel
from .loops.reductions.row_operators import rows_kernel
from .moving import copies, indexing, tallies
from .numpy_kernels import numpy_kernel_rule
from .ordering import sort_kernels
from .pointwise import pointwise_kernel
from .reduction import reduction_kernel

__all__ = ["install_kernel"]

_Function = Callable[..., Any]
_WRITTEN: Final[dict[str, _Function | Specialized]] = {
    **kernels.KERNELS, **matmul.KERNELS, **factories.KERNELS, **copies.KERNELS, **indexing.KERNELS, **view.KERNELS,
    **sort_kernels.KERNELS, **tallies.KERNELS,
}  # fmt: skip


_DERIVED: Final[dict[str, Callable[[Operator], _Function | Specialized]]] = {
    "Rows": rows_kernel,
    "Scan": scan_kernel,
    "ArgScan": running_kernel,
    "NumPyKernel": lambda operator: Specialized(numpy_kernel_rule(operator)),
    "Pointwise": lambda operator: Specialized(following_defaults(pointwise_kernel)),
    "Reduce": lambda operator: Specialized(following_defaults(reduction_kernel)),
    "View": view.view_kernel,
    "Inplace": inplace_kernel,
}
"""By facet; the first facet that an operator has decides."""


def install_kernel(operator: Operator) -> list[Handle]:
    """Register the CPU kernel of an operator, if it has one."""
    facets = operator.facets
    made = _WRITTEN.get(operator.name)
    if made is None:
        derive = next((derive for facet, derive in _DERIVED.items() if facet in facets), None)
        if derive is None:
            return []
        made = derive(operator)
    if "ArgReduce" in facets and not isinstance(made, Specialized):
        made = arg_reduction_kernel(operator, made)
    function, rule = (made.rule, made.rule) if isinstance(made, Specialized) else (made, None)
    kernel = Kernel(function, DispatchKey.CPU, origin="generated", specialize=rule)
    if not operator.schema.is_mutable and "View" not in facets:
        kernel = with_bfloat16(operator, kernel)
    return [operator.registry.impl(operator.name, kernel)]
