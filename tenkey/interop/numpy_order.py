"""NumPy's ``order=``: in which order the elements of a tensor are read, and lie in memory."""

from __future__ import annotations

from typing import Any

from ..core.storage import is_contiguous, memory_order
from ..core.tensor import Tensor
from ..core.word import REQUIRES_GRAD
from ..ops.builtin.shape.copying import clone
from ..ops.builtin.shape.views import permute_dims, reshape

__all__ = ["in_order", "ravel", "reshaped"]


def _axes(x: Tensor, order: str | None) -> tuple[int, ...]:
    """Return the axes from the slowest to the fastest in NumPy's ``order`` for elements like those of ``x``."""
    name, data = "K" if order is None else str(order).upper(), x._data
    axes = tuple(range(len(data.shape)))
    if name == "F" or (name == "A" and _is_column_major(data)):
        return axes[::-1]
    if name == "K":
        return memory_order(data.strides)[0]
    if name not in ("C", "A"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    return axes


def _is_column_major(data: Any) -> bool:
    size = data.dtype.itemsize
    return is_contiguous(data.shape[::-1], data.strides[::-1], size) and not is_contiguous(
        data.shape, data.strides, size
    )


def in_order(x: Tensor, order: str | None, like: Tensor | None = None) -> Tensor:
    """Return a tensor whose elements lie in memory in NumPy's ``order``: itself, or a copy.

    ``"C"`` is row-major, ``"F"`` column-major; ``"A"`` is column-major if ``like`` is, and ``"K"`` keeps the order of
    ``like``: without another array, as it is.
    """
    if (like is None or like is x) and (order is None or str(order).upper() == "K"):
        return x
    like = x if like is None else like
    if order is None or str(order).upper() == "K":  # NumPy's copies have axes of stride 0 last
        axes = tuple(sorted(range(like.ndim), key=lambda axis: -abs(like._data.strides[axis])))
    else:
        axes = _axes(like, order)
    if axes == tuple(sorted(axes)):
        return x if x.is_contiguous else clone(x)
    turned = permute_dims(x, axes)
    if turned.is_contiguous:
        return x
    made = permute_dims(clone(turned), tuple(sorted(axes, key=axes.__getitem__)))
    if not made._word & REQUIRES_GRAD:
        made._storage = None  # the only window on new memory
    return made


def ravel(x: Tensor, order: str | None = "C") -> Tensor:
    """Return the elements as a vector, read in NumPy's ``order``; a view where possible."""
    axes = _axes(x, order)
    made = reshape(x if axes == tuple(sorted(axes)) else permute_dims(x, axes), (-1,))
    return made if made.is_contiguous else clone(made)


def reshaped(x: Tensor, shape: Any, order: str = "C", copy: bool | None = None) -> Tensor:
    """Return the elements, read and placed in NumPy's ``order``, in another shape."""
    lengths = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    name = str(order).upper()
    if name not in ("C", "F", "A"):
        what = "order 'K' is not permitted for reshaping" if name == "K" else "order must be one of 'C', 'F', 'A'"
        raise ValueError(f"[numpy.reshape] {what} (got {order!r})")
    if name == "C" or (name == "A" and not _is_column_major(x._data)):
        return reshape(x, lengths, copy=copy)
    try:
        turned = reshape(permute_dims(x, tuple(range(x.ndim))[::-1]), lengths[::-1], copy=copy)
    except ValueError as error:
        if copy is False:
            raise ValueError(f"Unable to avoid creating a copy while reshaping: {error}") from None
        raise
    return permute_dims(turned, tuple(range(turned.ndim))[::-1])
