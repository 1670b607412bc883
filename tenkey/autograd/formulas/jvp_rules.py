"""Tangents for the results of calls on dual tensors (Note [Dual tensors])."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ...core.tensor import Tensor
from ...core.tree import flatten, tensors_in, tree_map, unflatten
from ...core.word import REQUIRES_GRAD
from ...core.wrapper import refreshed
from ...dispatch.keys import DispatchKey
from ...dispatch.local_state import current_state, switched
from ...dispatch.operator import Operator
from ...ops.aliases import fresh, recording, spread, unrecorded
from ...ops.builtin.creation import zeros_like
from ..engine.functional import grad
from ..function.context import Context
from .gradients import ForwardRule, jvp_of

__all__ = [
    "NO_RULE", "JvpContext", "Plan", "by_user", "materialized", "parts_of", "plan_of", "transposed", "with_tangents",
]  # fmt: skip

NO_RULE: Final = (
    "[{operator}] forward derivative is not implemented: {why}. Give it one with "
    "tk.library.register_jvp({operator!r}, function), or mark it differentiable=False."
)


class Plan:
    """The properties of an operator that forward mode uses; valid while its facets stay the same."""

    def __init__(self, operator: Operator, facets: tuple[int, ...]) -> None:
        arguments = operator.schema.arguments
        self.facets = facets
        self.names = tuple([a.name for a in arguments if not a.kwarg_only])
        self.defaults = {a.name: a.default for a in arguments if a.has_default}
        self.tangents: dict[str, Any] = {a.name: None for a in arguments if a.type.is_tensor_like}
        self.rules: dict[bool, ForwardRule | None] = {}
        own = operator.facets
        self.is_view = "View" in own
        # these take the call before the arguments are split into primals and tangents
        self.is_special = "Forward" in own or "Out" in own or operator.schema.is_mutable
        self.parts = None if "Jvp" in own else parts_of(operator)
        derivable = {"Composite", "Jvp", "Pointwise", "Reduce", "View", "Vjp"}
        self.is_open = self.parts is None and not own.keys() & derivable  # a composite kernel may still be registered

    def rule(self, operator: Operator, *, is_complex: bool) -> ForwardRule | None:
        """Return ``jvp_of(operator)``, which is cached."""
        if is_complex not in self.rules:
            self.rules[is_complex] = jvp_of(operator, is_complex=is_complex)
        return self.rules[is_complex]


def plan_of(operator: Operator) -> Plan:
    """Return the plan of an operator."""
    facets = tuple(map(id, operator.facets.values()))
    known: Plan | None = operator.notes.get(Plan)
    if known is None or known.facets != facets:
        known = operator.notes[Plan] = Plan(operator, facets)
    return known


def parts_of(operator: Operator) -> Callable[..., Any] | None:
    """Return the function of a composite that is differentiable because its parts are, or None."""
    facet = operator.facets.get("Composite")
    if facet is not None:
        return facet.function if facet.implicit and "Backward" not in operator.facets else None
    if operator.facets.keys() & {"Backward", "NotDifferentiable"}:
        return None
    stack = operator.kernels.get(DispatchKey.CompositeImplicitAutograd)
    return stack[-1].function if stack else None


class JvpContext(Context):
    """The context of a jvp, with the tensors saved for it or for backward."""

    operator_name = "jvp"
    _source: Context | None = None

    def name(self) -> str:
        """Return the name for error messages."""
        return self.operator_name

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors saved for forward mode, otherwise those saved for backward."""
        if self._for_forward is not None:
            return self._for_forward
        return self._to_save if self._source is None else self._source.saved_tensors

    @classmethod
    def of(cls, ctx: Context) -> JvpContext:
        """Return a view of the context of a Function."""
        made = cls()
        made.__dict__.update({k: v for k, v in ctx.__dict__.items() if k not in ("_to_save", "_saved")})
        made.__dict__.update({k: getattr(ctx, k) for k in ctx._aside or ()})
        made._source = ctx
        return made


