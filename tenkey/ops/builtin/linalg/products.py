"""Products of vectors and matrices other than ``matmul``: chains, contractions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ....core.dtypes.names import float32
from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor
from ....dispatch.operator import Operator
from ...declare import Decomposition, Entry, TensorSpec, checked, composite, internal_composite, linear, structured
from ...declare.batch import VmapLevel
from ...declare.samples import normal
from ...shapes import broadcast_shapes, normalize_axes, normalize_axis
from ..elementwise.arithmetic import multiply
from ..elementwise.comparison import logical_and
from ..elementwise.complex import complex_from, conjugated, imag, like_operand, real
from ..reductions.reduction import any as any_
from ..reductions.reduction import sum as sum_
from ..shape.copying import as_dtype, concatenate
from ..shape.views import expand_dims, permute_dims, reshape, slice, squeeze
from .matmul import matmul

# ---- products of vectors


def _promoted(x1: np.ndarray[Any, Any], x2: np.ndarray[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    dtype = result_dtype((x1.dtype, x2.dtype), ())
    return x1.astype(dtype, copy=False), x2.astype(dtype, copy=False)


def _vecdot_meta(x1: Tensor, x2: Tensor, *, axis: int = -1) -> TensorSpec:
    a, b = x1.shape, x2.shape
    if not a or not b:
        raise ValueError(f"[vecdot] got shapes {a} and {b}: both need at least one dimension.")
    # the axis is one of the broadcast shape that both have
    short = min(len(a), len(b))
    if axis >= 0 and len(a) != len(b):
        ndim = max(len(a), len(b))
        axis = normalize_axis("vecdot", axis, ndim) - ndim
        if axis < -short:
            axis = normalize_axis("vecdot", axis, short)
    else:
        axis = normalize_axis("vecdot", axis, short) - short
    if a[axis] != b[axis]:
        raise ValueError(
            f"[vecdot] got shapes {a} and {b}: axis {axis} must have one length, {a[axis]} and {b[axis]} differ."
        )
    shape = broadcast_shapes("vecdot", a, b)
    at = axis + len(shape)
    return TensorSpec(shape[:at] + shape[at + 1 :], result_dtype((x1.dtype, x2.dtype), ()))


def _from_end(axis: int, a: Any, b: Any) -> int:
    return axis if axis < 0 else axis - max(len(a.shape), len(b.shape))


def _vecdot_on_numpy(x1: np.ndarray[Any, Any], x2: np.ndarray[Any, Any], *, axis: int = -1) -> Any:
    if x1.dtype is not x2.dtype:
        x1, x2 = _promoted(x1, x2)
    if axis == -1:
        return np.vecdot(x1, x2)
    if axis >= 0 and axis >= max(x1.ndim, x2.ndim):
        raise IndexError
    return np.vecdot(x1, x2, axis=_from_end(axis, x1, x2))  # type: ignore[call-overload]


def _vecdot_parts(x1: Tensor, x2: Tensor, *, axis: int = -1) -> Tensor:
    dtype = _vecdot_meta(x1, x2, axis=axis).dtype
    axis = _from_end(axis, x1, x2)
    if dtype.kind == "b":
        return any_(logical_and(x1, x2), axis=axis)
    wide = float32 if dtype.kind in "fV" and dtype.itemsize == 2 else dtype
    x1, x2 = as_dtype(x1, wide), as_dtype(x2, wide)
    if wide.kind != "c":
        return as_dtype(sum_(x1 * x2, axis=axis, dtype=wide), dtype)
    a, b, c, d = real(x1), imag(x1), real(x2), imag(x2)
    return complex_from(sum_(a * c + b * d, axis=axis), sum_(a * d - b * c, axis=axis))


def _vecdot_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    level.check(operator, args, kwargs)
    ndim = max(args[0].ndim, args[1].ndim)
    axis = kwargs.get("axis", -1)
    return level.batch(vecdot(*[level.aligned(x, ndim) for x in args], axis=axis if axis < 0 else axis - ndim))


_vecdot_samples = normal(
    ([3], [3]), ([2, 3], [2, 3]), ([2, 3], [3]), ([2, 1, 3], [4, 3]), ([0], [0]),
    ([3, 2], [3, 2], {"axis": 0}), ([2, 0], [2, 0], {"axis": 1}),
)  # fmt: skip

vecdot: Entry = structured(
    "vecdot(Tensor x1, Tensor x2, *, int axis=-1) -> Tensor",
    autocast="lower",
    meta=_vecdot_meta,
    numpy=_vecdot_on_numpy,
    strict=True,
    decomposition=Decomposition(_vecdot_parts, needs=("reduction",)),
    vjp={
        "x1": lambda g, x1_meta, x2, axis: like_operand(
            conjugated(expand_dims(g, _from_end(axis, x1_meta, x2))) * x2, x1_meta
        ),
        "x2": lambda g, x1, x2_meta, axis: like_operand(expand_dims(g, _from_end(axis, x1, x2_meta)) * x1, x2_meta),
    },
    jvp=linear("x1", "x2"),
    sample_inputs=_vecdot_samples,
    batch=_vecdot_batch,
    methods=("vecdot",),
    doc="""Compute the dot product of the conjugate of ``x1`` with ``x2`` along an axis; other dimensions broadcast.

    Args: x1, x2: at least one dimension, of any dtype; ``axis`` has the same length in both and is counted in the
    broadcast shape. Returns the broadcast shape without the axis, in the promoted dtype. Raises ValueError for other
    shapes, IndexError for an axis out of range.

    >>> tk.vecdot(tk.asarray([1j, 2.0]), tk.asarray([1.0, 3.0])).item()
    (6-1j)
    """,
)


def _outer_meta(x1: Tensor, x2: Tensor) -> TensorSpec:
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"[outer] got shapes {x1.shape} and {x2.shape}: both must be vectors.")
    return TensorSpec(x1.shape + x2.shape, result_dtype((x1.dtype, x2.dtype), ()))


def _outer_on_numpy(x1: np.ndarray[Any, Any], x2: np.ndarray[Any, Any]) -> Any:
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError
    if x1.dtype is not x2.dtype:
        x1, x2 = _promoted(x1, x2)
    return np.multiply.outer(x1, x2)


def _products(x1: Tensor, x2: Tensor) -> Tensor:
    both = logical_and if x1.dtype.kind == x2.dtype.kind == "b" else multiply
    return both(expand_dims(x1, -1), expand_dims(x2, -2))


def _outer_batch(level: VmapLevel, operator: Operator, args: Any, kwargs: dict[str, Any]) -> Tensor:
    level.check(operator, args, kwargs)
    return level.batch(_products(level.front(args[0]), level.front(args[1])))


outer: Entry = structured(
    "outer(Tensor x1, Tensor x2) -> Tensor",
    meta=_outer_meta,
    numpy=_outer_on_numpy,
    strict=True,
    decomposition=checked(_outer_meta, _products),
    vjp={
        "x1": lambda g, x1_meta, x2: like_operand(matmul(g, conjugated(x2)), x1_meta),
        "x2": lambda g, x1, x2_meta: like_operand(matmul(conjugated(x1), g), x2_meta),
    },
    jvp=linear("x1", "x2"),
    sample_inputs=normal(([2], [3]), ([1], [1]), ([0], [2])),
    batch=_outer_batch,
    doc="""Multiply each element of one vector by each element of another.

    Args: x1: shape (M,). x2: shape (N,). Returns shape (M, N) in the promoted dtype. Raises ValueError for other ranks.

    >>> tk.linalg.outer(tk.asarray([1, 2]), tk.asarray([1, 10])).tolist()
    [[1, 10], [2, 20]]
    """,
)


@composite(
    "linalg_cross(Tensor x1, Tensor x2, *, int axis=-1) -> Tensor",
    autocast="widest",
    vjp={  # saves the operands, and not the rows that the composition cuts out of them
        "x1": lambda g, x1_meta, x2, axis: like_operand(cross(conjugated(x2), g, axis=axis), x1_meta),
        "x2": lambda g, x1, x2_meta, axis: like_operand(cross(g, conjugated(x1), axis=axis), x2_meta),
    },
    jvp=linear("x1", "x2"),
    sample_inputs=normal(
        ([3], [3]), ([2, 3], [2, 3], {"axis": 1}), ([3, 2], [3, 1], {"axis": -2}), ([0, 3], [3], {"axis": -1})
    ),
)
def cross(x1: Tensor, x2: Tensor, *, axis: int = -1) -> Tensor:
    """Compute the cross product of vectors of three components along an axis; other dimensions broadcast.

    Args: x1, x2: a numeric dtype, length 3 along ``axis``. Returns the broadcast shape in the promoted dtype. Raises
    ValueError for other lengths, IndexError for an axis out of range, TypeError for bool.

    >>> tk.linalg.cross(tk.asarray([1, 0, 0]), tk.asarray([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    i = normalize_axis("linalg.cross", axis, x1.ndim if axis >= 0 else min(x1.ndim, x2.ndim))
    j = normalize_axis("linalg.cross", axis, x2.ndim if axis >= 0 else min(x1.ndim, x2.ndim))
    if axis < 0:
        i, j = axis + x1.ndim, axis + x2.ndim
    if x1.shape[i] != 3 or x2.shape[j] != 3:
        raise ValueError(
            f"[linalg.cross] got shapes {x1.shape} and {x2.shape}: both must have length 3 along axis {axis}."
        )
    if result_dtype((x1.dtype, x2.dtype), ()).kind == "b":
        raise TypeError("[linalg.cross] is not defined for dtype bool: it takes numeric dtypes.")
    a = concatenate([x1, slice(x1, i, 0, 2)], axis=i)
    b = concatenate([x2, slice(x2, j, 0, 2)], axis=j)
    return slice(a, i, 1, 4) * slice(b, j, 2, 5) - slice(a, i, 2, 5) * slice(b, j, 1, 4)


# ---- contractions


def _moved(x: Tensor, axes: Sequence[int], *, last: bool) -> tuple[Tensor, tuple[int, ...]]:
    """Return ``x`` with the axes last or first, and the shape of its other dimensions."""
    free = [i for i in range(x.ndim) if i not in axes]
    order = (*free, *axes) if last else (*axes, *free)
    return (x if order == tuple(range(x.ndim)) else permute_dims(x, order)), tuple([x.shape[i] for i in free])


_contract_samples = normal(
    ([2, 3], [3, 4], (1,), (0,)), ([2, 3, 4], [4, 3, 2], (1, 2), (1, 0)), ([2, 3], [4], (), ()),
    ([3, 2], [2, 3], (-2, -1), (-1, -2)), ([2, 0], [0, 3], (1,), (0,)), ([], [2], (), ()),
)  # fmt: skip


@internal_composite(
    "contract(Tensor x1, Tensor x2, int[] left, int[] right) -> Tensor",
    sample_inputs=_contract_samples,
)
def contract(x1: Tensor, x2: Tensor, left: Sequence[int], right: Sequence[int]) -> Tensor:
    """Sum products over pairs of axes, as ``tensordot`` does."""
    if len(left) != len(right):
        raise ValueError(
            f"[tensordot] got axes {tuple(left)} and {tuple(right)}: give the same number of axes for both tensors."
        )
    i, j = normalize_axes("tensordot", left, x1.ndim), normalize_axes("tensordot", right, x2.ndim)
    for p, q in zip(i, j):
        if x1.shape[p] != x2.shape[q]:
            raise ValueError(
                f"[tensordot] got shapes {x1.shape} and {x2.shape} with axes {tuple(left)} and {tuple(right)}: the "
                f"lengths of the axes to sum over must be equal; {x1.shape[p]} and {x2.shape[q]} are not."
            )
    a, rows = _moved(x1, i, last=True)
    b, columns = _moved(x2, j, last=False)
    inner_size = prod([x1.shape[p] for p in i])
    if a.ndim != 2 or len(i) != 1:
        a = reshape(a, (prod(rows), inner_size))
    if b.ndim != 2 or len(j) != 1:
        b = reshape(b, (inner_size, prod(columns)))
    product = matmul(a, b)
    shape = rows + columns
    return product if product.shape == shape else reshape(product, shape)


@composite(
    "inner(Tensor x1, Tensor x2) -> Tensor",
    sample_inputs=normal(([3], [3]), ([2, 3], [4, 3]), ([], [2]), ([2, 0], [0])),
)
def inner(x1: Tensor, x2: Tensor) -> Tensor:
    """Sum products over the last dimensions, without conjugation; with a number, multiply.

    Args: x1: shape (..., N). x2: shape (...', N). Returns shape (..., ...'). Source: ``numpy.inner``.

    >>> tk.inner(tk.asarray([1, 2, 3]), tk.asarray([1, 1, 0])).item()
    3
    """
    if not x1.ndim or not x2.ndim:
        return multiply(x1, x2)
    return contract(x1, x2, (x1.ndim - 1,), (x2.ndim - 1,))


@composite(
    "dot(Tensor x1, Tensor x2) -> Tensor",
    sample_inputs=normal(([3], [3]), ([2, 3], [3, 4]), ([], [2]), ([2, 3], [3]), ([2, 3], [4, 3, 2])),
    methods=("dot",),
)
def dot(x1: Tensor, x2: Tensor) -> Tensor:
    """Sum products over the last dimension of ``x1`` and the last but one of ``x2`` (the only one of a vector).

    For matrices and vectors this is ``matmul``; in more dimensions the other dimensions do not broadcast: the result
    has those of both. With a number, multiply. Source: ``numpy.dot``.

    >>> tk.dot(tk.asarray([1, 2]), tk.asarray([3, 4])).item()
    11
    """
    if not x1.ndim or not x2.ndim:
        return multiply(x1, x2)
    if x1.ndim <= 2 and x2.ndim <= 2:
        return matmul(x1, x2)
    return contract(x1, x2, (x1.ndim - 1,), (max(x2.ndim - 2, 0),))


def _refuse_shapes(name: str, matrix: Tensor, vector: Tensor, length: int) -> None:
    """Raise ValueError unless there is a matrix, and a vector of this length."""
    if matrix.ndim < 2 or not vector.ndim or vector.shape[-1] != matrix.shape[length]:
        raise ValueError(
            f"[{name}] got a matrix of shape {matrix.shape} and a vector of shape {vector.shape}: the matrix needs two "
            f"or more dimensions, and the vector the length of axis {length} of the matrix."
        )


@composite(
    "matvec(Tensor x1, Tensor x2) -> Tensor",
    sample_inputs=normal(([2, 3], [3]), ([2, 1, 4, 3], [5, 3]), ([0, 3], [3])),
)
def matvec(x1: Tensor, x2: Tensor) -> Tensor:
    """Multiply matrices by vectors: shapes (..., M, N) and (..., N) give (..., M). Source: ``numpy.matvec``.

    >>> tk.matvec(tk.asarray([[1, 2], [3, 4]]), tk.asarray([1, 1])).tolist()
    [3, 7]
    """
    _refuse_shapes("matvec", x1, x2, -1)
    return squeeze(matmul(x1, expand_dims(x2, -1)), -1)


@composite(
    "vecmat(Tensor x1, Tensor x2) -> Tensor",
    sample_inputs=normal(([2], [2, 3]), ([5, 4], [2, 1, 4, 3]), ([3], [3, 0])),
)
def vecmat(x1: Tensor, x2: Tensor) -> Tensor:
    """Multiply the conjugates of vectors by matrices: shapes (..., M) and (..., M, N) give (..., N).

    Source: ``numpy.vecmat``.

    >>> tk.vecmat(tk.asarray([1, 1]), tk.asarray([[1, 2], [3, 4]])).tolist()
    [4, 6]
    """
    _refuse_shapes("vecmat", x2, x1, -2)
    return squeeze(matmul(expand_dims(conjugated(x1), -2), x2), -2)


@composite(
    "kron(Tensor x1, Tensor x2) -> Tensor",
    sample_inputs=normal(([2, 3], [3, 2]), ([2], [3]), ([2], [2, 2]), ([], [2]), ([2, 1, 2], [3, 1]), ([0, 2], [2, 2])),
)
def kron(x1: Tensor, x2: Tensor) -> Tensor:
    """Compute the Kronecker product: copies of ``x2`` multiplied by each element of ``x1``.

    The shorter shape is extended with leading ones; the lengths of the result are the products. Source: ``numpy.kron``.

    >>> tk.kron(tk.asarray([1, 10]), tk.asarray([1, 2])).tolist()
    [1, 2, 10, 20]
    """
    ndim = max(x1.ndim, x2.ndim)
    if not x1.ndim or not x2.ndim:
        return x1 * x2
    a, b = ((1,) * (ndim - x.ndim) + x.shape for x in (x1, x2))
    left = reshape(x1, tuple([n for pair in zip(a, (1,) * ndim) for n in pair]))
    right = reshape(x2, tuple([n for pair in zip((1,) * ndim, b) for n in pair]))
    return reshape(left * right, tuple([m * n for m, n in zip(a, b)]))


# ---- chains and powers


def _cheapest(sizes: Sequence[int]) -> Any:
    """Return where to split each part of a chain of matrices (Cormen et al., Introduction to Algorithms, 15.2)."""
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], split[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return split


@composite(
    "linalg_multi_dot(Tensor[] tensors) -> Tensor",
    sample_inputs=normal(
        (([2, 3], [3, 4], [4, 2]),), (([3], [3, 2], [2, 3], [3]),), (([2, 2], [2]),), (([2, 0], [0, 3]),)
    ),
)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Multiply a chain of matrices in the cheapest order.

    Args: tensors: at least two matrices; the first and the last may be vectors. Raises ValueError for other ranks and
    for lengths that do not match. Source: ``numpy.linalg.multi_dot``.

    >>> tk.linalg.multi_dot([tk.ones((2, 3)), tk.ones((3, 4)), tk.ones(4)]).tolist()
    [12.0, 12.0]
    """
    shapes = [x.shape for x in tensors]
    last = len(tensors) - 1
    if last < 1 or any(x.ndim != 2 and not (x.ndim == 1 and i in (0, last)) for i, x in enumerate(tensors)):
        given = " and ".join(map(str, shapes)) or "no tensors"
        raise ValueError(
            f"[linalg.multi_dot] got {given}: it takes two or more matrices; the first and the last may be vectors."
        )
    chain = list(tensors)
    if chain[0].ndim == 1:
        chain[0] = expand_dims(chain[0], 0)
    if chain[-1].ndim == 1:
        chain[-1] = expand_dims(chain[-1], 1)
    split = _cheapest([chain[0].shape[0], *[x.shape[1] for x in chain]])

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return chain[i]
        k = split[i][j]
        return matmul(product(i, k), product(k + 1, j))

    result = product(0, last)
    if tensors[0].ndim == 1:
        result = squeeze(result, 0)
    return squeeze(result, -1) if tensors[-1].ndim == 1 else result
