"""CPU kernels of in-place variants: the functional program with the first argument as its output."""

from __future__ import annotations

from collections.abc import Callable
from operator import setitem
from typing import Any, Final

import numpy as np

from ...core.plans import InPlace
from ...core.tensor import Tensor
from ...core.word import DTYPE_MASK, WEAK_MASK, dtypes_of, weak_of
from ...dispatch.operator import Operator
from ...ops.declare.facets import Pointwise
from ...ops.variants import Inplace, check_copy, check_pointwise
from .fp_warnings import quietly, silenced
from .loops.moves.strided_copies import apart, copy_into
from .pointwise import converted, pointwise_into
from .programs.program import Program, compute_into, program_of
from .thresholds import LARGE

__all__ = ["inplace_kernel"]


def inplace_kernel(operator: Operator) -> Callable[..., Tensor]:
    """Return the kernel of an in-place variant, or of ``copy_``."""
    facet: Inplace = operator.facets["Inplace"]
    functional = facet.functional
    if functional is None:
        return lambda x, source: _copy(operator, x, source)

    plans: dict[int, Program | None] = {}

    def kernel(x: Tensor, *args: Any) -> Tensor:
        if len(args) < 2:
            other = args[0] if args else x
            bits = (x._word | getattr(other, "_word", 0)) & _TRAITS
            try:
                plan = plans[bits]
            except KeyError:
                plan = plans[bits] = _plan(functional, bits, 1 + len(args))
            target = x._data
            # a contiguous writeable target, and another operand of its shape or 0-d: the result certainly fits
            if plan is not None and target.flags.carray and _fits(other._data, target):
                operands: tuple[np.ndarray, ...] = (target,)
                if args:
                    operands = (target, converted(operator.schema.base_name, other, plan.dtype))
                if target.size < LARGE:
                    try:
                        quietly(plan.call, *operands, out=target)
                    except RuntimeError:  # Note [A context without warnings]
                        silenced(plan.call, *operands, out=target)
                    return x
                apart = not args or not np.may_share_memory(operands[1], target)
                if apart and target.size >= plan.limit and compute_into(plan, operands, target):
                    return x
        check_pointwise(operator, x, *args)
        pointwise_into(functional, x._data, (x, *args))
        return x

    described: Any = kernel
    described.small = InPlace(lambda key: _plan(functional, key & _TRAITS, 2), _large)
    return kernel


_TRAITS: Final = DTYPE_MASK | WEAK_MASK


def _plan(functional: Operator, bits: int, count: int) -> Program | None:
    """Return the program that computes in one ufunc if at most a Python number has to be converted."""
    facet: Pointwise = functional.facets["Pointwise"]
    arrays = dtypes_of(bits & DTYPE_MASK)
    if len(arrays) != 1 or facet.boolean or facet.indices or not len(facet.parameters) == len(facet.tensors) == count:
        return None
    try:
        compute, result = facet.promotion.dtypes(functional.name, arrays, weak_of(bits & WEAK_MASK))
    except TypeError:
        return None  # check_pointwise raises the error
    if arrays[0].kind == "V" or not compute == result == arrays[0]:
        return None
    program = program_of(functional.name, facet, compute, result)
    return program if isinstance(program.call, np.ufunc) else None


def _large(program: Program, target: np.ndarray, other: np.ndarray) -> bool:
    """Compute into a contiguous target, which shares no memory with the other operand; tell whether it was done."""
    if target.size >= program.limit:
        return compute_into(program, (target, other), target)
    silenced(program.call, target, other, out=target)
    return True


def _fits(a: np.ndarray, target: np.ndarray) -> bool:
    return not a.ndim or a.shape == target.shape


def _copy(operator: Operator, x: Tensor, source: Tensor) -> Tensor:
    check_copy(operator, x, source)
    values = source._values(operator.schema.base_name)
    if values.dtype == x._data.dtype:
        copy_into(x._data, values)
        return x
    silenced(setitem, x._data, ..., apart(values, x._data))
    return x
