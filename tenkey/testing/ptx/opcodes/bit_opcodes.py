"""Logic, shifts, fields of bits and bytes (PTX ISA, "Logic and Shift Instructions")."""

from __future__ import annotations

from ....backends.llvm.instructions import ctlz, ctpop, intrinsic, minimum, select
from ....backends.llvm.value_types import u8, u32, u64
from ....backends.llvm.values import Value, constant, convert
from ..ptx_text import Instruction
from ..ptx_types import PtxType, i128, signed_of, u128, unsigned
from ..thread_code import Translation
from .opcode_table import BITWISE, opcode, typed

__all__: list[str] = []


@typed("and", "or", "xor", "not", "cnot")
def logic(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Combine bits."""
    a = t.raw(i.operands[1], type_.bits)
    match i.parts[0]:
        case "not":
            value = ~a
        case "cnot":
            value = convert(a == 0, a.type)
        case name:
            value = BITWISE[name](a, t.raw(i.operands[2], type_.bits))
    t.write_raw(i.operands[0], value)


@typed("shl", "shr")
def shift(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Shift; counts beyond the width give zero, or the sign."""
    a, count = t.read(i.operands[1], type_), t.raw(i.operands[2])
    far = count >= type_.bits
    by = convert(select(far, constant(u32, type_.bits - 1), count), unsigned(type_.bits))
    by = Value(a.type, by.name)
    if i.parts[0] == "shr" and type_.is_signed:
        value = a >> by
    else:
        value = select(far, constant(a.type, 0), a << by if i.parts[0] == "shl" else a >> by)
    t.write(i.operands[0], value, type_)


@opcode("shf")
def funnel(t: Translation, i: Instruction) -> None:
    """Shift the pair of two registers."""
    count = t.raw(i.operands[3])
    count = minimum(count, 32) if i.has("clamp") else count & 31
    low, high = (convert(t.raw(one), u64) for one in i.operands[1:3])
    both, by = high << 32 | low, convert(count, u64)
    t.write_raw(i.operands[0], convert((both << by) >> 32 if i.has("l") else both >> by, u32))


@typed("popc", "clz")
def count(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Count ones, or leading zeros."""
    a = t.raw(i.operands[1], type_.bits)
    t.write_raw(i.operands[0], convert(ctpop(a) if i.parts[0] == "popc" else ctlz(a), u32))


@typed("brev")
def reverse(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Reverse the order of the bits."""
    t.write_raw(i.operands[0], intrinsic("bitreverse", t.raw(i.operands[1], type_.bits)))


@typed("bfind")
def find_first(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Find the highest bit that is not the sign."""
    a = t.read(i.operands[1], type_)
    if type_.is_signed:
        a = a ^ (a >> (type_.bits - 1))
    zeros = convert(ctlz(Value(unsigned(type_.bits), a.name)), u32)
    none = zeros == type_.bits
    value = zeros if i.has("shiftamt") else constant(u32, type_.bits - 1) - zeros
    t.write_raw(i.operands[0], select(none, constant(u32, -1), value))


@opcode("fns")
def nth_set(t: Translation, i: Instruction) -> None:
    """Find the n-th bit that is set, from a base on: upwards for n > 0, downwards for n < 0."""
    mask, base, offset = (t.raw(one) for one in i.operands[1:4])
    found, seen = constant(u32, -1), constant(u32, 0)
    step = Value(signed_of(u32), offset.name)
    wanted = Value(u32, select(step < 0, -step, step).name)
    first = (mask >> (base & 31)) & 1
    found = select((step == 0) & (first == 1), base, found)
    for k in range(32):
        up = base + k
        at = select(step < 0, base - k, up)
        bit = select(at < 32, (mask >> (at & 31)) & 1, constant(u32, 0))
        seen = seen + bit
        found = select((bit == 1) & (seen == wanted) & (step != 0), at, found)
    t.write_raw(i.operands[0], found)


@typed("bfe")
def extract_field(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Extract a field, extended by zeros or by the field's highest bit."""
    at, length = (t.raw(one) & 255 for one in i.operands[2:4])
    a = t.read(i.operands[1], type_)
    last = type_.bits - 1
    if not type_.is_signed:
        wide = convert(a, u128)
        mask = (constant(u128, 1) << convert(minimum(length, 64), u128)) - 1
        value = (wide >> convert(minimum(at, 64), u128)) & mask
        t.write(i.operands[0], convert(value, type_.compute), type_)
        return
    # the sign is the bit min(at + length - 1, last); beyond the operand, every bit is the sign
    end = minimum(at + length - 1, last)
    sign = (a >> Value(a.type, convert(end, unsigned(type_.bits)).name)) & 1
    fill = -sign
    wide = convert(a, i128) >> Value(i128, convert(minimum(at, last), u128).name)
    kept = minimum(length, 64)
    mask = (constant(u128, 1) << convert(kept, u128)) - 1
    signed_mask = Value(i128, mask.name)
    value = (wide & signed_mask) | (convert(fill, i128) & ~signed_mask)
    beyond = at > last
    zero = length == 0
    picked = convert(value, type_.compute)
    past = convert(select(beyond, fill, picked), type_.compute)
    t.write(i.operands[0], select(zero, constant(type_.compute, 0), past), type_)


@typed("bfi")
def insert_field(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Insert a field."""
    a, b = (convert(t.raw(one, type_.bits), u128) for one in i.operands[1:3])
    at, length = (convert(minimum(t.raw(one) & 255, 64), u128) for one in i.operands[3:5])
    mask = ((constant(u128, 1) << length) - 1) << at
    t.write_raw(i.operands[0], convert((b & ~mask) | ((a << at) & mask), unsigned(type_.bits)))


@typed("szext")
def extend(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Extend the lowest bits by zeros or their sign."""
    a, length = t.read(i.operands[1], type_), t.raw(i.operands[2])
    length = minimum(length, 32) if i.has("clamp") else length & 31
    by = constant(u32, 32) - length
    none = length == 0
    by = Value(a.type, select(none, constant(u32, 0), by).name)
    t.write(i.operands[0], select(none, constant(a.type, 0), (a << by) >> by), type_)


@opcode("bmsk")
def mask(t: Translation, i: Instruction) -> None:
    """Make a mask of so many bits from a place on."""
    at, length = (t.raw(one) for one in i.operands[1:3])
    if i.has("clamp"):
        at, length = minimum(at, 32), minimum(length, 32)
    else:
        at, length = at & 31, length & 31
    ones = (constant(u64, 1) << convert(length, u64)) - 1
    t.write_raw(i.operands[0], convert(ones << convert(at, u64), u32))


@opcode("lop3")
def lop3(t: Translation, i: Instruction) -> None:
    """Apply a table of truth to three registers."""
    target, *others = i.operands
    a, b, c = (t.raw(one) for one in others[:3])
    table = int(others[3].rstrip("U"), 0)
    value = constant(u32, 0)
    for k in range(8):
        if table >> k & 1:
            value = value | ((a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c))
    if len(others) > 4:  # lop3.or.b32 d|p, a, b, c, table, q: whether the result is not zero, with another predicate
        target, _, flag = (one.strip() for one in target.partition("|"))
        other = t.raw(others[4], 1)
        holds = value != 0
        t.write_raw(flag, holds | other if i.has("or") else holds & other)
    t.write_raw(target, value)


@opcode("prmt")
def permute(t: Translation, i: Instruction) -> None:
    """Choose bytes of two registers."""
    low, high = (convert(t.raw(one), u64) for one in i.operands[1:3])
    both, choice = high << 32 | low, t.raw(i.operands[3])
    mode = i.one_of(("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"))
    value = constant(u32, 0)
    for k in range(4):
        byte = _byte(both, _position(choice, k, mode)) if mode else _chosen(both, choice, k)
        value = value | convert(byte, u32) << (8 * k)
    t.write_raw(i.operands[0], value)


def _byte(both: Value, at: Value) -> Value:
    return convert(both >> convert(at << 3, u64), u8)


def _chosen(both: Value, choice: Value, k: int) -> Value:
    nibble = (choice >> (4 * k)) & 15
    byte = _byte(both, nibble & 7)
    sign = Value(signed_of(u8), byte.name) >> 7
    return select(nibble >= 8, Value(u8, sign.name), byte)


def _position(choice: Value, k: int, mode: str) -> Value:
    """Return which of the eight bytes becomes byte ``k`` in a mode with a name."""
    n = choice & 3
    if mode == "f4e":
        return n + k
    if mode == "b4e":
        return (n - k) & 7
    if mode == "rc8":
        return n
    if mode == "ecl":
        return select(n > k, n, constant(u32, k))
    if mode == "ecr":
        return select(n < k, n, constant(u32, k))
    return (n & 1) * 2 + (k & 1)
