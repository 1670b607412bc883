"""``x[...] = value`` and ``x += y``, in machine code.

Note [Changes in machine code]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A change is made here where it is the package's own kernels that would make it (Note [Plans of ufuncs]), where the array
and the root of its views require no gradient, and where the value is a number or an array of the same dtype in other
memory. It increments the version counter of the storage as every change does (Note [Views share a version counter]),
so that a backward pass notices that a saved value has changed. NumPy writes what is more than one element.
Guarded by ``tests/numpy/test_compiled_changes.py::TestChanges``.
"""

from __future__ import annotations

from ...backends.llvm import array_fields
from ...backends.llvm.instructions import address, call, cast, copy_bytes, element_address, null, stack
from ...backends.llvm.language import loop
from ...backends.llvm.value_types import i8, i32, i64, void
from .indexing import is_basic, is_constant, place_in, plain_index
from .python_objects import (
    DATA,
    STORAGE,
    VERSION,
    Object,
    Record,
    busy,
    get,
    is_array,
    known,
    put,
    release,
    run,
    type_of_object,
    word_of,
)
from .ufunc_calls import (
    ARRAY,
    ENTRY,
    HEAD,
    OTHER,
    SMALL,
    Block,
    kind_of,
    plan_of,
    same_shape,
    size_of,
    step_of,
    stored,
    word_of_operand,
)

__all__ = ["assign", "update"]

_WRITEABLE, _ALIGNED = 0x400, 0x100  # flags of arrays


@loop
def storage_of(record: Record, x: Object) -> Object:
    """Return the storage of an array, a borrowed reference; null where its root has another word."""
    root: Object = get(x, STORAGE)
    if type_of_object(root) == known(record, "Storage"):
        return root
    if root == known(record, "None"):
        root = x
    else:
        if word_of(record, root) != word_of(record, x):
            return null(Object)
        inner = get(root, STORAGE)
        if inner == 0:
            return null(Object)
        if type_of_object(inner) == known(record, "Storage"):
            return inner
    given = stack(Object, 1, 8)
    given[0] = root
    made = run(record, "PyObject_Vectorcall", known(record, "storage_of"), given, i64(1), null(Object), returns=Object)
    if made == 0:
        run(record, "PyErr_Clear")
        return null(Object)
    release(record, made)  # the tensor refers to it
    return made


@loop
def increment_version(record: Record, storage: Object) -> void:
    """Say that the memory has changed."""
    before = get(storage, VERSION)
    version = run(record, "PyLong_AsLongLong", before, returns=i64)
    put(storage, VERSION, run(record, "PyLong_FromLongLong", version + 1, returns=Object))
    release(record, before)


@loop
def extent(a: Object, size: i64) -> i64:
    """Return the number of bytes from the first to the last element of an array, whose strides are not negative."""
    total: i64 = size
    for k in range(array_fields.ndim(a)):
        total = total + (array_fields.shape(a)[k] - 1) * array_fields.strides(a)[k]
    return total


@loop
def overlap(a: Object, b: Object, size: i64) -> i64:
    """Return 1 if two arrays may have memory in common, else 0."""
    first, second = address(array_fields.data(a, i8)), address(array_fields.data(b, i8))
    if (first < second + extent(b, size)) & (second < first + extent(a, size)):
        return 1
    return 0


@loop
def is_distinct(a: Object, size: i64) -> i64:
    """Return 1 if each element certainly has memory of its own: the array is in rows, or a part of one that is."""
    reach: i64 = size
    for k in range(array_fields.ndim(a)):
        axis = array_fields.ndim(a) - 1 - k
        length, stride = array_fields.shape(a)[axis], array_fields.strides(a)[axis]
        if length > 1:
            if stride < reach:
                return 0
            reach = reach + stride * (length - 1)
    return 1


@loop
def same_window(record: Record, a: Object, index: Object, given: Object) -> i64:
    """Return 1 if ``a[index]`` is the very memory of another array, which has been updated in place; else 0."""
    found = run(record, "PyObject_GetItem", a, index, returns=Object)
    if found == 0:
        run(record, "PyErr_Clear")
        return 0
    same: i64 = i64(0)
    if type_of_object(found) == known(record, "array"):
        if array_fields.data(found, i8) == array_fields.data(given, i8):
            same = same_shape(found, given)
            for k in range(array_fields.ndim(found)):
                if array_fields.strides(found)[k] != array_fields.strides(given)[k]:
                    same = 0
    release(record, found)
    return same


@loop
def assign(elements: Block, gathers: Block, x: Object, index: Object, value: Object) -> i64:
    """Carry out ``x[index] = value``; return 0 where it has to take its way in Python."""
    record = cast(elements[HEAD.index("record")], Record)
    if not is_array(record, x):
        return 0
    plain = plain_index(record, index)
    done = assigned(record, elements, gathers, x, plain, value)
    release(record, plain)
    return done


