"""Arrays of what NumPy has computed, made in machine code.

Note [Results of quick calls]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A quick call (Note [Quick calls of functions]) ends with a new ``ndarray`` on the memory of the NumPy result. In Python,
this takes as long as a small NumPy call. So two callables in machine code make it: ``fresh(native)`` of a new array or
a scalar, ``view(root, native)`` of a window on the memory of ``root``, with its storage (Note [Views share a version
counter]). Both return None where a mode is active or the dtype is none of the usual ones: then the general way is
taken. They are of the type whose instances are called by the vectorcall protocol, and have a *block*: the record, and
the dispatch words by dtype. Without compiled code the same functions in Python take their place.
Guarded by ``tests/numpy/test_quick_functions.py::test_results_in_python_and_compiled``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.storage import Storage
from ...core.tensor import cpu_word
from ...core.word import DTYPE_TRAIT
from ...dispatch.local_state import get_state
from ..array_class import ndarray
from .class_slots import compiled
from .python_objects import keep

__all__ = ["Results", "in_python", "results"]

_WORDS: Final = {dtype: cpu_word(dtype) for dtype in DTYPE_TRAIT if dtype.kind in "biufc"}


class Results(NamedTuple):
    """What makes arrays of NumPy's results."""

    fresh: Callable[[Any], Any]
    view: Callable[[Any, Any], Any]


# ---- in Python


def _fresh(native: Any) -> Any:
    word = _WORDS.get(native.dtype)
    if word is None or get_state() is not None:
        return None
    made = object.__new__(ndarray)
    made._data = native if native.__class__ is np.ndarray else np.asarray(native)
    made._word = word
    made._storage = None
    made._autograd = None
    return made


def _view(root: Any, native: Any) -> Any:
    if native.__class__ is not np.ndarray or get_state() is not None:
        return None
    data, base, storage = root._data, native.base, root._storage
    made = object.__new__(ndarray)
    made._data = native.view() if native is data else native
    made._word = root._word
    is_window = native is data or (base is not None and (base is data or base is data.base))
    made._storage = None if not is_window else root if storage is None or storage.__class__ is Storage else storage
    made._autograd = None
    return made


in_python: Final = Results(_fresh, _view)


# ---- in machine code


@cache
def results() -> Results:
    """Return the functions that make arrays of NumPy's results, compiled where this process can."""
    code = compiled()
    if code is None:
        return in_python
    pairs = [x for dtype, word in _WORDS.items() for x in (dtype, word)]
    block = (ctypes.c_int64 * (len(pairs) + 2))(code.address, len(_WORDS), *map(id, pairs))
    keep((pairs, block))
    made: list[Any] = [object.__new__(code.callable) for _ in Results._fields]
    for function, name in zip(made, Results._fields):
        code.set_call(function, ctypes.addressof(block), f"call_{name}")
    return Results(*made)
