"""Gathers and scatters along an axis, as in PyTorch, and functions that write or add at given indices.

All are functional and return a new tensor; ``x[index] = value`` and ``put_along_axis`` work in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ....core.dtypes.promotion import result_dtype
from ....core.lift import refuse_out_of_range
from ....core.tensor import Tensor
from ....core.word import DTYPE_MASK, WEAK_MASK, dtypes_of, weak_of
from ...declare import Decomposition, Entry, TensorSpec, composite, internal, normal
from ...shapes import broadcast_shapes, normalize_axis
from ..creation import arange, full, ones_like, zeros_like
from ..elementwise.arithmetic import divide, multiply
from ..elementwise.comparison import equal, where
from ..elementwise.complex import conj
from ..shape.copying import cast
from ..shape.views import broadcast_to, reshape
from .advanced_indexing import check_integers, index, index_shape, scatter_add_zeros, take_along_axis
from .basic_indexing import basic_index, basic_index_backward
from .places import combine
from .setitem import put
from .vmap_rules import index_reduce_batch

_REDUCTIONS: Final = {
    None: None, "none": None, "add": "add", "sum": "add", "multiply": "multiply", "prod": "multiply",
    "max": "maximum", "amax": "maximum", "min": "minimum", "amin": "minimum",
}  # fmt: skip


_ADDED: Final = 1 << 12
"""Indices of a vector up to which NumPy adds sooner than a loop is prepared."""


def check_indices(operator: str, x: Tensor, indices: Tensor, axis: int) -> int:
    """Return the axis, counted from the first, along which indices select; raise where they do not fit."""
    given, whole = indices.shape, x.shape
    i = normalize_axis(operator, axis, len(whole))
    check_integers(operator, indices)
    if len(given) != len(whole):
        raise ValueError(
            f"[{operator}] indices of shape {given} must have the {x.ndim} dimensions of the tensor, shape {whole}."
        )
    for d, n in enumerate(given):
        if n > whole[d] and d != i:
            raise ValueError(
                f"[{operator}] indices of shape {given} are longer than the tensor, shape {whole}, in dimension {d}: "
                f"they may be longer only along axis {i}."
            )
    return i


def grid_of(indices: Tensor, axis: int) -> list[Tensor]:
    """Return the argument of ``index`` that replaces, at each place of ``indices``, one coordinate by its element."""
    ndim = indices.ndim
    return [
        indices if d == axis else reshape(arange(n, device=indices.device), (*[1] * d, n, *[1] * (ndim - d - 1)))
        for d, n in enumerate(indices.shape)
    ]


def fitting(operator: str, x: Tensor, source: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the source with the dtype of ``x`` and a shape; one that is longer is truncated, as in PyTorch."""
    if source.shape == shape and source.dtype == x.dtype:
        return source
    weak = bool(source._word & WEAK_MASK)
    kind, other = x.dtype.kind, source.dtype.kind
    wider = source.ndim and result_dtype((x.dtype, source.dtype), ()).kind != kind
    if wider or (other == "c" and kind != "c") or (weak and other == "f" and kind in "biu"):
        given = "float" if weak and other == "f" else source.dtype
        raise TypeError(
            f"[{operator}] a source of dtype {given} cannot be stored in a tensor of {x.dtype}: cast the tensor first."
        )
    if weak:
        refuse_out_of_range(operator, source, x.dtype)
        return full(shape, source._data.item(), dtype=x.dtype, device=x.device)
    if source.dtype != x.dtype:
        source = cast(source, x.dtype)
    if source.shape == shape:
        return source
    if source.ndim == len(shape) and all(n >= m for n, m in zip(source.shape, shape, strict=True)):
        return basic_index(source, tuple([slice(0, n) for n in shape]))
    try:
        fits = broadcast_shapes(operator, source.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"[{operator}] a source of shape {source.shape} neither broadcasts to the shape of the indices, {shape}, "
            "nor covers it."
        )
    return broadcast_to(source, shape)


