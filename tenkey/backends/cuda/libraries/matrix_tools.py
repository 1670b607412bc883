"""Pieces of the operators: fresh copies in a layout, windows without copies, addresses, and errors found on the device.

Note [Rows and columns]
~~~~~~~~~~~~~~~~~~~~~~~
LAPACK's matrices have contiguous columns, tenkey's contiguous rows: the same bytes are a matrix to one and its
transpose to the other. An operator overwrites its operand, so a copy is made anyway; its layout is chosen so that the
library sees A or A^T, whichever needs no further copy, and results come back as transposed windows. Each operator says
in a comment which of the two the library sees. Guarded by ``tests/backends/cuda/libraries/test_linalg_kernels.py``.

Note [Errors of the libraries]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
That a matrix is singular is known when the device has run. The operator stores a code in the backend's error word if an
``info`` is not 0, and the same LinAlgError as on the CPU is raised at the next synchronization, as for an index out of
range (Note [The error word]). Nothing waits for the device before. Guarded by
``tests/backends/cuda/libraries/test_linalg_errors.py``.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.tensor import Tensor, make_tensor, word_for
from ....ops.builtin.creation import arange, eye
from ....ops.builtin.linalg.common import inexact
from ....ops.builtin.shape.copying import cast
from ....ops.builtin.shape.views import broadcast_to, matrix_transpose, reshape
from ...external.runtime.device_reports import report_if_any
from .site import Site

__all__ = [
    "NOT_CONVERGED", "as_dtype", "compute_dtype", "diagonal", "filled", "fresh", "identity", "pointers", "report",
    "stacked", "status", "turned",
]  # fmt: skip

NOT_CONVERGED: Final = "the iteration did not converge; are there NaN or inf among the elements?"
_HALF: Final = frozenset(["float16", "bfloat16"])


def compute_dtype(operator: str, *given: np.dtype) -> np.dtype:
    """Return the dtype in which the libraries compute: half precision in float32, integers as floats."""
    found = inexact(operator, *given)
    return np.dtype(np.float32) if found.name in _HALF else found


def as_dtype(x: Tensor, dtype: np.dtype) -> Tensor:
    """Convert a result that was computed in another dtype."""
    return x if x.dtype == dtype else cast(x, dtype)


def move(site: Site, out: Tensor, x: Any) -> None:
    """Copy elements of a tensor, or a number, into a tensor of any layout."""
    value = x._data if isinstance(x, Tensor) else np.asarray(x, out.dtype)[()]
    if not site.copier.move(out._data, value):
        raise NotImplementedError(f"[{site.operator}] the device cannot convert {value.dtype} to {out.dtype}.")


def fresh(site: Site, x: Tensor, dtype: np.dtype, *, transposed: bool = False) -> Tensor:
    """Return a contiguous copy in a dtype, of the transposed matrices if asked, that a library may overwrite."""
    source = matrix_transpose(x) if transposed else x
    made = site.empty(source.shape, dtype)
    if made.size:
        move(site, made, source)
    return made


def stacked(x: Tensor) -> Tensor:
    """Return a contiguous stack of matrices with one dimension before the two of a matrix."""
    return reshape(x, (prod(x.shape[:-2]), *x.shape[-2:]))


def turned(x: Tensor) -> Tensor:
    """Return the transposed matrices on the same memory: not a view for autograd, the tensor's only name."""
    data = x._data
    shape, strides = data.shape, data.strides
    window = data.window((*shape[:-2], shape[-1], shape[-2]), (*strides[:-2], strides[-1], strides[-2]), data.offset)
    return make_tensor(window, word_for(x.device, x.dtype))


def diagonal(x: Tensor) -> Tensor:
    """Return the diagonals of square matrices on the same memory."""
    data = x._data
    n = data.shape[-1]
    window = data.window(
        (*data.shape[:-2], n), (*data.strides[:-2], data.strides[-2] + data.strides[-1]), data.offset
    )  # fmt: skip
    return make_tensor(window, word_for(x.device, x.dtype))


def filled(site: Site, shape: tuple[int, ...], dtype: np.dtype, value: Any = 0) -> Tensor:
    """Return a tensor of one value."""
    made = site.empty(shape, dtype)
    if made.size:
        move(site, made, value)
    return made


def identity(site: Site, shape: tuple[int, ...], dtype: np.dtype) -> Tensor:
    """Return a stack of matrices with ones on the diagonal, as new memory."""
    made = site.empty(shape, dtype)
    if made.size:
        move(site, made, broadcast_to(eye(*shape[-2:], dtype=dtype, device=site.device), shape))
    return made


def pointers(site: Site, x: Tensor) -> Tensor:
    """Return the addresses of the matrices of a contiguous stack, computed on the device."""
    step = x.shape[-1] * x.shape[-2] * x.itemsize
    return arange(x.shape[0], dtype=dtypes.int64, device=site.device) * step + site.address(x)


def status(site: Site, batch: int) -> Tensor:
    """Return ``info`` for the matrices of a stack: zeros, because a library writes what it has reached."""
    return filled(site, (batch,), np.dtype(np.int32))


def report(site: Site, failed: Tensor, given: tuple[Tensor, ...], rule: str) -> None:
    """Raise LinAlgError at the next synchronization if any element is not zero: Note [Errors of the libraries]."""
    if not failed.size:
        return
    shapes = " and ".join([str(x.shape) for x in given])
    report_if_any(site.backend, failed != 0, site.operator, f"got shape {shapes}: {rule}", np.linalg.LinAlgError)
