"""Linear algebra: the array API standard's extension ``linalg``, and what array users know beside it.

A name here is an operator whose block begins with ``linalg_`` (``tenkey/ops/builtin``), a function of
``tenkey/functions/linalg.py``, or an operator of the namespace itself that the standard has in both places.
"""

from __future__ import annotations

from typing import Any

from numpy.linalg import LinAlgError

from . import _names
from .functions.linalg import cond, matrix_norm, norm, tensordot
from .ops.builtin.linalg.diagonals import trace
from .ops.builtin.linalg.matmul import matmul
from .ops.builtin.linalg.products import outer, vecdot
from .ops.builtin.shape.views import matrix_transpose

__all__ = [
    "LinAlgError", "cond", "matmul", "matrix_norm", "matrix_transpose", "norm", "outer", "tensordot", "trace", "vecdot",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """An operator that was declared after this module was made."""
    return _names.find_public("linalg", name)


_found = _names.expose("linalg")
globals().update(_found)
__all__.extend(_found)  # noqa: PYI056  # the stub beside it is what type checkers read
