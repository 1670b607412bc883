"""Atomic operations (PTX ISA, "atom" and "red"): one thread runs at a time, so that reading and writing are enough."""

from __future__ import annotations

from ....backends.llvm.instructions import bitcast, maximum, minimum, select
from ....backends.llvm.value_types import f32, f64, u32
from ....backends.llvm.values import Value, constant, convert
from ..float_rounding import canonical, flushed, from_narrow, to_narrow
from ..ptx_text import Instruction, listed
from ..ptx_types import PtxType, unsigned
from ..thread_code import Translation
from .float_opcodes import least_or_greatest
from .memory_opcodes import ATOMIC, READ, WRITE, address_of, checked, load_bits, record, space_of, store_bits
from .opcode_table import BITWISE, opcode

__all__: list[str] = []

_OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")


@opcode("atom", "red")
def atomic(t: Translation, i: Instruction) -> None:
    """Read, compute, write."""
    type_, space = t.type(i.type, i), space_of(i)
    operation = i.one_of(_OPERATIONS)
    gives = i.parts[0] == "atom"
    address, *operands = i.operands[1:] if gives else i.operands
    count = next((int(part[1:]) for part in i.parts if part in {"v2", "v4", "v8"}), 1)
    if not operation or i.has("async"):
        t.unsupported(i)
    place = checked(t, address_of(t, address), type_.size * count, space, READ | WRITE | ATOMIC)
    record(t, i, place, type_.size * count, READ | WRITE | ATOMIC)
    targets = listed(i.operands[0]) if gives else ["_"] * count
    given = [listed(one) for one in operands]
    for k, target in enumerate(targets):
        old = load_bits(t, place, type_.bits, k * type_.size)
        values = [t.raw(one[k], type_.bits) for one in given if k < len(one)]
        store_bits(t, place, _computed(operation, type_, space, old, values), k * type_.size)
        if gives:
            t.write_raw(target, old, signed=type_.is_signed)


def _computed(operation: str, type_: PtxType, space: str, old: Value, values: list[Value]) -> Value:
    """Return what is written."""
    match operation:
        case "exch":
            return values[0]
        case "cas":
            return select(old == values[0], values[1], old)
        case "and" | "or" | "xor":
            return BITWISE[operation](old, values[0])
        case "inc":
            return select(old >= values[0], constant(u32, 0), old + 1)
        case "dec":
            return select((old == 0) | (old > values[0]), values[0], old - 1)
    if type_.is_float:
        return _float(operation, type_, space, old, values[0])
    a, b = (Value(type_.compute, one.name) for one in (old, values[0]))
    if operation == "add":
        return old + values[0]
    return Value(old.type, (minimum(a, b) if operation == "min" else maximum(a, b)).name)


def _float(operation: str, type_: PtxType, space: str, old: Value, value: Value) -> Value:
    piece = unsigned(type_.lane_bits)
    result = constant(old.type, 0)
    for k in range(type_.lanes):
        shift = k * type_.lane_bits
        a, b = (convert(one >> shift, piece) for one in (old, value))
        if type_.narrow:
            x, y = from_narrow(a, type_.narrow), from_narrow(b, type_.narrow)
        else:
            x, y = (bitcast(one, f32 if type_.lane_bits == 32 else f64) for one in (a, b))
        if operation == "add":
            flushes = type_.name == "f32" and space == "global"
            x, y = (flushed(x), flushed(y)) if flushes else (x, y)
            total = x + y
            total = flushed(total) if flushes else total
        else:
            total = least_or_greatest(x, y, operation == "min")
        bits = to_narrow(total, type_.narrow) if type_.narrow else bitcast(canonical(total), piece)
        result = result | convert(bits, old.type) << shift
    return result
