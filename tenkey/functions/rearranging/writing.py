"""Functions that write into their first argument, as NumPy's do: ``put``, ``place`` and ``putmask``.

They assign by index, so they work in place on every device, and the gradients of the values and of what remains are
those of an assignment.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...core.tensor import Tensor
from ...dispatch.calling.public import public
from ...ops.builtin.creation import arange
from ...ops.builtin.elementwise.arithmetic import remainder
from ...ops.builtin.elementwise.comparison import not_equal, where
from ...ops.builtin.elementwise.limiting import clip
from ...ops.builtin.indexing.advanced_indexing import check_integers, index
from ...ops.builtin.indexing.setitem import put_, setitem
from ...ops.builtin.shape.copying import cast
from ...ops.builtin.shape.views import reshape
from ..creation import asarray, refuse_other
from ..indexing import nonzero, unravel_index

__all__ = ["place", "put", "putmask", "repeated"]

_MODES: Final = "[put] mode is 'raise', 'wrap' or 'clip', got {mode!r}."


def _values(function: str, x: Tensor, values: Any) -> Tensor:
    """Return the values in one dimension, in the dtype of ``x``."""
    given = values if isinstance(values, Tensor) else asarray(values, device=x.device)
    if given.dtype.kind == "c" and x.dtype.kind != "c":
        raise TypeError(f"[{function}] values of dtype {given.dtype} cannot be stored in a tensor of {x.dtype}.")
    flat = reshape(given, (-1,))
    return flat if flat.dtype == x.dtype else cast(flat, x.dtype)


def repeated(values: Tensor, count: int, device: Any) -> Tensor:
    """Return values in one dimension, repeated in order up to a number of them."""
    if values.shape[0] == count:
        return values
    return index(values, [arange(count, device=device) % values.shape[0]])


@public
def put(x: Tensor, indices: Any, values: Any, mode: str = "raise") -> Tensor:
    """Write values at indices of the flattened tensor, in place, and return ``x``.

    Args: indices: integers of any shape, in row-major order. values: repeated if there are fewer than indices, and
    converted to the dtype of ``x``. mode: for an index out of range ``"raise"`` raises IndexError, ``"wrap"`` counts
    on from the other end, ``"clip"`` takes the nearest place. Of equal indices one value is kept, on the CPU the last.
    Raises RuntimeError for a leaf that requires a gradient. Source: ``numpy.put``.

    >>> x = tk.arange(5)
    >>> tk.put(x, [0, -1], [7, 8]).tolist()
    [7, 1, 2, 3, 8]
    """
    refuse_other("put", x)
    at = indices if isinstance(indices, Tensor) else asarray(np.asarray(indices), device=x.device)
    flat = reshape(at, (-1,))
    if not flat.shape[0]:
        return x
    check_integers("put", flat)
    values = _values("put", x, values)
    if not values.shape[0]:
        return x
    n = x.size
    if mode == "wrap":
        flat = remainder(flat, n)
    elif mode == "clip":
        flat = clip(flat, 0, n - 1)
    elif mode != "raise":
        raise ValueError(_MODES.format(mode=mode))
    values = repeated(values, flat.shape[0], x.device)
    if x.ndim == 1:
        return put_(x, [flat], values)
    if not x.ndim:
        setitem(x, (), values[-1])
        return x
    if mode == "raise":
        flat = where(flat < 0, flat + n, flat)
        if x.device.type != "meta" and bool(((flat < 0) | (flat >= n)).any()):
            raise IndexError(f"[put] an index is out of range for a tensor of {n} elements.")
    return put_(x, list(unravel_index(flat, x.shape)), values)


def _mask(function: str, x: Tensor, mask: Any) -> Tensor:
    given = mask if isinstance(mask, Tensor) else asarray(mask, device=x.device)
    if given.size != x.size:
        raise ValueError(f"[{function}] a mask of shape {given.shape} needs the size of the tensor, shape {x.shape}.")
    given = reshape(given, x.shape)
    return given if given.dtype.kind == "b" else not_equal(given, 0)


@public
def place(x: Tensor, mask: Any, values: Any) -> Tensor:
    """Write the first values, in order, where a mask is true, in place, and return ``x``.

    Args: mask: as many elements as ``x``. values: as many as the mask has true elements are used; repeated if there are
    fewer. Raises ValueError if there are none and the mask has true elements. Source: ``numpy.place``.

    >>> x = tk.arange(4)
    >>> tk.place(x, x > 1, [7, 8]).tolist()
    [0, 1, 7, 8]
    """
    refuse_other("place", x)
    rows = nonzero(_mask("place", x, mask)) if x.ndim else nonzero(reshape(_mask("place", x, mask), (1,)))
    count = rows[0].shape[0]
    if not count:
        return x
    values = _values("place", x, values)
    if not values.shape[0]:
        raise ValueError("[place] got no values for the true elements of the mask.")
    values = repeated(values[:count], count, x.device)
    if not x.ndim:
        setitem(x, (), values[0])
        return x
    return put_(x, list(rows), values)


@public
def putmask(x: Tensor, mask: Any, values: Any) -> Tensor:
    """Write, where a mask is true, the value at the same place, in place, and return ``x``.

    Args: mask: as many elements as ``x``. values: a number, a tensor of the size of ``x``, or fewer values, which are
    repeated in row-major order. Unlike ``tk.place``, values at places where the mask is false are skipped. Source:
    ``numpy.putmask``.

    >>> x = tk.arange(4)
    >>> tk.putmask(x, x > 1, tk.asarray([10, 20, 30, 40])).tolist()
    [0, 1, 30, 40]
    """
    refuse_other("putmask", x)
    chosen = _mask("putmask", x, mask)
    values = _values("putmask", x, values)
    if not values.shape[0]:
        return x
    fitted = reshape(repeated(values[: x.size], x.size, x.device), x.shape)
    return x.copy_(where(chosen, fitted, x))
