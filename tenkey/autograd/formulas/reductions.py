"""Gradients of reductions, derived from the combining expression.

Note [Derivatives of reductions]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A reduction is ``c(c(y_1, y_2), ...)`` for an associative and commutative ``c`` and ``y_i = f(x_i)``. If ``rest_i`` is
the combination of all elements but the i-th, the result is ``c(y_i, rest_i)`` for every ``i``. Hence its derivative by
``x_i`` is ``c_1(y_i, rest_i) f'(x_i)``, where ``c_1`` is derived symbolically. The rests of all elements take a few
passes: pairs are combined, the rests of the pairs are computed recursively, and the rest of an element is its neighbour
combined with the rest of their pair. There is no division, so zeros in a product need no special case, and the formula
is made of pointwise operators, slices and joins, so every order exists on every backend.

Three kinds have cheaper formulas: a sum passes the gradient on; a selection (``maximum``, or ``a if a > b else b``)
shares it equally among the elements that equal the result; for ``logaddexp`` the derivative is ``exp(y_i - out)``.
Guarded by ``tests/autograd/test_reduction_gradients.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from ...core.tensor import Tensor
from ...dispatch.operator import Operator
from ...ops.builtin.creation import zeros_like
from ...ops.builtin.elementwise.arithmetic import multiply
from ...ops.builtin.elementwise.comparison import equal, where
from ...ops.builtin.elementwise.complex import real
from ...ops.builtin.elementwise.exponential import exp
from ...ops.builtin.reductions.reduction import restore_axes
from ...ops.builtin.reductions.reduction import sum as sum_
from ...ops.builtin.shape.copying import cast, concatenate, stack
from ...ops.builtin.shape.views import broadcast_to, permute_dims, reshape, slice
from ...ops.declare.facets import Reduce
from ...ops.derived_operators import derived_operator
from ...ops.scalar import logaddexp, variable
from ...ops.scalar.expression import Expression, as_expression
from ...ops.shapes import normalize_axes
from .partials import Formula, pointwise_vjp

__all__ = ["reduction_formulas"]

_A: Final = variable("a")
_B: Final = variable("b")
_LOGADDEXP: Final = (as_expression(logaddexp(_A, _B)), as_expression(logaddexp(_B, _A)))

Rule = Callable[[Tensor, Tensor, Any, Any, Any], Tensor]  # of g, elements, out, axis, keepdims


def reduction_formulas(operator: Operator, *, is_complex: bool) -> dict[str, Formula | None]:
    """Return the gradient formula of a reduction (Note [Derivatives of reductions])."""
    facet: Reduce = operator.facets["Reduce"]
    name = operator.schema.arguments[0].name
    combine: Expression = facet.expression
    mapping = None if facet.scalar is None else _part(operator, "map", ("x",), facet.mapping)
    meta = f"{name}_meta"
    rule: Rule
    names: tuple[str, ...]
    if combine.operation == "add" and set(combine.operands) == {_A, _B}:
        if mapping is None:
            return {name: Formula(_spread, ("g", meta, "axis", "keepdims"))}
        rule, names = _of_sum, ("g", name, "axis", "keepdims")
    elif _is_selection(combine):
        rule, names = _of_selection, ("g", name, "out", "axis", "keepdims")
    elif any(combine is known for known in _LOGADDEXP):  # never `in`: == of expressions is an expression
        rule, names = _of_logaddexp, ("g", name, "out", "axis", "keepdims")
    else:
        rule, names = _of_rests(operator, combine, is_complex=is_complex), ("g", name, "axis", "keepdims")
    through = None if mapping is None else _through(mapping, is_complex=is_complex)

    def formula(g: Tensor, x: Tensor, *rest: Any) -> Tensor:
        out, axis, keepdims = rest if len(rest) == 3 else (None, *rest)
        inner = x if x.dtype == g.dtype else cast(x, g.dtype)  # as in the reduction
        elements = inner if mapping is None else mapping.call(inner)
        found = rule(g, elements, out, axis, keepdims)
        if through is not None:
            found = through(found, inner, elements)
        return real(found) if found.dtype.kind == "c" and x.dtype.kind != "c" else found

    return {name: Formula(formula, names)}


def _part(operator: Operator, role: str, parameters: tuple[str, ...], expression: Expression) -> Operator:
    """Return the combining or mapping expression of a reduction as a separate pointwise operator."""
    arguments = ", ".join(f"Tensor {name}" for name in parameters)
    return derived_operator(operator, role, arguments, expression, parameters, operator.facets["Reduce"].domain)


def _is_selection(combine: Expression) -> bool:
    """Return whether the result is one of the two elements."""
    if combine.operation in ("maximum", "minimum"):
        return set(combine.operands) == {_A, _B}
    return combine.operation == "where" and set(combine.operands[1:]) == {_A, _B}


def _through(mapping: Operator, *, is_complex: bool) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return a function from the gradient of the mapped elements to that of the elements themselves."""
    formula = pointwise_vjp(mapping, mapping.facets["Pointwise"], "x", is_complex=is_complex)

    def through(g: Tensor, x: Tensor, elements: Tensor) -> Tensor:
        if formula is None:
            return zeros_like(x)
        values = {"g": g, "x": x, "x_meta": x, "out": elements}
        return formula.function(*[values[name] for name in formula.names])  # type: ignore[no-any-return]

    return through


