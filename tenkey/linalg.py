"""Linear algebra: the array API standard's extension ``linalg``, and what array users know beside it.

A name here is an operator whose block begins with ``linalg_`` (``tenkey/ops/builtin``), a function of
``tenkey/contractions.py``, or an operator of the namespace itself that the standard has in both places.
"""

from __future__ import annotations

from typing import Any

from numpy.linalg import LinAlgError

from . import _names
from .contractions import cond, matrix_norm, norm, tensordot
from .ops.builtin.linalg import matmul
from .ops.builtin.linalg_diagonals import trace
from .ops.builtin.linalg_products import outer, vecdot
from .ops.builtin.view import matrix_transpose

__all__ = [
    "LinAlgError", "cond", "matmul", "matrix_norm", "matrix_transpose", "norm", "outer", "tensordot", "trace", "vecdot",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """An operator that was declared after this module was made."""
    return _names.find_public("linalg", name)


_found = _names.expose("linalg")
globals().update(_found)
__all__.extend(_found)  # noqa: PYI056  # the stub beside it is what type checkers read
