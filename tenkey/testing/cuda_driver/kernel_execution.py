"""What the stub driver asks of Python: to read an image, and to execute a kernel with the executor of PTX.

A kernel that faults answers with the code of the driver that a device would report for it. The exception with the
kernel's name, thread and line is kept: :class:`~tenkey.testing.CudaEmulator` gives it to the error of the next call
that waits.

Note [The memory of tensors]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The allocator cuts large allocations into blocks, so an access past the end of a tensor would hit another tensor and go
unnoticed. Kernels that run at once may therefore use the bytes that tensors asked for, and no others of the allocator's
segments. Deferred kernels run when their tensors may have ended, and replays of a graph use memory that no tensor holds
any more: these may use whole segments. Guarded by ``tests/testing/cuda_driver/test_exact_memory.py``.
"""

from __future__ import annotations

import _thread
import ctypes
import threading
from collections.abc import Callable, Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from ...backends.cuda.memory.segments import USED, Segment
from ..ptx import KernelError, Module
from ..ptx.ptx_text import ModuleText, parse
from .ptx_images import entries, ptx_of_image, variables
from .stub_calls import Callbacks, LaunchCallback, LoadCallback, UnloadCallback, VariableCallback

__all__ = ["Execution", "ImageError"]

_INVALID_PTX: Final = 218
_NO_BINARY: Final = 209
_ILLEGAL_ADDRESS: Final = 700
_LAUNCH_FAILED: Final = 719
_UNSUPPORTED: Final = 801
_CODES: Final = {  # kinds of errors of the executor, and what a device reports; it does not see the others
    "out of bounds": _ILLEGAL_ADDRESS, "read-only": _ILLEGAL_ADDRESS, "misaligned": 716, "assertion": 710,
    "bad call": 718, "bad barrier": 715, "endless": 702,
}  # fmt: skip


class ImageError(RuntimeError):
    """An image that the emulator cannot execute."""


class _Image:
    """A loaded image; it is translated when one of its kernels is first launched."""

    def __init__(self, ptx: str, text: ModuleText) -> None:
        self.ptx = ptx
        self.translated: Module | None = None
        self.races = False  # whether it was translated to watch for races
        self.variables = variables(text)


