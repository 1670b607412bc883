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
from ....ops.builtin.shape.padding import pairs_of
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


_MIRRORED: Final[dict[str, Callable[[int, int, int], tuple[tuple[int, int], tuple[int, int]]]]] = {
    "edge": lambda start, stop, width: ((start, start + 1), (stop - 1, stop)),
    "wrap": lambda start, stop, width: ((stop - width, stop), (start, start + width)),
    "symmetric": lambda start, stop, width: ((start, start + width), (stop - width, stop)),
    "reflect": lambda start, stop, width: ((start + 1, start + 1 + width), (stop - 1 - width, stop - 1)),
}
"""Where the border before and behind the elements ``start`` to ``stop`` comes from; the last two are reversed."""


def _pad_rule(operator: Operator, word: int) -> Callable[..., Tensor]:
    composition = operator.facets["Composite"].function

    def kernel(
        x: Tensor, pad_width: Any, mode: str = "constant", *, constant_values: Any, end_values: Any, stat_length: Any
    ) -> Tensor:
        a = x._data
        if a.nbytes >= COPIED and mode in _MIRRORED and stat_length is None:
            widths = pairs_of(pad_width, a.ndim, "pad_width", a.shape)
            most = [n - 1 if mode == "reflect" else 1 << 62 if mode == "edge" else n for n in a.shape]
            if all(0 <= width <= n for pair, n in zip(widths, most, strict=True) for width in pair):
                return make_tensor(_mirrored(a, widths, mode), x._word & INHERITED)
        return composition(  # type: ignore[no-any-return]
            x, pad_width, mode, constant_values=constant_values, end_values=end_values, stat_length=stat_length
        )

    return kernel


def _mirrored(a: np.ndarray, widths: Sequence[tuple[int, int]], mode: str) -> np.ndarray:
    """Return an array with a border of its own elements, which are copied along one axis after the other."""
    out = allocate(tuple([before + n + after for (before, after), n in zip(widths, a.shape, strict=True)]), a.dtype)
    inner = [slice(before, before + n) for (before, _), n in zip(widths, a.shape, strict=True)]
    copy_into(out[tuple(inner)], a)
    for axis, (before, after) in enumerate(widths):
        start, stop = inner[axis].start, inner[axis].stop
        lead, rest = (slice(None),) * axis, inner[axis + 1 :]  # borders of earlier axes are complete
        sides = ((before, slice(0, start)), (after, slice(stop, None)))
        for side, (width, border) in enumerate(sides):
            if width:
                source = out[(*lead, slice(*_MIRRORED[mode](start, stop, width)[side]), *rest)]
                turned = np.flip(source, axis) if mode in ("symmetric", "reflect") else source
                copy_into(out[(*lead, border, *rest)], turned)
    return out


KERNELS: Final[dict[str, Callable[..., Any] | Specialized]] = {
    "tk::clone": clone, "tk::flip": flip, "tk::concatenate": concatenate, "tk::conj": conj,
    "tk::real": lambda x: wrap(copied(x._data.real)), "tk::imag": lambda x: wrap(copied(x._data.imag)),
    "tk::repeat_each": Specialized(_repeat_each_rule), "tk::pad_constant": Specialized(_pad_constant_rule),
    "tk::pad": Specialized(_pad_rule),
}  # fmt: skip
