"""Containers in the annotations of a function, and their conversion to and from the schema's types.

Note [Records in schemas]
~~~~~~~~~~~~~~~~~~~~~~~~~
The schema language has lists and tuples. A NamedTuple or dataclass becomes the tuple of its fields, and a
``dict[str, T]`` a list of ``(str, T)``. Only this *canonical* form passes through the dispatcher, so modes, fallbacks,
gradients and transforms see nested lists and tuples of tensors and plain values. The entry of an operator converts
records to the canonical form, kernels get the annotated types, their results are made canonical again, and the entry
returns the annotated type to the caller. A tuple or record as a result counts as several results, one for each field;
any other container is one result.

An operator has the facet ``Structure`` only if its annotations need one; other operators do not use this file. Guarded
by ``tests/library/test_records.py``.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..dispatch.errors import shown

__all__ = ["Dictionary", "Node", "Nullable", "Plain", "Record", "Series", "Structure"]


class Node:
    """One position in an annotation: its ``text`` in the schema; ``packs`` and ``builds`` tell if values change."""

    text = ""
    packs = False
    builds = False

    def pack(self, value: Any, what: str) -> Any:
        """Return ``value`` in the canonical form; raise TypeError, or leave what the schema refuses."""
        return value

    def build(self, value: Any, bare: bool = False) -> Any:
        """Return the annotated type for a value in the canonical form; leave a value that has the type already.

        ``bare`` creates records without calling ``__init__``, for gradients, tangents and dimensions.
        """
        return value


class Plain(Node):
    """A value without parts."""

    def __init__(self, text: str) -> None:
        self.text = text


class Nullable(Node):
    """A value or None."""

    def __init__(self, inner: Node) -> None:
        self.inner = inner
        self.text = f"{inner.text}?"
        self.packs, self.builds = inner.packs, inner.builds

    def pack(self, value: Any, what: str) -> Any:
        """Convert a value that is not None."""
        return None if value is None else self.inner.pack(value, what)

    def build(self, value: Any, bare: bool = False) -> Any:
        """Convert a value that is not None."""
        return None if value is None else self.inner.build(value, bare)


class Series(Node):
    """A list or tuple of any length; ``made`` is list or tuple, or None where the annotation allows both."""

    def __init__(self, inner: Node, made: type | None) -> None:
        self.inner = inner
        self.made = made
        self.text = f"{inner.text}[]"
        self.packs = inner.packs
        self.builds = inner.builds or made is not None

    def pack(self, value: Any, what: str) -> Any:
        """Convert each item."""
        if not self.packs or not isinstance(value, (list, tuple)):
            return value
        return tuple([self.inner.pack(item, f"{what}[{i}]") for i, item in enumerate(value)])

    def build(self, value: Any, bare: bool = False) -> Any:
        """Convert each item; return the annotated kind of sequence."""
        if not isinstance(value, (list, tuple)):
            return value
        made = self.made or type(value)
        if not self.inner.builds:
            return value if value.__class__ is made else made(value)
        return made([self.inner.build(item, bare) for item in value])


class Record(Node):
    """A tuple, NamedTuple or dataclass (``kind``); ``names`` are those of the fields, or empty."""

    def __init__(self, kind: type, names: tuple[str, ...], fields: tuple[Node, ...]) -> None:
        self.kind = kind
        self.names = names
        self.fields = fields
        parts = ", ".join(field.text for field in fields)
        self.text = f"({parts}{',' if len(fields) == 1 else ''})"
        self.packs = kind is not tuple or any(field.packs for field in fields)
        self.builds = kind is not tuple or any(field.builds for field in fields)

    def pack(self, value: Any, what: str) -> Any:
        """Return the tuple of the fields."""
        if isinstance(value, self.kind) and self.names:
            values = [getattr(value, name) for name in self.names]
        elif (value.__class__ is tuple or value.__class__ is list) and len(value) == len(self.fields):
            values = list(value)
        elif self.kind is tuple:
            return value
        else:
            wanted, given = self.kind.__name__, type(value).__name__
            raise TypeError(f"{what} must be a {wanted}, got {shown(value)} of type {given}")
        labels = [f"{what}.{name}" for name in self.names] or [f"{what}[{i}]" for i in range(len(values))]
        return tuple([field.pack(item, label) for field, item, label in zip(self.fields, values, labels)])

    def build(self, value: Any, bare: bool = False) -> Any:
        """Return the record."""
        if not isinstance(value, (list, tuple)) or (self.kind is not tuple and isinstance(value, self.kind)):
            return value
        values = [field.build(item, bare) for field, item in zip(self.fields, value, strict=True)]
        if self.kind is tuple:
            return tuple(values)
        if not dataclasses.is_dataclass(self.kind):
            return self.kind(*values)
        if not bare:
            return self.kind(**dict(zip(self.names, values)))
        made = object.__new__(self.kind)
        for name, item in zip(self.names, values):
            object.__setattr__(made, name, item)
        return made


class Dictionary(Node):
    """``dict[str, T]``; its canonical form is a tuple of (key, value) in the order of the dict."""

    packs = builds = True

    def __init__(self, inner: Node) -> None:
        self.inner = inner
        self.text = f"(str, {inner.text})[]"

    def pack(self, value: Any, what: str) -> Any:
        """Return tuples of key and value."""
        if not isinstance(value, Mapping):
            return value
        for key in value:
            if not isinstance(key, str):
                raise TypeError(
                    f"{what} is a dict whose keys are str, got the key {key!r} of type {type(key).__name__}"
                )
        return tuple([(key, self.inner.pack(item, f"{what}[{key!r}]")) for key, item in value.items()])

    def build(self, value: Any, bare: bool = False) -> Any:
        """Return the dict."""
        if not isinstance(value, (list, tuple)):
            return value
        return {key: self.inner.build(item, bare) for key, item in value}


@dataclasses.dataclass
class Structure:
    """Facet with a node for each argument in schema order, and one for the result (None: it returns nothing)."""

    arguments: dict[str, Node]
    keyword_only: frozenset[str]
    result: Node | None

    def __post_init__(self) -> None:
        self.positions = [
            (i, node)
            for i, (name, node) in enumerate(self.arguments.items())
            if node.builds and name not in self.keyword_only
        ]
        self.keywords = {n: node for n, node in self.arguments.items() if node.builds and n in self.keyword_only}
        self.builds_result = self.result is not None and self.result.builds
        self.packs_result = self.result is not None and self.result.packs

    @property
    def is_needed(self) -> bool:
        """Whether any value changes its type."""
        one = isinstance(self.result, Record) and len(self.result.fields) == 1  # its gradient comes without the tuple
        return bool(self.positions or self.keywords or self.builds_result or self.packs_result or one)

    def packer(self, name: str) -> Callable[[Any], Any] | None:
        """Return the function that makes an argument canonical, or None if it always is."""
        node = self.arguments[name]
        return (lambda value: node.pack(value, f"the argument {name!r}")) if node.packs else None

    def build_arguments(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, bare: bool = False
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments in their annotated types."""
        if self.positions:
            values = list(args)
            for i, node in self.positions:
                if i < len(values):
                    values[i] = node.build(values[i], bare)
            args = tuple(values)
        kwargs = dict(kwargs)
        for name, node in self.keywords.items():
            if name in kwargs:
                kwargs[name] = node.build(kwargs[name], bare)
        return args, kwargs

    def pack_result(self, value: Any) -> Any:
        """Return the results of a kernel in the canonical form."""
        if not self.packs_result or self.result is None:
            return value
        return self.result.pack(value, "the result")

    def build_result(self, value: Any, bare: bool = False) -> Any:
        """Return the results in the annotated type."""
        if not self.builds_result or self.result is None:
            return value
        return self.result.build(value, bare)

    def build_each_result(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients or tangents of the results in the results' structure."""
        if self.result is None:
            return values
        if isinstance(self.result, Record):
            if len(self.result.fields) == 1:  # one result, which is a tuple of one
                values = values[0]
            pairs = zip(self.result.fields, values)
            return tuple([node.build(value, True) for node, value in pairs])
        return tuple([self.result.build(value, True) for value in values])

    def of_setup(self, setup_context: Callable[..., Any]) -> Callable[..., Any]:
        """Adapt a ``setup_context`` that is written for the annotated types."""

        def run(ctx: Any, inputs: tuple[Any, ...], *rest: Any) -> Any:
            args, kwargs = self.build_arguments(inputs, rest[0] if len(rest) > 1 else {})
            keywords = (kwargs,) if len(rest) > 1 else ()
            return setup_context(ctx, args, *keywords, self.build_result(rest[-1]))

        return run

    def takes_record(self, backward: Callable[..., Any]) -> bool:
        """Return whether the result is a record of several fields and ``backward`` takes one gradient."""
        return isinstance(self.result, Record) and len(self.result.fields) > 1 and _takes_one(backward)

    def of_backward(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        """Adapt a ``backward`` to gradients in the structure of the results.

        A ``backward`` with one gradient parameter gets the gradient of a record of several fields as one record.
        """
        if self.takes_record(backward):
            return lambda ctx, *grads: backward(ctx, self.build_result(grads, True))
        return lambda ctx, *grads: backward(ctx, *self.build_each_result(grads))

    def of_forward(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Adapt a forward derivative to tangents in the structure of the arguments and of the results."""

        def run(ctx: Any, *tangents: Any) -> Any:
            return self.pack_result(function(ctx, *self.build_arguments(tangents, {}, bare=True)[0]))

        return run

    def of_batch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Adapt a vmap rule to arguments and dimensions in the annotated types."""

        def run(info: Any, in_dims: Any, *args: Any, **kwargs: Any) -> Any:
            given, named = self.build_arguments(args, kwargs)
            dims = self.build_arguments(tuple(in_dims), {}, bare=True)[0] if isinstance(in_dims, tuple) else in_dims
            out, out_dims = function(info, dims, *given, **named)
            packed = out_dims if out_dims is None or isinstance(out_dims, int) else self.pack_result(out_dims)
            return self.pack_result(out), packed

        return run


def _takes_one(backward: Callable[..., Any]) -> bool:
    """Return whether a function can be called with a context and one gradient, but not with two."""
    try:
        signature = inspect.signature(backward)
    except (TypeError, ValueError):
        return False

    def fits(*args: None) -> bool:
        try:
            signature.bind(*args)
        except TypeError:
            return False
        return True

    return fits(None, None) and not fits(None, None, None)
