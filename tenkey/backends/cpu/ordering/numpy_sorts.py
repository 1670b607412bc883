"""NumPy's sorting functions, by address.

Note [NumPy's sorts by address]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
NumPy sorts numbers with vector instructions (networks and compressing partitions for AVX-512, AVX2 and others): 2 ns an
element at 4,096 float32, 3.3 at 2**20, where the radix sort of the same elements takes 4.5 and 6 on one thread, and
more on two, which write to the same cache lines. So our loops divide the work, and NumPy's function sorts the parts.
Its address is in the table ``PyArray_ArrFuncs`` of a dtype, which ``PyDataType_GetArrFuncs`` of NumPy's C API returns
(function 365 of the table that extension modules use); the function takes the first element, the number of elements and
an array, which it does not use for numbers, and does not need the interpreter. Guarded by
``tests/backends/test_sorting_loops.py::test_functions_of_numpy``.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Final

import numpy as np

from ..programs.compiled_ufuncs import numpy_api

__all__ = ["numpy_sort"]

_GET: Final = 365  # the number of PyDataType_GetArrFuncs
_SORT: Final = 21 + 12  # in PyArray_ArrFuncs: behind the casts, and getitem to fillwithscalar


@cache
def _functions(dtype: np.dtype) -> tuple[int, ...]:
    """Return the addresses of the fast and the stable sort of a dtype; none if NumPy is unknown."""
    if not np.__version__.startswith("2.") or sys.implementation.name != "cpython":
        return ()
    table = numpy_api("_ARRAY_API")
    if table is None:
        return ()
    found = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(table[_GET])(dtype)
    quick, _, stable = (ctypes.c_void_p * 3).from_address(found + 8 * _SORT)
    return (quick, stable) if quick and stable else ()


def numpy_sort(dtype: np.dtype) -> int:
    """Return the address of NumPy's fastest sort of contiguous numbers of a dtype, 0 if there is none."""
    if dtype.kind not in "biuf" or not dtype.isnative:
        return 0
    functions = _functions(dtype)
    # bytes and 16-bit integers: the stable sort is a radix sort (2**20 bytes: 1.1 ms, the other one 30)
    # float16: on some processors without float16 arithmetic, NumPy 2.4's other sort leaves rows unsorted
    return functions[dtype.kind in "iuf" and dtype.itemsize <= 2] if functions else 0
