"""What a driver reads from an image: the kernels of PTX, their parameters and limits, and the module's variables."""

from __future__ import annotations

import gc
import hashlib
import math
import re
import sys
from typing import Final, NamedTuple

__all__ = ["Entry", "Variable", "entries", "ptx_of_image", "register_image", "variables"]

_SIZES: Final = {
    "b8": 1, "s8": 1, "u8": 1, "pred": 1, "b16": 2, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "b32": 4, "s32": 4,
    "u32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "s64": 8, "u64": 8, "f64": 8, "b128": 16,
}  # fmt: skip
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY: Final = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?([^{;]*)\{", re.DOTALL)
_PARAMETER: Final = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\s+(?:\.(?:global|shared|const|local)\s+)?(?:\.align\s+\d+\s+)?)?"
    r"[\w$]+\s*(?:\[(\d+)\])?"
)
_BOUND: Final = re.compile(r"\.(?:maxntid|reqntid)\s+(\d+)\s*(?:,\s*(\d+)\s*)?(?:,\s*(\d+))?")
_VARIABLE: Final = re.compile(
    r"\.(shared|global|const|local)\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)((?:\s*\[\s*\d*\s*\])*)\s*(?:=[^;]*)?;"
)
_REGISTERS: Final = 32  # of a thread: what PTX says is unlimited, only the assembler knows
_MOST_THREADS: Final = 1024
_registered: Final[dict[bytes, str]] = {}


class Entry(NamedTuple):
    """A kernel: ``parameters`` are pairs of offset and size in the parameter buffer of ``size`` bytes."""

    name: str
    parameters: tuple[tuple[int, int], ...]
    size: int
    threads: int
    shared: int
    local: int
    registers: int


class Variable(NamedTuple):
    """A variable of a module, and its size in bytes."""

    name: str
    size: int


def register_image(image: bytes, ptx: str) -> None:
    """Say what machine code was made from, so that the emulator, which cannot execute it, can execute the PTX."""
    _registered[_hash(image)] = ptx


def ptx_of_image(image: bytes) -> str | None:
    """Return the PTX of an image, which is PTX itself or machine code that was registered; None if it is unknown."""
    if image[:4] == b"\x7fELF":
        return _registered.get(_hash(image)) or _ptx_of_numba(image)
    try:
        text = image.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return None
    return text if ".version" in text and ".target" in text else None


def _ptx_of_numba(image: bytes) -> str | None:
    """Return the PTX of machine code that a ``numba.cuda.jit`` function of this process was just compiled to."""
    codegen = sys.modules.get("numba.cuda.codegen")
    if codegen is None:
        return None
    for library in gc.get_objects():
        if type(library) is codegen.CUDACodeLibrary:
            for cc, made in [*library._cubin_cache.items()]:
                if bytes(getattr(made, "code", made)).startswith(image):  # the driver reads to the last section
                    return str(library.get_asm_str(cc=cc))
    return None


def _hash(image: bytes) -> bytes:
    return hashlib.sha256(image).digest()


def _without_comments(ptx: str) -> str:
    return _COMMENT.sub(" ", ptx)


def entries(ptx: str, registers: int = _REGISTERS) -> list[Entry]:
    """Return the kernels of PTX text, in its order.

    >>> text = ".visible .entry f(.param .u32 n, .param .u64 .ptr .global .align 4 x) .maxntid 64 { ret; }"
    >>> entries(text)[0].parameters, entries(text)[0].threads
    (((0, 4), (8, 8)), 64)
    """
    text = _without_comments(ptx)
    found = list(_ENTRY.finditer(text))
    outside = _outside(text, [match.end() - 1 for match in found])
    general = {name: size for space, name, size in _sizes(outside) if space == "shared"}
    made = []
    for match in found:
        body = text[match.end() : _end(text, match.end() - 1)]
        parameters, offset = [], 0
        for parameter in _PARAMETER.finditer(match[2] or ""):
            element = _SIZES[parameter[2]]
            size = element * int(parameter[3] or 1)
            alignment = int(parameter[1] or element)
            offset = -(-offset // alignment) * alignment
            parameters.append((offset, size))
            offset += size
        bound = _BOUND.search(match[3])
        threads = math.prod(int(n) for n in bound.groups() if n) if bound else _MOST_THREADS
        own = list(_sizes(body))
        words = set(re.findall(r"[\w$]+", body))
        shared = sum(size for space, _, size in own if space == "shared")
        shared += sum(size for name, size in general.items() if name in words)
        local = sum(size for space, _, size in own if space == "local")
        made.append(Entry(match[1], tuple(parameters), offset, min(threads, _MOST_THREADS), shared, local, registers))
    return made


def _end(text: str, start: int) -> int:
    """Return the place of the brace that closes the one at ``start``."""
    depth = 0
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return match.start()
    return len(text)


def _outside(text: str, starts: list[int]) -> str:
    parts, at = [], 0
    for start in starts:
        parts.append(text[at:start])
        at = _end(text, start)
    return "".join([*parts, text[at:]])


def _sizes(text: str) -> list[tuple[str, str, int]]:
    return [(m[1], m[3], _SIZES.get(m[2], 8) * math.prod(_dimensions(m[4]))) for m in _VARIABLE.finditer(text)]


def _dimensions(text: str) -> list[int]:
    return [int(n or 0) for n in re.findall(r"\[\s*(\d*)\s*\]", text)]


def variables(ptx: str) -> list[Variable]:
    """Return the variables in global and constant memory that a module defines."""
    text = _without_comments(ptx)
    outside = _outside(text, [match.end() - 1 for match in _ENTRY.finditer(text)])
    return [
        Variable(match[3], _SIZES.get(match[2], 8) * math.prod(_dimensions(match[4])))
        for match in _VARIABLE.finditer(outside)
        if match[1] in ("global", "const")
    ]
