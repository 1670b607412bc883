"""The template ``matmul``: batches of products of matrices in any layout, with a function of each sum.

A block computes a tile of the result. It moves tiles of both operands through shared memory: while one pair is
multiplied, each thread has the elements of the next pair on their way to its registers, so that one barrier for each
pair suffices. A thread keeps a square of sums in registers, and reads what it multiplies in vectors of 16 bytes.
Consecutive threads read consecutive elements of an operand along whichever of its dimensions is contiguous. Blocks are
numbered so that those that run at the same time share rows and columns.

Half precision is summed in float32. The order of the sums depends on nothing but the length of the inner dimension.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from .....core.storage import StridedArray
from ....external.scalar_function import Operand, ScalarFunction
from ...compiling.kernel_source import KernelSource
from ..emission import TYPES, parts_count, to_numba
from ..launches import number
from ..places import blocks, indented, offset_type, steps
from ..registers import register_of

__all__ = ["Product", "Tile", "matmul", "product_source"]


class Tile(NamedTuple):
    """A tile of the result: its size, the length of the operands' tiles, and the sums of a thread."""

    rows: int
    columns: int
    depth: int
    down: int
    across: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.rows // self.down * (self.columns // self.across)


LARGE: Final = Tile(128, 128, 8, 8, 8)
MEDIUM: Final = Tile(64, 64, 16, 4, 4)
NARROW: Final = Tile(32, 32, 16, 2, 2)
SMALL: Final = Tile(16, 16, 16, 1, 1)
_ENOUGH: Final = 132  # blocks for all multiprocessors
_GROUP: Final = 8  # rows of tiles that run together


class Product(NamedTuple):
    """What is computed: the dtype of the matrices, and a function of each sum and of operands of the result's shape."""

    dtype: str
    result: str
    head: str = ""
    operands: tuple[Operand, ...] = ()


