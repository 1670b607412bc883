"""The emulator: the device ``cuda`` on a machine without a GPU."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, NamedTuple

from ...backends.cuda.device import contexts, failures, launching
from ...backends.cuda.device.driver import cu
from ...backends.cuda.memory.device_memory import POOLS
from ..checks.run import surroundings
from ..cuda_libraries.emulated_device import use_stand_ins
from .kernel_execution import Execution
from .stub_building import load_stub
from .stub_calls import declare

__all__ = ["CudaEmulator", "EmulatorCounts", "cuda_emulator", "emulator_from_environment"]

_MOST_DEVICES: Final = 16
_ENVIRONMENT: Final = "TENKEY_CUDA_EMULATOR"
_TEXT: Final = 4096
_ARCHITECTURES: Final = ((8, 0), (9, 0), (10, 0))
_ORDERS: Final = ("up", "down", "random")
_LEAST_MEMORY: Final = 1 << 20
_active: Final[list[CudaEmulator]] = []
_execution: Final[list[Execution]] = []


class EmulatorCounts(NamedTuple):
    """What the driver was asked to do. Names as in the driver's manual; ``copied_bytes`` is the sum over all copies.

    ``synchronisations`` counts calls that wait by their nature, ``implicit_synchronisations`` those that wait although
    they need not: copies with pageable memory, ``cuMemFree``.
    """

    allocations: int = 0  # in the order of ``Counts`` in source/stub.h
    frees: int = 0
    pinned_allocations: int = 0
    pinned_frees: int = 0
    launches: int = 0
    host_to_device: int = 0
    device_to_host: int = 0
    device_to_device: int = 0
    host_to_host: int = 0
    sets: int = 0
    copied_bytes: int = 0
    synchronisations: int = 0
    implicit_synchronisations: int = 0
    queries: int = 0
    events_recorded: int = 0
    events_waited: int = 0
    host_functions: int = 0
    graph_launches: int = 0
    streams: int = 0
    events: int = 0
    modules: int = 0


class _Settings(NamedTuple):
    devices: int
    cc: tuple[int, int]
    memory: int
    deferred: bool
    order: str
    seed: int
    races: bool
    execute: bool
    guard: int


class CudaEmulator:
    """An emulator that runs; :func:`cuda_emulator` starts it. As a context manager it stops at the end of the block.

    If the block ends without an exception, work that is left is done, and an error of a kernel that no call has
    reported is raised as RuntimeError, with the exception of the executor as its cause.

    >>> with tk.testing.cuda_emulator(memory=2**24) as emulator:
    ...     emulator.fail_next("cuMemAlloc*", 2, times=9)
    ...     tk.ones(4, device="cuda")
    Traceback (most recent call last):
    ...
    tenkey.backends.cuda.device.driver.OutOfMemoryError: ...
    """

    def __init__(self, settings: _Settings) -> None:
        self._stub = declare(load_stub())
        if not _execution:
            _execution.append(Execution(self._stub))
            atexit.register(self._stub.stub_execute, 0)  # Python cannot be called any more
        self._execution = _execution[0]
        self._settings = settings
        self._before = EmulatorCounts()
        self._outer = _active[-1] if _active else None
        self._undo: list[Callable[[], Any]] = []
        if self._outer is not None:
            mine, its = settings, self._outer._settings
            if (mine.devices, mine.cc, mine.memory) != (its.devices, its.cc, its.memory):
                raise RuntimeError(
                    f"[cuda_emulator] an emulator with devices={its.devices}, cc={its.cc} and memory={its.memory} is "
                    "active: stop it first, or start one with the same devices in its place."
                )
            self._outer.finish()
        _active.append(self)
        self._apply(settings)
        if self._outer is None:
            self._connect()
        self.reset_counts()

    def _apply(self, settings: _Settings) -> None:
        execution = self._execution
        execution.order, execution.seed, execution.races = settings.order, settings.seed, settings.races
        execution.segments = None if settings.deferred else POOLS.segments
        POOLS.leave_between(0 if settings.deferred or not settings.execute else settings.guard)
        self._stub.stub_start(
            settings.devices, *settings.cc, settings.memory, settings.deferred, settings.execute, settings.seed
        )

    def _connect(self) -> None:
        """Tell the CUDA backend and cuda.core that the devices may have changed."""
        _forget()
        as_ptx = launching.load_ptx(True)
        self._undo += [lambda: launching.load_ptx(as_ptx), failures.ask(lambda: self.failure), _forget]
        self._undo.append(use_stand_ins(self._stub, self._execution))
        surroundings.append(self._watching)
        self._undo.append(lambda: surroundings.remove(self._watching))

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """Watch kernels for races, as ``opcheck`` does."""
        self.finish()
        before, self._execution.races = self._execution.races, True
        try:
            yield
        finally:
            self.finish()
            self._execution.races = before

    def __enter__(self) -> CudaEmulator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        problem = None
        if error is None:
            self.finish()
            problem = self._error(reported=False)
        self.stop()
        if problem is not None:
            raise problem

    def stop(self) -> None:
        """Do the work that is left and stop: the device is gone. Memory that is freed later is freed correctly."""
        if self not in _active:
            return
        while _active[-1] is not self:
            _active[-1].stop()
        _active.remove(self)
        if self._outer is not None:
            self.finish()
            self.clear_error()
            self._apply(self._outer._settings)
            return
        self.finish()
        self._execution.failures.clear()
        for undo in self._undo:
            undo()
        self._stub.stub_stop()

    # ---- faults
    def fail_next(self, function: str, code: int = 999, *, after: int = 0, times: int = 1) -> None:
        """Let the next call of a function of the driver fail with a code, without doing anything.

        ``function`` is a name without its version, or a pattern: ``"cuMemAlloc*"``. The first ``after`` calls succeed;
        then ``times`` calls fail.
        """
        self._stub.stub_fail(function.encode(), int(code), after, times)

    def misalign_next(self, nbytes: int = 4, *, times: int = 1) -> None:
        """Let the next allocation return an address that many bytes after the aligned one."""
        self._stub.stub_misalign(nbytes, times)

    @property
    def pending_faults(self) -> int:
        """The number of injected faults that have not happened yet."""
        return int(self._stub.stub_faults())

    # ---- errors
    @property
    def failure(self) -> BaseException | None:
        """What the executor raised first since errors were cleared: a kernel's error with name, thread and line."""
        return self._execution.failures[0] if self._execution.failures else None

    @property
    def error(self) -> RuntimeError | None:
        """The error that a context is in, as an exception whose cause is the failure of the kernel, or None."""
        return self._error(reported=True)

    def _error(self, reported: bool) -> RuntimeError | None:
        text = ctypes.create_string_buffer(_TEXT)
        code = self._stub.stub_error(text, _TEXT, reported)
        if not code:
            return None
        made = RuntimeError(f"[cuda_emulator] error {code}: {text.value.decode(errors='replace')}")
        made.__cause__ = self.failure
        return made

    def clear_error(self) -> None:
        """Take back the error of all contexts. A device would need a new process."""
        self._execution.failures.clear()
        self._stub.stub_clear_error()

    # ---- work and counts
    def finish(self) -> None:
        """Do all queued work, without counting as a synchronisation."""
        self._stub.stub_finish()

    @property
    def deferred(self) -> bool:
        """Whether work is done as late as possible, in an adversarial order."""
        return self._settings.deferred

    @property
    def execute(self) -> bool:
        """Whether kernels are executed; set it to measure what the host does."""
        return self._settings.execute

    @execute.setter
    def execute(self, on: bool) -> None:
        self._settings = self._settings._replace(execute=on)
        self._stub.stub_execute(on)

    @property
    def counts(self) -> EmulatorCounts:
        """What was counted since the start or :meth:`reset_counts`."""
        now = self._counted()
        return EmulatorCounts(*[a - b for a, b in zip(now, self._before, strict=True)])

    def _counted(self) -> EmulatorCounts:
        numbers = (ctypes.c_ulonglong * len(EmulatorCounts._fields))()
        self._stub.stub_counts(numbers)
        return EmulatorCounts(*numbers)

    def reset_counts(self) -> None:
        """Begin to count anew."""
        self._before = self._counted()

    def calls(self, function: str) -> int:
        """Return how often a function of the driver was called in this process; the name may be a pattern."""
        return int(self._stub.stub_calls(function.encode()))

    def held(self) -> tuple[int, int]:
        """Return the number of allocations of device memory that are not freed, and their bytes."""
        nbytes = ctypes.c_size_t()
        return int(self._stub.stub_held(-1, ctypes.byref(nbytes))), nbytes.value


