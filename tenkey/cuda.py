"""NVIDIA GPUs: devices, streams, events, memory and graphs, under the names of ``torch.cuda``.

Tensors are made on a GPU with ``device="cuda"`` or ``"cuda:1"``; the extra ``cuda`` and NVIDIA's driver are needed.
Everything here that is about a device takes its index, the device or its name, by default the current device. Random
numbers do not depend on the device, so ``tk.random.seed`` seeds those of GPUs too.

On a machine without a GPU, ``tk.testing.cuda_emulator()`` gives devices that compute on the CPU. The examples use it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, overload

from .backends.cuda.device import contexts, driver, streams
from .backends.cuda.device.contexts import DeviceProperties
from .backends.cuda.device.driver import CudaError, DriverMissingError, OutOfMemoryError
from .backends.cuda.device.failures import KernelFailureError
from .backends.cuda.device.graphs import StepGraph
from .backends.cuda.device.streams import CaptureError, Event, ExternalStream, Stream
from .backends.cuda.memory.memory_functions import (
    get_per_process_memory_fraction,
    host_memory_stats,
    memory_snapshot,
    record_memory_history,
    reset_accumulated_memory_stats,
    set_per_process_memory_fraction,
)
from .backends.cuda.user_kernels import UserKernel, kernel
from .core.device import Device, to_device
from .core.random.generator import seed as _seed

__all__ = [
    "CaptureError", "CudaError", "DeviceProperties", "DriverMissingError", "Event", "ExternalStream",
    "KernelFailureError", "OutOfMemoryError", "StepGraph", "Stream", "UserKernel", "can_device_access_peer",
    "current_device", "current_stream", "default_stream", "device", "device_count", "empty_cache",
    "get_device_capability", "get_device_name", "get_device_properties", "get_per_process_memory_fraction", "graph",
    "host_memory_stats", "is_available", "is_bf16_supported", "is_current_stream_capturing", "kernel", "manual_seed",
    "max_memory_allocated", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_reserved",
    "memory_snapshot", "memory_stats", "memory_summary", "record_memory_history", "reset_accumulated_memory_stats",
    "reset_peak_memory_stats", "set_device", "set_per_process_memory_fraction", "set_stream", "stream", "synchronize",
]  # fmt: skip


# ---- devices


def is_available() -> bool:
    """Return whether the packages of the extra ``cuda``, a driver and at least one device are there.

    It never raises, and imports NVIDIA's packages only where the driver is installed. What is missing, and the command
    that installs it, is in the error of ``tk.zeros(1, device="cuda")``.

    >>> tk.cuda.is_available()
    True
    """
    try:
        return driver.is_available()
    except Exception:  # a driver that fails is not available
        return False


def device_count() -> int:
    """Return the number of devices; 0 where CUDA is not available.

    >>> tk.cuda.device_count()
    1
    """
    return contexts.device_count() if is_available() else 0


def current_device() -> int:
    """Return the index of the device that ``device="cuda"`` stands for in this thread and task.

    >>> tk.cuda.current_device()
    0
    """
    _need()
    return contexts.current_device()


def set_device(device: Device | str | int) -> None:
    """Make a device the one that ``device="cuda"`` stands for in this thread and task.

    Raises ValueError for a device that does not exist. ``with tk.cuda.device(1):`` restores the previous one.

    >>> tk.cuda.set_device(0)
    """
    _need()
    contexts.choose(streams.index_of(device))


@contextlib.contextmanager
def device(device: Device | str | int) -> Iterator[None]:
    """Make a device the current one in a ``with`` block.

    >>> with tk.cuda.device(0):
    ...     tk.zeros(2, device="cuda").device
    device('cuda')
    """
    _need()
    before = contexts.current_device()
    contexts.choose(streams.index_of(device))
    try:
        yield
    finally:
        contexts.choose(before)


def get_device_name(device: Device | str | int | None = None) -> str:
    """Return the name of a device.

    >>> isinstance(tk.cuda.get_device_name(), str)
    True
    """
    return get_device_properties(device).name


def get_device_capability(device: Device | str | int | None = None) -> tuple[int, int]:
    """Return the compute capability of a device: its architecture, as two ints.

    >>> tk.cuda.get_device_capability()
    (9, 0)
    """
    found = get_device_properties(device)
    return found.major, found.minor


def get_device_properties(device: Device | str | int | None = None) -> DeviceProperties:
    """Return name, architecture, memory and limits of a device.

    >>> tk.cuda.get_device_properties().warp_size
    32
    """
    _need()
    return contexts.properties(streams.index_of(device))


def is_bf16_supported() -> bool:
    """Return whether the current device computes with bfloat16, which is so from compute capability 8.0 on.

    >>> tk.cuda.is_bf16_supported()
    True
    """
    return is_available() and get_device_capability()[0] >= 8


def can_device_access_peer(device: Device | str | int, peer: Device | str | int) -> bool:
    """Return whether a device can access the memory of another one directly. Copies between devices work anyway.

    Raises ValueError for a device that does not exist.

    >>> tk.cuda.can_device_access_peer(0, 0)
    False
    """
    one, other = [driver.cu.cuDeviceGet(_index(given)) for given in (device, peer)]
    return int(one) != int(other) and bool(driver.cu.cuDeviceCanAccessPeer(one, other))


def manual_seed(seed: int) -> None:
    """Seed the random numbers, as ``tk.random.seed`` does: those of all devices, and of the CPU, are the same.

    >>> tk.cuda.manual_seed(3)
    >>> x = tk.random.normal((3,), device="cuda")
    >>> tk.cuda.manual_seed(3)
    >>> tk.random.normal((3,)).tolist() == x.tolist()
    True
    """
    _seed(seed)


def synchronize(device: Device | str | int | None = None) -> None:
    """Wait until all work on a device is done.

    Raises the error that a kernel has reported, such as an index out of range, and CudaError for a kernel that failed.

    >>> x = tk.ones(3, device="cuda") + 1
    >>> tk.cuda.synchronize()
    """
    from .backends.external.runtime.streams import settle

    index = _index(device)
    settle(_backend(), index)


# ---- streams


def current_stream(device: Device | str | int | None = None) -> Stream:
    """Return the stream that work of this thread and task is put into.

    >>> tk.cuda.current_stream() == tk.cuda.default_stream()
    True
    """
    return streams.current_stream(_index(device))


def default_stream(device: Device | str | int | None = None) -> Stream:
    """Return the stream that is current where no other was chosen.

    >>> tk.cuda.default_stream().query()
    True
    """
    return streams.default_stream(_index(device))


@contextlib.contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """Make a stream the current one of its device, and this device the current one; None changes nothing.

    Work in different streams may run at the same time. Their order is the task of whoever uses two: ``wait_stream``
    and ``wait_event`` let one wait for the other, and ``tk.Tensor`` memory that another stream uses is announced with
    ``backend.record_stream`` (``docs/streams.md``).

    >>> side = tk.cuda.Stream()
    >>> x = tk.ones(3, device="cuda")
    >>> side.wait_stream(tk.cuda.current_stream())
    >>> with tk.cuda.stream(side):
    ...     y = x + 1
    >>> tk.cuda.current_stream().wait_stream(side)
    >>> y.tolist()
    [2.0, 2.0, 2.0]
    """
    if stream is None:
        yield
        return
    with stream:
        yield


def set_stream(stream: Stream | None) -> None:
    """Make a stream the current one of its device, and this device the current one, in this thread and task.

    None changes nothing. ``with tk.cuda.stream(side):`` restores what was current before; within such a block the
    stream is current until the end of the block.

    >>> side = tk.cuda.Stream()
    >>> tk.cuda.set_stream(side)
    >>> tk.cuda.current_stream() == side
    True
    >>> tk.cuda.set_stream(tk.cuda.default_stream())
    """
    if stream is not None:
        streams.choose_stream(stream)


def is_current_stream_capturing() -> bool:
    """Return whether the work of the current stream is being captured, as :func:`graph` does.

    >>> tk.cuda.is_current_stream_capturing()
    False
    """
    return is_available() and streams.is_captured(streams.current_stream().handle)


# ---- graphs


@overload
def graph(function: Callable[..., Any], *, copy_results: bool = True) -> StepGraph: ...
@overload
def graph(function: None = None, *, copy_results: bool = True) -> Callable[[Callable[..., Any]], StepGraph]: ...
def graph(function: Callable[..., Any] | None = None, *, copy_results: bool = True) -> Any:
    """Return a function that captures the work of a step on the GPU and launches all of it with one call.

    The first call runs the step, the second captures it, later calls launch the graph; each call does the step once.
    Tensors among the arguments (in any nesting of tuples, lists and dicts) are copied into the memory of the capture,
    so their values may change from call to call; for other shapes, dtypes or other arguments another graph is captured.
    Results are copied out of that memory; with ``copy_results=False`` they are the same tensors at each call, which the
    next call overwrites. What the step takes from its closure, such as parameters, it reads and writes where it is.

    The step is recorded: its Python code runs twice and not again. It must not read values on the host (``item()``,
    ``tolist()``, a condition on a tensor), make tensors of values of the host, synchronize, or draw random numbers;
    each of these raises CaptureError, a RuntimeError. ValueError is raised for an argument or result with a gradient to
    be recorded: call ``backward`` within the step. Can be used as a decorator.

    >>> w = tk.ones(3, device="cuda")
    >>> @tk.cuda.graph
    ... def step(x):
    ...     return (w * x).sum()
    >>> [step(tk.full(3, float(i), device="cuda")).item() for i in range(4)]
    [0.0, 3.0, 6.0, 9.0]
    """
    if function is None:
        return lambda function: StepGraph(function, copy_results=copy_results)
    return StepGraph(function, copy_results=copy_results)


# ---- memory


def memory_allocated(device: Device | str | int | None = None) -> int:
    """Return the bytes that tensors hold on a device.

    >>> before = tk.cuda.memory_allocated()
    >>> x = tk.zeros(1024, device="cuda")
    >>> tk.cuda.memory_allocated() - before >= 4096
    True
    """
    return int(memory_stats(device)["allocated_bytes.all.current"])


def max_memory_allocated(device: Device | str | int | None = None) -> int:
    """Return the most bytes that tensors have held on a device since :func:`reset_peak_memory_stats`.

    >>> tk.cuda.max_memory_allocated() >= tk.cuda.memory_allocated()
    True
    """
    return int(memory_stats(device)["allocated_bytes.all.peak"])


def memory_reserved(device: Device | str | int | None = None) -> int:
    """Return the bytes that were allocated by the driver, for tensors and as a reserve for later ones.

    >>> tk.cuda.memory_reserved() >= tk.cuda.memory_allocated()
    True
    """
    return int(memory_stats(device)["reserved_bytes.all.current"])


def max_memory_reserved(device: Device | str | int | None = None) -> int:
    """Return the most bytes that were allocated by the driver since :func:`reset_peak_memory_stats`.

    >>> tk.cuda.max_memory_reserved() >= tk.cuda.memory_reserved()
    True
    """
    return int(memory_stats(device)["reserved_bytes.all.peak"])


def memory_stats(device: Device | str | int | None = None) -> dict[str, Any]:
    """Return the counters of a device's memory, with the names of ``torch.cuda.memory_stats``.

    >>> tk.cuda.memory_stats()["num_ooms"]
    0
    """
    found: dict[str, Any] = _allocator(device).stats()
    return found


def memory_summary(device: Device | str | int | None = None) -> str:
    """Return a table of what tensors hold, what is reserved, the peaks and the totals.

    >>> print(tk.cuda.memory_summary().splitlines()[0])
    memory of cuda:0                 now         peak    allocated        freed
    """
    index = _index(device)
    stats = memory_stats(index)
    lines = [f"{f'memory of cuda:{index}':24}{'now':>9}{'peak':>13}{'allocated':>13}{'freed':>13}"]
    rows = (
        ("held by tensors", "allocated_bytes"), ("requested by tensors", "requested_bytes"),
        ("reserved", "reserved_bytes"), ("in unused pieces", "inactive_split_bytes"), ("blocks", "allocation"),
        ("segments", "segment"),
    )  # fmt: skip
    for title, name in rows:
        parts = [stats.get(f"{name}.all.{part}", 0) for part in ("current", "peak", "allocated", "freed")]
        shown = [_bytes(n) if name.endswith("bytes") else f"{n:,}" for n in parts]
        lines.append(f"{title:24}{shown[0]:>9}" + "".join([f"{text:>13}" for text in shown[1:]]))
    lines.append(f"retries after a failed allocation: {stats.get('num_alloc_retries', 0)}")
    lines.append(f"out of memory: {stats.get('num_ooms', 0)}")
    return "\n".join(lines)


def reset_peak_memory_stats(device: Device | str | int | None = None) -> None:
    """Make the present values the peaks.

    >>> tk.cuda.reset_peak_memory_stats()
    >>> tk.cuda.max_memory_allocated() == tk.cuda.memory_allocated()
    True
    """
    _allocator(device).reset_peaks()


def empty_cache(device: Device | str | int | None = None) -> None:
    """Free the memory that is reserved and that no tensor uses, on a device or on all.

    >>> tk.cuda.empty_cache()
    """
    _need()
    _backend().empty_cache(None if device is None else _index(device))


def mem_get_info(device: Device | str | int | None = None) -> tuple[int, int]:
    """Return the free and all memory of a device in bytes, as the driver reports it.

    >>> free, total = tk.cuda.mem_get_info()
    >>> 0 <= free <= total
    True
    """
    _need()
    with contexts.enter(streams.index_of(device)):
        free, total = driver.cu.cuMemGetInfo()
    return int(free), int(total)


def _need() -> None:
    """Raise DriverMissingError, with what is missing and the command that installs it, if CUDA is not available."""
    missing = driver.missing()
    if missing is not None:
        raise DriverMissingError(missing)


def _index(device: Device | str | int | None) -> int:
    _need()
    return contexts.check(streams.index_of(device))


def _backend() -> Any:
    return to_device("cuda").backend


def _allocator(device: Device | str | int | None) -> Any:
    index = _index(device)
    return _backend().pools.of(index)


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
