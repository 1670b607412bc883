"""Inference of a schema from the annotations of a function."""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from ..core.device import Device
from ..core.tensor import Tensor
from ..dispatch.errors import SchemaError, shown
from ..dispatch.schema import parse_schema
from .structure import Dictionary, Node, Nullable, Plain, Record, Series, Structure

__all__ = ["Inferred", "infer", "infer_schema"]

_UNREADABLE: Final = "the annotations of {function} cannot be read: {error}."
_UNREADABLE_REMEDY: Final = (
    "Give a function whose annotations are types that exist where it is defined, or pass schema=."
)
_REMEDY: Final = (
    "Annotate it with Tensor, int, float, bool, complex, str, Optional, list, tuple, dict[str, ...], dataclass or "
    "NamedTuple of these, or pass schema=."
)
_MUTATED_REMEDY: Final = "Give the names of the tensors that the function changes, () or 'unknown'."


_MAX_NESTING: Final = 24  # a schema takes 32; a dict counts twice
_BASE: Final[dict[Any, str]] = {
    Tensor: "Tensor", int: "int", float: "float", bool: "bool", complex: "complex", str: "str",
    np.dtype: "DType", Device: "Device",
}  # fmt: skip
_SCALARS: Final = (frozenset((int, float)), frozenset((int, float, bool)), frozenset((int, float, bool, complex)),
                   frozenset((int, float, complex)))  # fmt: skip


class Inferred(NamedTuple):
    """The text of the schema, without a name, and the structure of the annotations."""

    text: str
    structure: Structure


class _UnsupportedError(Exception):
    """Error for an annotation that a schema cannot express, with an optional reason."""

    def __init__(self, annotation: Any, detail: str = "") -> None:
        super().__init__(annotation, detail)
        self.annotation = annotation
        self.detail = detail


def _annotation_text(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else shown(annotation)


class _Source:
    """The signature of a function as text, so that an error can point at a parameter."""

    def __init__(self, fn: Any) -> None:
        self.function = getattr(fn, "__qualname__", None) or shown(fn)
        self.columns: dict[str, int] = {}
        try:
            self.signature: inspect.Signature | None = inspect.signature(fn)
        except (TypeError, ValueError):
            self.signature = None
        self.text = self.function
        if self.signature is None:
            return
        self.text = f"{getattr(fn, '__name__', 'f')}("
        for i, parameter in enumerate(self.signature.parameters.values()):
            self.text += ", " if i else ""
            self.columns[parameter.name] = len(self.text)
            self.text += parameter.name
            if parameter.annotation is not parameter.empty:
                self.text += f": {_annotation_text(parameter.annotation)}"
        self.text += ")"
        self.columns["return"] = len(self.text)
        if self.signature.return_annotation is not inspect.Signature.empty:
            self.text += f" -> {_annotation_text(self.signature.return_annotation)}"

    def error(self, rule: str, remedy: str, where: str = "") -> SchemaError:
        return SchemaError(rule, remedy, self.text, self.columns.get(where, 0))


def _node(annotation: Any, scope: Mapping[str, Any], inside: tuple[type, ...] = (), depth: int = 0) -> Node:
    """Return the node for an annotation, or raise _UnsupportedError; ``inside`` has the enclosing record classes."""
    if depth > _MAX_NESTING:
        raise _UnsupportedError(annotation, f": it is nested more than {_MAX_NESTING} deep")
    try:
        base = _BASE.get(annotation)
    except TypeError:  # unhashable, so not a type
        raise _UnsupportedError(annotation) from None
    if base is not None:
        return Plain(base)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _node(args[0], scope, inside, depth + 1)
    if origin in (typing.Union, types.UnionType):
        rest = tuple(a for a in args if a is not type(None))
        if frozenset(rest) in _SCALARS:
            node: Node = Plain("Scalar")
        elif len(rest) == 1:
            node = _node(rest[0], scope, inside, depth + 1)
        else:
            raise _UnsupportedError(annotation, ": a union is one type and None, or numbers")
        return Nullable(node) if len(rest) < len(args) and not isinstance(node, Nullable) else node
    if origin in (list, collections.abc.Sequence) and len(args) == 1:
        return Series(_node(args[0], scope, inside, depth + 1), list if origin is list else None)
    if origin is tuple and args:
        if len(args) == 2 and args[1] is Ellipsis:
            return Series(_node(args[0], scope, inside, depth + 1), tuple)
        return Record(tuple, (), tuple([_node(a, scope, inside, depth + 1) for a in args]))
    if origin in (dict, collections.abc.Mapping) and len(args) == 2:
        if args[0] is not str:
            raise _UnsupportedError(annotation, ": the keys of a dict are str")
        return Dictionary(_node(args[1], scope, inside, depth + 2))
    if origin is np.dtype:
        return Plain("DType")
    kind = origin or annotation
    is_named_tuple = isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_field_defaults")
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or is_named_tuple):
        return _record(kind, args, scope, inside, depth)
    raise _UnsupportedError(annotation)


