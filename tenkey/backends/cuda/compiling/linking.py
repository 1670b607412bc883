"""From PTX to machine code by nvJitLink, with the assembler's figures.

The log of ``ptxas -v`` is read, not documented as an interface: a log without the figures is an error here, so that a
change of its wording is noticed and no check passes for want of numbers.
"""

from __future__ import annotations

import re
import struct
from typing import Any, Final, NamedTuple

__all__ = ["Cubin", "LinkError", "link"]

_FRAME: Final = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS: Final = re.compile(r"Used (\d+) registers")
_SHARED: Final = re.compile(r"(\d+) bytes smem")
_HEAD: Final = struct.Struct("<4I")


class Cubin(NamedTuple):
    """The machine code of a kernel for one architecture, and what the assembler says about it.

    ``registers`` are those of a thread; ``stack`` and ``spills`` bytes of a thread's local memory, the latter as loads
    and stores that the assembler added; ``shared`` bytes of static shared memory of a block.
    """

    image: bytes
    registers: int
    stack: int
    spills: int
    shared: int

    def packed(self) -> bytes:
        """Return one row of bytes, for a file."""
        return _HEAD.pack(self.registers, self.stack, self.spills, self.shared) + self.image

    @classmethod
    def unpacked(cls, content: bytes) -> Cubin:
        """Return what :meth:`packed` was made from."""
        return cls(content[_HEAD.size :], *_HEAD.unpack_from(content))


class LinkError(RuntimeError):
    """PTX that the assembler does not take."""


def link(ptx: str, name: str, cc: tuple[int, int]) -> Cubin:
    """Return the machine code of the kernel ``name`` for a compute capability; neither driver nor GPU is needed."""
    from cuda.bindings import nvjitlink

    content = ptx.encode()
    options = [f"-arch=sm_{cc[0]}{cc[1]}", "-verbose", "-Xptxas=-v"]
    handle = nvjitlink.create(len(options), options)
    try:
        try:
            nvjitlink.add_data(handle, nvjitlink.InputType.PTX, content, len(content), name)
            nvjitlink.complete(handle)
        except nvjitlink.nvJitLinkError as error:
            log = _text(handle, nvjitlink.get_error_log_size, nvjitlink.get_error_log)
            raise LinkError(f"[{name}] the assembler refuses the PTX for sm_{cc[0]}{cc[1]} ({error}):\n{log}") from None
        image = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, image)
        log = _text(handle, nvjitlink.get_info_log_size, nvjitlink.get_info_log)
    finally:
        nvjitlink.destroy(handle)
    return Cubin(bytes(image), *_figures(log, name))


def _text(handle: Any, size: Any, read: Any) -> str:
    log = bytearray(size(handle))
    if log:
        read(handle, log)
    return log.decode(errors="replace").rstrip("\0\n ")


def _figures(log: str, name: str) -> tuple[int, int, int, int]:
    """Return registers, stack, spills and shared memory of a kernel, the largest where it calls functions.

    The shared memory of the system, 1,024 bytes of each block since sm_90, is in the linker's lines and not in the
    assembler's, which are those that count here.
    """
    _, found, log = log.partition(f"Compiling entry function '{name}'")
    log = log.partition("\ninfo ")[0]
    frames = [tuple(map(int, numbers)) for numbers in _FRAME.findall(log)]
    registers = [int(number) for number in _REGISTERS.findall(log)]
    if not found or not frames or not registers:
        raise LinkError(f"[{name}] the assembler's log has no figures of the kernel:\n{log}")
    shared = max((int(number) for number in _SHARED.findall(log)), default=0)
    return max(registers), max(f[0] for f in frames), max(f[1] + f[2] for f in frames), shared
