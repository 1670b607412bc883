"""The mutants of a source file: small changes of its syntax tree, written as edits of its text.

| kind | change |
|---|---|
| arithmetic | ``+`` and ``-``, ``*`` and ``/``, ``<<`` and ``>>``, ``&`` and ``|``; ``//``, ``%`` and ``**`` to ``*`` |
| comparison | its neighbour or opposite: ``<`` and ``<=``, ``==`` and ``!=``, ``in`` and ``not in``, ... |
| boolean | ``and`` and ``or`` |
| sign | ``-x`` and ``not x`` become ``x`` |
| constant | a number plus one; ``True`` and ``False`` |
| condition | of ``if``, ``while``, a conditional expression or a comprehension, negated |
| statement | a call, a jump, ``del``, or an assignment to an attribute or an item, replaced by ``pass`` |

Left out: docstrings, annotations and type aliases, ``__all__``, blocks for type checkers, assertions, what is raised,
logged or warned, f-strings (Python 3.11 does not know the places in them), and the samples from which tests draw.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["Mutant", "defined", "mutants"]

_SYMBOLS: Final[dict[type[ast.AST], tuple[str, str]]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"), ast.Pow: ("**", "*"), ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.BitXor: ("^", "|"),
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
_SILENT: Final = {"warn", "warn_explicit", "debug", "info", "warning", "cast", "TypeVar"}
_KINDS: Final[dict[type, str]] = {ast.operator: "arithmetic", ast.cmpop: "comparison", ast.boolop: "boolean"}


class Mutant(NamedTuple):
    """An edit of a file: the bytes from ``begin`` on that are ``old`` become ``new``."""

    path: str
    line: int
    statement: int
    """The first line of the innermost statement around it."""
    owner: str
    """The outermost function, class or variable that contains it, or an empty string."""
    kind: str
    begin: int
    old: str
    new: str

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:60] for text in (self.old, self.new))
        return f"{self.path}:{self.line}: {self.kind}: {old} -> {new}"

    def applied(self, text: str) -> str | None:
        """Return the file with the edit, or None if that cannot be compiled."""
        source = text.encode()
        edited = source[: self.begin] + self.new.encode() + source[self.begin + len(self.old.encode()) :]
        try:
            compile(edited, self.path, "exec", dont_inherit=True)
        except SyntaxError:
            return None
        return edited.decode()


def mutants(path: str, text: str) -> Iterator[Mutant]:
    """Yield the mutants of a file."""
    source = _Source(text)
    for block in ast.parse(text).body:
        owner = defined(block)
        for node, statement in _nodes(block, block.lineno) if not owner.endswith(("__all__", "samples")) else ():
            for kind, place, new in source.edits(node):
                line = source.text.count(b"\n", 0, place.start) + 1
                yield Mutant(path, line, statement, owner, kind, place.start, source.text[place].decode(), new)


def defined(statement: ast.AST) -> str:
    """Return the name that a function, a class or an assignment gives, or an empty string."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", statement)
    return str(getattr(target, "id", getattr(target, "name", "")))


def _nodes(node: ast.AST, statement: int) -> Iterator[tuple[ast.AST, int]]:
    """Yield a node and all that it contains, each with the first line of its statement, without what is left out."""
    statement = node.lineno if isinstance(node, ast.stmt) else statement
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        return
    yield node, statement
    silent = isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr)) or _called(node) in _SILENT
    alias = isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).endswith("TypeAlias")
    samples = isinstance(node, ast.keyword) and node.arg in {"sample_inputs", "domain"}
    if not (silent or alias or samples):
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and name not in {"annotation", "returns"}:
                    yield from _nodes(child, statement)


def _called(node: ast.AST | None) -> str:
    function = getattr(node, "func", None)
    return str(getattr(function, "attr", getattr(function, "id", "")))


def _operations(node: ast.AST) -> list[tuple[ast.AST, ast.expr, ast.expr]]:
    """Return the operators of an expression or assignment, each with the operands beside it."""
    match node:
        case ast.BinOp(left, operator, right) | ast.AugAssign(left, operator, right):
            return [(operator, left, right)]
        case ast.Compare(first, operators, others):
            return list(zip(operators, [first, *others], others, strict=False))
        case ast.BoolOp(operator, values):
            return [(operator, left, right) for left, right in itertools.pairwise(values)]
    return []


class _Source:
    """The text of a file, and the edits of its parts."""

    def __init__(self, text: str) -> None:
        self.text = text.encode()
        self.starts = list(itertools.accumulate(map(len, self.text.splitlines(keepends=True)), initial=0))

    def span(self, node: ast.AST) -> slice:
        assert isinstance(node, (ast.expr, ast.stmt))
        end = self.starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        return slice(self.starts[node.lineno - 1] + node.col_offset, end)

    def part(self, node: ast.AST) -> str:
        return self.text[self.span(node)].decode()

    def edits(self, node: ast.AST) -> Iterator[tuple[str, slice, str]]:
        """Yield the kinds, places and new texts of the mutants of a node, without those of its parts."""
        match node:
            case ast.UnaryOp(ast.Not() | ast.USub(), operand):
                yield "sign", self.span(node), f"({self.part(operand)})"
            case ast.Constant(int() | float() as value):  # a bool is an int
                yield "constant", self.span(node), repr(not value if isinstance(value, bool) else value + 1)
            case ast.If(test) | ast.While(test) | ast.IfExp(test) if not isinstance(test, ast.Constant):
                yield "condition", self.span(test), f"(not ({self.part(test)}))"
            case (
                ast.Expr(ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom())
                | ast.Assign([ast.Attribute() | ast.Subscript()])
                | ast.AugAssign(ast.Attribute() | ast.Subscript())
                | (ast.Return() | ast.Raise() | ast.Break() | ast.Continue() | ast.Delete())
            ) if _called(getattr(node, "value", None)) not in _SILENT:
                yield "statement", self.span(node), "pass"
        for test in getattr(node, "ifs", ()):
            yield "condition", self.span(test), f"(not ({self.part(test)}))"
        for operator, left, right in _operations(node):
            old, new = _SYMBOLS.get(type(operator), ("", ""))
            begin = self.span(left).stop
            gap = self.text[begin : self.span(right).start].decode()
            if old and gap.count(old) == 1 and "#" not in gap:
                begin += gap.index(old)
                yield _KINDS[type(operator).__base__ or object], slice(begin, begin + len(old)), new
