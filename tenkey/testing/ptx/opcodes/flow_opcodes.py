"""Jumps, calls, barriers, and declarations inside a function (PTX ISA, "Control Flow Instructions")."""

from __future__ import annotations

from ....backends.llvm.instructions import bitcast
from ....backends.llvm.value_types import i32, i64, pointer, u8, u32, u64
from ....backends.llvm.values import Value, constant, convert, emit
from ..context_layout import BARRIER_WORDS, Context, Frame, Kind, Status
from ..kernel_errors import UnsupportedError
from ..ptx_text import Instruction, listed, variable
from ..thread_code import ARGUMENTS, Place, Translation
from .memory_opcodes import load_bits, store_bits
from .opcode_table import opcode

__all__: list[str] = []


@opcode(".")
def directive(t: Translation, i: Instruction) -> None:
    """Note a variable or a table of targets."""
    name, text = i.parts[0], i.operands[0]
    if name in {".param", ".local"}:
        declared = variable(text, i.line)
        if name == ".local":
            size = t.unit.local_size
            size = -(-size // declared.align) * declared.align
            t.scopes[-1][declared.name] = size
            t.unit.local_size = size + declared.size
        else:
            t.scopes[-1][declared.name] = Place(t.variable(u64, -(-declared.size // 8)), declared.size)
    elif name in {".branchtargets", ".calltargets", ".callprototype"}:
        t.tables[t.last_label] = [one.strip() for one in text.partition(" ")[2].split(",")]
    elif name not in {".shared", ".pragma", ".loc", ".file"}:
        t.unsupported(i)


@opcode("bra")
def jump(t: Translation, i: Instruction) -> None:
    """Jump to a label."""
    label = t.label(i.operands[0])
    if i.predicate:
        with t.where(t.raw(i.predicate, 1)):
            t.go(label)
    else:
        t.go(label)


@opcode("brx")
def indexed_jump(t: Translation, i: Instruction) -> None:
    """Jump to a label of a table."""
    index = t.raw(i.operands[0])
    targets = t.tables.get(i.operands[1])
    if targets is None:
        t.unsupported(i)
    t.require(index < len(targets), Kind.CALL)
    for k, target in enumerate(targets):
        with t.where(index == k):
            t.go(t.label(target))


@opcode("ret")
def leave(t: Translation, i: Instruction) -> None:
    """Return from a function; end the thread in a kernel."""
    t.leave()


@opcode("exit")
def end(t: Translation, i: Instruction) -> None:
    """End the thread."""
    if not t.is_entry:
        t.unsupported(i)
    t.finish()
    t.unreachable()


@opcode("trap", "brkpt")
def trap(t: Translation, i: Instruction) -> None:
    """Stop with an error."""
    if i.parts[0] == "trap":
        t.fail(Kind.TRAP)
        t.unreachable()


@opcode("membar", "fence", "griddepcontrol", "pmevent", "setmaxnreg")
def nothing(t: Translation, i: Instruction) -> None:
    """Do nothing: the threads of a block run one after the other, and see what others have written."""


@opcode("nanosleep")
def sleep(t: Translation, i: Instruction) -> None:
    """Let other threads run."""
    if t.waits:
        t.suspend(Status.YIELD, constant(u64, 0))


# ---- barriers


@opcode("bar", "barrier")
def barrier(t: Translation, i: Instruction) -> None:
    """Wait at a barrier of the block, or for lanes of the warp."""
    if i.has("cluster"):
        if i.has("arrive"):
            return
        _wait(t, constant(u32, 0), None)
        return
    if i.has("warp"):
        t.warp_operation(t.raw(i.operands[0]), [])
        return
    operands = list(i.operands)
    if i.has("red"):
        _reduce(t, i, operands)
        return
    number = t.raw(operands[0]) if operands else constant(u32, 0)
    count = t.raw(operands[1]) if len(operands) > 1 else None
    if i.has("arrive"):
        if count is None:
            t.unsupported(i)
        _valid(t, number, count)
        at = (convert(number, u64) * BARRIER_WORDS) + int(Context.BARRIERS) + 1
        place = t.context + at
        arrived = t.body.value(u64, f"load i64, {place.text}") + 1
        t.body.write(f"store {arrived.text}, {place.text}")
        return
    if not (i.has("sync") or i.parts == ("barrier",)):
        t.unsupported(i)
    _wait(t, number, count)


def _valid(t: Translation, number: Value, count: Value | None) -> None:
    t.require(number < 16, Kind.BARRIER)
    if count is not None:
        t.require((count & 31) == 0, Kind.BARRIER)
        t.require((count > 0) & (convert(count, u64) <= ((t.word(Context.THREADS) + 31) & ~31)), Kind.BARRIER)


def _wait(t: Translation, number: Value, count: Value | None) -> None:
    _valid(t, number, count)
    t.suspend(Status.BARRIER, convert(number, u64), None if count is None else convert(count, u64))


def _reduce(t: Translation, i: Instruction, operands: list[str]) -> None:
    """Wait, and combine a predicate of all threads: ``bar.red.popc.u32 d, a{, b}, {!}c``."""
    number = t.raw(operands[1])
    count = t.raw(operands[2]) if len(operands) > 3 else None
    t.set_frame(Frame.DEPOSIT, convert(t.raw(operands[-1], 1), u64))
    _wait(t, number, count)
    holds = t.frame_word(Frame.RESULT)
    if i.has("popc"):
        t.write_raw(operands[0], convert(holds, u32))
    elif i.has("and"):
        t.write_raw(operands[0], holds == t.frame_word(Frame.PUBLISHED))
    else:
        t.write_raw(operands[0], holds != 0)


# ---- calls


@opcode("call")
def call(t: Translation, i: Instruction) -> None:
    """Call a function: one that may wait is inserted, others are functions of the compiled code."""
    operands = list(i.operands)
    results = listed(operands.pop(0)) if operands[0].startswith("(") else []
    callee = operands.pop(0)
    arguments = listed(operands.pop(0)) if operands and operands[0].startswith("(") else []
    if t.register(callee) is not None:
        _indirect(t, callee, results, arguments, operands)
        return
    if callee in _HOST:
        _call_host(t, callee, results, arguments)
        return
    function = t.unit.functions.get(callee)
    if function is None or function.body is None:
        raise UnsupportedError(f"PTX line {i.line}: the function {callee} is not defined in the module.")
    _direct(t, callee, results, arguments)


_HOST = ("vprintf", "__assertfail")


def _direct(t: Translation, callee: str, results: list[str], arguments: list[str]) -> None:
    function = t.unit.functions[callee]
    if callee in t.inserted:
        raise UnsupportedError(f"PTX line {t.line}: the function {callee} calls itself, which is not supported.")
    if t.waits and t.unit.waiting(callee):
        _insert(t, callee, results, arguments)
        return
    # registers are passed by the addresses of their places
    places: list[str] = []
    copied: list[tuple[str, Value, int]] = []
    for parameter, given in zip((*function.parameters, *function.results), (*arguments, *results), strict=True):
        held = t.find(given)
        if parameter.space == "param" and isinstance(held, Place):
            places.append(f"ptr {held.pointer.name}")
            continue
        place = Value(pointer(u8), t.body.variable(u64))
        places.append(f"ptr {place.name}")
        bits = 8 * parameter.size
        if given in results:
            copied.append((given, place, bits))
        else:
            store_bits(t, place, t.raw(given, bits))
    name = t.unit.translated(callee)
    stopped = emit(i32, f"call i32 @{name}({', '.join([*ARGUMENTS, *places])})")
    good = t.body.name("good")
    t.body.branch(stopped == 0, good, "stop")
    t.body.label(good)
    for given, place, bits in copied:
        t.write_raw(given, load_bits(t, place, bits))


def _insert(t: Translation, callee: str, results: list[str], arguments: list[str]) -> None:
    """Translate the body of a function here."""
    function = t.unit.functions[callee]
    assert function.body is not None
    line = t.line
    scope: dict[str, object] = {}
    copies: list[tuple[str, str]] = []
    for parameter, given in zip((*function.parameters, *function.results), (*arguments, *results), strict=True):
        held = t.find(given)
        if parameter.space == "param" and isinstance(held, Place):
            scope[parameter.name] = held
            continue
        register = t.new_register(t.type(parameter.type, Instruction(line, "call", ("call",), [], "", callee)).storage)
        scope[parameter.name] = register
        if given in results:
            copies.append((given, parameter.name))
        else:
            t.set_bits(register, t.raw(given, register.type.bits))
    outer = t.prefix, t.scopes, t.tables
    t.prefix = t.body.name("i")
    t.scopes = [{}, scope]
    t.tables = {}
    t.inserted.append(callee)
    end_ = f'"{t.prefix}.end"'
    t.returns.append(end_)
    t.statements(function.body)
    t.returns.pop()
    t.new_block(end_)
    inner = t.scopes
    t.inserted.pop()
    t.prefix, t.scopes, t.tables = outer
    t.line = line
    for given, name in copies:
        register = inner[1][name]
        t.write_raw(given, t.bits(register))


def _indirect(t: Translation, callee: str, results: list[str], arguments: list[str], rest: list[str]) -> None:
    """Call a function by its address: each that has such parameters is asked for."""
    address = t.raw(callee, 64)
    names = t.tables.get(rest[0]) if rest else None
    candidates = [
        name
        for name, function in t.unit.functions.items()
        if not function.is_entry
        and function.body is not None
        and len(function.parameters) == len(arguments)
        and len(function.results) == len(results)
        and name in t.unit.taken
        and (names is None or name in names or not set(names) & set(t.unit.functions))
    ]
    known = constant(u32, 0) == 1
    for name in candidates:
        known = known | (address == t.unit.indices[name])
    t.require(known, Kind.CALL, address)
    for name in candidates:
        with t.where(address == t.unit.indices[name]):
            _direct(t, name, results, arguments)


def _call_host(t: Translation, callee: str, results: list[str], arguments: list[str]) -> None:
    """Call Python: for ``printf`` and ``assert``."""
    values = []
    for given in arguments:
        held = t.find(given)
        if isinstance(held, Place):
            values.append(load_bits(t, held.pointer, 64 if held.size >= 8 else 32))
        else:
            values.append(t.raw(given, 64))
    if callee == "__assertfail":
        t.fail(Kind.ASSERTION, convert(values[0], u64))
        t.unreachable()
        return
    host = emit(pointer(u8), f"inttoptr {t.word(Context.HOST_CALL).text} to ptr")
    code = emit(i32, f"call i32 {host.name}({', '.join(bitcast(convert(v, u64), i64).text for v in values)})")
    for given in results:
        held = t.find(given)
        if isinstance(held, Place):
            store_bits(t, held.pointer, Value(u32, code.name))
        else:
            t.write_raw(given, Value(u32, code.name))
