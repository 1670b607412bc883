"""Derivatives of pointwise operators, which are pointwise operators too.

Note [Derivatives are operators]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The derivative of a pointwise operator is an expression like the operator's own. ``g * derivative`` is declared as a
separate pointwise operator (``tk::tanh_vjp_x``), so a backward step is one fused kernel, and its derivatives follow in
the same way: every order exists. Guarded by
``tests/autograd/engine/test_autograd_memory.py::test_derivative_reuses_output``.

Note [Saving the output]
~~~~~~~~~~~~~~~~~~~~~~~~
Where the derivative contains the operator's own expression (``tanh``), the output can replace it. A saved tensor costs
memory until backward, and must not be changed in place until then; computing a quotient again costs next to nothing.
So the output is used if the derivative then needs no input or fewer tensors altogether, or if it spares an expensive
function: ``exp`` saves its output alone, ``pow`` spares a power, but ``x1 / x2`` saves its operands. Guarded by
``tests/operators/test_saved_tensors.py``.

Note [Zero times infinity]
~~~~~~~~~~~~~~~~~~~~~~~~~~
``where(x > 0, sqrt(x), 0)`` sends ``sqrt`` a gradient of zero where ``x`` is 0, and the derivative of ``sqrt`` is
infinite there: the product would be nan, for a branch that was not even taken. Therefore, where a derivative is not
finite, a gradient of zero gives zero. Where it is finite, the product is left alone, since its own derivative with
respect to the gradient must be right at zero too. Derivatives made of operations that keep finite numbers finite skip
the test. Conversely a derivative that is zero on one side of a condition (``relu``) selects a zero there, and does not
multiply by it a gradient that may be infinite or nan. Guarded by
``tests/autograd/test_autograd_operators.py::test_an_infinite_derivative_on_the_other_side_of_where_does_not_leak`` and
``::test_an_infinite_gradient_does_not_pass_a_zero_derivative``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ...dispatch.operator import Operator
from ...ops.builtin.elementwise.arithmetic import add, multiply, negative
from ...ops.builtin.elementwise.complex import conj, real
from ...ops.declare.facets import Partials, Pointwise, formula_names, role_of
from ...ops.derived_operators import derived_operator
from ...ops.scalar import (
    constant,
    differentiate,
    differentiate_along,
    free_variables,
    isfinite,
    not_holomorphic,
    operations,
    substitute,
    trace,
    variable,
    where,
)
from ...ops.scalar.expression import Expression, make, topological_order

__all__ = ["TANGENT", "Formula", "pointwise_tangent", "pointwise_vjp", "same_gradient"]

_FINITE: Final = frozenset([  # operations whose results are finite for finite operands, except for overflow
    "constant", "variable", "add", "subtract", "multiply", "negative", "square", "abs", "sign", "where", "less",
    "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_not",
    "maximum", "minimum", "sin", "cos", "tanh", "floor", "ceil", "trunc", "round",
])  # fmt: skip
_CHEAP: Final = _FINITE - {"sin", "cos", "tanh"} | {"divide", "reciprocal"}  # next to nothing to compute again
_GRADIENT = variable("__gradient")  # no argument of an operator has such a name
_OUTPUT = variable("__output")


class Formula(NamedTuple):
    """A function of positional values; ``names`` lists them (arguments, ``g``, ``out``, ``x_meta``)."""

    function: Callable[..., Any]
    names: tuple[str, ...]


class Derivative(NamedTuple):
    """A partial derivative as an expression, or as the formula of tensors declared for it."""

    expression: Expression | None
    given: Any
    may_be_infinite: bool


def _derivative(operator: Operator, facet: Pointwise, name: str) -> Derivative:
    """Return the partial derivative with respect to an argument."""
    partials: Partials | None = operator.facets.get("Partials")
    if partials is not None:
        given = partials.formulas[name]
        if given is None:
            return Derivative(constant(0), None, False)
        traced = _traced(given)
        return Derivative(traced, given, traced is not None and not operations(traced) <= _FINITE)
    derivative = differentiate(facet.expression, name)
    may_be_infinite = not operations(derivative) <= _FINITE
    if facet.expression.operands:
        shorter = _with_output(derivative, facet.expression)
        if _is_output_worth_saving(facet, derivative, shorter):
            derivative = shorter
    return Derivative(derivative, None, may_be_infinite)


def _is_output_worth_saving(facet: Pointwise, derivative: Expression, shorter: Expression) -> bool:
    """Return whether ``shorter``, which reads the output, is to replace ``derivative`` (Note [Saving the output])."""
    needed = free_variables(derivative).intersection(facet.tensors)
    left = free_variables(shorter).intersection(facet.tensors)
    return not left or len(left) + 1 < len(needed) or not operations(derivative) <= operations(shorter) | _CHEAP


def _guarded(direction: Expression, derivative: Expression, *, may_be_infinite: bool) -> Expression:
    """Return direction times derivative (Note [Zero times infinity])."""
    product = _product(direction, derivative)
    if may_be_infinite:
        product = where(isfinite(derivative), product, where(direction == 0, 0, product))
    return product


def _product(direction: Expression, derivative: Expression) -> Expression:
    """Return the product, in which a zero of the derivative is a zero whatever the direction is."""
    if derivative.kind == "boolean":
        return where(derivative, direction, constant(0))
    if derivative.operation == "where":
        condition, *branches = derivative.operands
        return where(condition, *[_product(direction, branch) for branch in branches])
    if derivative.operation == "constant" and derivative.value in (0, 1):
        return direction if derivative.value == 1 else constant(0)
    return direction * derivative


def pointwise_vjp(operator: Operator, facet: Pointwise, name: str, *, is_complex: bool) -> Formula | None:
    """Return the gradient formula for an argument, or None if the derivative is zero."""
    if is_complex and not_holomorphic(facet.expression, _real_arguments(operator)) is not None:
        return Formula(_refusal(operator, facet), ("g",))
    derivative, given, may_be_infinite = _derivative(operator, facet, name)
    if derivative is None:
        return _tensor_formula(operator, given)
    if derivative.operation == "constant":
        value = derivative.value
        if value == 0:
            return None
        if value in (1, -1):
            if is_complex:  # a real input of a complex result takes the real part
                same = _same_real if value == 1 else lambda g, meta: negative(_same_real(g, meta))
                return Formula(same, ("g", f"{name}_meta"))
            return Formula(same_gradient if value == 1 else negative, ("g",))
    if is_complex:
        return _complex_formula(operator, facet, name, derivative)
    return _declare(operator, f"vjp_{name}", facet, _guarded(_GRADIENT, derivative, may_be_infinite=may_be_infinite))


def _real_arguments(operator: Operator) -> tuple[str, ...]:
    return tuple([a.name for a in operator.schema.arguments if str(a.type) in ("int", "float", "bool")])


def _refusal(operator: Operator, facet: Pointwise) -> Callable[..., Any]:
    """Return a formula that raises an error (Note [Complex expressions])."""

    def refuse(*values: Any) -> Any:
        operation = not_holomorphic(facet.expression, _real_arguments(operator))
        raise NotImplementedError(
            f"[{operator.name}] derivative is not implemented for complex numbers: {operation} is not holomorphic, so "
            "it has no complex derivative. Compute with tk.real(x) and tk.imag(x), or register a formula with "
            f"tk.library.register_autograd({operator.name!r}, backward)."
        )

    return refuse


def same_gradient(g: Any) -> Any:
    """Return the gradient itself: the derivative is 1."""
    return g


def _same_real(g: Any, meta: Any) -> Any:
    return real(g) if meta.dtype.kind != "c" and g.dtype.kind == "c" else g


def _traced(formula: Callable[..., Any]) -> Expression | None:
    """Return the derivative as an expression, or None if tracing the formula fails."""
    try:
        found = trace(lambda T: formula, formula_names(formula))
    except TypeError:
        return None
    return None if isinstance(found, tuple) else substitute(found, {"out": _OUTPUT})


def _tensor_formula(operator: Operator, formula: Callable[..., Any]) -> Formula:
    names = _roles(operator, formula)

    def function(g: Any, *values: Any) -> Any:
        partial = formula(*values)
        if getattr(partial, "dtype", None) is not None and partial.dtype.kind == "c":
            partial = conj(partial)
        return multiply(g, partial)

    return Formula(function, ("g", *names))


def _with_output(derivative: Expression, own: Expression) -> Expression:
    """Replace the operator's own expression in its derivative with the output."""
    new: dict[Expression, Expression] = {}
    for node in topological_order([derivative]):
        if node is own:
            new[node] = _OUTPUT
        elif all(new[operand] is operand for operand in node.operands):
            new[node] = node
        else:
            new[node] = make(node.operation, *[new[operand] for operand in node.operands])
    return new[derivative]


