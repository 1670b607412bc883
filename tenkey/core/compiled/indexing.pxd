# Declarations of indexing.py; see there.
cimport numpy as cnp
from tenkey.core.compiled.handles cimport Handle, Table

cdef extern from "Python.h":
    int PySlice_Unpack(object slice, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t* step) except -1
    Py_ssize_t PySlice_AdjustIndices(Py_ssize_t length, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t step)
    object PySlice_start "tenkey_slice_start" (object slice)
    object PySlice_stop "tenkey_slice_stop" (object slice)
    object PySlice_step "tenkey_slice_step" (object slice)

cdef extern from *:
    """
    /* The parts of a slice, without a call of Python code. */
    static CYTHON_INLINE PyObject* tenkey_slice_part(PyObject* part) { Py_INCREF(part); return part; }
    #define tenkey_slice_start(x) tenkey_slice_part(((PySliceObject*)(x))->start)
    #define tenkey_slice_stop(x) tenkey_slice_part(((PySliceObject*)(x))->stop)
    #define tenkey_slice_step(x) tenkey_slice_part(((PySliceObject*)(x))->step)
    """

cdef extern from *:
    """
    /* ``a[index]``, or None where that raises one of the exceptions. */
    static PyObject* tenkey_item(PyObject* a, PyObject* index, PyObject* exceptions) {
        PyObject* result = PyObject_GetItem(a, index);
        if (result != NULL || !PyErr_ExceptionMatches(exceptions)) return result;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    """
    object item_or_none "tenkey_item" (object a, object index, object exceptions)

cdef subscript(Table table, Table takes, Handle x, index, unsigned long long* missed)
cdef bint assign(Table table, Table puts, Handle x, index, value, unsigned long long* missed) except -1
cdef reshaped(Table table, type kind, x, shape, unsigned long long* missed)
cdef reversed_axes(Table table, type kind, x, unsigned long long* missed)