def _record(kind: type, args: Any, scope: Mapping[str, Any], inside: tuple[type, ...], depth: int) -> Record:
    if kind in inside:
        raise _UnsupportedError(kind, ": it holds itself")
    if dataclasses.is_dataclass(kind):
        names = tuple(field.name for field in dataclasses.fields(kind) if field.init)
        required = [name for name in inspect.signature(kind).parameters if name not in names]
        if required:
            raise _UnsupportedError(kind, f": its __init__ takes {required[0]!r}, which is not a field")
    else:
        names = tuple(kind._fields)  # type: ignore[attr-defined]  # a NamedTuple
    if not names:
        raise _UnsupportedError(kind, ": it has no fields")
    hints = _hints(kind, scope)
    variables = dict(zip(getattr(kind, "__parameters__", ()), args))
    fields = []
    for name in names:
        if name not in hints:
            raise _UnsupportedError(kind, f": its field {name!r} has no annotation")
        hint = hints[name]
        try:
            hint = variables.get(hint, hint)
        except TypeError:
            raise _UnsupportedError(hint, f", in the field {name!r} of {kind.__name__}") from None
        fields.append(_node(hint, scope, (*inside, kind), depth + 1))
    return Record(kind, names, tuple(fields))


def _hints(thing: Any, scope: Mapping[str, Any]) -> dict[str, Any]:
    """Return the annotations; names that the module lacks are looked up where the operator is being defined."""
    try:
        return typing.get_type_hints(thing)
    except NameError:
        if isinstance(thing, type):
            names = {**vars(sys.modules.get(thing.__module__, types)), **scope}
            return typing.get_type_hints(thing, globalns=names)
        return typing.get_type_hints(thing, localns=dict(scope))


