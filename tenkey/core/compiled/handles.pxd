# The hash of the sources, which hatch_build.py writes into the C text of each module:
cdef extern from *:
    const char* TENKEY_SOURCE_HASH

cdef class Handle:
    cdef public double value
