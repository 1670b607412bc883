"""What the host does for a launch: addresses, numbers and steps of the operands, and the loaded kernel of a device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final
from weakref import WeakSet

import numpy as np

from ....core.storage import StridedArray
from ..compiling import Source
from ..device import launching
from ..device.streams import current_stream
from .emission import TYPES, parts_count

__all__ = ["Launcher", "address", "forget", "is_row", "number", "reach", "steps", "word"]

_launchers: Final[WeakSet[Launcher]] = WeakSet()


class Launcher:
    """A kernel on all devices, loaded on each at its first launch there."""

    __slots__ = ("__weakref__", "_kernels", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self._kernels: dict[int, launching.Kernel] = {}
        _launchers.add(self)

    def __call__(self, device: int, grid: Any, block: Any, *arguments: Any) -> None:
        """Launch the kernel in the current stream of a device."""
        self.on(device)(grid, block, *arguments, stream=current_stream(device))

    def on(self, device: int) -> launching.Kernel:
        """Return the kernel that is loaded on a device."""
        found = self._kernels.get(device)
        if found is None:
            found = self._kernels[device] = launching.kernel(self.source, device)
        return found


def forget() -> None:
    """Forget the loaded kernels: another driver was loaded."""
    for launcher in list(_launchers):
        launcher._kernels.clear()


launching.forgetting.append(forget)


def address(window: StridedArray) -> int:
    """Return the device address of the first element of a window."""
    return window.buffer.address + window.offset  # type: ignore[no-any-return]


@cache
def word(dtype: np.dtype) -> int:
    """Return the size in bytes of the parts in which elements are passed."""
    return dtype.itemsize // parts_count(str(dtype))


def number(value: np.generic) -> list[Any]:
    """Return the arguments for a number: its bits for floats of 16 bits, two parts for a complex one."""
    kind = str(value.dtype)
    if kind in ("float16", "bfloat16"):
        return [int(np.asarray(value).view(np.uint16))]
    if kind.startswith("complex"):
        return [float(value.real), float(value.imag)]
    return [int(value) if TYPES[kind][0] in "iu" else float(value)]


def steps(window: StridedArray) -> list[int]:
    """Return the strides of a window in parts of elements."""
    size = word(window.dtype)
    return [stride // size for stride in window.strides]


def reach(window: StridedArray) -> int:
    """Return one more than the greatest distance of a part from the first; -1 where a stride is negative."""
    last = 0
    for n, stride in zip(window.shape, window.strides):
        if stride < 0:
            return -1
        last += (n - 1) * stride
    return int(last + window.dtype.itemsize) // word(window.dtype)


def is_row(windows: Sequence[StridedArray]) -> bool:
    """Tell whether the windows have one dimension and no gaps."""
    return all(len(w.shape) == 1 and w.strides[0] == w.dtype.itemsize for w in windows)
