"""Load the compiled core, unless this process runs in Python alone.

Note [The compiled core is optional]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
``pip install`` compiles the core if there is a C compiler. Without it, the same calls run in Python with the same
results. ``extension`` has the compiled modules, or is None, and then ``reason`` says why. The sources are in the same
folder and cannot run uncompiled. So the extension files are looked for before anything is imported: where there is
none, the import system would find the source.

An extension that was built from other sources would silently run old code, so it raises ImportError instead. A
free-threaded interpreter would switch its global lock on again for it, so it is not loaded there.

An extension module is initialised once in a process. When an import of tenkey fails and is repeated (Note [A failed
import]), its module-level state is that of the first import. Guarded by ``tests/package/test_compiled_core.py``.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any, Final

from ..._util.record import Record
from .sources import module_names, source_hash

__all__ = ["Extension", "extension", "extension_file", "reason", "remedy"]

_FOLDER: Final = os.path.dirname(__file__)


class Extension(Record, frozen=True):
    """The modules of the compiled core."""

    backward: Any
    handles: Any
    indexing: Any
    large: Any
    natives: Any
    operations: Any
    recording: Any
    reductions: Any
    slots: Any


def extension_file(name: str) -> str | None:
    """Return the path of a module's extension file for this interpreter, or None."""
    return next(filter(os.path.exists, (os.path.join(_FOLDER, name + end) for end in EXTENSION_SUFFIXES)), None)


def _load() -> tuple[Extension | None, str, str]:
    """Return the modules, why there are none, and what to do about it; raise ImportError for stale ones."""
    if os.environ.get("TENKEY_COMPILED") == "0":
        return None, "TENKEY_COMPILED=0", "Unset TENKEY_COMPILED, unless this is a test."
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None, "this interpreter runs without a global lock", ""
    if not all(map(extension_file, Extension._names)):
        return None, f"it was not compiled for this interpreter ({EXTENSION_SUFFIXES[0]})", ""
    package = __name__.rpartition(".")[0]
    try:
        _refuse_stale(import_module(f"{package}.handles"))
        return Extension(*(import_module(f"{package}.{name}") for name in Extension._names)), "", ""
    except StaleError:
        raise
    except ImportError as error:  # NumPy's binary interface is an older one, for example
        why = error.__cause__ or error.__context__
        return None, f"{error}{f' ({why})' if why else ''}", "Install tenkey again: pip install --force-reinstall."


class StaleError(ImportError):
    """The extension was compiled from other sources than those beside it."""


def _refuse_stale(handles: Any) -> None:
    if module_names(_FOLDER) and source_hash(_FOLDER) != handles.SOURCE_HASH:
        raise StaleError(
            f"{handles.__file__} was compiled from other sources than those beside it. Compile them with "
            "`pip install -e .` in the folder of tenkey's pyproject.toml, or set TENKEY_COMPILED=0 to run in Python.",
            name=handles.__name__,
            path=handles.__file__,
        )


_loaded: Final = _load()
extension: Final = _loaded[0]
reason: Final = _loaded[1]
remedy: Final = _loaded[2]
