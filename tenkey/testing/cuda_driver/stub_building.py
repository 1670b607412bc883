"""Compile the stub driver with the system's C compiler, and load it where CUDA's libraries look for the driver.

Note [How the stub becomes the driver]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``cuda.bindings`` asks the system's loader for ``libcuda.so.1``. The loader answers with a library of that name (its
*soname*) that the process has loaded already, from wherever it came. So it suffices to load the stub, which bears the
name, before the first function of the driver is called; that ``cuda.bindings`` was imported, or even failed to find a
driver, does no harm. The file itself lies in the cache of compiled kernels, is verified like them, and is loaded from
memory. It cannot be unloaded, nor can the driver of NVIDIA be replaced once it is loaded.
Guarded by ``tests/testing/cuda_driver/test_stub_building.py``.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from ...backends.llvm import code_cache

__all__ = ["CompilerMissingError", "compiler", "load_stub", "source_files"]

_SONAME: Final = "libcuda.so.1"
_OPTIONS: Final = ("-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-pthread", f"-Wl,-soname,{_SONAME}")
_LIBRARIES: Final = ("-ldl",)
_loaded: Final[list[ctypes.CDLL]] = []


class CompilerMissingError(RuntimeError):
    """The stub driver cannot be compiled."""


def source_files() -> list[Path]:
    """Return the C files of the stub driver and their header."""
    return sorted((Path(__file__).parent / "source").glob("stub*.[ch]"))


def compiler() -> str | None:
    """Return the path of the C compiler: that of the environment variable ``CC``, else cc, gcc or clang."""
    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        found = shutil.which(name) if name else None
        if found:
            return found
    return None


def load_stub() -> ctypes.CDLL:
    """Return the stub driver, loaded into this process; it is compiled if the cache lacks it.

    Raises CompilerMissingError where it cannot be compiled, and RuntimeError where another driver is loaded.
    """
    if not _loaded:
        if not sys.platform.startswith("linux"):
            raise CompilerMissingError("[cuda_emulator] needs Linux: the driver is replaced by way of its loader.")
        _refuse_real_driver()
        _loaded.append(_load(_image()))
    return _loaded[0]


def _refuse_real_driver() -> None:
    try:
        found = ctypes.CDLL(_SONAME, mode=os.RTLD_NOLOAD)
    except OSError:
        return
    if not hasattr(found, "stub_connect"):
        raise RuntimeError(
            "[cuda_emulator] the CUDA driver of this machine is loaded in this process, and it cannot be replaced: "
            "start the emulator before anything uses a GPU, or in another process (TENKEY_CUDA_EMULATOR=1)."
        )


def _load(image: bytes) -> ctypes.CDLL:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create(_SONAME)
        try:
            with os.fdopen(descriptor, "wb", closefd=False) as file:
                file.write(image)
            return ctypes.CDLL(f"/proc/self/fd/{descriptor}", mode=os.RTLD_NOW | os.RTLD_GLOBAL)
        finally:
            os.close(descriptor)
    with tempfile.NamedTemporaryFile(suffix=_SONAME) as named:
        named.write(image)
        named.flush()
        return ctypes.CDLL(named.name, mode=os.RTLD_NOW | os.RTLD_GLOBAL)


def _image() -> bytes:
    key = "stub CUDA driver " + " ".join((*_OPTIONS, *_LIBRARIES)) + "".join([p.read_text() for p in source_files()])
    environment = f"{os.uname().machine}".encode()
    found = code_cache.load(key, environment)
    if found is None:
        found = _compile()
        code_cache.store(key, found, environment)
    return found


def _compile() -> bytes:
    program = compiler()
    if program is None:
        raise CompilerMissingError(
            "[cuda_emulator] no C compiler was found, which the stub driver is compiled with: install one "
            "(`apt-get install gcc`), or name it by the environment variable CC."
        )
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "driver.so"
        sources = [str(path) for path in source_files() if path.suffix == ".c"]
        done = subprocess.run(
            [program, *_OPTIONS, "-o", str(target), *sources, *_LIBRARIES], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CompilerMissingError(f"[cuda_emulator] {program} does not compile the stub driver:\n{done.stderr}")
        return target.read_bytes()
