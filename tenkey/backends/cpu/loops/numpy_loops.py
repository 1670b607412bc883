"""The inner loops of NumPy's ufuncs, by address.

Note [NumPy's loops by address]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A ufunc object holds a table of C functions, one for each combination of dtypes, which all have the signature of
``PyUFuncGenericFunction``: ``loop(args, dimensions, steps, data)``. NumPy's C API documents the fields, and extension
modules rely on their places. The driver of elementwise calls runs these loops on several threads without compiling
anything for them. The fields are read through ``ctypes``; before the first use they are compared with what Python shows
of several ufuncs, and if anything differs, none is used: NumPy is called as usual. Loops that may raise an
exception (powers of integers) or that handle objects are never used, nor are those that give wrong results if these
are not adjacent, as where the driver goes along another axis than the last. Guarded by
``tests/backends/test_numpy_loops.py``.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np

__all__ = ["WRONG_WITH_GAPS", "Loop", "numpy_loop"]


class Loop(NamedTuple):
    """An inner loop: its address and that of its data, 0 if it has none."""

    address: int
    data: int


class _Fields(ctypes.Structure):
    """What follows the head of an object in a ``PyUFuncObject``, as far as it is needed."""

    _fields_ = (
        ("nin", ctypes.c_int), ("nout", ctypes.c_int), ("nargs", ctypes.c_int), ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)), ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int), ("reserved", ctypes.c_int), ("name", ctypes.c_char_p), ("types", ctypes.c_void_p),
    )  # fmt: skip


_HEAD: Final = object.__basicsize__
_EXAMPLES: Final = (np.add, np.exp, np.less, np.isnan, np.logical_and, np.floor_divide, np.arctan2)
# Powers of integers raise for a negative exponent; matmul and the like are generalized ufuncs with dimensions.
_MAY_RAISE: Final = frozenset([np.power, np.float_power, np.ldexp])
# NumPy 2.4 leaves out results with gaps between them (with AVX-512; negative for some steps only).
WRONG_WITH_GAPS: Final = frozenset([np.isfinite, np.isinf, np.isnan, np.negative, np.signbit])
_NUMERIC: Final = frozenset(range(13)) | {14, 15, 23}  # bool to float64, complex64, complex128 and float16


def _fields(ufunc: np.ufunc) -> _Fields:
    return _Fields.from_address(id(ufunc) + _HEAD)


def _table(ufunc: np.ufunc) -> list[tuple[int, ...]]:
    """Return the numbers of the dtypes of each loop."""
    found = _fields(ufunc)
    numbers = ctypes.string_at(found.types, found.ntypes * found.nargs)
    return [tuple(numbers[i : i + found.nargs]) for i in range(0, len(numbers), found.nargs)]


@cache
def _known() -> bool:
    """Tell whether the fields are where they are expected."""
    if sys.implementation.name != "cpython":
        return False
    for ufunc in _EXAMPLES:
        found = _fields(ufunc)
        counts = (found.nin, found.nout, found.nargs, found.ntypes)
        if counts != (ufunc.nin, ufunc.nout, ufunc.nargs, ufunc.ntypes):
            return False
        shown = [tuple([np.dtype(char).num for char in text.replace("->", "")]) for text in ufunc.types]
        # only now are the pointers trusted
        if found.name != ufunc.__name__.encode() or _table(ufunc) != shown:
            return False
        if not all(found.functions[i] for i in range(found.ntypes)):
            return False
    return True


def numpy_loop(ufunc: np.ufunc, dtypes: Sequence[np.dtype]) -> Loop | None:
    """Return NumPy's loop for operands and results of exactly these dtypes, or None if there is none to use.

    >>> numpy_loop(np.add, [np.dtype("float32")] * 2) is None  # add has three arguments
    True
    """
    unfit = ufunc in WRONG_WITH_GAPS or (ufunc in _MAY_RAISE and any(dtype.kind not in "fc" for dtype in dtypes))
    if unfit or ufunc.signature is not None or len(dtypes) != ufunc.nargs or not _known():
        return None
    wanted = tuple([dtype.num if dtype.isnative else -1 for dtype in dtypes])
    if not _NUMERIC.issuperset(wanted):
        return None
    try:
        place = _table(ufunc).index(wanted)
    except ValueError:
        return None
    found = _fields(ufunc)
    return Loop(found.functions[place] or 0, (found.data[place] or 0) if found.data else 0)
