"""CPU kernels that only move elements: large calls copy views of the arguments into parts of one result, at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor, make_tensor
from ....core.word import INHERITED
from ....dispatch.operator import Operator
from ...allocation.host import allocate
from ..fp_warnings import silenced
from ..kernels import Specialized, check, convert_into, wrap
from ..loops.moves.strided_copies import copied, copy_into, copy_pieces
from ..loops.moves.triangles import triangle
from ..numpy_kernels import numpy_kernel
from ..thresholds import COPIED, JOINED, REORDERED, TRIANGULAR

__all__ = ["KERNELS"]

_Piece = tuple[np.ndarray, np.ndarray]


def clone(x: Tensor) -> Tensor:
    a = x._data
    few = a.nbytes < REORDERED or (a.nbytes < COPIED and a.strides[-1] == a.itemsize)
    return make_tensor(a.copy() if few else copied(a), x._word & INHERITED)


_BACKWARDS: Final = slice(None, None, -1)


def flip(x: Tensor, *, axis: Any = None) -> Tensor:
    a = x._data
    try:
        if axis is None:
            data = a[(_BACKWARDS,) * a.ndim]
        elif len(axis) == 1:
            i = axis[0] if axis[0] >= 0 else axis[0] + a.ndim
            if not 0 <= i < a.ndim:
                raise IndexError
            data = a[(slice(None),) * i + (_BACKWARDS,)]
        else:
            data = np.flip(a, axis)
    except (IndexError, ValueError):
        check("flip", x, axis=axis)
        raise
    return wrap(np.array(data, order="C") if data.nbytes < REORDERED else copied(data))


def concatenate(arrays: Sequence[Tensor], *, axis: int = 0) -> Tensor:
    data = [x._data for x in arrays]
    try:
        dtype = data[0].dtype
        nbytes = 0
        for a in data:
            nbytes += a.nbytes
            if a.dtype is not dtype:
                dtype = result_dtype(tuple([x.dtype for x in arrays]))
        if nbytes >= JOINED:
            return wrap(_joined(data, axis, dtype))
        return wrap(np.asarray(np.concatenate(data, axis, dtype=dtype), order="C"))
    except (ValueError, TypeError, IndexError, OverflowError):
        check("concatenate", arrays, axis=axis)
        raise


def _joined(data: Sequence[np.ndarray], axis: int, dtype: np.dtype) -> np.ndarray:
    """Return a large concatenation: all arrays are copied into their parts of the result at once."""
    shape = data[0].shape
    i = axis if axis >= 0 else axis + len(shape)
    lead, rest = shape[:i], shape[i + 1 :]
    length = 0
    for a in data:
        length += a.shape[i]
        if a.shape[:i] != lead or a.shape[i + 1 :] != rest:
            raise ValueError
    out = allocate((*lead, length, *rest), dtype)
    start = 0
    before = (slice(None),) * i
    pieces = []
    for a in data:
        stop = start + a.shape[i]
        part = out[(*before, slice(start, stop))]
        if a.dtype == dtype:
            pieces.append((part, a))
        else:
            convert_into(part, a)
        start = stop
    copy_pieces(pieces)
    return out


def _repeat_each_rule(operator: Operator, word: int) -> Callable[..., Tensor]:
    general = numpy_kernel(operator)

    def kernel(x: Tensor, count: int, axis: int) -> Tensor:
        a = x._data
        if a.nbytes * count < COPIED:
            return general(x, count, axis)  # type: ignore[no-any-return]
        shape = check("repeat_each", x, count, axis).shape
        i = axis % a.ndim + 1
        out = allocate(shape, a.dtype)
        copy_into(out.reshape(*a.shape[:i], count, *a.shape[i:]), np.expand_dims(a, i))
        return make_tensor(out, x._word & INHERITED)

    return kernel


def _pad_constant_rule(operator: Operator, word: int) -> Callable[..., Tensor]:
    general = numpy_kernel(operator)

    def kernel(x: Tensor, before: Sequence[int], after: Sequence[int], values: Sequence[Any]) -> Tensor:
        a = x._data
        if a.nbytes < COPIED or not a.ndim:
            return general(x, before, after, values)  # type: ignore[no-any-return]
        out = allocate(check("pad_constant", x, before, after, values).shape, a.dtype)
        inner = tuple([slice(start, start + n) for start, n in zip(before, a.shape, strict=True)])
        copy_pieces([(out[inner], a), *_border(out, inner, values)])
        return make_tensor(out, x._word & INHERITED)

    return kernel


def _border(out: np.ndarray, inner: tuple[slice, ...], values: Sequence[Any]) -> Iterator[_Piece]:
    """Fill what surrounds a block, or yield it with its value; the corners belong to the later dimensions."""
    for axis, block in enumerate(inner):
        lead = (slice(None),) * axis
        for value, side in zip(values[2 * axis :], (slice(block.start), slice(block.stop, None)), strict=False):
            part = out[(*lead, side, *inner[axis + 1 :])]
            if part.nbytes < COPIED:
                silenced(part.fill, value)
            else:
                yield part, silenced(np.full, (), value, out.dtype)


def _triangle_rule(operator: Operator, word: int) -> Callable[..., Tensor]:
    general = numpy_kernel(operator)
    upper = operator.name == "tk::triu"

    def kernel(x: Tensor, *, k: int = 0) -> Tensor:
        a = x._data
        if a.nbytes >= TRIANGULAR and a.ndim >= 2:
            data = triangle(a, k, upper=upper)
            if data is not None:
                return make_tensor(data, x._word & INHERITED)
        return general(x, k=k)  # type: ignore[no-any-return]

    return kernel


def conj(x: Tensor) -> Tensor:
    return wrap(np.conjugate(x._data)) if x.dtype.kind == "c" else clone(x)


KERNELS: Final[dict[str, Callable[..., Any] | Specialized]] = {
    "tk::clone": clone, "tk::flip": flip, "tk::concatenate": concatenate, "tk::conj": conj,
    "tk::real": lambda x: wrap(copied(x._data.real)), "tk::imag": lambda x: wrap(copied(x._data.imag)),
    "tk::repeat_each": Specialized(_repeat_each_rule), "tk::pad_constant": Specialized(_pad_constant_rule),
    "tk::tril": Specialized(_triangle_rule), "tk::triu": Specialized(_triangle_rule),
}  # fmt: skip
