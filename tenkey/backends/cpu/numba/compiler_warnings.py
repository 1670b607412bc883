"""What Numba does with warnings while it compiles in the background, kept out of the program.

Note [Warnings of the compiler thread]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The filters of ``warnings`` belong to the whole process, and ``warnings.catch_warnings`` puts back what it found: two
threads that are in it at the same time leave each other's filters behind, for good. Numba enters it hundreds of times
for a kernel, and would so turn an error of ``pytest`` into nothing, or swallow what a user's thread says. On the thread
that compiles in the background Numba therefore has, in the place of the module, an object that changes nothing; its
remarks on generated code are for nobody. On all other threads it has the module. Guarded by
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
    """The module ``warnings``; on a thread that is kept apart, without what changes its filters."""

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
    """Let Numba change no filters on this thread (Note [Warnings of the compiler thread]). It imports Numba."""
    _thread.apart = True
    for place in _PLACES:
        with contextlib.suppress(ImportError):  # another version has its modules elsewhere
            space = vars(importlib.import_module(place))
            if space.get("warnings") is warnings:
                space["warnings"] = _shared
