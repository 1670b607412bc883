"""The parser of the schema language (Note [Schema language])."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Callable
from typing import Final

from ..errors import SchemaError
from .types import (
    BASE_NAMES,
    CONSTANTS,
    NAMED_TYPES,
    SPECIAL_NUMBERS,
    AliasInfo,
    Argument,
    BaseType,
    FunctionSchema,
    ListType,
    OptionalType,
    Return,
    SchemaType,
    TupleType,
    quoted,
)

__all__ = ["Parser"]

# Bounds that protect the stack, the memory, and Python's own limit on the digits of an int from hostile text.
_MAX_NESTING: Final = 32
_MAX_LIST_SIZE: Final = 1024
_MAX_DIGITS: Final = 300

_EMPTY = ("the schema is empty.", "Write it like 'ns::op(Tensor x, int n=1) -> Tensor'.")
_NO_ALIAS_SETS = ("an alias annotation holds names, '|' and '!' only.", "Write '(a)' for a view, '(a!)' for a write.")
_SYNONYMS: Final = {
    "SymInt": "int",
    "double": "float",
    "number": "Scalar",
    "string": "str",
    "ScalarType": "DType",
    "Optional": "Tensor?",
    "list": "int[]",
    "tuple": "(int, int)",
}


class _Quoted(str):
    """A string literal, as opposed to a bare name; both are stored as plain str."""

    __slots__ = ()


class _Bare(str):
    """A bare name such as float32."""

    __slots__ = ()


# Base type -> the literals that can be its default, their conversion (None: stored as they are), and the remedy.
_DEFAULTS: Final[dict[str, tuple[tuple[type, ...], Callable[..., object] | None, str]]] = {
    "Tensor": ((), None, "A tensor has no default; declare it 'Tensor?' and write None."),
    "int": ((int,), None, "Write an integer such as 1, or declare the argument 'float' or 'Scalar'."),
    "float": ((int, float), float, "Write a number such as 1.5, 1e-3, inf or nan."),
    "bool": ((bool,), None, "Write True or False."),
    "complex": ((int, float, complex), complex, "Write a number such as 1, 1.5 or 2+3j."),
    "Scalar": ((bool, int, float, complex), None, "Write a number, or True or False."),
    "str": ((_Quoted,), str, "Write a string in quotes."),
    "DType": ((_Quoted, _Bare), str, "Write a name such as float32."),
    "Device": ((_Quoted, _Bare), str, "Write a name such as cpu or 'cuda:0'."),
    "Index": ((), None, "An index has no default."),
}

BASE_TYPES: Final = {name: BaseType(name) for name in BASE_NAMES}
_INT: Final = BASE_TYPES["int"]

# One expression splits the text; `bad` is any character that does not start a token, such as an unclosed quote.
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?j?)
    |(?P<mark>->|::|[()\[\],?*!|=.+-])|(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<bad>\S))""",
    re.ASCII | re.VERBOSE,
)
_DEVICE_NAME: Final = r"[A-Za-z_]\w*(?::\d+)?"  # rare, and therefore compiled on use
_PLAIN_ESCAPES: Final = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}


