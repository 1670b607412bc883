"""Tuples of numbers in registers, as intrinsics of kernels: vectors from shared memory, and sums of outer products.

A tuple with constant indices stays in registers, where an array with computed ones would not; and one statement for
many multiplications is compiled in a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

__all__ = [
    "add_products", "multiply_bfloat16", "multiply_float16", "shared_vector1", "shared_vector2", "shared_vector4",
    "subtract_products",
]  # fmt: skip

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _load(count: int) -> Any:
    """Return ``load(array, place)``: ``count`` elements of a 1-d array from a place that is a multiple of ``count``.

    The array is in shared memory and declared with an alignment of the vector's size, at most 16 bytes.
    """

    def define(context: Any, array: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
            data = context.make_array(array)(context, builder, given[0]).data
            element = context.get_data_type(array.dtype)
            index = builder.zext(given[1], _I64) if place.bitwidth < 64 else given[1]
            at = builder.bitcast(builder.gep(data, [index]), ir.VectorType(element, count).as_pointer())
            vector = builder.load(at, align=min(16, array.dtype.bitwidth // 8 * count))
            parts = [builder.extract_element(vector, ir.Constant(_I32, n)) for n in range(count)]
            return context.make_tuple(builder, signature.return_type, parts)

        if not (isinstance(array, types.Array) and array.ndim == 1 and isinstance(place, types.Integer)):
            return None
        return types.UniTuple(array.dtype, count)(array, place), generate

    return intrinsic(define)


shared_vector1 = _load(1)
shared_vector2 = _load(2)
shared_vector4 = _load(4)


def _products(sign: int) -> Any:
    """Return ``f(sums, a, b)``, which adds ``sign * a[i] * b[j]`` to ``sums[i * len(b) + j]``, rounded once."""

    def define(context: Any, sums: Any, a: Any, b: Any) -> Any:
        if not all(isinstance(one, types.UniTuple) for one in (sums, a, b)) or sums.count != a.count * b.count:
            return None
        if not sums.dtype == a.dtype == b.dtype:
            return None
        is_float = isinstance(sums.dtype, types.Float)

        def generate(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
            totals, left, right = given
            for i in range(a.count):
                x = builder.extract_value(left, i)
                if sign < 0:
                    x = builder.fsub(ir.Constant(x.type, -0.0), x) if is_float else builder.neg(x)
                for j in range(b.count):
                    y = builder.extract_value(right, j)
                    place = i * b.count + j
                    total = builder.extract_value(totals, place)
                    total = builder.fma(x, y, total) if is_float else builder.add(total, builder.mul(x, y))
                    totals = builder.insert_value(totals, total, place)
            return totals

        return sums(sums, a, b), generate

    return intrinsic(define)


add_products = _products(1)
subtract_products = _products(-1)


_MMA = (
    "mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 "
    "{{$0, $1, $2, $3}}, {{$4, $5, $6, $7}}, {{$8, $9}}, {{$10, $11, $12, $13}};"
)


def _tensor_products(kind: str) -> Any:
    """Return ``f(sums, a, b)``, which multiplies fragments by tensor cores and adds the products to float32 sums.

    ``a`` has 4 words for each of its fragments of 16 x 16 elements, ``b`` 2 for each of 16 x 8, and ``sums`` 4 for each
    pair of them; the elements of a lane are those of the PTX manual, 9.7.14.5.8 (mma.m16n8k16).
    """

    def define(context: Any, sums: Any, a: Any, b: Any) -> Any:
        if not all(isinstance(one, types.UniTuple) for one in (sums, a, b)) or sums.dtype != types.float32:
            return None
        if a.dtype != types.uint32 or b.dtype != types.uint32 or 2 * sums.count != a.count * b.count:
            return None

        def generate(context: Any, builder: Any, signature: Any, given: Sequence[Any]) -> Any:
            totals, left, right = given
            number = ir.FloatType()
            results = ir.LiteralStructType([number] * 4)
            function = ir.FunctionType(results, [_I32] * 6 + [number] * 4)
            code = ir.InlineAsm(function, _MMA.format(kind=kind), "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", side_effect=True)
            columns = b.count // 2
            for i in range(a.count // 4):
                x = [builder.extract_value(left, 4 * i + n) for n in range(4)]
                for j in range(columns):
                    y = [builder.extract_value(right, 2 * j + n) for n in range(2)]
                    first = 4 * (i * columns + j)
                    added = [builder.extract_value(totals, first + n) for n in range(4)]
                    made = builder.call(code, [*x, *y, *added])
                    for n in range(4):
                        totals = builder.insert_value(totals, builder.extract_value(made, n), first + n)
            return totals

        return sums(sums, a, b), generate

    return intrinsic(define)


multiply_float16 = _tensor_products("f16")
multiply_bfloat16 = _tensor_products("bf16")
