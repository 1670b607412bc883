"""Typed values of compiled code, whose operators write instructions into the function that is being translated.

Note [Values are written as text]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Instructions are lines of LLVM's assembly language. Objects for instructions, as in ``llvmlite.ir``, would have to be
printed and parsed as well; the text of a kernel takes a millisecond. An instruction that was written before, on every
way to this place, is not written again: this is cheaper than LLVM's passes for it. Nothing else is optimised here.
Guarded by ``tests/backends/test_llvm_language.py``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np

from .value_types import Type, _convert, bf16, f32, f64, i1, i64, u16, u32, unsigned_of, vector

__all__ = [
    "Body",
    "Function",
    "Module",
    "Value",
    "as_value",
    "body",
    "constant",
    "convert",
    "emit",
    "same_type",
    "truth",
    "writing",
]


class Function(NamedTuple):
    """A function that has been translated."""

    name: str
    head: str  # its type, name, parameters and attributes
    code: str
    cold: bool
    exported: bool


_NAMES: Final = re.compile(r"@([\w.]+)")


class Module:
    """The text of one compilation: functions, declarations of functions outside, and attributes of all functions."""

    def __init__(self) -> None:
        # by template and statics: name, result, parameters
        self.functions: dict[Any, tuple[str, Type, list[Type]]] = {}
        self.written: list[Function] = []
        self.declarations: dict[str, None] = {}

    def parts(self) -> tuple[str, str]:
        """Return two modules in LLVM's language, which call each other: usual functions, and cold ones; "" if none."""
        used: tuple[set[str], set[str]] = set(), set()
        for function in self.written:
            used[function.cold].update(_NAMES.findall(function.code))
        parts = []
        for cold in (False, True):
            lines = []
            for name, head, code, is_cold, exported in self.written:
                if is_cold == cold:
                    linkage = "" if exported else "hidden " if name in used[not cold] else "internal "
                    lines.append(f"define {linkage}{head} {{\n{code}}}\n")
                elif name in used[cold]:
                    lines.append(f"declare hidden {head}")
            own = any(function.cold == cold for function in self.written)
            parts.append("\n".join([*lines, *self.declarations, ""]) if own else "")
        return parts[0], parts[1]


_IMPURE: Final = ("load ", "call ", "atomicrmw ", "cmpxchg ")  # may give another result the next time


class Body:
    """A function while it is being written."""

    def __init__(self, module: Module, contract: bool = True) -> None:
        self.module = module
        self.contract = contract  # whether LLVM may fuse a product and a sum, which then rounds once
        self.variables: list[str] = []  # allocations, which belong at the start of the function
        self.lines: list[str] = []
        self.count = 0
        self.known: dict[tuple[Type, str], Value] = {}  # results by instruction, where they may be used again
        self.open = True  # whether the current block still lacks its last instruction

    def name(self, stem: str = "v") -> str:
        """Return a new name."""
        self.count += 1
        return f"{stem}{self.count}"

    def write(self, line: str) -> None:
        """Append an instruction without a result."""
        if self.open:
            self.lines.append("  " + line)

    def value(self, type_: Type, text: str, *, pure: bool = False) -> Value:
        """Append an instruction and return its result; a ``pure`` call, as arithmetic, is not written twice."""
        if not pure and text.startswith(_IMPURE):
            name = "%" + self.name()
            self.write(f"{name} = {text}")
            return Value(type_, name)
        key = type_, text
        found = self.known.get(key)
        if found is None:
            found = Value(type_, "%" + self.name())
            self.write(f"{found.name} = {text}")
            if self.open:
                self.known[key] = found
        return found

    @contextmanager
    def branching(self) -> Iterator[None]:
        """Forget what is computed in the ``with`` block, which the code after it may not have passed."""
        kept = self.known.copy()
        yield
        self.known = kept

    def declare(self, text: str) -> None:
        """Declare a function outside the module."""
        self.module.declarations[text] = None

    def label(self, name: str) -> None:
        """Begin a block; the block before it continues here unless it has ended."""
        if self.open:
            self.lines.append(f"  br label %{name}")
        self.lines.append(f"{name}:")
        self.open = True

    def jump(self, name: str) -> None:
        """End the block by going to another one."""
        self.write(f"br label %{name}")
        self.open = False

    def branch(self, condition: Value, yes: str, no: str) -> None:
        """End the block by going to one of two others."""
        self.write(f"br i1 {condition.name}, label %{yes}, label %{no}")
        self.open = False

    def variable(self, type_: Type, count: int = 1, align: int = 0) -> str:
        """Reserve memory on the stack and return the name of its address."""
        name = "%" + self.name("m")
        many = f", i64 {count}" if count > 1 else ""
        self.variables.append(f"  {name} = alloca {type_.ir}{many}" + (f", align {align}" if align else ""))
        return name


