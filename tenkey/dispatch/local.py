"""What is local to a thread and to an asyncio task: included and excluded keys, and the stack of modes.

The state is one immutable object in one context variable. ``None`` means "nothing special", which is what the fast
path of a call tests for. A context variable starts fresh in every thread and is copied into every asyncio task, and a
guard puts the previous object back in ``__exit__``, so nothing can leak.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .keys import DispatchKey, DispatchKeySet, _mask_of, backend_mask

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ExcludeDispatchKeyGuard", "IncludeDispatchKeyGuard", "LocalState", "StateGuard", "current_state"]


class LocalState:
    """Included and excluded bits (keys and traits) and the modes that are on, the innermost last."""

    __slots__ = ("exclude", "include", "keep", "modes")

    def __init__(self, include: int = 0, exclude: int = 0, modes: tuple[Any, ...] = ()) -> None:
        self.include = include
        self.exclude = exclude
        self.keep = ~exclude
        self.modes = modes


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


class StateGuard:
    """Includes and excludes bits for the length of a ``with`` block; can be entered again and again."""

    __slots__ = ("_exclude", "_include", "_previous", "_unexclude")

    def __init__(self, include: int = 0, exclude: int = 0, unexclude: int = 0) -> None:
        self._include = include
        self._exclude = exclude
        self._unexclude = unexclude
        self._previous: list[LocalState | None] = []

    def __enter__(self) -> Self:
        previous = get_state()
        state = previous or _DEFAULT
        self._previous.append(previous)
        set_state(
            make_state(state.include | self._include, (state.exclude & ~self._unexclude) | self._exclude, state.modes)
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_state(self._previous.pop())


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
