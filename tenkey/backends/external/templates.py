"""Templates: operators that are scalar expressions, run by a backend's own ``pointwise`` and ``reduction``.

Note [What a template need not do]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Promotion, broadcasting, the allocation of results, errors, in-place variants, overlapping memory, empty tensors and
dimensions that can be taken as one are dealt with here, once for every backend. A template gets windows of one shape
and a scalar function; what it declines (None or NotImplementedError) goes to the CPU. Conversions, copies between
layouts and fills are the identity function, so that a backend with ``pointwise`` has these too. Guarded by
``tests/backends/test_backend_templates.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.lift import refuse_number, refuse_out_of_range
from ...core.storage import StridedArray
from ...core.tensor import Tensor
from ...ops.declare.facets import Pointwise
from ...ops.scalar import Expression, evaluate, to_c, variable
from ...ops.shapes import broadcast_shapes
from .interface import Backend, memory_of

__all__ = ["Operand", "PointwiseRunner", "ScalarFunction", "aligned", "convert_number", "fused"]

_UNKNOWN: Final = object()  # no combination of dtypes that was seen before
_WORD: Final[dict[int, np.dtype]] = {
    1: np.dtype("uint8"),
    2: np.dtype("uint16"),
    4: np.dtype("uint32"),
    8: np.dtype("uint64"),
}


class Operand(NamedTuple):
    """An operand of a template's kernel: a window of ``dtype``, or with ``is_number`` a NumPy scalar.

    >>> import tenkey as tk
    >>> tk.backends.Operand("x", tk.float32).is_number
    False
    """

    name: str
    dtype: np.dtype
    is_number: bool = False


class ScalarFunction:
    """A function of scalars: what one element of a result is, computed in ``dtype`` from elements of the operands.

    ``expression`` is the traced expression over the variables ``parameters``. Called with Python numbers it computes.

    >>> import numpy as np
    >>> from tenkey.library import scalar as s
    >>> function = ScalarFunction("demo", ("x",), s.exp(s.variable("x")) - 1, np.dtype("float32"))
    >>> function(0.0)
    0.0
    """

    __slots__ = ("dtype", "expression", "name", "parameters")

    def __init__(self, name: str, parameters: tuple[str, ...], expression: Expression, dtype: np.dtype) -> None:
        self.name = name
        self.parameters = parameters
        self.expression = expression
        self.dtype = dtype

    def __call__(self, *numbers: Any) -> Any:
        """The value for Python numbers; slow, for tests."""
        return evaluate(self.expression, dict(zip(self.parameters, numbers, strict=True)))

    def to_c(
        self,
        *,
        operands: Sequence[np.dtype] | None = None,
        result: np.dtype | None = None,
        name: str = "scalar",
        dialect: str = "c",
    ) -> str:
        """The function as source: ``tk.library.scalar.to_c``. ``operands`` are the dtypes of the parameters."""
        dtypes = operands or [self.dtype] * len(self.parameters)
        parameters = {p: str(dtype) for p, dtype in zip(self.parameters, dtypes, strict=True)}
        return to_c(
            self.expression, parameters, dtype=str(self.dtype), result=str(result or self.dtype), name=name,
            dialect=dialect,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<scalar function {self.name}({', '.join(self.parameters)}) = {self.expression} in {self.dtype}>"


def checked(kernel: Any, backend: Backend, operator: str, template: str, arguments: str) -> Callable[..., None] | None:
    """What a template returned, if it is one of the two things that it may be."""
    if kernel is not None and not callable(kernel):
        raise TypeError(
            f"[{operator}] the template {template}() of the backend {backend.name!r} returned {kernel!r}: it returns "
            f"a function kernel({arguments}), or None where it has none."
        )
    function: Callable[..., None] | None = kernel
    return function


class PointwiseRunner:
    """One scalar function of a backend, for all combinations of operand dtypes that it is called with."""

    def __init__(self, backend: Backend, scalar: ScalarFunction) -> None:
        self._backend = backend
        self._scalar = scalar
        self._kernels: dict[Any, Callable[..., None] | None] = {}

    def run(self, out: StridedArray, operands: Sequence[Any]) -> bool:
        """Compute into ``out`` from windows that broadcast to its shape and NumPy scalars; false if declined."""
        key = (out.dtype, *[(value.dtype, value.__class__ is StridedArray) for value in operands])
        kernel: Any = self._kernels.get(key, _UNKNOWN)
        if kernel is _UNKNOWN:
            kernel = self._kernels[key] = self._make(out, operands)
        if kernel is None:
            return False
        if out.size:
            for value in (out, *operands):
                if (
                    value.__class__ is StridedArray
                    and getattr(value.owner, "_backend", self._backend) is not self._backend
                ):
                    memory_of(value)
            kernel(*fused(out, operands))
        return True

    def _make(self, out: StridedArray, operands: Sequence[Any]) -> Callable[..., None] | None:
        described = tuple(
            [
                Operand(name, value.dtype, value.__class__ is not StridedArray)
                for name, value in zip(self._scalar.parameters, operands, strict=True)
            ]
        )
        try:
            kernel = self._backend.pointwise(self._scalar, described, out.dtype)
        except NotImplementedError:
            return None
        return checked(kernel, self._backend, self._scalar.name, "pointwise", "out, *operands")


def aligned(operands: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """The windows among the operands, broadcast to a shape."""
    made: list[Any] = []
    for value in operands:
        if value.__class__ is StridedArray and value.shape != shape:
            steps = [0 if n == 1 else step for n, step in zip(value.shape, value.strides)]
            value = value.window(shape, (0,) * (len(shape) - len(steps)) + tuple(steps), value.offset)
        made.append(value)
    return made


def fused(out: StridedArray, operands: Sequence[Any]) -> list[Any]:
    """The same windows with as few dimensions as can be, one at the least; the operands have the shape of ``out``."""
    values = [out, *operands]
    windows: list[StridedArray] = [value for value in values if value.__class__ is StridedArray]
    if all(w.is_contiguous for w in windows):
        shape: tuple[int, ...] = (out.size,)
        strides = [(w.dtype.itemsize,) for w in windows]
    else:
        sizes: list[int] = []
        steps: list[list[int]] = []  # one list for each dimension: a step for each window
        for i, n in enumerate(out.shape):
            if n == 1:
                continue
            here = [w.strides[i] for w in windows]
            if steps and all(before == n * step for before, step in zip(steps[-1], here)):
                sizes[-1] *= n
                steps[-1] = here
            else:
                sizes.append(n)
                steps.append(here)
        if not sizes:
            sizes, steps = [1], [[w.dtype.itemsize for w in windows]]
        shape = tuple(sizes)
        strides = list(zip(*steps))
    made = iter([w.window(shape, step, w.offset) for w, step in zip(windows, strides)])
    return [next(made) if value.__class__ is StridedArray else value for value in values]


def convert_number(operator: str, value: Any, dtype: np.dtype) -> Any:
    """A Python number, or the tensor that stands for one, as a NumPy scalar."""
    if isinstance(value, Tensor):
        refuse_out_of_range(operator, value, dtype)
        value = value._data
    else:
        refuse_number(operator, value, dtype)
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)[()]


class Copier:
    """Copies, conversions and fills on the device: the identity function through ``pointwise``."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._runners: dict[np.dtype, PointwiseRunner] = {}

    def move(self, out: StridedArray, x: Any) -> bool:
        """Write a window that broadcasts to the shape of ``out``, or a NumPy scalar, into ``out``; false if declined.

        The two must not share memory.
        """
        if x.__class__ is StridedArray:
            (x,) = aligned([x], out.shape)
            if x.dtype == out.dtype:  # bytes, whatever they mean
                out, x = _as_words(out), _as_words(x)
        runner = self._runners.get(x.dtype)
        if runner is None:
            scalar = ScalarFunction("copy", ("x",), identity(x.dtype), x.dtype)
            runner = self._runners[x.dtype] = PointwiseRunner(self._backend, scalar)
        return runner.run(out, [x])

    def contiguous(self, x: Tensor) -> Tensor | None:
        """A contiguous copy of a tensor, or None if the template declines."""
        out = self._backend.empty(x.shape, x.dtype, x.device)
        return out if self.move(out._data, x._data) else None