def by_user(level: Any, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an operator with the facet ``Forward``."""
    facet = operator.facets["Forward"]
    primals, keywords = tree_map(level.primal, (args, kwargs))
    found = [[level.tangent(x) for x in flatten(value)] for value in args]
    is_given = [any(t is not None for t in leaves) for leaves in found]
    tangents = [unflatten(x, leaves) if given else None for x, leaves, given in zip(args, found, is_given)]
    out = operator.call(*primals, **keywords)
    ctx = JvpContext()
    ctx.operator_name = operator.name
    ctx.needs_input_grad = tuple(is_given)
    setup = facet.setup_context
    if setup is None and "Backward" in operator.facets:
        setup = operator.facets["Backward"].setup_context
    if setup is not None:
        has_keywords = any(a.kwarg_only for a in operator.schema.arguments)
        setup(ctx, primals, *([keywords] if has_keywords else []), out)
    return with_tangents(level, operator.name, out, facet.function(ctx, *materialized(ctx, primals, tangents)))


def materialized(ctx: Context, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Return the tangents passed to a user's rule: missing ones are zeros, unless ``set_materialize_grads(False)``."""
    if not ctx._materialize:
        return list(tangents)
    return [_filled(primal, tangent) for primal, tangent in zip(primals, tangents, strict=True)]


def _filled(primal: Any, tangent: Any) -> Any:
    if isinstance(primal, Tensor):
        return zeros_like(primal.detach()) if tangent is None and primal.dtype.kind in "fcV" else tangent
    if not tensors_in(primal):
        return tangent
    leaves = flatten(primal)
    given = [None] * len(leaves) if tangent is None else flatten(tangent)
    filled = [_filled(x, t) if isinstance(x, Tensor) else t for x, t in zip(leaves, given, strict=True)]
    return tangent if all(t is None for t in filled) else unflatten(primal, filled)


def with_tangents(level: Any, name: str, out: Any, tangents: Any) -> Any:
    """Return the results as dual tensors; raise for tangents that do not fit."""
    results = flatten(out)
    if tangents is None:
        given: list[Any] = [None] * len(results)
    elif isinstance(out, Tensor):
        given = list(tangents) if isinstance(tangents, (tuple, list)) else [tangents]
    else:
        given = flatten(tangents)
    if len(given) != len(results):
        raise RuntimeError(
            f"[{name}] its jvp returned {len(given)} tangents, expected {len(results)}: return one for each result."
        )
    made: list[Any] = []
    for index, (result, tangent) in enumerate(zip(results, given)):
        if tangent is None or not isinstance(result, Tensor) or result.dtype.kind not in "fcV":
            made.append(result)
            continue
        if not isinstance(tangent, Tensor):
            raise TypeError(
                f"[{name}] its jvp returned {type(tangent).__name__} as the tangent of result {index}: return a "
                "Tensor or None."
            )
        if tangent.shape != result.shape or tangent.dtype != result.dtype:
            raise RuntimeError(
                f"[{name}] its jvp returned a tangent of shape {tangent.shape}, dtype {tangent.dtype} for "
                f"result {index}, which has shape {result.shape}, dtype {result.dtype}: they must be equal."
            )
        level.shown |= {id(result), id(tangent)}
        made.append(level.dual(result, tangent))
    return unflatten(out, made)


def transposed(level: Any, name: str, leaves: list[Any], call: Callable[[list[Any]], Any]) -> Any:
    """Differentiate a backward, which computes ``J^T g``, by ``g`` along the tangent to get the forward derivative."""
    records = bool(current_state().keep & REQUIRES_GRAD)
    record = records and any(isinstance(x, Tensor) and refreshed(x) & REQUIRES_GRAD for x in leaves)
    values: list[Any] = []
    inputs: list[Tensor] = []
    directions: list[Tensor] = []
    restore = recording()
    try:
        for x in leaves:
            if not level.owns(x) or x.dtype.kind not in "fcV":
                values.append(level.primal(x))
                continue
            own = fresh(x._value, REQUIRES_GRAD if records else 0)
            values.append(own)
            inputs.append(own)
            directions.append(x._extra)
        out = call(values)
        try:
            tangents = [_one_transposed(result, inputs, directions, record=bool(record)) for result in flatten(out)]
        except NotImplementedError:
            raise
        except RuntimeError as error:
            why = "it has a backward, but no forward derivative can be derived from it, since it is not made of "
            why += "differentiable operators"
            raise NotImplementedError(NO_RULE.format(operator=name, why=why)) from error
    finally:
        restore()
    results = [unrecorded(r) if isinstance(r, Tensor) and not record else r for r in flatten(out)]
    return with_tangents(level, name, unflatten(out, results), unflatten(out, tangents))


def _one_transposed(result: Any, inputs: list[Tensor], directions: list[Tensor], *, record: bool) -> Tensor | None:
    if not isinstance(result, Tensor) or result.dtype.kind not in "fcV" or not refreshed(result) & REQUIRES_GRAD:
        return None
    seed = spread(zeros_like(result.detach()).detach(), inputs).detach().requires_grad_()
    total: Tensor | None = None
    gradients = grad(result, inputs, seed, create_graph=True, allow_unused=True)
    for gradient, direction in zip(gradients, directions, strict=True):
        if gradient is None:
            continue
        restore = switched(exclude=0 if record else REQUIRES_GRAD)
        try:
            term: Any = grad(gradient, seed, direction, create_graph=record, retain_graph=True)[0]
            total = term if total is None else total + term
        finally:
            restore()
    return total
