"""Backends that are wrong in one way each, and one that is right: what the conformance suite must tell apart."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tenkey as tk
from tests._backends import TemplateHost, numpy_function, window

__all__ = ["WRONG", "Right", "kinds"]


class Right(TemplateHost):
    name = "right"


class Matmul(TemplateHost):
    """A product that is right for square matrices only."""

    name = "wrong_matmul"

    def setup(self) -> None:
        def matmul(x1: tk.Tensor, x2: tk.Tensor) -> tk.Tensor:
            return self.from_host(np.matmul(window(x1), window(x2)) if x1.shape != x2.shape else window(x1) * 2)

        tk.library.register_kernel("tk::matmul", self.name, matmul)


class Strides(TemplateHost):
    """Reads operands as if they were packed."""

    name = "wrong_strides"

    def pointwise(self, scalar: Any, operands: Any, result: np.dtype) -> Any:
        kernel = super().pointwise(scalar, operands, result)

        def packed(out: Any, *inputs: Any) -> None:
            flat = [x if isinstance(x, np.generic) or 0 in x.strides else x.window(x.shape, _packed(x), x.offset)
                    for x in inputs]  # fmt: skip
            kernel(out, *flat)

        return packed


def _packed(x: Any) -> tuple[int, ...]:
    step, strides = x.dtype.itemsize, []
    for n in reversed(x.shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


class Offset(TemplateHost):
    """Reads operands from the beginning of their buffers."""

    name = "wrong_offset"

    def pointwise(self, scalar: Any, operands: Any, result: np.dtype) -> Any:
        kernel = super().pointwise(scalar, operands, result)
        return lambda out, *inputs: kernel(
            out, *[x if isinstance(x, np.generic) else x.window(x.shape, x.strides, 0) for x in inputs]
        )


class Dtype(TemplateHost):
    """A kernel whose result is always in double precision."""

    name = "wrong_dtype"

    def setup(self) -> None:
        tk.library.register_kernel("tk::exp", self.name, lambda x: self.from_host(np.exp(window(x).astype("float64"))))


class Shape(TemplateHost):
    """A kernel whose result has lost a dimension."""

    name = "wrong_shape"

    def setup(self) -> None:
        tk.library.register_kernel("tk::tanh", self.name, lambda x: self.from_host(np.tanh(window(x)).reshape(-1)))


class FreesTooEarly(TemplateHost):
    """Hands the same memory out again while it is in use."""

    name = "frees_too_early"

    def allocate(self, nbytes: int, device: int = 0) -> Any:
        buffer = super().allocate(nbytes, device)
        known = self.__dict__.setdefault("known", {})
        buffer.memory = known.setdefault(nbytes, buffer.memory)
        return buffer


class NeverFrees(TemplateHost):
    """Keeps what it is given back."""

    name = "never_frees"

    def free(self, buffer: Any) -> None:
        super().free(buffer)
        self.__dict__.setdefault("kept", []).append(buffer)


class KeepsOperands(TemplateHost):
    """A cache of kernels that holds on to the operands of every call."""

    name = "keeps_operands"

    def pointwise(self, scalar: Any, operands: Any, result: np.dtype) -> Any:
        kernel, calls = super().pointwise(scalar, operands, result), []  # type: ignore[var-annotated]

        def keeping(out: Any, *inputs: Any) -> None:
            calls.append((out, inputs))
            kernel(out, *inputs)

        return keeping


class NoSynchronize(TemplateHost):
    """Work is queued, and nothing waits for it."""

    name = "no_synchronize"

    def pointwise(self, scalar: Any, operands: Any, result: np.dtype) -> Any:
        kernel = super().pointwise(scalar, operands, result)
        queue = self.__dict__.setdefault("queue", [])

        def later(*arguments: Any) -> None:
            queue.append((kernel, arguments))
            while len(queue) > 2:  # the device is two calls behind
                function, waiting = queue.pop(0)
                function(*waiting)

        return later


class CopiesPart(TemplateHost):
    """Copies at most a page."""

    name = "copies_part"

    def copy_to_host(self, buffer: Any, array: np.ndarray) -> None:
        array[:4096] = buffer.memory[: min(array.size, 4096)]


class CopiesTooMuch(TemplateHost):
    """Clears what lies behind a shorter array."""

    name = "copies_too_much"

    def copy_from_host(self, buffer: Any, array: np.ndarray) -> None:
        buffer.memory[:] = 0
        super().copy_from_host(buffer, array)


class KeepsHostArray(TemplateHost):
    """Does not copy, but remembers the array."""

    name = "keeps_host_array"

    def copy_from_host(self, buffer: Any, array: np.ndarray) -> None:
        if array.size == buffer.memory.size:
            buffer.memory = array
        else:
            super().copy_from_host(buffer, array)


class Broadcasting(TemplateHost):
    """A template that repeats an operand along the wrong dimension."""

    name = "wrong_broadcasting"

    def pointwise(self, scalar: Any, operands: Any, result: np.dtype) -> Any:
        kernel = super().pointwise(scalar, operands, result)

        def spread(out: Any, *inputs: Any) -> None:
            changed = []
            for x in inputs:
                if not isinstance(x, np.generic) and 0 in x.strides:
                    x = x.window(x.shape, x.strides[::-1], x.offset)
                changed.append(x)
            kernel(out, *changed)

        return spread


class MutatesInputs(TemplateHost):
    """Uses the first operand as scratch memory."""

    name = "mutates_inputs"

    def pointwise(self, scalar: Any, operands: Any, result: np.dtype) -> Any:
        kernel = super().pointwise(scalar, operands, result)

        def scratch(out: Any, *inputs: Any) -> None:
            kernel(out, *inputs)
            if not isinstance(inputs[0], np.generic) and inputs[0].dtype == out.dtype and scalar.name != "copy":
                window(inputs[0])[...] = window(out)

        return scratch


class InPlace(TemplateHost):
    """In-place addition that writes one element past its window."""

    name = "wrong_in_place"

    def setup(self) -> None:
        def add_(x: tk.Tensor, other: tk.Tensor) -> tk.Tensor:
            if x.size:
                window(x)[...] += window(other) if other.data.__class__ is not np.ndarray else other.numpy()
                if len(x.data.buffer.memory) >= x.data.offset + 2 * x.itemsize:
                    x.data.buffer.memory[-x.itemsize :] ^= 1
            return x

        tk.library.register_kernel("tk::add_", self.name, add_)


class Reduction(TemplateHost):
    """Forgets the last element of each row."""

    name = "wrong_reduction"

    def reduction(self, combine: Any, scalar: Any, operand: np.dtype, identity: Any) -> Any:
        kernel = super().reduction(combine, scalar, operand, identity)
        return lambda out, x: kernel(out, x.window((x.shape[0], max(1, x.shape[1] - 1)), x.strides, x.offset))


class Accuracy(TemplateHost):
    """Computes in half precision."""

    name = "wrong_accuracy"

    def pointwise(self, scalar: Any, operands: Any, result: np.dtype) -> Any:
        kernel = super().pointwise(scalar, operands, result)
        if scalar.name != "tk::sigmoid":
            return kernel
        function = numpy_function(scalar)

        def coarse(out: Any, x: Any) -> None:
            window(out)[...] = function(window(x)).astype(np.float16)

        return coarse


class Devices(TemplateHost):
    """Puts everything on its first device."""

    name = "wrong_devices"

    def device_count(self) -> int:
        return 2

    def setup(self) -> None:
        tk.library.register_kernel(
            "tk::square", self.name, lambda x: self.from_host(window(x) ** 2, f"{self.name}:{1 - x.device.index}")
        )


class CurrentDevice(TemplateHost):
    """A kernel that forgets to say on which device its result is: of the first operator, which no earlier one uses."""

    name = "current_device_only"

    def device_count(self) -> int:
        return 2

    def setup(self) -> None:
        tk.library.register_kernel("tk::abs", self.name, lambda x: self.from_host(np.abs(window(x))))


class Raises(TemplateHost):
    """A template with a mistake in it."""

    name = "raises"

    def pointwise(self, scalar: Any, operands: Any, result: np.dtype) -> Any:
        if scalar.name == "tk::tanh":
            raise KeyError("mistake of the author")
        return super().pointwise(scalar, operands, result)


WRONG: Final[dict[str, tuple[str, str]]] = {
    "wrong_matmul": ("operators", "tk::matmul"),
    "wrong_strides": ("tensors", "test_layouts"),
    "wrong_offset": ("tensors", "test_change_what_they_look_at"),
    "wrong_dtype": ("operators", "tk::exp"),
    "wrong_shape": ("operators", "tk::tanh"),
    "frees_too_early": ("interface", "test_buffers_have_memory_of_their_own"),
    "never_frees": ("tensors", "test_memory_is_used_again"),
    "keeps_operands": ("tensors", "test_buffers_are_given_back"),
    "no_synchronize": ("tensors", "test_results_survive_their_operands"),
    "copies_part": ("interface", "test_what_goes_in_comes_out"),
    "copies_too_much": ("interface", "test_a_shorter_array_is_the_beginning_of_the_buffer"),
    "keeps_host_array": ("interface", "test_what_goes_in_comes_out"),
    "wrong_broadcasting": ("operators", "tk::add"),
    "mutates_inputs": ("operators", "tk::exp"),
    "wrong_in_place": ("operators", "tk::add_"),
    "wrong_reduction": ("operators", "tk::sum"),
    "wrong_accuracy": ("operators", "tk::sigmoid"),
    "wrong_devices": ("operators", "tk::square"),
    "current_device_only": ("operators", "tk::abs"),
    "raises": ("operators", "tk::tanh"),
}
"""Which part of the suite finds a fault, and what it says is wrong."""


def kinds() -> list[type[tk.backends.Backend]]:
    """The right backend and the wrong ones; tests/_registered_backends.py registers them."""
    return [Right, *[c for c in TemplateHost.__subclasses__() if c.name in WRONG]]
