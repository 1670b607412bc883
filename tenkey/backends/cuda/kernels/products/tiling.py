"""What all kernels of products share: tiles, the place of a block, and how sums are stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ....external.scalar_function import Operand
from ..emission import TYPES
from ..places import indented
from ..registers import register_of

__all__ = ["NAMES", "Product", "Tile", "block_lines", "parameter_types", "store_functions", "sum_type"]

_GROUP: Final = 8  # rows of tiles that run together


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


class Product(NamedTuple):
    """What is computed: the dtype of the matrices, and a function of each sum and of operands of the result's shape."""

    dtype: str
    result: str
    head: str = ""
    operands: tuple[Operand, ...] = ()


def sum_type(dtype: str) -> str:
    """Return the type in which products of a dtype are summed."""
    if dtype in ("float16", "bfloat16"):
        return "float32"
    kind = TYPES[dtype]
    return {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}.get(kind, kind)


NAMES: Final = (
    "rows", "columns", "inner", "tiles_down", "tiles_across", "out", "out_0", "out_1", "out_2", "a", "a_0", "a_1",
    "a_2", "b", "b_0", "b_1", "b_2",
)  # fmt: skip
"""The first parameters of every kernel of products."""


def parameter_types(product: Product, kind: str, extra: Sequence[str]) -> tuple[str, ...]:
    """Return the types of ``NAMES`` and of the parameters for the operands."""
    pointers = [f"{TYPES[name]}*" for name in (product.result, product.dtype, product.dtype)]
    return (*[kind] * 5, *[part for pointer in pointers for part in (pointer, *[kind] * 3)], *extra)


def block_lines(kind: str, tile: Tile) -> list[str]:
    """Return the lines that find the matrix and the first row and column of a block, in groups of rows of tiles."""
    group = f"{kind}({_GROUP})"
    return [
        f"block = {kind}(cuda.blockIdx.x)", f"batch = {kind}(block // {kind}(tiles_down * tiles_across))",
        f"block = {kind}(block - batch * {kind}(tiles_down * tiles_across))",
        f"first_tile = {kind}({kind}(block // {kind}({group} * tiles_across)) * {group})",
        f"height = {kind}(tiles_down - first_tile)", f"if height > {group}:", f"    height = {group}",
        f"block = {kind}(block - first_tile * tiles_across)", f"tile_column = {kind}(block // height)",
        f"first_rows = {kind}({kind}(first_tile + block - tile_column * height) * {kind}({tile.rows}))",
        f"first_columns = {kind}(tile_column * {kind}({tile.columns}))",
    ]  # fmt: skip


def store_functions(
    product: Product, kind: str, totals: Sequence[str], sums: Sequence[str], distances: Sequence[int]
) -> tuple[str, list[str], list[str]]:
    """Return device functions that store sums, and the names and types of the kernel's parameters for the operands.

    ``totals`` are the variables of a sum, and ``sums`` its source in the dtype of the matrices. ``store_row`` stores
    the sums at these ``distances`` from a column.
    """
    names, types, body = [], [], []
    values = [*sums]
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
    extent = ["rows", "columns", "out", "out_0", "out_1", "out_2", *names]
    given = ["batch", "row", "column", *totals, *extent]
    text = f"def store({', '.join(given)}):\n    if row < rows and column < columns:\n{indented(body, 2)}\n\n\n"
    lines, row = [], []
    for j, distance in enumerate(distances):
        mine = [f"{total}_{j}" for total in totals]
        lines.append(f"store({', '.join(['batch', 'row', f'{kind}(column + {kind}({distance}))', *mine, *extent])})")
        row += mine
    text += f"def store_row({', '.join(['batch', 'row', 'column', *row, *extent])}):\n{indented(lines, 1)}\n"
    return text, names, types