def _forget() -> None:
    contexts.forget()
    launching.forget()
    cu.__dict__.pop("cuInit", None)  # looks for a driver anew
    numba_driver = sys.modules.get("numba.cuda.cudadrv.driver")
    if numba_driver is not None and numba_driver.driver.initialization_error is not None:  # it found no driver, once
        numba_driver.driver.is_initialized, numba_driver.driver.initialization_error = False, None
    core = sys.modules.get("cuda.core._device")
    if core is not None:
        vars(core._tls).clear()


def cuda_emulator(
    devices: int = 1,
    cc: tuple[int, int] = (9, 0),
    memory: int = 2**32,
    deferred: bool = False,
    order: str = "up",
    seed: int = 0,
    races: bool = False,
    *,
    execute: bool = True,
    guard: int = 16,
) -> CudaEmulator:
    """Make the device ``cuda`` work in this process without a GPU: the PTX of kernels is executed on the CPU.

    The emulator is active until the end of the process, or of the ``with`` block that it is used in. It takes the place
    of NVIDIA's driver, on which ``cuda.bindings`` and ``cuda.core`` run; ``docs/cuda_driver.md`` says what it has, what
    it finds and what it cannot show. An emulator within another one with the same devices changes the other options
    until its end.

    Args:
        devices: the number of devices, 1 to 16.
        cc: their compute capability: (8, 0), (9, 0) or (10, 0).
        memory: bytes of memory of each.
        deferred: whether work is done as late as possible, in an order that the program leaves open, so that a missing
            order shows. Freed memory is then in use until the work that was queued before is done.
        order: of the threads of a kernel: "up", "down" or "random".
        seed: of the random orders.
        races: whether kernels are watched for races between threads of a block, which takes several times longer.
            ``tk.library.opcheck`` always does so.
        execute: whether kernels are executed; otherwise launches do nothing, to measure the host alone.
        guard: bytes between two tensors that no kernel may use, so that an access past the end of one is found.

    Raises:
        ValueError: an option is out of its range.
        CompilerMissingError: the machine has no C compiler, or is not a Linux machine.
        RuntimeError: NVIDIA's driver is loaded in this process already, or another emulator with other devices is
            active.

    >>> with tk.testing.cuda_emulator() as emulator:
    ...     x = tk.asarray([1.0, 2.0], device="cuda")
    ...     print((x + 1).tolist(), emulator.counts.launches)
    [2.0, 3.0] 1
    """
    if not 1 <= devices <= _MOST_DEVICES:
        raise ValueError(f"[cuda_emulator] has 1 to {_MOST_DEVICES} devices, got devices={devices!r}.")
    if tuple(cc) not in _ARCHITECTURES:
        known = ", ".join(map(str, _ARCHITECTURES))
        raise ValueError(f"[cuda_emulator] got the compute capability cc={cc!r}: it can be one of {known}.")
    if order not in _ORDERS:
        raise ValueError(f"[cuda_emulator] the order of threads is one of {', '.join(_ORDERS)}, got order={order!r}.")
    if memory < _LEAST_MEMORY:
        raise ValueError(f"[cuda_emulator] a device has at least {_LEAST_MEMORY} bytes of memory, got {memory!r}.")
    if guard < 0:
        raise ValueError(f"[cuda_emulator] leaves guard bytes after each tensor, at least 0, got {guard!r}.")
    if not 0 <= seed < 2**63:
        raise ValueError(f"[cuda_emulator] the seed is an int of at least 0 and below 2**63, got {seed!r}.")
    settings = _Settings(devices, (cc[0], cc[1]), memory, deferred, order, seed, races, execute, guard)
    return CudaEmulator(settings)


