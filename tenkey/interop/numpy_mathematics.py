"""Linear algebra, Fourier transforms, statistics and sets as NumPy calls them, over the operators of tenkey.

Rows of ``ADAPTED`` in ``numpy_table.py``. Guarded by ``tests/numpy/test_table_mathematics.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from .. import functions
from ..core.tensor import Tensor
from ..core.word import REQUIRES_GRAD, WEAK_MASK
from ..core.wrapper import Wrapper
from ..functions import linalg as contractions
from ..functions.calculating import cross_products, orders
from .numpy_fallback import as_tensor, by_name, op

__all__ = ["FUNCTIONS"]


# ---- linear algebra


def _of_triangle(a: Any, uplo: str) -> Any:
    """Return the Hermitian matrix one of whose triangles is that of ``a``.

    NumPy reads the lower triangle of what it gets, so that needs no work, except for the gradient by ``a``.
    """
    if uplo.upper() not in ("L", "U"):
        raise ValueError(f"[linalg.eigh] got UPLO={uplo!r}: it is 'L' or 'U'.")
    if uplo.upper() == "U":
        return _mirrored(a, "triu", 1)
    return _mirrored(a) if a._word & REQUIRES_GRAD or isinstance(a, Wrapper) else a


def _mirrored(a: Any, triangle: str = "tril", k: int = -1) -> Any:
    """Return the Hermitian matrix with a triangle of ``a``, whose part without the diagonal begins at ``k``."""
    other = op("matrix_transpose")(op(triangle)(a, k=k))
    return op(triangle)(a) + (op("conj")(other) if a.dtype.kind == "c" else other)


def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    a = _mirrored(a) if hermitian else a  # NumPy reads the lower triangle alone
    return op("linalg_svd")(a, full_matrices=full_matrices) if compute_uv else op("linalg_svdvals")(a)


def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode == "r":
        return op("linalg_qr")(a, mode="reduced")[1]
    if mode == "raw":
        raise NotImplementedError("[linalg.qr] mode='raw' gives LAPACK's reflections, which have no operator.")
    return op("linalg_qr")(a, mode=mode)


def _rank(A: Any, tol: Any = None, hermitian: bool = False, rtol: Any = None) -> Any:
    if A.ndim < 2:
        return op("astype")(op("any")(A != 0), np.dtype("i8"))
    A = _mirrored(A) if hermitian else A
    if tol is None:
        return op("linalg_matrix_rank")(A, rtol=rtol)
    tol = as_tensor(tol)
    return op("count_nonzero")(op("linalg_svdvals")(A) > op("expand_dims")(tol, -1), axis=-1)


def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, rtol: Any = None) -> Any:
    if rcond is not None and rtol is not None:
        raise ValueError("[linalg.pinv] got rcond= and rtol=, two names of one argument: give one of them.")
    given = rtol if rcond is None else rcond
    if given is None and rtol is None:
        given = 1e-15  # NumPy's default
    return op("linalg_pinv")(_mirrored(a) if hermitian else a, rtol=given)


_EIG_IS_COMPLEX: Final = np.lib.NumpyVersion(np.__version__) >= "2.5.0"


def _eig_real(name: str, a: Any) -> Any:
    """Call ``eig`` or ``eigvals`` as the NumPy that is installed does.

    Before NumPy 2.5, results are real for real numbers without complex eigenvalues.
    """
    found = op(name)(a)
    values = found[0] if isinstance(found, tuple) else found
    if _EIG_IS_COMPLEX or a.dtype.kind == "c" or bool(op("any")(op("imag")(values) != 0)):
        return found
    real = op("real")
    return type(found)(*map(real, found)) if isinstance(found, tuple) else real(found)


def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    return op("sum")(op("diagonal")(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    if rcond is not None and rcond < 0:
        rcond = 0.0
    if not isinstance(rcond, (float, int, type(None), Tensor)):
        rcond = float(rcond)
    if a.ndim != 2 or b.ndim not in (1, 2):
        raise np.linalg.LinAlgError(f"[linalg.lstsq] got shapes {a.shape} and {b.shape}: it takes matrices.")
    x, residuals, rank, s = op("linalg_lstsq")(a, b, rcond)
    residuals = op("reshape")(residuals, (-1,))
    m, n = a.shape
    return x, residuals[:0] if m <= n or int(rank) < n else residuals, rank, s


def _outer(a: Any, b: Any) -> Any:
    flat = op("reshape")
    return op("outer")(flat(a, (-1,)), flat(b, (-1,)))


def _cond(x: Any, p: Any = None) -> Any:
    if not all(x.shape[-2:]):
        raise np.linalg.LinAlgError(f"[linalg.cond] got shape {x.shape}: cond is not defined on empty arrays.")
    if p in (None, 2, -2) or x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        made = functions.cond(x, p)
    else:
        where, last = op("where"), op("linalg_slogdet")(x)[0]
        singular = op("equal")(last, 0)  # their inverse is an error, their condition number inf
        whole = where(singular[..., None, None], op("eye")(x.shape[-1], dtype=x.dtype, device=x.device), x)
        norm = functions.matrix_norm
        made = where(singular, math.inf, norm(x, ord=p) * norm(op("linalg_inv")(whole), ord=p))
    isnan = op("isnan")
    return op("where")(op("logical_and")(isnan(made), ~op("any")(isnan(x), axis=(-2, -1))), math.inf, made)


def _check_terms(subscripts: str, operands: Any) -> None:
    """Raise ValueError for diagonals of lengths that differ, and for dimensions that the result does not name."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    for term, x in zip(inputs.split(","), operands, strict=False):
        letters = term.replace("...", "")
        if "..." not in term:
            lengths = dict(zip(letters, x.shape, strict=False))
            if any(lengths[c] != n for c, n in zip(letters, x.shape, strict=False)):
                raise ValueError(f"[einsum] got {term!r} for the shape {x.shape}: a diagonal needs equal lengths.")
        elif arrow and "..." not in output and x.ndim > len(letters):
            raise ValueError(f"[einsum] got {subscripts!r}: the result must contain ..., which stands for dimensions.")


