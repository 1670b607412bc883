"""Functions of shapes, elements and polynomials as NumPy calls them, over the functions of tenkey.

Rows of ``ADAPTED`` in ``numpy_table.py``. Guarded by ``tests/interop/test_numpy_functions.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from ..core.tensor import Tensor
from ..functions import indexing, splitting
from ..functions.creation import asarray
from ..functions.rearranging import joining
from .numpy_fallback import as_tensor, by_name, op
from .numpy_names import NUMPY_NAMES
from .numpy_order import ravel, reshaped

__all__ = ["FUNCTIONS"]


def _listed(arrays: Any) -> list[Tensor]:
    """Return a sequence of arrays, or the slices of an array along its first axis, as tensors."""
    return [as_tensor(x) for x in arrays]


def _cast(x: Tensor, dtype: np.dtype) -> Tensor:
    if x.dtype == dtype:
        return x
    source = op("real")(x) if x.dtype.kind == "c" and dtype.kind not in "cb" else x
    return op("astype")(source, dtype)  # type: ignore[no-any-return]


# ---- joining and cutting


def _joined(name: str, arrays: Any, dtype: Any, casting: Any, **axis: Any) -> Any:
    given = _listed(arrays)
    if dtype is not None:
        wanted = np.dtype(dtype)
        for x in given:
            if not np.can_cast(x.dtype, wanted, casting):
                raise TypeError(
                    f"Cannot cast array data from {x.dtype!r} to {wanted!r} according to the rule {casting!r}"
                )
        given = [_cast(x, wanted) for x in given]
    return op(name)(given, **axis)


def _along(name: str, arrays: Any, axis: int = 0, dtype: Any = None, casting: Any = "same_kind") -> Any:
    return _joined(name, arrays, dtype, casting, axis=axis)


def _append(arr: Any, values: Any, axis: int | None = None) -> Any:
    x, tail = as_tensor(arr), as_tensor(values)
    common = np.result_type(x.dtype, tail.dtype)
    return joining.append(_cast(x, common), _cast(tail, common), axis)


def _insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    x, new = as_tensor(arr), as_tensor(values)
    return joining.insert(x, obj, _cast(new, x.dtype), axis)


def _pieces(function: Callable[..., Any], ary: Any, places: Any, **axis: Any) -> list[Any]:
    """Split into a list, as NumPy's functions do."""
    return list(function(ary, places.tolist() if isinstance(places, (Tensor, np.ndarray)) else places, **axis))


def _block(arrays: Any) -> Any:
    leaves: list[Tensor] = []

    def convert(x: Any) -> Any:
        if isinstance(x, list):
            return [convert(one) for one in x]
        leaves.append(as_tensor(x))
        return leaves[-1]

    nested = convert(arrays)
    common = np.result_type(*[x.dtype for x in leaves])

    def promote(x: Any) -> Any:
        return [promote(one) for one in x] if isinstance(x, list) else _cast(x, common)

    return splitting.block(promote(nested))


# ---- shapes


def _broadcast_to(array: Any, shape: Any) -> Any:
    if isinstance(shape, (Tensor, np.ndarray)):
        shape = shape.tolist()
    return op("broadcast_to")(array, tuple(shape) if isinstance(shape, Sequence) else (int(shape),))


def _rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    n = a.ndim
    if not -n <= axis < n:
        raise np.exceptions.AxisError(axis, n)
    if not -n <= start <= n:
        raise np.exceptions.AxisError(f"'start' arg requires {-n} <= start < {n + 1}, but {start} was passed in")
    axis, start = axis % n, start + n if start < 0 else start
    return op("moveaxis")(a, axis, start - 1 if axis < start else start)


def _squeeze(a: Any, axis: Any = None) -> Any:
    axes = () if axis is None else tuple(axis) if isinstance(axis, Sequence) else (axis,)
    if not a.ndim and all(i in (0, -1) for i in axes):
        return a
    return Tensor.squeeze(a) if axis is None else Tensor.squeeze(a, axes)


def _triangle(name: str, m: Any, k: int = 0) -> Any:
    return op(name)(op("broadcast_to")(m, (m.shape[0], m.shape[0])) if m.ndim == 1 else m, k=k)


