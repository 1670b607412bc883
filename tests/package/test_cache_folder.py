"""Note [Cache folders are private] in ``tenkey/_util/cache_folder.py``."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tenkey._util import cache_folder as module
from tenkey._util.cache_folder import cache_folder, is_private_file

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")
_IS_ROOT = hasattr(os, "getuid") and os.getuid() == 0


class _Cache:
    """A configured folder, a temporary folder beside it, and what is said of them."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.patch = root, patch
        self.temporary = root / "temporary"
        self.temporary.mkdir(0o700)
        patch.setattr(tempfile, "tempdir", str(self.temporary))
        self.said: list[str] = []

    def find(self, configured: Path | str) -> Path | None:
        self.patch.setenv("TENKEY_CACHE_DIR", str(configured))
        found = cache_folder("kernels", self.said.append)
        return None if found is None else Path(found)

    def refuses(self, configured: Path | str, words: str) -> None:
        """The folder is not used, but a private one, and the reason is told."""
        found = self.find(configured)
        assert found == self.temporary / f"tenkey-{os.getuid()}" / "kernels"
        assert stat.S_IMODE(found.stat().st_mode) == 0o700
        (text,) = self.said
        assert words in text
        assert str(configured) in text
        assert str(found) in text
        assert "TENKEY_CACHE_DIR" in text
        self.said.clear()

    def accepts(self, configured: Path | str) -> Path:
        found = self.find(configured)
        assert self.said == []
        assert found == Path(configured).absolute() / "kernels"
        assert stat.S_IMODE(found.stat().st_mode) == 0o700
        return found


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Cache:
    return _Cache(tmp_path, monkeypatch)


def _folder(path: Path, mode: int = 0o700) -> Path:
    path.mkdir()
    path.chmod(mode)
    return path


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277])
def test_new_folders_are_private_whatever_the_umask(umask: int, cache: _Cache) -> None:
    old = os.umask(umask)
    try:
        cache.accepts(cache.root / "some" / "new" / "cache")
    finally:
        os.umask(old)
    for part in ("some", "some/new", "some/new/cache", "some/new/cache/kernels"):
        assert stat.S_IMODE((cache.root / part).stat().st_mode) == 0o700


