# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, nonecheck=False
# cython: auto_pickle=False, cdivision=True
"""Indexing, assignment and views of small tensors.

An index is used only if its parts are ints, slices of ints, ``...`` and None, of exactly these types, or one array of
ints or bools: evaluating them runs no code of users. The functions follow the conventions of ``operations.py``.
"""

import cython
import numpy as np
from cython.cimports import numpy as cnp
from cython.cimports.tenkey.core.compiled.handles import (
    ARRAY,
    NDARRAY,
    NO_WORD,
    TENSOR,
    Handle,
    Plan,
    Table,
    native,
    own_word,
    tenkey_get,
    usable,
    view_of,
    word_of,
    wrapped,
)
from cython.cimports.tenkey.core.compiled.operations import changed, may_change, operand_word
from cython.cimports.tenkey.core.compiled.recording import record, window

cnp.import_array()

NOTHING = cython.declare(tuple, ())
FLOAT64 = cython.declare(type, np.float64)
INT64 = cython.declare(type, np.int64)
REFUSED = cython.declare(tuple, (ValueError, TypeError, RuntimeError, OverflowError, IndexError))
LARGEST = cython.declare(cython.Py_ssize_t, 1 << 12)  # elements that an index reads or writes


@cython.cfunc
@cython.exceptval(check=False)
def is_plain_slice(part) -> cython.bint:
    """Return whether the bounds of a slice are ints or None, so that reading them runs no code of users."""
    start = PySlice_start(part)
    stop = PySlice_stop(part)
    step = PySlice_step(part)
    return (
        (start is None or type(start) is int)
        and (stop is None or type(stop) is int)
        and (step is None or type(step) is int)
    )