@loop
def assigned(record: Record, elements: Block, gathers: Block, x: Object, index: Object, value: Object) -> i64:
    """Carry out ``x[index] = value`` for an index without 0-d arrays of integers."""
    kind = kind_of(record, value)
    word = word_of(record, x)
    plan = plan_of(elements, word)
    if (plan == 0) | (kind == OTHER):
        return 0
    if busy(record) != 0:
        return 0
    a, number = get(x, DATA), stack(i64, 1, 8)
    size, form = plan[ENTRY.index("result_size")], plan[ENTRY.index("number")]
    if is_distinct(a, size) == 0:
        return 0
    source: Object = cast(number, Object)
    given: Object = value
    if kind == ARRAY:
        if word_of(record, value) != word:
            return 0
        given = get(value, DATA)
        source = array_fields.data(given, i8)
        if overlap(a, given, size) != 0:  # as in x[1] += y, where nothing is left to do
            if is_array(record, index):
                return 0
            if same_window(record, a, index, given) == 0:
                return 0
            written = storage_of(record, x)
            if written == 0:
                return 0
            increment_version(record, written)
            return 1
    else:
        if form == 0:
            return 0
        if stored(record, value, kind, form, number) == 0:
            return 0
    storage = storage_of(record, x)
    if storage == 0:
        return 0
    ndim, count = array_fields.ndim(a), i64(0)
    start: Object = array_fields.data(a, i8)
    single: i64 = count
    index_kind = type_of_object(index)
    if index_kind == known(record, "int"):
        if ndim == 1:
            place = place_in(record, index, array_fields.shape(a)[0])
            if place < 0:
                return 0
            start = element_address(start, array_fields.strides(a)[0], place)
            single = 1
    elif index_kind == known(record, "tuple"):
        items = run(record, "PyTuple_Size", index, returns=i64)
        basic = is_basic(record, index, items)
        if basic == 0:
            return 0
        if (basic == 2) & (items == ndim):
            for k in range(items):
                item = run(record, "PyTuple_GetItem", index, k, returns=Object)
                place = place_in(record, item, array_fields.shape(a)[k])
                if place < 0:
                    return 0
                start = element_address(start, array_fields.strides(a)[k], place)
            single = 1
    elif is_array(record, index):
        if plan_of(gathers, word | word_of(record, index)) == 0:
            return 0
        places = get(index, DATA)
        if (array_fields.ndim(places) == 0) | (size_of(places) > SMALL):
            return 0
        if overlap(a, places, size) != 0:
            return 0
        if size_of(a) > SMALL:
            return 0
        if run(record, "PyObject_SetItem", a, places, given, returns=i32) != i32(0):
            run(record, "PyErr_Clear")
            return 0
        increment_version(record, storage)
        return 1
    elif not ((index_kind == known(record, "slice")) | is_constant(record, index)):
        return 0
    if single != 0:
        if array_fields.flags(a) & _WRITEABLE == 0:
            return 0
        if kind == ARRAY:
            if array_fields.ndim(given) != 0:
                return 0
        copy_bytes(start, source, size)
    else:
        if size_of(a) > SMALL:
            return 0
        if run(record, "PyObject_SetItem", a, index, given, returns=i32) != i32(0):
            run(record, "PyErr_Clear")
            return 0
    increment_version(record, storage)
    return 1


@loop
def update(block: Block, x: Object, y: Object) -> i64:
    """Carry out ``x += y`` or its like; return 0 where it has to take its way in Python."""
    record = cast(block[HEAD.index("record")], Record)
    kind = kind_of(record, y)
    if not is_array(record, x):
        return 0
    plan = plan_of(block, word_of(record, x) | word_of_operand(record, block, y, kind))
    if plan == 0:
        return 0
    if busy(record) != 0:
        return 0
    a, number, steps = get(x, DATA), stack(i64, 1, 8), stack(i64, 3, 8)
    size, count = plan[ENTRY.index("size")], size_of(a)
    if cast(plan[ENTRY.index("dtype")], Object) != array_fields.dtype(a):
        return 0
    if (array_fields.ndim(a) == 0) | (count > SMALL) | (plan[ENTRY.index("loop")] == 0):
        return 0
    if (array_fields.flags(a) & _WRITEABLE == 0) | (is_distinct(a, size) == 0):
        return 0
    places, counts = stack(Object, 3, 8), stack(i64, 1, 8)
    steps[0], steps[1] = step_of(a, size), 0
    if steps[0] < 0:
        return 0
    steps[2] = steps[0]
    places[0], places[1], places[2] = array_fields.data(a, i8), cast(number, Object), array_fields.data(a, i8)
    counts[0] = count
    if kind == ARRAY:
        b = get(y, DATA)
        places[1] = array_fields.data(b, i8)
        if array_fields.ndim(b) == 0:
            if overlap(a, b, size) != 0:
                return 0
            if array_fields.flags(b) & _ALIGNED == 0:
                return 0
        else:
            steps[1] = step_of(b, size)
            if (steps[1] < 0) | (same_shape(a, b) == 0):
                return 0
            if overlap(a, b, size) != 0:
                if not ((places[0] == places[1]) & (steps[0] == steps[1])):
                    return 0
    else:
        if plan[ENTRY.index("number")] == 0:
            return 0
        if stored(record, y, kind, plan[ENTRY.index("number")], number) == 0:
            return 0
    storage = storage_of(record, x)
    if storage == 0:
        return 0
    call(cast(plan[ENTRY.index("loop")], Object), places, counts, steps, plan[ENTRY.index("data")])
    increment_version(record, storage)
    return 1
