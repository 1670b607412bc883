"""NumPy arrays in compiled code: the fields of the public struct behind every array.

Note [Fields of an array]
~~~~~~~~~~~~~~~~~~~~~~~~~
``PyArrayObject_fields`` begins with Python's object header (16 bytes) and has had the same fields since NumPy 1.7: the
address of the elements, the number of dimensions, the shape, the strides in bytes, the base, the dtype and the flags.
Compiled extensions read them directly, and so does compiled code here: an entry point takes the arrays themselves, and
a call needs no conversion in Python. :func:`supported` compares the fields with what NumPy reports, once; where they
differ, kernels that take arrays are unavailable.
Guarded by ``tests/backends/test_llvm_language.py::test_fields_of_arrays``.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any, Final

import numpy as np

from .instructions import cast
from .value_types import Type, i32, i64, pointer
from .values import Value, convert

__all__ = ["data", "flags", "ndim", "shape", "strides", "supported"]

_HEADER: Final = 16
_DATA, _NDIM, _SHAPE, _STRIDES = _HEADER, _HEADER + 8, _HEADER + 16, _HEADER + 24
_DTYPE, _FLAGS = _HEADER + 40, _HEADER + 48


def data(a: Value, T: Type) -> Value:
    """Return the pointer to the first element."""
    return cast(a + _DATA, pointer(pointer(T)))[0]


def ndim(a: Value) -> Value:
    """Return the number of dimensions, as i64."""
    return convert(cast(a + _NDIM, pointer(i32))[0], i64)


def shape(a: Value) -> Value:
    """Return the pointer to the lengths of the axes."""
    return cast(a + _SHAPE, pointer(pointer(i64)))[0]


def strides(a: Value) -> Value:
    """Return the pointer to the strides in bytes."""
    return cast(a + _STRIDES, pointer(pointer(i64)))[0]


def flags(a: Value) -> Value:
    """Return NumPy's flags, as i64: 0x1 row-major, 0x100 aligned, 0x400 writeable."""
    return convert(cast(a + _FLAGS, pointer(i32))[0], i64)


@cache
def supported() -> bool:
    """Tell whether arrays have these fields in this interpreter."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8 or object.__basicsize__ != _HEADER:
        return False  # free-threaded builds and some for debugging have another header
    a = np.arange(24, dtype=np.int16).reshape(2, 3, 4)[:, ::-2, 1:]

    def field(offset: int, kind: Any = ctypes.c_int64) -> int:
        return int(kind.from_address(id(a) + offset).value)

    lengths = (ctypes.c_int64 * 3).from_address(field(_SHAPE))
    steps = (ctypes.c_int64 * 3).from_address(field(_STRIDES))
    return (
        field(_DATA) == a.ctypes.data
        and field(_NDIM, ctypes.c_int32) == 3
        and tuple(lengths) == a.shape
        and tuple(steps) == a.strides
        and field(_DTYPE) == id(a.dtype)
        and field(_FLAGS, ctypes.c_int32) & 0x7FF == a.flags.num & 0x7FF
    )
