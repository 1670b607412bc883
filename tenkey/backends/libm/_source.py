"""Turning the files of scalar functions into self-contained source text, one flat function for each name and dtype.

Note [Flat functions compile fast]
----------------------------------
Every compiled helper costs Numba 15 ms (`inline="always"`) to 40 ms (a call), a tenth of which is its arithmetic. The
scalar functions are therefore written with helpers, for the reader, and flattened here, for the compiler: a body is
straight-line code, so a call of a helper becomes the helper's assignments with renamed locals, followed by its result.
Guard: `tests/backends/test_libm.py::test_source_is_flat`.
"""

from __future__ import annotations

import ast
import copy
import os
from collections.abc import Iterable
from functools import cache
from typing import Any, Literal, NamedTuple

__all__ = ["Dtype", "each", "names", "source", "sources", "version"]

Dtype = Literal["float32", "float64"]

_FOLDER = os.path.dirname(__file__)
_FILES = ("constants", "exponentials", "gaussian_integrals", "logarithms", "angles", "division", "powers")
_FLOAT64_ONLY = ("gammas",)  # float32 numbers are computed in float64


def _read(name: str) -> bytes:
    with open(os.path.join(_FOLDER, name), "rb") as file:  # importing pathlib takes 4 ms, in a first call
        return file.read()


def each(float32: Any, float64: Any) -> Any:
    """Define a name that means `float32` in the source for float32, and `float64` in that for float64."""
    return float32, float64


class _Module(NamedTuple):
    """All files together, as they are for one dtype."""

    functions: dict[str, ast.FunctionDef]
    constants: dict[str, ast.expr]
    aliases: dict[str, str]  # name defined by `each` -> name of the function or intrinsic
    intrinsics: frozenset[str]


@cache
def _parse(dtype: Dtype) -> _Module:
    if dtype not in ("float32", "float64"):
        raise ValueError(f"[libm] no functions for dtype {dtype!r}: the functions exist for 'float32' and 'float64'.")
    functions: dict[str, ast.FunctionDef] = {}
    constants: dict[str, ast.expr] = {}
    aliases: dict[str, str] = {}
    intrinsics: set[str] = set()
    for file in (*_FILES, *(_FLOAT64_ONLY if dtype == "float64" else ())):
        for node in ast.parse(_read(f"{file}.py")).body:
            if isinstance(node, ast.FunctionDef):
                functions[node.name] = node
            elif isinstance(node, ast.ImportFrom) and (node.level, node.module) == (1, "bits"):
                intrinsics.update(alias.name for alias in node.names)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name, value = node.targets[0].id, node.value
                if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "each":
                    value = value.args[dtype == "float64"]
                if isinstance(value, ast.Name):
                    aliases[name] = value.id
                elif name != "__all__":
                    assert name not in constants, f"{name} is defined twice"
                    constants[name] = _typed(value, dtype)
    return _Module(functions, constants, aliases, frozenset(intrinsics))


def _typed(value: ast.expr, dtype: Dtype) -> ast.expr:
    """Give a float constant, or each one of a tuple, its dtype; integers and `np.float64(...)` are left alone."""
    if isinstance(value, ast.Tuple):
        return ast.Tuple([_typed(element, dtype) for element in value.elts], ast.Load())
    if isinstance(value, ast.Call) or (isinstance(value, ast.Constant) and isinstance(value.value, int)):
        return value
    return ast.Call(ast.Attribute(ast.Name("np", ast.Load()), dtype, ast.Load()), [value], [])


