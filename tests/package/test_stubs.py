"""The generated stubs are those that the operators give, and what they say is true of the package at run time."""

from __future__ import annotations

import ast
import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tenkey as tk
from tenkey import _names
from tenkey.core.plans import special_methods
from tenkey.core.tensor import Tensor
from tools import make_stubs

ROOT = Path(__file__).resolve().parents[2]
STUBS = make_stubs.make_stubs()
MODULE_STUBS = {"tenkey": "tenkey/__init__.pyi", **{f"tenkey.{name}": f"tenkey/{name}.pyi" for name in _names.MODULES}}


def run_generator(root: Path) -> subprocess.CompletedProcess[str]:
    """``--check`` in a process of its own, in which no test has defined operators."""
    command = [sys.executable, "-m", "tools.make_stubs", "--check"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_stubs_are_up_to_date() -> None:
    done = run_generator(ROOT)
    if done.returncode:
        pytest.fail(f"{done.stdout}{done.stderr}\nRun `python -m tools.make_stubs` and commit what it writes.", False)


def test_a_stale_stub_is_noticed(tmp_path: Path) -> None:
    for name in ("tenkey", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "tenkey" / "__init__.pyi"
    path.write_text(path.read_text().replace("x2: ArrayLike", "x2: Tensor", 1))
    done = run_generator(tmp_path)
    assert (done.returncode, done.stdout) == (1, "tenkey/__init__.pyi: out of date\n"), done.stderr


def test_generation_is_deterministic() -> None:
    first = make_stubs.make_stubs()  # after other tests, which may have named a device: a method for it
    assert make_stubs.make_stubs() == first


@pytest.mark.parametrize("path", sorted(STUBS))
def test_lines_are_not_too_long(path: str) -> None:
    assert [line for line in STUBS[path].splitlines() if len(line) > 120] == []


def definitions(text: str) -> dict[str, ast.FunctionDef]:
    body = ast.parse(text).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    nodes = classes[0].body if classes else body
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}


def parameters_of(node: ast.FunctionDef) -> list[tuple[str, str]]:
    arguments = node.args
    made = [(a.arg, "") for a in (*arguments.posonlyargs, *arguments.args)]
    if arguments.vararg:
        made.append((arguments.vararg.arg, "*"))
    made += [(a.arg, "keyword") for a in arguments.kwonlyargs]
    if arguments.kwarg:
        made.append((arguments.kwarg.arg, "**"))
    return made


def parameters_at_run_time(function: object) -> list[tuple[str, str]]:
    kinds = {
        inspect.Parameter.KEYWORD_ONLY: "keyword",
        inspect.Parameter.VAR_POSITIONAL: "*",
        inspect.Parameter.VAR_KEYWORD: "**",
    }
    signature = inspect.signature(function)  # type: ignore[arg-type]
    return [(p.name, kinds.get(p.kind, "")) for p in signature.parameters.values()]


@pytest.mark.parametrize("module", sorted(MODULE_STUBS))
def test_functions_have_the_parameters_of_the_operators(module: str) -> None:
    namespace = tk if module == "tenkey" else getattr(tk, module.partition(".")[2])
    nodes = definitions(STUBS[MODULE_STUBS[module]])
    functions = {name: getattr(namespace, name) for name in namespace.__all__}
    operators = [name for name, value in functions.items() if inspect.isroutine(value) and hasattr(value, "operator")]
    assert sorted(nodes) == sorted(operators)
    for name, node in nodes.items():
        assert parameters_of(node) == parameters_at_run_time(getattr(namespace, name)), name


def test_methods_have_the_parameters_of_the_operators() -> None:
    nodes = definitions(STUBS[make_stubs.METHODS])
    assert {"sum", "add_", "backward", "reshape", "__add__", "__getitem__", "grad", "T"} <= set(nodes)
    for name, node in nodes.items():
        value = {**special_methods(), **vars(Tensor)}[name]
        if not isinstance(value, property):
            kinds = [kind for _, kind in parameters_of(node)]
            assert kinds == [kind for _, kind in parameters_at_run_time(value)], name


def test_the_stub_lists_what_the_namespace_lists() -> None:
    for module, path in MODULE_STUBS.items():
        namespace = tk if module == "tenkey" else getattr(tk, module.partition(".")[2])
        (listed,) = [
            node.value
            for node in ast.parse(STUBS[path]).body
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
        ]
        assert ast.literal_eval(listed) == sorted(namespace.__all__)


def test_nothing_private_is_public() -> None:
    leaked = [name for name in tk.__all__ if inspect.ismodule(getattr(tk, name)) and name not in _names.SUBMODULES]
    assert leaked == []
    assert {"add", "asarray", "float32", "pi", "newaxis", "no_grad", "device", "linalg", "Tensor"} <= set(tk.__all__)


class TestTypes:
    """What the annotation of an argument says of the schema, by example."""

    @staticmethod
    def signature(name: str) -> str:
        return "{}, {}".format(*make_stubs.operator_signature(getattr(tk, name).operator))

    def test_numbers_may_stand_among_operands(self) -> None:
        assert self.signature("add") == "['x1: ArrayLike', 'x2: ArrayLike'], Tensor"
        assert self.signature("exp") == "['x: ArrayLike'], Tensor"
        assert make_stubs.operator_signature(tk.ops.tk.add_.default)[0] == ["x1: Tensor", "x2: ArrayLike"]

    def test_axes_and_keywords(self) -> None:
        assert self.signature("max") == (
            "['x: ArrayLike', 'axis: int | Sequence[int] | None = None', '*', 'keepdims: bool = False'], Tensor"
        )

    def test_shapes_dtypes_devices(self) -> None:
        assert self.signature("zeros") == (
            "['shape: int | Sequence[int]', 'dtype: DTypeLike | None = None', '*', "
            "'device: Device | str | None = None', 'requires_grad: bool = False'], Tensor"
        )

    def test_lists(self) -> None:
        assert self.signature("stack") == "['arrays: Sequence[ArrayLike]', 'axis: int = 0'], Tensor"

    def test_several_results(self) -> None:
        handle = tk.library.Library("test_stubs", "DEF")
        handle.define("two(Tensor x, float eps=inf) -> (Tensor, Tensor)")
        operator = tk.ops.test_stubs.two.default
        assert make_stubs.operator_signature(operator) == (
            ["x: ArrayLike", "eps: float = ..."],
            "tuple[Tensor, Tensor]",
        )
