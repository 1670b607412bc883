"""Triangular matrices: ones below a diagonal, and the elements on one side of it."""

from __future__ import annotations

import numpy as np

from ....core.dtypes.names import bool as bool_dtype
from ....core.dtypes.names import default_float
from ....core.tensor import Tensor
from ...declare import Entry, composite, linear
from ...declare.samples import normal
from ..creation import matrix_factory
from ..elementwise.comparison import where

tri = matrix_factory(
    "tri",
    """Return a matrix with ones on the ``k``-th diagonal and below, and zeros above.

    >>> tk.tri(2, 3, dtype=tk.int64).tolist()
    [[1, 0, 0], [1, 1, 0]]
    """,
    below=True,
    numpy=lambda n_rows, n_cols=None, *, k=0, dtype=None, device=None: np.tri(
        n_rows, n_cols, max(-n_rows, min(k, n_rows if n_cols is None else n_cols)), dtype or default_float()
    ),
)


_triangle_samples = normal(
    [3, 3], [2, 2, 3], [0, 3], ([2, 4], {"k": 1}), ([4, 2], {"k": -1}), ([3, 3], {"k": 10}), ([3, 3], {"k": -9})
)  # fmt: skip


def _triangle(name: str, side: str, other: str, compare: np.ufunc, shown: str) -> Entry:
    def on_numpy(x: np.ndarray, *, k: int = 0) -> np.ndarray:
        rows, columns = x.shape[-2:]
        kept = compare.outer(np.arange(k, k + rows), np.arange(columns))
        return np.where(kept, x, x.dtype.type(0))

    @composite(
        f"{name}(Tensor x, *, int k=0) -> Tensor",
        numpy=on_numpy,
        vjp={"x": lambda g, k: function(g, k=k)},
        jvp=linear("x"),
        sample_inputs=_triangle_samples,
        methods=(name,),
        positional=1,
        doc=f"""Return the {side} triangle of the last two dimensions, with zeros {other} the ``k``-th diagonal; a copy.

    >>> tk.{name}(tk.asarray([[1, 2], [3, 4]])).tolist()
    {shown}
    """,
    )
    def function(x: Tensor, *, k: int = 0) -> Tensor:
        if x.ndim < 2:
            raise ValueError(f"[{name}] needs at least two dimensions, got shape {x.shape}.")
        n_rows, n_cols = x.shape[-2:]
        if name == "tril":
            return where(tri(n_rows, n_cols, k=k, dtype=bool_dtype, device=x.device), x, False)
        return where(tri(n_rows, n_cols, k=k - 1, dtype=bool_dtype, device=x.device), False, x)

    return function


tril = _triangle("tril", "lower", "above", np.greater_equal, "[[1, 0], [3, 4]]")
triu = _triangle("triu", "upper", "below", np.less_equal, "[[1, 2], [0, 4]]")
