# Written by `python -m tools.make_stubs` from the operators' schemas: edit those, and run it again.
"""Linear algebra: the array API standard's extension ``linalg``, and what array users know beside it."""

from tenkey.core.tensor import Tensor
from tenkey.core.typing import TensorLike

__all__ = [
    "cholesky",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
]


def cholesky(x: Tensor, *, upper: bool = False) -> Tensor:
    """The triangular factor of a Hermitian positive definite matrix, or of each matrix of a stack."""
def det(x: Tensor) -> Tensor:
    """Determinant of a square matrix, or of each matrix of a stack."""
def eig(x: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of a square matrix, or of each matrix of a stack."""
def eigh(x: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of a Hermitian (real: symmetric) matrix, or of each matrix of a stack."""
def eigvals(x: Tensor) -> Tensor:
    """Eigenvalues of a square matrix, in no particular order, or of each matrix of a stack."""
def eigvalsh(x: Tensor) -> Tensor:
    """Eigenvalues of a Hermitian (real: symmetric) matrix, ascending, or of each matrix of a stack."""
def inv(x: Tensor) -> Tensor:
    """Inverse of a square matrix, or of each matrix of a stack."""
def qr(x: Tensor, *, mode: str = 'reduced') -> tuple[Tensor, Tensor]:
    """QR decomposition ``x = Q @ R`` of a matrix, or of each matrix of a stack: orthonormal columns, upper triangle."""
def slogdet(x: Tensor) -> tuple[Tensor, Tensor]:
    """Sign and natural logarithm of the absolute value of the determinant, which do not overflow."""
def solve(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The solution of the systems ``x1 @ x = x2``."""
def svd(x: Tensor, *, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Singular value decomposition ``x = U @ diag(S) @ Vh`` of a matrix, or of each matrix of a stack."""
def svdvals(x: Tensor) -> Tensor:
    """Singular values of a matrix, descending, or of each matrix of a stack."""
