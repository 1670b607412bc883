"""Launches of which all but the addresses is prepared, with the allocation of their result.

Note [The short way of a small operator]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
For a layout that an operator has met before (Note [Plans of calls]), grid, block, sizes, steps and numbers are known:
one call writes the addresses among them and launches (Note [Launches in one call]). The result takes the block that was
given back last if this was allocated for the same request and stream, which in a loop it mostly was: then nothing but
``Block.again`` changes. Otherwise the allocator is asked. Every step is written out in one function, because a call of
a Python function costs as much as several of these steps. What is rare goes the long way: memory of other libraries
that is not aligned, captures, the history of allocations.
``python -m benchmarks.cuda_host`` measures it. Guarded by ``tests/backends/cuda/device/test_prepared_launches.py``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ....core.storage import StridedArray
from ..memory.buffer_owners import held, owner_class
from ..memory.device_memory import POOLS
from .contexts import forgetters
from .failures import launched
from .launch_functions import Arguments, launch_of
from .launching import Kernel, _waits, code_of
from .streams import _capturing, _choice

__all__ = ["prepared", "prepared_into"]

_ALIGNED: Final = 15  # what kernels may assume of the beginning of a buffer
_epoch: Final = [0]
_new: Final = object.__new__


def _forget() -> None:
    _epoch[0] += 1


forgetters.append(_forget)


def prepared(
    kernel_of: Callable[[], Kernel], grid: Any, block: Any, arguments: Sequence[Any], out: StridedArray
) -> Callable[..., StridedArray | None]:
    """Return the function that allocates a window like ``out`` and computes it from windows of given layouts.

    ``arguments`` are those of a launch for windows of these layouts: their pointers are the address of the result
    first, then that of each window in order. ``kernel_of()`` returns the loaded kernel, again after another driver was
    loaded.
    """
    where, shape, dtype, strides, nbytes = out.device, out.shape, out.dtype, out.strides, out.nbytes
    device, backend = where.index, where.backend
    epoch = -1
    kernel: Any = None
    launch: Any = None
    allocator: Any = None
    take_last: Any = None
    owner: Any = None

    def renew() -> None:
        nonlocal epoch, kernel, launch, allocator, take_last, owner
        now = _epoch[0]
        kernel = kernel_of()
        launch = _launch(kernel, grid, block, arguments)
        allocator = POOLS.of(device)
        take_last = allocator.returned.pop
        owner = owner_class(backend, allocator)
        epoch = now  # last: other threads may come meanwhile

    def run(a: StridedArray, b: StridedArray | None = None, *more: StridedArray) -> StridedArray | None:
        bases = base = a.buffer.address
        first, second = base + a.offset, 0
        if b is not None:
            base = b.buffer.address
            bases |= base
            second = base + b.offset
        if _epoch[0] != epoch:
            renew()
        handle = _choice.get()[device]._handle
        try:
            taken = take_last()
        except IndexError:
            taken = allocator.take(nbytes, handle)
        else:
            arena = taken.segment.arena
            if (
                taken.requested == nbytes
                and arena.stream == handle
                and arena.pool is None
                and taken.users is None
                and not _capturing
                and allocator.history is None
            ):
                taken.again += 1
            else:
                allocator.returned.append(taken)
                taken = allocator.take(nbytes, handle)
        mine = owner()
        held[id(mine)] = taken
        address = taken.address
        for window in more:
            bases |= window.buffer.address
        if (bases | address) & _ALIGNED:
            return None
        if b is None:
            code = launch(handle, address, first)
        elif not more:
            code = launch(handle, address, first, second)
        else:
            code = launch(handle, address, first, second, *[w.buffer.address + w.offset for w in more])
        if code or _waits:
            others = [w.buffer.address + w.offset for w in (a, b, *more) if w is not None]
            kernel.finish(code, kernel.configuration(grid, block), handle, partial(launch, handle, address, *others))
        launched(kernel)
        made: StridedArray = _new(StridedArray)
        made.buffer = taken
        made.shape = shape
        made.dtype = dtype
        made.device = where
        made.strides = strides
        made.offset = 0
        made.owner = mine
        return made

    return run


def prepared_into(
    kernel_of: Callable[[], Kernel], grid: Any, block: Any, arguments: Sequence[Any], out: StridedArray
) -> Callable[..., bool]:
    """Return the function that computes a window from others, of which it gets all, the result first.

    It returns whether the addresses permit the kernel; the arguments are those of :func:`prepared`.
    """
    device = out.device.index
    loaded: list[Any] = [-1]

    def run(*windows: StridedArray) -> bool:
        bases = 0
        addresses = []
        for window in windows:
            base = window.buffer.address
            bases |= base
            addresses.append(base + window.offset)
        if bases & _ALIGNED:
            return False
        if loaded[0] != _epoch[0]:
            kernel = kernel_of()
            loaded[:] = [_epoch[0], kernel, _launch(kernel, grid, block, arguments)]
        _, kernel, launch = loaded
        handle = _choice.get()[device]._handle
        code = launch(handle, *addresses)
        if code or _waits:
            kernel.finish(code, kernel.configuration(grid, block), handle, partial(launch, handle, *addresses))
        launched(kernel)
        return True

    return run


def _launch(kernel: Kernel, grid: Any, block: Any, arguments: Sequence[Any]) -> Callable[..., Any]:
    """Return what launches a kernel with these arguments, apart from its pointers."""
    kinds = kernel.source.parameters
    pointers = [i for i, kind in enumerate(kinds) if kind.endswith("*")]
    order = [*pointers, *[i for i in range(len(kinds)) if i not in pointers]]
    codes = [code_of(kinds[i]) for i in order]
    places = [0] * len(kinds)
    for k, i in enumerate(order):
        places[i] = struct.calcsize("@" + "".join(codes[:k]) + f"0{codes[k]}")
    packed = struct.pack("@" + "".join(codes), *[arguments[i] for i in order])
    given = Arguments(packed, tuple(places), len(pointers))
    return launch_of(kernel.function, kernel.configuration(grid, block), given)
