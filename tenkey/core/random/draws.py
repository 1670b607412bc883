"""Distributions computed from the bits of ``philox``: element ``i`` of a draw depends on the key and ``i`` alone.

These NumPy functions are the reference that the kernels of every backend reproduce. Note [Random addresses] in
``philox`` describes which bits an element uses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from ..dtypes import names as dtypes
from ..dtypes.limits import finfo, iinfo
from ..dtypes.names import DType
from . import exact_functions as exact
from .philox import Key, _each_blocks, _each_double_words, _each_words, double_words

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "ARRAYS",
    "check_integers",
    "integers",
    "interval",
    "normal",
    "permutation",
    "permutation_of",
    "uniform",
]

_Float64Array: TypeAlias = "npt.NDArray[np.float64]"

_BAD_DTYPE: Final = "[{function}] got dtype {given}: it must be {rule}; draw in one of these and convert the result."


def uniform(
    key: Key, count: int, dtype: DType = dtypes.float32, start: int = 0, *, low: float = 0.0, high: float = 1.0
) -> npt.NDArray[Any]:
    """Draw elements uniform on [low, high), of a real floating dtype and shape (count,).

    On [0, 1) they are the multiples of 2**-p, all equally likely, where p is the number of digits of ``dtype`` (24 for
    float32, 53 for float64). ``high`` is never drawn, not even by rounding. Raises TypeError for another dtype,
    ValueError for an empty or infinite interval.

    >>> draw = uniform((1, 0), 1000)
    >>> draw.dtype, bool((draw >= 0).all() and (draw < 1).all())
    (dtype('float32'), True)
    """
    if not dtypes.is_real_floating(dtype):
        raise TypeError(_BAD_DTYPE.format(function="uniform", given=dtype.name, rule="real floating point"))
    digits = 1 - round(math.log2(finfo(dtype).eps))
    result: npt.NDArray[Any] = np.empty(max(count, 0), dtype)
    # The narrow dtypes are computed in float32, where their few digits are exact.
    compute: DType = dtypes.float64 if dtype == dtypes.float64 else dtypes.float32
    scale = compute.type(2.0**-digits)
    chunks: Iterator[tuple[slice, npt.NDArray[Any]]]
    drop: np.uint32 | np.uint64
    if compute == dtypes.float64:
        chunks, drop = _each_double_words(key, start, count), np.uint64(64 - digits)
    else:
        chunks, drop = _each_words(key, start, count), np.uint32(32 - digits)
    if low == 0.0 and high == 1.0:
        for where, bits in chunks:
            result[where] = (bits >> drop).astype(compute) * scale
        return result
    lowest, highest, below = interval(low, high, dtype)
    width = compute.type(highest) - compute.type(lowest)
    for where, bits in chunks:
        values = (bits >> drop).astype(compute)
        values *= scale
        values *= width
        values += compute.type(lowest)
        result[where] = values
    np.copyto(result, below, where=result >= highest)  # rounding may reach the end of the interval
    return result


def interval(low: float, high: float, dtype: DType) -> tuple[Any, Any, Any]:
    """Return the ends of an interval in ``dtype``, and the number just below its upper end."""
    with np.errstate(over="ignore"):
        lowest, highest = dtype.type(low), dtype.type(high)
        width = np.float32(highest) - np.float32(lowest) if dtype != dtypes.float64 else highest - lowest
    if not (math.isfinite(lowest) and math.isfinite(highest) and math.isfinite(width) and lowest < highest):
        raise ValueError(
            f"[uniform] got low={low!r}, high={high!r}: low must be below high, and both and their difference finite "
            f"in {dtype.name}."
        )
    return lowest, highest, np.nextafter(highest, dtype.type(-math.inf))


# ---- the functions of ``exact_functions`` on arrays


def _balanced(x: _Float64Array) -> tuple[_Float64Array, _Float64Array]:
    mantissa, exponent = np.frexp(x)
    return exact.balanced(ARRAYS, mantissa, exponent.astype(np.float64))


ARRAYS: Final[Any] = SimpleNamespace(
    balanced=_balanced, cosine=lambda turns: exact.cosine(ARRAYS, turns),
    digits=lambda bits, drop: (bits >> np.uint64(drop)).astype(np.float64), floor=np.floor,
    log=lambda x: exact.log(ARRAYS, x), ones_where=lambda condition: condition,
    sine=lambda turns: exact.sine(ARRAYS, turns), sqrt=np.sqrt, where=np.where,
)  # fmt: skip


def normal(key: Key, count: int, dtype: DType = dtypes.float32, start: int = 0) -> npt.NDArray[Any]:
    """Draw standard normal elements (mean 0, variance 1) of a real or complex floating dtype and shape (count,).

    Complex elements have independent real and imaginary parts of variance 1/2. Raises TypeError for other dtypes.
    See Note [Reproducible normals] in ``exact_functions``.

    >>> draw = normal((1, 0), 10_000)
    >>> draw.dtype, bool(abs(draw.mean()) < 0.05), bool(abs(draw.std() - 1) < 0.05)
    (dtype('float32'), True, True)
    """
    if not dtypes.is_inexact(dtype):
        raise TypeError(_BAD_DTYPE.format(function="normal", given=dtype.name, rule="real or complex floating point"))
    # one column, or two for the real and imaginary parts
    parts: npt.NDArray[Any] = np.empty((max(count, 0), 2 if dtypes.is_complex(dtype) else 1), dtypes.real_of(dtype))
    for where, low, high in _each_blocks(key, start, count):
        radius, turns = exact.normal(ARRAYS, low, high)
        if dtypes.is_complex(dtype):
            radius *= exact.SQRT_HALF
            parts[where, 1] = radius * ARRAYS.sine(turns)
        parts[where, 0] = radius * ARRAYS.cosine(turns)
    return parts.view(dtype).reshape(-1)


def integers(
    key: Key, low: int, high: int, count: int, dtype: DType = dtypes.int64, start: int = 0
) -> npt.NDArray[Any]:
    """Draw integers uniform on [low, high), of an integer dtype and shape (count,).

    See Note [Integers without rejection] in ``exact_functions``. Raises TypeError for other dtypes; ValueError if the
    interval is empty or does not fit in ``dtype``.

    >>> sorted(set(integers((1, 0), -1, 2, 100).tolist()))
    [-1, 0, 1]
    """
    check_integers(low, high, dtype)
    size = high - low
    result: npt.NDArray[Any] = np.empty(max(count, 0), dtype)
    offset = np.uint64(low % (1 << 64))  # two's complement: adding it wraps around to the right number
    if size <= 1 << 32:
        for where, bits in _each_double_words(key, start, count):
            result[where] = (exact.scaled(bits, np.uint64(size)) + offset).astype(dtype)
    else:
        for where, lower, upper in _each_blocks(key, start, count):
            wide = upper if size == 1 << 64 else exact.scaled_wide(ARRAYS, lower, upper, np.uint64(size))
            result[where] = (wide + offset).astype(dtype)
    return result


@lru_cache(maxsize=256)  # of the ranges that are good: programs repeat the same
def check_integers(low: int, high: int, dtype: DType) -> None:
    """Raise the errors of ``integers``."""
    if not dtypes.is_integral(dtype):
        raise TypeError(_BAD_DTYPE.format(function="integers", given=dtype.name, rule="an integer dtype"))
    if low >= high:
        raise ValueError(f"[integers] got low={low!r}, high={high!r}: low must be below high, which is never drawn.")
    info = iinfo(dtype)
    if low < info.min or high - 1 > info.max:
        raise ValueError(
            f"[integers] got low={low!r}, high={high!r}: not all of [low, high) fits in {dtype.name}; choose a wider "
            "dtype."
        )


def permutation(key: Key, n: int, start: int = 0) -> npt.NDArray[np.int64]:
    """Draw a random order of 0 to n - 1: int64, shape (n,).

    It is the order that sorts the 64-bit keys of elements ``start`` to ``start + n``. Two keys are equal with a
    probability below n**2 / 2**65; then the lower index comes first.

    >>> sorted(permutation((1, 0), 5).tolist())
    [0, 1, 2, 3, 4]
    """
    return permutation_of(double_words(key, n, start))


def permutation_of(keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Return the order that sorts the keys, equal ones by index."""
    found = np.argsort(keys)
    ordered = keys[found]
    if (ordered[1:] == ordered[:-1]).any():  # a stable sort takes twice as long
        found = np.argsort(keys, kind="stable")
    return found.astype(np.int64, copy=False)
