"""Operators with the facet ``Rows`` on a backend with the template ``rows``.

Note [Rows of a device]
~~~~~~~~~~~~~~~~~~~~~~~
The template gets what the CPU computes such an operator from: the sweeps that its block declares. Here a call becomes a
matrix of rows: the axes are the last ones, an input whose rows have gaps between their elements is copied, tensors that
are left out become constants, and halves are computed in float32. Everything else (other axes, mixed dtypes, empty
tensors, errors, calls that the template declines) is left to the composition, as it is on a backend without the
template. Guarded by ``tests/backends/test_sweep_templates.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from ...._util.record import Record
from ....core.storage import StridedArray
from ....core.tensor import Tensor, make_tensor
from ....dispatch.calling import codegen
from ....dispatch.local_state import silently
from ....dispatch.operator import Operator
from ....ops.declare.sweeps import Rows, Sweep
from ....ops.scalar import constant, substitute, trace
from ....ops.shapes import normalize_axes
from ..interface import Backend, memory_of
from ..rows import matrix
from ..scalar_function import RowArray, RowFunction, RowSweep, ScalarFunction
from ..template_calls import TemplateKernel, taken_reason

__all__ = ["row_function", "rows_kernel"]

_PLANS: Final = 1024  # layouts and arguments that are remembered
_ALIGNED: Final = 15
_LONGEST: Final = 1 << 24  # places up to it are exact in float32
_SOURCE: Final = """
def kernel({parameters}):
    $made = $rows({arguments})
    if $made is not None:
        return $made
    return $composed({called})
"""


def rows_kernel(backend: Backend, operator: Operator, clone: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """Return the kernel of an operator: the template's for rows of adjacent elements, else the composition."""
    composite = operator.facets["Composite"]
    schema = operator.schema
    source = _SOURCE.format(
        parameters=codegen.parameters(schema, defaults=True), called=codegen.call(schema),
        arguments=", ".join([argument.name for argument in schema.arguments]),
    )  # fmt: skip
    scope = {
        "rows": _Calls(backend, operator, clone).run,
        "composed": composite.function if composite.implicit else partial(silently, composite.function),
    }
    return codegen.define(source.lstrip(), scope, f"<kernel of {operator.name} for {backend.name}>", schema)


def row_function(name: str, facet: Rows, dtypes: dict[str, np.dtype], result: np.dtype) -> RowFunction:
    """Return an operator as what the template gets; ``dtypes`` are those of the tensors that are given."""
    compute = np.dtype(np.float32) if result.itemsize < 4 else result
    absent = {key: constant(value) for key, value in facet.defaults.items() if key not in dtypes}

    def traced(function: Callable[..., Any]) -> ScalarFunction:
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        expression: Any = trace(lambda T: function, names, name=name)
        parameters = tuple([n for n in names if n not in absent])
        return ScalarFunction(name, parameters, substitute(expression, absent), compute)

    def sweep(one: Sweep) -> RowSweep:
        elements, columns, then = [
            tuple([(key, traced(f)) for key, f in part.items()]) for part in (one.elements, one.columns, one.then)
        ]
        return RowSweep(elements, tuple([(k, way, traced(f)) for k, (way, f) in one.folds.items()]), columns, then)

    return RowFunction(
        name, compute,
        tuple([RowArray(key, role, dtypes[key]) for key, role in facet.tensors.items() if key in dtypes]),
        tuple([RowArray(key, role, result) for key, role in facet.results.items()]),
        facet.numbers, tuple([sweep(one) for one in facet.sweeps]),
    )  # fmt: skip


class _Plan(Record):
    """What calls with the same layouts, axis and numbers have in common (Note [Plans of calls])."""

    kernel: TemplateKernel
    inputs: tuple[tuple[int, str, tuple[int, ...]], ...]  # place, role and shape of each tensor
    outputs: tuple[tuple[str, tuple[int, ...]], ...]  # role and shape
    axes: tuple[int, ...]
    rows: int
    columns: int
    numbers: tuple[float, ...]
    ndim: int
    dtype: np.dtype
    word: int = 0  # of the result
    prepared: Callable[..., StridedArray | None] | None = None


