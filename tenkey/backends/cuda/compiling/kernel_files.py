"""PTX and machine code of kernels on disk: the user's cache, and folders that were built on another machine.

Note [What compiled CUDA kernels depend on]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The files are those of ``code_cache``. The name of one is a hash of the kernel's text, its parameters and launch bounds,
the architecture, the sources in ``SOURCES``, and, in the user's cache, of the versions of the compilers, which are read
from the names of the installed distributions: nothing is imported to find a kernel. The processor, the system and
places on it have no part in it. PTX and machine code are two files, because only errors, tests and the emulator need
the former.

``TENKEY_PREBUILT`` names a folder that is looked at first. The compilers have no part in its names, because where such
a folder is used they need not be installed, or not in the same versions. Machine code for sm_80 also runs on sm_86: a
kernel that the folder lacks for a device is looked for with the lower minor numbers. Guarded by
``tests/backends/cuda/compiling/test_kernel_files.py``.
"""

from __future__ import annotations

import functools
import os
import sys
from contextlib import suppress
from typing import Final

from ...llvm import code_cache
from ...llvm.complaints import complain
from .kernel_source import Source

__all__ = ["SOURCES", "compiler_versions", "load", "load_prebuilt", "prebuilt_folder", "store", "store_prebuilt"]

SOURCES: Final = ("cuda/compiling/numba_compiler", "cuda/compiling/nvrtc_compiler", "cuda/compiling/linking",
                  "cuda/kernels/intrinsics", "cuda/kernels/atomics", "cuda/kernels/tuples")  # fmt: skip
"""What the compiled code of a text is made from: modules in ``tenkey/backends``."""
_DISTRIBUTIONS: Final = ("cuda_bindings", "llvmlite", "numba", "numba_cuda", "nvidia_cuda_nvrtc", "nvidia_nvjitlink",
                         "nvidia_nvvm")  # fmt: skip
_INFO: Final = ".dist-info"


def load(kind: str, source: Source, cc: tuple[int, int]) -> bytes | None:
    """Return the file ``"ptx"`` or ``"cubin"`` of a kernel from the user's cache, or None if it is not there."""
    return code_cache.load(_key(kind, source, cc), _own())


def store(kind: str, source: Source, cc: tuple[int, int], content: bytes) -> None:
    """Write a file of a kernel into the user's cache."""
    code_cache.store(_key(kind, source, cc), content, _own())


def prebuilt_folder() -> str | None:
    """Return the folder of kernels that were built elsewhere, ``TENKEY_PREBUILT``, or None."""
    folder = os.environ.get("TENKEY_PREBUILT") or None
    if folder is not None and not os.path.isdir(folder):
        complain(f"TENKEY_PREBUILT={folder!r} is not a folder: kernels are compiled. Unset it, or build the folder.")
        return None
    return folder


def load_prebuilt(kind: str, source: Source, cc: tuple[int, int]) -> bytes | None:
    """Return the file of a kernel for a device of this or a lower minor number, or None if no folder has it."""
    if "TENKEY_PREBUILT" not in os.environ or (folder := prebuilt_folder()) is None:
        return None
    for minor in range(cc[1], -1, -1):
        found = code_cache.load(_key(kind, source, (cc[0], minor)), _portable(), folder)
        if found is not None:
            return found
    return None


def store_prebuilt(kind: str, source: Source, cc: tuple[int, int], content: bytes, folder: str) -> None:
    """Write a file of a kernel into a folder for other machines."""
    code_cache.store(_key(kind, source, cc), content, _portable(), folder)


def _key(kind: str, source: Source, cc: tuple[int, int]) -> str:
    return f"cuda {kind} {cc[0]}.{cc[1]} {source.__class__.__name__} {tuple(source)!r}"


@functools.cache
def _portable() -> bytes:
    return b"cuda 1\0" + code_cache.source_hash(SOURCES)


@functools.cache
def _own() -> bytes:
    return b"\0".join([_portable(), *[f"{name} {version}".encode() for name, version in compiler_versions().items()]])


@functools.cache
def compiler_versions() -> dict[str, str]:
    """Return the versions of the distributions that compile kernels, of those that are installed.

    They are the names of folders beside the packages; ``importlib.metadata`` would take longer than a kernel to load. A
    toolkit of the system, which ``CUDA_HOME`` or ``CUDA_PATH`` may name, counts by its place.
    """
    found: dict[str, str] = {}
    for place in sys.path:
        with suppress(OSError):
            for entry in os.listdir(place or "."):
                if entry.endswith(_INFO):
                    name, _, version = entry.removesuffix(_INFO).partition("-")
                    if name.lower() in _DISTRIBUTIONS:
                        found.setdefault(name.lower(), version)
    toolkits = {name: os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ}
    return dict(sorted((found | toolkits).items()))
