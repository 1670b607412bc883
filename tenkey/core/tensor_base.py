"""The base class of tensors: fields in C where the compiled core runs, slots in Python elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .compiled.loading import extension

__all__ = ["SLOT_NAMES", "Operations", "new_handle"]

_slots: Final[Any] = None if extension is None else extension.slots

if TYPE_CHECKING or extension is None:

    class Operations:
        """The fields of a tensor."""

        __slots__ = ("_autograd", "_data", "_storage", "_word")

else:
    Operations = _slots.Operations

new_handle: Final[Any] = Operations.__new__
"""``new_handle(cls)`` makes an empty instance of a class of tensors; ``object.__new__`` refuses classes of the core."""
SLOT_NAMES: Final[frozenset[str]] = frozenset(() if extension is None else _slots.SLOTS)
"""Python's methods that the core has in C, without underscores."""