def _einsum(*operands: Any, optimize: Any = False, dtype: Any = None) -> Any:
    if not operands:
        raise ValueError("[einsum] needs subscripts and operands.")
    if isinstance(operands[0], str):
        given = [operands[0], *map(as_tensor, operands[1:])]
    else:  # each followed by its subscripts
        given = [as_tensor(x) if i % 2 == 0 and i < len(operands) - 1 else x for i, x in enumerate(operands)]
    given = [as_tensor(x.item()) if isinstance(x, Tensor) and x._word & WEAK_MASK else x for x in given]
    if isinstance(given[0], str):
        _check_terms(given[0], given[1:])
    else:
        given = [x.tolist() if i % 2 and isinstance(x, (Tensor, np.ndarray)) else x for i, x in enumerate(given)]
    if dtype is not None:
        given = [op("astype")(x, dtype) if isinstance(x, Tensor) else x for x in given]
    return contractions.einsum(*given, optimize=True if optimize is False else optimize)


def _planes(name: str, a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Any:
    """Call a transform along two axes, which for ``axes=None`` are all."""
    if axes is None:
        return op(f"fft_{name[:-1]}n")(a, s, None, "backward" if norm is None else norm)
    return getattr(functions, name)(a, s, axes, norm)


# ---- parts, tests and rounding


def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    ends = [v if v is None or isinstance(v, (int, float)) else complex(v) for v in (left, right)]
    if any(isinstance(v, complex) for v in ends) and period is None:
        made = op("interp")(x, xp, fp)
        where, low, high = op("where"), op("min")(xp), op("max")(xp)
        for value, outside in ((ends[0], x < low), (ends[1], x > high)):
            made = made if value is None else where(outside, value, made)
        return made
    return op("interp")(x, xp, fp, *ends, period)


def _angle(z: Any, deg: bool = False) -> Any:
    made = op("angle")(z)
    return op("rad2deg")(made) if deg else made


def _sort_complex(a: Any) -> Any:
    if not a.ndim:
        raise np.exceptions.AxisError(-1, 0)
    if a.dtype.kind != "c":
        a = op("astype")(a, np.dtype(np.complex64 if a.dtype.char in "bhBH" else np.complex128))
    return orders.sort_complex(a)


def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    given = {"nan": nan, "posinf": posinf, "neginf": neginf}
    arrays = {k: v for k, v in given.items() if getattr(v, "ndim", 0)}
    plain = {k: v.item() if hasattr(v, "item") else v for k, v in given.items() if v is not None and k not in arrays}
    made = op("nan_to_num")(x, **plain)
    tests = {"nan": lambda: op("isnan")(x), "posinf": lambda: x == math.inf, "neginf": lambda: x == -math.inf}
    for name, value in arrays.items():
        if np.broadcast_shapes(x.shape, value.shape) != x.shape:
            raise ValueError(f"[nan_to_num] {name}= of shape {value.shape} does not broadcast to the shape {x.shape}.")
        made = op("where")(tests[name](), op("astype")(as_tensor(value), x.dtype), made)
    if copy:
        return made
    x.copy_(made)
    return x


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **by_name(_einsum, _interp, _trace, _outer, _angle, _sort_complex, _nan_to_num),
    "linalg.eigh": lambda a, UPLO="L": op("linalg_eigh")(_of_triangle(a, UPLO)),
    "linalg.eigvalsh": lambda a, UPLO="L": op("linalg_eigvalsh")(_of_triangle(a, UPLO)),
    "linalg.svd": _svd,
    "linalg.qr": _qr,
    "linalg.matrix_rank": _rank,
    "linalg.pinv": _pinv,
    "linalg.eig": partial(_eig_real, "linalg_eig"),
    "linalg.eigvals": partial(_eig_real, "linalg_eigvals"),
    "linalg.cond": _cond,
    "linalg.lstsq": _lstsq,
    "cross": cross_products.cross_along,
    **{f"fft.{name}": partial(_planes, name) for name in ("fft2", "ifft2", "rfft2", "irfft2")},
    "real": lambda val: op("real")(val) if val.dtype.kind == "c" else val,
    "i0": lambda x: op("special_i0")(x),
}  # fmt: skip
"""Functions that are not quite those of ``tk``, by NumPy's names."""