def _meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> tuple[Any, ...]:
    given = [ravel(as_tensor(x)) for x in xi]
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    n = len(given)
    places = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    shaped = [reshaped(x, [-1 if i == place else 1 for i in range(n)]) for x, place in zip(given, places)]
    if sparse:
        return tuple([op("clone")(x) for x in shaped] if copy else shaped)
    full = np.broadcast_shapes(*[x.shape for x in shaped]) if shaped else ()
    spread = [op("broadcast_to")(x, full) for x in shaped]
    return tuple([op("clone")(x) for x in spread] if copy else spread)


# ---- elements


def _in_range(function: str, indices: Tensor, length: int, mode: str) -> Tensor:
    if mode == "wrap":
        return op("remainder")(indices, max(length, 1))  # type: ignore[no-any-return]
    if mode == "clip":
        return op("clip")(indices, 0, max(length - 1, 0))  # type: ignore[no-any-return]
    if mode != "raise":
        raise ValueError(f"[numpy.{function}] mode is 'raise', 'wrap' or 'clip', got {mode!r}.")
    return indices


def _indices(function: str, indices: Any, casting: Any = "safe") -> Tensor:
    found = as_tensor(indices)
    if found.dtype.kind == "f" and not found.size:
        return _cast(found, np.dtype(np.int64))
    if not np.can_cast(found.dtype, np.int64, casting):
        raise TypeError(
            f"[numpy.{function}] Cannot cast array data from {found.dtype!r} to dtype('int64') according to the rule "
            f"{casting!r}: indices are integers."
        )
    return _cast(found, np.dtype(np.int64)) if found.dtype.char in "?QL" else found


def _take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Any:
    if not a.ndim and axis in (0, -1):
        a = op("reshape")(a, (1,))
    at = _in_range("take", _indices("take", indices), a.size if axis is None else a.shape[axis], mode)
    return op("take")(a, at, axis=axis)


def _choose(a: Any, choices: Any, mode: str = "raise") -> Any:
    given = _listed(choices)
    common = np.result_type(*[x.dtype for x in given])
    at = _in_range("choose", _indices("choose", a), len(given), mode)
    shape = np.broadcast_shapes(at.shape, *[x.shape for x in given])
    spread = op("broadcast_to")
    try:
        return op("choose")(spread(at, shape), [spread(_cast(x, common), shape) for x in given])
    except IndexError as error:
        raise ValueError(f"invalid entry in choice array: {error}") from None


def _vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    return op("vander")(_cast(x, np.promote_types(x.dtype, np.int64)), N, increasing=increasing)


def _pad(array: Any, pad_width: Any, mode: Any = "constant", *, reflect_type: str = "even", **options: Any) -> Any:
    if reflect_type == "odd" and mode in ("reflect", "symmetric"):
        return _pad_oddly(array, pad_width, mode == "symmetric")
    return op("pad")(array, pad_width, "constant" if mode == "empty" else mode, **options)


def _pad_oddly(x: Any, pad_width: Any, symmetric: bool) -> Any:
    """Return an array with borders that are turned by half a circle around its ends, instead of mirrored there."""
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    if x.dtype.kind == "b" or not x.size or any(type(n) is not int or n < 0 for pair in widths for n in pair):
        raise NotImplementedError("[pad] an odd border of bools, of nothing or of these widths has no operator.")
    for axis, (before, after) in enumerate(widths):
        n = x.shape[axis]
        parts = _odd_border(x, axis, -before, 0, symmetric), x, _odd_border(x, axis, n, n + after, symmetric)
        x = op("concat")(parts, axis=axis)
    return x


def _odd_border(x: Any, axis: int, start: int, stop: int, symmetric: bool) -> Any:
    """Return the elements outside of an axis: with each period they rise by twice the difference of the ends."""
    n, whole = x.shape[axis], (slice(None),) * axis
    period = 2 * n if symmetric else max(2 * (n - 1), 1)
    turns, rest = np.divmod(np.arange(start, stop), period)
    turned = rest >= n
    places = asarray(np.where(turned, period - rest - symmetric, rest), device=x.device)
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    factors = (1 - 2 * turned, 2 * (turns + turned), -2 * turns)
    sign, ends, starts = (asarray(k.reshape(shape).astype(x.dtype), device=x.device) for k in factors)
    first, last = x[(*whole, slice(0, 1))], x[(*whole, slice(n - 1, n))]
    return op("take")(x, places, axis=axis) * sign + last * ends + first * starts


