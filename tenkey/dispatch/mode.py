"""Modes: objects that see every operator call in a ``with`` block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .kernel import Kernel
from .keys import DispatchKey, DispatchKeySet
from .local import current_state, enter, get_state, leave, make_state, set_state
from .operator import Operator
from .registry import Registry

if TYPE_CHECKING:
    from typing import Self

__all__ = ["DispatchMode", "install_modes"]


class DispatchMode:
    """Subclass it and write ``__tk_dispatch__``; the innermost mode is asked first and is off while it runs.

    A handler that returns ``NotImplemented`` passes the call on to the next mode, and at last to the operator.

    >>> import tenkey as tk
    >>> class Names(DispatchMode):
    ...     def __tk_dispatch__(self, op, types, args, kwargs):
    ...         print(op)
    ...         return op(*args, **kwargs)
    >>> with Names():
    ...     _ = tk.asarray([1.0]) + tk.asarray([2.0])
    tk::add
    """

    def __tk_dispatch__(self, op: Operator, types: tuple[type, ...], args: tuple[Any, ...], kwargs: Any) -> Any:
        """Handle one call; the default passes it on."""
        return NotImplemented

    def __enter__(self) -> Self:
        enter(self, include=DispatchKey.Mode.mask, modes=(self,))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave(self)


def _tensor_types(values: Iterable[Any]) -> Iterator[type]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _tensor_types(value)
        elif hasattr(value, "_word"):
            yield type(value)


def _run_modes(op: Operator, keyset: DispatchKeySet, /, *args: Any, **kwargs: Any) -> Any:
    outer = get_state()
    state = current_state()
    types = tuple(dict.fromkeys(_tensor_types((*args, *kwargs.values()))))
    try:
        for depth in reversed(range(len(state.modes))):
            modes = state.modes[:depth]
            include = state.include if modes else state.include & ~DispatchKey.Mode.mask
            set_state(make_state(include, state.exclude, modes))
            result = state.modes[depth].__tk_dispatch__(op, types, args, kwargs)
            if result is not NotImplemented:
                return result
        return op.redispatch(keyset.below(DispatchKey.Mode), *args, **kwargs)
    finally:
        set_state(outer)


def install_modes(registry: Registry) -> None:
    """Register the fallback of the key ``Mode``, which runs the stack of modes."""
    registry.fallback(Kernel(_run_modes, DispatchKey.Mode, boxed=True, with_keyset=True, origin="generated"))
