"""What the stand-ins for CUDA's libraries check: ranges of memory, alignment, handles, workspaces.

Note [Checked libraries]
~~~~~~~~~~~~~~~~~~~~~~~~
A real library takes addresses and trusts them. A stand-in has the signature of the function in ``nvmath.bindings`` and
raises :class:`LibraryCallError` for what NVIDIA's documentation forbids, whether or not a real library would notice:
each array must lie in one allocation of the device, be aligned, and share no memory with another argument; a workspace
must have the size that the query returned; a handle must exist, belong to the current device and have a stream. What a
routine destroys is overwritten with NaN, what it does not promise to write stays as it is, and workspaces are filled
with 0xFF, so that wrong uses show in the values. The sizes of workspaces are odd functions of the arguments, so that
none is right by accident. Arguments are checked at once; the work is done in the order of its stream, and only then
are ranges of memory compared with the allocations, which follow that order too.
Guarded by ``tests/backends/cuda/libraries/test_standins.py``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn, Protocol

import numpy as np

__all__ = ["Array", "Call", "DeviceMemory", "LibraryCallError", "Surroundings", "host_array", "lettered"]

DATA_TYPES: Final = {
    0: "float32", 1: "float64", 2: "float16", 4: "complex64", 5: "complex128", 14: "bfloat16"
}  # fmt: skip
_LETTERS: Final = {"s": "float32", "d": "float64", "c": "complex64", "z": "complex128"}
_WORKSPACE_ALIGNMENT: Final = 16


class LibraryCallError(RuntimeError):
    """A call of one of CUDA's libraries breaks a rule of its documentation."""


class DeviceMemory(Protocol):
    """The memory of the emulated device, which is memory of the process."""

    def available(self, address: int) -> int:
        """Return the number of bytes from an address to the end of its allocation; 0 if it lies in none."""


class Surroundings(NamedTuple):
    """What the stand-ins work in: memory, the queue of work, and the device that is current."""

    memory: DeviceMemory
    enqueue: Callable[[int, Callable[[], None]], None]  # run work in the order of a stream
    device: Callable[[], int]


