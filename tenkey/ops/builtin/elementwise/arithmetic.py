"""Arithmetic, element by element: sums, products, quotients, powers, extremes of two numbers, magnitude and sign.

Each block states everything about an operator; the derivatives follow from the scalar expressions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.tensor import Tensor
from ....dispatch.tags import Tag
from ... import scalar as s
from ...declare import ARITHMETIC, INT_TO_FLOAT, MAGNITUDE, ORDERED, REAL, SAME, Entry, elementwise, scalar_function
from .comparison import equal, where
from .complex import conj, real


@elementwise(promote=SAME, methods=("__add__", "add"), tags=(Tag.INPLACE,))
def add(T: Any, x1: Any, x2: Any) -> Any:
    """Add two tensors element by element, with broadcasting.

    Args: x1, x2: tensors of any dtype, or one of them a Python number. Returns the promoted dtype.

    >>> tk.add(tk.asarray([1.0, 2.0]), 1).tolist()
    [2.0, 3.0]
    """
    return x1 + x2


@elementwise(promote=ARITHMETIC, methods=("__sub__", "sub", "subtract"), tags=(Tag.INPLACE,))
def subtract(T: Any, x1: Any, x2: Any) -> Any:
    """Subtract two tensors element by element, with broadcasting.

    Args: x1, x2: tensors of a numeric dtype, or one of them a Python number. Returns the promoted dtype.

    >>> tk.subtract(tk.asarray([1.0, 2.0]), 1).tolist()
    [0.0, 1.0]
    """
    return x1 - x2


@elementwise(promote=SAME, methods=("__mul__", "mul", "multiply"), tags=(Tag.INPLACE,))
def multiply(T: Any, x1: Any, x2: Any) -> Any:
    """Multiply two tensors element by element, with broadcasting.

    Args: x1, x2: tensors of any dtype, or one of them a Python number. Returns the promoted dtype.

    >>> tk.multiply(tk.asarray([1.0, 2.0]), 3).tolist()
    [3.0, 6.0]
    """
    return x1 * x2


@elementwise(promote=INT_TO_FLOAT, domain=(0.5, 4.0), methods=("__truediv__", "div", "divide"), tags=(Tag.INPLACE,))
def divide(T: Any, x1: Any, x2: Any) -> Any:
    """Divide two tensors element by element, with broadcasting; integers give floats.

    Args: x1, x2: tensors of any dtype, or one of them a Python number. Division by zero gives inf or nan.

    >>> tk.divide(tk.asarray([1, 3]), 2).tolist()
    [0.5, 1.5]
    """
    return x1 / x2


floor_divide = scalar_function(
    "floor_divide",
    """Divide and round down to an integer, element by element, with Python's sign rule.

    Args: x1, x2: tensors of a real numeric dtype, or one of them a Python number.

    >>> tk.floor_divide(tk.asarray([7, -7]), 2).tolist()
    [3, -4]
    """,
    ("x1", "x2"),
    promote=REAL,
    domain=(0.5, 4.0),
    methods=("__floordiv__",),
)

remainder = scalar_function(
    "remainder",
    """Return the remainder of the floor division, with the sign of the divisor.

    Args: x1, x2: tensors of a real numeric dtype, or one of them a Python number.

    >>> tk.remainder(tk.asarray([7, -7]), 4).tolist()
    [3, 1]
    """,
    ("x1", "x2"),
    promote=REAL,
    domain=(0.5, 4.0),
    methods=("__mod__",),
)

pow = scalar_function(
    "pow",
    """Return ``x1`` to the power ``x2``, element by element, with broadcasting.

    Args: x1, x2: tensors of a numeric dtype, or one of them a Python number.

    >>> tk.pow(tk.asarray([1.0, 2.0, 3.0]), 2).tolist()
    [1.0, 4.0, 9.0]
    """,
    ("x1", "x2"),
    promote=ARITHMETIC,
    domain=(0.2, 3.0),
    autocast="float32",
    methods=("__pow__", "pow"),
)


def _extreme(name: str, what: str, shown: str) -> Entry:
    doc = f"""Return the {what} of two elements; nan if one is nan. Where they are equal they share the gradient.

    >>> tk.{name}(tk.asarray([1.0, 5.0]), 2.0).tolist()
    {shown}
    """
    return scalar_function(name, doc, ("x1", "x2"), promote=ORDERED, inplace=False)


maximum = _extreme("maximum", "larger", "[2.0, 5.0]")
minimum = _extreme("minimum", "smaller", "[1.0, 2.0]")


@elementwise(promote=ARITHMETIC, methods=("__neg__", "neg", "negative"), tags=(Tag.INPLACE,))
def negative(T: Any, x: Any) -> Any:
    """Return ``-x``, for a numeric dtype.

    >>> tk.negative(tk.asarray([1.0, -2.0])).tolist()
    [-1.0, 2.0]
    """
    return -x


@elementwise(promote=ARITHMETIC, ufunc=np.positive, methods=("__pos__", "positive"))
def positive(T: Any, x: Any) -> Any:
    """Return ``+x``: a copy, for a numeric dtype.

    >>> tk.positive(tk.asarray([1.0, -2.0])).tolist()
    [1.0, -2.0]
    """
    return x


@elementwise(
    promote=MAGNITUDE,
    complex_vjp={"x": lambda g, x: multiply(g, sign(x))},
    methods=("__abs__", "abs"),
    tags=(Tag.INPLACE,),
)
def abs(T: Any, x: Any) -> Any:
    """Return the absolute value, for a numeric dtype; real for complex numbers. The derivative at 0 is 0.

    >>> tk.abs(tk.asarray([1.0, -2.0])).tolist(), tk.abs(tk.asarray(3 + 4j)).item()
    ([1.0, 2.0], 5.0)
    """
    return s.abs(x)


def _sign_vjp(g: Tensor, x: Tensor, out: Tensor) -> Tensor:
    """Return the gradient for complex ``x``: a change of its direction counts, a change of its size does not."""
    at_zero = equal(x, 0)
    turning = subtract(g, multiply(out, real(multiply(conj(out), g))))
    return where(at_zero, 0.0, divide(turning, where(at_zero, 1.0, abs(x))))


@elementwise(promote=ARITHMETIC, complex_vjp={"x": _sign_vjp}, methods=("sign",), tags=(Tag.INPLACE,))
def sign(T: Any, x: Any) -> Any:
    """Return -1, 0 or 1; for a complex number ``x / abs(x)``, and 0 at 0. nan stays nan.

    For real numbers it is a step function, with derivative 0.

    >>> tk.sign(tk.asarray([3.0, 0.0, -2.0])).tolist(), tk.sign(tk.asarray(4j)).item()
    ([1.0, 0.0, -1.0], 1j)
    """
    return s.sign(x)


@elementwise(promote=ARITHMETIC, methods=("square",), tags=(Tag.INPLACE,))
def square(T: Any, x: Any) -> Any:
    """Return ``x * x``, for a numeric dtype.

    >>> tk.square(tk.asarray([1.0, -2.0])).tolist()
    [1.0, 4.0]
    """
    return x * x


@elementwise(
    promote=INT_TO_FLOAT,
    domain=(0.5, 4.0),
    ufunc=np.reciprocal,
    autocast="float32",
    methods=("reciprocal",),
    tags=(Tag.INPLACE,),
)
def reciprocal(T: Any, x: Any) -> Any:
    """Return ``1 / x``; integers give floats.

    >>> tk.reciprocal(tk.asarray([2.0, 4.0])).tolist()
    [0.5, 0.25]
    """
    return s.reciprocal(x)


def _fmod_by_divisor(x1: Any, x2: Any) -> Any:
    size = s.floor_divide(s.abs(x1), s.abs(x2))
    return s.where(x1 < 0, size, -size) * s.sign(x2)


@elementwise(promote=REAL, domain=(0.5, 4.0), partials=(lambda: 1, _fmod_by_divisor))
def fmod(T: Any, x1: Any, x2: Any) -> Any:
    """Return the remainder of the division rounded towards zero, with the sign of the dividend ``x1``.

    Args: x1, x2: tensors of a real numeric dtype, or one of them a Python number. ``tk.remainder`` has the sign of x2.

    >>> tk.fmod(tk.asarray([7, -7]), 4).tolist()
    [3, -3]
    """
    first, second = s.abs(x1), s.abs(x2)
    size = s.remainder(first, second)
    signed = s.where(x1 < 0, -size, size)
    found = s.where(s.logical_and(x1 == 0, size == 0), x1, signed)  # keeps the sign of a zero
    # the least integer has no magnitude, but a remainder with the sign of x2, which would round floats
    rest = s.remainder(x1, x2)
    other = s.logical_and(rest != 0, s.logical_xor(rest < 0, x1 < 0))
    return s.where(s.logical_or(first < 0, second < 0), s.where(other, rest - x2, rest), found)


@elementwise(promote=ORDERED)
def fmax(T: Any, x1: Any, x2: Any) -> Any:
    """Return the larger of two elements; where one is nan, the other. Where they are equal they share the gradient.

    >>> tk.fmax(tk.asarray([1.0, float("nan")]), 0.5).tolist()
    [1.0, 0.5]
    """
    return s.where(s.isnan(x2), x1, s.where(s.isnan(x1), x2, s.maximum(x1, x2)))


@elementwise(promote=ORDERED)
def fmin(T: Any, x1: Any, x2: Any) -> Any:
    """Return the smaller of two elements; where one is nan, the other. Where they are equal they share the gradient.

    >>> tk.fmin(tk.asarray([1.0, float("nan")]), 0.5).tolist()
    [0.5, 0.5]
    """
    return s.where(s.isnan(x2), x1, s.where(s.isnan(x1), x2, s.minimum(x1, x2)))


@elementwise()
def heaviside(T: Any, x1: Any, x2: Any) -> Any:
    """Return the step function: 0 below zero, 1 above, ``x2`` at zero, nan for nan.

    The derivative with respect to ``x1`` is 0.

    >>> tk.heaviside(tk.asarray([-2.0, 0.0, 3.0]), 0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    return s.where(x1 < 0, T(0), s.where(x1 > 0, T(1), s.where(x1 == 0, x2, x1)))
