"""Gradient modes: switch recording on and off for a thread or an asyncio task.

"Requires a gradient" is a trait of the dispatch word (Note [Dispatch word]); excluding it makes every call take the
path of tensors without gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from .._util.context_decorator import decorate
from ..core.word import REQUIRES_GRAD
from ..dispatch.local_state import current_state, enter, get_state, leave, set_state

__all__ = [
    "GradMode",
    "enable_grad",
    "is_grad_enabled",
    "no_grad",
    "set_grad_enabled",
]

Function = TypeVar("Function", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Return whether calls on tensors that require a gradient are recorded here.

    >>> import tenkey as tk
    >>> with tk.no_grad():
    ...     tk.is_grad_enabled()
    False
    """
    state = get_state()
    return state is None or not state.exclude & REQUIRES_GRAD


class GradMode:
    """Context manager and decorator, with and without parentheses."""

    _enabled: bool

    def __new__(cls, function: Any = None) -> Any:
        """Make a mode, or decorate the function to which the class was applied without parentheses."""
        made = super().__new__(cls)
        if function is not None:
            if not callable(function) or isinstance(function, type):
                raise TypeError(
                    f"[{cls.__name__}] decorates a function, got {function!r}: write `with {cls.__name__}():`, "
                    f"`@{cls.__name__}` or `@{cls.__name__}()`, and for a class decorate its methods."
                )
            return made(function)
        return made

    def __enter__(self) -> Self:
        if self._enabled:
            enter(self, unexclude=REQUIRES_GRAD)
        else:
            enter(self, exclude=REQUIRES_GRAD)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave(self)

    def _fresh(self) -> Self:
        return type(self)()

    def __call__(self, function: Any) -> Any:
        """Decorate ``function``."""
        return decorate(function, self._fresh)


class no_grad(GradMode):
    """Disable recording in a ``with`` block or a decorated function.

    >>> import tenkey as tk
    >>> x = tk.tensor([1.0], requires_grad=True)
    >>> with tk.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    _enabled = False


class enable_grad(GradMode):
    """Enable recording in a ``with`` block or a decorated function, even inside ``no_grad``.

    >>> import tenkey as tk
    >>> x = tk.tensor([1.0], requires_grad=True)
    >>> with tk.no_grad(), tk.enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    _enabled = True


class set_grad_enabled(GradMode):
    """Switch recording on or off immediately; as a context manager, switch back at the end.

    >>> import tenkey as tk
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
        self._enabled = bool(mode)
        self._before = get_state()
        changed = current_state().changed
        set_state(changed(unexclude=REQUIRES_GRAD) if self._enabled else changed(exclude=REQUIRES_GRAD))

    def __enter__(self) -> Self:
        set_state(self._before)
        return super().__enter__()

    def _fresh(self) -> Self:
        return type(self)(self._enabled)

    def __call__(self, function: Any) -> Any:
        """Decorate ``function``."""
        set_state(self._before)  # a decorator has no effect outside the function
        return decorate(function, self._fresh)