def test_the_folder_is_the_users(cache: _Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as platformdirs finds, which is asked on systems other than Linux."""
    import platformdirs

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(cache.root / "home"))
    assert cache.find("") == Path(platformdirs.user_cache_dir("tenkey", appauthor=False), "kernels")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.root / "elsewhere"))
    assert cache.find("") == Path(platformdirs.user_cache_dir("tenkey", appauthor=False), "kernels")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        patch.setattr(platformdirs, "user_cache_dir", lambda name, appauthor: str(cache.root / "library" / name))
        assert cache.find("") == cache.root / "library" / "tenkey" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    found = cache.find("")  # without a home folder, "~" must not become a folder in the working directory
    assert found is not None
    assert found.is_relative_to(cache.temporary)
    assert "no home folder" in cache.said[0]


def test_folders_that_others_can_read_are_used(cache: _Cache) -> None:
    cache.accepts(_folder(cache.root / "cache", 0o755))
    (cache.root / "cache" / "kernels").chmod(0o755)
    assert cache.find(cache.root / "cache") == cache.root / "cache" / "kernels"
    assert cache.said == []


@pytest.mark.parametrize("where", ["cache", "cache/kernels", "parent"])
@pytest.mark.parametrize("mode", [0o777, 0o707, 0o702])
def test_folders_that_others_can_write_to_are_refused(where: str, mode: int, cache: _Cache) -> None:
    base = _folder(cache.root / "parent")
    kernels = cache.accepts(base / "cache")
    unsafe = {"cache": base / "cache", "cache/kernels": kernels, "parent": base}[where]
    unsafe.chmod(mode)
    cache.refuses(base / "cache", f"other users can write to {unsafe}")


def test_a_sticky_folder_protects_what_lies_in_it(cache: _Cache) -> None:
    shared = _folder(cache.root / "shared", 0o1777)
    cache.accepts(shared / "mine")
    cache.accepts(shared)  # the folder "kernels" in it
    (shared / "kernels").chmod(0o1777)
    cache.refuses(shared, "other users can write to")


def _give_away(path: Path, patch: pytest.MonkeyPatch) -> None:
    """Let a path belong to another user, in fact if that is possible."""
    if _IS_ROOT:
        os.chown(path, 12345, -1)
        return
    lstat = os.lstat

    def changed(name: str) -> Any:
        found = lstat(name)
        return os.stat_result((*found[:4], os.getuid() + 1, *found[5:])) if name == str(path) else found

    patch.setattr(os, "lstat", changed)


@pytest.mark.parametrize("where", ["cache", "kernels", "parent"])
@pytest.mark.parametrize("mode", [0o700, 0o1777])
def test_folders_of_others_are_refused(where: str, mode: int, cache: _Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = _folder(cache.root / "shared", 0o1777)
    base = _folder(shared / "parent")
    kernels = cache.accepts(base / "cache")
    foreign = {"cache": base / "cache", "kernels": kernels, "parent": base}[where]
    foreign.chmod(mode)
    _give_away(foreign, monkeypatch)
    cache.refuses(base / "cache", f"{foreign} belongs to another user")


def test_symbolic_links(cache: _Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    target = _folder(cache.root / "target")
    good = cache.root / "good"
    good.symlink_to(target)
    assert cache.find(good) == good / "kernels"
    assert cache.said == []
    relative = _folder(cache.root / "a") / "relative"
    relative.symlink_to("../target")
    assert cache.find(relative / ".." / "target") == relative / ".." / "target" / "kernels"
    assert cache.said == []
    exchangeable = _folder(cache.root / "open", 0o777) / "link"
    exchangeable.symlink_to(target)
    cache.refuses(exchangeable, "other users can write to")
    foreign = _folder(cache.root / "sticky", 0o1777) / "link"
    foreign.symlink_to(target)
    assert cache.find(foreign) == foreign / "kernels"
    if _IS_ROOT:
        os.lchown(foreign, 12345, -1)
    else:
        _give_away(foreign, monkeypatch)
    cache.refuses(foreign, f"{foreign} belongs to another user")
    to_unsafe = cache.root / "to-unsafe"
    to_unsafe.symlink_to(cache.root / "open")
    cache.refuses(to_unsafe, "other users can write to")
    endless = cache.root / "endless"
    endless.symlink_to(endless)
    cache.refuses(endless, "too many symbolic links")


def test_groups(cache: _Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """A private group, as systems with the umask 002 give to each user, is not a group of others."""
    group = SimpleNamespace(gr_gid=cache.root.stat().st_gid, gr_name="user", gr_mem=[])
    user = SimpleNamespace(pw_gid=group.gr_gid, pw_name="user")
    monkeypatch.setattr(grp, "getgrgid", lambda number: group)
    monkeypatch.setattr(pwd, "getpwuid", lambda number: user)
    folder = _folder(cache.root / "cache", 0o775)
    cache.accepts(folder)
    for changes in ({"gr_mem": ["another"]}, {"gr_name": "staff"}, {"gr_gid": group.gr_gid + 1}):
        with monkeypatch.context() as patch:
            patch.setattr(
                grp, "getgrgid", lambda number, changes=changes: SimpleNamespace(**{**vars(group), **changes})
            )
            cache.refuses(folder, "other users can write to")
    monkeypatch.setattr(os, "getxattr", lambda path, name: b"a list of users", raising=False)
    cache.refuses(folder, "other users can write to")


def test_what_cannot_be_a_folder(cache: _Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    file = cache.root / "file"
    file.write_text("in the way")
    cache.refuses(file, "is not a folder")
    cache.refuses(file / "below", "is not a folder")
    assert file.read_text() == "in the way"
    folder = _folder(cache.root / "read-only", 0o500)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: "read-only" not in str(path) and access(path, mode))
    cache.refuses(folder, "it cannot be written" if _IS_ROOT else "Permission denied")


def test_without_any_private_folder_there_is_no_cache(cache: _Cache) -> None:
    unsafe = _folder(cache.root / "unsafe", 0o777)
    planted = _folder(cache.temporary / f"tenkey-{os.getuid()}", 0o777)
    assert cache.find(unsafe) is None
    (text,) = cache.said
    assert f"nor can {planted}" in text
    assert "each process compiles it again" in text
    assert list(planted.iterdir()) == list(unsafe.iterdir()) == []


def test_a_folder_is_looked_at_each_time(cache: _Cache) -> None:
    kernels = cache.accepts(cache.root / "cache")
    kernels.rmdir()
    (cache.root / "cache").rmdir()
    cache.accepts(cache.root / "cache")  # made anew
    (cache.root / "cache").chmod(0o777)
    cache.refuses(cache.root / "cache", "other users can write to")


def test_the_working_directory_may_be_gone(cache: _Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """It matters for relative paths only."""
    gone = _folder(cache.root / "gone")
    monkeypatch.chdir(gone)
    cache.accepts("relative")
    (gone / "relative" / "kernels").rmdir()
    (gone / "relative").rmdir()
    gone.rmdir()
    assert cache.find(cache.root / "cache") == cache.root / "cache" / "kernels"
    assert cache.said == []
    cache.refuses("relative", "No such file")


def test_private_files(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch(0o600)
    assert is_private_file(file.stat())
    for mode, private in ((0o644, True), (0o664, False), (0o602, False)):
        file.chmod(mode)
        assert is_private_file(file.stat()) is private
    assert not is_private_file(tmp_path.stat())
    found = file.stat()
    foreign = os.stat_result((stat.S_IFREG | 0o600, *found[1:4], os.getuid() + 1, *found[5:]))
    assert not is_private_file(foreign)


def test_systems_without_owners(cache: _Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "getuid")
    assert cache.find(cache.root / "some" / "cache") == cache.root / "some" / "cache" / "kernels"
    assert cache.said == []
    (cache.root / "file").touch()
    found = cache.find(cache.root / "file")
    assert found == cache.temporary / "tenkey-cache" / "kernels"
    assert module.is_private_file((cache.root / "file").stat())
