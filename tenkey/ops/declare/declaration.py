"""The declaration functions: ``pointwise``, ``reduction``, ``view``, ``structured``, ``composite``, ``factory``.

Each defines an operator in the registry, with a schema and facets, and returns the operator's entry: a function with
the schema's signature. Kernels are made by the layers that read the facets (docs/adding_an_operator.md).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, TypeAlias, TypedDict, Unpack

import numpy as np

from ...core.tensor import Tensor
from ...core.tree import tree_map
from ...dispatch.errors import RegistrationError
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from ...dispatch.schema import FunctionSchema, parse_schema
from ...dispatch.tags import Tag
from .batch import Batching, BatchRule
from .facets import (
    ArgScan,
    Backward,
    Compared,
    ComplexVjp,
    Composite,
    Decomposition,
    ElementPlan,
    Elements,
    Factory,
    JointVjp,
    Jvp,
    Linear,
    Meta,
    Methods,
    NotDifferentiable,
    NumPyKernel,
    Part,
    Partials,
    Pointwise,
    Reduce,
    Reference,
    SampleInputs,
    View,
    Vjp,
    autocast_policy,
    check_formula,
    formula_names,
    tensor_names,
)
from .leaf import LEAF
from .promotion import BOOLEAN, SAME, SUM, Promotion
from .sweeps import Rows

__all__ = ["Entry", "composite", "factory", "pointwise", "reduction", "structured", "view"]

Entry: TypeAlias = Callable[..., Tensor]
Formula: TypeAlias = Callable[..., Any] | None


class Options(TypedDict, total=False):
    """The options that blocks of several kinds have; see the docstrings of ``pointwise`` and ``structured``."""

    sample_inputs: Callable[..., Any] | None
    gradcheck_wrapper: Callable[..., Any] | None
    compared: Callable[..., Any] | None
    batch: Batching | BatchRule | None
    autocast: str | None
    reference: Callable[..., Any] | None
    methods: Iterable[str]
    tags: Iterable[str]
    positional: int
    replace: Iterable[str]
    doc: str | None


def _define(
    schema: FunctionSchema, facets: Iterable[object], *own_tags: Tag, sample_inputs: Any = None,
    gradcheck_wrapper: Any = None, compared: Any = None, batch: Batching | BatchRule | None = None,
    autocast: str | None = None, reference: Any = None, methods: Iterable[str] = (), tags: Iterable[str] = (),
    positional: int = 0, replace: Iterable[str] = (), doc: str | None = None,
) -> Entry:  # fmt: skip
    """Define an operator with the facets that are not None, and those that follow from the options."""
    names = tuple(methods)
    more = (
        _given(SampleInputs, sample_inputs, gradcheck_wrapper),
        _given(Compared, compared),
        None if autocast is None else autocast_policy(schema, autocast),
        _given(Reference, reference),
        batch if batch is None or isinstance(batch, Batching) else Batching("function", batch),
        Methods(names) if names else None,
    )
    by_name = {type(facet).__name__: facet for facet in (*facets, *more) if facet is not None}
    tags = (*own_tags, *tags)
    return registry.define(schema, facets=by_name, tags=tags, positional=positional, replace=replace, doc=doc).call


def _given(facet: Callable[..., object], value: Any, *more: Any) -> object:
    """Return a facet, or None if it has no value."""
    return None if value is None else facet(value, *more)


def _parse(schema: str | FunctionSchema) -> FunctionSchema:
    parsed = parse_schema(schema if "::" in schema else f"tk::{schema}") if isinstance(schema, str) else schema
    return parsed if parsed.namespace is not None else parsed.with_namespace("tk")


def _check_vjp(schema: FunctionSchema, formulas: Mapping[str, Formula]) -> None:
    for name, formula in formulas.items():
        if formula is not None:
            check_formula(schema, f"the vjp by {name}", formula, ("g", "out", *_result_names(schema)))


def _differentiation(
    schema: FunctionSchema,
    partials: Callable[..., Any] | tuple[Formula, ...] | None,
    vjp: Mapping[str, Formula] | None,
    jvp: Callable[..., Any] | Linear | None,
    differentiable: bool,
) -> list[object]:
    facets: list[object] = []
    if not differentiable:
        return [NotDifferentiable()]
    names = tensor_names(schema)
    if partials is not None:
        formulas = formulas_by_argument(schema, names, partials)
        for name, formula in formulas.items():
            if formula is not None:
                check_formula(schema, f"the partial derivative by {name}", formula, ("out",))
        facets.append(Partials(formulas))
    if vjp is not None:
        for name in vjp:
            if name not in names:
                raise RegistrationError(
                    f"[{schema.name}] vjp names {name!r}, which is not a tensor argument of {schema}."
                )
        _check_vjp(schema, vjp)
        facets.append(Vjp(vjp) if len(schema.returns) == 1 else _joint_backward(schema, vjp))
    if jvp is not None:
        facets.append(Jvp(jvp))
    return facets


def _result_names(schema: FunctionSchema) -> dict[str, int]:
    """Return the names of several results, with their places; a formula that names one does not keep the others."""
    several = schema.returns if len(schema.returns) > 1 else ()
    return {result.name: k for k, result in enumerate(several) if result.name}


def _description(x: Any) -> Any:
    """Return shape, dtype and device of a tensor, without its values."""
    return SimpleNamespace(shape=x.shape, dtype=x.dtype, device=x.device) if isinstance(x, Tensor) else x


def _joint_backward(schema: FunctionSchema, vjp: Mapping[str, Formula]) -> Backward:
    """Make the gradient of an operator with several results from its formulas.

    In these ``g`` is the tuple of the gradients of the results, None for an unused one, and ``out`` the tuple of the
    results, which the names of the schema also stand for. Forward mode follows as from any ``Backward``.
    """
    formulas = {name: (f, formula_names(f)) for name, f in vjp.items() if f is not None}
    used = {name for _, names in formulas.values() for name in names}
    tensors = [name for name in tensor_names(schema) if name in used]
    described = [name for name in tensor_names(schema) if f"{name}_meta" in used]
    positional = [a.name for a in schema.arguments if not a.kwarg_only]
    results = {name: k for name, k in _result_names(schema).items() if name in used}

    def setup_context(ctx: Any, inputs: tuple[Any, ...], *rest: Any) -> None:
        bound = dict(zip(positional, inputs), **(rest[0] if len(rest) > 1 else {}))
        ctx.set_materialize_grads(False)
        outs = rest[-1] if "out" in used else [rest[-1][k] for k in results.values()]
        ctx.save_for_backward(*[bound[name] for name in tensors], *outs)
        ctx.plain = {name: value for name, value in bound.items() if name in used and name not in tensors}
        for name in described:
            ctx.plain[f"{name}_meta"] = tree_map(_description, bound[name])

    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        outs = saved[len(tensors) :]
        known = dict(zip(tensors, saved), g=grads, out=outs, **ctx.plain)
        known.update({name: outs[k] for name, k in results.items()} if "out" in used else zip(results, outs))
        found: list[Any] = [None] * len(positional)
        for i, name in enumerate(positional):
            if name in formulas and ctx.needs_input_grad[i]:
                function, names = formulas[name]
                found[i] = function(*[known[n] for n in names])
        return tuple(found)

    return Backward(backward, setup_context)


def formulas_by_argument(
    schema: FunctionSchema, names: tuple[str, ...], partials: Callable[..., Any] | tuple[Formula, ...]
) -> dict[str, Formula]:
    """Return the partial derivatives of a pointwise operator by tensor argument."""
    if not isinstance(partials, tuple):
        if len(names) == 1:
            return {names[0]: partials}
        return {name: _pick(partials, index, len(names), schema.name) for index, name in enumerate(names)}
    if len(partials) != len(names):
        raise RegistrationError(
            f"[{schema.name}] partials has {len(partials)} formulas for {len(names)} tensor arguments "
            f"({', '.join(names)}): give one for each, None where the derivative is zero."
        )
    return dict(zip(names, partials))


def _pick(function: Callable[..., Any], index: int, count: int, operator: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def one(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not isinstance(result, tuple) or len(result) != count:
            raise TypeError(
                f"[{operator}] partials must return a tuple of {count} derivatives, one for each tensor argument, "
                f"got {type(result).__name__}."
            )
        return result[index]

    one.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return one


def pointwise(
    schema: str | FunctionSchema,
    *,
    scalar: Callable[[Any], Callable[..., Any]],
    partials: Callable[..., Any] | tuple[Formula, ...] | None = None,
    vjp: Mapping[str, Formula] | None = None,
    promote: Promotion = SAME,
    domain: tuple[float, float] = (-4.0, 4.0),
    boolean: tuple[str, ...] = (),
    complex_vjp: Mapping[str, Formula] | None = None,
    differentiable: bool | None = None,
    ufunc: np.ufunc | None = None,
    traced: Any = None,
    **options: Unpack[Options],
) -> Entry:
    """Declare an operator that computes each element of its result from the elements at the same place.

    ``scalar=lambda T: lambda x, y: ...`` uses Python's operators and the functions of ``tenkey.library.scalar``.
    Without ``partials`` or ``vjp`` the expression is differentiated symbolically; ``complex_vjp`` replaces the result
    in calls with complex tensors, if the expression is not holomorphic. ``traced`` is the expression if it is already
    known; ``ufunc`` is a NumPy function that computes the same.

    Blocks of every kind accept ``autocast``, the policy of :class:`Autocast`, and ``reference``, the function on NumPy
    arrays that tests compare the operator with (:class:`Reference`).
    """
    parsed = _parse(schema)
    facet = Pointwise(parsed, scalar, promote, domain, tuple(boolean), ufunc)
    if traced is not None:
        facet.__dict__["expression"] = traced
    if differentiable is None:
        differentiable = promote.result is not BOOLEAN.result
    facets: list[object] = [facet, *_differentiation(parsed, partials, vjp, None, differentiable)]
    if complex_vjp is not None:
        _check_vjp(parsed, complex_vjp)
        facets.append(ComplexVjp(complex_vjp))
    return _define(parsed, facets, Tag.POINTWISE, **options)


def reduction(
    schema: str | FunctionSchema,
    *,
    combine: Callable[[Any], Callable[[Any, Any], Any]],
    identity: Any = None,
    scalar: Callable[[Any], Callable[..., Any]] | None = None,
    vjp: Mapping[str, Formula] | None = None,
    promote: Promotion = SUM,
    differentiable: bool = True,
    domain: tuple[float, float] = (-4.0, 4.0),
    **options: Unpack[Options],
) -> Entry:
    """Declare an operator that combines the elements along axes.

    The schema has the arguments ``x``, ``axis``, ``keepdims`` and optionally ``dtype``.
    """
    parsed = _parse(schema)
    reduce = Reduce(combine, identity, scalar, promote, domain)
    facets = [reduce, *_differentiation(parsed, None, vjp, None, differentiable)]
    return _define(parsed, facets, Tag.REDUCTION, **options)


def view(
    schema: str,
    *,
    window: Callable[..., Any],
    vjp: Mapping[str, Formula] | None = None,
    part: Callable[..., Any] | None = None,
    **options: Unpack[Options],
) -> Entry:
    """Declare an operator whose result is a view of the memory of its first argument.

    ``window(x, ...)`` takes the same arguments and returns shape, strides and offset in elements, or None if a copy is
    needed. A view is linear: its forward derivative is the view of the tangent. ``part``: see :class:`Part`.
    """
    parsed = _parse(schema)
    facets = [View(window), *_differentiation(parsed, None, vjp, None, True), _given(Part, part)]
    return _define(parsed, facets, Tag.VIEW, **options)


def structured(
    schema: str,
    *,
    meta: Callable[..., Any],
    numpy: Callable[..., Any] | None = None,
    strict: bool = False,
    quiet: bool = False,
    widens: bool = False,
    decomposition: Decomposition | None = None,
    vjp: Mapping[str, Formula] | None = None,
    jvp: Callable[..., Any] | Linear | None = None,
    differentiable: bool = True,
    **options: Unpack[Options],
) -> Entry:
    """Declare an operator for which each backend has its own kernel or uses the CPU fallback.

    ``meta`` takes the arguments and returns a TensorSpec for each result, or raises on bad shapes and dtypes. ``numpy``
    computes the operator on NumPy arrays and becomes the CPU kernel: ``strict`` says that it raises wherever ``meta``
    raises, ``quiet`` that NumPy never warns in it, ``widens`` that it needs float32 in place of float16. With several
    results ``g`` and ``out`` are tuples in a formula. Tests differentiate ``gradcheck_wrapper(call, *args, **kwargs)``
    in place of ``call`` if the operator needs, for example, symmetric matrices, or has no unique result.
    ``jvp(tangents, ...)`` replaces the forward derivative that follows from ``vjp``; it is ``linear("x")`` for an
    operator that is linear in ``x``. ``decomposition`` computes the operator on devices without a kernel for it.
    ``compared(result, ...)`` returns what all correct results have in common, if there are several.
    """
    parsed = _parse(schema)
    facets = [Meta(meta), *_differentiation(parsed, None, vjp, jvp, differentiable)]
    return _define(parsed, [*facets, _given(NumPyKernel, numpy, strict, quiet, widens), decomposition], **options)


def factory(
    schema: str,
    *,
    meta: Callable[..., Any],
    numpy: Callable[..., Any] | None = None,
    strict: bool = False,
    quiet: bool = False,
    elements: Callable[..., ElementPlan | None] | None = None,
    decomposition: Decomposition | None = None,
    **options: Unpack[Options],
) -> Entry:
    """Declare an operator without tensor arguments; its ``device`` argument selects the backend.

    ``numpy`` creates the NumPy array from the same arguments; ``strict``, ``quiet`` and ``decomposition`` are as in
    ``structured``. ``elements`` returns the result as a scalar expression of index variables, for other devices.
    """
    leaf = None if Tag.INTERNAL in options.get("tags", ()) else LEAF
    kernels = (_given(Elements, elements), _given(NumPyKernel, numpy, strict, quiet), decomposition)
    return _define(_parse(schema), [Meta(meta), Factory(), NotDifferentiable(), leaf, *kernels], **options)


def composite(
    schema: str | FunctionSchema,
    *,
    explicit: bool = False,
    numpy: Callable[..., Any] | None = None,
    quiet: bool = False,
    vjp: Mapping[str, Formula] | None = None,
    joint_vjp: Callable[..., Any] | None = None,
    jvp: Callable[..., Any] | Linear | None = None,
    differentiable: bool = True,
    leaf: bool = False,
    rows: Rows | None = None,
    running: ArgScan | None = None,
    **options: Unpack[Options],
) -> Callable[[Callable[..., Any]], Entry]:
    """Declare an operator in terms of others, by decorating the function that computes it.

    It works on every backend, and is differentiable because its parts are; ``vjp`` (or ``explicit``) uses a formula
    instead. ``differentiable=False`` says that no gradient flows through (for example to integer results). ``numpy`` is
    a faster kernel on NumPy arrays for calls that record no gradient or have a formula for it; it returns
    NotImplemented, or raises, to leave a call to the composition. ``leaf``: callers may pass ``requires_grad=True``.
    ``joint_vjp`` returns the gradients of all formulas of ``vjp`` at once, where all of them are needed.
    ``rows`` are the sweeps that compute the same on backends that have a template for them, and ``running`` says that
    it is the current element along an axis.
    """

    def decorate(function: Callable[..., Any]) -> Entry:
        parsed = _parse(schema)
        implicit = not explicit and vjp is None and (numpy is None or differentiable)
        if joint_vjp is not None:
            check_formula(parsed, "the joint vjp", joint_vjp, ("g", "out"))
        facets = [
            Composite(function, implicit), *_differentiation(parsed, None, vjp, jvp, differentiable),
            _given(JointVjp, joint_vjp), LEAF if leaf else None, _given(NumPyKernel, numpy, True, quiet), rows, running,
        ]  # fmt: skip
        given: Options = {**options, "doc": options.get("doc") or function.__doc__}
        return _define(parsed, facets, **given)

    return decorate


def operator_of(entry: Entry) -> Operator:
    """Return the operator of an entry function."""
    operator: Operator = getattr(entry, "operator")  # noqa: B009  # an attribute that the type Entry does not have
    return operator
