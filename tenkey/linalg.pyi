# Written by `python -m tools.make_stubs` from the operators' schemas: edit those, and run it again.
"""Linear algebra: the extension ``linalg`` of the array API standard, and functions beyond it."""

from collections.abc import Sequence
from numpy.linalg import LinAlgError as LinAlgError
from tenkey.core.tensor import Tensor
from tenkey.core.typing import DTypeLike, TensorLike
from tenkey.functions.linalg import cond as cond, matrix_norm as matrix_norm, norm as norm, tensordot as tensordot
from tenkey.ops.builtin.linalg.decompositions import QRResult, SVDResult
from tenkey.ops.builtin.linalg.eigen import EigResult, EighResult
from tenkey.ops.builtin.linalg.lu import LUResult
from tenkey.ops.builtin.linalg.norms import LstsqResult
from tenkey.ops.builtin.linalg.solve import SlogdetResult

__all__ = [
    "LinAlgError",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "lu",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


def cholesky(x: Tensor, *, upper: bool = False) -> Tensor:
    """The triangular factor of a Hermitian positive definite matrix, or of each matrix of a stack."""
def cross(x1: Tensor, x2: Tensor, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of three components along an axis; the other dimensions broadcast."""
def det(x: Tensor) -> Tensor:
    """Determinant of a square matrix, or of each matrix of a stack."""
def diagonal(x: Tensor, offset: int = 0) -> Tensor:
    """A diagonal of a matrix, or of each matrix of a stack; a view."""
def eig(x: Tensor) -> EigResult:
    """Eigenvalues and eigenvectors of a square matrix, or of each matrix of a stack."""
def eigh(x: Tensor) -> EighResult:
    """Eigenvalues and eigenvectors of a Hermitian (real: symmetric) matrix, or of each matrix of a stack."""
def eigvals(x: Tensor) -> Tensor:
    """Eigenvalues of a square matrix, in no particular order, or of each matrix of a stack."""
def eigvalsh(x: Tensor) -> Tensor:
    """Eigenvalues of a Hermitian (real: symmetric) matrix, ascending, or of each matrix of a stack."""
def inv(x: Tensor) -> Tensor:
    """Inverse of a square matrix, or of each matrix of a stack."""
def lstsq(
    x1: TensorLike,
    x2: TensorLike,
    rcond: TensorLike | None = None,
    *,
    rtol: TensorLike | None = None,
) -> LstsqResult:
    """The vectors x for which the length of ``x1 @ x - x2`` is least; of several, the shortest."""
def lu(x: Tensor) -> LUResult:
    """LU decomposition ``x = P @ L @ U`` with row exchanges, of a matrix or of each matrix of a stack."""
def matmul(x1: Tensor, x2: Tensor) -> Tensor:
    """Matrix product over the last two dimensions, broadcasting the others; a 1-d operand is a vector."""
def matrix_exp(x: Tensor) -> Tensor:
    """The exponential of a square matrix, or of each matrix of a stack (not of its elements)."""
def matrix_power(x: Tensor, n: int) -> Tensor:
    """The product of ``n`` copies of a square matrix; for a negative ``n``, of copies of its inverse."""
def matrix_rank(x: Tensor, *, rtol: TensorLike | None = None) -> Tensor:
    """The number of singular values that are larger than ``rtol`` times the largest one."""
def matrix_transpose(x: Tensor) -> Tensor:
    """Return a view with the last two dimensions exchanged."""
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of a chain of matrices, multiplied in the cheapest order."""
def outer(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The matrix of all products of an element of one vector with an element of another."""
def pinv(x: Tensor, *, rtol: TensorLike | None = None) -> Tensor:
    """The Moore-Penrose inverse of a matrix, or of each matrix of a stack."""
def qr(x: Tensor, *, mode: str = 'reduced') -> QRResult:
    """QR decomposition ``x = Q @ R`` of a matrix, or of each matrix of a stack: orthonormal columns, upper triangle."""
def slogdet(x: Tensor) -> SlogdetResult:
    """Sign and natural logarithm of the absolute value of the determinant, which do not overflow."""
def solve(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The solution of the systems ``x1 @ x = x2``."""
def svd(x: Tensor, *, full_matrices: bool = True) -> SVDResult:
    """Singular value decomposition ``x = U @ diag(S) @ Vh`` of a matrix, or of each matrix of a stack."""
def svdvals(x: Tensor) -> Tensor:
    """Singular values of a matrix, descending, or of each matrix of a stack."""
def trace(x: Tensor, offset: int = 0, *, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of a diagonal of a matrix, or of each matrix of a stack; integers are summed in 64 bits."""
def vecdot(x1: Tensor, x2: Tensor, *, axis: int = -1) -> Tensor:
    """The dot product along an axis, of the conjugate of ``x1`` with ``x2``; the other dimensions broadcast."""
def vector_norm(
    x: Tensor,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ord: float = 2.0,
) -> Tensor:
    """The norm of the elements along axes: ``(sum(abs(x)**ord))**(1 / ord)``."""
