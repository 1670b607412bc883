"""Linking object files (ELF for x86-64) to one position-independent block: Note [Images of machine code].

The formats are those of the ELF specification and of the System V ABI for x86-64, sections "Relocation" and "Object
Files". A block consists of the table of addresses, the stubs, and the sections that the code needs::

    slot 0, slot 1, ...     8 bytes each, which the loader fills
    stub 0, stub 1, ...     jmp *slot(%rip): what a call of an outside function calls
    .text, .rodata, ...     each at a multiple of its alignment
"""

from __future__ import annotations

import itertools
import struct
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["FUNCTIONS", "GIVEN", "LinkError", "link"]

FUNCTIONS: Final = frozenset(
    [name + suffix for suffix in ("", "f") for name in (
        "sin", "cos", "tan", "sincos", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "exp", "exp2", "expm1",
        "log", "log2", "log10", "log1p", "pow", "fmod", "remainder", "ldexp", "frexp", "sqrt", "cbrt", "hypot", "fma",
        "floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven", "copysign", "fabs", "fmin", "fmax",
    )]
    + ["memcpy", "memmove", "memset", "memcmp"]
    + ["PyErr_Occurred", "PyEval_RestoreThread", "PyEval_SaveThread", "PyLong_AsVoidPtr", "PyLong_FromLong"]
    + ["PyBytes_AsString", "PyBytes_Size"]
)  # fmt: skip
"""The functions of the C library, and of Python's C interface, that compiled code may call."""
GIVEN: Final = "given."
"""How the names of addresses begin that whoever loads the code brings."""

_SLOT: Final = 8
_JUMP, _TRAPS = b"\xff\x25", b"\xcc\xcc"  # jmp *distance(%rip), of 6 bytes; padding
_PAGE: Final = 4096  # blocks are loaded at multiples of it

_FILE: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")
_IDENTITY: Final = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _SYMTAB, _RELA, _REL = 1, 2, 4, 9  # types of sections
_ALLOCATED: Final = 2  # flags of sections
_KNOWN_FLAGS: Final = 0x2 | 0x4 | 0x10 | 0x20 | 0x200  # allocated, executable, mergeable, of strings, of a group
_UNDEFINED: Final = 0  # the section of outside symbols
_LOCAL: Final = 0  # the binding of symbols that only their own file knows
_PLT32: Final = 4  # types of references: a call
_RELATIVE: Final = {2: "<i", _PLT32: "<i", 24: "<q"}  # PC32 and PC64: distances, as they are stored
_BY_TABLE: Final = frozenset({9, 41, 42})  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX: the distance of an address


class LinkError(Exception):
    """An object file contains something that is not understood."""


class _Section(NamedTuple):
    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int
    is_global: bool


class _Relocation(NamedTuple):
    section: int  # where the reference is
    offset: int
    type: int
    symbol: int
    addend: int


