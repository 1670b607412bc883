"""Integer arithmetic: sums with carries, products, quotients, comparison and choice (PTX ISA, "Integer Arithmetic")."""

from __future__ import annotations

from typing import Final

from ....backends.llvm.instructions import intrinsic, maximum, minimum, select
from ....backends.llvm.value_types import i1, u8, u32, u64
from ....backends.llvm.values import Value, constant, convert, emit, truth
from ..ptx_text import Instruction
from ..ptx_types import PtxType, signed_of, u128, unsigned
from ..thread_code import Translation
from . import float_opcodes as floats
from .opcode_table import opcode, typed

__all__: list[str] = []

_CARRY: Final = "%.carry"


def _as_unsigned(value: Value) -> Value:
    return Value(unsigned(value.type.bits), value.name)


def _with_carry(t: Translation, i: Instruction, a: Value, b: Value, *, subtract: bool, takes: bool) -> Value:
    """Return ``a + b + carry`` or ``a - b - borrow`` of unsigned integers, and note the carry for ``.cc``."""
    gives = i.has("cc")
    if not gives and not takes:
        return a - b if subtract else a + b
    t.scopes[0].setdefault(_CARRY, i1)
    wide = u64 if a.type.bits == 32 else u128
    x, y = convert(a, wide), convert(b, wide)
    if takes:
        y = y + convert(t.raw(_CARRY, 1), wide)
    total = x - y if subtract else x + y
    if gives:
        t.write_raw(_CARRY, convert(total >> a.type.bits, u8) & 1 != 0)
    return convert(total, a.type)


