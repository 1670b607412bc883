"""CPU kernels of reductions: ``reduce`` of the NumPy ufunc that the combining expression is, else repeated halving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.plans import SUM, Reduction
from ...core.tensor import Tensor, cpu_word, make_tensor
from ...core.tensor_base import new_handle
from ...core.word import DTYPE_MASK, dtypes_of
from ...dispatch.operator import Operator
from ...dispatch.schema import parse_schema
from ...ops.declare.facets import Pointwise, Reduce
from ...ops.declare.promotion import SAME, refuse_lost_part
from ...ops.shapes import normalize_axes, reduced_shape, refuse_empty
from .fp_warnings import QUIET, errors, ignore, quietly, restore, silenced
from .kernels import own_error
from .loops.reductions.calls import reduce_array
from .programs.program import Program, program_of
from .thresholds import COMPILED_REDUCTION, LARGE, MANY_ROWS, SHORT_ROWS_REDUCED

__all__ = ["reduction_kernel"]

_PAIR = parse_schema("combine(Tensor a, Tensor b) -> Tensor")
SHORT = 64  # elements up to which a sum of all is a dot product
_ONE = parse_schema("map(Tensor x) -> Tensor")


def reduction_kernel(operator: Operator, word: int) -> Callable[..., Tensor]:
    """Return the kernel of a reduction for a tensor of this dtype."""
    facet: Reduce = operator.facets["Reduce"]
    natural, _ = facet.promotion.dtypes(operator.name, dtypes_of(word & DTYPE_MASK))
    chosen = _reducer(operator, facet, natural)
    direct = _direct(operator, facet, natural, chosen)
    if direct is not None:
        return direct

    def kernel(x: Tensor, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
        if dtype is None or dtype == natural:
            return chosen(x._data, axis, keepdims)
        return _in_dtype(operator, facet, x._data, dtype, axis, keepdims)

    return kernel


def _in_dtype(operator: Operator, facet: Reduce, a: np.ndarray, dtype: np.dtype, axis: Any, keepdims: bool) -> Tensor:
    """Reduce in the dtype that the call requests; for bfloat16, compute in float32 and round."""
    refuse_lost_part(operator.schema.base_name, a.dtype, dtype)
    if dtype.kind != "V":
        return _reducer(operator, facet, dtype)(a, axis, keepdims)
    made = _reducer(operator, facet, np.dtype(np.float32))(a, axis, keepdims)
    return make_tensor(made._data.astype(dtype), cpu_word(dtype))


def _direct(
    operator: Operator, facet: Reduce, dtype: np.dtype, general: Callable[[np.ndarray, Any, bool], Tensor]
) -> Callable[..., Tensor] | None:
    """Return a kernel for small arrays that is a single call of a NumPy ufunc, or None if that is not possible."""
    ufunc = _ufunc_of(_combining(operator, facet, dtype), facet)
    if facet.scalar is not None or ufunc is None:
        return None
    reduce: Any = ufunc.reduce
    word = cpu_word(dtype)
    wanted = dtype
    # a short vector is summed by its product with ones, in half the time of np.add.reduce
    is_sum = ufunc is np.add and dtype.name in ("float32", "float64")
    ones = [np.ones(size, dtype) for size in range(SHORT + 1)] if is_sum else []
    limit, ndarray = len(ones), np.ndarray
    is_test = dtype.kind == "b"  # of all bools NumPy looks at no more than decide, and at 64 at once
    empty: Any = np.empty

    def kernel(x: Tensor, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
        a = x._data
        size = a.size
        if axis is None and 1 < size < limit and dtype is None and not keepdims:  # of one, -0.0 would stay
            data = empty((), wanted)  # not the scalar that NumPy returns: its conversion takes longer
            try:
                quietly((a if a.ndim == 1 else a.ravel()).dot, ones[size], data)
            except RuntimeError:  # Note [A context without warnings]
                data = np.asarray(silenced(reduce, a, axis, wanted))
        else:
            if dtype is not None and dtype != wanted:
                return _in_dtype(operator, facet, a, dtype, axis, keepdims)
            if size >= COMPILED_REDUCTION and not (is_test and axis is None and a.dtype == wanted):
                return general(a, axis, keepdims)
            if (
                size >= SHORT_ROWS_REDUCED
                and axis is not None
                and (a.shape[-1] <= min(SHORT, size // MANY_ROWS) or not a.flags.c_contiguous)
            ):
                loop_made = reduce_array(facet, a, wanted, axis, keepdims, operator.schema.base_name)
                if loop_made is not None:
                    return make_tensor(loop_made, word)
            try:
                try:
                    data = quietly(reduce, a, axis, wanted, None, keepdims)
                except RuntimeError:
                    data = silenced(reduce, a, axis, wanted, None, keepdims)
            except (ValueError, IndexError, OverflowError):
                data = own_error(_of_nothing, operator, facet, a, axis, wanted, keepdims)
            if data.__class__ is not ndarray:
                data = np.asarray(data)
        made: Tensor = new_handle(Tensor)
        made._data = data
        made._word = word
        made._storage = None
        made._autograd = None
        return made

    small: Any = kernel
    small.small = Reduction(ufunc, dtype, facet.identity, SUM if is_sum else 0, SHORT_ROWS_REDUCED - 1)
    return kernel


def _combining(operator: Operator, facet: Reduce, dtype: np.dtype) -> Program:
    """Return the program that combines two elements; its facet is kept, so that it is found again."""
    pair = Pointwise(_PAIR, facet.combine, SAME, (0, 1), ("a", "b") if dtype.kind == "b" else ())
    return program_of(f"{operator.name} combine", facet.parts.setdefault(("pair", dtype), pair), dtype, dtype)


def _reducer(operator: Operator, facet: Reduce, dtype: np.dtype) -> Callable[[np.ndarray, Any, bool], Tensor]:
    program = _combining(operator, facet, dtype)
    mapping = None
    if facet.scalar is not None:
        one = facet.parts.setdefault(("map", dtype), Pointwise(_ONE, facet.scalar, SAME, (0, 1)))
        mapping = program_of(f"{operator.name} map", one, dtype, dtype)
    word = cpu_word(dtype)
    combine = _ufunc_of(program, facet)
    reduce: Any = combine.reduce if combine is not None else None

    def run(a: np.ndarray, axis: Any, keepdims: bool) -> Tensor:
        if a.size >= COMPILED_REDUCTION:
            made = reduce_array(facet, a, dtype, axis, keepdims, operator.schema.base_name)
            if made is not None:
                return make_tensor(made, word)
        found = errors()
        try:
            ignore(QUIET)
            if mapping is not None:
                a = np.asarray(mapping.call(a if a.dtype == dtype else a.astype(dtype)))
            if reduce is None:
                data = _reduce_any(program, facet, a.astype(dtype, copy=False), axis, keepdims)
            else:
                data = reduce(a, axis, dtype, None, keepdims)
        except (ValueError, IndexError, OverflowError):
            data = own_error(_of_nothing, operator, facet, a, axis, dtype, keepdims)
        finally:
            restore(found)
        if data.__class__ is not np.ndarray:
            data = np.asarray(data)
        return make_tensor(data, word)

    return run


def _ufunc_of(program: Program, facet: Reduce) -> np.ufunc | None:
    """Return the NumPy ufunc that reduces as the operator does, or None.

    A compiled ufunc does not qualify, because NumPy refuses to reduce several axes by it; nor does a ufunc with an
    identity if the operator has none, because it would give the reduction of no elements a value.
    """
    ufunc = program.ufunc  # not `call`, which may be a compiled one
    if ufunc is None or (facet.identity is None and ufunc.identity is not None):
        return None
    return ufunc


def _of_nothing(
    operator: Operator, facet: Reduce, a: np.ndarray, axis: Any, dtype: np.dtype, keepdims: bool
) -> np.ndarray:
    """After an error of NumPy, return the identity if no elements are combined, else raise the operator's error."""
    name = operator.schema.base_name
    axes = normalize_axes(name, axis, a.ndim)
    if facet.identity is None:
        refuse_empty(name, a.shape, axis)
    elif all(a.shape[i] for i in axes):
        raise  # noqa: PLE0704 -- the error of NumPy, which does not concern shapes
    return np.full(reduced_shape(name, a.shape, axis, keepdims), facet.identity, dtype)


def _reduce_any(program: Program, facet: Reduce, a: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    """Combine halves repeatedly, vectorised over the remaining axes; works for any associative function."""
    axes = normalize_axes("reduction", axis, a.ndim)
    rest = [i for i in range(a.ndim) if i not in axes]
    count = int(np.prod([a.shape[i] for i in axes], dtype=np.int64))
    moved = a.transpose([*axes, *rest]).reshape((count, *[a.shape[i] for i in rest]))
    if count == 0:
        if facet.identity is None:
            raise ValueError("empty")
        moved = np.full((1, *moved.shape[1:]), facet.identity, a.dtype)
    if moved.size >= LARGE:
        program.request()
    while moved.shape[0] > 1:
        half = moved.shape[0] // 2
        joined = np.asarray(program.call(moved[0 : 2 * half : 2], moved[1 : 2 * half : 2]))
        moved = np.concatenate([joined, moved[2 * half :]]) if moved.shape[0] % 2 else joined
    shape = tuple([1 if i in axes else n for i, n in enumerate(a.shape)]) if keepdims else moved.shape[1:]
    result = np.asarray(moved[0]).reshape(shape)
    return result.copy() if count == 1 else result  # not a view of the operand
