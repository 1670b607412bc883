"""References of operators of indexing, sorting, sets and linear algebra that NumPy does not have under their names."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

__all__ = ["BLOCK_REFERENCES"]

Array = np.ndarray[Any, Any]

# ---- indexing


def _along(indices: Array, axis: int) -> tuple[Any, ...]:
    grid: list[Any] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = indices
    return tuple(grid)


def _index_reduce(x: Array, indices: Sequence[Any], source: Array, reduce: str) -> Array:
    out = np.array(x)
    at = tuple([slice(None) if i is None else i for i in indices])
    if x.dtype.kind == "b":
        reduce = {"add": "logical_or", "multiply": "logical_and"}.get(reduce, reduce)
    getattr(np, reduce).at(out, at, source)
    return out


def _scatter(x: Array, indices: Array, source: Any, axis: int = -1, *, reduce: str | None = None) -> Array:
    at = _along(indices, axis)
    source = np.broadcast_to(source, indices.shape)
    if reduce is not None:
        return _index_reduce(x, at, source.astype(x.dtype), reduce)
    out = np.array(x)
    out[at] = source
    return out


def _cut(x: Array, indices: Array, source: Any, axis: int) -> Array:
    """The source in the shape of what the indices select, with the axis first."""
    shape = list(x.shape)
    shape[axis] = len(indices)
    return np.moveaxis(np.broadcast_to(source, shape), axis, 0)


def _index_add(x: Array, indices: Array, source: Any, axis: int = 0, *, alpha: Any = 1) -> Array:
    out = np.array(x)
    for i, part in zip(indices, _cut(x, indices, source, axis), strict=True):
        np.moveaxis(out, axis, 0)[i] += alpha * part
    return out


def _index_copy(x: Array, indices: Array, source: Any, axis: int = 0) -> Array:
    out = np.array(x)
    np.moveaxis(out, axis, 0)[indices] = _cut(x, indices, source, axis)
    return out


def _select(condlist: Any, choicelist: Any, default: Any = None) -> Any:
    return np.select(list(condlist), list(choicelist), 0 if default is None else default)


def _ravel_multi_index(multi_index: Sequence[Array], dims: Sequence[int], mode: Any = "raise") -> Any:
    return np.ravel_multi_index(tuple(np.broadcast_arrays(*multi_index)), tuple(dims), mode=mode)


def _gather_rows(x: Array, index: Array, operator: str) -> Array:
    outer, inner = np.broadcast_shapes(x.shape[::2], index.shape[::2])
    x, index = (np.broadcast_to(a, (outer, a.shape[1], inner)) for a in (x, index))
    out = np.zeros(index.shape, x.dtype)
    for i, j, k in np.ndindex(out.shape):
        out[i, j, k] = x[i, index[i, j, k], k]
    return out


def _scatter_rows(x: Array, index: Array, source: Array, mode: str, operator: str) -> Array:
    outer, _, inner = x.shape
    combine: Any = {
        "set": lambda a, b: b, "add": np.add, "multiply": np.multiply, "minimum": np.minimum, "maximum": np.maximum,
    }[mode]  # fmt: skip
    shape = np.broadcast_shapes(index.shape, source.shape, (outer, 1, inner))
    index, source = np.broadcast_to(index, shape), np.broadcast_to(source, shape)
    for i, j, k in np.ndindex(shape):
        x[i, index[i, j, k], k] = combine(x[i, index[i, j, k], k], source[i, j, k])
    return x


def _affine_scan(a: Array, b: Array, axis: int, reverse: bool = False) -> Array:
    a, b = (np.moveaxis(x, axis, 0) for x in np.broadcast_arrays(a, b))
    out = np.array(b, np.result_type(a, b))
    places = range(len(b))[:: -1 if reverse else 1]
    for before, i in itertools.pairwise(places):
        out[i] = b[i] + a[i] * out[before]
    return np.moveaxis(out, 0, axis)


# ---- sorting, searching, sets


def _sort(x: Array, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    found = np.sort(x, axis)
    return np.flip(found, axis) if descending else found


def _argsort(x: Array, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    def one(row: Array) -> Array:
        return np.array(sorted(range(len(row)), key=lambda i: -float(row[i]) if descending else float(row[i])), int)

    return np.apply_along_axis(one, axis, x) if x.size else np.zeros(x.shape, int)


def _sorting_order(x: Array, axis: int, descending: bool) -> tuple[Array, Array]:
    order = _argsort(x, axis, descending)
    ordered = np.take_along_axis(x, order, axis)
    before = np.roll(ordered, 1, axis)
    first = np.arange(x.shape[axis]).reshape([-1 if d == axis else 1 for d in range(x.ndim)]) == 0
    return order.astype(np.int32), first | (ordered != before)


def _mean_of_runs(values: Array, starts: Array, axis: int) -> Array:
    """An average over the elements of a lane that are in the same run, wherever they are."""
    v, run = np.moveaxis(values, axis, -1), np.moveaxis(np.cumsum(starts, axis), axis, -1)
    same = (run[..., :, None] == run[..., None, :]).astype(float)
    return np.moveaxis((same @ v[..., None])[..., 0] / same.sum(-1), -1, axis)


def _topk(x: Array, k: int, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    order = np.argsort(-(x.astype(np.float64)) if largest else x, axis, kind="stable")
    order = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, order, axis), order


def _running(better: Callable[[Any, Any], Any]) -> Callable[..., tuple[Array, Array]]:
    def one(lane: Array) -> Array:
        best, found = 0, []
        for i, value in enumerate(lane):
            best = i if better(value, lane[best]) == value else best
            found.append(best)
        return np.array(found, int)

    def reference(x: Array, axis: int = 0) -> tuple[Array, Array]:
        indices = np.apply_along_axis(one, axis, x) if x.size else np.zeros(x.shape, int)
        return np.take_along_axis(x, indices, axis), indices

    return reference


def _unique(x: Array) -> tuple[Array, Array, Array, Array]:
    """Values, indices, inverse indices and counts, by Python's sets."""
    flat = x.reshape(-1).tolist()
    values = sorted(set(flat), key=lambda v: (v.real, v.imag))
    indices = np.array([flat.index(v) for v in values], np.int64)
    inverse = np.array([values.index(v) for v in flat], np.int64).reshape(x.shape)
    return np.array(values, x.dtype), indices, inverse, np.array([flat.count(v) for v in values], np.int64)


