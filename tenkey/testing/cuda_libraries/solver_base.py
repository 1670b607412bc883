"""What the two halves of the stand-in for cuSOLVER share: handles, workspaces, data types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .library_checks import Call
from .library_handles import LinearAlgebraStandIn

__all__ = ["Solver"]

_COMPUTED: Final = ("float32", "float64", "complex64", "complex128")
_REAL: Final = {"float32": "float32", "float64": "float64", "complex64": "float32", "complex128": "float64"}


class Solver(LinearAlgebraStandIn):
    """Handles of cuSOLVER, and the checks of its 64-bit interface."""

    def __init__(self, surroundings: Any) -> None:
        super().__init__("cuSOLVER", surroundings)

    # ---- handles

    def create_params(self) -> int:
        """Return options of the 64-bit interface."""
        return self._new("set of options")

    def destroy_params(self, params: int) -> None:
        """Destroy options."""
        self._remove(self._call("destroy_params"), "set of options", params)

    def create_gesvdj_info(self) -> int:
        """Return options of Jacobi's method."""
        return self._new("set of options of gesvdj")

    def destroy_gesvdj_info(self, info: int) -> None:
        """Destroy options of Jacobi's method."""
        self._remove(self._call("destroy_gesvdj_info"), "set of options of gesvdj", info)

    def _begin(self, function: str, handle: int, params: int) -> tuple[Call, int]:
        call = self._call(function)
        self._find(call, "set of options", params)
        return call, self._stream(call, handle)

    def _finish(
        self, call: Call, stream: int, workspace: tuple[int, int, int, int], needed: tuple[int, int],
        work: Callable[[], None],
    ) -> None:  # fmt: skip
        """Check the two workspaces of the 64-bit interface, and do the work."""
        address, on_device, host_address, on_host = workspace
        device = call.workspace("buffer_on_device", address, on_device, needed[0])
        call.require(on_host >= needed[1], f"buffer_on_host has {on_host} bytes: the query returns {needed[1]}.")
        call.require(bool(host_address) or not needed[1], "buffer_on_host is a null pointer.")
        call.enqueue(stream, work, device)

    # ---- checks

    def _numbers_of(self, call: Call, first: int, *others: int) -> np.dtype:
        """Return the dtype of a routine all of whose numbers have one dtype."""
        dtype = call.data_type("data_type_a", first, _COMPUTED)
        for other in others:
            call.require(other == first, f"the data types are {first} and {other}: they must be equal.")
        return dtype

    def _sizes(self, call: Call, **sizes: int) -> None:
        for name, size in sizes.items():
            call.least(name, size, 0)

    def _check_pivots(self, call: Call, pivots: np.ndarray, rows: int) -> None:
        wrong = pivots[(pivots < 1) | (pivots > rows)]
        call.require(not wrong.size, f"a pivot is {wrong[:1]}: pivots are rows from 1 to {rows}.")

    def _real_of(self, call: Call, dtype: np.dtype, name: str, number: int) -> np.dtype:
        """Check that a data type is the real one of a dtype."""
        return call.data_type(name, number, (_REAL[dtype.name],))
