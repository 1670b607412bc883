"""Loads of several adjacent elements of an array in shared memory, as intrinsics of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

__all__ = ["shared_vector2", "shared_vector4"]


def _load(count: int) -> Any:
    """Return ``load(array, place)``: ``count`` elements of a 1-d array from a place that is a multiple of ``count``.

    The array is declared with an alignment of the vector's size, at most 16 bytes.
    """

    def define(context: Any, array: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
            data = context.make_array(array)(context, builder, given[0]).data
            element = context.get_data_type(array.dtype)
            index = builder.zext(given[1], ir.IntType(64)) if place.bitwidth < 64 else given[1]
            at = builder.bitcast(builder.gep(data, [index]), ir.VectorType(element, count).as_pointer())
            vector = builder.load(at, align=min(16, array.dtype.bitwidth // 8 * count))
            parts = [builder.extract_element(vector, ir.Constant(ir.IntType(32), n)) for n in range(count)]
            return context.make_tuple(builder, signature.return_type, parts)

        if not (isinstance(array, types.Array) and array.ndim == 1 and isinstance(place, types.Integer)):
            return None
        return types.UniTuple(array.dtype, count)(array, place), generate

    return intrinsic(define)


shared_vector2 = _load(2)
shared_vector4 = _load(4)
