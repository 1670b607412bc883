"""Programs of users of other libraries, with tensors in the place of arrays.

They need the extra ``downstream``; a library that is not installed skips its file. SciPy reads ``SCIPY_ARRAY_API`` when
it is imported, so the programs for it and for scikit-learn run in a process of their own (:func:`run_program`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run_program() -> Callable[[str], str]:
    """Run the text of a program in a fresh interpreter where SciPy dispatches, and return what it prints."""

    def run(text: str) -> str:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(text)],
            capture_output=True, text=True, check=False, env={**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": path},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
