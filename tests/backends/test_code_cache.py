"""Files of compiled kernels: Note [Kernel files are verified], Note [The size of the cache]."""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenkey.backends import processor
from tenkey.backends.llvm import code_cache, complaints

_POSIX = pytest.mark.skipif(not hasattr(os, "getuid"), reason="owners and modes are those of POSIX")
_IMAGE = bytes(range(256)) * 20


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kernels of an empty cache; nothing has been warned of."""
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TENKEY_CACHE_LIMIT", raising=False)
    _said()
    _forget()
    return tmp_path / "cache" / "kernels"


def _forget() -> None:
    """Behave like a new process, which has not yet looked at the folder."""
    code_cache._State.seen, code_cache._State.stored = float("inf"), 0


def _said() -> list[str]:
    """What would be warned of; it may be said again."""
    texts = [text for text, _ in complaints._waiting]
    complaints._waiting.clear()
    complaints._said.clear()
    return texts


def _file(cache: Path, key: str) -> Path:
    return cache / f"{code_cache._name(key)}.kernel"


def test_what_is_stored_is_loaded(cache: Path) -> None:
    assert code_cache.load("add") is None
    code_cache.store("add", _IMAGE)
    code_cache.store("multiply", b"another")
    assert code_cache.load("add") == _IMAGE
    assert code_cache.load("multiply") == b"another"
    assert code_cache.load("subtract") is None
    assert _said() == []


def test_the_format(cache: Path) -> None:
    code_cache.store("add", _IMAGE)
    (path,) = cache.iterdir()
    assert re.fullmatch(r"[0-9a-f]{64}\.kernel", path.name)
    content = path.read_bytes()
    assert content.startswith(b"tenkey kernel 2\n")
    assert content.endswith(bytes.fromhex(path.stem) + _IMAGE)
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_the_folder_can_be_copied(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code_cache.store("add", _IMAGE)
    shutil.copytree(cache.parent, tmp_path / "copy", copy_function=shutil.copy)  # not the dates
    shutil.rmtree(cache.parent)
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(tmp_path / "copy"))
    assert code_cache.load("add") == _IMAGE
    assert str(tmp_path).encode() not in _file(tmp_path / "copy" / "kernels", "add").read_bytes()


# ---- names


def test_names_depend_on_everything_that_kernels_depend_on(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the text, the processor, the version of LLVM and the sources, and on nothing else."""

    def environment(**changes: bytes) -> bytes:
        with monkeypatch.context() as patch:
            for name, value in changes.items():
                module = processor if name == "description" else code_cache
                patch.setattr(module, name, lambda value=value: value)
            code_cache.environment.cache_clear()
            return code_cache.environment()

    usual = environment()
    assert usual == environment()
    for part in ("description", "_llvm", "_sources"):
        assert environment(**{part: b"another"}) != usual
    code_cache.environment.cache_clear()
    assert code_cache._name("add") != code_cache._name("add ")


def _copy_of_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "tenkey" / "backends"
    shutil.copytree(Path(code_cache.__file__).parents[1], root, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_cache, "__file__", str(root / "llvm" / "code_cache.py"))
    return root


def test_a_changed_source_has_other_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = code_cache._sources()
    root = _copy_of_the_sources(tmp_path, monkeypatch)
    assert code_cache._sources() == usual  # neither the place nor the dates matter
    path = root / "libm" / "exponentials.py"
    text = path.read_text()
    for change in (text + "\n", text.replace("1", "2", 1), ""):
        path.write_text(change)
        assert code_cache._sources() != usual
    path.write_text(text)
    (root / "libm" / "notes.txt").write_text("not a source")
    (root / "libm" / ".#exponentials.py").symlink_to("user@host.1234")  # as editors mark a file that is open
    assert code_cache._sources() == usual
    below = root / "cpu" / "loops" / "below"
    below.mkdir(parents=True)
    (below / "more.py").write_text("")
    assert code_cache._sources() != usual


