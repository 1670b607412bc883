"""Bits as the elements of bytes: ``packbits`` and ``unpackbits``."""

from __future__ import annotations

import operator
from typing import Any, Final

from ...core.dtypes.names import uint8
from ...core.tensor import Tensor
from ...dispatch.calling.public import public
from ...ops.builtin.creation import arange, zeros
from ...ops.builtin.elementwise.comparison import not_equal
from ...ops.builtin.reductions.reduction import sum
from ...ops.builtin.shape.copying import cast, concat, flip
from ...ops.builtin.shape.manipulation import moveaxis
from ...ops.builtin.shape.views import expand_dims, reshape
from ...ops.builtin.shape.views import slice as slice_view
from ...ops.shapes import checked_axis
from ..creation import to_operand

__all__ = ["packbits", "unpackbits"]

_ORDERS: Final = ("big", "little")


def _operand(function: str, x: Any, axis: int | None, bitorder: str) -> tuple[Tensor, int]:
    x = to_operand(function, x)
    if bitorder not in _ORDERS:
        raise ValueError(f"[{function}] bitorder is 'big' or 'little', got {bitorder!r}.")
    if axis is None:
        return reshape(x, (-1,)), 0
    return x, checked_axis(function, axis, x.ndim)


@public
def packbits(x: Tensor, axis: int | None = None, bitorder: str = "big") -> Tensor:
    """Return bytes (uint8) of eight elements each along an axis, as bits: 1 where they are not zero.

    Args: x: integers or bools. axis: None for the flattened tensor; the last byte is filled up with zeros. bitorder:
    ``"big"`` makes the first element the highest bit, ``"little"`` the lowest. Raises TypeError for other dtypes.
    Source: ``numpy.packbits``.

    >>> tk.packbits(tk.asarray([1, 0, 0, 0, 0, 0, 1, 1, 1])).tolist()
    [131, 128]
    """
    x, i = _operand("packbits", x, axis, bitorder)
    if x.dtype.kind not in "biu":
        raise TypeError(f"[packbits] takes integers and bools, got {x.dtype}: compare first (x != 0).")
    bits = moveaxis(cast(not_equal(x, 0), uint8), i, -1)
    n = bits.shape[-1]
    count = -(-n // 8)
    if 8 * count > n:
        rest = zeros((*bits.shape[:-1], 8 * count - n), dtype=uint8, device=x.device)
        bits = concat([bits, rest], axis=-1)
    weights = 1 << arange(8, dtype=uint8, device=x.device)
    if bitorder == "big":
        weights = flip(weights, axis=0)
    packed = sum(reshape(bits, (*bits.shape[:-1], count, 8)) * weights, axis=-1, dtype=uint8)
    return moveaxis(packed, -1, i)


@public
def unpackbits(x: Tensor, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Tensor:
    """Return the bits of bytes along an axis as elements 0 and 1 (uint8), eight for each.

    Args: x: uint8. axis: None for the flattened tensor. count: the number of bits to return, more are zeros; a negative
    number leaves out so many at the end. bitorder: as for ``tk.packbits``, which this inverts. Raises TypeError for
    other dtypes, ValueError for a negative ``count`` beyond the length. Source: ``numpy.unpackbits``.

    >>> tk.unpackbits(tk.asarray([131], dtype=tk.uint8)).tolist()
    [1, 0, 0, 0, 0, 0, 1, 1]
    """
    x, i = _operand("unpackbits", x, axis, bitorder)
    if x.dtype != uint8:
        raise TypeError(f"[unpackbits] takes dtype uint8, got {x.dtype}: convert with tk.astype(x, tk.uint8).")
    shifts = arange(8, dtype=uint8, device=x.device)
    if bitorder == "big":
        shifts = flip(shifts, axis=0)
    lanes = moveaxis(x, i, -1)
    bits = (expand_dims(lanes, -1) >> shifts) & 1
    n = 8 * lanes.shape[-1]
    bits = reshape(bits, (*lanes.shape[:-1], n))
    if count is not None:
        wanted = operator.index(count)
        if wanted < 0:
            wanted += n
            if wanted < 0:
                raise ValueError(f"[unpackbits] count={count} leaves out more bits than the {n} there are.")
        if wanted > n:
            rest = zeros((*bits.shape[:-1], wanted - n), dtype=uint8, device=x.device)
            bits = concat([bits, rest], axis=-1)
        bits = slice_view(bits, bits.ndim - 1, 0, wanted)
    return moveaxis(bits, -1, i)