class Parser:
    """Recursive descent over the tokens of one text; `_MAX_NESTING` bounds the depth."""

    __slots__ = ("_index", "_text", "_tokens")

    def __init__(self, text: str) -> None:
        self._text = text
        self._index = 0
        self._tokens = [
            (kind, match[kind], match.start(kind)) for match in _TOKEN.finditer(text) if (kind := match.lastgroup)
        ]
        self._tokens.append(("end", "", len(text)))

    # Tokens. Strings keep their quotes, so that no other token has the value of a mark.

    def _at(self, mark: str) -> bool:
        return self._tokens[self._index][1] == mark

    def _accept(self, mark: str) -> bool:
        if self._tokens[self._index][1] == mark:
            self._index += 1
            return True
        return False

    def _expect(self, mark: str, expected: str, remedy: str) -> None:
        if not self._accept(mark):
            raise self._unexpected(expected, remedy)

    @property
    def _column(self) -> int:
        return self._tokens[self._index][2]

    def _error(self, rule: str, remedy: str, column: int | None = None) -> SchemaError:
        return SchemaError(rule, remedy, self._text, self._column if column is None else column)

    def _unexpected(self, expected: str, remedy: str) -> SchemaError:
        kind, value, _ = self._tokens[self._index]
        if kind == "end":
            return self._error(f"the text ends where {expected} is expected.", remedy)
        if kind == "bad" and value in "'\"":
            return self._error("this string is not closed on its line.", f"Close it with {value}.")
        if kind == "bad":
            return self._error(f"the character {value!r} has no meaning here.", f"Expected is {expected}. {remedy}")
        return self._error(f"{quoted(value)} stands where {expected} is expected.", remedy)

    def _identifier(self, expected: str, remedy: str) -> str:
        kind, value, _ = self._tokens[self._index]
        if kind != "name":
            raise self._unexpected(expected, remedy)
        if keyword.iskeyword(value):
            raise self._error(f"{value!r} is a Python keyword and cannot be {expected}.", f"Write '{value}_', say.")
        self._index += 1
        return value

    # The parts of a schema.

    def schema(self) -> FunctionSchema:
        """Parse the whole text as one schema."""
        if self._tokens[0][0] == "end":
            raise self._error(*_EMPTY, column=0)
        namespace, overload = None, ""
        base = self._identifier("an operator name", "A name is an ASCII identifier, like 'ns::op'.")
        if self._accept("::"):
            namespace, base = base, self._identifier("an operator name", "After '::' write one name, like 'ns::op'.")
        if self._accept("."):
            column = self._column
            overload = self._identifier("an overload name", "After '.' write a name, like 'op.out'.")
            if overload == "default":
                rule = "'default' is what the overload without a name is called."
                raise self._error(rule, "Leave '.default' out.", column)
        self._expect("(", "'('", "The arguments follow the name in parentheses.")
        arguments = self._arguments()
        self._expect("->", "'->'", "After the arguments write '-> Tensor', or '-> ()' if the operator returns nothing.")
        returns = self._returns(arguments)
        if self._tokens[self._index][0] != "end":
            raise self._unexpected("the end of the schema", "Remove what follows the results.")
        return FunctionSchema(namespace, base, overload, arguments, returns)

    def _arguments(self) -> tuple[Argument, ...]:
        if self._accept(")"):
            return ()
        arguments: list[Argument] = []
        names: set[str] = set()
        kwarg_only = False
        while True:
            column = self._column
            if self._accept("*"):
                if kwarg_only:
                    raise self._error("'*' stands twice.", "Remove one: all after a '*' is keyword-only.", column)
                kwarg_only = True
                if not self._at(")"):
                    self._expect(",", "',' after '*'", "For many values declare a list, like 'Tensor[] xs'.")
                if self._at(")"):
                    raise self._error("no argument follows '*'.", "Remove '*', or add an argument after it.", column)
                continue
            argument = self._argument(names, kwarg_only=kwarg_only)
            if not (kwarg_only or argument.has_default) and arguments and arguments[-1].has_default:
                before = arguments[-1].name
                rule = f"{quoted(argument.name)} has no default and follows {quoted(before)}, which has one."
                remedy = "Give it a default, or move it before the others or after a '*'."
                raise self._error(rule, remedy, column)
            arguments.append(argument)
            if not self._accept(","):
                break
        self._expect(")", "',' or ')'", "Separate arguments by ',' and close the list with ')'.")
        return tuple(arguments)

    def _argument(self, names: set[str], *, kwarg_only: bool) -> Argument:
        type_, alias, _ = self._type()
        column = self._column
        name = self._identifier("an argument name", "An argument is a type and a name, like 'Tensor x'.")
        if name in names:
            raise self._error(f"two arguments are called {quoted(name)}.", "Rename one of them.", column)
        names.add(name)
        has_default = self._accept("=")
        default = self._default(type_) if has_default else None
        return Argument(name, type_, default, has_default, kwarg_only, alias)

    def _returns(self, arguments: tuple[Argument, ...]) -> tuple[Return, ...]:
        names: set[str] = set()
        if not self._accept("("):
            return (self._return(arguments, names),)
        returns: list[Return] = []
        if not self._accept(")"):
            returns.append(self._return(arguments, names))
            while self._accept(","):
                returns.append(self._return(arguments, names))
            self._expect(")", "',' or ')'", "Separate results by ',' and close the list with ')'.")
        if self._at("?") or self._at("["):
            raise self._unexpected(
                "the end of the schema",
                "For one result that is a list or an optional of tuples, add parentheses: '((int, int)[])'.",
            )
        return tuple(returns)

    def _return(self, arguments: tuple[Argument, ...], names: set[str]) -> Return:
        column = self._column
        type_, alias, _ = self._type()
        if alias is not None:
            known = [argument.alias for argument in arguments if argument.alias is not None]
            for name in alias.names:
                sources = [info for info in known if name in info.names]
                if not sources:
                    rule = f"the result aliases {quoted(name)}, which no argument is annotated with."
                    remedy = f"Write 'Tensor({name})' at the argument that it shares memory with."
                    raise self._error(rule, remedy, column)
                if alias.is_write and not any(info.is_write for info in sources):
                    rule = f"the result is marked as written to, but no argument in {quoted(name)} is."
                    raise self._error(rule, f"Write '({name}!)' at the argument, or '({name})' here.", column)
        if self._tokens[self._index][0] != "name":
            return Return(None, type_, alias)
        column = self._column
        result = self._identifier("a result name", "A result is a type and, optionally, a name.")
        if result in names:
            raise self._error(f"two results are called {quoted(result)}.", "Rename one of them.", column)
        names.add(result)
        return Return(result, type_, alias)

    # Types.

    def _type(self, depth: int = 0) -> tuple[SchemaType, AliasInfo | None, int]:
        """Parse a type inside `depth` tuples; return it, its alias annotation, and its height (0 for a base type)."""
        kind, value, _ = self._tokens[self._index]
        type_: SchemaType
        alias, height = None, 0
        if value == "(":
            type_, height = self._tuple_type(depth + 1)
        else:
            base = BASE_TYPES.get(value)
            if base is None:
                raise self._no_type(kind, value)
            self._index += 1
            type_ = base
            if self._at("("):
                alias = self._alias(base, depth)
        while (mark := self._tokens[self._index][1]) in ("?", "[", "("):
            column = self._column
            if mark == "(":
                remedy = "Write it right after Tensor, like 'Tensor(a!)?' or 'Tensor(a!)[]'."
                raise self._error("an alias annotation stands after '?', ']' or ')'.", remedy)
            self._index += 1
            if mark == "?":
                if isinstance(type_, OptionalType):
                    raise self._error("the type is optional already.", "Remove one '?'.", column)
                type_ = OptionalType(type_)
            else:
                type_ = ListType(type_, None if self._at("]") else self._list_size())
                self._expect("]", "']'", "A list type is written 'int[]', or 'int[2]' for exactly two items.")
            height += 1
            self._check_nesting(depth + height, column)
        return type_, alias, height

    def _tuple_type(self, depth: int) -> tuple[TupleType, int]:
        column = self._column
        self._check_nesting(depth, column)
        self._index += 1
        elements: list[SchemaType] = []
        height, comma = 0, False
        while not self._at(")"):
            element, _, element_height = self._type(depth)
            elements.append(element)
            height = max(height, element_height)
            comma = self._accept(",")
            if not comma:
                break
        self._expect(")", "',' or ')'", "A tuple type is written '(Tensor, int)'.")
        if not elements or (len(elements) == 1 and not comma):
            remedy = "Write a tuple type like '(Tensor, int)' or '(int,)', and a single type without parentheses."
            raise self._error("parentheses around fewer than two types, and no comma.", remedy, column)
        return TupleType(tuple(elements)), height + 1

    def _check_nesting(self, depth: int, column: int) -> None:
        if depth > _MAX_NESTING:
            raise self._error(f"types are nested more than {_MAX_NESTING} deep.", "Use a flatter type.", column)

    def _list_size(self) -> int:
        kind, value, column = self._tokens[self._index]
        # Digits are counted first: Python refuses to convert an int that is too long.
        if kind != "number" or not value.isdigit() or len(value) > 9 or not 1 <= int(value) <= _MAX_LIST_SIZE:
            rule = f"{quoted(value)} is not the size of a list." if value else "the text ends in a list type."
            raise self._error(rule, f"Write '[]', or '[N]' with N from 1 to {_MAX_LIST_SIZE}.", column)
        self._index += 1
        return int(value)

    def _no_type(self, kind: str, value: str) -> SchemaError:
        if kind != "name":
            return self._unexpected("a type", f"Types are {', '.join(BASE_TYPES)}.")
        if self._tokens[self._index + 1][1] in (",", ")", "="):
            return self._error(f"{quoted(value)} has no type.", f"Write 'Tensor {value[:40]}', say.")
        import difflib

        close = difflib.get_close_matches(value, BASE_TYPES, n=2)
        close = [_SYNONYMS[value]] if value in _SYNONYMS else close
        remedy = f"Did you mean {' or '.join(map(repr, close))}?" if close else f"Types are {', '.join(BASE_TYPES)}."
        return self._error(f"{quoted(value)} is not a type.", remedy)

    def _alias(self, base: BaseType, depth: int) -> AliasInfo:
        column = self._column
        self._index += 1
        names = {self._identifier("an alias name", "An alias annotation is written '(a)' or '(a!)'.")}
        while self._accept("|"):
            names.add(self._identifier("an alias name", "After '|' write the name of another alias set."))
        is_write = self._accept("!")
        if self._at("->") or self._at("*"):
            raise self._error(*_NO_ALIAS_SETS)
        self._expect(")", "')'", "An alias annotation is written '(a)' or '(a!)'.")
        if not base.is_tensor_like:
            rule = f"{base} has an alias annotation, but only a Tensor can be shared or written to."
            raise self._error(rule, "Remove the annotation.", column)
        if depth:
            remedy = "Declare the tensor as an argument or a result of its own."
            raise self._error("an alias annotation stands inside a tuple type.", remedy, column)
        return AliasInfo(tuple(sorted(names)), is_write)

    # The type directs how a default is parsed, so the nesting of types bounds that of defaults.

    def _default(self, type_: SchemaType) -> object:
        _, value, column = self._tokens[self._index]
        if isinstance(type_, OptionalType):
            return None if self._accept("None") else self._default(type_.element)
        if isinstance(type_, ListType) and value == "[":
            return self._items((type_.element,), type_.size, type_)
        if isinstance(type_, TupleType) and value == "(":
            return self._items(type_.elements, len(type_.elements), type_)
        literal: object = value
        if value in ("[", "("):
            self._index += 1
        else:
            literal = self._literal()
        if isinstance(type_, BaseType):
            accepted, convert, _ = _DEFAULTS[type_.name]
            is_name = type_.name not in NAMED_TYPES or re.fullmatch(_DEVICE_NAME, str(literal), re.ASCII)
            if type(literal) in accepted and is_name:
                return literal if convert is None else convert(literal)
        elif isinstance(type_, ListType) and type_.size and type_.element == _INT and type(literal) is int:
            return (literal,) * type_.size
        raise self._misfit(type_, literal, column)

    def _items(self, types: tuple[SchemaType, ...], size: int | None, type_: SchemaType) -> tuple[object, ...]:
        _, opening, column = self._tokens[self._index]
        closing = "]" if opening == "[" else ")"
        self._index += 1
        items: list[object] = []
        while not self._at(closing):
            items.append(self._default(types[min(len(items), len(types) - 1)]))
            if not self._accept(","):
                break
        self._expect(closing, f"',' or '{closing}'", f"Separate items by ',' and close them with '{closing}'.")
        if size is not None and len(items) != size:
            raise self._error(f"{len(items)} items do not fit the type {type_}.", f"Write {size} items.", column)
        return tuple(items)

    def _misfit(self, type_: SchemaType, literal: object, column: int) -> SchemaError:
        _, last, start = self._tokens[self._index - 1]
        source = self._text[column : start + len(last)]
        if literal is None:
            remedy = f"Declare the type '{type_}?' to allow None."
        elif isinstance(type_, BaseType):
            remedy = _DEFAULTS[type_.name][2]
        else:
            remedy = "Write a list like [1, 2]." if isinstance(type_, ListType) else "Write a tuple like (1, 2)."
        return self._error(f"the default {source[:40]} does not fit the type {type_}.", remedy, column)

    def _literal(self) -> object:
        kind, value, column = self._tokens[self._index]
        if kind == "string":
            self._index += 1
            return _Quoted(self._unescaped(value, column))
        if kind == "number" or value in ("+", "-") or value in SPECIAL_NUMBERS:
            return self._number()
        if kind != "name":
            raise self._unexpected("a default", "Write a value after '='.")
        self._index += 1
        return CONSTANTS[value] if value in CONSTANTS else _Bare(value)

    def _number(self) -> complex:
        column = self._column
        real = self._signed()
        if real.endswith("j"):
            return complex(0.0, float(real[:-1]))
        if self._at("+") or self._at("-"):
            kind, following, _ = self._tokens[self._index + 1]
            if following.endswith("j") and (kind == "number" or following in SPECIAL_NUMBERS):
                return complex(float(real), float(self._signed()[:-1]))
        if not real.lstrip("-").isdigit():
            return float(real)
        if len(real) > _MAX_DIGITS:
            rule = f"the integer has more than {_MAX_DIGITS - 1} digits."
            raise self._error(rule, "Write it with fewer.", column)
        return int(real)

    def _signed(self) -> str:
        """Parse a real or imaginary number; return its text, which begins with '-' if it is negative."""
        sign = "-" if self._at("-") else ""
        if self._at("-") or self._at("+"):
            self._index += 1
        kind, value, _ = self._tokens[self._index]
        if kind != "number" and value not in SPECIAL_NUMBERS:
            raise self._unexpected("a number", "Write a number after the sign.")
        self._index += 1
        return sign + value

    def _unescaped(self, source: str, column: int) -> str:
        def character(match: re.Match[str]) -> str:
            code = match[0][1:]
            if code in _PLAIN_ESCAPES:
                return _PLAIN_ESCAPES[code]
            if len(code) > 1 and (point := int(code[1:], 16)) <= sys.maxunicode:
                return chr(point)
            remedy = r"Known are \\, \', \", \n, \r, \t, \xHH, \uHHHH and \UHHHHHHHH."
            raise self._error(f"{match[0]} is not an escape sequence.", remedy, column + 1 + match.start())

        return re.sub("\\\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", character, source[1:-1])