def _complex_formula(operator: Operator, facet: Pointwise, name: str, derivative: Expression) -> Formula:
    """Return ``g * conj(derivative)``, computed as ``conj(conj(g) * derivative)``, since ``g`` is always a tensor."""
    product, names = _declare(operator, f"complex_vjp_{name}", facet, _GRADIENT * derivative)

    def function(g: Any, meta: Any, *values: Any) -> Any:
        result = conj(product(conj(g), *values))
        return result if meta.dtype.kind == "c" or result.dtype.kind != "c" else real(result)

    return Formula(function, ("g", f"{name}_meta", *names[1:]))


_BACKWARD: Final = ((_GRADIENT.name or "", "g", "grad_output"), (_OUTPUT.name or "", "out", "result"))


def _declare(
    operator: Operator,
    suffix: str,
    facet: Pointwise,
    expression: Expression,
    specials: tuple[tuple[str, str, str], ...] = _BACKWARD,
) -> Formula:
    """Define the pointwise operator of a derivative, unless it exists; its arguments are the variables that it uses.

    ``specials`` lists variables that are not arguments of the operator: name, name in a formula, wanted argument name.
    """
    schema = operator.schema
    used = free_variables(expression)
    types = {a.name: str(a.type) for a in schema.arguments}
    order: list[tuple[str, str, str]] = []  # (variable, name in a formula, name of the new argument)
    taken = set(types)
    for special, role, wanted in specials:
        if special in used:
            name, number = wanted, 1
            while name in taken:
                number += 1
                name = f"{wanted}_{number}"
            taken.add(name)
            order.append((special, role, name))
    order += [(a.name, role_of(schema, a.name), a.name) for a in schema.arguments if a.name in used]
    if not any(types.get(v, "Tensor") == "Tensor" for v, _, _ in order):
        raise NotImplementedError(f"[{operator.name}] the derivative {expression} does not depend on a tensor.")
    arguments = ", ".join(f"{types.get(v, 'Tensor')} {argument}" for v, _, argument in order)
    boolean = tuple(n for n in facet.boolean if n in used)
    variables = tuple(v for v, _, _ in order)
    made = derived_operator(operator, suffix, arguments, expression, variables, facet.domain, boolean)
    return Formula(made.call, tuple(role for _, role, _ in order))


