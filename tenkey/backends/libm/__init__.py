"""Mathematical functions of floats as branch-free code: exponentials, logarithms, angles, powers, gamma functions.

The functions take values of compiled code, numbers or vectors, and write the instructions that compute them, so that a
loop gets the vector code of a function by calling it. ``constants.py`` says how they are written.

Note [One file, two precisions]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Both precisions share a function wherever they differ only in constants: ``each(for_float32, for_float64)`` chooses by
``T``. This package is the one for float64; ``scalar_functions`` imports its modules a second time, as a package of
another name, for float32. Importing the package itself loads no function, since these are needed only when code is
translated. Guarded by ``tests/backends/test_libm.py::test_both_precisions``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, Final

from ..llvm import Type, f32, f64

__all__ = ["T", "scalar_functions"]

T: Type = f64
"""The type of the numbers that the functions of this package take."""

_FILES: Final = ("exponentials", "gaussian_integrals", "logarithms", "angles", "division", "powers")
_FLOAT64_ONLY: Final = ("gammas",)  # float32 numbers are computed in float64


@cache
def scalar_functions(T: Type) -> dict[str, Callable[..., Any]]:
    """Return the functions for values of type ``f32`` or ``f64``, by name.

    >>> sorted(scalar_functions(f32))[:4]
    ['acos', 'acosh', 'asin', 'asinh']
    """
    package = __name__
    if f32 == T:
        package += "_float32"
        copy = ModuleType(package, __doc__)
        copy.__path__, copy.T = __path__, T  # type: ignore[attr-defined]
        sys.modules[package] = copy
    functions: dict[str, Callable[..., Any]] = {}
    for file in (*_FILES, *(_FLOAT64_ONLY if f64 == T else ())):
        module = importlib.import_module(f"{package}.{file}")
        functions |= {name: getattr(module, name) for name in module.__all__ if name.islower()}
    return functions
