"""From Python text to PTX by numba-cuda, without a driver or a GPU.

Note [One file knows numba-cuda]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Kernels are written in the language that all releases of numba.cuda share, and this file alone calls its compiler, so
that a change of its interface, or another compiler for the language, concerns one file. ``cuda.compile_ptx`` cannot
turn contraction off (``fma=False``), so the steps of that function are taken here. Helper functions of a kernel ask for
the compute capability of the current device; the thread that compiles a kernel is told that of the target instead.

Names in the PTX that numba counts through a process are numbered anew, and paths are left out: equal sources give
equal PTX everywhere. Comments at its end hold the source, so that errors of the executor can quote a line.
Guarded by ``tests/backends/cuda/compiling/test_compilers.py``.
"""

from __future__ import annotations

import linecache
import math
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, SimpleNamespace
from typing import Any, Final

import numpy as np

from .kernel_source import KernelSource
from .pointer_atomics import teach_atomics

__all__ = ["NvvmError", "PythonCompileError", "python_to_ptx"]

_TYPES: Final = (
    "boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip
_lock: Final = threading.RLock()


class PythonCompileError(RuntimeError):
    """A kernel in Python that Numba does not compile."""


class NvvmError(PythonCompileError):
    """A kernel that passes Numba's types and not the compiler behind them."""


def python_to_ptx(source: KernelSource, cc: tuple[int, int]) -> str:
    """Return the PTX of a kernel for a compute capability such as ``(9, 0)``."""
    from numba.cuda import compiler, types
    from numba.cuda.cudadrv import nvvm

    signature = tuple([_type(name, types) for name in source.parameters])
    options = {"opt": 3, "fma": False}
    with _lock, _target(cc):
        teach_atomics()
        try:
            kernel = _functions(source)[source.name]
            result = compiler.compile_cuda(kernel, types.void, signature, lineinfo=True, nvvm_options=options, cc=cc)
        except Exception as error:
            if isinstance(error, ImportError) or type(error).__name__ == "DynamicLibNotFoundError":
                raise  # not the fault of the kernel
            raise _explained(source, error) from error
        library, entry = result.library, result.fndesc.llvm_func_name
        function = library.get_function(entry)
        library._entry_name = entry
        compiler.kernel_fixup(function, False)
        nvvm.set_launch_bounds(function, source.threads)
        ptx = _by_nvvm(library.llvm_strs, options, source.name, cc)
    return _stable(ptx, entry, source)


def _explained(source: KernelSource, error: Exception) -> PythonCompileError:
    """Return an error that names the kernel, its parameters and, where Numba knows it, the line."""
    line = error.lineno if isinstance(error, SyntaxError) else _line(f"<{source.name}.py>", error)
    place = f", at <{source.name}.py>:{line}" if line else ""
    text = "\n".join([one for one in str(error).splitlines() if not one.startswith("Failed in cuda mode pipeline")])
    if isinstance(error, TypeError) and "Signature mismatch" in text:
        text += ": declare the arguments, then the results, then the sizes."
    return PythonCompileError(
        f"[{source.name}] the kernel does not compile for the parameters ({', '.join(source.parameters)}){place}: "
        f"{type(error).__name__}: {text}"
    )


def _line(file: str, error: BaseException) -> int | None:
    """Return the line of a file that Numba worked on when it raised an error; its functions have places as locals."""
    found = None
    trace = error.__traceback__
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            place = getattr(value, "loc", value)
            if getattr(place, "filename", None) == file:
                found = getattr(place, "line", None) or found
        trace = trace.tb_next
    return found


def _by_nvvm(modules: list[str], options: dict[str, Any], name: str, cc: tuple[int, int]) -> str:
    """Return the PTX of modules of LLVM IR.

    Lines are kept and the places of variables are not: nobody reads these, and NVVM refuses some of them with "Symbol
    name with unsupported characters".
    """
    from numba.cuda.cudadrv import nvvm

    modules = [_VARIABLES.sub("", text) for text in modules]
    unit: Any = None

    class Unit(nvvm.CompilationUnit):  # type: ignore[misc]
        def __init__(self, *given: Any) -> None:
            nonlocal unit
            super().__init__(*given)
            unit = self

    original = nvvm.CompilationUnit
    nvvm.CompilationUnit = Unit
    try:
        made: bytes = nvvm.compile_ir(modules, **options, arch=f"compute_{cc[0]}{cc[1]}")
    except Exception as error:
        log = unit.get_log() if unit is not None else ""
        raise NvvmError(f"[{name}] NVVM refuses the kernel for sm_{cc[0]}{cc[1]} ({error}):\n{log}") from error
    finally:
        nvvm.CompilationUnit = original
    return made.decode().strip("\0").strip()


def _type(name: str, types: Any) -> Any:
    element = getattr(types, name.rstrip("*").replace("bool", "boolean"))
    return types.CPointer(element) if name.endswith("*") else element


def _functions(source: KernelSource) -> dict[str, Any]:
    """Execute the text; its functions other than the kernel become device functions."""
    from numba import cuda

    place = f"<{source.name}.py>"
    linecache.cache[place] = (len(source.text), None, source.text.splitlines(keepends=True), place)
    scope = _scope()
    before = set(scope)
    exec(compile(source.text, place, "exec"), scope)
    for name in set(scope) - before - {source.name}:
        if isinstance(scope[name], FunctionType):
            scope[name] = cuda.jit(device=True)(scope[name])
    return scope


def _scope() -> dict[str, Any]:
    """Return what the text of a kernel may use."""
    from numba import cuda
    from numba.cuda import libdevice, types

    from ..kernels import intrinsics

    scope: dict[str, Any] = {"cuda": cuda, "math": math, "np": np, "libdevice": libdevice, "__name__": "tenkey_kernel"}
    scope |= {name: getattr(types, name) for name in _TYPES}
    return scope | {name: getattr(intrinsics, name) for name in intrinsics.__all__}


@contextmanager
def _target(cc: tuple[int, int]) -> Iterator[None]:
    """Tell this thread's compilation of device functions which device it is for."""
    from numba.cuda import dispatcher

    device, thread, original = (
        SimpleNamespace(compute_capability=cc),
        threading.get_ident(),
        dispatcher.get_current_device,
    )
    dispatcher.get_current_device = lambda: device if threading.get_ident() == thread else original()
    try:
        yield
    finally:
        dispatcher.get_current_device = original


_VARIABLES: Final = re.compile(r'^\s*call void @"?llvm\.dbg\..*\n', re.MULTILINE)
_MANGLED: Final = re.compile(r"_ZN\w+")
_SHARED: Final = re.compile(r"\b_cudapy_([sl])mem_\w+")
_ENVIRONMENT: Final = re.compile(r"^\.common \.global \.align 8 \.u64 _ZN08NumbaEnv\w+;\n", re.MULTILINE)
_FILE: Final = re.compile(r'^(\s*\.file\s+\d+) ".*?([^/"]*)"', re.MULTILINE)


def _stable(ptx: str, entry: str, source: KernelSource) -> str:
    """Return PTX without what differs between processes, and with the source as comments."""
    ptx = _ENVIRONMENT.sub("", ptx)
    names = {entry: source.name}
    ptx = ptx.replace(f"{entry}_param_", f"{source.name}_param_")
    ptx = _MANGLED.sub(lambda found: names.setdefault(found[0], f"{source.name}_{len(names)}"), ptx)
    memory: dict[str, str] = {}
    ptx = _SHARED.sub(lambda found: memory.setdefault(found[0], f"{source.name}_{found[1]}mem_{len(memory)}"), ptx)
    ptx = _FILE.sub(r'\1 "\2"', ptx)
    lines = "".join([f"//> {line}\n" for line in source.text.splitlines()])
    return f"{ptx}\n\n// Source of {source.name}:\n{lines}"
