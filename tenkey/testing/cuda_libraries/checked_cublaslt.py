"""The stand-in for ``nvmath.bindings.cublasLt``.

The rules are those of the cuBLAS documentation, https://docs.nvidia.com/cuda/cublas/, section "Using the cuBLASLt API":
the attributes of descriptors with their sizes, the table of supported data types of ``cublasLtMatmul``, and its demands
on workspaces. An algorithm belongs to the problem and the alignment that the heuristic was asked for.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...core.dtypes.names import to_dtype
from .library_checks import DATA_TYPES, Array, Call, host_array
from .library_handles import StandIn, Thing

__all__ = ["CheckedCublasLt"]

_OPERATION, _LAYOUT, _PREFERENCE = "matmul descriptor", "matrix layout", "preference"
# attributes with the dtypes of their values
_OF_OPERATION: Final = {3: "int32", 4: "int32"}
_OF_LAYOUT: Final = {5: "int32", 6: "int64"}
_OF_PREFERENCE: Final = {1: "uint64", 5: "uint32", 6: "uint32", 7: "uint32", 8: "uint32"}
# (compute type, scale type) -> the types of A, B, C and D
_SUPPORTED: Final = {
    (68, 0): ("float16", "bfloat16", "float32"), (70, 1): ("float64",), (68, 4): ("complex64",),
    (70, 5): ("complex128",),
}  # fmt: skip
_ALGORITHM: Final = np.dtype([("data_", "<u8", (8,))])
_RESULT: Final = np.dtype(
    [
        ("algo", _ALGORITHM),
        ("workspace_size", "<u8"),
        ("state", "<i4"),
        ("waves_count", "<f4"),
        ("reserved", "<i4", (4,)),
    ]
)
_WORKSPACE: Final = 4096


class CheckedCublasLt(StandIn):
    """cuBLASLt's products, with the parameters of ``nvmath.bindings``."""

    matmul_heuristic_result_dtype = _RESULT

    def __init__(self, surroundings: Any) -> None:
        super().__init__("cuBLASLt", surroundings)
        self._algorithms: dict[int, tuple[Any, ...]] = {}

    def create(self) -> int:
        """Return a handle for the current device."""
        return self._new("handle")

    def destroy(self, light_handle: int) -> None:
        """Destroy a handle."""
        self._remove(self._call("destroy"), "handle", light_handle)

    # ---- descriptors

    def matmul_desc_create(self, compute_type: int, scale_type: int) -> int:
        """Return the description of an operation."""
        call = self._call("matmul_desc_create")
        call.require(
            (compute_type, scale_type) in _SUPPORTED,
            f"compute_type {compute_type} with scale_type {scale_type} is not in the table of cublasLtMatmul.",
        )
        made = self._new(_OPERATION)
        self._things[made].values.update(types=(compute_type, scale_type))
        return made

    def matmul_desc_set_attribute(self, matmul_desc: int, attr: int, buf: int, size_in_bytes: int) -> None:
        """Set whether an operand is transposed."""
        call = self._call("matmul_desc_set_attribute")
        self._set(call, _OPERATION, _OF_OPERATION, matmul_desc, attr, buf, size_in_bytes)
        call.member("the operation", self._things[matmul_desc].values[attr], (0, 1, 2))

    def matmul_desc_destroy(self, matmul_desc: int) -> None:
        """Destroy a description."""
        self._remove(self._call("matmul_desc_destroy"), _OPERATION, matmul_desc)

    def matrix_layout_create(self, type: int, rows: int, cols: int, ld: int) -> int:
        """Return the layout of column-major matrices."""
        call = self._call("matrix_layout_create")
        call.member("type", type, tuple(DATA_TYPES))
        call.least("rows", rows, 1)
        call.least("cols", cols, 1)
        call.least("ld", ld, rows, "rows")
        made = self._new(_LAYOUT)
        self._things[made].values.update(dtype=DATA_TYPES[type], shape=(rows, cols), ld=ld)
        return made

    def matrix_layout_set_attribute(self, mat_layout: int, attr: int, buf: int, size_in_bytes: int) -> None:
        """Set the number of matrices, or the elements from one to the next."""
        call = self._call("matrix_layout_set_attribute")
        self._set(call, _LAYOUT, _OF_LAYOUT, mat_layout, attr, buf, size_in_bytes)

    def matrix_layout_destroy(self, mat_layout: int) -> None:
        """Destroy a layout."""
        self._remove(self._call("matrix_layout_destroy"), _LAYOUT, mat_layout)

    def matmul_preference_create(self) -> int:
        """Return preferences for the choice of an algorithm."""
        return self._new(_PREFERENCE)

    def matmul_preference_set_attribute(self, pref: int, attr: int, buf: int, size_in_bytes: int) -> None:
        """Set the largest workspace, or the least alignment of a matrix."""
        call = self._call("matmul_preference_set_attribute")
        self._set(call, _PREFERENCE, _OF_PREFERENCE, pref, attr, buf, size_in_bytes)

    def matmul_preference_destroy(self, pref: int) -> None:
        """Destroy preferences."""
        self._remove(self._call("matmul_preference_destroy"), _PREFERENCE, pref)

    def _set(
        self, call: Call, kind: str, attributes: dict[int, str], target: int, attr: int, buf: int, size: int
    ) -> None:
        found = self._find(call, kind, target)
        call.member("attr", attr, tuple(attributes))
        dtype = np.dtype(attributes[attr])
        call.require(size == dtype.itemsize, f"attribute {attr} has {dtype.itemsize} bytes, not {size}.")
        found.values[attr] = int(host_array(buf, 1, dtype)[0])

    # ---- products

    def matmul_algo_get_heuristic(
        self, light_handle: int, operation_desc: int, adesc: int, bdesc: int, cdesc: int, ddesc: int, preference: int,
        requested_algo_count: int, heuristic_results_array: int, return_algo_count: int,
    ) -> None:  # fmt: skip
        """Store an algorithm for a product."""
        call = self._call("matmul_algo_get_heuristic")
        self._find(call, "handle", light_handle)
        problem = self._problem(call, operation_desc, adesc, bdesc, cdesc, ddesc)
        wanted = self._find(call, _PREFERENCE, preference).values
        call.least("requested_algo_count", requested_algo_count, 1)
        results = host_array(heuristic_results_array, requested_algo_count, _RESULT)
        number = len(self._algorithms) + 0xA160
        results[:1]["algo"]["data_"][0] = number
        results[:1]["workspace_size"] = min(_WORKSPACE, wanted.get(1, 0))
        results[:1]["state"] = 0
        alignments = tuple([wanted.get(attribute, 256) for attribute in (5, 6, 7, 8)])
        self._algorithms[number] = (*problem, alignments, int(results["workspace_size"][0]))
        host_array(return_algo_count, 1, np.int32)[...] = 1

    def matmul(
        self, light_handle: int, compute_desc: int, alpha: int, a: int, adesc: int, b: int, bdesc: int, beta: int,
        c: int, cdesc: int, d: int, ddesc: int, algo: int, workspace: int, workspace_size_in_bytes: int, stream: int,
    ) -> None:  # fmt: skip
        """Compute D = alpha op(A) op(B) + beta C."""
        call = self._call("matmul")
        handle = self._find(call, "handle", light_handle)
        device = self._surroundings.device()
        call.require(handle.device == device, f"the handle belongs to device {handle.device}, not {device}.")
        problem = self._problem(call, compute_desc, adesc, bdesc, cdesc, ddesc)
        number = int(host_array(algo, 1, _ALGORITHM)["data_"][0, 0])
        chosen = self._algorithms.get(number)
        if chosen is None or chosen[:-2] != problem:
            call.refuse("the algorithm was chosen for another product.")
        for name, address, alignment in zip("abcd", (a, b, c, d), chosen[-2], strict=True):
            call.require(
                address % alignment == 0,
                f"{name} is {address:#x}: the algorithm was chosen for multiples of {alignment}.",
            )
        scratch = call.workspace("workspace", workspace, workspace_size_in_bytes, chosen[-1])
        compute, dtype, transposed, layouts = problem
        scale = np.dtype(DATA_TYPES[compute[1]])
        factor, added = [host_array(address, 1, scale)[0] for address in (alpha, beta)]
        left, right = [
            self._stack(call, name, address, layout, dtype, shared=True)
            for name, address, layout in (("a", a, layouts[0]), ("b", b, layouts[1]))
        ]
        call.require(added == 0 or c != 0, "c is a null pointer, and beta is not 0.")
        call.require(c == d and layouts[2] == layouts[3], "C and D differ: the stand-in has products in place only.")
        out = self._stack(call, "d", d, layouts[3], dtype)
        for name, operand in (("a", left), ("b", right)):
            apart = operand.address + operand.nbytes <= out.address or out.address + out.nbytes <= operand.address
            call.require(apart, f"{name} and d overlap.")

        def work() -> None:
            wide = np.dtype({0: "float32", 1: "float64"}.get(compute[1], scale.name))
            x, y = [
                _operated(array.values().astype(wide), operation)
                for array, operation in zip((left, right), transposed, strict=True)
            ]
            product = factor * (x @ y)
            if added:
                product += added * out.values().astype(wide)
            out.values()[...] = product.astype(out.dtype)

        call.enqueue(stream, work, scratch)

    def _problem(self, call: Call, operation: int, *descriptors: int) -> tuple[Any, ...]:
        """Return compute and scale type, dtype, operations and layouts; their sizes must fit."""
        described = self._find(call, _OPERATION, operation).values
        found: list[Thing] = [self._find(call, _LAYOUT, each) for each in descriptors]
        dtypes = {each.values["dtype"] for each in found}
        call.require(len(dtypes) == 1, f"the matrices have different data types: {', '.join(sorted(dtypes))}.")
        (name,) = dtypes
        types = described["types"]
        call.require(
            name in _SUPPORTED[types], f"compute and scale type {types} do not go with matrices of {name}."
        )  # fmt: skip
        operations = (described.get(3, 0), described.get(4, 0))
        (m, k), (inner, n) = [
            each.values["shape"][:: -1 if operation else 1] for each, operation in zip(found, operations, strict=False)
        ]
        call.require(k == inner, f"op(A) has {k} columns, op(B) {inner} rows.")
        for each in found[2:]:
            shape = each.values["shape"]
            call.require(shape == (m, n), f"the result is {shape[0]} x {shape[1]}: it must be {m} x {n}.")
        batches = {each.values.get(5, 1) for each in found}
        call.require(len(batches) == 1, f"the numbers of matrices differ: {sorted(batches)}.")
        layouts = [
            (*each.values["shape"], each.values["ld"], each.values.get(5, 1), each.values.get(6, 0)) for each in found
        ]
        return types, name, operations, tuple(layouts)

    def _stack(
        self, call: Call, name: str, address: int, layout: tuple[int, ...], dtype: str, shared: bool = False
    ) -> Array:
        rows, columns, leading, batch, offset = layout
        steps = (offset, 1, leading)
        found = call.array(name, address, (batch, rows, columns), to_dtype(dtype), steps, shared=shared)
        if not shared and batch > 1:
            apart = offset >= leading * (columns - 1) + rows or leading >= offset * (batch - 1) + rows >= 2 * rows
            call.require(apart, f"the matrices of {name} overlap: they are {offset} elements apart.")
        return found


def _operated(x: np.ndarray, operation: int) -> np.ndarray:
    turned = x.swapaxes(-1, -2) if operation else x
    return turned.conj() if operation == 2 else turned
