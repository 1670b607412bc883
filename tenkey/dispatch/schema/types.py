"""The parts of a schema: types, arguments, results, and their canonical text (Note [Schema language])."""

from __future__ import annotations

import keyword
from typing import Final, TypeAlias

from ..._util.record import Record
from ..diagnostics.schema_errors import quoted
from ..errors import SchemaError

__all__ = [
    "CONSTANTS", "NAMED_TYPES", "SPECIAL_NUMBERS", "AliasInfo", "Argument", "BaseType", "FunctionSchema", "ListType",
    "OptionalType", "Return", "SchemaType", "TupleType",
]  # fmt: skip

NAMED_TYPES: Final = ("DType", "Device")
CONSTANTS: Final[dict[str, bool | None]] = {"None": None, "True": True, "False": False}
SPECIAL_NUMBERS: Final = ("inf", "nan", "infj", "nanj")


def _is_name(text: str) -> bool:
    return text.isascii() and text.isidentifier()


class _Type(Record, frozen=True):
    """Properties of all types."""

    @property
    def is_tensor_like(self) -> bool:
        """Whether a value is a tensor or a flat list of tensors, possibly with None in places."""
        kind = self.required
        element = kind.element.required if isinstance(kind, ListType) else kind
        return isinstance(element, BaseType) and element.name == "Tensor"

    @property
    def contains_tensor(self) -> bool:
        """Whether a tensor may occur anywhere in a value, in tuples and lists of lists too."""
        return "Tensor" in str(self)

    @property
    def required(self) -> SchemaType:
        """The type without ``?``."""
        return self.element if isinstance(self, OptionalType) else self  # type: ignore[return-value]


class BaseType(_Type, frozen=True):
    """A type without parts.

    `name` is one of Tensor, int, float, bool, complex, Scalar, str, DType, Device and Index (the ints, slices, None and
    '...' in `x[...]`, as a tuple).
    """

    name: str

    def __str__(self) -> str:
        return self.name


class OptionalType(_Type, frozen=True):
    """`element` or None."""

    element: SchemaType

    def __str__(self) -> str:
        return f"{self.element}?"


class ListType(_Type, frozen=True):
    """A sequence of `element`, of exactly `size` items unless `size` is None."""

    element: SchemaType
    size: int | None = None

    def __str__(self) -> str:
        return f"{self.element}[{'' if self.size is None else self.size}]"


class TupleType(_Type, frozen=True):
    """A tuple whose items have the types `elements` (at least one)."""

    elements: tuple[SchemaType, ...]

    def __str__(self) -> str:
        return _tuple_text([str(element) for element in self.elements])


SchemaType: TypeAlias = BaseType | OptionalType | ListType | TupleType


class AliasInfo(Record, frozen=True):
    """The alias sets that a tensor belongs to (`names`, sorted), and whether the operator writes to it."""

    names: tuple[str, ...]
    is_write: bool = False

    def __str__(self) -> str:
        return f"({'|'.join(self.names)}{'!' if self.is_write else ''})"


class Argument(Record, frozen=True):
    """One parameter; `default` is meaningful only if `has_default`. Equality: Note [Schema language]."""

    name: str
    type: SchemaType
    default: object = None
    has_default: bool = False
    kwarg_only: bool = False
    alias: AliasInfo | None = None

    @property
    def is_mutable(self) -> bool:
        """Whether the operator writes to this argument."""
        return self.alias is not None and self.alias.is_write

    def __str__(self) -> str:
        default = f"={_default_text(self.type, self.default)}" if self.has_default else ""
        return f"{_aliased(self.type, self.alias)} {self.name}{default}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Argument):
            return NotImplemented
        return self.kwarg_only == other.kwarg_only and str(self) == str(other)

    def __hash__(self) -> int:
        return hash((self.kwarg_only, str(self)))


class Return(Record, frozen=True):
    """One result; `name` is None if the schema does not name it."""

    name: str | None
    type: SchemaType
    alias: AliasInfo | None = None

    def __str__(self) -> str:
        text = _aliased(self.type, self.alias)
        return text if self.name is None else f"{text} {self.name}"


class FunctionSchema(Record, frozen=True):
    """A parsed schema: immutable and hashable; ``str`` gives its text. Keyword-only arguments come last.

    >>> schema = tk.dispatch.parse_schema("tk::add.out(Tensor x1,Tensor x2,*,Tensor(a!) out)->Tensor(a!)")
    >>> schema.name, schema.overload_name, schema.is_mutable
    ('tk::add', 'out', True)
    >>> print(schema)
    tk::add.out(Tensor x1, Tensor x2, *, Tensor(a!) out) -> Tensor(a!)
    """

    namespace: str | None
    base_name: str
    overload_name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]

    @property
    def name(self) -> str:
        """The qualified name without the overload, such as ``"tk::add"``; without a namespace just ``"add"``."""
        return self.base_name if self.namespace is None else f"{self.namespace}::{self.base_name}"

    @property
    def is_mutable(self) -> bool:
        """Whether the operator writes to any of its arguments."""
        return any(argument.is_mutable for argument in self.arguments)

    def with_namespace(self, namespace: str | None) -> FunctionSchema:
        """Return the same schema in another namespace; raise SchemaError if `namespace` is not an identifier.

        >>> str(tk.dispatch.parse_schema("f(Tensor x) -> Tensor").with_namespace("mine"))
        'mine::f(Tensor x) -> Tensor'
        """
        if namespace is not None and (not _is_name(namespace) or keyword.iskeyword(namespace)):
            rule = f"{quoted(namespace)} cannot be a namespace."
            raise SchemaError(rule, "Use an ASCII identifier that is not a Python keyword.", namespace)
        return FunctionSchema(namespace, self.base_name, self.overload_name, self.arguments, self.returns)

    def __str__(self) -> str:
        parts: list[str] = []
        for index, argument in enumerate(self.arguments):
            if argument.kwarg_only and (index == 0 or not self.arguments[index - 1].kwarg_only):
                parts.append("*")
            parts.append(str(argument))
        results = ", ".join(map(str, self.returns))
        # Parentheses are dropped only where a bare type reads back as the same single, unnamed result.
        if len(self.returns) != 1 or self.returns[0].name is not None or results.startswith("("):
            results = f"({results})"
        overload = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{overload}({', '.join(parts)}) -> {results}"


def _tuple_text(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _aliased(type_: SchemaType, alias: AliasInfo | None) -> str:
    # An annotated type is a Tensor with suffixes, so that its text starts with the word.
    return str(type_) if alias is None else str(type_).replace("Tensor", f"Tensor{alias}", 1)


def _default_text(type_: SchemaType, value: object) -> str:
    """Return the canonical text of a default, from which the parser reads the same value."""
    if isinstance(type_, OptionalType):
        return "None" if value is None else _default_text(type_.element, value)
    if isinstance(type_, ListType) and isinstance(value, (list, tuple)):
        items = [_default_text(type_.element, item) for item in value]
        if type_.size is not None and type_.element == BaseType("int") and len(set(items)) == 1:
            return items[0]
        return f"[{', '.join(items)}]"
    if isinstance(type_, TupleType) and isinstance(value, (list, tuple)):
        return _tuple_text([_default_text(element, item) for element, item in zip(type_.elements, value, strict=True)])
    if isinstance(type_, BaseType) and type_.name in NAMED_TYPES:
        name = str(value)
        is_bare = _is_name(name) and name not in CONSTANTS and name not in SPECIAL_NUMBERS
        return name if is_bare else repr(name)
    return repr(value).strip("()") if isinstance(value, complex) else repr(value)
