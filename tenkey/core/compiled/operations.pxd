# Declarations of operations.py; see there.
cimport numpy as cnp
from tenkey.core.compiled.handles cimport Handle, Plan, Table

cdef unsigned long long operand_word(type kind, x, Table table) noexcept
cdef unary(Table table, type kind, x, unsigned long long* missed)
cdef binary(Table table, type kind, x, y, unsigned long long* missed)
cdef empty(cnp.dtype dtype, int ndim, cnp.npy_intp* dims)
cdef cnp.ndarray pair(Plan plan, x, y)
cdef int run(
    Plan plan, cnp.npy_intp count, char* first, cnp.npy_intp step1, char* second, cnp.npy_intp step2, char* out,
    cnp.npy_intp step3) except -1
cdef bint add_to(Plan plan, Handle x, Handle y) except -1
cdef bint update(Table table, Handle x, y, unsigned long long* missed) except -1
cdef select(Table table, condition, x, y, unsigned long long* missed)
cdef product(Table table, type kind, x, y, unsigned long long* missed)
cdef int changed(Handle x) except -1
cdef bint is_number(x) noexcept
cdef bint may_change(Handle x) except -1

cdef extern from "numpy/arrayobject.h":
    object new_scalar "PyArray_Scalar" (void* data, cnp.dtype dtype, object base)
