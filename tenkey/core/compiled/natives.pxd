# Declarations of natives.py; see there.
from tenkey.core.compiled.slots cimport Entry, PyObject

cdef extern from "Python.h":
    PyObject* known_value "PyDict_GetItemWithError" (object known, object key) except? NULL

cdef extern from *:
    """
    /* The result of a call, or None where it raises an Exception; KeyboardInterrupt and its like are raised. */
    static PyObject* tenkey_attempt(PyObject* function, PyObject** args, size_t count, PyObject* names) {
        PyObject* result = PyObject_Vectorcall(function, args, count, names);
        if (result != NULL || !PyErr_ExceptionMatches(PyExc_Exception)) return result;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    """
    object attempt "tenkey_attempt" (object function, PyObject** args, size_t count, PyObject* names)

cdef class NativeEntry(Entry):
    cdef object prepare, word, seen
    cdef readonly object function, known
    cdef frozenset names
    cdef char kinds[4]
    cdef Py_ssize_t least, most, limit, largest
    cdef bint is_view, is_zeros
