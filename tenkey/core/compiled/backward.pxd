# Declarations of backward.py; see there.
cdef extern from "Python.h":
    Py_ssize_t references "Py_REFCNT" (object x) noexcept
