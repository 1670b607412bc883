"""LLVM's functions, from the shared library of llvmlite.

Note [llvmlite without its modules]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Importing ``llvmlite.binding`` takes 24 ms, of which the library takes 5: more than a small kernel. Compiling needs 30
of its 500 functions, which are declared here as llvmlite itself declares them. The declarations hold for the versions
in ``_KNOWN``. For any other one, and on other systems than Linux, ``llvmlite.binding`` is imported, and its own
declarations reject a call that does not fit. Guarded by ``tests/backends/test_llvm_library.py``.

LLVM's data belong to a context, and different threads may use different contexts at once. Kernels have one of their
own, so that a program may use Numba at the same time.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any, Final

from ..._util.lazy_import import file_of_package

__all__ = ["Library", "library"]

_KNOWN: Final = range(45, 51)  # llvmlite 0.45 to 0.50
_P, _S, _I, _B = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_bool
_OUT: Final = ctypes.POINTER(ctypes.c_char_p)
_DECLARED: Final[dict[str, tuple[Any, ...]]] = {  # the type of the result, and of the parameters
    "ContextCreate": (_P,), "InitializeNativeTarget": (_I,), "InitializeNativeAsmPrinter": (_I,),
    "GetVersionInfo": (ctypes.c_uint,), "GetHostCPUName": (None, _OUT), "GetHostCPUFeatures": (_I, _OUT),
    "GetDefaultTargetTriple": (None, _OUT), "GetTargetFromTriple": (_P, _S, _OUT), "DisposeString": (None, _S),
    "CreateTargetMachine": (_P, _P, _S, _S, _S, _I, _S, _S, _I, _I, _S), "CreateTargetMachineData": (_P, _P),
    "CopyStringRepOfTargetData": (None, _P, _OUT), "ParseAssembly": (_P, _P, _S, _OUT), "SetTarget": (None, _P, _S),
    "SetDataLayout": (None, _P, _S), "DisposeModule": (None, _P), "TargetMachineEmitToMemory": (_P, _P, _P, _I, _OUT),
    "GetBufferStart": (_P, _P), "GetBufferSize": (ctypes.c_size_t, _P), "DisposeMemoryBuffer": (None, _P),
    "CreatePipelineTuningOptions": (_P,), "PTOSetLoopVectorization": (None, _P, _B),
    "PTOSetSLPVectorization": (None, _P, _B), "PTOSetLoopUnrolling": (None, _P, _B),
    "CreatePassBuilder": (_P, _P, _P), "CreateNewModulePassManager": (_P,),
    "buildPerModuleDefaultPipeline": (_P, _P, _I, _I), "module_AddSROAPass": (None, _P),
    "module_AddSimplifyCFGPass": (None, _P), "module_AddInstCombinePass": (None, _P),
    "module_AddLoopRotatePass": (None, _P), "RunNewModulePassManager": (None, _P, _P, _P),
    "DisposeNewModulePassManger": (None, _P), "DisposePassBuilder": (None, _P),
    "DisposePipelineTuningOptions": (None, _P),
}  # fmt: skip


class Library:
    """LLVM's functions as attributes: those of a library that is loaded here, or those that llvmlite declares."""

    def __init__(self, path: str | None) -> None:
        if path is None:
            import llvmlite.binding as llvm

            for name in _DECLARED:
                setattr(self, name, getattr(llvm.ffi.lib, f"LLVMPY_{name}"))
            return
        loaded = ctypes.CDLL(path)
        for name, (result, *parameters) in _DECLARED.items():
            function = loaded[f"LLVMPY_{name}"]
            function.restype, function.argtypes = result, parameters
            setattr(self, name, function)

    def text(self, name: str, *arguments: Any) -> str:
        """Return the string that a function stores at the address that is its last argument."""
        found = ctypes.c_char_p()
        getattr(self, name)(*arguments, ctypes.byref(found))
        return self.taken(found)

    def taken(self, found: ctypes.c_char_p) -> str:
        """Return a string of LLVM's, and free it."""
        value = found.value
        if value is None:
            return ""
        self.DisposeString(found)
        return value.decode(errors="replace")

    def __getattr__(self, name: str) -> Any:  # for type checkers: the functions are found before
        raise AttributeError(f"LLVM's function {name} is not declared")


@cache
def library() -> Library:
    """Load LLVM: Note [llvmlite without its modules]."""
    path = _known_library()
    if path is not None:
        try:
            return Library(path)
        except (OSError, AttributeError):  # llvmlite says what is wrong
            pass
    return Library(None)


def _known_library() -> str | None:
    """Return the path of the library of llvmlite, if it is one whose functions are known."""
    place = file_of_package("llvmlite", "_version.py")
    if sys.platform != "linux" or place is None:
        return None
    with open(place, encoding="utf-8") as file:
        _, _, rest = file.read().partition("version_version = '")
    numbers = rest.partition("'")[0].split(".")
    if len(numbers) < 2 or numbers[0] != "0" or not numbers[1].isdigit() or int(numbers[1]) not in _KNOWN:
        return None
    return os.path.join(os.path.dirname(place), "binding", "libllvmlite.so")
