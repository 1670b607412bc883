"""Immutable, interned scalar expressions and their operators.

Note [Interning]
    A node is looked up by (operation, operands, value, name, kind) before it is created, so structurally equal
    expressions are one object: equality is `is`, hashing is by identity, and common subexpressions are shared without
    a search. The table holds its nodes weakly. Operands enter the key by `id`: they live as long as the node that
    holds them, and the entry of a dead node is never returned.
    `==` builds an expression, as in every symbolic library; dictionaries keyed by expressions still work, because live
    objects have different identity hashes, so `dict` never calls `==`. Do not use `in` on lists of expressions.
    Guarded by `test_equal_expressions_are_one_object` and `test_dead_expressions_leave_the_table`.

Note [No recursion]
    Generated expressions are deep (a loop that adds 10,000 terms is a chain of 10,000 nodes), so no function of this
    package traverses an expression by recursive calls. Guarded by `test_deep_chains`.
"""

from __future__ import annotations

import keyword
import numbers
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import ClassVar, Final, NoReturn, Self, TypeAlias, cast
from weakref import WeakValueDictionary

from ..._util.locks import new_lock
from .operations import ATOM_PRECEDENCE, OPERATIONS, POWER_PRECEDENCE, UNARY_PRECEDENCE, Kind

__all__ = [
    "DECIDE", "Expression", "Operand", "as_expression", "constant", "index", "make", "plain_number",
    "topological_order", "variable",
]  # fmt: skip

DECIDE: Final[ContextVar[Callable[[Expression], bool] | None]] = ContextVar("DECIDE", default=None)
"""The function that answers `bool(condition)` during a trace; None outside a trace."""

_NO_PYTHON_NUMBER: Final = (
    "the scalar expression `{0}` has no value yet, so Python's {1} cannot take it: use the functions of "
    "tk.library.scalar (tk.library.scalar.exp instead of math.exp or numpy.exp), and T(...) instead of float(...)."
)
_IMMUTABLE: Final = "scalar expressions are immutable: build a new one."
_ELLIPSIS_AFTER: Final = 400  # longer inner parts of a text are shown as `...`


_Method: TypeAlias = "Callable[[Expression, Operand], Expression]"


def _operator(operation: str) -> tuple[_Method, _Method]:
    """Return the methods that apply an operation with the expression on the left and on the right."""

    def left(self: Expression, other: Operand) -> Expression:
        return _binary(operation, self, other)

    def right(self: Expression, other: Operand) -> Expression:
        return _binary(operation, other, self)

    return left, right


def _unary(operation: str) -> Callable[[Expression], Expression]:
    return lambda self: make(operation, self)


def _refused(what: str) -> Callable[[Expression], NoReturn]:
    """Return a method by which Python would make a number of an expression."""

    def method(self: Expression) -> NoReturn:
        raise TypeError(_NO_PYTHON_NUMBER.format(self, what))

    return method


class Expression:
    """A node of a scalar expression graph; see Note [Interning].

    `operation` is a name from `OPERATIONS`, or "variable" or "index" (with `name`) or "constant" (with `value`).
    `kind` is "number" or "boolean".

    >>> x = variable("x")
    >>> print(1 + 2 * x**2 < 3)
    1 + 2 * x**2 < 3
    >>> x + 1 is x + 1
    True
    """

    __slots__ = ("__weakref__", "kind", "name", "operands", "operation", "value")

    operation: str
    operands: tuple[Expression, ...]
    value: bool | int | float | None
    name: str | None
    kind: Kind

    # NumPy scalars on the left (`np.float64(2) * x`) then return NotImplemented, and ufuncs raise an error.
    __array_ufunc__: ClassVar[None] = None

    def __new__(cls) -> Self:  # noqa: D102  # it only raises an error
        raise TypeError("expressions are made by variable(), constant() and the scalar functions, not by Expression().")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(_IMMUTABLE)

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(_IMMUTABLE)

    def __copy__(self) -> Expression:
        return self

    def __deepcopy__(self, memo: object) -> Expression:
        return self

    def __str__(self) -> str:
        return _text(self)

    def __repr__(self) -> str:
        return f"<scalar expression {_text(self)}>"

    # Operators. They return NotImplemented for operands other than numbers: Python's TypeError names both types.
    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("subtract")
    __mul__, __rmul__ = _operator("multiply")
    __truediv__, __rtruediv__ = _operator("divide")
    __floordiv__, __rfloordiv__ = _operator("floor_divide")
    __mod__, __rmod__ = _operator("remainder")
    __pow__, __rpow__ = _operator("pow")
    __and__, __rand__ = _operator("and")
    __or__, __ror__ = _operator("or")
    __xor__, __rxor__ = _operator("xor")
    __lshift__, __rlshift__ = _operator("bitwise_left_shift")
    __rshift__, __rrshift__ = _operator("bitwise_right_shift")
    __lt__ = _operator("less")[0]
    __le__ = _operator("less_equal")[0]
    __gt__ = _operator("greater")[0]
    __ge__ = _operator("greater_equal")[0]
    __neg__ = _unary("negative")
    __abs__ = _unary("abs")
    __floor__ = _unary("floor")
    __ceil__ = _unary("ceil")
    __trunc__ = _unary("trunc")
    __float__ = _refused("float() or math function")
    __int__ = _refused("int()")
    __index__ = _refused("indexing or range()")
    __complex__ = _refused("complex() or cmath function")

    __eq__ = _operator("equal")[0]  # type: ignore[assignment]  # an expression, see Note [Interning]
    __ne__ = _operator("not_equal")[0]  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __divmod__(self, other: Operand) -> tuple[Expression, Expression]:
        return self // other, self % other

    def __rdivmod__(self, other: Operand) -> tuple[Expression, Expression]:
        return other // self, other % self

    def __pos__(self) -> Expression:
        return self

    def __invert__(self) -> Expression:
        return make("logical_not" if self.kind == "boolean" else "bitwise_invert", self)

    def __round__(self, ndigits: int | None = None) -> Expression:
        if ndigits is not None:
            raise TypeError(f"round(x, {ndigits!r}): scalar expressions round to whole numbers only, write round(x).")
        return make("round", self)

    def __bool__(self) -> bool:
        if self.operation == "constant":
            return bool(self.value)
        decide = DECIDE.get()
        if decide is None:
            raise TypeError(
                f"the truth value of the scalar expression `{self}` is not known outside of a trace: "
                "write the choice as where(condition, a, b), and combine conditions by &, | and ~."
            )
        return decide(_to_kind(self, "boolean"))


