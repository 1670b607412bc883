"""From the source of a kernel to PTX and to machine code, kept on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ..device.driver import DriverMissingError, packages_missing
from . import kernel_files
from .kernel_source import KernelSource, Source
from .linking import Cubin, link
from .numba_compiler import python_to_ptx
from .nvrtc_compiler import cuda_to_ptx

__all__ = ["counts", "cubin_of", "ptx_of", "with_compilers"]

_REMEDY = "install tenkey's extra with `pip install 'tenkey[cuda]'`, or set TENKEY_PREBUILT to a folder of kernels"
counts: Final = {"translated": 0, "linked": 0, "loaded": 0, "prebuilt": 0}
"""How many kernels were translated to PTX and linked by this process, and loaded from the two kinds of folders."""


def ptx_of(source: Source, cc: tuple[int, int] = (9, 0)) -> str:
    """Return the PTX of a kernel for a compute capability; neither a driver nor a GPU is needed."""
    found = _loaded("ptx", source, cc)
    if found is not None:
        return found.decode()
    ptx = _translated(source, cc)
    kernel_files.store("ptx", source, cc, ptx.encode())
    return ptx


def cubin_of(source: Source, cc: tuple[int, int] = (9, 0)) -> Cubin:
    """Return the machine code of a kernel for a compute capability; neither a driver nor a GPU is needed."""
    found = _loaded("cubin", source, cc)
    if found is not None:
        return Cubin.unpacked(found)
    ptx = ptx_of(source, cc)
    with with_compilers(source.name):
        cubin = link(ptx, source.name, cc)
    counts["linked"] += 1
    kernel_files.store("cubin", source, cc, cubin.packed())
    return cubin


def _loaded(kind: str, source: Source, cc: tuple[int, int]) -> bytes | None:
    found = kernel_files.load_prebuilt(kind, source, cc)
    if found is not None:
        counts["prebuilt"] += 1
        return found
    found = kernel_files.load(kind, source, cc)
    counts["loaded"] += found is not None
    return found


def _translated(source: Source, cc: tuple[int, int]) -> str:
    counts["translated"] += 1
    with with_compilers(source.name):
        return python_to_ptx(source, cc) if isinstance(source, KernelSource) else cuda_to_ptx(source, cc)


@contextmanager
def with_compilers(name: str) -> Iterator[None]:
    """Turn the absence of a compiler, or of a library that it loads, into an error with the remedy."""
    problem = packages_missing()
    if problem is not None:
        raise DriverMissingError(
            f"{problem} It is needed to compile {name}, unless TENKEY_PREBUILT names a folder with it."
        )
    try:
        yield
    except (ImportError, RuntimeError) as error:
        if isinstance(error, ImportError) or type(error).__name__ == "DynamicLibNotFoundError":
            reason = str(error).partition("\n")[0]
            text = f"[{name}] the kernel cannot be compiled, because a library is missing ({reason}): {_REMEDY}."
            raise DriverMissingError(text) from error
        raise
