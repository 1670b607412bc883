"""Large matrix products through cuBLASLt, for the template ``matmul``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ....core.storage import StridedArray
from . import cublaslt
from .entry_points import LibraryMissingError
from .site import Site

__all__ = ["SUPPORTED", "large_product"]

SUPPORTED: Final = frozenset(["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
_LARGE: Final = 1 << 18  # products of numbers: below, starting a library costs more than it saves
_MOST: Final = 2**31 - 1


def large_product(site: Callable[[Any], Site], dtype: np.dtype) -> Callable[[Any, Any, Any], bool] | None:
    """Return a function ``run(out, a, b)`` that computes products of stacks of matrices, or None for other dtypes.

    The windows are those of the template. It returns false, and does nothing, for small products, for layouts in which
    neither rows nor columns are contiguous, and where cuBLASLt is not installed.
    """
    if dtype.name not in SUPPORTED:
        return None
    missing: list[LibraryMissingError] = []

    def run(out: StridedArray, a: StridedArray, b: StridedArray) -> bool:
        batch, rows, columns = out.shape
        if batch * rows * columns * a.shape[2] < _LARGE or max(batch, rows, columns, a.shape[2]) > _MOST:
            return False
        if missing:
            return False
        here = site(out.device)
        first, left, right = _factor(here, out), _factor(here, a), _factor(here, b)
        if first is None or left is None or right is None or (batch > 1 and not first.distance):
            return False
        if first.transposed:  # LAPACK's layout: out = a @ b as it is
            target = first._replace(transposed=False)
            operands = left._replace(transposed=not left.transposed), right._replace(transposed=not right.transposed)
        else:  # the library sees out^T = b^T @ a^T
            target, operands = first, (right, left)
        try:
            with here.place.entered(out.device.index):
                cublaslt.multiply(here, target, *operands, dtype, batch)
        except LibraryMissingError as error:
            missing.append(error)
            return False
        return True

    return run


def _factor(site: Site, x: StridedArray) -> cublaslt.Factor | None:
    """Return how the library sees the transposes of a stack of matrices, ``transposed`` if it sees them as they are."""
    size = x.dtype.itemsize
    if any(step % size or step < 0 for step in x.strides):
        return None
    batch, rows, columns = x.shape
    apart, down, along = [step // size for step in x.strides]
    distance = apart if batch > 1 else 0
    address = site.place.address(x)
    if (along == 1 or columns == 1) and (down >= columns or rows == 1):
        return cublaslt.Factor(address, columns, rows, columns if rows == 1 else down, distance)
    if (down == 1 or rows == 1) and (along >= rows or columns == 1):
        return cublaslt.Factor(address, rows, columns, rows if columns == 1 else along, distance, transposed=True)
    return None
