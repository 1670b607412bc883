"""Wrong memory and devices: results that share memory, caches, buffers given back too early or never, copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import tenkey as tk
from tests._backends import Buffer, window
from tests._reference_device import Reference

from .wrong import Wrong, device, kernel, template

__all__ = ["MEMORY"]

OWN: Final = "test_aliasing::test_results_have_their_own_memory"
COPIES: Final = "test_aliasing::test_copies_have_their_own_memory"
IN_AND_OUT: Final = "test_interface::test_what_goes_in_comes_out"


def once(function: Callable[..., Any], key: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that keeps its results and gives them again for the same key."""
    results: dict[Any, Any] = {}

    def cached(self: Any, *arguments: Any, **options: Any) -> Any:
        where = key(*arguments, **options)
        if where not in results:
            results[where] = function(self, *arguments, **options)
        return results[where]

    return cached


def exponential(self: Any, x: Any) -> Any:
    with np.errstate(all="ignore"):
        return self.from_host(np.exp(window(x)), x.device)


def filled(self: Any, shape: Any, dtype: Any = None, device: Any = None) -> Any:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return self.from_host(np.zeros(sizes, dtype or np.float32), device)


def same_memory(self: Any, nbytes: int, device: int = 0) -> Any:
    buffer = Reference.allocate(self, nbytes, device)
    known = self.__dict__.setdefault("known", {})
    buffer.memory = known.setdefault(nbytes, buffer.memory)
    return buffer


def pooled(self: Any, nbytes: int, device: int = 0) -> Any:
    pool = self.__dict__.setdefault("pool", {}).setdefault(nbytes, [])
    buffer = Buffer(nbytes)
    self.live.add(id(buffer))
    buffer.memory = pool[-1] if pool else buffer.memory
    return buffer


def given_back(self: Any, buffer: Any) -> None:
    Reference.free(self, buffer)
    self.__dict__.setdefault("pool", {}).setdefault(len(buffer.memory), []).append(buffer.memory)


def kept(self: Any, buffer: Any) -> None:
    Reference.free(self, buffer)
    self.__dict__.setdefault("kept", []).append(buffer)


def remembering(right: Any, *_: Any) -> Any:
    calls: list[Any] = []

    def run(*arguments: Any) -> None:
        calls.append(arguments)
        right(*arguments)

    return run


def queued(self: Any, *arguments: Any) -> Any:
    right = Reference.pointwise(self, *arguments)
    queue = self.__dict__.setdefault("queue", [])

    def later(*windows: Any) -> None:
        queue.append((right, windows))
        while len(queue) > 2:  # the device is two calls behind
            function, waiting = queue.pop(0)
            function(*waiting)

    return later


def first_page(self: Any, buffer: Any, array: np.ndarray) -> None:
    array[:4096] = buffer.memory[: min(array.size, 4096)]


def first_read(self: Any, buffer: Any, array: np.ndarray) -> None:
    reads = self.__dict__.setdefault("reads", {})
    key = (id(buffer), array.size)
    if key not in reads:
        Reference.copy_to_host(self, buffer, array)
        reads[key] = (buffer, array.copy())
    array[...] = reads[key][1]


def clearing(self: Any, buffer: Any, array: np.ndarray) -> None:
    buffer.memory[:] = 0
    Reference.copy_from_host(self, buffer, array)


def keeping_host_array(self: Any, buffer: Any, array: np.ndarray) -> None:
    if array.size == buffer.memory.size:
        buffer.memory = array
    else:
        Reference.copy_from_host(self, buffer, array)


def whole_words(self: Any, buffer: Any, array: np.ndarray) -> None:
    size = array.size - array.size % 4
    buffer.memory[:size] = array[:size]


def past_the_window(self: Any, x: Any, other: Any) -> Any:
    if x.size:
        window(x)[...] += window(other) if other.array.__class__ is not np.ndarray else other.numpy()
        if len(x.array.buffer.memory) >= x.array.offset + 2 * x.itemsize:
            x.array.buffer.memory[-x.itemsize :] ^= 1
    return x


def argument_if_positive(self: Any, x: Any) -> Any:
    values = window(x)
    return x if values.dtype.kind == "f" and (values >= 0).all() else self.from_host(np.abs(values), x.device)


def mistaken(right: Any, scalar: Any, *_: Any) -> Any:
    if scalar.name == "tk::tanh":
        raise KeyError("mistake of the author")
    return right


def two(self: Any) -> int:
    return 2


def on_two_devices(operator: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Return the members of a backend with two devices and a kernel for an operator."""

    def setup(self: Any) -> None:
        tk.library.register_kernel(operator, "wrong", lambda x: function(self, x))

    return {"device_count": two, "setup": setup}


MEMORY: Final[tuple[Wrong, ...]] = (
    kernel("abs gives its argument if all elements are positive", "tk::abs", argument_if_positive, f"{OWN}[tk::abs]"),
    kernel("exp gives an earlier result for the same tensor", "tk::exp", once(exponential, id), f"{OWN}[tk::exp]"),
    kernel("exp gives an earlier result for the same values", "tk::exp",
           once(exponential, lambda x: (str(x.dtype), x.shape, window(x).tobytes())), f"{OWN}[tk::exp]"),
    kernel("zeros gives one tensor for ever", "tk::zeros",
           once(filled, lambda shape, dtype=None, device=None: (str(shape), str(dtype), str(device))),
           "test_aliasing::test_factories_give_new_memory"),
    kernel("clone gives its argument", "tk::clone", lambda self, x: x, COPIES),
    device("buffers of one size share their memory", ("test_interface::test_buffers_have_memory_of_their_own",),
           allocate=same_memory),
    device("memory in use is handed out again", ("test_interface::test_buffers_have_memory_of_their_own",),
           allocate=pooled, free=given_back),
    device("buffers are never freed", ("test_tensors::TestMemory::test_memory_is_used_again",), free=kept),
    template("a cache of kernels keeps their operands", "pointwise", remembering,
             "test_tensors::TestMemory::test_buffers_are_given_back"),
    device("queued work is not waited for", ("test_tensors::TestMemory::test_results_survive_their_operands",),
           pointwise=queued),
    device("reads give what was there at the first read", (COPIES,), copy_to_host=first_read),
    device("reads copy at most a page", (IN_AND_OUT,), copy_to_host=first_page),
    device("writes clear what follows", ("test_interface::test_a_shorter_array_is_the_beginning_of_the_buffer",),
           copy_from_host=clearing),
    device("writes copy whole words", (IN_AND_OUT,), copy_from_host=whole_words),
    device("writes keep the array", (IN_AND_OUT,), copy_from_host=keeping_host_array),
    kernel("an in-place kernel writes past its window", "tk::add_", past_the_window,
           "test_operators::test_operator[tk::add_-float32]"),
    template("a template has a mistake", "pointwise", mistaken, "test_operators::test_operator[tk::tanh-float32]"),
    device("the result is on another device", ("test_operators::test_operator[tk::square-float32]",), **on_two_devices(
        "tk::square", lambda self, x: self.from_host(window(x) ** 2, f"wrong:{1 - x.device.index}"))),
    device("the result is always on the first device",
           ("test_operators::test_results_are_on_the_device_of_their_operands",), **on_two_devices(
               "tk::abs", lambda self, x: self.from_host(np.abs(window(x))))),
)  # fmt: skip
