"""Conversion and checking of the arguments of a call, as the schema requires.

Each argument gets at most one line in the entry of an operator, which tests cheaply whether there is anything to do.
"""

from __future__ import annotations

import numbers
import operator as _operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..diagnostics.wrong_arguments import ABSENT, check_tensors, wrong_length, wrong_type
from ..errors import ArgumentError, OutOfRangeError
from ..operator import Operator
from ..schema import Argument, BaseType, ListType, OptionalType, SchemaType, TupleType

__all__ = ["coercer", "convert", "convert_argument", "lift"]

_EXACT: Final = ("int", "float", "bool", "str")


def coercer(operator: Operator, argument: Argument) -> tuple[str, Callable[[Any], Any] | None]:
    """Return the text that converts an argument in the entry of an operator, and the function that the text calls."""
    kind, name = argument.type, argument.name
    inner = kind.required
    convert_line = f"{name} = $coerce_{name}({name})"
    if _packer(operator, name) is not None or (kind.contains_tensor and not kind.is_tensor_like):
        return convert_line, lambda value: convert_argument(operator, argument, value)
    if kind.is_tensor_like:
        if not isinstance(inner, ListType) or inner.size is None:
            return "", None
        size = inner.size

        def check_length(value: Any) -> Any:  # the one property that the union of the words does not notice
            if isinstance(value, (list, tuple)) and len(value) != size:
                raise wrong_length(operator, name, size, value)
            return value

        return f"if {name} is not None: {convert_line}", check_length
    hook = operator.registry.hooks.converters.get(inner.name) if isinstance(inner, BaseType) else None
    settled = _settled(inner)

    def coerce(value: Any) -> Any:
        if settled is not None and settled(value):
            return value
        if hook is not None:
            try:
                return hook(value)
            except (TypeError, ValueError):
                pass  # explained below
        return convert(operator, name, inner, value)

    tests = [f"{name} is not None"] if inner is not kind else []
    if isinstance(inner, BaseType) and inner.name in _EXACT:
        tests.append(f"{name}.__class__ is not ${inner.name}")
    elif inner == BaseType("Scalar"):
        tests.append(f"{name}.__class__ is not $float and {name}.__class__ is not $int")
    elif isinstance(inner, BaseType) and inner.name in operator.registry.hooks.as_they_are:
        tests.append(f"$id({name}) not in $as_they_are_{inner.name}")
    elif isinstance(inner, ListType) and inner.element == BaseType("int") and inner.size in (None, 1):
        # a tuple of ints needs no conversion, and testing its items is cheaper than a call
        lines = [
            f"if {name} is None: pass\nelif {name}.__class__ is $tuple:"
            if tests
            else f"if {name}.__class__ is $tuple:",
            f"    for $item in {name}:",
            "        if $item.__class__ is not $int:",
            f"            {convert_line}",
            "            break",
        ]
        if inner.size == 1:
            lines.append(f"elif {name}.__class__ is $int: {name} = ({name},)")
        lines.append(f"else: {convert_line}")
        return "\n".join(lines), coerce
    return f"if {' and '.join(tests)}: {convert_line}" if tests else convert_line, coerce


_ITEMS: Final = {"int": frozenset([int]), "Scalar": frozenset([bool, int, float, complex])}


def _settled(kind: SchemaType) -> Callable[[Any], bool] | None:
    """Return a function that tells whether a value is a tuple of numbers, or of such tuples, that stays as it is."""
    if not isinstance(kind, ListType) or kind.size not in (None, 1):
        return None
    if isinstance(kind.element, ListType):
        inner = _settled(kind.element)
        return None if inner is None else lambda value: value.__class__ is tuple and all(map(inner, value))
    kinds = _ITEMS.get(kind.element.name) if isinstance(kind.element, BaseType) else None
    return None if kinds is None else lambda value: value.__class__ is tuple and kinds.issuperset(map(type, value))


def _packer(operator: Operator, name: str) -> Callable[[Any], Any] | None:
    structure = operator.facets.get("Structure")
    return None if structure is None else structure.packer(name)


def convert_argument(operator: Operator, argument: Argument, value: Any) -> Any:
    """Convert ``value`` as the schema and, if there is one, the ``Structure`` of the operator require."""
    pack = _packer(operator, argument.name)
    if pack is not None:
        try:
            value = pack(value)
        except TypeError as error:
            raise ArgumentError(f"[{operator.label}] {error}.") from None
    return convert(operator, argument.name, argument.type, value)


