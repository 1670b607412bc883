"""Images of machine code: blocks that run wherever they are loaded, without a linker.

Note [Images of machine code]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Loading LLVM takes longer than a call may, so a kernel from the cache must not need it. ``build`` therefore links a
kernel when it is compiled: it lays the sections of the object files out in one block and resolves the references
between them, which are relative. What is not in the block (functions of the C library, such as ``fmod``) is reached
through a table of addresses at its beginning. ``load`` copies the block into fresh memory, fills the table, and makes
the memory executable and read-only. This is possible because compiled code is pure: it has no global variables, and
everything that it changes was allocated by Python.

``build`` does not guess: where it meets something that it does not know, it keeps the object files as they are, and
``load`` leaves linking to LLVM. This is always so on processors other than x86-64 and on systems other than Linux,
which use other formats. Where the system forbids memory that was written to become executable, no kernel can run, and
operators run on NumPy.

An image stays in memory until the process ends, even while the interpreter shuts down: any object may have kept an
address, and threads of the pool may run in it. It contains no address, so it can be loaded on any machine that has the
same processor. Guarded by ``tests/backends/test_images.py``.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

__all__ = ["ImageError", "build", "is_linked", "load"]

_MAGIC: Final = b"tenkey image 1\n"
_HEADER: Final = struct.Struct("<BIIII")  # whether the code is linked; sizes of exports, offsets, slots and code
# offsets: of the exported functions, or the sizes of the object files that are not linked


class ImageError(Exception):
    """An image cannot be loaded."""


def build(codes: Sequence[bytes], exports: Sequence[str]) -> bytes:
    """Return an image of object files, which LLVM emitted as position-independent code, with functions to export."""
    from . import object_files  # needed by few processes

    try:
        linked, offsets, slots = object_files.link(codes, exports)
    except object_files.LinkError:
        return _packed(False, exports, [len(code) for code in codes], [], b"".join(codes))
    return _packed(True, exports, offsets, slots, linked)


def load(image: bytes, given: Mapping[str, int] = MappingProxyType({})) -> dict[str, int]:
    """Make the code of an image executable; return the addresses of its exported functions by name.

    ``given`` has the addresses of the names that begin with ``given.``, which only linked images may refer to.

    Raises:
        ImageError: the bytes are not an image, or it needs something that this system does not have.
    """
    linked, exports, offsets, slots, code = _unpacked(image)
    if not linked:
        return _link_by_llvm(code, offsets, exports)
    base = _executable(code, slots, given)
    return {name: base + offset for name, offset in zip(exports, offsets)}


def is_linked(image: bytes) -> bool:
    """Return whether an image can be loaded without LLVM."""
    return _unpacked(image)[0]


def _packed(linked: bool, exports: Sequence[str], offsets: Sequence[int], slots: Sequence[str], code: bytes) -> bytes:
    names, needed = "\0".join(exports).encode(), "\0".join(slots).encode()
    places = struct.pack(f"<{len(offsets)}I", *offsets)
    header = _HEADER.pack(linked, len(names), len(places), len(needed), len(code))
    return b"".join([_MAGIC, header, names, places, needed, code])


def _unpacked(image: bytes) -> tuple[bool, list[str], tuple[int, ...], list[str], bytes]:
    """Return the parts of an image; the code cache has verified that they are what was written."""
    start = len(_MAGIC) + _HEADER.size
    if not image.startswith(_MAGIC) or len(image) < start:
        raise ImageError("these bytes are not an image of machine code")
    linked, *sizes = _HEADER.unpack_from(image, len(_MAGIC))
    if start + sum(sizes) != len(image):
        raise ImageError("the image of machine code is truncated")
    parts = []
    for size in sizes:
        parts.append(image[start : start + size])
        start += size
    names, places, needed, code = parts
    offsets = struct.unpack(f"<{len(places) // 4}I", places)
    return bool(linked), names.decode().split("\0"), offsets, needed.decode().split("\0") if needed else [], code


@functools.cache
def _library() -> Any:
    """Return what the process has loaded, with the C library; on Linux, the declarations of what ``load`` calls."""
    library: Any = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype, library.mmap.argtypes = ctypes.c_void_p, [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
    ]  # fmt: skip
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


@functools.cache
def _address_of(name: str) -> int:
    """Return the address of a function of the C library."""
    for find in (_library, functools.partial(ctypes.CDLL, "libm.so.6")):  # the second: where Python does not load it
        try:
            found = ctypes.cast(getattr(find(), name), ctypes.c_void_p).value
        except (AttributeError, OSError):
            continue
        if found:
            return found
    raise ImageError(f"the C library does not have the function {name}")


def _executable(code: bytes, slots: Sequence[str], given: Mapping[str, int]) -> int:
    """Copy code to memory of its own, fill its table, and return its address; the memory is never writable again.

    The memory is allocated by the system's function, because an ``mmap`` object would free it at exit.
    """
    size, library = len(code), _library()
    base = library.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if base == ctypes.c_void_p(-1).value:
        raise ImageError(f"no memory for machine code ({os.strerror(ctypes.get_errno())})")
    try:
        addresses = [
            base + int(name[1:], 16) if name.startswith("+") else given.get(name) or _address_of(name) for name in slots
        ]
        table = struct.pack(f"<{len(slots)}Q", *addresses)
        ctypes.memmove(base, table + code[len(table) :], size)
        if library.mprotect(base, size, mmap.PROT_READ | mmap.PROT_EXEC):
            raise ImageError(f"memory that was written cannot become executable ({os.strerror(ctypes.get_errno())})")
    except ImageError:
        library.munmap(base, size)
        raise
    return base  # type: ignore[no-any-return]


# ---- by LLVM

_numbers: Final = itertools.count()  # of libraries, whose names must differ


@functools.cache
def _linker() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler()


def _link_by_llvm(code: bytes, sizes: Sequence[int], exports: Sequence[str]) -> dict[str, int]:
    """Link object files with LLVM's own linker."""
    try:
        import llvmlite.binding as llvm

        builder = llvm.JITLibraryBuilder().add_current_process()
        for size, end in zip(sizes, itertools.accumulate(sizes)):
            builder.add_object_img(code[end - size : end])
        for name in exports:
            builder.export_symbol(name)
        library = builder.link(_linker(), f"tenkey{next(_numbers)}")
    except (ImportError, OSError, RuntimeError) as error:
        raise ImageError(f"LLVM cannot link the machine code ({type(error).__name__}: {error})") from error
    for needed in (library, _linker()):  # which would free the code, at exit, too
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(needed))
    return {name: library[name] for name in exports}
