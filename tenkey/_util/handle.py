"""Handles of things that can be undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

__all__ = ["Handle"]


class Handle:
    """The result of a registration: ``remove()`` undoes it, once; also a context manager.

    >>> library = tk.library.Library("docs_handle", "DEF")
    >>> handle = library.define("same(Tensor x) -> Tensor")
    >>> handle.remove()
    >>> "docs_handle::same" in tk.dispatch.registry.operators
    False
    """

    __slots__ = ("_remove", "description")

    def __init__(self, remove: Callable[[], None], description: str = "") -> None:
        self._remove = [remove]  # a list: taking the last item is atomic, so of many threads only one removes
        self.description = description

    def remove(self) -> None:
        """Undo the registration; a second call does nothing."""
        try:
            remove = self._remove.pop()
        except IndexError:
            return
        remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<Handle: {self.description}{'' if self._remove else ' (removed)'}>"
