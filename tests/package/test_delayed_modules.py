"""Note [Delayed modules]: what an import leaves for later, and that nobody can tell but by the time it takes."""

from __future__ import annotations

import ast
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import tenkey as tk
from tenkey._util.lazy_import import lazy_import
from tests._programs import Programs

ROOT = Path(__file__).resolve().parents[2]
# What most programs never use. Each of these modules brings others that nothing else needs.
LATE = (
    "dataclasses", "fractions", "numpy.fft", "numpy.typing", "pathlib", "tenkey.interop.numpy_functions",
    "tenkey.backends.cpu.kernel_choice", "tenkey.backends.generated_code", "tenkey.backends.llvm",
    "tenkey.core.exchange.capsules", "tenkey.core.random.samplers", "tenkey.ops.builtin.elementwise.trigonometry",
    "tenkey.ops.builtin.nn", "tenkey.ops.builtin.numeric.histogram", "tenkey.ops.builtin.random",
    "tenkey.ops.builtin.special.gamma",
    "tenkey.autograd.checkpointing.checkpoint", "tenkey.autograd.communication",
    "tenkey.autograd.gradcheck.check", "tenkey.autograd.function.custom_backward",
    "tenkey.autograd.formulas.gradients", "tenkey.autograd.views.inplace_kernels",
    "tenkey.autograd.recording.autograd_kernels",
    "tenkey.autograd.views.tracking", "tenkey.backends.llvm.llvm_library", "tenkey.backends.llvm.machine_code",
    "tenkey.backends.llvm.object_files",
    "tenkey.autograd.forward_ad", "tenkey.autograd.function", "tenkey.autograd.graph", "tenkey.autograd.visualize",
    "tenkey.profiler.profile", "tenkey.autograd.tape.call_sites", "tenkey.backends.external",
    "tenkey.library.custom_operator", "tenkey.library.native", "tenkey.library.registration",
    "tenkey.ops.scalar.emit.c", "tenkey.random._basic", "tenkey.testing", "tenkey.transforms.batching.level",
    "tenkey.transforms.batching.mapping", "tenkey.transforms.batching.rules",
)  # fmt: skip

# What the import of tenkey.numpy leaves to the first call of a function.
LATE_IN_NUMPY = (
    "numpy.ma", "numpy.polynomial", "numpy.testing", "numpy.typing", "tenkey.functions.calculating.planar_transforms",
    "tenkey.functions.calculating.tensor_systems", "tenkey.functions.matrix_norms", "tenkey.interop.numpy_mathematics",
    "tenkey.interop.numpy_polynomials", "tenkey.interop.numpy_reductions", "tenkey.interop.numpy_shapes",
    "tenkey.interop.numpy_statistics", "tenkey.numpy.random", "tenkey.ops.builtin.linalg.decompositions",
    "tenkey.ops.builtin.numeric.fft",
)  # fmt: skip


