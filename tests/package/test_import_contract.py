"""The layers of the package import one another in one direction only, and this file holds them to it.

Note [Import contract]
    _util <- dispatch <- core <- ops <- {backends | autograd <- transforms | library} <- functions
          <- {interop, random, serialization} <- numpy <- testing <- commands <- the composition root

    An arrow ``A <- B`` means that B may import A and everything below A. Siblings, divided by bars in the braces, do
    not import one another; they meet through facets and keys. ``profiler`` imports ``core`` and ``dispatch`` alone, and
    ``autograd`` imports it. The device packages in ``backends`` (cpu, cuda, meta) are siblings too.
    ``testing`` uses what a user could use: all layers, but no private module and no private name of them. The
    composition root is ``tenkey/__init__.py`` with the modules beside it (``tenkey/linalg.py``, say).

    The source is parsed, not imported: an import counts wherever it stands. Inside a function or under
    ``TYPE_CHECKING`` it is the same dependency, only seen later; ``importlib.import_module("…")`` counts as well. One
    thing must be delayed: ``backends/cuda`` is loaded inside a function of ``backends`` or ``commands``, on the first
    use of a GPU; with the namespace ``tenkey/cuda.py``, which no module imports; or with the emulator in
    ``testing/cuda_driver``, which is loaded inside a function as well.
    Modules must not import one another in a cycle, imports under ``TYPE_CHECKING`` included. Exempt is
    ``tenkey/__init__.py`` loading ``testing`` inside a function: ``testing`` alone may use the top level.
"""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = "tenkey"
ROOT = Path(__file__).resolve().parents[2]

_BASE = frozenset({"_util", "dispatch", "core", "ops"})
_SIBLINGS = frozenset({"backends", "autograd", "transforms", "library"})
_ABOVE = frozenset({"functions", "random", "serialization", "interop", "numpy"})
ALLOWED: Mapping[str, frozenset[str]] = {
    "_util": frozenset(),
    "dispatch": frozenset({"_util"}),
    "core": frozenset({"_util", "dispatch"}),
    "ops": frozenset({"_util", "dispatch", "core"}),
    "profiler": frozenset({"_util", "dispatch", "core"}),
    "backends": _BASE,
    "autograd": _BASE | {"profiler"},
    "transforms": _BASE | {"autograd"},
    "library": _BASE,
    "functions": _BASE | _SIBLINGS,
    **dict.fromkeys(("random", "serialization", "interop"), _BASE | _SIBLINGS | {"functions"}),
    "numpy": _BASE | _SIBLINGS | _ABOVE,
    "testing": _BASE | _SIBLINGS | _ABOVE | {"profiler"},
    "commands": _BASE | _SIBLINGS | _ABOVE | {"profiler", "testing"},
}
DEVICE_PACKAGES = frozenset({"cpu", "cuda", "meta"})
FORBIDDEN_IN_DISPATCH = frozenset({"numpy", "numba", "llvmlite", "scipy"})
# Each costs more than the rest of `import tenkey`, and none is needed before the first kernel is compiled.
SLOW_IMPORTS = ("numba", "llvmlite", "scipy", "matplotlib", "sklearn")


@dataclass(frozen=True)
class Import:
    """One import statement's dependency: ``source`` and ``target`` are full module names, ``name`` what is taken."""

    source: str
    target: str
    name: str | None
    line: int
    delayed: bool

    def __str__(self) -> str:
        taken = f" ({self.name})" if self.name else ""
        return f"{self.source}:{self.line} imports {self.target}{taken}"


def modules_of(root: Path, package: str = PACKAGE) -> dict[str, Path]:
    """Full name of every module of ``package`` below ``root``, with its file."""
    found: dict[str, Path] = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


