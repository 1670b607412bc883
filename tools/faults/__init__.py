"""The faults that ``python -m tools.fault_injection`` applies, each a one-line edit that the fast tier must notice.

``old`` occurs once in the file at ``path``, and ``new`` takes its place. ``tests`` are arguments of pytest, files or
single tests without ``-k``, so that those of many faults fit into one run. ``tests/package/test_fault_injection.py``
checks the list. When a change of the package removes a text of the list, break the code that took its place instead.
"""

from __future__ import annotations

from typing import Final

from .autograd import AUTOGRAD, TRANSFORMS
from .below_operators import CORE, DISPATCH
from .cuda import CUDA
from .fault import Fault
from .operators import OPERATORS
from .others import BACKENDS, LIBRARY, OTHERS

__all__ = ["FAULTS", "Fault"]

FAULTS: Final = (*DISPATCH, *CORE, *OPERATORS, *BACKENDS, *CUDA, *AUTOGRAD, *TRANSFORMS, *LIBRARY, *OTHERS)
