"""``numpy.fft`` for tensors."""

import numpy as _numpy

from .namespace import functions as _functions

globals().update({name.partition(".")[2]: f for name, f in _functions.items() if name.startswith("fft.")})
