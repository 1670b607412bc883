"""Files read as memory; Note [Files are replaced in one step] describes writing."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from .._util.atomic_write import replacing

__all__ = ["opened", "replacing"]


@contextmanager
def opened(path: str, mapped: bool) -> Iterator[tuple[BinaryIO, memoryview]]:
    """Yield a file and its bytes, which can be changed without effect on the file (copy on write).

    The bytes stay valid after the ``with`` block. A pipe is copied to a regular file first.
    """
    with ExitStack() as stack:
        file: BinaryIO = stack.enter_context(Path(path).open("rb"))
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            import shutil
            import tempfile

            copy = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(file, copy)
            copy.flush()
            file = copy
        if mapped and os.fstat(file.fileno()).st_size > 0:
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        else:
            file.seek(0)
            content = memoryview(bytearray(file.read()))
        yield file, content