_bodies: Final[list[Body]] = []


@contextmanager
def writing(new: Body) -> Iterator[Body]:
    """Let values write into this function."""
    _bodies.append(new)
    try:
        yield new
    finally:
        _bodies.pop()


def body() -> Body:
    """Return the function that is being written."""
    if not _bodies:
        raise RuntimeError("[llvm] values exist only while a @loop function is being translated.")
    return _bodies[-1]


def emit(type_: Type, text: str) -> Value:
    """Write an instruction into the current function and return its result."""
    return body().value(type_, text)


def _arithmetic(symbol: str, swap: bool = False) -> Callable[[Value, Any], Value]:
    return lambda self, other: _binary(symbol, self, other, swap)


def _comparison(symbol: str) -> Callable[[Value, Any], Value]:
    return lambda self, other: _compare(symbol, self, other)


class Value:
    """The result of an instruction, a parameter or a constant, with its type."""

    __slots__ = ("name", "type")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, type_: Type, name: str) -> None:
        self.type = type_
        self.name = name

    @property
    def text(self) -> str:
        """Return the value with its type, as instructions take it."""
        return f"{self.type.ir} {self.name}"

    def __repr__(self) -> str:
        return f"Value({self.type}, {self.name})"

    def __bool__(self) -> bool:
        raise TypeError(
            f"[llvm] the truth of a value of type {self.type} is not known while code is translated: use `if`, `while` "
            "or select(...) in a @loop function, not in a Python function that it calls."
        )

    def __add__(self, other: Any) -> Value:
        if self.type.is_pointer:
            return _offset(self, other)
        return _binary("+", self, other)

    def __sub__(self, other: Any) -> Value:
        if self.type.is_pointer:
            return _offset(self, -other)
        return _binary("-", self, other)

    __radd__ = _arithmetic("+", swap=True)
    __rsub__ = _arithmetic("-", swap=True)
    __mul__ = __rmul__ = _arithmetic("*")
    __truediv__ = _arithmetic("/")
    __rtruediv__ = _arithmetic("/", swap=True)
    __floordiv__ = _arithmetic("//")
    __rfloordiv__ = _arithmetic("//", swap=True)
    __mod__ = _arithmetic("%")
    __rmod__ = _arithmetic("%", swap=True)
    __and__ = __rand__ = _arithmetic("&")
    __or__ = __ror__ = _arithmetic("|")
    __xor__ = __rxor__ = _arithmetic("^")
    __lshift__ = _arithmetic("<<")
    __rlshift__ = _arithmetic("<<", swap=True)
    __rshift__ = _arithmetic(">>")
    __rrshift__ = _arithmetic(">>", swap=True)
    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")
    __eq__ = _comparison("==")  # type: ignore[assignment]
    __ne__ = _comparison("!=")  # type: ignore[assignment]

    def __neg__(self) -> Value:
        if self.type.is_float:
            return emit(self.type, f"fneg {self.text}")
        return constant(self.type, 0) - self

    def __pos__(self) -> Value:
        return self

    def __invert__(self) -> Value:
        return self ^ constant(self.type, True if self.type.kind == "c" else -1)

    def __getitem__(self, index: Any) -> Value:
        element = self.type.target
        return emit(element, f"load {element.ir}, {_offset(self, index).text}, align {element.size}")


# ---- constants


