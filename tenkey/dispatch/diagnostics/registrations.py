"""The questions that a registry answers about what is registered in it, and about names that no operator has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import ArgumentError
from ..kernel import Kernel
from ..keys import DispatchKey
from ..operator import Hooks, Operator

__all__ = ["Listing"]


class Listing:
    """What a registry says about its registrations."""

    lock: Any
    hooks: Hooks
    operators: Any
    fallbacks: dict[DispatchKey, list[Kernel]]
    pending: dict[str, list[Kernel]]

    def __iter__(self) -> Iterator[Operator]:
        self.hooks.load_all()
        with self.lock:  # a garbage collection may run other threads while the tuple is made
            return iter(tuple(self.operators.values()))

    def registrations(self, key: DispatchKey) -> list[Kernel]:
        """Return every kernel and fallback registered for ``key``, except those that wait for their operator.

        ``kernel.operator`` is the name of the operator, "" for a fallback.

        >>> with tk.library.Library("docs", "DEF") as lib:
        ...     _ = lib.define("same(Tensor x) -> Tensor")
        ...     _ = lib.impl("same", lambda x: x, DispatchKey.Mode)
        ...     [kernel.operator for kernel in tk.dispatch.registrations(DispatchKey.Mode)]
        ['docs::same', '']
        """
        if not isinstance(key, DispatchKey):
            raise ArgumentError(
                f"[registrations] needs a DispatchKey such as DispatchKey.CPU, got {key!r} of "
                f"type {type(key).__name__}."
            )
        found = [kernel for op in self for kernel in op.kernels.get(key, ())]
        return found + self.fallbacks.get(key, [])

    def dangling(self) -> dict[str, list[Kernel]]:
        """Return the kernels of operators that are not defined (yet, or because of a misspelled name), by name.

        >>> with tk.library.Library("docs", "IMPL") as lib:
        ...     _ = lib.impl("never_defined", lambda x: x, "cpu")
        ...     list(tk.dispatch.dangling())
        ['docs::never_defined']
        """
        with self.lock:
            return {name: list(stack) for name, stack in self.pending.items()}

    def unknown(self, name: str) -> str:
        """Return the message that no operator has this name, with the names that come close."""
        import difflib  # only errors need it

        with self.lock:
            close = difflib.get_close_matches(name, self.operators, n=3)
            text = f"there is no operator {name!r}."
            if close:
                text += f" Close: {', '.join(close)}."
            for waiting in difflib.get_close_matches(name, self.pending, n=1):
                site = self.pending[waiting][-1].site
                text += f" A kernel registered at {site} waits for {waiting!r}, which is not defined yet."
        return f"{text} Define it with tk.library.Library(namespace, 'DEF').define(schema)."
