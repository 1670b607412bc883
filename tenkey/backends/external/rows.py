"""Operators that work along the rows of a matrix, or of a stack: gather, scatter, sort.

Note [Bits and numbers]
~~~~~~~~~~~~~~~~~~~~~~~
``gather``, ``sort`` of bools and ``scatter`` in mode "set" only move elements, so the templates get these as unsigned
integers of their size, whatever they represent; complex128, of 16 bytes, stays what it is. A scatter of bools combines
0 and 1: "add" is the maximum, and "multiply" the minimum. Guarded by ``tests/backends/test_row_templates.py``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ...core.storage import StridedArray
from ...core.tensor import Tensor, make_view
from ...dispatch.operator import Operator
from ...ops.builtin.primitives import OUT_OF_RANGE
from .fallback import check_devices
from .interface import Backend, memory_of
from .template_calls import TemplateKernel
from .templates import aligned

__all__ = ["RowTemplates", "matrix"]

_WORDS: Final = {size: np.dtype(f"uint{8 * size}") for size in (1, 2, 4, 8)}
_OF_BOOLS: Final = {"add": "maximum", "multiply": "minimum"}


class RowTemplates:
    """The kernels of one backend for the operators of Note [Primitive operators]."""

    def __init__(self, backend: Backend, fallback: Callable[..., Any], clone: Callable[[Tensor], Tensor]) -> None:
        self._backend = backend
        self._fallback = fallback
        self._clone = clone
        self._kernels: dict[Any, TemplateKernel] = {}

    def _kernel(self, operator: Operator, template: str, dtype: np.dtype, *given: Any) -> TemplateKernel:
        """Return the kernel of a template whose arguments are ``given``."""
        key = (template, *given)
        found = self._kernels.get(key)
        if found is None:
            found = self._kernels[key] = TemplateKernel(self._backend, template, operator.name, (dtype,), *given)
        return found

    def gather(self, operator: Operator, x: Tensor, index: Tensor, name: str) -> Tensor:
        """Implement ``tk::gather_rows``."""
        check_devices(operator, (x, index, name), {})
        shape, dtype = operator.facets["Meta"].rule(x, index, name)
        out = self._backend.empty(shape, dtype, x.device)
        if not out.size:
            return out
        target, source = as_bits(out._data), as_bits(x._data)
        (source,) = aligned([source], (shape[0], x.shape[1], shape[2]))
        (places,) = aligned([index._data], shape)
        kernel = self._kernel(operator, "gather", dtype, target.dtype)
        if kernel.run_with_errors(name, OUT_OF_RANGE, target, source, places):
            return out
        return self._fallback(operator, x, index, name)  # type: ignore[no-any-return]

    def scatter(self, operator: Operator, x: Tensor, index: Tensor, source: Tensor, mode: str, name: str) -> Tensor:
        """Implement ``tk::scatter_rows_``."""
        check_devices(operator, (x, index, source), {})
        operator.facets["Meta"].rule(x, index, source, mode, name)
        shape = (x.shape[0], max(index.shape[1], source.shape[1]), x.shape[2])
        if 0 in (shape[0], shape[2], index.shape[1], source.shape[1]):
            return x
        if source._data.owner is x._data.owner:
            source = self._clone(source)
        if index._data.owner is x._data.owner:
            index = self._clone(index)
        target, values = x._data, source._data
        way = _OF_BOOLS.get(mode, mode) if x.dtype.kind == "b" else mode
        if way == "set" or x.dtype.kind == "b":
            target, values = as_bits(target), as_bits(values)
        places, values = aligned([index._data, values], shape)
        exact = way in ("minimum", "maximum") or (way != "set" and x.dtype.kind in "iu")  # in any order
        ordered = way == "set" or (self._backend.deterministic and not exact)
        kernel = self._kernel(operator, "scatter", x.dtype, way, target.dtype, ordered)
        if kernel.run_with_errors(name, OUT_OF_RANGE, target, places, values):
            return x
        return self._fallback(operator, x, index, source, mode, name)  # type: ignore[no-any-return]

    def sort(self, operator: Operator, x: Tensor) -> tuple[Tensor, Tensor]:
        """Implement ``tk::sort_rows``."""
        specs = operator.facets["Meta"].rule(x)
        values, order = [self._backend.empty(spec.shape, spec.dtype, x.device) for spec in specs]
        if not x.size:
            return values, order
        target, source = values._data, x._data
        if x.dtype.kind == "b":
            target, source = as_bits(target), as_bits(source)
        if self._kernel(operator, "sort", x.dtype, target.dtype).run(target, order._data, source):
            return values, order
        return self._fallback(operator, x)  # type: ignore[no-any-return]


def as_bits(data: StridedArray) -> StridedArray:
    """Return a window with unsigned integers in place of its elements; complex128 stays as it is."""
    word = _WORDS.get(data.dtype.itemsize, data.dtype)
    return StridedArray(data.buffer, data.shape, word, data.device, data.strides, data.offset, data.owner)


def matrix(x: Tensor, kept: Sequence[int], axes: Sequence[int], clone: Callable[[Tensor], Tensor]) -> StridedArray:
    """Return the elements as a matrix (kept, axes): a window of the tensor if possible, else of a copy."""
    data: StridedArray = x._data
    memory_of(data)
    rows, columns = [math.prod([x.shape[i] for i in part]) for part in (kept, axes)]
    pair = [_one_step(data, dimensions) for dimensions in (kept, axes)]
    if None in pair:
        order = (*kept, *axes)
        moved = data.window(tuple([data.shape[i] for i in order]), tuple([data.strides[i] for i in order]), data.offset)
        data = clone(make_view(x, moved))._data
        pair = [columns * data.dtype.itemsize, data.dtype.itemsize]
    return data.window((rows, columns), (pair[0], pair[1]), data.offset)  # type: ignore[arg-type]


def _one_step(data: StridedArray, dimensions: Sequence[int]) -> int | None:
    """Return the stride of these dimensions merged into one, or None if they cannot be merged."""
    wide = [i for i in dimensions if data.shape[i] != 1]
    for outer, inner in itertools.pairwise(wide):
        if data.strides[outer] != data.shape[inner] * data.strides[inner]:
            return None
    return data.strides[wide[-1]] if wide else data.dtype.itemsize
