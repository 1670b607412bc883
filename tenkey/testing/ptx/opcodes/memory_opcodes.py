"""Loads, stores and addresses, each access checked (PTX ISA, "Data Movement and Conversion Instructions")."""

from __future__ import annotations

import re
from typing import Final

from ....backends.llvm.instructions import select
from ....backends.llvm.value_types import i1, i64, pointer, u8, u32, u64
from ....backends.llvm.values import Value, constant, convert, emit
from ..context_layout import SITE_WORDS, Context, Kind
from ..ptx_text import Instruction, listed
from ..ptx_types import unsigned
from ..thread_code import Place, Translation
from .opcode_table import opcode

__all__ = ["ATOMIC", "READ", "WRITE", "address_of", "checked", "load_bits", "record", "space_of", "store_bits"]

READ: Final = 1
WRITE: Final = 2
GENERIC: Final = 4
DATA: Final = 8
PARAMETER: Final = 16
ATOMIC: Final = 32
SAME: Final = 64
_SPACES: Final = ("global", "shared", "local", "param", "const")
_ADDRESS: Final = re.compile(r"\[\s*(.+?)\s*(?:\+\s*([-+]?\w+)\s*)?\]$", re.DOTALL)


def space_of(i: Instruction) -> str:
    """Return the state space of an access, "generic" if none is stated."""
    for part in i.parts:
        stem = part.partition(":")[0]
        if stem in _SPACES:
            return stem
    return "generic"


def address_of(t: Translation, operand: str) -> Value:
    """Return the address in brackets, as it stands."""
    found = _ADDRESS.match(operand)
    assert found is not None
    base = found[1].partition(",")[0].strip()
    register = t.register(base)
    value = t.raw(base, register.type.bits if register is not None else 64)  # a sum of 32 bits stays one
    more = int(found[2] or "0", 0)
    return convert(value + more if more else value, u64)


def _named(t: Translation, operand: str) -> Value | None:
    """Return the address of a parameter that is named, which needs no check at run time."""
    found = _ADDRESS.match(operand)
    assert found is not None
    name, more = found[1], int(found[2] or "0", 0)
    held = t.find(name)
    if isinstance(held, Place):
        return Value(pointer(u8), (Value(pointer(u8), held.pointer.name) + more).name)
    if t.is_entry and t.register(name) is None:
        for parameter in t.function.parameters:
            if parameter.name == name:
                base = convert(t.word(Context.PARAMETERS), pointer(u8))
                return base + (parameter.offset + more)
    return None


def checked(t: Translation, address: Value, size: int, space: str, flags: int) -> Value:
    """Return a pointer to the memory at an address; the thread stops if it may not be accessed."""
    if space == "shared":
        return _shared(t, address, size, flags)
    if space == "local":
        return _local(t, address, size)
    body = t.body
    kind = {"generic": GENERIC, "const": DATA, "param": PARAMETER}.get(space, 0)
    at = int(Context.SIZE) + SITE_WORDS * t.unit.sites
    t.unit.sites += 1
    first, count = t.word(at), t.word(at + 1)
    fits = (address - first) < count
    if size > 1:
        fits = fits & ((address & (size - 1)) == 0)
    slow, good = body.name("slow"), body.name("good")
    body.branch(fits, good, slow)
    body.label(slow)
    with body.branching():
        look = emit(pointer(u8), f"inttoptr {t.word(Context.LOOKUP).text} to ptr")
        arguments = [
            t.context, constant(i64, at), Value(i64, address.name), constant(i64, size), constant(i64, kind | flags),
            constant(i64, t.line), convert(t.thread, i64), t.local, Value(i64, t.word(Context.LOCAL_SIZE).name),
        ]  # fmt: skip
        result = emit(i1, f"call i1 {look.name}({', '.join(one.text for one in arguments)})")
        body.branch(result, good, "stop")
    body.label(good)
    return convert(address, pointer(u8))


def _shared(t: Translation, address: Value, size: int, flags: int) -> Value:
    """Check an offset in shared memory, and that what is read was written before."""
    total = t.word(Context.SHARED_SIZE)
    t.require((address < total) & (address + size <= total), Kind.SHARED, address)
    if size > 1:
        t.require((address & (size - 1)) == 0, Kind.MISALIGNED, address)
    whole = unsigned(8 * size)
    state = convert(t.word(Context.SHARED_STATE) + address, pointer(whole))
    if flags & READ:
        known = t.body.value(whole, f"load {whole.ir}, {state.text}, align 1")
        t.require(known == -1, Kind.UNINITIALISED, address)
    if flags & WRITE:
        t.body.write(f"store {constant(whole, -1).text}, {state.text}, align 1")
    return convert(t.word(Context.SHARED) + address, pointer(u8))


def _local(t: Translation, address: Value, size: int) -> Value:
    total = t.word(Context.LOCAL_SIZE)
    t.require((address < total) & (address + size <= total), Kind.LOCAL, address)
    if size > 1:
        t.require((address & (size - 1)) == 0, Kind.MISALIGNED, address)
    return Value(pointer(u8), t.local.name) + address


