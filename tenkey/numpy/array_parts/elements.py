"""Indexing and the elements of ``ndarray``: ``x[index]``, iteration, ``x.T``, and conversions to Python.

Note [Elements are copies]
~~~~~~~~~~~~~~~~~~~~~~~~~~
An element of a NumPy array is a scalar: it does not change when the array does. Where it is a 0-d array here (Note
[Scalars and 0-d arrays]), it is a copy for the same reason, so that ``t = x[0]; x[0] = x[1]; x[1] = t`` exchanges two
elements. ``x[0, ...]`` is a view in both. An index that is a 0-d array of an integer selects what the integer does, a
view too, as it stands for a scalar.
Guarded by ``tests/numpy/test_elements.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, Final

import numpy as np

from ...core.plans import table_of, transposed, use_array_table
from ...core.tensor import Tensor
from ...core.tensor_base import SLOT_NAMES
from ...core.word import DTYPE_MASK, DTYPE_TRAIT, WEAK_MASK, WEAK_TRAIT
from ...dispatch.errors import shown
from ...dispatch.registry import registry
from ...ops.builtin.indexing.getitem import getitem
from ...ops.builtin.indexing.setitem import setitem
from ...ops.builtin.shape.copying import cast as in_dtype
from ..array_class import as_ndarrays, as_scalars, ndarray
from ..converting import operand

__all__ = ["element_methods"]

_tensor_getitem: Final[Any] = getitem
_tensor_setitem: Final[Any] = setitem
_tensor_reversed: Final[Any] = vars(Tensor)["T"].fget
_clone: Final[Any] = registry.find("tk::clone").call
_BASIC: Final = frozenset([int, slice, type(None), type(Ellipsis)])
_DTYPE_OR_WEAK: Final = DTYPE_MASK | WEAK_MASK
_INEXACT: Final = sum(trait for dtype, trait in DTYPE_TRAIT.items() if dtype.kind in "fc")
_NUMBERS: Final = _INEXACT | sum(trait for dtype, trait in DTYPE_TRAIT.items() if dtype.kind in "iu")


def _getitem(self: Tensor, index: Any) -> Any:
    try:
        made = _tensor_getitem(self, index)
    except IndexError as error:
        if "tensors of integers or bools" in str(error):
            raise IndexError(f"{error} arrays used as indices must be of integer (or boolean) type") from None
        raise
    if made.__class__ is Tensor:
        made.__class__ = ndarray
    if not isinstance(made, Tensor) or made._data.shape or _has_ellipsis(index):
        return made  # a handler may return anything
    found = as_scalars(made)
    if found is made and made._storage is not None:  # Note [Elements are copies]
        found = as_ndarrays(_clone(made))
    return found


def _has_ellipsis(index: Any) -> bool:
    return index is Ellipsis or (index.__class__ is tuple and any(item is Ellipsis for item in index))


def _setitem(self: Any, index: Any, value: Any) -> None:
    kind, word = value.__class__, self._word & DTYPE_MASK
    if (
        (kind is int and word & _NUMBERS)
        or (kind is float and word & _INEXACT)
        or (kind is ndarray and value._word & _DTYPE_OR_WEAK == word and len(value.shape) <= len(self.shape))
    ):
        _tensor_setitem(self, index, value)
        return
    if not isinstance(value, Tensor):
        given, value = value, operand(value, weak=True)
        if not isinstance(value, Tensor):
            raise TypeError(f"[setitem] an array of dtype {self.dtype} takes numbers, got {shown(given)}.")
        ndim = _selected_ndim(self, index) if value.ndim else math.inf
        element = ndim == 0 and not _has_ellipsis(index)
        if element and not word & _NUMBERS:  # NumPy asks an object for its truth
            value = operand(bool(given), weak=True)
        elif isinstance(given, (list, tuple, range)) and value.ndim > ndim:
            number = element and self.dtype.kind != "f"  # for which NumPy calls int()
            raise (TypeError if number else ValueError)(
                f"[setitem] setting an array element with a sequence: {shown(given)} has {value.ndim} dimensions, and "
                f"what the index selects has {ndim}: give numbers for the elements, or select more of them."
            )
    if not value._word & WEAK_MASK and value.dtype != self.dtype:
        value = in_dtype(value, self.dtype)
    elif value._word & WEAK_MASK and value._word & WEAK_TRAIT[complex] and self.dtype.kind != "c":
        raise TypeError(f"[setitem] a complex number cannot be written into an array of dtype {self.dtype}.")
    if isinstance(value, Tensor) and value.ndim > len(self.shape):  # NumPy drops leading axes of length 1
        surplus = value.ndim - max(_tensor_getitem(self, index).ndim, 0)
        if all(n == 1 for n in value.shape[:surplus]):
            value = value.reshape(value.shape[surplus:])
    _tensor_setitem(self, index, value)


def _selected_ndim(self: Tensor, index: Any) -> float:
    """Return the number of dimensions of what a basic index selects, and infinity for other indexes."""
    items = index if index.__class__ is tuple else (index,)
    basic = all(item.__class__ in _BASIC or _is_number(item) for item in items)
    return _tensor_getitem(self, index).ndim if basic else math.inf


def _is_number(item: Any) -> bool:
    if isinstance(item, (Tensor, np.ndarray)):
        return item.ndim == 0 and item.dtype.kind in "iu"
    return not isinstance(item, (bool, np.bool)) and hasattr(item, "__index__")


def _iter(self: Tensor) -> Iterator[Any]:
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d array")
    return map(self.__getitem__, range(self.shape[0]))


def _reversed(self: Any) -> Any:
    return as_ndarrays(_tensor_reversed(self), (self,))


def element_methods() -> dict[str, Any]:
    """Return the methods of ``ndarray`` for its elements by name, without those that its class has as slots."""
    named: dict[str, Any] = {
        "__getitem__": _getitem, "__setitem__": _setitem, "__iter__": _iter,
        "T": transposed(registry.find("tk::permute_dims"), _reversed, of_arrays=True),
        "ndim": property(attrgetter("_data.ndim")), "dtype": property(attrgetter("_data.dtype")),
    }  # fmt: skip
    if SLOT_NAMES:
        for name, operator in {"getitem": "basic_index", "setitem": "basic_put_"}.items():
            use_array_table(name, table_of(registry.find(f"tk::{operator}"), named.pop(f"__{name}__")))
        for name, operator in {"take": "index", "put": "put_"}.items():
            use_array_table(name, table_of(registry.find(f"tk::{operator}"), registry.find(f"tk::{operator}").call))
    return named
