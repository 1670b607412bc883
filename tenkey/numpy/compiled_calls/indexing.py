"""``x[...]``, ``x.T`` and conversions of elements to Python, in machine code.

Note [Indexing in machine code]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A NumPy scalar is a 0-d array here. Like the scalar it has memory of its own: an index that selects one element
copies it. Every other result is what NumPy returns when it indexes the native array: a view for ints, slices, None
and '...', and a copy for an array of integers or bools. A view shares storage and version counter with its source
(Note [Views share a version counter]). Where an index is anything else, where NumPy raises an error, and where a stride
would be negative, the index takes its way in Python. Plans say for which words the package's own kernels handle
``tk::basic_index`` and ``tk::index`` (Note [Plans of ufuncs]).
Guarded by ``tests/numpy/test_compiled_calls.py::TestIndexing``.
"""

from __future__ import annotations

from ...backends.llvm import array_fields
from ...backends.llvm.instructions import cast, copy_bytes, element_address, null
from ...backends.llvm.language import loop
from ...backends.llvm.value_types import f64, i8, i32, i64
from ...backends.llvm.values import Value
from .python_objects import (
    DATA,
    STORAGE,
    WORD,
    Object,
    Record,
    busy,
    get,
    is_array,
    known,
    release,
    retain,
    run,
    type_of_object,
    word_of,
    wrap,
)
from .ufunc_calls import ENTRY, HEAD, SMALL, Block, plan_of, size_of

__all__ = [
    "attribute",
    "is_basic",
    "is_constant",
    "length",
    "number",
    "place_in",
    "plain_index",
    "reversed_axes",
    "subscript",
    "truth",
]


@loop
def element(record: Record, x: Object, start: Object, size: i64) -> Object:
    """Return a 0-d array with a copy of the element at an address."""
    dtype, nothing = retain(record, array_fields.dtype(get(x, DATA))), null(Object)
    data = run(
        record, "PyArray_NewFromDescr", known(record, "array"), dtype, i32(0), nothing, nothing, nothing, i32(0),
        nothing, returns=Object,
    )  # fmt: skip
    if data == 0:
        run(record, "PyErr_Clear")
        return null(Object)
    to = array_fields.data(data, i8)
    if size == 8:
        cast(to, Block)[0] = cast(start, Block)[0]
    else:
        copy_bytes(to, start, size)
    return wrap(record, data, get(x, WORD), known(record, "None"))


@loop
def place_in(record: Record, item: Object, length: i64) -> i64:
    """Return an int as an index from 0; -1 where it is out of bounds."""
    place: i64 = run(record, "PyLong_AsLongLong", item, returns=i64)
    if place == -1:
        if run(record, "PyErr_Occurred", returns=Object) != 0:  # more than 64 bits
            run(record, "PyErr_Clear")
            return -1
    if place < 0:
        place = place + length
    if (place < 0) | (place >= length):
        return -1
    return place


@loop
def view(record: Record, x: Object, data: Object) -> Object:
    """Return an array on a view of the memory of another one; null where it is not one that arrays may have."""
    if data == 0:
        run(record, "PyErr_Clear")
        return null(Object)
    if type_of_object(data) != known(record, "array"):
        release(record, data)
        return null(Object)
    strides = array_fields.strides(data)
    for k in range(array_fields.ndim(data)):
        if strides[k] < 0:
            release(record, data)
            return null(Object)
    root: Object = get(x, STORAGE)
    if (root == known(record, "None")) | (type_of_object(root) == known(record, "Storage")):
        root = x
    return wrap(record, data, get(x, WORD), root)


def is_constant(record: Value, item: Value) -> Value:
    """Tell whether an item of an index is None or '...'."""
    return (item == known(record, "None")) | (item == known(record, "Ellipsis"))


@loop
def is_basic(record: Record, items: Object, count: i64) -> i64:
    """Return 2 if all items of a tuple are ints, 1 if all are ints, slices, None or '...', else 0."""
    found: i64 = 2
    for k in range(count):
        item = run(record, "PyTuple_GetItem", items, k, returns=Object)
        kind = type_of_object(item)
        if kind != known(record, "int"):
            found = 1
            if not ((kind == known(record, "slice")) | is_constant(record, item)):
                return 0
    return found


@loop
def as_int(record: Record, item: Object) -> Object:
    """Return an item of an index, as a new reference; a 0-d array of an integer as an int, for which it stands."""
    if is_array(record, item):
        a = get(item, DATA)
        if type_of_object(a) == known(record, "array"):
            if (array_fields.ndim(a) == 0) & (array_fields.dtype(a) == known(record, "dtype of ints")):
                made = run(record, "PyLong_FromLongLong", array_fields.data(a, i64)[0], returns=Object)
                if made == 0:
                    run(record, "PyErr_Clear")
                else:
                    return made
    return retain(record, item)


@loop
def plain_index(record: Record, index: Object) -> Object:
    """Return an index, as a new reference, with ints in the place of 0-d arrays of integers."""
    if type_of_object(index) != known(record, "tuple"):
        return as_int(record, index)
    count = run(record, "PyTuple_Size", index, returns=i64)
    arrays: i64 = i64(0)
    for k in range(count):
        if is_array(record, run(record, "PyTuple_GetItem", index, k, returns=Object)):
            arrays = arrays + 1
    if arrays == 0:
        return retain(record, index)
    made = run(record, "PyTuple_New", count, returns=Object)
    if made == 0:
        run(record, "PyErr_Clear")
        return retain(record, index)
    for k in range(count):
        item = as_int(record, run(record, "PyTuple_GetItem", index, k, returns=Object))
        run(record, "PyTuple_SetItem", made, k, item, returns=i32)
    return made


