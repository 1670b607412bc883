"""From the text of a module to machine code: an image, and what a launch has to know of each kernel.

Images lie in the cache of compiled code (``tenkey/backends/llvm/code_cache.py``), under the text of the module, the
choices of the compilation and the sources of this package.
"""

from __future__ import annotations

import functools
import json
import struct
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...backends.llvm import code_cache
from ...backends.llvm.compiled import image_of
from ...backends.llvm.value_types import void
from ...backends.llvm.values import Body, Function, Module, writing
from .context_layout import Context
from .kernel_errors import UnsupportedError
from .opcodes import HANDLERS
from .ptx_text import SIZES, FunctionText, ModuleText, Variable, number, parse, variable
from .thread_code import ARGUMENTS, Translation

__all__ = ["Compiled", "Entry", "compiled"]

_WAITS: Final = frozenset(
    "bar barrier shfl vote match redux activemask elect mma ldmatrix stmatrix mbarrier nanosleep".split()  # noqa: SIM905
)


class Entry(NamedTuple):
    """What a launch has to know of a kernel."""

    name: str
    waits: bool
    frame_words: int
    parameters: tuple[tuple[int, int, str], ...]  # offset, size and type of each
    parameter_size: int
    largest_block: int


class Compiled(NamedTuple):
    """A compiled module."""

    entries: tuple[Entry, ...]
    shared_size: int
    local_words: int
    sites: int
    copies: bool
    data: bytes
    rows: tuple[tuple[int, int, int], ...]  # of the variables: begin, end, whether they may be written
    pointers: tuple[tuple[int, int], ...]  # places in the data that hold addresses in it
    image: bytes


def compiled(text: str, *, races: bool = False, optimized: bool = True, cached: bool = True) -> Compiled:
    """Compile a module, or take it from the cache.

    Raises:
        PtxSyntaxError: the text is not PTX.
        UnsupportedError: it contains an instruction that the executor does not have.
    """
    key = f"ptx {_sources()} {races} {optimized}\n{text}"
    content = code_cache.load(key) if cached else None
    if content is not None:
        return _unpacked(content)
    found = _Unit(parse(text), races).compiled(optimized)
    if cached:
        code_cache.store(key, _packed(found))
    return found


@functools.cache
def _sources() -> str:
    """Return a hash of the files that decide what is compiled."""
    from hashlib import blake2b

    digest = blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _packed(found: Compiled) -> bytes:
    head = json.dumps({**found._asdict(), "data": len(found.data), "image": None}).encode()
    return struct.pack("<I", len(head)) + head + found.data + found.image


def _unpacked(content: bytes) -> Compiled:
    (size,) = struct.unpack_from("<I", content)
    facts: dict[str, Any] = json.loads(content[4 : 4 + size])
    end = 4 + size + facts["data"]
    entries: list[Any] = [Entry(*one) for one in facts["entries"]]
    facts["entries"] = tuple([one._replace(parameters=tuple(map(tuple, one.parameters))) for one in entries])
    facts |= {name: tuple(map(tuple, facts[name])) for name in ("rows", "pointers")}
    return Compiled(**facts | {"data": content[4 + size : end], "image": content[end:]})