class Array(NamedTuple):
    """An array in device memory: bytes from an address, seen with a shape and strides."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """The number of bytes from the first element to the end of the last."""
        if 0 in self.shape:
            return 0
        return sum([(n - 1) * step for n, step in zip(self.shape, self.strides)]) + self.dtype.itemsize

    def values(self) -> np.ndarray:
        """Return the elements as an array on the memory itself."""
        raw: Any = (ctypes.c_char * self.nbytes).from_address(self.address) if self.nbytes else b""
        return np.ndarray(self.shape, self.dtype, raw, 0, self.strides)


class Call:
    """The checks of one call, whose errors name the function."""

    def __init__(self, function: str, surroundings: Surroundings, *, running: bool = False) -> None:
        self._function = function
        self._surroundings = surroundings
        self._running = running
        self._arrays: list[tuple[str, Array]] = []
        self._used: list[tuple[str, Array]] = []

    def refuse(self, rule: str) -> NoReturn:
        """Raise the error of the call."""
        raise LibraryCallError(f"[{self._function}] {rule}")

    def require(self, holds: bool, rule: str) -> None:
        """Raise the error of the call unless a rule holds."""
        if not holds:
            self.refuse(rule)

    def member(self, name: str, value: int, allowed: tuple[int, ...]) -> None:
        """Check an enumerated argument."""
        self.require(value in allowed, f"{name} is {value}: it must be one of {', '.join(map(str, allowed))}.")

    def least(self, name: str, value: int, least: int, rule: str = "") -> None:
        """Check a lower bound."""
        self.require(value >= least, f"{name} is {value}: it must be at least {rule or least}{rule and f' = {least}'}.")

    def integers32(self, **sizes: int) -> None:
        """Check arguments that the library takes as 32-bit integers."""
        for name, value in sizes.items():
            self.require(-(2**31) <= value < 2**31, f"{name} is {value}: it is a 32-bit integer.")

    def data_type(self, name: str, number: int, allowed: tuple[str, ...]) -> np.dtype:
        """Return the dtype of a cudaDataType_t."""
        dtype = DATA_TYPES.get(number)
        if dtype not in allowed:
            self.refuse(f"{name} is {number} ({dtype}): it must stand for one of {', '.join(allowed)}.")
        return np.dtype(dtype)

    def array(
        self, name: str, address: int, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...] | None = None,
        *, alignment: int = 0, shared: bool = False,
    ) -> Array:  # fmt: skip
        """Return an array in device memory; ``strides`` are in elements, column-major without them.

        It must not overlap one that was checked before, unless ``shared``.
        """
        dtype = np.dtype(dtype)
        steps = strides
        if steps is None:
            steps = tuple([int(np.prod(shape[:i], dtype=np.int64)) for i in range(len(shape))])
        found = Array(int(address), shape, tuple([step * dtype.itemsize for step in steps]), dtype)
        if found.nbytes:
            self._check_address(name, found.address, alignment or dtype.itemsize)
            if self._running:
                self._check_range(name, found)
            self._used.append((name, found))
            if not shared:
                self._check_overlap(name, found)
                self._arrays.append((name, found))
        return found

    def _check_address(self, name: str, address: int, alignment: int) -> None:
        self.require(address != 0, f"{name} is a null pointer.")
        self.require(address % alignment == 0, f"{name} is {address:#x}: it must be a multiple of {alignment}.")

    def _check_range(self, name: str, array: Array) -> None:
        available = self._surroundings.memory.available(array.address)
        self.require(available > 0, f"{name} is {array.address:#x}, which lies in no allocation of the device.")
        if available < array.nbytes:
            self.refuse(
                f"{name} takes {array.nbytes} bytes from {array.address:#x}, but its allocation ends after {available}."
            )

    def _check_overlap(self, name: str, array: Array) -> None:
        for other, known in self._arrays:
            if array.address < known.address + known.nbytes and known.address < array.address + array.nbytes:
                self.refuse(f"{name} and {other} overlap.")

    def matrix(self, name: str, address: int, rows: int, columns: int, leading: int, dtype: Any) -> Array:
        """Return a column-major matrix with a leading dimension."""
        self.least(f"ld of {name}", leading, max(1, rows), f"max(1, {rows})")
        return self.array(name, address, (rows, columns), dtype, (1, leading))

    def stack(self, name: str, address: int, rows: int, columns: int, leading: int, batch: int, dtype: Any) -> Array:
        """Return column-major matrices that follow one another, with the index of the matrix first."""
        self.least(f"ld of {name}", leading, max(1, rows), f"max(1, {rows})")
        return self.array(name, address, (batch, rows, columns), dtype, (leading * columns, 1, leading))

    def pointed(
        self, name: str, address: int, batch: int, rows: int, columns: int, leading: int, dtype: Any
    ) -> Callable[[], list[Array]]:
        """Return a function that returns the matrices whose addresses are in an array in device memory.

        Work that is queued before the call may write the addresses, so they are read and checked when the call's work
        is done.
        """
        self.least(f"ld of {name}", leading, max(1, rows), f"max(1, {rows})")
        pointers = self.array(name, address, (batch,), np.int64)

        def found() -> list[Array]:
            own = Call(self._function, self._surroundings, running=True)
            places = pointers.values().tolist()
            return [
                own.array(f"{name}[{i}]", place, (rows, columns), dtype, (1, leading)) for i, place in enumerate(places)
            ]

        return found

    def workspace(self, name: str, address: int, given: int, needed: int) -> Array:
        """Return a workspace of which the size must be what the query returned."""
        self.require(given >= needed, f"{name} has {given} bytes: the query of its size returns {needed}.")
        return self.array(name, address, (given,), np.uint8, alignment=_WORKSPACE_ALIGNMENT)

    def enqueue(self, stream: int, work: Callable[[], None], *workspaces: Array) -> None:
        """Do the work in the order of a stream, with workspaces full of garbage.

        That the arrays lie in allocations is checked then: memory is allocated and freed in the order of streams too.
        """

        def run() -> None:
            for name, array in self._used:
                self._check_range(name, array)
            for workspace in workspaces:
                workspace.values()[...] = 0xFF
            with np.errstate(all="ignore"):
                work()

        self._surroundings.enqueue(stream, run)


def host_array(address: int, count: int, dtype: Any) -> np.ndarray:
    """Return host memory as an array; nothing can be checked about it but that there is an address."""
    if not address:
        raise LibraryCallError("[host memory] the address is a null pointer.")
    dtype = np.dtype(dtype)
    return np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype)


def lettered(name: str) -> dict[str, np.dtype]:
    """Return the names of a routine of BLAS or LAPACK, a letter and ``name``, with their dtypes."""
    return {f"{letter}{name}": np.dtype(dtype) for letter, dtype in _LETTERS.items()}
