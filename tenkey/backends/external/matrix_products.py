"""Matrix products by the template ``matmul``: promotion, vectors, batches that broadcast, transposed operands."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from ...core.storage import StridedArray
from ...core.tensor import Tensor
from ...dispatch.operator import Operator
from .fallback import check_devices
from .interface import Backend
from .scalar_function import Operand, ScalarFunction
from .template_calls import TemplateKernel
from .templates import Copier, PointwiseRunner, aligned, convert_number, merged

__all__ = ["MatrixProducts"]

_WIDER: Final = {"float16": np.dtype(np.float32), "bfloat16": np.dtype(np.float32)}
_OF_BOOLS: Final = np.dtype(np.int32)  # counts, of which those above 0 are true


class MatrixProducts:
    """The products of one backend."""

    def __init__(self, backend: Backend, fallback: Callable[..., Any], copier: Copier) -> None:
        self._backend = backend
        self._fallback = fallback
        self._copier = copier
        self._kernels: dict[Any, TemplateKernel] = {}

    def matmul(self, operator: Operator, x1: Tensor, x2: Tensor) -> Tensor:
        """Implement ``tk::matmul``. Where the backend has no half precision, it computes in single precision."""
        check_devices(operator, (x1, x2), {})
        shape, dtype = operator.facets["Meta"].rule(x1, x2)
        out = self._backend.empty(shape, dtype, x1.device)
        compute = _OF_BOOLS if dtype.kind == "b" else dtype
        if not self._kernel(compute, None, (), compute):
            compute = _WIDER.get(dtype.name, compute)
        done = self._product(out._data, x1, x2, compute)
        return out if done else self._fallback(operator, x1, x2)

    def _product(self, out: StridedArray, x1: Tensor, x2: Tensor, compute: np.dtype) -> bool:
        if not out.size:
            return True
        if not x1.shape[-1]:
            return self._copier.move(out, convert_number("matmul", 0, out.dtype))
        operands = []
        for x, axis in ((x1, 0), (x2, 1)):
            data: StridedArray = x._data
            if data.dtype != compute:
                data = self._backend.empty(x.shape, compute, x.device)._data
                if not self._copier.move(data, x._data):
                    return False
            operands.append(_with_axis(data, axis) if x.ndim == 1 else data)
        a, b = operands
        target = out if out.dtype == compute else self._backend.empty(out.shape, compute, out.device)._data
        whole = _with_axis(target, len(target.shape)) if x2.ndim == 1 else target
        whole = _with_axis(whole, len(whole.shape) - 1) if x1.ndim == 1 else whole
        return self.multiply(whole, a, b) and (target is out or self._copier.move(out, target))

    def multiply(
        self, out: StridedArray, a: StridedArray, b: StridedArray, epilogue: ScalarFunction | None = None,
        operands: Sequence[Any] = (),
    ) -> bool:  # fmt: skip
        """Write products of matrices, in the last two dimensions, into ``out``; return false if the template declines.

        ``a`` and ``b`` have one dtype; the other dimensions broadcast to those of ``out``. With ``epilogue`` the
        results are a function of the sums, in their dtype, and of ``operands``: windows that broadcast to ``out``, or
        NumPy scalars; it runs afterwards if the backend declines it. Nothing is empty.
        """
        described = tuple([Operand(f"x{i}", x.dtype, x.__class__ is not StridedArray) for i, x in enumerate(operands)])
        kernel = self._kernel(a.dtype, epilogue, described, out.dtype)
        if not kernel:
            if epilogue is None:
                return False
            sums = self._backend.empty(out.shape, a.dtype, out.device)._data
            runner = PointwiseRunner(self._backend, epilogue)
            return self.multiply(sums, a, b) and runner.run(out, [sums, *aligned(operands, out.shape)])
        batch = out.shape[:-2]
        (a,) = aligned([a], (*batch, *a.shape[-2:]))
        (b,) = aligned([b], (*batch, *b.shape[-2:]))
        values = [out, a, b, *aligned(operands, out.shape)]
        windows = [value for value in values if value.__class__ is StridedArray]
        for stack in _stacks(windows, len(batch)):
            given = iter(stack)
            if not kernel.run(*[next(given) if value.__class__ is StridedArray else value for value in values]):
                return False
        return True

    def _kernel(
        self, dtype: np.dtype, epilogue: ScalarFunction | None, operands: tuple[Operand, ...], result: np.dtype
    ) -> TemplateKernel:
        key = (dtype, epilogue, operands, result)
        found = self._kernels.get(key)
        if found is None:
            found = self._kernels[key] = TemplateKernel(self._backend, "matmul", "tk::matmul", (dtype,), *key)
        return found


def _with_axis(data: StridedArray, axis: int) -> StridedArray:
    """Return the window with a dimension of length 1 before ``axis``."""
    shape, strides = data.shape, data.strides
    return data.window((*shape[:axis], 1, *shape[axis:]), (*strides[:axis], 0, *strides[axis:]), data.offset)


def _stacks(windows: list[StridedArray], batch: int) -> Iterator[list[StridedArray]]:
    """Yield the windows, of ``batch`` common dimensions and two of a matrix, with one dimension in place of the common.

    Dimensions that can be merged in all windows are; of the others all but the last are walked over. A stack of
    matrices times a single one is one product of a matrix with more rows.
    """
    sizes, steps = merged(windows, batch)
    size, last = (sizes.pop(), steps.pop()) if sizes else (1, [0] * len(windows))
    for place in itertools.product(*map(range, sizes)):
        found = []
        for k, w in enumerate(windows):
            offset = w.offset + sum([i * step[k] for i, step in zip(place, steps)])
            found.append(w.window((size, *w.shape[-2:]), (last[k], *w.strides[-2:]), offset))
        yield _as_rows(found)


def _as_rows(stack: list[StridedArray]) -> list[StridedArray]:
    """Return the windows out, a, b and so on with the rows of all matrices as one, if there is one matrix ``b``."""
    size, rows, _ = stack[0].shape
    others = [w for k, w in enumerate(stack) if k != 2]
    if size == 1 or stack[2].strides[0] or any(w.strides[0] != rows * w.strides[1] for w in others):
        return stack
    return [
        w.window((1, *w.shape[1:]), w.strides, w.offset) if k == 2 else
        w.window((1, size * rows, w.shape[2]), w.strides, w.offset)
        for k, w in enumerate(stack)
    ]  # fmt: skip
