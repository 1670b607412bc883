"""Python objects in compiled code: their types, their references, and functions of Python's and NumPy's C interfaces.

Note [The record of compiled calls]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Compiled code contains no addresses (Note [Images of machine code]). What it needs to know of this process is in one
*record*: objects, and functions of Python's and NumPy's C interfaces, by their places in ``OBJECTS`` and ``FUNCTIONS``.
Functions are those of the stable interface of Python and of the table that NumPy exports for extension modules. Three
structures are read directly: the header of an object (its type), the fields of arrays (Note [Fields of an array]), and
the slots of ``Tensor``, whose places are found by looking for a value in an instance. :func:`available` checks all of
it; where anything differs, calls take their way in Python.
Guarded by ``tests/numpy/test_compiled_calls.py::TestRecord``.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...backends.cpu.fp_warnings import quietly
from ...backends.llvm.array_fields import supported
from ...backends.llvm.instructions import call, cast, null, stack, store
from ...backends.llvm.language import loop
from ...backends.llvm.value_types import Type, i8, i32, i64, pointer, u64, void
from ...backends.llvm.values import Value
from ...core.storage import Storage
from ...core.tensor import Tensor, storage_of
from ...dispatch.local_state import get_state

__all__ = [
    "ALL_BITS", "DATA", "FUNCTIONS", "HEADER", "OBJECTS", "STORAGE", "VERSION", "WORD", "Object", "Record", "available",
    "busy", "empty_record", "fill", "get", "is_array", "keep", "known", "layout", "put", "release", "retain", "run",
    "type_of_object", "word_of", "wrap",
]  # fmt: skip

Object: Final = pointer(i8)
"""The type of references to Python objects."""
Record: Final = pointer(Object)
ALL_BITS: Final = (1 << 64) - 1

OBJECTS: Final = (
    "ndarray", "array", "None", "NotImplemented", "float", "int", "float64", "state", "context", "asarray", "slice",
    "Storage", "tuple", "Ellipsis", "dtype of bools", "dtype of floats", "dtype of ints",
    "storage_of", "delete",
)  # fmt: skip
"""The objects of the record."""
FUNCTIONS: Final = (
    "Py_IncRef", "Py_DecRef", "PyType_GenericAlloc", "PyContextVar_Get", "PyContext_Enter", "PyContext_Exit",
    "PyObject_Vectorcall", "PyErr_Clear", "PyErr_Occurred", "PyLong_AsUnsignedLongLong", "PyLong_AsLongLong",
    "PyLong_AsDouble", "PyFloat_AsDouble", "PyType_IsSubtype", "PyObject_GetItem", "PyObject_SetItem",
    "PyTuple_Size", "PyTuple_GetItem", "PyTuple_New",
    "PyTuple_SetItem", "PyLong_FromLongLong", "PyFloat_FromDouble", "PyObject_IsTrue", "PyObject_Size",
)  # fmt: skip
"""The functions of Python's C interface in the record, behind the objects."""
ARRAY_FUNCTIONS: Final = {"PyArray_NewFromDescr": 94, "PyArray_Transpose": 123}
"""The functions of NumPy's C interface in the record, behind the others, with their numbers in the table."""
_PLACES: Final = {name: i for i, name in enumerate((*OBJECTS, *FUNCTIONS, *ARRAY_FUNCTIONS))}
HEADER: Final = 16
"""The bytes of an object's header; its type is behind the count of references."""


