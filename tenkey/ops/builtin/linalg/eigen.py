"""Eigenvalues and eigenvectors. For the gradients see Note [Gradients of decompositions]."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.tensor import Tensor
from ...declare import Entry, TensorSpec, composite
from ..elementwise.comparison import where
from ..elementwise.complex import conj, like_operand, real
from ..results import EighResult, EigResult
from ..shape.copying import cast
from ..shape.views import expand_dims
from .common import (
    adjoint,
    as_diagonal,
    check_square,
    differences,
    hermitian,
    lapack,
    on_diagonal,
    reciprocal_off_diagonal,
    square_samples,
)
from .matmul import matmul
from .solve import solve

# ---- Hermitian eigenproblems


def _hermitian_samples(rng: np.random.Generator) -> Any:
    for shape in ((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2)):
        a = rng.uniform(-0.6, 0.6, shape)
        yield (a + np.swapaxes(a, -1, -2) + 2.0 * np.diag(np.arange(1.0, shape[-1] + 1)),), {}


def _eigh_meta(x: Tensor) -> Any:
    dtype = check_square("linalg.eigh", x)
    return TensorSpec(x.shape[:-1], dtypes.real_of(dtype)), TensorSpec(x.shape, dtype)


def _plus_diagonal(inner: Tensor | None, g_values: Tensor | None) -> Tensor | None:
    """Add the gradient of the eigenvalues to what follows from that of the eigenvectors."""
    if g_values is None:
        return inner
    diagonal = as_diagonal(g_values)
    return diagonal if inner is None else inner + diagonal


def _eigh_vjp(g: Any, out: Any) -> Tensor:
    g_values, g_vectors = g
    w, v = out
    inner = None
    if g_vectors is not None:
        inner = matmul(adjoint(v), g_vectors) * reciprocal_off_diagonal(differences(w))
    inner = _plus_diagonal(inner, g_values)
    return hermitian(v * 0 if inner is None else matmul(matmul(v, inner), adjoint(v)))


_eigh = lapack("lapack_eigh(Tensor x) -> (Tensor, Tensor)", np.linalg.eigh, meta=_eigh_meta, vjp={"x": _eigh_vjp})


def _eig_probe(call: Any, x: Tensor) -> Any:
    """Return the values and the projections onto the vectors, which do not depend on the factors of the columns."""
    w, v = call(x)
    return w, expand_dims(v, -2) * conj(expand_dims(v, -3))


def _eigh_compared(found: Any, x: Any) -> Any:
    """Return the values, the matrix with these values and vectors, and the products of the vectors."""
    w, v = found
    adjoint_v = np.conj(np.swapaxes(v, -1, -2))
    return w, (v * w[..., None, :]) @ adjoint_v, adjoint_v @ v


@composite(
    "linalg_eigh(Tensor x) -> (Tensor eigenvalues, Tensor eigenvectors)",
    sample_inputs=_hermitian_samples,
    gradcheck_wrapper=lambda call, x: _eig_probe(call, hermitian(x)),
    compared=_eigh_compared,
)
def eigh(x: Tensor) -> EighResult:
    """Compute eigenvalues and eigenvectors of a Hermitian (real: symmetric) matrix or of each matrix of a stack.

    Args: x: shape (..., M, M), floating or complex; integers are converted to floats. Only the lower triangle is read.
    Returns a named tuple ``(eigenvalues, eigenvectors)``: real and ascending, shape (..., M); columns of length 1,
    shape (..., M, M). Raises ValueError for other shapes. The gradient is Hermitian, and correct for functions that do
    not depend on the choice of the eigenvectors.

    >>> tk.linalg.eigh(tk.asarray([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    return EighResult(*_eigh(x))


def _eigvalsh_vjp(g: Tensor, x: Tensor) -> Tensor:
    _, v = _eigh(x)
    return hermitian(matmul(v * expand_dims(g, -2), adjoint(v)))


eigvalsh: Entry = lapack(
    "linalg_eigvalsh(Tensor x) -> Tensor",
    np.linalg.eigvalsh,
    meta=lambda x: TensorSpec(x.shape[:-1], dtypes.real_of(check_square("linalg.eigvalsh", x))),
    vjp={"x": _eigvalsh_vjp},
    sample_inputs=_hermitian_samples,
    gradcheck_wrapper=lambda call, x: call(hermitian(x)),
    doc="""Compute the ascending eigenvalues of a Hermitian (real: symmetric) matrix or of each matrix of a stack.

    Args: x: shape (..., M, M), floating or complex; integers are converted to floats. Only the lower triangle is read.
    Returns shape (..., M), real. The gradient is Hermitian. Raises ValueError for other shapes.

    >>> tk.linalg.eigvalsh(tk.asarray([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 2.0]
    """,
)

# ---- general eigenproblems


def _eig_meta(x: Tensor) -> Any:
    dtype = dtypes.complex_of(dtypes.real_of(check_square("linalg.eig", x)))
    return TensorSpec(x.shape[:-1], dtype), TensorSpec(x.shape, dtype)


def _complex(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return a if a.dtype.kind == "c" else a.astype(dtypes.complex_of(a.dtype))


def _eig_vjp(g: Any, x: Tensor, out: Any) -> Tensor:
    g_values, g_vectors = g
    w, v = out
    inner = None
    if g_vectors is not None:
        own = matmul(adjoint(v), g_vectors)
        scale = where(on_diagonal(own), cast(real(own), own.dtype), 0.0)  # the columns keep their length
        turned = own - matmul(matmul(adjoint(v), v), scale)
        inner = turned * reciprocal_off_diagonal(conj(differences(w)))
    inner = _plus_diagonal(inner, g_values)
    if inner is None:
        return x * 0
    return like_operand(solve(adjoint(v), matmul(inner, adjoint(v))), x)


_eig = lapack(
    "lapack_eig(Tensor x) -> (Tensor, Tensor)",
    lambda x: tuple(map(_complex, np.linalg.eig(x))),
    meta=_eig_meta,
    vjp={"x": _eig_vjp},
)


def _in_order(w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Sort eigenvalues, which come in no particular order; conjugate pairs have almost equal real parts."""
    places = np.lexsort((np.round(w.imag, 3), np.round(w.real, 3)), axis=-1)
    return np.take_along_axis(w, places, -1)


def _eig_compared(found: Any, x: Any) -> Any:
    """Return the values in order, what the vectors lack to be eigenvectors, and their lengths."""
    w, v = found
    return _in_order(w), x @ v - v * w[..., None, :], np.sum(np.abs(v) ** 2, -2)


@composite(
    "linalg_eig(Tensor x) -> (Tensor eigenvalues, Tensor eigenvectors)",
    sample_inputs=square_samples,
    gradcheck_wrapper=_eig_probe,
    compared=_eig_compared,
)
def eig(x: Tensor) -> EigResult:
    """Compute eigenvalues and eigenvectors of a square matrix or of each matrix of a stack.

    Args: x: shape (..., M, M), floating or complex; integers are converted to floats. Returns a named tuple
    ``(eigenvalues, eigenvectors)``, always complex: shape (..., M), in no particular order; columns of length 1, shape
    (..., M, M). Raises ValueError for other shapes. Gradients are correct for functions that do not depend on the
    phases of the eigenvectors; they do not exist for a matrix without a basis of eigenvectors.

    >>> tk.linalg.eig(tk.asarray([[0.0, -1.0], [1.0, 0.0]])).eigenvalues.tolist()
    [1j, -1j]
    """
    return EigResult(*_eig(x))


def _eigvals_vjp(g: Tensor, x: Tensor) -> Tensor:
    _, v = _eig(x)
    return like_operand(solve(adjoint(v), expand_dims(g, -1) * adjoint(v)), x)


eigvals: Entry = lapack(
    "linalg_eigvals(Tensor x) -> Tensor",
    lambda x: _complex(np.linalg.eigvals(x)),
    meta=lambda x: TensorSpec(x.shape[:-1], dtypes.complex_of(dtypes.real_of(check_square("linalg.eigvals", x)))),
    vjp={"x": _eigvals_vjp},
    sample_inputs=square_samples,
    compared=lambda found, x: _in_order(found),
    doc="""Compute the eigenvalues, in no particular order, of a square matrix or of each matrix of a stack.

    Args: x: shape (..., M, M), floating or complex; integers are converted to floats. Returns shape (..., M), always
    complex. Raises ValueError for other shapes.

    >>> tk.linalg.eigvals(tk.asarray([[0.0, -1.0], [1.0, 0.0]])).tolist()
    [1j, -1j]
    """,
)
