"""``python -m tools.sanitize``: faults planted in a throw-away module are reported."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.sanitize import build, environment, main, reports

SOURCE = """
import cython
from cython.cimports.libc.stdlib import free, malloc

def beyond(n: cython.int) -> cython.double:
    p: cython.p_double = cython.cast(cython.p_double, malloc(n * cython.sizeof(cython.double)))
    p[n] = 1.0
    value: cython.double = p[n]
    free(p)
    return value

def overflow(n: cython.int) -> cython.int:
    return n + 2147483647
"""


@pytest.mark.full
@pytest.mark.skipif(
    importlib.util.find_spec("Cython") is None or shutil.which("cc") is None, reason="needs Cython and a C compiler"
)
@pytest.mark.parametrize(
    ("call", "report"), [("beyond(3)", "heap-buffer-overflow"), ("overflow(5)", "signed integer overflow")]
)
def test_faults_are_reported(tmp_path: Path, call: str, report: str) -> None:
    (tmp_path / "faulty.py").write_text(SOURCE, encoding="utf-8")
    sanitizers = ["address", "undefined"]
    build(tmp_path / "faulty.py", tmp_path, sanitizers)
    command = [sys.executable, "-c", f"import faulty; faulty.{call}"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(sanitizers), capture_output=True, text=True, check=False
    )
    (found,) = reports(done.stderr)
    assert report in found


def test_what_is_no_report() -> None:
    assert reports("12 passed\nRuntimeError: wrong\n==1== Invalid write of size 8\n") == [
        "==1== Invalid write of size 8"
    ]


def test_an_unknown_sanitizer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["adress", "tests/core"])
    assert "unknown sanitizer 'adress'" in capsys.readouterr().err
