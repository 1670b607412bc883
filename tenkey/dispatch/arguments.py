"""Conversion and checking of the arguments that are no tensors, as the schema says.

For each argument the entry of an operator gets at most one line, which tests cheaply whether there is anything to do.
"""

from __future__ import annotations

import numbers
import operator as _operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from .errors import ArgumentError, OutOfRangeError, shown
from .operator import Operator
from .schema import Argument, BaseType, ListType, OptionalType, TupleType

__all__ = ["check_arguments", "coercer", "convert", "convert_argument", "lift"]

_WRONG: Final = "[{operator}] the argument {argument!r} must be {kind}, got {value} of type {type}."
_LENGTH: Final = "[{operator}] the argument {argument!r} must have {size} elements, got {value}."

_EXACT: Final = {"int": "$int", "float": "$float", "bool": "$bool", "str": "$str"}
_WORDS: Final = {
    "int": "an int",
    "float": "a float",
    "bool": "a bool",
    "complex": "a complex number",
    "str": "a str",
    "Scalar": "a Python number",
    "Tensor": "a Tensor",
}


def coercer(operator: Operator, argument: Argument) -> tuple[str, Callable[[Any], Any] | None]:
    """The text that converts ``argument`` in the entry of ``operator`` and the function it calls, or an empty line."""
    kind, name = argument.type, argument.name
    if _packer(operator, name) is not None or (kind.contains_tensor and not kind.is_tensor_like):
        return f"{name} = $coerce_{name}({name})", lambda value: convert_argument(operator, argument, value)
    if kind.is_tensor_like:
        return _length_check(operator, argument)
    optional = isinstance(kind, OptionalType)
    inner = kind.element if isinstance(kind, OptionalType) else kind

    hook = operator.registry.hooks.converters.get(inner.name) if isinstance(inner, BaseType) else None

    def coerce(value: Any) -> Any:
        if hook is not None:
            try:
                return hook(value)
            except (TypeError, ValueError):
                pass  # explained below
        return convert(operator, argument.name, inner, value)

    tests = [f"{name} is not None"] if optional else []
    if isinstance(inner, BaseType) and inner.name in _EXACT:
        tests.append(f"{name}.__class__ is not {_EXACT[inner.name]}")
    elif isinstance(inner, BaseType) and inner.name == "Scalar":
        tests.append(f"{name}.__class__ is not $float and {name}.__class__ is not $int")
    elif isinstance(inner, ListType) and inner.element == BaseType("int") and inner.size in (None, 1):
        # a tuple of ints is what it should be; looking is cheaper than a call
        return (
            f"if {name}.__class__ is $tuple:\n"
            f"    for $item in {name}:\n"
            f"        if $item.__class__ is not $int:\n"
            f"            {name} = $coerce_{name}({name})\n"
            f"            break\n"
            + (f"elif {name}.__class__ is $int: {name} = ({name},)\n" if inner.size == 1 else "")
            + f"{'elif ' + name + ' is not None' if optional else 'else'}: {name} = $coerce_{name}({name})"
        ), coerce
    if not tests:
        return f"{name} = $coerce_{name}({name})", coerce
    return f"if {' and '.join(tests)}: {name} = $coerce_{name}({name})", coerce


def _length_check(operator: Operator, argument: Argument) -> tuple[str, Callable[[Any], Any] | None]:
    """For ``Tensor[N]``: the one thing about tensors that the union of their words does not notice."""
    kind, name = argument.type, argument.name
    inner = kind.element if isinstance(kind, OptionalType) else kind
    if not isinstance(inner, ListType) or inner.size is None:
        return "", None
    size = inner.size

    def check(value: Any) -> Any:
        if isinstance(value, (list, tuple)) and len(value) != size:
            raise ArgumentError(_LENGTH.format(operator=operator.name, argument=name, size=size, value=shown(value)))
        return value

    return f"if {name} is not None: {name} = $coerce_{name}({name})", check


def _packer(operator: Operator, name: str) -> Callable[[Any], Any] | None:
    structure = operator.facets.get("Structure")
    return None if structure is None else structure.packer(name)


def convert_argument(operator: Operator, argument: Argument, value: Any) -> Any:
    """``value`` as what the schema and, if it has one, the operator's ``Structure`` say of an argument."""
    pack = _packer(operator, argument.name)
    if pack is not None:
        try:
            value = pack(value)
        except TypeError as error:
            raise ArgumentError(f"[{operator.name}] {error}.") from None
    return convert(operator, argument.name, argument.type, value)


def _plain_record(value: Any) -> Any:
    """A dataclass as the tuple of its fields: for schemas that were written by hand."""
    if hasattr(type(value), "__dataclass_fields__"):
        import dataclasses

        return tuple([getattr(value, field.name) for field in dataclasses.fields(value) if field.init])
    return value