@loop
def subscript(views: Block, gathers: Block, x: Object, index: Object) -> Object:
    """Return ``x[index]``; null where it has to take its way in Python."""
    record = cast(views[HEAD.index("record")], Record)
    if not is_array(record, x):
        return null(Object)
    if type_of_object(index) == known(record, "int"):
        return selected(record, views, gathers, x, index)
    plain = plain_index(record, index)
    made = selected(record, views, gathers, x, plain)
    release(record, plain)
    return made


@loop
def selected(record: Record, views: Block, gathers: Block, x: Object, index: Object) -> Object:
    """Return ``x[index]`` for an index without 0-d arrays of integers."""
    word = word_of(record, x)
    plan = plan_of(views, word)
    if plan == 0:
        return null(Object)
    if busy(record) != 0:
        return null(Object)
    a, kind = get(x, DATA), type_of_object(index)
    ndim, size = array_fields.ndim(a), plan[ENTRY.index("result_size")]
    start: Object = array_fields.data(a, i8)
    if kind == known(record, "int"):
        if ndim == 1:
            place = place_in(record, index, array_fields.shape(a)[0])
            if place < 0:
                return null(Object)
            return element(record, x, element_address(start, array_fields.strides(a)[0], place), size)
    elif kind == known(record, "tuple"):
        count = run(record, "PyTuple_Size", index, returns=i64)
        basic = is_basic(record, index, count)
        if basic == 0:
            return null(Object)
        if (basic == 2) & (count == ndim):
            for k in range(count):
                item = run(record, "PyTuple_GetItem", index, k, returns=Object)
                place = place_in(record, item, array_fields.shape(a)[k])
                if place < 0:
                    return null(Object)
                start = element_address(start, array_fields.strides(a)[k], place)
            return element(record, x, start, size)
    elif is_array(record, index):
        if plan_of(gathers, word | word_of(record, index)) == 0:
            return null(Object)
        places = get(index, DATA)
        if (array_fields.ndim(places) == 0) | (ndim == 0):
            return null(Object)
        if (size_of(places) > SMALL) | (size_of(a) > SMALL):
            return null(Object)
        data = run(record, "PyObject_GetItem", a, places, returns=Object)
        if data == 0:
            run(record, "PyErr_Clear")
            return null(Object)
        return wrap(record, data, get(x, WORD), known(record, "None"))
    elif not (
        (kind == known(record, "slice")) | (index == known(record, "None")) | (index == known(record, "Ellipsis"))
    ):
        return null(Object)
    return view(record, x, run(record, "PyObject_GetItem", a, index, returns=Object))


@loop
def reversed_axes(block: Block, x: Object) -> Object:
    """Return ``x.T``; null where it has to take its way in Python."""
    record = cast(block[HEAD.index("record")], Record)
    if not is_array(record, x):
        return null(Object)
    if plan_of(block, word_of(record, x)) == 0:
        return null(Object)
    if busy(record) != 0:
        return null(Object)
    return view(record, x, run(record, "PyArray_Transpose", get(x, DATA), null(Object), returns=Object))


@loop
def length(record: Record, x: Object) -> i64:
    """Return the length of the first axis; -1 where it has to be asked for in Python."""
    a = native(record, x)
    if a == 0:
        return -1
    if array_fields.ndim(a) == 0:
        return -1
    return array_fields.shape(a)[0]


@loop
def native(record: Record, x: Object) -> Object:
    """Return the array of NumPy that holds the elements; null where another backend does, and for wrappers."""
    a = get(x, DATA)
    if a == 0:
        return null(Object)
    if type_of_object(a) == known(record, "array"):
        return a
    return null(Object)


@loop
def attribute(record: Record, x: Object, *, which: str) -> Object:
    """Return ``x.ndim`` or ``x.dtype``; null where it has to be asked for in Python."""
    a = native(record, x)
    if a == 0:
        return null(Object)
    if which == "ndim":
        return run(record, "PyLong_FromLongLong", array_fields.ndim(a), returns=Object)
    return retain(record, array_fields.dtype(a))


@loop
def single(record: Record, block: Block, x: Object) -> Object:
    """Return the native array of an array of one element that a plan allows to read; else null."""
    if not is_array(record, x):
        return null(Object)
    if plan_of(block, word_of(record, x)) == 0:
        return null(Object)
    if busy(record) != 0:
        return null(Object)
    a = get(x, DATA)
    if (array_fields.ndim(a) != 0) | (array_fields.flags(a) & 0x100 == 0):
        return null(Object)
    return a


@loop
def truth(block: Block, x: Object) -> i32:
    """Return whether an element is true, as 1 or 0; -1 where it has to be asked for in Python."""
    record = cast(block[HEAD.index("record")], Record)
    a = single(record, block, x)
    if a == 0:
        return i32(-1)
    dtype = array_fields.dtype(a)
    if dtype == known(record, "dtype of bools"):
        return i32(array_fields.data(a, i8)[0])
    if dtype == known(record, "dtype of floats"):
        return i32(array_fields.data(a, f64)[0] != 0.0)
    if dtype == known(record, "dtype of ints"):
        return i32(array_fields.data(a, i64)[0] != 0)
    return i32(-1)


@loop
def number(block: Block, x: Object, *, kind: str) -> Object:
    """Return an element as a Python float or int; null where it has to be converted in Python."""
    record = cast(block[HEAD.index("record")], Record)
    a = single(record, block, x)
    if a == 0:
        return null(Object)
    if array_fields.dtype(a) == known(record, f"dtype of {kind}s"):
        if kind == "float":
            return run(record, "PyFloat_FromDouble", array_fields.data(a, f64)[0], returns=Object)
        return run(record, "PyLong_FromLongLong", array_fields.data(a, i64)[0], returns=Object)
    return null(Object)
