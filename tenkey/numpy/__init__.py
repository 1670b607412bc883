"""NumPy's names, arguments and rules for tensors: ``import tenkey.numpy as np``.

The namespace has the names of NumPy 2 with their arguments and defaults; results are :class:`ndarray`, a Tensor, with
gradients and on any device. See ``docs/numpy.md`` for the rules and for the table of names.

>>> import tenkey.numpy as tnp
>>> tnp.linspace(0, 1, 3), tnp.mean([1, 2, 3, 4])
(array([0. , 0.5, 1. ]), array(2.5))
"""

import numpy as _numpy

from . import creating as _creating
from . import fft, linalg, random
from .array_class import ndarray
from .arrays.methods import install as _install
from .converting import host_calls, operators_only
from .grids import c_, mgrid, ogrid, r_
from .names import fill as _fill
from .polynomials import poly1d
from .universal import ufunc
from .vectorizing import vectorize

_install()
_fill(globals())
del _fill, _install


def __getattr__(name: str) -> object:
    from .names import missing

    raise missing(name)
