"""Linear algebra with NumPy's names, arguments and result dtypes: ``numpy.linalg``."""

from . import namespace as _namespace  # which makes the functions
from .public_names import fill as _fill

_fill("linalg", globals())
