"""Files of compiled kernels: Note [Kernel files are verified] and Note [A kernel that is not compiled]."""

from __future__ import annotations

import builtins
import errno
import itertools
import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenkey._util.record import replaced
from tenkey.backends.cpu.numba import compiler, kernel_files
from tenkey.backends.cpu.numba.program import Program
from tenkey.dispatch import registry

_FLOAT = np.dtype("float32")
_POSIX = pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and modes are those of POSIX")
_numbers = itertools.count(1)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kernels of an empty cache; nothing has been warned of."""
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TENKEY_COMPILE", "sync")
    monkeypatch.setattr(compiler, "_uttered", set())
    monkeypatch.setattr(compiler, "_ufuncs", {})
    return tmp_path / "cache" / "kernels"


class _Kernel:
    """A kernel ``x + number`` that no other test compiles, and what compiling it says."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.source = f"def kernel(x):\n    return x + np.float32({self.number})\n"

    def compute(self) -> None:
        """Compile or load it as a new process would, and check its result."""
        compiler._ufuncs.clear()
        found: list[np.ufunc] = []
        compiler.request("sum", lambda: found.append(compiler.compile_ufunc(self.source, (_FLOAT,), _FLOAT)))
        got = found[0](np.arange(5, dtype=np.float32))
        np.testing.assert_array_equal(got, np.arange(5, dtype=np.float32) + self.number)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the kernels that are compiled."""
    seen: list[str] = []
    compiled = compiler._compiled

    def counted(key: str, *args: Any) -> Any:
        seen.append(key)
        return compiled(key, *args)

    monkeypatch.setattr(compiler, "_compiled", counted)
    return seen


def test_the_format(cache: Path, compilations: list[str]) -> None:
    _Kernel().compute()
    (path,) = cache.iterdir()
    assert path.name == f"{compilations[0]}.kernel"
    assert re.fullmatch(r"[0-9a-f]{32}\.kernel", path.name)
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    content = path.read_bytes()
    assert content.startswith(b"tenkey kernel 1\n")
    header = json.loads(content[52 : 52 + int.from_bytes(content[48:52], "little")])
    assert header["key"] == compilations[0]
    code = kernel_files._parsed(content, compilations[0])
    assert len(code.objects) == header["objects"]
    assert code.bitcode.startswith(b"BC")
    if sys.platform == "linux":
        assert code.objects.startswith(b"\x7fELF")


def test_a_cached_kernel_is_not_compiled_again(cache: Path, compilations: list[str]) -> None:
    kernel = _Kernel()
    for _ in range(3):
        kernel.compute()
    assert len(compilations) == 1


def test_loading_runs_no_python_code_from_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import marshal
    import pickle

    kernel = _Kernel()
    kernel.compute()

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("code from a file")

    with monkeypatch.context() as patch:
        for owner, name in ((pickle, "load"), (pickle, "loads"), (marshal, "loads"), (builtins, "exec")):
            patch.setattr(owner, name, refused)
        kernel.compute()


def _flip(content: bytes, rng: random.Random) -> bytes:
    made = bytearray(content)
    for _ in range(rng.choice([1, 3])):
        made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def _damaged(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return the bytes after one of the things that happen to files."""
    place = rng.randrange(len(content))
    return rng.choice([
        _flip(content, rng), _flip(content, rng), _flip(content, rng), content[:place], b"", other, content + b"\0",
        content[:place] + bytes(len(content) - place - 1) + b"\1", b"\x80\x04nonsense" * 20,
    ])  # fmt: skip


def test_damaged_files_are_noticed(cache: Path, compilations: list[str]) -> None:
    for kernel in (_Kernel(), _Kernel()):
        kernel.compute()
    path, other = (cache / f"{key}.kernel" for key in compilations)
    content, another = path.read_bytes(), other.read_bytes()
    rng = random.Random(0)
    for number in range(500):
        path.write_bytes(_damaged(content, another, rng))
        said: list[str] = []
        assert kernel_files.load(compilations[0], said.append) is None, number
        assert len(said) == 1
        assert str(path) in said[0]
    path.write_bytes(content)
    assert kernel_files.load(compilations[0], pytest.fail) is not None


