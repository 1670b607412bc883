"""``linspace``, between Python numbers or tensors."""

from __future__ import annotations

import builtins
import numbers
from typing import Any

from .._util.checked_integer import checked_integer
from ..core.dtypes import names as dtypes
from ..core.tensor import Tensor
from ..dispatch.calling.public import public
from ..dispatch.errors import shown
from ..ops.builtin.creation import arange
from ..ops.builtin.creation import linspace as _linspace
from ..ops.builtin.elementwise.comparison import where
from ..ops.builtin.elementwise.rounding import floor
from ..ops.builtin.shape.copying import cast
from ..ops.builtin.shape.views import reshape
from ..ops.declare.leaf import as_leaf

__all__ = ["linspace"]


def _inexact(end: Any) -> Any:
    is_exact = isinstance(end, Tensor) and end.dtype.kind in "biu"
    return cast(end, dtypes.default_float()) if is_exact else end


@public
def linspace(
    start: complex | Tensor, stop: complex | Tensor, num: int, *, dtype: Any = None, device: Any = None,
    endpoint: builtins.bool = True, requires_grad: builtins.bool = False,
) -> Tensor:  # fmt: skip
    """Return ``num`` evenly spaced values from ``start`` to ``stop``.

    Args: start, stop: Python numbers, or tensors that broadcast (their dimensions follow that of the values, and
    gradients reach them). num: at least 0. dtype: by default that of the tensors, the default floating dtype for
    integers and Python numbers; integer dtypes round down. endpoint: whether the last value is ``stop``; otherwise the
    last of ``num + 1`` values is omitted. Returns shape (num,) followed by that of the ends. Raises ValueError for a
    negative ``num``, TypeError for complex values and a real dtype.

    Source: array API standard 2025.12, ``linspace``.

    >>> tk.linspace(0, 1, 3).tolist()
    [0.0, 0.5, 1.0]
    >>> tk.linspace(tk.asarray([0.0, 10.0]), 4, 3).tolist()
    [[0.0, 10.0], [2.0, 7.0], [4.0, 4.0]]
    """
    if not (isinstance(start, Tensor) or isinstance(stop, Tensor)):
        made = _linspace(start, stop, num, dtype=dtype, device=device, endpoint=endpoint)
        return made if requires_grad is False else as_leaf("linspace", made, requires_grad)
    message = f"[linspace] num is an integer, the number of values, at least 0; got {shown(num)}."
    num = checked_integer(num, message)
    if not all(isinstance(end, (Tensor, numbers.Number)) for end in (start, stop)):
        raise TypeError(
            f"[linspace] start and stop are Python numbers or tensors, got {shown(start)} and {shown(stop)}."
        )
    first, last = _inexact(start), _inexact(stop)
    length = last - first
    steps = num - 1 if endpoint else num
    k = arange(num, dtype=dtypes.real_of(length.dtype), device=length.device)
    k = reshape(k, (num, *(1,) * length.ndim))
    values = k * (length / max(steps, 1)) + first
    if endpoint and num > 1:
        values = where(k == num - 1, last, values)  # not rounded
    if dtype is not None:
        wanted = dtypes.to_dtype(dtype)
        if values.dtype.kind == "c" and wanted.kind != "c":
            raise TypeError(
                f"[linspace] got complex ends for the dtype {wanted}: take tk.real of them first, or name a complex "
                "dtype."
            )
        values = cast(floor(values) if wanted.kind in "iu" else values, wanted)
    values = values if device is None else values.to(device)
    return values if requires_grad is False else as_leaf("linspace", values.detach(), requires_grad)  # as in tk.tensor
