"""Note [The compiled core is optional]: when it is loaded and when not, and the wheels that have it or do without."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import types
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

import tenkey as tk
from tenkey.core.compiled import loading, sources

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "tenkey" / "core" / "compiled"
NAMES = ("backward", "handles", "indexing", "large", "natives", "operations", "recording", "reductions", "slots")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="compiles with cc")
needs_extension = pytest.mark.skipif(loading.extension is None, reason=f"the core is not loaded: {loading.reason}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sources that the loader looks at, with files that pass for extensions of this interpreter."""
    for path in (*PLACE.glob("*.py"), *PLACE.glob("*.pxd")):
        shutil.copy(path, tmp_path)
    for name in NAMES:
        (tmp_path / (name + EXTENSION_SUFFIXES[0])).touch()
    monkeypatch.setattr(loading, "_FOLDER", str(tmp_path))
    monkeypatch.delenv("TENKEY_COMPILED", raising=False)
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    built = types.SimpleNamespace(
        SOURCE_HASH=sources.source_hash(str(tmp_path)), __file__="handles.so", __name__="handles"
    )
    monkeypatch.setattr(loading, "import_module", lambda name: built)
    return tmp_path


class TestTheLoader:
    def test_loads_what_was_built_from_these_sources(self, folder: Path) -> None:
        extension, reason, remedy = loading._load()
        assert extension is not None
        assert (reason, remedy) == ("", "")

    def test_refuses_what_was_built_from_others(self, folder: Path) -> None:
        with (folder / "operations.pxd").open("a") as file:
            file.write("# changed\n")
        with pytest.raises(ImportError, match=r"handles\.so was compiled from other sources.*`pip install -e \.`.*=0"):
            loading._load()

    def test_believes_an_extension_without_its_sources(self, folder: Path) -> None:
        for path in (*folder.glob("*.py"), *folder.glob("*.pxd")):
            path.unlink()
        assert loading._load()[0] is not None

    def test_never_imports_the_source(self, folder: Path) -> None:
        (folder / ("slots" + EXTENSION_SUFFIXES[0])).unlink()
        extension, reason, remedy = loading._load()
        assert (extension, remedy) == (None, "")
        assert EXTENSION_SUFFIXES[0] in reason

    def test_obeys_the_environment(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TENKEY_COMPILED", "0")
        extension, reason, remedy = loading._load()
        assert (extension, reason) == (None, "TENKEY_COMPILED=0")
        assert "Unset" in remedy

    def test_leaves_a_free_threaded_interpreter_alone(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False)
        extension, reason, _ = loading._load()
        assert extension is None
        assert "global lock" in reason

    def test_passes_on_what_numpy_says(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(name: str) -> Any:
            raise ImportError("numpy failed to import") from RuntimeError("compiled against ABI version 0x3000000")

        monkeypatch.setattr(loading, "import_module", refuse)
        extension, reason, remedy = loading._load()
        assert extension is None
        assert reason == "numpy failed to import (compiled against ABI version 0x3000000)"
        assert "pip install" in remedy


class TestTheSources:
    def test_are_those_with_declarations(self) -> None:
        assert tuple(sources.module_names(str(PLACE))) == NAMES == loading.Extension._names

    @pytest.mark.parametrize("suffix", [".py", ".pxd"])
    @pytest.mark.parametrize("name", NAMES)
    def test_each_counts(self, name: str, suffix: str, folder: Path) -> None:
        before, path = sources.source_hash(str(folder)), folder / (name + suffix)
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        assert sources.source_hash(str(folder)) == before
        path.write_bytes(path.read_bytes() + b"#\n")
        assert sources.source_hash(str(folder)) != before

    def test_others_do_not_count(self, folder: Path) -> None:
        before = sources.source_hash(str(folder))
        (folder / "loading.py").write_text("changed = True\n")
        assert sources.source_hash(str(folder)) == before


@needs_extension
def test_the_environment_chooses_python() -> None:
    program = "import tenkey as tk; print(*tk.show_config('dicts')['Core'].values(), (tk.ones(2) + 1).tolist())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT,
        env={**os.environ, "TENKEY_COMPILED": "0"},
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("Python TENKEY_COMPILED=0 [2.0, 2.0]", "")


@needs_extension
def test_classes_in_python_inherit_the_slots() -> None:
    """The build hook removes Cython's METH_COEXIST methods: what is left in their place are wrappers of the slots."""
    assert loading.extension is not None
    values = [value for module in vars(loading.extension).values() for value in vars(module).values()]
    kinds = [value for value in values if isinstance(value, type)]
    ours = [kind for kind in kinds if kind.__module__.startswith("tenkey.core.compiled")]
    members = {(kind.__name__, name): value for kind in ours for name, value in vars(kind).items()}
    assert any(
        isinstance(value, types.WrapperDescriptorType) and name == "__add__" for (_, name), value in members.items()
    )
    slots = {name for name, value in vars(int).items() if isinstance(value, types.WrapperDescriptorType)}
    slots |= {"__matmul__", "__rmatmul__", "__imatmul__", "__getitem__", "__contains__"}
    slow = [key for key, value in members.items() if key[1] in slots and isinstance(value, types.MethodDescriptorType)]
    assert slow == []


class TestShowConfig:
    def test_says_which_core_runs(self) -> None:
        expected = {"core": "compiled"} if loading.extension else {"core": "Python", "reason": loading.reason}
        assert tk.show_config(mode="dicts")["Core"] == expected

    def test_prints_what_it_returns(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert tk.show_config() is None
        printed = capsys.readouterr().out
        sections = tk.show_config("dicts")
        assert [*sections] == ["Versions", "Core", "Processor", "Threads"]
        lines = [f"{name + ':':<22}{value}" for section in sections.values() for name, value in section.items()]
        assert [line.strip() for line in printed.splitlines() if line.startswith("  ")] == lines

    def test_refuses_other_modes(self) -> None:
        with pytest.raises(ValueError, match="got mode='json': it must be 'stdout' or 'dicts'"):
            tk.show_config(mode="json")  # type: ignore[call-overload]


def _wheel(folder: Path, **settings: str) -> tuple[zipfile.ZipFile, str]:
    """Build a wheel in a folder; return it and what standard error says. The source tree stays as it is."""
    before = sorted(PLACE.iterdir())
    usual = {name: value for name, value in os.environ.items() if name not in ("CC", "CFLAGS", "LDFLAGS")}
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=True, env={**usual, **settings},
    )  # fmt: skip
    assert sorted(PLACE.iterdir()) == before
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path), done.stderr


def _compiled_files(wheel: zipfile.ZipFile) -> set[str]:
    return {name.rpartition("/")[2] for name in wheel.namelist() if name.startswith("tenkey/core/compiled/")}


_SOURCES = {"__init__.py", "loading.py", "sources.py", *(name + end for name in NAMES for end in (".py", ".pxd"))}


@pytest.mark.full
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"CC": "false"}, r"exit (code|status) 1"),
        ({"CC": "true"}, "has not written probe"),
        ({"TENKEY_EXTENSION": "off"}, "TENKEY_EXTENSION=off"),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="other systems do not read CC")
