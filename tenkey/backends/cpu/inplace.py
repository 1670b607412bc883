"""CPU kernels of in-place variants: the functional program with the first argument as its output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.tensor import Tensor
from ...dispatch.operator import Operator
from ...ops.builtin.inplace import Inplace, check_copy, check_pointwise
from .errors import QUIET, ignore, restore
from .pointwise import pointwise_into

__all__ = ["inplace_kernel"]


def inplace_kernel(operator: Operator) -> Callable[..., Tensor]:
    """The kernel of an in-place variant, or of ``copy_``."""
    facet: Inplace = operator.facets["Inplace"]
    functional = facet.functional
    if functional is None:
        return lambda x, source: _copy(operator, x, source)

    def kernel(x: Tensor, *args: Any) -> Tensor:
        check_pointwise(operator, x, *args)
        pointwise_into(functional, x._data, (x, *args))
        return x

    return kernel


def _copy(operator: Operator, x: Tensor, source: Tensor) -> Tensor:
    check_copy(operator, x, source)
    values = source._values(operator.schema.base_name)
    token = ignore(QUIET)
    try:
        x._data[...] = values
    finally:
        restore(token)
    return x
