"""Pointwise kernels: one expression on all elements, in rows of memory or in any layout.

Note [Layouts of pointwise kernels]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
There are three forms of a kernel. *Vector*: all windows are rows without gaps whose addresses are multiples of 16
bytes (or of four elements, if these are smaller); a thread computes four adjacent elements and moves them in accesses
of up to 128 bits. *Row*: the same without the alignment; a thread computes one element, and the accesses of a warp are
adjacent. *Strided*: anything else; the place in each window is the sum of the indices times the steps, in 32 bits,
with one kernel for each number of dimensions after merging. Where an index or a place does not fit in 31 bits, or a
step is negative, the kernel computes in 64 bits. Numbers are arguments of the kernel, so ``x + 2`` and ``x + 3`` share
one. Guarded by ``tests/backends/cuda/kernels/test_pointwise.py``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from ....core.storage import StridedArray
from ...external.scalar_function import Operand, ScalarFunction
from ...external.templates import fused
from ..compiling import KernelSource
from ..device.prepared_launches import prepared, prepared_into
from .emission import TYPES, parts_count, to_numba
from .launches import Launcher, address, is_row, number, reach, steps, word
from .places import inner
from .registers import register_of

__all__ = ["element_source", "kernel_name", "pointwise", "row_source", "strided_source"]

THREADS: Final = 256
_VECTOR: Final = 4
_MOST_32: Final = 1 << 31


def kernel_name(*words: str) -> str:
    """Return a name for a kernel: letters, digits and underscores."""
    return re.sub(r"\W+", "_", "_".join(words))


def element_source(scalar: ScalarFunction, operands: Sequence[np.dtype], result: np.dtype, name: str) -> str:
    """Return the device function of a scalar function for operands of these dtypes."""
    parameters = {p: str(dtype) for p, dtype in zip(scalar.parameters, operands, strict=True)}
    return to_numba(scalar.expression, parameters, dtype=str(scalar.dtype), result=str(result), name=name)


class _Form:
    """What the forms of a kernel share: parameters, and the text of loads and stores."""

    def __init__(self, scalar: ScalarFunction, operands: Sequence[Operand], result: np.dtype, wide: bool) -> None:
        self.index = "uint64" if wide else "uint32"
        self.scalar = scalar
        self.operands = operands
        self.result = result
        self.head = element_source(scalar, [x.dtype for x in operands], result, "element")
        self.names: list[str] = ["n"]
        self.types: list[str] = [self.index]

    def add(self, name: str, kind: str) -> None:
        """Add a parameter of the kernel."""
        self.names.append(name)
        self.types.append(kind)

    def add_number(self, name: str, dtype: np.dtype) -> None:
        """Add the parameters of a number."""
        for part in register_of(str(dtype)).names(name):
            self.add(part, TYPES[str(dtype)])

    def call(self, values: Sequence[str], indices: Sequence[str]) -> str:
        """Return the call of the element's function."""
        return f"element({', '.join([*values, *[f'int64({index})' for index in indices]])})"

    def loaded(self, name: str, dtype: np.dtype, at: str) -> list[str]:
        """Return the parts of the element at a place, which is counted in parts."""
        if parts_count(str(dtype)) == 1:
            return [f"{name}[{at}]"]
        return [f"{name}[{at}]", f"{name}[wrap_add({at}, {self.index}(1))]"]

    def stored(self, at: str, value: str) -> list[str]:
        """Return the statements that store an element."""
        if parts_count(str(self.result)) == 1:
            return [f"out[{at}] = {value}"]
        return [f"v = {value}", f"out[{at}] = v[0]", f"out[wrap_add({at}, {self.index}(1))] = v[1]"]

    def first_index(self) -> str:
        """Return the number of a thread in the grid."""
        if self.index == "uint32":
            return "uint32(cuda.grid(1))"
        block = "wrap_multiply(uint64(cuda.blockIdx.x), uint64(cuda.blockDim.x))"
        return f"wrap_add({block}, uint64(cuda.threadIdx.x))"

    def source(self, form: str, lines: Sequence[str]) -> KernelSource:
        """Return the kernel with the lines of its body."""
        name = kernel_name(self.scalar.name, form, str(self.result))
        body = "\n".join(inner(lines))
        text = f"{self.head}\n\ndef {name}({', '.join(self.names)}):\n{body}\n"
        return KernelSource(name, text, tuple(self.types), THREADS)