@pytest.mark.parametrize("damage", [_flip, lambda content, rng: content[: len(content) // 2], lambda content, rng: b""],
                         ids=["flipped", "truncated", "empty"])  # fmt: skip
def test_a_damaged_file_is_told_and_written_anew(
    damage: Callable[[bytes, random.Random], bytes], cache: Path, compilations: list[str]
) -> None:
    kernel = _Kernel()
    kernel.compute()
    (path,) = cache.iterdir()
    content = path.read_bytes()
    path.write_bytes(damage(content, random.Random(1)))
    with pytest.warns(UserWarning, match=r"cannot be used \(its checksum is wrong\): it is compiled again") as caught:
        kernel.compute()
    assert len(caught) == 1
    assert len(compilations) == 2
    assert len(path.read_bytes()) == len(content)
    kernel.compute()
    assert len(compilations) == 2


def test_code_that_llvm_refuses(cache: Path, compilations: list[str]) -> None:
    """As by a version of LLVM that has the same number, or by chance."""
    kernel = _Kernel()
    kernel.compute()
    code = kernel_files.load(compilations[0], pytest.fail)
    assert code is not None
    for wrong in (code._replace(bitcode=b"BC nonsense"), code._replace(symbol="nowhere")):
        kernel_files.store(compilations[0], wrong, pytest.fail)
        compiler._uttered.clear()
        with pytest.warns(UserWarning, match="cannot be loaded") as caught:
            kernel.compute()
        assert len(caught) == 1
    assert len(compilations) == 3


@_POSIX
def test_files_that_others_can_change_are_not_read(cache: Path, compilations: list[str]) -> None:
    kernel = _Kernel()
    kernel.compute()
    (path,) = cache.iterdir()
    path.chmod(0o666)
    with pytest.warns(UserWarning, match="not a file that only you can write to"):
        kernel.compute()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    moved = path.rename(cache / "moved")
    path.symlink_to(moved)
    compiler._uttered.clear()
    with pytest.warns(UserWarning, match=r"cannot be used \(Too many levels of symbolic links\)"):
        kernel.compute()
    path.unlink()
    os.mkfifo(path)
    said: list[str] = []
    assert kernel_files.load(path.stem, said.append) is None  # does not wait for a writer
    assert "not a file that only you can write to" in said[0]


def _full_disk(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, where, fail)


@pytest.mark.parametrize("where", ["mkdir", "write_bytes", "replace"])
def test_a_full_disk(where: str, cache: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _Kernel().compute()
    first, second = _Kernel(), _Kernel()
    with monkeypatch.context() as patch:
        _full_disk(patch, where)
        with pytest.warns(UserWarning, match=r"cannot be saved in .* \(No space left on device\)") as caught:
            first.compute()
        assert len(caught) == 1
        second.compute()  # the same again is not said again
    assert len(list(cache.iterdir())) == 1
    second.compute()
    assert len(list(cache.iterdir())) == 2
    assert len(compilations) == 4


def test_a_folder_without_permission(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not Path(path).is_relative_to(cache) and access(path, mode))
    with pytest.warns(UserWarning, match="it cannot be written") as caught:
        _Kernel().compute()
    assert len(caught) == 1
    _Kernel().compute()
    assert list(cache.iterdir()) == []
    assert len(list(temporary.rglob("*.kernel"))) == 2


def test_a_folder_that_is_deleted_while_it_is_used(cache: Path, compilations: list[str]) -> None:
    kernel = _Kernel()
    kernel.compute()
    shutil.rmtree(cache.parent)
    kernel.compute()
    kernel.compute()
    assert len(compilations) == 2
    assert len(list(cache.iterdir())) == 1


def test_different_kernels_have_different_files(cache: Path) -> None:
    source = "def kernel(x):\n    return x + x\n"
    for dtype in ("float32", "float64", "int64"):
        kind = np.dtype(dtype)
        assert compiler.compile_ufunc(source, (kind,), kind)(np.ones(2, kind)).dtype == kind
    assert len(list(cache.iterdir())) == 3


# ---- what cannot be compiled


def _program(name: str, monkeypatch: pytest.MonkeyPatch, error: Exception) -> Program:
    """A program whose kernel cannot be compiled."""

    def fail(*args: Any) -> None:
        raise error

    monkeypatch.setattr(compiler, "_compiled", fail)
    facet = replaced(registry.find("tk::expm1").facets["Pointwise"], ufunc=None)
    return Program(name, facet, _FLOAT, _FLOAT)


@pytest.mark.parametrize("mode", ["sync", "background"])
def test_a_kernel_that_cannot_be_compiled_is_told_once(mode: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEY_COMPILE", mode)
    program = _program("test::broken", monkeypatch, RuntimeError("no such register"))

    def ask() -> None:
        for _ in range(3):
            program.request()
            compiler.wait()

    with pytest.warns(UserWarning, match="compiling the kernel test::broken for float32 failed") as caught:
        ask()
    assert len(caught) == 1
    assert "RuntimeError: no such register): it keeps running on NumPy" in str(caught[0].message)
    assert not program.compiled
    np.testing.assert_allclose(program.large(np.ones(3, np.float32)), np.expm1(np.float32(1)))
    done: list[int] = []
    compiler.request("sound", lambda: done.append(1))  # the thread lives
    compiler.wait()
    assert done == [1]


@pytest.mark.parametrize("mode", ["sync", "background"])
def test_an_operation_without_counterpart(mode: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The author of a custom operator is told; that of a built-in one knows."""
    monkeypatch.setenv("TENKEY_COMPILE", mode)
    facet = registry.find("tk::special_erfc").facets["Pointwise"]
    built_in, custom = (Program(name, facet, _FLOAT, _FLOAT) for name in ("tk::special_erfc", "test::erfc"))

    def ask(program: Program) -> None:
        for _ in range(2):
            program.request()
            compiler.wait()

    ask(built_in)
    with pytest.warns(UserWarning, match="test::erfc for float32 failed .*the scalar operation 'erfc'") as caught:
        ask(custom)
    assert len(caught) == 1
    assert not custom.compiled


def test_without_numba_one_warning_is_enough(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ImportError("Numba needs NumPy 1.26 or less")

    def ask() -> None:
        for name in ("first", "second"):
            compiler.request(name, fail)

    with pytest.warns(UserWarning, match="kernels are not compiled .*Numba needs NumPy") as caught:
        ask()
    assert len(caught) == 1


def test_where_warnings_are_errors_the_caller_gets_them(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _program("test::broken", monkeypatch, RuntimeError("no such register"))
    with pytest.raises(UserWarning, match="no such register") as caught:  # pytest makes warnings errors
        program.request()
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_where_warnings_are_errors_a_kernel_is_compiled_nevertheless(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facet = replaced(registry.find("tk::expm1").facets["Pointwise"], ufunc=None)
    program = Program("test::unsaved", facet, _FLOAT, _FLOAT)
    _full_disk(monkeypatch, "write_bytes")
    with pytest.raises(UserWarning, match="cannot be saved"):
        program.request()
    assert program.compiled


def test_in_the_background_an_error_goes_where_those_of_threads_go(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENKEY_COMPILE", "background")
    seen: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    program = _program("test::broken", monkeypatch, RuntimeError("no such register"))
    program.request()
    done: list[int] = []
    compiler.request("sound", lambda: done.append(1))
    compiler.wait()
    assert done == [1]
    (arguments,) = seen
    assert arguments.exc_type is UserWarning
    assert "no such register" in str(arguments.exc_value)
    assert isinstance(arguments.exc_value.__cause__, RuntimeError)
    assert arguments.thread.name == "tenkey compiler"


def test_a_module_that_fails_leaves_nothing_behind(cache: Path) -> None:
    loaded = set(sys.modules)
    with pytest.raises(ZeroDivisionError):
        compiler.compile_ufunc("x = 1 // 0\n", (_FLOAT,), _FLOAT)
    assert not [name for name in set(sys.modules) - loaded if name.startswith("tenkey_kernel_")]


# ---- processes of their own

_SCRIPT = """
import json, os, sys, warnings
import numpy as np, tenkey as tk
from tenkey.backends.cpu.numba import compiler
compiled, compile_kernel = [], compiler._compiled
def counted(key, *args):
    compiled.append(key)
    return compile_kernel(key, *args)
compiler._compiled = counted
if "limit" in sys.argv:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
x = tk.asarray(np.linspace(-3, 3, 50_000, dtype=np.float32))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    errors = []
    for function, reference in ((tk.sigmoid, lambda a: 1 / (1 + np.exp(-a))), (tk.tanh, np.tanh)):
        want = reference(x.numpy().astype(float))
        errors.append(float(np.abs(function(x).numpy() - want).max()))
print(json.dumps({"error": max(errors), "compiled": len(compiled), "warnings": [str(w.message) for w in caught]}))
"""


def _start(folder: Path, *arguments: str, **more: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TENKEY_CACHE_DIR": str(folder), "TENKEY_COMPILE": "sync", **more}
    return subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def _finish(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Return how many kernels a process compiled, and its warnings."""
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    found = json.loads(out)
    assert found["error"] < 1e-6
    return found["compiled"], found["warnings"]


def test_the_cache_is_used_by_the_next_process(tmp_path: Path) -> None:
    assert _finish(_start(tmp_path)) == (2, [])
    assert len(list((tmp_path / "kernels").iterdir())) == 2
    assert _finish(_start(tmp_path)) == (0, [])


def test_two_processes_at_once(tmp_path: Path) -> None:
    for process in [_start(tmp_path) for _ in range(2)]:
        assert _finish(process)[1] == []
    assert len(list((tmp_path / "kernels").iterdir())) == 2
    assert _finish(_start(tmp_path)) == (0, [])


@_POSIX
def test_a_full_disk_in_a_process_of_its_own(tmp_path: Path) -> None:
    compiled, said = _finish(_start(tmp_path, "limit"))
    assert compiled == 2
    (text,) = said
    assert "cannot be saved" in text
    assert list((tmp_path / "kernels").iterdir()) == []


@_POSIX
def test_a_folder_that_others_can_write_to(tmp_path: Path) -> None:
    shared, temporary = tmp_path / "shared", tmp_path / "temporary"
    shared.mkdir()
    shared.chmod(0o777)
    temporary.mkdir(0o700)
    compiled, said = _finish(_start(shared, TMPDIR=str(temporary)))
    assert compiled == 2
    (text,) = said
    assert "other users can write to" in text
    assert list(shared.iterdir()) == []
    assert len(list(temporary.rglob("*.kernel"))) == 2


_DAMAGES = """
import os, random, sys, warnings
from pathlib import Path
import numpy as np
from tenkey.backends.cpu.numba import compiler
kind = np.dtype("float32")
sources = [f"def kernel(x):\\n    return x * x + np.float32({k})\\n" for k in range(4)]
x = np.arange(100, dtype=np.float32)
def compute():
    compiler._ufuncs.clear()
    for k, source in enumerate(sources):
        job = lambda: made.append(compiler.compile_ufunc(source, (kind,), kind))
        made = []
        compiler.request("square", job)
        assert (made[0](x) == x * x + np.float32(k)).all()
compute()
folder = Path(os.environ["TENKEY_CACHE_DIR"]) / "kernels"
rng = random.Random(0)
for number in range(200):
    path = sorted(folder.iterdir())[number % 4]
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 3, 100])):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    compiler._uttered.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compute()
    assert len(caught) == 1 and "checksum" in str(caught[0].message), (number, caught)
print("done")
"""


@pytest.mark.full
def test_two_hundred_damages(tmp_path: Path) -> None:
    environment = {**os.environ, "TENKEY_CACHE_DIR": str(tmp_path), "TENKEY_COMPILE": "sync"}
    done = subprocess.run(
        [sys.executable, "-c", _DAMAGES], capture_output=True, text=True, timeout=600, env=environment, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_a_process_that_ends_while_it_compiles(tmp_path: Path) -> None:
    program = "import tenkey as tk\ntk.sigmoid(tk.ones(1 << 16)); tk.tanh(tk.ones(1 << 16)); tk.sin(tk.ones(1 << 16))"
    environment = {**os.environ, "TENKEY_CACHE_DIR": str(tmp_path), "TENKEY_COMPILE": "background"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
