"""Templates of scalar expressions: one kernel for each expression, combination of dtypes and number of dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

from .programs import TYPES, WORDS, launch, places, program

__all__ = ["arg_reduction", "copy", "operand_parameters", "pointwise", "reduction", "scan"]

_REDUCTION = """    long i = get_global_id(0);
    if (i >= rows)
        return;
    {kind} total = element(x(i, 0));
    for (long k = 1; k < columns; ++k)
        total = combine(total, element(x(i, k)));
    out(i) = total;"""
_ARG_REDUCTION = """    long i = get_global_id(0), place = 0;
    if (i >= rows)
        return;
    for (long k = 1; k < columns; ++k)
        if (better(x(i, k), x(i, place)))
            place = k;
    out(i) = place;"""
_SCAN = """    long i = get_global_id(0), k = reverse ? columns - 1 : 0;
    if (i >= rows)
        return;
    {start}
    for (long n = 1; n < columns; ++n) {{
        k += reverse ? -1 : 1;
        {step}
    }}"""


def operand_parameters(operands: Any, ndim: int, place: str) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """Return the windows and numbers among the operands of an expression, and the source of each one's element."""
    windows: dict[str, Any] = {}
    numbers: dict[str, str] = {}
    values = []
    for n, operand in enumerate(operands):
        name, kind = f"x{n}", TYPES[str(operand.dtype)]
        if operand.is_number:
            numbers[name] = kind
        else:
            windows[name] = (kind, ndim)
        values.append(name if operand.is_number else f"{name}({place})")
    return windows, numbers, values


def pointwise(backend: Any, scalar: Any, operands: Any, result: np.dtype) -> Callable[..., None] | None:
    """Return the kernel of a pointwise function; None for dtypes that the device does not support."""
    dtypes = [x.dtype for x in operands]
    if not backend.supports(scalar.dtype, result, *dtypes):
        return None
    head = scalar.to_c(operands=dtypes, result=result, name="element", dialect="opencl")

    @functools.cache
    def source(ndim: int) -> str:
        place = ", ".join([f"i{d}" for d in range(ndim)])
        windows, numbers, values = operand_parameters(operands, ndim, place)
        sizes = [f"n{d}" for d in range(ndim)]
        values += [f"i{axis}" for axis in scalar.indices]
        body = f"{places(sizes)}\n    out({place}) = element({', '.join(values)});"
        numbers = {**dict.fromkeys(sizes, "long"), **numbers}
        return program(body, {"out": (TYPES[str(result)], ndim), **windows}, numbers, head)

    def kernel(out: Any, *inputs: Any) -> None:
        numbers = [x for x in inputs if isinstance(x, np.generic)]
        windows = [x for x in inputs if not isinstance(x, np.generic)]
        values = [*out.shape, *numbers, out, *windows]
        launch(backend, out.device.index, source(out.ndim), (math.prod(out.shape),), values)

    return kernel


def reduction(backend: Any, combine: Any, scalar: Any, operand: np.dtype) -> Callable[..., None] | None:
    """Return the kernel of a reduction, with one work item for each row."""
    if not backend.supports(combine.dtype, operand):
        return None
    head = scalar.to_c(operands=[operand], name="element", dialect="opencl")
    head += combine.to_c(name="combine", dialect="opencl")
    kind = TYPES[str(combine.dtype)]
    source = program(_REDUCTION.format(kind=kind), {"out": (kind, 1), "x": (TYPES[str(operand)], 2)}, _SIZES, head)

    def kernel(out: Any, x: Any) -> None:
        launch(backend, out.device.index, source, x.shape[:1], [*x.shape, out, x])

    return kernel


def arg_reduction(backend: Any, better: Any, operand: np.dtype) -> Callable[..., None] | None:
    """Return the kernel that finds the place of the best element, with one work item for each row."""
    if not backend.supports(operand):
        return None
    head = better.to_c(operands=[operand] * 2, result=np.dtype(bool), name="better", dialect="opencl")
    source = program(_ARG_REDUCTION, {"out": ("long", 1), "x": (TYPES[str(operand)], 2)}, _SIZES, head)

    def kernel(out: Any, x: Any) -> None:
        launch(backend, out.device.index, source, x.shape[:1], [*x.shape, out, x])

    return kernel


def scan(backend: Any, combine: Any, dtype: np.dtype) -> Callable[..., None] | None:
    """Return the kernel of an inclusive scan, with one work item for each row."""
    if not backend.supports(dtype):
        return None
    kind, parts = TYPES[str(dtype)], range(len(combine))
    head = "".join([function.to_c(name=f"combine{n}", dialect="opencl") for n, function in enumerate(combine)])
    known = ", ".join([f"a{n}" for n in parts] + [f"x{n}(i, k)" for n in parts])
    start = [f"{kind} a{n} = out{n}(i, k) = x{n}(i, k);" for n in parts]
    step = [f"{kind} c{n} = combine{n}({known});" for n in parts] + [f"a{n} = out{n}(i, k) = c{n};" for n in parts]
    windows = {f"{name}{n}": (kind, 2) for name in ("out", "x") for n in parts}
    body = _SCAN.format(start="\n    ".join(start), step="\n        ".join(step))
    source = program(body, windows, {**_SIZES, "reverse": "long"}, head)

    def kernel(outs: Any, xs: Any, reverse: bool) -> None:
        out = outs[0]
        launch(backend, out.device.index, source, out.shape[:1], [*out.shape, int(reverse), *outs, *xs])

    return kernel


def copy(backend: Any, dtype: np.dtype) -> Callable[..., None]:
    """Return the kernel that copies elements between layouts; the driver copies contiguous ones."""
    kind = WORDS[dtype.itemsize]

    @functools.cache
    def source(ndim: int) -> str:
        place = ", ".join([f"i{d}" for d in range(ndim)])
        sizes = [f"n{d}" for d in range(ndim)]
        body = f"{places(sizes)}\n    out({place}) = x({place});"
        return program(body, {"out": (kind, ndim), "x": (kind, ndim)}, dict.fromkeys(sizes, "long"))

    def kernel(out: Any, x: Any) -> None:
        if out.is_contiguous and x.is_contiguous:
            cl.enqueue_copy(
                backend.queue(out.device.index), out.buffer, x.buffer, byte_count=out.size * dtype.itemsize,
                src_offset=x.offset, dst_offset=out.offset,
            )  # fmt: skip
        else:
            launch(backend, out.device.index, source(out.ndim), (out.size,), [*out.shape, out, x])

    return kernel


_SIZES = {"rows": "long", "columns": "long"}
