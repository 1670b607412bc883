"""The operators of ``ndarray``: ufuncs, which give NumPy's dtypes.

Note [In-place operators of arrays]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``x += y`` writes into the memory of ``x``, as in NumPy, and raises an error if the result does not fit the dtype. A 0-d
array where NumPy has a scalar (Note [Scalars and 0-d arrays]: it requires a gradient, or is used in a transform) is the
exception. A scalar cannot be changed, so that ``x += y`` gives the name another array, and ``total = np.sum(x); total
+= 1`` leaves other names of the sum as they are. (``x[...] += 1`` writes into such an array.)
Guarded by ``tests/numpy/test_array_class.py::test_in_place``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...core.lift import weak_tensor
from ...core.plans import make_table, new_plan, refuse, use_array_table
from ...core.tensor import Tensor, cpu_word
from ...core.tensor_base import SLOT_NAMES
from ...core.word import DTYPE_MASK, DTYPE_TRAIT, REQUIRES_GRAD, WEAK_MASK
from ...dispatch.registry import registry
from ..array_class import as_scalars, is_scalar, ndarray
from ..call_rules.quick_calls import is_ours, small_call
from ..known import functions
from ..namespace import universal

__all__ = ["BINARY", "is_foreign", "operators"]

BINARY: Final = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift", "divmod": "divmod",
}  # fmt: skip
_COMPARISONS: Final = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
_UNARY: Final = {"neg": "negative", "pos": "positive", "invert": "invert", "abs": "absolute"}
_USUAL: Final = frozenset([ndarray, Tensor, float, int, np.ndarray])
_OTHERS: Final = (str, dict, set, type(None))  # which are not operands


def is_foreign(x: Any) -> bool:
    """Return whether an operand's own class computes: it has ``__array_ufunc__`` and is not a NumPy array."""
    if isinstance(x, (Tensor, np.ndarray, np.generic, bool, int, float, complex, list, tuple)):
        return False
    return getattr(x, "__array_ufunc__", np.ndarray.__array_ufunc__) is None or hasattr(x, "__array_priority__")


def _has_own_ufuncs(x: Any) -> bool:
    """Return whether an operand's own class computes ufuncs, so that its shape says nothing of the result."""
    found = getattr(type(x), "__array_ufunc__", np.ndarray.__array_ufunc__)
    return found is not np.ndarray.__array_ufunc__ and not isinstance(x, (Tensor, np.generic))


def _binary(name: str, *, reflected: bool) -> Callable[..., Any]:
    call = universal[name]
    others = _OTHERS[1:] if name == "multiply" else _OTHERS  # text would repeat itself by a 0-d array

    def method(self: Any, other: Any) -> Any:
        if other.__class__ not in _USUAL and (is_foreign(other) or isinstance(other, others)):
            return NotImplemented
        return call(other, self) if reflected else call(self, other)

    return method


def _short_power(x: Any, exponent: Any) -> str | None:
    """Return the ufunc that NumPy's operators take for ``x**exponent``; of bools, squares are in int8."""
    if exponent.__class__ is int and exponent == 2:
        return "square"
    if x._word & DTYPE_MASK not in _INEXACT or not (x._data.shape or is_scalar(x)):  # one that stands for a scalar
        return None
    if exponent.__class__ is float and exponent == 0.5:
        return "sqrt"
    return "reciprocal" if exponent.__class__ is int and exponent == -1 else None


def _power(method: Callable[..., Any], *, in_place: bool) -> Callable[..., Any]:
    """Return ``x**y``, or ``x **= y``."""

    def power(self: Any, other: Any) -> Any:
        fits = not in_place or (self._word & DTYPE_MASK in _INEXACT and (self._data.shape or is_scalar(self)))
        short = _short_power(self, other) if fits else None
        if short is None:
            return method(self, other)
        return universal[short](self, out=self) if in_place else universal[short](self)

    return power


def _comparison(name: str) -> Callable[..., Any]:
    call, unequal = universal[name], name == "not_equal"

    def method(self: Any, other: Any) -> Any:
        if other.__class__ not in _USUAL:
            if is_foreign(other):
                return NotImplemented
            if isinstance(other, _OTHERS):
                if name not in ("equal", "not_equal"):
                    return NotImplemented
                return as_scalars(functions["full"](self.shape, unequal))
        return call(self, other)

    return method


