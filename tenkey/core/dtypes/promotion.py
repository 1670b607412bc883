"""Type promotion: the dtype of the result of an operation on several dtypes.

Within a kind this is the array API standard's table; across kinds, which the standard leaves open, PyTorch's rule
(Note [Promotion lattice]). Python scalars are weak: they determine a category, never a precision.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

import numpy as np

from ...dispatch.errors import shown
from . import names as dtypes
from .names import DType

__all__ = ["Category", "can_cast", "category_of", "promote_types", "result_dtype"]

# Note [Promotion lattice]
# ~~~~~~~~~~~~~~~~~~~~~~~~
# Categories are ordered bool < integral < real floating < complex. The result has the highest category present:
#   - arrays of a lower category do not affect the precision: int64 with float16 gives float16, not float64. The one
#     exception is float64 with complex64, which gives complex128, since complex64 would halve the digits.
#   - among integers, the smallest dtype that holds both ranges. For uint64 with a signed integer there is none; NumPy
#     gives float64, which silently rounds above 2**53, so it is an error here.
#   - among floats, the wider one; float16 and bfloat16 do not hold each other (range against digits), so float32.
# The result depends on the *set* of dtypes alone: it is the join of a semilattice, and unlike with NumPy's pairwise
# rules, order and grouping do not matter (uint64, int8, float32 give float32 in every order). So the cache is keyed by
# a frozenset. Guarded by test_promotion.py::test_order_and_grouping_do_not_matter.


class Category(IntEnum):
    """Categories of dtypes in the order of promotion."""

    BOOL = 0
    INTEGRAL = 1
    REAL_FLOATING = 2
    COMPLEX = 3


_NOTHING: Final = "[{function}] got no dtypes: give at least one array or dtype."


def category_of(dtype: DType) -> Category:
    """Return the category of a supported dtype.

    >>> category_of(np.dtype("uint8")).name
    'INTEGRAL'
    """
    kind = "f" if dtypes.is_real_floating(dtype) else dtype.kind  # bfloat16 is of kind "V"
    if kind not in _CATEGORIES:
        dtypes.to_dtype(dtype)  # raises
    return _CATEGORIES[kind]


_CATEGORIES: Final = {kind: category for category, kinds in zip(Category, ("b", "iu", "f", "c")) for kind in kinds}


def promote_types(*arguments: DType) -> DType:
    """Return the dtype of the result of operands with these dtypes; see Note [Promotion lattice].

    Raises TypeError for uint64 together with signed integers (unless a floating or complex dtype decides), and
    ValueError without arguments. Source: array API standard 2025.12, "Type promotion rules"; across kinds PyTorch's
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
    parts = {dtypes.real_of(dtype) for dtype in supported if dtypes.is_inexact(dtype)}
    floating = parts.pop() if len(parts) == 1 else dtypes.float64 if dtypes.float64 in parts else dtypes.float32
    return dtypes.complex_of(floating) if category is Category.COMPLEX else floating


def _join_integers(given: list[DType]) -> DType:
    signed = max((dtype.itemsize for dtype in given if dtype.kind == "i"), default=0)
    unsigned = max((dtype.itemsize for dtype in given if dtype.kind == "u"), default=0)
    if not signed:
        return np.dtype(f"uint{8 * unsigned}")
    size = max(signed, 2 * unsigned)  # a signed integer needs twice the width to hold an unsigned one's range
    if size > 8:
        raise TypeError(
            f"[promote_types] got {' with '.join(sorted({dtype.name for dtype in given}))}: no integer dtype holds "
            "both the range of uint64 and negative numbers. Convert one side: `x.astype('int64')` if all values are "
            "below 2**63, `x.astype('float64')` if rounding above 2**53 is acceptable."
        )
    return np.dtype(f"int{8 * size}")


def result_dtype(arrays: Iterable[DType], weak: Iterable[type] = ()) -> DType:
    """Return the dtype of the result of arrays of dtypes ``arrays`` with Python scalars of types ``weak``.

    A scalar of the same or a lower category leaves the arrays' dtype alone, whatever its value. One of a higher
    category gives the default dtype of that category; a complex scalar with a floating array keeps the array's
    precision. Scalars alone give the default dtype of the highest category. Raises TypeError as ``promote_types``
    does and if ``weak`` contains other types, ValueError without arguments.

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


def _default_of(category: Category) -> DType:  # not cached: the defaults of a thread can change
    if category is Category.BOOL:
        return dtypes.bool
    defaults = dtypes.get_defaults()
    return (defaults.integral, defaults.real_floating, defaults.complex_floating)[category - 1]


@functools.cache
def _weak_category(kind: object) -> Category:
    # np.float64 is a subclass of float, and np.complex128 of complex, but they have a dtype. Other subclasses (an
    # IntEnum, say) are numbers like any other. bool comes first, being a subclass of int.
    if isinstance(kind, type) and not issubclass(kind, np.generic):
        for python, category in zip((bool, int, float, complex), Category, strict=True):
            if issubclass(kind, python):
                return category
    raise TypeError(
        f"[result_dtype] got {shown(kind)} as a weak scalar type: only Python's bool, int, float and complex are weak. "
        "A NumPy scalar has a dtype: pass `x.dtype` among the dtypes."
    )


def can_cast(from_: DType, to: DType) -> bool:
    """Return whether promotion leads from ``from_`` to ``to``, that is, promoting both gives ``to``.

    Source: array API standard 2025.12, ``can_cast``.

    >>> can_cast(np.dtype("int32"), np.dtype("int64")), can_cast(np.dtype("float32"), np.dtype("int64"))
    (True, False)
    """
    try:
        return promote_types(from_, to) == dtypes.to_dtype(to)
    except TypeError:
        dtypes.to_dtype(from_)  # an unsupported dtype is still an error; uint64 with a signed integer is a plain False
        dtypes.to_dtype(to)
        return False
