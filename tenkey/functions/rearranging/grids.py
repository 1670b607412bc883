"""Tensors of indices: ``indices``, ``ix_``, ``tril_indices`` and others; and functions of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.dtypes.names import int64
from ...core.tensor import Tensor
from ...dispatch.calling.public import public
from ...ops.builtin.creation import arange, zeros
from ...ops.builtin.indexing.setitem import put
from ...ops.builtin.shape.copying import cast, clone, stack
from ...ops.builtin.shape.views import broadcast_to, reshape
from ...ops.shapes import refuse_shape
from ..creation import asarray, to_operand
from ..indexing import nonzero
from .writing import repeated

__all__ = [
    "diag_indices", "diag_indices_from", "diagflat", "fill_diagonal", "fromfunction", "indices", "ix_", "lengths_of",
    "mask_indices", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from",
]  # fmt: skip


def lengths_of(function: str, shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple of lengths. Raises TypeError and ValueError for anything else."""
    try:
        found = tuple([operator.index(n) for n in shape]) if isinstance(shape, Sequence) else (operator.index(shape),)
    except TypeError:
        raise TypeError(f"[{function}] the shape is an int or a sequence of ints, got {shape!r}.") from None
    if any(n < 0 for n in found):
        raise ValueError(f"[{function}] a length of the shape {found} is negative.")
    return found


def _axis_numbers(lengths: tuple[int, ...], dtype: Any, device: Any) -> list[Tensor]:
    """Return for each axis the numbers along it, in a shape that broadcasts."""
    return [
        reshape(arange(n, dtype=dtype, device=device), (*[1] * k, n, *[1] * (len(lengths) - k - 1)))
        for k, n in enumerate(lengths)
    ]


@public
def indices(shape: Sequence[int], dtype: Any = None, sparse: bool = False, *, device: Any = None) -> Any:
    """Return the coordinates of all places of a shape: a tensor with one more dimension, whose first axis counts axes.

    With ``sparse`` a tuple of tensors that broadcast to the shape. The dtype is int64 by default. Source:
    ``numpy.indices``.

    >>> tk.indices((2, 3)).tolist()
    [[[0, 0, 0], [1, 1, 1]], [[0, 1, 2], [0, 1, 2]]]
    >>> [i.shape for i in tk.indices((2, 3), sparse=True)]
    [(2, 1), (1, 3)]
    """
    lengths = lengths_of("indices", shape)
    dtype = int64 if dtype is None else dtype
    numbers = _axis_numbers(lengths, dtype, device)
    if sparse:
        return tuple(numbers)
    refuse_shape("indices", (len(lengths), *lengths), 8)
    if not numbers:
        return zeros((0,), dtype=dtype, device=device)
    return stack([broadcast_to(number, lengths) for number in numbers])


@public
def fromfunction(function: Callable[..., Any], shape: Sequence[int], *, dtype: Any = None, **kwargs: Any) -> Any:
    """Return ``function`` of the coordinates of all places of a shape, each a tensor of that shape.

    ``dtype`` is that of the coordinates, by default the default floating dtype; other keywords are passed on. Source:
    ``numpy.fromfunction``.

    >>> tk.fromfunction(lambda i, j: 10 * i + j, (2, 3)).tolist()
    [[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]
    """
    if not callable(function):
        raise TypeError(f"[fromfunction] the first argument is a function, got {type(function).__name__}.")
    lengths = lengths_of("fromfunction", shape)
    dtype = zeros(()).dtype if dtype is None else dtype
    return function(*[broadcast_to(number, lengths) for number in _axis_numbers(lengths, dtype, None)], **kwargs)


@public
def ix_(*args: Any) -> tuple[Tensor, ...]:
    """Return vectors in shapes that broadcast against one another, to index a grid: ``x[tk.ix_(rows, columns)]``.

    A vector of bools stands for the indices where it is true. Raises ValueError for more than one dimension. Source:
    ``numpy.ix_``.

    >>> x = tk.asarray([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    >>> x[tk.ix_([0, 2], [True, False, True])].tolist()
    [[0, 2], [6, 8]]
    """
    made = []
    for k, given in enumerate(args):
        vector = given if isinstance(given, Tensor) else asarray(given)
        if vector.ndim != 1:
            raise ValueError(f"[ix_] takes vectors, got shape {vector.shape}.")
        if not vector.size and not isinstance(given, (Tensor, np.ndarray)):
            vector = cast(vector, int64)
        if vector.dtype.kind == "b":
            (vector,) = nonzero(vector)
        made.append(reshape(vector, (*[1] * k, vector.shape[0], *[1] * (len(args) - k - 1))))
    return tuple(made)


# ---- triangles and diagonals


def _triangle(n: int, k: int, m: int | None, upper: bool, device: Any) -> tuple[Tensor, ...]:
    rows, columns = _axis_numbers((n, n if m is None else m), int64, device)
    return nonzero(columns - rows >= k if upper else columns - rows <= k)


