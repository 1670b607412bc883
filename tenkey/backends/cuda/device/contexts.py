"""Devices and their contexts.

Note [The context of a thread]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The driver's functions work in the context that is current for the calling thread, and a thread starts without one.
tenkey uses the primary context of each device, which PyTorch, CuPy and numba.cuda share. :func:`enter` makes the
context of a device current for a ``with`` block and restores what was current before, so that a call for another device
changes nothing for the caller or for another library; a thread that had no context keeps the first one. Where the
context is current already, which is so for every call but the first in a program with one device, entering asks the
driver once and changes nothing.
Guarded by ``tests/backends/cuda/device/test_contexts.py``.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, NamedTuple

from ...._util.locks import new_lock
from .driver import CudaError, cu

__all__ = [
    "DeviceProperties",
    "attribute",
    "context_of",
    "current_device",
    "device_count",
    "enter",
    "forgetters",
    "properties",
]

_COUNT: list[int] = []
_contexts: Final[dict[int, int]] = {}
_by_context: Final[dict[int, int]] = {}
_lock: Final = new_lock()
_chosen: Final[contextvars.ContextVar[int]] = contextvars.ContextVar("tenkey_cuda_device", default=0)
_attributes: Final[dict[tuple[int, str], int]] = {}


class DeviceProperties(NamedTuple):
    """What a device is: the names of PyTorch's ``get_device_properties``.

    >>> tk.cuda.get_device_properties().max_threads_per_block
    1024
    """

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    L2_cache_size: int  # PyTorch's name
    pci_bus_id: str


def device_count() -> int:
    """Return the number of devices that the driver offers."""
    if not _COUNT:
        _COUNT.append(int(cu.cuDeviceGetCount()))
    return _COUNT[0]


forgetters: Final[list[Callable[[], None]]] = []
"""What is called when another driver takes the place of the present one: each forgets its handles and addresses."""


def forget() -> None:
    """Forget everything about the devices: another driver was loaded (an emulator with other devices)."""
    for one in [*forgetters]:
        one()
    _COUNT.clear()
    _contexts.clear()
    _by_context.clear()
    _attributes.clear()


def check(device: int) -> int:
    """Return the index of a device; ValueError if there is none of that number."""
    if not 0 <= device < device_count():
        raise ValueError(f"[cuda] device {device} does not exist: there are {device_count()}, counted from 0.")
    return device


def context_of(device: int) -> int:
    """Return the handle of the primary context of a device, which is retained for the life of the process."""
    found = _contexts.get(device)
    if found is None:
        with _lock:
            found = _contexts.get(device)
            if found is None:
                found = int(cu.cuDevicePrimaryCtxRetain(cu.cuDeviceGet(check(device))))
                _by_context[found] = device
                _contexts[device] = found
    return found


class enter:  # used like a function
    """Make the context of a device current in a ``with`` block (Note [The context of a thread])."""

    __slots__ = ("_before", "_wanted")

    def __init__(self, device: int) -> None:
        self._wanted = _contexts.get(device) or context_of(device)

    def __enter__(self) -> None:
        before = int(cu.cuCtxGetCurrent())
        if before == self._wanted:
            self._before: int | None = None
        else:
            cu.cuCtxSetCurrent(self._wanted)
            self._before = before

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before:  # a thread without a context keeps the one that it got: the next call finds it
            cu.cuCtxSetCurrent(self._before)


def current_device() -> int:
    """Return the index of the device that calls without an index use, by thread and task."""
    return _chosen.get()


def choose(device: int) -> None:
    """Set the device that calls without an index use."""
    _chosen.set(check(device))


def attribute(name: str, device: int = 0) -> int:
    """Return an attribute of a device by its name in the driver's manual, without ``CU_DEVICE_ATTRIBUTE_``.

    The answers do not change and are remembered.
    """
    found = _attributes.get((device, name))
    if found is None:
        from cuda.bindings import driver

        kind: Any = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        found = _attributes[device, name] = int(cu.cuDeviceGetAttribute(kind, cu.cuDeviceGet(check(device))))
    return found


def properties(device: int = 0) -> DeviceProperties:
    """Return name, architecture, memory and limits of a device."""
    handle = cu.cuDeviceGet(check(device))
    try:
        bus = _text(cu.cuDeviceGetPCIBusId(32, handle))
    except CudaError:  # a virtual device may have none
        bus = ""
    return DeviceProperties(
        name=_text(cu.cuDeviceGetName(256, handle)),
        major=attribute("COMPUTE_CAPABILITY_MAJOR", device),
        minor=attribute("COMPUTE_CAPABILITY_MINOR", device),
        total_memory=int(cu.cuDeviceTotalMem(handle)),
        multi_processor_count=attribute("MULTIPROCESSOR_COUNT", device),
        warp_size=attribute("WARP_SIZE", device),
        max_threads_per_block=attribute("MAX_THREADS_PER_BLOCK", device),
        max_threads_per_multi_processor=attribute("MAX_THREADS_PER_MULTIPROCESSOR", device),
        regs_per_multiprocessor=attribute("MAX_REGISTERS_PER_MULTIPROCESSOR", device),
        shared_memory_per_block=attribute("MAX_SHARED_MEMORY_PER_BLOCK", device),
        shared_memory_per_block_optin=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", device),
        L2_cache_size=attribute("L2_CACHE_SIZE", device),
        pci_bus_id=bus,
    )


def _text(answer: bytes) -> str:
    return answer.split(b"\0", 1)[0].decode(errors="replace")