def constant(type_: Type, number: Any) -> Value:
    """Return a constant of this type, in every lane."""
    kind = type_.kind
    if kind == "c":
        text = "true" if number else "false"
    elif kind == "f":
        text = _float_text(type_.scalar, number)
    elif kind == "p":
        if number != 0:
            raise TypeError(f"[llvm] {number!r} is not a pointer: only 0 is one.")
        text = "null"
    elif kind in "iub":
        whole = int(number)
        if whole != number:
            raise TypeError(f"[llvm] {number!r} is not a value of type {type_}: convert a float in the code.")
        whole &= (1 << type_.bits) - 1
        text = str(whole - (1 << type_.bits) if whole >> (type_.bits - 1) else whole)
    elif kind == "h":
        return convert(constant(vector(f32, type_.lanes), number), type_)
    else:
        raise TypeError(f"[llvm] there are no constants of type {type_}.")
    if type_.is_vector:
        text = f"splat ({type_.scalar.ir} {text})" if number != 0 or kind == "f" else "zeroinitializer"
    return Value(type_, text)


def _float_text(type_: Type, number: Any) -> str:
    with np.errstate(all="ignore"):
        if type_.size == 2:
            return f"0xH{np.float16(number).view(np.uint16):04X}"
        value = float(np.float32(number)) if type_.size == 4 else float(number)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def as_value(thing: Any, like: Type | None = None) -> Value:
    """Return a Value as it is, and a Python or NumPy number as a constant: of type ``like``, or i64, i1 or f64."""
    if isinstance(thing, Value):
        return thing
    if not isinstance(thing, (int, float, np.generic)):
        raise TypeError(f"[llvm] {thing!r} is not a value of compiled code: numbers and values are.")
    if like is None:
        like = i1 if isinstance(thing, (bool, np.bool_)) else i64 if isinstance(thing, (int, np.integer)) else f64
    return constant(like, thing)


# ---- conversion


def convert(value: Any, to: Type) -> Value:
    """Convert a value or a number; a scalar becomes a vector by repetition if ``to`` is a vector."""
    if not isinstance(value, Value):
        return constant(to, value)
    of = value.type
    if to.is_vector and not of.is_vector:
        return _splat(convert(value, to.scalar), to.lanes)
    if of.is_vector and not to.is_vector:
        to = vector(to, of.lanes)
    if of == to:
        return value
    if of.kind == "p" or to.kind == "p":
        if of.kind == "p" == to.kind:
            return Value(to, value.name)
        return emit(to, f"{'ptrtoint' if of.kind == 'p' else 'inttoptr'} {value.text} to {to.ir}")
    if to.kind == "c":
        return value != 0
    if to.kind == "b":
        return _cast("zext", value if of.kind == "c" else value != 0, to)
    if of.kind == "h":
        return convert(_widened(value), to)
    if to.kind == "h":
        return _rounded(value)
    if to.kind == "f":
        if of.kind == "f":
            if of.size == 8 and to.size == 2:
                # processors without float16 would call a function that LLVM does not bring
                value = _cast("bitcast", _odd_single(value), vector(f32, of.lanes))
            return _cast("fpext" if to.size > of.size else "fptrunc", value, to)
        return _cast("sitofp" if of.kind == "i" else "uitofp", value, to)
    if of.kind == "f":
        return _cast("fptosi" if to.kind == "i" else "fptoui", value, to)
    if of.bits == to.bits:
        return Value(to, value.name)
    if of.bits > to.bits:
        return _cast("trunc", value, to)
    return _cast("sext" if of.kind == "i" else "zext", value, to)


_convert.append(convert)


def _cast(instruction: str, value: Value, to: Type) -> Value:
    return emit(to, f"{instruction} {value.text} to {to.ir}")


def _widened(value: Value) -> Value:
    """Return bfloat16 numbers as float32: their bits are its upper half."""
    lanes = value.type.lanes
    bits = convert(Value(vector(u16, lanes), value.name), vector(u32, lanes)) << 16
    return _cast("bitcast", bits, vector(f32, lanes))


def _rounded(value: Value) -> Value:
    """Return numbers as bfloat16, rounded to nearest, ties to even; a NaN keeps its upper bits and stays one."""
    lanes = value.type.lanes
    single, wide = vector(f32, lanes), vector(u32, lanes)
    number = convert(value, single)
    is_double = value.type.kind == "f" and value.type.size == 8
    bits = _odd_single(value) if is_double else _cast("bitcast", number, wide)
    even = bits + (((bits >> 16) & 1) + 0x7FFF)
    kept = bits | 0x00400000
    chosen = emit(wide, f"select {(number != number).text}, {kept.text}, {even.text}")
    short = convert(chosen >> 16, vector(u16, lanes))
    return Value(vector(bf16, lanes), short.name)