class _Collector(ast.NodeVisitor):
    """Gathers the imports of one module, with the place they stand in."""

    def __init__(self, module: str, is_package: bool, known: Mapping[str, Path]) -> None:
        self.imports: list[Import] = []
        self._module = module
        self._package = module if is_package else module.rpartition(".")[0]
        self._known = known
        self._functions = 0

    def _add(self, node: ast.AST, target: str, name: str | None = None) -> None:
        line = getattr(node, "lineno", 0)
        self.imports.append(Import(self._module, target, name, line, self._functions > 0))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            anchor = self._package.split(".")
            anchor = anchor[: len(anchor) - node.level + 1]
            base = ".".join([*anchor, base] if base else anchor)
        for alias in node.names:
            submodule = f"{base}.{alias.name}"
            if submodule in self._known:
                self._add(node, submodule)
            else:
                self._add(node, base, alias.name)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if called in {"import_module", "__import__"} and node.args:
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                dots = len(argument.value) - len(argument.value.lstrip("."))
                anchor = self._package.split(".")
                prefix = ".".join(anchor[: len(anchor) - dots + 1]) + "." if dots else ""
                self._add(node, prefix + argument.value.lstrip("."))
        self.generic_visit(node)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self._functions += 1
        self.generic_visit(node)
        self._functions -= 1

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_function(node)


def imports_of(root: Path, package: str = PACKAGE) -> list[Import]:
    """Every import statement of the package's source, resolved to full module names."""
    known = modules_of(root, package)
    result: list[Import] = []
    for module, path in known.items():
        collector = _Collector(module, path.name == "__init__.py", known)
        collector.visit(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)))
        result.extend(collector.imports)
    return result


