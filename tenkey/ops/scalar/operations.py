"""The closed set of scalar operations: arity, kinds of operands and result, and how each is written.

This table is data only. `expression` checks new nodes against it, `functions` provides a Python function per entry,
`reference` computes each entry on Python numbers, and `differentiate` and `emit` must handle every entry or reject it
by name. Names are those of the Python array API standard (2023.12) where it has the function.

>>> OPERATIONS["hypot"].operand_kinds
('number', 'number')
>>> OPERATIONS["less"].kind
'boolean'
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from ..._util.record import Record

__all__ = ["ATOM_PRECEDENCE", "OPERATIONS", "POWER_PRECEDENCE", "UNARY_PRECEDENCE", "Kind", "Operation"]

Kind: TypeAlias = Literal["number", "boolean"]

# Python's precedences, so that the text of an expression is Python source for the same expression.
_COMPARISON: Final = 1
_OR: Final = 2
_XOR: Final = 3
_AND: Final = 4
_SHIFT: Final = 5
_SUM: Final = 6
_PRODUCT: Final = 7
UNARY_PRECEDENCE: Final = 8
POWER_PRECEDENCE: Final = 9
ATOM_PRECEDENCE: Final = 10


class Operation(Record, frozen=True):
    """An operation. `operand_kinds` determines the arity; `symbol` is None for operations written as calls.

    Only the result kind of `where` is not fixed: it is the kind of the branches.
    """

    name: str
    operand_kinds: tuple[Kind, ...]
    kind: Kind
    symbol: str | None = None
    precedence: int = ATOM_PRECEDENCE


def _calls(names: str, operand_kinds: tuple[Kind, ...], kind: Kind) -> list[Operation]:
    return [Operation(name, operand_kinds, kind) for name in names.split()]


_ONE_NUMBER: Final[tuple[Kind, ...]] = ("number",)
_TWO_NUMBERS: Final[tuple[Kind, ...]] = ("number", "number")
_TWO_BOOLEANS: Final[tuple[Kind, ...]] = ("boolean", "boolean")

_ALL: Final[list[Operation]] = [
    # `eps`, the spacing of numbers at 1, has no operands: its value depends on the compute type.
    Operation("eps", (), "number"),
    Operation("add", _TWO_NUMBERS, "number", "+", _SUM),
    Operation("subtract", _TWO_NUMBERS, "number", "-", _SUM),
    Operation("multiply", _TWO_NUMBERS, "number", "*", _PRODUCT),
    Operation("divide", _TWO_NUMBERS, "number", "/", _PRODUCT),
    Operation("floor_divide", _TWO_NUMBERS, "number", "//", _PRODUCT),
    Operation("remainder", _TWO_NUMBERS, "number", "%", _PRODUCT),
    Operation("pow", _TWO_NUMBERS, "number", "**", POWER_PRECEDENCE),
    Operation("negative", _ONE_NUMBER, "number", "-", UNARY_PRECEDENCE),
    Operation("less", _TWO_NUMBERS, "boolean", "<", _COMPARISON),
    Operation("less_equal", _TWO_NUMBERS, "boolean", "<=", _COMPARISON),
    Operation("greater", _TWO_NUMBERS, "boolean", ">", _COMPARISON),
    Operation("greater_equal", _TWO_NUMBERS, "boolean", ">=", _COMPARISON),
    Operation("equal", _TWO_NUMBERS, "boolean", "==", _COMPARISON),
    Operation("not_equal", _TWO_NUMBERS, "boolean", "!=", _COMPARISON),
    Operation("logical_and", _TWO_BOOLEANS, "boolean", "&", _AND),
    Operation("logical_or", _TWO_BOOLEANS, "boolean", "|", _OR),
    Operation("logical_xor", _TWO_BOOLEANS, "boolean", "^", _XOR),
    Operation("logical_not", ("boolean",), "boolean", "~", UNARY_PRECEDENCE),
    Operation("bitwise_and", _TWO_NUMBERS, "number", "&", _AND),
    Operation("bitwise_or", _TWO_NUMBERS, "number", "|", _OR),
    Operation("bitwise_xor", _TWO_NUMBERS, "number", "^", _XOR),
    Operation("bitwise_invert", _ONE_NUMBER, "number", "~", UNARY_PRECEDENCE),
    Operation("bitwise_left_shift", _TWO_NUMBERS, "number", "<<", _SHIFT),
    Operation("bitwise_right_shift", _TWO_NUMBERS, "number", ">>", _SHIFT),
    Operation("where", ("boolean", "number", "number"), "number"),
    Operation("fma", ("number", "number", "number"), "number"),
    *_calls("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt square reciprocal", _ONE_NUMBER, "number"),
    *_calls("sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh", _ONE_NUMBER, "number"),
    *_calls("erf erfc lgamma digamma trigamma", _ONE_NUMBER, "number"),
    *_calls("abs sign floor ceil trunc round", _ONE_NUMBER, "number"),
    *_calls("atan2 hypot copysign nextafter maximum minimum", _TWO_NUMBERS, "number"),
    *_calls("isnan isinf isfinite signbit", _ONE_NUMBER, "boolean"),
]

OPERATIONS: Final[dict[str, Operation]] = {operation.name: operation for operation in _ALL}
