"""Devices: a type, which names a backend, and an index."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ..dispatch.errors import RegistrationError, shown
from ..dispatch.keys import DispatchKey, register_backend_key
from ..dispatch.registry import registry

__all__ = [
    "CPU", "META", "Device", "add_finder", "available_devices", "base_word", "default_device",
    "device_types", "register_device", "to_device",
]  # fmt: skip

_GONE: Final = "the backend of the device {type!r} was removed: its tensors can no longer be read. Register it again."
_INDEX: Final = "[{name}] has {count} device(s), so there is no {device!r}: count from 0."

_types: dict[str, _DeviceType] = {}
_interned: dict[tuple[str, int], Device] = {}
_finders: list[tuple[Callable[[str], bool], Callable[[], Iterable[str]]]] = []


class _DeviceType:
    __slots__ = ("backend", "key", "ready", "word")

    def __init__(self, key: DispatchKey, backend: Any) -> None:
        self.key = key
        self.backend = backend
        self.ready = False  # whether the backend has answered that it is available
        name = key.backend
        self.word = key.mask | DispatchKey.ADInplaceOrView.mask
        for functionality in ("Autograd", "Autocast"):
            self.word |= getattr(DispatchKey, f"{functionality}{name}").mask


class Device:
    """A place for tensors: ``type`` ("cpu", "meta", or the name of a backend) and ``index``.

    >>> tk.asarray([1.0]).device
    device('cpu')
    >>> str(tk.asarray([1.0]).device)
    'cpu'
    """

    __slots__ = ("index", "type")
    type: str
    index: int

    def __new__(cls, type: str, index: int | None = None) -> Device:
        """Return the only device of that type and index; ``Device("type:1")`` is ``Device("type", 1)``."""
        found = _interned.get((type, index or 0))
        if found is not None and (index is not None or _types.get(type, _NO_TYPE).backend is None):
            return found
        return to_device(type if index is None else f"{type}:{index}")

    @property
    def key(self) -> DispatchKey:
        """The dispatch key of the device's backend."""
        return _types[self.type].key

    @property
    def backend(self) -> Any:
        """The backend object registered for the device type, or None for the built-in ones."""
        found = _types.get(self.type)
        if found is None:
            raise RuntimeError(_GONE.format(type=self.type))
        return found.backend

    def __str__(self) -> str:
        return self.type if self.index == 0 else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return other in (str(self), f"{self.type}:{self.index}")
        return self is other

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[object, ...]:
        return (to_device, (f"{self.type}:{self.index}",))


def _intern(type: str, index: int) -> Device:
    found = _interned.get((type, index))
    if found is None:
        found = object.__new__(Device)
        found.type = type
        found.index = index
        found = _interned.setdefault((type, index), found)
    return found


def register_device(name: str, *, key_name: str | None = None, backend: Any = None) -> DispatchKey:
    """Create a device type and return the dispatch key of its backend; a removed name gets its previous key again."""
    key_name = key_name or name.upper()
    if name in _types:
        first = type(_types[name].backend)
        by = "tenkey itself" if _types[name].backend is None else f"{first.__module__}.{first.__qualname__}"
        raise RegistrationError(
            f"[register] the device type {name!r} is registered already, by {by}: choose another name, or call "
            "remove() of the handle that its registration returned."
        )
    known = next((key for key in DispatchKey if key.name == key_name), None)
    key = known if known is not None else register_backend_key(key_name)
    _types[name] = _DeviceType(key, backend)
    registry.hooks.device_names[key_name] = name
    registry.hooks.removed_devices.discard(name)
    return key


def unregister_device(name: str) -> None:
    """Remove a device type; tensors on it can no longer be created."""
    if _types.pop(name, None) is not None:
        registry.hooks.removed_devices.add(name)


def available_devices() -> tuple[Device, ...]:
    """Return the devices that are available and hold values, the CPU first."""
    found = [CPU]
    for name, kind in _types.items():
        backend = kind.backend
        if backend is not None and (kind.ready or backend.is_available()):
            found += [_intern(name, index) for index in range(_count(backend, name))]
    return tuple(found)


def device_types() -> tuple[str, ...]:
    """Return the registered device types."""
    return tuple(_types)


def base_word(type: str) -> int:
    """Return the key bits of every tensor on a device of this type."""
    return _types[type].word


def add_finder(find: Callable[[str], bool], installed: Callable[[], Iterable[str]]) -> None:
    """Let ``find(name)`` register unknown device types (True if it did); ``installed()`` lists what it can find."""
    _finders.append((find, installed))


def to_device(value: Any) -> Device:
    """Return the device that a Device, "type" or "type:index" names.

    Raises ValueError for an unknown type (the error lists the known ones) or an index out of range, and RuntimeError
    for a backend that is not available.
    """
    if isinstance(value, Device):
        if value.type not in _types:
            raise RuntimeError(_GONE.format(type=value.type))
        return value
    if isinstance(value, str):
        name, colon, index = value.partition(":")
        known = name in _types or (name.isidentifier() and any(find(name) for find, _ in _finders))
        if known and (not colon or (index.isascii() and index.isdecimal())):
            return _usable(name, int(index) if colon else None, value)
    names = [name for _, installed in _finders for name in installed() if name not in _types]
    listed = f"; installed plug-ins, loaded at first use, are {', '.join(names)}" if names else ""
    raise ValueError(
        f"[device] unknown device {shown(value)}: known device types are {', '.join(_types)}{listed}; write 'type' or "
        "'type:index'."
    )


def _usable(name: str, index: int | None, value: str) -> Device:
    """Return a device after checking that its backend is available, so that no kernel fails for lack of it."""
    found = _types[name]
    backend = found.backend
    if backend is None:
        if index:
            raise ValueError(_INDEX.format(name=name, count=1, device=value))
        return _intern(name, 0)
    if not found.ready:
        if not backend.is_available():
            raise RuntimeError(
                backend.why_unavailable()
                or f"[{name}] is not available on this machine: the backend {type(backend).__name__} says so "
                "(is_available() is False). Check its driver or runtime, or use another device."
            )
        found.ready = True
    count = _count(backend, name)
    if index is None and count:
        index = _answer(backend, name, "current_device", f"the index of a device, an int from 0 to {count - 1}", count)
    if index is None or index >= count:
        raise ValueError(_INDEX.format(name=name, count=count, device=value))
    return _intern(name, index)


def _count(backend: Any, name: str) -> int:
    return _answer(backend, name, "device_count", "the number of devices, an int of 0 or more")


def _answer(backend: Any, name: str, method: str, wanted: str, end: int | None = None) -> int:
    """Return a backend's answer about its devices; raise unless it is a possible number."""
    value = getattr(backend, method)()
    if isinstance(value, int) and value >= 0 and (end is None or value < end):
        return int(value)
    text = f"[{name}] {method}() of the backend {type(backend).__name__} returned {value!r}: it returns {wanted}."
    raise (ValueError if isinstance(value, int) else TypeError)(text)


def default_device() -> Device:
    """Return the device of tensors created without ``device=``."""
    return CPU


_NO_TYPE: Final = _DeviceType(DispatchKey.CPU, None)
register_device("cpu", key_name="CPU")
register_device("meta", key_name="Meta")
CPU: Final = _intern("cpu", 0)
META: Final = _intern("meta", 0)
registry.hooks.converters["Device"] = to_device
_CPU_WORD: Final = _types["cpu"].word


def _device_word(device: Device | None) -> int:
    """Return the word of a device or, for None, of the default device; every factory calls it."""
    return _CPU_WORD if device is None else _types[device.type].word


registry.hooks.device_word = _device_word
