"""``python -m tools.sanitize``: the faults of a compiled module are reported."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tools.compiled_core import FOLDER
from tools.fault_injection import ROOT
from tools.sanitize import build, environment, main, reports, run, valgrind_command

_CODE = """
import cython
from cython.cimports.libc.stdlib import free, malloc

kept = cython.declare(cython.p_double)

def beyond(n: cython.int) -> cython.double:
    global kept
    kept = cython.cast(cython.p_double, malloc(n * cython.sizeof(cython.double)))
    value: cython.double = kept[n]
    free(kept)
    return value

def overflow(n: cython.int) -> cython.int:
    return n + 2147483647
"""
_CALL = "from tenkey.core.compiled import faulty; faulty."


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A core that consists of one module."""
    folder = tmp_path / "tree" / FOLDER
    folder.mkdir(parents=True)
    shutil.copy(ROOT / FOLDER / "sources.py", folder)
    (folder / "faulty.py").write_text(_CODE, encoding="utf-8")
    for name in ("faulty.pxd", "__init__.py", "../__init__.py", "../../__init__.py"):
        (folder / name).touch()
    return tmp_path / "tree"


@pytest.mark.full
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_faults_are_reported(tree: Path, tmp_path: Path) -> None:
    sanitizers = ["address", "undefined"]
    build(tree, sanitizers)
    for call, report in (("beyond(3)", "heap-buffer-overflow"), ("overflow(5)", "signed integer overflow")):
        log = tmp_path / call[:4]
        variables = environment(sanitizers, log) | {"PYTHONPATH": str(tree)}
        _, (found,) = run([sys.executable, "-c", f"{_CALL}{call}"], tree, variables, log)
        assert report in found


@pytest.mark.full
@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("valgrind") is None, reason="needs both programs")
def test_valgrind_reports_a_fault(tree: Path, tmp_path: Path) -> None:
    build(tree, [])
    variables = os.environ | {"PYTHONPATH": str(tree), "PYTHONMALLOC": "malloc"}
    for call, expected in (("beyond(3)", ["Invalid read of size 8"]), ("overflow(1)", [])):
        log = tmp_path / call[:4]
        command = [*valgrind_command(tmp_path, log), sys.executable, "-c", f"{_CALL}{call}"]
        status, found = run(command, tree, variables, log)
        assert status == 0
        assert [text.partition("== ")[2] for text in found] == expected


def test_what_is_no_report() -> None:
    assert reports("12 passed\nRuntimeError: wrong\n==1== Invalid write of size 8\n") == [
        "==1== Invalid write of size 8"
    ]


def test_an_unknown_sanitizer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["adress", "tests/core"])
    assert "unknown sanitizer 'adress'" in capsys.readouterr().err
