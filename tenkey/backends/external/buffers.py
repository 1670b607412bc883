"""Owners of device buffers.

Note [When a buffer is freed]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The tensors that use a buffer share an owner, and the buffer is freed when the owner is deallocated. Where tensors die
in a garbage cycle, the collector calls the finalizers of everything in it in any order: that of the buffer may have run
when the owner is finalized, and a finalizer of the user's may still read a tensor whose owner is finalized. A table
therefore holds the buffers, and what frees one is hidden from the collector in an array of NumPy, which it does not
traverse: it runs when the cycle is taken apart, after all finalizers, and not at all if one of them has made a tensor
reachable again. At the end of the process nothing is freed: drivers may be gone by then, and the memory goes with the
process. Guarded by ``tests/backends/test_backend_memory.py``.
"""

from __future__ import annotations

import atexit
import itertools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..allocation.counts import Counts, calling_operator, counts_of

__all__ = ["Owner"]


_kept: Final[dict[int, tuple[Any, Callable[[Any], None], Counts, tuple[int, str, int]]]] = {}
_numbers: Final = itertools.count()
_ended: Final[list[bool]] = []
atexit.register(_ended.append, True)


class Owner:
    """The owner of a buffer, shared by the tensors that use it; the buffer is freed with it by ``free(buffer)``."""

    __slots__ = ("__weakref__", "_backend", "_end", "nbytes")

    def __init__(self, backend: Any, buffer: Any, nbytes: int, device: int, free: Callable[[Any], None]) -> None:
        self._backend = backend
        self.nbytes = nbytes
        end = _End()
        counts = counts_of(backend, device)
        entry = (nbytes, calling_operator(), 0 if backend.caching else nbytes)
        _kept[end.number] = (buffer, free, counts, entry)
        self._end = np.empty((), object)
        self._end[()] = end
        counts.add(*entry)


class _End:
    """What frees the buffer of an owner when it is deallocated."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = next(_numbers)

    def __del__(self, kept: Any = _kept, ended: Any = _ended) -> None:
        if ended:  # the names of this module may be gone
            return
        try:
            buffer, free, counts, entry = kept.pop(self.number)
        except (AttributeError, KeyError):  # __init__ was interrupted
            return
        counts.remove(*entry)
        free(buffer)
