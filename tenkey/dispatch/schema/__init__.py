"""The schema language: the name of an operator, its arguments, mutations and results.

Note [Schema language]
~~~~~~~~~~~~~~~~~~~~~~
::

    schema    = [ns "::"] op ["." overload] "(" [arguments] ")" "->" returns
    arguments = argument, ... with one "*" before the keyword-only ones
    argument  = type name ["=" default]
    returns   = type | "()" | "(" type [name] "," ... ")"
    type      = (base [alias] | "(" type "," ... ")") { "?" | "[]" | "[N]" }
    base      = Tensor int float bool complex Scalar str DType Device Index
    alias     = "(" name { "|" name } ["!"] ")"          on Tensor only; "!" marks what the operator writes to

- ``-> (Tensor, int)`` are two results; one result that is a tuple is written ``-> ((Tensor, int))``.
- A tuple type of one element is written ``(int,)``, as in Python.
- A default is stored as the value that a kernel receives: sequences as tuples, numbers converted to the declared
  ``float`` or ``complex``, a single int for ``int[N]`` repeated N times, DType and Device as ``str``.
- ``str(schema)`` is the canonical text, which parses to an equal schema. Defaults are compared by their canonical text,
  so that ``nan`` equals ``nan``, and ``1``, ``True`` and ``1.0`` of a Scalar differ.

The notation is that of PyTorch's operator schemas (``aten/src/ATen/native/README.md``), with tuples, complex numbers
and names for dtypes and devices added. Guarded by ``tests/tiny/test_schema.py`` and
``tests/dispatch/test_schema_fuzz.py``.
"""

from __future__ import annotations

from typing import Final

from ..errors import SchemaError
from .parser import Parser
from .types import AliasInfo, Argument, BaseType, FunctionSchema, ListType, OptionalType, Return, SchemaType, TupleType

__all__ = [
    "AliasInfo", "Argument", "BaseType", "FunctionSchema", "ListType", "OptionalType", "Return", "SchemaType",
    "TupleType", "parse_schema",
]  # fmt: skip

_MOST: Final = 4096
_parsed: Final[dict[str, tuple[tuple[Argument, ...], tuple[Return, ...]]]] = {}
"""Arguments and results by their text: many operators share them, and each text is parsed once."""


def parse_schema(text: str) -> FunctionSchema:
    """Parse one schema (Note [Schema language]). Equal texts give equal, immutable schemas.

    Raise SchemaError, with the column, the rule and a remedy, for a text that is not a schema and for other objects.

    >>> schema = parse_schema("tk::clip(Tensor x, Scalar? min=None, Scalar? max=None) -> Tensor")
    >>> [argument.name for argument in schema.arguments], schema.arguments[1].default
    (['x', 'min', 'max'], None)
    >>> parse_schema("f(int n=1.5) -> Tensor")
    Traceback (most recent call last):
        ...
    tenkey.dispatch.errors.SchemaError: [schema] column 8: the default 1.5 does not fit the type int. Write an \
integer such as 1, or declare the argument 'float' or 'Scalar'.
        f(int n=1.5) -> Tensor
                ^
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers need not be typed
        raise SchemaError(f"a schema is a str, but {type(text).__name__} was given.", "Pass the schema's text.")
    head, _, tail = text.partition("(")
    known = _parsed.get(tail)
    if known is not None:
        name = Parser(head).name_alone()
        if name is not None:
            return FunctionSchema(*name, *known)
    schema = Parser(text).schema()
    if len(_parsed) < _MOST:
        _parsed[tail] = schema.arguments, schema.returns
    return schema
