"""What tests of registered backends share: the smallest backend, in host memory, and tensors on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import tenkey as tk
from tenkey.backends import Backend, register

Tensor = tk.Tensor


class Lodged(Backend):
    """The smallest backend. A buffer is an object of its own, so that nothing can look into it by accident."""

    name = "lodged"

    class Buffer:
        def __init__(self, nbytes: int) -> None:
            self.memory = bytearray(nbytes)

    def __init__(self) -> None:
        self.live: set[int] = set()
        self.allocated = 0

    def allocate(self, nbytes: int, device: int = 0) -> Any:
        buffer = self.Buffer(nbytes)
        self.live.add(id(buffer))
        self.allocated += 1
        return buffer

    def free(self, buffer: Any) -> None:
        self.live.remove(id(buffer))

    def copy_from_host(self, buffer: Any, array: np.ndarray) -> None:
        assert array.dtype == np.uint8
        assert array.ndim == 1
        buffer.memory[: array.size] = array.tobytes()

    def copy_to_host(self, buffer: Any, array: np.ndarray) -> None:
        assert array.dtype == np.uint8
        assert array.ndim == 1
        array[...] = np.frombuffer(buffer.memory, np.uint8, array.size)


@contextmanager
def registered(backend: Backend) -> Iterator[Any]:
    with register(backend):
        yield backend


def on(values: Any, device: str = "lodged", **options: Any) -> Tensor:
    return tk.tensor(np.asarray(values), device=device, **options)


def array(x: Tensor) -> np.ndarray:
    values: np.ndarray = x.detach().numpy()
    return values


def gradient(out: Tensor, x: Tensor, *, create_graph: bool = False) -> Tensor:
    (found,) = tk.autograd.grad(tk.sum(out), x, create_graph=create_graph)
    assert found is not None
    return found