def _calling_scope() -> dict[str, Any]:
    """Return the local names of the nearest caller outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tenkey.library"):
        frame = frame.f_back
    names: dict[str, Any] = {}
    place = frame.f_code.co_filename
    found: types.FrameType | None = frame
    while found is not None and found.f_code.co_filename == place:  # functions within functions
        if found.f_code.co_name != "<module>":
            names = {**found.f_locals, **names}
        found = found.f_back
    return names


def infer(fn: Callable[..., Any], *, mutates_args: str | Iterable[str] = ()) -> Inferred:
    """Return the schema and the structure of a function; raise SchemaError, which points at the parameter."""
    source = _Source(fn)
    function, scope = source.function, _calling_scope()
    try:
        if source.signature is None:
            raise TypeError("it has no signature")
        hints = _hints(fn, scope)
    except Exception as error:  # an annotation may be any expression
        text = str(error).rstrip(".") or type(error).__name__
        raise source.error(_UNREADABLE.format(function=function, error=text), _UNREADABLE_REMEDY) from None
    parameters = source.signature.parameters
    nodes: dict[str, Node] = {}
    for parameter in parameters.values():
        name = parameter.name
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise source.error(
                f"{function} takes *args or **kwargs ({name!r}): a schema has a fixed list of arguments.",
                "Take a list, such as list[Tensor], or pass schema=.",
                name,
            )
        if name not in hints:
            raise source.error(f"the parameter {name!r} of {function} has no annotation.", _REMEDY, name)
        nodes[name] = _described(hints[name], scope, source, name)
    if "return" not in hints:
        raise source.error(
            f"{function} has no annotation for its result.",
            "Write '-> Tensor', or '-> None' if it returns nothing, or pass schema=.",
            "return",
        )
    nothing = hints["return"] in (None, type(None))
    result = None if nothing else _described(hints["return"], scope, source, "return")
    mutated = _mutated(mutates_args, nodes, source)
    parts: list[str] = []
    for name, parameter in parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        kind = nodes[name].text
        if name in mutated:
            kind = kind.replace("Tensor", f"Tensor(a{mutated.index(name)}!)", 1)
        default = "" if parameter.default is parameter.empty else f"={_default_text(parameter, nodes[name], source)}"
        parts.append(f"{kind} {name}{default}")
    keyword_only = frozenset(p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY)
    return Inferred(f"({', '.join(parts)}) -> {_returns(result)}", Structure(nodes, keyword_only, result))


def _described(annotation: Any, scope: Mapping[str, Any], source: _Source, name: str) -> Node:
    try:
        return _node(annotation, scope)
    except _UnsupportedError as found:
        what = "the result" if name == "return" else repr(name)
        detail = found.detail
        if found.annotation is not annotation:
            detail = f": {_annotation_text(found.annotation)} has none{detail}"
        shown_type = _annotation_text(annotation)
        rule = f"the annotation {shown_type} of {what} of {source.function} has no counterpart in a schema{detail}."
        raise source.error(rule, _REMEDY, name) from None
    except Exception as error:  # the annotations of a class may be any expression
        what = f"{_annotation_text(annotation)}, of {name!r} of {source.function}"
        text = str(error).rstrip(".") or type(error).__name__
        raise source.error(_UNREADABLE.format(function=what, error=text), _UNREADABLE_REMEDY, name) from None


def _mutated(mutates_args: Any, nodes: Mapping[str, Node], source: _Source) -> list[str]:
    """Return the names of the arguments that are marked as written to."""
    tensors = [name for name, node in nodes.items() if "Tensor" in node.text]
    if isinstance(mutates_args, str):
        mutated = tensors if mutates_args == "unknown" else [mutates_args]
    else:
        try:
            mutated = list(dict.fromkeys(mutates_args))
        except TypeError:
            mutated = [mutates_args]
    if not all(isinstance(name, str) for name in mutated):
        rule = (
            f"mutates_args must be 'unknown' or the names of arguments, got {shown(mutates_args)} of "
            f"type {type(mutates_args).__name__}."
        )
        raise source.error(rule, _MUTATED_REMEDY)
    unknown = ", ".join(repr(name) for name in mutated if name not in nodes)
    if unknown:
        raise source.error(f"mutates_args names {unknown}, which {source.function} does not have.", _MUTATED_REMEDY)
    for name in mutated:
        if name not in tensors:
            raise source.error(
                f"mutates_args names {name!r} of {source.function}, which holds no tensor.", _MUTATED_REMEDY, name
            )
        if nodes[name].text.startswith("("):
            rule = f"mutates_args names {name!r} of {source.function}, whose tensors lie in tuples or records."
            raise source.error(rule, "Pass the tensors that are changed as separate arguments or as a list.", name)
    return mutated


def _returns(result: Node | None) -> str:
    if result is None:
        return "()"
    if isinstance(result, Record) and len(result.fields) > 1:
        names = result.names or ("",) * len(result.fields)
        return "(" + ", ".join(f"{field.text} {name}".strip() for field, name in zip(result.fields, names)) + ")"
    return f"({result.text})" if result.text.startswith("(") else result.text


def infer_schema(fn: Callable[..., Any], *, mutates_args: str | Iterable[str] = (), name: str = "") -> str:
    """Return the schema of a function, inferred from its annotations: ``(Tensor x, float a=1.0) -> Tensor``.

    Args: fn: the function; mutates_args: the names of the tensors that it changes, or ``"unknown"`` for all of them;
    name: prefixed to the arguments. Lists, tuples, ``dict[str, T]``, dataclasses, NamedTuples and optionals may be
    nested: see Note [Records in schemas].

    Raises SchemaError, which points at the parameter, for an annotation that a schema cannot express.

    >>> def scale(x: tk.Tensor, factor: float = 2.0) -> tk.Tensor: ...
    >>> tk.library.infer_schema(scale, mutates_args=())
    '(Tensor x, float factor=2.0) -> Tensor'
    >>> def pick(weights: dict[str, tk.Tensor], name: str | None = None) -> tuple[tk.Tensor, str]: ...
    >>> tk.library.infer_schema(pick, mutates_args=())
    '((str, Tensor)[] weights, str? name=None) -> (Tensor, str)'
    """
    text = f"{name}{infer(fn, mutates_args=mutates_args).text}"
    parse_schema(text if name else f"f{text}")  # raises for an invalid name
    return text


def _default_text(parameter: inspect.Parameter, node: Node, source: _Source) -> str:
    try:
        value = node.pack(parameter.default, "it")
    except TypeError as error:
        value = shown(parameter.default)
        rule = f"the default {value} of {parameter.name!r} of {source.function} does not fit its annotation: {error}."
        raise source.error(rule, "Give a default of the annotated type.", parameter.name) from None
    return _default(value, node)


def _default(value: Any, node: Node) -> str:
    if isinstance(node, Nullable):
        return _default(value, node.inner)
    if isinstance(value, (list, tuple)):
        if isinstance(node, Record) and len(value) == len(node.fields):
            items = [_default(item, field) for item, field in zip(value, node.fields)]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        inner: Node = node.inner if isinstance(node, Series) else Plain("")
        if isinstance(node, Dictionary):
            inner = Record(tuple, (), (Plain("str"), node.inner))
        return f"[{', '.join([_default(item, inner) for item in value])}]"
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, complex):
        return repr(value).strip("()")
    if isinstance(value, Device):
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    for kind in (bool, int, float, str):  # in full; an instance of a subclass as its base class
        if isinstance(value, kind):
            return repr(kind(value)) if kind is not str else repr(str.__str__(value))
    return shown(value)
