"""The template ``arg_reduction``: the first place in each row whose element is the best.

A thread remembers the best of the elements that it reads, which are neighbours of those of the other threads; these are
compared in a tree, where the earlier place wins between elements of which neither is better. So ``better`` must be a
strict weak order, as every order with a rule for NaN is. There is a thread for each row if neighbouring rows lie side
by side, else a warp, or a block where rows are long. If there are too few rows for the device, a first pass finds the
best place in each span of a row, and a second one compares these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ....core.storage import StridedArray
from ...external.scalar_function import ScalarFunction
from ..compiling.kernel_source import KernelSource
from .emission import to_numba
from .places import THREADS, blocks, indented, inner, offset_type, steps
from .registers import Register, register_of, shuffled

__all__ = ["arg_reduction", "arg_sequential_source", "arg_source"]

WARPS: Final = THREADS // 32
_SHORT: Final = 1024  # columns of a row that a warp reads
_SPAN: Final = 8192  # columns for which a block of its own is worth its start
_BLOCKS: Final = 512
_PARAMETERS: Final = "rows, columns, spans, length, places, x, x_0, x_1"


def _better(register: Register, element: str, found: str) -> str:
    given = ", ".join([*register.names(element), *register.names(found)])
    return f"better({given}) != uint8(0)"


@functools.cache
def arg_sequential_source(head: str, register: Register, kind: str) -> KernelSource:
    """Return the kernel in which each thread searches a row."""
    text = f"""{head}
def arg_sequential(rows, columns, places, x, x_0, x_1):
    row = {kind}({kind}(cuda.blockIdx.x) * {kind}({THREADS}) + {kind}(cuda.threadIdx.x))
    if row < rows:
        first = {kind}(row * x_0)
        {register.load("best", "x", "first")[0]}
        place = {kind}(0)
        k = {kind}(1)
        while k < columns:
            {register.load("a", "x", f"{kind}(first + k * x_1)")[0]}
            if {_better(register, "a", "best")}:
                best = a
                place = k
            k = {kind}(k + {kind}(1))
        places[row] = int64(place)
"""
    return KernelSource("arg_sequential", text, (kind, kind, "int64*", f"{register.kind}*", kind, kind), THREADS)


@functools.cache
def arg_source(head: str, register: Register, kind: str, *, warp: bool, among: bool = False) -> KernelSource:
    """Return the kernel in which a warp or a block searches a span of a row.

    ``places`` has the shape (rows, spans). With ``among``, the columns are the places in ``found``, of shape
    (rows, columns), which were found in spans of the rows.
    """
    lanes = 32 if warp else THREADS
    better, worse = _better(register, "other", "best"), _better(register, "best", "other")
    replaces = f"({better}) | ((other_place < place) & (not ({worse})))"
    take = [f"if (other_place >= 0) & ((place < 0) | {replaces}):", "    best = other", "    place = other_place"]
    column = "found[int64(row) * int64(columns) + int64(k)]" if among else "int64(k)"
    body = ["place = int64(-1)", *register.zero("best")]
    if warp:
        body = [
            f"row = {kind}({kind}(cuda.blockIdx.x) * {kind}({WARPS}) + {kind}(cuda.threadIdx.x // 32))",
            "if row >= rows:", "    return", "span = row", f"k = {kind}(cuda.threadIdx.x % 32)", "end = columns", *body,
        ]  # fmt: skip
    else:
        body = [
            f"shared = cuda.shared.array({WARPS}, {register.kind})",
            f"shared_places = cuda.shared.array({WARPS}, int64)",
            f"span = {kind}(cuda.blockIdx.x)", f"row = {kind}(span // spans)",
            f"k = {kind}({kind}(span - {kind}(row * spans)) * length)", f"end = {kind}(k + length)",
            "if end > columns:", "    end = columns", f"k = {kind}(k + {kind}(cuda.threadIdx.x))", *body,
        ]  # fmt: skip
    body += [
        f"first = {kind}(row * x_0)", "while k < end:", f"    column = {column}",
        f"    {register.load('a', 'x', f'{kind}(first + {kind}(column) * x_1)')[0]}",
        f"    if (place < 0) | ({_better(register, 'a', 'best')}):", "        best = a", "        place = column",
        f"    k = {kind}(k + {kind}({lanes}))",
    ]  # fmt: skip
    for distance in (16, 8, 4, 2, 1):
        body += register.shuffle("other", "xor", "best", str(distance))
        body += [f"other_place = {shuffled('int64', 'xor', 'place', str(distance))}", *take]
    body += ["lane = cuda.threadIdx.x % 32"]
    if not warp:
        body += ["if lane == 0:", "    shared[cuda.threadIdx.x // 32] = best"]
        body += ["    shared_places[cuda.threadIdx.x // 32] = place", "cuda.syncthreads()", "lane = cuda.threadIdx.x"]
        final = ["w = 1", f"while w < {WARPS}:", "    other = shared[w]", "    other_place = shared_places[w]"]
        final += [*inner(take), "    w += 1"]
        body += ["if lane == 0:", *inner(final)]
    body += ["if lane == 0:", "    places[span] = place"]
    name = "arg_warp" if warp else "arg_block"
    names = _PARAMETERS + (", found" if among else "")
    text = f"{head}\ndef {name}({names}):\n{indented(body, 1)}\n"
    types = (kind, kind, kind, kind, "int64*", f"{register.kind}*", kind, kind, *(["int64*"] if among else []))
    return KernelSource(name, text, types, THREADS)


def arg_reduction(backend: Any, better: ScalarFunction, operand: np.dtype) -> Callable[..., None] | None:
    """Return the host function ``kernel(out, x)``; None for complex numbers, which have no order."""
    if operand.kind == "c":
        return None
    parameters = dict.fromkeys(better.parameters, operand.name)
    head = to_numba(better.expression, parameters, dtype=better.dtype.name, result="bool", name="better")
    register = register_of(operand.name)

    def kernel(out: StridedArray, x: StridedArray) -> None:
        rows, columns = x.shape
        kind = offset_type(x)
        elements = (x, *steps(x))
        beside = steps(x)[0] < steps(x)[1]
        if columns < 8 or (rows >= 4096 and beside):
            source = arg_sequential_source(head, register, kind)
            backend.launch(source, blocks(rows), THREADS, rows, columns, out, *elements)
            return
        if rows > 1 and columns <= _SHORT:
            source = arg_source(head, register, kind, warp=True)
            backend.launch(source, blocks(rows, WARPS), THREADS, rows, columns, 1, columns, out, *elements)
            return
        spans = min(blocks(columns, _SPAN), blocks(_BLOCKS, rows))
        length = blocks(columns, spans)
        spans = blocks(columns, length)
        places = out if spans == 1 else backend.scratch((rows, spans), np.dtype(np.int64), x.device)
        source = arg_source(head, register, kind, warp=False)
        backend.launch(source, rows * spans, THREADS, rows, columns, spans, length, places, *elements)
        if spans > 1:
            source = arg_source(head, register, kind, warp=False, among=True)
            backend.launch(source, rows, THREADS, rows, spans, 1, spans, out, *elements, places)

    return kernel
