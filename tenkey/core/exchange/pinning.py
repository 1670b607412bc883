"""Memory that is used while the program goes on: ``x.pin_memory()``, ``x.is_pinned()`` and ``x.record_stream(...)``.

Pinned memory is not paged, so that a device copies it by itself while the program goes on
(``x.to("cuda", non_blocking=True)``). The backend of the device provides it (``Backend.pinned_array``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...dispatch.registry import registry
from ..device import CPU, Device, to_device
from ..storage import HostMemory
from ..tensor import Tensor, add_methods, cpu_word, make_tensor

__all__ = ["is_pinned", "is_pinned_array", "pin_memory", "record_stream"]


def is_pinned_array(array: np.ndarray) -> bool:
    """Return whether the memory of an array is pinned."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, HostMemory) and base.pinned:
            return True
        base = base.base
    return False


def is_pinned(self: Tensor) -> bool:
    """Return whether the tensor lies in pinned host memory; see ``pin_memory``.

    >>> tk.zeros(2).is_pinned()
    False
    """
    return self.device is CPU and is_pinned_array(self._values("is_pinned"))


def pin_memory(self: Tensor, device: Device | str = "cuda") -> Tensor:
    """Return a copy in pinned host memory, from which a device copies without waiting; itself if it is pinned already.

    Copy it with ``x.to(device, non_blocking=True)``. The copy is part of the graph, like that of ``clone()``. Raises
    RuntimeError for a tensor that is not on the CPU and where the device does not exist, NotImplementedError where the
    backend of the device has no pinned memory.

    >>> x = tk.arange(3.0).pin_memory()  # doctest: +SKIP
    >>> x.to("cuda", non_blocking=True)  # doctest: +SKIP
    """
    if self.device is not CPU:
        raise RuntimeError(
            f"[pin_memory] the tensor is on {self.device}: only memory of the host can be pinned. Pin the result of "
            "x.cpu(), or use x.to('cpu', non_blocking=True), which is pinned."
        )
    if is_pinned(self):
        return self
    target = to_device(device)
    values = self._values("pin_memory")
    memory = None if target.backend is None else target.backend.pinned_array(values.shape, values.dtype)
    if memory is None:
        raise NotImplementedError(
            f"[pin_memory] the backend of {str(target)!r} has no pinned memory: copy without it, with x.to(device)."
        )
    made = make_tensor(memory, cpu_word(values.dtype))
    return registry.find("tk::copy_").call(made, self)  # type: ignore[no-any-return]


def record_stream(self: Tensor, stream: Any) -> None:
    """Say that work in another stream than the one the tensor was made in uses its memory.

    Without it the memory may serve another tensor as soon as this one ends, while that work still reads it. On the CPU
    it does nothing.

    >>> tk.zeros(2).record_stream(None)
    """
    if self.device.backend is not None and self._data.size:
        self.device.backend.record_stream(self._data.buffer, stream)


add_methods(pin_memory=pin_memory, is_pinned=is_pinned, record_stream=record_stream)
