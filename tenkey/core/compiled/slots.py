"""Stand-in for the slots of the compiled core."""

from cython.cimports.tenkey.core.compiled.handles import Handle
from cython.cimports.tenkey.core.compiled.operations import doubled


def twice(x: Handle) -> float:
    """Return twice the value of a handle."""
    return doubled(x)