Operand: TypeAlias = Expression | float
"""An operand of an operation: an expression or a real Python number (bool and int included)."""

_Key: TypeAlias = tuple[str, tuple[int, ...], object, str | None, Kind]
_nodes: WeakValueDictionary[_Key, Expression] = WeakValueDictionary()
_lock = new_lock()


def _intern(
    operation: str, operands: tuple[Expression, ...], kind: Kind, *, value: bool | float | None = None,
    value_key: object = None, name: str | None = None,
) -> Expression:  # fmt: skip
    key: _Key = (operation, tuple(map(id, operands)), value_key, name, kind)
    with _lock:
        node = _nodes.get(key)
        if node is None:
            node = object.__new__(Expression)
            content = {"operation": operation, "operands": operands, "value": value, "name": name, "kind": kind}
            for attribute, part in content.items():
                object.__setattr__(node, attribute, part)
            _nodes[key] = node
        return node


def variable(name: str, kind: Kind = "number") -> Expression:
    """Return the variable `name`, a Python identifier.

    >>> variable("x") is variable("x")
    True
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"a variable's name must be a Python identifier and not a keyword, got {name!r}.")
    return _intern("variable", (), kind, name=name)


def index(axis: int | None = None) -> Expression:
    """Return the index variable of an axis: the position of the element in the result, as a number.

    The axis counts from the end if it is negative; without it, the position is that in the whole result, in row-major
    order. An index variable is not a parameter of a scalar function: it has the name `index_0`, `index_m1` (axis -1) or
    `index_flat`, under which `evaluate` and emitted functions take its value.

    >>> print(index(0) * variable("x") + index(-1))
    index(0) * x + index(-1)
    """
    given: object = axis
    if given is not None and given.__class__ is not int:
        raise TypeError(f"index: an axis is an integer known to Python, got {given!r} of type {type(given).__name__}.")
    name = "index_flat" if axis is None else f"index_{axis}".replace("-", "m")
    return _intern("index", (), "number", name=name)


def plain_number(value: object) -> bool | int | float:
    """Convert `value` to a Python bool, int or float; TypeError unless it is a Python or NumPy number.

    >>> plain_number(3)
    3
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    item: Callable[[], object] | None = getattr(value, "item", None)  # NumPy's bool and 0-d arrays
    if getattr(value, "shape", None) == () and item is not None:
        value = item()
        if isinstance(value, bool | int | float):
            return value
    raise TypeError(
        f"expected a scalar expression or a real Python number, got {repr(value)[:80]} of type {type(value).__name__}: "
        "scalar functions see one element at a time, never arrays, strings or None."
    )


def constant(value: object) -> Expression:
    """Return the constant `value`; int, float and bool remain distinct, as do -0.0 and 0.0.

    >>> constant(1) is constant(1), constant(1) is constant(1.0), constant(0.0) is constant(-0.0)
    (True, False, False)
    """
    number = plain_number(value)
    # In Python 1 == 1.0 == True and nan != nan, so the key consists of type and bits.
    key = (type(number), number.hex() if isinstance(number, float) else number)
    return _intern("constant", (), "boolean" if isinstance(number, bool) else "number", value=number, value_key=key)


def as_expression(value: object) -> Expression:
    """Return `value` itself if it is an expression, else the constant of that value."""
    return value if isinstance(value, Expression) else constant(value)


