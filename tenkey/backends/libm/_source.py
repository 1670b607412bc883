"""Turns the files of scalar functions into self-contained source text, one flat function for each name.

Note [Flat functions compile fast]
----------------------------------
Every compiled helper costs Numba 15 ms (`inline="always"`) to 40 ms (a call), a tenth of which is its arithmetic. The
scalar functions are therefore written with helpers, for the reader, and flattened here, for the compiler: a body is
straight-line code, so a call of a helper is its assignments with renamed locals, followed by its result.
Guard: `tests/backends/test_libm.py::test_source_is_flat`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

__all__ = ["Dtype", "names", "source", "sources", "version"]

Dtype = Literal["float32", "float64"]

_FOLDER = Path(__file__).parent
_PARTS = ("", "_angles", "_division", "_roots")
_BITS_MODULE = "tenkey.backends.libm.bits"

UNKNOWN_FUNCTION = "[libm] no function {name!r} for {dtype}. Known are: {known}."
UNKNOWN_DTYPE = "[libm] no functions for dtype {dtype!r}: the functions exist for 'float32' and 'float64'."
NOT_STRAIGHT_LINE = (
    "[libm] {name} for {dtype} has a part of kind {kind}: a body may hold only a docstring, assignments "
    "to names and one return at its end. Replace a branch by `llvm_select`."
)


class _Module(NamedTuple):
    functions: dict[str, ast.FunctionDef]
    constants: dict[str, ast.Assign]
    order: dict[str, int]  # of the constants in the file
    intrinsics: frozenset[str]


@cache
def _parse(dtype: Dtype) -> _Module:
    if dtype not in ("float32", "float64"):
        raise ValueError(UNKNOWN_DTYPE.format(dtype=dtype))
    functions: dict[str, ast.FunctionDef] = {}
    constants: dict[str, ast.Assign] = {}
    intrinsics: set[str] = set()
    texts = [(_FOLDER / f"{dtype}{part}.py").read_text(encoding="utf-8") for part in _PARTS]
    for node in [statement for text in texts for statement in ast.parse(text).body]:
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id != "__all__":
            constants[node.targets[0].id] = node
        elif isinstance(node, ast.ImportFrom) and (node.level, node.module) == (1, "bits"):
            intrinsics.update(alias.name for alias in node.names)
    return _Module(functions, constants, {name: index for index, name in enumerate(constants)}, frozenset(intrinsics))


class _Flattener(ast.NodeTransformer):
    """Rewrites one function: expands calls of helpers, renames constants, notes the names that it meets."""

    def __init__(self, module: _Module, dtype: Dtype) -> None:
        self.module = module
        self.dtype: Dtype = dtype
        self.statements: list[ast.stmt] = []
        self.constants: set[str] = set()
        self.intrinsics: set[str] = set()
        self._scopes: list[dict[str, str]] = []
        self._expansions = 0
        self._taken: set[str] = set()

    def expand(self, name: str, arguments: dict[str, str], prefix: str) -> ast.expr:
        """Append the assignments of `name` to `statements`; return the expression of its result."""
        self._scopes.append(dict(arguments))
        self._taken.update(arguments.values())
        *body, last = copy.deepcopy(self.module.functions[name].body)  # the visits change the tree
        for statement in body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue  # the docstring
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                raise self._not_straight_line(name, statement)
            value = self._evaluate(statement.value)
            target = self._bind(name, statement.targets[0], prefix)
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                self._assign_each(target, value, prefix)
            else:
                self._assign(target, value)
        if not isinstance(last, ast.Return) or last.value is None:
            raise self._not_straight_line(name, last)
        result = self._evaluate(last.value)
        self._scopes.pop()
        return result

    def visit_Name(self, node: ast.Name) -> ast.Name:
        scope = self._scopes[-1]
        if node.id in scope:
            return ast.Name(scope[node.id], ast.Load())
        if node.id in self.module.constants:
            self.constants.add(node.id)
            return ast.Name(_constant_name(node.id, self.dtype), ast.Load())
        if node.id in self.module.intrinsics:
            self.intrinsics.add(node.id)
        return ast.Name(node.id, ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.expr:
        arguments = [self._evaluate(argument) for argument in node.args]
        if not (isinstance(node.func, ast.Name) and node.func.id in self.module.functions):
            return ast.Call(self._evaluate(node.func), arguments, [])
        self._expansions += 1
        prefix = f"{node.func.id.lstrip('_')}_{self._expansions}_"
        parameters = [parameter.arg for parameter in self.module.functions[node.func.id].args.args]
        scope: dict[str, str] = {}
        for parameter, argument in zip(parameters, arguments, strict=True):
            if isinstance(argument, ast.Name):
                scope[parameter] = argument.id
            else:
                scope[parameter] = prefix + parameter
                self._assign(ast.Name(prefix + parameter, ast.Store()), argument)
        return self.expand(node.func.id, scope, prefix)

    def _evaluate(self, node: ast.expr) -> ast.expr:
        result = self.visit(node)
        assert isinstance(result, ast.expr)
        return result

    def _bind(self, name: str, target: ast.expr, prefix: str) -> ast.expr:
        if isinstance(target, ast.Name):
            # A name that is assigned twice is a new variable the second time: an argument is never overwritten.
            local = prefix + target.id
            while local in self._taken:
                local += "_"
            self._taken.add(local)
            self._scopes[-1][target.id] = local
            return ast.Name(local, ast.Store())
        if isinstance(target, ast.Tuple):
            return ast.Tuple([self._bind(name, element, prefix) for element in target.elts], ast.Store())
        raise self._not_straight_line(name, target)

    def _assign_each(self, target: ast.Tuple, value: ast.Tuple, prefix: str) -> None:
        # The targets are fresh names, so the elements may be assigned one after the other: no tuple for Numba to build.
        for element, part in zip(target.elts, value.elts, strict=True):
            self._assign(element, part)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        self.statements.append(ast.Assign([target], value, lineno=0))

    def _not_straight_line(self, name: str, node: ast.AST) -> ValueError:
        return ValueError(NOT_STRAIGHT_LINE.format(name=name, dtype=self.dtype, kind=type(node).__name__))


def _constant_name(name: str, dtype: Dtype) -> str:
    return f"{name}_{dtype}"


def _flatten(name: str, dtype: Dtype) -> tuple[str, frozenset[str], frozenset[str]]:
    """The text of one function, the constants and the intrinsics that it uses."""
    module = _parse(dtype)
    if name not in names(dtype):
        raise ValueError(UNKNOWN_FUNCTION.format(name=name, dtype=dtype, known=", ".join(sorted(names(dtype)))))
    parameters = [parameter.arg for parameter in module.functions[name].args.args]
    flattener = _Flattener(module, dtype)
    result = flattener.expand(name, {parameter: parameter for parameter in parameters}, "")
    lines = [ast.unparse(statement) for statement in flattener.statements] + [f"return {ast.unparse(result)}"]
    header = f"@_inline\ndef {name}_{dtype}({', '.join(parameters)}):\n"
    text = header + "".join(f"    {line}\n" for line in lines)
    return text, frozenset(flattener.constants), frozenset(flattener.intrinsics)


def names(dtype: Dtype) -> frozenset[str]:
    """Names of the functions that exist for `dtype`, such as "exp" and "atan2".

    >>> sorted(names("float32"))[:4]
    ['acos', 'acosh', 'asin', 'asinh']
    """
    return frozenset(name for name in _parse(dtype).functions if not name.startswith("_"))


def source(name: str, dtype: Dtype) -> str:
    """Python source of `{name}_{dtype}`, a flat function decorated with `@_inline`, with its imports and constants.

    The text expects the name `_inline` to be defined. Raises ValueError for an unknown name or dtype.

    >>> source("tan", "float64").count("@_inline")
    1
    """
    return sources([(name, dtype)])


@cache
def _sources(wanted: tuple[tuple[str, Dtype], ...]) -> str:
    constants: dict[str, str] = {}
    functions: list[str] = []
    intrinsics: set[str] = set()
    for name, dtype in wanted:
        module = _parse(dtype)
        text, used, called = _flatten(name, dtype)
        functions.append(text)
        intrinsics |= called
        for constant in sorted(used, key=module.order.__getitem__):
            value = ast.unparse(module.constants[constant].value)
            constants[_constant_name(constant, dtype)] = value
    imports = ["import numpy as np"]
    if intrinsics:
        imports.append(f"from {_BITS_MODULE} import {', '.join(sorted(intrinsics))}")
    definitions = [f"{name} = {value}" for name, value in constants.items()]
    head = "\n".join(imports) + "\n" + ("\n" + "\n".join(definitions) + "\n" if definitions else "")
    return "\n\n".join([head, *functions])


def sources(wanted: Iterable[tuple[str, Dtype]]) -> str:
    """Source of several functions in one text: imports and constants occur once. See `source`.

    >>> text = sources([("exp", "float32"), ("log", "float32")])
    >>> text.count("import numpy"), text.count("@_inline")
    (1, 2)
    """
    return _sources(tuple(dict.fromkeys(wanted)))


@cache
def version() -> str:
    """Hash (SHA-256, hexadecimal) of this package's sources, a part of the key under which a kernel is cached."""
    import hashlib

    digest = hashlib.sha256()
    for path in sorted(_FOLDER.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
