# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, nonecheck=False
# cython: auto_pickle=False, cdivision=True
"""Compute elementwise operations on more elements than a plan's limit.

Note [Large calls in the core]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Large operands displace Python's code from the caches: the few steps that allocate a result and call the driver of
compiled loops then take 30 us in Python, as long as the addition of 2^17 numbers, and 2 here. So the backend tells the
plan where its driver and its loop are, once they are compiled: ``plan.source()`` returns

    the addresses of the driver, the pool, the loop and its data; the driver's widths, chunk and limit; the range of
    sizes that it serves; whether the backend keeps rows whose length is not a multiple of the vector length; the
    operator's name

or None, in which case the next call asks again. The driver takes a tuple of arrays, reads their fields without the GIL,
and returns 0, or 1 if it has computed nothing, as where shapes do not fit. All other calls go to ``plan.large``, a
Python function that returns None for the calls that the kernel computes. Its errors propagate, except those of memory:
a signal handler may raise one after the result has been written.
Guarded by ``tests/core/compiled/test_large.py``.
"""

import cython
import numpy as np
from cython.cimports import numpy as cnp
from cython.cimports.cpython.ref import Py_INCREF
from cython.cimports.tenkey.core.compiled.handles import NDARRAY, Plan

cnp.import_array()

LINE = cython.declare(cython.Py_ssize_t, 64)
ALIGNED = cython.declare(cython.Py_ssize_t, 1 << 16)  # bytes from which a result begins with a cache line
COUNTED = cython.declare(cython.Py_ssize_t, 1 << 20)  # bytes from which the backend counts a result
UINT8 = cython.declare(object, np.dtype(np.uint8))
HOST_MEMORY = cython.declare(type, None)
ALLOCATE = cython.declare(object, None)


def configure(host_memory, allocate, aligned, counted):
    """Receive the class of the memory of results, the function that allocates them, and the sizes where it differs."""
    global HOST_MEMORY, ALLOCATE, ALIGNED, COUNTED
    HOST_MEMORY, ALLOCATE, ALIGNED, COUNTED = host_memory, allocate, aligned, counted


@cython.cfunc
@cython.exceptval(check=False)
def fits(a: cnp.ndarray, plan: Plan) -> cython.bint:
    """Return whether the backend takes an array as it is."""
    return cnp.PyArray_TYPE(a) == plan.type and cnp.PyArray_ISBEHAVED_RO(a)


@cython.cfunc
@cython.exceptval(check=False)
def broadcast(a: cnp.ndarray, b: cnp.ndarray) -> cython.bint:
    """Return whether two arrays have shapes that fit each other."""
    k: cython.int
    n: cython.int = cnp.PyArray_NDIM(a)
    m: cython.int = cnp.PyArray_NDIM(b)
    for k in range(1, min(n, m) + 1):
        d: cnp.npy_intp = cnp.PyArray_DIMS(a)[n - k]
        if d != cnp.PyArray_DIMS(b)[m - k] and d != 1 and cnp.PyArray_DIMS(b)[m - k] != 1:
            return False
    return True


@cython.cfunc
@cython.exceptval(check=False)
def may_meet(a: cnp.ndarray, b: cnp.ndarray) -> cython.bint:
    """Return whether a contiguous array and another one may share memory: strides of that may be negative."""
    first: cython.p_char = cnp.PyArray_BYTES(b)
    last: cython.p_char = first + cnp.PyArray_ITEMSIZE(b)
    k: cython.int
    way: cython.Py_ssize_t
    for k in range(cnp.PyArray_NDIM(b)):
        way = (cnp.PyArray_DIMS(b)[k] - 1) * cnp.PyArray_STRIDES(b)[k]
        if way < 0:
            first += way
        else:
            last += way
    return first < cnp.PyArray_BYTES(a) + cnp.PyArray_NBYTES(a) and cnp.PyArray_BYTES(a) < last


@cython.cfunc
def compute(plan: Plan, a, b) -> cnp.ndarray:
    """Return what the backend computes of one or two arrays that fit; None where it refuses."""
    if plan.large is None:
        return None
    out: cnp.ndarray = driven(plan, a, b)
    if out is None:
        try:
            data = plan.large(a) if b is None else plan.large(a, b)
        except MemoryError:  # the call in Python explains it
            return None
        if type(data) is NDARRAY:
            out = data
    return out if out is not None and cnp.PyArray_TYPE(out) == plan.dtype.type_num else None


@cython.cfunc
def learn(plan: Plan):
    """Ask the backend for the driver of a plan, until there is one."""
    found = None if plan.source is None else plan.source()
    if found is not None:
        (driver, plan.pool, plan.inner, plan.data, plan.widths, plan.chunk, plan.threads_from, plan.least, plan.most,
         plan.whole_vectors, plan.name) = found  # fmt: skip
        plan.driver = driver


