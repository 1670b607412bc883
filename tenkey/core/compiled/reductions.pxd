# Declarations of reductions.py; see there.
cimport numpy as cnp
from tenkey.core.compiled.handles cimport Table

cdef reduce(Table table, type kind, x, axis, bint keepdims, unsigned long long* missed)

cdef extern from *:
    """
    /* NumPy's product of two vectors of a dtype, by BLAS where it has one. */
    static CYTHON_INLINE void* tenkey_dot(PyObject* dtype) {
        return (void*)PyDataType_GetArrFuncs((PyArray_Descr*)dtype)->dotfunc;
    }
    static CYTHON_INLINE void tenkey_call_dot(void* dot, char* x, npy_intp step, char* y, npy_intp other, char* out, npy_intp n) {
        ((PyArray_DotFunc*)dot)(x, step, y, other, out, n, NULL);
    }
    """
    void* dot_function "tenkey_dot" (object dtype)
    void call_dot "tenkey_call_dot" (
        void* dot, char* x, cnp.npy_intp step, char* y, cnp.npy_intp other, char* out, cnp.npy_intp n)
