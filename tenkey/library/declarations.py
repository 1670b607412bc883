"""Operators by one expression: the public forms of the declaration functions that the built-in operators use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from ..core.tensor import Tensor
from ..dispatch.diagnostics.sites import caller_site, function_site
from ..dispatch.errors import RegistrationError, shown
from ..dispatch.registry import registry
from ..dispatch.schema import FunctionSchema, OptionalType, parse_schema
from ..dispatch.tags import Tag
from ..ops import declare
from ..ops.declare.declaration import formulas_by_argument
from ..ops.declare.facets import Pointwise, Reduce
from ..ops.declare.promotion import INT_TO_FLOAT, SAME, Promotion
from ..ops.scalar.signatures import ScalarFunction
from .declaration_checks import (
    check_combine,
    check_domain,
    check_partials,
    check_promotion,
    for_combine,
    for_complex_numbers,
    for_expression,
    refuse_indices,
    traced,
    try_partials,
    without_booleans,
    without_complex,
    without_integers,
)
from .pointwise_families import declare_family, is_family
from .registration import _RESERVED, _RESERVED_NAMESPACES, tags_of

__all__ = ["composite", "pointwise", "reduction"]

_NUMBERS: Final = frozenset({"int", "float", "bool", "complex", "Scalar"})


def _checked(schema: str) -> FunctionSchema:
    parsed = parse_schema(schema)
    if parsed.namespace is None:
        raise RegistrationError(
            f"[{parsed.name}] needs a namespace: write the schema as 'namespace::{parsed.name}(...) -> Tensor'."
        )
    if parsed.namespace in _RESERVED_NAMESPACES:
        raise RegistrationError(_RESERVED.format(namespace=parsed.namespace))
    return parsed


def _check_pointwise(schema: FunctionSchema) -> None:
    kinds = {a.name: str(a.type) for a in schema.arguments}
    allowed = {"Tensor", *_NUMBERS}
    wrong = [f"{name} is a {kind}" for name, kind in kinds.items() if kind.removesuffix("?") not in allowed]
    if {str(r.type) for r in schema.returns} != {"Tensor"}:
        wrong.append("it does not return Tensors")
    wrong += [
        f"the Tensor {a.name} is keyword-only" for a in schema.arguments if a.kwarg_only and "Tensor" in str(a.type)
    ]
    if schema.is_mutable:
        wrong.append("it changes an argument")
    if "Tensor" not in kinds.values():
        wrong.append("it takes no Tensor")
    if wrong:
        raise RegistrationError(
            f"[{schema}] is not a pointwise operator: {', '.join(wrong)}. It takes at least one Tensor and otherwise "
            "numbers (int, float, bool, complex, Scalar), optional ones too, changes none of them, and returns Tensors."
        )


def _check_reduction(schema: FunctionSchema) -> None:
    names = [a.name for a in schema.arguments]
    tensors = [a.name for a in schema.arguments if a.type.is_tensor_like]
    known = names[:1] == tensors == ["x"] and set(names) - {"dtype"} == {"x", "axis", "keepdims"}
    positional = {a.name for a in schema.arguments if not a.kwarg_only}
    if not known or positional - {"x", "axis"} or len(schema.returns) != 1:
        raise RegistrationError(
            f"[{schema}] is not a reduction: write it as 'namespace::{schema.base_name}(Tensor x, *, int[1]? "
            "axis=None, bool keepdims=False) -> Tensor'."
        )


def _earlier(schema: FunctionSchema) -> list[str]:
    """Return the names that a repeated declaration replaces, after a reload or in a notebook.

    These are the operator of the same name, if it was declared at the same place, and its derivatives.
    """
    name = f"{schema.name}.{schema.overload_name}".removesuffix(".")
    site = caller_site(2)
    previous = registry.operators.get(name)
    if previous is None or Tag.LIBRARY not in previous.tags or not _same_place(previous.site, site):
        return []
    found = {name: previous}
    for op in [*registry.operators.values()]:  # in the order of definition: derivatives come after their operator
        source = op.facets.get("DerivedFrom")
        if source is not None and found.get(source.name) is source:
            found[op.name] = op
    return [*found]


def _same_place(first: str, second: str) -> bool:
    import tempfile

    interactive = ("<", str(Path(tempfile.gettempdir()) / "ipykernel"))  # a notebook renames a cell at each run
    return first == second or (first.startswith(interactive) and second.startswith(interactive))


def _named(schema: FunctionSchema, made: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Set the name under which pickle finds the function: ``tenkey.ops.<namespace>.<name>.<overload>.call``."""
    made.__module__ = "tenkey.ops"
    made.__qualname__ = f"{schema.namespace}.{schema.base_name}.{schema.overload_name or 'default'}.call"
    return made


