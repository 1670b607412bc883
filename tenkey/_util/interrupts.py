"""Changes of context variables that no interrupt leaves half done.

Note [Interrupts]
~~~~~~~~~~~~~~~~~
CPython runs the handlers of signals, which may raise, where a Python function begins or a generator continues, at a
jump backward, and after the call of a C function; not where a function returns, and not while C code consumes an
iterator. Therefore:

- A function changes state inside ``try`` and restores it in ``finally`` by one call of a C function, which nothing
  precedes there: ``set_state(found)``, or what ``restorer`` or ``switched`` returned.
- A function that changes state for its caller, like ``__enter__``, does so in its last step, and takes the change back
  if an interrupt follows. Then the next place for an interrupt is in the caller's block.
- The end of a context manager is repeated if an interrupt comes in between. ``__exit__`` itself is a Python function,
  and an interrupt at its beginning cannot be caught: it leaves the state of the block on, as with every context manager
  written in Python. So the package itself does not use them, but ``switched`` and ``switch``; ``with`` is for users.

Guarded by ``tests/dispatch/test_interrupts.py``, which interrupts at every such place.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from operator import call
from typing import Any

__all__ = ["restorer", "switch"]


def restorer(*variables: ContextVar[Any]) -> Callable[[], Any]:
    """Return a C function that gives all variables the values that they have now; it can be called once.

    >>> limit = ContextVar("limit", default=0)
    >>> restore = restorer(limit)
    >>> try:
    ...     _ = limit.set(1)
    ... finally:
    ...     _ = restore()
    >>> limit.get()
    0
    """
    return partial(list, map(call, [v.set for v in variables], [v.get() for v in variables]))


def switch(variable: ContextVar[Any], value: Any) -> Callable[[], Any]:
    """Set a variable for the caller; return the function for ``finally`` that restores it."""
    restore = restorer(variable)
    try:
        variable.set(value)
    except BaseException:
        restore()
        raise
    return restore
