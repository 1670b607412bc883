"""Derivative formulas from facets: one function per argument for reverse mode, one per operator for forward mode.

Note [Forward derivatives]
~~~~~~~~~~~~~~~~~~~~~~~~~~
A gradient formula is linear in ``g``: it is the transposed derivative. Hence every formula also gives the forward
derivative. For a pointwise operator it is the sum of tangents times partial derivatives, declared as one operator like
the backward; for a reduction, the sum along its axes of the tangent times the formula at ``g = 1``; for a view, the
view of the tangent. An operator declared linear is its own derivative. Any other formula is transposed once more, by
differentiating it by ``g`` in the direction of the tangent. Without a formula there is no forward derivative, and never
a silent zero. Guarded by ``tests/autograd/forward_ad/test_jvp_formulas.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, TypeAlias

from ...core.tensor import Tensor
from ...core.tree import tensors_in
from ...core.word import REQUIRES_GRAD, WEAK_MASK
from ...core.wrapper import refreshed
from ...dispatch.local_state import current_state
from ...dispatch.operator import Operator
from ...ops.aliases import recording, spread
from ...ops.builtin.creation import ones_like, zeros_like
from ...ops.builtin.elementwise.arithmetic import multiply
from ...ops.builtin.elementwise.complex import conjugated
from ...ops.builtin.reductions.reduction import sum as sum_
from ...ops.builtin.shape.copying import cast
from ...ops.builtin.shape.views import broadcast_to
from ...ops.declare.facets import Linear, Pointwise, formula_names, role_of
from ..engine.functional import grad
from ..tape.node import ENDED, mark_leaf
from .partials import TANGENT, Formula, pointwise_tangent, pointwise_vjp, same_gradient
from .reductions import reduction_formulas

__all__ = ["Formula", "ForwardRule", "formulas_of", "jvp_of", "same_gradient"]

ForwardRule: TypeAlias = Callable[[dict[str, Any], dict[str, Any], Any], Any]


def formulas_of(operator: Operator, *, is_complex: bool) -> dict[str, Formula | None] | None:
    """Return the formula of each differentiable tensor argument, None for zero; None if there is no rule at all."""
    facets = operator.facets
    declared = facets.get("Vjp") or (facets.get("ComplexVjp") if is_complex else None)
    if declared is not None:
        return {name: None if f is None else Formula(f, formula_names(f)) for name, f in declared.formulas.items()}
    if "Pointwise" in facets:
        facet: Pointwise = facets["Pointwise"]
        found = {
            name: pointwise_vjp(operator, facet, name, is_complex=is_complex)
            for name in facet.tensors
            if name not in facet.boolean
        }
        if "Partials" in facets or not any(found.values()):
            return found
        # a step function in one of its arguments (copysign): the gradient is zeros, as for other step functions
        return {name: formula or Formula(_zeros, ("g", f"{name}_meta")) for name, formula in found.items()}
    if "Reduce" in facets:
        return reduction_formulas(operator, is_complex=is_complex)
    return None


def _zeros(g: Tensor, meta: Any) -> Tensor:
    return zeros_like(g, dtype=meta.dtype)


# ---- forward derivatives: see Note [Forward derivatives]


def jvp_of(operator: Operator, *, is_complex: bool) -> ForwardRule | None:
    """Return the forward derivative of an operator, or None if no sound rule exists.

    The rule is called as ``rule(tangents, bound, out)``: ``tangents`` maps names of tensor arguments to tangents (to a
    list of tangents for a list), with None or no entry where there is none; ``bound`` maps names to all arguments;
    ``out`` is the result. The rule returns the tangent of the result, with its shape and dtype, or None if the result
    cannot depend on the arguments (integers, comparisons). It consists of operators, so it can be differentiated again.
    """
    facets = operator.facets
    rule: ForwardRule | None = None
    if "Jvp" in facets:
        given = facets["Jvp"].function
        if isinstance(given, Linear):
            rule = _by_linearity(operator, given.groups)
        else:
            names = [name for name in formula_names(given) if name != "tangents"]

            def rule(tangents: dict[str, Any], bound: dict[str, Any], out: Any) -> Any:
                return given(tangents, **{name: _value(name, bound, out) for name in names})

    elif "NotDifferentiable" in facets:
        return lambda tangents, bound, out: None
    elif "Backward" in facets:
        return None
    elif "View" in facets:
        rule = _by_first(operator)
    elif "Pointwise" in facets and not (is_complex and "ComplexVjp" in facets):
        rule = _by_partials(operator, is_complex=is_complex)
    else:
        formulas = formulas_of(operator, is_complex=is_complex)
        if formulas is not None:
            rule = _by_reduction(operator, formulas) if "Reduce" in facets else _by_transposition(formulas)
    return None if rule is None else _fitting(rule)


def _fitting(rule: ForwardRule) -> ForwardRule:
    """Return the rule with its tangent brought to the shape and dtype of the result."""

    def fitted(tangents: dict[str, Any], bound: dict[str, Any], out: Any) -> Any:
        if isinstance(out, Tensor) and out.dtype.kind not in "fcV":
            return None
        tangent = rule(tangents, bound, out)
        if tangent is None:
            return zeros_like(out)
        if not isinstance(out, Tensor):
            return tangent
        plain = tangent.__class__ is Tensor is out.__class__  # the usual case, in which the rest is one comparison
        if plain and tangent._word == out._word and tangent._data.shape == out._data.shape:
            return tangent
        return _as_like(tangent, out)

    return fitted


def _as_like(x: Tensor, like: Tensor) -> Tensor:
    """Return the tensor with the dtype and shape of another one."""
    if x.dtype != like.dtype:
        x = cast(x, like.dtype)
    return x if x.shape == like.shape else broadcast_to(x, like.shape)


def _value(name: str, bound: dict[str, Any], out: Any) -> Any:
    """Return the value that a formula refers to by this name."""
    if name == "out":
        return out
    return bound[name] if name in bound else bound[name.removesuffix("_meta")]


def _by_linearity(operator: Operator, groups: tuple[tuple[str, ...], ...]) -> ForwardRule:
    """Sum an operator that is linear in groups of arguments over the tangents of each group."""
    arguments = operator.schema.arguments
    names = [a.name for a in arguments if not a.kwarg_only]
    keywords = [a.name for a in arguments if a.kwarg_only]
    call = operator.call

    def rule(tangents: dict[str, Any], bound: dict[str, Any], out: Any) -> Any:
        total: Any = None
        for group in groups:
            given = [name for name in group if tangents.get(name) is not None]
            if not given:
                continue
            values = {**bound, **{name: _filled(tangents.get(name), bound[name]) for name in group}}
            term = call(*[values[name] for name in names], **{name: values[name] for name in keywords})
            total = term if total is None else total + term
        return total

    return rule


def _by_first(operator: Operator) -> ForwardRule:
    """Apply an operator that is linear in its first argument to the tangent."""
    return _by_linearity(operator, ((operator.schema.arguments[0].name,),))


def _filled(tangent: Any, value: Any) -> Any:
    """Return a tangent, with zeros where it is missing."""
    if isinstance(tangent, (list, tuple)):
        return [zeros_like(x) if t is None else t for t, x in zip(tangent, value, strict=True)]
    if tangent is not None:
        return tangent
    return 0 if not isinstance(value, Tensor) or value._word & WEAK_MASK else zeros_like(value)


def _by_partials(operator: Operator, *, is_complex: bool) -> ForwardRule:
    """Use one fused operator for each set of arguments with tangents, made on first use."""
    facet: Pointwise = operator.facets["Pointwise"]
    formula_of = cache(partial(pointwise_tangent, operator, facet, is_complex=is_complex))
    own = {role_of(operator.schema, a.name): a.name for a in operator.schema.arguments}

    def rule(tangents: dict[str, Any], bound: dict[str, Any], out: Any) -> Any:
        given = tuple([n for n in facet.tensors if tangents.get(n) is not None and n not in facet.boolean])
        formula = formula_of(given)
        if formula is None:
            return None
        if facet.indices:  # positions are those in the result
            tangents = {n: t if t is None else broadcast_to(t, out.shape) for n, t in tangents.items()}
        values = {TANGENT + n: tangent for n, tangent in tangents.items()}
        values |= {role: bound[name] for role, name in own.items()}
        return formula.function(*[values[n] if n in values else _value(n, bound, out) for n in formula.names])

    return rule


def _by_reduction(operator: Operator, formulas: dict[str, Formula | None]) -> ForwardRule:
    """Sum tangents times the formula at ``g = 1``: each element of the operand belongs to one element of the result."""
    ((name, formula),) = formulas.items()
    if formula is not None and not {name, "out"} & set(formula.names):  # a sum, which is linear
        return _by_first(operator)

    def rule(tangents: dict[str, Any], bound: dict[str, Any], out: Any) -> Any:
        tangent = tangents.get(name)
        if formula is None or tangent is None:
            return None
        one = ones_like(out)
        slopes = formula.function(*[one if n == "g" else _value(n, bound, out) for n in formula.names])
        product = multiply(tangent, conjugated(slopes))
        return sum_(product, axis=bound["axis"], keepdims=bound["keepdims"])

    return rule


def _by_transposition(formulas: dict[str, Formula | None]) -> ForwardRule:
    """Differentiate the gradient formulas by ``g`` in the direction of the tangents."""

    def rule(tangents: dict[str, Any], bound: dict[str, Any], out: Any) -> Any:
        if not isinstance(out, Tensor):
            return None
        given = {name: t for name, t in tangents.items() if t is not None and formulas.get(name) is not None}
        record = (
            any(refreshed(t) & REQUIRES_GRAD for t in tensors_in((given, bound, out)))
            and current_state().keep & REQUIRES_GRAD
        )
        restore = recording()
        try:
            seed = spread(zeros_like(out).detach(), bound.values()).detach().requires_grad_()
            mark_leaf(seed, ENDED)
            ends, directions = [], []
            for name, tangent in given.items():
                formula: Any = formulas[name]
                gradients = formula.function(*[seed if n == "g" else _value(n, bound, out) for n in formula.names])
                for gradient, direction in _pairs(gradients, tangent):
                    if gradient._word & REQUIRES_GRAD:
                        ends.append(gradient)
                        directions.append(direction)
        finally:
            restore()
        if not ends:
            return None
        (result,) = grad(ends, seed, directions, create_graph=bool(record), allow_unused=True)  # recorded like any call
        return result

    return rule


def _pairs(gradients: Any, tangent: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield gradients with their tangents, broadcast where the gradients have not been summed yet."""
    many = isinstance(tangent, (list, tuple))
    for gradient, direction in zip(gradients, tangent, strict=True) if many else ((gradients, tangent),):
        if gradient is not None and direction is not None:
            yield gradient, _as_like(direction, gradient)
