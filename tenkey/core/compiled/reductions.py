# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, nonecheck=False
# cython: auto_pickle=False, cdivision=True
"""Compute planned reductions. The functions follow the conventions of ``operations.py``."""

import cython
import numpy as np
from cython.cimports import numpy as cnp
from cython.cimports.libc.string import memcpy
from cython.cimports.tenkey.core.compiled.handles import (
    ARRAY,
    NO_WORD,
    Handle,
    Plan,
    Table,
    native,
    usable,
    wrapped,
)
from cython.cimports.tenkey.core.compiled.operations import (
    empty,
    new_scalar,
    operand_word,
    run,
)
from cython.cimports.tenkey.core.compiled.recording import record

cnp.import_array()

SUM = cython.declare(cython.int, 1)  # options of reductions
MEAN = cython.declare(cython.int, 2)
PRODUCT_SUM = cython.declare(cython.Py_ssize_t, 64)  # elements up to which tk.sum multiplies by ones
ONES = cython.declare(dict, {})


@cython.cfunc
def reduce(table: Table, kind: type, x, axis, keepdims: cython.bint, missed: cython.p_ulonglong):
    """Reduce all axes (None) or one of an array in C order, in the order in which NumPy's ``reduce`` does."""
    missed[0] = operand_word(kind, x, table) if isinstance(x, Handle) else NO_WORD
    if axis is not None and type(axis) is not int:
        missed[0] = NO_WORD
    plan: Plan = usable(table, missed)
    if plan is None:
        return None
    missed[0] = NO_WORD
    a: cnp.ndarray = native(cython.cast(Handle, x))
    if a is None:
        return None
    size: cython.Py_ssize_t = cnp.PyArray_SIZE(a)
    flags: cython.int = cnp.PyArray_FLAGS(a)
    if cnp.PyArray_TYPE(a) != plan.type or size == 0 or size > plan.limit:
        return None
    if not flags & cnp.NPY_ARRAY_C_CONTIGUOUS or not flags & cnp.NPY_ARRAY_ALIGNED:
        return None
    ndim: cython.int = cnp.PyArray_NDIM(a)
    place: cython.Py_ssize_t = 0
    k: cython.int
    outer: cython.Py_ssize_t = 1
    inner: cython.Py_ssize_t = 1
    count: cython.Py_ssize_t = size
    dims: cnp.npy_intp[64]
    n: cython.int = 0
    if axis is not None:
        try:
            place = axis
        except OverflowError:
            return None
        if place < 0:
            place += ndim
        if place < 0 or place >= ndim:
            return None
        count = cnp.PyArray_DIMS(a)[place]
        for k in range(ndim):
            if k < place:
                outer *= cnp.PyArray_DIMS(a)[k]
            elif k > place:
                inner *= cnp.PyArray_DIMS(a)[k]
    for k in range(ndim):
        if axis is not None and k != place:
            dims[n] = cnp.PyArray_DIMS(a)[k]
            n += 1
        elif keepdims:
            dims[n] = 1
            n += 1
    whole: cython.bint = axis is None and not keepdims
    room: cython.double[2]
    if kind is ARRAY and plan.recipe is None and n == 0:  # Note [Scalars and 0-d arrays]
        fold(plan, cnp.PyArray_BYTES(a), cython.cast(cython.p_char, room), outer, count, inner, whole)
        if plan.option == MEAN:
            divide(plan, cython.cast(cython.p_char, room), 1, count)
        return new_scalar(room, plan.dtype, None)
    out: cnp.ndarray = empty(plan.dtype, n, dims)
    fold(plan, cnp.PyArray_BYTES(a), cnp.PyArray_BYTES(out), outer, count, inner, whole)
    if plan.option == MEAN:
        divide(plan, cnp.PyArray_BYTES(out), outer * inner, count)
    result: Handle = wrapped(kind, out, plan.word, None)
    if plan.recipe is not None:
        record(plan.recipe, result, (x,), (None if axis is None else (axis,), keepdims, None))
    return result


@cython.cfunc
@cython.exceptval(-1, check=False)
def fold(plan: Plan, source: cython.p_char, out: cython.p_char, outer: cython.Py_ssize_t, count: cython.Py_ssize_t,
         inner: cython.Py_ssize_t, is_whole: cython.bint) -> cython.int:  # fmt: skip
    """Combine the middle axis of an array of shape (outer, count, inner); ``is_whole``: as ``x.sum()`` does."""
    size: cython.Py_ssize_t = plan.size
    row: cython.Py_ssize_t = inner * size
    j: cython.Py_ssize_t
    first: cython.Py_ssize_t
    zero: cython.p_char = cython.NULL
    if plan.zero is not None:
        zero = cython.cast(bytes, plan.zero)
    for _ in range(outer):
        if is_whole and plan.option == SUM and count <= PRODUCT_SUM:
            sum_by_product(plan, source, out, count)
            continue
        first = 0
        if zero != cython.NULL:
            for j in range(inner):
                memcpy(out + j * size, zero, size)
        else:
            memcpy(out, source, row)
            first = 1
        if inner == 1:
            run(plan, count - first, out, 0, source + first * size, size, out, 0)
        else:
            for j in range(first, count):
                run(plan, inner, out, size, source + j * row, size, out, size)
        source += count * row
        out += row
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def sum_by_product(plan: Plan, source: cython.p_char, out: cython.p_char, count: cython.Py_ssize_t) -> cython.int:
    """Sum a short vector as the kernel of ``tk.sum`` does, by its product with ones."""
    ones: cnp.ndarray = ONES.get(plan.dtype)
    if ones is None:
        ones = ONES[plan.dtype] = np.ones(PRODUCT_SUM, plan.dtype)
    dot: cython.p_void = dot_function(plan.dtype)
    call_dot(dot, source, plan.size, cnp.PyArray_BYTES(ones), plan.size, out, count)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def divide(plan: Plan, out: cython.p_char, size: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.int:
    """Divide sums of float32 or float64 by the number of elements of each."""
    k: cython.Py_ssize_t
    for k in range(size):
        if plan.number == 2:
            cython.cast(cython.p_float, out)[k] /= cython.cast(cython.float, count)
        else:
            cython.cast(cython.p_double, out)[k] /= cython.cast(cython.double, count)
    return 0
