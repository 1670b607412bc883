"""A reference for operators that nobody wrote one for: NumPy's or SciPy's function of that name, or an evaluation.

The evaluation walks the traced expression with NumPy functions in extended precision. It shares with the package the
tracing alone: neither the emitted source, nor the derivatives, nor the compiled functions, nor promotion and layouts.
"""

from __future__ import annotations

import functools
import math
import operator as python
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy.special

import tenkey as tk
from tenkey.core.tree import tree_map
from tenkey.core.word import WEAK_MASK
from tenkey.dispatch import DispatchMode
from tenkey.dispatch.operator import Operator
from tenkey.ops.scalar import topological_order
from tenkey.testing import SampleInput

__all__ = [
    "composite_reference",
    "evaluated",
    "expression_reference",
    "named_reference",
    "numpy_function",
    "result_rule",
]

Array = np.ndarray[Any, Any]

_ALIASES: Final = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "atan2": "arctan2", "pow": "power", "round": "rint", "bitwise_invert": "invert", "digamma": "psi",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "lgamma": "gammaln",
    "sigmoid": "expit",
}  # fmt: skip
_OWN: Final[dict[str, Callable[..., Any]]] = {
    "add": python.add, "subtract": python.sub, "multiply": python.mul, "divide": np.true_divide,
    "where": np.where, "fma": lambda x, y, z: x * y + z, "rsqrt": lambda x: 1 / np.sqrt(x),
    "trigamma": lambda x: scipy.special.polygamma(1, x), "reciprocal": lambda x: np.true_divide(1, x),
}  # fmt: skip


def _function(name: str) -> Callable[..., Any] | None:
    found = getattr(np, _ALIASES.get(name, name), None)
    if not isinstance(found, np.ufunc):
        found = getattr(scipy.special, _ALIASES.get(name, name), None)
    return found if isinstance(found, np.ufunc) else None


def named_reference(operator: Operator) -> Callable[..., Any] | None:
    """The ufunc of NumPy or SciPy with the name of a pointwise operator and as many operands."""
    found = _function(operator.schema.base_name)
    known = isinstance(found, np.ufunc) and found.nin == len(operator.schema.arguments)
    return found if known else None


def numpy_function(operator: Operator) -> Callable[..., Any] | None:
    """NumPy's function with the name of an operator, in the submodule that its prefix names."""
    name = operator.schema.base_name
    for prefix, module in (("fft_", np.fft), ("linalg_", np.linalg)):
        if name.startswith(prefix):
            return getattr(module, name.removeprefix(prefix), None)
    return getattr(np, name, None)


def evaluated(expression: Any, environment: dict[str, Any]) -> Any:
    """The value of a scalar expression on arrays."""
    values: dict[Any, Any] = {}
    for node in topological_order([expression]):
        if node.name is not None:
            values[node] = environment[node.name]
        elif node.value is not None:
            values[node] = node.value
        else:
            call = _OWN.get(node.operation) or _function(node.operation)
            assert call is not None, f"no reference for the scalar operation {node.operation}"
            values[node] = call(*[values[operand] for operand in node.operands])
    return values[expression]


def _wide(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
        return value.astype(np.clongdouble if value.dtype.kind == "c" else np.longdouble)
    return value


def _narrow(value: Any, like: np.dtype[Any]) -> Any:
    value = np.asarray(value)
    if value.dtype.kind not in "fc":
        return value
    return value.astype(like if like.kind in "fc" else np.float64)


def expression_reference(operator: Operator) -> Callable[..., Any]:
    """What the scalar expression of a pointwise operator or of a reduction gives on arrays."""
    if "Reduce" in operator.facets:
        return lambda x, axis=None, keepdims=False, dtype=None: _reduced(
            operator.facets["Reduce"], x if dtype is None else x.astype(dtype), axis, keepdims
        )
    facet = operator.facets["Pointwise"]

    def reference(*args: Any, **kwargs: Any) -> Any:
        bound = operator.bind(*args, **kwargs)
        tensors = [np.asarray(bound[name]) for name in facet.tensors if name not in facet.boolean]
        common = np.result_type(*tensors) if tensors else np.dtype(bool)
        shape = np.broadcast_shapes(*[np.shape(bound[name]) for name in facet.tensors])
        given: dict[str, Any] = {}
        for name, value in bound.items():
            if name in facet.boolean:
                given[name] = np.asarray(value).astype(bool)
            else:
                given[name] = _wide(np.asarray(value).astype(common)) if name in facet.tensors else value
        return np.broadcast_to(_narrow(evaluated(facet.expression, given), common), shape)

    return reference


def _reduced(facet: Any, x: Array, axis: Any, keepdims: bool) -> Any:
    if facet.promotion.name == "SUM" and x.dtype.kind in "biu":
        x = x.astype(np.uint64 if x.dtype.kind == "u" else np.int64)
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(a % x.ndim for a in axes)
    rest = [i for i in range(x.ndim) if i not in axes]
    mapped = np.broadcast_to(evaluated(facet.mapping, {"x": _wide(x)}), x.shape)
    rows = mapped.transpose([*axes, *rest]).reshape((math.prod(x.shape[a] for a in axes), *[x.shape[i] for i in rest]))
    if not len(rows):
        rows = np.full((1, *rows.shape[1:]), facet.identity, rows.dtype)
    total = functools.reduce(lambda a, b: evaluated(facet.expression, {"a": a, "b": b}), rows)
    shape = [1 if i in axes else n for i, n in enumerate(x.shape)] if keepdims else [x.shape[i] for i in rest]
    return _narrow(np.reshape(total, shape), x.dtype)


def composite_reference(operator: Operator, reference_of: Callable[[Operator], Any]) -> Callable[..., Any]:
    """What a composite gives when each operator that it is made of is replaced by its reference."""

    def call(part: Operator, *args: Any, **kwargs: Any) -> Any:
        function = reference_of(part)
        assert function is not None, f"{operator} is made of {part}, which has no reference"
        given = SampleInput(args, kwargs).map(lambda t: t.item() if t._word & WEAK_MASK else t.detach().numpy())
        return tree_map(tk.asarray, function(*given.args, **given.kwargs))

    class References(DispatchMode):
        def __tk_dispatch__(self, op: Operator, types: Any, args: Any, kwargs: Any) -> Any:
            return call(op, *args, **kwargs)

    def reference(*args: Any, **kwargs: Any) -> Any:
        given = tree_map(lambda x: tk.asarray(x) if isinstance(x, np.ndarray) else x, SampleInput(args, kwargs))
        with References():
            found = operator.facets["Composite"].function(*given.args, **given.kwargs)
        return tree_map(lambda t: t.numpy(), found)

    return reference


def result_rule(operator: Operator) -> str | None:
    """The rule for the dtype of the result, by the documented meaning of the promotion's name."""
    functional = operator.facets["Inplace"].functional if "Inplace" in operator.facets else operator
    if functional is None:
        return "same"
    facet = functional.facets.get("Pointwise") or functional.facets.get("Reduce")
    if facet is None:
        return None
    if facet.promotion.name in ("INT_TO_FLOAT", "REAL_TO_FLOAT", "EACH_TO_FLOAT"):
        return "float"
    if facet.promotion.name in ("COMPARISON", "ORDER", "BOOLEAN"):
        return "bool"
    return {"SUM": "accumulator", "MAGNITUDE": "real"}.get(facet.promotion.name, "same")
