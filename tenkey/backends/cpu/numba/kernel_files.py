"""Files of compiled kernels.

Note [Kernel files are verified]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A file begins with a line that names the format, and the SHA-256 checksum of all that follows: the length of a JSON
header, the header (the key of the kernel, the function's symbol, the length of the object code), the object code, and
the LLVM bitcode that Numba requires beside it. The file is read once, from one descriptor, into memory; its owner and
permissions, the checksum and the key are verified before anything in it is interpreted. It contains neither pickles nor
Python code. So a damaged or renamed file is noticed, and the kernel compiled again. The checksum does not protect
against users who may write to the folder: Note [Cache folders are private].

A file that cannot be written or read is a reason for a warning and not for an error: the kernel is compiled.
Guarded by ``tests/backends/test_kernel_files.py``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...._util.atomic_write import replacing
from ...._util.cache_folder import cache_folder, is_private_file

__all__ = ["Code", "load", "store"]

_MAGIC: Final = b"tenkey kernel 1\n"
_CHECKSUM: Final = 32
_LENGTH: Final = 4


class Code(NamedTuple):
    """The machine code of a kernel: the symbol of its loop, an object file, and the same in LLVM bitcode."""

    symbol: str
    objects: bytes
    bitcode: bytes


class _DamagedError(Exception):
    """A file does not hold the kernel that its name promises."""


def load(key: str, complain: Callable[[str], None]) -> Code | None:
    """Return the code of a kernel, or None if the cache does not have it; a damaged file is reported."""
    path = _path(key, complain)
    if path is None:
        return None
    try:
        return _parsed(_content(path), key)
    except FileNotFoundError:
        return None
    except (_DamagedError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        complain(f"the cached kernel {path} cannot be used ({reason}): it is compiled again.")
        return None


def store(key: str, code: Code, complain: Callable[[str], None]) -> None:
    """Write the code of a kernel to the cache; a failure is reported."""
    path = _path(key, complain)
    if path is None:
        return
    header = json.dumps({"key": key, "symbol": code.symbol, "objects": len(code.objects)}).encode()
    rest = len(header).to_bytes(_LENGTH, "little") + header + code.objects + code.bitcode
    content = _MAGIC + hashlib.sha256(rest).digest() + rest
    try:
        with replacing(str(path), mode=0o600, durable=False) as temporary:
            Path(temporary).write_bytes(content)
    except (OSError, ValueError) as error:  # ValueError: something else has the name of the file
        if isinstance(error, PermissionError) and os.name == "nt" and path.exists():
            return  # another process has just written the same file, and reads it
        reason = error.strerror if isinstance(error, OSError) else error
        complain(f"compiled kernels cannot be saved in {path.parent} ({reason}): each process compiles them.")


def _path(key: str, complain: Callable[[str], None]) -> Path | None:
    folder = cache_folder("kernels", complain)
    return None if folder is None else Path(folder, f"{key}.kernel")


def _content(path: Path) -> bytes:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb") as file:
        if not is_private_file(os.fstat(descriptor)):
            raise _DamagedError("it is not a file that only you can write to")
        return file.read()


def _parsed(content: bytes, key: str) -> Code:
    begin = len(_MAGIC) + _CHECKSUM
    rest = content[begin:]
    if not content.startswith(_MAGIC) or content[len(_MAGIC) : begin] != hashlib.sha256(rest).digest():
        raise _DamagedError("its checksum is wrong")
    end = _LENGTH + int.from_bytes(rest[:_LENGTH], "little")
    header: dict[str, Any] = json.loads(rest[_LENGTH:end])
    if header["key"] != key:
        raise _DamagedError("it holds another kernel")
    split = end + header["objects"]
    return Code(header["symbol"], rest[end:split], rest[split:])
