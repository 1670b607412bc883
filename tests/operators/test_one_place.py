"""A block is the one place: it is declared in another process, and the tables' tests run on it as they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_TABLES = [
    f"tests/{name}.py"
    for name in (
        "operators/test_reference",
        "operators/test_gradients",
        "operators/test_layouts",
        "operators/test_meta",
        "operators/test_errors",
        "operators/test_forward_mode",
        "operators/test_mutated_calls",
        "operators/test_saving",
        "operators/test_transforms",
        "operators/test_vmap",
    )
]


def _run(tests: list[str], **environment: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.operators._new_blocks", "-k", "newblock", *tests]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    finished = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return finished.returncode, finished.stdout + finished.stderr


def test_new_blocks_pass_the_tables() -> None:
    code, text = _run(_TABLES)
    assert code == 0, text
    passed = re.search(r"(\d+) passed", text)
    assert passed is not None
    assert int(passed.group(1)) > 75


def test_wrong_blocks_fail() -> None:
    """An inexact kernel, a constant that is wrong in the block itself, and sweeps that small calls do not use."""
    code, text = _run(["tests/operators/test_reference.py", "tests/backends/test_row_loops.py"], NEWBLOCK_WRONG="1")
    assert code == 1, text
    failed = set(re.findall(r"FAILED \S+::(test_\w+)\[newblock_(\w+?)(?:-float32)?\]", text))
    assert ("test_values_dtype_and_shape", "tan") in failed
    assert ("test_values_dtype_and_shape", "hardswish") in failed
    assert {test for test, name in failed if name == "rms"} == {"test_sweeps_of_every_operator"}
    assert {name for _, name in failed} == {"tan", "hardswish", "rms"}
