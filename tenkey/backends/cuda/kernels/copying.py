"""Copies between layouts: by the driver, through tiles in shared memory, or element by element.

Note [Transposed copies]
~~~~~~~~~~~~~~~~~~~~~~~~
A transposition reads along one dimension and writes along another, so one of the two accesses of a warp would be
scattered over 32 lines of memory. A block therefore moves a tile of 32 x 32 elements through shared memory, whose rows
have one element more, so that its columns lie in different banks. Guarded by
``tests/backends/cuda/kernels/test_copying.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

import numpy as np

from ....core.storage import StridedArray
from ....ops.scalar import variable
from ...external.scalar_function import Operand, ScalarFunction
from ..compiling import KernelSource
from ..device.contexts import enter
from ..device.driver import cu
from ..device.streams import current_stream
from .emission import TYPES
from .launches import Launcher, address, is_row, reach, steps
from .pointwise import pointwise

__all__ = ["copying", "tile_source"]

_TILE: Final = 32
_TILE_ROWS: Final = 8  # threads of a block along the second dimension
_MOST_BATCHES: Final = 65535


def tile_source(dtype: np.dtype) -> KernelSource:
    """Return the kernel that copies a batch of matrices, read along rows and written along columns.

    Its arguments are: rows, columns, out, x, the steps of ``out`` in batch, row and column, and those of ``x``.
    """
    kind = TYPES[str(dtype)]
    name = f"transposed_{kind}"
    text = f"""\
def {name}(rows, columns, out, x, out_batch, out_row, out_column, x_batch, x_row, x_column):
    tile = cuda.shared.array(({_TILE}, {_TILE + 1}), {kind})
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    batch = uint64(cuda.blockIdx.z)
    first_row = wrap_multiply(uint64(cuda.blockIdx.y), uint64({_TILE}))
    first_column = wrap_multiply(uint64(cuda.blockIdx.x), uint64({_TILE}))
    column = wrap_add(first_column, uint64(tx))
    for k in range(0, {_TILE}, {_TILE_ROWS}):
        row = wrap_add(first_row, uint64(ty + k))
        if (row < rows) & (column < columns):
            at = wrap_add(wrap_multiply(batch, x_batch), wrap_multiply(row, x_row))
            tile[ty + k, tx] = x[wrap_add(at, wrap_multiply(column, x_column))]
    cuda.syncthreads()
    row = wrap_add(first_row, uint64(tx))
    for k in range(0, {_TILE}, {_TILE_ROWS}):
        column = wrap_add(first_column, uint64(ty + k))
        if (row < rows) & (column < columns):
            at = wrap_add(wrap_multiply(batch, out_batch), wrap_multiply(row, out_row))
            out[wrap_add(at, wrap_multiply(column, out_column))] = tile[tx, ty + k]
"""
    parameters = ("uint64", "uint64", f"{kind}*", f"{kind}*", *["uint64"] * 6)
    return KernelSource(name, text, parameters, _TILE * _TILE_ROWS)


def copying(dtype: np.dtype) -> Callable[[StridedArray, StridedArray], None]:
    """Return the host function ``kernel(out, x)`` of the template ``copy``, for unsigned integers of any size."""
    scalar = ScalarFunction("copy", ("x",), variable("x"), dtype)
    plain = pointwise(scalar, (Operand("x", dtype),), dtype)

    @functools.cache
    def tiled() -> Launcher:
        return Launcher(tile_source(dtype))

    def kernel(out: StridedArray, x: StridedArray) -> None:
        if is_row([out, x]):
            device = out.device.index
            with enter(device):  # unlike a launch, a copy does not choose the context by itself
                cu.cuMemcpyDtoDAsync(address(out), address(x), out.nbytes, current_stream(device).handle)
        elif (axes := _transposed(out, x)) is not None:
            _copy_tiles(tiled(), out, x, axes)
        else:
            plain(out, x)

    return kernel


def _transposed(out: StridedArray, x: StridedArray) -> tuple[int, int] | None:
    """Return the dimensions along which ``x`` and ``out`` are adjacent in memory, if a copy in tiles helps."""
    if not 2 <= len(out.shape) <= 3 or out.size < _TILE * _TILE or reach(x) < 0:
        return None
    reading = [d for d, step in enumerate(steps(x)) if step == 1]
    writing = [d for d, step in enumerate(steps(out)) if step == 1]
    if len(reading) != 1 or len(writing) != 1 or reading == writing:
        return None
    columns, rows = reading[0], writing[0]
    batches = out.size // (out.shape[rows] * out.shape[columns])
    small = min(out.shape[rows], out.shape[columns]) < _TILE // 4
    return None if small or batches > _MOST_BATCHES or -(-out.shape[rows] // _TILE) > _MOST_BATCHES else (columns, rows)


def _copy_tiles(kernel: Launcher, out: StridedArray, x: StridedArray, axes: tuple[int, int]) -> None:
    columns, rows = axes
    rest = [d for d in range(len(out.shape)) if d not in axes]
    batches = out.shape[rest[0]] if rest else 1
    order = [rest[0] if rest else rows, rows, columns]
    grid = (-(-out.shape[columns] // _TILE), -(-out.shape[rows] // _TILE), batches)
    places = [steps(w)[d] for w in (out, x) for d in order]
    sizes = out.shape[rows], out.shape[columns]
    kernel(out.device.index, grid, (_TILE, _TILE_ROWS), *sizes, address(out), address(x), *places)
