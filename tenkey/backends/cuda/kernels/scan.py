"""The template ``scan``: inclusive scans along rows, of one value or of several that are combined together.

Rows whose neighbours lie side by side (a scan along the first axis) are scanned by a thread each. Otherwise short rows
are scanned by a warp each, and longer ones by a block each, in tiles: every thread scans a few consecutive elements in
registers, the totals are scanned by shuffles, and the total of all earlier tiles is carried along. If there are too few
rows for the device, a row is cut into spans: a first pass computes the total of each span, these are scanned as rows,
and a last pass scans each span behind the total of those before it. The order of combinations depends on the shape
alone, so results are the same in every run. The functions need not be commutative and have no neutral element.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.storage import StridedArray
from ...external.scalar_function import ScalarFunction
from ..compiling.kernel_source import KernelSource
from .emission import to_numba
from .places import THREADS, blocks, indented, inner, offset_type, steps
from .registers import Register, register_of

__all__ = ["Combination", "scan", "scan_rows", "scan_source", "sequential_source"]

ITEMS: Final = 4  # consecutive elements of a thread
WARPS: Final = THREADS // 32
TILE: Final = THREADS * ITEMS
_SHORT: Final = 32 * ITEMS * 8  # columns of a row that a warp scans
_BLOCKS: Final = 512  # enough for all multiprocessors
_SPAN: Final = 4 * TILE  # columns for which a block of its own is worth its start


class Combination(NamedTuple):
    """Functions that combine elements of several parts: source text, and how the elements lie in registers.

    ``head`` defines functions ``combine0``, ``combine1`` and so on of all parts of the earlier element, then of the
    later one.
    """

    head: str
    register: Register
    parts: int = 1


class _Writer:
    """Writes the lines of scans for one combination, whose parts are the variables ``a0``, ``a1`` and so on."""

    def __init__(self, combination: Combination, kind: str) -> None:
        self.register = combination.register
        self.parts = range(combination.parts)
        self.kind = kind

    def combine(self, to: str, earlier: str, later: str) -> list[str]:
        """Return lines for ``to = combine(earlier, later)``; ``to`` may be one of the two."""
        given = [*[f"{earlier}{n}" for n in self.parts], *[f"{later}{n}" for n in self.parts]]
        lines = [line for n in self.parts for line in self.register.call(f"new{n}", f"combine{n}", *given)]
        return [*lines, *self.copy(to, "new")]

    def copy(self, to: str, source: str) -> list[str]:
        """Return lines for ``to = source``."""
        return [line for n in self.parts for line in self.register.copy(f"{to}{n}", f"{source}{n}")]

    def zero(self, to: str) -> list[str]:
        """Return lines that define ``to``, whose value is not used."""
        return [line for n in self.parts for line in self.register.zero(f"{to}{n}")]

    def load(self, to: str, column: str) -> list[str]:
        """Return lines that read the element of the row at a column."""
        return [
            line for n in self.parts
            for line in self.register.load(f"{to}{n}", f"x{n}", f"{self.kind}(x{n}_first + {column} * x{n}_1)")
        ]  # fmt: skip

    def store(self, source: str, column: str) -> list[str]:
        """Return lines that write an element of the row."""
        return [
            line for n in self.parts
            for line in self.register.store(
                f"out{n}", f"{self.kind}(out{n}_first + {column} * out{n}_1)", f"{source}{n}"
            )
        ]  # fmt: skip

    def first(self, windows: Sequence[str]) -> list[str]:
        """Return lines that compute the offset of the row in the windows."""
        return [f"{w}{n}_first = {self.kind}(row * {w}{n}_0)" for w in windows for n in self.parts]

    def shuffle(self, to: str, way: str, source: str, place: str) -> list[str]:
        """Return lines that read a value from another lane."""
        return [line for n in self.parts for line in self.register.shuffle(f"{to}{n}", way, f"{source}{n}", place)]

    def at(self, action: str, name: str, pointer: str, place: str) -> list[str]:
        """Return lines that read or write a value at one place of the windows ``pointer0`` and so on."""
        found = []
        for n in self.parts:
            if action == "load":
                found += self.register.load(f"{name}{n}", f"{pointer}{n}", place)
            else:
                found += self.register.store(f"{pointer}{n}", place, f"{name}{n}")
        return found


def _names(parts: int, *windows: str) -> list[str]:
    return [name for w in windows for n in range(parts) for name in (f"{w}{n}", f"{w}{n}_0", f"{w}{n}_1")]


def _types(combination: Combination, kind: str, count: int) -> list[str]:
    return [f"{combination.register.kind}*", kind, kind] * (combination.parts * count)


@functools.cache
def sequential_source(combination: Combination, kind: str) -> KernelSource:
    """Return the kernel in which each thread scans a row."""
    write = _Writer(combination, kind)
    names = ["rows", "columns", "backwards", *_names(combination.parts, "out", "x")]
    text = f"""{combination.head}