def _slots(kind: type, names: Sequence[str]) -> list[int]:
    """Return the places of slots in an instance of a class, in bytes; of those that are found."""
    places = []
    made = object.__new__(kind)
    words = (ctypes.c_void_p * (kind.__basicsize__ // 8)).from_address(id(made))
    for name in names:
        mark: Any = object()
        setattr(made, name, mark)
        found = [8 * i for i in range(HEADER // 8, len(words)) if words[i] == id(mark)]
        places += found if len(found) == 1 else []
    return places


_TENSOR: Final = ("_data", "_word", "_storage", "_autograd")
_FOUND: Final = (*_slots(Tensor, _TENSOR), *_slots(Storage, ("version",))) if supported() else ()
DATA, WORD, STORAGE, AUTOGRAD, VERSION = _FOUND if len(_FOUND) == len(_TENSOR) + 1 else (0, 0, 0, 0, 0)


def layout() -> tuple[int, ...]:
    """Return what compiled code knows of this interpreter: the places of slots, in bytes."""
    return _FOUND


def available() -> bool:
    """Tell whether this process can call compiled code on Python objects."""
    return (
        DATA > 0
        and os.environ.get("TENKEY_COMPILE") != "off"
        and hasattr(quietly, "__self__")
        and np.__version__.startswith("2.")
        and all(hasattr(ctypes.pythonapi, name) for name in FUNCTIONS)
        and hasattr(sys.modules.get("numpy._core._multiarray_umath"), "_ARRAY_API")
    )


def _refuse_to_delete(x: Any, index: Any) -> None:
    raise TypeError("[ndarray] elements cannot be deleted: use numpy.delete(x, index), which returns a new array.")


def keep(thing: Any) -> None:
    """Keep an object until the process ends, also while the interpreter shuts down: compiled code has its address."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def empty_record() -> ctypes.Array[Any]:
    """Return a record that :func:`fill` has not filled yet: of null pointers."""
    return (ctypes.c_void_p * len(_PLACES))()


def fill(record: ctypes.Array[Any], kind: type) -> None:
    """Fill a record, for this class of arrays; what it refers to lives as long as the process (:func:`keep`)."""
    objects: dict[str, Any] = {
        "ndarray": kind, "array": np.ndarray, "None": None, "NotImplemented": NotImplemented, "float": float,
        "int": int, "float64": np.float64, "state": get_state.__self__, "context": quietly.__self__,  # type: ignore[attr-defined]
        "asarray": np.asarray, "slice": slice, "Storage": Storage, "tuple": tuple, "Ellipsis": Ellipsis,
        "dtype of bools": np.dtype(bool), "dtype of floats": np.dtype(float), "dtype of ints": np.dtype(int),
        "storage_of": storage_of, "delete": _refuse_to_delete,
    }  # fmt: skip
    for each in objects.values():
        keep(each)
    words = [id(objects[name]) for name in OBJECTS]
    words += [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in FUNCTIONS]
    get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    start = get_pointer(sys.modules["numpy._core._multiarray_umath"]._ARRAY_API, None)
    words += [ctypes.c_void_p.from_address(start + 8 * number).value or 0 for number in ARRAY_FUNCTIONS.values()]
    record[:] = words


# ---- compiled code: functions that write instructions, and those that are called


def known(record: Value, name: str) -> Value:
    """Return an object of the record."""
    return record[_PLACES[name]]


def run(record: Value, name: str, *arguments: Value, returns: Type = void) -> Any:
    """Call a function of the record."""
    return call(record[_PLACES[name]], *arguments, returns=returns)


def c_int(x: Any) -> Value:
    """Return a number as C's int."""
    return i32(x)  # type: ignore[no-any-return]


def get(x: Value, place: int) -> Value:
    """Return the object that an object refers to at a place in its structure."""
    return cast(x + place, Record)[0]


def put(x: Value, place: int, value: Value) -> None:
    """Store a reference at a place in an object's structure."""
    store(cast(x + place, Record), value)


def type_of_object(x: Value) -> Value:
    """Return the type of an object."""
    return get(x, 8)


def retain(record: Value, x: Value) -> Value:
    """Take a reference, and return the object."""
    run(record, "Py_IncRef", x)
    return x


def release(record: Value, x: Value) -> None:
    """Give a reference back."""
    run(record, "Py_DecRef", x)


def is_array(record: Value, x: Value) -> Value:
    """Tell whether an object is an ``ndarray`` of tenkey and not of a subclass."""
    return type_of_object(x) == known(record, "ndarray")


@loop
def busy(record: Record) -> i64:
    """Return 1 where a mode, a guard or a context is active in this thread, else 0."""
    found = stack(Object, 1, 8)
    found[0] = null(Object)
    run(record, "PyContextVar_Get", known(record, "state"), null(Object), found, returns=i32)
    state = found[0]
    if state == known(record, "None"):
        release(record, state)
        return 0
    if state != 0:
        release(record, state)
    return 1


@loop
def wrap(record: Record, data: Object, word: Object, storage: Object) -> Object:
    """Return an ``ndarray`` of a native array, whose reference it takes; null where memory ends."""
    made = run(record, "PyType_GenericAlloc", known(record, "ndarray"), i64(0), returns=Object)
    if made == 0:
        run(record, "PyErr_Clear")
        release(record, data)
        return null(Object)
    put(made, DATA, data)
    put(made, WORD, retain(record, word))
    put(made, STORAGE, retain(record, storage))
    put(made, AUTOGRAD, retain(record, known(record, "None")))
    return made


@loop
def word_of(record: Record, x: Object) -> u64:
    """Return the dispatch word of an array, all bits set where it has more than 64 or is not in its slot."""
    held = get(x, WORD)
    if held == 0:
        return ALL_BITS
    word = run(record, "PyLong_AsUnsignedLongLong", held, returns=u64)
    if word == ALL_BITS:
        run(record, "PyErr_Clear")
    return word
