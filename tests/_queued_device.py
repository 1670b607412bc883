"""The reference device with a queue: calls return at once, kernels are submitted in batches, and memory is reused."""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tenkey.backends import StridedArray
from tests._reference_device import Reference

__all__ = ["Queued"]


def _queued(template: Callable[..., Any]) -> Callable[..., Any]:
    """A template whose kernels append a command, which keeps no tensor alive: only the cache may do that."""

    @functools.wraps(template)
    def made(self: Queued, *given: Any) -> Any:
        kernel = template(self, *given)

        def later(*arguments: Any) -> None:
            first = arguments[0][0] if arguments[0].__class__ is tuple else arguments[0]
            self.commands[first.device.index].append((kernel, [_without_owner(x) for x in arguments]))

        return kernel and later

    return made


def _without_owner(x: Any) -> Any:
    if x.__class__ is tuple:
        return tuple(map(_without_owner, x))
    if x.__class__ is not StridedArray:
        return x
    return StridedArray(x.buffer, x.shape, x.dtype, x.device, x.strides, x.offset)


class Queued(Reference):
    """Two devices, each with a thread that does its work."""

    name = "queued"
    asynchronous = True
    caching = True
    batching = 5

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[list[Any]] = [[], []]
        self.queues: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue(), queue.SimpleQueue()]
        self.errors: list[BaseException] = []
        for work in self.queues:
            threading.Thread(target=self._work, args=(work,), daemon=True).start()

    def _work(self, work: queue.SimpleQueue[Any]) -> None:
        for batch in iter(work.get, None):
            for function, arguments in batch:
                try:
                    function(*arguments)
                except BaseException as error:
                    self.errors.append(error)

    def device_count(self) -> int:
        return 2

    def flush(self, device: int = 0) -> None:
        batch, self.commands[device] = self.commands[device], []
        self.queues[device].put(batch)

    def synchronize(self, device: int = 0) -> None:
        done = threading.Event()
        self.queues[device].put([(done.set, ())])
        done.wait()
        if self.errors:
            raise self.errors.pop()

    def allocate(self, nbytes: int, device: int = 0) -> Any:
        buffer = super().allocate(nbytes, device)
        buffer.device = device
        return buffer

    def free(self, buffer: Any) -> None:
        super().free(buffer)
        buffer.memory[:] = 0x5A  # what reads it now notices

    def copy_from_host(self, buffer: Any, array: np.ndarray) -> None:
        copy_in = super().copy_from_host
        self.queues[buffer.device].put([(copy_in, (buffer, array.copy()))])

    pointwise = _queued(Reference.pointwise)
    reduction = _queued(Reference.reduction)
    arg_reduction = _queued(Reference.arg_reduction)
    scan = _queued(Reference.scan)
    gather = _queued(Reference.gather)
    scatter = _queued(Reference.scatter)
    sort = _queued(Reference.sort)
    matmul = _queued(Reference.matmul)
    copy = _queued(Reference.copy)