def emulator_from_environment() -> CudaEmulator | None:
    """Start the emulator if ``TENKEY_CUDA_EMULATOR`` is set and none is active; return the one that is.

    The value is 1, or options of :func:`cuda_emulator` divided by commas: ``deferred,seed=3,devices=2,cc=8.0``.
    """
    value = os.environ.get(_ENVIRONMENT, "0").strip()
    if not _active and value not in ("", "0"):
        return cuda_emulator(**({} if value == "1" else _options(value)))
    return _active[-1] if _active else None


def _options(text: str) -> dict[str, Any]:
    """Return the options that a text such as ``"deferred,seed=3"`` names."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        try:
            if name in ("devices", "memory", "seed", "guard"):
                found[name] = int(value)
            elif name in ("deferred", "races", "execute"):
                found[name] = {"": True, "1": True, "0": False}[value]
            elif name == "cc":
                major, _, minor = value.partition(".")
                found[name] = int(major), int(minor)
            elif name == "order":
                found[name] = value
            else:
                raise ValueError(name)
        except (ValueError, KeyError):
            raise ValueError(
                f"[cuda_emulator] {_ENVIRONMENT}={text!r} has the part {part!r}: it is 1, or a list of devices=, cc=, "
                "memory=, seed=, guard=, order=, deferred, races, execute=0, divided by commas."
            ) from None
    return found
