# Declarations of recording.py; see there.
from tenkey.core.compiled.handles cimport Handle, Plan, Recipe

cdef window(Plan plan, type kind, Handle x, data, tuple extras)
cdef int record(Recipe recipe, Handle result, tuple operands, tuple options) except -1