def test_a_pure_wheel(settings: dict[str, str], why: str, tmp_path: Path) -> None:
    wheel, said = _wheel(tmp_path, **settings)
    assert (wheel.filename or "").endswith("-py3-none-any.whl")
    assert _compiled_files(wheel) == _SOURCES
    (line,) = [line for line in said.splitlines() if not line.endswith(".whl")]
    assert line.startswith("tenkey is installed without its compiled core, and runs in Python: ")
    assert re.search(why, line)


@pytest.mark.full
@needs_compiler
def test_a_compiled_wheel(tmp_path: Path) -> None:
    wheel, _ = _wheel(tmp_path, TENKEY_EXTENSION="on")
    assert _compiled_files(wheel) == {*_SOURCES, *(name + EXTENSION_SUFFIXES[0] for name in NAMES)}
    installed = tmp_path / "installed"
    wheel.extractall(installed)

    def run(**settings: str) -> tuple[str, str]:
        program = "import tenkey as tk; print(*tk.show_config('dicts')['Core'].values())"
        environment = {**os.environ, "PYTHONPATH": str(installed), "TENKEY_COMPILED": "1", **settings}
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
        )
        return done.stdout.strip(), done.stderr.strip().rpartition("\n")[2]

    assert run() == ("compiled", "")
    with (installed / "tenkey" / "core" / "compiled" / "slots.py").open("a") as file:
        file.write("# changed\n")
    printed, error = run()
    assert printed == ""
    assert f"handles{EXTENSION_SUFFIXES[0]} was compiled from other sources" in error
    assert run(TENKEY_COMPILED="0") == ("Python TENKEY_COMPILED=0", "")
