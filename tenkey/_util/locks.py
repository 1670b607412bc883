"""Locks that outlive a fork.

Note [Locks and forks]
~~~~~~~~~~~~~~~~~~~~~~
The child of a fork has the memory of all threads, but only the thread that forked: a lock that another thread held
would stay locked, and what it guards would stay half done. The forking thread therefore takes all locks of the package
before the fork and releases them on both sides. They need no common order: where it has waited for a lock ``BRIEFLY``
and in vain, it releases those that it holds, waits for that one, and begins with it. A lock that is not free within
``PATIENCE`` seconds (its holder may wait for the forking thread) is left out and is unlocked in the child, as are locks
that are held while functions of users run (``waits=False``). All locks are reentrant: while one is held, a garbage
collection or a signal may run foreign code, which forks or needs the same lock. Guarded by
``tests/package/test_forks.py``.
"""

from __future__ import annotations

import itertools
import operator
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

__all__ = ["foreign", "missed", "new_lock", "register"]

PATIENCE: Final = 10.0  # seconds
BRIEFLY: Final = 0.02

foreign: Final[list[Callable[[], Iterable[Any]]]] = []
"""Functions that return reentrant locks of other libraries, which are treated like those of the package."""
missed: Final[list[Any]] = []
"""In a child process: the locks that were not free before the fork, so that what they guard may be half done."""

_waiting: Final[set[weakref.ref[Any]]] = set()
_renewed: Final[set[weakref.ref[Any]]] = set()
_try: Final = operator.methodcaller("acquire", False)
_release: Final = operator.methodcaller("release")


class _Fork(threading.local):
    """The locks of the fork that this thread makes."""

    def __init__(self) -> None:
        self.wanted: list[Any] = []
        self.held: list[Any] = []


_fork: Final = _Fork()


_Reentrant: Any = type(threading.RLock())


class _Lock(_Reentrant):  # type: ignore[misc]  # the class of RLock has no public name
    """A lock for Python 3.14 and later (Note [Locks and interrupts])."""

    def __enter__(self) -> Any:
        (taken,) = map(self.acquire, (True,))  # C code consumes the iterator: no interrupt follows
        return taken


_kind: Final[Any] = _Lock if sys.version_info >= (3, 14) else threading.RLock


def new_lock(*, waits: bool = True) -> Any:
    """Return a reentrant lock that is free after a fork; unless ``waits`` is false, the fork waits for it."""
    lock = _kind()
    known = _waiting if waits else _renewed
    known.add(weakref.ref(lock, known.discard))
    return lock


def _alive(known: set[weakref.ref[Any]]) -> list[Any]:
    return [lock for reference in tuple(known) if (lock := reference()) is not None]


def _before() -> None:
    """Take the locks. Each step is one call into C, so that ``held`` is right even after an interrupt."""
    if _fork.wanted:
        return
    rest = _fork.wanted = [*_alive(_waiting), *itertools.chain.from_iterable(find() for find in foreign)]
    held = _fork.held = []
    deadline = time.monotonic() + PATIENCE
    while True:  # ``held`` is the beginning of ``rest``
        held.extend(itertools.takewhile(_try, rest[len(held) :]))
        if len(held) == len(rest):
            return
        blocked = rest[len(held)]
        _wait_for(blocked, held, min(BRIEFLY, deadline - time.monotonic()))
        if held[-1:] == [blocked]:
            continue
        _release_all(held)
        _wait_for(blocked, held, deadline - time.monotonic())
        rest = [*held, *(lock for lock in rest if lock is not blocked)]


def _wait_for(lock: Any, held: list[Any], seconds: float) -> None:
    """Append the lock to the list if it becomes free in time."""
    held.extend(filter(operator.methodcaller("acquire", True, max(0.0, seconds)), [lock]))


def _release_all(held: list[Any]) -> None:
    """Take the locks off the list and release them, in one call into C."""
    deque(map(_release, itertools.starmap(held.pop, itertools.repeat((), len(held)))), maxlen=0)


def _in_parent() -> None:
    _release_all(_fork.held)
    _fork.wanted = []


def _in_child() -> None:
    held = {*map(id, _fork.held)}
    _release_all(_fork.held)
    if not _fork.wanted:
        return
    missed[:] = [lock for lock in _fork.wanted if id(lock) not in held]
    _fork.wanted = []
    for lock in (*missed, *_alive(_renewed)):
        if not lock._is_owned():
            lock._at_fork_reinit()


def register() -> None:
    """Register for forks; again after the import of a module whose lock may be needed to release one of ours.

    Of the functions that run before a fork, the last registered runs first, and those of other modules take locks, too.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


register()