class Execution:
    """The functions that the stub calls. ``order``, ``seed`` and ``races`` are those of the executor."""

    def __init__(self, stub: ctypes.CDLL) -> None:
        self.stub = stub
        self.order, self.seed, self.races = "up", 0, False
        self.segments: Callable[[int], Iterable[Segment]] | None = None  # those of the allocator of a device
        self.failures: list[BaseException] = []
        self._images: dict[int, _Image] = {}
        self._kernels: list[tuple[int, str]] = []  # the image and the name of each
        self._translated: dict[tuple[str, bool], Module] = {}
        self._ranges: dict[int, tuple[int, np.ndarray]] = {}
        self._lock = threading.RLock()
        self._callbacks = Callbacks(
            LaunchCallback(self._launch), LoadCallback(self._load), UnloadCallback(self._unload),
            VariableCallback(self._variable),
        )  # fmt: skip
        stub.stub_connect(ctypes.byref(self._callbacks))

    # ---- images
    def _load(self, image: int, size: int, library: int, code: Any) -> int:
        try:
            content = ctypes.string_at(image, size) if size else ctypes.string_at(image)
            ptx = ptx_of_image(content)
            if ptx is None:
                code[0] = _NO_BINARY if size else 200
                if size:
                    self.failures[:] = [
                        ImageError(
                            "[cuda_emulator] machine code cannot be executed without its PTX: load the PTX, or say "
                            "what the code was made from (tenkey.testing.cuda_driver.ptx_images.register_image)."
                        )
                    ]
                return 0
            text = parse(ptx)
            with self._lock:
                self._define(text, library)
                self._images[library] = _Image(ptx, text)
            code[0] = 0
            return library
        except BaseException as error:
            self.failures[:] = [error]
            code[0] = _INVALID_PTX
            return 0

    def _define(self, text: ModuleText, library: int) -> None:
        for entry in entries(text):
            offsets = np.array([offset for offset, _ in entry.parameters], np.uint64)
            sizes = np.array([size for _, size in entry.parameters], np.uint64)
            self._kernels.append((library, entry.name))
            self.stub.stub_define_kernel(
                library, entry.name.encode(), len(self._kernels) - 1, len(offsets), offsets.ctypes.data,
                sizes.ctypes.data, entry.size, entry.registers, entry.shared, entry.local, 0, entry.threads,
            )  # fmt: skip
        for variable in variables(text):
            self.stub.stub_define_global(library, variable.name.encode(), variable.size)

    def _unload(self, library: int) -> None:
        self._images.pop(library, None)

    def _executable(self, image: _Image) -> Module:
        if image.translated is None or (image.races != self.races and not image.variables):
            image.races = self.races
            if image.variables:  # each image has its own, which stay as they are
                image.translated = Module(image.ptx, races=self.races)
            else:
                key = image.ptx, self.races
                if key not in self._translated:
                    self._translated[key] = Module(image.ptx, races=self.races)
                image.translated = self._translated[key]
        return image.translated

    def _variable(self, library: int, name: bytes) -> int:
        """Return the address of a variable of a module, 0 if it cannot be found."""
        try:
            with self._lock:
                return self._executable(self._images[library]).variable(name.decode())[0]
        except BaseException as error:
            self.failures.append(error)
            return 0

    # ---- launches
    def _launch(
        self, kernel: int, sizes: Any, parameters: int | None, size: int, device: int, text: int, room: int
    ) -> int:
        try:
            library, name = self._kernels[kernel]
            grid, block = tuple(sizes[0:3]), tuple(sizes[3:6])
            packed = ctypes.string_at(parameters, size) if parameters else b""
            with self._lock:
                executable = self._executable(self._images[library]).kernel(name)
                memory: Any = SimpleNamespace(table=partial(self.table, device), describe=self.describe)
                executable.launch(grid, block, packed, shared=sizes[6], order=self.order, seed=self.seed, memory=memory)
            return 0
        except BaseException as error:
            self.failures.append(error)
            if isinstance(error, KeyboardInterrupt):  # here it would be lost
                _thread.interrupt_main()
            message = f"{error}".encode()[: room - 1] + b"\0"
            ctypes.memmove(text, message, len(message))
            if isinstance(error, KernelError):
                return _CODES.get(error.kind, _LAUNCH_FAILED)
            return _UNSUPPORTED if isinstance(error, NotImplementedError) else _LAUNCH_FAILED

    def table(self, device: int) -> np.ndarray:
        """Return what kernels of a device may use, a sorted int64 array: begin, end and 1 (writable).

        See Note [The memory of tensors].
        """
        whole = self._whole_table(device)
        segments = {segment.address: segment for segment in self.segments(device)} if self.segments else {}
        rows: list[tuple[int, int]] = []
        for begin, end in whole[:, :2].tolist():
            segment = segments.get(begin)
            if segment is None or segment.arena.pool is not None:
                rows.append((begin, end))
            else:
                rows += [(b.address, b.address + b.requested) for b in segment.blocks() if b.state == USED]
        if not segments:
            return whole
        table = np.ones((len(rows), 3), np.int64)
        table[:, :2] = np.array(rows, np.int64).reshape(-1, 2)
        return table

    def _whole_table(self, device: int) -> np.ndarray:
        """Return the allocations of the driver."""
        generation = self.stub.stub_generation()
        known = self._ranges.get(device)
        if known is not None and known[0] == generation:
            return known[1]
        room = 256 if known is None else len(known[1]) + 64
        while True:
            found = np.zeros((room, 2), np.int64)
            count = self.stub.stub_ranges(device, found.ctypes.data, room)
            if count <= room:
                break
            room = count + 64
        table = np.ones((count, 3), np.int64)
        table[:, :2] = found[:count]
        self._ranges[device] = generation, table
        return table

    def describe(self, address: int) -> str | None:
        """Return what the driver knows of an address outside of all allocations, or None."""
        found = ctypes.create_string_buffer(1024)
        known = self.stub.stub_describe(address, 1, found, 1024)
        return found.value.decode(errors="replace") if known else None