@cython.cfunc
@cython.exceptval(check=False)
def axes_behind(parts: tuple, place: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return how many axes the parts of an index behind a place select from."""
    count: cython.Py_ssize_t = 0
    k: cython.Py_ssize_t
    for k in range(place + 1, len(parts)):
        count += type(parts[k]) is int or type(parts[k]) is INT64 or type(parts[k]) is slice
    return count


@cython.cfunc
def view_at(a: cnp.ndarray, index) -> cnp.ndarray:
    """Return the view that ints, slices, ``...`` and None select; None for any other index, and out of range."""
    parts: tuple = index if type(index) is tuple else NOTHING
    count: cython.Py_ssize_t = len(parts) if type(index) is tuple else 1
    dims: cnp.npy_intp[64]
    strides: cnp.npy_intp[64]
    dots: cython.bint = False
    offset: cython.Py_ssize_t = 0
    d: cython.int = 0
    n: cython.int = 0
    k: cython.Py_ssize_t
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    step: cython.Py_ssize_t
    length: cython.Py_ssize_t
    for k in range(count):
        part = parts[k] if type(index) is tuple else index
        if n == 64:
            return None
        if type(part) is int or type(part) is INT64:
            start = place_of(a, d, part)
            if start < 0:
                return None
            offset += start * cnp.PyArray_STRIDES(a)[d]
            d += 1
        elif type(part) is slice and is_plain_slice(part) and d < cnp.PyArray_NDIM(a):
            try:
                PySlice_Unpack(part, cython.address(start), cython.address(stop), cython.address(step))
            except ValueError:  # a step of 0
                return None
            if step < 1:  # tensors have no negative strides
                return None
            length = PySlice_AdjustIndices(cnp.PyArray_DIMS(a)[d], cython.address(start), cython.address(stop), step)
            if length <= 0:
                length, start, step = 0, 0, 1
            dims[n], strides[n] = length, cnp.PyArray_STRIDES(a)[d]
            if length > 1:
                strides[n] *= step
            offset += start * cnp.PyArray_STRIDES(a)[d]
            n += 1
            d += 1
        elif part is None:
            dims[n], strides[n] = 1, 0
            n += 1
        elif part is Ellipsis and not dots:
            dots = True
            length = cnp.PyArray_NDIM(a) - d - axes_behind(parts, k)
            if length < 0 or n + length > 64:
                return None
            for start in range(length):
                dims[n + start], strides[n + start] = cnp.PyArray_DIMS(a)[d + start], cnp.PyArray_STRIDES(a)[d + start]
            n += cython.cast(cython.int, length)
            d += cython.cast(cython.int, length)
        else:
            return None
    while d < cnp.PyArray_NDIM(a):
        if n == 64:
            return None
        dims[n], strides[n] = cnp.PyArray_DIMS(a)[d], cnp.PyArray_STRIDES(a)[d]
        n += 1
        d += 1
    return view_of(a, n, dims, strides, offset)


@cython.cfunc
def row(a: cnp.ndarray, index) -> cnp.ndarray:
    """Return the view that an int selects from an array with axes; None where there is none."""
    place: cython.Py_ssize_t = place_of(a, 0, index)
    if place < 0:
        return None
    start: cython.Py_ssize_t = place * cnp.PyArray_STRIDES(a)[0]
    return view_of(a, cnp.PyArray_NDIM(a) - 1, cnp.PyArray_DIMS(a) + 1, cnp.PyArray_STRIDES(a) + 1, start)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def place_of(a: cnp.ndarray, axis: cython.int, index) -> cython.Py_ssize_t:
    """Return the place on an axis that an int stands for; -1 where there is none."""
    if axis >= cnp.PyArray_NDIM(a):
        return -1
    place: cython.Py_ssize_t
    try:
        place = index
    except OverflowError:
        return -1
    if place < 0:
        place += cnp.PyArray_DIMS(a)[axis]
    return place if 0 <= place < cnp.PyArray_DIMS(a)[axis] else -1


@cython.cfunc
def subscript(table: Table, takes: Table, x: Handle, index, missed: cython.p_ulonglong):
    """Compute ``x[index]``, or return None."""
    kind: type = type(x)
    if type(index) is kind or isinstance(index, Handle):
        return taken(takes, x, index, missed)
    missed[0] = word_of(x)
    plan: Plan = usable(table, missed)
    if plan is None:
        return None
    missed[0] = NO_WORD
    a: cnp.ndarray = native(x)
    if a is None:
        return None
    if kind is ARRAY:
        place: cython.p_char = element(a, index)
        if place != cython.NULL:  # Notes [Scalars and 0-d arrays] and [Elements are copies]
            return None if plan.recipe is not None else cnp.PyArray_ToScalar(place, a)
    data: cnp.ndarray
    if type(index) is int and cnp.PyArray_NDIM(a) > 1:
        data = row(a, index)
    else:
        data = view_at(a, index)
    if data is None:
        return None
    return window(plan, kind, x, data, None if plan.recipe is None else (as_tuple(index),))


@cython.cfunc
@cython.exceptval(check=False)
def element(a: cnp.ndarray, index) -> cython.p_char:
    """Return the address of the element that ints select; null for any other index, and out of range."""
    parts: tuple = index if type(index) is tuple else NOTHING
    address: cython.p_char = cnp.PyArray_BYTES(a)
    place: cython.Py_ssize_t
    d: cython.int
    if cnp.PyArray_NDIM(a) != (len(parts) if type(index) is tuple else 1):
        return cython.NULL
    for d in range(cnp.PyArray_NDIM(a)):
        part = parts[d] if type(index) is tuple else index
        if type(part) is not int and type(part) is not INT64:
            return cython.NULL
        place = place_of(a, d, part)
        if place < 0:
            return cython.NULL
        address += place * cnp.PyArray_STRIDES(a)[d]
    return address


@cython.cfunc
def as_tuple(index):
    """Return an index as the operator gets it: ``...`` follows ints alone, so that NumPy returns an array."""
    if type(index) is int or type(index) is INT64:
        return (int(index), Ellipsis)
    if type(index) is not tuple:
        return (index,)
    index = tuple([int(part) if type(part) is INT64 else part for part in index])
    if len(index) == 2 and type(index[0]) is int and type(index[1]) is int:
        return (*index, Ellipsis)
    return index


@cython.cfunc
def selected_by(table: Table, x: Handle, index, missed: cython.p_ulonglong) -> cnp.ndarray:
    """Return the array of an index that is a tensor, if there is a plan for the two; else None."""
    if table is None or (type(index) is not TENSOR and type(index) is not ARRAY):
        return None
    own: cython.ulonglong = word_of(x)
    other: cython.ulonglong = word_of(cython.cast(Handle, index))
    missed[0] = NO_WORD if own == NO_WORD or other == NO_WORD else own | other
    plan: Plan = usable(table, missed)
    if plan is None:
        if missed[0] != NO_WORD and table.learn is not None:
            table.learn(missed[0])
            missed[0] = NO_WORD
        return None
    missed[0] = NO_WORD
    b: cnp.ndarray = native(cython.cast(Handle, index))
    a: cnp.ndarray = native(x)
    if a is None or b is None or cnp.PyArray_NDIM(b) == 0 or cnp.PyArray_NDIM(a) == 0:
        return None
    if cnp.PyArray_SIZE(a) > plan.limit or cnp.PyArray_SIZE(b) > plan.limit:
        return None
    if cnp.PyArray_TYPE(b) == cnp.NPY_BOOL and cnp.PyArray_NDIM(b) > cnp.PyArray_NDIM(a):
        return None
    return b


@cython.cfunc
def taken(table: Table, x: Handle, index, missed: cython.p_ulonglong):
    """Compute ``x[index]`` for an array of indices or a mask: a copy."""
    b: cnp.ndarray = selected_by(table, x, index, missed)
    if b is None:
        return None
    a: cnp.ndarray = native(x)
    data = item_or_none(a, b, REFUSED)
    if type(data) is not NDARRAY or not cnp.PyArray_IS_C_CONTIGUOUS(cython.cast(cnp.ndarray, data)):
        return None
    if cnp.PyArray_SIZE(cython.cast(cnp.ndarray, data)) > LARGEST:
        return None
    return wrapped(type(x), data, tenkey_get(x, 1), None)


@cython.cfunc
@cython.exceptval(-1, check=False)
def assign(table: Table, puts: Table, x: Handle, index, value, missed: cython.p_ulonglong) -> cython.bint:
    """Carry out ``x[index] = value``, or return False without a change."""
    key: cython.ulonglong = word_of(x)
    kind: type = type(x)
    a: cnp.ndarray = native(x)
    b: cnp.ndarray = None
    k: cython.int
    if a is None or not cnp.PyArray_ISWRITEABLE(a) or not may_change(x):
        return False
    if type(value) is kind:
        if word_of(cython.cast(Handle, value)) != key:
            return False
        b = native(cython.cast(Handle, value))
        if b is None or cnp.PyArray_SIZE(b) > LARGEST:
            return False
        if array_memory(a) is array_memory(b):  # NumPy's copies of overlapping arrays are not always right
            return False
        if cnp.PyArray_NDIM(b) != 0 and cnp.PyArray_DIMS(b)[0] == 1:  # NumPy drops leading axes of length 1
            return False
        data = b
    elif fits(a, value):
        data = value
    else:
        return False
    for k in range(cnp.PyArray_NDIM(a)):
        if cnp.PyArray_STRIDES(a)[k] == 0 and cnp.PyArray_DIMS(a)[k] > 1:  # several elements at one place
            return False
    if isinstance(index, Handle):
        place = selected_by(puts, x, index, missed)
        if place is None or array_memory(a) is array_memory(place):
            return False
        if b is not None and cnp.PyArray_NDIM(b) != 0:
            return False
        target = a
    else:
        missed[0] = key
        plan: Plan = usable(table, missed)
        if plan is None:
            return False
        missed[0] = NO_WORD
        target = view_at(a, index)
        if target is None or cnp.PyArray_SIZE(cython.cast(cnp.ndarray, target)) > LARGEST:
            return False
        if b is not None and cnp.PyArray_NDIM(b) > cnp.PyArray_NDIM(cython.cast(cnp.ndarray, target)):
            return False
        place = Ellipsis
    try:
        target[place] = data
    except REFUSED:
        return False
    changed(x)
    return True


@cython.cfunc
@cython.exceptval(-1, check=False)
def fits(a: cnp.ndarray, value) -> cython.bint:
    """Return whether a number can be written into an array without a warning; a Python int may still be too large."""
    of: cython.int = cnp.PyArray_TYPE(a)
    if type(value) is cython.cast(type, a.descr.typeobj):  # NumPy's scalar of this dtype
        return True
    if type(value) is int:
        if cnp.PyArray_ISBOOL(a):
            return False
        return cnp.PyArray_ISINTEGER(a) or -60000 < value < 60000
    if (type(value) is not float and type(value) is not FLOAT64) or cnp.PyArray_ISINTEGER(a) or cnp.PyArray_ISBOOL(a):
        return False
    return of == cnp.NPY_DOUBLE or of == cnp.NPY_CDOUBLE or value != value or -60000.0 < value < 60000.0


@cython.cfunc
def array_memory(a: cnp.ndarray):
    """Return the object that owns the memory of an array."""
    base = cnp.get_array_base(a)
    return a if base is None else base


@cython.cfunc
def reshaped(table: Table, kind: type, x, shape, missed: cython.p_ulonglong):
    """Compute ``reshape(x, shape)`` for a tuple of ints: a view where that is possible, else a copy."""
    missed[0] = NO_WORD
    if type(shape) is not tuple or not isinstance(x, Handle):
        return None
    lengths: tuple = shape
    dims: cnp.npy_intp[64]
    n: cython.Py_ssize_t = len(lengths)
    k: cython.Py_ssize_t
    if n > 64:
        return None
    for k in range(n):
        if type(lengths[k]) is not int:
            return None
        try:
            dims[k] = lengths[k]
        except OverflowError:
            return None
        if dims[k] < -1:
            return None
    missed[0] = operand_word(kind, x, table)
    plan: Plan = usable(table, missed)
    if plan is None:
        return None
    missed[0] = NO_WORD
    a: cnp.ndarray = native(cython.cast(Handle, x))
    if a is None or cnp.PyArray_SIZE(a) > plan.limit:
        return None
    wanted: cnp.PyArray_Dims
    wanted.ptr, wanted.len = dims, cython.cast(cython.int, n)
    try:
        data = cnp.PyArray_Newshape(a, cython.address(wanted), cnp.NPY_CORDER)
    except REFUSED:
        return None
    if type(data) is not NDARRAY or data is a:
        return None
    made: cnp.ndarray = data
    base = cnp.get_array_base(made)
    if base is a or (base is not None and base is cnp.get_array_base(a)):
        return window(plan, kind, cython.cast(Handle, x), data, None if plan.recipe is None else (shape, None))
    result: Handle = wrapped(kind, data, plan.word, None)
    if plan.recipe is not None:
        record(plan.recipe, result, (x,), (shape, None))
    return result


@cython.cfunc
def reversed_axes(table: Table, kind: type, x, missed: cython.p_ulonglong):
    """Compute ``x.T``, or return None."""
    if type(x) is not kind:
        return None
    missed[0] = own_word(cython.cast(Handle, x))
    plan: Plan = usable(table, missed)
    if plan is None:
        return None
    missed[0] = NO_WORD
    a: cnp.ndarray = native(cython.cast(Handle, x))
    if a is None:
        return None
    dims: cnp.npy_intp[64]
    strides: cnp.npy_intp[64]
    ndim: cython.int = cnp.PyArray_NDIM(a)
    k: cython.int
    for k in range(ndim):
        dims[k], strides[k] = cnp.PyArray_DIMS(a)[ndim - 1 - k], cnp.PyArray_STRIDES(a)[ndim - 1 - k]
    extras: tuple = None
    if plan.recipe is not None:
        extras = (tuple(range(ndim - 1, -1, -1)),)
    return window(plan, kind, cython.cast(Handle, x), view_of(a, ndim, dims, strides, 0), extras)
