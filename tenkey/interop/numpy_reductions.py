"""Reductions and orders with NumPy's rarer arguments and dtypes: ``where=``, ``initial=``, complex numbers.

A row of ``numpy_table.py`` calls the operator of ``tk``. Where that has no counterpart for an argument or does not take
a dtype, the function here of the same name computes the same by several operators, so with gradients and on every
device. Complex numbers are ordered by the real and then the imaginary part, as in NumPy.
Guarded by ``tests/numpy/test_table_mathematics.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from ..functions.calculating.masked_reductions import masked_reduction
from ..functions.calculating.orders import complex_argsort, complex_extreme, complex_place, sort_complex
from ..ops.shapes import checked_axis
from .numpy_fallback import as_tensor, by_name, op

__all__ = ["FUNCTIONS"]


def _extreme(
    name: str, a: Any, axis: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Any:
    a = as_tensor(a)
    if a.dtype.kind != "c":
        return masked_reduction(name, a, axis, where=where, keepdims=keepdims, initial=initial)
    if any(v is not None and v is not True for v in (initial, where)):
        raise NotImplementedError(f"[{name}] of complex numbers does not take initial=, where=.")
    smallest = name.endswith("min")
    if not name.startswith("nan"):
        return complex_extreme(a, axis, keepdims=keepdims, smallest=smallest)
    isnan, end = op("isnan")(a), complex(np.inf, np.inf) * (1 if smallest else -1)
    found = complex_extreme(op("where")(isnan, end, a), axis, keepdims=keepdims, smallest=smallest)
    return op("where")(op("all")(isnan, axis=axis, keepdims=keepdims), np.nan, found)


def _place(name: str, a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    if a.dtype.kind == "b":
        return op(name)(op("astype")(a, np.dtype(np.uint8)), axis=axis, keepdims=keepdims)
    return complex_place(a, axis, keepdims=keepdims, smallest=name == "argmin")


def _ptp(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    if a.dtype.kind != "c":
        return op("max")(a, axis, keepdims=keepdims) - op("min")(a, axis, keepdims=keepdims)
    ends = [complex_extreme(a, axis, keepdims=keepdims, smallest=smallest) for smallest in (False, True)]
    return ends[0] - ends[1]


def _argsort(a: Any, axis: int = -1) -> Any:
    return complex_argsort(a if a.ndim else op("reshape")(a, (1,)), axis)


def _sort(a: Any, axis: int = -1) -> Any:
    return op("take_along_axis")(a, complex_argsort(a, axis), axis=axis)


def _partition(name: str, a: Any, kth: Any, axis: int = -1) -> Any:
    size = a.shape[checked_axis(name, axis, a.ndim)]
    for k in kth if isinstance(kth, (list, tuple)) else [kth]:
        if not -size <= int(k) < size:
            raise ValueError(f"[{name}] kth(={k}) out of bounds ({size}).")
    return (_argsort if name == "argpartition" else _sort)(a, axis)


def _lanes(a: Any, axis: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the elements with those along ``axis`` as the last dimension, and the axes."""
    axes = tuple(range(a.ndim)) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple([checked_axis("median", i, a.ndim) for i in axes])
    rest = [i for i in range(a.ndim) if i not in axes]
    moved = op("permute_dims")(a, (*rest, *axes))
    return op("reshape")(moved, (*[a.shape[i] for i in rest], -1)), axes


def _median(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    lanes, axes = _lanes(a, axis)
    n = lanes.shape[-1]
    ordered = sort_complex(lanes)
    found = (ordered[..., (n - 1) // 2] + ordered[..., n // 2]) / 2
    found = op("where")(op("isnan")(ordered[..., -1]), ordered[..., -1], found)
    return _kept(found, a, axes, keepdims)


def _nanmedian(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    lanes, axes = _lanes(a, axis)
    isnan = op("isnan")(lanes)
    ordered = op("take_along_axis")(lanes, complex_argsort(lanes), axis=-1)
    count = op("sum")(~isnan, axis=-1, keepdims=True)
    parts = [op("maximum")((count - 1) // 2, 0), op("minimum")(count // 2, lanes.shape[-1] - 1)]
    found = sum(op("take_along_axis")(ordered, part, axis=-1) for part in parts)[..., 0] / 2
    return _kept(op("where")(count[..., 0] == 0, np.nan, found), a, axes, keepdims)


def _kept(found: Any, a: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return op("reshape")(found, tuple([1 if i in axes else n for i, n in enumerate(a.shape)])) if keepdims else found


def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Return the places for complex numbers: how many of the data precede each of them in the order of all."""
    if sorter is not None:
        a = a[sorter]
    wanted = op("reshape")(v, (-1,))
    first = side == "left"
    n, m = a.shape[0], wanted.shape[0]
    order = complex_argsort(op("concat")([wanted, a] if first else [a, wanted]))
    is_data = order >= m if first else order < n
    before = op("cumsum")(op("astype")(is_data, np.dtype(np.int64)))
    places = op("take")(before, op("argsort")(order), axis=0)
    return op("reshape")(places[:m] if first else places[n:], v.shape)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **by_name(_ptp, _sort, _argsort, _median, _nanmedian, _searchsorted),
    **{name: partial(masked_reduction, name) for name in ("sum", "prod", "nansum", "nanprod", "count_nonzero")},
    **{name: partial(masked_reduction, name) for name in ("any", "all", "mean", "var", "std")},
    **{name: partial(masked_reduction, name) for name in ("nanmean", "nanvar", "nanstd")},
    **{name: partial(_extreme, name) for name in ("max", "min", "nanmax", "nanmin")},
    "amax": partial(_extreme, "max"),
    "amin": partial(_extreme, "min"),
    **{name: partial(_place, name) for name in ("argmax", "argmin")},
    **{name: partial(_partition, name) for name in ("partition", "argpartition")},
}  # fmt: skip
"""Functions for arguments and dtypes that the operator of a row does not take, by NumPy's names."""
