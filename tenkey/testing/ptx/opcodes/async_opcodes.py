"""Asynchronous copies and the barriers that count them (PTX ISA, "Asynchronous copy", "mbarrier")."""

from __future__ import annotations

from ....backends.llvm.instructions import minimum, select
from ....backends.llvm.value_types import i64, u32, u64
from ....backends.llvm.values import Value, constant, convert
from ..block_runtime.copying_in_flight import begin_copy, end_copies
from ..context_layout import MOST_COPIES, Frame, Kind, Status
from ..ptx_text import Instruction
from ..thread_code import Translation
from .memory_opcodes import READ, WRITE, address_of, checked, load_bits, record, space_of, store_bits
from .opcode_table import opcode

__all__: list[str] = []

_PENDING, _PHASE = 20, 40  # bits of a barrier object: 20 of the expected number, 20 of those that lack, the phase


def _signed(value: Value) -> Value:
    return Value(i64, convert(value, u64).name)


@opcode("cp")
def copy(t: Translation, i: Instruction) -> None:
    """Begin a copy to shared memory, close a group of copies, or wait for groups."""
    if not i.has("async") or i.has("bulk", "reduce", "tensor"):
        t.unsupported(i)
    t.unit.copies = True
    if i.has("commit_group"):
        t.set_frame(Frame.GROUPS, t.frame_word(Frame.GROUPS) + 1)
    elif i.has("wait_group"):
        _wait(t, t.frame_word(Frame.GROUPS) - t.raw(i.operands[0], 64))
    elif i.has("wait_all", "mbarrier"):
        _wait(t, t.frame_word(Frame.GROUPS) + 1)
        if i.has("noinc"):
            _arrive(t, i, i.operands[0], 1)
    else:
        _begin(t, i)


def _begin(t: Translation, i: Instruction) -> None:
    size = int(i.operands[2], 0)
    given = constant(u64, size)
    if len(i.operands) > 3 and i.operands[3]:
        operand = i.operands[3]
        register = t.register(operand.lstrip("!"))
        if register is not None and register.type.kind == "c":  # whether the source is ignored
            given = select(t.raw(operand, 1), constant(u64, 0), given)
        elif not operand.startswith("%cache") and (register is not None or operand[0].isdigit()):
            given = minimum(t.raw(operand, 64), size)
    to, source = address_of(t, i.operands[0]), address_of(t, i.operands[1])
    place = checked(t, to, size, "shared", WRITE)
    record(t, i, place, size, WRITE)
    t.require((source & (size - 1)) == 0, Kind.MISALIGNED, source)
    with t.where(given != 0):
        if len(i.operands) > 3:  # a part of the bytes: each end is checked
            checked(t, source, 1, "global", READ)
            checked(t, source + given - 1, 1, "global", READ)
        else:
            checked(t, source, size, "global", READ)
    t.require(t.frame_word(Frame.COPIED) < MOST_COPIES, Kind.COPIES)
    arguments = _signed(Value(u32, t.thread.name)), _signed(to), _signed(source), constant(i64, size), _signed(given)
    begin_copy(t.context, t.frame, *arguments)
    t.body.known.clear()


def _wait(t: Translation, groups: Value) -> None:
    end_copies(t.context, t.frame, _signed(Value(u32, t.thread.name)), _signed(groups))
    t.body.known.clear()


# ---- mbarrier


@opcode("mbarrier")
def counted_barrier(t: Translation, i: Instruction) -> None:
    """Set up a barrier object, arrive at it, or ask whether its phase is over."""
    what = i.parts[1]
    if what == "init":
        number = t.raw(i.operands[1], 64)
        place = _object(t, i, i.operands[0], WRITE)
        store_bits(t, place, number | (number << _PENDING))
    elif what == "inval":
        _object(t, i, i.operands[0], WRITE)
    elif what in {"arrive", "arrive_drop"} and not i.has("noComplete", "expect_tx"):
        count: Value | int = t.raw(i.operands[2], 64) if len(i.operands) > 2 else 1
        token = _arrive(t, i, i.operands[1], count, drop=what == "arrive_drop")
        t.write_raw(i.operands[0], token)
    elif what in {"test_wait", "try_wait"}:
        _ask(t, i)
        if what == "try_wait":  # others run before it is asked again
            done = t.raw(i.operands[0], 1)
            with t.where(~done):
                t.suspend(Status.YIELD, constant(u64, 0))
                _ask(t, i)
    else:
        t.unsupported(i)


def _object(t: Translation, i: Instruction, operand: str, flags: int) -> Value:
    return checked(t, address_of(t, operand), 8, space_of(i), flags)


def _arrive(t: Translation, i: Instruction, operand: str, count: Value | int, *, drop: bool = False) -> Value:
    place = _object(t, i, operand, READ | WRITE)
    state = load_bits(t, place, 64)
    mask = (1 << _PENDING) - 1
    expected = state & mask
    if drop:
        expected = expected - 1
    pending = ((state >> _PENDING) & mask) - count
    over = pending == 0
    phase = (state >> _PHASE) + convert(over, u64)
    pending = select(over, expected, pending)
    store_bits(t, place, expected | (pending << _PENDING) | (phase << _PHASE))
    return state


def _ask(t: Translation, i: Instruction) -> None:
    place = _object(t, i, i.operands[1], READ)
    phase = load_bits(t, place, 64) >> _PHASE
    given = t.raw(i.operands[2], 64)
    done = (phase & 1) != (given & 1) if i.has("parity") else phase != (given >> _PHASE)
    t.write_raw(i.operands[0], done)
