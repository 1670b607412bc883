# Declarations of slots.py; see there.
cimport numpy as cnp
from tenkey.core.compiled.handles cimport Handle, Table

cdef extern from "Python.h":
    ctypedef struct PyObject:
        pass

cdef extern from "numpy/arrayobject.h":
    object get_element "PyArray_GETITEM" (cnp.ndarray array, void* place)

cdef extern from *:
    """
    /* Calls of instances of a class go to the function in a field of theirs (PEP 590): the one at `field` in `instance`. */
    static int tenkey_use_vectorcall(PyObject* instance, void* field) {
        PyTypeObject* type = Py_TYPE(instance);
        type->tp_vectorcall_offset = (char*)field - (char*)instance;
        type->tp_call = PyVectorcall_Call;
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR; /* called with its instance */
        PyType_Modified(type);
        return 0;
    }
    """
    int use_vectorcall "tenkey_use_vectorcall" (object instance, void* field)

ctypedef object (*Getter)(PyObject*, PyObject*, PyObject*)

cdef extern from *:
    """
    /* Let a function get the attribute of the instances of a class of descriptors. */
    static void tenkey_use_getter(PyTypeObject* kind, PyObject* (*getter)(PyObject*, PyObject*, PyObject*)) {
        kind->tp_descr_get = getter;
    }
    """
    void use_getter "tenkey_use_getter" (type kind, Getter getter)

cdef extern from "Python.h":
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

cdef on_native(data)
cpdef view(Handle root, data)
cdef bint is_plain_state() noexcept