def _spread(g: Tensor, x: Any, axis: Any, keepdims: Any) -> Tensor:
    """Give every element the gradient of the result; of ``x``, only shape and dtype are used."""
    spread: Tensor = broadcast_to(restore_axes(g, x.shape, axis, keepdims) if g._data.shape else g, x.shape)
    return real(spread) if g._data.dtype.kind == "c" and x.dtype.kind != "c" else spread


def _of_sum(g: Tensor, elements: Tensor, out: Any, axis: Any, keepdims: Any) -> Tensor:
    return _spread(g, elements, axis, keepdims)


def _of_selection(g: Tensor, elements: Tensor, out: Any, axis: Any, keepdims: Any) -> Tensor:
    shape = elements.shape
    chosen = equal(elements, restore_axes(out, shape, axis, keepdims))
    count = sum_(chosen, axis=axis, keepdims=True)
    return where(chosen, restore_axes(g, shape, axis, keepdims) / count, 0.0)


def _of_logaddexp(g: Tensor, elements: Tensor, out: Any, axis: Any, keepdims: Any) -> Tensor:
    shape = elements.shape
    total = restore_axes(out, shape, axis, keepdims)
    nothing = equal(total, -math.inf)  # then every element is -inf, and -inf - -inf is nan
    weight = exp(where(nothing, -math.inf, elements - where(nothing, 0.0, total)))
    return restore_axes(g, shape, axis, keepdims) * weight


def _of_rests(operator: Operator, combine: Expression, *, is_complex: bool) -> Rule:
    """Return the rule for any other expression, which combines all the other elements."""
    pair = _part(operator, "combine", ("a", "b"), combine)
    formula = pointwise_vjp(pair, pair.facets["Pointwise"], "a", is_complex=is_complex)
    call = multiply if combine.operation == "multiply" and set(combine.operands) == {_A, _B} else pair.call

    def rule(g: Tensor, elements: Tensor, out: Any, axis: Any, keepdims: Any) -> Tensor:
        shape = elements.shape
        axes = normalize_axes(operator.schema.base_name, axis, len(shape))
        if math.prod([shape[i] for i in axes]) == 1:  # nothing is combined
            return _spread(g, elements, axis, keepdims)
        if formula is None or not elements.size:
            return zeros_like(elements)
        needed = set(formula.names)
        values: dict[str, Any] = {"g": restore_axes(g, shape, axis, keepdims), "a": elements, "a_meta": elements}
        if needed & {"b", "out"}:
            values["b"] = _rests(elements, axes, call)
        if "out" in needed:
            values["out"] = call(elements, values["b"])
        found: Tensor = formula.function(*[values[name] for name in formula.names])
        return found if found.shape == shape else broadcast_to(found, shape)

    return rule


def _rests(x: Tensor, axes: Sequence[int], combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return for each element the combination of the others along the axes, which hold at least two elements."""
    order = (*[i for i in range(x.ndim) if i not in axes], *axes)
    moved = permute_dims(x, order)
    kept = x.ndim - len(axes)
    rests = _rests_in_rows(reshape(moved, (*moved.shape[:kept], math.prod(moved.shape[kept:]))), combine)
    inverse = tuple(sorted(range(x.ndim), key=order.__getitem__))
    return permute_dims(reshape(rests, moved.shape), inverse)


def _rests_in_rows(x: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return for each element of a row the combination of its neighbour and the rest of their pair."""
    count = x.shape[-1]
    last = x.ndim - 1
    paired = count - count % 2
    even = slice(x, last, 0, paired, 2)
    odd = slice(x, last, 1, count, 2)
    if count == 2:
        return concatenate([odd, even], axis=last)
    single = slice(x, last, paired, count, 1)  # the element without a neighbour
    pairs = combine(even, odd)
    rests = _rests_in_rows(concatenate([pairs, single], axis=last) if count % 2 else pairs, combine)
    of_pairs = slice(rests, last, 0, count // 2, 1)
    joined: Tensor = stack([combine(odd, of_pairs), combine(even, of_pairs)], axis=x.ndim)
    joined = reshape(joined, (*x.shape[:-1], paired))
    if count % 2:
        joined = concatenate([joined, slice(rests, last, count // 2, count // 2 + 1, 1)], axis=last)
    return joined
