"""Gradient modes: switch recording on and off for a thread or an asyncio task.

"Requires a gradient" is a trait of the dispatch word (Note [Dispatch word]); excluding it makes every call take the
path of tensors without gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar
from weakref import ref

import numpy as np

from .._util.context_decorator import decorate
from ..core.departures import departed
from ..core.word import REQUIRES_GRAD
from ..dispatch.local_state import StateGuard, _enter, current_state, get_state, leave, set_state

__all__ = ["GradMode", "OwnedGuard", "enable_grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]

Function = TypeVar("Function", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Return whether calls on tensors that require a gradient are recorded here.

    >>> with tk.no_grad():
    ...     tk.is_grad_enabled()
    False
    """
    state = get_state()
    return state is None or not state.exclude & REQUIRES_GRAD


class OwnedGuard(StateGuard):
    """A guard that also ends when it is freed: after an interrupt at the beginning of ``__exit__``, with the error."""

    def __enter__(self) -> Self:
        _enter(ref(self), self._change)  # the same weak reference each time
        return self

    def __exit__(self, *exception: object) -> None:
        leave(ref(self))

    def __del__(self) -> None:
        leave(ref(self))


class GradMode(StateGuard):
    """The base of the gradient modes: context manager and decorator, with and without parentheses."""

    __init__ = object.__init__  # the change is an attribute of the class, so making a mode costs no further frame

    def __new__(cls, function: Any = None) -> Any:
        """Make a mode, or decorate the function to which the class was applied without parentheses."""
        if function is None:
            return super().__new__(cls)
        if not callable(function) or isinstance(function, type):
            raise TypeError(
                f"[{cls.__name__}] decorates a function, got {function!r}: write `with {cls.__name__}():`, "
                f"`@{cls.__name__}` or `@{cls.__name__}()`, and for a class decorate its methods."
            )
        return cls()(function)


class no_grad(GradMode):
    """Disable recording in a ``with`` block or a decorated function.

    >>> x = tk.tensor([1.0], requires_grad=True)
    >>> with tk.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    _change: Any = {"exclude": REQUIRES_GRAD}  # noqa: RUF012  # never changed

    def __enter__(self) -> Self:
        departed("tk.no_grad()")
        return super().__enter__()


class enable_grad(GradMode):
    """Enable recording in a ``with`` block or a decorated function, even inside ``no_grad``.

    >>> x = tk.tensor([1.0], requires_grad=True)
    >>> with tk.no_grad(), tk.enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    _change: Any = {"unexclude": REQUIRES_GRAD}  # noqa: RUF012  # never changed


class set_grad_enabled(GradMode):
    """Switch recording on or off immediately; as a context manager, switch back at the end.

    >>> with tk.set_grad_enabled(False):
    ...     tk.is_grad_enabled()
    False
    """

    def __new__(cls, mode: bool) -> Any:
        """Make the mode from a bool; unlike the other modes, it does not accept a function."""
        if not isinstance(mode, (bool, np.bool_)):
            raise TypeError(f"[set_grad_enabled] argument 'enabled' must be bool, got {mode!r}: pass True or False.")
        return object.__new__(cls)

    def __init__(self, mode: bool) -> None:
        self._change = {"unexclude" if mode else "exclude": REQUIRES_GRAD}
        self._before = get_state()
        if not mode:
            departed("tk.set_grad_enabled(False)")
        state = current_state().changed(**self._change)
        try:
            set_state(state)
        except BaseException:  # Note [Interrupts]
            set_state(self._before)
            raise

    def __enter__(self) -> Self:
        set_state(self._before)
        return super().__enter__()

    def __call__(self, function: Any) -> Any:
        """Decorate ``function``."""
        set_state(self._before)  # a decorator has no effect outside the function
        return decorate(function, self._around_call)

    def _around_call(self) -> StateGuard:
        if "exclude" in self._change:
            departed("tk.set_grad_enabled(False)")
        return StateGuard(**self._change)