def run(program: str) -> str:
    """What a program prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


def tables() -> dict[str, tuple[dict[str, set[str]], dict[str, set[str]], list[str]]]:
    """Each package that calls ``lazy_import``: its table, its imports for type checkers, and its ``__all__``."""
    found = {}
    for path in sorted((ROOT / "tenkey").rglob("__init__.py")):
        source = path.read_text(encoding="utf-8")
        if "lazy_import(" not in source:
            continue
        tree = ast.parse(source)
        table: dict[str, set[str]] = {}
        typed: dict[str, set[str]] = {}
        names: list[str] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazy_import":
                table = {module: set(given) for module, given in ast.literal_eval(node.args[1]).items()}
            if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
                for statement in node.body:
                    assert isinstance(statement, ast.ImportFrom)
                    for alias in statement.names:
                        if statement.module is None:
                            typed.setdefault(alias.name, set())
                        else:
                            typed.setdefault("." * (statement.level - 1) + statement.module, set()).add(alias.name)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.List):
                names = ast.literal_eval(node.value) if ast.unparse(node.targets[0]) == "__all__" else names
        if table:
            found[".".join(path.relative_to(ROOT).parent.parts)] = (table, typed, names)
    return found


PACKAGES = tables()


def test_the_import_of_numpys_names_leaves_them_out() -> None:
    loaded = run("import sys, tenkey.numpy; print(*sys.modules)").split()
    assert "tenkey.numpy.namespace" in loaded
    assert sorted({*loaded} & {*LATE_IN_NUMPY}) == []
    names = run("import tenkey.numpy as np; print('testing' in dir(np), 'testing' in np.__all__, np.testing.__name__)")
    assert names.split() == ["True", "True", "numpy.testing"]


def test_an_import_leaves_them_out() -> None:
    # without what the interpreter itself has loaded, for files such as numba-cuda's .pth
    loaded = run("import sys; before = {*sys.modules}; import tenkey; print(*{*sys.modules} - before)").split()
    assert "tenkey.ops.builtin.elementwise.arithmetic" in loaded
    assert sorted({*loaded} & {*LATE}) == []
    for package, (table, _, _) in PACKAGES.items():
        assert [module for module in table if f"{package}.{module}" in loaded] == []


def test_the_packages_are_found() -> None:
    assert {"tenkey.autograd", "tenkey.backends", "tenkey.library", "tenkey.random", "tenkey.transforms"} <= {*PACKAGES}


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_the_same_names(package: str) -> None:
    table, typed, names = PACKAGES[package]
    assert typed == table
    assert {name for module, given in table.items() for name in given or (module,)} <= {*names}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_is_called_as_a_name(package: str) -> None:
    """The import system puts a module into its package under its own name, over whatever is there."""
    names = {name for given in PACKAGES[package][0].values() for name in given}
    modules = {path.stem for path in (ROOT / package.replace(".", "/")).iterdir()}
    assert names & modules == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_each_name_is_there_at_the_first_look(package: str, programs: Programs, tmp_path: Path) -> None:
    """Asked for where only the package was imported, from the last to the first, and all at once with ``import *``."""
    table, _, names = PACKAGES[package]
    expected = {name: module for module, given in table.items() for name in given}
    program = (
        f"import tenkey, importlib, types\npackage = importlib.import_module({package!r})\n"
        f"assert {{*{names!r}}} <= {{*dir(package)}}\n"
        f"for name, module in reversed({expected!r}.items()):\n"
        f"    assert getattr(package, name) is vars(package)[name], name\n"
        f"    assert getattr(importlib.import_module('.' + module, {package!r}), name) is vars(package)[name], name\n"
        f"for name in {[module for module, given in table.items() if not given]!r}:\n"
        "    assert isinstance(getattr(package, name), types.ModuleType), name\n"
    )
    programs.run(program, tmp_path)
    star = f"from {package} import *\nprint(*(name for name in {names!r} if name not in globals()))"
    assert programs.run(star, tmp_path).split() == []


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_not_there_is_refused(package: str) -> None:
    module = import_module(package)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nonsense'"):
        module.nonsense  # noqa: B018
    with pytest.raises(ImportError, match="nonsense"):
        exec(f"from {package} import nonsense")
    assert not hasattr(module, "__wrapped__")


def test_many_threads_ask_at_once() -> None:
    program = (
        "import sys, threading, tenkey as tk\nsys.setswitchinterval(1e-6)\n"
        "start, found, bad = threading.Barrier(16), [], []\n"
        "def ask(i):\n"
        "    try:\n"
        "        start.wait()\n"
        "        asked = [lambda: tk.transforms.vmap, lambda: tk.library.custom_op, lambda: tk.autograd.Function,\n"
        "                 lambda: tk.random.uniform]\n"
        "        for k in range(4): found.append((k + i, asked[(k + i) % 4]()))\n"
        "        assert tk.transforms.vmap(lambda x: x * 2)(tk.ones(3)).tolist() == [2.0] * 3\n"
        "        tk.library.Library(f'mine{i}', 'DEF').define('f(Tensor x) -> Tensor')\n"
        "    except BaseException as error: bad.append(error)\n"
        "threads = [threading.Thread(target=ask, args=(i,)) for i in range(16)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
        "print(len(found), len({id(one) for _, one in found}), bad)\n"
    )
    assert run(program).strip() == "64 4 []"


def test_operators_are_not_settled_by_the_library() -> None:
    """Its installer waits for those that are there (Note [Installers that wait])."""
    program = (
        "import tenkey as tk\nfrom tenkey.dispatch import registry\n"
        "before = sum(bool(op.outstanding) for op in registry)\ntk.library.Library('mine', 'DEF')\n"
        "print(before, sum(bool(op.outstanding) for op in registry))"
    )
    before, after = map(int, run(program).split())
    assert before == after > 300


# Loaded where kernels are chosen, which happens under the lock of the registry.
UNDER_THE_LOCK = (
    "tenkey.autograd.function.custom_backward", "tenkey.autograd.views.inplace_kernels",
    "tenkey.autograd.recording.autograd_kernels",
    "tenkey.autograd.tape.call_sites",
)  # fmt: skip


@pytest.mark.parametrize("module", UNDER_THE_LOCK)
def test_what_is_loaded_under_the_lock_takes_none(module: str) -> None:
    """Else one thread could hold the lock and wait for the module, and another one the other way round."""
    program = (
        "import sys, tenkey\nfrom tenkey.dispatch import registry\n"
        f"assert {module!r} not in sys.modules\n"
        "registry.lock = None  # which no `with` takes\n"
        f"import {module}"
    )
    run(program)


def test_a_plug_in_is_looked_for_without_the_interface() -> None:
    """A device that nobody knows loads what looks for it."""
    program = (
        "import tenkey as tk\ntry: tk.ones(2, device='nowhere')\nexcept ValueError as e: print('nowhere' in str(e))"
    )
    assert run(program).strip() == "True"


class TestTheMechanism:
    """``lazy_import`` itself, on a package that a test writes."""

    @pytest.fixture
    def package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        name = "package_of_the_test"
        folder = tmp_path / name
        folder.mkdir()
        (folder / "__init__.py").write_text(
            "from tenkey._util.lazy_import import lazy_import\nhere = 1\n"
            "__getattr__, __dir__ = lazy_import(__name__, {'one': ('a', 'b'), 'two': (), 'deep.three': ('c',)})\n"
        )
        (folder / "one.py").write_text("a, b = object(), object()\n")
        (folder / "two.py").write_text("")
        (folder / "deep").mkdir()
        (folder / "deep" / "__init__.py").write_text("")
        (folder / "deep" / "three.py").write_text("c = object()\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        yield import_module(name)
        for module in [module for module in sys.modules if module.partition(".")[0] == name]:
            del sys.modules[module]

    def test_loads_what_is_asked_for(self, package: Any) -> None:
        assert {"a", "b", "c", "one", "two", "here"} <= set(dir(package))
        assert "a" not in vars(package)
        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(lambda _: id(package.a), range(8)))) == 1
        assert vars(package)["a"] is package.a is package.one.a
        assert f"{package.__name__}.two" not in sys.modules
        assert package.two.__name__ == f"{package.__name__}.two"
        assert package.c is import_module(f"{package.__name__}.deep.three").c

    def test_says_what_is_wrong(self, package: Any) -> None:
        with pytest.raises(AttributeError, match="has no attribute 'd'") as caught:
            package.d  # noqa: B018
        assert (caught.value.name, caught.value.obj) == ("d", package)

    def test_an_error_of_the_module_comes_out(self, package: Any, tmp_path: Path) -> None:
        (tmp_path / "package_of_the_test" / "one.py").write_text("raise ValueError('broken')\n")
        with pytest.raises(ValueError, match="broken"):
            package.a  # noqa: B018


def test_dir_names_what_is_delayed() -> None:
    assert {"vmap", "jvp", "hessian"} <= set(dir(tk.transforms))
    assert {"Function", "checkpoint", "graph"} <= set(dir(tk.autograd))
    assert callable(lazy_import)