def _layer(module: str) -> str | None:
    """The layer a module belongs to; None for the composition root."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ALLOWED else None


def _device_package(module: str) -> str | None:
    parts = module.split(".")
    return parts[2] if len(parts) > 2 and parts[1] == "backends" and parts[2] in DEVICE_PACKAGES else None


def _is_private(item: Import) -> bool:
    names = [*item.target.split("."), item.name or ""]
    return any(name.startswith("_") and not name.startswith("__") for name in names)


def _breaches(item: Import) -> Iterator[str]:
    """The rules of Note [Import contract] that one import breaks."""
    source = _layer(item.source)
    if not (item.target == PACKAGE or item.target.startswith(PACKAGE + ".")):
        if source == "dispatch" and item.target.partition(".")[0] in FORBIDDEN_IN_DISPATCH:
            yield "dispatch imports no array library"
        return
    if item.target == PACKAGE:
        if source != "testing":
            yield f"only testing imports the top-level {PACKAGE}"
        return
    target = _layer(item.target)
    if source is not None and target is None:
        yield "a layer does not import the composition root"
    elif source is not None and target is not None and source != target and target not in ALLOWED[source]:
        yield f"{source} may import {', '.join(sorted(ALLOWED[source])) or 'no other layer'}"
    if source == "testing" and target not in {"testing", None} and _is_private(item):
        yield "testing uses public names only"
    from_device, to_device = _device_package(item.source), _device_package(item.target)
    if from_device is not None and to_device is not None and from_device != to_device:
        yield "device packages do not import one another"
    delayed = (source in ("backends", "commands") and item.delayed) or item.source == f"{PACKAGE}.cuda"
    delayed |= item.source.startswith(f"{PACKAGE}.testing.cuda_driver")
    delayed |= item.source == PACKAGE and item.name == "starters"  # where TENKEY_CUDA_EMULATOR is set
    if to_device == "cuda" and from_device != "cuda" and not delayed:
        yield "backends/cuda is imported on first use, inside a function of backends or by the namespace tk.cuda"
    if item.target == f"{PACKAGE}.cuda":
        yield "the namespace tk.cuda is imported on first use, by the composition root"


def find_cycles(imports: list[Import], known: Mapping[str, Path]) -> list[list[str]]:
    """The groups of modules that import one another in a circle, each sorted by name, without the exempt import."""
    edges: dict[str, set[str]] = {module: set() for module in known}
    for item in imports:
        on_demand = item.source == PACKAGE and _layer(item.target) == "testing" and item.delayed
        if item.target in edges and not on_demand:
            edges[item.source].add(item.target)

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        stack = [start]
        while stack:
            fresh = edges[stack.pop()] - seen
            seen |= fresh
            stack.extend(fresh)
        return seen

    reach = {module: reachable(module) for module in edges}
    groups = {
        tuple(sorted({module, *(other for other in reach[module] if module in reach[other])}))
        for module in edges
        if module in reach[module]
    }
    return [list(group) for group in sorted(groups)]


@functools.cache
def imports_here() -> list[Import]:
    """The imports of the package itself, parsed once."""
    return imports_of(ROOT)


def find_violations(root: Path) -> list[str]:
    """One line for each breach of Note [Import contract] in the package below ``root``; empty when it is kept."""
    imports = imports_here() if root == ROOT else imports_of(root)
    lines = [f"{item}: {rule}" for item in imports for rule in _breaches(item)]
    lines += [f"cycle: {', '.join(cycle)}" for cycle in find_cycles(imports, modules_of(root))]
    return lines


def test_the_package_keeps_the_contract() -> None:
    assert len(modules_of(ROOT)) > len(ALLOWED), "the package was not found: the test would pass on nothing"
    violations = find_violations(ROOT)
    assert not violations, "\n" + "\n".join(violations)


def test_every_layer_exists() -> None:
    assert {layer for module in modules_of(ROOT) if (layer := _layer(module))} == set(ALLOWED)


def exported(path: Path) -> list[str] | None:
    """The ``__all__`` that a module spells out."""
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(statement.value)
            return names
    return None


def find_unlisted(root: Path, layers: Iterable[str]) -> list[Import]:
    """Imports from modules of these layers that have an ``__all__`` without the name, which has no underscore."""
    known = modules_of(root)
    lists = {module: exported(path) for module, path in known.items() if _layer(module) in layers}
    found = []
    for one in imports_here() if root == ROOT else imports_of(root):
        names = lists.get(one.target)
        if names is not None and one.name is not None and not one.name.startswith("_") and one.name not in names:
            found.append(one)
    return found


def test_what_another_module_imports_is_listed() -> None:
    layers = ("autograd", "dispatch")
    assert sum(_layer(module) in layers for module in modules_of(ROOT)) > 20
    assert [str(one) for one in find_unlisted(ROOT, layers)] == []


def test_import_of_the_package_loads_nothing_slow() -> None:
    program = f"import sys, {PACKAGE}; print(*[name for name in {SLOW_IMPORTS!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == []


# ---- the checker itself: it accepts what is right, and rejects each kind of breach ----

SOUND = {
    "__init__.py": "from tenkey.library import op\ndef load():\n    from tenkey import testing\n",
    "linalg.py": "from tenkey.core.tensor import Tensor\n",
    **{f"{layer}/__init__.py": "" for layer in ("_util", "functions", "interop", "numpy", "random", "serialization")},
    "commands/__init__.py": "from tenkey import backends\n",
    "profiler/__init__.py": "from tenkey.core import tensor\n",
    "dispatch/__init__.py": "from tenkey.dispatch.keys import Key\n",
    "dispatch/keys.py": "import threading\nKey = object\n",
    "core/__init__.py": "",
    "core/tensor.py": "import numpy\nfrom tenkey.dispatch.keys import Key\nTensor = object\n",
    "ops/__init__.py": "from tenkey.core import tensor\n",
    "backends/__init__.py": "def load():\n    from tenkey.backends import cuda\n    return cuda\n",
    "backends/cpu/__init__.py": "from tenkey.ops import tensor\n",
    "backends/cuda/__init__.py": "import tenkey.backends.cuda.driver\n",
    "backends/cuda/driver.py": "",
    "autograd/__init__.py": "from tenkey.ops import tensor\nfrom tenkey import profiler\n",
    "transforms/__init__.py": "from tenkey import autograd\n",
    "library/__init__.py": "from tenkey import dispatch\nop = dispatch\n",
    "testing/__init__.py": "import tenkey\nfrom tenkey.library import op\n",
}


def _write_tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def test_a_name_that_is_not_listed_is_found(tmp_path: Path) -> None:
    files = {
        **SOUND,
        "dispatch/keys.py": '__all__ = ["Key"]\nKey = mask = object\n',
        "core/tensor.py": "from tenkey.dispatch.keys import Key, mask\n",
    }
    found = find_unlisted(_write_tree(tmp_path, files), ["dispatch"])
    assert [(one.target, one.name) for one in found] == [("tenkey.dispatch.keys", "mask")]


_CORE = "core may import _util, dispatch"
_AUTOGRAD = "autograd may import _util, core, dispatch, ops, profiler"
_LIBRARY = "library may import _util, core, dispatch, ops"


def test_checker_accepts_a_sound_tree(tmp_path: Path) -> None:
    assert find_violations(_write_tree(tmp_path, SOUND)) == []


@pytest.mark.parametrize(
    ("file", "line", "expected"),
    [
        ("dispatch/keys.py", "import numpy as np", "dispatch imports no array library"),
        ("dispatch/keys.py", "from numba.core import types", "dispatch imports no array library"),
        ("dispatch/keys.py", "def f():\n    import numpy", "dispatch imports no array library"),
        ("dispatch/keys.py", "from tenkey.core.tensor import Tensor", "dispatch may import _util"),
        ("core/tensor.py", "from tenkey.ops import add", _CORE),
        ("core/tensor.py", "def f():\n    from tenkey import ops", _CORE),
        ("core/tensor.py", "from ..ops import add", _CORE),
        (
            "core/tensor.py",
            "import importlib\nimportlib.import_module('tenkey.ops')",
            _CORE,
        ),
        (
            "core/tensor.py",
            "import importlib\nimportlib.import_module('..ops', __package__)",
            _CORE,
        ),
        (
            "core/tensor.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tenkey.ops",
            _CORE,
        ),
        ("ops/__init__.py", "import tenkey.autograd", "ops may import _util, core, dispatch"),
        (
            "autograd/__init__.py",
            "from tenkey import transforms",
            _AUTOGRAD,
        ),
        ("profiler/__init__.py", "from tenkey import ops", "profiler may import _util, core, dispatch"),
        ("_util/__init__.py", "from tenkey import dispatch", "_util may import no other layer"),
        ("functions/__init__.py", "from tenkey import interop", "functions may import _util"),
        (
            "autograd/__init__.py",
            "from tenkey import library",
            _AUTOGRAD,
        ),
        ("library/__init__.py", "from tenkey.transforms import vmap", _LIBRARY),
        ("library/__init__.py", "from tenkey.testing import opcheck", _LIBRARY),
        ("transforms/__init__.py", "import tenkey as tk", "only testing imports the top-level tenkey"),
        ("transforms/__init__.py", "from tenkey import add", "only testing imports the top-level tenkey"),
        ("linalg.py", "import tenkey", "only testing imports the top-level tenkey"),
        ("core/tensor.py", "from tenkey import linalg", "a layer does not import the composition root"),
        ("testing/__init__.py", "from tenkey.core.tensor import _strides", "testing uses public names only"),
        ("testing/__init__.py", "from tenkey.core._strides import strides", "testing uses public names only"),
        ("backends/cpu/__init__.py", "import tenkey.backends.meta", "device packages do not import one another"),
        ("backends/__init__.py", "from tenkey.backends import cuda", "backends/cuda is imported on first use"),
        ("__init__.py", "def f():\n    import tenkey.backends.cuda.driver", "backends/cuda is imported on first use"),
    ],
)
def test_checker_rejects(tmp_path: Path, file: str, line: str, expected: str) -> None:
    _write_tree(tmp_path, {**SOUND, file: SOUND[file] + line + "\n"})
    violations = [text for text in find_violations(tmp_path) if not text.startswith("cycle")]
    assert len(violations) == 1, violations
    assert expected in violations[0]
    module = f"{PACKAGE}/{file}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    assert violations[0].startswith(f"{module}:")


@pytest.mark.parametrize("hidden", [False, True], ids=["module level", "inside a function"])
def test_checker_rejects_cycles_within_a_layer(tmp_path: Path, hidden: bool) -> None:
    back = "def f():\n    from tenkey.core.b import B\n" if hidden else "from tenkey.core.b import B\n"
    files = {"core/a.py": back, "core/b.py": "import tenkey.core.c\n", "core/c.py": "from tenkey.core import a\n"}
    _write_tree(tmp_path, {**SOUND, **files})
    assert find_violations(tmp_path) == ["cycle: tenkey.core.a, tenkey.core.b, tenkey.core.c"]


def test_checker_rejects_testing_at_the_top_level_when_it_imports_it_back(tmp_path: Path) -> None:
    _write_tree(tmp_path, {**SOUND, "__init__.py": "from tenkey import testing\n"})
    assert find_violations(tmp_path) == ["cycle: tenkey, tenkey.testing"]


def test_checker_counts_imports_for_annotations(tmp_path: Path) -> None:
    guarded = "import typing\nif typing.TYPE_CHECKING:\n    from tenkey.core.b import B\n"
    _write_tree(tmp_path, {**SOUND, "core/a.py": guarded, "core/b.py": "from tenkey.core.a import A\n"})
    assert find_violations(tmp_path) == ["cycle: tenkey.core.a, tenkey.core.b"]
