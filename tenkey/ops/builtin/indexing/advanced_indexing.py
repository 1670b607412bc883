"""Selection by tensors of integers and bools, and the scatters that are its adjoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.tensor import Tensor
from ....dispatch.operator import Operator
from ....dispatch.tags import Tag
from ...declare import FEW, Decomposition, Entry, TensorSpec, checked, composite, internal, linear, prepend, structured
from ...declare.batch import VmapLevel
from ...shapes import broadcast_shapes, normalize_axis
from ..creation import zeros
from ..shape.views import broadcast_to, expand_dims, sum_to_shape
from . import places
from .basic_indexing import NOT_AN_INDEX, TOO_MANY, adjacent, common_shape, places_of
from .vmap_rules import index_backward_batch, index_batch


def check_integers(operator: str, indices: Tensor) -> None:
    """Raise TypeError unless the indices are integers."""
    if indices.dtype.kind not in "iu":
        raise TypeError(f"[{operator}] indices must be integers, got {indices.dtype}.")


def _gather_meta(x: Tensor, indices: Tensor, *, axis: int = -1) -> TensorSpec:
    i = normalize_axis("take_along_axis", axis, x.ndim)
    check_integers("take_along_axis", indices)
    if indices.ndim != x.ndim:
        raise ValueError(
            f"[take_along_axis] indices of shape {indices.shape} must have the {x.ndim} dimensions of {x.shape}."
        )
    rest = broadcast_shapes(
        "take_along_axis", (*x.shape[:i], 1, *x.shape[i + 1 :]), (*indices.shape[:i], 1, *indices.shape[i + 1 :])
    )
    return TensorSpec((*rest[:i], indices.shape[i], *rest[i + 1 :]), x.dtype)


def _take_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    level.check(operator, args, kwargs)
    x, indices = args
    axis = kwargs.get("axis", -1)
    values = [level.front(y) if level.owns(y) else expand_dims(y, 0) for y in (x, indices)]
    return level.batch(operator.call(*values, axis=axis if axis < 0 else axis + 1))


take_along_axis = structured(
    "take_along_axis(Tensor x, Tensor indices, *, int axis=-1) -> Tensor",
    meta=_gather_meta,
    decomposition=checked(
        _gather_meta, lambda x, indices, *, axis=-1: places.take(x, indices, axis, "take_along_axis"), "gather"
    ),
    vjp={"x": lambda g, x_meta, indices, axis: along_gradient(g, x_meta.shape, indices, axis)},
    jvp=linear("x"),
    sample_inputs=lambda rng: [
        ((rng.standard_normal((3, 5)), rng.integers(-5, 5, (3, 2))), {"axis": 1}),
        ((rng.standard_normal((3, 5)), rng.integers(0, 3, (4, 5))), {"axis": -2}),
        ((rng.standard_normal((3, 5)), rng.integers(0, 5, (1, 2))), {"axis": 1}),
        ((rng.standard_normal((1, 5)), rng.integers(0, 5, (3, 2))), {"axis": 1}),
        ((rng.standard_normal((3, 5)), rng.integers(0, 5, (3, 0))), {}),
    ],
    batch=_take_batch,
    positional=1,
    doc="""Take the elements at ``indices`` along an axis; ``indices`` has the number of dimensions of ``x``.

    The other dimensions broadcast. Raises TypeError for indices that are not integers, IndexError for an index out of
    range, ValueError for shapes that do not fit.

    >>> tk.take_along_axis(tk.asarray([[10, 20, 30]]), tk.asarray([[2, 0]]), axis=1).tolist()
    [[30, 10]]
    """,
)


def _scatter_meta(source: Tensor, indices: Tensor, shape: Sequence[int], axis: int) -> TensorSpec:
    i = normalize_axis("scatter_add", axis, len(shape))
    check_integers("scatter_add", indices)
    if (*indices.shape[:i], *indices.shape[i + 1 :]) != (*shape[:i], *shape[i + 1 :]) or indices.ndim != len(shape):
        raise ValueError(
            f"[scatter_add] indices of shape {indices.shape} must have the shape of the result, {tuple(shape)}, "
            f"except along axis {i}."
        )
    if broadcast_shapes("scatter_add", source.shape, indices.shape) != indices.shape:
        raise ValueError(
            f"[scatter_add] a source of shape {source.shape} must broadcast to the shape of the "
            f"indices, {indices.shape}."
        )
    return TensorSpec(tuple(shape), source.dtype)


def along_gradient(g: Tensor, shape: tuple[int, ...], indices: Tensor, axis: int) -> Tensor:
    """Return the gradient of ``take_along_axis`` for a tensor of this shape."""
    i = normalize_axis("take_along_axis", axis, len(shape))
    wide = (*g.shape[:i], shape[i], *g.shape[i + 1 :])  # x and indices broadcast in every other dimension
    spread = indices if indices.shape == g.shape else broadcast_to(indices, g.shape)
    return sum_to_shape(scatter_add_zeros(g, spread, wide, i), shape)


def _scatter(source: Tensor, indices: Tensor, shape: Sequence[int], axis: int) -> Tensor:
    return places.add_along(zeros(shape, dtype=source.dtype, device=source.device), indices, source, axis)


scatter_add_zeros = internal(
    "scatter_add_zeros(Tensor source, Tensor indices, int[] shape, int axis) -> Tensor",
    meta=_scatter_meta,
    decomposition=checked(_scatter_meta, _scatter, "scatter"),
    vjp={"source": lambda g, indices, axis: take_along_axis(g, indices, axis=axis)},
    jvp=linear("source"),
    sample_inputs=lambda rng: [
        ((rng.standard_normal((3, 2)), rng.integers(0, 5, (3, 2)), (3, 5), 1), {}),
        ((rng.standard_normal((4, 2)), rng.integers(-3, 3, (4, 2)), (3, 2), 0), {}),
        ((rng.standard_normal((3, 0)), rng.integers(0, 5, (3, 0)), (3, 5), 1), {}),
    ],
    batch=prepend("shape", along=("axis",)),
    doc="Add ``source`` to zeros of ``shape`` at ``indices`` along an axis: the adjoint of ``take_along_axis``.",
)


def index_shape(x: Tensor, indices: Sequence[Tensor | None]) -> tuple[int, ...] | None:
    """Return the shape of ``x[indices]``, or None if a mask makes it depend on values."""
    for i in indices:
        if i is not None and i.dtype.kind not in "iub":
            raise IndexError(NOT_AN_INDEX.format(value=f"a tensor of dtype {i.dtype}"))
    if any(i is not None and i.dtype.kind == "b" for i in indices):
        return None
    if len(indices) > x.ndim:
        raise IndexError(TOO_MANY.format(count=len(indices), ndim=x.ndim, shape=x.shape))
    common = common_shape(*[i.shape for i in indices if i is not None])
    at = places_of(indices)
    rest = [n for k, n in enumerate(x.shape) if k not in at]
    before = at[0] if at and adjacent(at) else 0
    return (*rest[:before], *common, *rest[before:])


def _index_meta(x: Tensor, indices: Sequence[Tensor | None]) -> TensorSpec:
    shape = index_shape(x, indices)
    if shape is None:
        raise NotImplementedError(
            "[index] the shape of x[mask] depends on the values of the mask, and a tensor without memory has none: use "
            "where(mask, x, other)."
        )
    return TensorSpec(shape, x.dtype)


def _select(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    index_shape(x, indices)
    return places.select(x, indices)


def _add_back(g_out: Tensor, shape: Sequence[int], indices: Sequence[Tensor | None]) -> Tensor:
    start = zeros(shape, dtype=g_out.dtype, device=g_out.device)
    return places.combine(start, indices, g_out, places.addition(g_out.dtype), "index_backward")


index: Entry = internal(
    "index(Tensor x, Tensor?[] indices) -> Tensor",
    meta=_index_meta,
    decomposition=Decomposition(_select, needs=("gather",)),
    vjp={"x": lambda g, x_meta, indices: index_backward(g, x_meta.shape, indices)},
    jvp=linear("x"),
    sample_inputs=lambda rng: [
        ((rng.standard_normal((4, 3)), [rng.integers(-4, 4, (5,)), None]), {}),
        ((rng.standard_normal((4, 3)), [None, rng.integers(0, 3, (2, 2))]), {}),
        ((rng.standard_normal((4, 3, 2)), [rng.integers(0, 4, (5, 1)), None, rng.integers(0, 2, (3,))]), {}),
        ((rng.standard_normal((4, 3)), [rng.integers(0, 4, (0,))]), {}),
        ((rng.standard_normal((4, 3)), [None, rng.integers(-3, 3, ())]), {}),
        ((rng.standard_normal((2, 3, 4)), [None, np.array([0, -1, 0]), np.array([[3], [-4]])]), {}),
        ((rng.standard_normal((3, 4)), [rng.random((3, 4)) < 0.5]), {}),
        ((rng.standard_normal((3, 4, 2)), [np.array([2, -3]), None, np.array([True, True])]), {}),
    ],
    batch=index_batch,
    tags=(Tag.DATA_DEPENDENT_OUTPUT,),
    doc="Return ``x[indices]`` for integer or bool tensors, one for each leading dimension; None selects all of it.",
)

index_backward: Entry = structured(
    "index_backward(Tensor g_out, int[] shape, Tensor?[] indices) -> Tensor",
    meta=lambda g_out, shape, indices: TensorSpec(tuple(shape), g_out.dtype),
    decomposition=Decomposition(_add_back, needs=("scatter",)),
    vjp={"g_out": lambda g, indices: index(g, indices)},
    jvp=linear("g_out"),
    sample_inputs=lambda rng: [
        ((rng.standard_normal((5, 3)), (4, 3), [rng.integers(0, 4, (5,)), None]), {}),
        ((rng.standard_normal((4, 2, 2)), (4, 3), [None, rng.integers(-3, 3, (2, 2))]), {}),
        ((rng.standard_normal((2, 2, 3)), (3, 3, 2), [np.array([0, -1]), None, np.array([[1], [-2]])]), {}),
    ],
    batch=index_backward_batch,
)


def _numpy_take(x: np.ndarray, indices: np.ndarray, *, axis: int | None = None) -> Any:
    if indices.dtype.kind not in "iu" or x.ndim == 0 or (axis is None and x.ndim != 1) or indices.nbytes > FEW >> 2:
        return NotImplemented
    enough = FEW if axis in {None, -1, x.ndim - 1} else 2 * FEW  # of rows, NumPy takes more in the same time
    if x.nbytes >= FEW and indices.size * (x.nbytes // x.shape[axis or 0]) >= enough:
        return NotImplemented
    return x.take(indices, axis)


@composite(
    "take(Tensor x, Tensor indices, *, int? axis=None) -> Tensor",
    numpy=_numpy_take,
    quiet=True,
    sample_inputs=lambda rng: [
        ((rng.standard_normal((5,)), rng.integers(-5, 5, (3,))), {}),
        ((rng.standard_normal((3, 5)), rng.integers(0, 5, (4,))), {"axis": -1}),
    ],
    methods=("take",),
    positional=1,
)
def take(x: Tensor, indices: Tensor, *, axis: int | None = None) -> Tensor:
    """Take the elements at ``indices`` along an axis, which may be omitted for a 1-d tensor.

    Raises TypeError for indices that are not integers, IndexError for an index out of range.

    >>> tk.take(tk.asarray([10, 20, 30]), tk.asarray([2, 0])).tolist()
    [30, 10]
    """
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"[take] needs axis= for a tensor of shape {x.shape}.")
        axis = 0
    i = normalize_axis("take", axis, x.ndim)
    check_integers("take", indices)
    return index(x, [None] * i + [indices])
