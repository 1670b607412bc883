"""Templates that move elements: gather, scatter and a stable sort."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .programs import TYPES, WORDS, launch, places, program

__all__ = ["gather", "scatter", "sort"]

_GATHER = """
    long at = index(i0, i1, i2);
    if (at >= 0 && at < n)
        out(i0, i1, i2) = x(i0, at, i2);
    else {
        out(i0, i1, i2) = 0;
        error(0) = code;
    }"""
# One work item for each row and column of `out`, which combines its sources in their order.
_SCATTER = """
    for (long j = 0; j < count; ++j) {{
        long at = index(i0, j, i1);
        if (at >= 0 && at < n) {{
            {kind} a = out(i0, at, i1), b = source(i0, j, i1);
            out(i0, at, i1) = {combined};
        }} else
            error(0) = code;
    }}"""
_SET = {"set": "b"}
_MODES = {
    "b": {**_SET, "add": "a | b", "multiply": "a & b", "minimum": "a & b", "maximum": "a | b"},
    "i": {**_SET, "add": "a + b", "multiply": "a * b", "minimum": "min(a, b)", "maximum": "max(a, b)"},
    "f": {
        **_SET, "add": "a + b", "multiply": "a * b", "minimum": "isnan(a) || a < b ? a : b",
        "maximum": "isnan(a) || a > b ? a : b",
    },
}  # fmt: skip
# A pass of a merge sort: runs of `width` sorted elements are merged in pairs. Each element finds its new place by
# counting those of the other run that come before it. The first pass (width 0) reads the tensor.
_MERGE = """
    if (!width) {{
        to(i0, i1) = x(i0, i1);
        to_order(i0, i1) = i1;
        return;
    }}
    long begin = i1 / (2 * width) * (2 * width), middle = min(begin + width, columns);
    int left = i1 < middle;
    long low = left ? middle : begin, high = left ? min(middle + width, columns) : middle, other = low;
    {kind} key = from(i0, i1);
    while (low < high) {{
        long probe = (low + high) / 2;
        {kind} found = from(i0, probe);
        if (left ? LESS(found, key) : !LESS(key, found))
            low = probe + 1;
        else
            high = probe;
    }}
    long place = begin + (i1 - (left ? begin : middle)) + (low - other);
    to(i0, place) = key;
    to_order(i0, place) = from_order(i0, i1);"""
_LESS = "#define LESS(a, b) ((a) < (b))"
_LESS_OR_NAN = "#define LESS(a, b) ((a) < (b) || (isnan(b) && !isnan(a)))"
_CUBE = ("outer", "count", "inner")


def gather(backend: Any, dtype: np.dtype) -> Callable[..., None]:
    """Return the kernel ``out[i, j, k] = x[i, index[i, j, k], k]``."""
    kind = WORDS[dtype.itemsize]
    windows = {"out": (kind, 3), "x": (kind, 3), "index": ("long", 3), "error": ("long", 1)}
    numbers = dict.fromkeys((*_CUBE, "n", "code"), "long")
    source = program(places(_CUBE) + _GATHER, windows, numbers)

    def kernel(out: Any, x: Any, index: Any, error: Any, code: int) -> None:
        values = [*out.shape, x.shape[1], code, out, x, index, error]
        launch(backend, out.device.index, source, (out.size,), values)

    return kernel


def scatter(backend: Any, mode: str, dtype: np.dtype) -> Callable[..., None] | None:
    """Return the kernel that combines ``out[i, index[i, j, k], k]`` with ``source[i, j, k]``, in the order of j."""
    if mode != "set" and not backend.has_operators(dtype):
        return None
    kind = WORDS[dtype.itemsize] if mode == "set" else TYPES[str(dtype)]
    combined = _MODES.get(dtype.kind, _MODES["i"])[mode]
    windows = {"out": (kind, 3), "index": ("long", 3), "source": (kind, 3), "error": ("long", 1)}
    numbers = dict.fromkeys((*_CUBE, "n", "code"), "long")
    text = program(places(("outer", "inner")) + _SCATTER.format(kind=kind, combined=combined), windows, numbers)

    def kernel(out: Any, index: Any, source: Any, error: Any, code: int) -> None:
        outer, count, inner = source.shape
        values = [outer, count, inner, out.shape[1], code, out, index, source, error]
        launch(backend, out.device.index, text, (outer * inner,), values)

    return kernel


def sort(backend: Any, dtype: np.dtype) -> Callable[..., None] | None:
    """Return the kernel that sorts rows; the passes write alternately to the result and to a second pair of buffers."""
    if not backend.has_operators(dtype):
        return None
    kind = TYPES[str(dtype)]
    windows = {f"{name}{end}": (of, 2) for name in ("to", "from") for end, of in (("", kind), ("_order", "long"))}
    source = program(
        places(("rows", "columns")) + _MERGE.format(kind=kind), {**windows, "x": (kind, 2)},
        dict.fromkeys(("rows", "columns", "width"), "long"),
        _LESS_OR_NAN if dtype.kind == "f" else _LESS,
    )  # fmt: skip

    def kernel(values: Any, order: Any, x: Any) -> None:
        other = [backend.empty(x.shape, of, x.device).array for of in (dtype, order.dtype)]
        passes = math.ceil(math.log2(x.shape[1])) if x.shape[1] > 1 else 0
        to, last = ((values, order), other) if passes % 2 == 0 else (other, (values, order))
        for width in (0, *[1 << n for n in range(passes)]):
            launch(backend, x.device.index, source, (x.size,), [*x.shape, width, *to, *last, x])
            to, last = last, to

    return kernel