class _Calls:
    """The calls of one operator."""

    def __init__(self, backend: Backend, operator: Operator, clone: Callable[[Tensor], Tensor]) -> None:
        self._backend = backend
        self._operator = operator
        self._clone = clone
        self._facet = facet = operator.facets["Rows"]
        self._arguments = tuple([argument.name for argument in operator.schema.arguments])
        first = next(name for name, role in facet.tensors.items() if role == "row")
        self._first = self._arguments.index(first)
        self._tensors = tuple([self._arguments.index(name) for name in facet.tensors])
        self._plain = tuple([k for k, name in enumerate(self._arguments) if name not in facet.tensors])
        self._kernels: dict[Any, TemplateKernel] = {}
        self._plans: dict[Any, _Plan | None] = {}

    def run(self, *values: Any) -> Any:
        """Return the results, or None for a call that is left to the composition."""
        windows = []
        key: list[Any] = []
        for k in self._tensors:
            value = values[k]
            if value is None:
                key.append(None)
                continue
            data = value._data
            if data.__class__ is not StridedArray or data.owner._backend is not self._backend:
                return None
            key += (data.shape, data.strides, data.offset & _ALIGNED, data.device.index, data.dtype.num)
            windows.append(data)
        for k in self._plain:
            value = values[k]
            key += (value, value.__class__)
        layout = tuple(key)
        try:
            plan = self._plans[layout]
        except KeyError:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._plans[layout] = self._planned(values, values[self._first]._data)
        except TypeError:  # axes in a list
            plan = self._planned(values, values[self._first]._data)
        if plan is None:
            return None
        if plan.prepared is not None:
            found = plan.prepared(*windows)
            if found is not None:
                return make_tensor(found, plan.word)
        return self._computed(plan, values)

    def _computed(self, plan: _Plan, values: tuple[Any, ...]) -> Any:
        device = values[self._first]._data.device
        xs = []
        for k, role, shape in plan.inputs:
            data: StridedArray = values[k]._data
            if data.device is not device or (
                data.shape != shape and (role != "each" or data.size != plan.rows or data.ndim > plan.ndim)
            ):
                return None
            xs.append(self._window(values[k], role, plan))
        if self._facet.accepts is not None and not self._facet.accepts(*xs):
            return None
        made = [self._backend.empty(shape, plan.dtype, device) for _, shape in plan.outputs]
        outs = []
        for tensor, (role, _) in zip(made, plan.outputs, strict=True):
            outs.append(self._window(tensor, role, plan))
        if not plan.kernel.run(tuple(outs), tuple(xs), plan.numbers):
            taken_reason()  # the composition runs on the device too
            return None
        places = [(values[k]._data.owner, values[k]._data.offset) for k, _, _ in plan.inputs]
        if len(made) == 1 and places == [(x.owner, x.offset) for x in xs]:  # nothing was copied
            plan.word = made[0]._word
            plan.prepared = plan.kernel.prepared("prepare", made[0]._data, (tuple(xs), plan.numbers))
        return made[0] if len(made) == 1 else tuple(made)

    def _window(self, tensor: Tensor, role: str, plan: _Plan) -> StridedArray:
        data: StridedArray = tensor._data
        size = data.dtype.itemsize
        if not data.is_contiguous:
            if role == "row":
                kept = tuple([i for i in range(data.ndim) if i not in plan.axes])
                found = matrix(tensor, kept, plan.axes, self._clone)
                if found.strides[1] == size or plan.columns == 1:
                    return found.window(found.shape, (found.strides[0], size), found.offset)
            memory_of(data)
            data = self._clone(tensor)._data
        if role == "row":
            return data.window((plan.rows, plan.columns), (plan.columns * size, size), data.offset)
        return data.window((plan.rows if role == "each" else plan.columns,), (size,), data.offset)

    def _planned(self, values: tuple[Any, ...], x: StridedArray) -> _Plan | None:
        facet = self._facet
        given = dict(zip(self._arguments, values, strict=True))
        shape, ndim, dtype = x.shape, len(x.shape), x.dtype
        if not ndim or (dtype.kind != "f" and str(dtype) != "bfloat16"):
            return None
        axes = tuple(sorted(normalize_axes(self._operator.schema.base_name, given.get("axis", -1), ndim)))
        last = axes[0] if axes else 0
        if not axes or any(shape[i] != 1 for i in range(last, ndim) if i not in axes):
            return None
        columns, rows = prod(shape[last:]), prod(shape[:last])
        if not rows * columns or columns >= _LONGEST or rows >= 1 << 31:
            return None
        for name, role in facet.tensors.items():
            if given[name] is None:
                continue
            other = given[name].dtype
            if other != dtype and (role != "each" or other.kind not in "iu"):
                return None
        dtypes = {name: given[name].dtype for name in facet.tensors if given[name] is not None}
        key = tuple(dtypes.items())
        kernel = self._kernels.get(key)
        if kernel is None:
            function = row_function(self._operator.name, facet, dtypes, dtype)
            kernel = self._kernels[key] = TemplateKernel(
                self._backend, "rows", self._operator.name, list(dtypes.values()), function
            )
        kept = tuple([1 if i in axes else m for i, m in enumerate(shape) if given.get("keepdims") or i not in axes])
        shapes = {"row": shape, "each": kept, "column": tuple([shape[i] for i in axes])}
        return _Plan(
            kernel,
            tuple([(self._arguments.index(name), facet.tensors[name], shapes[facet.tensors[name]]) for name in dtypes]),
            tuple([(role, shapes[role]) for role in facet.results.values()]),
            axes, rows, columns, tuple([float(given[name]) for name in facet.numbers]), ndim, dtype,
        )  # fmt: skip
