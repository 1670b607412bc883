"""The Python examples of README.md and docs/*.md are run, and print what the text block after them shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests._programs import Programs

ROOT = Path(__file__).resolve().parents[2]
_MAKING_UP_NAMES = ("test_documents.py", "test_fault_injection.py", "test_mutation.py")  # of tests
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(text: str) -> list[tuple[str, str | None]]:
    """The Python blocks of a document, each with the text block that follows it before the next Python block."""
    found: list[tuple[str, str | None]] = []
    for language, content in _BLOCK.findall(text):
        if language == "python":
            found.append((content, None))
        elif language == "text" and found and found[-1][1] is None:
            found[-1] = (found[-1][0], content)
    return found


DOCUMENTS = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
CASES = [
    pytest.param(source, expected, id=f"{path.name}-{number}")
    for path in DOCUMENTS
    for number, (source, expected) in enumerate(examples(path.read_text()))
]


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_example_prints_what_the_document_shows(
    source: str, expected: str | None, programs: Programs, tmp_path: Path
) -> None:
    assert expected is not None, "every example shows its output"
    if "cuda_emulator" in source:
        pytest.importorskip("numba_cuda", reason="needs the extra cuda")
        if not any(map(shutil.which, ("cc", "gcc", "clang"))):
            pytest.skip("needs a C compiler")
    assert programs.run(source, tmp_path) == expected


def test_the_documents_have_examples() -> None:
    assert len(examples((ROOT / "README.md").read_text())) == 4
    assert len(CASES) >= 7


def test_a_wrong_output_is_noticed(programs: Programs, tmp_path: Path) -> None:
    ((source, expected),) = examples("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    assert programs.run(source, tmp_path) == "2\n" != expected
    for wrong in ("import warnings; warnings.warn('mine')", "raise SystemExit(3)", "1 / 0"):
        with pytest.raises(AssertionError, match=r"mine|SystemExit|ZeroDivision"):
            programs.run(wrong, tmp_path)


def test_the_taste_of_each_use_is_short() -> None:
    for source, _ in examples((ROOT / "README.md").read_text()):
        assert len([line for line in source.splitlines() if line.strip()]) <= 12


# What a document says of an example's length, and the files that it counts.
SIZES = [
    ("README.md", r"OpenCL in under (\d+) lines", "examples/tenkey_opencl/tenkey_opencl/*.py"),
    ("README.md", r"under (\d+) lines that run alone", "examples/dispatcher_from_scratch.py"),
    ("docs/adding_a_backend.md", r"package of under (\d+)\nlines", "examples/tenkey_opencl/tenkey_opencl/*.py"),
]


@pytest.mark.parametrize(("document", "claim", "pattern"), SIZES)
def test_stated_sizes_are_counted(document: str, claim: str, pattern: str) -> None:
    (stated,) = re.findall(claim, (ROOT / document).read_text())
    assert 0 < sum(len(path.read_text().splitlines()) for path in ROOT.glob(pattern)) < int(stated)


def test_the_layers_are_drawn_alike() -> None:
    contract = (ROOT / "tests" / "package" / "test_import_contract.py").read_text()
    (drawn,) = re.findall(r"Note \[Import contract\]\n((?: {4}.*<-.*\n)+)", contract)
    assert drawn in (ROOT / "docs" / "design.md").read_text()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target
    for target in re.findall(r"`((?:examples|tests|benchmarks|docs|tenkey)/[\w/.]+\.\w+)`", path.read_text()):
        assert (ROOT / target).exists(), target


_GUARD = re.compile(r"(tests/[\w/]+\.py)((?:::\w+)*)")


def missing_guards(text: str) -> list[str]:
    """The tests that a text names and that are not there."""
    missing = []
    for path, names in _GUARD.findall(text):
        source = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else ""
        if not source or any(not re.search(rf"\b(?:def|class) {name}\b", source) for name in names.split("::")[1:]):
            missing.append(path + names)
    return missing


def test_the_tests_that_notes_name_are_there() -> None:
    sources = [path for folder in ("tenkey", "tools", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
    for path in (*sources, ROOT / "pyproject.toml", ROOT / "CONTRIBUTING.md", ROOT / ".ci" / "run"):
        if path.name not in _MAKING_UP_NAMES:
            assert missing_guards(path.read_text(encoding="utf-8")) == [], path


def test_a_missing_guard_is_noticed() -> None:
    here = "tests/documents/test_documents.py"
    text = f"``{here}::test_a_missing_guard_is_noticed`` ``{here}::test_nothing`` tests/test_nothing.py"
    assert missing_guards(text) == [f"{here}::test_nothing", "tests/test_nothing.py"]


@pytest.mark.full
@pytest.mark.skipif(shutil.which("cc") is None, reason="the lesson compiles with cc")
def test_the_backend_of_the_lesson_passes_the_conformance_suite(tmp_path: Path) -> None:
    source, _ = examples((ROOT / "docs" / "adding_a_backend.md").read_text())[-1]
    (tmp_path / "lesson.py").write_text(source)
    left_out = "test_operators or own_memory"
    some = f"not ({left_out}) or tk::add- or tk::floor_divide or tk::sum- or tk::where or tk::logical_and-"
    command = [
        sys.executable, "-m", "pytest", "-p", "tenkey_pytest", "-q", "--pyargs", "tenkey.testing.backend", "--backend",
        "lesson", "--backend-module", "lesson.py", "-k", some,
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrong (0):" in done.stdout
