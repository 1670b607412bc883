"""cuBLAS: factorizations and solutions for stacks of small matrices.

The matrices of a stack have one size; their addresses are in device memory. The arguments follow the cuBLAS Library
documentation, https://docs.nvidia.com/cuda/cublas/, section "BLAS-like Extension" (``getrfBatched``, ``getrsBatched``,
``geqrfBatched``). What cuBLAS reports in host memory are wrong arguments only, found before anything runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .entry_points import LETTERS, LibraryError, cublas
from .site import Handle, Matrix, Site

__all__ = ["geqrf_batched", "getrf_batched", "getrs_batched"]


def _create(site: Site) -> Handle:
    handle = cublas(site.operator, "create")
    cublas(site.operator, "set_stream", handle, site.stream)
    return Handle(handle)


def _call(site: Site, function: str, *given: Any) -> None:
    handle = site.handles.get(cublas, site, _create, by_stream=True)
    with handle.lock:
        cublas(site.operator, function, handle.value, *given)


def _refuse(site: Site, function: str, status: np.ndarray) -> None:
    if status[0]:
        raise LibraryError(f"[{site.operator}] {function} refused argument {-int(status[0])}: please report this.")


def getrf_batched(site: Site, pointers: int, first: Matrix, pivots: int, info: int, batch: int) -> None:
    """Overwrite square matrices like ``first`` with their LU factors; ``pivots`` gets int32, counted from 1."""
    _call(site, f"{LETTERS[first.dtype.name]}getrf_batched", first.rows, pointers, first.leading, pivots, info, batch)


def getrs_batched(
    site: Site, pointers: int, first: Matrix, pivots: int, others: int, b: Matrix, transposed: bool, batch: int
) -> None:
    """Overwrite right-hand sides like ``b`` with the solutions for factorized matrices, or for their transposes."""
    status, function = np.zeros(1, np.int32), f"{LETTERS[first.dtype.name]}getrs_batched"
    _call(
        site, function, int(transposed), first.rows, b.columns, pointers, first.leading, pivots, others, b.leading,
        status.ctypes.data, batch,
    )  # fmt: skip
    _refuse(site, function, status)


def geqrf_batched(site: Site, pointers: int, first: Matrix, taus: int, batch: int) -> None:
    """Overwrite matrices like ``first`` with R and Householder vectors; ``taus`` are addresses in device memory."""
    status, function = np.zeros(1, np.int32), f"{LETTERS[first.dtype.name]}geqrf_batched"
    _call(site, function, first.rows, first.columns, pointers, first.leading, taus, status.ctypes.data, batch)
    _refuse(site, function, status)
