"""The annotations of NumPy's own stubs, in the types of ``tenkey.numpy``.

Note [Types from NumPy's stubs]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
NumPy's stubs say which arguments a function takes, in many overloads by dtype. Arrays of tenkey have no dtype for a
type checker, so each annotation becomes simpler here: whatever stands for an array is ``ArrayLike`` as an argument and
``ndarray`` as a result, NumPy's scalars included, for which there are 0-d arrays; the types of Python, ``Literal``,
tuples and sequences stay. Overloads that are equal afterwards are one. Names that this module does not know are Any.
Guarded by ``tests/package/test_numpy_stubs.py``.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

__all__ = ["MIXED", "Parameter", "Signature", "joined", "named_tuples", "signatures"]

_ROOT: Final = Path(np.__file__).parent
_PLAIN: Final = frozenset([
    "int", "float", "complex", "str", "bytes", "bool", "object", "Any", "slice", "SupportsIndex",
])  # fmt: skip
_SEQUENCES: Final = {
    "Sequence": "Sequence", "SupportsLenAndGetItem": "Sequence", "Iterable": "Iterable", "Iterator": "Iterator",
    "list": "list",
}  # fmt: skip
_ARRAY_WORDS: Final = ("Array", "NDArray", "ndarray", "Sequence", "Scalar", "Seq", "Like_co", "Number")
_SCALARS: Final = frozenset(name for name, value in vars(np).items() if isinstance(value, type)
                            and issubclass(value, np.generic))  # fmt: skip
_NO_VALUE: Final = "_NoValueType"
# The types of arguments that mean the same in every function.
_EVERYWHERE: Final = {"device": "Device | str | None", "like": "None"}

MIXED: Final = "(Any)"
"""The result of functions whose results are of several kinds, for no reason that a type checker can see."""

named_tuples: Final[dict[str, dict[str, str]]] = {}
"""The fields, with their types, of the named tuples that have appeared as results."""


class Parameter(NamedTuple):
    """A parameter: its name with stars, its type, whether it has a default, and how it is passed."""

    name: str
    type: str
    default: str = ""
    kind: str = ""  # "/" by position only, "*" by keyword only


class Signature(NamedTuple):
    """One overload."""

    parameters: tuple[Parameter, ...]
    result: str


# ---- finding definitions


@functools.cache
def _definitions(path: Path) -> dict[str, list[ast.stmt]]:
    """Return the top-level statements of a stub by the names that they define."""
    found: dict[str, list[ast.stmt]] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.AnnAssign):
            found.setdefault(ast.unparse(node.target), []).append(node)
        elif isinstance(node, ast.Assign):
            found.setdefault(ast.unparse(node.targets[0]), []).append(node)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found.setdefault(alias.asname or alias.name, []).append(node)
    return found


def _file(module: str) -> Path | None:
    path = _ROOT.joinpath(*module.split(".")[1:])
    files = (path / "__init__.pyi", path.with_suffix(".pyi"), path / "__init__.py", path.with_suffix(".py"))
    return next((each for each in files if each.exists()), None)


def _imported(path: Path, node: ast.ImportFrom, name: str) -> tuple[Path | None, str]:
    """Return the file that a name is imported from, if it is one of NumPy's, and its name there."""
    package = path.relative_to(_ROOT.parent).with_suffix("").parts[: -node.level or None]
    base = ".".join([*(package if node.level else ()), *([node.module] if node.module else [])])
    own = next(alias.name for alias in node.names if name in (alias.asname, alias.name))
    return (_file(base) if base.partition(".")[0] == "numpy" else None), own


def _functions(path: Path, name: str) -> tuple[Path, list[ast.FunctionDef]]:
    """Return the overloads of a function, and the stub that has them, through imports from stub to stub."""
    nodes = _definitions(path).get(name, [])
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            there, own = _imported(path, node, name)
            return (path, []) if there is None else _functions(there, own)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):  # amax = max
            return _functions(path, node.value.id)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):  # beta = _rand.beta
            (holder,) = _definitions(path)[ast.unparse(node.value.value)]
            assert isinstance(holder, ast.AnnAssign)
            return path, _methods(path, ast.unparse(holder.annotation), node.value.attr)
        if isinstance(node, ast.AnnAssign):  # zeros: Final[_ConstructorEmpty]
            return path, _methods(path, ast.unparse(node.annotation).removeprefix("Final[").rstrip("]"), "__call__")
    return path, [node for node in nodes if isinstance(node, ast.FunctionDef)]


