"""Calls of the templates from Python: the kernel for the dtypes, the layout, and the memory of the result.

A function here returns None for a call that its template does not take, and where code cannot be compiled: NumPy then
computes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from .....core.storage import memory_order
from .....dispatch.registry import registry
from .....ops.declare.facets import ArgReduce, ArgScan, Reduce, Scan
from .....ops.scalar import trace
from .....ops.shapes import normalize_axes
from ....allocation.host import allocate
from ....llvm import Type, Value, b8, i32, i64, kernel, lanes_of, of_dtype
from ....llvm.compiled import Case, compiled_or_none
from ....processor import has_feature
from ...pool import STATE
from ..expressions import ScalarLoop, UnsupportedInLoopError, converted, to_loop
from ..moves.strided_copies import copied
from . import arg_reduction, reduce_axes, running_place, scan

__all__ = ["as_rows", "cases", "find_places", "find_running_places", "reduce_array", "scan_arrays"]

_AXES: Final = 16  # of the templates
_FLOAT32: Final = np.dtype(np.float32)
_FLOAT64: Final = np.dtype(np.float64)
_PLANS: Final = 256  # layouts that a pair of kernels remembers


class _Elements:
    """Elements as they are combined: converted, and mapped by the operator's function."""

    def __init__(self, to: Type, mapping: ScalarLoop | None) -> None:
        self.to = to
        self.mapping = mapping
        self.key = f"{to} {'' if mapping is None else mapping.key}"

    def __call__(self, value: Value) -> Value:
        found = value if self.mapping is None else self.mapping(value)
        # bools that are views of bytes may have other bits than the last
        return b8(found != 0) if self.to is b8 else converted(found, self.to)


class _Conditions:
    """A function of conditions, on bools as they are in memory."""

    def __init__(self, function: ScalarLoop) -> None:
        self.function = function
        self.key = f"bools {function.key}"

    def __call__(self, a: Value, b: Value) -> Value:
        operation = self.function.expressions[0].operation
        if operation in ("logical_or", "maximum"):  # the elements are 0 or 1
            return a | b
        if operation in ("logical_and", "minimum"):
            return a & b
        return b8(self.function(a != 0, b != 0))


