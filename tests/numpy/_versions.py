"""What older versions of NumPy do otherwise, for tests that compare with the installed one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

import numpy as np

__all__ = ["COMPARES_UNSIGNED", "EIG_IS_COMPLEX", "SHORT_POWERS", "tells_parameters"]

_VERSION: Final = np.lib.NumpyVersion(np.__version__)
SHORT_POWERS: Final = _VERSION < "2.3.0"
"""Whether ``**`` squares, or takes a root, for NumPy's own scalars as well: in another dtype than ``power``."""
COMPARES_UNSIGNED: Final = _VERSION >= "2.2.0"
"""Whether windows of unsigned integers can be compared with negative numbers; before, that may end the process."""

EIG_IS_COMPLEX: Final = _VERSION >= "2.5.0"
"""Whether ``eig`` and ``eigvals`` of real matrices are complex always."""


def tells_parameters(function: Callable[..., Any]) -> bool:
    """Whether a function has a signature; without one a call of ours has no short way."""
    try:
        inspect.signature(function)
    except ValueError:
        return False
    return True
