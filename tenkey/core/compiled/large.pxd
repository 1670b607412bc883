# Declarations of large.py; see there.
cimport numpy as cnp
from tenkey.core.compiled.handles cimport Plan

cdef cnp.ndarray compute(Plan plan, a, b)
cdef cnp.ndarray driven(Plan plan, cnp.ndarray a, b)
cdef bint compute_into(Plan plan, cnp.ndarray a, b) except -1
cdef bint fits(cnp.ndarray a, Plan plan) noexcept
cdef bint broadcast(cnp.ndarray a, cnp.ndarray b) noexcept
cdef bint may_meet(cnp.ndarray a, cnp.ndarray b) noexcept

cdef extern from "numpy/arrayobject.h":
    object new_from_descr "PyArray_NewFromDescr" (
        type kind, cnp.dtype dtype, int ndim, cnp.npy_intp* dims, cnp.npy_intp* strides, void* data, int flags, void* x)

cdef extern from *:
    """
    /* The driver of compiled loops: Note [Large calls in the core]. */
    static CYTHON_INLINE long long tenkey_drive(
        long long driver, long long pool, long long loop, long long data, long long widths, long long chunk,
        long long limit, PyObject* operands) {
        return ((long long (*)(void*, long long, long long, long long, long long, long long, void*))(size_t)driver)(
            (void*)(size_t)pool, loop, data, widths, chunk, limit, operands);
    }
    """
    long long drive "tenkey_drive" (
        long long driver, long long pool, long long loop, long long data, long long widths, long long chunk,
        long long limit, void* operands) nogil
