"""Write files whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["replacing"]

_NAME: Final = ".tenkey-{}.tmp"
_LEFT_BEHIND: Final = re.compile(r"\.tenkey-[0-9a-f]{16}\.tmp")
_HOUR: Final = 3600
_ACL: Final = "system.posix_acl_access"
_searched: Final[dict[Path, float]] = {}


# Note [Files are replaced in one step]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# The content is written to a new file, flushed to the disk, and moved to the place of the old file by a rename, which
# is atomic. Readers see the old content or the new; a process that has the old file mapped keeps it; a failure leaves
# it unchanged. The new file is in a folder of its own beside the target, hence in the same file system, which other
# users cannot enter: they cannot read it before the rename, whatever its permissions and whatever other files the
# writing library creates. The owner, group, permissions and access control list of the old file are applied before the
# rename; if the group cannot be, its members get only what all users have. A file that did not exist gets the
# permissions that the umask or the folder gives. A symbolic link stays, and its target is replaced; other hard links to
# the old file keep the old content. A file that may not be written is not replaced either. Folders of processes that
# were killed are deleted by a later call for the same parent once they are an hour old, by the clock of the file
# system. Guarded by test_serialization_writing.py.
@contextmanager
def replacing(path: str, *, mode: int | None = None, durable: bool = True) -> Iterator[str]:
    """Give the name of a new, empty file, which becomes ``path`` if the ``with`` block ends without an exception.

    ``mode`` sets its permissions, whatever an old file has. Without ``durable``, it may be empty after a power failure.
    """
    import shutil  # only functions that write files need it

    target = Path(os.path.realpath(path))
    old = None
    with suppress(FileNotFoundError):
        old = target.stat()
        if not stat.S_ISREG(old.st_mode):
            raise ValueError(f"[save] {path} is not a regular file, and would be replaced by one: give another path.")
        if mode is None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, "the file may not be written, and is therefore not replaced", str(path))
    folder = target.with_name(_NAME.format(os.urandom(8).hex()))
    try:
        folder.mkdir(0o700)
        # Whatever the umask and the parent's access control list; the bit lets the file inherit the parent's group.
        folder.chmod(0o700 | folder.stat().st_mode & stat.S_ISGID)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # with the name that the caller knows
    try:
        temporary = folder / target.name
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        try:
            new = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        _delete_left_behind(target.parent, new.st_mtime)
        yield str(temporary)
        if durable:
            with temporary.open("r+b") as file:
                os.fsync(file.fileno())
        if old is None or mode is not None:  # in any case, because safetensors replaces the file
            temporary.chmod(stat.S_IMODE(new.st_mode) if mode is None else mode)
        else:
            _apply_permissions(temporary, target, old)
        temporary.replace(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if durable:
        _sync_folder(target.parent)


def _apply_permissions(temporary: Path, target: Path, old: os.stat_result) -> None:
    """Give the new file the owner, group, permissions and access control list of the old one, as far as possible."""
    mode = stat.S_IMODE(old.st_mode)
    if hasattr(os, "chown"):
        try:
            os.chown(temporary, old.st_uid, old.st_gid)
        except OSError:  # only root changes owners
            try:
                os.chown(temporary, -1, old.st_gid)
            except OSError:
                mode = mode & ~0o070 | (mode & 0o007) << 3  # the group is another one
    temporary.chmod(mode)
    if hasattr(os, "setxattr"):
        with suppress(OSError):  # the folder may have given it a list
            os.removexattr(temporary, _ACL)
        with suppress(OSError):  # most files have none
            os.setxattr(temporary, _ACL, os.getxattr(target, _ACL))


def _delete_left_behind(parent: Path, now: float) -> None:
    """Delete folders of writers that were killed more than an hour ago; look for them at most once per hour."""
    if time.monotonic() < _searched.get(parent, 0.0):
        return
    _searched[parent] = time.monotonic() + _HOUR
    import shutil  # only functions that write files need it

    user = os.getuid() if hasattr(os, "getuid") else 0
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if not _LEFT_BEHIND.fullmatch(entry.name) or not entry.is_dir(follow_symlinks=False):
                continue
            with suppress(OSError):  # it may be deleted at this moment
                found = entry.stat(follow_symlinks=False)
                times = [found.st_mtime, *[file.lstat().st_mtime for file in Path(entry).iterdir()]]
                if found.st_uid == user and max(times) < now - _HOUR:
                    shutil.rmtree(entry, ignore_errors=True)


def _sync_folder(folder: Path) -> None:
    """Flush the rename itself to the disk, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
