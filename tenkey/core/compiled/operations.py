"""Stand-in for the operations of the compiled core."""

import cython
from cython.cimports import numpy as cnp
from cython.cimports.tenkey.core.compiled.handles import Handle

cnp.import_array()


@cython.cfunc
def doubled(x: Handle) -> cython.double:
    """Return twice the value."""
    return 2 * x.value


def size_of(array: cnp.ndarray) -> int:
    """Return the number of elements."""
    return array.size
