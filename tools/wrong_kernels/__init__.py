"""Wrong kernels that the conformance suite for backends must notice; ``python -m tools.wrong_kernels`` tries them."""

from __future__ import annotations

from typing import Final

from .elementwise import ELEMENTWISE
from .indexing import INDEXING
from .memory import MEMORY
from .rows import ROWS
from .wrong import NAME, Wrong

__all__ = ["NAME", "WRONG", "Wrong"]

WRONG: Final = (*ELEMENTWISE, *ROWS, *INDEXING, *MEMORY)