def row_source(
    scalar: ScalarFunction, operands: Sequence[Operand], result: np.dtype, *, vector: bool, wide: bool = False
) -> KernelSource:  # fmt: skip
    """Return the kernel for windows that are rows: (n, out, operands...), with four elements a thread if ``vector``."""
    form = _Form(scalar, operands, result, wide)
    u = form.index
    form.add("out", f"{TYPES[str(result)]}*")
    for k, operand in enumerate(operands):
        if operand.is_number:
            form.add_number(f"x{k}", operand.dtype)
        else:
            form.add(f"x{k}", f"{TYPES[str(operand.dtype)]}*")
    indices = ["i"] * len(scalar.indices)

    def one(at: str) -> list[str]:
        values: list[str] = []
        for k, operand in enumerate(operands):
            name = f"x{k}"
            place = at if parts_count(str(operand.dtype)) == 1 else f"wrap_add({at}, {at})"
            parts = register_of(str(operand.dtype)).names(name)
            values += parts if operand.is_number else form.loaded(name, operand.dtype, place)
        place = at if parts_count(str(result)) == 1 else f"wrap_add({at}, {at})"
        return form.stored(place, form.call(values, indices))

    if not vector:
        lines = [f"i = {form.first_index()}", "if i < n:", *inner(one("i"))]
        return form.source("row" + ("64" if wide else ""), lines)
    lines = [f"i = shift_left({form.first_index()}, {u}(2))", f"if wrap_add(i, {u}(3)) < n:", "    at = uint64(i)"]
    lanes: list[list[str]] = [[] for _ in range(_VECTOR)]
    for k, operand in enumerate(operands):
        if operand.is_number:
            for lane in lanes:
                lane += register_of(str(operand.dtype)).names(f"x{k}")
            continue
        text, names = _vector_loads(f"x{k}", operand.dtype)
        lines += inner(text)
        for lane, parts in zip(lanes, names, strict=True):
            lane += parts
    for n, lane in enumerate(lanes):
        shifted = [f"wrap_add(i, {u}({n}))"] * len(scalar.indices)
        lines.append(f"    v{n} = {form.call(lane, shifted)}")
    lines += inner(_vector_stores(result))
    rest = [*one("i"), f"i = wrap_add(i, {u}(1))"]
    lines += ["else:", "    while i < n:", *inner(inner(rest))]
    return form.source("vector" + ("64" if wide else ""), lines)


def _vector_loads(name: str, dtype: np.dtype) -> tuple[list[str], list[list[str]]]:
    """Return the statements that load four adjacent elements, and the names of the parts of each."""
    parts = parts_count(str(dtype))
    names = [[f"{name}_{n}"] if parts == 1 else [f"{name}_{n}_re", f"{name}_{n}_im"] for n in range(_VECTOR)]
    flat = [part for group in names for part in group]
    width = 2 if parts == 2 and dtype.itemsize == 16 else 4
    lines = [
        f"{', '.join(flat[start : start + width])} = load_vector{width}({name}, {_part(parts, start)})"
        for start in range(0, len(flat), width)
    ]
    return lines, names


def _vector_stores(dtype: np.dtype) -> list[str]:
    parts = parts_count(str(dtype))
    flat = [f"v{n}" if parts == 1 else f"v{n}[{part}]" for n in range(_VECTOR) for part in range(parts)]
    width = 2 if parts == 2 and dtype.itemsize == 16 else 4
    return [
        f"store_vector{width}(out, {_part(parts, start)}, {', '.join(flat[start : start + width])})"
        for start in range(0, len(flat), width)
    ]


def _part(parts: int, start: int) -> str:
    """Return the place of a part of the elements from ``at`` on."""
    if parts == 1:
        return "at"
    return f"wrap_add(shift_left(at, uint64(1)), uint64({start}))"


