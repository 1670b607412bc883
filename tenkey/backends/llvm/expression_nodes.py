"""Expressions of the language of loops, and the names that they read and set: Note [A small language]."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from .instructions import select
from .value_types import Type
from .values import Body, Value, as_value, convert, truth

__all__ = ["BINARY", "Expressions", "LoopError", "Static", "Variable", "static"]


class LoopError(TypeError):
    """Raised for a function that cannot be translated; the message names its file and line."""


class Variable:
    """A name or an element of a list that may be assigned again: a place on the stack; LLVM puts it in a register."""

    __slots__ = ("place", "type")

    def __init__(self, body: Body, type_: Type) -> None:
        self.type = type_
        self.place = body.variable(type_)

    def get(self, body: Body) -> Value:
        """Write an instruction that reads it, and return the result."""
        return body.value(self.type, f"load {self.type.ir}, ptr {self.place}")

    def set(self, body: Body, value: Any) -> None:
        """Write an instruction that sets it."""
        if isinstance(value, Value) and value.type not in (self.type, self.type.scalar):
            raise TypeError(f"a variable of type {self.type} gets a value of type {value.type}: convert it.")
        body.write(f"store {convert(value, self.type).text}, ptr {self.place}")


class Variables(Sequence[Any]):
    """A list of variables: ``acc[k]`` reads one, ``acc[k] = value`` sets it."""

    def __init__(self, body: Body, values: Sequence[Value]) -> None:
        self._body = body
        self._items = [Variable(body, value.type) for value in values]
        for item, value in zip(self._items, values, strict=True):
            item.set(body, value)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [item.get(self._body) for item in self._items[index]]
        return self._items[index].get(self._body)

    def __setitem__(self, index: int, value: Any) -> None:
        self._items[index].set(self._body, value)


class Static:
    """Something that stays static although its name is assigned several times."""

    def __init__(self, value: Any) -> None:
        self.value = value


def static(value: Any) -> Any:
    """Keep a number static under a name that is assigned on several static branches."""
    return Static(value)


BINARY: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_COMPARE: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_UNARY: Final[dict[type, Callable[[Any], Any]]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip


def _negated(value: Any) -> Any:
    return truth(value) ^ True if isinstance(value, Value) else not value


class Expressions:
    """What the expressions of one function are, for one choice of its statics."""

    def __init__(
        self, function: Callable[..., Any], free: dict[str, Any], body: Body, assigned: dict[str, int]
    ) -> None:
        self.title = function.__name__
        self.file = function.__code__.co_filename
        self.line = function.__code__.co_firstlineno - 1
        self.body = body
        self.outside: dict[str, Any] = {**vars(builtins), **function.__globals__, **free}
        self.names: dict[str, Any] = {}
        self.assigned = assigned  # how often each name is

    # ---- errors and names

    def where(self, node: ast.AST) -> str:
        """Return the file and line of a node."""
        return f"{self.file}:{self.line + getattr(node, 'lineno', 1)}"

    def fail(self, node: ast.AST, text: str, cause: BaseException | None = None) -> NoReturn:
        """Raise an error that names the place."""
        raise LoopError(f"{self.where(node)}: [{self.title}] {text}") from cause

    def bind(self, name: str, value: Any, type_: Type | None = None) -> None:
        """Give a name a value: a variable, a value or something static."""
        held = self.names.get(name)
        if isinstance(value, Static):
            self.names[name] = value.value
            return
        if isinstance(held, Variable) and type_ is None:
            held.set(self.body, value)
            return
        if isinstance(value, list) and any(isinstance(item, Value) for item in value):
            self.names[name] = Variables(self.body, [as_value(item) for item in value])
            return
        number = isinstance(value, (bool, int, float))
        if type_ is not None or ((isinstance(value, Value) or number) and self.assigned.get(name, 0) > 1):
            if type_ is None and isinstance(value, float):
                raise TypeError(
                    f"the variable {name} begins with the number {value}: state its type, as in `{name}: T = 0`."
                )
            value = convert(value, type_) if type_ is not None else as_value(value)
            variable = self.names[name] = Variable(self.body, value.type)
            variable.set(self.body, value)
            return
        self.names[name] = value

    def assign(self, target: ast.expr, value: Any) -> None:
        """Give what stands on the left of an assignment a value: a name, several, or an element."""
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = [Static(item) for item in value.value] if isinstance(value, Static) else list(value)
            if len(items) != len(target.elts):
                raise TypeError(f"{len(target.elts)} names get {len(items)} values.")
            for element, item in zip(target.elts, items, strict=True):
                self.assign(element, item)
        elif isinstance(target, ast.Subscript):
            holder, index = self.value(target.value), self.value(target.slice)
            if isinstance(holder, Value):
                kind = holder.type.target
                if isinstance(value, Value) and value.type != kind and not kind.kind == "p" == value.type.kind:
                    raise TypeError(f"an element of type {kind} gets a value of type {value.type}: convert it.")
                place = holder + index
                self.body.write(f"store {convert(value, kind).text}, {place.text}, align {kind.size}")
            else:
                holder[index] = value
        else:
            raise TypeError(f"{ast.unparse(target)} cannot be assigned.")

    # ---- expressions

    def value(self, node: ast.expr) -> Any:
        """Return what an expression is: a Value, or something static."""
        method = _METHODS.get(node.__class__)
        if method is None:
            self.fail(node, f"{type(node).__name__} is not part of the language of loops.")
        return method(self, node)

    def of_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def of_Name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            held = self.names[node.id]
            return held.get(self.body) if isinstance(held, Variable) else held
        try:
            return self.outside[node.id]
        except KeyError:
            self.fail(node, f"the name {node.id} is not defined.")

    def of_Attribute(self, node: ast.Attribute) -> Any:
        return getattr(self.value(node.value), node.attr)

    def of_BinOp(self, node: ast.BinOp) -> Any:
        return BINARY[type(node.op)](self.value(node.left), self.value(node.right))

    def of_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.value(node.operand)
        return _negated(operand) if isinstance(node.op, ast.Not) else _UNARY[type(node.op)](operand)

    def of_Compare(self, node: ast.Compare) -> Any:
        left, result = self.value(node.left), None
        for operation, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            one = _COMPARE[type(operation)](left, right)
            result = one if result is None else (result & one if isinstance(one, Value) else one and result)
            left = right
        return result

    def of_BoolOp(self, node: ast.BoolOp) -> Any:
        conjunction = isinstance(node.op, ast.And)
        result: Any = conjunction
        for operand in node.values:
            value = self.value(operand)
            if not isinstance(value, Value):
                if bool(value) != conjunction:
                    return value  # decides, whatever the others are
                continue
            value = truth(value)
            if isinstance(result, Value):
                result = result & value if conjunction else result | value
            else:
                result = value
        return result

    def of_IfExp(self, node: ast.IfExp) -> Any:
        condition = self.value(node.test)
        if not isinstance(condition, Value):
            return self.value(node.body if condition else node.orelse)
        return select(condition, self.value(node.body), self.value(node.orelse))

    def of_Call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        arguments = self.items(node.args)
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                keywords.update(self.value(keyword.value))
            else:
                keywords[keyword.arg] = self.value(keyword.value)
        return function(*arguments, **keywords)

    def of_Subscript(self, node: ast.Subscript) -> Any:
        return self.value(node.value)[self.value(node.slice)]

    def of_Slice(self, node: ast.Slice) -> slice:
        return slice(*[None if part is None else self.value(part) for part in (node.lower, node.upper, node.step)])

    def of_Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self.items(node.elts))

    def of_List(self, node: ast.List) -> list[Any]:
        return self.items(node.elts)

    def items(self, nodes: Sequence[ast.expr]) -> list[Any]:
        """Return what several expressions are, starred ones included."""
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                found.extend(self.value(node.value))
            else:
                found.append(self.value(node))
        return found

    def of_JoinedStr(self, node: ast.JoinedStr) -> str:
        if any(
            isinstance(part, ast.FormattedValue) and (part.format_spec or part.conversion > 0) for part in node.values
        ):
            self.fail(node, "a string of static values has no formats, as in {x:02d} or {x!r}: apply them before.")
        return "".join(
            str(self.value(part.value)) if isinstance(part, ast.FormattedValue) else str(self.value(part))
            for part in node.values
        )

    def of_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> list[Any]:
        if len(node.generators) != 1:
            self.fail(node, "a comprehension has one loop.")
        (generator,) = node.generators
        items = self.value(generator.iter)
        kept = dict(self.names)
        found = []
        for item in items:
            self.assign(generator.target, Static(item))
            if all(self.value(condition) for condition in generator.ifs):
                found.append(self.value(node.elt))
        self.names = kept
        return found

    of_GeneratorExp = of_ListComp

    def of_Lambda(self, node: ast.Lambda) -> Callable[..., Any]:
        names = [argument.arg for argument in node.args.args]

        def function(*values: Any) -> Any:
            kept = dict(self.names)
            self.names.update(zip(names, values, strict=True))
            try:
                return self.value(node.body)
            finally:
                self.names = kept

        return function


_METHODS: Final[dict[type, Callable[[Expressions, Any], Any]]] = {
    getattr(ast, name[3:]): method for name, method in vars(Expressions).items() if name.startswith("of_")
}