class _Unit:
    """One module while it is translated."""

    def __init__(self, text: ModuleText, races: bool) -> None:
        self.text = text
        self.races = races
        self.functions = text.functions
        self.module = Module()
        self.shared: dict[str, int] = {}
        self.shared_size = 0
        self.data: dict[str, int] = {}
        self.bytes = bytearray()
        self.rows: list[tuple[int, int, int]] = []
        self.pointers: list[tuple[int, int]] = []
        self.local_size = 0
        self.sites = 0
        self.copies = False
        self.names: dict[str, str] = {}
        self.open: list[str] = []
        self.indices = {name: 16 * (k + 1) for k, name in enumerate(self.functions)}
        self.taken: set[str] = set()
        self.waits: dict[str, bool] = {}
        self.place_variables()

    def place_variables(self) -> None:
        """Give the variables of the module their places."""
        shared: list[Variable] = []
        own: list[Variable] = []
        for one in self.text.variables:
            (shared if one.space == "shared" else own).append(one)
        for function in self.functions.values():
            for instruction in function.body or ():
                if instruction.parts[0] == ".shared":
                    shared.append(variable(instruction.operands[0], instruction.line))
                elif instruction.parts[0] == "mov" and instruction.operands[-1] in self.functions:
                    self.taken.add(instruction.operands[-1])
        for one in shared:
            if one.size:
                self.shared_size = -(-self.shared_size // one.align) * one.align
                self.shared[one.name] = self.shared_size
                self.shared_size += one.size
        align = max([one.align for one in shared], default=1)
        self.shared_size = -(-self.shared_size // align) * align
        for one in shared:
            if not one.size:
                self.shared[one.name] = self.shared_size
        for one in own:
            self.bytes += bytes(-len(self.bytes) % max(one.align, 16))
            self.data[one.name] = len(self.bytes)
            self.rows.append((len(self.bytes), len(self.bytes) + one.size, int(one.space != "const")))
            self.bytes += bytes(one.size + 16)  # not used, between two variables
        for one in own:
            self.set_values(one)

    def set_values(self, one: Variable) -> None:
        """Write the initial values of a variable."""
        at = self.data[one.name]
        size = SIZES[one.type]
        for value in one.values:
            symbol, _, more = (part.strip() for part in value.removeprefix("generic(").replace(")", "").partition("+"))
            if symbol in self.data:
                self.pointers.append((at, self.data[symbol] + int(more or "0", 0)))
            elif symbol in self.indices:
                self.taken.add(symbol)
                self.bytes[at : at + 8] = struct.pack("<Q", self.indices[symbol])
            else:
                bits = number(value, 8 * size) & ((1 << (8 * size)) - 1)
                self.bytes[at : at + size] = bits.to_bytes(size, "little")
            at += size

    def waiting(self, name: str) -> bool:
        """Tell whether a thread may have to wait in a function."""
        if name not in self.waits:
            self.waits[name] = False  # for functions that call themselves
            for one in self.functions[name].body or ():
                called = one.operands if one.parts[0] == "call" else ()
                if one.parts[0] in _WAITS or any(self.waiting(x) for x in called if x in self.functions):
                    self.waits[name] = True
                    break
        return self.waits[name]

    def use_failing(self) -> None:
        """Put the function ``fail`` into the module, which notes an error."""
        if "fail" not in self.module.functions:
            self.module.functions["fail"] = ("fail", void, [])
            lines = ["entry:", "  %w = zext i32 %thread to i64", "  %block = load i64, ptr %b"]
            lines.insert(2, f"  %b = getelementptr i64, ptr %context, i64 {int(Context.BLOCK)}")
            values = {Context.ERROR_LINE: "%line", Context.ERROR_ADDRESS: "%address", Context.ERROR_THREAD: "%w",
                      Context.ERROR_BLOCK: "%block", Context.ERROR_SIZE: "0", Context.ERROR: "%kind"}  # fmt: skip
            for at, value in values.items():
                lines.append(f"  %p{int(at)} = getelementptr i64, ptr %context, i64 {int(at)}")
                lines.append(f"  store i64 {value}, ptr %p{int(at)}")
            head = "void @fail(ptr %context, i64 %kind, i64 %line, i64 %address, i32 %thread) noinline cold nounwind"
            self.module.written.append(Function("fail", head, "\n".join([*lines, "  ret void", ""]), False, False))

    def translated(self, name: str) -> str:
        """Translate a function unless it was, and return its name in the compiled code."""
        if name in self.names:
            if name in self.open:
                raise UnsupportedError(f"The function {name} calls itself, which is not supported.")
            return self.names[name]
        short = self.names[name] = f"f{len(self.names)}"
        self.open.append(name)
        self.translate(self.functions[name], short)
        self.open.pop()
        return short

    def translate(self, function: FunctionText, short: str) -> int:
        """Write one function, and return the words of its frame."""
        assert function.body is not None
        body = Body(self.module, contract=False)
        waits = function.is_entry and self.waiting(function.name)
        with writing(body):
            t = Translation(self, body, function, HANDLERS, waits=waits, entry=function.is_entry)
            parameters = list(ARGUMENTS)
            if not function.is_entry:
                parameters += t.take_parameters()
            t.statements(function.body)
            head, code = t.text(short, parameters)
        self.module.written.append(Function(short, head, code, False, function.is_entry))
        return t.frame_size

    def compiled(self, optimized: bool) -> Compiled:
        """Translate all kernels and compile them."""
        entries: list[Entry] = []
        for name, function in self.functions.items():
            if function.is_entry and function.body is not None:
                words = self.translate(function, f"k{len(entries)}")
                parameters = tuple([(one.offset, one.size, one.type) for one in function.parameters])
                size, most = function.parameter_size, function.largest_block
                entries.append(Entry(name, self.waiting(name), words, parameters, size, most))
        exports = [f"k{k}" for k in range(len(entries))]
        image = image_of(self.module.parts(), exports, cold=not optimized) if entries else b""
        return Compiled(
            tuple(entries), self.shared_size, -(-self.local_size // 8), self.sites, self.copies, bytes(self.bytes),
            tuple(self.rows), tuple(self.pointers), image,
        )  # fmt: skip