def _isin(x1: Array, x2: Array, invert: bool = False) -> Array:
    found = (x1.reshape(-1, 1) == x2.reshape(1, -1)).any(1).reshape(x1.shape)
    return ~found if invert else found


# ---- linear algebra


def _complex(a: Array) -> Array:
    return a.astype(np.result_type(a.dtype, np.complex64))


def _cholesky(x: Array, *, upper: bool = False) -> Array:
    if upper:  # reads the upper triangle
        return np.conj(np.swapaxes(np.linalg.cholesky(np.conj(np.swapaxes(x, -1, -2))), -1, -2))
    return np.linalg.cholesky(x)


def _matrix_rank(x: Array) -> Array:
    return np.asarray(np.linalg.matrix_rank(x) if x.size else np.zeros(x.shape[:-2], np.int64))  # NumPy < 2.4 refuses


def _lstsq(x1: Array, x2: Array) -> Any:
    x1, x2 = x1 * np.float64(1), x2 * np.float64(1)
    solution = np.linalg.pinv(x1) @ x2
    residual = x1 @ solution - x2
    squares = np.sum(np.abs(residual) ** 2, -1 if x2.ndim == 1 else -2)
    return solution, squares, _matrix_rank(x1), np.linalg.svd(x1, compute_uv=False)


def _matrix_exp(x: Array) -> Array:
    """The sum of the series for a sixteenth of the matrix, squared four times."""
    unit = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    term, total = unit, unit
    for k in range(1, 25):
        term = term @ (x / 16) / k
        total = total + term
    for _ in range(4):
        total = total @ total
    return total


def _diagonal_embed(g: Array, shape: Sequence[int], offset: int) -> Array:
    out = np.zeros(shape, g.dtype)
    for i in range(g.shape[-1]):
        out[..., i + max(-offset, 0), i + max(offset, 0)] = g[..., i]
    return out


def _trace(x: Array, offset: int = 0) -> Any:
    wanted: Any = {"b": np.int64, "i": np.int64, "u": np.uint64}.get(x.dtype.kind, x.dtype)
    return np.trace(x, offset, -2, -1, wanted)


