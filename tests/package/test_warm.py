"""``python -m tenkey warm``: Note [Kernels that are compiled ahead] in ``tenkey/backends/llvm/compiled.py``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenkey.backends.cpu.pool import workers
from tenkey.backends.llvm import Case, code_cache, compiled, complaints, images, kernel, loop, of_dtype, pointer
from tenkey.commands import main, warm


@loop
def scale(x: pointer(T), *, T: Any, FACTOR: Any) -> T:
    """Multiply the first element."""
    return x[0] * T(FACTOR)


@loop
def wrong(x: pointer(T), *, T: Any) -> T:
    """Add what does not exist."""
    return x[0] + unknown_name


def _cases(dtypes: Sequence[np.dtype]) -> Iterator[Case]:
    for dtype in dtypes:
        if dtype.kind == "f":
            yield Case("tk::double", scale, {"T": of_dtype(dtype), "FACTOR": 2})
            yield Case("tk::triple", scale, {"T": of_dtype(dtype), "FACTOR": 3})
            yield Case("tk::twice", scale, {"T": of_dtype(dtype), "FACTOR": 2})  # the same kernel


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kernels of an empty cache, in a process that has no kernels; a module names some."""
    code_cache.environment()  # which remembers something in the folder
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(tmp_path))
    for name in ("TENKEY_CACHE_LIMIT", "TENKEY_COMPILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("_codes", "_functions"):
        monkeypatch.setattr(compiled, name, {})
    monkeypatch.setattr(complaints, "_said", set())
    monkeypatch.setattr(warm, "_modules", lambda: [sys.modules[__name__]])
    monkeypatch.setattr(sys.modules[__name__], "cases", _cases, raising=False)
    return tmp_path / "kernels"


def test_kernels_are_compiled_and_saved(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm"]) == 0
    said = capsys.readouterr().out
    assert "4 kernels: 4 compiled in " in said
    assert f"0 failures. The cache is {cache}." in said
    assert len([*cache.iterdir()]) == 4
    compiled._codes.clear()
    assert main(["warm"]) == 0
    assert "4 kernels: 0 compiled in " in capsys.readouterr().out
    before = dict(compiled.counts)
    assert kernel(scale, T=of_dtype(np.dtype("float32")), FACTOR=3)(np.ones(1, np.float32).ctypes.data) == 3.0
    assert compiled.counts == before


def test_dtypes_and_operators(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, count in (
        (["--dtypes", "float64"], 2),
        (["--dtypes", "float64", "float32"], 4),
        (["--operators", "double"], 2),
        (["--operators", "twice"], 2),  # whose kernel is that of another operator
        (["--operators", "tk::double", "t*", "--dtypes", "float32"], 2),
    ):
        assert main(["warm", *arguments]) == 0
        assert f"{count} kernels: " in capsys.readouterr().out
    for arguments, words in (
        (["--operators", "unknown"], "No operator with compiled kernels has a name like unknown"),
        (["--dtypes", "float33"], "--dtypes: [dtype] got 'float33': tensors hold bool"),
        (["--dtypes", "longdouble"], "--dtypes: [dtype] got 'longdouble'"),
    ):
        assert main(["warm", *arguments]) == 2
        assert words in capsys.readouterr().err


def test_kernels_for_all_operators(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cases(dtypes: Sequence[np.dtype]) -> Iterator[Case]:
        yield from _cases(dtypes)
        yield Case("", scale, {"T": of_dtype(dtypes[0]), "FACTOR": 5})

    monkeypatch.setattr(sys.modules[__name__], "cases", cases)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert main(["warm", "--operators", "triple", "--dtypes", "float32"]) == 0
    assert capsys.readouterr().out.startswith("1/2 shared by operators\n2/2 tk::triple\n")
    assert main(["warm", "--operators", "unknown"]) == 2
    assert "No operator" in capsys.readouterr().err


def test_progress(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    main(["warm", "--dtypes", "float32"])
    assert "2/2" in capsys.readouterr().err  # tqdm's bar
    monkeypatch.setitem(sys.modules, "tqdm", None)
    main(["warm", "--dtypes", "float32"])
    assert capsys.readouterr().out.startswith("1/2 tk::double\n2/2 tk::triple\n")


def test_failures(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def cases(dtypes: Sequence[np.dtype]) -> Iterator[Case]:
        yield Case("tk::broken", wrong, {"T": of_dtype(dtypes[0])})
        yield from _cases(dtypes)

    monkeypatch.setattr(sys.modules[__name__], "cases", cases)
    assert main(["warm", "--dtypes", "float32"]) == 1
    said = capsys.readouterr()
    assert "3 kernels: 2 compiled in " in said.out
    assert "tk::broken: LoopError" in said.err
    assert len([*cache.iterdir()]) == 2


def test_what_cannot_be_saved_is_a_failure(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        assert main(["warm", "--dtypes", "float32"]) == 1
    assert "No space left on device" in capsys.readouterr().err
    compiled._codes.clear()
    monkeypatch.setenv("TENKEY_CACHE_LIMIT", "0")
    assert main(["warm", "--dtypes", "float32"]) == 1
    assert "nothing is saved" in capsys.readouterr().err
    compiled._codes.clear()
    monkeypatch.setenv("TENKEY_COMPILE", "off")
    assert main(["warm", "--dtypes", "float32"]) == 1
    assert "TENKEY_COMPILE=off" in capsys.readouterr().err


def test_the_kernels_of_the_package() -> None:
    """Each module's function can be called, and names no kernel twice."""
    found = warm.cases_of([np.dtype(name) for name in warm.DTYPES])
    assert workers.__name__ in {module.__name__ for module in warm._modules() if hasattr(module, "cases")}
    keys = [(case.template, *sorted(case.statics.items())) for case in found]
    assert len({*keys}) == len(keys)


@pytest.mark.full
def test_all_kernels_of_the_package(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each can be compiled, and is linked without LLVM where images are."""
    monkeypatch.undo()
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(cache))
    unlinked: list[str] = []
    build = images.build

    def watched(code: bytes, exports: Sequence[str]) -> bytes:
        image = build(code, exports)
        if sys.platform == "linux" and not images.is_linked(image):
            unlinked.append(str(exports))
        return image

    monkeypatch.setattr(images, "build", watched)
    assert main(["warm"]) == 0
    assert unlinked == []


def test_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tenkey", "warm", "--dtypes", "float32", "--operators", "exp"]
    environment = {"TENKEY_CACHE_DIR": str(tmp_path), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "4 kernels: 4 compiled" in done.stdout  # with the driver of all loops, and the pool


_PROGRAM = """
import numpy as np
import tenkey as tk
from tenkey.backends.llvm import compiled
x = tk.asarray(np.linspace(0.1, 1.0, 1 << 17, dtype=np.float32))
m = x.reshape((256, -1))
for result in (tk.exp(x), m + m[0], x.sum(), m.sum(axis=0), m.max(axis=1), tk.softmax(m, axis=1), tk.sort(x)):
    assert np.isfinite(result.numpy()).all()
print(compiled.counts["loaded"] > 5, compiled.counts["compiled"])
"""


def test_a_program_then_compiles_nothing(tmp_path: Path) -> None:
    operators = ["exp", "add", "sum", "max", "softmax", "sort"]
    command = [sys.executable, "-m", "tenkey", "warm", "--dtypes", "float32", "--operators", *operators]
    environment = {**os.environ, "TENKEY_CACHE_DIR": str(tmp_path), "TENKEY_COMPILE": "on"}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, done.stdout) == (0, "True 0\n"), done.stderr
