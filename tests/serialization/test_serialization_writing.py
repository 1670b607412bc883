"""Writing files: Note [Files are replaced in one step] in ``tenkey/_util/atomic_write.py``."""

from __future__ import annotations

import errno
import os
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy

import tenkey as tk
from tenkey._util import atomic_write

_POSIX = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
_SUFFIXES = pytest.mark.parametrize("suffix", ["safetensors", "npz", "npy"])


def _tree(suffix: str, size: int = 3) -> Any:
    return tk.ones(size) if suffix == "npy" else {"x": tk.ones(size)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.safetensors"


@_SUFFIXES
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file(suffix: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = tmp_path / f"f.{suffix}"
    tk.save(_tree(suffix), name)
    before = name.read_bytes()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(*((atomic_write.os, "fsync") if step == "fsync" else (Path, "replace")), fail)
    with pytest.raises(OSError, match="disk full"):
        tk.save(_tree(suffix), name)
    assert name.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [name.name]


_LIMITED = """
import resource, sys
import tenkey as tk
tk.save(eval(sys.argv[2]), sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    tk.save(eval(sys.argv[3]), sys.argv[1])
except OSError as error:
    print(type(error).__name__, error.errno)
"""


@_POSIX
@_SUFFIXES
def test_a_full_disk_is_an_oserror(suffix: str, tmp_path: Path) -> None:
    name = tmp_path / f"f.{suffix}"
    trees = ["tk.ones(3)", "tk.ones(4000)"] if suffix == "npy" else ["{'x': tk.ones(3)}", "{'x': tk.ones(4000)}"]
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(name), *trees], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    kind, number = done.stdout.split()
    assert kind == "OSError"
    if suffix != "npy":  # ndarray.tofile does not tell the number
        assert int(number) == errno.EFBIG
    loaded = tk.load(name)
    assert (loaded if suffix == "npy" else loaded["x"]).tolist() == [1.0] * 3
    assert [p.name for p in tmp_path.iterdir()] == [name.name]


def test_an_interrupted_writer_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arrays: Any, name: str, metadata: Any) -> None:
        Path(name).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(safetensors.numpy, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tk.save({"x": tk.ones(3)}, path)
    assert list(path.parent.iterdir()) == []


@_POSIX
def test_permissions(path: Path, tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        tk.save(1, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        tk.save(2, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(old)
    link = tmp_path / "link"
    link.symlink_to(path)
    tk.save(3, link)
    assert link.is_symlink()
    assert tk.load(path) == 3
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(ValueError, match="not a regular file"):
        tk.save(4, fifo)


def _open_to_others(folder: Path) -> list[str]:
    """The files below a folder that another user can read."""
    found = []
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if (Path(here) / name).stat().st_mode & 0o011]
        found += [name for name in files if (Path(here) / name).stat().st_mode & 0o044]
    return found


@_POSIX
@_SUFFIXES
def test_others_never_see_the_content_of_a_private_file(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = tmp_path / f"f.{suffix}"
    tk.save(_tree(suffix), name)
    name.chmod(0o600)
    seen: list[list[str]] = []
    actions = {step: getattr(owner, step) for owner, step in ((os, "fsync"), (Path, "chmod"), (Path, "replace"))}

    def observed(step: str) -> Any:
        def look(*args: Any, **kwargs: Any) -> Any:
            seen.append(_open_to_others(tmp_path))
            return actions[step](*args, **kwargs)

        return look

    old = os.umask(0o022)
    try:
        with monkeypatch.context() as patch:
            for owner, step in ((os, "fsync"), (Path, "chmod"), (Path, "replace")):
                patch.setattr(owner, step, observed(step))
            tk.save(_tree(suffix), name)
    finally:
        os.umask(old)
    assert len(seen) >= 3
    assert not any(seen)
    assert stat.S_IMODE(name.stat().st_mode) == 0o600


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives files to other users")
def test_the_owner_stays(path: Path) -> None:
    tk.save(1, path)
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    tk.save(2, path)
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 23456, 0o640)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives folders to any group")
def test_a_new_file_has_the_group_that_its_folder_gives(path: Path, tmp_path: Path) -> None:
    os.chown(tmp_path, -1, 23456)
    tmp_path.chmod(0o2775)
    tk.save(1, path)
    assert path.stat().st_gid == 23456


@_POSIX
def test_another_group_gets_what_all_users_have(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any) -> None:
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(os, "chown", refused)
    for old, new in ((0o664, 0o644), (0o640, 0o600), (0o606, 0o666)):
        tk.save(1, path)
        path.chmod(old)
        tk.save(2, path)
        assert stat.S_IMODE(path.stat().st_mode) == new


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="access control lists are attributes on Linux only")
def test_access_control_lists(path: Path, tmp_path: Path) -> None:
    tags = [
        (0x01, 6, -1),
        (0x02, 4, 12345),
        (0x04, 0, -1),
        (0x10, 4, -1),
        (0x20, 0, -1),
    ]  # one user more may read
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *tag) for tag in tags)
    tk.save(1, path)
    try:
        os.setxattr(path, "system.posix_acl_access", acl)
    except OSError:
        pytest.skip("the file system has no access control lists")
    tk.save(2, path)
    assert os.getxattr(path, "system.posix_acl_access") == acl
    plain = tmp_path / "plain.safetensors"
    tk.save(1, plain)
    plain.chmod(0o640)
    os.setxattr(tmp_path, "system.posix_acl_default", acl)
    tk.save(2, plain)
    assert "system.posix_acl_access" not in os.listxattr(plain)
    assert stat.S_IMODE(plain.stat().st_mode) == 0o640


