"""Checks of the declaration of an operator by one expression, so that mistakes show before the first call.

Note [Laws of a combining function]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
Kernels combine elements in pieces, in pairs, and along several axes at once, and the derived gradient combines all
elements but one. Therefore ``combine`` must be associative and commutative, and ``identity`` neutral. The traced
expression is evaluated in double precision on a few numbers, after ``scalar``; results that are not finite prove
nothing. The numbers are small, and of the magnitudes of the constants in the expression and of ``identity``, since
``minimum(a + b, 1000)`` is a sum below them. A counterexample raises an error. Guarded by
``tests/library/test_declaration_errors.py``.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from ..core.dtypes.names import real_of
from ..core.tensor import Tensor, cpu_word, make_tensor
from ..dispatch.errors import RegistrationError
from ..dispatch.schema import FunctionSchema
from ..ops.declare.facets import Pointwise, Reduce, formula_names
from ..ops.declare.promotion import BOOLEAN, COMPARISON, SAME, Promotion
from ..ops.scalar import (
    Expression,
    evaluate,
    indices,
    is_real,
    operations,
    topological_order,
    trace,
    undefined_for_complex,
    variable,
)

__all__ = [
    "AROUND", "check_combine", "check_domain", "check_partials", "check_promotion", "for_combine",
    "for_complex_numbers", "for_expression", "magnitudes", "refuse_indices", "traced", "try_partials",
    "without_booleans", "without_complex", "without_integers",
]  # fmt: skip


def traced(
    schema: FunctionSchema, what: str, function: Any, parameters: tuple[str, ...], booleans: tuple[str, ...] = ()
) -> Expression:
    """Trace a scalar function, so that its mistakes are reported at the declaration."""
    found = trace(function, parameters, name=schema.name, booleans=booleans)
    if isinstance(found, tuple):
        raise RegistrationError(f"[{schema}] the function of {what} returns {len(found)} values: it must return one.")
    return found


def refuse_indices(schema: FunctionSchema, expression: Expression) -> None:
    """Raise if an expression uses index variables, which only pointwise operators have."""
    if indices([expression]):
        raise RegistrationError(
            f"[{schema.name}] {expression} uses index(), the position of an element in the result, which only "
            "pointwise operators have: compute with positions in a pointwise operator before."
        )


def check_promotion(schema: FunctionSchema, promote: Any) -> None:
    """Raise unless ``promote`` is a promotion rule."""
    if not isinstance(promote, Promotion):
        raise RegistrationError(
            f"[{schema.name}] promote={promote!r} is not a promotion rule: give tk.library.INT_TO_FLOAT (integers give "
            "floats), REAL_TO_FLOAT (the same, and no complex numbers), SAME, ARITHMETIC, REAL, COMPARISON or "
            "BOOLEAN."
        )


def without_complex(promote: Promotion, expression: Expression, real: tuple[str, ...] = ()) -> Promotion:
    """Return the rule without complex dtypes if the expression is not defined for complex numbers.

    If the expression is real for complex operands (``abs``), the result is real.
    """
    if "c" not in promote.accepts:
        return promote
    operation = undefined_for_complex(expression, real)
    if operation is None:
        if promote.result is SAME.result and expression.kind == "number" and is_real(expression, real):
            return promote._replace(result=lambda dtype: real_of(dtype) if dtype.kind == "c" else dtype)
        return promote
    takes = f"real dtypes, since {operation} is not defined for complex numbers"
    if promote.accepts != SAME.accepts:  # the rule is already narrower, for another reason
        takes = f"{promote.takes}, and no complex numbers, since {operation} is not defined for them"
    return promote._replace(accepts=promote.accepts.replace("c", ""), takes=takes)


def for_expression(schema: FunctionSchema, promote: Promotion, expression: Expression) -> Promotion:
    """Return the rule adapted to the expression, so that it predicts the dtype of the result.

    A condition has dtype bool. Integers and bools are refused if the rule keeps their dtype but the expression produces
    other numbers.
    """
    gives_bool = promote.result is BOOLEAN.result
    numbers = {a.name for a in schema.arguments if str(a.type) in ("int", "float", "complex", "Scalar")}
    inexact = {a.name for a in schema.arguments if str(a.type) in ("float", "complex", "Scalar")}
    if expression.kind == "boolean":
        return _for_condition(promote, expression, inexact, numbers)
    if gives_bool:
        raise RegistrationError(
            f"[{schema.name}] promote={promote.name} is for conditions, which give bool, and {expression} is a "
            f"number: write it as a condition ({expression} != 0), or choose tk.library.INT_TO_FLOAT or SAME."
        )
    return without_integers(without_booleans(promote, expression, numbers), expression, inexact)


def for_complex_numbers(schema: FunctionSchema, promote: Promotion, expression: Expression) -> Promotion:
    """Return the rule for complex dtypes only if an argument is a complex number: real dtypes would lose a part."""
    variables = {node.name for node in topological_order([expression])}
    argument = next((a.name for a in schema.arguments if str(a.type) == "complex" and a.name in variables), None)
    if argument is None:
        return promote
    if "c" not in promote.accepts:
        raise RegistrationError(
            f"[{schema.name}] {argument} is a complex number, but promote={promote.name} and the expression "
            f"take {promote.takes}: make it a float, or choose tk.library.INT_TO_FLOAT, SAME or ARITHMETIC and write "
            "the expression without an order."
        )
    return promote._replace(accepts="c", takes=f"complex dtypes, since {argument} is a complex number")


def without_booleans(promote: Promotion, expression: Expression, numbers: Collection[str] = ()) -> Promotion:
    """Return the rule without bools if it keeps their dtype and the expression produces other numbers."""
    if "b" not in promote.accepts or promote.compute(np.dtype(bool)).kind != "b":
        return promote
    node = _not_of_bools(expression, numbers)
    if node is None:
        return promote
    return promote._replace(
        accepts=promote.accepts.replace("b", ""),
        takes=f"numeric dtypes (from bools {node} produces other numbers: declare it with promote=INT_TO_FLOAT)",
    )


def for_combine(promote: Promotion, expression: Expression) -> Promotion:
    """Return the rule for a combining function: a sum of bools counts them."""
    sums = "add" in operations(expression) or _not_of_bools(expression, ()) is not None
    if promote.compute is SAME.compute and sums:
        promote = promote._replace(compute=_counted_bools)
    return without_integers(promote, expression)


_KEEPS_BOOLEANS: Final = frozenset(["add", "multiply", "where", "maximum", "minimum", "abs", "bitwise_and",
    "bitwise_or", "bitwise_xor", "bitwise_invert"])  # fmt: skip


def _for_condition(
    promote: Promotion, expression: Expression, inexact: Collection[str], numbers: Collection[str]
) -> Promotion:
    """Return a rule that compares the given values: fractions are not rounded, and numbers do not become bools."""
    compute = promote.compute
    nodes = topological_order([expression])
    if compute is BOOLEAN.compute and any(
        node.operands and node.operation not in ("logical_and", "logical_or", "logical_xor", "logical_not")
        for node in nodes
    ):
        compute = COMPARISON.compute
    if any(node.name in inexact for node in nodes):
        if compute(np.dtype("int64")).kind in "iu":

            def compute(dtype: np.dtype) -> np.dtype:
                return np.dtype("float64") if dtype.kind in "biu" else dtype
    elif compute is COMPARISON.compute and _not_of_bools(expression, numbers) is not None:
        compute = _counted_bools
    return promote._replace(compute=compute, result=BOOLEAN.result)


def _not_of_bools(expression: Expression, numbers: Collection[str]) -> Expression | None:
    """Return a part whose value differs between bools counted as 0 and 1 and bools computed in bool."""
    for node in topological_order([expression]):
        if node.operands:
            if node.kind == "number" and node.operation not in _KEEPS_BOOLEANS:
                return node
        elif (node.name or "") in numbers or (node.operation != "variable" and node.value not in (0, 1)):
            return node
    return None


def _counted_bools(dtype: np.dtype) -> np.dtype:
    return np.dtype("int64") if dtype.kind == "b" else dtype


_KEEPS_INTEGERS: Final = frozenset([
    "add", "subtract", "multiply", "floor_divide", "remainder", "pow", "negative", "where", "fma", "square", "abs",
    "sign", "floor", "ceil", "trunc", "round", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor",
    "bitwise_invert", "bitwise_left_shift", "bitwise_right_shift",
])  # fmt: skip


def without_integers(promote: Promotion, expression: Expression, inexact: Collection[str] = ()) -> Promotion:
    """Return the rule without integers and bools if it keeps their dtype and the expression produces other numbers."""
    if "i" not in promote.accepts or promote.compute(np.dtype("int64")).kind not in "iu":
        return promote
    stack = [expression]
    while stack:
        node = stack.pop()
        if node.kind == "boolean":  # compares fractions exactly, unless an argument takes the integer dtype
            leaves = (inner for inner in topological_order([node]) if not inner.operands)
            by_argument = next((leaf for leaf in leaves if (leaf.name or "") in inexact), None)
            if by_argument is not None:
                return _floating(promote, by_argument)
            continue
        by_leaf = isinstance(node.value, float) or node.operation == "eps" or (node.name or "") in inexact
        if by_leaf or (node.operands and node.operation not in _KEEPS_INTEGERS):
            return _floating(promote, node)
        stack.extend(node.operands)
    return promote


def _floating(promote: Promotion, node: Expression) -> Promotion:
    accepts = "".join(kind for kind in promote.accepts if kind not in "biu")
    return promote._replace(
        accepts=accepts,
        takes=f"floating dtypes (from integers {node} produces other numbers: declare it with promote=INT_TO_FLOAT)",
    )


def check_domain(schema: FunctionSchema, domain: Any, boolean: Any) -> None:
    """Raise unless ``domain`` is an interval and ``boolean`` names tensors."""
    pair = isinstance(domain, (tuple, list)) and len(domain) == 2
    if not pair or not all(isinstance(v, (int, float)) and math.isfinite(v) for v in domain) or domain[0] >= domain[1]:
        raise RegistrationError(
            f"[{schema.name}] domain={domain!r} is not an interval: give two finite numbers (low, high) with "
            "low < high, between which tests take their samples."
        )
    tensors = {a.name for a in schema.arguments if a.type.is_tensor_like}
    listed = boolean if isinstance(boolean, (tuple, list, set, frozenset)) else (boolean,)
    wrong = [name for name in listed if name not in tensors]
    if wrong or isinstance(boolean, str):
        names = ", ".join(map(repr, wrong)) or f"a string; write ({boolean!r},)"
        raise RegistrationError(
            f"[{schema.name}] boolean={boolean!r} names {names}, which is not a Tensor argument of {schema}."
        )


# ---- partial derivatives


def check_partials(schema: FunctionSchema, partials: Any) -> None:
    """Raise unless ``partials`` is a function or a tuple of functions."""
    listed = partials if isinstance(partials, tuple) else (partials,)
    if any(one is not None and not callable(one) for one in listed) or partials == ():
        raise RegistrationError(
            f"[{schema.name}] partials={partials!r} is neither a function nor a tuple of functions (None where a "
            "derivative is zero)."
        )


_NUMBER: Final = {"int": 2, "float": 0.75, "bool": True, "complex": 0.75 + 0.5j, "Scalar": 0.75}


def try_partials(facet: Pointwise, formulas: dict[str, Callable[..., Any] | None]) -> None:
    """Run every formula once: on symbols, or on small tensors if it does not accept symbols."""
    values: dict[str, Any] = {}
    for name, formula in formulas.items():
        if formula is None:
            continue
        names = formula_names(formula)
        try:
            if isinstance(trace(functools.partial(lambda f, T: f, formula), names, name=facet.schema.name), Expression):
                continue
            values = values or _sample(facet)
        except TypeError:  # not an expression: it may be a function of tensors
            values = values or _sample(facet)
        try:
            found = formula(*[values[n] if n in values else values[n.removesuffix("_meta")] for n in names])
        except Exception as error:
            raise RegistrationError(
                f"[{facet.schema.name}] the partial derivative by {name} raised {type(error).__name__}: {error}\n"
                "It is a function of tensors: write it with Python's operators and tk.library.scalar "
                "(tk.library.scalar.sin, not math.sin or numpy.sin), or with functions of tk."
            ) from error
        if not isinstance(found, (Tensor, int, float, complex)):
            raise RegistrationError(
                f"[{facet.schema.name}] the partial derivative by {name} returned {repr(found)[:80]} of type "
                f"{type(found).__name__}: it must return a tensor or a number. Write it with Python's operators and "
                "tk.library.scalar, or with functions of tk, without NumPy."
            )


def _sample(facet: Pointwise) -> dict[str, Any]:
    """Return two elements inside the domain for each tensor, numbers for the other arguments, and the result."""
    low, high = facet.domain
    numbers: dict[str, Any] = {}
    for place, argument in enumerate(facet.schema.arguments):
        if argument.type.is_tensor_like:
            at = [0.3 + 0.05 * place, 0.6 - 0.05 * place]
            numbers[argument.name] = [True, False] if argument.name in facet.boolean else [
                low + (high - low) * (share % 1) for share in at
            ]  # fmt: skip
        else:
            numbers[argument.name] = argument.default if argument.has_default else _NUMBER[str(argument.type)]
    rows = [{n: v[i] if isinstance(v, list) else v for n, v in numbers.items()} for i in range(2)]
    out: list[float] = []
    for row in rows:
        try:
            out.append(float(evaluate(facet.expression, row)))
        except (ArithmeticError, ValueError, TypeError):
            out.append(0.5)
    made = {n: _tensor(v) if isinstance(v, list) else v for n, v in numbers.items()}
    return {**made, "out": _tensor(out)}


def _tensor(values: list[Any]) -> Tensor:
    array = np.array(values)
    return make_tensor(array, cpu_word(array.dtype))


# ---- reductions


_KNOWN: Final = frozenset(["add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "logical_xor"])


def check_combine(schema: FunctionSchema, facet: Reduce) -> None:
    """Raise unless the laws hold: see Note [Laws of a combining function]."""
    identity = facet.identity
    if identity is not None and not isinstance(identity, (bool, int, float, complex, np.number, np.bool_)):
        raise RegistrationError(
            f"[{schema.name}] identity={identity!r} is not a number: give the neutral element of combine, or None."
        )

    def combine(a: Any, b: Any) -> Any:
        return _value(facet.expression, {"a": a, "b": b})

    elements = list(_elements(facet))
    if identity is not None and not isinstance(identity, complex):
        for a in elements:
            for left in (combine(identity, a), combine(a, identity)):
                if _differ(left, a):
                    raise RegistrationError(
                        f"[{schema.name}] identity={identity} is not neutral: combine({identity}, {a}) is {left}, "
                        f"not {a}. Leave it out (the reduction of no elements is then an error), or map the elements "
                        "by scalar=... to a range where it is."
                    )
    if facet.expression.operation in _KNOWN and {*facet.expression.operands} == {variable("a"), variable("b")}:
        return
    for a, b in itertools.combinations(elements, 2):
        left, right = combine(a, b), combine(b, a)
        if _differ(left, right):
            raise RegistrationError(
                f"[{schema.name}] combine is not commutative: combine({a}, {b}) is {left}, and combine({b}, {a}) "
                f"is {right}. A reduction combines its elements in any order."
            )
    step = max(7, len(elements) ** 3 // _TRIPLES | 1)
    for a, b, c in itertools.islice(itertools.permutations(elements, 3), 0, None, step):
        left, right = combine(combine(a, b), c), combine(a, combine(b, c))
        if _differ(left, right):
            raise RegistrationError(
                f"[{schema.name}] combine is not associative: combine(combine({a}, {b}), {c}) is {left}, and "
                f"combine({a}, combine({b}, {c})) is {right}. A reduction combines its elements in any order. Put "
                "operations on each element into scalar=..."
            )


_TRIPLES: Final = 3000  # the number of triples of elements that are tried
AROUND: Final = (0.4375, -0.4375, 0.8125, -0.8125, 1.5, -1.5)  # shares of a constant


def _elements(facet: Reduce) -> Iterator[Any]:
    """Yield elements as ``combine`` sees them: small ones, then those around the constants."""
    used = operations(facet.expression) | operations(facet.mapping)
    given: tuple[Any, ...] = (-2.5, -0.75, 0.5, 1.25, 3.0)
    of_bits = any(name.startswith("bitwise") for name in used)
    if of_bits:
        given = (-3, 0, 2, 5, 12)
    elif facet.expression.kind == "boolean":
        given = (False, True)
    for x in given:
        value = _value(facet.mapping, {"x": x})
        if value is not None:
            yield value
    if facet.expression.kind == "boolean":
        return
    for size in magnitudes([facet.expression, facet.mapping], [facet.identity]):
        wanted = [round(share * size) if of_bits else share * size for share in AROUND]
        mapped = [_value(facet.mapping, {"x": x}) for x in wanted]
        if facet.mapping.operands:  # a power of two that scalar maps to this magnitude
            powers = [sign * 2.0**k for k in range(-12, 21) for sign in (1, -1)]
            found = [_value(facet.mapping, {"x": round(x) if of_bits else x}) for x in powers]
            mapped += [v for v in found if v is not None and size / 4 < abs(v) < 4 * size][:6]
        yield from (value for value in mapped if value is not None)


def magnitudes(expressions: Sequence[Expression], identities: Iterable[Any]) -> list[float]:
    """Return the magnitudes of the constants, apart from small ones, which the other elements surround."""
    values = [node.value for node in topological_order(expressions) if node.value is not None]
    values += [float(value) for value in identities if value is not None and not isinstance(value, complex)]
    sizes = {abs(float(value)) for value in values if math.isfinite(value)}
    return sorted(size for size in sizes if size and not 0.5 <= size <= 2)[:4]


def _value(expression: Expression, environment: dict[str, Any]) -> Any:
    """Return the value, or None if it is not a finite number."""
    if any(value is None for value in environment.values()):
        return None
    try:
        value = evaluate(expression, environment)
    except (ArithmeticError, ValueError, TypeError):
        return None
    return value if math.isfinite(value) else None


def _differ(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return False
    return bool(abs(float(left) - float(right)) > 1e-9 * max(1.0, abs(float(left)), abs(float(right))))
