"""Inner loops as ufuncs of NumPy.

NumPy's C API makes a ufunc of an inner loop (``PyUFunc_FromFuncAndData``); its functions are in a table that NumPy
exports for extension modules, in an order that never changes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np

__all__ = ["as_ufunc", "numpy_api"]

_FROM_FUNCTION: Final = 1  # the place of PyUFunc_FromFuncAndData in the table
_NO_IDENTITY: Final = -1
_kept: Final[list[Any]] = []  # what ufuncs refer to


def numpy_api(name: str) -> Any:
    """Return the table of functions that NumPy exports in a capsule, or None if it does not."""
    capsule = getattr(sys.modules.get("numpy._core._multiarray_umath"), name, None)
    if capsule is None:
        return None
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer = prototype(("PyCapsule_GetPointer", ctypes.pythonapi))
    return ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))


@cache
def _maker() -> Any:
    table = numpy_api("_UFUNC_API")
    if table is None:
        return None
    address, number, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
    kind = ctypes.PYFUNCTYPE(
        ctypes.py_object, address, address, address, number, number, number, number, text, text, number
    )
    return kind(table[_FROM_FUNCTION] or 0)


def as_ufunc(address: int, dtypes: Sequence[np.dtype]) -> np.ufunc | None:
    """Return a ufunc with one inner loop, for operands and one result of these dtypes; None if NumPy cannot make it."""
    make = _maker()
    if make is None or any(dtype.num > 255 or dtype.kind == "V" for dtype in dtypes):
        return None
    functions, data = (ctypes.c_void_p * 1)(address), (ctypes.c_void_p * 1)(None)
    types = ctypes.create_string_buffer(bytes([dtype.num for dtype in dtypes]))
    name, text = ctypes.create_string_buffer(b"kernel"), ctypes.create_string_buffer(b"")
    _kept.append((functions, data, types, name, text))
    places = [ctypes.addressof(held) for held in (functions, data, types)]
    names = [ctypes.cast(held, ctypes.c_char_p) for held in (name, text)]
    return make(*places, 1, len(dtypes) - 1, 1, _NO_IDENTITY, *names, 0)  # type: ignore[no-any-return]
