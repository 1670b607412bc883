"""Translating the body of a kernel: registers, operands, blocks, and the places where a thread waits for others.

Note [Threads as state machines]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A kernel becomes one function of compiled code, which runs one thread. Where a thread must wait, at a barrier or an
operation of its warp, the function keeps the registers that are needed later in the thread's frame and returns; called
again, it reads them back and goes on behind it. The scheduler (``block_runtime/scheduler.py``) calls the threads
of a block one after the other. A kernel without such places is a plain function, called once for each thread.

A register is a variable of integers of its width, from which LLVM makes what it likes. Which registers are needed after
a place is found from the events that are noted while instructions are translated (``liveness.py``).
Guarded by ``tests/testing/ptx/test_flow_of_control.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from ...backends.llvm.instructions import bitcast
from ...backends.llvm.value_types import Type, i32, i64, pointer, u32, u64
from ...backends.llvm.values import Body, Value, constant, convert
from .context_layout import Context, Frame, Kind, Status
from .float_rounding import from_narrow, to_narrow
from .kernel_errors import UnsupportedError
from .liveness import Block, live_at_places
from .ptx_text import FunctionText, Instruction, listed, number
from .ptx_types import PtxType, signed_of, type_of, unsigned
from .special_registers import special_register

__all__ = ["ARGUMENTS", "Handler", "Place", "Register", "Translation", "words"]

words: Final = pointer(u64)
ARGUMENTS: Final = ("ptr %context", "ptr %frame", "ptr %local", "i32 %thread", "i32 %tid0", "i32 %tid1", "i32 %tid2")
_FUEL: Final = 1 << 28  # jumps backwards of a thread that never waits
_NUMBER: Final = re.compile(r"[-+]?(?:\d|\.\d)")
_SUM: Final = re.compile(r"(.+?)\s*(?:\+\s*([-+]?\w+))?$")


class Register(NamedTuple):
    """A register: its number, its variable and the unsigned type of its width."""

    number: int
    place: str
    type: Type


class Place(NamedTuple):
    """A variable that lies in memory known to the code: parameters of calls."""

    pointer: Value
    size: int


class Unit(Protocol):
    """What the functions of one module share while they are translated; see ``ptx_compiler.py``."""

    functions: dict[str, FunctionText]
    races: bool
    shared: dict[str, int]  # offsets of variables
    data: dict[str, int]
    local_size: int
    sites: int
    copies: bool  # whether asynchronous copies occur
    indices: dict[str, int]  # what stands for the addresses of functions
    taken: set[str]  # functions whose addresses are taken

    def use_failing(self) -> None:
        """Put the function ``fail`` into the module."""

    def waiting(self, name: str) -> bool:
        """Tell whether a thread may have to wait in a function."""

    def translated(self, name: str) -> str:
        """Translate a function unless it was, and return its name in the compiled code."""


Handler = Callable[["Translation", Instruction], None]


class Translation:
    """One function of compiled code while it is written."""

    def __init__(
        self, unit: Unit, body: Body, function: FunctionText, handlers: dict[str, Handler], *, waits: bool, entry: bool
    ) -> None:
        self.unit = unit
        self.body = body
        self.function = function
        self.handlers = handlers
        self.waits = waits
        self.is_entry = entry
        self.context = Value(words, "%context")
        self.frame = Value(words, "%frame")
        self.local = Value(words, "%local")
        self.thread = Value(i32, "%thread")
        self.line = function.line
        self.registers: list[Register] = []
        self.scopes: list[dict[str, Any]] = [{}]
        self.values: dict[int, Value] = {}  # what registers hold at this point of the block
        self.blocks: list[Block] = [Block("entry")]
        self.conditional = False
        self.places = 0  # where the thread waits
        self.frame_size = int(Frame.SIZE)
        self.labels_seen: set[str] = set()
        self.prefix = ""  # of labels, while a function is inserted
        self.inserted: list[str] = []  # functions that are being inserted
        self.returns: list[str] = []  # labels behind them
        self.tables: dict[str, list[str]] = {}  # of labels, by the label of the directive
        self.last_label = ""
        self.given_back: list[tuple[Register, str]] = []  # results that are registers, and where they go
        self.fuel = body.variable(i64)

    # ---- errors

    def unsupported(self, instruction: Instruction) -> NoReturn:
        """Raise an error that shows the instruction."""
        raise UnsupportedError(
            f"PTX line {instruction.line}: {instruction.text!r} is not supported by the executor of tenkey.testing.ptx."
        )

    # ---- words

    def word(self, at: int) -> Value:
        """Read a word of the context."""
        return self.body.value(u64, f"load i64, {(self.context + int(at)).text}")

    def set_frame(self, at: int, value: Any) -> None:
        """Set a word of the frame."""
        self.body.write(f"store {convert(value, u64).text}, {(self.frame + int(at)).text}")

    def frame_word(self, at: int) -> Value:
        """Read a word of the frame."""
        return self.body.value(u64, f"load i64, {(self.frame + int(at)).text}")

    def variable(self, type_: Type, count: int = 1) -> Value:
        """Return a pointer to memory of the thread that lasts as long as the function."""
        body = self.body
        if not self.waits:
            return Value(pointer(type_), body.variable(type_, count, 16))
        at = self.frame_size + (self.frame_size & 1)
        self.frame_size = at - (-type_.size * count // 8)
        name = "%" + body.name("m")  # written first, because it is used in all parts of the function
        body.variables.append(f"  {name} = getelementptr i64, ptr %frame, i64 {at}")
        return Value(pointer(type_), name)

    # ---- registers

    def declare(self, text: str) -> None:
        """Note the registers of a ``.reg`` directive; each is made when it is used."""
        found = re.match(r"\.reg\s*(?:\.v[248]\s*)?\.(\w+)\s+(.*)", text, re.DOTALL)
        type_ = type_of(found[1]) if found else None
        if found is None or type_ is None:
            raise UnsupportedError(f"PTX line {self.line}: {' '.join(text.split())!r} is not supported.")
        scope = self.scopes[-1]
        for name in found[2].split(","):
            many = re.fullmatch(r"\s*([%$\w]+)<(\d+)>\s*", name)
            if many:
                scope[many[1] + "<"] = type_.storage
            else:
                scope[name.strip()] = type_.storage

    def register(self, name: str) -> Register | None:
        """Return the register of this name, the innermost one, or None."""
        stem = name.rstrip("0123456789") + "<"
        for scope in reversed(self.scopes):
            held = scope.get(name)
            if held is None and stem in scope:
                held = scope[stem]
            if held is None:
                continue
            if isinstance(held, Type):
                held = scope[name] = self.new_register(held)
            return held if isinstance(held, Register) else None
        return None

    def new_register(self, type_: Type) -> Register:
        """Make a register, which holds 0."""
        place = self.body.variable(type_)
        zero = "false" if type_.kind == "c" else "0"
        self.body.variables.append(f"  store {type_.ir} {zero}, ptr {place}")
        self.registers.append(Register(len(self.registers), place, type_))
        return self.registers[-1]

    def bits(self, register: Register) -> Value:
        """Return what a register holds."""
        self.blocks[-1].note("r", register.number)
        held = self.values.get(register.number)
        if held is None:
            held = self.body.value(register.type, f"load {register.type.ir}, ptr {register.place}")
            self.values[register.number] = held
        return held

    def set_bits(self, register: Register, value: Value) -> None:
        """Set what a register holds, of its own type."""
        self.blocks[-1].note("c" if self.conditional else "w", register.number)
        self.body.write(f"store {value.text}, ptr {register.place}")
        self.values[register.number] = value

    # ---- operands

    def type(self, name: str, instruction: Instruction) -> PtxType:
        """Return the type of this name."""
        found = type_of(name)
        if found is None:
            self.unsupported(instruction)
        return found

    def raw(self, operand: str, bits: int = 32) -> Value:
        """Return the bits of an operand as an unsigned integer."""
        to = unsigned(bits)
        first = operand[0]
        if first == "!":
            return ~self.raw(operand[1:].strip(), bits)
        register = self.register(operand)
        if register is not None:
            return convert(self.bits(register), to)
        if _NUMBER.match(operand):
            return constant(to, number(operand, bits))
        if first == "{":
            parts = listed(operand)
            piece = bits // len(parts)
            value = constant(to, 0)
            for k, part in enumerate(parts):
                value = value | (convert(self.raw(part, piece), to) << (k * piece))
            return value
        if first == "-":
            return -self.raw(operand[1:], bits)
        if first == "%":
            return convert(self.special(operand[1:]), to)
        if operand == "WARP_SZ":
            return constant(to, 32)
        return convert(self.symbol(operand), to)

    def lanes(self, operand: str, type_: PtxType) -> list[Value]:
        """Return the lanes of an operand, as they are computed."""
        value = self.raw(operand, type_.bits)
        if type_.lanes > 1:
            piece = unsigned(type_.lane_bits)
            parts = [convert(value >> (k * type_.lane_bits), piece) for k in range(type_.lanes)]
        else:
            parts = [value]
        if type_.narrow:
            return [from_narrow(part, type_.narrow) for part in parts]
        return [bitcast(part, type_.compute) for part in parts]

    def read(self, operand: str, type_: PtxType) -> Value:
        """Return an operand of one lane."""
        return self.lanes(operand, type_)[0]

    def write_lanes(self, operand: str, values: Sequence[Value], type_: PtxType) -> None:
        """Set a register to lanes as they were computed."""
        if type_.narrow:
            values = [to_narrow(value, type_.narrow) for value in values]
        piece = unsigned(type_.lane_bits)
        parts = [bitcast(value, piece) for value in values]
        value = parts[0]
        if len(parts) > 1:
            value = constant(type_.storage, 0)
            for k, part in enumerate(parts):
                value = value | (convert(part, type_.storage) << (k * type_.lane_bits))
        self.write_raw(operand, value, signed=type_.is_signed)

    def write(self, operand: str, value: Value, type_: PtxType) -> None:
        """Set a register to a value of one lane."""
        self.write_lanes(operand, [value], type_)

    def write_raw(self, operand: str, value: Value, *, signed: bool = False) -> None:
        """Set a register to bits; a wider register is filled by zeros, or by the sign."""
        if operand == "_":
            return
        if operand[0] == "{":
            parts = listed(operand)
            piece = value.type.bits // len(parts)
            for k, part in enumerate(parts):
                self.write_raw(part, convert(value >> (k * piece), unsigned(piece)))
            return
        register = self.register(operand)
        if register is None:
            raise UnsupportedError(f"PTX line {self.line}: {operand} is not a register.")
        if signed and register.type.bits > value.type.bits:
            value = convert(Value(signed_of(value.type), value.name), signed_of(register.type))
        self.set_bits(register, Value(register.type, convert(value, register.type).name))

    def special(self, name: str) -> Value:
        """Return a special register; most are 32 bits wide."""
        found = special_register(name, Value(u32, self.thread.name), self.word, self.clock)
        if found is None:
            raise UnsupportedError(f"PTX line {self.line}: the special register %{name} is not supported.")
        return found

    def clock(self) -> Value:
        """Count how often a clock was read."""
        now = self.word(Context.CLOCK) + 1
        self.body.write(f"store {now.text}, {(self.context + int(Context.CLOCK)).text}")
        return now

    def find(self, name: str) -> Any:
        """Return what a name of this function stands for, or None."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def symbol(self, text: str) -> Value:
        """Return the address of a variable: an offset for shared and local ones, absolute for others."""
        found = _SUM.match(text)
        assert found is not None
        name, more = found[1], int(found[2] or "0", 0)
        held = self.find(name)
        unit = self.unit
        if isinstance(held, int):  # a local variable
            return constant(u64, held + more)
        if isinstance(held, Place):
            return convert(held.pointer, u64) + more
        if name in unit.shared:
            return constant(u64, unit.shared[name] + more)
        if name in unit.data:
            return self.word(Context.DATA) + (unit.data[name] + more)
        if name in unit.indices:
            return constant(u64, unit.indices[name])
        if self.is_entry:
            for parameter in self.function.parameters:
                if parameter.name == name:
                    return self.word(Context.PARAMETERS) + (parameter.offset + more)
        raise UnsupportedError(f"PTX line {self.line}: the name {name} is not declared.")

    # ---- control

    def label(self, name: str) -> str:
        """Return the label of the code for one of the PTX."""
        return f'"{self.prefix}.{name}"'

    def new_block(self, label: str) -> None:
        """Begin a block that several ways may lead to."""
        if self.body.open:
            self.blocks[-1].successors.append(label)
        self.body.label(label)
        self.forget()
        self.blocks.append(Block(label))

    def forget(self) -> None:
        """Forget what registers hold and what was computed: code may come here from elsewhere."""
        self.values.clear()
        self.body.known.clear()

    def go(self, label: str) -> None:
        """Jump; a jump backwards uses fuel."""
        if label in self.labels_seen:
            self.burn()
        self.blocks[-1].successors.append(label)
        self.body.jump(label)
        self.unreachable()

    def unreachable(self) -> None:
        """Begin the code behind a jump, which is reached through a label only."""
        if not self.body.open:
            label = self.body.name("dead")
            self.body.label(label)
            self.forget()
            self.blocks.append(Block(label))

    def burn(self) -> None:
        """Count a jump backwards, and let other threads run, or stop, when there were too many."""
        body = self.body
        left = body.value(i64, f"load i64, ptr {self.fuel}") - 1
        body.write(f"store {left.text}, ptr {self.fuel}")
        empty, on = body.name("empty"), body.name("on")
        body.branch(left == 0, empty, on)
        body.label(empty)
        with body.branching():
            if self.waits:
                self.suspend(Status.YIELD, constant(u64, 0))
            else:
                self.fail(Kind.ENDLESS)
        if body.open:
            body.jump(on)
        body.label(on)
        self.forget()

    @contextmanager
    def where(self, condition: Value) -> Iterator[None]:
        """Write code that runs only where a condition holds."""
        body = self.body
        then, after = body.name("then"), body.name("after")
        outer, block = self.conditional, self.blocks[-1]
        jumps = len(block.successors)
        body.branch(condition, then, after)
        body.label(then)
        self.conditional = True
        with body.branching():
            yield
        self.conditional = outer
        body.label(after)
        self.forget()
        if self.blocks[-1] is not block or len(block.successors) != jumps:
            part = body.name("part")  # another block for the analysis of what is live: the code may have jumped
            for one in {id(one): one for one in (block, self.blocks[-1])}.values():
                one.successors.append(part)
            self.blocks.append(Block(part))

    def fail(self, kind: Kind, address: Value | None = None) -> None:
        """Record an error and stop the thread, and with it the launch."""
        self.unit.use_failing()
        where = f"i64 {self.line}, i64 {'0' if address is None else address.name}, i32 %thread"
        self.body.write(f"call void @fail(ptr %context, i64 {int(kind)}, {where})")
        self.body.jump("stop")

    def require(self, condition: Value, kind: Kind, address: Value | None = None) -> None:
        """Stop unless a condition holds."""
        body = self.body
        bad, good = body.name("bad"), body.name("good")
        body.branch(condition, good, bad)
        body.label(bad)
        with body.branching():
            self.fail(kind, address)
        body.label(good)

    def suspend(self, status: Status, word: Value, count: Value | None = None) -> None:
        """Let the thread wait; what was computed before is not known afterwards, registers are."""
        if not self.waits:
            raise UnsupportedError(f"PTX line {self.line}: a thread cannot wait here.")
        self.places += 1
        k = self.places
        self.set_frame(Frame.PC, k)
        self.set_frame(Frame.STATUS, int(status))
        self.set_frame(Frame.WORD, word)
        self.set_frame(Frame.COUNT, 0 if count is None else count)
        self.set_frame(Frame.LINE, self.line)
        body = self.body
        body.lines.append(f"  ;save {k}")
        body.write("ret i32 0")
        body.open = False
        body.label(f"resume{k}")
        body.lines.append(f"  ;restore {k}")
        self.blocks[-1].note("s", k)
        self.forget()

    def warp_operation(self, mask: Value, given: Sequence[Value]) -> None:
        """Wait until the lanes of a mask are here, and give them words."""
        lane = Value(u32, self.thread.name) & 31
        self.require(((mask >> lane) & 1) == 1, Kind.NOT_MEMBER, convert(lane, u64))
        for k, value in enumerate(given or [constant(u64, 0)]):
            self.set_frame(Frame.DEPOSIT + k, value)
        self.suspend(Status.WARP, convert(mask, u64), constant(u64, len(given)))

    def leave(self) -> None:
        """End the thread, or return from a function."""
        if self.returns:
            self.blocks[-1].successors.append(self.returns[-1])
            self.body.jump(self.returns[-1])
        else:
            self.finish()
        self.unreachable()

    def finish(self) -> None:
        """End the thread."""
        if self.is_entry and self.waits:
            self.set_frame(Frame.STATUS, int(Status.ENDED))
            self.set_frame(Frame.LINE, self.line)
        for register, place in self.given_back:
            self.body.write(f"store {self.bits(register).text}, ptr {place}, align 1")
        self.body.write("ret i32 0")
        self.body.open = False

    # ---- bodies

    def take_parameters(self) -> list[str]:
        """Name the parameters and results of a function that is called; return its head's part for them."""
        heads = []
        for k, one in enumerate((*self.function.parameters, *self.function.results)):
            heads.append(f"ptr %a{k}")
            place = Place(Value(pointer(u64), f"%a{k}"), one.size)
            if one.space == "param":
                self.scopes[0][one.name] = place
                continue
            type_ = type_of(one.type)
            assert type_ is not None
            register = self.new_register(type_.storage)
            self.scopes[0][one.name] = register
            if one in self.function.parameters:
                bits = self.body.value(register.type, f"load {register.type.ir}, ptr %a{k}, align 1")
                self.set_bits(register, bits)
            else:
                self.given_back.append((register, f"%a{k}"))
        return heads

    def statements(self, statements: Sequence[Instruction]) -> None:
        """Translate statements."""
        for one in statements:
            self.line = one.line
            first = one.parts[0]
            if first == "label":
                label = self.label(one.operands[0])
                self.new_block(label)
                self.labels_seen.add(label)
                self.last_label = one.operands[0]
            elif first == "{":
                self.scopes.append({})
            elif first == "}":
                self.scopes.pop()
            elif first == ".reg":
                self.declare(one.operands[0])
            elif first[0] == ".":
                self.handlers["."](self, one)
            else:
                handler = self.handlers.get(first)
                if handler is None:
                    self.unsupported(one)
                if one.predicate and first != "bra":
                    with self.where(self.raw(one.predicate, 1)):
                        handler(self, one)
                else:
                    handler(self, one)

    def text(self, name: str, parameters: Sequence[str]) -> tuple[str, str]:
        """Return the head and the code of the function, after its statements have been translated."""
        body = self.body
        if body.open:
            self.finish()
        body.lines += ["stop:", "  ret i32 1"]
        lines, head = body.lines, [f"  store i64 {_FUEL}, ptr {self.fuel}", "  br label %begin"]
        if self.waits:
            lines = self.with_frames(lines)
            cases = " ".join(f"i64 {k}, label %resume{k}" for k in range(1, self.places + 1))
            head = [
                f"  %at = getelementptr i64, ptr %context, i64 {int(Context.FUEL)}", "  %fuel = load i64, ptr %at",
                f"  store i64 %fuel, ptr {self.fuel}", "  %pc = load i64, ptr %frame",
                f"  switch i64 %pc, label %begin [ {cases} ]",
            ]  # fmt: skip
        code = "\n".join(["entry:", *body.variables, *head, "begin:", *lines, ""])
        return f"i32 @{name}({', '.join(parameters)}) nounwind", code

    def with_frames(self, lines: list[str]) -> list[str]:
        """Replace the marks of places by instructions that keep registers and read them back."""
        live = live_at_places(self.blocks)
        slots: dict[int, int] = {}
        for registers in live.values():
            for number_ in registers:
                if number_ not in slots:
                    wide = self.registers[number_].type.bits > 64
                    slots[number_] = self.frame_size + (self.frame_size & wide)
                    self.frame_size = slots[number_] + 1 + wide
        written: list[str] = []
        for line in lines:
            if not line.startswith("  ;"):
                written.append(line)
                continue
            what, _, place = line[3:].partition(" ")
            for number_ in sorted(live.get(int(place), ())):
                register = self.registers[number_]
                at, value = f"%f{place}{what[0]}{number_}", f"%g{place}{what[0]}{number_}"
                written.append(f"  {at} = getelementptr i64, ptr %frame, i64 {slots[number_]}")
                source, target = (register.place, at) if what == "save" else (at, register.place)
                written.append(f"  {value} = load {register.type.ir}, ptr {source}, align 1")
                written.append(f"  store {register.type.ir} {value}, ptr {target}, align 1")
        return written
