"""The CPU fallback: arguments are copied over, the operator runs on the CPU, results are copied back.

Note [The fallback moves buffers]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Each buffer that the tensors of a call use is copied to host memory once, and the tensors become windows on the copy
with the same offsets and strides. Overlapping arguments therefore overlap on the CPU too, a buffer that is written in
place is written back as a whole, and a result that is a view of an argument becomes a view of the original. Guarded by
``tests/backends/test_backend_registration.py::TestFallback``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

from ...core.device import CPU, Device, default_device, to_device
from ...core.storage import StridedArray
from ...core.tensor import Tensor, cpu_word, make_tensor, make_view, word_for
from ...core.tree import map_tensors, tensors_in
from ...core.word import WEAK_MASK
from ...dispatch.errors import DeviceMismatchError, MissingKernelError
from ...dispatch.local_state import silently
from ...dispatch.operator import Operator
from .coverage import Ledger
from .interface import Backend, extent, memory_of, write_bytes
from .runtime.streams import settle
from .template_calls import Reason

__all__ = ["check_devices", "run_on_cpu", "strict_fallback"]

_strict: ContextVar[bool] = ContextVar("tenkey_strict_fallback", default=False)


@contextlib.contextmanager
def strict_fallback() -> Iterator[None]:
    """Make a fallback to the CPU an error in a ``with`` block, for this thread or task.

    >>> with tk.backends.strict_fallback():  # does not affect the CPU itself
    ...     tk.exp(tk.zeros(())).item()
    1.0
    """
    token = _strict.set(True)
    try:
        yield
    finally:
        _strict.reset(token)


def run_on_cpu(
    backend: Backend, ledger: Ledger, reason: Callable[[], Reason | None], operator: Operator, /, *args: Any,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Run an operator on the CPU and bring the result back; the ledger gets the reason and the cost."""
    check_devices(operator, args, kwargs)
    why = reason()
    if _strict.get():
        found, remedy = ledger.advice(operator.name, why)
        register = f"register a kernel with tk.library.register_kernel({operator.name!r}, {backend.name!r})"
        either = "" if remedy.startswith("register") else f"{remedy}, or "
        raise MissingKernelError(
            f"[{operator.label}] would fall back to the CPU on {backend.name!r}, which strict_fallback() forbids "
            f"({found}): {either}{register}."
        )
    tensors = tensors_in((args, kwargs))
    dtypes = tuple([str(x.dtype) for x in tensors if not x._word & WEAK_MASK])  # not of Python numbers
    row = ledger.note_call(operator, dtypes, why)
    start = time.perf_counter()
    host = _Host(tensors)
    try:
        return _on_cpu(backend, host, operator, args, kwargs)
    finally:
        ledger.note_cost(row, host.copied, host.copied_back, time.perf_counter() - start)


def _on_cpu(backend: Backend, host: _Host, operator: Operator, args: Any, kwargs: Any) -> Any:
    device = next((t.device for t in tensors_in((args, kwargs)) if t.device.backend is backend), None)
    cpu_args, cpu_kwargs = map_tensors(host.copy_of, ([*args], kwargs))
    for position, argument in enumerate(operator.schema.arguments):
        if str(argument.type) not in ("Device", "Device?"):
            continue
        wanted = args[position] if position < len(args) else kwargs.get(argument.name)
        if wanted is None and device is None:
            wanted = default_device()
        if wanted is not None and wanted.backend is backend:
            device = wanted
            if position < len(args):
                cpu_args[position] = CPU
            else:
                cpu_kwargs[argument.name] = CPU
    target = device or to_device(backend.name)
    result = silently(operator.call, *cpu_args, **cpu_kwargs)
    for position, argument in enumerate(operator.schema.arguments):
        if argument.is_mutable:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            host.write_back(tensors_in(value))
    return map_tensors(lambda x: host.original_of(x, target), result)


class _Host:
    """The tensors of one call in host memory, and the number of bytes that were copied there and back."""

    def __init__(self, tensors: list[Tensor]) -> None:
        extents: dict[int, int] = {}
        self._sources: dict[int, StridedArray] = {}
        for tensor in tensors:
            data = tensor._data
            if data.__class__ is StridedArray and data.buffer is not None:
                extents[id(data.owner)] = max(extents.get(id(data.owner), 0), extent(data) if data.size else 0)
                self._sources[id(data.owner)] = data
        self._memory: dict[int, np.ndarray] = {}
        self.copied = self.copied_back = 0
        for owner, nbytes in extents.items():
            data = self._sources[owner]
            memory = self._memory[owner] = np.empty(nbytes, np.uint8)
            if nbytes:
                backend = memory_of(data)
                settle(backend, data.device.index)
                backend.copy_to_host(data.buffer, memory)
                self.copied += nbytes
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}
        self._originals: dict[int, Tensor] = {}

    def copy_of(self, x: Tensor) -> Tensor:
        data = x._data
        if data.__class__ is np.ndarray or data.buffer is None:
            return x
        known = self._copies.get(id(x))
        if known is None:
            if data.size:
                memory = self._memory[id(data.owner)]
                window = np.ndarray(data.shape, data.dtype, memory.data, data.offset, data.strides)
            else:
                window = np.empty(data.shape, data.dtype)
            known = self._copies[id(x)] = (x, make_tensor(window, cpu_word(data.dtype)))
            self._originals[id(known[1])] = x
        return known[1]

    def write_back(self, tensors: list[Tensor]) -> None:
        changed = {id(t._data.owner) for t in tensors if t._data.__class__ is StridedArray and id(t) in self._copies}
        for owner in changed:
            if self._memory[owner].size:
                data = self._sources[owner]
                write_bytes(data, self._memory[owner])
                self.copied_back += self._memory[owner].size

    def original_of(self, x: Tensor, device: Device) -> Tensor:
        """Return what a tensor of the CPU's result becomes: an argument, a view of one, or a new tensor."""
        known = self._originals.get(id(x))
        if known is not None:
            return known
        values = x._data
        if values.__class__ is not np.ndarray:
            return x
        if values.size and min(values.strides, default=0) >= 0:
            for source, _ in self._copies.values():
                memory = self._memory[id(source._data.owner)]
                offset = values.ctypes.data - memory.ctypes.data
                if 0 <= offset < memory.size:
                    window = StridedArray(
                        source._data.buffer, values.shape, values.dtype, source._data.device, values.strides, offset,
                        source._data.owner,
                    )  # fmt: skip
                    view = make_view(source, window)
                    view._word = word_for(source.device, values.dtype)
                    return view
        self.copied_back += values.nbytes
        return device.backend.from_host(np.ascontiguousarray(values).reshape(values.shape), device)  # type: ignore[no-any-return]


def check_devices(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise DeviceMismatchError for tensors on different devices; indices in a list may be on the CPU."""
    if operator.mixes_devices:
        return
    devices: dict[Device, None] = {}
    for position, argument in enumerate(operator.schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        indices = str(argument.type) == "Tensor?[]"
        for tensor in tensors_in(value):
            if not tensor._word & WEAK_MASK and not (indices and tensor.device is CPU):
                devices[tensor.device] = None
    if len(devices) > 1:
        named = " and ".join(map(str, devices))
        raise DeviceMismatchError(
            f"[{operator.label}] got tensors on different devices ({named}): all tensors of a call live on one device. "
            "Move them with x.to_device(device)."
        )
