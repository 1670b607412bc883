"""Parameters and results of ``tenkey.numpy.random``.

Note [Numbers and arrays drawn]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
With ``size=None`` and numbers as parameters, NumPy returns Python's floats and ints (``Generator.integers`` and
``choice`` return its scalars), which programs use as indices, as keys and in text. So do these functions; inside of a
transform, where a draw has no single value, the result is a 0-d array. It is a 0-d array as well where a parameter is a
tensor, to which gradients flow. Every other result is an ``ndarray`` of float64 or int64, on the device of the
parameters. Guarded by tests/numpy/test_random_numbers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ...core.dtypes import names as dtypes
from ...core.storage import is_contiguous
from ...core.tensor import Tensor
from ...core.word import DTYPE_TRAIT, WEAK_MASK
from ...functions.creation import asarray
from ..array_class import as_ndarrays, ndarray
from ..converting import operand

__all__ = [
    "as_drawn",
    "as_parameter",
    "as_population",
    "chosen_float",
    "draw",
    "into",
    "plain",
    "shape_of",
    "size_of",
]

_NAMES: Final = {
    "[normal] mean ": "[normal] loc ", "[normal] std ": "[normal] scale ", "[gamma] a ": "[gamma] shape ",
    "[multinomial] p ": "[multinomial] pvals ",
}  # fmt: skip


def plain(x: Any) -> Any:
    """Return a tensor with the rules of ``tk``."""
    return x.as_subclass(Tensor) if x.__class__ is ndarray else x


def as_parameter(value: Any) -> Any:
    """Return a parameter as a Python number, or as a plain tensor where it is an array or a sequence."""
    if value.__class__ is float or value.__class__ is int:
        return value
    if isinstance(value, Tensor):
        if value._word & WEAK_MASK:
            return value.item()
        return plain(value.astype(dtypes.int64) if value.dtype == dtypes.bool else value)
    if isinstance(value, (bool, np.generic)) or (isinstance(value, np.ndarray) and not value.ndim):
        number = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
        return int(number) if isinstance(number, bool) else number
    found = operand(value) if isinstance(value, (list, tuple, range, np.ndarray)) else value
    return as_parameter(found) if isinstance(found, Tensor) else found


def shape_of(*parameters: Any) -> tuple[int, ...]:
    """Return the common shape of parameters."""
    return np.broadcast_shapes(*[p.shape for p in parameters if isinstance(p, Tensor)])


def size_of(size: Any) -> Any:
    """Return a size with an array of lengths as a tuple."""
    return tuple(size.tolist()) if getattr(size, "ndim", 0) else size


def draw(function: Callable[..., Any], size: Any, dtype: Any, source: Any, parameters: dict[str, Any]) -> Any:
    """Call a function of ``tk.random`` and return its numbers: Note [Numbers and arrays drawn]."""
    scalar, size = size is None, size_of(size)
    for name, value in parameters.items():
        if value.__class__ is not float and value.__class__ is not int:
            value = parameters[name] = as_parameter(value)
            if isinstance(value, Tensor):
                scalar = False
    try:
        drawn = function(size, dtype=dtype, generator=source, **parameters)
    except (ValueError, TypeError) as error:  # with NumPy's name of the argument
        message = str(error)
        for ours, theirs in _NAMES.items():
            message = message.replace(ours, theirs)
        raise type(error)(message) from None
    return as_drawn(drawn, scalar=scalar)


def as_drawn(drawn: Any, *, scalar: bool, kind: Any = None) -> Any:
    """Return drawn numbers as an ``ndarray``; with ``scalar`` as a Python number, or a scalar of the class ``kind``."""
    if scalar:
        try:
            number = drawn.item()
        except RuntimeError:  # inside of a transform
            pass
        else:
            return number if kind is None else kind(number)
    return as_ndarrays(drawn)


def chosen_float(name: str, dtype: Any) -> np.dtype:
    """Return float32 or float64. Raises TypeError for another dtype."""
    chosen: np.dtype = np.dtype(dtype)
    if chosen not in (dtypes.float32, dtypes.float64):
        raise TypeError(f"[random.{name}] got dtype {chosen.name}: these numbers are drawn in float64 or float32.")
    return chosen


def into(name: str, out: Any, size: Any, dtype: np.dtype, function: Callable[[Any], Any]) -> Any:
    """Return ``out`` with the numbers that ``function`` draws for its shape. Raises TypeError and ValueError."""
    if not isinstance(out, (Tensor, np.ndarray)):
        raise TypeError(f"[random.{name}] out= must be an array, got {type(out).__name__}.")
    if out.dtype != dtype:
        raise TypeError(f"[random.{name}] out= has dtype {out.dtype}, and the numbers are {dtype}: give dtype=.")
    own = plain(out) if isinstance(out, Tensor) else out
    dense = is_contiguous(own.shape, own.strides, 1) if isinstance(own, Tensor) else own.flags.c_contiguous
    if not dense:
        raise ValueError(
            f"[random.{name}] out= must be contiguous, in C order: draw without out= and assign the result."
        )
    if size is not None and out.shape != (tuple(size) if isinstance(size, Sequence) else (size,)):
        raise ValueError(f"[random.{name}] size={size} must be the shape of out=, {out.shape}, where both are given.")
    drawn = function(out.shape)
    if isinstance(out, Tensor):
        out.copy_(drawn)
    else:
        np.copyto(out, drawn.numpy())
    return out


def as_population(given: Any) -> Any:
    """Return what is selected from or reordered: an int, an array of ours, or one of NumPy's of another dtype."""
    if isinstance(given, Tensor) or given.__class__ is int:
        return given
    array = np.asarray(given)
    if array.dtype not in DTYPE_TRAIT:
        return array
    if array.ndim == 0:
        return array.item()
    made = asarray(array)
    made.__class__ = ndarray
    return made
