"""Write files whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["replacing"]


# Note [Files are replaced in one step]
# ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
# The content is written to a new file in the same folder (hence in the same file system), flushed to the disk, and
# moved to the place of the old file by a rename, which is atomic. Readers see the old content or the new; a process
# that has the old file mapped keeps it; a failure leaves it unchanged. The new file has the permissions of the old one,
# or those of the umask. A symbolic link stays, and its target is replaced.
# Guarded by test_serialization.py::test_a_failure_leaves_the_old_file and ::test_permissions.
@contextmanager
def replacing(path: str) -> Iterator[str]:
    """Give the name of a new, empty file, which becomes ``path`` if the ``with`` block ends without an exception."""
    target = Path(os.path.realpath(path))
    mode = None
    with suppress(FileNotFoundError):
        found = target.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"[save] {path} is not a regular file, and would be replaced by one: give another path.")
        mode = stat.S_IMODE(found.st_mode)
    import secrets  # only functions that write files need it

    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        if mode is None:
            mode = stat.S_IMODE(temporary.stat().st_mode)
        yield str(temporary)
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        temporary.chmod(mode)  # safetensors replaces the file by one that only the owner may read
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Flush the rename itself to the disk, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
