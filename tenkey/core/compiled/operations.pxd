# Declarations of operations.py; see there.
cimport numpy as cnp
from tenkey.core.compiled.handles cimport Handle, Plan, Table

cdef unsigned long long operand_word(type kind, x, Table table) noexcept
cdef unary(Table table, type kind, x, unsigned long long* missed)
cdef binary(Table table, type kind, x, y, unsigned long long* missed)
cdef empty(cnp.dtype dtype, int ndim, cnp.npy_intp* dims)
cdef cnp.ndarray pair(Plan plan, x, y)
cdef bint add_to(Plan plan, Handle x, Handle y) except -1
cdef bint update(Table table, Handle x, y, unsigned long long* missed) except -1
cdef select(Table table, condition, x, y, unsigned long long* missed)
cdef reduce(Table table, type kind, x, axis, bint keepdims, unsigned long long* missed)
cdef product(Table table, type kind, x, y, unsigned long long* missed)
cdef int changed(Handle x) except -1
cdef bint is_number(x) noexcept
cdef bint may_change(Handle x) except -1

cdef extern from "numpy/arrayobject.h":
    object new_scalar "PyArray_Scalar" (void* data, cnp.dtype dtype, object base)
    object new_from_descr "PyArray_NewFromDescr" (
        type kind, cnp.dtype dtype, int ndim, cnp.npy_intp* dims, cnp.npy_intp* strides, void* data, int flags, void* x)

cdef extern from *:
    """
    /* NumPy's product of two vectors of a dtype, by BLAS where it has one. */
    static CYTHON_INLINE void* tenkey_dot(PyObject* dtype) {
        return (void*)PyDataType_GetArrFuncs((PyArray_Descr*)dtype)->dotfunc;
    }
    static CYTHON_INLINE void tenkey_call_dot(void* dot, char* x, npy_intp step, char* y, npy_intp other, char* out, npy_intp n) {
        ((PyArray_DotFunc*)dot)(x, step, y, other, out, n, NULL);
    }
    static CYTHON_INLINE PyObject* tenkey_base(PyObject* array) {
        PyObject* base = PyArray_BASE((PyArrayObject*)array);
        if (base == NULL) base = Py_None;
        Py_INCREF(base);
        return base;
    }
    """
    void* dot_function "tenkey_dot" (object dtype)
    void call_dot "tenkey_call_dot" (
        void* dot, char* x, cnp.npy_intp step, char* y, cnp.npy_intp other, char* out, cnp.npy_intp n)
    object array_base "tenkey_base" (object array)
