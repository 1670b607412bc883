"""Launches of kernels.

Note [Host time of a launch]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A small operator takes about as long as its launch on the host, so what depends on the source alone is done once: the
places of the parameters and a ``struct`` that packs them. A grid and block are checked when they are first used, and
are part of the function that then launches the kernel (Note [Launches in one call]). What remains is one look-up, one
call that packs the arguments and one that launches (``python -m benchmarks.cuda_host``).

Note [The device of a launch]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A kernel is loaded as part of a *library* of the driver, which belongs to no context: the launch runs in the context of
its stream, and that of the calling thread need not be changed. A thread without any context is noticed by the error of
its first launch, which is then repeated in the context of the stream: so no launch pays for asking. Guarded by
``tests/backends/cuda/device/test_launching.py``.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from typing import Any, Final

from ...._util.locks import new_lock
from ...allocation.counts import calling_operator
from ..compiling import Source, cubin_of, ptx_of
from .contexts import attribute, context_of, current_device, device_count, enter
from .driver import CudaError, cu, error_of
from .failures import launched
from .launch_functions import PackedArguments, launch_of
from .streams import Stream, _capturing, _choice, device_of

__all__ = ["Kernel", "code_of", "forget", "forgetting", "kernel", "load_ptx", "synchronize_launches"]

_CODES: Final = {
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
    "uint64": "Q", "float32": "f", "float64": "d",
}  # fmt: skip
_POINTER: Final = "Q"
_MOST_CONFIGURATIONS: Final = 4096
_PLAIN_SHARED: Final = 48 * 1024  # bytes that every kernel may have without asking for more

_WITHOUT_CONTEXT: Final = (201, 400)  # CUDA_ERROR_INVALID_CONTEXT, and the answer to a stream of another one
_waits: Final[list[bool]] = []
if os.environ.get("TENKEY_CUDA_SYNCHRONIZE", "0") not in ("", "0"):
    _waits.append(True)
_as_ptx: Final[list[bool]] = []
_made: Final[dict[tuple[Source, tuple[int, int]], Kernel]] = {}
_lock: Final = new_lock()


def synchronize_launches(on: bool) -> bool:
    """Wait after each launch, as ``TENKEY_CUDA_SYNCHRONIZE=1`` does, or stop that; return what was set before."""
    before = bool(_waits)
    _waits[:] = [True] if on else []
    return before


def kernel(source: Source, device: int | None = None) -> Kernel:
    """Return the kernel of a source, compiled and loaded for the architecture of a device, by default the current one.

    The same object is returned for the same source and architecture. Raises CudaError where the driver refuses it.
    """
    index = current_device() if device is None else device
    cc = attribute("COMPUTE_CAPABILITY_MAJOR", index), attribute("COMPUTE_CAPABILITY_MINOR", index)
    found = _made.get((source, cc))
    if found is None:
        made = Kernel(source, cc, index)
        with _lock:
            found = _made.setdefault((source, cc), made)
    return found


forgetting: Final[list[Callable[[], None]]] = []
"""What else is called when the loaded kernels are forgotten."""


def forget() -> None:
    """Forget the loaded kernels: another driver was loaded."""
    _made.clear()
    for callback in forgetting:
        callback()


def load_ptx(on: bool) -> bool:
    """Load kernels as PTX, for a driver that executes it, or as machine code; return what was set before."""
    before = bool(_as_ptx)
    _as_ptx[:] = [True] if on else []
    return before


def _image_of(source: Source, cc: tuple[int, int]) -> bytes:
    """Return what the driver loads."""
    return ptx_of(source, cc).encode() + b"\0" if _as_ptx else cubin_of(source, cc).image


class Kernel:
    """A kernel of one architecture, called as ``kernel(grid, block, *arguments, stream=None)``.

    ``grid`` and ``block`` are ints or tuples of up to three; the arguments are addresses (ints) and numbers in the
    order of the source's parameters. ``stream`` is a :class:`Stream` or the handle of one, by default the current
    stream of the current device: name it where the tensors may be on another one (Note [The device of a launch]).

    Raises ValueError for a grid or block that the device cannot launch, TypeError for arguments that do not fit the
    parameters, and CudaError, which names the operator, where the driver refuses the launch.
    """

    __slots__ = (
        "_arguments", "_launches", "_library", "_pack", "cc", "function", "operator", "source",
    )  # fmt: skip

    def __init__(self, source: Source, cc: tuple[int, int], device: int) -> None:
        self.source = source
        self.cc = cc
        self.operator = calling_operator()  # the first that uses it
        layout, places = _layout(source)
        self._pack = layout.pack
        self._arguments = PackedArguments(layout.size, tuple(places))
        self._launches: dict[tuple[Any, Any], Callable[[int, bytes], Any]] = {}
        image = _image_of(source, cc)
        with enter(device):
            try:
                self._library = cu.cuLibraryLoadData(image, None, None, 0, None, None, 0)
                self.function = int(cu.cuLibraryGetKernel(self._library, source.name.encode()))
            except CudaError as error:
                raise self._described("could not be loaded", error) from error
        if source.shared > _PLAIN_SHARED:
            self._permit_shared()

    def _permit_shared(self) -> None:
        """Permit more dynamic shared memory than every kernel may have, on the devices that this code runs on."""
        from cuda.bindings import driver

        kind = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        for device in range(device_count()):
            if (
                attribute("COMPUTE_CAPABILITY_MAJOR", device),
                attribute("COMPUTE_CAPABILITY_MINOR", device),
            ) == self.cc:
                most = attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", device)
                if self.source.shared > most:
                    raise ValueError(
                        f"[{self._name}] needs {self.source.shared:,} bytes of shared memory for a block, and the "
                        f"device cuda:{device} has {most:,}: use smaller tiles."
                    )
                with enter(device):
                    cu.cuKernelSetAttribute(kind, self.source.shared, self.function, cu.cuDeviceGet(device))

    def __call__(self, grid: Any, block: Any, *arguments: Any, stream: Stream | int | None = None) -> None:
        """Launch the kernel."""
        launch = self._launches.get((grid, block)) or self._launch(grid, block)
        if stream is None:
            handle = _choice.get()[current_device()]._handle
        else:
            handle = stream if stream.__class__ is int else stream._handle  # type: ignore[union-attr]
        try:
            packed = self._pack(*arguments)
        except struct.error as error:
            raise self._misfit(arguments, error) from None
        code = launch(handle, packed)
        if code or _waits:
            self.finish(code, self.configuration(grid, block), handle, lambda: launch(handle, packed))
        launched(self)

    def _launch(self, grid: Any, block: Any) -> Callable[[int, bytes], Any]:
        """Return what launches the kernel with arguments that are packed."""
        launch = launch_of(self.function, self.configuration(grid, block), self._arguments)
        if len(self._launches) >= _MOST_CONFIGURATIONS:
            self._launches.clear()
        return self._launches.setdefault((grid, block), launch)

    @property
    def _name(self) -> str:
        return self.operator or self.source.name

    def configuration(self, grid: Any, block: Any) -> tuple[int, ...]:
        """Return grid, block and bytes of shared memory as the driver takes them, after checking them."""
        counts = []
        for what, given in (("grid", grid), ("block", block)):
            sizes = given if isinstance(given, tuple) else (given,)
            if not 1 <= len(sizes) <= 3 or any(not isinstance(n, int) or n < 1 for n in sizes):
                raise ValueError(
                    f"[{self._name}] got the {what} {given!r} for the kernel {self.source.name!r}: give one to three "
                    "positive ints. A call without elements launches nothing."
                )
            counts += [*sizes, *(1,) * (3 - len(sizes))]
        blocks, threads = counts[:3], counts[3:]
        if threads[0] * threads[1] * threads[2] > self.source.threads:
            raise ValueError(
                f"[{self._name}] got the block {block!r} for the kernel {self.source.name!r}, which is compiled for at "
                f"most {self.source.threads} threads: use a smaller block, or raise `threads` of its source."
            )
        most = [attribute(f"MAX_{what}_DIM_{axis}") for what in ("GRID", "BLOCK") for axis in "XYZ"]
        if any(n > limit for n, limit in zip(counts, most)):
            raise ValueError(
                f"[{self._name}] got the grid {grid!r} and the block {block!r} for the kernel {self.source.name!r}, "
                f"and the device takes at most the grid {tuple(most[:3])} and the block {tuple(most[3:])}: let each "
                "thread compute several elements."
            )
        return (*blocks, *threads, self.source.shared)

    def _misfit(self, arguments: tuple[Any, ...], error: struct.error) -> TypeError:
        """Return the error for arguments that do not fit the parameters."""
        parameters = self.source.parameters
        start = f"[{self._name}] the kernel {self.source.name!r} takes {len(parameters)} arguments"
        if len(arguments) != len(parameters):
            return TypeError(f"{start} ({', '.join(parameters)}), got {len(arguments)}.")
        for kind, value in zip(parameters, arguments):
            try:
                struct.pack(code_of(kind), value)
            except struct.error as found:
                return TypeError(f"{start}, and {value!r} is not a {kind}: {found}.")
        return TypeError(f"{start}, which do not fit: {error}.")

    def finish(self, code: Any, configuration: tuple[int, ...], handle: int, launch: Callable[[], Any]) -> None:
        """Repeat a launch that failed for lack of a context, raise the error of others, and wait where requested.

        ``launch()`` launches the kernel again and returns the code of the driver.
        """
        device = device_of(handle)
        if code and not int(cu.cuCtxGetCurrent()):
            cu.cuCtxSetCurrent(context_of(device))  # it stays: the thread will launch more
        with enter(device):
            if int(code) in _WITHOUT_CONTEXT:  # the first call of a thread
                code = launch()
            if code:
                where = f"with the grid {configuration[:3]} and the block {configuration[3:6]}"
                raise self._described(f"could not be launched {where}", error_of("cuLaunchKernel", code))
            if _waits and handle not in _capturing:
                launched(self)
                cu.cuStreamSynchronize(handle)

    def _described(self, what: str, error: CudaError) -> CudaError:
        """Return an error of the driver that names the operator and the kernel."""
        text = error.args[0].removeprefix("[cuda] ")
        made = CudaError(f"[{self._name}] the kernel {self.source.name!r} {what}: {text}", error.code, error.name)
        made.__cause__ = error.__cause__
        return made


def code_of(kind: str) -> str:
    """Return how ``struct`` writes a parameter of a kernel."""
    return _POINTER if kind.endswith("*") else _CODES[kind]


def _layout(source: Source) -> tuple[struct.Struct, list[int]]:
    """Return what packs the arguments of a kernel, and the place of each; all are aligned to their size."""
    unknown = [kind for kind in source.parameters if not kind.endswith("*") and kind not in _CODES]
    if unknown:
        raise TypeError(
            f"[{source.name}] the kernel has a parameter of type {unknown[0]!r}: a parameter is a pointer such as "
            f"'float32*' or one of {', '.join(_CODES)}. Pass half precision as the uint16 of its bits, and a complex "
            "number as two parameters."
        )
    codes = [code_of(kind) for kind in source.parameters]
    offsets = [struct.calcsize("@" + "".join(codes[:i]) + f"0{code}") for i, code in enumerate(codes)]
    return struct.Struct("@" + "".join(codes)), offsets