def convert(operator: Operator, argument: str, kind: Any, value: Any) -> Any:
    """``value`` as the schema type ``kind``, or ArgumentError naming operator, argument and rule."""
    if isinstance(kind, OptionalType):
        return None if value is None else convert(operator, argument, kind.element, value)
    if isinstance(kind, ListType):
        return _convert_list(operator, argument, kind, value)
    if isinstance(kind, TupleType):
        value = _plain_record(value)
        if not isinstance(value, (tuple, list)) or len(value) != len(kind.elements):
            raise ArgumentError(
                _LENGTH.format(operator=operator.name, argument=argument, size=len(kind.elements), value=shown(value))
            )
        return tuple(convert(operator, argument, e, v) for e, v in zip(kind.elements, value))
    name = kind.name
    hook = operator.registry.hooks.converters.get(name)
    if hook is not None:
        try:
            return hook(value)
        except (TypeError, ValueError) as error:
            text = str(error).removeprefix("[device] ")  # what the converter says where nobody else speaks
            raise type(error)(f"[{operator.name}] the argument {argument!r}: {text}") from None
    try:
        checked = _check(name, value)
    except OverflowError as error:
        raise OutOfRangeError(f"[{operator.name}] the argument {argument!r}: {error}.") from None
    if checked is NotImplemented:
        raise ArgumentError(
            _WRONG.format(
                operator=operator.name,
                argument=argument,
                kind=_WORDS.get(name, name),
                value=shown(value),
                type=type(value).__name__,
            )
        )
    return checked


def _check(name: str, value: Any) -> Any:
    if name == "int":
        if isinstance(value, bool):
            return int(value)
        try:
            return _operator.index(value)
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
    if getattr(value, "shape", None) == () and hasattr(
        value, "item"
    ):  # a 0-d array (a dtype has a shape, too) is its number, unless a gradient would be lost on the way
        if getattr(value, "requires_grad", False):
            return NotImplemented
        return _check_scalar(value.item())
    for abstract, kind in ((numbers.Integral, int), (numbers.Real, float), (numbers.Complex, complex)):
        if isinstance(value, abstract):
            return kind(value)  # type: ignore[arg-type, call-overload]
    return NotImplemented


def _is_pair(kind: Any) -> bool:
    return isinstance(kind, TupleType) and len(kind.elements) == 2 and kind.elements[0] == BaseType("str")


def _convert_list(operator: Operator, argument: str, kind: ListType, value: Any) -> Any:
    dimensions = getattr(value, "ndim", None)  # of a class of NumPy's it is no number
    if kind.size is not None and dimensions.__class__ is int and dimensions and not hasattr(value, "_word"):
        value = value.tolist()  # an array of numbers
    if kind.size is not None and not isinstance(value, (list, tuple)):
        value = (value,) * kind.size  # one int stands for all N, as in PyTorch's ``int[2]``
    if isinstance(value, Mapping) and _is_pair(kind.element):
        value = tuple(value.items())
    if not isinstance(value, (list, tuple)):
        try:
            letters = isinstance(value, str) and kind.element == BaseType("str")
            if letters or isinstance(value, Mapping):  # iterable, but never what was meant
                raise TypeError
            value = tuple(value)
        except TypeError:
            raise ArgumentError(
                _WRONG.format(
                    operator=operator.name,
                    argument=argument,
                    kind=f"a sequence of {kind.element}",
                    value=shown(value),
                    type=type(value).__name__,
                )
            ) from None
    if kind.size not in (None, 1) and len(value) != kind.size:
        raise ArgumentError(
            _LENGTH.format(operator=operator.name, argument=argument, size=kind.size, value=shown(value))
        )
    if kind.element == BaseType("int"):
        for item in value:
            if item.__class__ is not int:
                return tuple([convert(operator, argument, kind.element, item) for item in value])
        return tuple(value)
    return tuple([convert(operator, argument, kind.element, item) for item in value])


def check_arguments(operator: Operator, bound: Mapping[str, Any]) -> None:
    """Raise ArgumentError unless every value fits the type that the schema gives its argument."""
    for argument in operator.schema.arguments:
        convert_argument(operator, argument, bound[argument.name])


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
        for argument, value in zip(operator.tensor_arguments, values):
            kind = argument.type.element if isinstance(argument.type, OptionalType) else argument.type
            if value is None and kind is not argument.type:
                continue
            wrong, expected, remedy = [value], "a Tensor", "Convert it with tk.asarray(...)."
            if isinstance(kind, ListType):
                expected, remedy = "a list of Tensors", "Give a list or a tuple."
                if isinstance(value, (list, tuple)):
                    holes = isinstance(kind.element, OptionalType)
                    wrong = [item for item in value if not hasattr(item, "_word") and not (holes and item is None)]
                    remedy = "Convert it with tk.asarray(...)."
            elif hasattr(value, "_word"):
                continue
            if wrong:
                raise ArgumentError(
                    f"[{operator.name}] the argument {argument.name!r} must be {expected}, got {shown(wrong[0])} of "
                    f"type {type(wrong[0]).__name__}. {remedy}"
                )
        return tuple([_plain(value) for value in values])
    except Exception as error:
        error.__suppress_context__ = True  # the AttributeError by which the entry found out
        raise


def _plain(value: Any) -> Any:
    """Return an instance of a subclass of list or tuple, such as a named tuple, as a plain one."""
    if isinstance(value, list):
        return list(value)
    return tuple(value) if isinstance(value, tuple) else value