def _vecdot(x1: Array, x2: Array, axis: int = -1) -> Any:
    dtype = np.result_type(x1, x2)
    return np.any(x1 & x2, axis) if dtype.kind == "b" else np.sum(np.conj(x1) * x2, axis, dtype=dtype)


def _vector_norm(x: Array, **options: Any) -> Array:
    return np.asarray(np.linalg.vector_norm(np.asarray(x, np.result_type(x, np.float16)), **options))


_cummax, _cummin = _running(np.maximum), _running(np.minimum)

BLOCK_REFERENCES: Final[Mapping[str, Callable[..., Any]]] = {
    "index_sum": lambda x, indices, source: _index_reduce(x, indices, source, "add"),
    "index_reduce": _index_reduce,
    "gather": lambda x, indices, axis=-1: x[_along(indices, axis)],
    "scatter": _scatter,
    "scatter_add": lambda x, indices, source, axis=-1: _scatter(x, indices, source, axis, reduce="add"),
    "index_add": _index_add,
    "index_copy": _index_copy,
    "index_fill": _index_copy,
    "select": _select,
    "choose": lambda indices, choices: np.choose(np.where(indices < 0, indices + len(choices), indices), choices),
    "masked_fill": lambda x, mask, value: np.where(mask, np.asarray(value).astype(x.dtype), x),
    "masked_select": lambda x, mask: x[np.broadcast_to(mask, x.shape)],
    "nonzero_rows": lambda x: np.array(np.nonzero(x)),
    "unravel_rows": lambda indices, shape: np.array(np.unravel_index(indices, shape)),
    "ravel_multi_index": _ravel_multi_index,
    "affine_scan": _affine_scan,
    "running_max": lambda x, axis: np.maximum.accumulate(x, axis),
    "running_min": lambda x, axis: np.minimum.accumulate(x, axis),
    "gather_rows": lambda x, index, operator, message="": _gather_rows(x, index, operator),
    "scatter_rows_": _scatter_rows,
    "sort_rows": lambda x: (np.sort(x, 1, "stable"), np.argsort(x, 1, "stable")),
    "sort": _sort,
    "argsort": _argsort,
    "sorting_order": _sorting_order,
    "mean_of_runs": _mean_of_runs,
    "invert_order": np.argsort,
    "in_order": lambda x, order, starts, axis: np.take_along_axis(x, order, axis),
    "place_sorted": np.searchsorted,
    "topk": _topk,
    "top_indices": lambda x, k, axis, largest: _topk(x, k, axis, largest)[1],
    "top_values": lambda x, indices, axis, largest: np.take_along_axis(x, indices, axis),
    "cummax": _cummax,
    "cummin": _cummin,
    "cummax_pairs": _cummax,
    "cummin_pairs": _cummin,
    "unique_parts": lambda x: _unique(x)[1:],
    "unique_values": lambda x: _unique(x)[0],
    "unique_all": _unique,
    "unique_counts": lambda x: _unique(x)[::3],
    "unique_inverse": lambda x: _unique(x)[::2],
    "among": _isin,
    "isin": _isin,
    "diagonal_embed": _diagonal_embed,
    "trace": _trace,
    "vecdot": _vecdot,
    "outer": lambda x1, x2: x1[:, None] * x2[None, :],
    "contract": lambda x1, x2, left, right: np.tensordot(x1, x2, (left, right)).astype(np.result_type(x1, x2)),
    "einsum": lambda subscripts, operands: np.einsum(subscripts, *operands),
    "linalg_cross": lambda x1, x2, axis=-1: np.cross(x1, x2, axis=axis),
    "linalg_multi_dot": lambda tensors: np.asarray(np.linalg.multi_dot(tensors)),
    "linalg_adjugate": lambda x: np.linalg.det(x)[..., None, None] * np.linalg.inv(x),
    "linalg_eig": lambda x: tuple(map(_complex, np.linalg.eig(x))),
    "linalg_eigvals": lambda x: _complex(np.linalg.eigvals(x)),
    "linalg_cholesky": _cholesky,
    "linalg_matrix_rank": _matrix_rank,
    "linalg_lstsq": _lstsq,
    "linalg_matrix_exp": _matrix_exp,
    "linalg_vector_norm": _vector_norm,
}
