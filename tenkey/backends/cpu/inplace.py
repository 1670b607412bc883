"""CPU kernels of in-place variants: the functional program with the first argument as its output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...core.tensor import Tensor
from ...core.word import DTYPE_MASK, WEAK_MASK, dtypes_of, weak_of
from ...dispatch.operator import Operator
from ...ops.builtin.inplace import Inplace
from ...ops.shapes import broadcast_shapes
from .errors import QUIET, ignore, restore
from .pointwise import pointwise_into

__all__ = ["inplace_kernel"]

_SHAPE: Final = "[{operator}] the result of shape {result} does not fit into the first argument, shape {target}."
_KIND: Final = "[{operator}] a result of dtype {result} cannot be written into a tensor of dtype {target}: cast it first."


def _check(operator: Operator, x: Tensor, result: np.dtype) -> None:
    target = x.dtype
    rank = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
    if rank[result.kind] > rank[target.kind]:
        raise TypeError(_KIND.format(operator=operator.name, result=result, target=target))


def inplace_kernel(operator: Operator) -> Callable[..., Tensor]:
    """The kernel of an in-place variant, or of ``copy_``."""
    facet: Inplace = operator.facets["Inplace"]
    functional = facet.functional
    if functional is None:
        return lambda x, source: _copy(operator, x, source)
    count = len(functional.facets["Pointwise"].tensors)
    rule = functional.facets["Pointwise"].promotion

    def kernel(x: Tensor, *args: Any) -> Tensor:
        operands = (x, *args[: count - 1])
        shape = broadcast_shapes(operator.schema.base_name, *[t._data.shape for t in operands])
        if shape != x._data.shape:
            raise ValueError(_SHAPE.format(operator=operator.schema.base_name, result=shape, target=x.shape))
        word = 0
        for tensor in operands:
            word |= tensor._word
        _check(operator, x, rule.dtypes(operator.name, *_dtypes(word))[1])
        pointwise_into(functional, x._data, operands, args[count - 1 :])
        return x

    return kernel


def _dtypes(word: int) -> tuple[Any, Any]:
    return dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK)


def _copy(operator: Operator, x: Tensor, source: Tensor) -> Tensor:
    name = operator.schema.base_name
    if broadcast_shapes(name, x.shape, source.shape) != x.shape:
        raise ValueError(_SHAPE.format(operator=name, result=source.shape, target=x.shape))
    values = source._values(name)
    if values.dtype.kind == "c" and x.dtype.kind != "c":
        raise TypeError(_KIND.format(operator=name, result=values.dtype, target=x.dtype))
    token = ignore(QUIET)
    try:
        x._data[...] = values
    finally:
        restore(token)
    return x