def _odd_single(value: Value) -> Value:
    """Return the bits of float64 numbers in float32, odd where inexact, so that a narrower type is rounded to once."""
    wide = vector(u32, value.type.lanes)
    number = _cast("fptrunc", value, vector(f32, value.type.lanes))
    back = _cast("fpext", number, value.type)
    # towards zero and odd: one less in magnitude if the rounding went up, then the last bit is set
    bits = _cast("bitcast", number, wide) - convert(_fabs(back) > _fabs(value), wide)
    return bits | convert(back != value, wide)


def _fabs(value: Value) -> Value:
    bits = _cast("bitcast", value, unsigned_of(value.type))
    return _cast("bitcast", bits & ((1 << (value.type.bits - 1)) - 1), value.type)


def _splat(value: Value, lanes: int) -> Value:
    to = vector(value.type, lanes)
    first = emit(to, f"insertelement {to.ir} poison, {value.text}, i32 0")
    return emit(to, f"shufflevector {first.text}, {to.ir} poison, <{lanes} x i32> zeroinitializer")


# ---- operators


def _offset(pointer_: Value, index: Any) -> Value:
    """Return a pointer so many elements further."""
    if not isinstance(index, Value) and index == 0:
        return pointer_
    index = convert(index, i64) if isinstance(index, Value) else constant(i64, index)
    return emit(pointer_.type, f"getelementptr {pointer_.type.target.ir}, {pointer_.text}, {index.text}")


def same_type(*things: Any) -> list[Value]:
    """Return values of one type: numbers get that of the values, scalars are repeated beside vectors."""
    values = [thing for thing in things if isinstance(thing, Value)]
    if not values:
        raise TypeError("[llvm] at least one operand must be a value.")
    lanes = max(value.type.lanes for value in values)
    scalar = values[0].type.scalar
    for value in values:
        if value.type.scalar != scalar or value.type.lanes not in (1, lanes):
            raise TypeError(
                f"[llvm] the operands have the types {', '.join(str(v.type) for v in values)}: convert them to one "
                "type, as in f32(x)."
            )
    return [convert(thing, vector(scalar, lanes)) for thing in things]


_FLOAT: Final = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv", "%": "frem"}
_INTEGER: Final = {
    "+": ("add", "add"), "-": ("sub", "sub"), "*": ("mul", "mul"), "//": ("sdiv", "udiv"), "%": ("srem", "urem"),
    "&": ("and", "and"), "|": ("or", "or"), "^": ("xor", "xor"), "<<": ("shl", "shl"), ">>": ("ashr", "lshr"),
}  # fmt: skip
_BITS: Final = {"&": "and", "|": "or", "^": "xor"}


def _binary(symbol: str, x: Any, y: Any, swap: bool = False) -> Value:
    a, b = same_type(y, x) if swap else same_type(x, y)
    kind = a.type.kind
    if kind == "f":
        instruction = _FLOAT.get(symbol)
        flags = " contract" if body().contract else ""
    elif kind in "iu":
        instruction, flags = _INTEGER.get(symbol, (None, None))[kind == "u"], ""
    else:
        instruction, flags = (_BITS.get(symbol) if kind in "cb" else None), ""
    if instruction is None:
        raise TypeError(f"[llvm] {symbol} is not defined for {a.type}: convert the operands first.")
    return emit(a.type, f"{instruction}{flags} {a.text}, {b.name}")


_ORDERED: Final = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}
_SIGNED: Final = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}
_UNSIGNED: Final = {"<": "ult", "<=": "ule", ">": "ugt", ">=": "uge", "==": "eq", "!=": "ne"}


def _compare(symbol: str, x: Any, y: Any) -> Value:
    a, b = same_type(x, y)
    kind = a.type.kind
    if kind == "h":
        a, b = _widened(a), _widened(b)
    if a.type.kind == "f":
        text = f"fcmp {_ORDERED[symbol]}"
    else:
        text = f"icmp {(_SIGNED if kind == 'i' else _UNSIGNED)[symbol]}"
    return emit(vector(i1, a.type.lanes), f"{text} {a.text}, {b.name}")


def truth(value: Any) -> Value:
    """Return a condition: the value itself if it is one, otherwise whether it is not zero."""
    value = as_value(value)
    return value if value.type.kind == "c" else _compare("!=", value, 0)
