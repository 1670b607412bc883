"""What users write is checked as they mean it: typical code has no complaint, and each mistake has one, on its line.

mypy and pyright are of the extra ``dev``: without them these tests are skipped, and ``.ci/run`` has them.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "typing"
MARK = "  # error"
RIGHT = ("user_code.py", "numpy_code.py")
WRONG = {"wrong_code.py": 40, "numpy_wrong_code.py": 40}  # with the least number of mistakes
COMMANDS = {
    "mypy": ["--strict", "--no-error-summary", *[f"tests/typing/{name}" for name in (*RIGHT, *WRONG)]],
    "pyright": ["--project", ".", "--pythonpath", sys.executable],  # the rest is in pyproject.toml
}


def complaints(checker: str) -> tuple[dict[str, set[int]], str]:
    """The lines that a checker complains of, by file, and all that it said."""
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed (pip install -e '.[dev]')")
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", checker, *COMMANDS[checker]],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    found: dict[str, set[int]] = {}
    for file, line in re.findall(r"(\w+\.py):(\d+):(?:\d+ -)? error", done.stdout):
        found.setdefault(file, set()).add(int(line))
    return found, done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.parametrize("checker", sorted(COMMANDS))
def test_typical_code_is_accepted_and_mistakes_are_found(checker: str) -> None:
    found, said = complaints(checker)
    for name, least in WRONG.items():
        lines = (FOLDER / name).read_text().splitlines()
        wrong = {number for number, line in enumerate(lines, 1) if line.endswith(MARK)}
        assert len(wrong) > least
        got = found.pop(name, set())
        assert [lines[n - 1] for n in sorted(wrong - got)] == [], said
        assert [lines[n - 1] for n in sorted(got - wrong)] == [], said
    assert not found, said


@pytest.mark.parametrize("name", RIGHT)
def test_typical_code_runs(name: str) -> None:
    source = (FOLDER / name).read_text()
    assert len([line for line in source.splitlines() if line.strip()]) >= 100
    command = [sys.executable, "-W", "error", str(FOLDER / name)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
