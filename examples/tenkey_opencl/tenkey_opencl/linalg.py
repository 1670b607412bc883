"""The template of matrix products: every work item computes a tile of 4 x 4 results in its registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .programs import TYPES, launch, program
from .templates import operand_parameters

__all__ = ["matmul"]

TILE = 4
_BODY = """
    long j0 = get_global_id(0) * {tile}, i0 = get_global_id(1) * {tile}, n = get_global_id(2);
    if (j0 >= columns)
        return;
    {kind} total[{tile}][{tile}] = {{{{0}}}};
    for (long k = 0; k < inner; ++k) {{
        {kind} left[{tile}], right[{tile}];
        for (int i = 0; i < {tile}; ++i)  // outside the matrix it reads the last row or column and stores nothing
            left[i] = a(n, min(i0 + i, rows - 1), k);
        for (int j = 0; j < {tile}; ++j)
            right[j] = b(n, k, min(j0 + j, columns - 1));
        for (int i = 0; i < {tile}; ++i)
            for (int j = 0; j < {tile}; ++j)
                total[i][j] += left[i] * right[j];
    }}
    for (int i = 0; i < {tile}; ++i)
        for (int j = 0; j < {tile}; ++j)
            if (i0 + i < rows && j0 + j < columns)
                out(n, i0 + i, j0 + j) = {value};"""


def matmul(backend: Any, dtype: np.dtype, epilogue: Any, operands: Any, result: np.dtype) -> Callable[..., None] | None:
    """Return the kernel of batched products, followed by a pointwise function of each sum."""
    printed = backend.supports(result, *[x.dtype for x in operands])
    if dtype.kind == "b" or not (printed and backend.has_operators(dtype)):
        return None
    kind, head = TYPES[str(dtype)], ""
    windows, numbers, values = operand_parameters(operands, 3, "n, i0 + i, j0 + j")
    value = "total[i][j]"
    if epilogue is not None:
        head = epilogue.to_c(operands=[dtype, *[x.dtype for x in operands]], result=result, name="f", dialect="opencl")
        value = f"f({', '.join([value, *values])})"
    source = program(
        _BODY.format(kind=kind, tile=TILE, value=value),
        {"out": (TYPES[str(result)], 3), "a": (kind, 3), "b": (kind, 3), **windows},
        {**dict.fromkeys(("rows", "columns", "inner"), "long"), **numbers}, head,
    )  # fmt: skip

    def kernel(out: Any, a: Any, b: Any, *inputs: Any) -> None:
        batch, rows, columns = out.shape
        given = [x for x in inputs if isinstance(x, np.generic)]
        rest = [x for x in inputs if not isinstance(x, np.generic)]
        work = (-(-columns // TILE), -(-rows // TILE), batch)
        launch(backend, out.device.index, source, work, [rows, columns, a.shape[2], *given, out, a, b, *rest])

    return kernel
