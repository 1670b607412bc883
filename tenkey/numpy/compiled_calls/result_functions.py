"""Functions that make arrays of NumPy's results, in the language of loops: Note [Results of quick calls]."""

from __future__ import annotations

from typing import Final

from ...backends.llvm import array_fields
from ...backends.llvm.instructions import cast, null
from ...backends.llvm.language import loop
from ...backends.llvm.value_types import i64
from .python_objects import (
    DATA,
    HEADER,
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
from .ufunc_calls import Block

__all__ = ["call_fresh", "call_view"]

_BASE: Final = HEADER + 32  # the place of the base in an array


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
    block = cast(get(self, HEADER + 8), Block)
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
    block = cast(get(self, HEADER + 8), Block)
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
