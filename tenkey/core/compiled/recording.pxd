# Declarations of recording.py; see there.
from tenkey.core.compiled.handles cimport Handle, Plan, Recipe, STORAGE, tenkey_get, wrapped

cdef extern from *:
    """
    #ifdef _MSC_VER
    #define TENKEY_OF_THREAD __declspec(thread)
    #else
    #define TENKEY_OF_THREAD __thread
    #endif
    /* The number of the next recorded call of a thread; only recording.py calls it. */
    CYTHON_UNUSED static long long tenkey_next_call(void) {
        static TENKEY_OF_THREAD long long next = 0;
        return next++;
    }
    """
    long long tenkey_next_call() noexcept

cdef node_of(edge)
cdef int record(Recipe recipe, Handle result, tuple operands, tuple options) except -1

cdef inline window(Plan plan, type kind, Handle x, data, tuple extras):
    """Return a view of a tensor (Note [Views share a version counter])."""
    root = tenkey_get(x, 2)
    if root is None or type(root) is STORAGE:
        root = x
    cdef Handle result = wrapped(kind, data, plan.word, root)
    if plan.recipe is not None:
        record(plan.recipe, result, (x,), extras)
    return result
