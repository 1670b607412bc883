"""Running NumPy without its floating-point warnings, at a cost that a small call can bear.

Note [Floating-point flags]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
``1 / 0`` is ``inf`` here, without a warning, as the array API standard and IEEE 754 have it. NumPy warns unless its
error state says otherwise, and ``np.errstate`` costs about 1 us a block. The state is one object in one context
variable, which a kernel sets and resets in 0.15 us where this version of NumPy shows it; else ``np.errstate`` is used.
Guarded by ``tests/tiny/test_cpu.py::test_no_floating_point_warnings``.

Note [A context without warnings]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A single call into C, of a ufunc on arrays, needs not even that: it runs in a ``Context`` of its own, in which the state
was set once and for all. Entering and leaving that costs 0.01 us. Only one thread can be in a context at a time, and
none twice. A ufunc on more than 500 elements lets other threads run, so another may come meanwhile; ``quietly`` then
raises RuntimeError before it calls the function, and ``silenced`` serves this call in the old way. Functions written in
Python are not run there: what they do with context variables would be lost, and other threads would come in often.
Guarded by ``tests/tiny/test_cpu.py::TestQuietContext``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final

import numpy as np

__all__ = ["QUIET", "ignore", "quietly", "restore", "silenced"]


def _find() -> tuple[Callable[[Any], Any], Any, Callable[[Any], None]]:
    try:
        from numpy._core.umath import _extobj_contextvar as variable

        with np.errstate(all="ignore"):
            quiet = variable.get()
        token = variable.set(quiet)
        try:
            if np.geterr() != {"divide": "ignore", "over": "ignore", "under": "ignore", "invalid": "ignore"}:
                raise ImportError("the error state is kept elsewhere")
        finally:
            variable.reset(token)
    except (ImportError, AttributeError, LookupError):

        def enter(_: Any) -> Any:
            state = np.errstate(all="ignore")
            state.__enter__()
            return state

        return enter, None, lambda state: state.__exit__(None, None, None)
    return variable.set, quiet, variable.reset


ignore, QUIET, restore = _find()
"""``token = ignore(QUIET)`` silences, ``restore(token)`` ends it: two calls into C, without a Python frame."""


def silenced(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function without warnings, in the context that is on."""
    token = ignore(QUIET)
    try:
        return function(*args, **kwargs)
    finally:
        restore(token)


def _find_context() -> Callable[..., Any]:
    if QUIET is None or not getattr(sys, "_is_gil_enabled", lambda: True)():  # two threads could enter at once
        return silenced
    context = Context()
    context.run(ignore, QUIET)
    return context.run


quietly: Final = _find_context()
"""``quietly(ufunc, *arrays)`` calls it without warnings; RuntimeError if that is not to be had just now, and then
``silenced`` is: Note [A context without warnings]."""
