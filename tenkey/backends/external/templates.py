"""Templates: operators that are scalar expressions, run by a backend's ``pointwise`` and ``reduction``.

Note [What a template need not do]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Promotion, broadcasting, the allocation of results, errors, in-place variants, overlapping memory, empty tensors, the
merging of dimensions and the axes of index variables are handled here, once for every backend. A template gets a scalar
function and windows of one shape; a call that it declines (None or NotImplementedError) runs on the CPU. Conversions,
copies between layouts and fills are the identity function, so a backend with ``pointwise`` has these too. Guarded by
``tests/backends/test_backend_templates.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any, Final

import numpy as np

from ...core.lift import refuse_number, refuse_out_of_range
from ...core.storage import StridedArray
from ...core.tensor import Tensor
from ...ops.scalar import Expression, index, logical_or, substitute, variable
from ...ops.shapes import broadcast_shapes
from .interface import Backend
from .scalar_function import Operand, ScalarFunction
from .template_calls import TemplateKernel

__all__ = [
    "Copier", "IndexedRunner", "PointwiseRunner", "aligned", "as_bits", "cast_number", "common_shape", "convert_number",
    "fused", "identity", "merged", "overlaps", "parts_of", "runner_of",
]  # fmt: skip

_WORDS: Final = {size: np.dtype(f"uint{8 * size}") for size in (1, 2, 4, 8)}


class PointwiseRunner:
    """One scalar function of a backend, with a kernel for each combination of operand dtypes."""

    def __init__(self, backend: Backend, scalar: ScalarFunction) -> None:
        self._backend = backend
        self._scalar = scalar
        self._kernels: dict[Any, TemplateKernel] = {}

    def run(self, out: StridedArray, operands: Sequence[Any]) -> bool:
        """Compute into ``out`` from windows of its shape and NumPy scalars; return false if the template declines."""
        kernel = self.kernel(out, operands)
        if not out.size:
            return bool(kernel)
        return kernel.run(*([out, *operands] if self._scalar.indices else fused(out, operands)))

    def kernel(self, out: StridedArray, operands: Sequence[Any]) -> TemplateKernel:
        """Return the kernel for the dtypes of a result and its operands."""
        key = (out.dtype, *[(value.dtype, value.__class__ is StridedArray) for value in operands])
        found = self._kernels.get(key)
        if found is None:
            pairs = zip(self._scalar.parameters, operands, strict=True)
            described = tuple([Operand(name, x.dtype, x.__class__ is not StridedArray) for name, x in pairs])
            found = self._kernels[key] = TemplateKernel(
                self._backend, "pointwise", self._scalar.name, [x.dtype for x in described], self._scalar, described,
                out.dtype,
            )  # fmt: skip
        return found


class IndexedRunner:
    """The runners of a scalar function with index variables, one for each number of dimensions of the result.

    ``axes(ndim)`` returns the axes by the names of the index variables. The position in the whole result is the index
    of a result without gaps as one dimension; among other layouts it is an operand, a tensor of positions.
    """

    def __init__(self, backend: Backend, scalar: ScalarFunction, axes: Callable[[int], dict[str, int | None]]) -> None:
        self._backend = backend
        self._scalar = scalar
        self._axes = axes
        self._runners: dict[Any, PointwiseRunner] = {}
        self._counter = PointwiseRunner(backend, ScalarFunction("positions", (), index(0), np.dtype(np.int64)))

    def run(self, out: StridedArray, operands: Sequence[Any]) -> bool:
        """Compute as :meth:`PointwiseRunner.run` does."""
        axes = self._axes(out.ndim)
        windows: list[StridedArray] = [value for value in (out, *operands) if value.__class__ is StridedArray]
        is_row = {*axes.values()} == {None} and all(w.is_contiguous for w in windows)
        if is_row:
            out, *operands = fused(out, operands) if out.size else [out, *operands]
        elif None in axes.values():
            operands = [*operands, self._positions(out)]
            if operands[-1] is None:
                return False
        key = "row" if is_row else out.ndim
        runner = self._runners.get(key)
        if runner is None:
            runner = self._runners[key] = self._make({name: 0 if is_row else axis for name, axis in axes.items()})
        return runner.run(out, operands)

    def _make(self, axes: dict[str, int | None]) -> PointwiseRunner:
        scalar = self._scalar
        leaves = {name: variable(name) if axis is None else index(axis) for name, axis in axes.items()}
        parameters = (*scalar.parameters, *[name for name, axis in axes.items() if axis is None])
        resolved = ScalarFunction(scalar.name, parameters, substitute(scalar.expression, leaves), scalar.dtype)
        return PointwiseRunner(self._backend, resolved)

    def _positions(self, out: StridedArray) -> StridedArray | None:
        """Return the positions of the elements of a result as a window of its shape, or None if it cannot be made."""
        dtype = np.dtype(np.int64)
        made: StridedArray = self._backend.empty(out.shape, dtype, out.device)._data
        row = made.window((made.size,), (dtype.itemsize,), 0)
        return made if self._counter.run(row, []) else None


def runner_of(
    backend: Backend, scalar: ScalarFunction, axes: Callable[[int], dict[str, int | None]]
) -> PointwiseRunner | IndexedRunner:
    """Return what runs a scalar function; ``axes`` are those of its index variables by the number of dimensions."""
    return IndexedRunner(backend, scalar, axes) if scalar.indices else PointwiseRunner(backend, scalar)


def aligned(operands: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """Broadcast the windows among the operands to a shape."""
    made: list[Any] = []
    for value in operands:
        if value.__class__ is StridedArray and value.shape != shape:
            steps = [0 if n == 1 else step for n, step in zip(value.shape, value.strides)]
            value = value.window(shape, (0,) * (len(shape) - len(steps)) + tuple(steps), value.offset)
        made.append(value)
    return made


def merged(windows: Sequence[StridedArray], count: int) -> tuple[list[int], list[list[int]]]:
    """Merge the first ``count`` dimensions where all windows allow it: lengths, and the step of each window in each."""
    sizes: list[int] = []
    steps: list[list[int]] = []
    for i, n in enumerate(windows[0].shape[:count]):
        if n == 1:
            continue
        here = [w.strides[i] for w in windows]
        if steps and all(before == n * step for before, step in zip(steps[-1], here)):
            sizes[-1] *= n
            steps[-1] = here
        else:
            sizes.append(n)
            steps.append(here)
    return sizes, steps


def fused(out: StridedArray, operands: Sequence[Any]) -> list[Any]:
    """Merge dimensions of ``out`` and of operands of its shape where possible; at least one dimension remains."""
    values = [out, *operands]
    windows: list[StridedArray] = [value for value in values if value.__class__ is StridedArray]
    if all(w.is_contiguous for w in windows):
        shape: tuple[int, ...] = (out.size,)
        strides = [(w.dtype.itemsize,) for w in windows]
    else:
        sizes, steps = merged(windows, out.ndim)
        if not sizes:
            sizes, steps = [1], [[w.dtype.itemsize for w in windows]]
        shape = tuple(sizes)
        strides = list(zip(*steps))
    made = iter([w.window(shape, step, w.offset) for w, step in zip(windows, strides)])
    return [next(made) if value.__class__ is StridedArray else value for value in values]


def convert_number(operator: str, value: Any, dtype: np.dtype) -> Any:
    """Convert a Python number, or the tensor that represents one, to a NumPy scalar."""
    if isinstance(value, Tensor):
        refuse_out_of_range(operator, value, dtype)
        value = value._data
    else:
        refuse_number(operator, value, dtype)
    return cast_number(value, dtype)


def cast_number(value: Any, dtype: np.dtype) -> Any:
    """Convert a number as a cast does: a float is truncated to an integer."""
    return copy_context().run(_cast_silently, value, dtype)  # a context ends in C: Note [Interrupts]


def _cast_silently(value: Any, dtype: np.dtype) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)[()]


class Copier:
    """Copies, conversions and fills on the device: ``copy``, or the identity function through ``pointwise``."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._runners: dict[np.dtype, PointwiseRunner] = {}
        self._tests: dict[np.dtype, PointwiseRunner] = {}  # whether one of two parts differs from 0
        self._has_copy = type(backend).copy is not Backend.copy
        self._copies: dict[np.dtype, TemplateKernel] = {}

    def move(self, out: StridedArray, x: Any) -> bool:
        """Write a window that broadcasts to the shape of ``out``, or a NumPy scalar, into ``out``.

        Returns false if the template declines. The two must not share memory.
        """
        is_window = x.__class__ is StridedArray
        if is_window:
            (x,) = aligned([x], out.shape)
            if x.dtype == out.dtype:  # copies bytes, whatever they represent
                out, x = _as_words(out), _as_words(x)
                if self._copied(out, x):
                    return True
        if x.dtype.kind == "c" or out.dtype.kind == "c":
            return self._move_parts(out, x, parts_of(x) if is_window else (x.real, x.imag))
        runner = self._runners.get(x.dtype)
        if runner is None:
            scalar = ScalarFunction("copy", ("x",), identity(x.dtype), x.dtype)
            runner = self._runners[x.dtype] = PointwiseRunner(self._backend, scalar)
        return runner.run(out, [x])

    def _move_parts(self, out: StridedArray, x: Any, parts: tuple[Any, Any]) -> bool:
        """Convert from or to complex numbers, part by part; a number that becomes real loses its imaginary part."""
        if out.dtype.kind == "c":
            return all(map(self.move, parts_of(out), parts))
        if out.dtype.kind != "b":
            return self.move(out, parts[0])
        dtype = parts[0].dtype
        runner = self._tests.get(dtype)
        if runner is None:
            either = logical_or(variable("x") != 0, variable("y") != 0)
            runner = PointwiseRunner(self._backend, ScalarFunction("copy", ("x", "y"), either, dtype))
            self._tests[dtype] = runner
        return runner.run(out, parts)

    def reordered(self, out: StridedArray, x: StridedArray) -> bool:
        """Copy a window with negative strides, which only the template ``copy`` takes; false if it declines."""
        return self._copied(_as_words(out), _as_words(x))

    def _copied(self, out: StridedArray, x: StridedArray) -> bool:
        if not self._has_copy:
            return False
        kernel = self._copies.get(x.dtype)
        if kernel is None:
            kernel = self._copies[x.dtype] = TemplateKernel(self._backend, "copy", "copy", (x.dtype,), x.dtype)
        return kernel.run(*fused(out, [x])) if out.size else True