def test_the_hash_of_the_sources_is_remembered(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = _copy_of_the_sources(tmp_path, monkeypatch)
    usual = code_cache._sources()
    assert not cache.exists() or list(cache.iterdir()) == []  # the files are new: a change might not show
    monkeypatch.setattr(code_cache, "_SETTLED", -3600.0)
    assert code_cache._sources() == usual
    (remembered,) = cache.iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(code_cache, "_read", None)  # nothing is read
        assert code_cache._sources() == usual
        remembered.write_bytes(b"damaged")
        with pytest.raises(TypeError):
            code_cache._sources()
    assert "its checksum is wrong" in _said()[0]
    assert code_cache._sources() == usual
    path = root / "libm" / "exponentials.py"
    before = path.stat()
    path.write_text(path.read_text().replace("1", "2", 1))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # of the same date and size
    assert path.stat().st_size == before.st_size
    assert code_cache._sources() != usual


_CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R)
cpu MHz\t\t: {}
flags\t\t: fpu avx2 {}
bugs\t\t: none

processor\t: 1
vendor_id\t: AnotherVendor
"""


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="LLVM is asked elsewhere")
def test_the_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cpuinfo"
    monkeypatch.delenv("TENKEY_CPU", raising=False)

    def described(text: str) -> bytes:
        path.write_text(text)
        with monkeypatch.context() as patch:
            patch.setattr(processor, "_CPUINFO", str(path))
            return processor.description()

    usual = described(_CPUINFO.format(2000, "avx512f"))
    assert usual.startswith(b"vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nflags")
    assert b"AnotherVendor" not in usual
    assert described(_CPUINFO.format(3999, "avx512f")) == usual
    assert described(_CPUINFO.format(2000, "")) != usual
    assert described("") == described("a list\nwithout an end") != usual  # LLVM's name of it

    lines = set(Path("/proc/cpuinfo").read_text().split("\n"))
    assert lines.issuperset(processor.description().decode().split("\n"))


def test_the_environment_is_found_without_llvm() -> None:
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return  # LLVM is needed there to link what is found
    program = (
        "import sys; from tenkey.backends.llvm import code_cache; assert b'0.' in code_cache.environment(); "
        "print(*{'llvmlite', 'tenkey.backends.llvm.llvm_library', 'numba', 'pathlib', 'platformdirs', 'hashlib'} "
        "& {*sys.modules})"
    )
    # a process that writes files needs more, and so does one that compiles for another processor
    environment = {**os.environ, "TENKEY_CACHE_LIMIT": "0", "TENKEY_CPU": ""}
    done = subprocess.run(
        [sys.executable, "-S", "-c", _PATHS + program], capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


_PATHS = f"import sys; sys.path[:] = {sys.path!r}; "


# ---- damages


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


def test_damaged_files_are_noticed(cache: Path) -> None:
    for key in ("add", "multiply"):
        code_cache.store(key, _IMAGE)
    path = _file(cache, "add")
    content, another = path.read_bytes(), _file(cache, "multiply").read_bytes()
    rng = random.Random(0)
    for number in range(500):
        path.write_bytes(_damaged(content, another, rng))
        assert code_cache.load("add") is None, number
        (text,) = _said()
        assert str(path) in text
        assert "it is compiled again" in text
    path.write_bytes(content)
    assert code_cache.load("add") == _IMAGE
    assert _said() == []


@pytest.mark.parametrize("damage", [_flip, lambda content, rng: content[: len(content) // 2], lambda content, rng: b""],
                         ids=["flipped", "truncated", "empty"])  # fmt: skip
def test_a_damaged_file_is_replaced(damage: Callable[[bytes, random.Random], bytes], cache: Path) -> None:
    code_cache.store("add", _IMAGE)
    path = _file(cache, "add")
    path.write_bytes(damage(path.read_bytes(), random.Random(1)))
    assert code_cache.load("add") is None
    assert "its checksum is wrong" in _said()[0]
    code_cache.store("add", _IMAGE)
    assert code_cache.load("add") == _IMAGE


def test_a_renamed_file_is_noticed(cache: Path) -> None:
    code_cache.store("add", _IMAGE)
    _file(cache, "add").rename(_file(cache, "multiply"))
    assert code_cache.load("multiply") is None
    assert "it holds another kernel" in _said()[0]


@_POSIX
def test_files_that_others_can_change_are_not_read(cache: Path) -> None:
    code_cache.store("add", _IMAGE)
    path = _file(cache, "add")
    path.chmod(0o666)
    assert code_cache.load("add") is None
    assert "not a file that only you can write to" in _said()[0]
    code_cache.store("add", _IMAGE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    moved = path.rename(cache / "moved")
    path.symlink_to(moved)
    assert code_cache.load("add") is None
    assert "(Too many levels of symbolic links)" in _said()[0]
    path.unlink()
    os.mkfifo(path)
    assert code_cache.load("add") is None  # does not wait for a writer
    assert "not a file that only you can write to" in _said()[0]
    code_cache.store("add", _IMAGE)
    assert "cannot be saved" in _said()[0]


# ---- folders and disks


def _full_disk(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, where, fail)


@pytest.mark.parametrize("where", ["mkdir", "replace"])
def test_a_full_disk(where: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code_cache.store("add", _IMAGE)
    with monkeypatch.context() as patch:
        _full_disk(patch, where)
        code_cache.store("multiply", _IMAGE)
        (text,) = _said()
        assert re.search(r"cannot be saved in .* \(No space left on device\): each process compiles them", text)
    assert len(list(cache.iterdir())) == 1
    code_cache.store("multiply", _IMAGE)
    assert len(list(cache.iterdir())) == 2


@_POSIX
def test_a_full_disk_in_a_process_of_its_own(tmp_path: Path) -> None:
    program = (
        "import resource; from tenkey.backends.llvm import code_cache, complaints; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); "
        "code_cache.store('add', bytes(5000)); print(*complaints._waiting)"
    )
    environment = {**os.environ, "TENKEY_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(  # -B: it cannot write bytecode either
        [sys.executable, "-B", "-c", program], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be saved" in done.stdout
    assert all(path.stat().st_size < 1000 for path in (tmp_path / "kernels").iterdir())  # the hash of the sources


def test_a_folder_without_permission(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not Path(path).is_relative_to(cache) and access(path, mode))
    code_cache.store("add", _IMAGE)
    assert code_cache.load("add") == _IMAGE
    (text,) = _said()
    assert "it cannot be written" in text
    assert list(cache.iterdir()) == []
    assert len(list(temporary.rglob("*.kernel"))) == 1


def test_a_folder_that_can_only_be_read(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has is used without a word, and what it lacks is stored in another one, from which it is loaded."""
    code_cache.store("add", _IMAGE)
    temporary = tmp_path / "temporary"
    temporary.mkdir(0o700)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).startswith(str(cache)))
    assert code_cache.load("add") == _IMAGE
    code_cache._sources()
    assert _said() == []
    assert code_cache.load("more") is None
    code_cache.store("more", _IMAGE * 2)
    assert code_cache.load("more") == _IMAGE * 2
    (text,) = _said()
    assert "it cannot be written" in text
    assert len(list(cache.iterdir())) == 1


