"""The names that statements use: numbers, gradients, and operands with methods of their own.

Reduced programs print the source of what they use, so each definition is complete in itself.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy

import tenkey as tk

__all__ = [
    "AsArray", "Deferring", "FloatNumber", "HostileError", "Index", "IntNumber", "Overriding", "Raising", "batched",
    "freed",
    "inf", "nan", "numbers", "slope_of_products", "slope_of_squares", "tensor", "trap",
]  # fmt: skip

inf: Final = float("inf")
nan: Final = float("nan")
REPLACED: Final = ("batched", "slope_of_products", "slope_of_squares", "tensor")  # computed by NumPy in its namespace


def numbers(shape: Any, dtype: str, seed: int, special: bool = False) -> Any:
    """Return a NumPy array of small multiples of a quarter, so that sums are exact; ``special`` adds nan, inf, -0.0."""
    rng = numpy.random.default_rng(seed)
    kind = numpy.dtype(dtype).kind
    values = rng.integers(0 if kind in "ub" else -6, 7, shape)
    if kind in "fc":
        values = values / 4
        values = values + 1j * rng.integers(-6, 7, shape) / 4 if kind == "c" else values
        if special:
            chosen = rng.integers(0, 8, shape)
            values = numpy.select([chosen == 0, chosen == 1, chosen == 2], [numpy.nan, numpy.inf, -0.0], values)
    return numpy.asarray(values).astype(dtype)


def tensor(values: Any) -> Any:
    """Return a tensor of `tk`, which follows NumPy's rules as far as float64 is concerned."""
    return tk.tensor(values)


# ---- gradients: by tk, and by hand with NumPy


def slope_of_squares(x: Any) -> Any:
    """Return the gradient of the sum of ``x * x``, recorded by tk."""
    leaf = (x if isinstance(x, tk.Tensor) else tk.numpy.asarray(x)).detach().clone().requires_grad_()
    tk.sum(leaf * leaf).backward()
    return leaf.grad


def slope_of_products(x: Any, y: Any) -> Any:
    """Return the gradient of the sum of ``x[1:] * y`` by x, through a view and a broadcast operand."""
    return tk.grad(lambda v: (v[1:] * y).sum())(tk.numpy.asarray(x))


def batched(x: Any) -> Any:
    """Return ``x * 2``, row by row."""
    return tk.vmap(lambda row: row + row)(x if isinstance(x, tk.Tensor) else tk.numpy.asarray(x))


class WithNumPy:
    """The same functions, computed by NumPy."""

    @staticmethod
    def tensor(values: Any) -> Any:
        """Return an array."""
        return numpy.array(values)

    @staticmethod
    def slope_of_squares(x: Any) -> Any:
        """Return ``2 x``."""
        return x + x

    @staticmethod
    def slope_of_products(x: Any, y: Any) -> Any:
        """Return y where it is multiplied."""
        result = numpy.zeros_like(x)
        result[1:] = y
        return result

    @staticmethod
    def batched(x: Any) -> Any:
        """Return the same for all rows at once."""
        return x + x


# ---- operands with methods of their own, which NumPy knows as well


class HostileError(Exception):
    """Raised by operands, in the middle of calls."""


class IntNumber(int):
    """An int with an operator of its own, which arrays do not call."""

    def __radd__(self, other: Any) -> Any:
        return "IntNumber.__radd__"


class FloatNumber(float):
    """A float with an operator of its own, which arrays do not call."""

    def __radd__(self, other: Any) -> Any:
        return "FloatNumber.__radd__"


class Index:
    """Has ``__index__`` alone."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class AsArray:
    """Has ``__array__`` alone."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return numpy.array(self.value, dtype)


class Deferring:
    """Arrays leave the operators to it."""

    __array_ufunc__ = None

    def __add__(self, other: Any) -> Any:
        return "deferred"

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = __add__
    __rmatmul__ = __and__ = __rand__ = __lt__ = __gt__ = __le__ = __ge__ = __floordiv__ = __rfloordiv__ = __add__


class Overriding:
    """Computes ufuncs itself."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return f"{ufunc.__name__} {method} {len(inputs)} {sorted(options)}"


class Raising:
    """Raises whatever it is asked."""

    def _refuse(self, *given: Any, **options: Any) -> Any:
        raise LookupError("refused")

    __index__ = __array__ = __float__ = __bool__ = __len__ = __complex__ = __int__ = _refuse


# ---- operands that change what is in use


def trap(method: str, action: str, result: Any, base: type = object, make: Callable[[type], Any] | None = None) -> Any:
    """Return an instance of a new class whose `method` runs `action` in the caller's globals and returns `result`.

    `base` is the class to derive from, and `make` turns the new class into an instance; by default it is called.
    As a sequence it ends: NumPy itself reads an endless one until the memory is full.
    """
    space = sys._getframe(1).f_globals
    running: list[None] = []

    def run(self: Any, *given: Any, **options: Any) -> Any:
        if not running:
            running.append(None)
            try:
                exec(action, space)
            finally:
                running.clear()
        if method == "__getitem__" and type(given[0]) is int and given[0] > 9:
            raise IndexError("the end")
        return result

    is_attribute = method in {"__array_interface__", "__array_struct__", "__array_priority__", "__class__", "shape"}
    kind = type("Trap", (base,), {method: property(run) if is_attribute else run})
    return kind() if make is None else make(kind)


def freed(value: Any, action: str) -> Any:
    """Return `value`, at whose end `action` runs in the caller's globals."""
    space = sys._getframe(1).f_globals
    weakref.finalize(value, exec, action, space).atexit = False
    return value
