"""Backends in host memory for tests; the templates run NumPy programs of the scalar expressions."""

from __future__ import annotations

from typing import Any

import numpy as np

import tenkey as tk
from tenkey.library import scalar as s

__all__ = ["Host", "TemplateHost", "window"]


class Buffer:
    """An object of its own, so that nothing looks into it by accident."""

    def __init__(self, nbytes: int) -> None:
        self.memory = np.full(nbytes, 0xA5, np.uint8)  # whoever reads what was never written notices


def window(data: Any) -> np.ndarray:
    """The elements of a tensor or window on one of these backends, without a copy."""
    data = data.array if isinstance(data, tk.Tensor) else data
    return np.ndarray(data.shape, data.dtype, data.buffer.memory.data, data.offset, data.strides)


class Host(tk.backends.Backend):
    """The four methods, and a count of the buffers in use."""

    name = "host"

    def __init__(self) -> None:
        self.live: set[int] = set()

    def allocate(self, nbytes: int, device: int = 0) -> Any:
        buffer = Buffer(nbytes)
        self.live.add(id(buffer))
        return buffer

    def free(self, buffer: Any) -> None:
        self.live.remove(id(buffer))

    def copy_from_host(self, buffer: Any, array: np.ndarray) -> None:
        buffer.memory[: array.size] = array

    def copy_to_host(self, buffer: Any, array: np.ndarray) -> None:
        array[...] = buffer.memory[: array.size]


def numpy_function(scalar: Any) -> Any:
    """A NumPy function of a scalar function, in its compute dtype."""
    kind = scalar.dtype.type

    def constant(value: Any, what: str) -> str:
        return f"np.bool_({value})" if what == "boolean" else f"np.{kind.__name__}({float(value)!r})"

    if scalar.dtype.kind not in "fiub" or scalar.dtype.name == "float16":
        raise NotImplementedError
    eps = repr(float(np.finfo(scalar.dtype).eps)) if scalar.dtype.kind == "f" else "0"
    table = s.NUMPY.extended(constant=lambda v, k: constant(v, k).replace("(inf)", "(np.inf)").replace(
        "(-inf)", "(-np.inf)").replace("(nan)", "(np.nan)"), eps=eps)  # fmt: skip
    scope: dict[str, Any] = {}
    exec("\n".join(table.imports), scope)
    exec(s.function_source("program", scalar.parameters, [scalar.expression], table), scope)
    return scope["program"]


class TemplateHost(Host):
    """The same with templates that check what they are promised."""

    name = "templated"

    def __init__(self) -> None:
        super().__init__()
        self.made: list[str] = []

    def pointwise(self, scalar: Any, operands: Any, result: np.dtype) -> Any:
        function = numpy_function(scalar)
        self.made.append(scalar.name)
        kinds = [scalar.dtype] * len(operands)
        for node in s.topological_order([scalar.expression]):
            if node.name is not None and node.kind == "boolean":
                kinds[scalar.parameters.index(node.name)] = np.dtype(bool)

        def kernel(out: Any, *inputs: Any) -> None:
            assert out.__class__ is tk.backends.StridedArray
            assert out.ndim >= 1
            assert out.size >= 1
            assert out.dtype == result
            assert len(inputs) == len(operands)
            arrays = []
            for operand, x, kind in zip(operands, inputs, kinds, strict=True):
                assert x.dtype == operand.dtype
                assert isinstance(x, np.generic) == operand.is_number
                if not operand.is_number:
                    assert x.shape == out.shape
                    assert x.owner is not out.owner or (x.offset, x.strides) == (out.offset, out.strides)
                    x = window(x)
                arrays.append(x.astype(kind))
            for axis in scalar.indices:
                lengths = [n if i == axis else 1 for i, n in enumerate(out.shape)]
                arrays.append(np.arange(out.shape[axis]).reshape(lengths).astype(scalar.dtype))
            with np.errstate(all="ignore"):
                window(out)[...] = function(*arrays)

        return kernel

    def reduction(self, combine: Any, scalar: Any, operand: np.dtype, identity: Any) -> Any:
        joined = numpy_function(combine)
        mapped = numpy_function(scalar)
        self.made.append(combine.name)

        def kernel(out: Any, x: Any) -> None:
            assert x.ndim == 2
            assert x.size >= 1
            assert x.dtype == operand
            assert out.shape == x.shape[:1]
            assert out.dtype == combine.dtype
            assert out.is_contiguous
            with np.errstate(all="ignore"):
                values = window(x).astype(combine.dtype)
                values = mapped(values)
                total = values[:, 0]
                for k in range(1, values.shape[1]):
                    total = joined(total, values[:, k])
                window(out)[...] = total

        return kernel
