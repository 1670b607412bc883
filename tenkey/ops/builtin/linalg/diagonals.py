"""Diagonals of matrices, their sums, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ....core.tensor import Tensor, strides_of
from ...declare import Decomposition, Entry, TensorSpec, checked, core_dims, internal, linear, prepend, structured, view
from ...declare.promotion import SUM, refuse_lost_part
from ...declare.samples import normal
from ..creation import zeros
from ..reductions.reduction import sum
from ..shape.views import broadcast_to, expand_dims


def _diagonal_place(shape: tuple[int, ...], offset: int) -> tuple[int, int, int]:
    """Return the length of a diagonal, and the row and column where it begins."""
    if len(shape) < 2:
        raise ValueError(f"[linalg.diagonal] got shape {shape}: it takes a matrix, or a stack of matrices (..., M, N).")
    m, n = shape[-2:]
    row, column = max(-offset, 0), max(offset, 0)
    return max(min(m - row, n - column), 0), row, column


def _diagonal_window(x: Tensor, *, offset: int = 0) -> Any:
    length, row, column = _diagonal_place(x.shape, offset)
    *others, down, right = strides_of(x)
    start = row * down + column * right if length else 0
    return (*x.shape[:-2], length), (*others, down + right), start


def _embed_meta(g: Tensor, shape: Sequence[int], offset: int) -> TensorSpec:
    wanted = (*shape[:-2], _diagonal_place(tuple(shape), offset)[0])
    if g.shape != wanted:
        raise ValueError(f"[diagonal_embed] got shape {g.shape}: the diagonals of shape {tuple(shape)} have {wanted}.")
    return TensorSpec(tuple(shape), g.dtype)


def _embed_on_numpy(g: np.ndarray[Any, Any], shape: Sequence[int], offset: int) -> Any:
    out = np.zeros(shape, g.dtype)
    length, row, column = _diagonal_place(tuple(shape), offset)
    at = np.arange(length)
    out[..., row + at, column + at] = g
    return out


def _embed_parts(g: Tensor, shape: Sequence[int], offset: int) -> Tensor:
    out = zeros(shape, dtype=g.dtype, device=g.device)
    diagonal(out, offset=offset).copy_(g)
    return out


_OFFSETS: Final = (([3, 4], {"offset": -1}), ([2, 3, 3], {"offset": 1}), ([2, 2], {"offset": 5}), [0, 3])

diagonal_embed: Entry = internal(
    "diagonal_embed(Tensor g_diagonal, int[] shape, int offset) -> Tensor",
    meta=_embed_meta,
    numpy=_embed_on_numpy,
    decomposition=checked(_embed_meta, _embed_parts),
    vjp={"g_diagonal": lambda g, offset: diagonal(g, offset=offset)},
    jvp=linear("g_diagonal"),
    sample_inputs=normal(([2], (2, 3), 0), ([2, 1], (2, 2, 2), -1), ([0], (2, 2), 5)),
    batch=prepend("shape"),
)

diagonal: Entry = view(
    "linalg_diagonal(Tensor x, *, int offset=0) -> Tensor",
    window=_diagonal_window,
    vjp={"x": lambda g, x_meta, offset: diagonal_embed(g, x_meta.shape, offset)},
    sample_inputs=normal([3, 4], ([3, 4], {"offset": 2}), *_OFFSETS),
    batch=core_dims(2),
    positional=1,
    doc="""Return a view with a diagonal of a matrix or of each matrix of a stack.

    Args: x: shape (..., M, N). offset: which diagonal, counted to the right of the main one. Returns shape (..., K),
    empty if the diagonal lies outside of the matrix. Raises ValueError for fewer than two dimensions.

    >>> tk.linalg.diagonal(tk.asarray([[1, 2], [3, 4]]), offset=1).tolist()
    [2]
    """,
)


def _trace_meta(x: Tensor, *, offset: int = 0, dtype: np.dtype | None = None) -> TensorSpec:
    _diagonal_place(x.shape, offset)
    if dtype is not None:
        refuse_lost_part("trace", x.dtype, dtype)
    return TensorSpec(x.shape[:-2], dtype or SUM.compute(x.dtype))


def _trace_vjp(g: Tensor, x_meta: Any, offset: int) -> Tensor:
    length = _diagonal_place(x_meta.shape, offset)[0]
    spread = broadcast_to(expand_dims(g, -1), (*g.shape, length))
    return diagonal_embed(spread, x_meta.shape, offset)


def _numpy_trace(x: np.ndarray, *, offset: int = 0, dtype: np.dtype | None = None) -> Any:
    if dtype is not None:
        _trace_meta(x, offset=offset, dtype=dtype)  # type: ignore[arg-type]  # an array has a shape and a dtype, too
    if not -(1 << 31) < offset < 1 << 31:  # NumPy takes 32 bits; far outside of the matrix
        offset = x.shape[-1]
    return x.trace(offset, -2, -1, dtype or SUM.compute(x.dtype))


def _trace_parts(x: Tensor, *, offset: int = 0, dtype: np.dtype | None = None) -> Tensor:
    spec = _trace_meta(x, offset=offset, dtype=dtype)
    return sum(diagonal(x, offset=offset), axis=-1, dtype=spec.dtype)


trace: Entry = structured(
    "trace(Tensor x, *, int offset=0, DType? dtype=None) -> Tensor",
    meta=_trace_meta,
    numpy=_numpy_trace,
    decomposition=Decomposition(_trace_parts, needs=("reduction",)),
    strict=True,
    vjp={"x": _trace_vjp},
    jvp=linear("x"),
    sample_inputs=normal([3, 4], *_OFFSETS),
    batch=core_dims(2),
    positional=1,
    doc="""Sum a diagonal of a matrix or of each matrix of a stack; integers are summed in 64 bits.

    Args: x: shape (..., M, N), of a numeric dtype. offset: which diagonal, counted to the right of the main one. dtype:
    the dtype of the result. Raises ValueError for fewer than two dimensions.

    >>> tk.linalg.trace(tk.asarray([[1, 2], [3, 4]])).item()
    5
    """,
)
