"""CPU kernels for bfloat16, which is a storage format here: they compute in float32 and round once, at the end.

Note [bfloat16 is storage]
~~~~~~~~~~~~~~~~~~~~~~~~~~
NumPy has no bfloat16 arithmetic, and sums in bfloat16 would be useless. The kernel for a dispatch word with bfloat16 is
therefore the kernel for float32: tensors are widened, which is exact, and float32 results are rounded to bfloat16 if
the operands promote to it. Large elementwise calls do both within their loop. Operators that select or move elements
return them unchanged. Copies, casts and views use the memory itself. Where NumPy has no kernel for float16 (LAPACK,
FFT), the block says ``widens=True`` and float16 is treated the same way.
Guarded by ``tests/core/test_bfloat16.py::test_results_are_rounded_once``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..._util.record import Record
from ...core.dtypes import names as dtypes
from ...core.dtypes.promotion import result_dtype
from ...core.tensor import Tensor, cpu_word, make_tensor
from ...core.tree import map_tensors
from ...core.word import BFLOAT16_TRAIT, DTYPE_MASK, DTYPE_TRAIT, WEAK_MASK, dtypes_of, weak_of
from ...dispatch.kernel import Kernel
from ...dispatch.operator import Operator
from ...ops.declare.facets import Pointwise
from ...ops.scalar import Expression
from ..allocation.host import allocate
from .fp_warnings import QUIET, errors, ignore, restore, silenced
from .thresholds import LARGE

__all__ = ["with_bfloat16"]

_DIRECT: Final = frozenset({"tk::clone", "tk::cast", "tk::astype", "tk::to_device", "tk::flip"})
_FLOAT32_TRAIT: Final = DTYPE_TRAIT[dtypes.float32]


def with_bfloat16(operator: Operator, kernel: Kernel) -> Kernel:
    """Make a kernel compute in float32 when an operand is bfloat16."""
    if operator.name in _DIRECT:
        return kernel
    given, function = kernel.specialize, kernel.function
    on_numpy = operator.facets.get("NumPyKernel")
    kinds, narrow = "V", BFLOAT16_TRAIT
    if on_numpy is not None and on_numpy.widens:
        kinds, narrow = "Vf", BFLOAT16_TRAIT | DTYPE_TRAIT[dtypes.float16]

    def specialize(operator: Operator, word: int) -> Callable[..., Any]:
        if not word & narrow:
            return function if given is None else given(operator, word)
        wide_word = word & ~narrow | _FLOAT32_TRAIT
        inner = function if given is None else given(operator, wide_word)
        arrays, weak = dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK)
        kernel = _rounding(inner, result_dtype(arrays, weak), kinds)
        facet = operator.facets.get("Pointwise")
        return kernel if facet is None or weak or facet.indices else _in_loops(operator, facet, arrays, kernel)

    kernel.specialize = specialize
    return kernel


class _Narrow(Record):
    """What the loop of a pointwise operator on bfloat16 is found for: see `find_loop`."""

    name: str
    expression: Expression
    parameters: tuple[str, ...]
    dtype: np.dtype
    result: np.dtype
    signature: tuple[np.dtype, ...] = ()
    ufunc: np.ufunc | None = None
    left_to_numpy: bool = False


def _in_loops(
    operator: Operator, facet: Pointwise, arrays: tuple[np.dtype, ...], kernel: Callable[..., Any]
) -> Callable[..., Any]:
    """Leave large calls on tensors to a loop, which widens what it reads and rounds what it writes."""
    compute, result = facet.promotion.dtypes(operator.name, arrays)
    narrow = _Narrow(operator.name, facet.expression, facet.parameters, compute, result)
    word = cpu_word(result)
    loops: dict[tuple[np.dtype, ...], Any] = {}

    def in_loops(*args: Any) -> Any:
        if compute.kind != "V" or not all(isinstance(x, Tensor) for x in args) or max(x.size for x in args) < LARGE:
            return kernel(*args)
        data = tuple([x._data for x in args])
        dtypes = tuple([a.dtype for a in data])
        if dtypes not in loops:
            from .programs.inner_loops import find_loop  # Note [Delayed modules]

            loops[dtypes] = find_loop(narrow, dtypes)
        loop = loops[dtypes]
        try:
            shape = np.broadcast_shapes(*[a.shape for a in data])
        except ValueError:
            return kernel(*args)  # raises the operator's error
        out = allocate(shape, result)
        if loop is None or loop.run((*data, out)):
            return kernel(*args)
        return make_tensor(out, word)

    return in_loops


def _rounding(inner: Callable[..., Any], promoted: np.dtype, kinds: str) -> Callable[..., Any]:
    """Run the kernel on float32 in place of dtypes of two bytes and one of these kinds."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        target = kwargs.get("dtype")
        if target is not None and target.kind == "V":
            kwargs["dtype"] = dtypes.float32
        wanted = promoted if target is None else target
        found = errors()
        try:
            ignore(QUIET)
            wide = [_widened(value, kinds) for value in args]
            named = {name: _widened(value, kinds) for name, value in kwargs.items()}
        finally:
            restore(found)
        result = inner(*wide, **named)
        return _narrowed(result, wanted) if _is_narrow(wanted, kinds) else result

    return kernel


def _is_narrow(dtype: np.dtype, kinds: str) -> bool:
    return dtype.itemsize == 2 and dtype.kind in kinds


def _widened(value: Any, kinds: str) -> Any:
    if isinstance(value, Tensor):
        if _is_narrow(value._data.dtype, kinds):
            return make_tensor(value._data.astype(np.float32), cpu_word(dtypes.float32))
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
        return [_widened(item, kinds) for item in value]
    return value


def _narrowed(result: Any, dtype: np.dtype) -> Any:
    def narrow(x: Tensor) -> Tensor:
        if x._data.dtype != np.float32:
            return x
        return make_tensor(silenced(x._data.astype, dtype), cpu_word(dtype))

    return map_tensors(narrow, result)
