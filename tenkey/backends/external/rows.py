"""Operators that work along the rows of a matrix, or of a stack: gather, scatter, sort, arg_reduction, scan.

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

from ...core.storage import StridedArray, contiguous_strides
from ...core.tensor import Tensor, make_view
from ...dispatch.operator import Operator
from ...ops.builtin.primitives import OUT_OF_RANGE, range_error
from ...ops.declare import TensorSpec, scan_axis
from ...ops.declare.facets import Scan
from ...ops.shapes import normalize_axis
from .fallback import check_devices
from .interface import Backend, memory_of
from .scalar_function import ScalarFunction
from .template_calls import TemplateKernel
from .templates import Copier, aligned, as_bits, convert_number

__all__ = ["RowTemplates", "matrix"]

_OF_BOOLS: Final = {"add": "maximum", "multiply": "minimum"}


class RowTemplates:
    """The kernels of one backend for the operators of Note [Primitive operators]."""

    def __init__(
        self, backend: Backend, fallback: Callable[..., Any], clone: Callable[[Tensor], Tensor], copier: Copier
    ) -> None:
        self._backend = backend
        self._fallback = fallback
        self._clone = clone
        self._copier = copier
        self._kernels: dict[Any, TemplateKernel] = {}
        self._functions: dict[Any, tuple[ScalarFunction, ...]] = {}

    def _kernel(self, operator: Operator, template: str, dtype: np.dtype, *given: Any) -> TemplateKernel:
        """Return the kernel of a template whose arguments are ``given``."""
        key = (template, *given)
        found = self._kernels.get(key)
        if found is None:
            found = self._kernels[key] = TemplateKernel(self._backend, template, operator.name, (dtype,), *given)
        return found

    def gather(self, operator: Operator, x: Tensor, index: Tensor, name: str, message: str = "") -> Tensor:
        """Implement ``tk::gather_rows``."""
        check_devices(operator, (x, index), {})
        shape, dtype = operator.facets["Meta"].rule(x, index, name)
        out = self._backend.empty(shape, dtype, x.device)
        if not out.size:
            return out
        target, source = as_bits(out._data), as_bits(x._data)
        (source,) = aligned([source], (shape[0], x.shape[1], shape[2]))
        (places,) = aligned([index._data], shape)
        kernel = self._kernel(operator, "gather", dtype, target.dtype)
        text, error = range_error(message)
        if kernel.run_with_errors(name, text, target, source, places, error=error):
            return out
        return self._fallback(operator, x, index, name, message)  # type: ignore[no-any-return]

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

    def arg_reduction(
        self, operator: Operator, x: Tensor, axis: int | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """Implement an operator with the facet ``ArgReduce``."""
        shape, dtype = operator.facets["Meta"].rule(x, axis, keepdims=keepdims)
        out = self._backend.empty(shape, dtype, x.device)
        if not out.size:
            return out
        axes = range(x.ndim) if axis is None else (normalize_axis(operator.schema.base_name, axis, x.ndim),)
        data = matrix(x, [i for i in range(x.ndim) if i not in axes], axes, self._clone)
        if x.dtype.kind == "b":
            data = as_bits(data)
        better = self._function(operator, data.dtype, lambda: (operator.facets["ArgReduce"].expression,), ("a", "b"))
        kernel = self._kernel(operator, "arg_reduction", x.dtype, *better, data.dtype)
        if kernel.run(out._data.window((data.shape[0],), (dtype.itemsize,), 0), data):
            return out
        return self._fallback(operator, x, axis, keepdims=keepdims)  # type: ignore[no-any-return]

    def scan(self, operator: Operator, *args: Any, **kwargs: Any) -> Any:
        """Implement an operator with the facet ``Scan``."""
        facet: Scan = operator.facets["Scan"]
        name = operator.schema.base_name
        check_devices(operator, args, kwargs)
        specs = operator.facets["Meta"].rule(*args, **kwargs)
        several = not isinstance(specs, TensorSpec)
        shape, dtype = specs[0] if several else specs
        given = operator.bind(*args, **kwargs)
        tensors = [given[part] for part in facet.tensors]
        device = next(x.device for x in tensors if x.device.backend is self._backend)
        outs = [self._backend.empty(shape, dtype, device) for _ in tensors]
        i = scan_axis(name, shape, given["axis"])
        windows: list[StridedArray] = [out._data for out in outs]
        if given.get("include_initial"):
            identity = facet.identity if isinstance(facet.identity, tuple) else (facet.identity,)
            for k, (data, value) in enumerate(zip(windows, identity, strict=True)):
                step = data.strides[i]
                first = data.window((*shape[:i], 1, *shape[i + 1 :]), data.strides, data.offset)
                if not self._copier.move(first, convert_number(name, value, dtype)):
                    return self._fallback(operator, *args, **kwargs)
                rest = (*shape[:i], shape[i] - 1, *shape[i + 1 :])
                windows[k] = data.window(rest, data.strides, data.offset + step)
        if windows[0].size and not self._scan(operator, windows, tensors, i, bool(given.get("reverse"))):
            return self._fallback(operator, *args, **kwargs)
        return tuple(outs) if several else outs[-1]

    def _scan(
        self, operator: Operator, outs: list[StridedArray], tensors: list[Tensor], axis: int, reverse: bool
    ) -> bool:
        """Scan tensors that broadcast to the shape of the windows; return false if a template declines."""
        facet: Scan = operator.facets["Scan"]
        shape, dtype, device = outs[0].shape, outs[0].dtype, outs[0].device
        kept = [d for d in range(len(shape)) if d != axis]
        order = (*kept, axis)
        rows, columns = math.prod([shape[d] for d in kept]), shape[axis]
        dense = contiguous_strides((rows, columns), dtype.itemsize)
        xs, targets = [], []
        for x in tensors:
            if x.shape == shape and x.dtype == dtype and x.device is device:
                xs.append(matrix(x, kept, (axis,), self._clone))
                continue
            made = self._backend.empty(tuple([shape[d] for d in order]), dtype, device)
            value: Any = x._data
            if value.__class__ is StridedArray:
                value = _permuted(aligned([value], shape)[0], order)
            else:
                value = convert_number(operator.name, x, dtype)
            if not self._copier.move(made._data, value):
                return False
            xs.append(made._data.window((rows, columns), dense, 0))
        steps = [_one_step(outs[0], kept), outs[0].strides[axis]]
        direct = steps[0] is not None
        for data in outs:
            target = data if direct else self._backend.empty((rows, columns), dtype, device)._data
            targets.append(data.window((rows, columns), tuple(steps), data.offset) if direct else target)  # type: ignore[arg-type]
        combine = self._function(
            operator, dtype, lambda: facet.expressions(boolean=dtype.kind == "b"), facet.parameters
        )
        kernel = self._kernel(operator, "scan", dtype, combine, dtype)
        if not kernel.run(tuple(targets), tuple(xs), reverse):
            return False
        for data, target in zip(outs, targets, strict=True):
            if not direct:
                permuted = tuple([shape[d] for d in order])
                source = target.window(permuted, contiguous_strides(permuted, dtype.itemsize), 0)
                if not self._copier.move(_permuted(data, order), source):
                    return False
        return True

    def _function(
        self, operator: Operator, dtype: np.dtype, make: Callable[[], Sequence[Any]], parameters: tuple[str, ...]
    ) -> tuple[ScalarFunction, ...]:
        """Return the scalar functions of an operator for a dtype, always the same objects."""
        key = (operator, dtype)
        if key not in self._functions:
            name = f"{operator.name} combine"
            self._functions[key] = tuple([ScalarFunction(name, parameters, one, dtype) for one in make()])
        return self._functions[key]


def _permuted(data: StridedArray, order: Sequence[int]) -> StridedArray:
    """Return a window with the dimensions in another order."""
    shape, strides = [tuple([values[i] for i in order]) for values in (data.shape, data.strides)]
    return data.window(shape, strides, data.offset)


def matrix(x: Tensor, kept: Sequence[int], axes: Sequence[int], clone: Callable[[Tensor], Tensor]) -> StridedArray:
    """Return the elements as a matrix (kept, axes): a window of the tensor if possible, else of a copy."""
    data: StridedArray = x._data
    memory_of(data)
    rows, columns = [math.prod([x.shape[i] for i in part]) for part in (kept, axes)]
    pair = [_one_step(data, dimensions) for dimensions in (kept, axes)]
    if None in pair:
        data = clone(make_view(x, _permuted(data, (*kept, *axes))))._data
        pair = [columns * data.dtype.itemsize, data.dtype.itemsize]
    return data.window((rows, columns), (pair[0], pair[1]), data.offset)  # type: ignore[arg-type]


def _one_step(data: StridedArray, dimensions: Sequence[int]) -> int | None:
    """Return the stride of these dimensions merged into one, or None if they cannot be merged."""
    wide = [i for i in dimensions if data.shape[i] != 1]
    for outer, inner in itertools.pairwise(wide):
        if data.strides[outer] != data.shape[inner] * data.strides[inner]:
            return None
    return data.strides[wide[-1]] if wide else data.dtype.itemsize
