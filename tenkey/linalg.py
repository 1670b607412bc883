"""Linear algebra: the extension ``linalg`` of the array API standard, and functions beyond it.

A name is an operator whose block begins with ``linalg_`` (``tenkey/ops/builtin``), a function of
``tenkey/functions``, or an operator of the namespace that the standard also lists here.
"""

from numpy.linalg import LinAlgError

from ._names import fill_module
from .functions.calculating.tensor_systems import tensorinv, tensorsolve
from .functions.linalg import tensordot
from .functions.matrix_norms import cond, matrix_norm, norm
from .ops.builtin import load as _load
from .ops.builtin.linalg.diagonals import trace
from .ops.builtin.linalg.matmul import matmul
from .ops.builtin.shape.views import matrix_transpose

_load("linalg.products")  # Note [Operators that are declared on first use]
from .ops.builtin.linalg.products import outer, vecdot  # noqa: E402

__all__ = [
    "LinAlgError", "cond", "matmul", "matrix_norm", "matrix_transpose", "norm", "outer", "tensordot", "tensorinv",
    "tensorsolve", "trace", "vecdot",
]  # fmt: skip
__getattr__ = fill_module("linalg", globals())