def record(t: Translation, i: Instruction, place: Value, size: int, flags: int, same: Value | None = None) -> None:
    """Tell the detector of races of an access; ``same`` says whether a store changes nothing."""
    if not t.unit.races or space_of(i) not in {"global", "shared", "generic"}:
        return
    body = t.body
    if i.has("volatile", "relaxed", "acquire", "release", "mmio"):
        flags |= ATOMIC
    given = constant(i64, flags)
    if same is not None:
        given = select(same, constant(i64, flags | SAME), given)
    call = emit(pointer(u8), f"inttoptr {t.word(Context.RACE).text} to ptr")
    arguments = [
        t.context, Value(i64, convert(place, u64).name), constant(i64, size), given, constant(i64, t.line),
        convert(t.thread, i64), t.frame,
    ]  # fmt: skip
    result = emit(i1, f"call i1 {call.name}({', '.join(one.text for one in arguments)})")
    good = body.name("good")
    body.branch(result, good, "stop")
    body.label(good)


def load_bits(t: Translation, place: Value, bits: int, offset: int = 0) -> Value:
    """Load an unsigned integer."""
    whole = unsigned(bits)
    return t.body.value(whole, f"load {whole.ir}, {(place + offset).text}, align 1")


def store_bits(t: Translation, place: Value, value: Value, offset: int = 0) -> None:
    """Store an unsigned integer."""
    t.body.write(f"store {value.text}, {(place + offset).text}, align 1")


def _count(i: Instruction) -> int:
    return next((int(part[1:]) for part in i.parts if part in {"v2", "v4", "v8"}), 1)


@opcode("ld", "ldu")
def load(t: Translation, i: Instruction) -> None:
    """Load one element or a vector."""
    type_, count, space = t.type(i.type, i), _count(i), space_of(i)
    place = _named(t, i.operands[1]) if space == "param" else None
    if place is None:
        place = _pieces(t, i, address_of(t, i.operands[1]), type_.size * count, space, READ)
    record(t, i, place, type_.size * count, READ)
    loaded = [load_bits(t, place, type_.bits, k * type_.size) for k in range(count)]
    for target, value in zip(listed(i.operands[0]), loaded, strict=True):
        t.write_raw(target, value, signed=type_.is_signed)


@opcode("st")
def store(t: Translation, i: Instruction) -> None:
    """Store one element or a vector."""
    type_, count, space = t.type(i.type, i), _count(i), space_of(i)
    place = _named(t, i.operands[0]) if space == "param" else None
    if place is None:
        place = _pieces(t, i, address_of(t, i.operands[0]), type_.size * count, space, WRITE)
    values = [t.raw(one, type_.bits) for one in listed(i.operands[1])]
    if t.unit.races:
        same = constant(i1, True)
        for k, value in enumerate(values):
            same = same & (load_bits(t, place, type_.bits, k * type_.size) == value)
        record(t, i, place, type_.size * count, WRITE, same)
    for k, value in enumerate(values):
        store_bits(t, place, value, k * type_.size)


def _pieces(t: Translation, i: Instruction, address: Value, size: int, space: str, flags: int) -> Value:
    if size > 16:  # of sm_100: 32 bytes, in global memory
        t.require((address & (size - 1)) == 0, Kind.MISALIGNED, address)
        first = checked(t, address, 16, space, flags)
        checked(t, address + 16, 16, space, flags)
        return first
    return checked(t, address, size, space, flags)


@opcode("mov")
def move(t: Translation, i: Instruction) -> None:
    """Copy a register, pack or unpack one, or take an address."""
    if i.type == "pred":
        t.write_raw(i.operands[0], t.raw(i.operands[1], 1))
        return
    bits = t.type(i.type, i).bits
    t.write_raw(i.operands[0], t.raw(i.operands[1], bits))


@opcode("cvta")
def convert_address(t: Translation, i: Instruction) -> None:
    """Make an address of a state space generic, or the other way round."""
    bits = t.type(i.type, i).bits
    value = t.raw(i.operands[1], 64)
    space = space_of(i)
    if space in {"shared", "local"}:
        base = t.word(Context.SHARED) if space == "shared" else convert(Value(pointer(u8), t.local.name), u64)
        value = value - base if i.has("to") else value + base
    t.write_raw(i.operands[0], convert(value, unsigned(bits)))


@opcode("isspacep")
def is_space(t: Translation, i: Instruction) -> None:
    """Test in which state space a generic address lies."""
    space, address = space_of(i), t.raw(i.operands[1], 64)
    shared = (address - t.word(Context.SHARED)) < t.word(Context.SHARED_SIZE)
    local = (address - convert(Value(pointer(u8), t.local.name), u64)) < t.word(Context.LOCAL_SIZE)
    value = {"shared": shared, "local": local, "global": ~(shared | local)}.get(space)
    if value is None:
        data = (address - t.word(Context.DATA)) < t.word(Context.DATA_SIZE)
        parameters = (address - t.word(Context.PARAMETERS)) < t.word(Context.PARAMETERS_SIZE)
        value = data if space == "const" else parameters
    t.write_raw(i.operands[0], value)


@opcode("mapa", "getctarank")
def cluster_address(t: Translation, i: Instruction) -> None:
    """Return the address itself, or 0 as the rank: a cluster is one block here."""
    bits = t.type(i.type, i).bits
    if i.parts[0] == "getctarank":
        t.write_raw(i.operands[0], constant(u32, 0))
    else:
        t.write_raw(i.operands[0], t.raw(i.operands[1], bits))


@opcode("prefetch", "prefetchu", "discard", "applypriority", "createpolicy")
def hint(t: Translation, i: Instruction) -> None:
    """Do nothing: what is said about caches has no effect."""
    if i.parts[0] == "createpolicy":
        t.write_raw(i.operands[0], constant(u64, 0))