def pointwise(
    schema: str,
    *,
    scalar: Callable[[Any], ScalarFunction],
    partials: Any = None,
    promote: Promotion = INT_TO_FLOAT,
    domain: tuple[float, float] = (-4.0, 4.0),
    boolean: tuple[str, ...] = (),
    autocast: str | None = None,
    tags: str | Iterable[str] = (),
    doc: str | None = None,
) -> Callable[..., Tensor]:
    """Define a differentiable operator by a scalar expression.

    Args: schema: ``"namespace::name(Tensor x, float a) -> Tensor"``; scalar: ``lambda T: lambda x, a: ...``, with one
    parameter for each argument, written with Python's operators and ``tk.library.scalar``; partials: the derivatives,
    to replace those found by symbolic differentiation: a function of arguments or ``out``, which returns a tuple if
    there are several tensors; promote: the rule for the dtype of the computation (``INT_TO_FLOAT``: floats for
    integers); domain: the interval of sample inputs in tests; boolean: the names of the tensors that the expression
    reads as conditions, which take no part in promotion; autocast, tags: those of :meth:`Library.define`.

    Numbers may be keyword-only, and arguments optional (``float? alpha=None``): the function is traced once more with
    None in their place, and may ask ``alpha is None``. With several results it returns a tuple of expressions, each of
    which becomes a kernel. ``partials`` is for operators without optional arguments and with one result.

    Returns the operator's function, which broadcasts, is compiled, and can be differentiated any number of times.

    >>> from tenkey.library import scalar as s
    >>> silu = tk.library.pointwise("docs::silu(Tensor x) -> Tensor", scalar=lambda T: lambda x: x / (T(1) + s.exp(-x)))
    >>> x = tk.tensor(0.0, requires_grad=True)
    >>> silu(x).backward()
    >>> x.grad.item()
    0.5
    """
    parsed = _checked(schema)
    _check_pointwise(parsed)
    check_promotion(parsed, promote)
    check_domain(parsed, domain, boolean)
    every_tag = (Tag.LIBRARY, *tags_of(parsed.name, tags))
    options: dict[str, Any] = {"autocast": autocast, "tags": every_tag, "doc": doc, "replace": _earlier(parsed)}
    if is_family(parsed):
        optional = any(isinstance(a.type, OptionalType) for a in parsed.arguments)
        if partials is not None and (optional or len(parsed.returns) > 1):
            raise RegistrationError(
                f"[{parsed.name}] partials are for operators without optional arguments and with one result: leave "
                "them out, and the expressions are differentiated."
            )

        def part(schema: FunctionSchema, scalar: Any, boolean: tuple[str, ...]) -> Callable[..., Tensor]:
            return _single(schema, scalar, partials, promote, domain, boolean, tags=(Tag.LIBRARY,))

        made = declare_family(parsed, scalar, declare_part=part, domain=domain, boolean=boolean, **options)
    else:
        made = _single(parsed, scalar, partials, promote, domain, boolean, **options)
    return _named(parsed, made)


def _single(
    parsed: FunctionSchema, scalar: Any, partials: Any, promote: Promotion, domain: tuple[float, float],
    boolean: tuple[str, ...], **options: Any,
) -> Callable[..., Tensor]:  # fmt: skip
    """Declare a pointwise operator with one result, whose arguments are all given by position."""
    parameters = tuple([a.name for a in parsed.arguments])
    expression = traced(parsed, "scalar", scalar, parameters, boolean)
    real = tuple([a.name for a in parsed.arguments if str(a.type) in ("int", "float", "bool")])
    promote = without_complex(for_expression(parsed, promote, expression), expression, real)
    promote = for_complex_numbers(parsed, promote, expression)
    if partials is not None:
        check_partials(parsed, partials)
        facet = Pointwise(parsed, scalar, promote, domain, boolean)
        try_partials(facet, formulas_by_argument(parsed, facet.tensors, partials))
    return declare.pointwise(
        parsed, scalar=scalar, partials=partials, promote=promote, domain=domain, boolean=boolean, traced=expression,
        **options,
    )  # fmt: skip