def identity(dtype: np.dtype) -> Expression:
    """The expression ``x``, for a dtype to compute in."""
    return variable("x", "boolean" if dtype.kind == "b" else "number")


def _as_words(data: StridedArray) -> StridedArray:
    """The window as one of unsigned integers; complex128 becomes pairs of them."""
    size = data.dtype.itemsize
    shape, strides = data.shape, data.strides
    if size == 16:
        shape, strides, size = (*shape, 2), (*strides, 8), 8
    return StridedArray(data.buffer, shape, _WORD[size], data.device, strides, data.offset, data.owner)


def overlaps(out: StridedArray, operands: Sequence[Any]) -> bool:
    """Whether an operand shares the buffer of ``out`` without being the same window."""
    for value in operands:
        if value.__class__ is StridedArray and value.owner is out.owner:
            same = value.offset == out.offset and value.strides == out.strides and value.dtype == out.dtype
            if not same or value.shape != out.shape:
                return True
    return False


def boolean_flags(facet: Pointwise) -> list[bool]:
    """For each parameter whether it is read as a boolean."""
    return [parameter in facet.boolean for parameter in facet.parameters]


def common_shape(name: str, operands: Sequence[Any]) -> tuple[int, ...]:
    """The shape that the windows among the operands broadcast to."""
    shapes = [value.shape for value in operands if value.__class__ is StridedArray]
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    return broadcast_shapes(name, *shapes)
