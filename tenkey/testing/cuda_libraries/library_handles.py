"""Handles and descriptors of the stand-ins: numbers that stand for objects with a kind, a device and a stream."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from .library_checks import Call, Surroundings, lettered

__all__ = ["LinearAlgebraStandIn", "StandIn", "Thing"]

_STEP: Final = 0x40


class Thing:
    """What a handle or a descriptor stands for."""

    def __init__(self, kind: str, device: int) -> None:
        self.kind = kind
        self.device = device
        self.stream: int | None = None
        self.values: dict[Any, Any] = {}


class StandIn:
    """The base class of the stand-ins: handles of one library."""

    def __init__(self, library: str, surroundings: Surroundings) -> None:
        self._library = library
        self._surroundings = surroundings
        self._numbers = itertools.count(0x5EED_0000_0000, _STEP)
        self._things: dict[int, Thing] = {}

    def _call(self, function: str) -> Call:
        return Call(f"{self._library} {function}", self._surroundings)

    def _new(self, kind: str, number: int | None = None) -> int:
        value = next(self._numbers) if number is None else number
        self._things[value] = Thing(kind, self._surroundings.device())
        return value

    def _find(self, call: Call, kind: str, value: int) -> Thing:
        found = self._things.get(value)
        if found is None or found.kind != kind:
            call.refuse(f"{value:#x} is not a {kind}{'' if found is None else f', but a {found.kind}'}.")
        return found

    def _remove(self, call: Call, kind: str, value: int) -> None:
        self._find(call, kind, value)
        del self._things[value]

    def _stream(self, call: Call, value: int, kind: str = "handle") -> int:
        """Return the stream of a handle, which must belong to the current device."""
        found = self._find(call, kind, value)
        device = self._surroundings.device()
        call.require(
            found.device == device, f"the {kind} was created for device {found.device}, but {device} is current."
        )
        if found.stream is None:
            call.refuse(f"the {kind} has no stream: set_stream was not called.")
        return found.stream


class LinearAlgebraStandIn(StandIn):
    """The base class for cuBLAS and cuSOLVER: a handle with a stream, and routines named by a letter for each dtype."""

    def _add(self, name: str, method: Callable[..., Any]) -> None:
        """Add a routine for each dtype, which ``method`` gets first."""
        for full, dtype in lettered(name).items():
            setattr(self, full, partial(method, dtype))

    def create(self) -> int:
        """Return a handle for the current device."""
        return self._new("handle")

    def destroy(self, handle: int) -> None:
        """Destroy a handle."""
        self._remove(self._call("destroy"), "handle", handle)

    def set_stream(self, handle: int, stream_id: int) -> None:
        """Set the stream of a handle."""
        self._find(self._call("set_stream"), "handle", handle).stream = stream_id
