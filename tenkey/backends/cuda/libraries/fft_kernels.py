"""Fourier transforms along one axis; those along several axes are composites of them.

Note [Rows of a transform]
~~~~~~~~~~~~~~~~~~~~~~~~~~
cuFFT takes rows at one distance, with one step between elements. The first or last axis of a contiguous tensor is of
this form, and so are windows whose other dimensions merge: these are read where they are. Any other layout is copied so
that the axis is the last, and the result comes back as a permuted window. A transform to real numbers destroys its
input and is defined for Hermitian input only, so it gets a copy in which the imaginary parts of the ends, which NumPy
ignores, are zero. Guarded by ``tests/backends/cuda/libraries/test_fft_kernels.py``.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, Final

import numpy as np

from ....core.dtypes import names as dtypes
from ....core.storage import StridedArray
from ....core.tensor import Tensor, make_tensor, word_for
from ....ops.builtin.shape.views import permute_dims, slice
from ....ops.shapes import normalize_axis
from ...external.templates import parts_of
from . import cufft
from .matrix_tools import compute_dtype, filled, fresh, move
from .site import Site

__all__ = ["transform"]

_DIVIDES: Final = {"fft": "forward", "ifft": "backward", "rfft": "forward", "irfft": "backward"}


def _rows(data: StridedArray, axis: int) -> tuple[int, int, int] | None:
    """Return step, distance and number of rows of a window, in elements; None if cuFFT cannot read them so."""
    size = data.dtype.itemsize
    if any(step % size or step < 0 for step in data.strides):
        return None
    step = data.strides[axis] // size if data.shape[axis] > 1 else 1
    count, distance = 1, 0
    for i in reversed(range(data.ndim)):
        n = data.shape[i]
        if i == axis or n == 1:
            continue
        found = data.strides[i] // size
        if count == 1:
            distance = found
        elif found != distance * count:
            return None
        count *= n
    if step < 1 or (count > 1 and distance < 1):  # broadcast
        return None
    return step, max(1, distance), count


def _resized(site: Site, x: Tensor, length: int, axis: int) -> Tensor:
    """Truncate an axis, or pad it with zeros."""
    found = x.shape[axis]
    if found == length:
        return x
    if found > length:
        return slice(x, axis, 0, length)
    made = filled(site, (*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype)
    if x.size:
        move(site, slice(made, axis, 0, found), x)
    return made


def transform(
    name: str, site: Site, spec: Any, x: Tensor, n: int | None = None, axis: int = -1, norm: str = "backward"
) -> Tensor:
    """Implement ``tk::fft_NAME`` for fft, ifft, rfft and irfft."""
    i = normalize_axis(site.operator, axis, x.ndim)
    shape, result = spec.shape, spec.dtype
    if not x.size or 0 in shape:
        return filled(site, shape, result)
    points = shape[i] if name != "rfft" else x.shape[i] if n is None else n
    real = compute_dtype(site.operator, dtypes.real_of(compute_dtype(site.operator, x.dtype)))
    source = real if name == "rfft" else dtypes.complex_of(real)
    computed = real if name == "irfft" else dtypes.complex_of(real)
    given = _resized(site, x, points // 2 + 1 if name == "irfft" else points, i)
    places = _rows(given._data, i) if given.dtype == source and name != "irfft" else None
    if places is not None and site.address(given) % (2 * real.itemsize):
        places = None  # cuFFT wants both pointers aligned to complex numbers
    order = (*[k for k in range(x.ndim) if k != i], i)
    if places is None:
        given = fresh(site, permute_dims(given, order), source)
        if name == "irfft":
            _clear_ends(site, given, points)
        places = _rows(given._data, x.ndim - 1)
    assert places is not None
    out = site.empty(shape, computed)
    out_places = _rows(out._data, i)
    is_moved = out_places is None
    if is_moved:
        out = site.empty(tuple([shape[k] for k in order]), computed)
        out_places = _rows(out._data, x.ndim - 1)
    assert out_places is not None
    step, distance, count = places
    rows = cufft.Rows(site.address(given), step, distance, source.name)
    out_rows = cufft.Rows(site.address(out), *out_places[:2], computed.name)
    direction = cufft.INVERSE if name in ("ifft", "irfft") else cufft.FORWARD
    cufft.transform(site, rows, out_rows, points, count, direction)
    if norm == "ortho" or norm == _DIVIDES[name]:
        out *= 1 / sqrt(points) if norm == "ortho" else 1 / points
    if result != computed:  # 16 bits, in which no library computes
        out = fresh(site, out, result)
    return _permuted(out, order) if is_moved else out


def _clear_ends(site: Site, half: Tensor, points: int) -> None:
    """Set the imaginary parts to zero that a Hermitian spectrum does not have."""
    last = half.shape[-1] - 1
    for place in {0, last} if points % 2 == 0 else {0}:
        end = slice(half, half.ndim - 1, place, place + 1)
        site.copier.move(parts_of(end._data)[1], np.zeros(1, dtypes.real_of(half.dtype))[0])


def _permuted(x: Tensor, order: tuple[int, ...]) -> Tensor:
    """Return a tensor on the same memory whose axis ``order[k]`` is the axis k of ``x``."""
    data = x._data
    back = [order.index(k) for k in range(len(order))]
    shape, strides = [data.shape[k] for k in back], [data.strides[k] for k in back]
    return make_tensor(data.window(tuple(shape), tuple(strides), data.offset), word_for(x.device, x.dtype))
