"""From scalar expressions to OpenCL C: one kernel for each expression, combination of dtypes and number of dimensions.

A window of ``n`` dimensions is passed as a buffer, an offset and ``n`` strides, all counted in elements.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tenkey as tk

__all__ = ["launch", "pointwise", "reduction", "window_arguments"]

TYPES = tk.library.scalar.C_DIALECTS["opencl"].types
# Fused multiply-add rounds once where NumPy rounds twice; results should equal those of the CPU.
PRAGMA = "#pragma OPENCL FP_CONTRACT OFF\n"
_POINTWISE = """{head}
__kernel void run({parameters})
{{
    long rest = get_global_id(0);
    if (rest >= size)
        return;
{index}
    out[{out}] = element({values});
}}
"""
_REDUCTION = """{head}
__kernel void run(long rows, long columns, __global {result} *out, long out_offset,
                  __global const {operand} *x, long x_offset, long row, long step)
{{
    long i = get_global_id(0);
    if (i >= rows)
        return;
    x += x_offset + i * row;
    {result} total = element(x[0]);
    for (long k = 1; k < columns; ++k)
        total = combine(total, element(x[k * step]));
    out[out_offset + i] = total;
}}
"""


def window_arguments(data: tk.backends.StridedArray) -> list[Any]:
    """Return the kernel arguments for a window: buffer, offset, strides."""
    size = data.dtype.itemsize
    return [data.buffer, np.int64(data.offset // size), *[np.int64(step // size) for step in data.strides]]


def launch(backend: Any, device: int, source: str, work: tuple[int, ...], arguments: Sequence[Any]) -> None:
    """Enqueue a kernel on a device, in whole groups of 64 work items in the first dimension."""
    kernel = backend.kernel(device, source)
    group = min(64, work[0])
    whole = (-(-work[0] // group) * group, *work[1:])
    kernel(backend.queue(device), whole, (group, *[1] * (len(work) - 1)), *arguments)


def pointwise(backend: Any, scalar: Any, operands: Any, result: np.dtype) -> Callable[..., None] | None:
    """Return the kernel of a pointwise function; None for dtypes that the device does not support."""
    if not backend.supports(scalar.dtype, result, *[x.dtype for x in operands]):
        return None
    dtypes = [x.dtype for x in operands]
    # raises NotImplementedError for complex numbers, for example: the call then runs on the CPU
    function = PRAGMA + scalar.to_c(operands=dtypes, result=result, name="element", dialect="opencl")

    @functools.cache
    def source(ndim: int) -> str:
        sizes = [f"long n{d}" for d in range(1, ndim)]
        parameters = ["long size", *sizes, *_window("out", TYPES[str(result)], ndim)]
        values = []
        for i, operand in enumerate(operands):
            kind = TYPES[str(operand.dtype)]
            parameters += [f"{kind} x{i}"] if operand.is_number else _window(f"x{i}", f"const {kind}", ndim)
            values.append(f"x{i}" if operand.is_number else f"x{i}[{_place(f'x{i}', ndim)}]")
        index = [f"    long i{d} = rest % n{d}; rest /= n{d};" for d in range(ndim - 1, 0, -1)]
        return _POINTWISE.format(
            head=function, parameters=", ".join(parameters), index="\n".join([*index, "    long i0 = rest;"]),
            out=_place("out", ndim), values=", ".join(values),
        )  # fmt: skip

    def kernel(out: tk.backends.StridedArray, *inputs: Any) -> None:
        size = math.prod(out.shape)
        arguments: list[Any] = [np.int64(size), *[np.int64(n) for n in out.shape[1:]], *window_arguments(out)]
        for x in inputs:
            arguments += [_number(x)] if isinstance(x, np.generic) else window_arguments(x)
        launch(backend, out.device.index, source(out.ndim), (size,), arguments)

    return kernel


def _window(name: str, kind: str, ndim: int) -> list[str]:
    return [f"__global {kind} *{name}", f"long {name}_offset", *[f"long {name}_step{d}" for d in range(ndim)]]


def _place(name: str, ndim: int) -> str:
    return " + ".join([f"{name}_offset", *[f"i{d} * {name}_step{d}" for d in range(ndim)]])


def _number(x: np.generic) -> np.generic:
    return np.uint8(x) if x.dtype == np.bool_ else x


def reduction(backend: Any, combine: Any, scalar: Any, operand: np.dtype) -> Callable[..., None] | None:
    """Return the kernel of a reduction, with one work item for each row."""
    if not backend.supports(combine.dtype, operand):
        return None
    element = scalar.to_c(operands=[operand], name="element", dialect="opencl")
    source = _REDUCTION.format(
        head=PRAGMA + element + combine.to_c(name="combine", dialect="opencl"), result=TYPES[str(combine.dtype)],
        operand=TYPES[str(operand)],
    )  # fmt: skip

    def kernel(out: tk.backends.StridedArray, x: tk.backends.StridedArray) -> None:
        rows, columns = x.shape
        arguments = [np.int64(rows), np.int64(columns), *window_arguments(out)[:2], *window_arguments(x)]
        launch(backend, out.device.index, source, (rows,), arguments)

    return kernel
