"""Intrinsics of kernels: what numba.cuda's language lacks, as functions of typed values.

The text of a kernel (:class:`~tenkey.backends.cuda.compiling.KernelSource`) may use every name of this module, which is
imported when a kernel is compiled, and only then.

Note [Typed arithmetic in kernels]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Numba widens integers to 64 bits in every operation, makes float64 of a uint64 beside an int64, and writes a choice as
two branches. The functions here take operands of one type and return this type: an addition of two uint32 is one
instruction. Integers wrap around. ``divide`` and ``negative`` are the IEEE operations of floats, without Numba's test
for zero. Guarded by ``tests/backends/cuda/kernels/test_emission.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

from .atomics import atomic_add, atomic_exchange, atomic_exchange_if, atomic_maximum, atomic_minimum, atomic_read
from .tuples import (
    add_products,
    multiply_bfloat16,
    multiply_float16,
    shared_vector1,
    shared_vector2,
    shared_vector4,
    subtract_products,
)

__all__ = [
    "INFINITY", "NAN", "add_products", "atomic_add", "atomic_exchange", "atomic_exchange_if",
    "atomic_maximum", "atomic_minimum", "atomic_read",
    "bit_and", "bit_invert", "bit_or", "bit_xor", "bits_of", "divide", "float_of", "from_bfloat16",
    "from_float16", "load_vector2", "load_vector4", "multiply_bfloat16",
    "multiply_float16", "negative", "round_odd", "select",
    "shared_vector1", "shared_vector2", "shared_vector4", "shift_left", "shift_right",
    "shuffle_down", "store_vector2", "store_vector4", "subtract_products", "to_bfloat16",
    "to_float16", "to_int64", "to_uint64",
    "unsigned_quotient", "unsigned_remainder", "whole_quotient", "whole_remainder", "wrap_add", "wrap_multiply",
    "wrap_negative", "wrap_subtract",
]  # fmt: skip

_Lowering = tuple[Any, Callable[..., Any]]

INFINITY: Final = float("inf")
NAN: Final = float("nan")

_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
_FLOAT, _DOUBLE = ir.FloatType(), ir.DoubleType()


def _binary(kind: Any, build: Callable[[Any, Any, Any, Any], Any]) -> Any:
    """Return an intrinsic of two operands of one type; ``build(builder, type, a, b)`` makes the value."""

    def define(context: Any, a: Any, b: Any) -> _Lowering | None:
        def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
            return build(builder, a, *values)

        return (a(a, b), generate) if a == b and isinstance(a, kind) else None

    return intrinsic(define)


def _unary(result: Callable[[Any], Any], build: Callable[[Any, Any], Any]) -> Any:
    """Return an intrinsic of one operand; ``result(type)`` is None for types that it does not take."""

    def define(context: Any, a: Any) -> _Lowering | None:
        def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
            return build(builder, *values)

        kind = result(a)
        return None if kind is None else (kind(a), generate)

    return intrinsic(define)


def _of(kind: Any, result: Any = None) -> Callable[[Any], Any]:
    """Return the type of the result for operands of a kind, by default that of the operand."""
    return lambda a: (a if result is None else result) if isinstance(a, kind) else None


def _is_shifted(builder: Any, x: Any, count: Any) -> Any:
    return builder.icmp_unsigned("<", count, ir.Constant(count.type, x.type.width))


def _shift_left(builder: Any, kind: Any, x: Any, count: Any) -> Any:
    return builder.select(_is_shifted(builder, x, count), builder.shl(x, count), ir.Constant(x.type, 0))


def _shift_right(builder: Any, kind: Any, x: Any, count: Any) -> Any:
    if not kind.signed:
        return builder.select(_is_shifted(builder, x, count), builder.lshr(x, count), ir.Constant(x.type, 0))
    last = ir.Constant(count.type, x.type.width - 1)  # copies of the sign
    return builder.ashr(x, builder.select(_is_shifted(builder, x, count), count, last))


def _quotient(builder: Any, kind: Any, x: Any, y: Any) -> Any:
    """Divide towards minus infinity; a divisor 0 gives 0, and -1 the negative number modulo the width."""
    zero, one, all_bits = [ir.Constant(x.type, value) for value in (0, 1, -1)]
    nothing = builder.icmp_unsigned("==", y, zero)
    if not kind.signed:
        return builder.select(nothing, zero, builder.udiv(x, builder.select(nothing, one, y)))
    reverses = builder.icmp_unsigned("==", y, all_bits)
    divisor = builder.select(builder.or_(nothing, reverses), one, y)
    quotient = builder.sdiv(x, divisor)
    rest = builder.sub(x, builder.mul(quotient, divisor))
    differs = builder.icmp_signed("<", builder.xor(x, divisor), zero)
    lower = builder.and_(builder.icmp_unsigned("!=", rest, zero), differs)
    quotient = builder.select(lower, builder.sub(quotient, one), quotient)
    quotient = builder.select(reverses, builder.sub(zero, x), quotient)
    return builder.select(nothing, zero, quotient)


def _remainder(builder: Any, kind: Any, x: Any, y: Any) -> Any:
    """Return the rest of :func:`_quotient`, with the sign of the divisor; a divisor 0 gives 0."""
    zero, one = ir.Constant(x.type, 0), ir.Constant(x.type, 1)
    nothing = builder.icmp_unsigned("==", y, zero)
    if kind.signed:
        nothing = builder.or_(nothing, builder.icmp_unsigned("==", y, ir.Constant(x.type, -1)))
    divisor = builder.select(nothing, one, y)
    if not kind.signed:
        return builder.select(nothing, zero, builder.urem(x, divisor))
    rest = builder.srem(x, divisor)
    differs = builder.icmp_signed("<", builder.xor(rest, divisor), zero)
    moved = builder.and_(builder.icmp_unsigned("!=", rest, zero), differs)
    return builder.select(moved, builder.add(rest, divisor), rest)


wrap_add = _binary(types.Integer, lambda builder, kind, a, b: builder.add(a, b))
wrap_subtract = _binary(types.Integer, lambda builder, kind, a, b: builder.sub(a, b))
wrap_multiply = _binary(types.Integer, lambda builder, kind, a, b: builder.mul(a, b))
wrap_negative = _unary(_of(types.Integer), lambda builder, a: builder.neg(a))
bit_and = _binary(types.Integer, lambda builder, kind, a, b: builder.and_(a, b))
bit_or = _binary(types.Integer, lambda builder, kind, a, b: builder.or_(a, b))
bit_xor = _binary(types.Integer, lambda builder, kind, a, b: builder.xor(a, b))
bit_invert = _unary(_of(types.Integer), lambda builder, a: builder.not_(a))
shift_left = _binary(types.Integer, _shift_left)
shift_right = _binary(types.Integer, _shift_right)
whole_quotient = _binary(types.Integer, _quotient)
whole_remainder = _binary(types.Integer, _remainder)
# Of two unsigned numbers, the second of which is not 0: no test for zero, as for the sizes of dimensions.
unsigned_quotient = _binary(types.Integer, lambda builder, kind, a, b: builder.udiv(a, b))
unsigned_remainder = _binary(types.Integer, lambda builder, kind, a, b: builder.urem(a, b))
divide = _binary(types.Float, lambda builder, kind, a, b: builder.fdiv(a, b))
negative = _unary(_of(types.Float), lambda builder, a: builder.fsub(ir.Constant(a.type, -0.0), a))


def _select(context: Any, condition: Any, chosen: Any, otherwise: Any) -> _Lowering | None:
    """Return one of two values of one type, without a branch."""

    def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
        return builder.select(*values)

    if not isinstance(condition, types.Boolean) or chosen != otherwise:
        return None
    return chosen(types.boolean, chosen, otherwise), generate


select = intrinsic(_select)


# ---- conversions


def _float_type(bits: Any) -> Any:
    if not isinstance(bits, types.Integer) or bits.bitwidth < 32:
        return None
    return types.float32 if bits.bitwidth == 32 else types.float64


# The bits of a float as an unsigned integer of its size, and the float with the bits of an integer.
bits_of = _unary(
    {types.float32: types.uint32, types.float64: types.uint64}.get,
    lambda builder, x: builder.bitcast(x, _I32 if x.type == _FLOAT else _I64),
)
float_of = _unary(_float_type, lambda builder, x: builder.bitcast(x, _FLOAT if x.type == _I32 else _DOUBLE))


def _instruction(result: Any, code: str, constraint: str) -> Callable[[Any, Any], Any]:
    """Return what builds one PTX instruction, whose result does not depend on its place."""

    def build(builder: Any, x: Any) -> Any:
        assembly = ir.InlineAsm(ir.FunctionType(result, [x.type]), code, constraint, side_effect=False)
        return builder.call(assembly, [x])

    return build


_toward_zero = _instruction(_FLOAT, "cvt.rz.f32.f64 $0, $1;", "=f,d")


def _from_bfloat16(builder: Any, bits: Any) -> Any:
    """Return the float32 whose upper half is a bfloat16."""
    return builder.bitcast(builder.shl(builder.zext(bits, _I32), ir.Constant(_I32, 16)), _FLOAT)


def _round_odd(builder: Any, x: Any) -> Any:
    """Return a float64 as a float32 that may be rounded again: towards zero, the last bit set if this was not exact."""
    near = _toward_zero(builder, x)
    differs = builder.fcmp_unordered("!=", builder.fpext(near, _DOUBLE), x)
    return builder.bitcast(builder.or_(builder.bitcast(near, _I32), builder.zext(differs, _I32)), _FLOAT)


def _to_uint64(builder: Any, x: Any) -> Any:
    large = builder.fcmp_ordered(">=", x, ir.Constant(x.type, 2.0**63))
    return builder.select(large, builder.fptoui(x, _I64), builder.fptosi(x, _I64))


# float16 and bfloat16 are passed as the bits of a uint16. A conversion rounds once, to nearest, ties to even.
from_float16 = _unary({types.uint16: types.float32}.get, _instruction(_FLOAT, "cvt.f32.f16 $0, $1;", "=f,h"))
to_float16 = _unary({types.float32: types.uint16}.get, _instruction(_I16, "cvt.rn.f16.f32 $0, $1;", "=h,f"))
from_bfloat16 = _unary({types.uint16: types.float32}.get, _from_bfloat16)
to_bfloat16 = _unary({types.float32: types.uint16}.get, _instruction(_I16, "cvt.rn.bf16.f32 $0, $1;", "=h,f"))
round_odd = _unary({types.float64: types.float32}.get, _round_odd)
# Truncated; NaN and numbers out of range give what the instruction gives.
to_int64 = _unary(_of(types.Float, types.int64), lambda builder, x: builder.fptosi(x, _I64))
to_uint64 = _unary(_of(types.Float, types.uint64), _to_uint64)


# ---- loads and stores of several elements


def _address(builder: Any, pointer: Any, index: Any, kind: Any, count: int) -> Any:
    """Return the address of an element as that of a vector of elements of the kind."""
    return builder.bitcast(builder.gep(pointer, [index]), ir.VectorType(kind, count).as_pointer())


def _alignment(kind: Any, count: int) -> int:
    """Return the alignment of a vector, of which the widest access takes 16 bytes."""
    return int(min(16, kind.bitwidth // 8 * count))


def _load(count: int) -> Any:
    def define(context: Any, pointer: Any, index: Any) -> _Lowering | None:
        def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
            kind = context.get_data_type(pointer.dtype)
            at = _address(builder, values[0], values[1], kind, count)
            vector = builder.load(at, align=_alignment(pointer.dtype, count))
            parts = [builder.extract_element(vector, ir.Constant(_I32, n)) for n in range(count)]
            return context.make_tuple(builder, signature.return_type, parts)

        if not (isinstance(pointer, types.CPointer) and isinstance(index, types.Integer) and index.bitwidth == 64):
            return None
        return types.UniTuple(pointer.dtype, count)(pointer, index), generate

    return intrinsic(define)


def _stored(pointer: Any, index: Any, parts: tuple[Any, ...]) -> _Lowering | None:
    def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
        kind = context.get_data_type(pointer.dtype)
        vector = ir.Constant(ir.VectorType(kind, len(parts)), ir.Undefined)
        for n, value in enumerate(values[2:]):
            vector = builder.insert_element(vector, value, ir.Constant(_I32, n))
        at = _address(builder, values[0], values[1], kind, len(parts))
        builder.store(vector, at, align=_alignment(pointer.dtype, len(parts)))
        return context.get_dummy_value()

    is_pointer = isinstance(pointer, types.CPointer) and isinstance(index, types.Integer) and index.bitwidth == 64
    if not is_pointer or any(part != pointer.dtype for part in parts):
        return None
    return types.void(pointer, index, *parts), generate


load_vector2 = _load(2)
load_vector4 = _load(4)


def _store_vector2(context: Any, pointer: Any, index: Any, a: Any, b: Any) -> _Lowering | None:
    """Store 2 elements at an index, which is that of an aligned address."""
    return _stored(pointer, index, (a, b))


store_vector2 = intrinsic(_store_vector2)


def _store_vector4(context: Any, pointer: Any, index: Any, a: Any, b: Any, c: Any, d: Any) -> _Lowering | None:
    """Store 4 elements at an index, which is that of an aligned address."""
    return _stored(pointer, index, (a, b, c, d))


store_vector4 = intrinsic(_store_vector4)


# ---- warps


def _shuffle_down(context: Any, value: Any, offset: Any) -> _Lowering | None:
    """Return the value of the lane that is ``offset`` (a uint32) places higher, or the own value beyond the last lane.

    All lanes of the warp take part. The value is a number of 8 to 64 bits.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
        kind = ir.FunctionType(_I32, [_I32] * 4)
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.nvvm.shfl.sync.down.i32")

        def moved(word: Any) -> Any:
            return builder.call(function, [ir.Constant(_I32, -1), word, values[1], ir.Constant(_I32, 31)])

        given = values[0]
        width = value.bitwidth
        bits = builder.bitcast(given, ir.IntType(width)) if isinstance(value, types.Float) else given
        if width < 32:
            result = builder.trunc(moved(builder.zext(bits, _I32)), ir.IntType(width))
        elif width == 32:
            result = moved(bits)
        else:
            low = builder.zext(moved(builder.trunc(bits, _I32)), _I64)
            high = moved(builder.trunc(builder.lshr(bits, ir.Constant(_I64, 32)), _I32))
            result = builder.or_(builder.shl(builder.zext(high, _I64), ir.Constant(_I64, 32)), low)
        return builder.bitcast(result, given.type)

    if not isinstance(value, types.Integer | types.Float) or offset != types.uint32:
        return None
    return value(value, offset), generate


shuffle_down = intrinsic(_shuffle_down)
