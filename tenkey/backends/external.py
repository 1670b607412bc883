"""Backends from outside: the interface they implement, their registration, and what is derived for them.

Note [What a new backend gets]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A backend that implements the methods of :class:`Backend` alone works with every operator: composites run as they are,
views are windows on its buffers, copies go through its two copy methods, and any operator without a kernel runs on the
CPU: the arguments are copied over, the result is copied back, and the call is counted (``tk.backends.coverage(name)``).
A kernel that is registered for the device takes its operator out of the fallback. Guarded by
``tests/test_external_backend.py``.
"""

from __future__ import annotations

import collections
import contextlib
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Final

import numpy as np

from ..core.device import CPU, Device, default_device, register_device, unregister_device
from ..core.storage import StridedArray
from ..core.tensor import Tensor, cpu_word, make_tensor, make_view, word_for
from ..core.word import GRADIENT, WEAK_MASK
from ..dispatch.errors import DeviceMismatchError, MissingKernelError, RegistrationError
from ..dispatch.kernel import Handle, Kernel
from ..dispatch.keys import DispatchKey
from ..dispatch.local import StateGuard
from ..dispatch.operator import Operator
from ..dispatch.registry import registry
from ..ops.shapes import broadcast_shapes
from ..ops.views import strided_view_kernel

__all__ = ["Backend", "Coverage", "coverage", "register", "strict_fallback"]

_NAME: Final = "[register] a backend needs a class attribute 'name', a lower-case identifier; got {name!r}."
_BACKEND: Final = "[register] needs an instance of a subclass of tk.backends.Backend, got {value!r}."
_METHOD: Final = "[register] the backend {name!r} lacks the method {method}(): every backend implements {all}."
_STRICT: Final = (
    "[{operator}] would fall back to the CPU on {device!r}, which strict_fallback() forbids: register a kernel with "
    "tk.library.register_kernel({operator!r}, {device!r})."
)
_INDEX: Final = "[{name}] has {count} device(s), so there is no {device!r}: count from 0."
_MIXED: Final = (
    "[{operator}] got tensors on different devices ({devices}): all tensors of a call live on one device. "
    "Move them with x.to_device(device)."
)
_META: Final = "[{operator}] a tensor on 'meta' has no values to take to {device!r}."
_UNKNOWN: Final = "[coverage] there is no registered backend {name!r}; known: {known}."

MINIMAL: Final = ("allocate", "free", "copy_from_host", "copy_to_host")

_strict: ContextVar[bool] = ContextVar("tenkey_strict_fallback", default=False)
_registered: dict[str, _Registered] = {}


class Backend:
    """What an outside package implements: device memory and copies. ``name`` becomes the device string.

    A *buffer* is whatever ``allocate`` returns; nothing else looks into it. Host arrays are 1-d ``uint8`` arrays.
    """

    name: str = ""

    def is_available(self) -> bool:
        """Whether the device can be used on this machine."""
        return True

    def device_count(self) -> int:
        """How many devices there are."""
        return 1

    def current_device(self) -> int:
        """The index of the device that is used where none is named."""
        return 0

    def synchronize(self, device: int = 0) -> None:
        """Wait until all work on the device is done."""

    def allocate(self, nbytes: int, device: int = 0) -> Any:
        """A new buffer of at least ``nbytes`` bytes."""
        raise NotImplementedError

    def free(self, buffer: Any) -> None:
        """Give a buffer back."""
        raise NotImplementedError

    def copy_from_host(self, buffer: Any, array: np.ndarray) -> None:
        """Copy all of ``array`` to the beginning of the buffer."""
        raise NotImplementedError

    def copy_to_host(self, buffer: Any, array: np.ndarray) -> None:
        """Fill ``array`` from the beginning of the buffer."""
        raise NotImplementedError

    # ---- what the methods above give

    def empty(self, shape: tuple[int, ...], dtype: Any, device: Device | None = None) -> Tensor:
        """A new tensor on the device, with whatever its memory held. For kernels' results."""
        target = device or Device(self.name, self.current_device())
        count = self.device_count()
        if target.index >= count:
            raise ValueError(_INDEX.format(name=self.name, count=count, device=str(target)))
        wanted = np.dtype(dtype)
        nbytes = max(1, int(np.prod(shape, dtype=np.int64)) * wanted.itemsize)
        buffer = self.allocate(nbytes, target.index)
        owner = _Owner(nbytes)
        weakref.finalize(owner, self.free, buffer)
        return make_tensor(StridedArray(buffer, tuple(shape), wanted, target, owner=owner), word_for(target, wanted))

    def from_host(self, array: np.ndarray, device: Device | None = None) -> Tensor:
        """A tensor on the device with the values of a NumPy array."""
        made = self.empty(array.shape, array.dtype, device)
        self._write(made._data, array)
        return made

    def to_host(self, tensor: Tensor) -> np.ndarray:
        """The values of a tensor on the device as a new NumPy array."""
        return self._read(tensor._data)

    def _read(self, data: StridedArray) -> np.ndarray:
        self.synchronize(data.device.index)
        if not data.size:  # its window may lie behind the end of the buffer
            return np.empty(data.shape, data.dtype)
        host = np.empty(_nbytes(data), np.uint8)
        self.copy_to_host(data.buffer, host)
        window: np.ndarray = np.ndarray(data.shape, data.dtype, host.data, data.offset, data.strides)
        return np.array(window)

    def _write(self, data: StridedArray, values: np.ndarray) -> None:
        if not data.size:
            return
        if data.is_contiguous and data.offset == 0:
            flat = np.ascontiguousarray(values, data.dtype).reshape(-1).view(np.uint8)
            self.copy_from_host(data.buffer, flat)
            return
        host = np.empty(_nbytes(data), np.uint8)
        self.copy_to_host(data.buffer, host)
        np.ndarray(data.shape, data.dtype, host.data, data.offset, data.strides)[...] = values
        self.copy_from_host(data.buffer, host)