def _methods(path: Path, holder: str, name: str) -> list[ast.FunctionDef]:
    """Return the overloads of a method of a class, or of its base classes in the same stub."""
    for node in _definitions(path).get(holder, []):
        if not isinstance(node, ast.ClassDef):
            return []
        found = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == name]
        return found or [each for base in node.bases for each in _methods(path, ast.unparse(base), name)]
    return []


@functools.cache
def signatures(name: str) -> tuple[Signature, ...]:
    """Return the overloads of ``sum``, ``linalg.norm`` or ``_typing._ufunc:_UFunc_Nin1_Nout1.at`` in our types.

    The last has a module, a class and a method. Functions without a stub have none.

    >>> for each in signatures("where"):
    ...     print([f"{x.name}: {x.type}" for x in each.parameters], each.result)
    ['condition: ArrayLike', 'x: None', 'y: None'] tuple[ndarray, ...]
    ['condition: ArrayLike', 'x: ArrayLike', 'y: ArrayLike'] ndarray
    """
    module, is_method, method = name.rpartition(":")
    holder, _, own = method.rpartition(".")
    if not is_method:
        module = holder
    path, nodes = _file(f"numpy.{module}" if module else "numpy"), []
    if path is not None and is_method:
        nodes = _methods(path, holder, own)
    elif path is not None:
        path, nodes = _functions(path, own)
    if path is None:
        return ()
    results: dict[tuple[Parameter, ...], list[str]] = {}
    for parameters, result in [_signature(path, node) for node in nodes]:
        results.setdefault(parameters, []).append(result)
    return tuple(_merged([Signature(parameters, _of_several(found)) for parameters, found in results.items()]))


def _of_several(results: list[str]) -> str:
    """Return the result of overloads with equal parameters; tuples of several lengths are of any length."""
    unique = set(results)
    if len(unique) > 1:
        unique.discard("Any")  # which overloads state for some dtypes
    if len(unique) > 1 and all(text.startswith("tuple[") for text in unique):
        inner = {part for text in unique for part in text[6:-1].split(", ")} - {"()", "..."}
        return f"tuple[{joined(sorted(inner))}, ...]"
    result = joined(sorted(unique))
    return MIXED if " | " in result and "tuple[" in result else result


def _signature(path: Path, node: ast.FunctionDef) -> Signature:
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + given.defaults
    found: list[Parameter] = []
    for k, (each, default) in enumerate(zip(plain, defaults, strict=True)):
        if each.arg != "self":
            found.append(_parameter(path, each, default, "/" if k < len(given.posonlyargs) else ""))
    if given.vararg:
        found.append(_parameter(path, given.vararg, None, "", "*"))
    found += [_parameter(path, each, default, "*") for each, default in zip(given.kwonlyargs, given.kw_defaults)]
    if given.kwarg:
        found.append(_parameter(path, given.kwarg, None, "", "**"))
    return Signature(tuple(found), joined(_members(path, node.returns, result=True)))


def _parameter(path: Path, node: ast.arg, default: ast.expr | None, kind: str, stars: str = "") -> Parameter:
    written = _EVERYWHERE.get(node.arg) or joined(_members(path, node.annotation, result=node.arg == "out"))
    return Parameter(stars + node.arg, written, "" if default is None else ast.unparse(default), kind)


def _merged(given: list[Signature]) -> list[Signature]:
    """Return the overloads, with one for those that differ in the type of one parameter only."""
    for i, one in enumerate(given):
        for j, other in enumerate(given[:i]):
            if one.result != other.result or len(one.parameters) != len(other.parameters):
                continue
            pairs = list(zip(one.parameters, other.parameters, strict=True))
            unlike = [k for k, (a, b) in enumerate(pairs) if a != b]
            if len(unlike) > 1 or any(a._replace(type="") != b._replace(type="") for a, b in pairs):
                continue
            union = [a._replace(type=joined([*b.type.split(" | "), *a.type.split(" | ")])) for a, b in pairs]
            return _merged([*given[:j], *given[j + 1 : i], Signature(tuple(union), one.result), *given[i + 1 :]])
    return [one for i, one in enumerate(given) if not any(_covers(other, one) for other in given[:i])]


def _covers(general: Signature, special: Signature) -> bool:
    """Tell whether one overload takes all that another one takes."""
    if len(general.parameters) != len(special.parameters):
        return False
    return all(
        a.name.count("*") == b.name.count("*")
        and (a.name == b.name or a.kind == "/" or "*" in a.name)
        and (bool(a.default) or not b.default)
        and (a.kind in ("", b.kind))
        and all(_includes(a.type, member) for member in b.type.split(" | "))
        for a, b in zip(general.parameters, special.parameters, strict=True)
    )