class _Parts:
    """A function of the parts of two elements, as lists."""

    def __init__(self, function: ScalarLoop) -> None:
        self.function = function
        self.key = f"parts {function.key}"

    def __call__(self, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        found = self.function(*a, *b)
        return list(found) if isinstance(found, tuple) else [found]


def _is_half(dtype: np.dtype) -> bool:
    return dtype.itemsize == 2 and dtype.kind in "fV"


class _Kernel:
    """A kernel that is compiled by its first call."""

    def __init__(self, template: Any, statics: dict[str, Any]) -> None:
        self.template, self.statics = template, statics
        self.plans: dict[Any, tuple[Any, ...]] = {}  # of a reduction, by layout

        def first(*args: Any) -> Any:
            self.call = kernel(template, **statics)
            return self.call(*args)

        self.call: Callable[..., Any] = first


def _kernels(
    facet: ArgReduce | ArgScan | Reduce | Scan, make: Callable[..., tuple[_Kernel, _Kernel]], *dtypes: np.dtype
) -> tuple[_Kernel, _Kernel] | None:
    """Return the kernels for rows and for columns, or None if an operation or a dtype is not available."""
    try:
        return facet.kernels[dtypes]  # type: ignore[no-any-return]
    except KeyError:
        pass
    try:
        made = make(facet, *dtypes)
    except (UnsupportedInLoopError, KeyError, ImportError, OSError):  # the last two: only LLVM knows the processor
        made = None
    facet.kernels[dtypes] = made
    return made


# ---- reductions


def _reduce_kernels(facet: Reduce, given: np.dtype, dtype: np.dtype) -> tuple[_Kernel, _Kernel]:
    compute = _FLOAT32 if _is_half(dtype) else dtype
    of_bools = dtype.kind == "b"
    expression = trace(facet.combine, ("a", "b"), name="combine", booleans=("a", "b") if of_bools else ())
    if expression.operation == "multiply" and dtype == _FLOAT32:
        # roundings of products add up: 2^20 numbers near 1 had a relative error of 2e-3, and NumPy's of 3e-5
        compute = _FLOAT64
    combine: Any = to_loop(expression, ("a", "b"), compute)
    A = of_dtype(compute)
    stop = {"logical_or": True, "logical_and": False}.get(expression.operation) if of_bools else None
    statics = {
        "S": of_dtype(given), "A": A, "R": of_dtype(dtype), "LANES": lanes_of(A),
        "combine": _Conditions(combine) if of_bools else combine,
        "element": _Elements(A, None if facet.scalar is None else to_loop(facet.mapping, ("x",), compute)),
    }  # fmt: skip
    rows = _Kernel(reduce_axes.reduce_rows, statics | {"stop": None if stop is None else int(stop)})
    return rows, _Kernel(reduce_axes.reduce_columns, statics)


@compiled_or_none
def reduce_array(
    facet: Reduce, a: np.ndarray, dtype: np.dtype, axis: Any, keepdims: bool, name: str = "reduce"
) -> np.ndarray | None:
    """Reduce over an axis or several (None: all) in a dtype; the array has elements. ``name`` is for errors."""
    kernels = _kernels(facet, _reduce_kernels, a.dtype, dtype)
    if kernels is None or not a.flags.aligned:
        return None
    plans = kernels[0].plans
    key = (a.shape, a.strides, axis, axis.__class__, keepdims)
    try:
        found = plans[key]
    except (KeyError, TypeError):  # TypeError: axes in a list
        pass
    else:
        call, mask, shape, order, back = found
        out = allocate(shape, dtype)
        call(STATE, a if order is None else a.transpose(order), out, mask)
        return out if back is None else out.transpose(back)
    axes = normalize_axes(name, axis, a.ndim)
    if a.ndim > _AXES:
        return None
    # The result has the order of the array's axes in memory, as in NumPy.
    order = back = None
    places: Sequence[int] = range(a.ndim)
    steps = [abs(step) for i, (step, n) in enumerate(zip(a.strides, a.shape)) if n != 1 and i not in axes]
    if steps != sorted(steps, reverse=True):
        order = places = memory_order(a.strides)[0]
        a = a.transpose(order)
    mask = sum([1 << k for k, i in enumerate(places) if i in axes])
    out = allocate(tuple([1 if i in axes else n for i, n in zip(places, a.shape) if keepdims or i not in axes]), dtype)
    if order is not None:
        held = [i for i in order if keepdims or i not in axes]
        back = tuple([held.index(i) for i in sorted(held)])
    first, second = kernels
    if not mask >> _adjacent(a) & 1:
        first, second = second, first
    for chosen in (first, second):
        if not chosen.call(STATE, a, out, mask):  # which depends on the layout alone
            if not isinstance(axis, list):
                if len(plans) >= _PLANS:
                    plans.clear()
                plans[key] = chosen.call, mask, out.shape, order, back
            return out if back is None else out.transpose(back)
    return None


def _adjacent(a: np.ndarray) -> int:
    """Return the axis along which the elements are adjacent in memory; the last if there is none."""
    for i in range(a.ndim - 1, -1, -1):
        if a.strides[i] == a.itemsize and a.shape[i] != 1:
            return i
    return a.ndim - 1


# ---- rows and columns


def as_rows(a: np.ndarray, axis: int | None) -> tuple[np.ndarray, int, int, int, int]:
    """Return an array as (outer, n, inner), where n runs along the axis, and the elements from one outer to the next.

    The last two are contiguous: an array of another layout is copied.
    """
    if axis is None:
        return np.ascontiguousarray(a), 1, a.size, 1, 0
    shape = a.shape
    outer, n, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    if not a.flags.c_contiguous or not a.flags.aligned:
        step = a.strides[0] // a.itemsize if a.ndim else 0
        uniform = a.ndim > 1 and axis and a[0].flags.c_contiguous and a.flags.aligned and axis == 1
        if uniform and step * a.itemsize == a.strides[0]:
            return a, outer, n, inner, step
        a = copied(a)
    return a, outer, n, inner, n * inner


def _place_kernels(facet: ArgReduce | ArgScan, given: np.dtype) -> tuple[_Kernel, _Kernel]:
    compute = _FLOAT32 if _is_half(given) else given
    A = of_dtype(compute)
    lanes = (8 if A.size == 8 else 16) // (1 if has_feature("avx512f") else 2)  # values and places fit the registers
    statics: dict[str, Any] = {"S": of_dtype(given), "A": A, "PLACE": i32 if A.size < 8 else i64, "LANES": lanes}
    chooses = to_loop(facet.expression, ("a", "b"), compute)
    if isinstance(facet, ArgScan):
        statics |= {"replaces": chooses}
        return _Kernel(running_place.running_in_rows, statics), _Kernel(running_place.running_in_columns, statics)
    statics |= {"element": _Elements(A, None), "better": chooses}
    return _Kernel(arg_reduction.place_in_rows, statics), _Kernel(arg_reduction.place_in_columns, statics)


@compiled_or_none
def find_places(facet: ArgReduce, a: np.ndarray, axis: int | None, keepdims: bool) -> np.ndarray | None:
    """Return the places of the best elements along an axis (None: of all); the array has elements."""
    kernels = None if a.dtype.kind == "b" else _kernels(facet, _place_kernels, a.dtype)
    if kernels is None:
        return None
    shape = a.shape
    a, outer, n, inner, step = as_rows(a, axis)
    if n >= 1 << 31:
        return None
    kept = tuple([1 if axis is None or i == axis else m for i, m in enumerate(shape)])
    out = np.empty(kept, np.int64)
    step *= a.itemsize
    if inner == 1:
        kernels[0].call(STATE, a, out, outer, n, step)
    else:
        kernels[1].call(STATE, a, out, outer, n, inner, step)
    return out if keepdims else out.reshape([m for i, m in enumerate(shape) if axis is not None and i != axis])


# ---- scans


def _scan_kernels(facet: Scan, given: np.dtype, dtype: np.dtype) -> tuple[_Kernel, _Kernel]:
    found = facet.expressions()
    sums = len(found) == 1 and found[0].operation in ("add", "multiply")
    wide = _FLOAT64 if sums and dtype.kind == "f" else _FLOAT32 if _is_half(dtype) else dtype
    A = of_dtype(wide)
    statics: dict[str, Any] = {
        "S": of_dtype(given), "A": A, "R": of_dtype(dtype), "LANES": lanes_of(A), "PARTS": len(found),
        "combine": _Parts(to_loop(found if len(found) > 1 else found[0], facet.parameters, wide)),
    }  # fmt: skip
    # vectors of integers pay for their shuffles only if they are long; floats are scanned in the same lanes everywhere,
    # so that results do not depend on the processor
    one_by_one = {"LANES": 1} if sums and wide.kind in "iu" and not has_feature("avx512f") else {}
    return _Kernel(scan.scan_rows, statics | one_by_one), _Kernel(scan.scan_columns, statics)


@compiled_or_none
def scan_arrays(
    facet: Scan, arrays: Sequence[np.ndarray], dtype: np.dtype, axis: int, *, reverse: bool, initial: bool
) -> list[np.ndarray] | None:
    """Return the running results of arrays of one shape, with elements, along an axis; a part for each array."""
    given = arrays[0].dtype
    if dtype.kind == "b" or any(a.dtype != given for a in arrays):
        return None
    kernels = _kernels(facet, _scan_kernels, given, dtype)
    if kernels is None:
        return None
    if reverse:
        arrays = [np.flip(a, axis) for a in arrays]
    shape = arrays[0].shape
    parts = [as_rows(a, axis) for a in arrays]
    if len({part[1:] for part in parts}) > 1:
        parts = [as_rows(copied(a), axis) for a in arrays]
    _, outer, n, inner, step = parts[0]
    longer = (*shape[:axis], n + initial, *shape[axis + 1 :])
    outs = [allocate(longer, dtype) for _ in arrays]
    targets = outs
    if initial:
        lead: tuple[Any, ...] = (np.s_[:],) * axis
        identity = facet.identity if isinstance(facet.identity, tuple) else (facet.identity,)
        for out, value in zip(outs, identity, strict=True):
            out[(*lead, 0)] = value
        targets = [out[(*lead, np.s_[1:])] for out in outs]
    x, to = parts[0][0], targets[0]
    if len(parts) > 1:
        x = np.array([a.ctypes.data for a in (*[part[0] for part in parts], *targets)], np.int64)
    if inner == 1:
        kernels[0].call(STATE, x, to, outer, n, step, (n + initial) * inner)
    else:
        kernels[1].call(STATE, x, to, outer, n, inner, step, (n + initial) * inner)
    return [copied(np.flip(out, axis)) for out in outs] if reverse else outs


@compiled_or_none
def find_running_places(facet: ArgScan, a: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the current elements along an axis and their places; the array has elements."""
    kernels = None if a.dtype.kind == "b" else _kernels(facet, _place_kernels, a.dtype)
    if kernels is None:
        return None
    values, places = allocate(a.shape, a.dtype), allocate(a.shape, np.dtype(np.int64))
    a, outer, n, inner, step = as_rows(a, axis)
    if n >= 1 << 31:
        return None
    if inner == 1:
        kernels[0].call(STATE, a, values, places, outer, n, step)
    else:
        kernels[1].call(STATE, a, values, places, outer, n, inner, step)
    return values, places


_MAKERS: Final = {
    "Reduce": _reduce_kernels, "ArgReduce": _place_kernels, "Scan": _scan_kernels, "ArgScan": _place_kernels,
}  # fmt: skip


def cases(dtypes: Iterable[np.dtype]) -> Iterator[Case]:
    """Yield the kernels to be compiled ahead: Note [Kernels that are compiled ahead]."""
    for given, operator in itertools.product(dtypes, registry):
        kind = next((kind for kind in _MAKERS if kind in operator.facets), None)
        if kind is None or given.kind not in "biuf":
            continue
        facet = operator.facets[kind]
        try:
            compute = () if kind in ("ArgReduce", "ArgScan") else (facet.promotion.dtypes(operator.name, (given,))[0],)
        except TypeError:
            continue
        if kind != "Reduce" and (*compute, given)[0].kind == "b":  # NumPy's
            continue
        for one in _kernels(facet, _MAKERS[kind], given, *compute) or ():
            yield Case(operator.name, one.template, one.statics)