class _Flattener(ast.NodeTransformer):
    """Rewrites one function: expands calls of helpers, renames constants and records the names that it uses."""

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
        """Append the assignments of `name` to `statements`, and return the expression of its result."""
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
                # The targets are new names, so the elements can be assigned in order: no tuple for Numba to build.
                for element, part in zip(target.elts, value.elts, strict=True):
                    self._assign(element, part)
            else:
                self._assign(target, value)
        if not isinstance(last, ast.Return) or last.value is None:
            raise self._not_straight_line(name, last)
        result = self._evaluate(last.value)
        self._scopes.pop()
        return result

    def visit_Name(self, node: ast.Name) -> ast.expr:
        scope = self._scopes[-1]
        if node.id in scope:
            return ast.Name(scope[node.id], ast.Load())
        name = self.module.aliases.get(node.id, node.id)
        constant = self.module.constants.get(name)
        if isinstance(constant, ast.Constant):  # an integer
            return constant
        if constant is not None:
            self.constants.add(name)
            return ast.Name(f"{name}_{self.dtype}", ast.Load())
        if name in self.module.intrinsics:
            self.intrinsics.add(name)
        return ast.Name(name, ast.Load())

    def visit_Call(self, node: ast.Call) -> ast.expr:
        arguments = [self._evaluate(argument) for argument in node.args]
        name = self.module.aliases.get(node.func.id, node.func.id) if isinstance(node.func, ast.Name) else ""
        if not isinstance(node.func, ast.Name) or name not in self.module.functions:
            return ast.Call(self._evaluate(node.func), arguments, [])
        self._expansions += 1
        prefix = f"{node.func.id.lstrip('_')}_{self._expansions}_"
        parameters = [parameter.arg for parameter in self.module.functions[name].args.args]
        scope: dict[str, str] = {}
        for parameter, argument in zip(parameters, arguments, strict=True):
            if isinstance(argument, ast.Name):
                scope[parameter] = argument.id
            else:
                scope[parameter] = prefix + parameter
                self._assign(ast.Name(prefix + parameter, ast.Store()), argument)
        return self.expand(name, scope, prefix)

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

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        self.statements.append(ast.Assign([target], value, lineno=0))

    def _not_straight_line(self, name: str, node: ast.AST) -> ValueError:
        return ValueError(
            f"[libm] {name} for {self.dtype} has a part of kind {type(node).__name__}: a body may hold only a "
            "docstring, assignments to names and one return at its end. Replace a branch by `llvm_select`."
        )


def _flatten(name: str, dtype: Dtype) -> tuple[str, frozenset[str], frozenset[str]]:
    """Return the text of one function, and the constants and intrinsics that it uses."""
    module = _parse(dtype)
    if name not in names(dtype):
        known = ", ".join(sorted(names(dtype)))
        raise ValueError(f"[libm] no function {name!r} for {dtype}. Known are: {known}.")
    parameters = [parameter.arg for parameter in module.functions[name].args.args]
    flattener = _Flattener(module, dtype)
    result = flattener.expand(name, {parameter: parameter for parameter in parameters}, "")
    lines = [ast.unparse(statement) for statement in flattener.statements] + [f"return {ast.unparse(result)}"]
    header = f"@_inline\ndef {name}_{dtype}({', '.join(parameters)}):\n"
    text = header + "".join(f"    {line}\n" for line in lines)
    return text, frozenset(flattener.constants), frozenset(flattener.intrinsics)


def names(dtype: Dtype) -> frozenset[str]:
    """Return the names of the functions that exist for `dtype`, such as "exp" and "atan2".

    >>> sorted(names("float32"))[:4]
    ['acos', 'acosh', 'asin', 'asinh']
    """
    return frozenset(name for name in _parse(dtype).functions if not name.startswith("_"))


def source(name: str, dtype: Dtype) -> str:
    """Return Python source of `{name}_{dtype}`: a flat function decorated with `@_inline`, its imports and constants.

    The text expects `_inline` to be defined. Raises ValueError for an unknown name or dtype.

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
        for constant, value in module.constants.items():
            if constant in used:
                constants[f"{constant}_{dtype}"] = ast.unparse(value)
    imports = ["import numpy as np"]
    if intrinsics:
        imports.append(f"from tenkey.backends.libm.bits import {', '.join(sorted(intrinsics))}")
    definitions = [f"{name} = {value}" for name, value in constants.items()]
    head = "\n".join(imports) + "\n" + ("\n" + "\n".join(definitions) + "\n" if definitions else "")
    return "\n\n".join([head, *functions])


def sources(wanted: Iterable[tuple[str, Dtype]]) -> str:
    """Return the source of several functions in one text, with imports and constants once. See `source`.

    >>> text = sources([("exp", "float32"), ("log", "float32")])
    >>> text.count("import numpy"), text.count("@_inline")
    (1, 2)
    """
    return _sources(tuple(dict.fromkeys(wanted)))


@cache
def version() -> str:
    """Return the SHA-256 hash of this package's sources, a part of the key under which a kernel is cached."""
    import hashlib

    digest = hashlib.sha256()
    for name in sorted(name for name in os.listdir(_FOLDER) if name.endswith(".py")):
        digest.update(name.encode() + b"\0" + _read(name) + b"\0")
    return digest.hexdigest()