class _Owner:
    """Lives as long as a tensor looks at a buffer."""

    __slots__ = ("__weakref__", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


def _nbytes(data: StridedArray) -> int:
    nbytes: int = data.owner.nbytes
    return nbytes


class Coverage:
    """Which operators a backend implements, which are derived, and how often which fell back to the CPU."""

    def __init__(self, name: str, implemented: list[str], derived: list[str], fallback: dict[str, int]) -> None:
        self.name = name
        self.implemented = implemented
        self.derived = derived
        self.fallback = fallback

    def __str__(self) -> str:
        lines = [f"coverage of {self.name!r}"]
        for title, names in (("implemented", self.implemented), ("derived", self.derived)):
            lines.append(f"  {title} ({len(names)}): {', '.join(names)}")
        calls = ", ".join(f"{name} x{count}" for name, count in sorted(self.fallback.items()))
        lines.append(f"  fallback to the CPU ({len(self.fallback)}): {calls}")
        return "\n".join(lines)

    __repr__ = __str__


class _Registered:
    def __init__(self, backend: Backend, key: DispatchKey) -> None:
        self.backend = backend
        self.key = key
        self.calls: collections.Counter[str] = collections.Counter()
        self.own: set[int] = set()  # ids of the kernels made here

    # ---- kernels

    def install(self, operator: Operator) -> list[Handle]:
        backend = self.backend
        function: Any = None
        if "View" in operator.facets:
            function = strided_view_kernel(operator, lambda x: backend.from_host(backend.to_host(x), x.device))
        elif operator.name == "tk::to_device":
            function = self.to_device
        elif operator.name == "tk::clone":
            function = lambda x: backend.from_host(backend.to_host(x), x.device)  # noqa: E731
        elif operator.name == "tk::empty":
            function = self.empty
        elif operator.name == "tk::copy_":
            function = self.copy_
        if function is None:
            return []
        kernel = Kernel(function, self.key, origin="generated")
        self.own.add(id(kernel))
        return [registry.impl(operator.name, kernel)]

    def to_device(self, x: Tensor, device: Device) -> Tensor:
        if device is x.device:
            return make_view(x, x._data)
        host = self.backend.to_host(x)
        if device is CPU:
            return make_tensor(host, cpu_word(host.dtype))
        return registry.find("tk::to_device").call(make_tensor(host, cpu_word(host.dtype)), device)  # type: ignore[no-any-return]

    def empty(self, shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
        spec = registry.find("tk::empty").facets["Meta"].rule(shape, dtype=dtype)
        return self.backend.empty(spec.shape, spec.dtype, device)

    def copy_(self, x: Tensor, source: Tensor) -> Tensor:
        for tensor in (x, source):
            if tensor.device.type == "meta":
                raise RuntimeError(_META.format(operator="copy_", device=str((source if tensor is x else x).device)))
        values = _to_cpu(source)._data
        if broadcast_shapes("copy_", x.shape, values.shape) != x.shape:
            raise ValueError(f"[copy_] a source of shape {values.shape} does not fit into shape {x.shape}.")
        if x._data.__class__ is np.ndarray:
            x._data[...] = values
        else:
            x.device.backend._write(x._data, np.broadcast_to(values, x.shape).astype(x.dtype))
        return x

    def fallback(self, operator: Operator, *args: Any, **kwargs: Any) -> Any:
        """Run an operator on the CPU and bring the result back."""
        _check_devices(operator, args, kwargs)
        if _strict.get():
            raise MissingKernelError(_STRICT.format(operator=operator.name, device=self.backend.name))
        self.calls[operator.name] += 1
        device = next((t.device for t in _tensors((args, kwargs)) if t.device.backend is self.backend), None)
        moved: dict[int, tuple[Tensor, Tensor]] = {}
        cpu_args = [_map(value, moved) for value in args]
        cpu_kwargs = {name: _map(value, moved) for name, value in kwargs.items()}
        for position, argument in enumerate(operator.schema.arguments):
            if str(argument.type) not in ("Device", "Device?"):
                continue
            wanted = args[position] if position < len(args) else kwargs.get(argument.name)
            if wanted is None and device is None:
                wanted = default_device()
            if wanted is not None and wanted.backend is self.backend:
                device = wanted
                if position < len(args):
                    cpu_args[position] = CPU
                else:
                    cpu_kwargs[argument.name] = CPU
        device = device or Device(self.backend.name, self.backend.current_device())
        with StateGuard(exclude=GRADIENT):
            result = operator.call(*cpu_args, **cpu_kwargs)
        back = {id(copy): original for original, copy in moved.values()}
        for position, argument in enumerate(operator.schema.arguments):
            if argument.is_mutable:
                value = args[position] if position < len(args) else kwargs.get(argument.name)
                for tensor in _tensors(value):
                    if id(tensor) in moved and tensor.device.backend is not None:
                        tensor.device.backend._write(tensor._data, moved[id(tensor)][1]._data)
        return _map_back(result, back, device)


def _check_devices(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise if the tensors of a call are on different devices; lists of indices may be on the CPU."""
    if operator.mixes_devices:
        return
    devices: dict[Device, None] = {}
    for position, argument in enumerate(operator.schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        indices = str(argument.type) == "Tensor?[]"
        for tensor in _tensors(value):
            if not tensor._word & WEAK_MASK and not (indices and tensor.device is CPU):
                devices[tensor.device] = None
    if len(devices) > 1:
        named = " and ".join(map(str, devices))
        raise DeviceMismatchError(_MIXED.format(operator=operator.name, devices=named))


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _to_cpu(x: Tensor) -> Tensor:
    if x._data.__class__ is np.ndarray:
        return x
    values = x.device.backend.to_host(x)
    return make_tensor(values, cpu_word(values.dtype))


def _map(value: Any, moved: dict[int, tuple[Tensor, Tensor]]) -> Any:
    if isinstance(value, Tensor):
        if id(value) not in moved:
            moved[id(value)] = (value, _to_cpu(value))
        return moved[id(value)][1]
    if isinstance(value, (list, tuple)):
        return type(value)([_map(item, moved) for item in value])
    return value


def _map_back(value: Any, back: dict[int, Tensor], device: Device) -> Any:
    if isinstance(value, Tensor):
        known = back.get(id(value))
        if known is not None:
            return known
        return device.backend.from_host(np.ascontiguousarray(value._data).reshape(value.shape), device)
    if isinstance(value, (list, tuple)):
        return type(value)([_map_back(item, back, device) for item in value])
    return value


def register(backend: Backend) -> Handle:
    """Make a device of a backend: its device string, keys, derived kernels and CPU fallback. ``remove()`` undoes it.

    Raises RegistrationError for a bad name, a missing method, or a name that is taken; nothing is changed then.
    """
    if not isinstance(backend, Backend):
        raise RegistrationError(_BACKEND.format(value=backend))
    name: Any = backend.name
    if not isinstance(name, str) or not name.isidentifier() or name != name.lower():
        raise RegistrationError(_NAME.format(name=name))
    for method in MINIMAL:
        if getattr(type(backend), method, None) in (None, getattr(Backend, method)):
            raise RegistrationError(_METHOD.format(name=name, method=method, all=", ".join(MINIMAL)))
    with registry.lock:
        key = register_device(name, backend=backend)
        entry = _Registered(backend, key)
        handles: list[Handle] = []
        try:
            handles.append(registry.fallback(Kernel(entry.fallback, key, boxed=True, origin="generated")))
            handles.append(registry.subscribe(entry.install))
        except BaseException:
            for handle in handles:
                handle.remove()
            unregister_device(name)
            raise
        _registered[name] = entry

    def remove() -> None:
        with registry.lock:
            for handle in handles:
                handle.remove()
            _registered.pop(name, None)
            unregister_device(name)

    return Handle(remove, f"backend {name!r}")


def coverage(name: str) -> Coverage:
    """What the backend ``name`` implements, what is derived for it, and what has fallen back to the CPU so far."""
    entry = _registered.get(name)
    if entry is None:
        raise ValueError(_UNKNOWN.format(name=name, known=", ".join(_registered) or "none"))
    implemented: list[str] = []
    derived: list[str] = []
    for operator in registry:
        slot = operator.slot(entry.key)
        if slot.rule == "1 direct":
            (derived if id(slot.kernel) in entry.own else implemented).append(operator.name)
        elif slot.rule.startswith("2"):
            derived.append(operator.name)
    return Coverage(name, sorted(implemented), sorted(derived), dict(entry.calls))


@contextlib.contextmanager
def strict_fallback() -> Iterator[None]:
    """Make a fallback to the CPU an error in a ``with`` block, for this thread or task."""
    token = _strict.set(True)
    try:
        yield
    finally:
        _strict.reset(token)