@typed("add", "sub", "addc", "subc", floats=floats.arithmetic)
def add(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Add or subtract."""
    subtract = i.parts[0].startswith("sub")
    if type_.lanes > 1:
        pairs = zip(t.lanes(i.operands[1], type_), t.lanes(i.operands[2], type_), strict=True)
        t.write_lanes(i.operands[0], [a - b if subtract else a + b for a, b in pairs], type_)
        return
    a, b = (t.read(one, type_) for one in i.operands[1:3])
    if i.has("sat"):
        value = intrinsic("ssub.sat" if subtract else "sadd.sat", a, b)
    else:
        takes = i.parts[0] in {"addc", "subc"}
        value = _with_carry(t, i, _as_unsigned(a), _as_unsigned(b), subtract=subtract, takes=takes)
        value = Value(type_.compute, value.name)
    t.write(i.operands[0], value, type_)


def _product(i: Instruction, a: Value, b: Value) -> Value:
    """Return the lower half, the upper half or the whole of a product."""
    if i.has("lo"):
        return a * b
    bits = a.type.bits
    wide = unsigned(2 * bits) if a.type.kind == "u" else signed_of(unsigned(2 * bits))
    whole = convert(a, wide) * convert(b, wide)
    return whole if i.has("wide") else convert(whole >> bits, a.type)


@typed("mul", floats=floats.arithmetic)
def mul(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Multiply."""
    value = _product(i, t.read(i.operands[1], type_), t.read(i.operands[2], type_))
    t.write_raw(i.operands[0], _as_unsigned(value), signed=type_.is_signed)


@typed("mad", "madc", floats=floats.fma)
def mad(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Multiply and add."""
    product = _product(i, t.read(i.operands[1], type_), t.read(i.operands[2], type_))
    c = t.raw(i.operands[3], product.type.bits)
    if i.has("sat"):  # of mad.hi.sat.s32
        value = _as_unsigned(intrinsic("sadd.sat", product, Value(product.type, c.name)))
    else:
        value = _with_carry(t, i, _as_unsigned(product), c, subtract=False, takes=i.parts[0] == "madc")
    t.write_raw(i.operands[0], value, signed=type_.is_signed)


@typed("mul24", "mad24")
def mul24(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Multiply numbers of 24 bits."""
    a, b = ((t.read(one, type_) << 8) >> 8 for one in i.operands[1:3])
    wide = signed_of(u64) if type_.is_signed else u64
    whole = convert(a, wide) * convert(b, wide)
    value = convert(whole if i.has("lo") else whole >> 16, type_.compute)
    if i.parts[0] == "mad24":
        c = t.read(i.operands[3], type_)
        value = intrinsic("sadd.sat", value, c) if i.has("sat") else value + c
    t.write(i.operands[0], value, type_)


@typed("div", "rem", floats=floats.divide)
def div(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Divide; a quotient by zero has all bits set, as on the devices, and a remainder is the dividend."""
    a, b = (t.read(one, type_) for one in i.operands[1:3])
    by_zero = b == 0
    bad = by_zero
    if type_.is_signed:
        bad = bad | ((b == -1) & (a == -(1 << (type_.bits - 1))))
    safe = select(bad, constant(type_.compute, 1), b)
    if i.parts[0] == "div":
        value = select(by_zero, constant(type_.compute, -1), a // safe)
    else:
        value = select(by_zero, a, a % safe)
    t.write(i.operands[0], value, type_)


@typed("abs", "neg", floats=floats.sign)
def absolute(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Take the magnitude, or change the sign."""
    a = t.read(i.operands[1], type_)
    t.write(i.operands[0], -a if i.parts[0] == "neg" else select(a < 0, -a, a), type_)


@typed("min", "max", floats=floats.extreme)
def least(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Choose the lesser or the greater number."""
    choose = minimum if i.parts[0] == "min" else maximum
    pairs = zip(t.lanes(i.operands[1], type_), t.lanes(i.operands[2], type_), strict=True)
    values = [choose(a, b) for a, b in pairs]
    if i.has("relu"):
        values = [maximum(value, 0) for value in values]
    t.write_lanes(i.operands[0], values, type_)


@typed("sad")
def sad(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Add the distance of two numbers."""
    a, b, c = (t.read(one, type_) for one in i.operands[1:4])
    t.write(i.operands[0], c + select(a < b, b - a, a - b), type_)


@opcode("dp4a", "dp2a")
def dot(t: Translation, i: Instruction) -> None:
    """Add the products of four bytes, or of two halves and two bytes."""
    first, second = (t.type(name, i) for name in i.parts[-2:])
    a, b = t.raw(i.operands[1]), t.raw(i.operands[2])
    result = signed_of(u32) if "s32" in i.parts[-2:] else u32
    total = Value(result, t.raw(i.operands[3]).name)
    count = 4 if i.parts[0] == "dp4a" else 2
    shift = 16 if i.has("hi") else 0
    for k in range(count):
        x = _piece(a, k * (32 // count), 32 // count, first)
        y = _piece(b, k * 8 + shift, 8, second)
        total = total + convert(x, result) * convert(y, result)
    t.write_raw(i.operands[0], _as_unsigned(total))


def _piece(value: Value, at: int, bits: int, type_: PtxType) -> Value:
    short = convert(value >> at, unsigned(bits))
    return Value(signed_of(short.type), short.name) if type_.is_signed else short


_FLOAT: Final = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq", "neu": "une",
    "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno",
}  # fmt: skip
_INTEGER: Final = {"eq": "eq", "ne": "ne", "lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}


def compared(t: Translation, i: Instruction, word: str, a: Value, b: Value) -> Value:
    """Return whether a comparison holds."""
    if a.type.is_float:
        text, known = "fcmp", _FLOAT.get(word)
    else:
        sign = "s" if a.type.is_signed else "u"
        text, known = "icmp", _INTEGER.get(word, sign + word if word in {"lt", "le", "gt", "ge"} else None)
    if known is None:
        t.unsupported(i)
    return emit(i1, f"{text} {known} {a.text}, {b.name}")


def _comparison(t: Translation, i: Instruction, type_: PtxType) -> list[Value]:
    x, y = (floats.inputs(t, i, one, type_) for one in i.operands[1:3])
    return [compared(t, i, i.parts[1], a, b) for a, b in zip(x, y, strict=True)]


def _combined(t: Translation, i: Instruction, values: list[Value]) -> list[Value]:
    """Return the results of comparisons combined with the predicate that the instruction may name."""
    if len(i.operands) < 4:
        return values
    other = t.raw(i.operands[3], 1)
    word = i.one_of(("and", "or", "xor"))
    return [{"and": v & other, "or": v | other, "xor": v ^ other}[word] for v in values]


@opcode("setp")
def setp(t: Translation, i: Instruction) -> None:
    """Compare, and set one or two predicates."""
    values = _comparison(t, i, t.type(i.type, i))
    targets = [one.strip() for one in i.operands[0].split("|")]
    if len(values) == 1:
        values.append(~values[0])
    values = _combined(t, i, values)
    for target, value in zip(targets, values):
        t.write_raw(target, value)


@opcode("set")
def set_(t: Translation, i: Instruction) -> None:
    """Compare, and set a register to ones or 1.0, or to zero."""
    type_, to = t.type(i.type, i), t.type(i.parts[-2], i)
    values = _combined(t, i, _comparison(t, i, type_))
    one = constant(to.compute, 1 if to.is_float else -1)
    t.write_lanes(i.operands[0], [select(v, one, constant(to.compute, 0)) for v in values], to)


@opcode("selp")
def selp(t: Translation, i: Instruction) -> None:
    """Choose by a predicate."""
    bits = t.type(i.type, i).bits
    t.write_raw(i.operands[0], select(t.raw(i.operands[3], 1), t.raw(i.operands[1], bits), t.raw(i.operands[2], bits)))


@opcode("slct")
def slct(t: Translation, i: Instruction) -> None:
    """Choose by the sign of a number."""
    bits = t.type(i.parts[-2], i).bits
    sign = floats.inputs(t, i, i.operands[3], t.type(i.type, i))[0]
    t.write_raw(i.operands[0], select(truth(sign >= 0), t.raw(i.operands[1], bits), t.raw(i.operands[2], bits)))
