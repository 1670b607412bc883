"""Kernels in OpenCL C: their sources, with windows as parameters, and how they are launched.

A window of ``n`` dimensions is passed as a buffer, an offset and ``n`` strides, all counted in elements. In the body of
a kernel ``x(i, j)`` is the element of the window ``x`` at a place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tenkey as tk

__all__ = ["PRAGMA", "TYPES", "WORDS", "arguments", "launch", "places", "program"]

TYPES = tk.library.scalar.C_DIALECTS["opencl"].types
# For kernels that move elements of any dtype: an unsigned integer of their size.
WORDS = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong", 16: "ulong2"}
# Fused multiply-add rounds once where NumPy rounds twice; results should equal those of the CPU.
PRAGMA = "#pragma OPENCL FP_CONTRACT OFF\n"


def program(
    body: str, windows: Mapping[str, tuple[str, int]], numbers: Mapping[str, str] | None = None, head: str = ""
) -> str:
    """Return the source of a kernel ``run(numbers..., windows...)``.

    ``windows`` maps names to the type of the elements and the number of dimensions, ``numbers`` names to types.
    """
    parameters = [f"{kind} {name}" for name, kind in (numbers or {}).items()]
    macros = []
    for name, (kind, ndim) in windows.items():
        strides = [f"{name}_stride{d}" for d in range(ndim)]
        parameters += [f"__global {kind} *{name}_data", *[f"long {n}" for n in (f"{name}_offset", *strides)]]
        place = " + ".join([f"{name}_offset", *[f"(i{d}) * {stride}" for d, stride in enumerate(strides)]])
        macros.append(f"#define {name}({', '.join([f'i{d}' for d in range(ndim)])}) {name}_data[{place}]")
    macro_lines = "\n".join(macros)
    return f"{PRAGMA}{head}\n{macro_lines}\n__kernel void run({', '.join(parameters)})\n{{\n{body}\n}}\n"


def places(sizes: Sequence[str]) -> str:
    """Return statements that compute the place ``i0``, ``i1``, ... of a work item in a grid; the rest return."""
    total = " * ".join(["1L", *sizes])
    lines = ["    long rest = get_global_id(0);", f"    if (rest >= {total})", "        return;"]
    lines += [f"    long i{d} = rest % {sizes[d]};\n    rest /= {sizes[d]};" for d in range(len(sizes) - 1, 0, -1)]
    return "\n".join([*lines, "    long i0 = rest;"])


def arguments(*values: Any) -> list[Any]:
    """Return the arguments of a kernel: a window becomes buffer, offset and strides, a Python int a ``long``."""
    made: list[Any] = []
    for value in values:
        if isinstance(value, tk.backends.StridedArray):
            steps = [value.offset, *value.strides]
            made += [value.buffer, *[np.int64(step // value.dtype.itemsize) for step in steps]]
        elif isinstance(value, np.bool_):
            made.append(np.uint8(value))
        else:
            made.append(np.int64(value) if isinstance(value, int) else value)
    return made


def launch(backend: Any, device: int, source: str, work: Sequence[int], values: Sequence[Any]) -> None:
    """Enqueue a kernel on a device, in whole groups of 64 work items in the first dimension."""
    group = min(64, work[0])
    whole = (-(-work[0] // group) * group, *work[1:])
    kernel = backend.kernel(device, source)
    with backend.lock:
        kernel(backend.queue(device), whole, (group, *[1] * (len(work) - 1)), *arguments(*values))
