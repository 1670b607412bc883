"""Draws of one or a few numbers, without a call of an operator: the numbers that ``tk.random`` draws.

They are made where nothing observes calls of operators, that is outside of modes and transforms, with numbers as
parameters, on the CPU. Each function returns None elsewhere, and where it does not know the arguments, so that the
general way draws, or raises its error. See Note [Numbers ahead] in ``tenkey/core/random/ahead.py``.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ...core.device import CPU, default_device
from ...core.random import draws
from ...core.random import exact_functions as exact
from ...core.tensor import Tensor, from_host
from ...core.word import WEAK_MASK
from ...dispatch.local_state import SILENT, get_state
from ..array_class import ndarray
from .bit_generators import BitGenerator

__all__ = [
    "NUMBERS", "array_of", "few_categories", "few_integers", "few_located", "few_uniform", "is_observed", "is_on_host",
    "order_of_few", "shape_of_few", "values_of",
]  # fmt: skip

_MOST: Final = 1024
NUMBERS: Final[frozenset[Any]] = frozenset([float, int, np.float64])
_UNIT: Final = 2.0**-53
_DROP: Final = np.uint64(11)


def is_observed() -> bool:
    """Tell whether a mode or a transform sees calls of operators, or they create tensors on a device."""
    state = get_state()
    return (state is not None and state is not SILENT) or default_device() is not CPU


def _count(size: Any) -> int:
    """Return the number of elements; -1 where the general way is to be taken."""
    if is_observed():
        return -1
    if size is None:
        return 1
    if size.__class__ is int:
        return size if 0 <= size <= _MOST else -1
    if size.__class__ is not tuple:
        return -1
    count = 1
    for n in size:
        if n.__class__ is not int or n < 0:
            return -1
        count *= n
    return count if count <= _MOST else -1


def array_of(values: np.ndarray[Any, Any], size: Any) -> Any:
    """Return an ``ndarray`` of values that nothing else holds."""
    made = from_host(np.asarray(values).reshape(size))
    made.__class__ = ndarray
    return made


def is_on_host(x: Tensor) -> bool:
    """Tell whether NumPy may have the values: of a tensor on the CPU that is not a wrapper of a transform."""
    return (x.__class__ is ndarray or x.__class__ is Tensor) and x.device is CPU


def values_of(parameter: Any) -> Any:
    """Return a number or the values of an array of real numbers on the host; None for anything else."""
    if parameter.__class__ in NUMBERS:
        return parameter
    if isinstance(parameter, Tensor):
        if not is_on_host(parameter) or parameter.requires_grad or parameter._word & WEAK_MASK:
            return None
        parameter = parameter.numpy()
    elif not isinstance(parameter, np.ndarray) or not parameter.ndim:
        return None
    return parameter if parameter.dtype.kind in "iuf" else None


def shape_of_few(size: Any, *parameters: Any) -> tuple[int, ...] | None:
    """Return the shape of a draw with these numbers or arrays; None where the general way is to be taken."""
    try:
        common = np.broadcast_shapes(*map(np.shape, parameters))
        if size is not None:
            size = (size,) if size.__class__ is int else size
            if _count(size) < 0 or np.broadcast_shapes(common, size) != size:
                return None
            common = size
    except ValueError:
        return None
    return common if math.prod(common) <= _MOST else None


def _planned(size: Any, first: Any, second: Any) -> tuple[Any, Any, tuple[int, ...] | None]:
    """Return the values of two parameters, one at least an array, and the shape of the result; None to refuse."""
    if is_observed():
        return None, None, None
    first, second = values_of(first), values_of(second)
    return first, second, None if first is None or second is None else shape_of_few(size, first, second)


def _uniform_of_arrays(bits: BitGenerator, size: Any, low: Any, high: Any) -> Any:
    low, high, shape = _planned(size, low, high)
    if shape is None or not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    low, high = (np.asarray(x, np.float64) for x in (low, high))
    with np.errstate(over="ignore"):
        width = high - low
    if not ((width > 0) & (width < math.inf)).all():
        return None
    units = (bits.ahead("words", math.prod(shape)) >> _DROP).astype(np.float64).reshape(shape) * _UNIT
    drawn = units * width + low
    return array_of(np.where(drawn < high, drawn, low), shape)


def _located_arrays(bits: BitGenerator, kind: str, size: Any, loc: Any, scale: Any) -> Any:
    loc, scale, shape = _planned(size, loc, scale)
    if shape is None or not np.isfinite(loc).all() or not (np.isfinite(scale) & (scale >= 0)).all():
        return None
    loc, scale = (np.asarray(x, np.float64) for x in (loc, scale))
    with np.errstate(over="ignore"):
        return array_of(bits.ahead(kind, math.prod(shape)).reshape(shape) * scale + loc, shape)


def few_uniform(bits: BitGenerator, size: Any, low: Any = 0.0, high: Any = 1.0) -> Any:
    """Draw as ``draws.uniform`` does, in float64."""
    if low.__class__ not in NUMBERS or high.__class__ not in NUMBERS:
        return _uniform_of_arrays(bits, size, low, high)
    if not low < high:
        return None
    count = _count(size)
    width = float(high) - float(low)
    if count < 0 or not width < math.inf:
        return None
    words = bits.ahead("words", count)
    if size is None:
        value = (int(words[0]) >> 11) * _UNIT * width + float(low)
        return value if value < high else math.nextafter(high, -math.inf)
    values = (words >> _DROP).astype(np.float64)
    values *= _UNIT
    if width != 1.0 or low:
        values *= width
        values += low
        np.copyto(values, np.nextafter(float(high), -math.inf), where=values >= high)
    return array_of(values, size)


def few_located(bits: BitGenerator, kind: str, size: Any, loc: Any, scale: Any) -> Any:
    """Draw standard numbers of a kind of ``LAYOUTS``, times the scale, plus the location."""
    if loc.__class__ not in NUMBERS or scale.__class__ not in NUMBERS:
        return _located_arrays(bits, kind, size, loc, scale)
    if not (0 <= scale < math.inf and -math.inf < loc < math.inf):
        return None
    count = _count(size)
    if count < 0:
        return None
    values = bits.ahead(kind, count)
    if size is None:
        return values.item(0) * float(scale) + float(loc)
    return array_of(values * float(scale) + float(loc), size)


def few_integers(bits: BitGenerator, size: Any, low: Any, high: Any, dtype: Any) -> Any:
    """Draw as ``draws.integers`` does, from at most 2**32 int64 integers."""
    if low.__class__ is not int or high.__class__ is not int or not 0 < high - low <= 1 << 32:
        return None
    if not -(1 << 62) < low < 1 << 62:
        return None
    count = _count(size)
    if count < 0:
        return None
    words = bits.ahead("words", count)
    if size is None:
        number = (int(words[0]) * (high - low) >> 64) + low
        return number if dtype is int else np.int64(number)
    return array_of(exact.scaled(words, np.uint64(high - low)).astype(np.int64) + low, size)


def few_categories(bits: BitGenerator, size: Any, p: np.ndarray[Any, Any], n: int) -> Any:
    """Draw as ``tk.random.categorical`` does: indices below ``n`` with the probabilities ``p``, in float64."""
    if p.shape != (n,) or not n or not (p >= 0.0).all():
        return None
    sums = np.cumsum(p)
    if not abs(p.sum() - 1.0) <= 1e-8:
        return None
    count = _count(size)
    if count < 0:
        return None
    units = (bits.ahead("words", count) >> _DROP).astype(np.float64) * _UNIT
    last = n - 1 - int(np.argmax(p[::-1] > 0.0))
    places = np.minimum(np.searchsorted(sums, units * sums[-1], side="right"), last)
    return places.item() if size is None else array_of(places.astype(np.int64), size)


def order_of_few(bits: BitGenerator, n: int) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """Return 0 to n - 1 in the order of ``draws.permutation``."""
    if not 0 < n <= _MOST or _count(None) < 0:
        return None
    return draws.permutation_of(bits.ahead("words", n))
