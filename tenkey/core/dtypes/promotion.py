"""Type promotion: which dtype the result of an operation on several dtypes has.

Within a kind it is the array API standard's table; across kinds, which the standard leaves open, it is PyTorch's rule
(Note [Promotion lattice]). Python scalars are weak: they choose a category, never a precision.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

import numpy as np

from . import names as dtypes
from .names import DType

__all__ = ["Category", "can_cast", "category_of", "promote_types", "result_dtype"]

# Note [Promotion lattice]
# ~~~~~~~~~~~~~~~~~~~~~~~~
# Categories are ordered bool < integral < real floating < complex. The result has the highest category present:
#   - arrays of a lower category have no say beyond that: int64 with float16 gives float16, not float64. There is one
#     exception, precision: float64 with complex64 gives complex128, since complex64 would halve the digits.
#   - within integers, the smallest dtype that holds both ranges. uint64 with a signed integer has none; NumPy gives
#     float64 here, which rounds above 2**53 in silence, so it is an error until the caller says what is meant.
#   - within floats, the wider one; float16 and bfloat16 hold neither of each other (range against digits), so float32.
# The answer depends on the *set* of dtypes alone: it is the join of a semilattice, and unlike NumPy's pairwise rules it
# is the same in whichever order and grouping the arguments come (uint64, int8, float32 is float32 in every order).
# That is also why the memo is keyed by a frozenset: it stays small however long the argument lists become.
# Guarded by test_promotion.py::test_order_and_grouping_do_not_matter.


class Category(IntEnum):
    """The categories of dtypes in the order of promotion."""

    BOOL = 0
    INTEGRAL = 1
    REAL_FLOATING = 2
    COMPLEX = 3


_NOTHING: Final = "[{function}] got no dtypes: the result of nothing has no dtype; give at least one array or dtype."


def category_of(dtype: DType) -> Category:
    """The category of a supported dtype.

    >>> category_of(np.dtype("uint8")).name
    'INTEGRAL'
    """
    if dtypes.is_boolean(dtype):
        return Category.BOOL
    if dtypes.is_integral(dtype):
        return Category.INTEGRAL
    if dtypes.is_complex(dtype):
        return Category.COMPLEX
    if dtypes.is_real_floating(dtype):
        return Category.REAL_FLOATING
    dtypes.to_dtype(dtype)  # raises the error that says what to do
    raise AssertionError(dtype)  # pragma: no cover


def promote_types(*arguments: DType) -> DType:
    """The dtype of a result of operands with these dtypes; see Note [Promotion lattice].

    Raises TypeError for uint64 together with signed integers (unless a floating or complex dtype decides), and
    ValueError for no arguments. Source: array API standard 2025.12, "Type promotion rules"; across kinds PyTorch's
    "Tensor Attributes".

    >>> promote_types(np.dtype("uint8"), np.dtype("int8")), promote_types(np.dtype("int64"), np.dtype("float16"))
    (dtype('int16'), dtype('float16'))
    """
    if not arguments:
        raise ValueError(_NOTHING.format(function="promote_types"))
    return _promote(frozenset(arguments))


@functools.cache
def _promote(given: frozenset[DType]) -> DType:
    supported = [dtypes.to_dtype(dtype) for dtype in given]
    category = max(map(category_of, supported))
    if category is Category.BOOL:
        return dtypes.bool
    if category is Category.INTEGRAL:
        return _join_integers([dtype for dtype in supported if dtypes.is_integral(dtype)])
    floating = _join_floats({dtypes.real_of(dtype) for dtype in supported if dtypes.is_inexact(dtype)})
    return dtypes.complex_of(floating) if category is Category.COMPLEX else floating


def _join_integers(given: list[DType]) -> DType:
    signed = max((dtype.itemsize for dtype in given if dtypes.is_signed_integral(dtype)), default=0)
    unsigned = max((dtype.itemsize for dtype in given if dtypes.is_unsigned_integral(dtype)), default=0)
    if not signed:
        return np.dtype(f"uint{8 * unsigned}")
    # A signed integer needs twice the width to hold an unsigned one's range.
    size = max(signed, 2 * unsigned)
    if size > 8:
        raise TypeError(
            f"[promote_types] got {' with '.join(sorted({dtype.name for dtype in given}))}: no integer dtype holds "
            "both the range of uint64 and negative numbers. Convert one side yourself: `x.astype('int64')` if all "
            "values are below 2**63, `x.astype('float64')` if rounding above 2**53 is acceptable."
        )
    return np.dtype(f"int{8 * size}")


def _join_floats(given: set[DType]) -> DType:
    if len(given) == 1:
        return given.pop()
    return dtypes.float64 if dtypes.float64 in given else dtypes.float32


def result_dtype(arrays: Iterable[DType], weak: Iterable[type] = ()) -> DType:
    """The dtype of a result of arrays with dtypes ``arrays`` and of Python scalars whose types are ``weak``.

    A scalar of the same or a lower category leaves the arrays' dtype alone, whatever its value. One of a higher
    category gives the default dtype of that category; a complex scalar with a floating array keeps the array's
    precision. Scalars alone give the default dtype of the highest category. Raises TypeError as ``promote_types``,
    and if ``weak`` names anything but Python's own scalar types; ValueError for nothing at all.

    >>> result_dtype([np.dtype("uint8")], [int]), result_dtype([np.dtype("int8")], [float])
    (dtype('uint8'), dtype('float32'))
    >>> result_dtype([np.dtype("float64")], [complex])
    dtype('complex128')
    """
    scalars = frozenset(map(_weak_category, weak))
    given = frozenset(arrays)
    if not scalars:
        if not given:
            raise ValueError(_NOTHING.format(function="result_dtype"))
        return _promote(given)
    scalar = max(scalars)
    if not given:
        return _default_of(scalar)
    promoted = _promote(given)
    category = category_of(promoted)
    if scalar <= category:
        return promoted
    if category is Category.REAL_FLOATING:  # and the scalar is complex
        return dtypes.complex_of(promoted)
    return _default_of(scalar)


def _default_of(category: Category) -> DType:
    # Not memoised with the rest: the defaults can be changed, for one thread.
    if category is Category.BOOL:
        return dtypes.bool
    if category is Category.INTEGRAL:
        return dtypes.default_int()
    if category is Category.REAL_FLOATING:
        return dtypes.default_float()
    return dtypes.default_complex()


@functools.cache
def _weak_category(kind: object) -> Category:
    # np.float64 is a subclass of float and np.complex128 of complex, but they carry a dtype: not weak. Other
    # subclasses (an IntEnum, say) are numbers like any other. bool is a subclass of int and so comes first.
    if isinstance(kind, type) and not issubclass(kind, np.generic):
        if issubclass(kind, bool):
            return Category.BOOL
        if issubclass(kind, int):
            return Category.INTEGRAL
        if issubclass(kind, float):
            return Category.REAL_FLOATING
        if issubclass(kind, complex):
            return Category.COMPLEX
    raise TypeError(
        f"[result_dtype] got {kind!r} as a weak scalar type: weak are Python's bool, int, float and complex only. A "
        "NumPy scalar has a dtype: pass `x.dtype` among the dtypes."
    )


def can_cast(from_: DType, to: DType) -> bool:
    """Whether promotion leads from ``from_`` to ``to``: whether an operand ``from_`` leaves a result ``to`` as it is.

    Source: array API standard 2025.12, ``can_cast``.

    >>> can_cast(np.dtype("int32"), np.dtype("int64")), can_cast(np.dtype("float32"), np.dtype("int64"))
    (True, False)
    """
    try:
        return promote_types(from_, to) == dtypes.to_dtype(to)
    except TypeError:
        dtypes.to_dtype(from_)  # an unsupported dtype is still an error; uint64 and a signed integer are a plain "no"
        dtypes.to_dtype(to)
        return False
