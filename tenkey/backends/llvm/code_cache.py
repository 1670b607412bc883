"""Files of compiled kernels.

The kernels of the CPU and of other devices lie in one folder. Those of a device say themselves what they depend on, in
the place of :func:`environment`: machine code for a GPU has nothing to do with the processor.

Note [Kernel files are verified]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The name of a file is a hash of everything that its content depends on: the text that describes the kernel, the
processor, the version of LLVM, and the sources of the compiler and of the kernels. Neither places nor dates are part of
it, so the folder can be copied to another place or machine; what does not fit there is not found.

A file begins with a line that names the format, and the checksum of all that follows: the hash that is its name, and an
image (``images.py``). The file is read once, from one descriptor, into memory; its owner and permissions, the checksum
and the name are verified before anything in it is interpreted. It contains neither pickles nor Python code. So a
damaged or renamed file is noticed, and the kernel compiled again. The checksum does not protect against users who may
write to the folder: Note [Cache folders are private].

A file is written beside its place and moved there, so processes see all of it or nothing, and those that compile the
same kernel at once replace a file by an equal one. A file that cannot be written or read is a reason for a warning and
not for an error: Note [A kernel that is not compiled]. A folder that can only be read, as in an image of a container
whose kernels were compiled ahead, is read; what it lacks is stored elsewhere.

Note [The size of the cache]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The folder holds at most ``TENKEY_CACHE_LIMIT`` megabytes, 256 unless it is set; 0 stores nothing. A process that stores
kernels looks at the folder the first time, and again after every 32 kernels or when the limit seems to be reached. It
deletes the files that have not been used for the longest time until a quarter is free. A file's time of modification
says when it was used: loading sets it, unless it is of the same day, because file systems are often mounted so that
they do not record accesses. Guarded by ``tests/backends/test_code_cache.py``.
"""

from __future__ import annotations

import functools
import math
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from ..._util.cache_folder import cache_folder, is_private_file
from ..._util.lazy_import import file_of_package
from .. import processor
from .complaints import complain

try:
    from _blake2 import blake2b  # hashlib loads OpenSSL, which takes as long as the first call of an operator may
except ImportError:
    from hashlib import blake2b

__all__ = ["SOURCES", "environment", "folder", "hash_of", "limit", "listed", "load", "source_hash", "store"]

_MAGIC: Final = b"tenkey kernel 2\n"
_HASH: Final = 32  # bytes of hashes and checksums
_SUFFIX: Final = ".kernel"
_MEGABYTE: Final = 1 << 20
_DEFAULT_LIMIT: Final = 256.0  # megabytes
_KEPT: Final = 0.75  # of the limit, when files are deleted
_LOOK_EVERY: Final = 32  # stored kernels
_DAY: Final = 86400.0
_SETTLED: Final = 5.0  # seconds
SOURCES: Final = ("processor", "llvm", "libm", "cpu/loops", "cpu/pool", "cpu/thresholds")
"""What compiled code is made from: packages and modules in ``tenkey/backends``."""


class _DamagedError(Exception):
    """A file does not hold the kernel that its name promises."""


def load(key: str, made_by: bytes | None = None, place: str | None = None) -> bytes | None:
    """Return the image of the kernel that a text describes, or None if the cache does not have it.

    ``made_by`` is what the image depends on beside the text, otherwise :func:`environment`. With ``place``, only that
    folder is looked at: one of kernels that were built elsewhere.
    """
    name = _name(key, made_by)
    return _load(name) if place is None else _load_from(place, name)


def store(
    key: str, image: bytes, made_by: bytes | None = None, place: str | None = None, *, mode: int = 0o644
) -> None:  # fmt: skip
    """Write the image of the kernel that a text describes, and delete files that are too many.

    Into ``place``, a folder for other machines, it is written whatever its size, with this ``mode``; what fails there
    raises OSError.
    """
    name = _name(key, made_by)
    if place is None:
        _store(name, image)
    else:
        _write(os.path.join(place, name + _SUFFIX), name, image, mode=mode)


def folder() -> str | None:
    """Return the folder of kernels, or None if there is none."""
    return cache_folder("kernels", complain)


def _load(name: str, say: Callable[[str], None] = complain) -> bytes | None:
    """Look for a file in a folder that may be read-only, and then in the one that takes its place."""
    seen = None
    for reading in (True, False):
        place = cache_folder("kernels", say, reading=reading)
        if place is None or place == seen:
            break
        found = _load_from(place, name)
        if found is not None:
            return found
        seen = place
    return None


