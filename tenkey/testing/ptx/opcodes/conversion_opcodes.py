"""Conversion between types, with every rounding (PTX ISA, "cvt")."""

from __future__ import annotations

from typing import Final

from ....backends.llvm.instructions import intrinsic, maximum, minimum, select
from ....backends.llvm.value_types import f32, f64, u16, u32
from ....backends.llvm.values import Value, constant, convert
from ..float_rounding import directed, narrow_directed, odd_single, saturated, to_narrow, to_tf32
from ..ptx_text import Instruction
from ..ptx_types import PtxType, signed_of
from ..thread_code import Translation
from . import float_opcodes as floats
from .opcode_table import opcode

__all__: list[str] = []

_WHOLE: Final = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_MODES: Final = ("rz", "rm", "rp")
_GREATEST: Final = {"f16": 0x7BFF, "bf16": 0x7F7F}


@opcode("cvt")
def cvt(t: Translation, i: Instruction) -> None:
    """Convert one number, or two to a packed pair."""
    if "pack" in i.parts:
        _pack(t, i)
        return
    if i.parts[-1] not in _KNOWN or i.parts[-2] not in _KNOWN:
        t.unsupported(i)
    to, of = t.type(i.parts[-2], i), t.type(i.type, i)
    if to.lanes == 2 and len(i.operands) == 3:  # d, a, b: a is the upper half
        high, low = (floats.inputs(t, i, one, of)[0] for one in i.operands[1:3])
        bits = [_narrowed(i, value, to) for value in (low, high)]
        t.write_raw(i.operands[0], convert(bits[1], u32) << 16 | convert(bits[0], u32))
        return
    if to.lanes != 1 or of.lanes != 1:
        t.unsupported(i)
    if to.name == "tf32":
        mode = i.one_of(("rna", "rn", "rz"))
        value = t.read(i.operands[1], of)
        if i.has("relu"):
            value = select(value < 0, constant(f32, 0), value)
        t.write_raw(i.operands[0], to_tf32(value, mode))
    elif of.is_float and to.is_float:
        _float_to_float(t, i, to, of)
    elif of.is_float:
        _float_to_integer(t, i, to, of)
    elif to.is_float:
        _integer_to_float(t, i, to, of)
    else:
        _integer_to_integer(t, i, to, of)


_KNOWN: Final = frozenset(
    "u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64 tf32 f16x2 bf16x2".split()  # noqa: SIM905 -- as in the manual
)


def _narrowed(i: Instruction, value: Value, to: PtxType) -> Value:
    """Return the bits of a float32 number that is rounded to 16 bits as the instruction says."""
    if i.has("relu"):
        value = select(value < 0, constant(f32, 0), value)
    if i.has("sat"):
        value = saturated(value)
    mode = i.one_of(_MODES)
    bits = narrow_directed(value, to.narrow, mode) if mode else to_narrow(value, to.narrow)
    if i.has("satfinite"):
        greatest = constant(u16, _GREATEST[to.narrow])
        magnitude = bits & 0x7FFF
        infinite = magnitude == (greatest + 1 if to.narrow == "bf16" else constant(u16, 0x7C00))
        bits = select(infinite, (bits & 0x8000) | greatest, bits)
    return bits


def _float_to_float(t: Translation, i: Instruction, to: PtxType, of: PtxType) -> None:
    value = floats.inputs(t, i, i.operands[1], of)[0]
    how = next((_WHOLE[part] for part in i.parts if part in _WHOLE), None)
    if how is not None:
        value = intrinsic(how, value)
    if to.narrow:
        if value.type is f64:
            value = odd_single(value)
        t.write_raw(i.operands[0], _narrowed(i, value, to))
        return
    mode = i.one_of(_MODES)
    if to.compute is not value.type:
        if to.compute is f32 and mode:
            value = directed("fptrunc", mode, value, result=f32)
        else:
            value = convert(value, to.compute)
    floats.results(t, i, [value], to)


def _float_to_integer(t: Translation, i: Instruction, to: PtxType, of: PtxType) -> None:
    """Convert to the nearest integer of the type; a NaN gives zero, or 0x8000... to 64 bits or from float64."""
    value = floats.inputs(t, i, i.operands[1], of)[0]
    how = next((_WHOLE[part] for part in i.parts if part in _WHOLE), "trunc")
    value = intrinsic(how, value)
    sign = "s" if to.is_signed else "u"
    name = f"llvm.fpto{sign}i.sat.i{to.bits}.{'f32' if value.type is f32 else 'f64'}"
    t.body.declare(f"declare i{to.bits} @{name}({value.type.ir})")
    whole = t.body.value(to.compute, f"call i{to.bits} @{name}({value.text})", pure=True)
    if to.bits == 64 or of.bits == 64:
        whole = select(value != value, constant(to.compute, 1 << (to.bits - 1)), whole)
    t.write(i.operands[0], whole, to)


def _integer_to_float(t: Translation, i: Instruction, to: PtxType, of: PtxType) -> None:
    value = t.read(i.operands[1], of)
    mode = i.one_of(_MODES)
    if to.narrow:
        # every integer of 32 bits is a float64; of 64 bits, the lowest bit of the float64 tells what was cut off
        wide = convert(value, f64) if of.bits <= 32 else _wide_to_odd(value)
        single = odd_single(wide)
        t.write_raw(i.operands[0], _narrowed(i, single, to))
        return
    if mode and of.bits >= (32 if to.compute is f32 else 64):
        result = directed("sitofp" if of.is_signed else "uitofp", mode, value, result=to.compute)
    else:
        result = convert(value, to.compute)
    floats.results(t, i, [result], to)


def _wide_to_odd(value: Value) -> Value:
    """Return an integer of 64 bits as float64, rounded to odd."""
    lost = value & 0x7FF
    kept = value ^ lost
    sticky = select(lost != 0, constant(value.type, 0x800), constant(value.type, 0))
    large = value > (1 << 53)
    if value.type.is_signed:
        large = large | (value < -(1 << 53))
    return convert(select(large, kept | sticky, value), f64)


def _integer_to_integer(t: Translation, i: Instruction, to: PtxType, of: PtxType) -> None:
    value = t.read(i.operands[1], of)
    if i.has("sat"):
        (low, high), (least, most) = _bounds(to), _bounds(of)
        if low > least:
            value = maximum(value, low)
        if high < most:
            value = minimum(value, high)
    wide = signed_of(to.storage) if of.is_signed else to.storage
    t.write(i.operands[0], Value(to.compute, convert(value, wide).name), to)


def _bounds(type_: PtxType) -> tuple[int, int]:
    """Return the least and the greatest number of an integer type."""
    half = 1 << (type_.bits - 1)
    return (-half, half - 1) if type_.is_signed else (0, 2 * half - 1)


def _pack(t: Translation, i: Instruction) -> None:
    """Convert two integers with saturation, and put them beside each other: ``cvt.pack.sat.u8.s32.b32 d, a, b, c``."""
    to = t.type(i.parts[i.parts.index("sat") + 1], i) if "sat" in i.parts else None
    if to is None or to.bits not in {8, 16}:
        t.unsupported(i)
    of = t.type("s32", i)
    low, high = _bounds(to)
    mask = (1 << to.bits) - 1
    a, b = (Value(u32, minimum(maximum(t.read(one, of), low), high).name) & mask for one in i.operands[1:3])
    value = a << to.bits | b
    if len(i.operands) > 3:
        value = t.raw(i.operands[3]) << (2 * to.bits) | value
    t.write_raw(i.operands[0], value)
