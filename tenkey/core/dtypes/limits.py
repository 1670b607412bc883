"""Numerical limits of data types: the standard's ``finfo`` and ``iinfo``."""

from __future__ import annotations

import functools
import math
from typing import Final

import numpy as np

from ..._util.record import Record
from .names import DType, is_inexact, is_integral, is_unsigned_integral, real_of, to_dtype

__all__ = ["FloatInfo", "IntegerInfo", "finfo", "iinfo"]


class FloatInfo(Record, frozen=True):
    """Limits of a floating-point dtype: the fields of the standard's ``finfo``, as Python floats and ints."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerInfo(Record, frozen=True):
    """Limits of an integer dtype: the fields of the standard's ``iinfo``, as Python ints."""

    bits: int
    max: int
    min: int
    dtype: DType


_BAD_INFO: Final = "[{function}] got {given}: {function} takes {rule} dtypes; use {remedy}."


def _dtype_argument(obj: object) -> DType:
    """The dtype of ``obj``, which may also be an array."""
    # Types first: NumPy's scalar types have an attribute ``dtype``, which is a descriptor.
    if isinstance(obj, np.dtype | str | type):
        return to_dtype(obj)
    return to_dtype(getattr(obj, "dtype", obj))


def finfo(dtype: object) -> FloatInfo:
    """Limits of a floating-point dtype (or of an array's); of a complex dtype those of its parts.

    ``bits`` counts the bits of one part; ``eps`` is the distance from 1.0 to the next larger number. Raises TypeError
    for bool and integers.

    >>> finfo("float32").eps, finfo("complex128").bits
    (1.1920928955078125e-07, 64)
    """
    given = _dtype_argument(dtype)
    if not is_inexact(given):
        remedy = "iinfo for integers"
        raise TypeError(_BAD_INFO.format(function="finfo", given=given.name, rule="floating-point", remedy=remedy))
    return _finfo(real_of(given))


# IEEE 754 binary formats (and bfloat16, which is binary32 cut to 16 bits) are fixed by two numbers.
_EXPONENT_AND_FRACTION_BITS: Final = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


@functools.cache
def _finfo(dtype: DType) -> FloatInfo:
    # Computed from the formats rather than asked of np.finfo, which does not know bfloat16.
    exponent_bits, fraction_bits = _EXPONENT_AND_FRACTION_BITS[dtype.name]
    bias = 2 ** (exponent_bits - 1) - 1
    largest = math.ldexp(2.0 - math.ldexp(1.0, -fraction_bits), bias)
    return FloatInfo(
        bits=1 + exponent_bits + fraction_bits,
        eps=math.ldexp(1.0, -fraction_bits),
        max=largest,
        min=-largest,
        smallest_normal=math.ldexp(1.0, 1 - bias),
        dtype=dtype,
    )


def iinfo(dtype: object) -> IntegerInfo:
    """Limits of an integer dtype (or of an array's). Raises TypeError for bool and floating point.

    >>> iinfo("int8").min, iinfo("uint64").max
    (-128, 18446744073709551615)
    """
    given = _dtype_argument(dtype)
    if not is_integral(given):
        remedy = "finfo for floating point"
        raise TypeError(_BAD_INFO.format(function="iinfo", given=given.name, rule="integer", remedy=remedy))
    bits = 8 * given.itemsize
    if is_unsigned_integral(given):
        return IntegerInfo(bits=bits, max=2**bits - 1, min=0, dtype=given)
    return IntegerInfo(bits=bits, max=2 ** (bits - 1) - 1, min=-(2 ** (bits - 1)), dtype=given)
