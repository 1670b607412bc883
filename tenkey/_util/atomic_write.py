"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["replacing"]


# Note [Files are replaced in one step]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# The content goes to a new file in the same folder (so in the same file system), is forced to the disk, and takes the
# place of the old file by a rename, which the system does in one step. Readers see the old content or the new, those
# who have the old file mapped keep it, and a failure leaves it as it was. The new file has the permissions of the old
# one, or those of the umask. A symbolic link stays, and what it leads to is replaced.
# Guarded by test_serialization.py::test_a_failure_leaves_the_old_file and ::test_permissions.
@contextmanager
def replacing(path: str) -> Iterator[str]:
    """The name of a new, empty file, which becomes ``path`` when the ``with`` block ends without an exception."""
    target = Path(os.path.realpath(path))
    mode = None
    with suppress(FileNotFoundError):
        found = target.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"[save] {path} is not a regular file, and would be replaced by one: give another path.")
        mode = stat.S_IMODE(found.st_mode)
    import secrets  # what saves and copies alone need is imported there

    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        if mode is None:
            mode = stat.S_IMODE(temporary.stat().st_mode)
        yield str(temporary)
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        temporary.chmod(mode)  # safetensors puts a file of its own in the place, which nobody else may read
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last; not every system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
