"""What is local to a thread and to an asyncio task: included and excluded keys, and the stack of modes.

The state is one immutable object in one context variable. ``None`` means "nothing special", which is what the fast
path of a call tests for. A context variable starts fresh in every thread and is copied into every asyncio task.

Note [Guards end in any order]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
What a guard changes is kept in a second context variable, one :class:`Change` for each guard that is entered, and never
in the guard itself: one guard object can be entered by several threads and tasks at a time. A guard that is left last
puts the state back that it found. A suspended generator can be closed while guards that were entered later are still
on; then its change alone is taken out, and the later ones are applied anew to the state that it had found. Guarded by
``tests/tiny/test_dispatch.py::test_guards_end_in_any_order``.

Note [Bits of the local state]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A feature that is on for a part of a program, and that nobody shall pay for elsewhere, is a bit: a trait
(``register_trait("what it is")``), or a key where the call has to go another way (``register_key``). Its context
manager enters it, ``enter(self, include=BIT)`` and ``leave(self)``; what else it has to remember goes into a context
variable of its own. The bit is then part of the dispatch word of every call inside, so that the operator's cache holds
kernels for those words apart, and whoever specialises a kernel for a word asks ``word & BIT`` once, when the kernel is
made. Who hands a word on to the layers below takes out the bits that have done their work, so that these find the
kernels that they have already. Code that is no kernel asks ``state is not None and state.include & BIT``. Guarded by
``tests/autograd/test_saved_tensors.py::test_hooks_that_are_off_leave_no_kernels_behind``.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from .keys import DispatchKey, DispatchKeySet, _mask_of, backend_mask

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "Change",
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


class LocalState:
    """Included and excluded bits (keys and traits) and the modes that are on, the innermost last.

    ``outer`` is the state without the innermost mode.
    """

    __slots__ = ("exclude", "include", "keep", "modes", "outer")
    outer: LocalState | None

    def __init__(self, include: int = 0, exclude: int = 0, modes: tuple[Any, ...] = ()) -> None:
        self.include = include
        self.exclude = exclude
        self.keep = ~exclude
        self.modes = modes
        if modes:
            rest = modes[:-1]
            self.outer = make_state(include if rest else include & ~_MODE, exclude, rest)
        else:
            self.outer = None


_MODE: Final = DispatchKey.Mode.mask
state_variable: ContextVar[LocalState | None] = ContextVar("tenkey_dispatch_state", default=None)
get_state = state_variable.get
set_state = state_variable.set

_DEFAULT = LocalState()


def current_state() -> LocalState:
    """The state of this thread or task."""
    return get_state() or _DEFAULT


def make_state(include: int, exclude: int, modes: tuple[Any, ...]) -> LocalState | None:
    """A state object, or None if it would say nothing."""
    return LocalState(include, exclude, modes) if include or exclude or modes else None


class Change(NamedTuple):
    """What one guard, its ``owner``, changed, and the state that it found."""

    owner: object
    include: int
    uninclude: int
    exclude: int
    unexclude: int
    modes: tuple[Any, ...]
    found: LocalState | None

    def applied_to(self, found: LocalState | None) -> LocalState | None:
        """The state that the change makes of ``found``."""
        state = found or _DEFAULT
        exclude = (state.exclude & ~self.unexclude) | self.exclude
        return make_state((state.include & ~self.uninclude) | self.include, exclude, state.modes + self.modes)


_Guard = TypeVar("_Guard")
_changes: ContextVar[tuple[Change, ...]] = ContextVar("tenkey_dispatch_changes", default=())


def enter(
    owner: object,
    *,
    include: int = 0,
    uninclude: int = 0,
    exclude: int = 0,
    unexclude: int = 0,
    modes: tuple[Any, ...] = (),
) -> None:
    """Change the state of this thread or task until ``leave(owner)``, which undoes the newest change of ``owner``."""
    change = Change(owner, include, uninclude, exclude, unexclude, modes, get_state())
    _changes.set((*_changes.get(), change))
    set_state(change.applied_to(change.found))


def leave(owner: object) -> None:
    """Undo what ``owner`` entered last in this thread or task; nothing if it entered nothing here."""
    changes = _changes.get()
    for i in reversed(range(len(changes))):
        if changes[i].owner is owner:
            break
    else:
        return
    state = changes[i].found
    later = []
    for change in changes[i + 1 :]:
        later.append(change._replace(found=state))
        state = change.applied_to(state)
    _changes.set((*changes[:i], *later))
    set_state(state)


def innermost_guard(kind: type[_Guard]) -> _Guard | None:
    """The guard of this class that was entered last in this thread or task and is still on."""
    for change in reversed(_changes.get()):
        if isinstance(change.owner, kind):
            return change.owner
    return None


class StateGuard:
    """Includes and excludes bits for the length of a ``with`` block; can be entered again and again."""

    __slots__ = ("_exclude", "_include", "_unexclude")

    def __init__(self, include: int = 0, exclude: int = 0, unexclude: int = 0) -> None:
        self._include = include
        self._exclude = exclude
        self._unexclude = unexclude

    def __enter__(self) -> Self:
        enter(self, include=self._include, exclude=self._exclude, unexclude=self._unexclude)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave(self)


class IncludeDispatchKeyGuard(StateGuard):
    """Adds keys to the keyset of every call in a ``with`` block.

    >>> with IncludeDispatchKeyGuard(DispatchKeySet(DispatchKey.Tracer)):
    ...     bool(current_state().include)
    True
    """

    __slots__ = ()

    def __init__(self, keys: DispatchKeySet | DispatchKey) -> None:
        super().__init__(include=_mask_of(keys))


class ExcludeDispatchKeyGuard(StateGuard):
    """Takes keys out of the keyset of every call in a ``with`` block; exclusion wins over inclusion.

    Only functionalities are taken out: excluding ``CPU`` excludes dense kernels, not the backend bit.

    >>> with ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.AutogradCPU)):
    ...     bool(current_state().exclude)
    True
    """

    __slots__ = ()

    def __init__(self, keys: DispatchKeySet | DispatchKey) -> None:
        super().__init__(exclude=_mask_of(keys) & ~backend_mask())
