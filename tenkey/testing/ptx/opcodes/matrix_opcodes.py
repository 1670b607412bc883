"""Products of small matrices that a warp holds together, and their loads (PTX ISA, "Warp Level Matrix Instructions").

Note [Fragments]
~~~~~~~~~~~~~~~~
The manual gives a figure for each shape; they follow one rule. A register of a lane holds ``P`` neighbouring elements
along ``k`` (two of 16 bits, four of 8, one otherwise). With ``g = lane // 4`` and ``t = lane % 4``, register ``r`` of A
holds row ``g`` (``g + 8`` for odd ``r`` where there are 16 rows) and the elements ``P * t + 4 * P * block`` and
following, ``block`` counting the registers of a row. B has the same with the column for the row. C and D hold the
columns ``2 * t`` and ``2 * t + 1`` of row ``g``, then of row ``g + 8``.

Products are exact. Sums of floats are done in float64 in the order of ``k`` and rounded once; a device rounds more
often, in an order that is not documented. Guarded by ``tests/testing/ptx/test_matrices.py``.
"""

from __future__ import annotations

import re
from typing import Final

from ....backends.llvm.instructions import bitcast, maximum, minimum
from ....backends.llvm.instructions import fma as fused
from ....backends.llvm.value_types import f32, f64, i8, i32, i64, u8, u16, u32, u64
from ....backends.llvm.values import Body, Function, Value, constant, convert, writing
from ....backends.llvm.values import body as current
from ..context_layout import Context, Frame, Kind
from ..float_rounding import from_narrow, odd_single, to_narrow
from ..ptx_text import Instruction, listed
from ..ptx_types import PtxType, unsigned
from ..thread_code import Translation, words
from .memory_opcodes import READ, WRITE, address_of, checked, load_bits, record, store_bits
from .opcode_table import opcode
from .warp_opcodes import published

__all__: list[str] = []

_FULL: Final = 0xFFFFFFFF
_SHAPE: Final = re.compile(r"m(\d+)n(\d+)k(\d+)$")


_SHAPES: Final = {
    "f16": ((16, 8, 8), (16, 8, 16)), "bf16": ((16, 8, 8), (16, 8, 16)), "tf32": ((16, 8, 4), (16, 8, 8)),
    "f64": ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)),
    "s8": ((8, 8, 16), (16, 8, 16), (16, 8, 32)), "u8": ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
}  # fmt: skip


@opcode("mma")
def product(t: Translation, i: Instruction) -> None:
    """Compute ``D = A * B + C``."""
    found = next((shape for part in i.parts if (shape := _SHAPE.match(part))), None)
    if found is None or not i.has("row") or not i.has("col"):
        t.unsupported(i)
    rows, columns, depth = map(int, found.groups())
    result, a, b, added = i.parts[-4:]
    if a not in _SHAPES or b not in _SHAPES or (rows, columns, depth) not in _SHAPES[a] or i.has("sp"):
        t.unsupported(i)
    first, second = t.type(a, i), t.type(b, i)
    given = [
        t.raw(one, max(32, kind.bits))
        for operand, kind in zip(i.operands[1:3], (first, second), strict=True)
        for one in listed(operand)
    ]
    t.warp_operation(constant(u32, _FULL), given)
    scratch = Value(words, (t.frame + int(Frame.DEPOSIT)).name)
    halves = added == "f16"
    width = 64 if result == "f64" else 32
    addends = listed(i.operands[3])
    for k, one in enumerate(addends):
        t.body.write(f"store {convert(t.raw(one, width), u64).text}, {(scratch + k).text}")
    name = _function(t, rows, depth, first, second, halves, result == "f16", i.has("satfinite"))
    lane = Value(u32, t.thread.name) & 31
    size = t.word(Context.FRAME_WORDS)
    base = t.frame + (constant(u64, 0) - convert(lane, u64) * size)
    t.body.write(f"call void @{name}({base.text}, {size.text}, {lane.text}, {scratch.text})")
    t.body.known.clear()
    for k, one in enumerate(listed(i.operands[0])):
        value = t.body.value(u64, f"load i64, {(scratch + k).text}")
        t.write_raw(one, convert(value, unsigned(width)))