TANGENT: Final = "~"  # prefix of the names of tangents in a formula


def pointwise_tangent(
    operator: Operator, facet: Pointwise, given: tuple[str, ...], *, is_complex: bool
) -> Formula | None:
    """Return the tangent as a formula of the tangents of the arguments ``given``."""
    if is_complex and not_holomorphic(facet.expression, _real_arguments(operator)) is not None:
        return Formula(_refusal(operator, facet), ())
    directions = {name: variable(f"__tangent_{name}") for name in given}
    total: Expression | None = None
    if "Vjp" in operator.facets:  # a rule for gradients only: the forward derivative is that of the expression
        total = differentiate_along(facet.expression, directions)
    else:
        derivatives = {name: _derivative(operator, facet, name) for name in given}
        if any(d.expression is None for d in derivatives.values()):
            return _sum_of_products(operator, derivatives)
        for name, (derivative, _, may_be_infinite) in derivatives.items():
            if derivative is None or (derivative.operation == "constant" and derivative.value == 0):
                continue
            term = directions[name]
            if derivative.operation != "constant" or derivative.value != 1:
                term = _guarded(term, derivative, may_be_infinite=may_be_infinite and not is_complex)
            total = term if total is None else total + term
    if total is None or total.operation == "constant":
        return None
    if total.operation == "variable":
        return Formula(same_gradient, (TANGENT + next(n for n, d in directions.items() if d is total),))
    specials = [(d.name or "", TANGENT + name, f"tangent_{name}") for name, d in directions.items()]
    kind = "complex_jvp" if is_complex else "jvp"
    return _declare(operator, f"{kind}_{'_'.join(given)}", facet, total, (*specials, _BACKWARD[1]))


def _roles(operator: Operator, formula: Callable[..., Any]) -> tuple[str, ...]:
    """Return the roles of what a declared partial derivative names: arguments, ``out`` and ``x_meta``."""
    arguments = {a.name for a in operator.schema.arguments}
    names = formula_names(formula)
    return tuple([role_of(operator.schema, name) if name in arguments else name for name in names])


def _sum_of_products(operator: Operator, derivatives: dict[str, Derivative]) -> Formula:
    """Return the sum of tangents times formulas that are not expressions."""
    parts: list[tuple[Callable[..., Any] | None, int]] = []
    names: list[str] = []
    for name, (expression, given, _) in derivatives.items():
        if expression is not None and expression.operation == "constant" and expression.value == 0:
            continue
        wanted = _roles(operator, given)
        parts.append((given, len(wanted)))
        names += [TANGENT + name, *wanted]

    def function(*values: Any) -> Any:
        total, rest = None, list(values)
        for given, count in parts:
            tangent, *needed = rest[: count + 1]
            del rest[: count + 1]
            term = multiply(tangent, given(*needed)) if given is not None else tangent
            total = term if total is None else add(total, term)
        return total

    return Formula(function, tuple(names))
