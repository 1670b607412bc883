"""Rounding that compiled code does not have: directed, to 16 bits, to TensorFloat-32, and subnormal numbers as zero.

Arithmetic on float16 and bfloat16 is done in float32, whose result is rounded once more. This gives what one rounding
would give for sums and products (Figueroa, "When is double rounding innocuous?", 1995) because float32 has more than
twice the digits; where it does not, the first rounding is *to odd* (Boldo and Melquiond, "Emulation of FMA and
correctly rounded sums", 2008): a number that is not exact gets an odd last bit, so that the second rounding knows it.
"""

from __future__ import annotations

from typing import Final

from ...backends.llvm.instructions import bitcast, fabs, select
from ...backends.llvm.value_types import Type, bf16, f16, f32, f64, i64, u16, u32, u64
from ...backends.llvm.values import Function, Value, body, constant, convert, emit

__all__ = [
    "MODES", "canonical", "directed", "exact_sum_to_odd", "flushed", "from_narrow", "narrow_directed", "odd_single",
    "saturated", "to_narrow", "to_tf32",
]  # fmt: skip

MODES: Final = {"rz": 0, "rn": 1, "rp": 2, "rm": 3}
"""LLVM's numbers of the directions of rounding."""
_DYNAMIC: Final = 'metadata !"round.dynamic", metadata !"fpexcept.strict"'


def from_narrow(bits: Value, kind: str) -> Value:
    """Return the float32 of the bits of a float16 or bfloat16 number."""
    if kind == "f16":
        return convert(bitcast(bits, f16), f32)
    return bitcast(convert(bits, u32) << 16, f32)


def to_narrow(value: Value, kind: str) -> Value:
    """Return the bits of a float32 number that is rounded to float16 or bfloat16; a NaN is the canonical one."""
    short = bitcast(convert(value, f16 if kind == "f16" else bf16), u16)
    return select(value != value, constant(u16, 0x7FFF), short)


def canonical(value: Value) -> Value:
    """Return the number, or the one NaN that GPUs compute."""
    bits = (u32, 0x7FFFFFFF) if value.type is f32 else (u64, 0x7FF8000000000000)
    nan = bitcast(constant(*bits), value.type)
    return select(value != value, nan, value)


def flushed(value: Value) -> Value:
    """Return a number, or zero of its sign for a subnormal one."""
    whole, exponent = (u32, 0x7F800000) if value.type is f32 else (u64, 0x7FF0000000000000)
    bits = bitcast(value, whole)
    return select((bits & exponent) == 0, bitcast(bits & (1 << (whole.bits - 1)), value.type), value)


def saturated(value: Value) -> Value:
    """Return the number limited to [0, 1]; zero for a NaN."""
    zero, one = constant(value.type, 0), constant(value.type, 1)
    return select(value > zero, select(value < one, value, one), zero)


def exact_sum_to_odd(a: Value, b: Value) -> Value:
    """Return the sum of two float64 numbers, rounded to odd."""
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)  # Knuth: what the sum lacks, exactly
    bits = bitcast(total, i64)
    outwards = (error > 0.0) == (total > 0.0)  # whether the exact sum has the greater magnitude
    moved = select(outwards, bits + 1, bits - 1)
    odd = select((bits & 1) == 0, moved, bits)
    finite = fabs(total) < constant(f64, float("inf"))
    return bitcast(select((error != 0.0) & (error == error) & finite, odd, bits), f64)


def odd_single(value: Value) -> Value:
    """Return a float64 number rounded to float32, to odd."""
    single = convert(value, f32)
    back = convert(single, f64)
    bits = bitcast(single, u32)
    cut = select(fabs(back) > fabs(value), bits - 1, bits)
    inexact = (back != value) & (value == value)
    return bitcast(select(inexact, cut | 1, bits), f32)


def narrow_directed(value: Value, kind: str, mode: str) -> Value:
    """Return the bits of a float32 number that is rounded to float16 or bfloat16 in a direction."""
    near = to_narrow(value, kind)
    back = from_narrow(near, kind)
    down = near - 1  # towards zero: from infinity to the greatest number
    up = near + 1
    negative = (near >> 15) == 1
    greater, less = back > value, back < value
    smallest = constant(u16, 1), constant(u16, 0x8001)
    zero = (near & 0x7FFF) == 0
    if mode == "rz":
        wrong = select(negative, less, greater)
        return select(wrong, down, near)
    if mode == "rm":
        return select(greater, select(zero, smallest[1], select(negative, up, down)), near)
    return select(less, select(zero, smallest[0], select(negative, down, up)), near)


def to_tf32(value: Value, mode: str) -> Value:
    """Return the bits of a number with 10 digits after the point: ``rna`` ties away, ``rn`` to even, ``rz`` cut."""
    bits = bitcast(value, u32)
    if mode == "rz":
        rounded = bits
    elif mode == "rn":
        rounded = bits + (((bits >> 13) & 1) + 0x0FFF)
    else:
        rounded = bits + 0x1000
    finite = (bits & 0x7F800000) != 0x7F800000
    return select(finite, rounded & 0xFFFFE000, select(value != value, constant(u32, 0x7FFFFFFF), bits))


def directed(operation: str, mode: str, *operands: Value, result: Type | None = None) -> Value:
    """Return the result of ``fadd``, ``fmul``, ``fma``, ``fptrunc``, ... rounded in a direction.

    The processor does it: a function of its own sets the direction, computes and sets it back.
    """
    to = result or operands[0].type
    of = operands[0].type
    name = f"ptx.{operation}.{mode}.{to.name}.{of.name}"
    module = body().module
    kinds = [operand.type.ir for operand in operands]
    if name not in module.functions:
        module.functions[name] = (name, to, [operand.type for operand in operands])
        suffix = _suffix(to) if of == to else f"{_suffix(to)}.{_suffix(of)}"
        intrinsic = f"@llvm.experimental.constrained.{operation}.{suffix}"
        body().declare("declare void @llvm.set.rounding(i32)")
        body().declare(f"declare {to.ir} {intrinsic}({', '.join([*kinds, 'metadata', 'metadata'])})")
        values = ", ".join([f"{kind} %p{k}" for k, kind in enumerate(kinds)])
        code = [
            "entry:",
            f"  call void @llvm.set.rounding(i32 {MODES[mode]}) strictfp",
            f"  %r = call {to.ir} {intrinsic}({values}, {_DYNAMIC}) strictfp",
            f"  call void @llvm.set.rounding(i32 {MODES['rn']}) strictfp",
            f"  ret {to.ir} %r",
            "",
        ]
        head = f"{to.ir} @{name}({values}) noinline nounwind strictfp"
        module.written.append(Function(name, head, "\n".join(code), False, False))
    values = ", ".join(operand.text for operand in operands)
    return emit(to, f"call {to.ir} @{name}({values})")


def _suffix(type_: Type) -> str:
    return f"{'f' if type_.is_float else 'i'}{type_.bits}"