def _index_reduce_meta(x: Tensor, indices: Sequence[Tensor | None], source: Tensor, reduce: str) -> TensorSpec:
    if reduce in ("maximum", "minimum") and x.dtype.kind == "c":
        raise TypeError(f"[scatter] reduce={reduce!r} needs an order, which {x.dtype} does not have.")
    selected = index_shape(x, indices)
    if selected is not None and broadcast_shapes("scatter", selected, source.shape) != selected:
        raise ValueError(f"[scatter] a source of shape {source.shape} does not fit into the selection {selected}.")
    return TensorSpec(x.shape, x.dtype)


def _index_reduce(x: np.ndarray, indices: Any, source: np.ndarray, reduce: str) -> np.ndarray:
    out = np.array(x, order="C")
    at = tuple([slice(None) if i is None else i for i in indices])
    ufunc: Any = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}[reduce]
    if out.dtype.kind == "b":
        ufunc = {"add": np.logical_or, "multiply": np.logical_and}.get(reduce, ufunc)
    ufunc.at(out, at, source)
    return out


def _combined(x: Tensor, indices: Sequence[Tensor | None], source: Tensor, reduce: str) -> Tensor:
    _index_reduce_meta(x, indices, source, reduce)
    mode = {"add": "maximum", "multiply": "minimum"}.get(reduce, reduce) if x.dtype.kind == "b" else reduce
    return combine(x, indices, source, mode, "scatter")


