"""Loops of ufuncs for dtypes that no operator of tenkey takes, composed of several operators.

NumPy has loops for bools in functions that are defined for numbers (``floor``), compares and orders complex numbers by
the real and then the imaginary part, and compares int64 with uint64 exactly. ``universal.py`` looks here for a loop
whose dtypes the operator of the ufunc refuses. Guarded by ``tests/numpy/test_table_mathematics.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...dispatch.registry import registry
from ...functions.calculating.orders import larger_complex
from ...interop.numpy_fallback import op

__all__ = ["composed", "moved_axes"]

_EXTREMES: Final = ("maximum", "minimum", "fmax", "fmin")
_ORDERS: Final = ("less", "less_equal", "greater", "greater_equal")
_BYTES: Final = np.dtype(np.uint8)
_UNSIGNED: Final = np.dtype(np.uint64)


def _extreme(name: str) -> Callable[..., Any]:
    smallest, skips_nan = name.endswith("min") or name == "minimum", name.startswith("f")

    def compute(x1: Any, x2: Any) -> Any:
        found = larger_complex(x1, x2, smallest=smallest)
        if not skips_nan:
            return found
        isnan, where = op("isnan"), op("where")
        return where(isnan(x2), x1, where(isnan(x1), x2, found))

    return compute


def _of_parts(name: str) -> Callable[..., Any]:
    """Return a comparison of complex numbers."""
    strict = name.removesuffix("_equal")

    def compute(x1: Any, x2: Any) -> Any:
        real, imag = op("real"), op("imag")
        ties = op("logical_and")(op("equal")(real(x1), real(x2)), op(name)(imag(x1), imag(x2)))
        numbers = op("logical_not")(op("logical_or")(op("isnan")(x1), op("isnan")(x2)))
        return op("logical_and")(numbers, op("logical_or")(op(strict)(real(x1), real(x2)), ties))

    return compute


def _of_signs(name: str, signed_first: bool) -> Callable[..., Any]:
    """Return a comparison of int64 with uint64: a negative number is less than all of those."""
    below = name.startswith("less" if signed_first else "greater") or name == "not_equal"

    def compute(x1: Any, x2: Any) -> Any:
        signed = x1 if signed_first else x2
        both = [op("astype")(x, _UNSIGNED) for x in (x1, x2)]
        return op("where")(op("less")(signed, 0), below, op(name)(*both))

    return compute


def composed(name: str, ours: str, ins: tuple[np.dtype, ...]) -> Callable[..., Any] | None:
    """Return the function that computes a loop in these dtypes from operands that have them; None without one."""
    if name == "float_power":
        return op("pow")
    if len(ins) == 2 and ins[0].kind == "c":
        if name in _EXTREMES:
            return _extreme(name)
        if name in _ORDERS:
            return _of_parts(name)
    if len(ins) == 2 and {d.kind for d in ins} == {"i", "u"} and name in (*_ORDERS, "equal", "not_equal"):
        return _of_signs(name, ins[0].kind == "i")
    if len(ins) == 1 and ins[0].kind == "b" and name in ("floor", "ceil", "trunc", "absolute", "positive"):
        return lambda x: x.clone()
    if ins[0].kind == "b" and f"tk::{ours}" in registry.operators:
        return lambda *xs: op(ours)(*[op("astype")(x, _BYTES) if x.dtype.kind == "b" else x for x in xs])
    return None


def moved_axes(call: Callable[..., Any], operands: tuple[Any, ...], axes: Any) -> Any:
    """Return the matrix product of the axes that are given for each operand and, where it has any, for the result."""
    pairs = [tuple(pair) if isinstance(pair, (tuple, list)) else (pair,) for pair in axes]
    move = op("moveaxis")
    given = [move(x, pair, tuple(range(-len(pair), 0))) for x, pair in zip(operands, pairs)]
    made = call(*given)
    last = pairs[len(operands)] if len(pairs) > len(operands) else ()
    return move(made, tuple(range(-len(last), 0)), last) if last else made
