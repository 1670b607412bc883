# Declarations of slots.py; see there.
cimport numpy as cnp
from tenkey.core.compiled.handles cimport Handle, Table

cdef extern from "numpy/arrayobject.h":
    object get_element "PyArray_GETITEM" (cnp.ndarray array, void* place)

cdef extern from *:
    """
    /* Calls of instances of a class go to the function in a field of theirs (PEP 590): the one at `field` in `instance`. */
    static int tenkey_use_vectorcall(PyObject* instance, void* field) {
        PyTypeObject* type = Py_TYPE(instance);
        type->tp_vectorcall_offset = (char*)field - (char*)instance;
        type->tp_call = PyVectorcall_Call;
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
        PyType_Modified(type);
        return 0;
    }
    """
    int use_vectorcall "tenkey_use_vectorcall" (object instance, void* field)

cdef extern from "Python.h":
    ctypedef struct PyObject:
        pass
    object vectorcall "PyObject_Vectorcall" (object function, PyObject** args, size_t count, PyObject* names)
    size_t PY_VECTORCALL_ARGUMENTS_OFFSET

cdef class Slot:
    cdef Table tensors, arrays
    cdef Table of(self, type kind)
    cdef Table rules_of(self, type kind)

cdef class Operations(Handle):
    pass

cdef class Entry:
    cdef void* vectorcall
    cdef readonly object general
    cdef Table table
    cdef int form, operands
    cdef bint of_arrays
    cdef dict __dict__

cdef class Callable:
    cdef object general
    cdef Table table
    cdef int operands
