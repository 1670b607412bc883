"""What a driver reads from an image: the kernels of PTX, their parameters and limits, and the module's variables."""

from __future__ import annotations

import gc
import hashlib
import re
import sys
from typing import Final, NamedTuple

from ..ptx.context_layout import LARGEST_BLOCK
from ..ptx.ptx_text import ModuleText, Variable, variable

__all__ = ["Entry", "entries", "ptx_of_image", "register_image", "variables"]

_REGISTERS: Final = 32  # of a thread: what PTX says is unlimited, only the assembler knows
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


def entries(module: ModuleText) -> list[Entry]:
    """Return the kernels of a module, in its order.

    >>> from tenkey.testing.ptx.ptx_text import parse
    >>> text = ".visible .entry f(.param .u32 n, .param .u64 .ptr .global .align 4 x) .maxntid 64 { ret; }"
    >>> (entry,) = entries(parse(f".version 8.0\\n.target sm_90\\n{text}"))
    >>> entry.parameters, entry.threads
    (((0, 4), (8, 8)), 64)
    """
    general = {one.name: one.size for one in module.variables if one.space == "shared"}
    made = []
    for function in module.functions.values():
        if not function.is_entry or function.body is None:
            continue
        own = [variable(one.operands[0]) for one in function.body if one.opcode in (".shared", ".local")]
        words = set(re.findall(r"[\w$]+", " ".join([one.text for one in function.body])))
        shared = sum(one.size for one in own if one.space == "shared")
        shared += sum(size for name, size in general.items() if name in words)
        local = sum(one.size for one in own if one.space == "local")
        parameters = tuple([(one.offset, one.size) for one in function.parameters])
        threads = min(function.largest_block or LARGEST_BLOCK, LARGEST_BLOCK)
        made.append(Entry(function.name, parameters, function.parameter_size, threads, shared, local, _REGISTERS))
    return made


def variables(module: ModuleText) -> list[Variable]:
    """Return the variables in global and constant memory that a module defines."""
    return [one for one in module.variables if one.space in ("global", "const")]
