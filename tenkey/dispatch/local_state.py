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
manager enters it, ``enter(self, include=BIT, value=...)`` and ``leave(self)``. The bit is then part of the dispatch
word of every call inside, so the operator's cache holds separate kernels for those words, and code that specialises a
kernel for a word asks ``word & BIT`` once, when the kernel is made. Code that hands a word on to the layers below
clears the bits that have done their work, so that these layers find the kernels they already have. Code that is not a
kernel asks ``state is not None and state.include & BIT``. Guarded by
``tests/autograd/test_saved_tensors.py::test_hooks_that_are_off_leave_no_kernels_behind``.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final, Self, TypeVar

from .._util.context_decorator import decorate
from .keys import DispatchKey, DispatchKeySet, _mask_of, backend_mask, register_trait

__all__ = [
    "REQUIRES_GRAD",
    "SILENT",
    "ExcludeDispatchKeyGuard",
    "IncludeDispatchKeyGuard",
    "LocalState",
    "StateGuard",
    "current_state",
    "enter",
    "get_state",
    "innermost_guard",
    "leave",
    "make_state",
    "set_state",
]

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
        return LocalState(include, exclude, modes, values) if include or exclude or modes or values else None


_MODE: Final = DispatchKey.Mode.mask
state_variable: ContextVar[LocalState | None] = ContextVar("tenkey_dispatch_state", default=None)
get_state = state_variable.get
set_state = state_variable.set

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
# What one guard changed: the guard, the arguments of ``LocalState.changed``, and the state that it found.
_Change = tuple[object, dict[str, Any], LocalState | None]
_changes: ContextVar[tuple[_Change, ...]] = ContextVar("tenkey_dispatch_changes", default=())


def enter(owner: object, *, value: Any = None, **change: Any) -> None:
    """Make a change with the arguments of ``LocalState.changed``, or one value, until ``leave(owner)`` undoes it."""
    found = get_state()
    if value is not None:
        change["values"] = (value,)
    state = (found or _DEFAULT).changed(**change)
    _changes.set((*_changes.get(), (owner, change, found)))
    set_state(state)


def leave(owner: object) -> Any:
    """Undo what ``owner`` entered last in this thread or task, and return the value it entered, if any."""
    changes = _changes.get()
    for i in reversed(range(len(changes))):
        if changes[i][0] is owner:
            break
    else:
        return None
    _, undone, state = changes[i]
    later: list[_Change] = []
    for other, change, _ in changes[i + 1 :]:
        later.append((other, change, state))
        state = (state or _DEFAULT).changed(**change)
    _changes.set((*changes[:i], *later))
    set_state(state)
    return undone["values"][0] if "values" in undone else None


def innermost_guard(kind: type[_Guard]) -> _Guard | None:
    """Return the innermost active guard of this class in this thread or task."""
    for owner, _, _ in reversed(_changes.get()):
        if isinstance(owner, kind):
            return owner
    return None


class StateGuard:
    """Makes a change of the state, with the arguments of ``enter``, in a ``with`` block or a decorated function.

    One guard can be entered any number of times, and by several threads and tasks.
    """

    __slots__ = ("_change",)

    def __init__(self, **change: Any) -> None:
        self._change = change

    def __enter__(self) -> Self:
        enter(self, **self._change)
        return self

    def __exit__(self, *exception: object) -> None:
        leave(self)

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