def convert(operator: Operator, argument: str, kind: SchemaType, value: Any) -> Any:
    """Convert ``value`` to the schema type ``kind``; the ArgumentError names operator, argument and rule."""
    if value is ABSENT:
        raise wrong_type(operator, argument, str(kind), value)
    if isinstance(kind, OptionalType):
        return None if value is None else convert(operator, argument, kind.element, value)
    if isinstance(kind, ListType):
        return _convert_list(operator, argument, kind, value)
    if isinstance(kind, TupleType):
        if hasattr(type(value), "__dataclass_fields__"):  # for schemas that were written by hand
            import dataclasses

            value = tuple([getattr(value, field.name) for field in dataclasses.fields(value) if field.init])
        if not isinstance(value, (tuple, list)) or len(value) != len(kind.elements):
            raise wrong_length(operator, argument, len(kind.elements), value)
        return tuple(convert(operator, argument, e, v) for e, v in zip(kind.elements, value))
    hook = operator.registry.hooks.converters.get(kind.name)
    if hook is not None:
        try:
            return hook(value)
        except (TypeError, ValueError) as error:
            text = str(error)  # which begins with the converter's own prefix, where no operator is known
            text = text.removeprefix("[device] ").removeprefix("[dtype] ")
            if value.__class__ is int and operator.schema.arguments[0].name == "shape":  # as in NumPy's ones(2, 3)
                text = f"got {value}. Give the shape as one tuple, as in tk.{operator.schema.base_name}((2, 3))."
            raise type(error)(f"[{operator.label}] the argument {argument!r}: {text}") from None
    try:
        checked = _check(kind.name, value)
    except OverflowError as error:
        raise OutOfRangeError(f"[{operator.label}] the argument {argument!r}: {error}.") from None
    if checked is NotImplemented:
        raise wrong_type(operator, argument, kind.name, value)
    return checked


def _check(name: str, value: Any) -> Any:
    if name == "int":
        try:
            return int(value) if isinstance(value, bool) else _operator.index(value)
        except TypeError:
            return NotImplemented
    if name in ("float", "complex") and getattr(value, "shape", None) == ():
        value = _check_scalar(value)
    if name == "float":
        return float(value) if isinstance(value, numbers.Real) else NotImplemented
    if name == "complex":
        return complex(value) if isinstance(value, numbers.Complex) else NotImplemented
    if name == "bool":
        return bool(value) if isinstance(value, bool) or type(value).__name__ == "bool" else NotImplemented
    if name == "str":
        return value if isinstance(value, str) else NotImplemented
    if name == "Scalar":
        return _check_scalar(value)
    if name == "Tensor":
        return value if hasattr(value, "_word") else NotImplemented
    return value


def _check_scalar(value: Any) -> Any:
    if value.__class__ in (bool, int, float, complex):
        return value
    # A 0-d array is its number (a dtype has a shape too, but no item), unless a gradient would be lost on the way.
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return NotImplemented if getattr(value, "requires_grad", False) else _check_scalar(value.item())
    for abstract, kind in ((numbers.Integral, int), (numbers.Real, float), (numbers.Complex, complex)):
        if isinstance(value, abstract):
            return kind(value)  # type: ignore[arg-type, call-overload]
    return NotImplemented


def _convert_list(operator: Operator, argument: str, kind: ListType, value: Any) -> Any:
    dimensions = getattr(value, "ndim", None)  # not an int where ``value`` is a class of NumPy
    if kind.size is not None and dimensions.__class__ is int and dimensions and not hasattr(value, "_word"):
        value = value.tolist()  # an array of numbers
    if kind.size is not None and not isinstance(value, (list, tuple)):
        value = (value,) * kind.size  # one int stands for all N, as in PyTorch's ``int[2]``
    element = kind.element
    is_pair = isinstance(element, TupleType) and len(element.elements) == 2 and element.elements[0] == BaseType("str")
    if isinstance(value, Mapping) and is_pair:
        value = tuple(value.items())
    if not isinstance(value, (list, tuple)):
        try:
            letters = isinstance(value, str) and element == BaseType("str")
            if letters or isinstance(value, Mapping):  # iterable, but always a mistake
                raise TypeError
            value = tuple(value)
        except TypeError:
            raise wrong_type(operator, argument, f"a sequence of {element}", value) from None
    if kind.size not in (None, 1) and len(value) != kind.size:
        raise wrong_length(operator, argument, kind.size, value)
    if element == BaseType("int") and {*map(type, value)} <= {int}:
        return tuple(value)
    return tuple([convert(operator, argument, element, item) for item in value])


def lift(operator: Operator, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Make tensors of the other values among the tensor arguments, where the layers above can; else ArgumentError."""
    try:
        for lifter in operator.registry.hooks.lifters:
            values = lifter(operator, values)
        if operator.takes_single_tensors:
            for value in values:
                if not hasattr(value, "_word"):
                    break
            else:
                return values
        check_tensors(operator, values)
        # Instances of subclasses of list and tuple, such as named tuples, become plain ones.
        return tuple([list(v) if isinstance(v, list) else tuple(v) if isinstance(v, tuple) else v for v in values])
    except Exception as error:
        error.__suppress_context__ = True  # the AttributeError by which the entry noticed
        raise
