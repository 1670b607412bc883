"""Putting the stand-ins in the place of CUDA's libraries."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .checked_cublas import CheckedCublas
from .checked_cublaslt import CheckedCublasLt
from .checked_cufft import CheckedCufft
from .checked_cusolver import CheckedCusolver
from .library_checks import DeviceMemory, Surroundings

__all__ = ["installed", "stand_ins"]


def stand_ins(
    memory: DeviceMemory,
    enqueue: Callable[[int, Callable[[], None]], None] = lambda stream, work: work(),
    device: Callable[[], int] = lambda: 0,
) -> dict[str, Any]:
    """Return the stand-ins by the names of the modules whose functions they have.

    ``memory`` says where allocations end, ``enqueue(stream, work)`` runs work in the order of a stream, at once if it
    is not given, and ``device()`` returns the index of the current device.
    """
    surroundings = Surroundings(memory, enqueue, device)
    return {
        "nvmath.bindings.cublas": CheckedCublas(surroundings),
        "nvmath.bindings.cublasLt": CheckedCublasLt(surroundings),
        "nvmath.bindings.cufft": CheckedCufft(surroundings),
        "nvmath.bindings.cusolverDn": CheckedCusolver(surroundings),
    }


@contextlib.contextmanager
def installed(modules: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Put modules into ``sys.modules`` for a ``with`` block, and restore what was there."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield modules
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