def _mask(condition: Any) -> Tensor:
    found = as_tensor(condition)
    return found if found.dtype.kind == "b" else op("not_equal")(found, 0)


def _compress(condition: Any, a: Any, axis: int | None = None) -> Any:
    chosen = _mask(condition)
    if chosen.ndim != 1:
        raise ValueError("condition must be a 1-d array")
    x = ravel(a) if axis is None else a
    i = 0 if axis is None else axis
    return op("take")(x, indexing.nonzero(chosen)[0], axis=i)


def _extract(condition: Any, arr: Any) -> Any:
    return op("take")(ravel(as_tensor(arr)), indexing.nonzero(ravel(_mask(condition)))[0], axis=0)


def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    count = as_tensor(repeats)
    if not np.can_cast(count.dtype, np.int64, "safe") and (count.size or count.dtype.kind != "f"):
        raise TypeError(f"Cannot cast array data from {count.dtype!r} to dtype('int64') according to the rule 'safe'")
    return op("repeat")(a, _cast(count, np.dtype(np.int64)), axis=axis)


def _ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    given = [_indices("ravel_multi_index", x, "same_kind") for x in multi_index]
    lengths = (dims,) if isinstance(dims, (int, np.integer)) else tuple(dims)
    modes = (mode,) * len(lengths) if isinstance(mode, str) else tuple(mode)
    if len(given) != len(lengths) or len(modes) != len(lengths):
        raise ValueError(f"parameter multi_index must be a sequence of length {len(lengths)}")
    given = [_in_range("ravel_multi_index", x, n, m) for x, n, m in zip(given, lengths, modes)]
    if order not in ("C", "F"):
        raise ValueError(f"only 'C' or 'F' order is permitted (got {order!r})")
    step = -1 if order == "F" else 1
    return op("ravel_multi_index")(given[::step], lengths[::step])


def _unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    found = _indices("unravel_index", indices, "same_kind")
    lengths = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    if order not in ("C", "F"):
        raise ValueError(f"only 'C' or 'F' order is permitted (got {order!r})")
    step = -1 if order == "F" else 1
    return tuple(indexing.unravel_index(found, lengths[::step])[::step])


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **by_name(
        _append, _insert, _block, _broadcast_to, _rollaxis, _squeeze, _meshgrid, _take, _choose, _vander,
        _pad, _compress, _extract, _repeat, _ravel_multi_index, _unravel_index,
    ),
    "reshape": lambda a, shape, order="C", copy=None: reshaped(a, shape, order, copy),
    "ravel": lambda a, order="C": ravel(a, order),
    **{name: partial(_along, NUMPY_NAMES.get(name, name)) for name in ("concatenate", "concat", "stack")},
    "vstack": lambda tup, dtype=None, casting="same_kind": _joined("vstack", tup, dtype, casting),
    "hstack": lambda tup, dtype=None, casting="same_kind": _joined("hstack", tup, dtype, casting),
    "dstack": lambda tup: op("dstack")(_listed(tup)),
    "column_stack": lambda tup: joining.column_stack(_listed(tup)),
    "delete": lambda arr, obj, axis=None: joining.delete(as_tensor(arr), obj, axis),
    "resize": lambda a, new_shape: joining.resize(as_tensor(a), new_shape),
    "trim_zeros": lambda filt, trim="fb", axis=None: joining.trim_zeros(as_tensor(filt), trim, axis),
    "split": lambda ary, indices_or_sections, axis=0: _pieces(splitting.split, ary, indices_or_sections, axis=axis),
    "array_split": lambda ary, indices_or_sections, axis=0: _pieces(
        splitting.array_split, ary, indices_or_sections, axis=axis
    ),
    **{name: partial(_pieces, getattr(joining, name)) for name in ("hsplit", "vsplit", "dsplit")},
    **{name: partial(_triangle, name) for name in ("tril", "triu")},
}  # fmt: skip
"""Functions that are not quite those of ``tk``, by NumPy's names."""
