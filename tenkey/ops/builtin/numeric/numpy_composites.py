"""Functions that users of NumPy know by these names, in terms of the operators of the array API standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.tensor import Tensor
from ...declare import composite
from ..creation import concrete
from ..reductions.statistics import cumulative_prod, cumulative_sum
from ..shape.copying import concat
from ..shape.views import permute_dims, reshape

_VALUES = [((3, 4), {"axis": 1}), ((3, 4), {}), ((2, 0), {"axis": 0}), ((), {})]


def _samples(rng: np.random.Generator) -> Any:
    return [((rng.standard_normal(shape),), options) for shape, options in _VALUES]


@composite(
    "transpose(Tensor x, int[]? axes=None) -> Tensor",
    sample_inputs=lambda rng: [
        ((rng.standard_normal((2, 3, 4)), (1, -1, 0)), {}),
        ((rng.standard_normal((2, 3)),), {}),
        ((rng.standard_normal(()),), {}),
    ],
    reference=np.transpose,
)
def transpose(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """A view with the dimensions in the order of ``axes``, all of them, or in reverse: ``tk.permute_dims``.

    It is no exchange of two dimensions: that is ``tk.swapaxes``. Raises ValueError for axes that are no order of all.

    >>> import tenkey as tk
    >>> tk.transpose(tk.zeros((2, 3, 4))).shape
    (4, 3, 2)
    """
    return permute_dims(x, tuple(range(x.ndim - 1, -1, -1)) if axes is None else axes)


@composite(
    "cumsum(Tensor x, int? axis=None, *, DType? dtype=None) -> Tensor", sample_inputs=_samples, reference=np.cumsum
)
def cumsum(x: Tensor, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """The sums of all elements up to each along an axis, or in row-major order: ``tk.cumulative_sum``.

    >>> import tenkey as tk
    >>> tk.cumsum(tk.asarray([[1, 2], [3, 4]])).tolist()
    [1, 3, 6, 10]
    """
    return cumulative_sum(reshape(x, (-1,)) if axis is None else x, axis=axis, dtype=dtype)


@composite(
    "cumprod(Tensor x, int? axis=None, *, DType? dtype=None) -> Tensor", sample_inputs=_samples, reference=np.cumprod
)
def cumprod(x: Tensor, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """The products of all elements up to each along an axis, or in row-major order: ``tk.cumulative_prod``.

    >>> import tenkey as tk
    >>> tk.cumprod(tk.asarray([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    return cumulative_prod(reshape(x, (-1,)) if axis is None else x, axis=axis, dtype=dtype)


@composite(
    "ediff1d(Tensor x, Tensor? to_end=None, Tensor? to_begin=None) -> Tensor",
    sample_inputs=lambda rng: [
        ((rng.standard_normal((2, 3)),), {}),
        ((rng.standard_normal(5), rng.standard_normal(2), rng.standard_normal(1)), {}),
        ((rng.standard_normal(1),), {}),
    ],
    reference=np.ediff1d,
)
def ediff1d(x: Tensor, to_end: Tensor | None = None, to_begin: Tensor | None = None) -> Tensor:
    """The differences of consecutive elements in row-major order, with values before and after them.

    >>> import tenkey as tk
    >>> tk.ediff1d(tk.asarray([1, 4, 9]), to_begin=tk.asarray([0])).tolist()
    [0, 3, 5]
    """
    for part in (to_end, to_begin):
        if part is not None:
            x = concrete(x, part)
    flat = reshape(x, (-1,))
    made: Tensor = flat[1:] - flat[:-1]
    parts = [reshape(concrete(part, x), (-1,)) for part in (to_begin, made, to_end) if part is not None]
    return parts[0] if len(parts) == 1 else concat(parts, axis=0)