class _Writer:
    """Writes the lines of a kernel for one product, tile and type of positions."""

    def __init__(self, product: Product, tile: Tile, kind: str) -> None:
        self.tile, self.kind, self.dtype = tile, kind, product.dtype
        self.memory = TYPES[product.dtype]
        self.parts = [""] if parts_count(product.dtype) == 1 else ["_re", "_im"]
        self.sum = _sum_type(product.dtype)
        self.vector = min(tile.down, tile.across, 16 // np.dtype(self.sum).itemsize)

    def loads(self, name: str, side: str, fast: bool) -> tuple[list[str], list[str], list[str]]:
        """Return the lines that prepare, load and put away a thread's elements of an operand's tile.

        ``side`` is "rows" or "columns", the dimension that is not summed; ``fast``: the other one is contiguous.
        """
        tile, kind = self.tile, self.kind
        length = tile.rows if side == "rows" else tile.columns
        wide, kept = (f"{name}_2", f"{name}_1") if side == "rows" else (f"{name}_1", f"{name}_2")
        modulus = tile.depth if fast else length
        each = tile.threads // modulus  # positions between two elements of a thread
        inner, outer = f"{kind}(t % {modulus})", f"{kind}(t // {modulus})"
        prepare = [
            f"{name}_k, {name}_m = {f'{inner}, {outer}' if fast else f'{outer}, {inner}'}",
            f"{name}_slot = {kind}({name}_k * {kind}({self.pitch(length)}) + {name}_m)",
            f"{name}_m = {kind}(first_{side} + {name}_m)",
        ]
        load, put = [], []
        for n in range(length * tile.depth // tile.threads):
            m = f"{name}_m + {n * each}" if fast else f"{name}_m"
            k = f"depth + {name}_k" if fast else f"depth + {name}_k + {n * each}"
            given = f"{name}, {name}_first, {kind}({m}), {kind}({k}), {side}, inner, {kept}, {wide}"
            load.append(f"{', '.join([f'{name}{n}{part}' for part in self.parts])} = load({given})")
            step = n * each * (1 if fast else self.pitch(length))
            put += [f"tile_{name}{part}[into_{name} + {name}_slot + {step}] = {name}{n}{part}" for part in self.parts]
        return prepare, load, put

    def load(self) -> str:
        """Return the device function that reads an element of a matrix, 0 outside of it."""
        kind = self.kind
        at = f"{kind}(first + m * step_m + k * step_k)"
        if len(self.parts) == 1:
            values, zeros = [self._widened(f"x[{at}]")], [f"{self.sum}(0)"]
        else:
            values = [f"{self.sum}(x[2 * {at} + {p}])" for p in range(2)]
            zeros = [f"{self.sum}(0)"] * 2
        return (
            "def load(x, first, m, k, size_m, size_k, step_m, step_k):\n    if m < size_m and k < size_k:\n"
            f"        return {', '.join(values)}\n    return {', '.join(zeros)}\n\n\n"
        )

    def pitch(self, length: int) -> int:
        """Return the distance of rows in shared memory: a multiple of 16 bytes that spreads columns over the banks."""
        return length + 4

    def _widened(self, element: str) -> str:
        if self.dtype in ("float16", "bfloat16"):
            return f"from_{self.dtype}({element})"
        return f"{self.sum}({element})"

    def arrays(self, name: str, length: int) -> list[str]:
        """Return the lines that declare the two tiles of an operand in shared memory."""
        size = 2 * self.tile.depth * self.pitch(length)
        return [f"tile_{name}{part} = cuda.shared.array({size}, {self.sum}, alignment=16)" for part in self.parts]

    def reads(self, name: str, count: int, length: int) -> list[str]:
        """Return the lines that read a tuple of the elements of a thread at depth ``k`` from shared memory."""
        groups = count // self.vector
        lines = []
        for part in self.parts:
            first = f"from_{name} + k * {self.kind}({self.pitch(length)})"
            starts = [f"{self.kind}({first} + {self.kind}({group * (length // groups)}))" for group in range(groups)]
            vectors = [f"shared_vector{self.vector}(tile_{name}{part}, {start})" for start in starts]
            lines.append(f"{name}v{part} = {' + '.join(vectors)}")
        return lines

    def places(self, count: int, length: int) -> list[int]:
        """Return the positions of a thread's elements from its first one."""
        vector = self.vector
        return [i // vector * (length // (count // vector)) + i % vector for i in range(count)]

    def multiply(self) -> list[str]:
        """Return the lines that add the products of the elements at one depth."""
        if len(self.parts) == 1:
            return ["sums = add_products(sums, av, bv)"]
        return [
            "sums_re = add_products(sums_re, av_re, bv_re)", "sums_re = subtract_products(sums_re, av_im, bv_im)",
            "sums_im = add_products(sums_im, av_re, bv_im)", "sums_im = add_products(sums_im, av_im, bv_re)",
        ]  # fmt: skip

    def narrowed(self, value: str) -> list[str]:
        """Return a sum in the dtype of the matrices."""
        if self.dtype in ("float16", "bfloat16"):
            return [f"to_{self.dtype}({value})"]
        return [f"{self.memory}({value}{part})" for part in self.parts]


def _sum_type(dtype: str) -> str:
    if dtype in ("float16", "bfloat16"):
        return "float32"
    kind = TYPES[dtype]
    return {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}.get(kind, kind)


def _store(product: Product, write: _Writer) -> tuple[str, list[str], list[str]]:
    """Return the device function that stores a sum, and the names and types of its parameters for the operands."""
    kind = write.kind
    names, types, body = [], [], []
    values = write.narrowed("total")
    for n, operand in enumerate(product.operands):
        register = register_of(operand.dtype.name)
        if operand.is_number:
            names += register.names(f"x{n}")
            types += [register.kind] * register.parts
        else:
            names += [f"x{n}", *[f"x{n}_{d}" for d in range(3)]]
            types += [f"{register.kind}*", kind, kind, kind]
            at = f"{kind}(batch * x{n}_0 + row * x{n}_1 + column * x{n}_2)"
            body += register.load(f"value{n}", f"x{n}", at)
        values += register.names(f"x{n}" if operand.is_number else f"value{n}")
    result = register_of(product.result)
    if product.head:
        body += [f"{', '.join(result.names('found'))} = epilogue({', '.join(values)})"]
    else:
        body += [f"{name} = {value}" for name, value in zip(result.names("found"), values)]
    body += result.store("out", f"{kind}(batch * out_0 + row * out_1 + column * out_2)", "found")
    totals = [f"total{part}" for part in write.parts]
    extent = ["rows", "columns", "out", "out_0", "out_1", "out_2", *names]
    given = ["batch", "row", "column", *totals, *extent]
    text = f"def store({', '.join(given)}):\n    if row < rows and column < columns:\n{indented(body, 2)}\n\n\n"
    lines, row = [], []
    for j, distance in enumerate(write.places(write.tile.across, write.tile.columns)):
        totals = [f"total{j}{part}" for part in write.parts]
        lines.append(f"store({', '.join(['batch', 'row', f'{kind}(column + {kind}({distance}))', *totals, *extent])})")
        row += totals
    text += f"def store_row({', '.join(['batch', 'row', 'column', *row, *extent])}):\n{indented(lines, 1)}\n"
    return text, names, types


@functools.cache
def product_source(product: Product, tile: Tile, kind: str, by_rows: tuple[bool, bool]) -> KernelSource:
    """Return the kernel for a tile; ``by_rows`` tells for each operand whether its last dimension is contiguous."""
    write = _Writer(product, tile, kind)
    text, extra, extra_types = _store(product, write)
    names = ["rows", "columns", "inner", "tiles_down", "tiles_across"]
    names += [name for window in ("out", "a", "b") for name in (window, *[f"{window}_{d}" for d in range(3)])]
    start = {side: write.loads(*given) for side, given in (
        ("a", ("a", "rows", by_rows[0])), ("b", ("b", "columns", not by_rows[1])),
    )}  # fmt: skip
    across = tile.columns // tile.across
    pitch = {"a": write.pitch(tile.rows), "b": write.pitch(tile.columns)}
    doublings = (tile.down * tile.across).bit_length() - 1
    group = f"{kind}({_GROUP})"
    body = [
        *write.arrays("a", tile.rows), *write.arrays("b", tile.columns), f"t = {kind}(cuda.threadIdx.x)",
        f"block = {kind}(cuda.blockIdx.x)", f"batch = {kind}(block // {kind}(tiles_down * tiles_across))",
        f"block = {kind}(block - batch * {kind}(tiles_down * tiles_across))",
        f"first_tile = {kind}({kind}(block // {kind}({group} * tiles_across)) * {group})",
        f"height = {kind}(tiles_down - first_tile)", f"if height > {group}:", f"    height = {group}",
        f"block = {kind}(block - first_tile * tiles_across)", f"tile_column = {kind}(block // height)",
        f"first_rows = {kind}({kind}(first_tile + block - tile_column * height) * {kind}({tile.rows}))",
        f"first_columns = {kind}(tile_column * {kind}({tile.columns}))", f"a_first = {kind}(batch * a_0)",
        f"b_first = {kind}(batch * b_0)", f"depth = {kind}(0)", f"zero = {write.sum}(0)",
        "zeros0 = (zero,)",
        *[f"zeros{n + 1} = zeros{n} + zeros{n}" for n in range(doublings)],
        *[f"sums{part} = zeros{doublings}" for part in write.parts],
        f"down = {kind}({kind}(t // {across}) * {kind}({write.vector}))",
        f"over = {kind}({kind}(t % {across}) * {kind}({write.vector}))",
        f"into_a = {kind}(0)", f"into_b = {kind}(0)", *start["a"][0], *start["b"][0], *start["a"][1], *start["b"][1],
        *start["a"][2], *start["b"][2], "cuda.syncthreads()", "while depth < inner:",
        f"    from_a = {kind}(into_a + down)", f"    from_b = {kind}(into_b + over)",
        f"    into_a = {kind}({kind}({tile.depth * pitch['a']}) - into_a)",
        f"    into_b = {kind}({kind}({tile.depth * pitch['b']}) - into_b)",
        f"    depth = {kind}(depth + {kind}({tile.depth}))",
        *[f"    {line}" for line in (*start["a"][1], *start["b"][1])],
        f"    k = {kind}(0)", f"    while k < {kind}({tile.depth}):",
        *[f"        {line}" for line in write.reads("a", tile.down, tile.rows)],
        *[f"        {line}" for line in write.reads("b", tile.across, tile.columns)],
        *[f"        {line}" for line in write.multiply()], f"        k = {kind}(k + {kind}(1))",
        *[f"    {line}" for line in (*start["a"][2], *start["b"][2])], "    cuda.syncthreads()",
    ]  # fmt: skip
    extent = ["rows", "columns", "out", "out_0", "out_1", "out_2", *extra]
    for i, row in enumerate(write.places(tile.down, tile.rows)):
        totals = [f"sums{part}[{i * tile.across + j}]" for j in range(tile.across) for part in write.parts]
        given = ["batch", f"{kind}(first_rows + down + {kind}({row}))", f"{kind}(first_columns + over)", *totals]
        body.append(f"store_row({', '.join([*given, *extent])})")
    window = (kind,) * 3
    pointers = [f"{TYPES[name]}*" for name in (product.result, product.dtype, product.dtype)]
    types = (*[kind] * 5, *[part for pointer in pointers for part in (pointer, *window)], *extra_types)
    text = f"{product.head}\n{write.load()}{text}\n\ndef product({', '.join([*names, *extra])}):\n{indented(body, 1)}\n"
    return KernelSource("product", text, types, tile.threads)


def _tile_for(batch: int, rows: int, columns: int, sums: str, parts: int) -> Tile:
    """Choose a tile that wastes little of itself and leaves blocks for the whole device."""
    least = min(rows, columns)
    if least <= 16:
        return SMALL
    if np.dtype(sums).itemsize * parts > 8:
        return NARROW
    large = batch * blocks(rows, LARGE.rows) * blocks(columns, LARGE.columns)
    if np.dtype(sums).itemsize * parts == 4 and least >= LARGE.rows and large >= _ENOUGH:
        return LARGE
    return MEDIUM if least > 32 else NARROW


def matmul(
    backend: Any, dtype: np.dtype, epilogue: ScalarFunction | None, operands: Sequence[Operand], result: np.dtype
) -> Callable[..., None] | None:
    """Return the host function ``kernel(out, a, b, *operands)``; None for bools and functions of indices."""
    if dtype.kind == "b" or (epilogue is not None and epilogue.indices):
        return None
    head = ""
    if epilogue is not None:
        dtypes = [dtype.name, *[x.dtype.name for x in operands]]
        parameters = dict(zip(epilogue.parameters, dtypes, strict=True))
        compute = epilogue.dtype.name
        head = to_numba(epilogue.expression, parameters, dtype=compute, result=result.name, name="epilogue")
    product = Product(dtype.name, result.name, head, tuple(operands))
    sums, parts = _sum_type(dtype.name), parts_count(dtype.name)

    def kernel(out: StridedArray, a: StridedArray, b: StridedArray, *inputs: Any) -> None:
        batch, rows, columns = out.shape
        inner = a.shape[2]
        windows = [x for x in inputs if x.__class__ is StridedArray]
        kind = offset_type(out, a, b, *windows)
        by_rows = (steps(a)[2] <= steps(a)[1] or a.shape[1] == 1, steps(b)[2] <= steps(b)[1] or b.shape[1] == 1)
        tile = _tile_for(batch, rows, columns, sums, parts)
        down, across = blocks(rows, tile.rows), blocks(columns, tile.columns)
        given = [value for window in (out, a, b) for value in (window, *steps(window))]
        for x in inputs:
            given += [x, *steps(x)] if x.__class__ is StridedArray else number(x)
        source = product_source(product, tile, kind, by_rows)
        backend.launch(source, batch * down * across, tile.threads, rows, columns, inner, down, across, *given)

    return kernel