def _in_place(name: str, own: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return ``x += y`` and its like; ``own`` is the tensor's, which floats of one dtype and their numbers share."""
    call = universal[name]

    def method(self: Any, other: Any) -> Any:
        if not self._data.shape and not is_scalar(self):
            return call(self, other)
        if other.__class__ is not ndarray and (is_foreign(other) or isinstance(other, _OTHERS)):
            return NotImplemented
        has_shape = name == "matmul" and not _has_own_ufuncs(other)
        if has_shape and (np.ndim(other) < 2 or np.shape(other)[-1] != self.shape[-1]):
            raise ValueError(
                f"[matmul] inplace matrix multiplication (x @= y) requires a matrix y with as many columns as x, got "
                f"shapes {self.shape} and {np.shape(other)}: write x = x @ y."
            )
        return call(self, other, out=self)

    if own is None:
        return method

    def fast(self: Any, other: Any) -> Any:
        dtype = self._word & DTYPE_MASK
        if dtype in _INEXACT and (self._data.shape or is_scalar(self)):
            kind = other.__class__
            if kind is float or kind is int:
                return own(self, weak_tensor(other))
            if kind is ndarray and other._word & _DTYPE_OR_WEAK == dtype:
                return own(self, other)
        return method(self, other)

    return fast


_INEXACT: Final = frozenset([DTYPE_TRAIT[np.dtype(name)] for name in ("f2", "f4", "f8", "c8", "c16")])
_DTYPE_OR_WEAK: Final = DTYPE_MASK | WEAK_MASK
_OWN_IN_PLACE: Final = frozenset(["add", "sub", "mul", "truediv"])


def _unary(name: str) -> Callable[..., Any]:
    call = universal[name]
    return lambda self: call(self)


def operators() -> dict[str, Any]:
    """Return the special methods of ``ndarray`` that are ufuncs, by name."""
    found: dict[str, Any] = {}
    for name, call in BINARY.items():
        found[f"__{name}__"] = _binary(call, reflected=False)
        found[f"__r{name}__"] = _binary(call, reflected=True)
        if name != "divmod":
            own = getattr(Tensor, f"{call}_") if name in _OWN_IN_PLACE else None
            found[f"__i{name}__"] = _in_place(call, own)
    found.update({name: _power(found[name], in_place=name == "__ipow__") for name in ("__pow__", "__ipow__")})
    found.update({f"__{name}__": _comparison(call) for name, call in _COMPARISONS.items()})
    found.update({f"__{name}__": _unary(call) for name, call in _UNARY.items()})
    names = {**BINARY, **_COMPARISONS, **_UNARY}
    for name in SLOT_NAMES & names.keys():  # the slots of the compiled core call these
        table = universal[names[name]].new_table(found.pop(f"__{name}__"), found.pop(f"__r{name}__", None))
        use_array_table(name, table)
    for name in _OWN_IN_PLACE & {name.removeprefix("i") for name in SLOT_NAMES}:
        use_array_table(f"i{name}", _in_place_table(BINARY[name], found.pop(f"__i{name}__")))
    if SLOT_NAMES:
        for name in ("square", "sqrt", "reciprocal"):
            use_array_table(name, universal[name].new_table(universal[name]))
    return found


def _in_place_table(name: str, method: Callable[..., Any]) -> Any:
    """Return the table of an in-place operator, whose result has the dtype of the array."""
    call, own = universal[name], registry.find(f"tk::{name}_")

    def plan(key: int) -> Any:
        found = None if key & REQUIRES_GRAD else small_call(call._numpy, call._operator, key)
        if found is None or found.given[:1] != (found.result,) or not is_ours(own, key & ~WEAK_MASK):
            return refuse()
        types = "".join([dtype.char for dtype in (*found.given, found.result)])
        return new_plan(found.word, call._numpy, types, found.result)

    watched = [own] if call._operator is None else [own, call._operator]
    return make_table(method, None, plan, tuple(watched), float64_word=cpu_word(np.dtype("f8")))
