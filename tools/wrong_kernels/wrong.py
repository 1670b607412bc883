"""What a wrong kernel is: a change of the reference device, and the tests of the suite that must notice it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import tenkey as tk
from tests import _reference_device
from tests._reference_device import Reference

__all__ = ["NAME", "Wrong", "device", "functions", "kernel", "packed", "template"]

NAME: Final = "wrong"
_COMPUTING: Final = ("pointwise", "reduction", "arg_reduction", "scan")


class Wrong(NamedTuple):
    """A device that is wrong in one way. ``tests`` are test functions of the suite, as ``module::function``."""

    name: str
    device: type[Reference]
    tests: tuple[str, ...]


def device(name: str, tests: tuple[str, ...], **members: Any) -> Wrong:
    """Return the reference device with other methods."""
    return Wrong(name, type("WrongDevice", (Reference,), {"name": NAME, **members}), tests)


def template(name: str, which: str, change: Callable[..., Any], *tests: str) -> Wrong:
    """Return the reference device with a template whose kernels ``change(kernel, *its arguments)`` makes."""

    def method(self: Reference, *arguments: Any) -> Any:
        right = getattr(super(type(self), self), which)(*arguments)
        return change(right, *arguments)

    return device(name, tests, **{which: method})


def functions(name: str, replaced: dict[str, Callable[..., Any]], *tests: str) -> Wrong:
    """Return the reference device with other functions in scalar expressions."""

    def changed(which: str) -> Any:
        def method(self: Reference, *arguments: Any) -> Any:
            right = getattr(super(type(self), self), which)(*arguments)

            def run(*windows: Any) -> None:
                table = _reference_device._FUNCTIONS
                kept = dict(table)
                table.update(replaced)
                try:
                    right(*windows)
                finally:
                    table.clear()
                    table.update(kept)

            return run

        return method

    return device(name, tests, **{which: changed(which) for which in _COMPUTING})


def kernel(name: str, operator: str, function: Callable[..., Any], *tests: str) -> Wrong:
    """Return the reference device with a kernel ``function(device, *arguments)`` for an operator."""

    def setup(self: Reference) -> None:
        tk.library.register_kernel(operator, NAME, functools.partial(function, self))

    return device(name, tests, setup=setup)


def packed(x: Any) -> Any:
    """Return a window as if its elements were packed, or the window itself if the buffer is too small for that."""
    step, strides = x.dtype.itemsize, []
    for n in reversed(x.shape):
        strides.append(step)
        step *= n
    limit = len(x.buffer.memory) - x.offset
    return x.window(x.shape, tuple(reversed(strides)), x.offset) if step <= limit else x
