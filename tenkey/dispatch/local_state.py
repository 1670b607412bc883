"""State that is local to a thread and to an asyncio task: included and excluded keys, and the stack of modes.

The state is one immutable object in one context variable. ``None`` means "nothing special", which is what the fast
path of a call tests for. A context variable starts fresh in every thread and is copied into every asyncio task.

Note [Guards end in any order]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The changes of guards are kept in a second context variable, one entry for each active guard, and never in the guard
itself, because several threads and tasks can enter one guard object at a time. A guard that exits in order restores the
state that it found. A suspended generator can be closed while guards that were entered later are still active; then
only its own change is undone, and the later ones are applied again to the state that it found. Guarded by
``tests/tiny/test_dispatch.py::test_guards_end_in_any_order``.

A context that has more to say than a bit enters a value, ``enter(self, value=x)``. The values are part of the state
(``LocalState.values``), so they come and go with it, and ``set_state`` replaces all of it at once.

Note [Bits of the local state]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A feature that is active in part of a program, and that must cost nothing elsewhere, is a bit: a trait
(``register_trait("what it is")``), or a key where the call has to take another path (``register_key``). Its context
manager ends ``__enter__`` with ``enter(self, include=BIT, value=...)`` and has ``__exit__ = leave``; the package itself
uses ``switched`` (Note [Interrupts]). The bit is then part of the dispatch word of every call, so the operator's cache
holds separate kernels for those words, and code that specialises a kernel for a word asks ``word & BIT`` once, when the
kernel is made. Code that hands a word on to the layers below clears the bits that have done their work, so that these
layers find the kernels they already have. Code that is not a kernel asks ``state is not None and state.include & BIT``.
Guarded by ``tests/autograd/test_saved_tensors.py::test_hooks_that_are_off_leave_no_kernels_behind``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from operator import call
from typing import Any, Final, Self, TypeVar
from weakref import ref

from .._util.context_decorator import decorate
from .._util.interrupts import restorer
from .keys import DispatchKey, DispatchKeySet, _mask_of, backend_mask, register_trait

__all__ = [
    "REQUIRES_GRAD", "SILENT", "ExcludeDispatchKeyGuard", "IncludeDispatchKeyGuard", "LocalState", "StateGuard",
    "current_state", "enter", "get_state", "innermost_guard", "leave", "make_state", "noted", "set_state",
    "silently", "state_variable", "switched",
]  # fmt: skip

REQUIRES_GRAD: Final = register_trait("requires_grad", common=True)
"""The trait of a tensor that requires a gradient; excluding it switches recording off."""


class LocalState:
    """Included and excluded bits (keys and traits), the active modes, and the values of active contexts.

    The innermost mode and value are last. ``outer`` is the state without the innermost mode; ``silent`` is the state
    with recording switched off.
    """

    __slots__ = ("exclude", "include", "keep", "modes", "outer", "silent", "values")
    outer: LocalState | None
    silent: LocalState

    def __init__(
        self, include: int = 0, exclude: int = 0, modes: tuple[Any, ...] = (), values: tuple[Any, ...] = ()
    ) -> None:
        self.include = include
        self.exclude = exclude
        self.keep = ~exclude
        self.modes = modes
        self.values = values
        if modes:
            rest = modes[:-1]
            self.outer = make_state(include if rest else include & ~_MODE, exclude, rest, values)
        else:
            self.outer = None

    def __getattr__(self, name: str) -> LocalState:
        # Called only while the slot `silent` is empty: it is computed once, and reading it then costs no Python frame.
        if name != "silent":
            raise AttributeError(name)
        if self.exclude & REQUIRES_GRAD:
            return self
        self.silent = LocalState(self.include, self.exclude | REQUIRES_GRAD, self.modes, self.values)
        return self.silent

    def changed(
        self,
        include: int = 0,
        uninclude: int = 0,
        exclude: int = 0,
        unexclude: int = 0,
        modes: tuple[Any, ...] = (),
        values: tuple[Any, ...] = (),
    ) -> LocalState | None:
        """Return the state with bits set and cleared, and with further modes and values."""
        include |= self.include & ~uninclude
        exclude |= self.exclude & ~unexclude
        modes, values = self.modes + modes, self.values + values
        if include or modes or values or exclude & ~REQUIRES_GRAD:
            return LocalState(include, exclude, modes, values)
        return SILENT if exclude else None


_MODE: Final = DispatchKey.Mode.mask
state_variable: ContextVar[LocalState | None] = ContextVar("tenkey_dispatch_state", default=None)
get_state = state_variable.get
set_state = state_variable.set
set_state(None)  # a variable that is set is found at once, another one is searched for at each call

_DEFAULT: Final = LocalState()
SILENT: Final = _DEFAULT.silent
"""The state in which nothing is recorded and nothing else is special: one object, recognized by identity."""


def current_state() -> LocalState:
    """Return the state of this thread or task."""
    return get_state() or _DEFAULT


def make_state(include: int, exclude: int, modes: tuple[Any, ...], values: tuple[Any, ...] = ()) -> LocalState | None:
    """Return a state object, or None for the state in which nothing is special."""
    return LocalState(include, exclude, modes, values) if include or exclude or modes or values else None


_Guard = TypeVar("_Guard")
_Result = TypeVar("_Result")
# What one guard changed: the guard, the arguments of ``LocalState.changed``, and the state that it found.
_Change = tuple[object, dict[str, Any], LocalState | None]
_changes: ContextVar[tuple[_Change, ...]] = ContextVar("tenkey_dispatch_changes", default=())


def enter(owner: object, *, value: Any = None, **change: Any) -> None:
    """Make a change with the arguments of ``LocalState.changed``, or one value, until ``leave(owner)`` undoes it."""
    _enter(owner, change if value is None else {**change, "values": (value,)})


def _enter(owner: object, change: dict[str, Any]) -> None:
    found, changes = get_state(), _changes.get()
    state = (found or _DEFAULT).changed(**change)
    try:
        _changes.set((*changes, (owner, change, found)))
        set_state(state)
    except BaseException:  # Note [Interrupts]
        set_state(found)
        _changes.set(changes)
        raise


def leave(owner: object, *exception: object) -> None:
    """Undo what ``owner`` entered last in this thread or task; also the ``__exit__`` of context managers."""
    kept = None
    try:
        changes = _changes.get()
        i = len(changes) - 1
        while i >= 0 and changes[i][0] is not owner:
            i -= 1
        if i < 0:
            return
        state, later, kept = changes[i][2], changes[i + 1 :], changes[:i]
        for other, change, _ in later:
            kept += ((other, change, state),)
            state = (state or _DEFAULT).changed(**change)
        set_state(state)
        _changes.set(kept)
    except BaseException:  # Note [Interrupts]
        if _changes.get() is not kept:
            leave(owner)
        raise


def switched(owner: object = None, /, *others: ContextVar[Any], value: Any = None, **change: Any) -> Callable[[], Any]:
    """Make a change like ``enter``; return the function for ``finally`` that restores the state, and ``others``."""
    restore = restorer(state_variable, _changes, *others)
    _enter(owner, change if value is None else {**change, "values": (value,)})
    return restore


def silently(function: Callable[..., _Result], /, *args: Any, **kwargs: Any) -> _Result:
    """Call a function with recording switched off, and restore the state (Note [Interrupts])."""
    found = get_state()
    try:
        set_state(SILENT if found is None else found.silent)
        return function(*args, **kwargs)
    finally:
        set_state(found)


_BOTH: Final[tuple[Callable[[Any], Any], ...]] = (state_variable.set, _changes.set)


def noted(owner: object) -> Callable[[], Any] | None:
    """Note ``owner`` for ``innermost_guard``, without a change; return the function for ``finally`` that ends it.

    It restores the state too, like that of ``switched``. Returns None if the local state is not the default one.
    """
    if get_state() is not None:
        return None
    changes = _changes.get()
    restore: Callable[[], Any] = partial(list, map(call, _BOTH, (None, changes)))
    try:
        _changes.set((*changes, (owner, _NOTHING, None)))
    except BaseException:  # Note [Interrupts]
        restore()
        raise
    return restore


_NOTHING: Final[dict[str, Any]] = {}


def innermost_guard(kind: type[_Guard]) -> _Guard | None:
    """Return the innermost active guard of this class in this thread or task."""
    for owner, _, _ in reversed(_changes.get()):
        guard = owner() if owner.__class__ is ref else owner
        if isinstance(guard, kind):
            return guard
    return None


class StateGuard:
    """Makes a change of the state, with the arguments of ``enter``, in a ``with`` block or a decorated function.

    One guard can be entered any number of times, and by several threads and tasks.
    """

    __slots__ = ("_change",)
    __exit__ = leave

    def __init__(self, *, value: Any = None, **change: Any) -> None:
        self._change = change if value is None else {**change, "values": (value,)}

    def __enter__(self) -> Self:
        _enter(self, self._change)  # without **, which an interrupt may follow
        return self

    def __call__(self, function: Any) -> Any:
        """Decorate ``function``."""
        return decorate(function, lambda: self)


class IncludeDispatchKeyGuard(StateGuard):
    """Adds keys to the keyset of every call in a ``with`` block.

    >>> with IncludeDispatchKeyGuard(DispatchKeySet(DispatchKey.Tracer)):
    ...     bool(current_state().include)
    True
    """

    def __init__(self, keys: DispatchKeySet | DispatchKey) -> None:
        super().__init__(include=_mask_of(keys))


class ExcludeDispatchKeyGuard(StateGuard):
    """Removes keys from the keyset of every call in a ``with`` block; exclusion wins over inclusion.

    Only functionalities are removed: excluding ``CPU`` excludes dense kernels, not the backend bit.

    >>> with ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.AutogradCPU)):
    ...     bool(current_state().exclude)
    True
    """

    def __init__(self, keys: DispatchKeySet | DispatchKey) -> None:
        super().__init__(exclude=_mask_of(keys) & ~backend_mask())
