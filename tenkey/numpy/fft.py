"""Discrete Fourier transforms with NumPy's names, arguments and result dtypes: ``numpy.fft``."""

from . import namespace as _namespace  # which makes the functions
from .public_names import fill as _fill

_fill("fft", globals())
