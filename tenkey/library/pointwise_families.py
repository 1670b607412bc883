"""Pointwise operators with several results, optional arguments or keyword-only ones.

Note [Families of pointwise operators]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A kernel of a pointwise operator has one result and takes each argument by position. An operator whose schema asks for
more is a composite of such operators, which are declared with it: one for each result, and for each set of optional
arguments that are None. The scalar function is traced for each set with Python's None in their place, so ``alpha is
None`` chooses an expression and costs nothing in a kernel. Kernels, gradients and batching rules are those of the
parts. Guarded by ``tests/library/test_pointwise_families.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ..dispatch.errors import RegistrationError
from ..dispatch.registry import registry
from ..dispatch.schema import FunctionSchema, OptionalType, parse_schema
from ..dispatch.tags import Tag
from ..ops import declare
from ..ops.scalar import trace

__all__ = ["declare_family", "is_family"]

_MOST: Final = 4  # optional arguments; the number of parts doubles with each
_VALUES: Final[dict[str, Any]] = {"int": 2, "float": 0.75, "bool": True, "complex": 0.5 + 0.5j, "Scalar": 0.75}


def is_family(schema: FunctionSchema) -> bool:
    """Tell whether a pointwise operator consists of several (Note [Families of pointwise operators])."""
    return len(schema.returns) > 1 or any(a.kwarg_only or isinstance(a.type, OptionalType) for a in schema.arguments)


def declare_family(
    schema: FunctionSchema,
    scalar: Callable[[Any], Callable[..., Any]],
    *,
    declare_part: Callable[..., declare.Entry],
    domain: tuple[float, float],
    boolean: tuple[str, ...],
    autocast: str | None,
    tags: tuple[Tag, ...],
    doc: str | None,
    replace: list[str],
) -> declare.Entry:
    """Declare the operator as a composite; ``declare_part(schema, scalar, boolean)`` declares one of its parts."""
    optional = [a.name for a in schema.arguments if isinstance(a.type, OptionalType)]
    if len(optional) > _MOST:
        raise RegistrationError(
            f"[{schema.name}] has {len(optional)} optional arguments ({', '.join(optional)}): a pointwise operator has "
            f"at most {_MOST}, because its expression is traced for each set of them that is None. Give defaults."
        )
    sets = [s for n in range(len(optional) + 1) for s in itertools.combinations(optional, n)]
    expressions = {missing: _traced(schema, scalar, missing, boolean) for missing in sets}
    order = [a.name for a in schema.arguments]
    positional = [a.name for a in schema.arguments if not a.kwarg_only]
    defaults = {a.name: a.default for a in schema.arguments if a.has_default}
    parts: dict[tuple[str, ...], list[declare.Entry]] = {}

    def function(*args: Any, **kwargs: Any) -> Any:
        bound = {**defaults, **dict(zip(positional, args)), **kwargs}
        missing = tuple([name for name in optional if bound[name] is None])
        given = [bound[name] for name in order if name not in missing]
        results = [part(*given) for part in parts[missing]]
        return results[0] if len(results) == 1 else tuple(results)

    if len(schema.returns) == 1:  # it has the variants of other pointwise operators
        first = schema.arguments[0]
        writes = str(first.type) == "Tensor" and first.name not in boolean
        tags = (*tags, Tag.OUT, Tag.INPLACE) if writes else (*tags, Tag.OUT)
    samples = _samples(schema, sets, domain, boolean)
    made = declare.composite(
        schema, doc=doc, autocast=autocast, tags=tags, replace=replace, sample_inputs=samples
    )(function)  # fmt: skip
    owner = registry.find(f"{schema.name}.{schema.overload_name}".removesuffix("."))
    try:
        for missing, count in expressions.items():
            parts[missing] = []
            for place in range(count):
                part: Any = _part(schema, scalar, missing, boolean, place, count, declare_part)
                part.operator.facets["DerivedFrom"] = owner  # it is removed and replaced with the whole
                parts[missing].append(part)
    except BaseException:
        registry.undefine(owner, keep_kernels=False)
        raise
    return made


def _given(schema: FunctionSchema, missing: tuple[str, ...]) -> list[Any]:
    return [a for a in schema.arguments if a.name not in missing]


def _calling(schema: FunctionSchema, scalar: Any, missing: tuple[str, ...], place: int | None) -> Any:
    """Return the scalar function of the given arguments alone, and of one result unless ``place`` is None."""

    def with_type(T: Any) -> Any:
        function = scalar(T)

        def call(*values: Any) -> Any:
            rest = iter(values)
            found = function(*[None if a.name in missing else next(rest) for a in schema.arguments])
            return found if place is None else found[place]

        return call

    return with_type


def _traced(schema: FunctionSchema, scalar: Any, missing: tuple[str, ...], boolean: tuple[str, ...]) -> int:
    """Trace the function, so that its mistakes show at the declaration; return the number of results."""
    names = [a.name for a in _given(schema, missing)]
    found = trace(_calling(schema, scalar, missing, None), names, name=schema.name, booleans=boolean)
    results = len(found) if isinstance(found, tuple) else 1
    if results != len(schema.returns) or isinstance(found, tuple) != (len(schema.returns) > 1):
        without = f" for {', '.join(missing)} None" if missing else ""
        raise RegistrationError(
            f"[{schema}] the function of scalar returns {results} value(s){without}, and the schema has "
            f"{len(schema.returns)} result(s): they must be equally many."
        )
    return results


def _part(
    schema: FunctionSchema, scalar: Any, missing: tuple[str, ...], boolean: tuple[str, ...], place: int, count: int,
    declare_part: Callable[..., declare.Entry],
) -> declare.Entry:  # fmt: skip
    words = [schema.name, schema.overload_name, *(["without", *missing] if missing else [])]
    words.append(f"result{place}" if count > 1 else "elements")
    arguments = ", ".join(f"{str(a.type).removesuffix('?')} {a.name}" for a in _given(schema, missing))
    part = parse_schema(f"{'_'.join(word for word in words if word)}({arguments}) -> Tensor")
    of_one = _calling(schema, scalar, missing, place if count > 1 else None)
    return declare_part(part, of_one, tuple([name for name in boolean if name not in missing]))


def _samples(
    schema: FunctionSchema, sets: list[tuple[str, ...]], domain: tuple[float, float], boolean: tuple[str, ...]
) -> Callable[[np.random.Generator], Iterator[Any]]:
    """Return the sample inputs: shapes that broadcast, and each set of arguments that are None."""

    def value(rng: np.random.Generator, argument: Any, shape: tuple[int, ...]) -> Any:
        kind = str(argument.type).removesuffix("?")
        if kind == "Tensor":
            return rng.random(shape) < 0.5 if argument.name in boolean else rng.uniform(*domain, shape)
        return argument.default if argument.has_default and argument.default is not None else _VALUES[kind]

    def make(rng: np.random.Generator) -> Iterator[Any]:
        shapes: list[tuple[tuple[int, ...], ...]] = [((3, 4), (4,), (3, 1)), ((), (), ()), ((0, 3), (0, 3), (1, 3))]
        for missing in sets:
            for sizes in shapes if not missing else shapes[:1]:
                turn = itertools.cycle(sizes)
                made = {
                    a.name: None if a.name in missing else value(rng, a, next(turn) if "Tensor" in str(a.type) else ())
                    for a in schema.arguments
                }
                keywords = {a.name: made.pop(a.name) for a in schema.arguments if a.kwarg_only}
                yield tuple(made.values()), keywords

    return make
