"""LLVM's optimiser and code generator: the text of a module becomes an object file.

LLVM is loaded by this module only, and only if something must be compiled; kernels from the cache do without it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from ..processor import has_feature, host
from .llvm_library import library

__all__ = ["HALF_CONVERSIONS", "assembly", "needs_half_conversions", "object_code", "version"]

_COLD, _USUAL = 0, 2  # how much the code generator does
_BRIEF: Final = ("SROA", "SimplifyCFG", "InstCombine", "LoopRotate", "InstCombine")
_QUICK: Final = _BRIEF[:2]


@cache
def _context() -> Any:
    return library().ContextCreate()


@cache
def _machine(level: int) -> tuple[Any, bytes, bytes]:
    """Return LLVM's description of the processor, its name for the system, and the layout of data."""
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


def version() -> str:
    """Return LLVM's version."""
    number = library().GetVersionInfo()
    return ".".join(str(number >> shift & 255) for shift in (16, 8, 0))


def _optimize(module: Any, machine: Any, passes: tuple[str, ...]) -> None:
    """Run some passes, or, if none are named, LLVM's usual ones."""
    llvm = library()
    options = llvm.CreatePipelineTuningOptions()
    llvm.PTOSetLoopVectorization(options, False)
    llvm.PTOSetLoopUnrolling(options, False)
    llvm.PTOSetSLPVectorization(options, False)
    builder = llvm.CreatePassBuilder(machine, options)
    if passes:
        manager = llvm.CreateNewModulePassManager()
        for name in passes:
            getattr(llvm, f"module_Add{name}Pass")(manager)
    else:
        # before llvmlite 0.48, the last argument is how much the size counts; later versions do not look at it
        manager = llvm.buildPerModuleDefaultPipeline(builder, 2, 0)
    llvm.RunNewModulePassManager(manager, module, builder)
    llvm.DisposeNewModulePassManger(manager)
    llvm.DisposePassBuilder(builder)
    llvm.DisposePipelineTuningOptions(options)


def _emitted(text: str, brief: bool, cold: bool, binary: bool) -> bytes:
    llvm = library()
    machine, triple, layout = _machine(_COLD if cold else _USUAL)
    error = ctypes.c_char_p()
    module = llvm.ParseAssembly(_context(), text.encode(), ctypes.byref(error))
    if error.value is not None:
        raise RuntimeError(f"LLVM does not understand the code: {llvm.taken(error)}")
    try:
        llvm.SetTarget(module, triple)
        llvm.SetDataLayout(module, layout)
        _optimize(module, machine, _QUICK if cold else _BRIEF if brief else ())
        buffer = llvm.TargetMachineEmitToMemory(machine, module, int(binary), ctypes.byref(error))
        if not buffer:
            raise RuntimeError(llvm.taken(error))
    finally:
        llvm.DisposeModule(module)
    try:
        return ctypes.string_at(llvm.GetBufferStart(buffer), llvm.GetBufferSize(buffer))
    finally:
        llvm.DisposeMemoryBuffer(buffer)


def object_code(text: str, brief: bool = False, *, cold: bool = False) -> bytes:
    """Return the object file of a module in LLVM's language, for this processor.

    ``cold`` code is emitted in a fifth of the time, with instructions that are not the best.
    """
    return _emitted(text, brief, cold, True)


def assembly(text: str, brief: bool = False, *, cold: bool = False) -> str:
    """Return the processor's assembly code of a module, for readers."""
    return _emitted(text, brief, cold, False).decode()


HALF_CONVERSIONS: Final = """
define float @__extendhfsf2(half %x) nounwind {
  %short = bitcast half %x to i16
  %bits = zext i16 %short to i32
  %magnitude = and i32 %bits, 32767
  %shifted = shl i32 %magnitude, 13
  %small = bitcast i32 %shifted to float
  %scaled = fmul float %small, 0x46F0000000000000                   ; 2**112, the difference of the exponents' biases
  %finite = bitcast float %scaled to i32
  %infinite = or i32 %shifted, 2139095040                           ; the exponent of infinity and NaN
  %is_finite = icmp ult i32 %magnitude, 31744
  %unsigned = select i1 %is_finite, i32 %finite, i32 %infinite
  %sign_bit = and i32 %bits, 32768
  %sign = shl i32 %sign_bit, 16
  %all = or i32 %unsigned, %sign
  %result = bitcast i32 %all to float
  ret float %result
}

define half @__truncsfhf2(float %x) nounwind {
  %bits = bitcast float %x to i32
  %magnitude = and i32 %bits, 2147483647
  %shifted = lshr i32 %magnitude, 13
  %odd = and i32 %shifted, 1
  %biased = add i32 %magnitude, -939520001                          ; 15 - 127 in the exponent, and less than a half
  %rounded = add i32 %biased, %odd
  %normal = lshr i32 %rounded, 13
  %number = bitcast i32 %magnitude to float
  %sum = fadd float %number, 5.0e-1                                 ; its last place is the least subnormal float16
  %sum_bits = bitcast float %sum to i32
  %subnormal = add i32 %sum_bits, -1056964608
  %is_subnormal = icmp ult i32 %magnitude, 947912704                ; 2**-14
  %finite = select i1 %is_subnormal, i32 %subnormal, i32 %normal
  %is_infinite = icmp uge i32 %magnitude, 1199566848                ; 65520
  %in_range = select i1 %is_infinite, i32 31744, i32 %finite
  %payload = and i32 %shifted, 511
  %quiet = or i32 %payload, 32256
  %is_nan = icmp ugt i32 %magnitude, 2139095040
  %unsigned = select i1 %is_nan, i32 %quiet, i32 %in_range
  %sign_bits = lshr i32 %bits, 16
  %sign = and i32 %sign_bits, 32768
  %all = or i32 %unsigned, %sign
  %short = trunc i32 %all to i16
  %result = bitcast i16 %short to half
  ret half %result
}
"""
"""A module in LLVM's language: conversions between float16 and float32 for x86-64 processors without F16C.

LLVM calls functions of a run-time library for them, which llvmlite does not bring. Their names and results are those
of that library: rounded to nearest, ties to even. Guarded by ``tests/backends/test_processors.py``.
"""


def needs_half_conversions(parts: Sequence[str]) -> bool:
    """Return whether the object code of some modules will call these functions."""
    return any("half" in text for text in parts) and has_feature("sse3") and not has_feature("f16c")
