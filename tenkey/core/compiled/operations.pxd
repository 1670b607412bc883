from tenkey.core.compiled.handles cimport Handle

cdef double doubled(Handle x)