def _load_from(place: str, name: str) -> bytes | None:
    path = os.path.join(place, name + _SUFFIX)
    try:
        return _content(path, name)
    except FileNotFoundError:
        pass
    except (_DamagedError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        complain(f"the cached kernel {path} cannot be used ({reason}): it is compiled again.")
    return None


def _store(name: str, image: bytes, say: Callable[[str], None] = complain) -> None:
    place = cache_folder("kernels", say)
    if place is None:
        return
    path = os.path.join(place, name + _SUFFIX)
    if not _make_room(place, len(image) + len(_MAGIC) + 2 * _HASH):
        return
    try:
        _write(path, name, image, mode=0o600)
    except (OSError, ValueError) as error:  # ValueError: something else has the name of the file
        if isinstance(error, PermissionError) and os.name == "nt" and os.path.exists(path):
            return  # another process has just written the same file, and reads it
        reason = error.strerror if isinstance(error, OSError) else error
        complain(f"compiled kernels cannot be saved in {place} ({reason}): each process compiles them.")


def _write(path: str, name: str, image: bytes, *, mode: int) -> None:
    from ..._util.atomic_write import replacing  # needed by few processes

    rest = bytes.fromhex(name) + image
    with replacing(path, mode=mode, durable=False) as temporary, open(temporary, "wb") as file:
        file.write(_MAGIC + hash_of(rest) + rest)


def _content(path: str, name: str) -> bytes:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    with open(descriptor, "rb", buffering=0) as file:
        found = os.fstat(descriptor)
        if not is_private_file(found):
            raise _DamagedError("it is not a file that only you can write to")
        content = file.readall()
    image = _verified(content, name)
    if found.st_mtime < time.time() - _DAY:
        with suppress(OSError):  # a folder that is only read
            os.utime(path)
    return image


def _verified(content: bytes, name: str) -> bytes:
    begin = len(_MAGIC) + _HASH
    rest = content[begin:]
    if not content.startswith(_MAGIC) or content[len(_MAGIC) : begin] != hash_of(rest):
        raise _DamagedError("its checksum is wrong")
    if rest[:_HASH].hex() != name:
        raise _DamagedError("it holds another kernel")
    return rest[_HASH:]


# ---- names


def hash_of(content: bytes, length: int = _HASH) -> bytes:
    """Return a hash, as long as those of files unless what lies in one needs fewer bytes."""
    return blake2b(content, digest_size=length).digest()


def _name(key: str, made_by: bytes | None = None) -> str:
    return hash_of((environment() if made_by is None else made_by) + key.encode()).hex()


@functools.cache
def environment() -> bytes:
    """Return what all kernels depend on: the system, the processor, LLVM, and the sources of the compiler."""
    head = f"{sys.platform} {struct.calcsize('P')} {object.__basicsize__} {sys.byteorder}".encode()
    return b"\0".join([_MAGIC, head, processor.description(), _llvm(), _sources()])


def _llvm() -> bytes:
    """Return the version of llvmlite; empty if it is not installed."""
    place = file_of_package("llvmlite", "_version.py")
    return _read(place) if place is not None else b""


def _sources() -> bytes:
    return source_hash(SOURCES)


def source_hash(parts: Sequence[str]) -> bytes:
    """Return a hash of the source files that decide what is compiled: packages and modules in ``tenkey/backends``.

    Reading them takes a third of the time of a first call. A file in the cache therefore says what their hash was when
    they had these places, dates and sizes. It is not written while a date is so new that a change may not show in it.
    """
    root = os.path.dirname(os.path.dirname(__file__))
    files = [found for part in parts for found in _files(f"{root}/{part}", part)]
    states = [os.stat(path) for _, path in files]
    seen = [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in states]
    name = hash_of(repr((files, seen)).encode()).hex()
    known = _load(name, _say_nothing)
    if known is not None:
        return known
    digest = blake2b(digest_size=_HASH)
    for short, path in files:
        content = _read(path)
        digest.update(f"{short}\0{len(content)}\0".encode() + content)
    if all(max(state.st_mtime, state.st_ctime) < time.time() - _SETTLED for state in states):
        _store(name, digest.digest(), _say_nothing)
    return digest.digest()


def _say_nothing(text: str) -> None:
    """Take no notice that another folder is used: a kernel that is stored there is reason enough for a warning."""


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def _files(place: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the Python files in a folder, or the file of a module: a name and the path of each, in a fixed order."""
    if os.path.exists(f"{place}.py"):
        yield f"{name}.py", f"{place}.py"
    with suppress(FileNotFoundError):
        for entry in sorted(os.listdir(place)):
            if entry.endswith(".py") and entry[0] != ".":  # editors keep links of their own there
                yield f"{name}/{entry}", f"{place}/{entry}"
            elif "." not in entry and entry != "__pycache__":
                yield from _files(f"{place}/{entry}", f"{name}/{entry}")


# ---- size


class _State:
    """What this process knows of the size of the folder."""

    seen: float = math.inf  # bytes in it
    stored: int = 0  # kernels since it was looked at


def limit() -> float:
    """Return how many bytes the folder may hold: `TENKEY_CACHE_LIMIT`, in megabytes."""
    text = os.environ.get("TENKEY_CACHE_LIMIT", "")
    if text:
        with suppress(ValueError):
            if (number := float(text)) >= 0:
                return number * _MEGABYTE
        complain(f"TENKEY_CACHE_LIMIT is {text!r}, not a number of megabytes: it is taken to be {_DEFAULT_LIMIT:g}.")
    return _DEFAULT_LIMIT * _MEGABYTE


def _make_room(place: str, needed: int) -> bool:
    """Delete the files that were not used for the longest time, if there are too many; whether there is room."""
    most = limit()
    if needed > most * _KEPT:
        return False
    _State.stored += 1
    if _State.seen + needed > most or _State.stored >= _LOOK_EVERY:
        files = sorted(listed(place))
        total = sum(size for _, size, _ in files)
        for _, size, path in files if total + needed > most else ():
            with suppress(OSError):  # another process deletes it, or, on Windows, reads it
                os.unlink(path)
            total -= size
            if total + needed <= most * _KEPT:
                break
        _State.seen, _State.stored = total, 0
    _State.seen += needed
    return True


def listed(place: str) -> Iterator[tuple[float, int, str]]:
    """Yield the files of kernels in a folder: when each was used last, its size in bytes, and its path."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX):
                with suppress(OSError):  # another process deletes it
                    found = entry.stat(follow_symlinks=False)
                    yield found.st_mtime, found.st_size, entry.path