@cython.cfunc
def driven(plan: Plan, a: cnp.ndarray, b) -> cnp.ndarray:
    """Return the result of contiguous arrays, which may be repeated; None where the backend has to look."""
    if plan.driver == 0:
        learn(plan)  # which can run any code: the driver serves the next call
        return None
    if not cnp.PyArray_FLAGS(a) & cnp.NPY_ARRAY_C_CONTIGUOUS:
        return None
    if b is not None and not cnp.PyArray_FLAGS(cython.cast(cnp.ndarray, b)) & cnp.NPY_ARRAY_C_CONTIGUOUS:
        return None
    dims: cnp.npy_intp[64]
    n: cython.int = cnp.PyArray_NDIM(a)
    if b is not None and cnp.PyArray_NDIM(cython.cast(cnp.ndarray, b)) > n:
        n = cnp.PyArray_NDIM(cython.cast(cnp.ndarray, b))
    if n > 64:
        return None
    total: cython.Py_ssize_t = 1
    k: cython.int
    for k in range(n):
        d: cython.Py_ssize_t = length(a, n - k)
        other: cython.Py_ssize_t = d if b is None else length(cython.cast(cnp.ndarray, b), n - k)
        if d != other and d != 1:
            if other != 1:
                return None
        elif d != other:
            d = other
        if d <= 0 or d >= plan.most or total * d >= plan.most:
            return None
        dims[k] = d
        total *= d
    if total < plan.least:
        return None
    if plan.whole_vectors and not (is_whole(a, total) and (b is None or is_whole(cython.cast(cnp.ndarray, b), total))):
        if dims[n - 1] * plan.result_size % LINE != 0:
            return None
    out: cnp.ndarray = memory_of(plan, n, dims, total)
    if out is None or not fits(a, plan) or (b is not None and not fits(b, plan)):  # allocating can run any code
        return None
    return out if run(plan, (a, out) if b is None else (a, b, out)) else None


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def length(a: cnp.ndarray, place: cython.int) -> cython.Py_ssize_t:
    """Return the length of an axis, counted from 1 for the last."""
    n: cython.int = cnp.PyArray_NDIM(a)
    return cnp.PyArray_DIMS(a)[n - place] if place <= n else 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_whole(a: cnp.ndarray, total: cython.Py_ssize_t) -> cython.bint:
    """Return whether an operand has an element for each of the result, or one for all."""
    return cnp.PyArray_SIZE(a) == total or cnp.PyArray_SIZE(a) == 1


@cython.cfunc
@cython.exceptval(-1, check=False)
def run(plan: Plan, operands: tuple) -> cython.bint:
    """Run the driver; return whether it has computed the result."""
    refused: cython.longlong
    arrays: cython.p_void = cython.cast(cython.p_void, operands)
    driver, pool, inner, data = plan.driver, plan.pool, plan.inner, plan.data
    widths, chunk, threads_from = plan.widths, plan.chunk, plan.threads_from
    with cython.nogil:
        refused = drive(driver, pool, inner, data, widths, chunk, threads_from, arrays)
    return refused == 0


@cython.cfunc
def memory_of(plan: Plan, n: cython.int, dims: cython.pointer(cnp.npy_intp), total: cython.Py_ssize_t) -> cnp.ndarray:
    """Return a new array in C order for a result, as the backend allocates it; None where that fails."""
    nbytes: cython.Py_ssize_t = total * plan.result_size
    if nbytes >= COUNTED:
        try:
            return ALLOCATE(tuple([dims[k] for k in range(n)]), plan.dtype, plan.name)
        except MemoryError:
            return None
    no = cython.NULL
    if nbytes < ALIGNED:
        Py_INCREF(plan.dtype)  # PyArray_NewFromDescr steals the reference
        return new_from_descr(NDARRAY, plan.dtype, n, dims, no, no, 0, no)
    room: cnp.npy_intp = nbytes + LINE
    Py_INCREF(UINT8)
    memory: cnp.ndarray = new_from_descr(HOST_MEMORY, UINT8, 1, cython.address(room), no, no, 0, no)
    start: cython.p_char = cnp.PyArray_BYTES(memory)
    start += (LINE - cython.cast(cython.size_t, start) % LINE) % LINE
    Py_INCREF(plan.dtype)
    out: cnp.ndarray = new_from_descr(NDARRAY, plan.dtype, n, dims, no, start, cnp.NPY_ARRAY_CARRAY, no)
    cnp.set_array_base(out, memory)
    return out


@cython.cfunc
@cython.exceptval(-1, check=False)
def compute_into(plan: Plan, a: cnp.ndarray, b) -> cython.bint:
    """Compute into the first array, which is contiguous; ``b`` has its shape or one element, and its own memory."""
    if plan.large is None:
        return False
    if plan.driver != 0 and plan.least <= cnp.PyArray_SIZE(a) and run(plan, (a, b, a)):
        return True
    done: cython.bint = plan.large(a, b)
    if done and plan.driver == 0:
        learn(plan)
    return done
