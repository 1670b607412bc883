"""Operators for the templates of a backend that no other operator has the form of.

Note [Primitive operators]
~~~~~~~~~~~~~~~~~~~~~~~~~~
A backend runs some operators by its templates because their facets say what they compute. Those that select, place and
sort elements have no such facet: on a device they are compositions (``decomposition=``) of views, pointwise operators
and the operators here. Each of these is one template with the arguments in its canonical form, so a decomposition
brings its tensor into the form (outer, n, inner), normalises negative indices, and names the operator in whose name an
index out of range is reported. They run below autograd and vmap. Guarded by ``tests/operators/test_decompositions.py``
and ``tests/ops/test_primitives.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...core.dtypes.names import int64
from ...core.tensor import Tensor
from ...dispatch.tags import Tag
from ..declare import Entry, TensorSpec, internal, loop
from ..shapes import broadcast_shapes

__all__ = ["OUT_OF_RANGE", "check_range", "gather_rows", "scatter_rows_", "sort_rows"]

OUT_OF_RANGE: Final = (
    "an index is out of range: for an axis of length n it must be in [-n, n - 1]. Check the indices with tk.min and "
    "tk.max."
)
"""What is said where only the device knows which index it is."""

_MODES: Final = ("set", "add", "multiply", "minimum", "maximum")


def _check_index(name: str, x: Tensor, index: Tensor) -> None:
    if x.ndim != 3 or index.ndim != 3 or index.dtype != int64:
        raise ValueError(
            f"[{name}] needs x and int64 indices of three dimensions, got {x.shape} and {index.dtype} {index.shape}."
        )


def _gather_meta(x: Tensor, index: Tensor, operator: str, message: str = "") -> TensorSpec:
    _check_index("gather_rows", x, index)
    outer, inner = broadcast_shapes(operator, x.shape[::2], index.shape[::2])
    return TensorSpec((outer, index.shape[1], inner), x.dtype)


def range_error(message: str = "") -> tuple[str, type[Exception]]:
    """Return the message and the type of the error for an index out of range: a ValueError if a message is given."""
    return (message, ValueError) if message else (OUT_OF_RANGE, IndexError)


def check_range(index: np.ndarray, length: int, operator: str, message: str = "") -> None:
    """Raise the error of ``range_error`` unless all indices of a NumPy array are in ``0 <= index < length``."""
    if index.size and (int(index.min()) < 0 or int(index.max()) >= length):
        text, error = range_error(message)
        raise error(f"[{operator}] {text}")


def _gather(x: np.ndarray, index: np.ndarray, operator: str, message: str = "") -> np.ndarray:
    shape = _gather_meta(x, index, operator).shape  # type: ignore[arg-type]
    check_range(index if 0 not in shape else index[:0], x.shape[1], operator, message)
    whole = np.broadcast_to(x, (shape[0], x.shape[1], shape[2]))
    return np.take_along_axis(whole, np.broadcast_to(index, shape), 1)


gather_rows: Entry = internal(
    "gather_rows(Tensor x, Tensor index, str operator, str message='') -> Tensor",
    meta=_gather_meta,
    numpy=_gather,
    sample_inputs=lambda rng: [
        ((rng.standard_normal((2, 4, 3)), rng.integers(0, 4, (2, 5, 3)), "demo"), {}),
        ((rng.standard_normal((2, 4, 3)), rng.integers(0, 4, (1, 5, 1)), "demo"), {}),
        ((rng.standard_normal((1, 4, 1)), rng.integers(0, 4, (2, 5, 3)), "demo"), {}),
        ((rng.standard_normal((1, 4, 3)), rng.integers(0, 4, (1, 0, 3)), "demo"), {}),
        ((rng.standard_normal((0, 4, 3)), rng.integers(0, 4, (1, 2, 1)), "demo"), {}),
        ((rng.standard_normal((2, 0, 3)), np.zeros((2, 0, 3), np.int64), "demo"), {}),
    ],
    batch=loop,
    doc="""Return ``out[i, j, k] = x[i, index[i, j, k], k]``; the first and last dimensions broadcast.

    The indices are int64 and not negative. IndexError in the name of ``operator`` for an index out of range,
    or ValueError with a ``message``.

    >>> x = tk.asarray([[[1], [2], [3]]])
    >>> tk.ops.tk.gather_rows(x, tk.asarray([[[2], [0]]]), "demo").tolist()
    [[[3], [1]]]
    """,
)


def _scatter_meta(x: Tensor, index: Tensor, source: Tensor, mode: str, operator: str) -> TensorSpec:
    _check_index("scatter_rows_", x, index)
    if mode not in _MODES:
        raise ValueError(f"[{operator}] the mode must be one of {', '.join(_MODES)}, got {mode!r}.")
    if source.dtype != x.dtype or (x.dtype.kind == "c" and mode in ("minimum", "maximum")):
        raise TypeError(f"[{operator}] cannot combine {x.dtype} with {source.dtype} by {mode!r}.")
    outer, _, inner = x.shape
    if broadcast_shapes(operator, index.shape, source.shape, (outer, 1, inner))[::2] != (outer, inner):
        raise ValueError(
            f"[{operator}] indices of shape {index.shape} and sources of shape {source.shape} do not fit {x.shape}."
        )
    return TensorSpec(x.shape, x.dtype)


def _scatter_samples(rng: np.random.Generator) -> Any:
    def case(mode: str, index: tuple[int, ...], source: tuple[int, ...]) -> Any:
        return (rng.standard_normal((2, 4, 3)), rng.integers(0, 4, index), rng.standard_normal(source), mode, "d"), {}

    return [
        case("set", (2, 5, 3), (2, 5, 3)),
        case("add", (2, 9, 3), (2, 9, 3)),
        case("add", (1, 5, 1), (2, 1, 1)),
        case("multiply", (1, 6, 3), (2, 6, 1)),
        case("set", (1, 0, 1), (2, 0, 3)),
    ]


scatter_rows_: Entry = internal(
    "scatter_rows_(Tensor(a!) x, Tensor index, Tensor source, str mode, str operator) -> Tensor(a!)",
    meta=_scatter_meta,
    sample_inputs=_scatter_samples,
    batch=loop,
    tags=(Tag.INPLACE_VARIANT,),
    doc="""Combine ``x[i, index[i, j, k], k]`` with ``source[i, j, k]`` in place, and return ``x``.

    ``mode`` is "set" (of several sources for one place the last remains), "add", "multiply", "minimum" or "maximum";
    sources are combined in the order of ``j``. ``index``, int64 and not negative, and ``source``, of the dtype of
    ``x``, broadcast to (outer, count, inner). IndexError in the name of ``operator`` for an index out of range.

    >>> x = tk.zeros((1, 3, 1))
    >>> tk.ops.tk.scatter_rows_(x, tk.asarray([[[2], [2]]]), tk.ones((1, 2, 1)), "add", "demo").tolist()
    [[[0.0], [0.0], [2.0]]]
    """,
)


def _sort_meta(x: Tensor) -> tuple[TensorSpec, TensorSpec]:
    if x.ndim != 2:
        raise ValueError(f"[sort_rows] needs two dimensions, got {x.shape}.")
    if x.dtype.kind == "c":
        raise TypeError(f"[sort_rows] needs an order, which {x.dtype} does not have.")
    return TensorSpec(x.shape, x.dtype), TensorSpec(x.shape, int64)


def _sort(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = x.argsort(1, "stable")
    return np.take_along_axis(x, order, 1), order


sort_rows: Callable[..., tuple[Tensor, Tensor]] = internal(  # type: ignore[assignment]
    "sort_rows(Tensor x) -> (Tensor values, Tensor order)",
    meta=_sort_meta,
    numpy=_sort,
    sample_inputs=lambda rng: [
        ((rng.permuted(np.tile([1.0, 2.0, 2.0, -3.0, 0.5], (3, 1)), axis=1),), {}),
        ((rng.standard_normal((0, 3)),), {}),
        ((rng.standard_normal((3, 0)),), {}),
    ],
    batch=loop,
    doc="""Sort each row of a matrix in ascending order, NaN last; return the elements and the places where they were.

    Equal elements (and NaNs) keep their order.

    >>> values, order = tk.ops.tk.sort_rows(tk.asarray([[3, 1, 2, 1]]))
    >>> values.tolist(), order.tolist()
    ([[1, 1, 2, 3]], [[1, 3, 2, 0]])
    """,
)
