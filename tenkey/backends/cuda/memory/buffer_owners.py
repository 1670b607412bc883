"""Owners of blocks.

Note [When a block is given back]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Blocks obey Note [When a buffer is freed]: a block is given back when the last tensor of it is gone, and in a garbage
cycle after all finalizers, or not at all if one of them has made a tensor reachable again. The collector calls the
finalizer of an owner too early, and once only. It is recognised by the references that the owner then still has; the
block passes to an object that an array of NumPy hides from the collector, and which ends with the owner. In all other
cases an owner costs one object and one entry in a table, in half the time of an array, and every result on the device
has one. Nothing is counted and no lock is taken: the block enters a deque (Note [Memory of a queue]), also at the end
of the interpreter. Guarded by ``tests/backends/cuda/memory/test_buffer_owners.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any, Final

import numpy as np

__all__ = ["held", "owner_class", "owner_of"]

held: Final[dict[int, Any]] = {}
"""The block of each owner, by the identity of the owner."""


class _Late:
    """What gives back the block of an owner whose finalizer the collector has called."""

    __slots__ = ("block", "give")

    def __init__(self, block: Any, give: Callable[[Any], None]) -> None:
        self.block = block
        self.give = give

    def __del__(self) -> None:
        self.give(self.block)


def _hidden(late: _Late) -> np.ndarray:
    """Return an array that hides an object from the collector."""
    made = np.empty((), object)
    made[()] = late
    return made


_counted: Final[list[int]] = []


class _Probe:
    __slots__ = ()

    def __del__(self, count: Callable[[Any], int] = getrefcount, note: Callable[[int], None] = _counted.append) -> None:
        note(count(self))


_Probe()
_LAST: Final = _counted[0]
"""The references of an object whose finalizer was called because the last one is gone."""


def owner_class(backend: Any, allocator: Any) -> type:
    """Return a class without arguments whose instances own the blocks that are put into ``held`` under their identity.

    The class is that of one allocator, so that an instance needs no reference to it.
    """
    found = allocator.__dict__.get("_owner_class")
    if found is not None and found._backend is backend:
        return found  # type: ignore[no-any-return]

    def give_back(
        self: Any, pop: Any = held.pop, give: Any = allocator.give, count: Any = getrefcount, last: int = _LAST,
        hidden: Any = _hidden, late: Any = _Late,
    ) -> None:  # fmt: skip
        block = pop(id(self), None)
        if block is None:  # the call that makes the owner was interrupted
            return
        if count(self) > last:  # the collector calls, and others may still use the tensor
            self._late = hidden(late(block, give))
        else:
            give(block)

    made = type("BlockOwner", (), {"__slots__": ("__weakref__", "_late"), "__del__": give_back, "_backend": backend})
    allocator.__dict__["_owner_class"] = made
    return made


def owner_of(block: Any, backend: Any, allocator: Any) -> Any:
    """Return a new owner of a block: the block is given back to the allocator with it."""
    made = owner_class(backend, allocator)()
    held[id(made)] = block
    return made
