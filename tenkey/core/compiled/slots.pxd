# Declarations of slots.py; see there.
cimport numpy as cnp
from tenkey.core.compiled.handles cimport Handle, Table

cdef extern from "numpy/arrayobject.h":
    object get_element "PyArray_GETITEM" (cnp.ndarray array, void* place)

cdef class Slot:
    cdef Table tensors, arrays
    cdef Table of(self, type kind)
    cdef Table rules_of(self, type kind)

cdef class Operations(Handle):
    pass

cdef class Callable:
    cdef object general
    cdef Table table
    cdef int operands
