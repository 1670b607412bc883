"""Reading PTX: a module's variables, functions and instructions, each with the line on which it stands.

The grammar is that of the PTX ISA manual, chapters "Syntax" and "Directives". Only the text is divided here; what an
instruction means is decided in ``opcodes``.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from .kernel_errors import PtxSyntaxError

__all__ = [
    "SIZES",
    "FunctionText",
    "Instruction",
    "ModuleText",
    "Parameter",
    "Variable",
    "listed",
    "parse",
    "plain_name",
    "source_place",
    "split",
]


class Instruction(NamedTuple):
    """A statement of a body: an instruction, a label (``name:``), a brace or a directive."""

    line: int  # of the PTX, the first is 1
    opcode: str  # all of it, with its qualifiers; "label", "{", "}" or a directive such as ".reg"
    parts: tuple[str, ...]  # the opcode's parts: ("add", "s32")
    operands: list[str]
    predicate: str  # "" or "%p1" or "!%p1"
    text: str

    def has(self, *qualifiers: str) -> bool:
        """Tell whether the opcode has one of these qualifiers."""
        return any(one in self.parts for one in qualifiers)

    def one_of(self, qualifiers: tuple[str, ...]) -> str:
        """Return the first of these qualifiers that the opcode has, or ""."""
        return next((one for one in qualifiers if one in self.parts), "")

    @property
    def type(self) -> str:
        """Return the last part: the type of most instructions."""
        return self.parts[-1]


class Parameter(NamedTuple):
    """A parameter of a function, at an offset in the buffer of parameters."""

    name: str
    type: str
    offset: int
    size: int
    space: str = "param"  # or "reg"


class Variable(NamedTuple):
    """A variable of the module or of a function."""

    name: str
    space: str
    type: str
    align: int
    size: int  # bytes; 0: of a size that the launch decides
    values: tuple[str, ...]
    is_external: bool


class FunctionText(NamedTuple):
    """An ``.entry`` or a ``.func``."""

    name: str
    is_entry: bool
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    parameter_size: int
    body: list[Instruction] | None  # None: declared only
    line: int
    largest_block: int  # of .maxntid or .reqntid; 0: not stated


class ModuleText(NamedTuple):
    """A whole module."""

    version: str
    target: str
    variables: tuple[Variable, ...]
    functions: dict[str, FunctionText]


SIZES: Final = {
    "pred": 1, "b8": 1, "s8": 1, "u8": 1, "b16": 2, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "b32": 4, "s32": 4,
    "u32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "s64": 8, "u64": 8, "f64": 8, "b128": 16,
}  # fmt: skip
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STATEMENT: Final = re.compile(
    r"\s*(?:(?P<loc>\.loc\b[^\n;{}]*)|(?P<file>\.file\b[^\n]*)|(?P<label>[%$\w]+)\s*:(?!:)|(?P<brace>[{}])"
    r"|(?P<text>[^;]+?)\s*;|(?P<empty>;))"
)
_HEAD: Final = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?P<kind>entry|func)\b(?P<attributes>(?:\s*\.\w+(?:\(\d+\))?)*)\s*"
    r"(?:\((?P<results>[^)]*)\)\s*)?(?P<name>[$%\w]+)\s*(?:\((?P<parameters>[^)]*)\))?(?P<directives>[^{;]*)(?P<end>[{;])"
)
_PREDICATED: Final = re.compile(r"@\s*(!?)\s*([%$\w]+)\s+(.*)", re.DOTALL)
_OPCODE: Final = re.compile(r"([\w.:]+)\s*(.*)", re.DOTALL)
_VARIABLE: Final = re.compile(
    r"(?P<linkage>(?:\.(?:extern|visible|weak|common)\s+)*)\.(?P<space>global|const|shared|local|param|reg)(?:::\w+)?\s+"
    r"(?P<attributes>(?:\.(?:align\s+\d+|ptr|global|const|shared|local|attribute\([^)]*\)|v[248])\s+)*)"
    r"\.(?P<type>\w+)\s+(?:\.ptr\s*(?:\.\w+\s+)?(?:\.align\s+(?P<to>\d+)\s+)?)?(?P<name>[$%\w]+)\s*"
    r"(?P<dims>(?:\[\s*\d*\s*\])*)\s*(?:=\s*(?P<values>.*))?$",
    re.DOTALL,
)
_ALIGN: Final = re.compile(r"\.align\s+(\d+)")
_LOC: Final = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_FILE: Final = re.compile(r"\.file\s+(\d+)\s+\"((?:[^\"\\]|\\.)*)\"")


def parse(text: str) -> ModuleText:
    """Divide a PTX module.

    Raises:
        PtxSyntaxError: the text is not PTX.
    """
    clean = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
    version = re.search(r"\.version\s+([\d.]+)", clean)
    target = re.search(r"\.target\s+(\w+)", clean)
    if version is None or target is None:
        raise PtxSyntaxError("The text is not a PTX module: it lacks .version or .target.")
    functions: dict[str, FunctionText] = {}
    rest, at = [], 0
    while head := _HEAD.search(clean, at):
        rest.append(clean[at : head.start()])
        line = clean.count("\n", 0, head.start()) + 1
        body = None
        at = head.end()
        if head["end"] == "{":
            end = _closing(clean, at)
            body = list(_statements(clean[at : end - 1], clean.count("\n", 0, at) + 1))
            at = end
        name = head["name"]
        if body is None and name in functions:
            continue
        parameters, size = _parameters(head["parameters"])
        largest = re.search(r"\.(?:maxntid|reqntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", head["directives"])
        count = math.prod(int(one or 1) for one in largest.groups()) if largest else 0
        functions[name] = FunctionText(
            name, head["kind"] == "entry", parameters, _parameters(head["results"])[0], size, body, line, count,
        )  # fmt: skip
    rest.append(clean[at:])
    return ModuleText(version[1], target[1], tuple(_variables("\n".join(rest))), functions)


def _closing(text: str, at: int) -> int:
    """Return the end of a body that begins after its brace."""
    depth = 1
    for found in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if found[0] == "{" else -1
        if not depth:
            return found.end()
    raise PtxSyntaxError("The text is not a PTX module: a brace is not closed.")


def _statements(text: str, line: int) -> Iterator[Instruction]:
    at, counted = 0, 0
    while found := _STATEMENT.match(text, at):
        begin = found.start(found.lastgroup or 0)
        line += text.count("\n", counted, begin)
        counted, at = begin, found.end()
        kind = found.lastgroup
        if kind == "label":
            yield Instruction(line, "label", ("label",), [found["label"]], "", found[0])
        elif kind == "brace":
            yield Instruction(line, found["brace"], (found["brace"],), [], "", found["brace"])
        elif kind == "text":
            yield _instruction(line, found["text"])
    if text[at:].strip():
        raise PtxSyntaxError(f"PTX line {line}: a statement does not end.")


def _instruction(line: int, text: str) -> Instruction:
    predicate = ""
    whole = " ".join(text.split())
    if text[0] == "@":
        found = _PREDICATED.match(text)
        if found is None:
            raise PtxSyntaxError(f"PTX line {line}: {whole!r} is not an instruction.")
        predicate, text = found[1] + found[2], found[3]
    found = _OPCODE.match(text)
    if found is None:
        raise PtxSyntaxError(f"PTX line {line}: {whole!r} is not an instruction.")
    opcode, rest = found.groups()
    if opcode[0] == ".":
        return Instruction(line, opcode, (opcode,), [text], predicate, whole)
    return Instruction(line, opcode, tuple(opcode.split(".")), split(rest), predicate, whole)


def split(text: str) -> list[str]:
    """Divide operands at the commas that are not in brackets."""
    if "{" not in text and "(" not in text and "[" not in text:
        return [one.strip() for one in text.split(",")] if text.strip() else []
    parts, depth, begin = [], 0, 0
    for at, c in enumerate(text):
        if c in "[{(":
            depth += 1
        elif c in "]})":
            depth -= 1
        elif c == "," and not depth:
            parts.append(text[begin:at].strip())
            begin = at + 1
    last = text[begin:].strip()
    return [*parts, last] if last else parts


def listed(text: str) -> list[str]:
    """Return the parts of an operand that may be a list in braces or parentheses."""
    return [one.strip() for one in text.strip("{}()").split(",") if one.strip()]


def variable(text: str, line: int = 0) -> Variable:
    """Return what a declaration says."""
    found = _VARIABLE.match(text.strip())
    if found is None:
        raise PtxSyntaxError(f"PTX line {line}: {' '.join(text.split())!r} is not a declaration that is understood.")
    type_ = found["type"]
    size = SIZES.get(type_)
    if size is None:
        raise PtxSyntaxError(f"PTX line {line}: variables of type .{type_} are not supported.")
    align = _ALIGN.search(found["attributes"] or "")
    vector = re.search(r"\.v([248])", found["attributes"] or "")
    size *= int(vector[1]) if vector else 1
    natural = size
    for one in re.findall(r"\[\s*(\d*)\s*\]", found["dims"] or ""):
        size *= int(one or 0)
    given = tuple(re.sub(r"[{}]", "", found["values"]).replace("\n", " ").split(",")) if found["values"] else ()
    values = tuple(one.strip() for one in given if one.strip())
    if values and not size:
        size = natural * len(values)
    return Variable(
        found["name"], found["space"], type_, int(align[1]) if align else natural, size,
        values, ".extern" in found["linkage"],
    )  # fmt: skip


def _parameters(text: str | None) -> tuple[tuple[Parameter, ...], int]:
    """Return parameters with their offsets, and the size of all."""
    found, offset = [], 0
    for one in split(text or ""):
        declared = variable(one)
        if declared.space == "param":
            offset = -(-offset // declared.align) * declared.align
        found.append(Parameter(declared.name, declared.type, offset, declared.size, declared.space))
        offset += declared.size
    return tuple(found), offset


def _variables(text: str) -> Iterator[Variable]:
    """Yield the variables that are declared outside functions."""
    text = re.sub(r"\.section\s+\.\w+\s*\{.*?\}", "", text, flags=re.DOTALL)
    text = re.sub(r"^\s*\.(?:version|target|address_size|file|loc)\b[^\n]*", "", text, flags=re.MULTILINE)
    text = re.sub(r"\.pragma\s[^;]*;|\.alias\s[^;]*;", "", text)
    for statement in text.split(";"):
        stripped = statement.strip()
        if re.match(r"(?:\.\w+\s+)*\.(?:global|const|shared)\b", stripped):
            yield variable(stripped)


def source_place(text: str, line: int) -> tuple[str | None, int | None]:
    """Return the file and the line of the source from which a line of PTX was made, by the ``.loc`` before it."""
    found = None
    for one in text.split("\n")[:line]:
        stripped = one.lstrip()
        if stripped.startswith(".loc"):
            found = _LOC.match(stripped) or found
        elif re.match(r"(?:\.\w+\s+)*\.(?:entry|func)\b", stripped):
            found = None
    if found is None:
        return None, None
    files = {int(number): name for number, name in _FILE.findall(text)}
    return files.get(int(found[1])), int(found[2])


def plain_name(name: str) -> str:
    """Return the name of a function in its source, from the one that a compiler has made of it.

    >>> plain_name("_ZN7kernels7row_sumB2v1B4cw51E")
    'row_sum'
    """
    if not name.startswith("_Z"):
        return name
    parts, rest = [], name[2:].lstrip("NK")
    while found := re.match(r"(\d+)", rest):
        end = found.end() + int(found[1])
        parts.append(rest[found.end() : end])
        rest = rest[end:]
    return parts[-1] if parts else name


def number(text: str, bits: int) -> int:
    """Return the bits of a constant: an integer, or a float that is written in hexadecimal or decimal digits."""
    sign = -1 if text[0] == "-" else 1
    plain = text.lstrip("+-")
    if (letter := plain[:2].lower()) in ("0f", "0d"):
        value = int("0x" + plain[2:], base=0)
        if letter == "0f" and bits == 64:
            value = struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", value))[0]))[0]
        if letter == "0d" and bits == 32:
            double = struct.unpack("<d", struct.pack("<Q", value))[0]
            value = int(np.float32(double).view(np.uint32))
        return value ^ (1 << (bits - 1) if sign < 0 else 0)
    if "." in plain or ("e" in plain.lower() and plain[:2].lower() != "0x"):
        with np.errstate(over="ignore"):
            return int(np.array(sign * float(plain), f"f{bits // 8}").view(f"u{bits // 8}"))
    plain = plain.rstrip("uU")
    base = 8 if len(plain) > 1 and plain[0] == "0" and plain.isdigit() else 0
    return sign * int(plain, base)
