"""Functions of dtypes and shapes: promotion, casting rules, broadcasting."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dtypes import promotion
from ..core.dtypes.names import DType, to_dtype
from ..core.tensor import Tensor
from ..ops import shapes as rules
from ..ops.builtin.shape.views import broadcast_to
from .creation import to_operand

__all__ = ["broadcast_arrays", "broadcast_shapes", "can_cast", "result_type"]


def _dtype_of(value: Any) -> DType:
    """Return the dtype of a tensor or NumPy array, or the one that ``value`` names."""
    return to_dtype(value.dtype if isinstance(value, (Tensor, np.ndarray, np.generic)) else value)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """Return the dtype of the result of operands with these dtypes.

    Args: tensors, dtypes and Python numbers, in any order. Python numbers are weak: one of a kind already present
    changes nothing, one of a later kind (int, float, complex) gives the default dtype of that kind, and ``1j`` with
    float64 gives complex128. Raises TypeError for uint64 with a signed integer, ValueError without arguments. Source:
    array API standard 2025.12; across kinds, such as int64 with float32, the float determines the result.

    >>> tk.result_type(tk.ones(2), tk.int64, 3.0), tk.result_type(tk.uint8, tk.int8)
    (dtype('float32'), dtype('int16'))
    """
    if not arrays_and_dtypes:
        raise ValueError("[result_type] got nothing: give at least one tensor, dtype or Python number.")
    found: list[DType] = []
    weak: list[type] = []
    for value in arrays_and_dtypes:
        if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
            weak.append(type(value))
        else:
            found.append(_dtype_of(value))
    return promotion.result_dtype(found, weak)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Return whether promotion leads from one dtype to another, that is, promoting both gives ``to``.

    Args: ``from_``: a dtype or a tensor; ``to``: a dtype. Source: array API standard 2025.12, ``can_cast``.

    >>> tk.can_cast(tk.int32, tk.int64), tk.can_cast(tk.ones(2), tk.int64)
    (True, False)
    """
    return promotion.can_cast(_dtype_of(from_), to_dtype(to))


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Return the shape that arrays of these shapes broadcast to; ``()`` without arguments.

    Raises ValueError for shapes that do not broadcast and for invalid shapes.

    >>> tk.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    given = []
    for shape in shapes:
        lengths: tuple[Any, ...] = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0 for n in lengths):
            raise ValueError(
                f"[broadcast_shapes] got the shape {shape!r}: a shape is a tuple of lengths, integers of at least 0."
            )
        given.append(tuple([int(n) for n in lengths]))
    return rules.broadcast_shapes("broadcast_shapes", *given)


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors, each broadcast to their common shape, as views; dtypes are unchanged.

    Raises ValueError for shapes that do not broadcast.

    >>> [x.shape for x in tk.broadcast_arrays(tk.ones((2, 1)), tk.ones(3))]
    [(2, 3), (2, 3)]
    """
    tensors = [to_operand("broadcast_arrays", x) for x in arrays]
    shape = rules.broadcast_shapes("broadcast_arrays", *[x.shape for x in tensors])
    return tuple([x if x.shape == shape else broadcast_to(x, shape) for x in tensors])