def reduction(
    schema: str,
    *,
    combine: Callable[[Any], Callable[[Any, Any], Any]],
    identity: Any = None,
    scalar: Callable[[Any], Callable[[Any], Any]] | None = None,
    vjp: Any = None,
    promote: Promotion = SAME,
    autocast: str | None = None,
    tags: str | Iterable[str] = (),
    doc: str | None = None,
) -> Callable[..., Tensor]:
    """Define an operator that combines elements along axes.

    Args: schema: with the arguments ``Tensor x, *, int[1]? axis=None, bool keepdims=False``; combine: an associative
    ``lambda T: lambda a, b: ...``; identity: its neutral element (None: an empty reduction is an error); scalar:
    applied to every element first; vjp: ``{"x": formula}``, where the formula is a function of ``g`` and of the names
    that it needs; autocast, tags: those of :meth:`Library.define`.

    >>> from tenkey.library import scalar as s
    >>> largest = tk.library.reduction(
    ...     "docs::largest_abs(Tensor x, *, int[1]? axis=None, bool keepdims=False) -> Tensor",
    ...     combine=lambda T: lambda a, b: s.maximum(a, b),
    ...     identity=0.0,
    ...     scalar=lambda T: lambda x: s.abs(x),
    ... )
    >>> largest(tk.asarray([[1.0, -5.0], [2.0, 3.0]]), axis=1).tolist()
    [5.0, 3.0]
    """
    parsed = _checked(schema)
    _check_reduction(parsed)
    check_promotion(parsed, promote)
    combined = traced(parsed, "combine", combine, ("a", "b"))
    refuse_indices(parsed, combined)
    promote = without_complex(promote, combined)
    if combined.kind == "number":
        promote = for_combine(promote, combined)
    if scalar is not None:
        element = traced(parsed, "scalar", scalar, ("x",))
        refuse_indices(parsed, element)
        mapped = without_integers(without_booleans(without_complex(promote, element), element), element)
        promote = promote._replace(accepts=mapped.accepts, takes=mapped.takes)
    check_combine(parsed, Reduce(combine, identity, scalar, promote))
    made = declare.reduction(
        parsed, combine=combine, identity=identity, scalar=scalar, vjp=vjp, promote=promote, autocast=autocast, doc=doc,
        tags=(Tag.LIBRARY, *tags_of(parsed.name, tags)), replace=_earlier(parsed),
    )  # fmt: skip
    return _named(parsed, made)


def composite(
    schema: str,
    *,
    vjp: Any = None,
    autocast: str | None = None,
    tags: str | Iterable[str] = (),
    doc: str | None = None,
) -> Callable[..., Any]:
    """Define an operator by decorating a function of other operators, which make it differentiable.

    Args: vjp: ``{"x": formula}`` replaces the gradient; autocast, tags: those of :meth:`Library.define`.

    >>> @tk.library.composite("docs::rms(Tensor x) -> Tensor")
    ... def rms(x):
    ...     return tk.sqrt(tk.mean(x * x))
    >>> rms(tk.asarray([3.0, 3.0])).item()
    3.0
    """
    parsed = _checked(schema)
    every_tag = (Tag.LIBRARY, *tags_of(parsed.name, tags))

    def decorate(function: Callable[..., Any]) -> Callable[..., Tensor]:
        body = _returning_a_tensor(parsed, function)
        options: dict[str, Any] = {"autocast": autocast, "tags": every_tag, "replace": _earlier(parsed)}
        made = declare.composite(parsed, vjp=vjp, doc=doc, **options)(body)
        return _named(parsed, made)

    return decorate


def _returning_a_tensor(schema: FunctionSchema, function: Callable[..., Any]) -> Callable[..., Any]:
    """Check the result of ``function`` if the schema declares one tensor."""
    if [str(r.type) for r in schema.returns] != ["Tensor"] or not callable(function):
        return function

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        out = function(*args, **kwargs)
        if not isinstance(out, Tensor):
            value, kind, site = shown(out), type(out).__name__, function_site(function)
            raise TypeError(
                f"[{schema.name}] its function at {site} returned {value} of type {kind}, and the schema says Tensor: "
                "return a Tensor, or change the schema."
            )
        return out

    return run
