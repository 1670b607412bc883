# Declarations of recording.py; see there.
from tenkey.core.compiled.handles cimport Handle, Plan, Recipe

cdef extern from *:
    """
    #ifdef _MSC_VER
    #define TENKEY_OF_THREAD __declspec(thread)
    #else
    #define TENKEY_OF_THREAD __thread
    #endif
    /* The number of the next recorded call of a thread; only recording.py calls it. */
    static CYTHON_UNUSED long long tenkey_next_call(void) {
        static TENKEY_OF_THREAD long long next = 0;
        return next++;
    }
    """
    long long tenkey_next_call() noexcept

cdef node_of(edge)
cdef window(Plan plan, type kind, Handle x, data, tuple extras)
cdef int record(Recipe recipe, Handle result, tuple operands, tuple options) except -1
