"""The template ``matmul``: batches of products of matrices in any layout, with a function of each sum.

A block computes a tile of the result and moves tiles of both operands through shared memory. Consecutive threads read
consecutive elements of an operand along whichever of its dimensions is contiguous. Blocks are numbered so that those
that run at the same time share rows and columns. Half precision is summed in float32, by tensor cores where the result
is large. The order of the sums depends on nothing but the shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from .....core.storage import StridedArray
from ....external.scalar_function import Operand, ScalarFunction
from ..emission import parts_count, to_numba
from ..launches import number
from ..places import blocks, offset_type, steps
from .tensor_core_products import TENSOR_TILE, has_pairs, tensor_product_source
from .tile_products import product_source
from .tiling import Product, Tile, sum_type

__all__ = ["matmul"]

LARGE: Final = Tile(128, 128, 8, 8, 8)
MEDIUM: Final = Tile(64, 64, 16, 4, 4)
NARROW: Final = Tile(32, 32, 16, 2, 2)
SMALL: Final = Tile(16, 16, 16, 1, 1)
_ENOUGH: Final = 132  # blocks for all multiprocessors
_HALVES: Final = ("float16", "bfloat16")


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
    sums, parts = sum_type(dtype.name), parts_count(dtype.name)

    def kernel(out: StridedArray, a: StridedArray, b: StridedArray, *inputs: Any) -> None:
        batch, rows, columns = out.shape
        inner = a.shape[2]
        windows = [x for x in inputs if x.__class__ is StridedArray]
        kind = offset_type(out, a, b, *windows)
        by_rows = (steps(a)[2] <= steps(a)[1] or a.shape[1] == 1, steps(b)[2] <= steps(b)[1] or b.shape[1] == 1)
        is_for_tensor_cores = dtype.name in _HALVES and min(rows, columns) >= 64 and inner >= 16  # fills most of a tile
        tile = TENSOR_TILE if is_for_tensor_cores else _tile_for(batch, rows, columns, sums, parts)
        down, across = blocks(rows, tile.rows), blocks(columns, tile.columns)
        given = [value for window in (out, a, b) for value in (window, *steps(window))]
        for x in inputs:
            given += [x, *steps(x)] if x.__class__ is StridedArray else number(x)
        if is_for_tensor_cores:
            source = tensor_product_source(product, kind, by_rows, (has_pairs(a, 2), has_pairs(b, 1)))
        else:
            source = product_source(product, tile, kind, by_rows)
        backend.launch(source, batch * down * across, tile.threads, rows, columns, inner, down, across, *given)

    return kernel
