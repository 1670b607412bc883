"""Triangular matrices: ones below a diagonal, and the elements on one side of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.dtypes.names import bool as bool_dtype
from ....core.dtypes.names import default_float
from ....core.tensor import Tensor
from ...declare import TensorSpec, composite, factory, linear
from ...declare.samples import normal
from ..elementwise.comparison import where


def _tri_meta(
    n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: np.dtype | None = None, device: Any = None
) -> TensorSpec:
    shape = (n_rows, n_rows if n_cols is None else n_cols)
    if min(shape) < 0:
        raise ValueError(f"[tri] n_rows and n_cols must be at least 0, got {' and '.join(map(str, shape))}.")
    return TensorSpec(shape, dtype or default_float())


tri = factory(
    "tri(int n_rows, int? n_cols=None, *, int k=0, DType? dtype=None, Device? device=None) -> Tensor",
    meta=_tri_meta,
    numpy=lambda n_rows, n_cols=None, *, k=0, dtype=None, device=None: np.tri(
        n_rows, n_cols, k, dtype or default_float()
    ),
    positional=1,
    doc="""Return a matrix with ones on the ``k``-th diagonal and below, and zeros above.

    >>> tk.tri(2, 3, dtype=tk.int64).tolist()
    [[1, 0, 0], [1, 1, 0]]
    """,
)


_triangle_samples = normal(
    [3, 3], [2, 2, 3], [0, 3], ([2, 4], {"k": 1}), ([4, 2], {"k": -1}), ([3, 3], {"k": 10}), ([3, 3], {"k": -9})
)  # fmt: skip


def _numpy_triangle(compare: np.ufunc) -> Any:
    def on_numpy(x: np.ndarray, *, k: int = 0) -> np.ndarray:
        rows, columns = x.shape[-2:]
        kept = compare.outer(np.arange(k, k + rows), np.arange(columns))
        return np.where(kept, x, x.dtype.type(0))

    return on_numpy


def _below(operator: str, x: Tensor, k: int) -> Tensor:
    """Return a mask of the elements on the ``k``-th diagonal and below."""
    if x.ndim < 2:
        raise ValueError(f"[{operator}] needs at least two dimensions, got shape {x.shape}.")
    return tri(x.shape[-2], x.shape[-1], k=k, dtype=bool_dtype, device=x.device)


@composite(
    "tril(Tensor x, *, int k=0) -> Tensor",
    numpy=_numpy_triangle(np.greater_equal),
    vjp={"x": lambda g, k: tril(g, k=k)},
    jvp=linear("x"),
    sample_inputs=_triangle_samples,
    reference=np.tril,
    methods=("tril",),
    positional=1,
)
def tril(x: Tensor, *, k: int = 0) -> Tensor:
    """Return the lower triangle of the last two dimensions, with zeros above the ``k``-th diagonal; a copy.

    >>> tk.tril(tk.asarray([[1, 2], [3, 4]])).tolist()
    [[1, 0], [3, 4]]
    """
    return where(_below("tril", x, k), x, False)


@composite(
    "triu(Tensor x, *, int k=0) -> Tensor",
    numpy=_numpy_triangle(np.less_equal),
    vjp={"x": lambda g, k: triu(g, k=k)},
    jvp=linear("x"),
    sample_inputs=_triangle_samples,
    reference=np.triu,
    methods=("triu",),
    positional=1,
)
def triu(x: Tensor, *, k: int = 0) -> Tensor:
    """Return the upper triangle of the last two dimensions, with zeros below the ``k``-th diagonal; a copy.

    >>> tk.triu(tk.asarray([[1, 2], [3, 4]])).tolist()
    [[1, 2], [0, 4]]
    """
    return where(_below("triu", x, k - 1), False, x)
