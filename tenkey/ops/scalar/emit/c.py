"""Scalar expressions as functions in C, OpenCL C, CUDA C, Metal and WGSL, for backends that compile one of these.

Note [C keeps NumPy's rules]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The source computes the same as the CPU kernels, also where C leaves the result undefined or defines another: signed
integers wrap around (the arithmetic is unsigned), floor division and remainder round towards minus infinity and are 0
for an integer divisor 0, shifts by too many bits give 0 or the sign, minimum and maximum propagate NaN, `round` rounds
halves to even, bools are added by `or` and multiplied by `and`, floats become integers by truncation through 64 bits.
Floats of 16 bits are computed in float32 and rounded at the end; complex numbers are computed in their parts, see
Note [Parts of complex expressions]. Operations without a counterpart (powers of signed integers whose exponent is not a
constant, which may have to raise) cause an UnsupportedOperationError. Compile without "fast math", which breaks NaN.
``docs/printers.md`` has the whole list. Guarded by ``tests/ops/test_c_source.py``.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..complex_parts import real_parts
from ..expansions import expand, rewritten
from ..expression import Expression, constant, make, topological_order, variable
from ..operations import OPERATIONS
from ..traversal import indices
from .c_writer import CWriter
from .dialects import C_DIALECTS, WGSL, CDialect, WGSLDialect
from .printer import Emitter, UnsupportedOperationError
from .wgsl import WGSLWriter
from .writer import Writer, constant_of

__all__ = ["print_function", "to_c"]

# Parameters with these names get another name in the source: keywords of the languages, and functions that it calls.
_KEYWORDS: Final = """
auto bool case char const constant default device do double enum extern float fn global goto half inline int kernel let
local long loop override private register restrict short signed sizeof static struct switch texture thread typedef uint
uchar union unsigned var vec2 void volatile u32 i32 f32 f16 select bitcast fabs rint fmod
"""
_RESERVED: Final = frozenset([*OPERATIONS, *keyword.kwlist, *_KEYWORDS.split()])
# What integers give if they are compared with themselves.
_COMPARISONS: Final = {
    "equal": True, "less_equal": True, "greater_equal": True, "not_equal": False, "less": False, "greater": False,
}  # fmt: skip


def to_c(
    expression: Expression, parameters: Mapping[str, str], *, dtype: str, result: str | None = None,
    name: str = "scalar", dialect: str | CDialect | WGSLDialect = "c",
) -> str:  # fmt: skip
    """Return the source of a function ``name`` that computes ``expression``, preceded by its helper functions.

    ``parameters`` maps each parameter, in order, to the dtype in which it is passed. It is converted to ``dtype``, in
    which the expression is computed; the value is converted to ``result`` (default: ``dtype``, or bool for a
    condition). Bools are bytes of 0 and 1. Index variables are further parameters, of dtype int64. The names of helpers
    begin with ``name``, so that one file can contain several functions. The result depends only on the arguments.
    UnsupportedOperationError is a NotImplementedError: see Note [C keeps NumPy's rules].

    >>> from tenkey.ops.scalar import exp, variable
    >>> x = variable("x")
    >>> print(to_c(1 / (1 + exp(-x)), {"x": "float32"}, dtype="float32", name="sigmoid"))
    static inline float sigmoid(float x_)
    {
        const float x = x_;
        const float t0 = (-x);
        const float t1 = expf(t0);
        const float t2 = (1.0f + t1);
        const float t3 = (1.0f / t2);
        return t3;
    }
    <BLANKLINE>
    """
    known: dict[str, CDialect | WGSLDialect] = {**C_DIALECTS, "wgsl": WGSL}
    language = known.get(dialect) if isinstance(dialect, str) else dialect
    if language is None:
        raise ValueError(f"[to_c] unknown dialect {dialect!r}: choose from {', '.join(known)}, or pass a CDialect.")
    writer = CWriter if isinstance(language, CDialect) else WGSLWriter
    return print_function(
        expression, parameters, dtype=dtype, result=result, name=name, writer=writer, language=language
    )


def print_function(
    expression: Expression, parameters: Mapping[str, str], *, dtype: str, result: str | None, name: str,
    writer: Callable[[Any, str, str], Writer], language: Any,
) -> str:  # fmt: skip
    """Return the source of a function in the language of a writer, preceded by its helper functions.

    ``writer(language, dtype, name)`` makes the :class:`Writer`; ``language`` has a name, the types of dtypes and the
    dtype of index variables. Otherwise as :func:`to_c`.
    """
    parameters = {**parameters, **dict.fromkeys(indices([expression]), language.index)}
    wanted = result or ("bool" if expression.kind == "boolean" else dtype)
    for used in (dtype, wanted, *parameters.values()):
        if used not in language.types:
            types = ", ".join(language.types)
            raise UnsupportedOperationError(
                f"[to_c] {language.name} has no type for {used}: it has {types}. Let the call fall back to the CPU "
                "(raise NotImplementedError or return None from the template)."
            )
    if dtype.startswith("complex") and wanted == "bool" and expression.kind == "number":
        expression = make("not_equal", expression, 0)  # of either part
    nodes = topological_order([expression])
    variables = {node.name: node.kind for node in nodes if node.name is not None}
    wrong = [used for used in variables if used not in parameters]
    if wrong:
        raise ValueError(
            f"[to_c] the expression has the variables {', '.join(wrong)}, which are not parameters: "
            f"got {', '.join(parameters) or 'none'}."
        )
    made = writer(language, dtype, name)
    local = {p: f"{p}_value" if p in _RESERVED or p in made.reserved else p for p in parameters}
    loads: list[tuple[str, str, str]] = []
    parts: dict[str, tuple[Expression, Expression]] = {}
    for parameter, given in parameters.items():
        if parameter not in variables:
            continue
        target = local[parameter]
        if variables[parameter] == "boolean":
            loads.append((target, "boolean", made.condition(f"{target}_", given)))
            continue
        loaded = made.load(f"{target}_", given)
        if len(loaded) == 1:
            loads.append((target, "number", loaded[0]))
        elif not dtype.startswith("complex"):
            raise UnsupportedOperationError(
                f"[to_c] the parameter {parameter} is {given}, and the expression is computed in {dtype}: "
                f"compute in {given}."
            )
        else:
            parts[parameter] = variable(f"{parameter}_re"), variable(f"{parameter}_im")
            loads += [(f"{target}_{part}", "number", text) for part, text in zip(("re", "im"), loaded, strict=True)]
            local |= {f"{parameter}_{part}": f"{target}_{part}" for part in ("re", "im")}
    outputs = _outputs(expression, parts, dtype, wanted)
    emitter = Emitter(made.table(), statement=made.statements)
    reserved = [*local.values(), *[f"{p}_" for p in local.values()], name]
    body, values = emitter.emit(expand(outputs, made.lacking), names=local, reserved=reserved)
    source = "condition" if expression.kind == "boolean" else made.compute
    value = made.store(values, source, wanted)
    heads = [(f"{local[parameter]}_", given) for parameter, given in parameters.items()]
    return made.helpers() + made.function(heads, loads, body, value, wanted)


def _outputs(
    expression: Expression, parts: Mapping[str, tuple[Expression, Expression]], dtype: str, wanted: str
) -> list[Expression]:
    """Return the expression with its constants as numbers of ``dtype``, or its real and its imaginary part."""
    [expression] = rewritten([expression], lambda node, operands: _constant(node, operands, dtype))
    if not dtype.startswith("complex"):
        return [expression]
    try:
        both = real_parts(expression, parts)
    except ValueError as error:
        raise UnsupportedOperationError(f"[to_c] {error}") from None
    return [*both] if wanted.startswith("complex") and expression.kind == "number" else [both[0]]


def _constant(node: Expression, operands: list[Expression], dtype: str) -> Expression:
    if operands:
        decided = _decided(node.operation, operands, dtype)
        return make(node.operation, *operands) if decided is None else decided
    if node.kind == "number" and isinstance(node.value, int | float):
        return constant(constant_of(node.value, dtype))
    return node


def _decided(operation: str, operands: list[Expression], dtype: str) -> Expression | None:
    """Return what is known of a condition: compilers warn of constant ones. Integers are neither NaN nor infinite."""
    whole = "float" not in dtype and "complex" not in dtype
    if whole and operation in ("isnan", "isinf", "isfinite"):
        return constant(operation == "isfinite")
    if whole and operation in _COMPARISONS and operands[0] is operands[1]:
        return constant(_COMPARISONS[operation])
    if operation in ("logical_and", "logical_or"):
        for operand, other in (operands, operands[::-1]):
            if operand.value is not None:
                return other if bool(operand.value) == (operation == "logical_and") else constant(bool(operand.value))
    if operation == "logical_not" and operands[0].value is not None:
        return constant(not operands[0].value)
    if operation == "where" and operands[0].value is not None:
        return operands[1] if operands[0].value else operands[2]
    return None