def _shares(x: Tensor, indices: Any, source: Tensor, out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return which elements and which sources attain a maximum or minimum, and how many do."""
    mine, theirs = equal(x, out), equal(source, index(out, indices))
    count = index_sum(cast(mine, x.dtype), indices, cast(theirs, x.dtype))
    return mine, theirs, count


def _x_vjp(g: Tensor, x: Tensor, indices: Any, source: Tensor, out: Tensor, reduce: str) -> Tensor:
    if reduce == "multiply":
        return multiply(g, conj(index_reduce(ones_like(x), indices, source, "multiply")))
    mine, _, count = _shares(x, indices, source, out)
    return where(mine, divide(g, count), zeros_like(g))


def _source_vjp(g: Tensor, x: Tensor, indices: Any, source: Tensor, out: Tensor, reduce: str) -> Tensor:
    if reduce == "multiply":  # the product of the other factors, even if one of them is zero
        zero, gone = equal(x, 0), equal(source, 0)
        factor = where(gone, ones_like(source), source)
        product = index(index_reduce(where(zero, ones_like(x), x), indices, factor, "multiply"), indices)
        zeros = index(index_sum(cast(zero, x.dtype), indices, cast(gone, x.dtype)), indices)
        nothing = zeros_like(product)
        others = where(
            gone, where(equal(zeros, 1), product, nothing), where(equal(zeros, 0), divide(product, factor), nothing)
        )
        return multiply(index(g, indices), conj(others))
    _, theirs, count = _shares(x, indices, source, out)
    found = index(divide(g, count), indices)
    return where(theirs, found, zeros_like(found))


index_sum: Entry = internal(
    "index_sum(Tensor x, Tensor?[] indices, Tensor source) -> Tensor",
    meta=lambda x, indices, source: _index_reduce_meta(x, indices, source, "add"),
    numpy=lambda x, indices, source: _index_reduce(x, indices, source, "add"),
    decomposition=Decomposition(lambda x, indices, source: _combined(x, indices, source, "add"), needs=("scatter",)),
    vjp={"x": lambda g: g, "source": lambda g, indices: index(g, indices)},
    sample_inputs=lambda rng: [
        ((rng.standard_normal((4, 3)), [np.array([2, 0, 2])], rng.standard_normal((3, 3))), {}),
        ((rng.standard_normal((4, 3)), [None, np.array([0, 0])], rng.standard_normal((4, 2))), {}),
        ((rng.standard_normal((0, 3)), [None, np.array([0, 0])], rng.standard_normal((0, 2))), {}),
        ((rng.standard_normal((2, 3, 2)), [np.array([0, -1]), None, np.array([1])], rng.standard_normal((2, 1))), {}),
    ],
    batch=index_reduce_batch,
    doc="Add ``source`` to ``x`` where a list of integer tensors selects; sources for one place add up.",
)

index_reduce: Entry = internal(
    "index_reduce(Tensor x, Tensor?[] indices, Tensor source, str reduce) -> Tensor",
    meta=_index_reduce_meta,
    numpy=_index_reduce,
    decomposition=Decomposition(_combined, needs=("scatter",)),
    vjp={"x": _x_vjp, "source": _source_vjp},
    sample_inputs=lambda rng: [
        ((rng.standard_normal((4, 3)), [np.array([2, 0, 2])], rng.standard_normal((3, 3)), "maximum"), {}),
        ((rng.standard_normal((4, 3)), [None, np.array([0, 0])], rng.standard_normal((4, 2)), "multiply"), {}),
        ((rng.standard_normal((0, 3)), [None, np.array([0, 0])], rng.standard_normal((0, 2)), "minimum"), {}),
    ],
    batch=index_reduce_batch,
    doc="Combine ``x`` with ``source`` where a list of integer tensors selects; equal places are combined in turn.",
)


@composite(
    "gather(Tensor x, Tensor indices, int axis=-1) -> Tensor",
    sample_inputs=lambda rng: [
        ((rng.standard_normal((3, 5)), rng.integers(-5, 5, (2, 4))), {}),
        ((rng.standard_normal((3, 5)), rng.integers(0, 3, (4, 5)), 0), {}),
        ((rng.standard_normal((3, 5)), rng.integers(0, 3, (0, 5)), 0), {}),
    ],
    methods=("gather",),
)
def gather(x: Tensor, indices: Tensor, axis: int = -1) -> Tensor:
    """Take the element at each index along ``axis``: ``out[i, j] = x[i, indices[i, j]]`` for the last of two axes.

    The result has the shape of ``indices``, which has the number of dimensions of ``x`` and may be shorter than ``x``
    in the other dimensions (they do not broadcast: see ``take_along_axis``). Negative indices count from the end.
    Raises TypeError for indices that are not integers, IndexError for an index out of range, ValueError for shapes that
    do not fit. Gradients of an element that is taken several times add up. Source: PyTorch's ``gather``.

    >>> tk.gather(tk.asarray([[1, 2], [3, 4]]), tk.asarray([[0, 0], [1, 0]]), axis=1).tolist()
    [[1, 1], [4, 3]]
    """
    i = check_indices("gather", x, indices, axis)
    reached = _reached(x, indices, i)
    return take_along_axis(basic_index(x, reached) if reached else x, indices, axis=i)


def _reached(x: Tensor, indices: Tensor, axis: int) -> tuple[slice, ...] | None:
    """Return the part of ``x`` that indices reach if they are shorter in other dimensions; None for all of it."""
    given, whole = indices.shape, x.shape
    if given[:axis] == whole[:axis] and given[axis + 1 :] == whole[axis + 1 :]:
        return None
    return tuple([slice(None) if d == axis else slice(0, n) for d, n in enumerate(given)])


@composite(
    "scatter(Tensor x, Tensor indices, Tensor source, int axis=-1, *, str? reduce=None) -> Tensor",
    sample_inputs=lambda rng: [
        ((rng.standard_normal((3, 5)), np.array([[0, 4], [2, 3]]), rng.standard_normal((2, 2))), {}),
        ((rng.standard_normal((3, 5)), rng.integers(0, 3, (2, 5)), rng.standard_normal((2, 5)), 0), {"reduce": "add"}),
        ((rng.standard_normal((3, 2)), rng.integers(0, 2, (3, 4)), rng.standard_normal(())), {"reduce": "multiply"}),
        ((rng.standard_normal((3, 5)), rng.integers(0, 3, (0, 5)), rng.standard_normal((0, 5)), 0), {}),
    ],
    methods=("scatter",),
)
def scatter(x: Tensor, indices: Tensor, source: Tensor, axis: int = -1, *, reduce: str | None = None) -> Tensor:
    """Return a copy of ``x`` with ``source`` written at ``indices`` along ``axis``: the inverse of ``gather``.

    ``out[i, indices[i, j]] = source[i, j]`` for the last of two axes. ``source`` is a number, broadcasts to the shape
    of ``indices``, or is longer and truncated; it is converted to the dtype of ``x``. With ``reduce`` "add",
    "multiply", "max" or "min" (or PyTorch's names "sum", "prod", "amax", "amin") each source is combined with the
    element, and sources for one place with one another. Otherwise one source is kept for each place, on the CPU the
    last, and only this one gets the gradient. Raises TypeError, IndexError and ValueError as ``gather`` does.

    >>> tk.scatter(tk.zeros((2, 3)), tk.asarray([[2], [0]]), 1.0, axis=1).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    >>> tk.scatter(tk.zeros(2), tk.asarray([0, 0]), tk.asarray([1.0, 2.0]), axis=0, reduce="add").tolist()
    [3.0, 0.0]
    """
    i = check_indices("scatter", x, indices, axis)
    if reduce not in _REDUCTIONS:
        raise ValueError(f"[scatter] reduce must be None, 'add', 'multiply', 'max' or 'min', got {reduce!r}.")
    fitted = fitting("scatter", x, source, indices.shape)
    grid = grid_of(indices, i)
    name = _REDUCTIONS[reduce]
    if name is None:
        return put(x, grid, fitted)
    return index_sum(x, grid, fitted) if name == "add" else index_reduce(x, grid, fitted, name)


def _numpy_scatter_add(x: np.ndarray, indices: np.ndarray, source: np.ndarray, axis: int = -1) -> Any:
    if x.ndim != 1 or axis not in (-1, 0) or indices.dtype.kind not in "iu" or indices.size > _ADDED:
        return NotImplemented
    if indices.shape != source.shape or source.dtype != x.dtype:
        return NotImplemented
    sums = np.zeros(x.shape, x.dtype)
    np.add.at(sums, indices, source)
    sums += x
    return sums


@composite(
    "scatter_add(Tensor x, Tensor indices, Tensor source, int axis=-1) -> Tensor",
    autocast="widest",
    numpy=_numpy_scatter_add,
    sample_inputs=lambda rng: [
        ((rng.standard_normal((3, 5)), rng.integers(0, 5, (3, 2)), rng.standard_normal((3, 2))), {"axis": 1}),
        ((rng.standard_normal((3, 5)), rng.integers(0, 5, (2, 4)), rng.standard_normal((2, 4))), {}),
    ],
    methods=("scatter_add",),
)
def scatter_add(x: Tensor, indices: Tensor, source: Tensor, axis: int = -1) -> Tensor:
    """Return a copy of ``x`` with ``source`` added at ``indices`` along an axis; equal indices add up.

    Takes the same arguments as ``scatter`` with ``reduce="add"``. The result has the promoted dtype.

    >>> tk.scatter_add(tk.zeros(3), tk.asarray([0, 0]), tk.asarray([1.0, 2.0]), axis=0).tolist()
    [3.0, 0.0, 0.0]
    """
    i = check_indices("scatter_add", x, indices, axis)
    if source.dtype != x.dtype:
        word = x._word | source._word
        x = cast(x, result_dtype(dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK)))
    reached = _reached(x, indices, i)
    shape = (*indices.shape[:i], x.shape[i], *indices.shape[i + 1 :]) if reached else x.shape
    added = scatter_add_zeros(fitting("scatter_add", x, source, indices.shape), indices, shape, i)
    return x + (basic_index_backward(added, x.shape, reached) if reached else added)


def _one_axis(operator: str, x: Tensor, indices: Tensor, axis: int) -> tuple[list[Tensor | None], tuple[int, ...]]:
    """Return the argument of ``index`` that selects along one axis, and the shape of the selection."""
    i = normalize_axis(operator, axis, x.ndim)
    check_integers(operator, indices)
    if indices.ndim != 1:
        raise ValueError(f"[{operator}] indices must have one dimension, got shape {indices.shape}.")
    return [None] * i + [indices], (*x.shape[:i], indices.shape[0], *x.shape[i + 1 :])


_one_axis_samples: Final[tuple[Any, ...]] = (
    ([3, 5], np.array([2, 0]), [2, 5]),
    ([3, 5], np.array([4, -4]), [3, 2], -1),
    ([3, 5], np.array([1]), [], 0),
    ([3], np.zeros(0, np.int64), [0], 0),
)


@composite(
    "index_add(Tensor x, Tensor indices, Tensor source, int axis=0, *, Scalar alpha=1) -> Tensor",
    sample_inputs=normal(*_one_axis_samples, ([3, 2], np.array([2, 2, 1]), [3, 2], {"alpha": 2})),
    methods=("index_add",),
)
def index_add(x: Tensor, indices: Tensor, source: Tensor, axis: int = 0, *, alpha: Any = 1) -> Tensor:
    """Return a copy of ``x`` with ``alpha * source`` added at the 1-d ``indices`` of an axis; equal indices add up.

    ``source`` broadcasts to the shape of ``x`` with the number of indices along ``axis``, and is converted to the dtype
    of ``x``. Raises TypeError for indices that are not integers or a source that this dtype cannot hold, IndexError for
    an index out of range, ValueError for shapes that do not fit.

    >>> tk.index_add(tk.zeros(3), tk.asarray([0, 2, 2]), tk.asarray([1.0, 2.0, 3.0])).tolist()
    [1.0, 0.0, 5.0]
    """
    at, shape = _one_axis("index_add", x, indices, axis)
    if x.dtype.kind == "b":
        raise TypeError("[index_add] is not defined for dtype bool: it takes numeric dtypes. Use index_copy.")
    fitted = fitting("index_add", x, source, shape)
    return index_sum(x, at, fitted if alpha == 1 else cast(multiply(fitted, alpha), x.dtype))


@composite(
    "index_copy(Tensor x, Tensor indices, Tensor source, int axis=0) -> Tensor",
    sample_inputs=normal(*_one_axis_samples),
    methods=("index_copy",),
)
def index_copy(x: Tensor, indices: Tensor, source: Tensor, axis: int = 0) -> Tensor:
    """Return a copy of ``x`` with ``source`` written at the 1-d ``indices`` of an axis.

    Of equal indices one is kept, on the CPU the last. Shapes, dtypes and errors are those of ``index_add``.

    >>> tk.index_copy(tk.zeros((2, 3)), tk.asarray([2, 0]), tk.asarray([1.0, 2.0]), axis=1).tolist()
    [[2.0, 0.0, 1.0], [2.0, 0.0, 1.0]]
    """
    at, shape = _one_axis("index_copy", x, indices, axis)
    return put(x, at, fitting("index_copy", x, source, shape))


@composite(
    "index_fill(Tensor x, Tensor indices, Tensor value, int axis=0) -> Tensor",
    sample_inputs=normal(([3, 5], np.array([2, 0]), []), ([3, 5], np.array([4, -4]), [], -1)),
    methods=("index_fill",),
)
def index_fill(x: Tensor, indices: Tensor, value: Tensor, axis: int = 0) -> Tensor:
    """Return a copy of ``x`` with one value, a number or a 0-d tensor, at the 1-d ``indices`` of an axis.

    Dtypes and errors are those of ``index_add``.

    >>> tk.index_fill(tk.zeros(3), tk.asarray([0, 2]), 5.0).tolist()
    [5.0, 0.0, 5.0]
    """
    at, shape = _one_axis("index_fill", x, indices, axis)
    if value.ndim:
        raise ValueError(f"[index_fill] the value must be 0-d, got shape {value.shape}: use index_copy.")
    return put(x, at, fitting("index_fill", x, value, shape))