def test_a_folder_that_is_deleted_while_it_is_used(cache: Path) -> None:
    code_cache.store("add", _IMAGE)
    shutil.rmtree(cache.parent)
    assert code_cache.load("add") is None
    code_cache.store("add", _IMAGE)
    assert code_cache.load("add") == _IMAGE
    assert _said() == []


_WRITER = """
import sys
from tenkey.backends.llvm import code_cache, complaints
from tenkey.backends.llvm.code_cache import load, store
for number in range(150):
    key = str(number % 7)
    found = load(key)
    assert found is None or found == key.encode() * 50_000, key
    store(key, key.encode() * 50_000)
print(*complaints._waiting)
"""


def test_processes_that_write_the_same_files(tmp_path: Path) -> None:
    environment = {**os.environ, "TENKEY_CACHE_DIR": str(tmp_path), "TENKEY_CACHE_LIMIT": "0.3"}
    started = [
        subprocess.Popen([sys.executable, "-c", _WRITER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env=environment) for _ in range(3)
    ]  # fmt: skip
    for process in started:
        out, errors = process.communicate(timeout=120)
        assert (process.returncode, out.strip(), errors) == (0, "", ""), errors


# ---- size


def _age(path: Path, days: float) -> None:
    then = time.time() - 86400 * days
    os.utime(path, (then, then))


def _keys(cache: Path, candidates: list[str]) -> list[str]:
    return [key for key in candidates if _file(cache, key).exists()]


def test_the_cache_is_bounded(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that were not used for the longest time go, until a quarter is free."""
    monkeypatch.setenv("TENKEY_CACHE_LIMIT", "1")
    image = bytes(100_000)  # ten fit
    keys = [str(number) for number in range(10)]
    for age, key in enumerate(keys):
        code_cache.store(key, image)
        _age(_file(cache, key), 20 - age)
    assert code_cache.load("0") == image  # it is used again
    assert code_cache.load("2") == image
    code_cache.store("new", image)
    assert _keys(cache, [*keys, "new"]) == ["0", "2", "6", "7", "8", "9", "new"]
    for number in range(100):
        code_cache.store(f"more{number}", image)
        assert sum(path.stat().st_size for path in cache.iterdir()) <= 1 << 20
    assert code_cache.load("more99") == image
    assert _said() == []


def test_what_other_processes_store_counts(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEY_CACHE_LIMIT", "1")
    code_cache.store("mine", bytes(1000))
    for number in range(30):
        (cache / f"{number}.kernel").write_bytes(bytes(100_000))
    for number in range(40):  # it looks again after some
        code_cache.store(f"small{number}", bytes(10))
    assert sum(path.stat().st_size for path in cache.iterdir()) <= 1 << 20
    _forget()  # another process looks at once
    for number in range(30):
        (cache / f"{number}.kernel").write_bytes(bytes(100_000))
    code_cache.store("theirs", bytes(1000))
    assert sum(path.stat().st_size for path in cache.iterdir()) <= 1 << 20


def test_looking_at_the_folder_is_rare(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    listed = code_cache.listed
    monkeypatch.setattr(code_cache, "listed", lambda place: looked.append(place) or listed(place))  # type: ignore[func-returns-value]
    for number in range(65):
        code_cache.store(str(number), b"small")
        assert code_cache.load(str(number)) == b"small"
    assert len(looked) == 3


def test_a_kernel_that_is_too_large_displaces_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENKEY_CACHE_LIMIT", "1")
    code_cache.store("small", _IMAGE)
    code_cache.store("large", bytes(1 << 20))
    assert _keys(cache, ["small", "large"]) == ["small"]
    monkeypatch.setenv("TENKEY_CACHE_LIMIT", "0")
    code_cache.store("none", b"")
    assert _keys(cache, ["small", "none"]) == ["small"]
    assert _said() == []


def test_the_limit(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, expected in (("", 256), ("12", 12), ("0.5", 0.5), ("0", 0), ("inf", float("inf"))):
        monkeypatch.setenv("TENKEY_CACHE_LIMIT", text)
        assert code_cache.limit() == expected * (1 << 20)
    assert _said() == []
    for text in ("256 MB", "-1", "nan"):
        monkeypatch.setenv("TENKEY_CACHE_LIMIT", text)
        assert code_cache.limit() == 256 << 20
        assert repr(text) in _said()[0]


def test_use_is_recorded_once_a_day(cache: Path) -> None:
    code_cache.store("add", _IMAGE)
    path = _file(cache, "add")
    _age(path, 0.5)
    before = path.stat().st_mtime
    assert code_cache.load("add") == _IMAGE
    assert path.stat().st_mtime == before
    _age(path, 3)
    assert code_cache.load("add") == _IMAGE
    assert time.time() - path.stat().st_mtime < 100


# ---- warnings


def test_warnings_are_issued_once() -> None:
    reason = RuntimeError("no such register")
    for _ in range(3):
        complaints.complain("a kernel of this test cannot be compiled: it runs on NumPy", reason)
    with pytest.warns(UserWarning, match="it runs on NumPy") as caught:
        complaints.utter()
    assert len(caught) == 1
    complaints.complain("a kernel of this test cannot be compiled: it runs on NumPy", reason)
    complaints.utter()
    complaints.complain("another kernel of this test cannot be compiled", reason)
    with pytest.raises(UserWarning, match="another kernel") as raised:  # pytest makes warnings errors
        complaints.utter()
    assert raised.value.__cause__ is reason
    complaints.utter()
