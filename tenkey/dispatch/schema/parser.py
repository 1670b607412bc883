"""The parser of the schema language (Note [Schema language])."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Callable, Iterator
from typing import Final

from ..diagnostics import schema_errors
from ..diagnostics.schema_errors import kind_of, quoted
from ..errors import SchemaError
from .types import (
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
)

__all__ = ["Parser"]

# Bounds that protect the stack, the memory, and Python's own limit on the digits of an int from hostile text.
_MAX_NESTING: Final = 32
_MAX_LIST_SIZE: Final = 1024
_MAX_DIGITS: Final = 300

# Base type -> the kinds of literals that can be its default, their conversion (None: stored as they are), the remedy.
_DEFAULTS: Final[dict[str, tuple[tuple[str, ...], Callable[..., object] | None, str]]] = {
    "Tensor": ((), None, "A tensor has no default; declare it 'Tensor?' and write None."),
    "int": (("int",), None, "Write an integer such as 1, or declare the argument 'float' or 'Scalar'."),
    "float": (("int", "float"), float, "Write a number such as 1.5, 1e-3, inf or nan."),
    "bool": (("bool",), None, "Write True or False."),
    "complex": (("int", "float", "complex"), complex, "Write a number such as 1, 1.5 or 2+3j."),
    "Scalar": (("bool", "int", "float", "complex"), None, "Write a number, or True or False."),
    "str": (("string",), None, "Write a string in quotes."),
    "DType": (("string", "name"), None, "Write a name such as float32."),
    "Device": (("string", "name"), None, "Write a name such as cpu or 'cuda:0'."),
    "Index": ((), None, "An index has no default."),
}
_BASE_TYPES: Final = {name: BaseType(name) for name in _DEFAULTS}

# One expression splits the text; the last alternative is any character that does not start a token, like a lone quote.
_TOKEN: Final = re.compile(
    r"""\s*([A-Za-z_]\w*|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?j?|->|::|[()\[\],?*!|=.+-]
    |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\S)""",
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
        self._tokens: list[str] = [*_TOKEN.findall(text), ""]

    # Tokens: their texts, and "" at the end. Strings keep their quotes, so that no other token equals a mark.

    def _at(self, *marks: str) -> bool:
        return self._tokens[self._index] in marks

    def _accept(self, mark: str) -> bool:
        if self._tokens[self._index] == mark:
            self._index += 1
            return True
        return False

    def _expect(self, mark: str, remedy: str) -> None:
        if not self._accept(mark):
            raise self._unexpected(repr(mark), remedy)

    def _column(self, index: int) -> int:
        return [*(match.start(1) for match in _TOKEN.finditer(self._text)), len(self._text)][index]

    def _error(self, rule: str, remedy: str, index: int | None = None, offset: int = 0) -> SchemaError:
        return SchemaError(rule, remedy, self._text, self._column(self._index if index is None else index) + offset)

    def _unexpected(self, expected: str, remedy: str) -> SchemaError:
        return self._error(*schema_errors.unexpected(self._tokens[self._index], expected, remedy))

    def _identifier(self, expected: str, remedy: str, taken: set[str] | None = None) -> str:
        """Parse a name that is not among those in `taken`, and add it to them; `expected` is like 'a result name'."""
        value = self._tokens[self._index]
        if kind_of(value) != "name":
            raise self._unexpected(expected, remedy)
        if keyword.iskeyword(value):
            raise self._error(f"{value!r} is a Python keyword and cannot be {expected}.", f"Write '{value}_', say.")
        if taken is not None:
            if value in taken:
                raise self._error(f"two {expected.split()[1]}s are called {quoted(value)}.", "Rename one of them.")
            taken.add(value)
        self._index += 1
        return value

    def _items(self, closing: str, remedy: str, *, trailing: bool = False) -> Iterator[None]:
        """Go through items, separated by commas, up to `closing`: the caller's loop parses one item at each step."""
        comma = False
        while not self._at(closing) or (comma and not trailing):
            yield
            comma = self._accept(",")
            if not comma:
                break
        if not self._accept(closing):
            raise self._unexpected(f"',' or '{closing}'", remedy)

    # The parts of a schema.

    def schema(self) -> FunctionSchema:
        """Parse the whole text as one schema."""
        if not self._tokens[0]:
            raise SchemaError(
                "the schema is empty.", "Write it like 'ns::op(Tensor x, int n=1) -> Tensor'.", self._text, 0
            )
        namespace, base, overload = self._name()
        self._expect("(", "The arguments follow the name in parentheses.")
        arguments = self._arguments()
        self._expect("->", "After the arguments write '-> Tensor', or '-> ()' if the operator returns nothing.")
        returns = self._returns(arguments)
        if self._tokens[self._index]:
            raise self._unexpected("the end of the schema", "Remove what follows the results.")
        return FunctionSchema(namespace, base, overload, arguments, returns)

    def name_alone(self) -> tuple[str | None, str, str] | None:
        """Parse the whole text as the name of an operator; None if it is anything else."""
        try:
            name = self._name()
        except SchemaError:
            return None
        return None if self._tokens[self._index] else name

    def _name(self) -> tuple[str | None, str, str]:
        namespace, overload = None, ""
        base = self._identifier("an operator name", "A name is an ASCII identifier, like 'ns::op'.")
        if self._accept("::"):
            namespace, base = base, self._identifier("an operator name", "After '::' write one name, like 'ns::op'.")
        if self._accept("."):
            if self._at("default"):
                rule = "'default' is what the overload without a name is called."
                raise self._error(rule, "Leave '.default' out.")
            overload = self._identifier("an overload name", "After '.' write a name, like 'op.out'.")
        return namespace, base, overload

    def _arguments(self) -> tuple[Argument, ...]:
        arguments: list[Argument] = []
        names: set[str] = set()
        kwarg_only = False
        for _ in self._items(")", "Separate arguments by ',' and close the list with ')'."):
            start = self._index
            if self._accept("*"):
                if kwarg_only:
                    raise self._error("'*' stands twice.", "Remove one: all after a '*' is keyword-only.", start)
                kwarg_only = True
                comma = self._at(",")
                if self._tokens[self._index + comma] == ")":
                    raise self._error("no argument follows '*'.", "Remove '*', or add an argument after it.", start)
                if not comma:
                    raise self._unexpected("',' after '*'", "For many values declare a list, like 'Tensor[] xs'.")
                continue
            type_, alias, _ = self._type()
            name = self._identifier("an argument name", "An argument is a type and a name, like 'Tensor x'.", names)
            has_default = self._accept("=")
            if not (kwarg_only or has_default) and arguments and arguments[-1].has_default:
                rule = f"{quoted(name)} has no default and follows {quoted(arguments[-1].name)}, which has one."
                raise self._error(rule, "Give it a default, or move it before the others or after a '*'.", start)
            default = self._default(type_) if has_default else None
            arguments.append(Argument(name, type_, default, has_default, kwarg_only, alias))
        return tuple(arguments)

    def _returns(self, arguments: tuple[Argument, ...]) -> tuple[Return, ...]:
        names: set[str] = set()
        if not self._accept("("):
            return (self._return(arguments, names),)
        remedy = "Separate results by ',' and close the list with ')'."
        returns = tuple([self._return(arguments, names) for _ in self._items(")", remedy)])
        if self._at("?", "["):
            remedy = "For one result that is a list or an optional of tuples, add parentheses: '((int, int)[])'."
            raise self._unexpected("the end of the schema", remedy)
        return returns

    def _return(self, arguments: tuple[Argument, ...], names: set[str]) -> Return:
        start = self._index
        type_, alias, _ = self._type()
        if alias is not None:
            annotations = [argument.alias for argument in arguments if argument.alias is not None]
            known = {name for one in annotations for name in one.names}
            written = {name for one in annotations for name in one.names if one.is_write} if alias.is_write else known
            if not written.issuperset(alias.names):
                raise self._error(*schema_errors.no_alias(alias.names, known, written), start)
        if kind_of(self._tokens[self._index]) != "name":
            return Return(None, type_, alias)
        return Return(self._identifier("a result name", "", names), type_, alias)

    # Types.

    def _type(self, depth: int = 0) -> tuple[SchemaType, AliasInfo | None, int]:
        """Parse a type inside `depth` tuples; return it, its alias annotation, and its height (0 for a base type)."""
        value = self._tokens[self._index]
        type_: SchemaType
        alias, height = None, 0
        if value == "(":
            type_, height = self._tuple_type(depth + 1)
        elif value in _BASE_TYPES:
            type_ = _BASE_TYPES[value]
            self._index += 1
            if self._at("("):
                alias = self._alias(value, depth)
        else:
            following = self._tokens[self._index + 1] if value else ""
            raise self._error(*schema_errors.no_type(value, following, _BASE_TYPES))
        while (mark := self._tokens[self._index]) in ("?", "[", "("):
            start = self._index
            if mark == "(":
                remedy = "Write it right after Tensor, like 'Tensor(a!)?' or 'Tensor(a!)[]'."
                raise self._error("an alias annotation stands after '?', ']' or ')'.", remedy)
            self._index += 1
            if mark == "[":
                type_ = ListType(type_, None if self._at("]") else self._list_size())
                self._expect("]", "A list type is written 'int[]', or 'int[2]' for exactly two items.")
            elif isinstance(type_, OptionalType):
                raise self._error("the type is optional already.", "Remove one '?'.", start)
            else:
                type_ = OptionalType(type_)
            height += 1
            self._check_nesting(depth + height, start)
        return type_, alias, height

    def _tuple_type(self, depth: int) -> tuple[TupleType, int]:
        start = self._index
        self._check_nesting(depth, start)
        self._index += 1
        parsed = [
            self._type(depth) for _ in self._items(")", "A tuple type is written '(Tensor, int)'.", trailing=True)
        ]
        if not parsed or (len(parsed) == 1 and self._tokens[self._index - 2] != ","):
            remedy = "Write a tuple type like '(Tensor, int)' or '(int,)', and a single type without parentheses."
            raise self._error("parentheses around fewer than two types, and no comma.", remedy, start)
        return TupleType(tuple([element for element, _, _ in parsed])), 1 + max(height for _, _, height in parsed)

    def _check_nesting(self, depth: int, start: int) -> None:
        if depth > _MAX_NESTING:
            raise self._error(f"types are nested more than {_MAX_NESTING} deep.", "Use a flatter type.", start)

    def _list_size(self) -> int:
        value = self._tokens[self._index]
        # Digits are counted first: Python refuses to convert an int that is too long.
        if not (value.isascii() and value.isdigit()) or len(value) > 9 or not 1 <= int(value) <= _MAX_LIST_SIZE:
            rule = f"{quoted(value)} is not the size of a list." if value else "the text ends in a list type."
            raise self._error(rule, f"Write '[]', or '[N]' with N from 1 to {_MAX_LIST_SIZE}.")
        self._index += 1
        return int(value)

    def _alias(self, base: str, depth: int) -> AliasInfo:
        start = self._index
        self._index += 1
        usual = "An alias annotation is written '(a)' or '(a!)'."
        names = {self._identifier("an alias name", usual)}
        while self._accept("|"):
            names.add(self._identifier("an alias name", "After '|' write the name of another alias set."))
        is_write = self._accept("!")
        if self._at("->", "*"):
            remedy = "Write '(a)' for a view, '(a!)' for a write."
            raise self._error("an alias annotation holds names, '|' and '!' only.", remedy)
        self._expect(")", usual)
        if base != "Tensor":
            rule = f"{base} has an alias annotation, but only a Tensor can be shared or written to."
            raise self._error(rule, "Remove the annotation.", start)
        if depth:
            remedy = "Declare the tensor as an argument or a result of its own."
            raise self._error("an alias annotation stands inside a tuple type.", remedy, start)
        return AliasInfo(tuple(sorted(names)), is_write)

    # The type directs how a default is parsed, so the nesting of types bounds that of defaults.

    def _default(self, type_: SchemaType) -> object:
        start = self._index
        value = self._tokens[start]
        if isinstance(type_, OptionalType):
            return None if self._accept("None") else self._default(type_.element)
        if isinstance(type_, ListType) and value == "[":
            return self._sequence((type_.element,), type_.size, type_)
        if isinstance(type_, TupleType) and value == "(":
            return self._sequence(type_.elements, len(type_.elements), type_)
        kind, literal = self._literal()
        if isinstance(type_, BaseType):
            kinds, convert, _ = _DEFAULTS[type_.name]
            is_name = type_.name not in NAMED_TYPES or re.fullmatch(_DEVICE_NAME, str(literal), re.ASCII)
            if kind in kinds and is_name:
                return literal if convert is None else convert(literal)
        elif isinstance(type_, ListType) and type_.size and type_.element == _BASE_TYPES["int"] and kind == "int":
            return (literal,) * type_.size
        last = self._index - 1
        source = self._text[self._column(start) : self._column(last) + len(self._tokens[last])]
        remedy = _DEFAULTS[type_.name][2] if isinstance(type_, BaseType) else ""
        raise self._error(*schema_errors.misfit(source, str(type_), kind, remedy), start)

    def _sequence(self, types: tuple[SchemaType, ...], size: int | None, type_: SchemaType) -> tuple[object, ...]:
        start = self._index
        closing = "]" if self._at("[") else ")"
        self._index += 1
        items: list[object] = []
        for _ in self._items(closing, f"Separate items by ',' and close them with '{closing}'.", trailing=True):
            items.append(self._default(types[min(len(items), len(types) - 1)]))
        if size is not None and len(items) != size:
            raise self._error(f"{len(items)} items do not fit the type {type_}.", f"Write {size} items.", start)
        return tuple(items)

    def _literal(self) -> tuple[str, object]:
        """Parse a literal; return its kind ('string', 'name' or the name of its Python type) and its value."""
        value = self._tokens[self._index]
        kind = kind_of(value)
        if kind == "number" or value in ("+", "-") or value in SPECIAL_NUMBERS:
            number = self._number()
            return type(number).__name__, number
        if kind not in ("string", "name") and value not in ("[", "("):
            raise self._unexpected("a default", "Write a value after '='.")
        self._index += 1
        if value in CONSTANTS:
            return type(CONSTANTS[value]).__name__, CONSTANTS[value]
        return kind, self._unescaped(value, self._index - 1) if kind == "string" else value

    def _number(self) -> complex:
        start = self._index
        real = self._signed()
        if real.endswith("j"):
            return complex(0.0, float(real[:-1]))
        if self._at("+", "-"):
            following = self._tokens[self._index + 1]
            if following.endswith("j") and (kind_of(following) == "number" or following in SPECIAL_NUMBERS):
                return complex(float(real), float(self._signed()[:-1]))
        if not real.lstrip("-").isdigit():
            return float(real)
        if len(real) > _MAX_DIGITS:
            raise self._error(f"the integer has more than {_MAX_DIGITS - 1} digits.", "Write it with fewer.", start)
        return int(real)

    def _signed(self) -> str:
        """Parse a real or imaginary number; return its text, which begins with '-' if it is negative."""
        sign = "-" if self._at("-") else ""
        if self._at("-", "+"):
            self._index += 1
        value = self._tokens[self._index]
        if kind_of(value) != "number" and value not in SPECIAL_NUMBERS:
            raise self._unexpected("a number", "Write a number after the sign.")
        self._index += 1
        return sign + value

    def _unescaped(self, source: str, index: int) -> str:
        if "\\" not in source:
            return source[1:-1]

        def character(match: re.Match[str]) -> str:
            code = match[0][1:]
            if code in _PLAIN_ESCAPES:
                return _PLAIN_ESCAPES[code]
            if len(code) > 1 and (point := int(code[1:], 16)) <= sys.maxunicode:
                return chr(point)
            remedy = r"Known are \\, \', \", \n, \r, \t, \xHH, \uHHHH and \UHHHHHHHH."
            raise self._error(f"{match[0]} is not an escape sequence.", remedy, index, 1 + match.start())

        return re.sub("\\\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", character, source[1:-1])
