"""Numerical limits of data types: the standard's ``finfo`` and ``iinfo``."""

from __future__ import annotations

import functools
import math
from typing import Final

import numpy as np

from ..._util.record import Record
from .names import DType, is_inexact, is_integral, real_of, to_dtype

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


def _dtype_argument(obj: object) -> DType:
    # Types first: NumPy's scalar types have an attribute ``dtype``, which is a descriptor.
    return to_dtype(obj if isinstance(obj, np.dtype | str | type) else getattr(obj, "dtype", obj))


def finfo(dtype: object) -> FloatInfo:
    """Return the limits of a floating-point dtype or array; of a complex dtype those of its parts.

    ``bits`` counts the bits of one part; ``eps`` is the distance from 1.0 to the next larger number. Raises TypeError
    for bool and integers.

    >>> finfo("float32").eps, finfo("complex128").bits
    (1.1920928955078125e-07, 64)
    """
    given = _dtype_argument(dtype)
    if not is_inexact(given):
        raise TypeError(f"[finfo] got {given.name}: finfo takes floating-point dtypes; use iinfo for integers.")
    return _finfo(real_of(given))


# IEEE 754 formats, and bfloat16, which is binary32 cut to 16 bits: the numbers of exponent and fraction bits.
_FORMATS: Final = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


@functools.cache
def _finfo(dtype: DType) -> FloatInfo:
    # Computed from the format, since np.finfo does not know bfloat16.
    exponent_bits, fraction_bits = _FORMATS[dtype.name]
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
    """Return the limits of an integer dtype or array. Raises TypeError for bool and floating point.

    >>> iinfo("int8").min, iinfo("uint64").max
    (-128, 18446744073709551615)
    """
    given = _dtype_argument(dtype)
    if not is_integral(given):
        raise TypeError(f"[iinfo] got {given.name}: iinfo takes integer dtypes; use finfo for floating point.")
    bits = 8 * given.itemsize
    signed = given.kind == "i"
    return IntegerInfo(bits=bits, max=2 ** (bits - signed) - 1, min=-(2 ** (bits - 1)) if signed else 0, dtype=given)
