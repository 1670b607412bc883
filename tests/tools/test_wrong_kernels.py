"""The conformance suite notices wrong kernels, and the program that tries them tells noticed ones from missed ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.wrong_kernels import WRONG

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "tenkey" / "testing" / "backend"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the program runs pytest."""
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)


def test_names_are_unique_and_there_are_many() -> None:
    assert len({wrong.name for wrong in WRONG}) == len(WRONG) >= 60


def test_each_selection_exists() -> None:
    missing = []
    for selection in {test for wrong in WRONG for test in wrong.tests}:
        module, *names = selection.partition("[")[0].split("::")
        text = (SUITE / f"{module}.py").read_text(encoding="utf-8")
        missing += [selection for name in names if not re.search(rf"^ *(def|class) {name}\b", text, re.MULTILINE)]
    assert missing == []


@pytest.mark.parametrize("every", ["13", pytest.param("4", marks=pytest.mark.full)])  # all: the command itself
def test_wrong_kernels_are_noticed(every: str) -> None:
    done = run("-m", "tools.wrong_kernels", "--every", every)
    assert done.returncode == 0, done.stdout + done.stderr
    count = len(WRONG[:: int(every)])
    assert f"{count} of {count} wrong kernels noticed" in done.stdout


PROGRAM = """
import sys
import numpy as np
from tools.wrong_kernels.__main__ import main
from tools.wrong_kernels.wrong import functions

EXP = "test_operators::test_operator[tk::exp-float32]"
harmless = functions("another name", {"exp": lambda x: np.exp(x)}, EXP)
wrong = functions("another function", {"exp": np.sin}, EXP)
print("=", main([], [harmless, wrong]), main([], [wrong]), main(["-k", "no such name"], [wrong]))
"""


def test_a_harmless_change_is_missed() -> None:
    done = run("-c", PROGRAM)
    assert re.search(r"MISSED .* another name: 1 passed", done.stdout), done.stdout + done.stderr
    assert re.search(r"noticed .* another function: .*tk::exp, sample", done.stdout), done.stdout
    assert "missed: another name" in done.stdout
    assert "= 1 0 1" in done.stdout
