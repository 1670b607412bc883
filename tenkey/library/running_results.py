"""Operators along an axis by one expression: running results, and the selection and placing of elements.

Note [Derivatives of scans]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
A scan that is recorded is a composition: pairs of neighbours are combined, the results of the pairs are found
recursively, and every second element is combined with the result before it. These are pointwise operators, slices and
joins in a logarithmic number of steps over two times the elements, so derivatives of every order exist on every
backend, whatever is combined. A call that is not recorded is one kernel on a device with the template ``scan``. Guarded
by ``tests/library/test_along_axes.py``.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..core.dtypes.limits import iinfo
from ..core.dtypes.names import int64
from ..core.tensor import Tensor
from ..dispatch.errors import RegistrationError
from ..dispatch.operator import Operator
from ..dispatch.registry import registry
from ..dispatch.schema import FunctionSchema
from ..dispatch.tags import Tag
from ..ops import declare
from ..ops.builtin import load
from ..ops.builtin.creation import arange, full, full_like
from ..ops.builtin.indexing.advanced_indexing import check_integers
from ..ops.builtin.indexing.advanced_indexing import index as select
from ..ops.builtin.shape.copying import as_dtype, concatenate, flip, stack
from ..ops.builtin.shape.views import broadcast_to, reshape, slice
from ..ops.declare import scan_axis
from ..ops.declare.facets import Scan, tensor_names
from ..ops.declare.promotion import SAME, Promotion
from ..ops.derived_operators import derived_operator
from ..ops.scalar import evaluate, free_variables, indices, operations, substitute, variable
from ..ops.scalar.expression import Expression
from ..ops.shapes import broadcast_shapes, normalize_axis
from .declaration_checks import (
    AROUND,
    check_promotion,
    for_combine,
    magnitudes,
    refuse_indices,
    traced,
    without_complex,
)
from .declarations import _checked, _earlier, _named

load("indexing.scatter")  # Note [Operators that are declared on first use]
from ..ops.builtin.indexing.scatter import index_reduce, index_sum  # noqa: E402

__all__ = ["gather", "scan", "scatter"]


# ---- scans


def scan(
    schema: str,
    *,
    combine: Callable[[Any], Callable[..., Any]],
    identity: Any = None,
    promote: Promotion = SAME,
    autocast: str | None = None,
    doc: str | None = None,
) -> Callable[..., Any]:
    """Define an operator of running results along an axis, such as sums of all elements so far.

    Args: schema: ``"namespace::name(Tensor x, int axis) -> Tensor"``, optionally with ``bool reverse=False`` (from the
    last element to the first), ``DType? dtype=None`` and ``bool include_initial=False``. combine: an associative
    ``lambda T: lambda a, b: ...`` of an earlier and a later element. Elements may have several parts, which are the
    tensors of the schema: ``combine`` then takes the parts of the earlier element and those of the later one, and
    returns a tuple; the operator returns all parts, or the last if the schema has one result. identity: the neutral
    element (a tuple for several parts), for ``include_initial``. autocast: as in :meth:`Library.define`.

    The operator has derivatives of every order (Note [Derivatives of scans]). A linear recurrence:

    >>> recurrence = tk.library.scan(
    ...     "docs::recurrence(Tensor a, Tensor b, int axis) -> Tensor",
    ...     combine=lambda T: lambda a0, b0, a1, b1: (a0 * a1, b0 * a1 + b1),
    ... )
    >>> recurrence(tk.asarray([0.5, 0.5, 0.5]), tk.asarray([8.0, 0.0, 1.0]), 0).tolist()
    [8.0, 4.0, 3.0]
    """
    parsed = _checked(schema)
    check_promotion(parsed, promote)
    facet = Scan(parsed, combine, identity, promote)
    count = len(facet.tensors)
    found = facet.expressions() if count else ()
    if len(found) != count or len(parsed.returns) not in (1, count):
        raise RegistrationError(
            f"[{parsed}] is not a scan: its {count} tensors are the parts of an element, so combine returns {count} "
            f"values (it returns {len(found)}), and the operator all of them or the last one."
        )
    for expression in found:
        refuse_indices(parsed, expression)
        promote = without_complex(promote, expression)
        if expression.kind == "number":
            promote = for_combine(promote, expression)
    _check_associative(parsed, facet, found)
    made = declare.scan(
        parsed, combine=combine, identity=identity, promote=promote, composition=_composition, doc=doc,
        sample_inputs=functools.partial(_samples, parsed), autocast=autocast, tags=(Tag.LIBRARY,),
        replace=_earlier(parsed),
    )  # fmt: skip
    return _named(parsed, made)


_PROBES: Final = (-2.5, -0.75, 0.5, 1.25, 3.0, 0.25, -1.5, 2.0)
_BITS: Final = (-3, 0, 2, 5, 12, 1, -7, 6)
_SHIFTS: Final = ((1, 2), (3, 5), (5, 3))


def _check_associative(schema: FunctionSchema, facet: Scan, expressions: Sequence[Expression]) -> None:
    """Raise unless ``combine`` is associative and the identity neutral for some numbers, as far as they are finite."""
    count = len(facet.tensors)
    identity = facet.identity if isinstance(facet.identity, tuple) else (facet.identity,)
    if facet.identity is not None and len(identity) != count:
        raise RegistrationError(
            f"[{schema.name}] identity={facet.identity} is {len(identity)} number(s), and an element has {count} "
            "part(s), the tensors of the schema: give a number for each."
        )
    of_bits = any(name.startswith("bitwise") for e in expressions for name in operations(e))
    probes: list[Any] = [*(_BITS if of_bits else _PROBES)]
    around = [share * size for size in magnitudes(expressions, identity) for share in AROUND]
    probes += [round(value) if of_bits else value for value in around]

    def join(a: Sequence[Any] | None, b: Sequence[Any] | None) -> list[Any] | None:
        if a is None or b is None:
            return None
        environment = dict(zip(facet.parameters, (*a, *b), strict=True))
        try:
            found = [evaluate(e, environment) for e in expressions]
        except (ArithmeticError, TypeError, ValueError):
            return None
        return found if all(map(math.isfinite, found)) else None

    def elements(start: int) -> list[Any]:
        return [probes[(start + k) % len(probes)] for k in range(count)]

    for first, (second, third) in itertools.product(range(len(probes)), _SHIFTS):
        a, b, c = elements(first), elements(first + second), elements(first + third)
        ab, bc = join(a, b), join(b, c)
        left, right = join(ab, c), join(a, bc)
        if _differ(left, right, ab, bc):
            raise RegistrationError(
                f"[{schema.name}] combine is not associative: for the elements {a}, {b} and {c} the result is {left} "
                f"if the first two are combined first, else {right}. A scan combines neighbours in any grouping."
            )
    for a in map(elements, range(len(probes)) if facet.identity is not None else ()):
        for found in (join(identity, a), join(a, identity)):
            if _differ(found, a):
                raise RegistrationError(
                    f"[{schema.name}] identity={facet.identity} is not neutral: combined with {a} it gives {found}. "
                    "Leave it out (include_initial=True is then an error)."
                )


def _differ(one: list[Any] | None, other: list[Any] | None, *intermediate: list[Any] | None) -> bool:
    """Return whether two results differ by more than rounding, which may have the size of intermediate results."""
    if one is None or other is None:
        return False
    size = max(1.0, *[abs(x) for values in (one, other, *intermediate) if values is not None for x in values])
    return any(abs(x - y) > 1e-9 * size for x, y in zip(one, other, strict=True))


def _samples(schema: FunctionSchema, rng: np.random.Generator) -> Any:
    names = {a.name for a in schema.arguments}
    count = len(tensor_names(schema))
    for shape, axis in (((5,), 0), ((3, 4), 1), ((4, 3), 0), ((0, 3), 0), ((1, 2), 0)):
        args = tuple([rng.standard_normal(shape) for _ in range(count)])
        yield args, {"axis": axis}
        if "reverse" in names:
            yield args, {"axis": axis, "reverse": True}


def _composition(facet: Scan) -> Callable[..., Any]:
    """Return the operator as a function of other operators (Note [Derivatives of scans])."""
    schema = facet.schema
    combining = functools.cache(lambda boolean: _combining(_operator_of(schema), facet, boolean=boolean))

    def function(*args: Any, **kwargs: Any) -> Any:
        operator = _operator_of(schema)
        specs = operator.facets["Meta"].rule(*args, **kwargs)
        several = len(schema.returns) > 1
        dtype = (specs[0] if several else specs).dtype
        given = operator.bind(*args, **kwargs)
        parts = [as_dtype(given[name], dtype) for name in facet.tensors]
        shape = broadcast_shapes(schema.base_name, *[x.shape for x in parts])
        parts = [broadcast_to(x, shape) if x.shape != shape else x for x in parts]
        axis = scan_axis(schema.base_name, shape, given["axis"])
        combine = combining(dtype.kind == "b")
        if given.get("reverse"):
            parts = [flip(x, axis=axis) for x in parts]
        if shape[axis] and 0 not in shape:
            parts = _running(parts, axis, combine)
        if given.get("reverse"):
            parts = [flip(x, axis=axis) for x in parts]
        if given.get("include_initial"):
            neutral = facet.identity if isinstance(facet.identity, tuple) else (facet.identity,)
            start = (*shape[:axis], 1, *shape[axis + 1 :])
            parts = [
                concatenate([full(start, value, dtype=dtype, device=x.device), x], axis=axis)
                for x, value in zip(parts, neutral, strict=True)
            ]
        return tuple(parts) if several else parts[-1]

    return function


def _operator_of(schema: FunctionSchema) -> Operator:
    return registry.operators[f"{schema.name}.{schema.overload_name}".removesuffix(".")]


def _combining(operator: Operator, facet: Scan, *, boolean: bool) -> Callable[..., list[Tensor]]:
    """Return the function that joins earlier elements with later ones, both lists of parts."""
    steps: list[tuple[Any, tuple[int, ...]]] = []
    for k, expression in enumerate(facet.expressions(boolean=boolean)):
        used = tuple([i for i, name in enumerate(facet.parameters) if name in free_variables(expression)])
        names = tuple([facet.parameters[i] for i in used])
        call: Any = expression.value
        if expression.operation != "constant":
            arguments = ", ".join(f"Tensor {name}" for name in names)
            role = f"combine_{k}_of_bools" if boolean else f"combine_{k}"
            call = derived_operator(
                operator, role, arguments, expression, names, (-4.0, 4.0), names if boolean else ()
            ).call  # fmt: skip
        steps.append((call, used))

    def combine(earlier: list[Tensor], later: list[Tensor]) -> list[Tensor]:
        values = [*earlier, *later]
        return [call(*[values[i] for i in used]) if used else full_like(later[0], call) for call, used in steps]

    return combine


def _running(parts: list[Tensor], axis: int, combine: Callable[..., list[Tensor]]) -> list[Tensor]:
    """Return the running results along an axis with at least one element."""
    n = parts[0].shape[axis]
    if n == 1:
        return parts
    half = n // 2
    first = [slice(x, axis, 0, 2 * half, 2) for x in parts]
    second = [slice(x, axis, 1, 2 * half, 2) for x in parts]
    odd = _running(combine(first, second), axis, combine)  # the results at the second places of all pairs
    even = [slice(x, axis, 0, 1, 1) for x in parts]
    if n > 2:
        before = [slice(x, axis, 0, (n - 1) // 2, 1) for x in odd]
        later = combine(before, [slice(x, axis, 2, n, 2) for x in parts])
        even = [concatenate([x, y], axis=axis) for x, y in zip(even, later, strict=True)]
    joined = []
    for x, y in zip(even, odd, strict=True):
        paired = stack([slice(x, axis, 0, half, 1), y], axis=axis + 1)
        z = reshape(paired, (*x.shape[:axis], 2 * half, *x.shape[axis + 1 :]))
        joined.append(concatenate([z, slice(x, axis, half, half + 1, 1)], axis=axis) if n % 2 else z)
    return joined


# ---- selecting and placing


def gather(
    schema: str,
    *,
    index: Callable[[Any], Callable[..., Any]] | None = None,
    axis: int = 0,
    autocast: str | None = None,
    doc: str | None = None,
) -> Callable[..., Tensor]:
    """Define an operator that selects elements of its first argument along an axis.

    Args: schema: ``"namespace::name(Tensor x, Tensor places, ...) -> Tensor"``: the data, and integer tensors and
    numbers from which the indices are computed. index: ``lambda T: lambda places, ...: ...``, the index in terms of the
    other arguments and of ``s.index(0)``, the position along the axis; left out if there is one further argument, the
    indices themselves. They may have any shape, which takes the place of the axis in the result; a position runs over
    the length of the axis. Negative indices count from the end; one out of range is an IndexError. autocast: as in
    :meth:`Library.define`.

    The gradient places what is selected back, and adds up where an element is selected several times.

    >>> embedding = tk.library.gather("docs::embedding(Tensor weights, Tensor tokens) -> Tensor")
    >>> embedding(tk.asarray([[1.0, 2.0], [3.0, 4.0]]), tk.asarray([1, 1, 0])).tolist()
    [[3.0, 4.0], [3.0, 4.0], [1.0, 2.0]]
    >>> from tenkey.library import scalar as s
    >>> rotate = tk.library.gather(
    ...     "docs::rotate(Tensor x, int shift) -> Tensor", index=lambda T: lambda shift: s.index(0) - shift
    ... )
    >>> rotate(tk.asarray([1, 2, 3]), 1).tolist()
    [3, 1, 2]
    """
    parsed = _checked(schema)
    places = _places(parsed, index, ())

    def function(*args: Any, **kwargs: Any) -> Tensor:
        operator = _operator_of(parsed)
        values = list(operator.bind(*args, **kwargs).values())
        x = values[0]
        i = normalize_axis(parsed.base_name, axis, x.ndim)
        return select(x, [None] * i + [places(operator, x, x.shape[i], values[1:])])

    options: dict[str, Any] = {"autocast": autocast, "tags": (Tag.LIBRARY,), "replace": _earlier(parsed)}
    made = declare.composite(parsed, doc=doc, **options)(function)
    return _named(parsed, made)


_START: Final = {"add": 0, "multiply": 1}


def scatter(
    schema: str, *, mode: str = "add", index: Callable[[Any], Callable[..., Any]] | None = None, axis: int = 0,
    length: str = "length", autocast: str | None = None, doc: str | None = None,
) -> Callable[..., Tensor]:  # fmt: skip
    """Define an operator that combines the elements of its first argument at places along an axis: ``gather`` reversed.

    Args: schema: ``"namespace::name(Tensor x, Tensor places, int length) -> Tensor"``: the data, integer tensors and
    numbers from which the places are computed, and the length of the axis in the result, which is the argument that
    ``length`` names. index: as in ``gather``; the places have one dimension, one for each element along the axis.
    mode: how elements for one place are combined: "add", "multiply", "minimum" or "maximum". A place without elements
    is 0, 1, or the largest or smallest number. autocast: as in :meth:`Library.define`.

    The operator has derivatives of every order; equal extremes share the gradient.

    >>> segment_sum = tk.library.scatter("docs::segment_sum(Tensor x, Tensor segments, int length) -> Tensor")
    >>> segment_sum(tk.asarray([1.0, 2.0, 3.0]), tk.asarray([0, 2, 2]), 4).tolist()
    [1.0, 0.0, 5.0, 0.0]
    """
    parsed = _checked(schema)
    if mode not in ("add", "multiply", "minimum", "maximum"):
        raise RegistrationError(f"[{parsed.name}] mode={mode!r}: it is 'add', 'multiply', 'minimum' or 'maximum'.")
    if length not in [a.name for a in parsed.arguments if str(a.type) == "int"]:
        raise RegistrationError(
            f"[{parsed}] needs the length of the result along the axis: an argument 'int {length}', or length= with "
            "the name of another int."
        )
    places = _places(parsed, index, (length,))

    def function(*args: Any, **kwargs: Any) -> Tensor:
        operator = _operator_of(parsed)
        given = operator.bind(*args, **kwargs)
        x, *values = given.values()
        i = normalize_axis(parsed.base_name, axis, x.ndim)
        at = places(operator, x, x.shape[i], values)
        if at.shape != x.shape[i : i + 1]:
            raise ValueError(
                f"[{parsed.base_name}] places of shape {at.shape} must be one for each of the {x.shape[i]} elements "
                f"along axis {axis}."
            )
        start = full((*x.shape[:i], given[length], *x.shape[i + 1 :]), _start(mode, x.dtype), dtype=x.dtype,
                     device=x.device)  # fmt: skip
        if mode == "add":
            return index_sum(start, [None] * i + [at], x)
        return index_reduce(start, [None] * i + [at], x, mode)

    options: dict[str, Any] = {"autocast": autocast, "tags": (Tag.LIBRARY,), "replace": _earlier(parsed)}
    made = declare.composite(parsed, doc=doc, **options)(function)
    return _named(parsed, made)


def _start(mode: str, dtype: np.dtype) -> Any:
    """Return the neutral element of a mode."""
    if mode in _START:
        return _START[mode]
    if dtype.kind == "b":
        return mode == "minimum"
    if dtype.kind in "iu":
        limits = iinfo(dtype)
        return limits.max if mode == "minimum" else limits.min
    return np.inf if mode == "minimum" else -np.inf


def _places(
    schema: FunctionSchema, given: Callable[[Any], Callable[..., Any]] | None, left_out: tuple[str, ...]
) -> Callable[..., Tensor]:
    """Return the function of (operator, data, length of the axis, values of the further arguments) for the indices."""
    first, *others = schema.arguments
    kinds = {a.name: str(a.type) for a in others}
    wrong = [f"{name} is a {kind}" for name, kind in kinds.items() if kind not in ("Tensor", "int")]
    if str(first.type) != "Tensor" or len(schema.returns) != 1 or wrong:
        raise RegistrationError(
            f"[{schema}] is not a gather or scatter: it takes the data, a Tensor, then Tensors of integers and ints, "
            f"and returns one Tensor{'; ' if wrong else ''}{', '.join(wrong)}."
        )
    names = tuple(kinds)
    if given is None:
        tensors = [name for name in names if name not in left_out]
        if [kinds[name] for name in tensors] != ["Tensor"]:
            raise RegistrationError(
                f"[{schema}] needs index=lambda T: lambda {', '.join(names)}: ..., since its indices are not simply "
                "one further Tensor."
            )
        place = names.index(tensors[0])

        def same(operator: Operator, x: Tensor, length: int, values: Sequence[Any]) -> Tensor:
            check_integers(schema.base_name, values[place])
            return values[place]  # type: ignore[no-any-return]

        return same
    expression = traced(schema, "index", given, names)
    axes = indices([expression])
    if set(axes.values()) - {0}:
        raise RegistrationError(f"[{schema}] index may use s.index(0) alone, the position along the axis.")
    position = variable("position")
    resolved = substitute(expression, dict.fromkeys(axes, position))
    used = tuple([name for name in names if name in free_variables(resolved)])
    arguments = [*[f"{kinds[name]} {name}" for name in used], *(["Tensor position"] if axes else [])]
    if not any(argument.startswith("Tensor") for argument in arguments):
        raise RegistrationError(
            f"[{schema}] index depends neither on a tensor nor on s.index(0): it would be one number."
        )
    variables = (*used, "position") if axes else used

    def computed(operator: Operator, x: Tensor, length: int, values: Sequence[Any]) -> Tensor:
        by_name = dict(zip(names, values, strict=True))
        call = derived_operator(operator, "index", ", ".join(arguments), resolved, variables, (0.0, 4.0)).call
        operands = [by_name[name] for name in used]
        for value in operands:
            if isinstance(value, Tensor):
                check_integers(schema.base_name, value)
        operands = [as_dtype(v, int64) if isinstance(v, Tensor) else v for v in operands]
        return call(*operands, *([arange(length, device=x.device, dtype=int64)] if axes else []))  # type: ignore[no-any-return]

    return computed
