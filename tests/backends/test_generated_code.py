"""Note [Generated functions are kept]: what one process compiles, the next one finds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenkey.backends import generated_code

# Prints how many texts were compiled, and how many were found in the file.
PROGRAM = """
import tenkey.numpy as np
from tenkey.backends import generated_code
x = np.arange(6.0).reshape(2, 3)
print(np.cumsum(x, axis=1).tolist(), np.exp(x).sum().item(), np.trace(x))
try:
    np.trace(x, 0, 1)
except ValueError:
    pass
{after}
print(len(generated_code._Kept.added), len(generated_code._Kept.used))
"""


def run(cache: Path, after: str = "", **environment: str) -> tuple[str, int, int]:
    program = PROGRAM.format(after=after)
    variables = {**os.environ, "TENKEY_CACHE_DIR": str(cache), "TENKEY_COMPILE": "off", **environment}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=variables, check=False)
    assert not done.returncode, done.stderr
    assert "Exception" not in done.stderr, done.stderr
    *lines, counts = done.stdout.splitlines()
    added, used = map(int, counts.split())
    return "\n".join(lines), added, used


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


def test_the_next_process_finds_them(cache: Path) -> None:
    first, added, used = run(cache)
    assert added > 5
    assert used == 0
    assert run(cache) == (first, 0, added)
    (path,) = (cache / "functions").iterdir()
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert run(cache) == (first, added, 0)
    assert run(cache) == (first, 0, added)


def test_nothing_is_kept_without_a_cache(cache: Path) -> None:
    assert run(cache, TENKEY_CACHE_LIMIT="0")[1] > 0
    assert [*cache.rglob("*.kernel")] == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_does_not_write_what_its_parent_added(cache: Path) -> None:
    fork = (
        "import os\nchild = os.fork()\nif not child:\n    generated_code._write()\n    os._exit(0)\n"
        "os.waitpid(child, 0)\nassert not os.listdir(os.environ['TENKEY_CACHE_DIR'] + '/functions')"
    )
    assert run(cache, fork, PYTHONWARNINGS="ignore")[1] > 0


class _Process:
    """A process in this one: what it knows of the file, and what it compiles."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in {"known": None, "used": set(), "added": {}, "size": 0, "process": os.getpid()}.items():
            monkeypatch.setattr(generated_code._Kept, name, value)

    def compiles(self, *texts: str) -> bool:
        """Run the texts and end; whether any of them had to be compiled."""
        for text in texts:
            names: dict[str, object] = {}
            exec(generated_code.compiled(text), names)
            assert repr(names["x"]) in text
        generated_code._write()
        return bool(generated_code._Kept.added)


def test_the_file_stays_small(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It loses what was used longest ago, until a quarter is free."""
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(cache))
    one, two, three, four, five = (f"x = {'a' * n!r}" for n in range(1000, 1005))
    monkeypatch.setattr(generated_code, "_MOST", 5000)  # four of them
    for text in (one, two, three, four):
        assert _Process(monkeypatch).compiles(text)
    assert not _Process(monkeypatch).compiles(one, two, three, four)
    assert _Process(monkeypatch).compiles(one, five)
    assert not _Process(monkeypatch).compiles(one, four, five)
    assert _Process(monkeypatch).compiles(two)


def test_a_folder_that_others_may_write_to_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "temporary").mkdir(mode=0o700)
    monkeypatch.setattr("tempfile.tempdir", str(cache / "temporary"))
    (cache / "open").mkdir()
    (cache / "open").chmod(0o777)
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(cache / "open"))
    assert _Process(monkeypatch).compiles("x = 'a'")
    assert [*cache.rglob("*.kernel")] == []
