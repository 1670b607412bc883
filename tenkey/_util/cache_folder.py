"""The folder of compiled code, which only its owner can change.

Note [Cache folders are private]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A cached kernel is machine code, so whoever can write to the folder can run code as the user who reads it. A folder is
accepted only if the user or root owns it and every folder on the path to it, with the folders that hold symbolic links,
and if no other user may write to them. A sticky folder such as /tmp may lie on the path, because there others cannot
rename what they do not own, but it cannot be the cache itself. A group that may write counts as others unless it is the
user's private one, as with the umask 002 of some systems. The path is followed from the root, so each part is looked at
when others can no longer exchange it. New folders have mode 0700. Otherwise, or if the folder cannot be written where
that is needed, a folder in the system's temporary folder takes its place, under the same rules, or none; the caller is
told why. The check takes some microseconds per part and is made each time, so that changes and deletions are noticed.

Windows has no such modes: the default folders are in the user's profile, which its access control lists protect, and a
folder that ``TENKEY_CACHE_DIR`` names is trusted. The lists of macOS, beyond the mode, are not read either.
Guarded by ``tests/package/test_cache_folder.py``.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from os.path import join

__all__ = ["cache_folder", "is_private_file"]

_LINKS = 40  # as Linux allows


# Paths are strings here, because pathlib takes longer to import than a kernel of the cache to load.
def cache_folder(name: str, complain: Callable[[str], None], *, reading: bool = False) -> str | None:
    """Return the folder ``name`` of compiled code, or None; tell ``complain`` why it is not the one configured.

    It is in ``TENKEY_CACHE_DIR``, else in the user's cache folder. For ``reading``, it need not be writable.
    """
    configured = os.environ.get("TENKEY_CACHE_DIR") or _default()
    try:
        return _made(join(configured, name), reading)
    except OSError as error:
        reason = f"{configured} cannot be the cache of compiled code ({error.strerror})"
    remedy = "Set TENKEY_CACHE_DIR to a folder that only you can write to."
    try:
        folder = _made(join(_temporary(), name))
    except OSError as error:
        complain(f"{reason}, nor can {error.filename} ({error.strerror}): each process compiles it again. {remedy}")
        return None
    complain(f"{reason}: it is cached in {folder}. {remedy}")
    return folder


def _default() -> str:
    system: str = sys.platform
    if system == "linux":  # as platformdirs has it, which takes 7 ms to import
        return join(os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache"), "tenkey")
    import platformdirs

    return platformdirs.user_cache_dir("tenkey", appauthor=False)


def _temporary() -> str:
    import tempfile

    return join(tempfile.gettempdir(), f"tenkey-{os.getuid() if hasattr(os, 'getuid') else 'cache'}")


def _made(folder: str, reading: bool = False) -> str:
    """Return a private folder that can be written, made where it is missing; raise OSError if it cannot be one."""
    if folder.split(os.sep, 1)[0] == "~":
        raise FileNotFoundError(errno.ENOENT, "the user has no home folder", folder)
    if not os.path.isabs(folder):
        folder = join(os.getcwd(), folder)
    missing = _checked(folder)
    if missing:
        for part in missing:
            with suppress(FileExistsError):  # another process was faster
                os.mkdir(part, 0o700)
                os.chmod(part, 0o700)  # whatever the umask and the parent's access control list
        _checked(folder)
    if not reading and not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "it cannot be written", folder)
    return folder


def _checked(folder: str) -> list[str]:
    """Return the parts of a path that do not exist; raise PermissionError if others can change what lies in it."""
    if not hasattr(os, "getuid"):
        return _missing(folder)
    here = os.sep
    remaining = _names(folder)
    links = 0
    _check(here, os.lstat(here), last=not remaining)
    while remaining:
        name = remaining.pop()
        if name == "..":
            here = os.path.dirname(here)
            continue
        part = join(here, name)
        try:
            found = os.lstat(part)
        except FileNotFoundError:
            return [part := join(part, further) for further in (part, *reversed(remaining))]
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _LINKS:
                raise OSError(errno.ELOOP, "too many symbolic links", folder)
            _check_owner(part, found)
            target = os.readlink(part)
            if target.startswith(os.sep):
                here = os.sep
            remaining += _names(target)
        else:
            here = part
            _check(here, found, last=not remaining)
    return []


def _names(path: str) -> list[str]:
    """Return the names on a path of POSIX, the last one first."""
    return [name for name in reversed(path.split(os.sep)) if name not in {"", "."}]


def _missing(folder: str) -> list[str]:
    """Return the parts of a path that do not exist, where paths have drives."""
    found: list[str] = []
    while not os.path.exists(folder) and folder != os.path.dirname(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found[::-1]


def _check(folder: str, found: os.stat_result, *, last: bool) -> None:
    """Raise OSError if others can change the entries of a folder; the last one may not even be sticky."""
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder", folder)
    _check_owner(folder, found)
    if found.st_mode & stat.S_ISVTX and not last:
        return
    if found.st_mode & 0o002 or (found.st_mode & 0o020 and not _has_private_group(folder, found.st_gid)):
        raise PermissionError(errno.EPERM, f"other users can write to {folder}", folder)


def _check_owner(part: str, found: os.stat_result) -> None:
    if found.st_uid not in (0, os.getuid()):
        raise PermissionError(errno.EPERM, f"{part} belongs to another user", part)


def _has_private_group(folder: str, group: int) -> bool:
    """Whether the group consists of the user alone: it has the user's name, and no members."""
    import grp
    import pwd

    if hasattr(os, "getxattr"):
        with suppress(OSError):
            os.getxattr(folder, "system.posix_acl_access")
            return False  # where there is a list, the group's bits stand for all of it
    try:
        user, entry = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (entry.gr_gid, entry.gr_name) == (user.pw_gid, user.pw_name) and set(entry.gr_mem) <= {user.pw_name}


def is_private_file(found: os.stat_result) -> bool:
    """Return whether a file is a regular one of the user or root that no other user can write to."""
    if not hasattr(os, "getuid"):
        return stat.S_ISREG(found.st_mode)
    return stat.S_ISREG(found.st_mode) and found.st_uid in (0, os.getuid()) and not found.st_mode & 0o022
