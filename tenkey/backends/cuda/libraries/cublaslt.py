"""cuBLASLt: products of matrices and of stacks of matrices, with the algorithm that its heuristic proposes.

Descriptors and algorithm of a product are kept for its sizes, layouts and alignment, so that a further product of the
kind is one call. The arguments follow the cuBLAS documentation, https://docs.nvidia.com/cuda/cublas/, section "Using
the cuBLASLt API" (``cublasLtMatmul``, ``cublasLtMatmulDescAttributes_t``, ``cublasLtMatrixLayoutAttribute_t``).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, NamedTuple

import numpy as np

from .entry_points import DATA_TYPES, LibraryError, cublaslt
from .site import Handle, Site

__all__ = ["Factor", "multiply"]

_KEPT: Final = 512
_WORKSPACE: Final = 32 << 20  # what NVIDIA recommends for Hopper
_TRANSA, _TRANSB = 3, 4  # cublasLtMatmulDescAttributes_t
_BATCH_COUNT, _BATCH_OFFSET = 5, 6  # cublasLtMatrixLayoutAttribute_t
_MOST_WORKSPACE = 1  # cublasLtMatmulPreferenceAttributes_t
_LEAST_ALIGNMENT = (5, 6, 7, 8)  # of A, B, C and D
# cublasComputeType_t and the dtype of the scale factors; single precision is not rounded to TF32
_COMPUTE: Final = {
    "float16": (68, "float32"), "bfloat16": (68, "float32"), "float32": (68, "float32"), "float64": (70, "float64"),
    "complex64": (68, "complex64"), "complex128": (70, "complex128"),
}  # fmt: skip


class Factor(NamedTuple):
    """A stack of matrices in LAPACK's layout: sizes, elements between columns and between matrices."""

    address: int
    rows: int
    columns: int
    leading: int
    distance: int
    transposed: bool = False


class _Prepared(NamedTuple):
    """The descriptors of a product, its algorithm and the workspace that this needs."""

    operation: int
    layouts: tuple[int, ...]
    algorithm: np.ndarray
    workspace: int


class _Products(Handle):
    """cuBLASLt's handle with the prepared products, the last used at the end."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.made: OrderedDict[Any, _Prepared] = OrderedDict()


def multiply(site: Site, out: Factor, a: Factor, b: Factor, dtype: np.dtype, batch: int) -> None:
    """Write the products of ``a`` and ``b``, each transposed if it says so, to ``out``."""
    products = site.handles.get(cublaslt, site, lambda site: _Products(cublaslt(site.operator, "create")))
    assert isinstance(products, _Products)
    aligned = tuple([_alignment(x, dtype.itemsize, batch) for x in (a, b, out)])
    key = (*[x[1:] for x in (a, b, out)], dtype.name, batch, aligned)
    with products.lock:
        prepared = products.made.get(key)
        if prepared is None:
            if len(products.made) >= _KEPT:
                _destroy(site, products.made.popitem(last=False)[1])
            prepared = products.made[key] = _prepare(site, products.value, (a, b, out), dtype, batch, aligned)
        else:
            products.made.move_to_end(key)
        scale = _COMPUTE[dtype.name][1]
        one, zero = np.ones(1, scale), np.zeros(1, scale)
        memory, address = site.scratch(prepared.workspace)
        of_a, of_b, of_out = prepared.layouts
        cublaslt(
            site.operator, "matmul", products.value, prepared.operation, one.ctypes.data, a.address, of_a, b.address,
            of_b, zero.ctypes.data, out.address, of_out, out.address, of_out, prepared.algorithm.ctypes.data, address,
            prepared.workspace, site.stream,
        )  # fmt: skip
        del memory


def _alignment(x: Factor, itemsize: int, batch: int) -> int:
    """Return the largest power of two, up to 256, that divides the addresses of all columns."""
    bits = x.address | (x.leading * itemsize) | (x.distance * itemsize if batch > 1 else 0) | 256
    return bits & -bits


def _prepare(
    site: Site, handle: int, factors: tuple[Factor, Factor, Factor], dtype: np.dtype, batch: int, aligned: Any
) -> _Prepared:
    compute, scale = _COMPUTE[dtype.name]
    call, name = cublaslt, site.operator
    operation = call(name, "matmul_desc_create", compute, DATA_TYPES[scale])
    layouts: list[int] = []
    preference = call(name, "matmul_preference_create")
    try:
        for attribute, x in ((_TRANSA, factors[0]), (_TRANSB, factors[1])):
            _set(site, "matmul_desc_set_attribute", operation, attribute, np.array([x.transposed], np.int32))
        for x in factors:
            layouts.append(call(name, "matrix_layout_create", DATA_TYPES[dtype.name], x.rows, x.columns, x.leading))
            _set(site, "matrix_layout_set_attribute", layouts[-1], _BATCH_COUNT, np.array([batch], np.int32))
            _set(site, "matrix_layout_set_attribute", layouts[-1], _BATCH_OFFSET, np.array([x.distance], np.int64))
        _set(
            site, "matmul_preference_set_attribute", preference, _MOST_WORKSPACE, np.array([_WORKSPACE], np.uint64)
        )  # fmt: skip
        for attribute, alignment in zip(_LEAST_ALIGNMENT, (*aligned, aligned[2]), strict=True):
            _set(site, "matmul_preference_set_attribute", preference, attribute, np.array([alignment], np.uint32))
        found = np.zeros(1, call.functions.matmul_heuristic_result_dtype)
        count = np.zeros(1, np.int32)
        call(
            name, "matmul_algo_get_heuristic", handle, operation, *layouts, layouts[2], preference, 1,
            found.ctypes.data, count.ctypes.data,
        )  # fmt: skip
        if not count[0] or found["state"][0]:
            raise LibraryError(
                f"[{name}] cuBLASLt has no algorithm for a product of {dtype} with {factors[2].rows} x "
                f"{factors[2].columns} results: please report this with the strides of the operands."
            )
    except BaseException:
        _destroy(site, _Prepared(operation, tuple(layouts), np.empty(0), 0))
        raise
    finally:
        call(name, "matmul_preference_destroy", preference)
    return _Prepared(operation, tuple(layouts), found, int(found["workspace_size"][0]))


def _set(site: Site, function: str, target: int, attribute: int, value: np.ndarray) -> None:
    cublaslt(site.operator, function, target, attribute, value.ctypes.data, value.nbytes)


def _destroy(site: Site, prepared: _Prepared) -> None:
    for layout in prepared.layouts:
        cublaslt(site.operator, "matrix_layout_destroy", layout)
    cublaslt(site.operator, "matmul_desc_destroy", prepared.operation)
