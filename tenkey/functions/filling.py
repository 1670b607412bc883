"""``full`` and ``full_like``, of a number or of a tensor whose gradient they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..core.device import Device
from ..core.tensor import Tensor
from ..core.typing import ArrayLike
from ..dispatch.calling.public import public
from ..ops.builtin.creation import full as _full
from ..ops.builtin.creation import full_like as _full_like
from ..ops.builtin.shape.copying import clone, to
from ..ops.builtin.shape.views import broadcast_to
from ..ops.declare.leaf import as_leaf
from .creation import to_operand

__all__ = ["full", "full_like"]

_TENSORS: Final = (Tensor, np.ndarray, list, tuple, range)


@public
def full(
    shape: int | Sequence[int], fill_value: ArrayLike, dtype: Any = None, *, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a tensor filled with a number, whose kind determines the default dtype.

    In place of the number a tensor, an array or a sequence is broadcast to the shape; a tensor keeps its dtype and
    device by default, and gradients reach it. Raises ValueError and OverflowError for a number that ``dtype`` cannot
    hold, ValueError for a tensor that does not broadcast. Source: array API standard 2025.12, ``full``.

    >>> tk.full((2,), 7).tolist(), tk.full((2, 2), tk.asarray([1.0, 2.0])).tolist()
    ([7, 7], [[1.0, 2.0], [1.0, 2.0]])
    """
    if not isinstance(fill_value, _TENSORS):
        made = _full(shape, fill_value, dtype=dtype, device=device)
    else:
        made = _broadcast("full", shape, fill_value, dtype, device)
    return made if requires_grad is False else as_leaf("full", made.detach(), requires_grad)


def full_like(
    x: ArrayLike, fill_value: ArrayLike, dtype: Any = None, *, device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a tensor filled with a number, with the shape, dtype and device of ``x``.

    In place of the number a tensor, an array or a sequence is broadcast, and gradients reach it, as in :func:`full`.

    >>> tk.full_like(tk.asarray([1, 2]), 5).tolist()
    [5, 5]
    """
    if not isinstance(fill_value, _TENSORS):
        made = _full_like(x, fill_value, dtype=dtype, device=device)
    else:
        x = to_operand("full_like", x)
        made = _broadcast("full_like", x.shape, fill_value, dtype or x.dtype, device or x.device)
    return made if requires_grad is False else as_leaf("full_like", made.detach(), requires_grad)


def _broadcast(function: str, shape: Any, value: Any, dtype: Any, device: Any) -> Tensor:
    given = to_operand(function, value)
    if dtype is not None or device is not None:
        given = to(given, dtype=dtype, device=device)
    return clone(broadcast_to(given, shape))