def test_a_file_that_may_not_be_written_is_not_replaced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tk.save(1, path)
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda name, mode: bool(Path(name).stat().st_mode & 0o200))  # root may always
    with pytest.raises(PermissionError, match="may not be written"):
        tk.save(2, path)
    assert tk.load(path) == 1


def test_errors_name_the_path_that_was_given(tmp_path: Path) -> None:
    name = str(tmp_path / "nowhere" / "file.safetensors")
    with pytest.raises(FileNotFoundError) as caught:
        tk.save(1, name)
    assert caught.value.filename == name


def test_the_longest_name(tmp_path: Path) -> None:
    name = tmp_path / ("\N{GRINNING FACE}" * 60 + ".npy")  # 244 bytes
    tk.save(tk.ones(2), name)
    assert tk.load(name).tolist() == [1.0, 1.0]


def test_what_killed_processes_left_is_deleted(path: Path) -> None:
    parent = path.parent
    hour = 3600

    def folder(name: str, age: float, age_of_file: float) -> Path:
        made = parent / name
        made.mkdir()
        (made / "half").write_bytes(b"half")
        now = made.stat().st_mtime
        os.utime(made / "half", (now - age_of_file, now - age_of_file))
        os.utime(made, (now - age, now - age))
        return made

    old = folder(".tenkey-0123456789abcdef.tmp", 2 * hour, 2 * hour)
    kept = [
        folder(".tenkey-0123456789abcde0.tmp", 0.5 * hour, 0.5 * hour),
        folder(".tenkey-0123456789abcde1.tmp", 2 * hour, 0),  # a file that has been written for two hours
        folder(".tenkey-0123456789abcdeg.tmp", 2 * hour, 2 * hour),
        folder(".tenkey-0123456789abcdef0.tmp", 2 * hour, 2 * hour),
        folder("tenkey-0123456789abcdef.tmp", 2 * hour, 2 * hour),
    ]
    file = parent / ".tenkey-0123456789abcde2.tmp"
    file.write_bytes(b"not ours")
    os.utime(file, (0, 0))
    if os.name == "posix":
        link = parent / ".tenkey-0123456789abcde3.tmp"
        link.symlink_to(kept[-1])
        kept.append(link)
    tk.save(1, path)
    assert not old.exists()
    assert all(one.exists() for one in [*kept, file])
    assert (kept[-1] / "half").read_bytes() == b"half"


def test_a_killed_process_leaves_what_is_deleted_later(path: Path) -> None:
    program = (
        "import os, sys\nfrom tenkey._util.atomic_write import replacing\n"
        "with replacing(sys.argv[1]) as name:\n    open(name, 'w').write('half')\n    os._exit(3)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], timeout=60, check=False)
    assert done.returncode == 3
    (left,) = path.parent.iterdir()
    for one in (left / path.name, left):
        os.utime(one, (1, 1))
    tk.save(1, path)
    assert list(path.parent.iterdir()) == [path]


@_SUFFIXES
def test_loading_needs_no_temporary_file(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = tmp_path / f"f.{suffix}"
    tk.save(_tree(suffix), name)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    loaded = tk.load(name)
    assert (loaded if suffix == "npy" else loaded["x"]).tolist() == [1.0] * 3


def test_other_names_of_a_file_keep_the_old_content(path: Path, tmp_path: Path) -> None:
    tk.save(1, path)
    other = tmp_path / "other.safetensors"
    os.link(path, other)
    tk.save(2, path)
    assert (tk.load(path), tk.load(other)) == (2, 1)