def _includes(kind: str, member: str) -> bool:
    members = kind.split(" | ")
    if member in members or kind in ("Any", "object"):
        return True
    return "ArrayLike" in members and not member.startswith(("None", "str", "Literal", "Callable", "Any"))


# ---- from NumPy's types to ours


def joined(members: list[str]) -> str:
    """Return the union of types, None last, without those that another one includes.

    >>> joined(["None", "int", "ArrayLike", "str"]), joined(["Literal['x']", "Literal['y']"])
    ('ArrayLike | str | None', "Literal['x', 'y']")
    """
    unique = list(dict.fromkeys(members))
    for wide in ("Any", "object"):
        if wide in unique:
            return wide
    values = [m[8:-1] for m in unique if m.startswith("Literal[")]
    if "bool" in unique or {"True", "False"} <= set(values):
        values = [v for v in values if v not in ("True", "False")]
        unique.append("bool")
    if "str" in unique:
        values = [v for v in values if not v.startswith("'")]
    rest = [m for m in dict.fromkeys(unique) if m != "None" and not m.startswith("Literal[")]
    if "ArrayLike" in rest:  # which includes numbers, sequences and arrays
        rest = [m for m in rest if m in ("ArrayLike", "str") or m.startswith("Callable")]
    if "ndarray" in rest:
        rest = [m for m in rest if m not in ("int", "float", "complex", "bool")]
    literal = [f"Literal[{', '.join(values)}]"] if values else []
    return " | ".join([*rest, *literal, *(["None"] if "None" in unique else [])])


def _members(path: Path, node: ast.expr | None, result: bool) -> list[str]:
    """Return the members of a union in our types."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _members(path, ast.parse(node.value, mode="eval").body, result)
    if isinstance(node, ast.Constant) and node.value is None:
        return ["None"]
    if isinstance(node, ast.BinOp):
        return [*_members(path, node.left, result), *_members(path, node.right, result)]
    if isinstance(node, ast.Subscript):
        return _generic(path, node, result)
    if isinstance(node, ast.Attribute):
        return (
            ["bool"] if ast.unparse(node) == "builtins.bool" else _named(path, node.attr, result, node.attr == "bool")
        )
    return _named(path, node.id, result) if isinstance(node, ast.Name) else ["Any"]


def _generic(path: Path, node: ast.Subscript, result: bool) -> list[str]:
    name = ast.unparse(node.value).rpartition(".")[2]
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name in ("L", "Literal"):
        if not all(isinstance(item, ast.Constant) for item in items):
            return ["Any"]
        return ["None" if text == "None" else f"Literal[{text}]" for text in map(ast.unparse, items)]
    if name == "tuple":
        if not items:
            return ["tuple[()]"]
        return [f"tuple[{', '.join('...' if _is_dots(x) else joined(_members(path, x, result)) for x in items)}]"]
    if name in _SEQUENCES:
        return [f"{_SEQUENCES[name]}[{joined(_members(path, items[0], result))}]"]
    if name == "Callable":
        return ["Callable[..., Any]"]
    return ["bool"] if name in ("TypeIs", "TypeGuard") else _named(path, name, result)


def _is_dots(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _named(path: Path, name: str, result: bool, scalar: bool = False) -> list[str]:
    if name == _NO_VALUE:
        return []
    if name == "Never" or (name == "SupportsIndex" and result):
        return ["int"]
    if name.endswith("Like_co") and path.parent.name == "random" and not result and "Array" not in name:
        return ["float"]  # without size=, numbers give numbers
    if name in _PLAIN and not scalar:
        return [name]
    if name == "_ShapeLike" or "ShapeT" in name or name in ("_Shape", "_AnyShape"):
        return ["tuple[int, ...]"] if result else ["SupportsIndex", "Sequence[SupportsIndex]"]
    if "DTypeLike" in name or name == "dtype":
        return ["DType" if result else "DTypeLike"]
    nodes = _definitions(path).get(name, [])
    for node in nodes:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return _members(path, node.value, result)
        if isinstance(node, ast.ClassDef) and "NamedTuple" in map(ast.unparse, node.bases):
            named_tuples[name] = dict(_fields(path, node))
            return [name]
    if name in _SCALARS or any(word in name for word in _ARRAY_WORDS) or name.endswith("T") or name == "Self":
        return ["ndarray" if result else "ArrayLike"]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            there, own = _imported(path, node, name)
            if node.module == "builtins":
                return [own]
            return ["Any"] if there is None or there == path else _named(there, own, result)
    return ["Any"]


def _fields(path: Path, node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign):
            kind = joined(_members(path, each.annotation, result=True))
            yield ast.unparse(each.target), "ndarray" if kind == "Any" else kind
