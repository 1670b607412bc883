"""LLVM's optimiser and code generator, through llvmlite: the text of a module becomes an object file.

Only this module imports llvmlite, which takes 25 ms; kernels from the cache are loaded without it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import llvmlite.binding as llvm

from . import language

_COLD: Final = language.COLD.encode()

__all__ = ["assembly", "has_feature", "object_code", "version"]


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def _machine() -> Any:
    """Return LLVM's description of this processor."""
    _initialize()
    features = llvm.get_host_cpu_features().flatten()
    # 512-bit registers are used throughout: every function asks for them, and LLVM splits them elsewhere
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2, reloc="pic", codemodel="small", jit=True
    )


@cache
def has_feature(name: str) -> bool:
    """Tell whether the processor has a feature, by LLVM's name for it, such as ``avx512f``."""
    return bool(llvm.get_host_cpu_features().get(name, False))


def version() -> str:
    """Return LLVM's version."""
    return ".".join(map(str, llvm.llvm_version_info))


@cache
def _passes() -> tuple[Any, Any]:
    """Return what is done for cold functions, and for those of brief kernels."""
    plain, cleaned = llvm.create_new_function_pass_manager(), llvm.create_new_function_pass_manager()
    for passes in (plain, cleaned):
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
    cleaned.add_instruction_combine_pass()
    cleaned.add_loop_rotate_pass()
    cleaned.add_instruction_combine_pass()
    return plain, cleaned


def _optimized(text: str, vectorize: bool, brief: bool) -> Any:
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3 if vectorize else 2)
    options.loop_vectorization = vectorize
    options.loop_unrolling = vectorize
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    functions = [function for function in module.functions if not function.is_declaration]
    if not brief:
        builder.getModulePassManager().run(module, builder)
        functions = [function for function in module.functions if not function.is_declaration]
    plain, cleaned = _passes()
    for function in functions:
        if any(_COLD in attribute for attribute in function.attributes):
            plain.run(function, builder)
            function.add_function_attribute("noinline")
            function.add_function_attribute("optnone")  # half the time of the code generator, and code of the same size
        elif brief:
            cleaned.run(function, builder)
    return module


def object_code(text: str, vectorize: bool = False, brief: bool = False) -> bytes:
    """Return the object file of a module in LLVM's language, for this processor."""
    return bytes(_machine().emit_object(_optimized(text, vectorize, brief)))


def assembly(text: str, vectorize: bool = False, brief: bool = False) -> str:
    """Return the processor's assembly code of a module, for readers."""
    return str(_machine().emit_assembly(_optimized(text, vectorize, brief)))
