"""Which kernel the CPU has for an operator: it follows from the facets. Loaded when the first one is asked for."""

from __future__ import annotations

from functools import cache

from ...dispatch.kernel import Handle, Kernel
from ...dispatch.keys import DispatchKey
from ...dispatch.operator import Operator
from . import factories as _factories  # noqa: F401 -- puts its kernels into the table, as the next one does
from . import indexing as _indexing  # noqa: F401
from .bfloat16 import with_bfloat16
from .defaults import following_defaults
from .inplace import inplace_kernel
from .kernels import KERNELS, SPECIALIZED
from .numpy_kernels import numpy_kernel
from .pointwise import pointwise_kernel
from .reduction import reduction_kernel
from .view import view_kernel

__all__ = ["install_kernel"]


def install_kernel(operator: Operator) -> list[Handle]:
    """Give an operator the CPU kernel that follows from its facets."""
    facets = operator.facets
    key = DispatchKey.CPU
    made: Kernel | None = None
    if operator.name in KERNELS:
        made = Kernel(KERNELS[operator.name], key, origin="generated")
    elif operator.name in SPECIALIZED:
        rule = SPECIALIZED[operator.name]
        made = Kernel(rule, key, origin="generated", specialize=rule)
    elif "NumPyKernel" in facets:
        write = cache(numpy_kernel)  # at the first call; one for all dtypes
        made = Kernel(numpy_kernel, key, origin="generated", specialize=lambda operator, word: write(operator))
    elif "Pointwise" in facets:
        made = Kernel(pointwise_kernel, key, origin="generated", specialize=following_defaults(pointwise_kernel))
    elif "Reduce" in facets:
        made = Kernel(reduction_kernel, key, origin="generated", specialize=following_defaults(reduction_kernel))
    elif "View" in facets:
        made = Kernel(view_kernel(operator), key, origin="generated")
    elif "Inplace" in facets:
        made = Kernel(inplace_kernel(operator), key, origin="generated")
    if made is not None and not operator.schema.is_mutable and "View" not in facets:
        made = with_bfloat16(operator, made)
    return [] if made is None else [operator.registry.impl(operator.name, made)]