def parts_of(x: StridedArray) -> tuple[Any, Any]:
    """Return the real and imaginary parts of a window: windows too, or the number 0."""
    if x.dtype.kind != "c":
        return x, x.dtype.type(0)
    half = x.dtype.itemsize // 2
    dtype = np.dtype(f"f{half}")
    first, second = [
        StridedArray(x.buffer, x.shape, dtype, x.device, x.strides, x.offset + start, x.owner) for start in (0, half)
    ]
    return first, second


def identity(dtype: np.dtype) -> Expression:
    """Return the expression ``x`` for a compute dtype."""
    return variable("x", "boolean" if dtype.kind == "b" else "number")


def as_bits(data: StridedArray) -> StridedArray:
    """Return a window with unsigned integers in place of its elements; complex128 stays as it is."""
    word = _WORDS.get(data.dtype.itemsize, data.dtype)
    return StridedArray(data.buffer, data.shape, word, data.device, data.strides, data.offset, data.owner)


def _as_words(data: StridedArray) -> StridedArray:
    """Return the window as one of unsigned integers; a complex128 element becomes two of them."""
    if data.dtype.itemsize != 16:
        return as_bits(data)
    shape, strides = (*data.shape, 2), (*data.strides, 8)
    return StridedArray(data.buffer, shape, _WORDS[8], data.device, strides, data.offset, data.owner)


def overlaps(out: StridedArray, operands: Sequence[Any]) -> bool:
    """Tell whether an operand shares the buffer of ``out`` without being the same window."""
    for value in operands:
        if value.__class__ is StridedArray and value.owner is out.owner:
            same = value.offset == out.offset and value.strides == out.strides and value.dtype == out.dtype
            if not same or value.shape != out.shape:
                return True
    return False


def common_shape(name: str, operands: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape to which the windows among the operands broadcast."""
    shapes = [value.shape for value in operands if value.__class__ is StridedArray]
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    return broadcast_shapes(name, *shapes)
