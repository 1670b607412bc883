"""Products on the general units, for all dtypes: squares of sums in the registers of each thread.

While one pair of tiles is multiplied, each thread has the elements of the next pair on their way to its registers, so
that one barrier for each pair suffices. A thread reads what it multiplies in vectors of 16 bytes.
"""

from __future__ import annotations

import functools

import numpy as np

from ...compiling.kernel_source import KernelSource
from ..emission import TYPES, parts_count
from ..places import indented, inner
from .tiling import NAMES, Product, Tile, block_lines, parameter_types, store_functions, sum_type

__all__ = ["product_source"]


class _Writer:
    """Writes the lines of a kernel for one product, tile and type of positions."""

    def __init__(self, product: Product, tile: Tile, kind: str) -> None:
        self.tile, self.kind, self.dtype = tile, kind, product.dtype
        self.memory = TYPES[product.dtype]
        self.parts = [""] if parts_count(product.dtype) == 1 else ["_re", "_im"]
        self.sum = sum_type(product.dtype)
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


@functools.cache
def product_source(product: Product, tile: Tile, kind: str, by_rows: tuple[bool, bool]) -> KernelSource:
    """Return the kernel for a tile; ``by_rows`` tells for each operand whether its last dimension is contiguous."""
    write = _Writer(product, tile, kind)
    totals = [f"total{part}" for part in write.parts]
    distances = write.places(tile.across, tile.columns)
    text, extra, extra_types = store_functions(product, kind, totals, write.narrowed("total"), distances)
    start = {side: write.loads(*given) for side, given in (
        ("a", ("a", "rows", by_rows[0])), ("b", ("b", "columns", not by_rows[1])),
    )}  # fmt: skip
    across = tile.columns // tile.across
    pitch = {"a": write.pitch(tile.rows), "b": write.pitch(tile.columns)}
    doublings = (tile.down * tile.across).bit_length() - 1
    body = [
        *write.arrays("a", tile.rows), *write.arrays("b", tile.columns), f"t = {kind}(cuda.threadIdx.x)",
        *block_lines(kind, tile),
        f"a_first = {kind}(batch * a_0)",
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
        *inner([*start["a"][1], *start["b"][1]]),
        f"    k = {kind}(0)", f"    while k < {kind}({tile.depth}):",
        *inner(inner(write.reads("a", tile.down, tile.rows))),
        *inner(inner(write.reads("b", tile.across, tile.columns))),
        *inner(inner(write.multiply())), f"        k = {kind}(k + {kind}(1))",
        *inner([*start["a"][2], *start["b"][2]]), "    cuda.syncthreads()",
    ]  # fmt: skip
    extent = ["rows", "columns", "out", "out_0", "out_1", "out_2", *extra]
    for i, row in enumerate(write.places(tile.down, tile.rows)):
        totals = [f"sums{part}[{i * tile.across + j}]" for j in range(tile.across) for part in write.parts]
        given = ["batch", f"{kind}(first_rows + down + {kind}({row}))", f"{kind}(first_columns + over)", *totals]
        body.append(f"store_row({', '.join([*given, *extent])})")
    types = parameter_types(product, kind, extra_types)
    text = f"{product.head}\n{write.load()}{text}\n\ndef product({', '.join([*NAMES, *extra])}):\n{indented(body, 1)}\n"
    return KernelSource("product", text, types, tile.threads)
