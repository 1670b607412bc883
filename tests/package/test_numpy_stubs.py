"""What the stubs of ``tenkey.numpy`` say of names, parameters and results is true at run time."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from typing import Any

import numpy as np
import pytest

import tenkey.numpy as tnp
from tests.numpy._calls import CALLS
from tools.make_stubs import ROOT
from tools.stubs.numpy_annotations import joined, signatures
from tools.stubs.numpy_stubs import MEMBERS, VERSION

STUBS = {
    "": "tenkey/numpy/__init__.pyi", "linalg": "tenkey/numpy/linalg.pyi", "fft": "tenkey/numpy/fft.pyi",
    "random": "tenkey/numpy/random/__init__.pyi",
}  # fmt: skip
ours = pytest.mark.skipif(np.__version__ != VERSION, reason="the stubs are made with another version of NumPy")


@functools.cache
def body(path: str) -> list[ast.stmt]:
    return ast.parse((ROOT / path).read_text()).body


def functions(nodes: list[ast.stmt]) -> dict[str, list[ast.FunctionDef]]:
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def namespace(module: str) -> Any:
    return getattr(tnp, module) if module else tnp


@ours
@pytest.mark.parametrize("module", STUBS)
def test_each_public_name_is_defined_once(module: str) -> None:
    defined: list[str] = []
    for node in body(STUBS[module]):
        if isinstance(node, ast.ImportFrom):
            defined += [alias.name for alias in node.names if alias.asname == alias.name]
        elif isinstance(node, ast.AnnAssign):
            defined.append(ast.unparse(node.target))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) != "__all__":
            defined.append(ast.unparse(node.targets[0]))
        elif isinstance(node, ast.ClassDef):
            defined.append(node.name)
    defined += functions(body(STUBS[module]))
    assert len(set(defined)) == len(defined)
    assert set(namespace(module).__all__) <= set(defined)


@ours
@pytest.mark.parametrize("module", STUBS)
def test_named_tuples_have_the_fields_at_run_time(module: str) -> None:
    classes = {node.name: node for node in body(STUBS[module]) if isinstance(node, ast.ClassDef)}
    x = np.array([[2.0, 1.0], [1.0, 3.0]])
    for name, node in classes.items():
        if name.endswith("Result"):
            function = re.sub("(?<!^)(?=[A-Z][a-z])", "_", name.removesuffix("Result")).lower()
            made = getattr(namespace(module), function)(x)
            assert [ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)] == [
                *made._fields
            ]


@pytest.mark.parametrize("module", STUBS)
def test_functions_have_the_parameters_of_their_signatures(module: str) -> None:
    checked = 0
    for name, nodes in functions(body(STUBS[module])).items():
        try:
            given = inspect.signature(getattr(namespace(module), name)).parameters
        except ValueError:  # a compiled function of NumPy's
            continue
        except AttributeError:  # NumPy is older
            if np.__version__ == VERSION:
                raise
            continue
        for node in nodes:
            arguments = node.args
            named = {a.arg for a in (*arguments.args, *arguments.kwonlyargs)}
            open_ended = any(p.kind is p.VAR_KEYWORD for p in given.values())
            assert named <= set(given) or open_ended or np.__version__ != VERSION, name
        if len(nodes) == 1:
            assert [a.arg for a in (*nodes[0].args.posonlyargs, *nodes[0].args.args)] == [
                p.name for p in given.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
            ], name
            checked += 1
    assert checked > {"": 230, "linalg": 25, "fft": 15, "random": 2}[module]


def fits(made: Any, kind: ast.expr) -> bool:
    """Whether a value has the type of an annotation; of a named tuple, the name of its class."""
    if isinstance(kind, ast.BinOp):
        return fits(made, kind.left) or fits(made, kind.right)
    if isinstance(kind, ast.Subscript):
        items = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
        if ast.unparse(kind.value) == "list" or (items and ast.unparse(items[-1]) == "..."):
            return type(made).__name__ == ast.unparse(kind.value) and all(fits(x, items[0]) for x in made)
        return type(made) is tuple and len(made) == len(items) and all(map(fits, made, items))
    name = ast.unparse(kind)
    if name.endswith("Result"):
        return (
            isinstance(made, tuple)
            and type(made).__name__ == name
            and all(isinstance(x, (tnp.ndarray, np.generic)) for x in made)
        )
    if name == "ndarray" and isinstance(made, np.generic):
        return True  # to type checkers, NumPy's scalars are arrays (docs/numpy.md)
    known = {"ndarray": tnp.ndarray, "_bool": bool, "bool": bool, "int": int, "float": float, "str": str}
    return name == "Any" or (made is None if name == "None" else type(made) is known[name])


class Recorded:
    """A module of ``tenkey.numpy`` whose functions keep their results."""

    def __init__(self, module: str, seen: dict[str, list[Any]]) -> None:
        self.module = module
        self.seen = seen

    def __getattr__(self, name: str) -> Any:
        value = getattr(namespace(self.module), name)
        if inspect.ismodule(value):
            return Recorded(name, self.seen)

        def record(*args: Any, **kwargs: Any) -> Any:
            made = value(*args, **kwargs)
            self.seen.setdefault(f"{self.module}.{name}", []).append(made)
            return made

        return record if inspect.isroutine(value) else value


@pytest.mark.filterwarnings("ignore")
def test_results_have_the_types_of_the_annotations() -> None:
    """Of all functions with a call in ``tests/numpy/_calls.py``."""
    seen: dict[str, list[Any]] = {}
    for call, values in CALLS.values():
        call(Recorded("", seen), tnp.array(values))
    wrong = []
    for name, results in seen.items():
        module, _, short = name.rpartition(".")
        kinds = [node.returns for node in functions(body(STUBS[module]))[short]]
        wrong += [(name, made) for made in results if not any(kind and fits(made, kind) for kind in kinds)]
    assert wrong == []
    assert len(seen) > 150


def test_results_of_wrong_types_are_found() -> None:
    (pair,) = ast.parse("tuple[ndarray, ndarray]").body
    assert isinstance(pair, ast.Expr)
    x = tnp.ones(2)
    assert fits((x, x), pair.value)
    assert not fits((x,), pair.value)
    assert not fits(x, pair.value)
    assert not fits((x, 1), pair.value)


@ours
def test_members_of_arrays_are_those_at_run_time() -> None:
    (members,) = [node for node in body(MEMBERS) if isinstance(node, ast.ClassDef)]
    named = functions(members.body)
    assert {*named} <= {*dir(tnp.ndarray)}
    assert {"__add__", "__iadd__", "__eq__", "__getitem__", "T", "sum", "sort", "exp", "astype", "reshape"} <= set(
        named
    )
    assert ast.unparse(named["sort"][0].returns or ast.Constant(...)) == "None"
    for name, nodes in named.items():
        value = inspect.getattr_static(tnp.ndarray, name)
        is_property = "property" in [ast.unparse(each) for each in nodes[0].decorator_list]
        assert is_property == (not callable(value)), name


class TestTypes:
    """What becomes of NumPy's annotations, by example."""

    def test_unions(self) -> None:
        assert joined(["int", "None", "str", "Literal['a']"]) == "int | str | None"
        assert joined(["Literal[True]", "Literal[False]"]) == "bool"
        assert joined(["ArrayLike", "float", "Sequence[int]", "None"]) == "ArrayLike | None"
        assert joined(["int", "Any"]) == "Any"

    def test_overloads_by_dtype_are_one(self) -> None:
        assert {each.result for each in signatures("cumsum")} == {"ndarray"}
        assert {p.name: p.type for p in signatures("cumsum")[-1].parameters}["a"] == "ArrayLike"

    def test_overloads_by_flag_stay(self) -> None:
        results = [each.result for each in signatures("unique")]
        assert results[0] == "ndarray"
        assert "tuple[ndarray, ndarray, ndarray, ndarray]" in results
        assert [each.result for each in signatures("where")] == ["tuple[ndarray, ...]", "ndarray"]

    def test_what_numpy_does_not_have(self) -> None:
        assert signatures("no_such_function") == ()
        assert signatures("no_such_module.f") == ()
