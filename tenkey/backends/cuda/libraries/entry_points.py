"""The functions of CUDA's libraries, found at each call, with error codes as exceptions.

Note [Stand-ins for libraries]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The libraries are called through the modules of ``nvmath.bindings``, whose functions take addresses and numbers only.
A module is looked up in ``sys.modules`` at every call, so ``tk.testing.cuda_emulator()`` puts modules with the same
functions there: they check every argument and compute on the memory of the emulated device. The files of this folder do
not know about it. Guarded by ``tests/backends/cuda/libraries/test_standins.py``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Final

from ....dispatch.errors import TenkeyError

__all__ = [
    "DATA_TYPES",
    "LETTERS",
    "Library",
    "LibraryError",
    "LibraryMissingError",
    "cublas",
    "cublaslt",
    "cufft",
    "cusolver",
]

# the numbers of dtypes in cudaDataType_t, library_types.h
DATA_TYPES: Final = {
    "float32": 0, "float64": 1, "float16": 2, "complex64": 4, "complex128": 5, "bfloat16": 14, "int8": 3, "int32": 10,
}  # fmt: skip
# of dtypes, in the names of BLAS and LAPACK
LETTERS: Final = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}


class LibraryError(TenkeyError, RuntimeError):
    """A function of one of CUDA's libraries failed, or the library is missing."""


class LibraryMissingError(LibraryError):
    """A library, or nvmath-python, is not installed."""


class Library:
    """One library: called with an operator, the name of a function, and its arguments."""

    __slots__ = ("_module", "_package", "name")

    def __init__(self, name: str, module: str, package: str) -> None:
        self.name = name
        self._module = f"nvmath.bindings.{module}"
        self._package = package

    @property
    def functions(self) -> Any:
        """The module with the library's functions; LibraryError if ``nvmath-python`` is missing."""
        found = sys.modules.get(self._module)
        if found is not None:
            return found
        try:
            return import_module(self._module)
        except ImportError as error:
            raise LibraryMissingError(
                f"[cuda] {self.name} is called through nvmath-python, which cannot be imported ({error}): "
                "pip install 'tenkey[cuda]'."
            ) from error

    def __call__(self, operator: str, function: str, *args: Any) -> Any:
        """Call a function; an error of the library becomes a LibraryError that names operator and function."""
        try:
            return getattr(self.functions, function)(*args)
        except Exception as error:
            kind = type(error).__name__
            if getattr(error, "status", None) is not None:
                raise LibraryError(
                    f"[{operator}] {self.name} failed in {function}: {error}. If memory is exhausted, "
                    "tk.cuda.empty_cache() frees what is kept for reuse; otherwise please report this."
                ) from error
            if kind in ("NotSupportedError", "FunctionNotFoundError"):
                raise LibraryMissingError(
                    f"[{operator}] {self.name} is not installed, or too old to have {function} ({error}): "
                    f"pip install {self._package}."
                ) from error
            raise


cublas: Final = Library("cuBLAS", "cublas", "nvidia-cublas")
cublaslt: Final = Library("cuBLASLt", "cublasLt", "nvidia-cublas")
cufft: Final = Library("cuFFT", "cufft", "nvidia-cufft")
cusolver: Final = Library("cuSOLVER", "cusolverDn", "nvidia-cusolver")