def _to_kind(expression: Expression, kind: Kind) -> Expression:
    """Convert between kinds: a boolean as a number is 1 or 0; a number as a boolean is `!= 0`."""
    if expression.kind == kind:
        return expression
    if expression.operation == "constant":
        return constant(bool(expression.value) if kind == "boolean" else int(expression.value or 0))
    if kind == "boolean":
        return make("not_equal", expression, 0)
    return make("where", expression, 1, 0)


def make(operation: str, *operands: object) -> Expression:
    """Return the node `operation(*operands)`, unsimplified; numbers become constants, kinds are converted.

    Raises ValueError for an unknown operation, TypeError for the wrong number or type of operands.

    >>> print(make("where", variable("x") > 0, 1, make("exp", variable("x"))))
    where(x > 0, 1, exp(x))
    """
    entry = OPERATIONS.get(operation)
    if entry is None:
        raise ValueError(f"unknown scalar operation {operation!r}: the known ones are {', '.join(sorted(OPERATIONS))}.")
    if len(operands) != len(entry.operand_kinds):
        raise TypeError(f"{operation} takes {len(entry.operand_kinds)} operands, got {len(operands)}.")
    nodes = [as_expression(operand) for operand in operands]
    kinds: tuple[Kind, ...] = entry.operand_kinds
    kind = entry.kind
    if operation == "where" and nodes[1].kind == nodes[2].kind == "boolean":
        kinds, kind = ("boolean",) * 3, "boolean"
    return _intern(operation, tuple(_to_kind(node, wanted) for node, wanted in zip(nodes, kinds, strict=True)), kind)


_NOT_IMPLEMENTED: Final = cast(Expression, NotImplemented)  # type checkers know its role only in operator methods


def _binary(operation: str, left: object, right: object) -> Expression:
    """Call `make`, or return NotImplemented for an operand that is not a number; `and` may be logical or bitwise."""
    try:
        nodes = as_expression(left), as_expression(right)
    except TypeError:
        return _NOT_IMPLEMENTED
    if operation in ("and", "or", "xor"):
        family = "logical" if nodes[0].kind == nodes[1].kind == "boolean" else "bitwise"
        operation = f"{family}_{operation}"
    return make(operation, *nodes)


def topological_order(outputs: Iterable[Expression]) -> list[Expression]:
    """Return all nodes of `outputs` once, operands before their users; the order depends only on structure.

    >>> x = variable("x")
    >>> [str(node) for node in topological_order([x * x + 1])]
    ['x', 'x * x', '1', 'x * x + 1']
    """
    order: list[Expression] = []
    seen: set[Expression] = set()
    for output in outputs:
        stack = [(output, False)]
        while stack:
            node, operands_done = stack.pop()
            if operands_done:
                order.append(node)
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack.extend((operand, False) for operand in reversed(node.operands))
    return order


def _text(expression: Expression) -> str:
    """Return Python source of `expression`; a long inner part is shown as `...`."""
    texts: dict[Expression, tuple[str, int]] = {}
    for node in topological_order([expression]):
        parts = [
            texts[operand] if len(texts[operand][0]) <= _ELLIPSIS_AFTER else ("...", ATOM_PRECEDENCE)
            for operand in node.operands
        ]
        texts[node] = _node_text(node, parts)
    return texts[expression][0]


def _node_text(node: Expression, parts: list[tuple[str, int]]) -> tuple[str, int]:
    """Return the text and precedence of a node from those of its operands."""
    if node.operation == "variable":
        return str(node.name), ATOM_PRECEDENCE
    if node.operation == "index":
        axis = str(node.name).removeprefix("index_").replace("m", "-").replace("flat", "")
        return f"index({axis})", ATOM_PRECEDENCE
    if node.operation == "constant":
        text = repr(node.value)
        return text, UNARY_PRECEDENCE if text.startswith("-") else ATOM_PRECEDENCE
    entry = OPERATIONS[node.operation]
    if entry.symbol is None:
        arguments = ", ".join(text for text, _ in parts)
        return (f"{node.operation}({arguments})" if parts else node.operation), ATOM_PRECEDENCE
    own = entry.precedence
    if len(parts) == 1:
        return f"{entry.symbol}{_bracketed(parts[0], own)}", own
    if own == POWER_PRECEDENCE:  # the only right-associative operator; its exponent may be -x
        return f"{_bracketed(parts[0], own + 1)}**{_bracketed(parts[1], UNARY_PRECEDENCE)}", own
    compares = entry.kind == "boolean" and not node.operation.startswith("logical_")
    left_at_least = own + 1 if compares else own  # a < b < c chains
    return f"{_bracketed(parts[0], left_at_least)} {entry.symbol} {_bracketed(parts[1], own + 1)}", own


def _bracketed(part: tuple[str, int], at_least: int) -> str:
    text, precedence = part
    return text if precedence >= at_least else f"({text})"