def strided_source(
    scalar: ScalarFunction, operands: Sequence[Operand], result: np.dtype, ndim: int, *, wide: bool = False
) -> KernelSource:
    """Return the kernel for any layout: (n, sizes but the first, out, its steps, operands with steps...)."""
    form = _Form(scalar, operands, result, wide)
    u = form.index
    for d in range(1, ndim):
        form.add(f"n{d}", u)
    places: dict[str, str] = {}

    def add_window(name: str, dtype: np.dtype) -> None:
        form.add(name, f"{TYPES[str(dtype)]}*")
        place = ""
        for d in range(ndim):
            form.add(f"{name}_{d}", u)
            term = f"wrap_multiply(i{d}, {name}_{d})"
            place = f"wrap_add({place}, {term})" if place else term
        places[name] = place

    add_window("out", result)
    for k, operand in enumerate(operands):
        if operand.is_number:
            form.add_number(f"x{k}", operand.dtype)
        else:
            add_window(f"x{k}", operand.dtype)
    lines = [f"rest{ndim - 1} = i"]
    for d in range(ndim - 1, 0, -1):
        lines.append(f"i{d} = unsigned_remainder(rest{d}, n{d})")
        lines.append(f"rest{d - 1} = unsigned_quotient(rest{d}, n{d})")
    lines.append("i0 = rest0")
    values: list[str] = []
    for k, operand in enumerate(operands):
        if operand.is_number:
            values += register_of(str(operand.dtype)).names(f"x{k}")
        else:
            lines.append(f"x{k}_at = {places[f'x{k}']}")
            values += form.loaded(f"x{k}", operand.dtype, f"x{k}_at")
    lines.append(f"out_at = {places['out']}")
    lines += form.stored("out_at", form.call(values, [f"i{axis}" for axis in scalar.indices]))
    lines = [f"i = {form.first_index()}", "if i < n:", *inner(lines)]
    return form.source(f"strided{ndim}" + ("_64" if wide else ""), lines)


def pointwise(scalar: ScalarFunction, operands: tuple[Operand, ...], result: np.dtype) -> Callable[..., None]:
    """Return the host function ``kernel(out, *operands)`` of the template ``pointwise``."""
    element_source(scalar, [x.dtype for x in operands], result, "element")  # NotImplementedError, before any call

    @functools.cache
    def row(vector: bool, wide: bool) -> Launcher:
        return Launcher(row_source(scalar, operands, result, vector=vector, wide=wide))

    @functools.cache
    def strided(ndim: int, wide: bool) -> Launcher:
        return Launcher(strided_source(scalar, operands, result, ndim, wide=wide))

    def launch_of(out: StridedArray, *inputs: Any) -> tuple[Launcher, int, int, list[Any]]:
        windows = [out, *[x for x in inputs if x.__class__ is StridedArray]]
        n = out.size
        if is_row(windows):
            wide = 2 * n >= _MOST_32
            vector = all(address(w) % min(16, _VECTOR * word(w.dtype)) == 0 for w in windows)
            arguments: list[Any] = [n, address(out)]
            for x in inputs:
                arguments += [address(x)] if x.__class__ is StridedArray else number(x)
            count = -(-n // _VECTOR) if vector else n
            block = THREADS if count >= THREADS else -(-count // 32) * 32
            return row(vector, wide), -(-count // block), block, arguments
        wide = n >= _MOST_32 or any(not 0 <= reach(w) < _MOST_32 for w in windows)
        mask = (1 << 64) - 1 if wide else (1 << 32) - 1
        arguments = [n, *out.shape[1:], address(out), *[step & mask for step in steps(out)]]
        for x in inputs:
            if x.__class__ is StridedArray:
                arguments += [address(x), *[step & mask for step in steps(x)]]
            else:
                arguments += number(x)
        block = THREADS if n >= THREADS else -(-n // 32) * 32
        return strided(out.ndim, wide), -(-n // block), block, arguments

    def kernel(out: StridedArray, *inputs: Any) -> None:
        launcher, grid, block, arguments = launch_of(out, *inputs)
        launcher(out.device.index, grid, block, *arguments)

    def prepare(out: StridedArray, *inputs: Any) -> Callable[..., StridedArray | None]:
        launcher, grid, block, arguments = launch_of(*fused(out, inputs))
        return prepared(partial(launcher.on, out.device.index), grid, block, arguments, out)

    def prepare_into(out: StridedArray, *inputs: Any) -> Callable[..., bool]:
        launcher, grid, block, arguments = launch_of(*fused(out, inputs))
        return prepared_into(partial(launcher.on, out.device.index), grid, block, arguments, out)

    kernel.prepare = prepare  # type: ignore[attr-defined]
    kernel.prepare_into = prepare_into  # type: ignore[attr-defined]
    return kernel
