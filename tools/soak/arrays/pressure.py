"""What other threads do while a program runs: they change the registry, modes, transforms and the state of garbage."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy

import tenkey as tk

__all__ = ["WORK", "during"]


def _sinh(x: Any) -> Any:
    return tk.asarray(numpy.sinh(x.numpy()))


def _tanh(x: Any) -> Any:
    return tk.asarray(numpy.tanh(x.numpy()))


def _kernels() -> None:
    with tk.library.Library("tk", "IMPL") as library:
        library.impl("sinh", _sinh, "CPU")
    tk.library.register_kernel("tk::tanh", "cpu", _tanh, allow_override=True).remove()


class _Mode(tk.dispatch.DispatchMode):
    """Changes nothing."""

    def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return op(*args, **kwargs)


def _modes() -> None:
    with _Mode():
        tk.numpy.sinh(tk.numpy.ones(3)) + 1


def _transforms() -> None:
    x = tk.numpy.ones((3, 2))
    tk.vmap(lambda row: tk.numpy.sinh(row) * 2)(x)
    tk.grad(lambda v: tk.numpy.sum(tk.numpy.sinh(v) * v))(x)


def _collections() -> None:
    cycle: list[Any] = [tk.numpy.ones(5), numpy.ones(5)]
    cycle.append(cycle)
    gc.collect(0)


WORK: Final[dict[str, Callable[[], None]]] = {
    "kernels": _kernels, "modes": _modes, "transforms": _transforms, "collections": _collections
}  # fmt: skip


@contextlib.contextmanager
def during(names: tuple[str, ...], errors: list[BaseException]) -> Iterator[None]:
    """Repeat the work of these names in threads of their own until the block ends; their errors are appended."""
    done = threading.Event()

    def repeat(work: Callable[[], None]) -> None:
        try:
            while not done.is_set():
                work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=(WORK[name],), daemon=True) for name in names]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5 if threads else interval)
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        done.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
