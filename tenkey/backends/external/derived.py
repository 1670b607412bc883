"""Kernels that a backend gets from an operator's facets: views, copies, fills, and those of its templates."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from ...core.device import Device, default_device
from ...core.storage import StridedArray
from ...core.tensor import NoValuesError, Tensor, from_host, make_view
from ...core.word import DTYPE_MASK, WEAK_MASK, dtypes_of, weak_of
from ...dispatch.local_state import silently
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from ...ops.declare.facets import Pointwise, Reduce
from ...ops.declare.promotion import refuse_lost_part
from ...ops.scalar import trace
from ...ops.shapes import normalize_axes, refuse_empty
from ...ops.strided_views import strided_view_kernel
from ...ops.variants import check_copy, check_pointwise
from .element_kernels import factory_kernel
from .fallback import check_devices
from .interface import Backend, write
from .matrix_products import MatrixProducts
from .rows import RowTemplates, matrix
from .runtime.call_plans import InplacePlans, Plans, ReductionPlans
from .runtime.sweep_calls import rows_kernel
from .scalar_function import ScalarFunction
from .template_calls import TemplateKernel, has_templates
from .templates import (
    Copier,
    IndexedRunner,
    PointwiseRunner,
    aligned,
    cast_number,
    common_shape,
    convert_number,
    identity,
    overlaps,
    parts_of,
    runner_of,
)
from .whole_powers import WholePowers

__all__ = ["Derived"]

_PIECES: Final = 256  # columns to which a long row is reduced first, so that all units of a device have work
_LONG: Final = 4096


class Derived:
    """The derived kernels of one backend. ``fallback(operator, ...)`` runs a call on the CPU."""

    def __init__(self, backend: Backend, fallback: Callable[..., Any]) -> None:
        self.backend = backend
        self.fallback = fallback
        self.copier = Copier(backend)
        self._rows = rows = RowTemplates(backend, fallback, self.clone, self.copier)
        products = MatrixProducts(backend, fallback, self.copier)
        self._primitives: dict[str, tuple[str, Callable[..., Any]]] = {
            "tk::gather_rows": ("gather", rows.gather), "tk::scatter_rows_": ("scatter", rows.scatter),
            "tk::sort_rows": ("sort", rows.sort), "tk::matmul": ("matmul", products.matmul),
        }  # fmt: skip
        self.has_pointwise, self.has_reduction = self.has("pointwise"), self.has("reduction")
        self.has_copies = self.has_pointwise or self.has("copy")

    def kernel(self, operator: Operator) -> tuple[Callable[..., Any] | None, Any]:
        """Return the derived kernel of an operator as (function, specialize); (None, None) if there is none."""
        facets = operator.facets
        if "View" in facets:
            return strided_view_kernel(operator, self.clone), None
        named: Any = {
            "tk::to_device": self.to_device, "tk::clone": self.clone, "tk::empty": self.empty, "tk::copy_": self.copy_,
        }.get(operator.name)  # fmt: skip
        if named is not None:
            return named, None
        if "Inplace" in facets and facets["Inplace"].functional is not None:
            return self.inplace(operator), None
        if self.has_pointwise:
            if "Pointwise" in facets:
                return self.pointwise, self.pointwise
            on_device: Any = {
                "tk::cast": self.cast, "tk::concatenate": self.concatenate, "tk::full": self.full,
                "tk::zeros": partial(self._fill, 0), "tk::ones": partial(self._fill, 1),
                "tk::real": partial(self._part, 0), "tk::imag": partial(self._part, 1),
                "tk::complex_from": self.complex_from, }.get(operator.name)  # fmt: skip
            if on_device is not None:
                return (lambda *args, **kwargs: on_device(operator, *args, **kwargs)), None
            if "Elements" in facets:
                return factory_kernel(self.backend, self.fallback, operator), None
        if self.has_reduction and "Reduce" in facets:
            return self.reduction, self.reduction
        if "ArgReduce" in facets and self.has("arg_reduction"):
            return partial(self._rows.arg_reduction, operator), None
        if "Scan" in facets and self.has("scan", "pointwise"):
            return partial(self._rows.scan, operator), None
        if operator.name == "tk::flip" and self.has("copy"):
            return partial(self.flip, operator), None
        template, primitive = self._primitives.get(operator.name, ("", None))
        if primitive is not None and self.has(template):
            return partial(primitive, operator), None
        if "Rows" in facets and self.has("rows"):
            return rows_kernel(self.backend, operator, self.clone), None
        if "Decomposition" in facets and self.has("pointwise", *facets["Decomposition"].needs):
            return partial(silently, facets["Decomposition"].function), None
        return None, None

    def has(self, *templates: str) -> bool:
        """Tell whether the backend has all of these templates."""
        return has_templates(self.backend, *templates)

    # ---- copies

    def clone(self, x: Tensor) -> Tensor:
        """Return a contiguous copy, made on the device if possible, else through the host."""
        if self.has_copies:
            out = self.backend.empty(x.shape, x.dtype, x.device)
            moved = self.copier.move(out._data, x._data)
            return out if moved else self.fallback(registry.find("tk::clone"), x)
        return self.backend.from_host(self.backend.to_host(x), x.device)

    def to_device(self, x: Tensor, device: Device, *, non_blocking: bool = False) -> Tensor:
        """Implement ``tk::to_device`` from the backend to another device, through the host if need be."""
        if device is x.device:
            return make_view(x, x._data)
        if self.has_copies and not x.is_contiguous:
            x = self.clone(x)
        if x.is_contiguous:
            if device.backend is self.backend:
                out: Tensor = self.backend.empty(x.shape, x.dtype, device)
                if self.backend.copy_between(out._data, x._data):
                    return out
            elif non_blocking and device.type == "cpu":
                later = self.backend.to_host_later(x)
                if later is not None:
                    return from_host(later)
        return from_host(self.backend.to_host(x), device)

    def copy_(self, x: Tensor, source: Tensor) -> Tensor:
        """Implement ``tk::copy_``, also between devices."""
        for tensor in (x, source):
            if tensor.device.type == "meta":
                raise NoValuesError(
                    "[copy_] a tensor on 'meta' has no values to copy "
                    f"to {str((source if tensor is x else x).device)!r}."
                )
        check_copy(registry.find("tk::copy_"), x, source)
        if x._data.__class__ is np.ndarray:
            x._data[...] = source._values("copy_")
            return x
        copied = self._copied_on_device(x._data, source)
        if copied is None:
            write(x._data, np.broadcast_to(_on_cpu(source), x.shape).astype(x.dtype))
        return x if copied is not False else self.fallback(registry.find("tk::copy_"), x, source)

    def _copied_on_device(self, out: StridedArray, source: Tensor) -> bool | None:
        """Copy a tensor into ``out`` by its backend; return false if the backend declines, None if it is not asked."""
        if not self.has_copies or out.device.backend is not self.backend:
            return None
        if source._word & WEAK_MASK:
            return self.copier.move(out, convert_number("copy_", source, out.dtype))
        if source.device is not out.device:
            if out.is_contiguous and out.offset == 0 and source.device.backend is not self.backend:
                return None
            if source.device.backend is self.backend:
                source = self.to_device(source, out.device)
            else:
                host = _on_cpu(source)
                source = self.backend.from_host(host if host.dtype == out.dtype else host.astype(out.dtype), out.device)
        elif source._data.owner is out.owner:
            source = self.clone(source)
        return self.copier.move(out, source._data)

    # ---- factories

    def empty(self, shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
        """Implement ``tk::empty``."""
        spec = registry.find("tk::empty").facets["Meta"].rule(shape, dtype=dtype)
        return self.backend.empty(spec.shape, spec.dtype, device)

    def full(self, operator: Operator, shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
        """Implement ``tk::full``."""
        return self._fill(fill_value, operator, shape, fill_value, dtype=dtype, device=device)

    def _fill(
        self, value: Any, operator: Operator, shape: Any, *more: Any, dtype: Any = None, device: Any = None
    ) -> Tensor:
        spec = operator.facets["Meta"].rule(shape, *more, dtype=dtype)
        out = self.backend.empty(spec.shape, spec.dtype, device or default_device())
        if not self.copier.move(out._data, cast_number(value, spec.dtype)):
            return self.fallback(operator, shape, *more, dtype=dtype, device=device)  # type: ignore[no-any-return]
        return out

    def cast(self, operator: Operator, x: Tensor, dtype: np.dtype) -> Tensor:
        """Implement ``tk::cast`` on the device."""
        out = self.backend.empty(x.shape, dtype, x.device)
        return out if self.copier.move(out._data, x._data) else self.fallback(operator, x, dtype)

    def _part(self, which: int, operator: Operator, x: Tensor) -> Tensor:
        spec = operator.facets["Meta"].rule(x)
        out = self.backend.empty(spec.shape, spec.dtype, x.device)
        return out if self.copier.move(out._data, parts_of(x._data)[which]) else self.fallback(operator, x)

    def complex_from(self, operator: Operator, real: Tensor, imag: Tensor) -> Tensor:
        """Implement ``tk::complex_from`` on the device."""
        check_devices(operator, (real, imag), {})
        spec = operator.facets["Meta"].rule(real, imag)
        out = self.backend.empty(spec.shape, spec.dtype, real.device)
        copied = [self.copier.move(to, part._data) for to, part in zip(parts_of(out._data), (real, imag))]
        return out if all(copied) else self.fallback(operator, real, imag)

    def flip(self, operator: Operator, x: Tensor, *, axis: Any = None) -> Tensor:
        """Implement ``tk::flip`` by a copy of a window with negative strides."""
        data: StridedArray = x._data
        strides, offset = [*data.strides], data.offset
        for i in normalize_axes("flip", axis, x.ndim):
            offset += (data.shape[i] - 1) * strides[i]
            strides[i] = -strides[i]
        out = self.backend.empty(x.shape, x.dtype, x.device)
        if self.copier.reordered(out._data, data.window(data.shape, tuple(strides), offset)):
            return out
        if self.has("pointwise", "gather"):
            return silently(operator.facets["Decomposition"].function, x, axis=axis)  # type: ignore[no-any-return]
        return self.fallback(operator, x, axis=axis)  # type: ignore[no-any-return]

    def concatenate(self, operator: Operator, arrays: Any, *, axis: int = 0) -> Tensor:
        """Implement ``tk::concatenate``: copy each part into its window of the result."""
        check_devices(operator, (arrays,), {})
        spec = operator.facets["Meta"].rule(arrays, axis=axis)
        out = self.backend.empty(spec.shape, spec.dtype, arrays[0].device)
        axis = axis % len(spec.shape)
        data: StridedArray = out._data
        start = 0
        for x in arrays:
            window = data.window(x.shape, data.strides, data.offset + start * data.strides[axis])
            if not self.copier.move(window, x._data):
                return self.fallback(operator, arrays, axis=axis)  # type: ignore[no-any-return]
            start += x.shape[axis]
        return out

    # ---- pointwise

    def pointwise(self, operator: Operator, word: int) -> Callable[..., Tensor]:
        """Return the kernel of a pointwise operator for a dispatch word."""
        facet: Pointwise = operator.facets["Pointwise"]
        compute, result = facet.promotion.dtypes(operator.name, dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK))
        runner = self._runner(operator.name, facet, compute)
        flags = [parameter in facet.boolean for parameter in facet.parameters]
        backend, name = self.backend, operator.schema.base_name
        plain = runner if isinstance(runner, PointwiseRunner) else None  # without index variables
        mixed = len(dtypes_of(word & DTYPE_MASK)) > 1 or len(operator.tensor_arguments) < len(flags)
        plans = Plans(backend, result, arity=len(flags), mixed=mixed, numbers=bool(word & WEAK_MASK))

        def kernel(*args: Any) -> Tensor:
            operands, device = _operands(operator, args, flags, compute)
            shape = common_shape(name, operands)
            out = backend.empty(shape, result, device)
            windows = aligned(operands, shape)
            if not runner.run(out._data, windows):
                return self.fallback(operator, *args)  # type: ignore[no-any-return]
            if plain is not None:
                plans.remember(args, plain, out._data, windows)
            return out

        return kernel if plain is None else plans.kernel(kernel)

    def _runner(
        self, name: str, facet: Pointwise, compute: np.dtype
    ) -> PointwiseRunner | IndexedRunner | WholePowers:  # fmt: skip
        scalar = ScalarFunction(name, facet.parameters, facet.expression, compute)
        if name == "tk::pow" and compute.kind == "i":
            return WholePowers(self.backend, scalar)
        return runner_of(self.backend, scalar, facet.index_axes)

    def inplace(self, operator: Operator) -> Callable[..., Tensor]:
        """Return the kernel of an in-place variant: the template writes the first argument, or a result is copied."""
        functional: Operator = operator.facets["Inplace"].functional
        facet: Pointwise = functional.facets["Pointwise"]
        flags = [parameter in facet.boolean for parameter in facet.parameters]
        runners: dict[np.dtype, PointwiseRunner | IndexedRunner | WholePowers] = {}
        plans = InplacePlans(self.backend, functional.slot)

        def kernel(x: Tensor, *args: Any) -> Tensor:
            slot = functional.slot(x.device.key)
            if slot.rule != "1 direct" or slot.kernel is None:
                return self.fallback(operator, x, *args)  # type: ignore[no-any-return]
            check_devices(operator, (x, *args), {})
            check_pointwise(operator, x, *args)
            if slot.kernel.origin == "generated":
                word = 0
                for value in (x, *args):
                    word |= value._word if isinstance(value, Tensor) else 0
                found, weak = dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK)
                compute, _ = facet.promotion.dtypes(operator.name, found, weak)
                if compute not in runners:
                    runners[compute] = self._runner(functional.name, facet, compute)
                runner = runners[compute]
                operands = aligned(_operands(operator, (x, *args), flags, compute)[0], x.shape)
                if not overlaps(x._data, operands) and runner.run(x._data, operands):
                    if isinstance(runner, PointwiseRunner):
                        plans.remember((x, *args), runner, x._data, operands)
                    return x
            return silently(lambda: self.copy_(x, functional.call(x, *args)))

        return plans.kernel(kernel)

    # ---- reductions

    def reduction(self, operator: Operator, word: int) -> Callable[..., Tensor]:
        """Return the kernel of a reduction for a dispatch word."""
        facet: Reduce = operator.facets["Reduce"]
        (operand,) = dtypes_of(word & DTYPE_MASK)
        natural, _ = facet.promotion.dtypes(operator.name, (operand,))
        kernels: dict[np.dtype, tuple[TemplateKernel, TemplateKernel]] = {}
        plans = ReductionPlans(self.backend)

        def kernel(x: Tensor, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
            found = plans.follow(x, (axis, dtype, keepdims))
            if found is not None:
                return found
            compute = np.dtype(dtype or natural)
            if compute not in kernels:
                refuse_lost_part(operator.schema.base_name, operand, compute)
                kernels[compute] = self._reducers(operator, facet, operand, compute)
            pair = kernels[compute]
            if all(pair):
                out = self._reduce(operator, facet, pair, x, axis, compute, keepdims, plans, dtype)
                if out is not None:
                    return out
            options = {"keepdims": keepdims} if dtype is None else {"keepdims": keepdims, "dtype": dtype}
            return self.fallback(operator, x, axis, **options)  # type: ignore[no-any-return]

        return kernel

    def _reducers(
        self, operator: Operator, facet: Reduce, operand: np.dtype, compute: np.dtype
    ) -> tuple[TemplateKernel, TemplateKernel]:
        """Return the kernels for elements and for intermediate results, to which ``scalar`` is not applied again."""
        booleans = ("a", "b") if compute.kind == "b" else ()
        name, backend = operator.name, self.backend
        joined: Any = trace(facet.combine, ("a", "b"), name=name, booleans=booleans)
        combine = ScalarFunction(f"{name} combine", ("a", "b"), joined, compute)
        keep = scalar = ScalarFunction("identity", ("x",), identity(compute), compute)
        if facet.scalar is not None:
            mapped: Any = trace(facet.scalar, ("x",), name=name)
            scalar = ScalarFunction(f"{name} map", ("x",), mapped, compute)
        make = partial(TemplateKernel, backend, "reduction", name)
        return (
            make((operand, compute), combine, scalar, operand, facet.identity),
            make((compute,), combine, keep, compute, facet.identity),
        )

    def _reduce(
        self, operator: Operator, facet: Reduce, kernels: Any, x: Tensor, axis: Any, compute: np.dtype, keepdims: bool,
        plans: ReductionPlans, dtype: Any,
    ) -> Tensor | None:  # fmt: skip
        name = operator.schema.base_name
        axes = normalize_axes(name, axis, x.ndim)
        kept = [i for i in range(x.ndim) if i not in axes]
        shape = tuple([x.shape[i] for i in kept])
        result = tuple([1 if i in axes else n for i, n in enumerate(x.shape)]) if keepdims else shape
        out = self.backend.empty(result, compute, x.device)
        rows, columns = math.prod(shape), math.prod(x.shape[i] for i in axes)
        if columns == 0:
            if facet.identity is None:
                refuse_empty(name, x.shape, axis)
            filled = not rows or self.copier.move(out._data, convert_number(name, facet.identity, compute))
            return out if filled else None
        if rows:
            window = matrix(x, kept, axes, self.clone)
            if not self._run(kernels, out._data.window((rows,), (compute.itemsize,), 0), window, compute):
                return None
            if not _in_two_steps(rows, columns):
                plans.remember(x, (axis, dtype, keepdims), kernels[0], out, window)
        return out

    def _run(self, kernels: Any, out: StridedArray, x: StridedArray, compute: np.dtype) -> bool:
        """Reduce the rows of a matrix; few long rows in two steps, so that all units of a device have work."""
        first, second = kernels
        rows, columns = x.shape
        pieces = min(_PIECES, columns // 64)
        if not _in_two_steps(rows, columns):
            return first.run(out, x)  # type: ignore[no-any-return]
        length = columns // pieces
        rest = columns - length * pieces
        size = compute.itemsize
        row, step = x.strides
        width = pieces + (rest > 0)
        part = self.backend.empty((rows, width), compute, x.device)._data
        for i in range(rows):
            at = i * width * size
            block = x.window((pieces, length), (length * step, step), x.offset + i * row)
            done = first.run(part.window((pieces,), (size,), at), block)
            if done and rest:
                tail = x.window((1, rest), (0, step), x.offset + i * row + pieces * length * step)
                done = first.run(part.window((1,), (size,), at + pieces * size), tail)
            if not done:
                return False
        return second.run(out, part)  # type: ignore[no-any-return]


def _in_two_steps(rows: int, columns: int) -> bool:
    return columns >= _LONG and rows * 2 <= _PIECES


def _operands(operator: Operator, args: Any, flags: list[bool], compute: np.dtype) -> tuple[list[Any], Device]:
    """Convert the arguments of a pointwise operator to windows and NumPy scalars; return them and the device."""
    operands: list[Any] = []
    device: Device | None = None
    for value, boolean in zip(args, flags, strict=True):
        data = value._data if isinstance(value, Tensor) else None
        if data.__class__ is StridedArray:
            if device is None:
                device = data.device
            elif device is not data.device:
                check_devices(operator, args, {})
            operands.append(data)
        else:
            operands.append(convert_number(operator.name, value, np.dtype(bool) if boolean else compute))
    assert device is not None  # a tensor of the backend brought the call here
    return operands, device


def _on_cpu(x: Tensor) -> np.ndarray:
    return x._data if x._data.__class__ is np.ndarray else x.device.backend.to_host(x)
