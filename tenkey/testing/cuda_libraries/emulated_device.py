"""The stand-ins on the emulator's device: its allocations, its streams, and its errors."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np

from .installation import installed, stand_ins

__all__ = ["EmulatedDevice", "use_stand_ins"]

_FAILED: Final = 719  # CUDA_ERROR_LAUNCH_FAILED: what a failing kernel of a library would be
_HostFunction: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Execution(Protocol):
    """The part of the emulator that executes kernels."""

    failures: list[BaseException]

    def table(self, device: int) -> np.ndarray:
        """Return what kernels of a device may use, a sorted int64 array: begin, end and 1 in each row."""


class EmulatedDevice:
    """Memory and queues of the stub driver.

    Work of a library is a host function of its stream, so it runs in the order of the stream and of its events, and is
    part of captured graphs. If it fails when the call has returned, the next synchronization fails as after a kernel.
    """

    def __init__(self, stub: Any, execution: Execution) -> None:
        self._stub = stub
        self._execution = execution
        self._numbers = itertools.count(1)
        self._work: dict[int, tuple[int, Callable[[], None]]] = {}
        self._kept: set[int] = set()
        self._raised: dict[int, BaseException] = {}
        self._state = threading.local()
        self._function = _HostFunction(self._run)

    def device(self) -> int:
        """Return the index of the device whose context is current, or for whose stream work is done."""
        running: int | None = getattr(self._state, "device", None)  # the driver cannot be called then
        if running is not None:
            return running
        found = ctypes.c_int(-1)
        self._stub.cuCtxGetDevice(ctypes.byref(found))
        return found.value

    def available(self, address: int) -> int:
        """Return the bytes from an address to the end of its allocation, 0 if it lies in none."""
        table = self._execution.table(self.device())
        place = int(np.searchsorted(table[:, 0], address, side="right")) - 1
        return max(0, int(table[place, 1]) - address) if place >= 0 else 0

    def enqueue(self, stream: int, work: Callable[[], None]) -> None:
        """Queue work in a stream; what it raises is raised here if it runs at once."""
        number = next(self._numbers)
        self._work[number] = (self.device(), work)
        if self._captures(stream):  # each launch of the graph runs it
            self._kept.add(number)
        self._state.number = number
        try:
            code = self._stub.cuLaunchHostFunc(ctypes.c_void_p(stream), self._function, ctypes.c_void_p(number))
        finally:
            self._state.number = None
        if code:
            raise RuntimeError(f"[cuLaunchHostFunc] error {code} in the emulated stream {stream:#x}.")
        error = self._raised.pop(number, None)
        if error is not None:
            raise error

    def _captures(self, stream: int) -> bool:
        found = ctypes.c_int(0)
        self._stub.cuStreamIsCapturing(ctypes.c_void_p(stream), ctypes.byref(found))
        return found.value != 0

    def _run(self, number: int) -> None:
        try:
            self._state.device, work = self._work[number] if number in self._kept else self._work.pop(number)
            work()
        except BaseException as error:
            if getattr(self._state, "number", None) == number:
                self._raised[number] = error
            else:
                self._execution.failures.append(error)
                self._stub.stub_host_failed(_FAILED, str(error).encode())
        finally:
            self._state.device = None


def use_stand_ins(stub: Any, execution: Execution) -> Callable[[], None]:
    """Put the stand-ins in the place of the libraries, and return a function that restores what was there."""
    emulated = EmulatedDevice(stub, execution)
    stack = contextlib.ExitStack()
    stack.enter_context(installed(stand_ins(emulated, emulated.enqueue, emulated.device)))
    return stack.close
