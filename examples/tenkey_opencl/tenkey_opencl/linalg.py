"""A hand-written matrix product: every work item computes a tile of 4 x 4 results in its registers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tenkey as tk

from .templates import TYPES, launch, window_arguments

__all__ = ["matmul", "takes"]

TILE = 4
_SOURCE = """
#define TILE {tile}
__kernel void run(long rows, long columns, long inner, __global {kind} *out, long out_offset, long out_batch,
                  long out_row, long out_column,
                  __global const {kind} *a, long a_offset, long a_batch, long a_row, long a_column,
                  __global const {kind} *b, long b_offset, long b_batch, long b_row, long b_column)
{{
    long j0 = get_global_id(0) * TILE, i0 = get_global_id(1) * TILE, batch = get_global_id(2);
    if (j0 >= columns)
        return;
    a += a_offset + batch * a_batch;
    b += b_offset + batch * b_batch;
    out += out_offset + batch * out_batch;
    {kind} total[TILE][TILE] = {{{{0}}}};
    for (long k = 0; k < inner; ++k) {{
        {kind} left[TILE], right[TILE];
        for (int i = 0; i < TILE; ++i)  // outside the matrix it reads the last row or column and stores nothing
            left[i] = a[min(i0 + i, rows - 1) * a_row + k * a_column];
        for (int j = 0; j < TILE; ++j)
            right[j] = b[k * b_row + min(j0 + j, columns - 1) * b_column];
        for (int i = 0; i < TILE; ++i)
            for (int j = 0; j < TILE; ++j)
                total[i][j] += left[i] * right[j];
    }}
    for (int i = 0; i < TILE; ++i)
        for (int j = 0; j < TILE; ++j)
            if (i0 + i < rows && j0 + j < columns)
                out[(i0 + i) * out_row + (j0 + j) * out_column] = total[i][j];
}}
"""


def takes(x1: tk.Tensor, x2: tk.Tensor) -> bool:
    """Tell whether the kernel accepts the operands: one numeric dtype, vectors or matrices, matching sizes."""
    if x1.dtype != x2.dtype or x1.dtype.kind not in "fiu" or x1.dtype.itemsize < 4 or x1.device != x2.device:
        return False
    return x1.ndim > 0 and x2.ndim > 0 and x1.shape[-1] == (x2.shape[-2] if x2.ndim > 1 else x2.shape[0])


def matmul(backend: Any, x1: tk.Tensor, x2: tk.Tensor) -> tk.Tensor:
    """Compute ``x1 @ x2`` over the last two dimensions; the others are broadcast."""
    a = tk.expand_dims(x1, 0) if x1.ndim == 1 else x1
    b = tk.expand_dims(x2, -1) if x2.ndim == 1 else x2
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    count, rows, inner, columns = math.prod(batch), a.shape[-2], a.shape[-1], b.shape[-1]
    shape = (*batch, *x1.shape[-2:-1], *(x2.shape[-1:] if x2.ndim > 1 else ()))
    if not (count and rows and columns):
        return backend.empty(shape, x1.dtype, x1.device)  # type: ignore[no-any-return]
    if not inner:
        return tk.zeros(shape, dtype=x1.dtype, device=x1.device)
    out = backend.empty((count, rows, columns), x1.dtype, x1.device)
    arguments: list[Any] = [np.int64(rows), np.int64(columns), np.int64(inner), *window_arguments(out.data)]
    for x in (a, b):
        spread = tk.reshape(tk.broadcast_to(x, (*batch, *x.shape[-2:])), (count, *x.shape[-2:]))
        arguments += window_arguments(spread.data)
    source = _SOURCE.format(kind=TYPES[str(x1.dtype)], tile=TILE)
    launch(backend, x1.device.index, source, (-(-columns // TILE), -(-rows // TILE), count), arguments)
    return tk.reshape(out, shape)
