"""Operations of warps: shuffles, votes, matches, reductions (PTX ISA, "Parallel Synchronization Instructions")."""

from __future__ import annotations

from collections.abc import Callable

from ....backends.llvm.instructions import bitcast, cttz, fabs, maximum, minimum, select
from ....backends.llvm.value_types import f32, i32, u32, u64
from ....backends.llvm.values import Value, constant, convert
from ..context_layout import Context, Frame, Status
from ..ptx_text import Instruction
from ..ptx_types import PtxType
from ..thread_code import Translation
from .float_opcodes import least_or_greatest
from .opcode_table import BITWISE, opcode, typed

__all__: list[str] = []

_UNDEFINED = 0xFFFFFFFF  # what a lane outside the mask gives: a NaN, or -1


def published(t: Translation, lane: Value) -> Value:
    """Return the first word that another lane of the warp gave to the last operation."""
    here = Value(u32, t.thread.name) & 31
    away = Value(i32, (convert(lane, u32) - here).name)
    size = Value(i32, convert(t.word(Context.FRAME_WORDS), u32).name)
    place = t.frame + (away * size)
    return t.body.value(u64, f"load i64, {(place + int(Frame.PUBLISHED)).text}")


@opcode("shfl")
def shuffle(t: Translation, i: Instruction) -> None:
    """Read a register of another lane."""
    if not i.has("sync"):
        t.unsupported(i)
    mode = i.parts[2]
    target, *flag = (one.strip() for one in i.operands[0].split("|"))
    t.warp_operation(t.raw(i.operands[4]), [t.raw(i.operands[1])])
    b, c = t.raw(i.operands[2]), t.raw(i.operands[3])
    lane = Value(u32, t.thread.name) & 31
    segment, clamp = (c >> 8) & 31, c & 31
    low = lane & segment
    top = low | (clamp & ~segment)
    if mode == "idx":
        source = low | (b & ~segment & 31)
    elif mode == "up":
        source = lane - (b & 31)
    elif mode == "down":
        source = lane + (b & 31)
    else:
        source = lane ^ (b & 31)
    inside = Value(i32, source.name) >= Value(i32, top.name) if mode == "up" else source <= top
    source = select(inside, source, lane)
    value = convert(published(t, source), u32)
    known = (existing(t, t.raw(i.operands[4])) >> source) & 1
    t.write_raw(target, select(known == 1, value, constant(u32, _UNDEFINED)))
    if flag:
        t.write_raw(flag[0], inside)


@opcode("vote")
def vote(t: Translation, i: Instruction) -> None:
    """Combine a predicate of all lanes."""
    if not i.has("sync"):
        t.unsupported(i)
    t.warp_operation(t.raw(i.operands[2]), [t.raw(i.operands[1], 1)])
    ballot = convert(t.frame_word(Frame.RESULT), u32)
    members = existing(t, t.raw(i.operands[2]))
    if i.has("ballot"):
        t.write_raw(i.operands[0], ballot)
    elif i.has("any"):
        t.write_raw(i.operands[0], ballot != 0)
    elif i.has("all"):
        t.write_raw(i.operands[0], ballot == members)
    else:
        t.write_raw(i.operands[0], (ballot == members) | (ballot == 0))


def existing(t: Translation, mask: Value) -> Value:
    """Return the lanes of a mask that the warp has: the last warp of a block may be smaller."""
    first = convert(Value(u32, t.thread.name) & ~constant(u32, 31), u64)
    left = t.word(Context.THREADS) - first
    all_ = (constant(u64, 1) << minimum(left, 32)) - 1
    return mask & convert(all_, u32)


def _over_lanes(t: Translation, mask: Value, begin: Value, combine: Callable[[Value, Value, Value], Value]) -> Value:
    """Return ``combine(result so far, word of the lane, lane)`` over the members of a mask."""
    result = begin
    for k in range(32):
        lane = constant(u32, k)
        # a lane outside the mask gives the word of the lane itself, which changes nothing that is chosen
        member = ((mask >> k) & 1) == 1
        word = published(t, select(member, lane, Value(u32, t.thread.name) & 31))
        result = select(member, combine(result, word, lane), result)
    return result


@opcode("match")
def match(t: Translation, i: Instruction) -> None:
    """Find the lanes that have the same value."""
    bits = t.type("b32" if i.has("b32") else "b64", i).bits
    target, *flag = (one.strip() for one in i.operands[0].split("|"))
    t.warp_operation(t.raw(i.operands[2]), [t.raw(i.operands[1], bits)])
    mask = existing(t, t.raw(i.operands[2]))
    own = published(t, Value(u32, t.thread.name) & 31)

    def combine(result: Value, word: Value, lane: Value) -> Value:
        return result | select(word == own, constant(u32, 1) << lane, constant(u32, 0))

    same = _over_lanes(t, mask, constant(u32, 0), combine)
    if i.has("all"):
        whole = same == mask
        t.write_raw(target, select(whole, mask, constant(u32, 0)))
        if flag:
            t.write_raw(flag[0], whole)
    else:
        t.write_raw(target, same)


@typed("redux")
def redux(t: Translation, i: Instruction, type_: PtxType) -> None:
    """Reduce a register over lanes."""
    name = i.parts[2]
    t.warp_operation(t.raw(i.operands[2]), [t.raw(i.operands[1])])
    mask = existing(t, t.raw(i.operands[2]))
    own = convert(published(t, Value(u32, t.thread.name) & 31), u32)
    signed = type_.is_signed

    def combine(result: Value, word: Value, lane: Value) -> Value:
        value = convert(word, u32)
        if type_.is_float:
            a, b = bitcast(result, f32), bitcast(value, f32)
            if i.has("abs"):
                a, b = fabs(a), fabs(b)
            return bitcast(least_or_greatest(a, b, name == "min", nan=i.has("NaN")), u32)
        if name in BITWISE:
            return BITWISE[name](result, value)
        if name == "add":
            return result + value
        a, b = (Value(i32 if signed else u32, one.name) for one in (result, value))
        return Value(u32, (minimum(a, b) if name == "min" else maximum(a, b)).name)

    begin = constant(u32, -1 if name == "and" else 0) if name in {"add", *BITWISE} else own
    t.write_raw(i.operands[0], _over_lanes(t, mask, begin, combine))


@opcode("activemask")
def active(t: Translation, i: Instruction) -> None:
    """Return the lanes that arrive here while no lane of the warp can go on."""
    t.suspend(Status.CONVERGE, constant(u64, 0), constant(u64, 0))
    t.write_raw(i.operands[0], convert(t.frame_word(Frame.RESULT), u32))


@opcode("elect")
def elect(t: Translation, i: Instruction) -> None:
    """Choose the lowest lane of a mask."""
    target, *flag = (one.strip() for one in i.operands[0].split("|"))
    t.warp_operation(t.raw(i.operands[1]), [])
    mask = existing(t, t.raw(i.operands[1]))
    leader = cttz(mask)
    t.write_raw(target, leader)
    if flag:
        t.write_raw(flag[0], leader == (Value(u32, t.thread.name) & 31))
