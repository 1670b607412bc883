"""Arrays of what NumPy has computed, made in machine code.

Note [Results of quick calls]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A quick call (Note [Quick calls of functions]) ends with a new ``ndarray`` on the memory of NumPy's result. In Python,
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

from ...backends.llvm import array_fields, code_cache, images
from ...backends.llvm.compiled import UnavailableError, image_of
from ...backends.llvm.instructions import cast, null
from ...backends.llvm.language import instance, loop
from ...backends.llvm.value_types import i64, pointer
from ...backends.llvm.values import Module
from ...core.storage import Storage
from ...core.tensor import cpu_word
from ...core.word import DTYPE_TRAIT
from ...dispatch.local_state import get_state
from ..array_class import ndarray
from . import python_objects
from .class_slots import compiled
from .python_objects import (
    DATA,
    STORAGE,
    WORD,
    Object,
    Record,
    busy,
    get,
    known,
    release,
    retain,
    run,
    type_of_object,
    wrap,
)

__all__ = ["Results", "in_python", "results"]

_WORDS: Final = {dtype: cpu_word(dtype) for dtype in DTYPE_TRAIT if dtype.kind in "biufc"}
_HEADER: Final = 16  # bytes of an object before the address that is called, and that of the block
_BASE: Final = 48  # the place of the base in an array
_Block: Final = pointer(i64)


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


@loop
def nothing(record: Record) -> Object:
    """Return None."""
    return retain(record, known(record, "None"))


@loop
def wrapped(record: Record, data: Object, word: Object, storage: Object) -> Object:
    """Return an array of a native one, whose reference it takes; None where memory ends."""
    made = wrap(record, data, word, storage)
    if made == 0:
        return nothing(record)
    return made


@loop
def call_fresh(self: Object, arguments: Record, count: i64, names: Object) -> Object:
    """Return an array of a new native array or scalar, or None."""
    block = cast(get(self, _HEADER + 8), _Block)
    record = cast(block[0], Record)
    if busy(record) != 0:
        return nothing(record)
    data: Object = null(Object)
    if type_of_object(arguments[0]) == known(record, "array"):
        data = retain(record, arguments[0])
    else:
        data = run(
            record, "PyObject_Vectorcall", known(record, "asarray"), arguments, i64(1), null(Object), returns=Object
        )
        if data == 0:
            run(record, "PyErr_Clear")
            return nothing(record)
    dtype = array_fields.dtype(data)
    for k in range(block[1]):
        if cast(block[2 * k + 2], Object) == dtype:
            return wrapped(record, data, cast(block[2 * k + 3], Object), known(record, "None"))
    release(record, data)
    return nothing(record)


@loop
def call_view(self: Object, arguments: Record, count: i64, names: Object) -> Object:
    """Return an array of a native one, with the storage of the root if it is a window on its memory, or None."""
    block = cast(get(self, _HEADER + 8), _Block)
    record = cast(block[0], Record)
    root, native = arguments[0], arguments[1]
    data = get(root, DATA)
    if (type_of_object(native) != known(record, "array")) | (native == data):
        return nothing(record)
    if busy(record) != 0:
        return nothing(record)
    base, storage = get(native, _BASE), get(root, STORAGE)
    if (base == 0) | ((base != data) & (base != get(data, _BASE))):
        storage = known(record, "None")
    elif (storage == known(record, "None")) | (type_of_object(storage) == known(record, "Storage")):
        storage = root
    return wrapped(record, retain(record, native), get(root, WORD), storage)


def _image() -> bytes:
    key = f"tenkey.numpy {code_cache.source_hash(('../numpy/compiled_calls',)).hex()}"
    key = f"{key} results {python_objects.layout()}"
    image = code_cache.load(key)
    if image is None:
        module, names = Module(), ["fresh", "view"]
        for name, template in zip(names, (call_fresh, call_view)):
            instance(template, module, {}, name)
        image = image_of(module.parts(), names)
        code_cache.store(key, image)
    return image


_kept: Final[list[Any]] = []  # what blocks refer to


@cache
def results() -> Results:
    """Return the functions that make arrays of NumPy's results, compiled where this process can."""
    code = compiled()
    if code is None:
        return in_python
    try:
        addresses = images.load(_image())
    except (UnavailableError, images.ImageError, ImportError, OSError):
        return in_python
    pairs = [x for dtype, word in _WORDS.items() for x in (dtype, word)]
    block = (ctypes.c_int64 * (len(pairs) + 2))(code.address, len(_WORDS), *map(id, pairs))
    _kept.extend([pairs, block])
    made: list[Any] = []
    for name in ("fresh", "view"):
        function: Any = object.__new__(code.callable)
        words = (ctypes.c_void_p * 2).from_address(id(function) + _HEADER)
        words[:] = [addresses[name], ctypes.addressof(block)]
        made.append(function)
    return Results(*made)
