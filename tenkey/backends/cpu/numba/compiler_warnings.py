"""Isolation of the program from what Numba does with warnings while it compiles in the background.

Note [Warnings of the compiler thread]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The filters of ``warnings`` belong to the whole process, and ``warnings.catch_warnings`` restores what it found: two
threads that use it at the same time leave each other's filters behind permanently. Numba enters it hundreds of times
per kernel and could thus suppress an error of ``pytest`` or a warning of a user's thread. On the thread that compiles
in the background, Numba therefore sees an object in place of the module that changes nothing; its warnings about
generated code concern no user. On all other threads it sees the module. Guarded by
``tests/backends/test_cpu_compile.py::test_warnings_are_left_alone_in_the_background``.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
import warnings
from typing import Any, Final

__all__ = ["keep_apart"]

_PLACES: Final = ("numba.core.errors", "numba.core.compiler", "numba.np.ufunc.ufuncbuilder")
_thread: Final = threading.local()


class _Warnings:
    """The module ``warnings``, which does not change its filters on a thread that is kept apart."""

    def __getattr__(self, name: str) -> Any:
        return getattr(warnings, name)

    def catch_warnings(self, *, record: bool = False, **options: Any) -> Any:
        if getattr(_thread, "apart", False):
            return contextlib.nullcontext([] if record else None)
        return warnings.catch_warnings(record=record, **options)

    def simplefilter(self, *args: Any, **options: Any) -> None:
        if not getattr(_thread, "apart", False):
            warnings.simplefilter(*args, **options)

    def filterwarnings(self, *args: Any, **options: Any) -> None:
        if not getattr(_thread, "apart", False):
            warnings.filterwarnings(*args, **options)


_shared: Final = _Warnings()


def keep_apart() -> None:
    """Import Numba and prevent it from changing filters on this thread: Note [Warnings of the compiler thread]."""
    _thread.apart = True
    for place in _PLACES:
        with contextlib.suppress(ImportError):  # the modules of another version have other names
            space = vars(importlib.import_module(place))
            if space.get("warnings") is warnings:
                space["warnings"] = _shared
