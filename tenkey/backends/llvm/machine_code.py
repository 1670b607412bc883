"""LLVM's optimiser and code generator: the text of a module becomes an object file.

LLVM is loaded by this module only, and only if something must be compiled; kernels from the cache do without it.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final

from .llvm_library import library

__all__ = ["assembly", "has_feature", "host", "object_code", "version"]

_COLD, _USUAL = 0, 2  # how much the code generator does
_BRIEF: Final = ("SROA", "SimplifyCFG", "InstCombine", "LoopRotate", "InstCombine")
_QUICK: Final = _BRIEF[:2]


@cache
def host() -> tuple[str, str]:
    """Return LLVM's name of this processor, and its features: ``+sse2,-avx512f,...``."""
    llvm = library()
    llvm.InitializeNativeTarget()
    llvm.InitializeNativeAsmPrinter()
    return llvm.text("GetHostCPUName"), llvm.text("GetHostCPUFeatures")


@cache
def _context() -> Any:
    return library().ContextCreate()


@cache
def _machine(level: int) -> tuple[Any, bytes, bytes]:
    """Return LLVM's description of this processor, its name for the system, and the layout of data."""
    llvm = library()
    cpu, features = host()
    triple = llvm.text("GetDefaultTargetTriple").encode()
    error = ctypes.c_char_p()
    target = llvm.GetTargetFromTriple(triple, ctypes.byref(error))
    if not target:
        raise RuntimeError(llvm.taken(error))
    # 512-bit registers are used throughout: every function asks for them, and LLVM splits them elsewhere
    machine = llvm.CreateTargetMachine(
        target, triple, cpu.encode(), features.encode(), level, b"pic", b"small", 0, 1, b""
    )
    if not machine:
        raise RuntimeError("LLVM cannot create a target machine")
    return machine, triple, llvm.text("CopyStringRepOfTargetData", llvm.CreateTargetMachineData(machine)).encode()


@cache
def has_feature(name: str) -> bool:
    """Tell whether the processor has a feature, by LLVM's name for it, such as ``avx512f``."""
    return f"+{name}" in host()[1].split(",")


def version() -> str:
    """Return LLVM's version."""
    number = library().GetVersionInfo()
    return ".".join(str(number >> shift & 255) for shift in (16, 8, 0))


def _optimize(module: Any, machine: Any, vectorize: bool, passes: tuple[str, ...]) -> None:
    """Run some passes, or, if none are named, LLVM's usual ones."""
    llvm = library()
    options = llvm.CreatePipelineTuningOptions()
    llvm.PTOSetLoopVectorization(options, vectorize)
    llvm.PTOSetLoopUnrolling(options, vectorize)
    llvm.PTOSetSLPVectorization(options, False)
    builder = llvm.CreatePassBuilder(machine, options)
    if passes:
        manager = llvm.CreateNewModulePassManager()
        for name in passes:
            getattr(llvm, f"module_Add{name}Pass")(manager)
    else:
        # before llvmlite 0.48, the last argument is how much the size counts; later versions do not look at it
        manager = llvm.buildPerModuleDefaultPipeline(builder, 3 if vectorize else 2, 0)
    llvm.RunNewModulePassManager(manager, module, builder)
    llvm.DisposeNewModulePassManger(manager)
    llvm.DisposePassBuilder(builder)
    llvm.DisposePipelineTuningOptions(options)


def _emitted(text: str, level: int, vectorize: bool, passes: tuple[str, ...], binary: bool) -> bytes:
    llvm = library()
    machine, triple, layout = _machine(level)
    error = ctypes.c_char_p()
    module = llvm.ParseAssembly(_context(), text.encode(), ctypes.byref(error))
    if error.value is not None:
        raise RuntimeError(f"LLVM does not understand the code: {llvm.taken(error)}")
    try:
        llvm.SetTarget(module, triple)
        llvm.SetDataLayout(module, layout)
        _optimize(module, machine, vectorize, passes)
        buffer = llvm.TargetMachineEmitToMemory(machine, module, int(binary), ctypes.byref(error))
        if not buffer:
            raise RuntimeError(llvm.taken(error))
    finally:
        llvm.DisposeModule(module)
    try:
        return ctypes.string_at(llvm.GetBufferStart(buffer), llvm.GetBufferSize(buffer))
    finally:
        llvm.DisposeMemoryBuffer(buffer)


def object_code(text: str, vectorize: bool = False, brief: bool = False, *, cold: bool = False) -> bytes:
    """Return the object file of a module in LLVM's language, for this processor.

    ``cold`` code is emitted in a fifth of the time, with instructions that are not the best.
    """
    return _code(text, vectorize, brief, cold, True)


def assembly(text: str, vectorize: bool = False, brief: bool = False, *, cold: bool = False) -> str:
    """Return the processor's assembly code of a module, for readers."""
    return _code(text, vectorize, brief, cold, False).decode()


def _code(text: str, vectorize: bool, brief: bool, cold: bool, binary: bool) -> bytes:
    passes = _QUICK if cold else _BRIEF if brief else ()
    return _emitted(text, _COLD if cold else _USUAL, vectorize, passes, binary)
