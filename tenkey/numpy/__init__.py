"""NumPy's names, arguments and rules for tensors: ``import tenkey.numpy as np``.

The namespace has the names of NumPy 2 with their arguments and defaults. Results are instances of ``ndarray``, a Tensor
with NumPy's rules: with gradients, on any device. ``docs/numpy.md`` explains the rules and lists all names.

>>> import tenkey.numpy as tnp
>>> tnp.linspace(0, 1, 3), tnp.mean([1, 2, 3, 4])
(array([0. , 0.5, 1. ]), np.float64(2.5))
"""

from typing import Any as _Any

from . import creating, fft, linalg, short_ways
from .array_class import ndarray
from .array_parts.array_methods import install
from .converting import host_calls, operators_only
from .own_functions import applying, dimensions, overwriting
from .own_functions.index_makers import c_, mgrid, ndenumerate, ogrid, r_
from .own_functions.polynomial_class import poly1d
from .own_functions.vectorizing import vectorize
from .public_names import fill, find
from .universal import ufunc

install()
fill("", globals())
del applying, creating, dimensions, fill, install, overwriting, short_ways


def __getattr__(name: str) -> _Any:
    """Find a module that is loaded at its first use; explain why another name is not here."""
    return find(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *globals()["__all__"]})
