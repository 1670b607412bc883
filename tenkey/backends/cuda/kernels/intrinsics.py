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


def _unary(kind: Any, build: Callable[[Any, Any], Any]) -> Any:
    def define(context: Any, a: Any) -> _Lowering | None:
        def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
            return build(builder, *values)

        return (a(a), generate) if isinstance(a, kind) else None

    return intrinsic(define)


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
wrap_negative = _unary(types.Integer, lambda builder, a: builder.neg(a))
bit_and = _binary(types.Integer, lambda builder, kind, a, b: builder.and_(a, b))
bit_or = _binary(types.Integer, lambda builder, kind, a, b: builder.or_(a, b))
bit_xor = _binary(types.Integer, lambda builder, kind, a, b: builder.xor(a, b))
bit_invert = _unary(types.Integer, lambda builder, a: builder.not_(a))
shift_left = _binary(types.Integer, _shift_left)
shift_right = _binary(types.Integer, _shift_right)
whole_quotient = _binary(types.Integer, _quotient)
whole_remainder = _binary(types.Integer, _remainder)
# Of two unsigned numbers, the second of which is not 0: no test for zero, as for the sizes of dimensions.
unsigned_quotient = _binary(types.Integer, lambda builder, kind, a, b: builder.udiv(a, b))
unsigned_remainder = _binary(types.Integer, lambda builder, kind, a, b: builder.urem(a, b))
divide = _binary(types.Float, lambda builder, kind, a, b: builder.fdiv(a, b))
negative = _unary(types.Float, lambda builder, a: builder.fsub(ir.Constant(a.type, -0.0), a))


def _select(context: Any, condition: Any, chosen: Any, otherwise: Any) -> _Lowering | None:
    """Return one of two values of one type, without a branch."""

    def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
        return builder.select(*values)

    if not isinstance(condition, types.Boolean) or chosen != otherwise:
        return None
    return chosen(types.boolean, chosen, otherwise), generate


select = intrinsic(_select)


# ---- conversions


def _bits_of(context: Any, x: Any) -> _Lowering | None:
    """Return the bits of a float as an unsigned integer of its size."""

    def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
        return builder.bitcast(values[0], _I32 if x == types.float32 else _I64)

    if not isinstance(x, types.Float):
        return None
    return (types.uint32 if x == types.float32 else types.uint64)(x), generate


bits_of = intrinsic(_bits_of)


def _float_of(context: Any, bits: Any) -> _Lowering | None:
    """Return the float with the bits of an integer of 32 or 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
        return builder.bitcast(values[0], _FLOAT if bits.bitwidth == 32 else _DOUBLE)

    if not isinstance(bits, types.Integer) or bits.bitwidth < 32:
        return None
    return (types.float32 if bits.bitwidth == 32 else types.float64)(bits), generate


float_of = intrinsic(_float_of)


def _converted(source: Any, target: Any, code: str, constraint: str) -> Any:
    """Return an intrinsic of one PTX instruction, whose result does not depend on its place."""

    def define(context: Any, x: Any) -> _Lowering | None:
        def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
            result, operand = context.get_value_type(target), context.get_value_type(source)
            assembly = ir.InlineAsm(ir.FunctionType(result, [operand]), code, constraint, side_effect=False)
            return builder.call(assembly, values)

        return (target(source), generate) if x == source else None

    return intrinsic(define)


# float16 and bfloat16 are passed as the bits of a uint16. A conversion rounds once, to nearest, ties to even.
from_float16 = _converted(types.uint16, types.float32, "cvt.f32.f16 $0, $1;", "=f,h")
to_float16 = _converted(types.float32, types.uint16, "cvt.rn.f16.f32 $0, $1;", "=h,f")
to_bfloat16 = _converted(types.float32, types.uint16, "cvt.rn.bf16.f32 $0, $1;", "=h,f")
_toward_zero = _converted(types.float64, types.float32, "cvt.rz.f32.f64 $0, $1;", "=f,d")


def _from_bfloat16(context: Any, bits: Any) -> _Lowering | None:
    """Return the float32 whose upper half is a bfloat16."""

    def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
        wide = builder.shl(builder.zext(values[0], _I32), ir.Constant(_I32, 16))
        return builder.bitcast(wide, _FLOAT)

    return (types.float32(bits), generate) if bits == types.uint16 else None


from_bfloat16 = intrinsic(_from_bfloat16)


def _round_odd(context: Any, x: Any) -> _Lowering | None:
    """Return a float64 as a float32 that may be rounded again: towards zero, the last bit set if this was not exact."""

    def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
        code = ir.InlineAsm(ir.FunctionType(_FLOAT, [_DOUBLE]), "cvt.rz.f32.f64 $0, $1;", "=f,d", side_effect=False)
        near = builder.call(code, values)
        differs = builder.fcmp_unordered("!=", builder.fpext(near, _DOUBLE), values[0])
        bits = builder.or_(builder.bitcast(near, _I32), builder.zext(differs, _I32))
        return builder.bitcast(bits, _FLOAT)

    return (types.float32(x), generate) if x == types.float64 else None


round_odd = intrinsic(_round_odd)


def _whole(target: Any, build: Callable[[Any, Any], Any]) -> Any:
    def define(context: Any, x: Any) -> _Lowering | None:
        def generate(context: Any, builder: Any, signature: Any, values: Sequence[Any]) -> Any:
            return build(builder, values[0])

        return (target(x), generate) if isinstance(x, types.Float) else None

    return intrinsic(define)


def _unsigned(builder: Any, x: Any) -> Any:
    large = builder.fcmp_ordered(">=", x, ir.Constant(x.type, 2.0**63))
    return builder.select(large, builder.fptoui(x, _I64), builder.fptosi(x, _I64))


# Truncated; NaN and numbers out of range give what the instruction gives.
to_int64 = _whole(types.int64, lambda builder, x: builder.fptosi(x, _I64))
to_uint64 = _whole(types.uint64, _unsigned)


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
