"""NumPy's names, arguments and rules for tensors: ``import tenkey.numpy as np``.

The namespace has the names of NumPy 2 with their arguments and defaults. Results are instances of ``ndarray``, a Tensor
with NumPy's rules: with gradients, on any device. ``docs/numpy.md`` explains the rules and lists all names.

>>> import tenkey.numpy as tnp
>>> tnp.linspace(0, 1, 3), tnp.mean([1, 2, 3, 4])
(array([0. , 0.5, 1. ]), array(2.5))
"""

from typing import Any as _Any

from . import creating, fft, linalg, short_ways
from .array_class import ndarray
from .arrays.methods import install
from .converting import host_calls, operators_only
from .index_makers import c_, mgrid, ndenumerate, ogrid, r_
from .names import fill, find
from .polynomials import poly1d
from .shapes import applying, dimensions, writing
from .universal import ufunc
from .vectorizing import vectorize

install()
fill("", globals())
del applying, creating, dimensions, fill, install, short_ways, writing


def __getattr__(name: str) -> _Any:
    """Find ``random`` at its first use; explain why another name is not here."""
    return find(name)
