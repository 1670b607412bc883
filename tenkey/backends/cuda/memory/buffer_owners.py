"""Owners of blocks.

Note [When a block is given back]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Blocks obey Note [When a buffer is freed]. What gives one back is hidden from the collector by being a subclass of int
without slots, whose instances Python's collector does not know: it ends with the last reference of its owner, after all
finalizers of a cycle, and pops the block from a table under its own number. This costs a third of what an array of
NumPy costs there, and is paid for every result on the device. Nothing is counted and no lock is taken: the block enters
a deque (Note [Memory of a queue]). At the end of the interpreter nothing happens.
Guarded by ``tests/backends/cuda/memory/test_buffer_owners.py``.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any, Final

__all__ = ["BlockOwner", "held", "owner_class"]

_kept: Final[dict[int, tuple[Any, Callable[[Any], None]]]] = {}
_numbers: Final = itertools.count(1)


class _End(int):
    """What gives back a block when its owner is gone: the number of its entry."""

    __slots__ = ()

    def __del__(
        self,
        pop: Callable[..., Any] = _kept.pop,
        nothing: tuple[None, None] = (None, None),
        ended: Callable[[], bool] = sys.is_finalizing,
    ) -> None:
        if ended():
            return
        block, give = pop(self, nothing)
        if give is not None:
            give(block)


class BlockOwner:
    """The owner of a block, shared by the tensors that use it: the block is given back with it by ``give(block)``."""

    __slots__ = ("__weakref__", "_backend", "_end")

    def __init__(self, backend: Any, block: Any, give: Callable[[Any], None]) -> None:
        self._backend = backend
        number = next(_numbers)
        _kept[number] = (block, give)
        self._end = _End(number)


held: Final[dict[int, Any]] = {}
"""The block of each owner of a class of :func:`owner_class`, by the identity of the owner."""


def owner_class(backend: Any, allocator: Any) -> type:
    """Return a class without arguments whose instances own the blocks that are put into ``held`` under their identity.

    An instance has no slots, so the collector does not know it either: it is both the owner and what gives the block
    back. This is the owner of results of kernels, where making a BlockOwner would take as long as the launch.
    """
    found = allocator.__dict__.get("_owner_class")
    if found is not None and found._backend is backend:
        return found  # type: ignore[no-any-return]

    def give_back(self: Any, pop: Any = held.pop, give: Any = allocator.returned.append) -> None:
        block = pop(id(self), None)
        if block is not None:
            if allocator.history is None:
                give(block)
            else:
                allocator.give(block)

    made = type("ResultOwner", (), {"__slots__": (), "__del__": give_back, "_backend": backend})
    allocator.__dict__["_owner_class"] = made
    return made
