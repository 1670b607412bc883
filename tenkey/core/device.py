"""Devices: a type, which names a backend, and an index."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from ..dispatch.errors import RegistrationError
from ..dispatch.keys import DispatchKey, register_backend_key
from ..dispatch.registry import registry

__all__ = ["CPU", "META", "Device", "base_word", "default_device", "device_types", "register_device", "to_device"]

_GONE: Final = "the backend of the device {type!r} was removed: its tensors can no longer be read. Register it again."
_UNKNOWN: Final = "unknown device {value!r}: known device types are {known}; write 'type' or 'type:index'."

_types: dict[str, _DeviceType] = {}
_interned: dict[tuple[str, int], Device] = {}
_finders: list[Callable[[str], bool]] = []


class _DeviceType:
    __slots__ = ("backend", "key", "word")

    def __init__(self, key: DispatchKey, backend: Any) -> None:
        self.key = key
        self.backend = backend
        name = key.backend
        self.word = key.mask | DispatchKey.ADInplaceOrView.mask
        for functionality in ("Autograd", "Autocast"):
            self.word |= getattr(DispatchKey, f"{functionality}{name}").mask


class Device:
    """Where a tensor lives: ``type`` ("cpu", "meta", a backend's name) and ``index``.

    >>> import tenkey as tk
    >>> tk.asarray([1.0]).device
    device('cpu')
    >>> str(tk.asarray([1.0]).device)
    'cpu'
    """

    __slots__ = ("index", "type")
    type: str
    index: int

    def __new__(cls, type: str, index: int = 0) -> Device:
        """The one device of that type and index."""
        found = _interned.get((type, index))
        if found is None:
            found = object.__new__(cls)
            found.type = type
            found.index = index
            found = _interned.setdefault((type, index), found)
        return found

    @property
    def key(self) -> DispatchKey:
        """The dispatch key of the device's backend."""
        return _types[self.type].key

    @property
    def backend(self) -> Any:
        """The backend object that was registered for the device type, or None for the built-in ones."""
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
        return (Device, (self.type, self.index))


def register_device(name: str, *, key_name: str | None = None, backend: Any = None) -> DispatchKey:
    """Make a device type; returns the dispatch key of its backend. A name that was removed gets its old keys again."""
    key_name = key_name or name.upper()
    if name in _types:
        raise RegistrationError(f"[register] the device type {name!r} is registered already: choose another name.")
    known = next((key for key in DispatchKey if key.name == key_name), None)
    key = known if known is not None else register_backend_key(key_name)
    _types[name] = _DeviceType(key, backend)
    registry.device_names[key_name] = name
    return key


def unregister_device(name: str) -> None:
    """Forget a device type; tensors on it can no longer be made."""
    _types.pop(name, None)


def device_types() -> tuple[str, ...]:
    """The device types there are."""
    return tuple(_types)


def base_word(type: str) -> int:
    """The key bits that every tensor on a device of this type carries."""
    return _types[type].word


def to_device(value: Any) -> Device:
    """A Device from a Device, "type", or "type:index"; ValueError that lists what is known."""
    if isinstance(value, Device):
        return value
    if isinstance(value, str):
        name, _, index = value.partition(":")
        if (name in _types or any(find(name) for find in _finders)) and (not index or index.isdecimal()):
            return Device(name, int(index or 0))
    raise ValueError(_UNKNOWN.format(value=value, known=", ".join(_types)))


_default: ContextVar[Device | None] = ContextVar("tenkey_default_device", default=None)


def default_device() -> Device:
    """The device of tensors that are made without ``device=``."""
    return _default.get() or CPU


def _device_word(device: Device | None) -> int:
    return _types[(device or default_device()).type].word


register_device("cpu", key_name="CPU")
register_device("meta", key_name="Meta")
CPU: Final = Device("cpu")
META: Final = Device("meta")
registry.converters["Device"] = to_device
registry.device_word = _device_word