@public
def tril_indices(n: int, k: int = 0, m: int | None = None, *, device: Any = None) -> tuple[Tensor, ...]:
    """Return the indices of the lower triangle of a matrix of ``n`` rows and ``m`` columns (default: ``n``).

    ``k`` is the highest diagonal in it: 0 the main one, positive ones above it. Source: ``numpy.tril_indices``.

    >>> [i.tolist() for i in tk.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle(n, k, m, False, device)


@public
def triu_indices(n: int, k: int = 0, m: int | None = None, *, device: Any = None) -> tuple[Tensor, ...]:
    """Return the indices of the upper triangle of a matrix of ``n`` rows and ``m`` columns (default: ``n``).

    ``k`` is the lowest diagonal in it: 0 the main one, positive ones above it. Source: ``numpy.triu_indices``.

    >>> [i.tolist() for i in tk.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _triangle(n, k, m, True, device)


def _matrix(function: str, x: Any) -> Tensor:
    matrix = to_operand(function, x)
    if matrix.ndim != 2:
        raise ValueError(f"[{function}] takes a matrix, got shape {matrix.shape}.")
    return matrix


@public
def tril_indices_from(x: Tensor, k: int = 0) -> tuple[Tensor, ...]:
    """Return the indices of the lower triangle of a matrix: see ``tk.tril_indices``.

    >>> [i.tolist() for i in tk.tril_indices_from(tk.ones((2, 2)), -1)]
    [[1], [0]]
    """
    x = _matrix("tril_indices_from", x)
    return _triangle(x.shape[0], k, x.shape[1], False, x.device)


@public
def triu_indices_from(x: Tensor, k: int = 0) -> tuple[Tensor, ...]:
    """Return the indices of the upper triangle of a matrix: see ``tk.triu_indices``.

    >>> [i.tolist() for i in tk.triu_indices_from(tk.ones((2, 2)), 1)]
    [[0], [1]]
    """
    x = _matrix("triu_indices_from", x)
    return _triangle(x.shape[0], k, x.shape[1], True, x.device)


@public
def mask_indices(n: int, mask_func: Callable[..., Tensor], k: int = 0) -> tuple[Tensor, ...]:
    """Return the indices where ``mask_func(ones, k)``, such as ``tk.triu``, of an (n, n) matrix is not zero.

    >>> [i.tolist() for i in tk.mask_indices(2, tk.triu, 1)]
    [[0], [1]]
    """
    return nonzero(mask_func(zeros((n, n), dtype=int64) + 1, k) != 0)


@public
def diag_indices(n: int, ndim: int = 2, *, device: Any = None) -> tuple[Tensor, ...]:
    """Return the indices of the main diagonal of a tensor with ``ndim`` dimensions of length ``n``.

    >>> [i.tolist() for i in tk.diag_indices(3)]
    [[0, 1, 2], [0, 1, 2]]
    """
    return (arange(n, dtype=int64, device=device),) * ndim


@public
def diag_indices_from(x: Tensor) -> tuple[Tensor, ...]:
    """Return the indices of the main diagonal of a tensor of two or more dimensions of equal length.

    >>> [i.tolist() for i in tk.diag_indices_from(tk.ones((2, 2)))]
    [[0, 1], [0, 1]]
    """
    x = to_operand("diag_indices_from", x)
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise ValueError(
            f"[diag_indices_from] takes a tensor of two or more dimensions of equal length, got shape {x.shape}."
        )
    return diag_indices(x.shape[0], x.ndim, device=x.device)


@public
def diagflat(x: Tensor, k: int = 0) -> Tensor:
    """Return a square matrix whose diagonal ``k`` has the elements in row-major order, with zeros elsewhere.

    >>> tk.diagflat(tk.asarray([[1, 2]]), 1).tolist()
    [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    """
    x = to_operand("diagflat", x)
    n = x.size + abs(k)
    numbers = arange(x.size, dtype=int64, device=x.device)
    made = zeros((n, n), dtype=x.dtype, device=x.device)
    return put(made, [numbers + max(-k, 0), numbers + max(k, 0)], reshape(x, (-1,)))


@public
def fill_diagonal(x: Tensor, value: Any, wrap: bool = False) -> Tensor:
    """Return a copy with ``value`` on the main diagonal.

    Args: x: a matrix, or a tensor of more dimensions of equal length. value: a number or a tensor, whose elements are
    repeated along the diagonal and converted to the dtype of ``x``. wrap: in a matrix with more rows than columns,
    start again one row below each end. (NumPy's function of this name writes into its argument.) Raises ValueError for
    other shapes.

    >>> tk.fill_diagonal(tk.zeros((2, 3)), 5.0).tolist()
    [[5.0, 0.0, 0.0], [0.0, 5.0, 0.0]]
    """
    x = to_operand("fill_diagonal", x)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) != 1):
        raise ValueError(
            f"[fill_diagonal] takes a matrix, or a tensor of more dimensions of equal length, got shape {x.shape}."
        )
    step = x.shape[1] + 1 if x.ndim == 2 else sum(x.shape[0] ** k for k in range(x.ndim))
    end = x.size if x.ndim > 2 or wrap else min(x.size, x.shape[1] * x.shape[1])
    places = arange(0, end, step, dtype=int64, device=x.device)
    values = value if isinstance(value, Tensor) else asarray(value, dtype=x.dtype, device=x.device)
    if values.dtype != x.dtype:
        values = cast(values, x.dtype)
    count = places.shape[0]
    if not count:
        return clone(x)
    if values.ndim:
        if not values.size:
            raise ValueError("[fill_diagonal] got a value without elements.")
        values = repeated(reshape(values, (-1,)), count, x.device)
    return reshape(put(reshape(x, (-1,)), [places], values), x.shape)
