"""Indexing and the elements of ``ndarray``: ``x[index]``, iteration, ``x.T``, and conversions to Python.

Note [Elements are copies]
~~~~~~~~~~~~~~~~~~~~~~~~~~
An element of a NumPy array is a scalar: it does not change when the array does. Here it is a 0-d array, and a copy for
the same reason, so that ``t = x[0]; x[0] = x[1]; x[1] = t`` exchanges two elements. ``x[0, ...]`` is a view in both.
An index that is a 0-d array of an integer selects what the integer does, a view too, as it stands for a scalar.
Guarded by ``tests/numpy/test_elements.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, Final

import numpy as np

from ...core.device import base_word
from ...core.tensor import Tensor
from ...core.word import DTYPE_MASK, DTYPE_TRAIT, WEAK_MASK, WEAK_TRAIT, dtypes_of
from ...dispatch.errors import shown
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from ...ops.builtin.shape.copying import cast as in_dtype
from ..array_class import as_ndarrays, ndarray
from ..call_rules.quick_calls import is_ours
from ..compiled_calls.class_slots import Compiled, compiled
from ..compiled_calls.ufunc_plans import Plans
from ..converting import operand
from ..known import functions

__all__ = ["element_methods"]

_tensor: Final[Any] = Tensor  # whose methods and properties have descriptors
_tensor_getitem: Final[Any] = Tensor.__getitem__
_tensor_setitem: Final[Any] = Tensor.__setitem__
_tensor_reversed: Final[Any] = vars(Tensor)["T"].fget
_clone: Final[Any] = registry.find("tk::clone").call
_DTYPE_OR_WEAK: Final = DTYPE_MASK | WEAK_MASK
_INEXACT: Final = sum(trait for dtype, trait in DTYPE_TRAIT.items() if dtype.kind in "fc")
_NUMBERS: Final = _INEXACT | sum(trait for dtype, trait in DTYPE_TRAIT.items() if dtype.kind in "iu")
_PLAIN: Final = base_word("cpu")
_INDEXES: Final = tuple([DTYPE_TRAIT[np.dtype(name)] for name in ("?", "i4", "i8")])
"""The dtypes of indexes that compiled calls take."""


def _getitem(self: Tensor, index: Any) -> Any:
    try:
        made = _tensor_getitem(self, index)
    except IndexError as error:
        if "tensors of integers or bools" in str(error):
            raise IndexError(f"{error} arrays used as indices must be of integer (or boolean) type") from None
        raise
    if not made._data.shape and made._storage is not None and not _has_ellipsis(index):
        made = _clone(made)  # Note [Elements are copies]
    if made.__class__ is Tensor:
        made.__class__ = ndarray
    return made


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
        value = operand(value, weak=True)
        if not isinstance(value, Tensor):
            raise TypeError(f"[setitem] an array of dtype {self.dtype} takes numbers, got {shown(value)}.")
    if not value._word & WEAK_MASK and value.dtype != self.dtype:
        value = in_dtype(value, self.dtype)
    elif value._word & WEAK_MASK and value._word & WEAK_TRAIT[complex] and self.dtype.kind != "c":
        raise TypeError(f"[setitem] a complex number cannot be written into an array of dtype {self.dtype}.")
    if isinstance(value, Tensor) and value.ndim > len(self.shape):  # NumPy drops leading axes of length 1
        value = value.reshape(value.shape[value.ndim - max(_tensor_getitem(self, index).ndim, 0) :])
    _tensor_setitem(self, index, value)


def _iter(self: Tensor) -> Iterator[Any]:
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d array")
    return map(self.__getitem__, range(self.shape[0]))


def _contains(self: Any, value: Any) -> bool:
    return bool(functions["any"](self == value))


def _reversed(self: Any) -> Any:
    return as_ndarrays(_tensor_reversed(self), (self,))


# ---- compiled calls

_ALONE: Final = ("basic_index", "basic_put_", "permute_dims")  # operators that compiled calls stand for
_WITH_INDEXES: Final = ("index", "put_")  # those that take arrays of indexes


class _Learning:
    """The plans of indexing: made when an index takes its way in Python, erased when a kernel is registered."""

    def __init__(self, code: Compiled) -> None:
        self._seen: set[int] = set()
        self._operators: dict[str, Operator] = {}
        self._blocks: dict[str, Plans] = {}
        for name in (*_ALONE, *_WITH_INDEXES):
            operator = self._operators[name] = registry.find(f"tk::{name}")
            self._blocks[name] = Plans(code.address, None, None, (0, 0, 0))
            operator.watchers.append(self._forget)

    def address(self, name: str) -> int:
        """Return the address of the plans of an operator."""
        return self._blocks[name].address

    def _forget(self) -> None:
        self._seen.clear()
        for block in self._blocks.values():
            block.clear()

    def method(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method that makes the plans for the words that it meets."""

        def call(self: Any, *given: Any) -> Any:
            made = own(self, *given)  # which may install kernels, and so erase plans
            if self._word not in seen:
                learn(self._word)
            return made

        seen, learn = self._seen, self._learn
        call.__name__ = own.__name__
        call.__doc__ = own.__doc__
        return call

    def _learn(self, word: int) -> None:
        self._seen.add(word)
        if word & ~DTYPE_MASK != _PLAIN:
            return
        (dtype,) = dtypes_of(word & DTYPE_MASK)
        if dtype.kind not in "biufc":
            return
        for name in _ALONE:
            if is_ours(self._operators[name], word):
                self._blocks[name].add(word, word, (dtype,), dtype)
        for name in _WITH_INDEXES:
            for other in _INDEXES:
                if is_ours(self._operators[name], word | other):
                    self._blocks[name].add(word | other, word, (dtype,), dtype)


def element_methods() -> dict[str, Any]:
    """Return the methods of ``ndarray`` for its elements by name, without those that its class has as slots."""
    named: dict[str, Any] = {
        "__getitem__": _getitem, "__setitem__": _setitem, "__iter__": _iter, "__contains__": _contains,
        "T": property(_reversed), "ndim": property(attrgetter("_data.ndim")),
        "dtype": property(attrgetter("_data.dtype")),
    }  # fmt: skip
    code = compiled()
    if code is not None:
        learning = _Learning(code)
        views = learning.address("basic_index")
        code.set_method("getitem", views, learning.method(named.pop("__getitem__")), learning.address("index"))
        own = learning.method(named.pop("__setitem__"))
        code.set_method("setitem", learning.address("basic_put_"), own, learning.address("put_"))
        code.set_method("T", learning.address("permute_dims"), learning.method(named.pop("T").fget), None)
        for name in ("ndim", "dtype"):
            code.set_method(name, 0, named.pop(name).fget, None)
        for name in ("len", "bool", "float", "int", "index"):
            code.set_method(name, views, learning.method(getattr(_tensor, f"__{name}__")), None)
    return named