def link(codes: Sequence[bytes], exports: Sequence[str]) -> tuple[bytes, list[int], list[str]]:
    """Return a block of code, the offsets of the exported functions, and what its table of addresses holds.

    An entry of the table is the name of a function of the C library or of an address that the loader is given, or ``+``
    and an offset (hexadecimal) in the block.

    Raises:
        LinkError: the file contains something that is not understood, or the system uses another format.
    """
    code = b"".join(codes)
    sections: list[_Section] = []
    symbols: list[_Symbol] = []
    relocations: list[_Relocation] = []
    for one_code, end in zip(codes, itertools.accumulate(map(len, codes))):
        own = _read_sections(one_code)
        _read_relocations(one_code, own, len(sections), len(symbols), relocations)
        _read_symbols(one_code, own, len(sections), symbols)
        sections += [one._replace(offset=one.offset + end - len(one_code)) for one in own]
    placed = [index for index, section in enumerate(sections) if _is_needed(section)]
    shared = {symbol.name: symbol for symbol in symbols if symbol.is_global and symbol.section != _UNDEFINED}
    symbols = [symbol if symbol.section else shared.get(symbol.name, symbol) for symbol in symbols]

    # What the table holds, and which of its functions are called through stubs, in order of appearance.
    slots: dict[_Symbol, int] = {}
    stubs: dict[_Symbol, int] = {}
    for one in relocations:
        symbol = symbols[one.symbol]
        outside = symbol.section == _UNDEFINED
        if outside and symbol.name not in FUNCTIONS and not symbol.name.startswith(GIVEN):
            raise LinkError(f"{symbol.name or 'a section'} is not a function that the code may call")
        if one.type in _BY_TABLE or (one.type == _PLT32 and outside):
            slots.setdefault(symbol, len(slots))
            if one.type == _PLT32:
                stubs.setdefault(symbol, len(stubs))
        elif outside or one.type not in _RELATIVE:
            raise LinkError(f"a reference to {symbol.name or 'a section'} is of the unknown type {one.type}")

    block = bytearray(_SLOT * len(slots))
    for symbol in stubs:
        distance = _SLOT * slots[symbol] - (len(block) + 6)  # from the next instruction
        block += _JUMP + struct.pack("<i", distance) + _TRAPS
    starts: dict[int, int] = {}
    for index in placed:
        section = sections[index]
        block += bytes(-len(block) % max(section.alignment, 1))
        starts[index] = len(block)
        block += code[section.offset : section.offset + section.size]

    def place(symbol: _Symbol) -> int:
        if symbol.section not in starts:
            raise LinkError(f"{symbol.name or 'a section'} is not in the code")
        return starts[symbol.section] + symbol.value

    for one in relocations:
        symbol = symbols[one.symbol]
        if one.type in _BY_TABLE:
            target = _SLOT * slots[symbol]
        elif symbol in stubs:
            target = _SLOT * (len(slots) + stubs[symbol])
        else:
            target = place(symbol)
        here = starts[one.section] + one.offset
        struct.pack_into(_RELATIVE.get(one.type, "<i"), block, here, target + one.addend - here)

    if missing := [name for name in exports if name not in shared]:
        raise LinkError(f"the code lacks the function {missing[0]}")
    table = [symbol.name if symbol.section == _UNDEFINED else f"+{place(symbol):x}" for symbol in slots]
    return bytes(block), [place(shared[name]) for name in exports], table


# ---- reading


def _read_sections(code: bytes) -> list[_Section]:
    """Return the sections of a file that this module understands."""
    if sys.platform != "linux":
        raise LinkError("only the format of Linux is understood")
    if len(code) < _FILE.size or not code.startswith(_IDENTITY):
        raise LinkError("it is not an ELF file")
    _, kind, machine, _, _, _, table, _, _, _, _, size, count, names = _FILE.unpack_from(code)
    if (kind, machine, size) != (_RELOCATABLE, _X86_64, _SECTION.size) or not 0 < names < count:
        raise LinkError("it is not an ordinary object file for x86-64")
    rows = [_SECTION.unpack_from(code, table + index * size) for index in range(count)]
    return [
        _Section(_text(code, rows[names][4] + name), type_, flags, offset, length, link_, info, alignment)
        for name, type_, flags, _, offset, length, link_, info, alignment, _ in rows
    ]


def _text(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode()


def _is_needed(section: _Section) -> bool:
    """Return whether a section belongs into the block; raise LinkError if it is one that pure code does not have."""
    if not section.flags & _ALLOCATED or section.size == 0 or section.name == ".eh_frame":  # for stack traces
        return False
    if section.type != _PROGBITS or section.flags & ~_KNOWN_FLAGS or section.alignment > _PAGE:
        raise LinkError(f"the section {section.name} is not one of code or constants")
    return True


def _read_symbols(code: bytes, sections: Sequence[_Section], before: int, found: list[_Symbol]) -> None:
    """Append the names of a file; ``before`` is the number of sections of the files before it."""
    for section in sections:
        if section.type == _SYMTAB:
            names = sections[section.link].offset
            for start in range(section.offset, section.offset + section.size, _SYMBOL.size):
                name, info, _, index, value, _ = _SYMBOL.unpack_from(code, start)
                place = index if index == _UNDEFINED else index + before
                found.append(_Symbol(_text(code, names + name), place, value, info >> 4 != _LOCAL))


def _read_relocations(
    code: bytes, sections: Sequence[_Section], before: int, symbols: int, found: list[_Relocation]
) -> None:
    """Append the references in the sections of a file that the block needs."""
    for section in sections:
        if section.type not in {_REL, _RELA} or not _is_needed(sections[section.info]):
            continue
        if section.type == _REL:
            raise LinkError(f"the section {section.name} has another format")
        for start in range(section.offset, section.offset + section.size, _RELOCATION.size):
            offset, info, addend = _RELOCATION.unpack_from(code, start)
            found.append(_Relocation(before + section.info, offset, info & 0xFFFFFFFF, symbols + (info >> 32), addend))
