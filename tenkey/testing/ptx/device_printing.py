"""``printf`` of kernels: formats with the arguments that the kernel has packed, printed where Python prints."""

from __future__ import annotations

import ctypes
import functools
import re
import struct
import sys
from typing import Any, Final

__all__ = ["formatted", "printer", "text_at"]

_SPECIFICATION: Final = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcsp%])")
_LONGEST: Final = 1 << 16  # of a text, in bytes


def text_at(address: int) -> str:
    """Return the text at an address, up to its zero byte."""
    return ctypes.string_at(address)[:_LONGEST].decode(errors="replace")


def formatted(text: str, arguments: int) -> str:
    """Return a format with the arguments that lie at an address, each at a multiple of its size.

    >>> values = struct.pack("<i4xdi", 7, 0.5, -1)
    >>> buffer = ctypes.create_string_buffer(values)
    >>> formatted("%d is %5.2f%% of %u", ctypes.addressof(buffer))
    '7 is  0.50% of 4294967295'
    """
    at = arguments

    def next_of(code: str) -> Any:
        nonlocal at
        size = struct.calcsize(code)
        at += -at % size
        (value,) = struct.unpack(f"<{code}", ctypes.string_at(at, size))
        at += size
        return value

    def one(found: re.Match[str]) -> str:
        flags, width, digits, length, kind = found.groups()
        if kind == "%":
            return "%"
        width = str(next_of("i")) if width == "*" else width or ""
        digits = str(next_of("i")) if digits == "*" else digits
        shape = f"%{flags}{width}" + (f".{digits}" if digits is not None else "")
        if kind in "diouxXc":
            long = length in {"l", "ll", "j", "z", "t"}
            code = ("q" if long else "i") if kind in "di" else "Q" if long else "I"
            whole: int = next_of(code)
            return (shape + ("d" if kind in "iu" else kind)) % whole
        if kind == "s":
            return (shape + "s") % text_at(next_of("Q"))
        if kind == "p":
            return (shape + "s") % hex(next_of("Q"))
        value: float = next_of("d")
        return value.hex() if kind in "aA" else (shape + kind) % value

    return _SPECIFICATION.sub(one, text)


@functools.cache
def printer() -> Any:
    """Return the function that kernels call, for ctypes."""

    def write(text: int, arguments: int) -> int:
        format_ = text_at(text)
        sys.stdout.write(formatted(format_, arguments))
        return sum(one[4] != "%" for one in _SPECIFICATION.findall(format_))

    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)(write)
