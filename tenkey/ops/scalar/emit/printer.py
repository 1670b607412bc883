"""Emission of expressions as source: static single assignments, in which each shared node is computed once.

>>> from tenkey.ops.scalar import exp, variable
>>> x = variable("x")
>>> lines, results = Emitter(PYTHON, indent="").emit([exp(x) * exp(x) + 1])
>>> print("\\n".join(lines), results)
t0 = reference.exp(x)
t1 = (t0 * t0)
t2 = (t1 + 1) ['t2']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ..expression import Expression, topological_order
from ..operations import Kind
from ..traversal import indices

__all__ = ["NUMPY", "PYTHON", "Emitter", "OperationTable", "UnsupportedOperationError", "function_source"]

TableEntry: TypeAlias = str | Callable[..., str]
"""A format template over the operands' sources, `"({0} + {1})"`, or `entry(node, *operand_sources) -> source`.
The entry "constant" is `entry(value, kind) -> source`."""


class UnsupportedOperationError(NotImplementedError):
    """Raised for an operation that the table of the target lacks."""


class OperationTable(Mapping[str, TableEntry]):
    """The source of each operation in a target language; error messages contain `name`.

    `imports` are the import statements that the emitted source requires.

    >>> "exp" in OperationTable("a calculator", {"add": "({0} + {1})"})
    False
    """

    def __init__(self, name: str, entries: Mapping[str, TableEntry], *, imports: Sequence[str] = ()) -> None:
        self.name = name
        self.imports = tuple(imports)
        self._entries = dict(entries)

    def __getitem__(self, operation: str) -> TableEntry:
        return self._entries[operation]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"OperationTable({self.name!r}, {len(self)} entries)"

    def extended(self, name: str | None = None, **entries: TableEntry) -> OperationTable:
        """Return a copy with entries added or replaced.

        >>> OperationTable("C", {"add": "({0} + {1})"}).extended(exp="expf({0})")["exp"]
        'expf({0})'
        """
        return OperationTable(name or self.name, {**self._entries, **entries}, imports=self.imports)


class Emitter:
    """A writer of expressions as statements of the language that `table` describes.

    `statement` is the form of an assignment, with the fields `{name}`, `{expr}` and `{kind}`: one for both kinds, or
    one for each: `{"number": "const float {name} = {expr};", "boolean": "const bool {name} = {expr};"}`. The name of a
    temporary is `prefix` and a number.

    >>> from tenkey.ops.scalar import variable
    >>> table = OperationTable("C", {"multiply": "({0} * {1})", "constant": lambda value, kind: f"{value}f"})
    >>> Emitter(table, statement="float {name} = {expr};", indent="").emit([variable("x") * 2.5])
    (['float t0 = (x * 2.5f);'], ['t0'])
    """

    def __init__(
        self, table: Mapping[str, TableEntry], *, indent: str = "    ", prefix: str = "t",
        statement: str | Mapping[str, str] = "{name} = {expr}",
    ) -> None:  # fmt: skip
        self.table = table
        self.indent = indent
        self.prefix = prefix
        self._statements: Mapping[str, str] = (
            {"number": statement, "boolean": statement} if isinstance(statement, str) else statement
        )

    def emit(
        self, outputs: Sequence[Expression], *, names: Mapping[str, str] | None = None, reserved: Collection[str] = ()
    ) -> tuple[list[str], list[str]]:
        """Return statements in dependency order, and the source of each output (a name, or a leaf).

        `names` gives variables another source (`{"x": "x[i]"}`); the names of temporaries differ from the variables and
        `reserved`. The result depends only on the structure of `outputs`, so it can be hashed for a cache.
        UnsupportedOperationError names an operation that the table lacks.
        """
        order = topological_order(outputs)
        names = names or {}
        taken = {*reserved, *names.values(), *(node.name for node in order if node.name is not None)}
        sources: dict[Expression, str] = {}
        lines: list[str] = []
        count = 0
        for node in order:
            source = self._source(node, sources, names)
            if node.operands:
                while (name := f"{self.prefix}{count}") in taken:
                    count += 1
                count += 1
                lines.append(self.indent + self._statements[node.kind].format(name=name, expr=source, kind=node.kind))
                source = name
            sources[node] = source
        return lines, [sources[output] for output in outputs]

    def _source(self, node: Expression, sources: Mapping[Expression, str], names: Mapping[str, str]) -> str:
        if node.name is not None:
            return names.get(node.name, node.name)
        entry = self.table.get(node.operation)
        if entry is None:
            table = getattr(self.table, "name", "this target")
            raise UnsupportedOperationError(
                f"the scalar operation {node.operation!r} cannot be written for {table}: its table has no entry for "
                f"it. Add OperationTable.extended({node.operation}=...), write the function with other operations, or "
                "register a kernel."
            )
        if node.operation == "constant":
            return entry.format(node.value) if isinstance(entry, str) else entry(node.value, node.kind)
        operands = [sources[operand] for operand in node.operands]
        return entry.format(*operands) if isinstance(entry, str) else entry(node, *operands)


def function_source(
    name: str, parameters: Sequence[str], outputs: Sequence[Expression], table: Mapping[str, TableEntry]
) -> str:
    """Return a Python function `name(*parameters)` that returns the outputs (a tuple unless there is one).

    Index variables are further parameters, at the end. It does not contain the imports of the table.

    >>> from tenkey.ops.scalar import variable
    >>> print(function_source("double", ["x"], [variable("x") * 2], PYTHON))
    def double(x):
        t0 = (x * 2)
        return t0
    <BLANKLINE>
    """
    parameters = [*parameters, *[index for index in indices(outputs) if index not in parameters]]
    lines, results = Emitter(table).emit(outputs, reserved=parameters)
    result = results[0] if len(results) == 1 else f"({', '.join(results)}{',' if results else ''})"
    return "\n".join([f"def {name}({', '.join(parameters)}):", *lines, f"    return {result}", ""])


def _literal(module: str) -> Callable[[Any, Kind], str]:
    def constant(value: Any, kind: Kind) -> str:
        if isinstance(value, float) and not math.isfinite(value):
            if value != value:
                return f"{module}.nan"
            return f"{module}.inf" if value > 0 else f"(-{module}.inf)"
        text = repr(value)
        return f"({text})" if text.startswith("-") else text  # -1.0 ** 2 is not (-1.0) ** 2

    return constant


_COMMON: Final[dict[str, TableEntry]] = {
    "add": "({0} + {1})", "subtract": "({0} - {1})", "multiply": "({0} * {1})", "negative": "(-{0})",
    "less": "({0} < {1})", "less_equal": "({0} <= {1})", "greater": "({0} > {1})", "greater_equal": "({0} >= {1})",
    "equal": "({0} == {1})", "not_equal": "({0} != {1})", "eps": repr(2.0**-52),
}  # fmt: skip


def _calls(module: str, names: str, arguments: str = "{0}") -> dict[str, TableEntry]:
    return {name: f"{module}.{name}({arguments})" for name in names.split()}


PYTHON: Final = OperationTable(
    "Python",
    {
        **_COMMON,
        "constant": _literal("math"),
        "where": "({1} if {0} else {2})", "abs": "abs({0})", "fma": "reference.fma({0}, {1}, {2})",
        "logical_and": "({0} and {1})", "logical_or": "({0} or {1})", "logical_xor": "({0} != {1})",
        "logical_not": "(not {0})",
        "bitwise_and": "({0} & {1})", "bitwise_or": "({0} | {1})", "bitwise_xor": "({0} ^ {1})",
        "bitwise_invert": "(~{0})", "bitwise_left_shift": "({0} << {1})", "bitwise_right_shift": "({0} >> {1})",
        **_calls("math", "atan tanh asinh erf erfc cbrt"),
        **_calls("math", "atan2 hypot copysign nextafter", "{0}, {1}"),
        **_calls("reference", "exp exp2 expm1 log log2 log10 log1p sqrt"),
        **_calls("reference", "sin cos tan asin acos sinh cosh acosh atanh lgamma digamma trigamma"),
        **_calls("reference", "sign floor ceil trunc round"),
        **_calls("reference", "divide floor_divide remainder pow", "{0}, {1}"),
        "square": "({0} * {0})", "reciprocal": "reference.divide(1.0, {0})",
        "rsqrt": "reference.divide(1.0, reference.sqrt({0}))", "signbit": "(math.copysign(1.0, {0}) < 0)",
        "isnan": "({0} != {0})", "isinf": "({0} in (math.inf, -math.inf))", "isfinite": "(-math.inf < {0} < math.inf)",
        "maximum": "({0} if {0} >= {1} or {0} != {0} else {1})",
        "minimum": "({0} if {0} <= {1} or {0} != {0} else {1})",
    },
    imports=("import math", "from tenkey.ops.scalar import reference"),
)  # fmt: skip
"""Plain Python on floats, with IEEE 754 results where `math` would raise an error."""

# NumPy lacks these functions; np.vectorize calls a Python function per element and returns float64.
_ELEMENTWISE: Final = "np.vectorize(reference.REFERENCE[{name!r}], otypes=[np.float64])({{0}})"

NUMPY: Final = OperationTable(
    "NumPy",
    {
        **_COMMON,
        "constant": _literal("np"),
        "divide": "np.divide({0}, {1})",  # Python would divide two literals, and 1 / 0 raises
        "where": "np.where({0}, {1}, {2})",
        "fma": "({0} * {1} + {2})",  # rounded twice: NumPy has no fused multiply-add
        "reciprocal": "np.divide(1, {0})",  # np.reciprocal of an integer is an integer
        "rsqrt": "np.divide(1, np.sqrt({0}))",
        "round": "np.rint({0})",
        "pow": "np.power({0}, {1})",
        **_calls("np", "exp exp2 expm1 log log2 log10 log1p sqrt cbrt square abs sign floor ceil trunc"),
        **_calls("np", "sin cos tan sinh cosh tanh isnan isinf isfinite signbit logical_not"),
        **{name: f"np.arc{name[1:]}({{0}})" for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
        "atan2": "np.arctan2({0}, {1})",
        **_calls("np", "hypot copysign nextafter maximum minimum floor_divide remainder", "{0}, {1}"),
        **_calls("np", "logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor", "{0}, {1}"),
        "bitwise_invert": "np.invert({0})",
        "bitwise_left_shift": "np.left_shift({0}, {1})",
        "bitwise_right_shift": "np.right_shift({0}, {1})",
        **{name: _ELEMENTWISE.format(name=name) for name in ("erf", "erfc", "lgamma", "digamma", "trigamma")},
    },
    imports=("import numpy as np", "from tenkey.ops.scalar import reference"),
)
"""Array expressions with NumPy functions. Constants are Python literals, which are weak in NumPy's promotion; replace
"constant" and "eps" by typed ones (`NUMPY.extended(constant=...)`) where `np.where(c, 1, 0.5)` must keep float32."""
