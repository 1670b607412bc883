"""tools/mutation: the mutants of a file, the tests they get, and that planted faults are found and others survive."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests._tiers import each
from tools.compiled_core import FOLDER, build
from tools.mutation import __main__ as mutation
from tools.mutation.mutants import Mutant, mutants
from tools.mutation.recording import Record

ROOT = Path(__file__).resolve().parents[2]
_SOURCE = """\
def clip(x: int) -> int:
    if x > 3:
        x = 3
    return x


def unused() -> int:
    return 0
"""
_TESTS = (
    "from tenkey.module import clip\n\n\ndef test_it() -> None:\n    assert [clip(2), clip(3), clip(5)] == [2, 3, 3]\n"
)


def _of(source: str) -> list[tuple[str, str]]:
    """The kinds of the mutants of a text, and the line of each that is changed."""
    text = dedent(source)
    found = []
    for mutant in mutants("file.py", text):
        edited = mutant.applied(text)
        assert edited is not None
        (line,) = {*edited.splitlines()} - {*text.splitlines()}
        assert text.splitlines()[mutant.line - 1] not in edited.splitlines()
        found.append((mutant.kind, line.strip()))
    return found


@each(
    ("source", "expected"),
    [
        ("x = a + b", [("arithmetic", "x = a - b")]),
        ("x = (a) * (b)  # ×", [("arithmetic", "x = (a) / (b)  # ×")]),
        ("x = 'é' + b", [("arithmetic", "x = 'é' - b")]),
        ("x |= b", [("arithmetic", "x &= b")]),
        ("x = a < b <= c", [("comparison", "x = a <= b <= c"), ("comparison", "x = a < b < c")]),
        ("x = a not in b", [("comparison", "x = a in b")]),
        ("x = a is b", [("comparison", "x = a is not b")]),
        ("x = a and b and c", [("boolean", "x = a or b and c"), ("boolean", "x = a and b or c")]),
        ("x = not a", [("sign", "x = (a)")]),
        ("x = -a", [("sign", "x = (a)")]),
        ("x = 2, 0.5, True", [("constant", f"x = {v}") for v in ("3, 0.5, True", "2, 1.5, True", "2, 0.5, False")]),
        ("x = a if b else c", [("condition", "x = a if (not (b)) else c")]),
        ("x = [a for a in b if a]", [("condition", "x = [a for a in b if (not (a))]")]),
        ("if a:\n    f(b)", [("condition", "if (not (a)):"), ("statement", "pass")]),
        ("x.a = b", [("statement", "pass")]),
        ("x[a] += b", [("statement", "pass"), ("arithmetic", "x[a] -= b")]),
        ("def f():\n    return a", [("statement", "pass")]),
        ("def f():\n    raise ValueError(f'{a + 1}' + b)", [("statement", "pass")]),
    ],
)
def test_each_kind(source: str, expected: list[tuple[str, str]]) -> None:
    assert _of(source) == expected


@each(
    "source",
    [
        '"""Text."""\nx = a',
        "def f(x: list[1 + 1] = a) -> -1:\n    '''Text.'''",
        "x: TypeAlias = a | b",
        "__all__ = [*a] + [b]",
        "if TYPE_CHECKING:\n    import a\n    b = 1",
        "assert a + b, c - 1",
        "warnings.warn('text' + a, stacklevel=2)",
        "x = f'{a + 1}'",
        "op = structured('op', sample_inputs=normal([3, 4]), domain=(-1, 1))",
        "def _op_samples():\n    return 1",
        "x = y = a",
        "while True:\n    pass",
    ],
)
def test_what_is_left_out(source: str) -> None:
    assert [mutant for mutant in _of(source) if "True" not in source] == []


def test_mutants_that_cannot_be_compiled_are_not_tried(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("def f():\n    global x\n    return 0\n\n\nfor x in a:\n    x = 1\n    break\n")
    assert all(m.applied((tmp_path / m.path).read_text()) for m in mutation.sample(tmp_path, ["file.py"], [], 9, 0))


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "source"
    for name, text in {
        "tenkey/__init__.py": "",
        "tenkey/module.py": _SOURCE,
        "tests/core/test_clip.py": _TESTS,
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p no:hypothesispytest -p no:xdist"\n',
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copytree(ROOT / "tools", root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    yield root
    assert (root / "tenkey/module.py").read_text() == _SOURCE, "the tree itself has been edited"


def test_what_tests_check_is_found_and_what_they_do_not_survives(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ["--folder", str(tmp_path / "folder")]
    monkeypatch.setattr(mutation, "_RECORDED", ("core",))
    for name in ("TENKEY_CACHE_DIR", "TENKEY_MUTATION_RECORD"):
        monkeypatch.setenv(name, "")  # which main sets
    with pytest.raises(SystemExit):
        mutation.main(["tenkey", *folder], tree)
    assert "there is no record" in capsys.readouterr().err
    assert mutation.main(["--record", *folder], tree) == 0
    record = mutation.read(tmp_path / "folder" / "record")
    test = "tests/core/test_clip.py"
    assert list(record.seconds) == [test]
    assert {line for line, tests in record.lines["tenkey/module.py"].items() if test in tests} == {2, 3, 4}
    capsys.readouterr()
    assert mutation.main(["tenkey/module.py:4", *folder], tree) == 0
    said = capsys.readouterr().out
    assert "1 of 1 mutants found" in said
    assert "FAILED tests/core/test_clip.py::test_it" in said
    assert mutation.main(["tenkey/module.py:3", "tenkey/module.py:8", *folder], tree) == 1
    said = capsys.readouterr().out
    assert "1 of 3 mutants found" in said
    assert "\n  survived: tenkey/module.py:8: constant: 0 -> 1" in said


def test_a_mutant_that_hangs_is_found(tree: Path) -> None:
    (tree / "tests/core/test_clip.py").write_text("import time\n\n\ndef test_it() -> None:\n    time.sleep(60)\n")
    outcome = mutation.try_mutant(next(mutants("tenkey/module.py", _SOURCE)), [["tests"]], tree, 0.5)
    assert outcome.failed
    assert "did not end" in outcome.says


def test_a_test_that_fails_anyway_finds_nothing(tree: Path) -> None:
    file = tree / "tests/core/test_clip.py"
    file.write_text(f"def test_first() -> None:\n    assert False\n\n\n{_TESTS}")
    (condition,) = (m for m in mutants("tenkey/module.py", _SOURCE) if m.kind == "condition")
    outcome = mutation.try_mutant(condition, [["tests"]], tree, 60.0)
    assert outcome.failed
    assert "test_clip.py::test_it" in outcome.says
    (unused,) = (m for m in mutants("tenkey/module.py", _SOURCE) if m.line == 8 and m.kind == "constant")
    outcome = mutation.try_mutant(unused, [["tests"]], tree, 60.0)
    assert not outcome.failed


@pytest.mark.full
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_mutants_of_the_core_are_compiled(tree: Path) -> None:
    folder = tree / FOLDER
    folder.mkdir(parents=True)
    shutil.copy(ROOT / FOLDER / "sources.py", folder)
    (folder / "part.py").write_text("import cython\n\n\ndef twice(n: cython.int) -> cython.int:\n    return 2 * n\n")
    text = (folder / "part.py").read_text()
    for name in ("part.pxd", "__init__.py", "../__init__.py"):
        (folder / name).touch()
    (tree / "tests/core/test_clip.py").write_text(
        "from tenkey.core.compiled import part\n\n\ndef test_it() -> None:\n"
        "    assert part.__file__.endswith('.so')\n    assert part.twice(3) == 6\n"
    )
    build(tree)
    before = {file: file.read_bytes() for file in folder.glob("*.so")}
    found = {m.kind: mutation.try_mutant(m, [["tests"]], tree, 60.0) for m in mutants(f"{FOLDER}/part.py", text)}
    assert all(outcome.failed for outcome in found.values())
    assert "test_it" in found["arithmetic"].says
    wrong = Mutant(f"{FOLDER}/part.py", 1, 1, "", "statement", 0, "import cython", "from cython.cimports.no import x")
    assert "cannot be compiled" in mutation.try_mutant(wrong, [["tests"]], tree, 60.0).says
    assert {file: file.read_bytes() for file in folder.glob("*.so")} == before
    assert (folder / "part.py").read_text() == text


def test_samples_depend_on_the_seed_alone() -> None:
    def sampled(seed: int) -> list[str]:
        return [str(m) for m in mutation.sample(ROOT, ["tools/mutation"], ["tools/mutation/mutants.py"], 9, seed)]

    assert sampled(1) == sampled(1) != sampled(2)
    assert len(sampled(1)) == 9
    assert not any("mutants.py" in text for text in sampled(1))


def test_specific_and_short_tests_come_first(tmp_path: Path) -> None:
    path = "tenkey/ops/builtin/sums.py"
    text = "cumsum = composite(lambda x: 2 * x)\n\n\ndef _helper():\n    '''\n    >>> 1\n    '''\n    return 1 + 1\n"
    seconds = {
        f"tests/test_{name}.py": s for name, s in (("a", 9.0), ("b", 1.0), ("c", 30.0), ("sums", 9.0), ("d", 1.0))
    }
    for name in (path, *seconds):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    record = Record(seconds, {path: {8: ["tests/test_a.py", "tests/test_c.py", "tests/test_b.py"]}})
    for mutant in mutants(path, text):
        sweeps, named, *covering = mutation.chosen_tests(mutant, record, tmp_path, 20.0)
        assert sweeps[-2:] == ["-k", "cumsum]"]
        assert named == ["tests/test_sums.py"]
        assert covering == ([["tests/test_b.py", "tests/test_a.py", path]] if mutant.line == 8 else [])
