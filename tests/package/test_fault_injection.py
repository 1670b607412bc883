"""The list of faults fits the source, and the program that applies them tells noticed faults from missed ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests._tiers import each
from tools import fault_injection
from tools.fault_injection import apply, main
from tools.faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
_SOURCE = "def double(x: int) -> int:\n    return 2 * x\n\n\nUNUSED = 0\n"
_TESTS = "from tenkey.module import double\n\n\ndef test_double() -> None:\n    assert double(3) == 6\n"
_WRONG = Fault("the factor", "tenkey/module.py", "return 2 * x", "return 3 * x", ("tests/test_module.py",))
_HARMLESS = Fault("nothing", "tenkey/module.py", "UNUSED = 0", "UNUSED = 1", ("tests/test_module.py",))


def test_names_are_unique_and_there_are_many() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 40
    areas = {fault.path.split("/")[1] for fault in FAULTS}
    assert areas >= {"autograd", "backends", "core", "dispatch", "interop", "ops", "transforms"}


@each("fault", FAULTS)
def test_each_text_occurs_once_and_the_edited_file_compiles(fault: Fault) -> None:
    text = (ROOT / fault.path).read_text(encoding="utf-8")
    assert text.count(fault.old) == 1, "break the code that took its place"
    assert "\n" not in fault.old + fault.new
    edited = text.replace(fault.old, fault.new)
    assert ast.dump(compile(edited, fault.path, "exec", ast.PyCF_ONLY_AST)) != ast.dump(ast.parse(text))


@each("fault", FAULTS)
def test_each_selection_exists(fault: Fault) -> None:
    assert fault.tests
    for selection in fault.tests:
        path, _, name = selection.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not name or f"def {name.partition('[')[0].rpartition('::')[2]}(" in text, selection


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "source"
    for name, text in {
        "tenkey/__init__.py": "",
        "tenkey/module.py": _SOURCE,
        "tests/test_module.py": _TESTS,
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p no:hypothesispytest -p no:xdist"\n',
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    yield root
    assert (root / "tenkey/module.py").read_text() == _SOURCE, "the tree itself has been edited"


def test_faults_are_noticed_or_missed(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--jobs", "1"], [_WRONG], tree) == 0
    assert "1 of 1 faults noticed" in capsys.readouterr().out
    assert main(["--jobs", "2"], [_WRONG, _HARMLESS], tree) == 1
    said = capsys.readouterr().out
    assert "1 of 2 faults noticed" in said
    assert "missed: nothing" in said


def test_tests_that_fail_without_a_fault_show_nothing(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tree / "tests/test_module.py"
    path.write_text(_TESTS.replace("6", "7"))
    assert main([], [_WRONG], tree) == 1
    assert "the tests fail without a fault: FAILED tests/test_module.py::test_double" in capsys.readouterr().out
    path.write_text("")
    assert main([], [_WRONG], tree) == 1
    assert "no test" in capsys.readouterr().out


@pytest.mark.parametrize("old", ["return 4 * x", "x"])
def test_a_text_that_does_not_occur_once_is_an_error(tree: Path, old: str) -> None:
    with pytest.raises(ValueError, match=r"\[the factor\].* times in tenkey/module.py"):
        apply(_WRONG._replace(old=old), tree)
    with pytest.raises(ValueError, match=r"\[the factor\]"):
        main([], [_WRONG._replace(old=old)], tree)


def test_a_hanging_test_has_noticed_a_fault(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "tests/test_module.py").write_text("import time\n\n\ndef test_it() -> None:\n    time.sleep(60)\n")
    monkeypatch.setattr(fault_injection, "_LIMIT", 0.2)
    assert fault_injection.run_tests(tree, ("tests",)).failed


def test_the_list_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "-k", "dispatch"]) == 0
    assert "dispatch: " in capsys.readouterr().out
    assert main(["--list", "-k", "no such fault"]) == 1
