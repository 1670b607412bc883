"""Splitting and stacking; diagonals."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.dtypes.names import bool as bool_dtype
from ....core.tensor import Tensor
from ...declare import composite, internal_composite, normal
from ...shapes import normalize_axes, normalize_axis
from ..creation import eye, zeros
from ..elementwise.comparison import where
from ..linalg.diagonals import diagonal as matrix_diagonal
from .copying import clone, concat
from .manipulation import raised
from .views import broadcast_to, permute_dims, reshape, select_index, slice


@composite(
    "unstack(Tensor x, *, int axis=0) -> Tensor[]",
    sample_inputs=normal(([2, 3], {"axis": 0}), ([2, 3], {"axis": -1}), ([3], {"axis": 0}), ([2, 0], {"axis": 0})),
)
def unstack(x: Tensor, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along an axis, without that axis: a tuple of views.

    Raises IndexError for an axis out of range.

    >>> a, b = tk.unstack(tk.asarray([[1, 2], [3, 4]]))
    >>> a.tolist(), b.tolist()
    ([1, 2], [3, 4])
    """
    i = normalize_axis("unstack", axis, x.ndim)
    return tuple([select_index(x, i, k) for k in range(x.shape[i])])


@internal_composite(
    "split_at(Tensor x, int[] places, *, int axis=0) -> Tensor[]",
    sample_inputs=normal(
        ([6, 2], (2, 4)), ([2, 4], (1, 3), {"axis": 1}), ([4], (2, 1, 9), {"axis": -1}), ([0, 2], (1,), {"axis": 1})
    ),
)
def split_at(x: Tensor, places: Sequence[int], *, axis: int = 0) -> tuple[Tensor, ...]:
    """Cut at positions along an axis, as in ``tk.split``; the pieces are views."""
    i = normalize_axis("split", axis, x.ndim)
    ends = [*places, x.shape[i]]
    starts = [0, *places]
    return tuple([slice(x, i, start, end, 1) for start, end in zip(starts, ends)])


def _stacker(name: str, ndim: int, axes: tuple[int, int], doc: str) -> None:
    """Declare ``hstack`` and its relatives: raise all to ``ndim`` dimensions, then join along one of ``axes``."""

    def function(arrays: Sequence[Tensor]) -> Tensor:
        if not arrays:
            raise ValueError(f"[{name}] needs at least one tensor.")
        parts = [raised(x, ndim) for x in arrays]
        return concat(parts, axis=axes[0] if parts[0].ndim == 1 else axes[1])

    composite(
        f"{name}(Tensor[] arrays) -> Tensor",
        sample_inputs=normal(
            (([], []),), (([2], [2]),), (([2, 3], [2, 3]),), (([1, 2, 3], [1, 2, 3]),), (([0, 2], [0, 2]),)
        ),
        doc=doc,
    )(function)


_stacker(
    "hstack",
    1,
    (0, 1),
    """Stack side by side: join along the second axis, vectors along the first.

    >>> tk.hstack([tk.asarray([[1], [2]]), tk.asarray([[3], [4]])]).tolist()
    [[1, 3], [2, 4]]
    """,
)
_stacker(
    "vstack",
    2,
    (0, 0),
    """Stack vertically: join along the first axis, vectors as rows.

    >>> tk.vstack([tk.asarray([1, 2]), tk.asarray([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """,
)
_stacker(
    "dstack",
    3,
    (2, 2),
    """Stack in depth: join along the third axis, vectors as ``(1, n, 1)``.

    >>> tk.dstack([tk.asarray([1, 2]), tk.asarray([3, 4])]).tolist()
    [[[1, 3], [2, 4]]]
    """,
)


@composite(
    "diagonal(Tensor x, *, int offset=0, int axis1=0, int axis2=1) -> Tensor",
    sample_inputs=normal(
        *[(shape, {"offset": k}) for shape, k in (([3, 3], 0), ([2, 4], 1), ([4, 2], -1), ([2, 3], 5), ([2, 3], -2))],
        ([2, 3, 4], {"axis1": -1, "axis2": 0}),
        [0, 3],
    ),
    positional=3,
)
def diagonal(x: Tensor, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return a view of a diagonal over two axes, which becomes the last axis.

    A positive ``offset`` is above the main diagonal. Raises IndexError for an axis out of range, ValueError if both
    axes are the same.

    >>> tk.diagonal(tk.asarray([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    i, j = normalize_axes("diagonal", (axis1, axis2), x.ndim)
    rest = [k for k in range(x.ndim) if k not in (i, j)]
    return matrix_diagonal(permute_dims(x, (*rest, i, j)), offset=offset)


@composite(
    "diag(Tensor x, *, int k=0) -> Tensor",
    sample_inputs=normal([3], ([2], {"k": 1}), ([2], {"k": -2}), [3, 3], ([2, 3], {"k": 1}), [0], ([0], {"k": 1})),
    positional=1,
)
def diag(x: Tensor, *, k: int = 0) -> Tensor:
    """Return the matrix with a vector on its ``k``-th diagonal, or the ``k``-th diagonal of a matrix.

    >>> tk.diag(tk.asarray([1, 2])).tolist(), tk.diag(tk.asarray([[1, 2], [3, 4]]), k=1).tolist()
    ([[1, 0], [0, 2]], [2])
    """
    if x.ndim == 2:
        return diagonal(x, offset=k)
    if x.ndim != 1:
        raise ValueError(f"[diag] takes a vector or a matrix, got shape {x.shape}: tk.diagonal takes more dimensions.")
    n = x.shape[0] + abs(k)
    row = x
    if k:
        padding = zeros((abs(k),), dtype=x.dtype, device=x.device)
        row = concat([padding, x] if k > 0 else [x, padding])
    return where(eye(n, k=k, dtype=bool_dtype, device=x.device), row, False)


@internal_composite(
    "meshgrid_of(Tensor[] arrays, *, str indexing='xy') -> Tensor[]",
    sample_inputs=normal(
        (([3], [2], [1]), {"indexing": "xy"}), (([3], [2], [1]), {"indexing": "ij"}), (([2],),), (([0], [2]),)
    ),
)
def meshgrid_of(arrays: Sequence[Tensor], *, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Compute ``tk.meshgrid`` of a list."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"[meshgrid] indexing is 'xy' or 'ij', got {indexing!r}.")
    for x in arrays:
        if x.ndim > 1:
            raise ValueError(f"[meshgrid] coordinates have one dimension, got shape {x.shape}.")
    n = len(arrays)
    order = list(range(n))
    if indexing == "xy" and n > 1:
        order[:2] = 1, 0
    shape = [0] * n
    for x, place in zip(arrays, order):
        shape[place] = x.size
    grids = []
    for x, place in zip(arrays, order):
        alone = reshape(x, [x.size if k == place else 1 for k in range(n)])
        grids.append(clone(broadcast_to(alone, shape)))
    return tuple(grids)
