"""NumPy calls without floating-point warnings, cheap enough for small calls.

Note [Floating-point flags]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
``1 / 0`` is ``inf`` without a warning, as in the array API standard and IEEE 754. NumPy warns unless its error state
says otherwise, and ``np.errstate`` costs about 1 us per block. The state is one object in one context variable, which a
kernel sets and resets in 0.15 us where NumPy exposes it; otherwise ``np.geterr`` and ``np.seterr`` are used.
Guarded by ``tests/tiny/test_cpu.py::test_no_floating_point_warnings``.

Note [A context without warnings]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A single call into C, of a ufunc on arrays, is cheaper still: it runs in a separate ``Context``, in which the state was
set once. Entering and leaving it costs 0.01 us. A context can be entered by one thread at a time, and not recursively.
A ufunc on more than 500 elements lets other threads run; if one of them calls ``quietly`` meanwhile, RuntimeError is
raised before the function is called, and ``silenced`` handles that call by setting the state. Functions written in
Python are not run in the context: their changes of context variables would be lost, and other threads would often find
it occupied.
Guarded by ``tests/tiny/test_cpu.py::TestQuietContext``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final

import numpy as np

__all__ = ["QUIET", "errors", "ignore", "quietly", "restore", "silenced"]


def _find() -> tuple[Callable[[], Any], Callable[[Any], Any], Any]:
    """Return functions that read and set NumPy's error state, and the state without warnings."""
    try:
        from numpy._core.umath import _extobj_contextvar as variable

        found = variable.get()
        with np.errstate(all="ignore"):
            quiet = variable.get()
        try:
            variable.set(quiet)
            if np.geterr() != {"divide": "ignore", "over": "ignore", "under": "ignore", "invalid": "ignore"}:
                raise ImportError("the error state is kept elsewhere")
        finally:
            variable.set(found)
    except (ImportError, AttributeError, LookupError):
        return np.geterr, lambda state: np.seterr(**(state or {"all": "ignore"})), None
    return variable.get, variable.set, quiet


errors, ignore, QUIET = _find()
"""After ``found = errors()``, ``ignore(QUIET)`` in ``try`` silences warnings until ``restore(found)`` in ``finally``:
three calls into C, without a Python frame, in the order of Note [Interrupts]."""
restore = ignore


def silenced(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function without warnings, in the current context."""
    found = errors()
    try:
        ignore(QUIET)
        return function(*args, **kwargs)
    finally:
        restore(found)


def _find_context() -> Callable[..., Any]:
    if QUIET is None or not getattr(sys, "_is_gil_enabled", lambda: True)():  # two threads could enter at once
        return silenced
    context = Context()
    context.run(ignore, QUIET)
    return context.run


quietly: Final = _find_context()
"""``quietly(ufunc, *arrays)`` calls a ufunc without warnings. RuntimeError: the context is occupied, use ``silenced``;
see Note [A context without warnings]."""
