"""The signatures of operators and of Tensor's methods, as stubs state them."""

from __future__ import annotations

import inspect
import math
import types
from typing import Any, Final

from tenkey.dispatch.calling.bindings import keyword_only
from tenkey.dispatch.operator import Operator
from tenkey.dispatch.schema import Argument, ListType, OptionalType, SchemaType, TupleType

from .text import Stub, function_signature

__all__ = [
    "BINARY",
    "COMPARISONS",
    "define_property",
    "operator_of",
    "operator_signature",
    "result_module",
    "result_text",
]

_BASES: Final = {
    "Tensor": "Tensor",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "complex": "complex",
    "Scalar": "complex",
    "str": "str",
    "DType": "DTypeLike",
    "Device": "Device | str",
}
BINARY: Final = frozenset(
    f"__{prefix}{name}__"
    for prefix in ("", "r", "i")
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"
    )
)  # fmt: skip
COMPARISONS: Final = ("__lt__", "__le__", "__gt__", "__ge__")


# ---- from schemas to types


def _type_text(kind: SchemaType, *, result: bool = False) -> str:
    """Return the annotation for a schema type."""
    if isinstance(kind, OptionalType):
        return f"{_type_text(kind.element, result=result)} | None"
    if isinstance(kind, ListType):
        element = _type_text(kind.element, result=result)
        if result:
            return f"tuple[{element}, ...]"
        return f"{element} | Sequence[{element}]" if kind.size is not None else f"Sequence[{element}]"
    if isinstance(kind, TupleType):
        return f"tuple[{', '.join(_type_text(element, result=result) for element in kind.elements)}]"
    if result and kind.name in ("DType", "Device"):
        return kind.name
    return _BASES[kind.name]


def _argument_text(operator: Operator, argument: Argument) -> str:
    kind = _type_text(argument.type)
    if argument.type.is_tensor_like and not argument.is_mutable:  # Note [Sequences of numbers]
        kind = kind.replace("Tensor", "ArrayLike")
    return f"{argument.name}: {kind}{f' = {_default_text(argument.default)}' if argument.has_default else ''}"


def _default_text(value: object) -> str:
    return "..." if isinstance(value, (float, complex)) and not math.isfinite(abs(value)) else repr(value)


def _composite(operator: Operator) -> types.FunctionType | None:
    """Return the function of a composite operator; None for other operators."""
    function = getattr(operator.facets.get("Composite"), "function", None)
    return function if isinstance(function, types.FunctionType) and "DerivedFrom" not in operator.facets else None


def result_text(operator: Operator) -> str:
    """Return the annotation of the result; for a composite operator, that of its function."""
    function = _composite(operator)
    if function is not None:
        written = function.__annotations__.get("return")
        if isinstance(written, str) and written not in ("Any", "Tensor"):
            return written
    returns = [_type_text(r.type, result=True) for r in operator.schema.returns]
    if len(returns) == 1:
        return returns[0]
    return f"tuple[{', '.join(returns)}]" if returns else "None"


def result_module(operator: Operator, result: str) -> str | None:
    """Return the module that defines the names in the annotation of the result; None for the known names."""
    function = _composite(operator)
    return None if function is None or result in ("Tensor", "Self") else function.__module__


def _parameters(operator: Operator) -> list[str]:
    made: list[str] = []
    keywords = keyword_only(operator)
    for argument in operator.schema.arguments:
        if argument in keywords and "*" not in made:
            made.append("*")
        made.append(_argument_text(operator, argument))
    option = operator.facets.get("EntryOption")
    if option is not None:
        made += [*([] if "*" in made else ["*"]), f"{option.name}: bool = {option.default}"]
    return made


def operator_signature(operator: Operator, *, method: bool = False) -> tuple[list[str], str]:
    """Return the typed parameters of an operator, or of its method, and the type of the result."""
    parameters, result = _parameters(operator), result_text(operator)
    if method:
        first = operator.schema.arguments[0]
        parameters[0] = "self"
        if first.is_mutable and result == "Tensor":
            result = "Self"
    return parameters, result


def operator_of(value: Any) -> Operator | None:
    """Return the operator that a function of the namespace calls; None for other values."""
    found = getattr(value, "operator", None) if inspect.isroutine(value) else None
    return found if isinstance(found, Operator) else None


def define_property(stub: Stub, name: str, value: property) -> None:
    """Add a property with its setter and deleter."""
    getter = value.fget
    operator = operator_of(getter)
    if operator is not None:
        stub.define(name, ["self"], result_text(operator), value.__doc__, indent="    ", decorators=["property"])
        return
    assert getter is not None
    _, result = function_signature(getter, method=True)
    module = getter.__module__
    stub.define(name, ["self"], result, value.__doc__, module=module, indent="    ", decorators=["property"])
    if value.fset is not None:
        parameters, _ = function_signature(value.fset, method=True)
        setter = [f"{name}.setter"]
        stub.define(name, parameters, "None", None, module=value.fset.__module__, indent="    ", decorators=setter)
    if value.fdel is not None:
        stub.define(name, ["self"], "None", None, indent="    ", decorators=[f"{name}.deleter"])
