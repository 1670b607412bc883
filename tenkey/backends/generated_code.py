"""The code of generated functions, kept from process to process.

Note [Generated functions are kept]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The entry of an operator, its kernels and the functions of ``tenkey.numpy`` are written as Python when they are called
for the first time (``dispatch/calling/codegen.py``). Python takes 0.1 to 0.2 ms to compile one, a fifth to a third of
the time of a first call. As Python does with modules, a process therefore keeps the code of those it has compiled, in
one file in the folder ``functions`` beside that of kernels: by the hashes of the texts, for one version of Python. The
file is read when the first text is to be compiled, and verified like a kernel before it is interpreted
(Note [Kernel files are verified], Note [Cache folders are private]); a text that is not in it is compiled. A process
that compiled any writes the file when it ends, with what is in the file meanwhile. What two processes write at once is
that of one of them: the other functions are compiled again, once. A file that would grow beyond half a megabyte, which
takes a millisecond to read, loses those that were used longest ago. Nothing that fails here is worth a warning.
Guarded by ``tests/backends/test_generated_code.py``.
"""

from __future__ import annotations

import atexit
import marshal
import os
import sys
from contextlib import suppress
from types import CodeType
from typing import Any, Final

from .._util.cache_folder import cache_folder
from .llvm import code_cache

__all__ = ["compiled"]

_KEY: Final = "generated functions"
_MOST: Final = 1 << 19  # bytes of code in the file
_LEFT: Final = 0.75  # of them, when some are deleted
_HASH: Final = 16


class _Kept:
    """What this process knows of the file, and what it adds."""

    known: dict[bytes, bytes] | None = None  # the codes in the file by the hashes of their texts; None: not read
    used: Final[set[bytes]] = set()
    added: Final[dict[bytes, bytes]] = {}
    size: int = 0  # bytes added
    process: int = 0  # which added them: a fork has those of its parent, which writes them itself


def compiled(source: str) -> CodeType:
    """Return the code of a text, from the file or from the compiler."""
    if _Kept.known is None:
        _Kept.known = _read()
    name = code_cache.hash_of(source.encode(), _HASH)
    content = _Kept.known.get(name)
    if content is not None:
        with suppress(ValueError, EOFError, TypeError):
            code = marshal.loads(content)
            _Kept.used.add(name)
            return code  # type: ignore[no-any-return]
    code = compile(source, "<generated>", "exec")
    if _Kept.size <= _MOST:
        _keep(name, marshal.dumps(code))
    return code


def _keep(name: bytes, content: bytes) -> None:
    if _Kept.process != os.getpid():
        _Kept.process, _Kept.size = os.getpid(), 0
        _Kept.added.clear()
        atexit.unregister(_write)
        atexit.register(_write)
    _Kept.added[name] = content
    _Kept.size += len(content)


def _made_by() -> bytes:
    return f"{sys.implementation.cache_tag} {sys.hexversion} {sys.flags.optimize}".encode()


def _read() -> dict[bytes, bytes]:
    """Return what the file holds; nothing if there is none, or if it cannot be used."""
    with suppress(OSError, ValueError, EOFError, TypeError):
        place = cache_folder("functions", lambda text: None, reading=True)  # no word if another folder is used
        content = None if place is None else code_cache.load(_KEY, _made_by(), place)
        found: Any = {} if content is None else marshal.loads(content)
        if isinstance(found, dict):
            return found
    return {}


def _write() -> None:
    """Write the file, with what other processes have added meanwhile."""
    if _Kept.process != os.getpid() or not _Kept.added or code_cache.limit() < _MOST:
        return
    complaints: list[str] = []
    with suppress(OSError, ValueError):
        place = cache_folder("functions", complaints.append)
        if place is None or complaints:  # another folder would take its place
            return
        before = _read()
        used = {name: before.pop(name) for name in _Kept.used & before.keys()}
        kept = before | used | _Kept.added
        size = sum(map(len, kept.values()))
        left = _MOST * (_LEFT if size > _MOST else 1)
        for name in [*kept]:  # from the one that was used longest ago
            if size <= left:
                break
            size -= len(kept.pop(name))
        code_cache.store(_KEY, marshal.dumps(kept), _made_by(), place, mode=0o600)
