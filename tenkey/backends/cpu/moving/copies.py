"""CPU kernels that only move elements: copies from views of the arguments into parts of one result.

Large calls run in the loops of ``loops/strided_copies.py``. NumPy joins arrays that are small on average: its loop over
the arrays takes less time than a parallel region for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ....core.dtypes.promotion import result_dtype
from ....core.tensor import Tensor, make_tensor
from ....core.word import INHERITED
from ....dispatch.operator import Operator
from ...allocation.host import allocate
from ..fp_warnings import silenced
from ..kernels import Specialized, check, wrap
from ..loops.strided_copies import copied, copy_into
from ..numpy_kernels import numpy_kernel
from ..thresholds import COPIED

__all__ = ["KERNELS"]


def clone(x: Tensor) -> Tensor:
    a = x._data
    return make_tensor(a.copy() if a.nbytes < COPIED else copied(a), x._word & INHERITED)


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
    return wrap(np.array(data, order="C") if data.nbytes < COPIED else copied(data))


def concatenate(arrays: Sequence[Tensor], *, axis: int = 0) -> Tensor:
    data = [x._data for x in arrays]
    try:
        dtype = data[0].dtype
        for a in data:
            if a.dtype is not dtype:
                dtype = result_dtype(tuple([x.dtype for x in arrays]))
                break
        if data[0].nbytes * len(data) >= COPIED:
            return wrap(_joined(arrays, data, axis, dtype))
        return wrap(np.asarray(np.concatenate(data, axis, dtype=dtype), order="C"))
    except (ValueError, TypeError, IndexError, OverflowError):
        check("concatenate", arrays, axis=axis)
        raise


def _joined(arrays: Sequence[Tensor], data: Sequence[np.ndarray], axis: int, dtype: np.dtype) -> np.ndarray:
    """Return a large concatenation: each array is copied into its part of the result."""
    shape = check("concatenate", arrays, axis=axis).shape
    out = allocate(shape, dtype)
    if out.nbytes < COPIED * len(data):
        return silenced(np.concatenate, data, axis, out, casting="unsafe")  # type: ignore[no-any-return]
    start = 0
    lead = (slice(None),) * (axis if axis >= 0 else axis + len(shape))
    for a in data:
        stop = start + a.shape[axis]
        part = out[(*lead, slice(start, stop))]
        if a.dtype == dtype:
            copy_into(part, a)
        else:
            silenced(np.copyto, part, a, "unsafe")
        start = stop
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
        _fill_border(out, a.shape, before, values)
        copy_into(out[tuple([slice(b, b + n) for b, n in zip(before, a.shape, strict=True)])], a)
        return make_tensor(out, x._word & INHERITED)

    return kernel


def _fill_border(out: np.ndarray, shape: Sequence[int], before: Sequence[int], values: Sequence[Any]) -> None:
    """Fill what surrounds a block of this shape; later dimensions write over the corners of earlier ones."""
    for axis, (start, n) in enumerate(zip(before, shape, strict=True)):
        lead = (slice(None),) * axis
        for value, side in zip(values[2 * axis :], (slice(start), slice(start + n, None)), strict=False):
            copy_into(out[(*lead, side)], silenced(np.full, (), value, out.dtype))


def conj(x: Tensor) -> Tensor:
    return wrap(np.conjugate(x._data)) if x.dtype.kind == "c" else clone(x)


KERNELS: Final[dict[str, Callable[..., Any] | Specialized]] = {
    "tk::clone": clone, "tk::flip": flip, "tk::concatenate": concatenate, "tk::conj": conj,
    "tk::real": lambda x: wrap(copied(x._data.real)), "tk::imag": lambda x: wrap(copied(x._data.imag)),
    "tk::repeat_each": Specialized(_repeat_each_rule), "tk::pad_constant": Specialized(_pad_constant_rule),
}  # fmt: skip