def _function(
    t: Translation, rows: int, depth: int, a: PtxType, b: PtxType, halves_in: bool, halves_out: bool, limited: bool
) -> str:
    """Write the function that computes what one lane holds of D, unless the module has it."""
    module = t.body.module
    name = f"mma.{rows}.{depth}.{a.name}.{b.name}.{halves_in}.{halves_out}.{limited}"
    if name in module.functions:
        return name
    module.functions[name] = (name, u32, [])
    body = Body(module, contract=False)
    with writing(body):
        base, size, lane = Value(words, "%p0"), Value(u64, "%p1"), Value(u32, "%p2")
        scratch = Value(words, "%p3")
        group, place = lane >> 2, lane & 3
        tall = rows == 16
        left = [
            [_element(base, size, group * 4 + _t(k, a), _register(k, a, tall, lower), k, a) for k in range(depth)]
            for lower in range(1 + tall)
        ]
        offset = depth * rows // 32 // _pieces(a)
        right = [
            [_element(base, size, (place * 2 + column) * 4 + _t(k, b), offset + k // (4 * _pieces(b)), k, b)
             for k in range(depth)]
            for column in range(2)
        ]  # fmt: skip
        results = []
        for row in range(1 + tall):
            for column in range(2):
                start = _addend(body, scratch, 2 * row + column, a, halves_in)
                results.append(_sum(left[row], right[column], start, a, limited))
        _store(body, scratch, results, a, halves_out)
        body.write("ret void")
    head = f"void @{name}(ptr %p0, i64 %p1, i32 %p2, ptr %p3) noinline nounwind"
    code = "\n".join(["entry:", *body.variables, *body.lines, ""])
    module.written.append(Function(name, head, code, False, False))
    return name


def _pieces(kind: PtxType) -> int:
    """Return how many elements a register holds."""
    return max(1, 32 // kind.bits)


def _t(k: int, kind: PtxType) -> int:
    return k % (4 * _pieces(kind)) // _pieces(kind)


def _register(k: int, kind: PtxType, tall: bool, lower: int) -> int:
    block = k // (4 * _pieces(kind))
    return 2 * block + lower if tall else block


def _element(base: Value, size: Value, lane: Value, register: int, k: int, kind: PtxType) -> Value:
    """Return an element that a lane has published."""
    place = base + convert(lane, u64) * size + (int(Frame.PUBLISHED) + register)
    word = current().value(u64, f"load i64, {place.text}")
    if kind.bits == 64:
        return bitcast(word, f64)
    if kind.bits == 32:
        return convert(bitcast(convert(word, u32) & 0xFFFFE000, f32), f64)
    part = convert(word, u32) >> (kind.bits * (k % _pieces(kind)))
    if kind.bits == 16:
        return convert(from_narrow(convert(part, u16), kind.name), f64)
    byte = convert(part, u8)
    return convert(Value(i8, byte.name) if kind.name == "s8" else byte, i32)


def _addend(body: Body, scratch: Value, k: int, kind: PtxType, halves: bool) -> Value:
    if halves:
        word = body.value(u64, f"load i64, {(scratch + k // 2).text}")
        return convert(from_narrow(convert(convert(word, u32) >> (16 * (k % 2)), u16), "f16"), f64)
    word = body.value(u64, f"load i64, {(scratch + k).text}")
    if kind.bits == 64:
        return bitcast(word, f64)
    single = convert(word, u32)
    return Value(i32, single.name) if kind.bits == 8 else convert(bitcast(single, f32), f64)


def _sum(left: list[Value], right: list[Value], start: Value, kind: PtxType, limited: bool) -> Value:
    if kind.bits == 8:
        wide = convert(start, i64)
        for a, b in zip(left, right, strict=True):
            wide = wide + convert(a * b, i64)
        if limited:
            wide = minimum(maximum(wide, -(1 << 31)), (1 << 31) - 1)
        return convert(wide, i32)
    total = start
    for a, b in zip(left, right, strict=True):
        total = fused(a, b, total) if kind.bits == 64 else total + a * b
    return total


def _store(body: Body, scratch: Value, results: list[Value], kind: PtxType, halves: bool) -> None:
    if halves:
        bits = [convert(to_narrow(odd_single(one), "f16"), u64) for one in results]
        results = [low | (high << 16) for low, high in zip(bits[::2], bits[1::2], strict=True)]
    elif kind.bits == 64:
        results = [bitcast(one, u64) for one in results]
    elif kind.bits == 8:
        results = [convert(Value(u32, one.name), u64) for one in results]
    else:
        results = [convert(bitcast(convert(one, f32), u32), u64) for one in results]
    for k, one in enumerate(results):
        body.write(f"store {one.text}, {(scratch + k).text}")


# ---- loads and stores of matrices


@opcode("ldmatrix", "stmatrix")
def transfer(t: Translation, i: Instruction) -> None:
    """Load or store 8 x 8 matrices of 16 bits, each lane's address being that of one row."""
    if not i.has("m8n8") or not i.has("b16"):
        t.unsupported(i)
    count = next(int(part[1]) for part in i.parts if part in {"x1", "x2", "x4"})
    loads = i.parts[0] == "ldmatrix"
    registers, operand = (i.operands[0], i.operands[1]) if loads else (i.operands[1], i.operands[0])
    t.warp_operation(constant(u32, _FULL), [address_of(t, operand)])
    lane = Value(u32, t.thread.name) & 31
    for m, register in enumerate(listed(registers)[:count]):
        if i.has("trans"):
            parts = [_row(t, i, 8 * m + (lane & 3) * 2 + k, (lane >> 2) * 2, 2, loads) for k in range(2)]
        else:
            parts = [_row(t, i, 8 * m + (lane >> 2), (lane & 3) * 4, 4, loads)]
        bits = 32 // len(parts)
        if loads:
            value = constant(u32, 0)
            for k, place in enumerate(parts):
                value = value | convert(load_bits(t, place, bits), u32) << (bits * k)
            t.write_raw(register, value)
        else:
            for k, place in enumerate(parts):
                store_bits(t, place, convert(t.raw(register) >> (bits * k), unsigned(bits)))
    t.warp_operation(constant(u32, _FULL), [])  # no lane goes on before all have read or written


def _row(t: Translation, i: Instruction, owner: Value, offset: Value, size: int, loads: bool) -> Value:
    """Return a pointer into the row whose address a lane has given."""
    row = published(t, owner)
    t.require((row & 15) == 0, Kind.MISALIGNED, row)
    flags = READ if loads else WRITE
    place = checked(t, row + convert(offset, u64), size, "shared", flags)
    record(t, i, place, size, flags)
    return place