def scan_sequential({", ".join(names)}):
    row = {kind}({kind}(cuda.blockIdx.x) * {kind}({THREADS}) + {kind}(cuda.threadIdx.x))
    if row < rows:
{indented(write.first(("x", "out")), 2)}
        k = {kind}(columns - {kind}(1)) if backwards != 0 else {kind}(0)
{indented([*write.load("a", "k"), *write.store("a", "k")], 2)}
        n = {kind}(1)
        while n < columns:
            k = {kind}(k - {kind}(1)) if backwards != 0 else {kind}(k + {kind}(1))
{indented([*write.load("b", "k"), *write.combine("a", "a", "b"), *write.store("a", "k")], 3)}
            n = {kind}(n + {kind}(1))
"""
    parameters = (kind, kind, "uint32", *_types(combination, kind, 2))
    return KernelSource("scan_sequential", text, parameters, THREADS)


@functools.cache
def scan_source(
    combination: Combination, kind: str, *, warp: bool, store: bool = True, behind: bool = False
) -> KernelSource:
    """Return the kernel in which a block, or a ``warp``, scans spans of rows in tiles.

    Without ``store`` only the total of each span is written, to ``total0`` and so on of shape (rows, spans). With
    ``behind`` those of the spans up to the one before, as the scan of ``total0``, come before each span.
    """
    write = _Writer(combination, kind)
    parts = combination.parts
    lanes = 32 if warp else THREADS
    totals = behind or not store
    windows = ("out", "x") if store else ("x",)
    names = ["rows", "columns", "spans", "length", "backwards", *_names(parts, *windows)]
    names += [f"total{n}" for n in range(parts)] if totals else []
    body: list[str] = []
    if warp:
        body += [
            f"lane = {kind}(cuda.threadIdx.x % 32)",
            f"row = {kind}({kind}(cuda.blockIdx.x) * {kind}({WARPS}) + {kind}(cuda.threadIdx.x // 32))",
            "if row >= rows:",
            "    return",
            f"begin = {kind}(0)",
            "end = columns",
            "place = lane",
        ]
    else:
        size, word = WARPS * combination.register.parts, combination.register.kind
        body += [f"shared{n} = cuda.shared.array({size}, {word})" for n in range(parts)]
        body += [
            f"place = {kind}(cuda.threadIdx.x)",
            f"lane = {kind}(cuda.threadIdx.x % 32)",
            f"warp = {kind}(cuda.threadIdx.x // 32)",
            f"row = {kind}({kind}(cuda.blockIdx.x) // spans)",
            f"span = {kind}({kind}(cuda.blockIdx.x) - {kind}(row * spans))",
            f"begin = {kind}(span * length)",
            f"end = {kind}(begin + length)",
            "if end > columns:",
            "    end = columns",
        ]
    body += write.first(windows)
    body += ["known = False", *write.zero("carry")]
    if behind:
        body += ["if span > 0:", "    known = True"]
        body += inner(write.at("load", "carry", "total", f"{kind}(row * spans + span - {kind}(1))"))
    body += ["base = begin", "while base < end:"]
    tile: list[str] = [f"p = {kind}(base + place * {kind}({ITEMS}))"]
    for j in range(ITEMS):
        tile += write.zero(f"s{j}_")
    for j in range(ITEMS):
        at = f"{kind}(p + {kind}({j}))"
        tile += [f"if {at} < end:", f"    k = {kind}(columns - {kind}(1) - {at}) if backwards != 0 else {at}"]
        if j == 0:
            tile += inner(write.load("s0_", "k"))
        else:
            tile += inner([*write.load("b", "k"), *write.combine(f"s{j}_", f"s{j - 1}_", "b")])
    last = f"s{ITEMS - 1}_"
    tile += write.copy("sum", last)
    for distance in (1, 2, 4, 8, 16):
        tile += write.shuffle("up", "up", "sum", str(distance))
        tile += [f"if lane >= {kind}({distance}):"]
        tile += inner(write.combine("sum", "up", "sum"))
    tile += [*write.shuffle("before", "up", "sum", "1"), f"some = lane > {kind}(0)"]
    if not warp:
        tile += [f"if lane == {kind}(31):", *inner(write.at("store", "sum", "shared", "warp"))]
        tile += ["cuda.syncthreads()", *write.at("load", "whole", "shared", "0"), f"w = {kind}(1)"]
        tile += [*write.copy("front", "whole"), f"while w < {kind}({WARPS}):", "    if w == warp:"]
        tile += inner(inner(write.copy("front", "whole")))
        tile += inner(write.at("load", "next", "shared", "w"))
        tile += inner(write.combine("whole", "whole", "next"))
        tile += [f"    w = {kind}(w + {kind}(1))", f"if warp > {kind}(0):", "    if some:"]
        tile += inner(inner(write.combine("before", "front", "before")))
        tile += ["    else:", *inner(inner(write.copy("before", "front"))), "    some = True"]
    else:
        tile += write.shuffle("whole", "index", "sum", "31")
    tile += ["if known:", "    if some:", *inner(inner(write.combine("before", "carry", "before")))]
    tile += ["    else:", *inner(inner(write.copy("before", "carry"))), "    some = True"]
    tile += inner(write.combine("carry", "carry", "whole"))
    tile += ["else:", *inner(write.copy("carry", "whole")), "    known = True"]
    if store:
        for j in range(ITEMS):
            at = f"{kind}(p + {kind}({j}))"
            tile += [f"if {at} < end:", "    if some:"]
            tile += inner(inner(write.combine(f"s{j}_", "before", f"s{j}_")))
            tile += [f"    k = {kind}(columns - {kind}(1) - {at}) if backwards != 0 else {at}"]
            tile += inner(write.store(f"s{j}_", "k"))
    if not warp:
        tile += ["cuda.syncthreads()"]
    tile += [f"base = {kind}(base + {kind}({lanes * ITEMS}))"]
    body += inner(tile)
    if not store:
        body += [f"if place == {kind}(0):"]
        body += inner(write.at("store", "carry", "total", f"{kind}(row * spans + span)"))
    name = "scan_warp" if warp else "scan_totals" if not store else "scan_block"
    text = f"{combination.head}\ndef {name}({', '.join(names)}):\n{indented(body, 1)}\n"
    pointers = [f"{combination.register.kind}*"] * parts if totals else []
    parameters = (kind, kind, kind, kind, "uint32", *_types(combination, kind, len(windows)), *pointers)
    return KernelSource(name, text, parameters, THREADS)


def scan_rows(
    backend: Any, combination: Combination, outs: Sequence[StridedArray], xs: Sequence[StridedArray], reverse: bool
) -> None:
    """Scan the rows of windows of one shape (rows, columns)."""
    rows, columns = outs[0].shape
    kind = offset_type(*outs, *xs)
    backwards = int(reverse)
    given = [value for window in (*outs, *xs) for value in (window, *steps(window))]
    beside = steps(xs[0])[0] < steps(xs[0])[1]
    if columns < 8 or (rows >= 4096 and beside):
        source = sequential_source(combination, kind)
        backend.launch(source, blocks(rows), THREADS, rows, columns, backwards, *given)
        return
    if rows > 1 and columns <= _SHORT:
        source = scan_source(combination, kind, warp=True)
        backend.launch(source, blocks(rows, WARPS), THREADS, rows, columns, 1, columns, backwards, *given)
        return
    spans = min(blocks(columns, _SPAN), blocks(_BLOCKS, rows))
    length = blocks(columns, spans * TILE) * TILE
    spans = blocks(columns, length)
    sizes = (rows, columns, spans, length, backwards)
    if spans == 1:
        backend.launch(scan_source(combination, kind, warp=False), rows, THREADS, *sizes, *given)
        return
    totals = [backend.scratch((rows, spans), x.dtype, x.device) for x in xs]
    read = [value for window in xs for value in (window, *steps(window))]
    first = scan_source(combination, kind, warp=False, store=False)
    backend.launch(first, rows * spans, THREADS, *sizes, *read, *totals)
    scanned = [backend.scratch((rows, spans), x.dtype, x.device) for x in xs]
    scan_rows(backend, combination, scanned, totals, reverse=False)
    last = scan_source(combination, kind, warp=False, behind=True)
    backend.launch(last, rows * spans, THREADS, *sizes, *given, *scanned)


def scan(backend: Any, combine: tuple[ScalarFunction, ...], dtype: np.dtype) -> Callable[..., None]:
    """Return the host function ``kernel(outs, xs, reverse)`` for a tuple of functions, one for each part."""
    functions = []
    for n, function in enumerate(combine):
        parameters = dict.fromkeys(function.parameters, dtype.name)
        functions.append(to_numba(function.expression, parameters, dtype=dtype.name, name=f"combine{n}"))
    combination = Combination("\n".join(["", *functions]), register_of(dtype.name), len(combine))

    def kernel(outs: tuple[StridedArray, ...], xs: tuple[StridedArray, ...], reverse: bool) -> None:
        scan_rows(backend, combination, outs, xs, reverse)

    return kernel
