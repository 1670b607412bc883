"""A schema from the annotations of a function."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from ..core.device import Device
from ..core.tensor import Tensor
from ..dispatch.errors import SchemaError
from ..dispatch.schema import parse_schema

__all__ = ["infer_schema"]

_NO_ANNOTATION: Final = "the parameter {name!r} of {function} has no annotation"
_UNSUPPORTED: Final = "the annotation {annotation} of {what} of {function} has no counterpart in a schema"
_VARIADIC: Final = "{function} takes *args or **kwargs: a schema has a fixed list of arguments"
_UNKNOWN_MUTATED: Final = "mutates_args names {names}, which {function} does not have"
_NOT_A_TENSOR: Final = "mutates_args names {name!r} of {function}, which holds no tensor"
_REMEDY: Final = (
    "Annotate it with Tensor, int, float, bool, complex, str, Optional, list or tuple of these, or pass schema=."
)
_MUTATED_REMEDY: Final = "Give the names of the tensors that the function changes, () or 'unknown'."

_BASE: Final[dict[Any, str]] = {
    Tensor: "Tensor", int: "int", float: "float", bool: "bool", complex: "complex", str: "str",
    np.dtype: "DType", Device: "Device",
}  # fmt: skip
_SCALARS: Final = (frozenset((int, float)), frozenset((int, float, bool)), frozenset((int, float, bool, complex)),
                   frozenset((int, float, complex)))  # fmt: skip


def _error(rule: str, text: str) -> SchemaError:
    remedy = _MUTATED_REMEDY if rule.startswith("mutates_args") else _REMEDY
    return SchemaError(rule.rstrip(".") + ".", remedy, text, 0)


def _schema_type(annotation: Any, what: str, function: str) -> str:
    if annotation in _BASE:
        return _BASE[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = tuple(a for a in args if a is not type(None))
        optional = "?" if len(rest) < len(args) else ""
        if frozenset(rest) in _SCALARS:
            return "Scalar" + optional
        if len(rest) == 1:
            return _schema_type(rest[0], what, function) + optional
    if origin in (list, collections.abc.Sequence) and len(args) == 1:
        return _schema_type(args[0], what, function) + "[]"
    if origin is tuple and args:
        if len(args) == 2 and args[1] is Ellipsis:
            return _schema_type(args[0], what, function) + "[]"
        return "(" + ", ".join(_schema_type(a, what, function) for a in args) + ")"
    if origin is np.dtype:
        return "DType"
    raise _error(_UNSUPPORTED.format(annotation=annotation, what=what, function=function), function)


def _returns(annotation: Any, function: str) -> str:
    if annotation is None or annotation is type(None):
        return "()"
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple and args and args[-1] is not Ellipsis:
        return "(" + ", ".join(_schema_type(a, "the result", function) for a in args) + ")"
    return _schema_type(annotation, "the result", function)


def infer_schema(fn: Callable[..., Any], *, mutates_args: str | Iterable[str] = (), name: str = "") -> str:
    """The schema of a function, from its annotations: ``(Tensor x, float a=1.0) -> Tensor``.

    Args: fn: the function; mutates_args: the names of the tensors that it changes, or ``"unknown"`` for all of them;
    name: put before the arguments.

    Raises SchemaError, which names the parameter, for what a schema cannot say.

    >>> import tenkey as tk
    >>> def scale(x: tk.Tensor, factor: float = 2.0) -> tk.Tensor: ...
    >>> tk.library.infer_schema(scale, mutates_args=())
    '(Tensor x, float factor=2.0) -> Tensor'
    """
    function = getattr(fn, "__qualname__", repr(fn))
    try:
        hints = typing.get_type_hints(fn)
    except Exception as error:
        raise _error(f"the annotations of {function} cannot be read: {error}", function) from error
    parameters = inspect.signature(fn).parameters
    tensors = []
    types_of: dict[str, str] = {}
    for parameter in parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise _error(_VARIADIC.format(function=function), function)
        if parameter.name not in hints:
            raise _error(_NO_ANNOTATION.format(name=parameter.name, function=function), function)
        types_of[parameter.name] = _schema_type(hints[parameter.name], f"{parameter.name!r}", function)
        if "Tensor" in types_of[parameter.name]:
            tensors.append(parameter.name)
    if mutates_args == "unknown":
        mutated = tensors
    else:
        mutated = [mutates_args] if isinstance(mutates_args, str) else list(mutates_args)
    unknown = [m for m in mutated if m not in parameters]
    if unknown:
        raise _error(_UNKNOWN_MUTATED.format(names=", ".join(map(repr, unknown)), function=function), function)
    for m in mutated:
        if m not in tensors:
            raise _error(_NOT_A_TENSOR.format(name=m, function=function), function)
    parts: list[str] = []
    starred = False
    for parameter in parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        kind = types_of[parameter.name]
        if parameter.name in mutated:
            kind = kind.replace("Tensor", f"Tensor(a{mutated.index(parameter.name)}!)", 1)
        default = "" if parameter.default is parameter.empty else f"={_default(parameter.default, kind)}"
        parts.append(f"{kind} {parameter.name}{default}")
    if "return" not in hints:
        raise _error(f"{function} has no annotation for its result", function)
    text = f"{name}({', '.join(parts)}) -> {_returns(hints['return'], function)}"
    parse_schema(text if name else "f" + text)  # raises what the parser would
    return text


def _default(value: Any, kind: str = "") -> str:
    if isinstance(value, (list, tuple)):
        items = ", ".join(_default(item) for item in value)
        return f"({items})" if kind.startswith("(") and not kind.endswith("]") else f"[{items}]"
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, complex):
        return repr(value).strip("()")
    if isinstance(value, Device):
        return str(value)
    return repr(value)
